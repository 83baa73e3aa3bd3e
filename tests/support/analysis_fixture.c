/* tests/support/analysis_fixture.c: the analyses. Bytes are written in MiB times 2^20 and less a
 * prime here and there, so that nothing is round by chance; `file.text` takes what is left to make
 * the account sum to RSS exactly, as the real one does. */
#include "analysis_fixture.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KIB(n) ((uint64_t)((n)*1024.0))
#define MIB(n) ((uint64_t)((n)*1048576.0))
#define GIB(n) ((uint64_t)((n)*1073741824.0))

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = mw_strdup(text);
    assert(copy);
    return copy;
}

static void cgroup_unknown(struct mw_cgroup *cgroup)
{
    memset(cgroup, 0xff, sizeof *cgroup); /* every figure MW_UNKNOWN */
    cgroup->version = 0;
    cgroup->path[0] = '\0';
    cgroup->cpu_quota = -1;
}

static void begin(struct mw_analysis *analysis)
{
    *analysis = (struct mw_analysis){.taken_at = 1796066274};
    mw_process_init(&analysis->image.process);
    cgroup_unknown(&analysis->cgroup);
    analysis->image.kind = MW_IMAGE_LIVE;
    analysis->image.arch = MW_ARCH_X86_64;
    analysis->image.page_size = 4096;
    struct mw_account *account = &analysis->account;
    account->has_rss = account->has_pss = account->has_swap = true;
    account->anonymous_bytes = account->anon_huge_bytes = account->lazy_free_bytes = 0;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        account->rows[i] =
            (struct mw_account_row){.category = (enum mw_category)i, .source = "smaps"};
}

static void put_category(struct mw_analysis *analysis, enum mw_category category, uint64_t bytes,
                         uint64_t count)
{
    struct mw_account_row *row = &analysis->account.rows[category];
    row->rss_bytes = row->pss_bytes = bytes;
    row->size_bytes = bytes + bytes / 8;
    row->count = count;
}

/* RSS is given; file.text gets what is left. */
static void balance(struct mw_analysis *analysis, uint64_t rss)
{
    struct mw_account *account = &analysis->account;
    uint64_t sum = 0;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        sum += account->rows[i].rss_bytes;
    assert(sum <= rss);
    put_category(analysis, MW_CATEGORY_FILE_TEXT,
                 account->rows[MW_CATEGORY_FILE_TEXT].rss_bytes + rss - sum, 41);
    account->rss_bytes = account->pss_bytes = rss;
    account->unknown_bytes = account->rows[MW_CATEGORY_UNKNOWN].rss_bytes;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        account->size_bytes += account->rows[i].size_bytes;
    account->file_clean_bytes = account->rows[MW_CATEGORY_FILE_TEXT].rss_bytes;
    account->anonymous_bytes = rss - account->file_clean_bytes;
}

static struct mw_verdict *add_verdict(struct mw_analysis *analysis, const char *id,
                                      enum mw_class verdict_class, enum mw_basis basis,
                                      uint64_t bytes, const char *summary)
{
    struct mw_verdict verdict = {.id = id,
                                 .verdict_class = verdict_class,
                                 .basis = basis,
                                 .bytes = bytes,
                                 .summary = format("%s", summary)};
    assert(mw_vec_push(&analysis->verdicts, 32, verdict) == MW_OK);
    return &analysis->verdicts.items[analysis->verdicts.count - 1];
}

static void add_evidence(struct mw_verdict *verdict, const char *source, uint64_t value,
                         const char *text)
{
    verdict->evidence = mw_regrow(verdict->evidence, verdict->evidence_count,
                                  verdict->evidence_count + 1, sizeof *verdict->evidence);
    assert(verdict->evidence);
    verdict->evidence[verdict->evidence_count++] =
        (struct mw_evidence_item){.text = format("%s", text),
                                  .has_value = value != MW_UNKNOWN,
                                  .value = value,
                                  .source = source};
}

static void add_ruled_out(struct mw_verdict *verdict, const char *id, const char *why)
{
    verdict->ruled_out = mw_regrow(verdict->ruled_out, verdict->ruled_out_count,
                                   verdict->ruled_out_count + 1, sizeof *verdict->ruled_out);
    assert(verdict->ruled_out);
    verdict->ruled_out[verdict->ruled_out_count++] =
        (struct mw_ruled_out){.id = id, .why = format("%s", why)};
}

static void add_remedy(struct mw_verdict *verdict, const char *action, uint64_t low, uint64_t high,
                       const char *basis)
{
    verdict->remedies = mw_regrow(verdict->remedies, verdict->remedy_count,
                                  verdict->remedy_count + 1, sizeof *verdict->remedies);
    assert(verdict->remedies);
    verdict->remedies[verdict->remedy_count++] =
        (struct mw_remedy){.action = format("%s", action),
                           .has_gain = high != MW_UNKNOWN,
                           .gain_low_bytes = low,
                           .gain_high_bytes = high,
                           .basis = format("%s", basis),
                           .verify = format("memwhy verify before.json PID")};
}

static void add_setting(struct mw_process *process, const char *name, const char *value)
{
    process->settings = mw_regrow(process->settings, process->setting_count,
                                  process->setting_count + 1, sizeof *process->settings);
    assert(process->settings);
    process->settings[process->setting_count++] =
        (struct mw_setting){format("%s", name), format("%s", value)};
    process->has_settings = true;
}

static struct mw_allocator *add_glibc(struct mw_analysis *analysis, const char *version,
                                      size_t arenas)
{
    struct mw_allocator *allocator = &analysis->allocators[analysis->allocator_count++];
    *allocator = (struct mw_allocator){.kind = "glibc", .walked = true, .reconciled = true};
    snprintf(allocator->version, sizeof allocator->version, "%s", version);
    allocator->arenas = mw_calloc(arenas, sizeof *allocator->arenas);
    assert(allocator->arenas);
    allocator->arena_count = arenas;
    allocator->parameters = (struct mw_heap_parameters){.mmap_threshold = KIB(128),
                                                        .trim_threshold = KIB(128),
                                                        .top_pad = KIB(128),
                                                        .arena_test = 8,
                                                        .mmaps_max = 65536,
                                                        .tcache_count = 7,
                                                        .tcache_max_bytes = 1032};
    analysis->heap_was_read = true;
    return allocator;
}

/* Arena figures that sum to the allocator's. */
static void fill_arenas(struct mw_allocator *allocator, uint64_t main_free, uint64_t main_in_use)
{
    uint64_t others = allocator->arena_count - 1;
    uint64_t in_use = allocator->in_use_bytes - allocator->mmapped_bytes - main_in_use;
    uint64_t free_left = allocator->free_bytes - main_free;
    for (size_t i = 0; i < allocator->arena_count; i++) {
        struct mw_arena *arena = &allocator->arenas[i];
        arena->is_main = i == 0;
        arena->address = i == 0 ? 0x7f0000200c60 : 0x7f1000000030 + i * 0x4000000;
        arena->heap_count = 1;
        arena->in_use_bytes =
            i == 0 ? main_in_use : in_use / others + (i == 1 ? in_use % others : 0);
        arena->free_bytes =
            i == 0 ? main_free : free_left / others + (i == 1 ? free_left % others : 0);
        arena->free_rss = arena->free_bytes;
        arena->metadata_bytes = i == 0 ? 0 : 0x8b0;
        arena->system_bytes = arena->in_use_bytes + arena->free_bytes + arena->metadata_bytes;
        arena->in_use_count = arena->in_use_bytes / 96;
        arena->free_count = arena->free_bytes / 4096;
        arena->top_bytes = arena->free_bytes / 37;
        arena->top_rss = arena->top_bytes;
        arena->attached_threads = i == 0 ? 3 : 1;
        arena->trimmable_bytes = arena->free_bytes / 100 * 96;
        arena->reconciled = true;
    }
}

static void icinga_verdicts(struct mw_analysis *analysis)
{
    struct mw_verdict *kept =
        add_verdict(analysis, "trimmable-free", MW_CLASS_KEPT, MW_BASIS_PROVEN, MIB(1981.7),
                    "freed by the program and still resident. Not a leak: 0.1 MiB is unreachable");
    add_evidence(kept, "heap walk", 9, "9 arenas walked, sums equal glibc's own counters");
    add_evidence(kept, "pagemap", MIB(1902.6), "1,902.6 MiB lie in whole free pages");
    add_remedy(kept, "stream the responses (Icinga 2 >= 2.16)", 0, MW_UNKNOWN,
               "lowers the peak; gain not predictable");
    add_remedy(kept, "malloc_trim(0) now", MIB(1902.6), MIB(1902.6), "predicted page for page");
    add_remedy(kept, "MALLOC_ARENA_MAX=2, restart", 0, MIB(118), "upper bound: not worth it");
    add_ruled_out(kept, "native-leak", "in use is 318.4 MiB and no size dominates");
    add_ruled_out(kept, "fragmentation", "26.8 MiB of holes smaller than a page");
    add_ruled_out(kept, "arena-proliferation", "9 arenas of at most 64, their tops hold 52.3 MiB");
    struct mw_verdict *pin =
        add_verdict(analysis, "heap-top-pinned", MW_CLASS_KEPT, MW_BASIS_PROVEN, MIB(1131),
                    "[heap] 1,204.0 MiB, 1,131.0 free; one live 96 B block (text) 1.2 MiB below "
                    "its top keeps it from shrinking");
    pin->part_of = "trimmable-free";
    struct mw_verdict *threshold =
        add_verdict(analysis, "adaptive-mmap-threshold", MW_CLASS_KEPT, MW_BASIS_PROVEN, MIB(640),
                    "128 KiB has become 31.4 MiB, so big buffers live in arenas");
    threshold->part_of = "trimmable-free";
    add_remedy(threshold, "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072, restart", 0, MIB(640),
               "upper bound: free chunks of at least 128 KiB; peak unchanged");
    struct mw_verdict *needed = add_verdict(analysis, "healthy", MW_CLASS_NEEDED, MW_BASIS_PROVEN,
                                            MIB(318.4), "in use by the program in malloc blocks");
    add_evidence(needed, "heap walk", 2041339, "2,041,339 blocks in use");
    struct mw_verdict *files = add_verdict(analysis, "file-maps", MW_CLASS_NEEDED, MW_BASIS_PROVEN,
                                           MIB(41.2), "clean pages of files: reclaimable");
    files->minor = true;
    struct mw_verdict *unknown = add_verdict(analysis, "unknown", MW_CLASS_NEEDED,
                                             MW_BASIS_POSSIBLE, MIB(1.9), "3 anonymous mappings");
    unknown->minor = true;
    analysis->verdicts.was =
        format("last content of the free chunks: JSON text 41%%, pointers 37%%");
    analysis->verdicts.peak = format("2,286 MiB above what is in use: whatever ran then needs it "
                                     "again; trim won't lower it");
}

static void icinga_heap(struct mw_analysis *analysis)
{
    struct mw_allocator *glibc = add_glibc(analysis, "2.36", 9);
    glibc->arena_limit = 64;
    glibc->heap_count = 9;
    glibc->in_use_bytes = MIB(318.4);
    glibc->in_use_count = 2041339;
    glibc->mmapped_bytes = MIB(2.5);
    glibc->mmapped_count = 7;
    glibc->free_bytes = glibc->free_resident_bytes = MIB(1981.7);
    glibc->free_count = 433399;
    glibc->tcache_bytes = KIB(811);
    glibc->fastbin_bytes = KIB(97);
    glibc->top_bytes = MIB(53.5);
    glibc->thread_top_rss = MIB(52.3);
    glibc->fragment_bytes = MIB(26.8);
    glibc->trimmable_bytes = MIB(1902.6);
    glibc->metadata_bytes = MIB(3.1);
    glibc->system_bytes = glibc->in_use_bytes + glibc->free_bytes + glibc->metadata_bytes;
    glibc->parameters.mmap_threshold = MIB(31.4);
    glibc->parameters.trim_threshold = MIB(62.8);
    fill_arenas(glibc, MIB(1131), MIB(73));
    glibc->sizes = mw_calloc(4, sizeof *glibc->sizes);
    assert(glibc->sizes);
    const struct mw_size_row sizes[] = {
        {32, 1000003, 20011}, {96, 700001, 300007}, {4112, 1009, 100003}, {1048592, 13, 401}};
    memcpy(glibc->sizes, sizes, sizeof sizes);
    glibc->size_count = 4;
    glibc->pins = mw_calloc(2, sizeof *glibc->pins);
    assert(glibc->pins);
    glibc->pins[0] = (struct mw_pin){.heap = 0x55d0c0000000,
                                     .block = 0x55d10b2f1c30,
                                     .size_bytes = 96,
                                     .state = MW_BLOCK_IN_USE,
                                     .distance_from_top_bytes = MIB(1.2),
                                     .would_release_bytes = MIB(1131),
                                     .content = MW_CONTENT_TEXT};
    glibc->pins[1] = (struct mw_pin){.heap = 0x7f1004000000,
                                     .block = 0x7f1006b2f1c0,
                                     .size_bytes = 48,
                                     .state = MW_BLOCK_TCACHE,
                                     .distance_from_top_bytes = KIB(700),
                                     .would_release_bytes = MIB(31),
                                     .content = MW_CONTENT_POINTERS};
    glibc->pin_count = 2;
    glibc->content_bytes[MW_CONTENT_JSON] = MIB(812);
    glibc->content_bytes[MW_CONTENT_POINTERS] = MIB(733);
}

static void icinga_maps(struct mw_analysis *analysis)
{
    static const struct {
        mw_addr start, end;
        uint32_t perms;
        const char *name;
        enum mw_category category;
        const char *owner;
    } rows[] = {
        {0x55d0bfe00000, 0x55d0bff00000, MW_PERM_READ | MW_PERM_EXEC, "/usr/lib/icinga2",
         MW_CATEGORY_FILE_TEXT, "program"},
        {0x55d0c0000000, 0x55d10b400000, MW_PERM_READ | MW_PERM_WRITE, "[heap]",
         MW_CATEGORY_MALLOC_IN_USE, "glibc main arena"},
        {0x7f1000000000, 0x7f1004000000, MW_PERM_READ | MW_PERM_WRITE, "",
         MW_CATEGORY_MALLOC_IN_USE, "glibc arena"},
        {0x7f2000000000, 0x7f2000021000, MW_PERM_READ | MW_PERM_WRITE, "", MW_CATEGORY_UNKNOWN, ""},
        {0x7ffc00000000, 0x7ffc00021000, MW_PERM_READ | MW_PERM_WRITE, "[stack]",
         MW_CATEGORY_STACK_MAIN, "main stack"},
    };
    size_t count = sizeof rows / sizeof *rows;
    struct mw_account *account = &analysis->account;
    account->pieces = mw_calloc(count, sizeof *account->pieces);
    assert(account->pieces);
    account->piece_count = count;
    for (size_t i = 0; i < count; i++) {
        struct mw_mapping map = {.start = rows[i].start,
                                 .end = rows[i].end,
                                 .perms = rows[i].perms,
                                 .known = UINT32_MAX};
        map.counters[MW_COUNTER_RSS] = (rows[i].end - rows[i].start) / 4;
        map.counters[MW_COUNTER_LOCKED] = 4096 * i;
        assert(mw_mapping_list_add(&analysis->image.regions, &map, rows[i].name,
                                   strlen(rows[i].name)) == MW_OK);
        account->pieces[i] = (struct mw_account_piece){.start = map.start,
                                                       .end = map.end,
                                                       .region = (uint32_t)i,
                                                       .category = rows[i].category,
                                                       .owner = rows[i].owner,
                                                       .rss_bytes = (map.end - map.start) / 4,
                                                       .pss_bytes = (map.end - map.start) / 8};
    }
    account->pieces[2].end -= 0x1000000; /* the rest of this mapping has no owner */
}

void fixture_icinga(struct mw_analysis *analysis)
{
    begin(analysis);
    struct mw_process *process = &analysis->image.process;
    process->pid = 4121;
    process->exe = format("/usr/lib/x86_64-linux-gnu/icinga2/sbin/icinga2");
    process->command = format("/usr/lib/x86_64-linux-gnu/icinga2/sbin/icinga2 daemon "
                              "--api-password hunter2 -e /var/log/icinga2/error.log");
    process->thread_count = 22;
    process->cpus_online = process->cpus_allowed = 8;
    process->uptime_seconds = 6 * 86400 + 2 * 3600 + 60;
    process->started_at = analysis->taken_at - 6 * 86400 - 2 * 3600 - 60;
    process->vm_hwm = MIB(2604);
    process->has_settings = true;
    add_setting(process, "MALLOC_ARENA_MAX", "64");
    analysis->image.pauses =
        (struct mw_pauses){.count = 4, .total_ns = 360000000, .longest_ns = 97000000};
    snprintf(analysis->cgroup.path, sizeof analysis->cgroup.path, "/system.slice/icinga2.service");
    analysis->cgroup.version = 2;
    analysis->cgroup.usage = MIB(2410);
    analysis->cgroup.limit = MIB(2861);
    analysis->cgroup.anon = MIB(2300);
    put_category(analysis, MW_CATEGORY_MALLOC_FREE, MIB(1981.7), 433399);
    put_category(analysis, MW_CATEGORY_MALLOC_IN_USE, MIB(318.4), 2041339);
    put_category(analysis, MW_CATEGORY_MALLOC_METADATA, MIB(3.1), 9);
    put_category(analysis, MW_CATEGORY_STACK_THREADS, MIB(6.3), 21);
    put_category(analysis, MW_CATEGORY_STACK_MAIN, MIB(0.1), 1);
    put_category(analysis, MW_CATEGORY_ANON_OTHER, MIB(2.9), 17);
    put_category(analysis, MW_CATEGORY_UNKNOWN, MIB(1.9), 3);
    analysis->account.unknown_mappings = 3;
    balance(analysis, MIB(2355.6) / 4096 * 4096);
    icinga_heap(analysis);
    icinga_maps(analysis);
    icinga_verdicts(analysis);
    mw_finding_add(&analysis->findings, "account-skew", 0, 8192,
                   "the target ran on between two readings");
}

static void jvm_verdicts(struct mw_analysis *analysis)
{
    struct mw_verdict *kept =
        add_verdict(analysis, "arena-proliferation", MW_CLASS_KEPT, MW_BASIS_LIKELY, GIB(21.67),
                    "767 glibc arenas (limit 768 = 8 x 96 CPUs) hold 22.00 GiB, 98% of it free");
    add_evidence(kept, "heap walk", 767, "count, resident size");
    add_evidence(
        kept, "environ", MW_UNKNOWN,
        "971 threads; MALLOC_ARENA_MAX unset (environment and malloc agree); no CPU quota. "
        "A thread that meets a busy arena makes a new one; arenas are never given back");
    add_remedy(kept, "MALLOC_ARENA_MAX=4, restart", GIB(20.0), GIB(21.7),
               "likely: same load, same heap");
    add_remedy(kept, "jcmd 4121 System.trim_native_heap", GIB(14.1), GIB(14.1),
               "now, returns; 6.50 GiB of arena tops stay");
    add_remedy(kept, "jemalloc (LD_PRELOAD), restart", 0, MW_UNKNOWN,
               "run it beside an unchanged host");
    add_ruled_out(kept, "native-leak", "0.30 GiB in use in all arenas");
    add_ruled_out(kept, "direct-buffers", "0.92 GiB");
    add_ruled_out(kept, "thread-stacks", "0.95 GiB committed, 0.24 resident");
    struct mw_verdict *heap =
        add_verdict(analysis, "managed-live", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, GIB(7.3),
                    "the Java heap; what is live in it needs the runtime's own tools");
    add_remedy(heap, "jcmd 4121 GC.class_histogram", 0, MW_UNKNOWN, "");
    add_verdict(analysis, "unknown", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, GIB(0.09),
                "no owner; memwhy maps 4121 --unknown");
}

void fixture_jvm(struct mw_analysis *analysis)
{
    begin(analysis);
    struct mw_process *process = &analysis->image.process;
    process->pid = 4121;
    process->exe = format("/usr/lib/jvm/java-17/bin/java");
    process->command = format("java -Xmx16g tenant-mover");
    process->thread_count = 971;
    process->cpus_online = process->cpus_allowed = 96;
    process->vm_hwm = GIB(32.4);
    process->has_settings = true;
    analysis->image.pauses =
        (struct mw_pauses){.count = 5, .total_ns = 490000000, .longest_ns = 98000000};
    analysis->runtimes[0] = (struct mw_runtime){.kind = "jvm",
                                                .heap_used = MW_UNKNOWN,
                                                .heap_committed = GIB(11.3),
                                                .heap_rss = GIB(7.3),
                                                .native_reported = GIB(14.0),
                                                .direct = GIB(0.92)};
    snprintf(analysis->runtimes[0].version, sizeof analysis->runtimes[0].version, "17.0.15");
    analysis->runtime_count = 1;
    put_category(analysis, MW_CATEGORY_MALLOC_FREE, GIB(21.67), 8000009);
    put_category(analysis, MW_CATEGORY_MANAGED_HEAP, GIB(7.3), 1);
    put_category(analysis, MW_CATEGORY_MALLOC_IN_USE, GIB(1.22), 3000017);
    put_category(analysis, MW_CATEGORY_MANAGED_METADATA, GIB(0.7), 200);
    put_category(analysis, MW_CATEGORY_MANAGED_CODE, GIB(0.18), 3);
    put_category(analysis, MW_CATEGORY_STACK_THREADS, GIB(0.24), 970);
    put_category(analysis, MW_CATEGORY_MALLOC_METADATA, GIB(0.03), 767);
    put_category(analysis, MW_CATEGORY_UNKNOWN, GIB(0.09), 11);
    analysis->account.unknown_mappings = 11;
    balance(analysis, GIB(31.6) / 4096 * 4096);
    struct mw_allocator *glibc = add_glibc(analysis, "2.34", 767);
    glibc->arena_limit = 768;
    glibc->heap_count = 801;
    glibc->in_use_bytes = GIB(1.22);
    glibc->in_use_count = 3000017;
    glibc->mmapped_bytes = GIB(0.92);
    glibc->mmapped_count = 59;
    glibc->free_bytes = glibc->free_resident_bytes = GIB(21.67);
    glibc->free_count = 8000009;
    glibc->top_bytes = GIB(6.6);
    glibc->thread_top_rss = GIB(6.5);
    glibc->trimmable_bytes = GIB(14.13);
    glibc->metadata_bytes = GIB(0.03);
    glibc->system_bytes = glibc->in_use_bytes + glibc->free_bytes + glibc->metadata_bytes;
    fill_arenas(glibc, MIB(40), MIB(11));
    jvm_verdicts(analysis);
}

void fixture_hostile(struct mw_analysis *analysis)
{
    static const char evil[] = "\033]0;owned\007\033[2J\xff\xc2\x9b<script>\"\\\n\t\xed\xa0\x80";
    begin(analysis);
    analysis->image.kind = MW_IMAGE_CORE;
    struct mw_account *account = &analysis->account;
    struct mw_process *process = &analysis->image.process;
    process->exe = format("%s", evil);
    process->command = format("%s", evil);
    add_setting(process, "MALLOC_\033[31m", evil);
    account->has_rss = account->has_pss = account->has_swap = false;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++) {
        struct mw_account_row *row = &account->rows[i];
        row->rss_bytes = row->pss_bytes = row->swap_bytes = MW_UNKNOWN;
        row->size_bytes = MIB(10) + (uint64_t)i;
        account->size_bytes += row->size_bytes;
    }
    account->anonymous_bytes = account->anon_huge_bytes = account->lazy_free_bytes = MW_UNKNOWN;
    account->locked_bytes = account->file_clean_bytes = MW_UNKNOWN;
    account->rss_bytes = account->unknown_bytes = 0;
    struct mw_allocator *musl = &analysis->allocators[analysis->allocator_count++];
    *musl = (struct mw_allocator){.kind = "musl"};
    snprintf(musl->version, sizeof musl->version, "%.20s", evil);
    struct mw_mapping map = {.start = 0x1000, .end = 0x3000};
    assert(mw_mapping_list_add(&analysis->image.regions, &map, evil, strlen(evil)) == MW_OK);
    account->pieces = mw_calloc(1, sizeof *account->pieces);
    assert(account->pieces);
    account->piece_count = 1;
    account->pieces[0] = (struct mw_account_piece){.start = 0x1000,
                                                   .end = 0x3000,
                                                   .category = MW_CATEGORY_UNKNOWN,
                                                   .owner = "",
                                                   .rss_bytes = MW_UNKNOWN,
                                                   .pss_bytes = MW_UNKNOWN,
                                                   .swap_bytes = MW_UNKNOWN,
                                                   .anon_huge_bytes = MW_UNKNOWN};
    struct mw_verdict *verdict =
        add_verdict(analysis, "shared-memory", MW_CLASS_NEEDED, MW_BASIS_LIKELY, MIB(10), evil);
    add_evidence(verdict, "smaps", MW_UNKNOWN, evil);
    add_verdict(analysis, "unknown", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, MIB(10), "no owner");
    analysis->verdicts.was = format("%s", evil);
    mw_finding_add(&analysis->findings, "core-truncated", 0xdeadbeef, 4096, "%s", evil);
    analysis->heap_was_read = false;
}

void fixture_forbidden(struct mw_analysis *analysis)
{
    begin(analysis);
    struct mw_process *process = &analysis->image.process;
    process->pid = 977;
    snprintf(process->comm, sizeof process->comm, "redis-server");
    process->thread_count = 5;
    process->vm_hwm = MIB(12);
    put_category(analysis, MW_CATEGORY_MALLOC_UNSPLIT, MIB(7.3), 4);
    put_category(analysis, MW_CATEGORY_STACK_MAIN, KIB(132), 1);
    put_category(analysis, MW_CATEGORY_UNKNOWN, MIB(0.7), 2);
    analysis->account.unknown_mappings = 2;
    balance(analysis, MIB(11));
    analysis->is_partial = true;
    (void)mw_fail(&analysis->why_partial, MW_PERM,
                  "cannot read the memory of 977: kernel.yama.ptrace_scope is 1");
    mw_error_hint(&analysis->why_partial, "sudo memwhy 977");
    add_verdict(analysis, "unknown", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, MIB(0.7), "no owner");
}

static void release_verdict(struct mw_verdict *verdict)
{
    free(verdict->summary);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        free(verdict->evidence[i].text);
    for (size_t i = 0; i < verdict->ruled_out_count; i++)
        free(verdict->ruled_out[i].why);
    for (size_t i = 0; i < verdict->remedy_count; i++) {
        free(verdict->remedies[i].action);
        free(verdict->remedies[i].basis);
        free(verdict->remedies[i].verify);
    }
    free(verdict->evidence);
    free(verdict->ruled_out);
    free(verdict->remedies);
}

void fixture_release(struct mw_analysis *analysis)
{
    struct mw_process *process = &analysis->image.process;
    for (size_t i = 0; i < analysis->verdicts.count; i++)
        release_verdict(&analysis->verdicts.items[i]);
    free(analysis->verdicts.items);
    free(analysis->verdicts.was);
    free(analysis->verdicts.peak);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        free(analysis->allocators[i].arenas);
        free(analysis->allocators[i].sizes);
        free(analysis->allocators[i].pins);
    }
    for (size_t i = 0; i < process->setting_count; i++) {
        free(process->settings[i].name);
        free(process->settings[i].value);
    }
    free(process->settings);
    free(process->exe);
    free(process->command);
    free(analysis->account.pieces);
    mw_mapping_list_deinit(&analysis->image.regions);
    mw_findings_deinit(&analysis->findings);
}

static int output_write(void *user, const void *bytes, size_t length)
{
    struct fixture_output *output = user;
    output->calls++;
    if (output->fail_after_bytes && output->length + length > output->fail_after_bytes)
        return EPIPE;
    if (output->length + length + 1 > output->room) {
        size_t room = (output->length + length + 1) * 2;
        output->text = mw_regrow(output->text, output->room, room, 1);
        assert(output->text);
        output->room = room;
    }
    memcpy(output->text + output->length, bytes, length);
    output->length += length;
    output->text[output->length] = '\0';
    return 0;
}

struct mw_sink fixture_sink(struct fixture_output *output)
{
    return (struct mw_sink){output, output_write};
}

void fixture_output_release(struct fixture_output *output)
{
    free(output->text);
    *output = (struct fixture_output){0};
}
