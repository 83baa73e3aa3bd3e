/* verdict/rules.c: every rule, in the order in which it may charge bytes.
 *
 * The order is the contract of "Charging": a free byte of a thread arena goes to
 * arena-proliferation where that holds, else to trimmable-free, else to fragmentation or the
 * allocator's cache; causes explain bytes that a state before them was charged with. A leaked block
 * is leaked as a whole, whatever its pages are; what was given back or never used comes before who
 * could use it, and a kind of mapping after both. Needed memory with a name of its own comes before
 * `healthy`, which takes what is owned and that nothing called wrong; the last row is charged with
 * what nobody owns. */
#include "verdict/rules.h"

const struct mw_rule mw_rules[] = {
    {"arena-proliferation", mw_rule_arena_proliferation},
    {"trimmable-free", mw_rule_trimmable_free},
    {"fragmentation", mw_rule_fragmentation},
    {"allocator-cache", mw_rule_allocator_cache},
    {"kept remainder", mw_rule_kept_remainder},
    {"heap-top-pinned", mw_rule_heap_top_pinned},
    {"adaptive-mmap-threshold", mw_rule_adaptive_mmap_threshold},
    {"native-leak", mw_rule_native_leak},
    {"lazy-free", mw_rule_lazy_free},
    {"thp-bloat", mw_rule_thp_bloat},
    {"thp-stacks", mw_rule_thp_stacks},
    {"managed-unused", mw_rule_managed_unused},
    {"mapping-leak", mw_rule_mapping_leak},
    {"swapped", mw_rule_swapped},
    {"kernel-memory", mw_rule_kernel_memory},
    {"page-cache", mw_rule_page_cache},
    {"device-memory", mw_rule_device_memory},
    {"direct-buffers", mw_rule_direct_buffers},
    {"untracked-native", mw_rule_untracked_native},
    {"copy-on-write", mw_rule_copy_on_write},
    {"managed-live", mw_rule_managed_live},
    {"thp-bloat of a runtime", mw_rule_thp_managed},
    {"runtime-native", mw_rule_runtime_native},
    {"thread-stacks", mw_rule_thread_stacks},
    {"file-maps", mw_rule_file_maps},
    {"shared-memory", mw_rule_shared_memory},
    {"healthy", mw_rule_healthy},
    {"unknown", mw_rule_unknown},
    {"copy-on-write in others", mw_rule_copy_on_write_part},
    {"peak", mw_beside_peak},
    {"was", mw_beside_was},
    {"container", mw_beside_container},
    {"known causes", mw_beside_known},
    {"pinned", mw_beside_pinned},
    {"settings", mw_beside_settings},
    {"leftovers", mw_beside_leftovers},
    {NULL, NULL},
};
