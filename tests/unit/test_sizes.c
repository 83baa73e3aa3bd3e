/* tests/unit/test_sizes.c: the histogram of chunk sizes against plain counting. */
#include "base/alloc.h"
#include "heap/sizes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void add(struct mw_sizes *sizes, uint64_t size, bool in_use, unsigned times)
{
    while (times-- > 0)
        assert_int_equal(mw_sizes_add(sizes, size, in_use), MW_OK);
}

static void test_nothing(void **state)
{
    (void)state;
    struct mw_sizes sizes;
    struct mw_size_row *rows = NULL;
    size_t count = 99;
    assert_int_equal(mw_sizes_init(&sizes), MW_OK);
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_OK);
    assert_int_equal(count, 0);
    free(rows);
    mw_sizes_deinit(&sizes);
}

/* Around the border between the two ways of counting, and the largest there can be. */
static void test_small_and_large(void **state)
{
    (void)state;
    static const struct {
        uint64_t size;
        unsigned in_use, free_count;
    } wanted[] = {
        {32, 3, 1},
        {48, 0, 2},
        {MW_SIZES_DIRECT * 16 - 16, 5, 0},
        {MW_SIZES_DIRECT * 16, 7, 11},
        {MW_SIZES_DIRECT * 16 + 16, 0, 1},
        {(uint64_t)1 << 40, 2, 2},
        {UINT64_MAX & ~(uint64_t)15, 1, 0},
    };
    enum { COUNT = sizeof wanted / sizeof *wanted };
    struct mw_sizes sizes;
    struct mw_size_row *rows;
    size_t count;
    assert_int_equal(mw_sizes_init(&sizes), MW_OK);
    for (size_t i = COUNT; i-- > 0;) { /* not in the order they come back */
        add(&sizes, wanted[i].size, true, wanted[i].in_use);
        add(&sizes, wanted[i].size, false, wanted[i].free_count);
    }
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_OK);
    assert_int_equal(count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(rows[i].size_bytes, wanted[i].size);
        assert_int_equal(rows[i].in_use_count, wanted[i].in_use);
        assert_int_equal(rows[i].free_count, wanted[i].free_count);
    }
    free(rows);
    mw_sizes_deinit(&sizes);
}

/* Enough large sizes for the table to double many times; each is met three times. */
static void test_many_large_sizes(void **state)
{
    (void)state;
    enum { COUNT = 20011 };
    struct mw_sizes sizes;
    struct mw_size_row *rows;
    size_t count;
    assert_int_equal(mw_sizes_init(&sizes), MW_OK);
    for (unsigned round = 0; round < 3; round++)
        for (uint64_t i = 0; i < COUNT; i++)
            add(&sizes, (1 << 20) + (i * 7919 % COUNT) * 4096, round != 1, 1);
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_OK);
    assert_int_equal(count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(rows[i].size_bytes, (1 << 20) + i * 4096);
        assert_int_equal(rows[i].in_use_count, 2);
        assert_int_equal(rows[i].free_count, 1);
    }
    free(rows);
    mw_sizes_deinit(&sizes);
}

/* Sizes that an enemy would choose to fall on one slot cost no more than a full table. */
static void test_sizes_of_one_hash(void **state)
{
    (void)state;
    struct mw_sizes sizes;
    struct mw_size_row *rows;
    size_t count;
    assert_int_equal(mw_sizes_init(&sizes), MW_OK);
    for (uint64_t i = 1; i <= 300; i++) /* equal in the bits that choose the slot at first */
        add(&sizes, i << 44, true, 1);
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_OK);
    assert_int_equal(count, 300);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(rows[i].size_bytes, (uint64_t)(i + 1) << 44);
    free(rows);
    mw_sizes_deinit(&sizes);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct mw_sizes sizes;
    struct mw_size_row *rows;
    size_t count;
    mw_alloc_fail_after(0);
    assert_int_equal(mw_sizes_init(&sizes), MW_NOMEM);
    mw_sizes_deinit(&sizes);
    mw_alloc_fail_after(1);
    assert_int_equal(mw_sizes_init(&sizes), MW_OK);
    assert_int_equal(mw_sizes_add(&sizes, 64, true), MW_OK); /* needs none */
    assert_int_equal(mw_sizes_add(&sizes, 1 << 20, true), MW_NOMEM);
    mw_alloc_fail_after(1);
    uint64_t added = 0; /* until the first table is half full */
    while (mw_sizes_add(&sizes, (2 + added) << 20, true) == MW_OK)
        added++;
    assert_int_equal(added, 128);
    mw_alloc_fail_after(0);
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_NOMEM);
    mw_alloc_fail_after(-1);
    assert_int_equal(mw_sizes_rows(&sizes, &rows, &count), MW_OK);
    assert_int_equal(count, 1 + added); /* nothing is lost */
    free(rows);
    mw_sizes_deinit(&sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),          cmocka_unit_test(test_small_and_large),
        cmocka_unit_test(test_many_large_sizes), cmocka_unit_test(test_sizes_of_one_hash),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
