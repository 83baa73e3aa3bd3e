/* tests/unit/test_difference.c: joining two moments, and those of a control, made by hand. */
#include "growth/difference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZES_MAX = 8 };

struct size {
    uint64_t size_bytes, count, lost;
    const char *name;
};

/* A moment with blocks of those sizes, each of one kind; it owns its arrays. */
static struct mw_moment moment_make(double taken_at, uint64_t rss, const struct size *sizes,
                                    size_t count)
{
    struct mw_moment moment = {.taken_at = taken_at,
                               .pid = 7,
                               .has_heap = true,
                               .knows_lost = true,
                               .rss_bytes = rss,
                               .at_random = 0x7ffd0000};
    moment.sizes.items = calloc(count + 1, sizeof *moment.sizes.items);
    moment.kinds = calloc(count + 1, sizeof *moment.kinds);
    assert_non_null(moment.sizes.items);
    assert_non_null(moment.kinds);
    for (size_t i = 0; i < count; i++) {
        moment.sizes.items[i] =
            (struct mw_block_group){sizes[i].size_bytes, sizes[i].size_bytes - 8, sizes[i].count,
                                    sizes[i].size_bytes * sizes[i].count};
        moment.kinds[i] = (struct mw_kind){.size_bytes = sizes[i].size_bytes,
                                           .usable_bytes = sizes[i].size_bytes - 8,
                                           .count = sizes[i].count,
                                           .lost_count = sizes[i].lost};
        snprintf(moment.kinds[i].name, sizeof moment.kinds[i].name, "%s", sizes[i].name);
    }
    moment.sizes.count = moment.kind_count = count;
    moment.categories[MW_CATEGORY_MALLOC_IN_USE].resident_bytes = rss / 2;
    moment.categories[MW_CATEGORY_FILE_TEXT].resident_bytes = rss - rss / 2;
    moment.categories[MW_CATEGORY_FILE_TEXT].mapped_bytes = 1 << 20;
    return moment;
}

static const struct mw_growth_row *row_of(const struct mw_difference *difference,
                                          enum mw_growth_what what, const char *id)
{
    for (size_t i = 0; i < difference->row_count; i++)
        if (difference->rows[i].what == what && strcmp(difference->rows[i].id, id) == 0)
            return &difference->rows[i];
    return NULL;
}

static struct mw_difference difference_make(const struct mw_moment *before,
                                            const struct mw_moment *after,
                                            const struct mw_moment *control_before,
                                            const struct mw_moment *control_after)
{
    struct mw_difference difference;
    struct mw_error err = {0};
    const struct mw_difference_input input = {before, after, control_before, control_after};
    assert_int_equal(mw_difference_make(&input, &difference, &err), MW_OK);
    for (size_t i = 1; i < difference.row_count; i++) {
        const struct mw_growth_row *above = &difference.rows[i - 1], *row = &difference.rows[i];
        assert_true(above->what <= row->what);
        if (above->what == row->what)
            assert_true(mw_growth_bytes(above) >= mw_growth_bytes(row));
    }
    return difference;
}

static void test_join(void **state)
{
    (void)state;
    const struct size first[] = {{32, 100, 5, "A"}, {48, 10, 0, ""}, {64, 7, 7, "gone"}};
    const struct size second[] = {{32, 90, 5, "A"}, {48, 30, 2, "B"}, {4096, 1, 0, "new"}};
    struct mw_moment before = moment_make(1000, 1 << 20, first, 3);
    struct mw_moment after = moment_make(1010.5, 3 << 20, second, 3);
    struct mw_difference difference = difference_make(&before, &after, NULL, NULL);
    const struct mw_growth_row *row = row_of(&difference, MW_GROWTH_SIZE, "32");
    assert_non_null(row);
    assert_int_equal(mw_growth_count(row), -10);
    assert_int_equal(mw_growth_bytes(row), -320);
    assert_int_equal(row->after.lost_count - row->before.lost_count, 0);
    row = row_of(&difference, MW_GROWTH_SIZE, "4096");
    assert_non_null(row);
    assert_int_equal(row->before.count, 0);
    assert_int_equal(mw_growth_bytes(row), 4096);
    row = row_of(&difference, MW_GROWTH_SIZE, "64");
    assert_non_null(row);
    assert_int_equal(row->after.count, 0);
    assert_int_equal(row->before.lost_count, 7);
    assert_null(row_of(&difference, MW_GROWTH_KIND, "48 "));
    row = row_of(&difference, MW_GROWTH_KIND, "48 B");
    assert_non_null(row);
    assert_int_equal(mw_growth_count(row), 30); /* of that kind none were there */
    row = row_of(&difference, MW_GROWTH_CATEGORY, "malloc.in_use");
    assert_non_null(row);
    assert_int_equal(mw_growth_bytes(row), 1 << 20);
    assert_true(difference.elapsed_seconds > 10.4 && difference.elapsed_seconds < 10.6);
    assert_true(difference.is_same_process);
    mw_difference_deinit(&difference);
    mw_moment_deinit(&before);
    mw_moment_deinit(&after);
}

static void test_control(void **state)
{
    (void)state;
    const struct size first[] = {{32, 100, 0, "A"}, {64, 100, 0, "B"}};
    const struct size second[] = {{32, 300, 0, "A"}, {64, 200, 0, "B"}};
    const struct size idle[] = {{32, 5, 0, "A"}, {96, 1, 0, "C"}};
    const struct size busy[] = {{32, 195, 0, "A"}, {96, 3, 0, "C"}};
    struct mw_moment moments[4] = {moment_make(1, 4096, first, 2), moment_make(2, 8192, second, 2),
                                   moment_make(1, 4096, idle, 2), moment_make(2, 4096, busy, 2)};
    struct mw_difference difference =
        difference_make(&moments[0], &moments[1], &moments[2], &moments[3]);
    assert_true(difference.has_control);
    const struct mw_growth_row *row = row_of(&difference, MW_GROWTH_SIZE, "32");
    assert_int_equal(mw_growth_count(row), 200 - 190);
    row = row_of(&difference, MW_GROWTH_SIZE, "64");
    assert_int_equal(mw_growth_count(row), 100);
    row = row_of(&difference, MW_GROWTH_SIZE, "96"); /* of the control alone */
    assert_non_null(row);
    assert_int_equal(mw_growth_count(row), -2);
    assert_int_equal(row->before.count, 0);
    mw_difference_deinit(&difference);
    for (int i = 0; i < 4; i++)
        mw_moment_deinit(&moments[i]);
}

/* What a moment cannot say is unknown, not 0. */
static void test_unknown(void **state)
{
    (void)state;
    const struct size sizes[] = {{32, 100, 3, "A"}};
    struct mw_moment before = moment_make(0, 4096, sizes, 1);
    struct mw_moment after = moment_make(5, 8192, sizes, 1);
    after.knows_lost = false;
    after.pid = 8;
    struct mw_difference difference = difference_make(&before, &after, NULL, NULL);
    const struct mw_growth_row *row = row_of(&difference, MW_GROWTH_SIZE, "32");
    assert_true(row->after.lost_count == MW_UNKNOWN && row->before.lost_count == 3);
    assert_true(row->survived_count == MW_UNKNOWN);
    assert_false(difference.is_same_process);
    assert_true(difference.elapsed_seconds < 0);
    mw_difference_deinit(&difference);
    after.has_heap = false;
    difference = difference_make(&before, &after, NULL, NULL);
    row = row_of(&difference, MW_GROWTH_SIZE, "32");
    assert_true(row->after.count == MW_UNKNOWN && row->before.count == 100);
    assert_int_equal(mw_growth_bytes(row), 0);
    mw_difference_deinit(&difference);
    after.rss_bytes = MW_UNKNOWN;
    difference = difference_make(&before, &after, NULL, NULL);
    assert_true(difference.is_mapped);
    row = row_of(&difference, MW_GROWTH_CATEGORY, "file.text");
    assert_int_equal(row->before.bytes, 1 << 20);
    assert_null(row_of(&difference, MW_GROWTH_CATEGORY, "malloc.in_use")); /* nothing mapped */
    mw_difference_deinit(&difference);
    mw_moment_deinit(&before);
    mw_moment_deinit(&after);
}

static void test_empty(void **state)
{
    (void)state;
    struct mw_moment nothing = {.rss_bytes = MW_UNKNOWN}, more = {.rss_bytes = 0};
    struct mw_difference difference = difference_make(&nothing, &more, NULL, NULL);
    assert_int_equal(difference.row_count, 0);
    mw_difference_deinit(&difference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
