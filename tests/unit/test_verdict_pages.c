/* Verdicts over what the kernel does with pages: huge ones, ones given back, a managed heap's. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct world world;
static struct mw_huge huge;

static int setup(void **state)
{
    (void)state;
    world_init(&world);
    huge = (struct mw_huge){.size_bytes = 2 * MIB,
                            .total_bytes = PAGES(400),
                            .looked_bytes = PAGES(400),
                            .is_marked = true,
                            .flags_known = true,
                            .thp.max_ptes_none = 511};
    world.evidence.huge = &huge;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_deinit(&world);
    return 0;
}

/* A process of 500 MiB, 400 of them in huge pages. */
static void ordinary(void)
{
    world_arena(&world, PAGES(0.5), PAGES(0.5), PAGES(0.5), PAGES(479.5));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(20));
}

/* ---- thp-bloat ---- */

static void test_zeros_in_blocks_in_use(void **state)
{
    (void)state;
    ordinary();
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(250);
    huge.asked_bytes = PAGES(250);
    huge.thp.enabled = MW_THP_MADVISE;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "thp-bloat");
    assert_int_equal(first->verdict_class, MW_CLASS_KEPT);
    assert_int_equal(first->basis, MW_BASIS_LIKELY);
    assert_int_equal(first->bytes, PAGES(250));
    assert_null(first->part_of);
    assert_true(verdict_says(first, "400.0 MiB in huge pages (AnonHugePages), 80% of RSS"));
    assert_true(verdict_says(first, "250.0 MiB of it in blocks in use of malloc"));
    assert_true(verdict_says(first, "max_ptes_none is 511"));
    assert_true(verdict_rules_out(first, "fragmentation"));
    assert_true(verdict_rules_out(first, "trimmable-free"));
    const struct mw_remedy *remedy = remedy_get(first, "no MADV_HUGEPAGE");
    assert_int_equal(remedy->gain_low_bytes, PAGES(250));
    assert_int_equal(remedy->gain_high_bytes, PAGES(250));
    remedy = remedy_get(first, "max_ptes_none");
    assert_int_equal(remedy->gain_low_bytes, 0);
    assert_non_null(strstr(remedy->basis, "if khugepaged made"));
    assert_null(mw_verdict_find(&verdicts, "thp-stacks"));
    assert_null(mw_verdict_find(&verdicts, "healthy"));
    mw_verdicts_deinit(&verdicts);
}

/* Zeros in free blocks stay with the state of the free memory, once. */
static void test_zeros_in_free_blocks_are_free_memory(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        world_deinit(&world);
        world_init(&world);
        world.evidence.huge = &huge;
        world_arena(&world, PAGES(300), PAGES(300), PAGES(10), PAGES(180));
        world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(20));
        huge.zero_in_free_bytes = PAGES(200);
        huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = own ? PAGES(40) : 0;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_string_equal(verdicts.items[0].id, "trimmable-free");
        assert_int_equal(verdicts.items[0].bytes, PAGES(300));
        const struct mw_verdict *bloat = mw_verdict_find(&verdicts, "thp-bloat");
        assert_int_equal(bloat != NULL, own);
        if (own) {
            assert_int_equal(bloat->bytes, PAGES(40));
            assert_true(verdict_says(bloat, "200.0 MiB more such pages lie in free blocks"));
            const struct mw_remedy *remedy = remedy_get(bloat, "instead of always");
            assert_int_equal(remedy->gain_low_bytes, PAGES(40));
            assert_int_equal(remedy->gain_high_bytes, PAGES(240));
        }
        mw_verdicts_deinit(&verdicts);
    }
}

/* The look-alike that reading cannot tell from it: zeros that were written, end to end. */
static void test_written_zeros(void **state)
{
    (void)state;
    ordinary();
    huge.all_zero_bytes = PAGES(390);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "healthy");
    assert_null(mw_verdict_find(&verdicts, "thp-bloat"));
    mw_verdicts_deinit(&verdicts);
}

static void test_small_bloat_is_silent(void **state)
{
    (void)state;
    static const double mib[] = {9.5, 10.5}; /* 2 % of 500 MiB lie between */
    for (int i = 0; i < 2; i++) {
        world_deinit(&world);
        world_init(&world);
        world.evidence.huge = &huge;
        ordinary();
        huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(mib[i]);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "thp-bloat") != NULL, i);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_not_looked_into_is_silent(void **state)
{
    (void)state;
    ordinary();
    world.evidence.huge = NULL;
    world.account.anon_huge_bytes = PAGES(400);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "thp-bloat"));
    mw_verdicts_deinit(&verdicts);
}

/* A core has bytes and no residency. */
static void test_without_residency_is_silent(void **state)
{
    (void)state;
    ordinary();
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(250);
    world.account.lazy_free_bytes = PAGES(250);
    world_finish(&world);
    world.account.has_rss = false;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        world.account.rows[i].rss_bytes = MW_UNKNOWN;
    world.allocator.free_resident_bytes = world.allocator.trimmable_bytes = MW_UNKNOWN;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "thp-bloat"));
    assert_null(mw_verdict_find(&verdicts, "lazy-free"));
    mw_verdicts_deinit(&verdicts);
}

static void test_a_sample_has_an_error(void **state)
{
    (void)state;
    ordinary();
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(250);
    huge.is_sampled = true;
    huge.looked_bytes = PAGES(100);
    huge.error_bytes = PAGES(30);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_non_null(strstr(first->summary, "about 250.0 MiB ± 30.0 MiB was never used"));
    assert_true(verdict_says(first, "100.0 MiB of them looked into, a sample,"));
    const struct mw_remedy *remedy = remedy_get(first, "instead of always");
    assert_int_equal(remedy->gain_low_bytes, PAGES(220));
    assert_int_equal(remedy->gain_high_bytes, PAGES(280));
    mw_verdicts_deinit(&verdicts);
}

static void test_stacks_are_a_part(void **state)
{
    (void)state;
    ordinary();
    world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(100));
    world.account.rows[MW_CATEGORY_STACK_THREADS].count = 50;
    world.image.process.thread_count = 51;
    huge.zero_bytes[MW_CATEGORY_STACK_THREADS] = PAGES(95);
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(30);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *whole = verdict_get(&verdicts, "thp-bloat");
    const struct mw_verdict *stacks = verdict_get(&verdicts, "thp-stacks");
    assert_int_equal(whole->bytes, PAGES(125));
    assert_string_equal(stacks->part_of, "thp-bloat");
    assert_int_equal(stacks->bytes, PAGES(95));
    assert_non_null(strstr(stacks->summary, "stacks of 50 threads, 1.9 MiB each"));
    assert_int_equal(remedy_get(stacks, "MADV_NOHUGEPAGE")->gain_high_bytes, PAGES(95));
    /* what the stacks use is too little for a verdict of their own */
    assert_null(mw_verdict_find(&verdicts, "thread-stacks"));
    mw_verdicts_deinit(&verdicts);
}

/* A leaked block is leaked as a whole, with the pages in it that nobody touched. */
static void test_a_leak_comes_first(void **state)
{
    (void)state;
    struct mw_references references = {
        .size_bytes = 400000, .sampled = 32, .referenced = 0, .is_complete = true};
    world_arena(&world, PAGES(1), PAGES(1), PAGES(1), 1200 * 400000);
    world_size(&world, 400000, 1200, 0);
    world.evidence.references = &references;
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(300);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "native-leak");
    assert_int_equal(verdicts.items[0].bytes, 1200 * 400000);
    assert_null(mw_verdict_find(&verdicts, "thp-bloat"));
    mw_verdicts_deinit(&verdicts);
}

static void test_what_turns_huge_pages_off(void **state)
{
    (void)state;
    static const char *const switches[] = {"-XX:-UseTransparentHugePages", "glibc.malloc.hugetlb=0",
                                           "no MADV_HUGEPAGE", "PR_SET_THP_DISABLE"};
    for (int i = 0; i < 4; i++) {
        world_deinit(&world);
        world_init(&world);
        world.evidence.huge = &huge;
        ordinary();
        huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(250);
        huge.asked_bytes = i < 3 ? PAGES(250) : 0;
        world.allocator.parameters.thp_pagesize = i == 1 ? 2 * MIB : 0;
        world.runtime.kind = "jvm";
        world.evidence.runtime_count = i == 0;
        struct mw_verdicts verdicts = world_evaluate(&world);
        (void)remedy_get(verdict_get(&verdicts, "thp-bloat"), switches[i]);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Linux 6.13 splits what is not used, once it is told from how many zeros on. */
static void test_a_kernel_that_splits(void **state)
{
    (void)state;
    for (int none = 0; none <= 511; none += 511) {
        world_deinit(&world);
        world_init(&world);
        world.evidence.huge = &huge;
        ordinary();
        huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(250);
        huge.all_zero_bytes = PAGES(20);
        huge.thp.splits_underused = true;
        huge.thp.max_ptes_none = (uint64_t)none;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *bloat = verdict_get(&verdicts, "thp-bloat");
        assert_int_equal(bloat->remedy_count, none ? 2 : 1);
        if (none) {
            const struct mw_remedy *remedy = remedy_get(bloat, "max_ptes_none, now");
            assert_int_equal(remedy->gain_high_bytes, PAGES(270));
            assert_non_null(strstr(remedy->basis, "under memory pressure"));
        }
        mw_verdicts_deinit(&verdicts);
    }
}

/* ---- lazy-free ---- */

static void lazy_map(enum mw_category category, uint64_t rss, uint64_t lazy)
{
    world_map(&world, "", category, rss);
    struct mw_mapping *map = &world.image.regions.items[world.image.regions.count - 1];
    map->known |= 1u << MW_COUNTER_LAZY_FREE;
    map->counters[MW_COUNTER_LAZY_FREE] = lazy;
    world.account.lazy_free_bytes += lazy;
}

static void test_lazily_freed_pages(void **state)
{
    (void)state;
    ordinary();
    world.evidence.huge = NULL;
    world_rss(&world, MW_CATEGORY_MANAGED_HEAP, PAGES(100));
    lazy_map(MW_CATEGORY_MANAGED_HEAP, PAGES(100), PAGES(60));
    lazy_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(476), PAGES(20));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *lazy = &verdicts.items[0];
    assert_string_equal(lazy->id, "lazy-free");
    assert_int_equal(lazy->verdict_class, MW_CLASS_KEPT);
    assert_int_equal(lazy->basis, MW_BASIS_PROVEN);
    assert_int_equal(lazy->bytes, PAGES(80));
    assert_true(verdict_rules_out(lazy, "native-leak"));
    assert_false(remedy_get(lazy, "none needed")->has_gain);
    assert_int_equal(verdict_get(&verdicts, "managed-live")->bytes, PAGES(40));
    mw_verdicts_deinit(&verdicts);
}

/* Pages of a mapping with several owners: no owner gives more than it has. */
static void test_lazily_freed_pages_of_several_owners(void **state)
{
    (void)state;
    ordinary();
    world.evidence.huge = NULL;
    world_rss(&world, MW_CATEGORY_ANON_OTHER, PAGES(30));
    lazy_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(40), PAGES(65));
    world.pieces[1] = world.pieces[0];
    world.pieces[1].category = MW_CATEGORY_ANON_OTHER;
    world.pieces[1].rss_bytes = PAGES(30);
    world.account.piece_count = 2;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "lazy-free")->bytes, PAGES(65));
    mw_verdicts_deinit(&verdicts);
}

static void test_a_little_lazily_freed_is_silent(void **state)
{
    (void)state;
    static const double mib[] = {23, 27}; /* 5 % of 500 MiB lie between */
    for (int i = 0; i < 2; i++) {
        world_deinit(&world);
        world_init(&world);
        ordinary();
        lazy_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(476), PAGES(mib[i]));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "lazy-free") != NULL, i);
        mw_verdicts_deinit(&verdicts);
    }
}

/* An allocator that marks its own free blocks: they are its free memory, and no block in use. One
 * that does not: the program has marked blocks that it holds. */
static void test_lazily_freed_by_the_allocator(void **state)
{
    (void)state;
    for (int marks = 0; marks < 2; marks++) {
        world_deinit(&world);
        world_init(&world);
        world.allocator.kind = "musl";
        world.allocator.marks_free = marks;
        ordinary();
        world.arenas[0].free_bytes = world.arenas[0].free_rss = PAGES(200);
        world.evidence.huge = NULL;
        lazy_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(676), PAGES(180));
        struct mw_verdicts verdicts = world_evaluate(&world);
        if (marks)
            assert_null(mw_verdict_find(&verdicts, "lazy-free"));
        else
            assert_int_equal(verdict_get(&verdicts, "lazy-free")->bytes, PAGES(180));
        mw_verdicts_deinit(&verdicts);
    }
}

/* ---- managed-unused ---- */

static void managed(uint64_t rss, uint64_t used)
{
    ordinary();
    world.evidence.huge = NULL;
    world.runtime.kind = "jvm";
    world.runtime.heap_used = used;
    world.runtime.heap_nursery = PAGES(100);
    world.runtime.heap_committed = rss + PAGES(100);
    world.evidence.runtime_count = 1;
    world_rss(&world, MW_CATEGORY_MANAGED_HEAP, rss);
}

static void test_a_heap_that_is_mostly_unused(void **state)
{
    (void)state;
    managed(PAGES(1000), PAGES(150));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *unused = &verdicts.items[0];
    assert_string_equal(unused->id, "managed-unused");
    assert_int_equal(unused->verdict_class, MW_CLASS_KEPT);
    assert_int_equal(unused->basis, MW_BASIS_LIKELY);
    assert_int_equal(unused->bytes, PAGES(750));
    assert_true(verdict_says(unused, "100.0 MiB is room for objects made since then"));
    const struct mw_remedy *remedy = remedy_get(unused, "-Xmx");
    assert_int_equal(remedy->gain_low_bytes, 0);
    assert_int_equal(remedy->gain_high_bytes, PAGES(750));
    assert_int_equal(verdict_get(&verdicts, "managed-live")->bytes, PAGES(250));
    mw_verdicts_deinit(&verdicts);
}

/* CPython counts pools as it goes: no collection, no room to spare. */
static void test_free_pools_of_cpython(void **state)
{
    (void)state;
    managed(PAGES(1000), PAGES(150));
    world.runtime.kind = "cpython";
    world.runtime.heap_nursery = 0;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *unused = &verdicts.items[0];
    assert_string_equal(unused->id, "managed-unused");
    assert_int_equal(unused->bytes, PAGES(850));
    assert_non_null(strstr(unused->summary, "free pools in arenas that are not empty"));
    assert_int_equal(remedy_get(unused, "a process of its own")->gain_high_bytes, PAGES(850));
    mw_verdicts_deinit(&verdicts);
}

/* Room to allocate in is no finding, and where the runtime does not tell nothing is said. */
static void test_a_heap_in_use_is_silent(void **state)
{
    (void)state;
    static const struct {
        uint64_t used, nursery;
    } cases[] = {{PAGES(460), PAGES(100)},
                 {PAGES(150), PAGES(750)},
                 {PAGES(5000), PAGES(100)},
                 {MW_UNKNOWN, PAGES(100)},
                 {PAGES(150), MW_UNKNOWN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_deinit(&world);
        world_init(&world);
        managed(PAGES(1000), cases[i].used);
        world.runtime.heap_nursery = cases[i].nursery;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_null(mw_verdict_find(&verdicts, "managed-unused"));
        assert_int_equal(verdict_get(&verdicts, "managed-live")->bytes, PAGES(1000));
        mw_verdicts_deinit(&verdicts);
    }
}

/* A runtime clears memory: zeros in its heap explain the heap's state, and are charged to nothing.
 */
static void test_zeros_in_a_managed_heap_are_a_cause(void **state)
{
    (void)state;
    static const char *const wholes[] = {"managed-live", "managed-unused"};
    for (int i = 0; i < 2; i++) {
        world_deinit(&world);
        world_init(&world);
        managed(PAGES(1000), i ? PAGES(150) : MW_UNKNOWN);
        world.evidence.huge = &huge;
        huge.zero_bytes[MW_CATEGORY_MANAGED_HEAP] = PAGES(300);
        huge.asked_bytes = PAGES(300);
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *bloat = verdict_get(&verdicts, "thp-bloat");
        assert_string_equal(bloat->part_of, wholes[i]);
        assert_int_equal(bloat->basis, MW_BASIS_POSSIBLE);
        assert_int_equal(bloat->bytes, PAGES(300));
        assert_false(verdict_says(bloat, "not counted"));
        const struct mw_remedy *remedy = remedy_get(bloat, "-XX:-UseTransparentHugePages");
        assert_int_equal(remedy->gain_low_bytes, 0);
        assert_int_equal(remedy->gain_high_bytes, PAGES(300));
        assert_int_equal(verdict_get(&verdicts, wholes[i])->bytes, i ? PAGES(750) : PAGES(1000));
        mw_verdicts_deinit(&verdicts);
    }
}

/* Beside bloat that is told from elsewhere they are a line of its evidence. */
static void test_zeros_in_a_managed_heap_beside_bloat(void **state)
{
    (void)state;
    managed(PAGES(1000), MW_UNKNOWN);
    world.evidence.huge = &huge;
    huge.zero_bytes[MW_CATEGORY_MANAGED_HEAP] = PAGES(300);
    huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE] = PAGES(200);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *bloat = verdict_get(&verdicts, "thp-bloat");
    assert_null(bloat->part_of);
    assert_int_equal(bloat->bytes, PAGES(200));
    assert_true(verdict_says(bloat, "300.0 MiB more in the managed heap are not counted"));
    mw_verdicts_deinit(&verdicts);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_zeros_in_blocks_in_use),
        TEST(test_zeros_in_free_blocks_are_free_memory),
        TEST(test_written_zeros),
        TEST(test_small_bloat_is_silent),
        TEST(test_not_looked_into_is_silent),
        TEST(test_without_residency_is_silent),
        TEST(test_a_sample_has_an_error),
        TEST(test_stacks_are_a_part),
        TEST(test_a_leak_comes_first),
        TEST(test_what_turns_huge_pages_off),
        TEST(test_a_kernel_that_splits),
        TEST(test_lazily_freed_pages),
        TEST(test_lazily_freed_pages_of_several_owners),
        TEST(test_a_little_lazily_freed_is_silent),
        TEST(test_lazily_freed_by_the_allocator),
        TEST(test_a_heap_that_is_mostly_unused),
        TEST(test_free_pools_of_cpython),
        TEST(test_a_heap_in_use_is_silent),
        TEST(test_zeros_in_a_managed_heap_are_a_cause),
        TEST(test_zeros_in_a_managed_heap_beside_bloat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
