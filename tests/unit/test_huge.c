/* Huge pages looked into: zeros by owner, free blocks apart, sampled; and the system's policy. */
#include "account/huge.h"
#include "base/alloc.h"
#include "image/open.h"
#include "temp_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, HUGE = 2 << 20, PAGES_IN = 512, HUGE_MAX = 300 };

#define BASE ((mw_addr)0x7f0000000000)
#define KNOWN(counter) (1u << MW_COUNTER_##counter)

static uint8_t *bytes; /* HUGE_MAX huge pages */
static uint8_t flags[HUGE_MAX * PAGES_IN];
static struct mw_image image;
static struct mw_account account;
static struct mw_account_piece pieces[4];
static struct mw_huge huge;

static int setup(void **state)
{
    (void)state;
    bytes = calloc(HUGE_MAX, HUGE);
    memset(flags, MW_PAGE_PRESENT | MW_PAGE_HUGE, sizeof flags);
    account = (struct mw_account){.has_rss = true, .pieces = pieces};
    return bytes ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    mw_huge_deinit(&huge);
    mw_image_close(&image);
    free(bytes);
    return 0;
}

/* One mapping of count huge pages; counted is its AnonHugePages, in huge pages. */
static void map(mw_addr start, size_t count, size_t counted)
{
    struct mw_image_memory_part part = {
        .mapping = {.start = start,
                    .end = start + count * HUGE,
                    .perms = MW_PERM_READ | MW_PERM_WRITE,
                    .has_vm_flags = true,
                    .vm_flags = MW_VM_HUGEPAGE,
                    .known = KNOWN(RSS) | KNOWN(ANON_HUGE)},
        .bytes = bytes,
        .pages = flags,
    };
    part.mapping.counters[MW_COUNTER_RSS] = count * HUGE;
    part.mapping.counters[MW_COUNTER_ANON_HUGE] = counted * HUGE;
    assert_int_equal(mw_image_open_memory(&part, 1, &image, NULL), MW_OK);
    image.can |= MW_CAN_READ | MW_CAN_PAGES | MW_CAN_COUNTERS;
    pieces[0] = (struct mw_account_piece){
        .start = start, .end = start + count * HUGE, .category = MW_CATEGORY_MALLOC_IN_USE};
    account.piece_count = 1;
}

static void choose(void)
{
    assert_int_equal(mw_huge_choose(&image, &huge, NULL), MW_OK);
}

static void look(void)
{
    assert_int_equal(mw_huge_read(&image, &account, NULL, &huge, NULL), MW_OK);
}

static void use(size_t page)
{
    bytes[page * PAGE + page % PAGE] = 1;
}

static void note_block(mw_addr address, uint64_t size, enum mw_block_state state)
{
    struct mw_heap_visitor visitor = mw_huge_visitor(&huge);
    struct mw_block block = {address, size, state};
    assert_int_equal(visitor.blocks(visitor.user, NULL, &block, 1), MW_OK);
}

/* ---- counting ---- */

static void test_zeros_are_counted(void **state)
{
    (void)state;
    map(BASE, 3, 3);
    use(0);
    use(1);
    use(PAGES_IN + 7);
    use(PAGES_IN * 3 - 1);
    choose();
    look();
    assert_int_equal(huge.size_bytes, HUGE);
    assert_int_equal(huge.total_bytes, 3 * HUGE);
    assert_int_equal(huge.looked_bytes, 3 * HUGE);
    assert_false(huge.is_sampled);
    assert_true(huge.is_marked);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], (3 * PAGES_IN - 4) * PAGE);
    assert_int_equal(huge.asked_bytes, (3 * PAGES_IN - 4) * PAGE);
    assert_int_equal(huge.zero_in_free_bytes + huge.all_zero_bytes, 0);
}

static void test_zeros_from_end_to_end_are_apart(void **state)
{
    (void)state;
    map(BASE, 2, 2);
    use(PAGES_IN);
    choose();
    look();
    assert_int_equal(huge.all_zero_bytes, HUGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], HUGE - PAGE);
}

/* Only whole pages of free blocks; a walk that begins anew forgets. */
static void test_free_blocks_are_apart(void **state)
{
    (void)state;
    map(BASE, 2, 2);
    use(0);
    use(PAGES_IN);
    choose();
    note_block(BASE, HUGE, MW_BLOCK_FREE);
    mw_huge_visitor(&huge).restart(&huge);
    note_block(BASE + 5 * PAGE + 16, 10 * PAGE, MW_BLOCK_FREE); /* pages 6 to 14 */
    mw_huge_visitor(&huge).begin(&huge);                        /* of another allocator */
    note_block(BASE, HUGE, MW_BLOCK_FREE);
    mw_huge_visitor(&huge).restart(&huge);
    note_block(BASE + 20 * PAGE, 10 * PAGE, MW_BLOCK_IN_USE);      /* none */
    note_block(BASE + HUGE - 8 * PAGE, 16 * PAGE, MW_BLOCK_TOP);   /* 8 and 8, 1 of them used */
    note_block(BASE + HUGE + 100 * PAGE + 8, PAGE, MW_BLOCK_FREE); /* none is whole */
    note_block(BASE - PAGE, 2 * PAGE, MW_BLOCK_FREE);              /* page 0: used */
    note_block(BASE + 2 * HUGE - PAGE, 5 * PAGE, MW_BLOCK_TCACHE); /* 1, the rest is beyond */
    note_block(UINT64_MAX - PAGE, PAGE, MW_BLOCK_FREE);            /* absurd */
    note_block(UINT64_MAX - 5, 2 * PAGE, MW_BLOCK_FREE);
    look();
    assert_int_equal(huge.zero_in_free_bytes, (9 + 15 + 1) * PAGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], (2 * PAGES_IN - 2 - 25) * PAGE);
}

static void test_owners(void **state)
{
    (void)state;
    map(BASE, 2, 2);
    use(0);
    use(PAGES_IN);
    pieces[0].end = BASE + 100 * PAGE;
    pieces[1] = (struct mw_account_piece){.start = BASE + 100 * PAGE,
                                          .end = BASE + HUGE + 10 * PAGE,
                                          .category = MW_CATEGORY_STACK_THREADS};
    account.piece_count = 2;
    choose();
    look();
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], 99 * PAGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_STACK_THREADS], (412 + 9) * PAGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_UNKNOWN], 502 * PAGE);
}

/* A mapping that begins within a huge page: only whole ones can be huge. */
static void test_unaligned_mapping(void **state)
{
    (void)state;
    map(BASE + 3 * PAGE, 3, 2);
    use(PAGES_IN - 3); /* first of the first whole one */
    use(2 * PAGES_IN - 3);
    choose();
    look();
    assert_int_equal(huge.part_count, 2);
    assert_int_equal(huge.parts[0].start, BASE + HUGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], 2 * (HUGE - PAGE));
}

/* ---- which are huge ---- */

static void test_marks_tell(void **state)
{
    (void)state;
    map(BASE, 4, 2);
    memset(flags, MW_PAGE_PRESENT, PAGES_IN); /* small pages */
    flags[PAGES_IN] = MW_PAGE_PRESENT;        /* a mixture is none */
    use(2 * PAGES_IN);
    use(3 * PAGES_IN);
    choose();
    look();
    assert_int_equal(huge.part_count, 2);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], 2 * (HUGE - PAGE));
}

/* Before Linux 6.7 nothing marks them: what is resident as a whole, as many as were counted. */
static void test_without_marks(void **state)
{
    (void)state;
    map(BASE, 4, 2);
    memset(flags, MW_PAGE_PRESENT, sizeof flags);
    flags[5] = 0;
    flags[PAGES_IN + 5] = MW_PAGE_PRESENT | MW_PAGE_ZERO;
    use(2 * PAGES_IN);
    use(3 * PAGES_IN);
    choose();
    look();
    assert_false(huge.is_marked);
    assert_int_equal(huge.part_count, 2);
    assert_int_equal(huge.parts[0].start, BASE + 2 * HUGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE], 2 * (HUGE - PAGE));
}

/* Gone between choosing and reading: nothing is known, and nothing was touched. */
static void test_gone_meanwhile(void **state)
{
    (void)state;
    map(BASE, 2, 2);
    choose();
    assert_int_equal(huge.part_count, 2);
    memset(flags, 0, sizeof flags);
    look();
    assert_int_equal(huge.size_bytes, 0);
}

static void test_not_worth_it(void **state)
{
    (void)state;
    map(BASE, HUGE_MAX, 5); /* 1.7 % of what is resident */
    choose();
    assert_int_equal(huge.size_bytes, 0);
    mw_image_close(&image);
    map(BASE, HUGE_MAX, 7);
    image.can &= ~(unsigned)MW_CAN_READ;
    choose();
    assert_int_equal(huge.size_bytes, 0);
    image.can |= MW_CAN_READ;
    choose();
    assert_int_equal(huge.part_count, 7);
}

static void test_absurd_counters(void **state)
{
    (void)state;
    static const uint64_t absurd[] = {UINT64_MAX, (uint64_t)1 << 63, 3 * (uint64_t)HUGE};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        map(BASE, 2, 2);
        image.regions.items[0].counters[MW_COUNTER_ANON_HUGE] = absurd[i];
        choose();
        assert_int_equal(huge.size_bytes, 0);
        mw_image_close(&image);
    }
    map(BASE, 2, 2);
}

/* ---- samples ---- */

/* Of 300 huge pages, 600 MiB, about 128 are read; what all have in common is exact. */
static void test_sample_of_equal_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < HUGE_MAX; i++)
        use(i * PAGES_IN + i % PAGES_IN);
    map(BASE, HUGE_MAX, HUGE_MAX);
    choose();
    look();
    assert_true(huge.is_sampled);
    assert_true(huge.looked_bytes <= MW_HUGE_READ_BYTES_MAX);
    assert_int_equal(huge.looked_bytes, (uint64_t)HUGE_MAX / 3 * HUGE);
    assert_int_equal(huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE],
                     (uint64_t)HUGE_MAX * (HUGE - PAGE));
    assert_int_equal(huge.error_bytes, 0);
}

/* Every second one is full, which a sample at fixed steps of two would get quite wrong. */
static void test_sample_of_a_pattern(void **state)
{
    (void)state;
    for (size_t i = 0; i < HUGE_MAX; i++) {
        use(i * PAGES_IN);
        for (size_t page = 0; i % 2 && page < PAGES_IN; page++)
            use(i * PAGES_IN + page);
    }
    map(BASE, HUGE_MAX, HUGE_MAX);
    choose();
    look();
    uint64_t truth = (uint64_t)HUGE_MAX / 2 * (HUGE - PAGE);
    uint64_t got = huge.zero_bytes[MW_CATEGORY_MALLOC_IN_USE];
    uint64_t off = got > truth ? got - truth : truth - got;
    assert_true(off <= huge.error_bytes);
    assert_in_range(huge.error_bytes, truth / 12, truth / 4);
}

static void test_allocations_fail(void **state)
{
    (void)state;
    map(BASE, 2, 2);
    for (long n = 0; n < 20; n++) {
        mw_huge_deinit(&huge);
        mw_alloc_fail_after(n);
        struct mw_error err = {0};
        enum mw_status status = mw_huge_choose(&image, &huge, &err);
        if (status == MW_OK)
            status = mw_huge_read(&image, &account, NULL, &huge, &err);
        mw_alloc_fail_after(-1);
        if (status == MW_OK) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(status, MW_NOMEM);
    }
    fail_msg("it never succeeds");
}

/* ---- the policy ---- */

static void test_policy(void **state)
{
    (void)state;
    struct temp_tree tree;
    struct mw_thp thp;
    temp_tree_make(&tree);
    mw_thp_load(tree.path, &thp);
    assert_int_equal(thp.enabled, MW_THP_UNKNOWN);
    assert_int_equal(thp.max_ptes_none, UINT64_MAX);
    assert_false(thp.splits_underused);
    temp_tree_write(&tree, "enabled", "always [madvise] never\n");
    temp_tree_write(&tree, "khugepaged/max_ptes_none", "511\n");
    temp_tree_write(&tree, "shrink_underused", "1\n");
    mw_thp_load(tree.path, &thp);
    assert_int_equal(thp.enabled, MW_THP_MADVISE);
    assert_int_equal(thp.max_ptes_none, 511);
    assert_true(thp.splits_underused);
    temp_tree_write(&tree, "enabled", "[always] madvise never\n");
    temp_tree_write(&tree, "khugepaged/max_ptes_none", "-1\n");
    temp_tree_write(&tree, "shrink_underused", "0\n");
    mw_thp_load(tree.path, &thp);
    assert_int_equal(thp.enabled, MW_THP_ALWAYS);
    assert_int_equal(thp.max_ptes_none, UINT64_MAX);
    assert_false(thp.splits_underused);
    mw_thp_load("/nonexistent", &thp);
    assert_int_equal(thp.enabled, MW_THP_UNKNOWN);
    temp_tree_remove(&tree);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_zeros_are_counted),     TEST(test_zeros_from_end_to_end_are_apart),
        TEST(test_free_blocks_are_apart), TEST(test_owners),
        TEST(test_unaligned_mapping),     TEST(test_marks_tell),
        TEST(test_without_marks),         TEST(test_gone_meanwhile),
        TEST(test_not_worth_it),          TEST(test_absurd_counters),
        TEST(test_sample_of_equal_pages), TEST(test_sample_of_a_pattern),
        TEST(test_allocations_fail),      cmocka_unit_test(test_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
