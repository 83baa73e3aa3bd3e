/* The engine: order, charging under any evidence, and an allocation that fails anywhere. */
#include "base/alloc.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct world world;

static int setup(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_deinit(&world);
    return 0;
}

/* xorshift64*: the same records in every run. */
static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_next(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 2685821657736338717u;
}

static uint64_t below(uint64_t limit)
{
    return limit ? random_next() % limit : 0;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

/* Mostly a plausible number of bytes, of every magnitude; sometimes absurd or unknown. */
static uint64_t random_bytes(bool wild)
{
    if (wild && one_in(8))
        return one_in(2) ? MW_UNKNOWN : random_next();
    return below((uint64_t)1 << below(40));
}

/* An arena whose parts may exceed the whole. */
static void random_arena(bool wild)
{
    struct mw_arena *arena = world_arena(&world, random_bytes(wild), 0, 0, random_bytes(wild));
    arena->trimmable_bytes = wild ? random_bytes(true) : below(arena->free_rss + 1);
    arena->top_rss = wild ? random_bytes(true) : below(arena->free_rss + 1);
    arena->top_bytes = arena->top_rss;
    arena->tcache_bytes = wild ? random_bytes(true) : below(arena->free_rss / 8 + 1);
    arena->attached_threads = below(4);
}

static void random_heap(bool wild)
{
    struct mw_allocator *allocator = &world.allocator;
    size_t arenas = one_in(4) ? below(300) : below(12);
    for (size_t i = 0; i < arenas; i++)
        random_arena(wild);
    for (size_t i = below(20); i > 0; i--)
        world_size(&world, 16 * (1 + below(100000)), one_in(3) ? random_bytes(wild) : below(5000),
                   below(5000));
    for (size_t i = below(4); i > 0; i--) {
        struct mw_heap_segment *segment = &world.segments[allocator->segment_count++];
        *segment =
            (struct mw_heap_segment){.start = 0x1000000 * allocator->segment_count,
                                     .end = 0x1000000 * allocator->segment_count + below(0x1000000),
                                     .kind = (enum mw_segment_kind)below(4),
                                     .arena = (uint32_t)below(4)};
        segment->split.free_bytes = random_bytes(wild);
        segment->split.free_rss = random_bytes(wild);
        world.pins[allocator->pin_count++] =
            (struct mw_pin){.heap = segment->start,
                            .block = segment->start + 16,
                            .size_bytes = random_bytes(wild),
                            .state = (enum mw_block_state)below(7),
                            .distance_from_top_bytes = random_bytes(wild),
                            .would_release_bytes = random_bytes(wild),
                            .content = (enum mw_content)below(MW_CONTENT_COUNT)};
    }
    allocator->free_large_bytes = random_bytes(wild);
    allocator->free_large_rss = random_bytes(wild);
    allocator->reconciled = !one_in(4);
    allocator->arena_limit = below(1000);
    allocator->parameters = (struct mw_heap_parameters){
        .mmap_threshold = random_bytes(wild),
        .trim_threshold = random_bytes(wild),
        .arena_max = one_in(2) ? 0 : below(10),
        .no_dyn_threshold = one_in(3),
    };
    for (int kind = 0; kind < MW_CONTENT_COUNT; kind++)
        allocator->content_bytes[kind] = random_bytes(wild);
}

static void random_cgroup(bool wild)
{
    uint64_t *figures[] = {&world.cgroup.limit,        &world.cgroup.usage,
                           &world.cgroup.peak,         &world.cgroup.anon,
                           &world.cgroup.active_file,  &world.cgroup.inactive_file,
                           &world.cgroup.file_mapped,  &world.cgroup.kernel,
                           &world.cgroup.slab,         &world.cgroup.slab_reclaimable,
                           &world.cgroup.sock,         &world.cgroup.page_tables,
                           &world.cgroup.kernel_stack, &world.cgroup.percpu};
    world.cgroup.version = (int)below(3);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        *figures[i] = one_in(4) ? MW_UNKNOWN : random_bytes(wild);
    world.cgroup.process_count = below(5);
    world.cgroup.cpu_quota = one_in(2) ? -1 : (double)below(1000) / 10;
    if (wild && one_in(4))
        world.cgroup.cpu_quota = 1e300;
}

static void random_process(bool wild)
{
    static const char *const names[] = {"MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_",
                                        "GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_CONF"};
    static const char *const values[] = {"",
                                         "2",
                                         "0x20000",
                                         "many",
                                         "glibc.malloc.arena_max=2:glibc.malloc.top_pad=",
                                         "/lib/libjemalloc.so.2 :/lib/libfoo.so"};
    struct mw_process *process = &world.image.process;
    uint64_t *figures[] = {&process->thread_count, &process->cpus_online, &process->cpus_allowed,
                           &process->vm_hwm,       &process->vm_swap,     &process->vm_lck,
                           &process->vm_pte,       &process->hugetlb};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        *figures[i] = one_in(4) ? MW_UNKNOWN : random_bytes(wild);
    for (size_t i = below(5); i > 0; i--)
        world_setting(&world, names[below(5)], values[below(6)]);
    process->has_settings = !one_in(4);
    process->uptime_seconds = one_in(4) ? -1 : (double)random_bytes(wild);
    if (one_in(4))
        strcpy(process->comm, "icinga2");
}

static void random_account(bool wild)
{
    static const char *const names[] = {"", "[heap]", "/usr/lib/libc.so.6", "/a/Npgsql.dll",
                                        "/x/\xff\n.dat"};
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        if (one_in(2))
            world_rss(&world, (enum mw_category)category, random_bytes(false));
    for (size_t i = below(5); i > 0; i--)
        world_map(&world, names[below(5)], (enum mw_category)below(MW_CATEGORY_COUNT),
                  random_bytes(wild));
    world.account.file_clean_bytes = one_in(4) ? MW_UNKNOWN : random_bytes(wild);
    world.account.has_swap = one_in(2);
    world.account.swap_bytes = random_bytes(wild);
    if (one_in(3)) {
        static const char *const kinds[] = {"dotnet", "jvm", "cpython", "go", "node"};
        world.evidence.runtime_count = 1;
        world.runtime.kind = kinds[below(5)];
        uint64_t *figures[] = {&world.runtime.heap_used, &world.runtime.heap_committed,
                               &world.runtime.native_reported, &world.runtime.direct};
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
            if (one_in(2))
                *figures[i] = random_bytes(wild);
    }
}

/* Huge pages, pages given back, devices: what the kernel says of pages. */
static void random_pages(bool wild)
{
    static struct mw_huge huge;
    struct mw_mapping_list *regions = &world.image.regions;
    world.account.lazy_free_bytes = one_in(2) ? 0 : random_bytes(wild);
    for (size_t i = 0; i < regions->count; i++) {
        regions->items[i].known |= 1u << MW_COUNTER_LAZY_FREE;
        regions->items[i].counters[MW_COUNTER_LAZY_FREE] = random_bytes(wild);
        regions->items[i].vm_flags = one_in(3) ? MW_VM_PFNMAP : 0;
        regions->items[i].perms = MW_PERM_READ;
    }
    if (one_in(2))
        return;
    huge = (struct mw_huge){.size_bytes = 2 * MIB,
                            .total_bytes = random_bytes(wild),
                            .looked_bytes = random_bytes(wild),
                            .is_sampled = one_in(2),
                            .is_marked = one_in(2),
                            .flags_known = one_in(2),
                            .zero_in_free_bytes = random_bytes(wild),
                            .all_zero_bytes = random_bytes(wild),
                            .asked_bytes = random_bytes(wild),
                            .error_bytes = random_bytes(wild),
                            .thp.enabled = (enum mw_thp_enabled)below(4),
                            .thp.max_ptes_none = one_in(2) ? MW_UNKNOWN : below(512),
                            .thp.splits_underused = one_in(2)};
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        huge.zero_bytes[category] = one_in(2) ? 0 : random_bytes(wild);
    world.evidence.huge = &huge;
}

/* What is not there must not be missed. */
static void random_absence(void)
{
    if (one_in(8))
        world.evidence.image = NULL;
    if (one_in(8))
        world.evidence.cgroup = NULL;
    if (one_in(8))
        world.evidence.findings = NULL;
    if (one_in(8))
        world.evidence.heap_was_read = false;
    if (one_in(8))
        world.allocator.walked = false;
    if (one_in(16))
        world.evidence.allocator_count = 0;
    if (one_in(16))
        world.allocator.kind = one_in(2) ? NULL : "musl";
    if (one_in(8))
        world.allocator.free_resident_bytes = world.allocator.trimmable_bytes = MW_UNKNOWN;
    if (one_in(8)) {
        world.account.has_rss = false;
        for (int category = 0; category < MW_CATEGORY_COUNT; category++)
            world.account.rows[category].rss_bytes = MW_UNKNOWN;
    }
    if (one_in(32))
        world.evidence.account = NULL;
}

static void random_record(bool wild)
{
    world_deinit(&world);
    world_init(&world);
    random_heap(wild);
    random_process(wild);
    random_cgroup(wild);
    random_account(wild);
    random_pages(wild);
    if (wild) {
        /* The account keeps its promise, whatever the walk says. */
        uint64_t in_use = random_bytes(false), free_bytes = random_bytes(false);
        world_finish(&world);
        world_rss(&world, MW_CATEGORY_MALLOC_IN_USE, in_use);
        world_rss(&world, MW_CATEGORY_MALLOC_FREE, free_bytes);
        world.account.rss_bytes = 0;
        for (int category = 0; category < MW_CATEGORY_COUNT; category++)
            world.account.rss_bytes += world.account.rows[category].rss_bytes;
        world.allocator.fragment_bytes = random_bytes(true);
        world.allocator.in_use_bytes = random_bytes(true);
    } else {
        world_finish(&world);
    }
    random_absence();
}

static uint64_t charged_to(const struct mw_verdicts *verdicts)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < verdicts->count; i++)
        if (!verdicts->items[i].part_of && verdicts->items[i].verdict_class != MW_CLASS_OUTSIDE)
            sum += verdicts->items[i].bytes;
    return sum;
}

/* Kept free by malloc: what a runtime keeps, and pages given back or never used, are elsewhere. */
static uint64_t kept_by(const struct mw_verdicts *verdicts)
{
    static const char *const others[] = {"managed-unused", "lazy-free", "thp-bloat"};
    uint64_t sum = 0;
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        bool is_other = false;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            is_other |= strcmp(verdict->id, others[k]) == 0;
        if (!verdict->part_of && verdict->verdict_class == MW_CLASS_KEPT && !is_other)
            sum += verdict->bytes;
    }
    return sum;
}

/* 10,000 records, half of them absurd: order and sums hold, kept memory is no more than the
 * account's malloc.free, and with `healthy` all of it is explained but what was not looked into
 * and what is a device's. */
static void test_random_evidence(void **state)
{
    (void)state;
    unsigned explained = 0, kept = 0;
    for (int i = 0; i < 10000; i++) {
        random_record(i % 2 == 1);
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_account *account = world.evidence.account;
        if (account && account->has_rss) {
            uint64_t unsplit = account->rows[MW_CATEGORY_MALLOC_UNSPLIT].rss_bytes;
            uint64_t free_bytes = account->rows[MW_CATEGORY_MALLOC_FREE].rss_bytes;
            assert_true(kept_by(&verdicts) <= free_bytes);
            uint64_t devices = account->rows[MW_CATEGORY_DEVICE].rss_bytes;
            uint64_t charged = charged_to(&verdicts);
            if (mw_verdict_find(&verdicts, "healthy")) {
                assert_true(charged <= account->rss_bytes);
                assert_true(charged + unsplit + devices >= account->rss_bytes);
                explained++;
            }
            assert_true(verdicts.items[verdicts.count - 1].bytes <=
                        account->rows[MW_CATEGORY_UNKNOWN].rss_bytes);
            kept += kept_by(&verdicts) > 0;
        }
        mw_verdicts_deinit(&verdicts);
    }
    assert_true(explained > 1000 && kept > 1000); /* the records are not all of one kind */
}

/* Each allocation in turn fails: the answer is MW_NOMEM, the output untouched, nothing leaks (run
 * under a leak checker), and without a failure it is the same as before. */
static void test_each_allocation_fails(void **state)
{
    (void)state;
    for (int record = 0; record < 40; record++) {
        random_record(record % 2 == 1);
        struct mw_verdicts expected = world_evaluate(&world);
        for (long n = 0;; n++) {
            struct mw_verdicts verdicts = {.count = 77};
            struct mw_error err = {0};
            mw_alloc_fail_after(n);
            enum mw_status status = mw_verdicts_evaluate(&world.evidence, &verdicts, &err);
            mw_alloc_fail_after(-1);
            if (status == MW_OK) {
                assert_int_equal(verdicts.count, expected.count);
                mw_verdicts_deinit(&verdicts);
                break;
            }
            assert_int_equal(status, MW_NOMEM);
            assert_int_equal(err.code, MW_NOMEM);
            assert_int_equal(verdicts.count, 77);
            assert_true(n < 2000);
        }
        mw_verdicts_deinit(&expected);
    }
}

static void test_same_evidence_same_verdicts(void **state)
{
    (void)state;
    random_record(false);
    struct mw_verdicts a = world_evaluate(&world), b = world_evaluate(&world);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++) {
        assert_string_equal(a.items[i].id, b.items[i].id);
        assert_string_equal(a.items[i].summary, b.items[i].summary);
    }
    mw_verdicts_deinit(&a);
    mw_verdicts_deinit(&b);
}

/* A small kept state of a large class stands above a large needed one, a minor one below it. */
static void test_class_before_bytes_and_minor_last(void **state)
{
    (void)state;
    for (int minor = 0; minor <= 1; minor++) {
        world_init(&world);
        double kept = minor ? 0.5 : 1.5;
        world_arena(&world, PAGES(kept), PAGES(kept), 0, PAGES(16000));
        world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(2000));
        struct mw_verdicts verdicts = world_evaluate(&world);
        const char *order[2][4] = {{"trimmable-free", "healthy", "thread-stacks", "unknown"},
                                   {"healthy", "thread-stacks", "trimmable-free", "unknown"}};
        assert_int_equal(verdicts.count, 4);
        for (size_t i = 0; i < 4; i++)
            assert_string_equal(verdicts.items[i].id, order[minor][i]);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_minor_is_small_in_both_ways(void **state)
{
    (void)state;
    static const struct {
        double kept, in_use;
        bool minor;
    } cases[] = {
        {0.5, 100, true},   /* under 2 % and under 1 MiB */
        {0.5, 10, false},   /* over 2 % */
        {1.0, 1000, false}, /* 1 MiB */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(cases[c].kept), PAGES(cases[c].kept), 0, PAGES(cases[c].in_use));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(verdict_get(&verdicts, "trimmable-free")->minor, cases[c].minor);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Two allocators in one process, as after dlmopen(): their figures add up. */
static void test_two_allocators_add_up(void **state)
{
    (void)state;
    world_arena(&world, PAGES(40), PAGES(40), 0, PAGES(10));
    world_finish(&world);
    struct mw_allocator both[2] = {world.allocator, world.allocator};
    world.evidence.allocators = both;
    world.evidence.allocator_count = 2;
    world_rss(&world, MW_CATEGORY_MALLOC_FREE, PAGES(80));
    world_rss(&world, MW_CATEGORY_MALLOC_IN_USE, PAGES(20));
    world.account.rss_bytes = PAGES(100);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes, PAGES(80));
    mw_verdicts_deinit(&verdicts);
}

static void test_names_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_string_equal(mw_class_name(MW_CLASS_LEAKED), "leaked");
    assert_string_equal(mw_class_name(MW_CLASS_GROWING), "growing");
    assert_string_equal(mw_class_name(MW_CLASS_KEPT), "kept");
    assert_string_equal(mw_class_name(MW_CLASS_OUTSIDE), "outside");
    assert_string_equal(mw_class_name(MW_CLASS_NEEDED), "needed");
    assert_string_equal(mw_basis_name(MW_BASIS_PROVEN), "proven");
    assert_string_equal(mw_basis_name(MW_BASIS_LIKELY), "likely");
    assert_string_equal(mw_basis_name(MW_BASIS_POSSIBLE), "possible");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_random_evidence),
        TEST(test_each_allocation_fails),
        TEST(test_same_evidence_same_verdicts),
        TEST(test_class_before_bytes_and_minor_last),
        TEST(test_minor_is_small_in_both_ways),
        TEST(test_two_allocators_add_up),
        TEST(test_names_are_those_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
