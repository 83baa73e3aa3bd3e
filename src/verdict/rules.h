/* verdict/rules.h: what the rules share, private to this room.
 *
 * A rule sees a scope: the evidence, the figures derived from it once (figures.c) and a ledger of
 * the bytes of each category that no verdict has been charged with yet. Rules run in the order of
 * rules.c, so the ledger gives each byte to the first that has a claim to it. A failure to
 * allocate sticks in `status` and turns every later call into a no-op. */
#ifndef MW_VERDICT_RULES_H
#define MW_VERDICT_RULES_H

#include "base/units.h"
#include "verdict/verdict.h"

#define MW_KIB ((uint64_t)1 << 10)
#define MW_MIB ((uint64_t)1 << 20)

enum {
    MW_VERDICTS_MAX = 32, /* each rule gives one at most */
    MW_REMEDY_ARENAS = 2, /* the smallest cap that is ever proposed */
    MW_REMEDY_ARENAS_MAX = 4,
};

/* glibc's DEFAULT_MMAP_THRESHOLD, every version */
#define MW_MMAP_THRESHOLD_DEFAULT (128 * MW_KIB)
/* glibc's HEAP_MAX_SIZE / 2 on 64-bit: the largest threshold that it accepts or adapts to */
#define MW_MMAP_THRESHOLD_MAX (32 * MW_MIB)

/* Sums over arenas; free memory resident where that is known, otherwise sizes. */
struct mw_arena_sums {
    uint64_t count;
    uint64_t free_bytes, trimmable_bytes, top_bytes, tcache_bytes;
    uint64_t free_size, in_use_size; /* sizes, whatever is resident */
    uint64_t read_count;             /* the others are estimated */
    uint64_t mostly_free_count;      /* arenas of which half or more is free */
    uint64_t idle_count;             /* no thread is attached */
    uint64_t free_bytes_max;         /* of one arena */
    uint64_t holding_count;          /* arenas with a quarter of the average free bytes or more */
};

/* The free memory of the arenas that arena-proliferation leaves, each byte once. */
struct mw_free_parts {
    uint64_t trimmable;        /* malloc_trim(0) would release its page */
    uint64_t trimmable_inside; /* of which not in the main arena's top */
    uint64_t tops;             /* tops that malloc_trim leaves */
    uint64_t cached;           /* tcache */
    uint64_t holes;            /* the rest: smaller than a page, between live blocks */
};

struct mw_figures {
    bool has_rss;                      /* the account has resident figures */
    bool is_resident;                  /* those of malloc's inside are resident bytes, not sizes */
    bool is_exact;                     /* every walked allocator adds up to its own counters */
    bool is_sampled;                   /* some arenas were not read: figures are estimates */
    bool is_sound;                     /* is_exact, but for what was not read */
    uint64_t margin_bytes;             /* of what is in use, and of what is free */
    bool is_glibc;                     /* a glibc was walked: arenas and parts are 0 otherwise */
    const struct mw_allocator *glibc;  /* the walked glibc with the most memory, NULL */
    const struct mw_allocator *walked; /* of any kind, the one with the most memory, NULL */
    uint64_t total_bytes;              /* resident, or sizes without residency */

    struct mw_arena_sums main, other; /* main arenas; those of threads */
    struct mw_free_parts parts;
    bool arenas_hold, fragmentation_holds;
    uint64_t in_use_bytes, in_use_count, mmapped_bytes;
    uint64_t trimmable_bytes;    /* of all arenas: what one malloc_trim(0) gives back */
    uint64_t free_large_bytes;   /* resident where residency is known, else sizes */
    uint64_t foreign_free_bytes; /* kept free by walked allocators that are not glibc */
    uint64_t marked_free_bytes;  /* of them, by those that may have marked it with MADV_FREE */
};

struct mw_scope {
    const struct mw_evidence *evidence;
    const struct mw_process *process;      /* never NULL: everything unknown without an image */
    const struct mw_group_evidence *group; /* NULL: it is about one process */
    struct mw_figures figures;
    struct mw_unit unit;              /* of every figure on this screen */
    uint64_t left[MW_CATEGORY_COUNT]; /* not charged yet */
    struct mw_verdicts *verdicts;
    /* NULL: does not hold */
    struct mw_verdict *arenas, *trimmable, *fragmentation, *cache, *leak, *healthy;
    struct mw_verdict *bloat, *mapping_leak;
    uint64_t bloat_of_stacks; /* what of `bloat` is in stacks of threads */
    uint64_t outside_taken;   /* charged by verdicts of class outside, though in the Rss */
    struct mw_verdict scrap;  /* what the builders hand out after a failure */
    struct mw_remedy scrap_remedy;
    enum mw_status status;
};

struct mw_rule {
    const char *name;
    void (*apply)(struct mw_scope *scope);
};

/* All rules in the order in which they charge, ended by a NULL name. */
extern const struct mw_rule mw_rules[];

/* engine.c: mark what is minor, bring the verdicts into the order of the contract. */
void mw_verdicts_order(struct mw_scope *scope);

/* copy_on_write.c: the first charges, the second is for what others were charged with. */
void mw_rule_copy_on_write(struct mw_scope *scope);
void mw_rule_copy_on_write_part(struct mw_scope *scope);

/* figures.c */
void mw_figures_build(struct mw_scope *scope);
uint64_t mw_sum(uint64_t a, uint64_t b);  /* stops at the largest value */
uint64_t mw_less(uint64_t a, uint64_t b); /* stops at 0 */
uint64_t mw_least(uint64_t a, uint64_t b);
static inline bool mw_known(uint64_t value)
{
    return value != MW_UNKNOWN;
}
/* Bytes of a category as the ledger counts them: resident, or sizes; 0 unknown. */
uint64_t mw_category_measure(const struct mw_scope *scope, enum mw_category category);
/* Charge up to `wanted` bytes of a category; returns how many were left to charge. */
uint64_t mw_ledger_take(struct mw_scope *scope, enum mw_category category, uint64_t wanted);
/* Is this worth a sentence: at least percent of the total and min_bytes? */
bool mw_is_worth(const struct mw_scope *scope, uint64_t bytes, unsigned percent,
                 uint64_t min_bytes);
/* Sum of the top-level verdicts of class kept. */
uint64_t mw_kept_bytes(const struct mw_scope *scope);
/* Of these what malloc and other allocators keep free. */
uint64_t mw_kept_free_bytes(const struct mw_scope *scope);
/* Against trimmable-free: what malloc keeps free, and how much of it malloc_trim would release
 * where residency is known. */
void mw_rule_out_trimmable(struct mw_scope *scope, struct mw_verdict *verdict);
/* The kept state that holds the most bytes, NULL when none does. */
struct mw_verdict *mw_kept_largest(const struct mw_scope *scope);
/* The runtime of this kind ("jvm"), or NULL. */
const struct mw_runtime *mw_runtime_find(const struct mw_scope *scope, const char *kind);
/* In-use blocks of one chunk size over all walked glibc allocators. */
uint64_t mw_in_use_count_of(const struct mw_scope *scope, uint64_t chunk_size);
/* What the program may use of a block of that size of figures.walked. */
uint64_t mw_usable_bytes(const struct mw_scope *scope, uint64_t size_bytes);
/* Is a file whose base name starts with this mapped? False too when no mappings are known. */
bool mw_is_mapped(const struct mw_scope *scope, const char *name_start);

/* kept.c, causes.c, leak.c, candidate.c, huge.c, released.c, mapped.c, outside.c, needed.c: one
 * function for each row of rules.c */
void mw_rule_arena_proliferation(struct mw_scope *scope);
void mw_rule_trimmable_free(struct mw_scope *scope);
void mw_rule_fragmentation(struct mw_scope *scope);
void mw_rule_allocator_cache(struct mw_scope *scope);
void mw_rule_kept_remainder(struct mw_scope *scope);
void mw_rule_heap_top_pinned(struct mw_scope *scope);
void mw_rule_adaptive_mmap_threshold(struct mw_scope *scope);
void mw_rule_lazy_free(struct mw_scope *scope);
void mw_rule_thp_bloat(struct mw_scope *scope);
void mw_rule_thp_stacks(struct mw_scope *scope);
void mw_rule_thp_managed(struct mw_scope *scope);
void mw_rule_managed_unused(struct mw_scope *scope);
void mw_rule_mapping_leak(struct mw_scope *scope);
void mw_rule_device_memory(struct mw_scope *scope);
void mw_rule_swapped(struct mw_scope *scope);
void mw_rule_kernel_memory(struct mw_scope *scope);
void mw_rule_page_cache(struct mw_scope *scope);
void mw_rule_direct_buffers(struct mw_scope *scope);
void mw_rule_untracked_native(struct mw_scope *scope);
void mw_rule_managed_live(struct mw_scope *scope);
void mw_rule_runtime_native(struct mw_scope *scope);
void mw_rule_thread_stacks(struct mw_scope *scope);
void mw_rule_file_maps(struct mw_scope *scope);
void mw_rule_shared_memory(struct mw_scope *scope);
void mw_rule_healthy(struct mw_scope *scope);
void mw_rule_native_leak(struct mw_scope *scope);
void mw_rule_unknown(struct mw_scope *scope);

/* candidate.c: the same rule where pointers were not followed, and what it shares: if it grew
 * steadily since the start, a rate, and when it meets the limit; what else could be meant. */
void mw_leak_by_sample(struct mw_scope *scope);
void mw_leak_rate_note(struct mw_scope *scope, struct mw_verdict *verdict, uint64_t count,
                       uint64_t bytes);
void mw_leak_rule_out_kept(struct mw_scope *scope, struct mw_verdict *verdict);

/* Evidence: the size that holds much of what is in use, where that is no verdict of its own. */
void mw_candidate_note(struct mw_scope *scope, struct mw_verdict *verdict);

/* Beside the verdicts: beside.c, settings.c, known.c, mapped.c */
void mw_beside_peak(struct mw_scope *scope);
void mw_beside_was(struct mw_scope *scope);
void mw_beside_container(struct mw_scope *scope);
void mw_beside_pinned(struct mw_scope *scope);
void mw_beside_settings(struct mw_scope *scope);
void mw_beside_leftovers(struct mw_scope *scope);
void mw_beside_known(struct mw_scope *scope);
/* Is this a program whose cure is known to be streaming? */
bool mw_known_streams(const struct mw_scope *scope);
/* What streaming means for a program with a known cause; a general phrase otherwise. */
const char *mw_known_stream_action(const struct mw_scope *scope);

/* settings.c */
enum mw_knob {
    MW_KNOB_ARENA_MAX,
    MW_KNOB_MMAP_THRESHOLD,
    MW_KNOB_TRIM_THRESHOLD,
    MW_KNOB_TOP_PAD,
    MW_KNOB_MMAP_MAX,
    MW_KNOB_TCACHE_COUNT,
    MW_KNOB_COUNT,
};
struct mw_knob_state {
    const char
        *variable;  /* that sets it, e.g. "MALLOC_ARENA_MAX"; NULL: the environment does not */
    char value[32]; /* as the environment has it, shortened */
    bool is_number;
    uint64_t wanted;   /* by the environment */
    uint64_t in_force; /* malloc's own parameter */
    bool agrees;
};
struct mw_knob_state mw_knob_read(const struct mw_scope *scope, enum mw_knob knob);
/* Evidence: how the arena cap in force and the environment compare. */
void mw_settings_note_arena_max(struct mw_scope *scope, struct mw_verdict *verdict);

/* remedy.c: each adds one remedy with the gain that this process's own heap predicts */
void mw_remedy_trim(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_stream(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_arena_cap(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_pin_threshold(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_other_allocator(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_move_pin(struct mw_scope *scope, struct mw_verdict *verdict,
                        const struct mw_pin *pin);
void mw_remedy_release_settings(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_slots(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_tcache(struct mw_scope *scope, struct mw_verdict *verdict);
void mw_remedy_stacks(struct mw_scope *scope, struct mw_verdict *verdict, uint64_t per_thread);

#endif
