/* tests/unit/test_list.c: the estimates of the process list, and the list of this machine. */
#include "proc/mapping.h"
#include "proc/process.h"
#include "session/list.h"
#include "session/trim.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RW = MW_PERM_READ | MW_PERM_WRITE };
#define HEAP ((uint64_t)64 << 20)

static void add(struct mw_mapping_list *maps, mw_addr start, mw_addr end, uint32_t perms)
{
    const struct mw_mapping map = {.start = start, .end = end, .perms = perms};
    assert_int_equal(mw_mapping_list_add(maps, &map, "", 0), MW_OK);
}

static void test_arenas_are_told_by_shape(void **state)
{
    (void)state;
    struct mw_mapping_list maps = {0};
    mw_addr base = 0x7f0000000000;
    add(&maps, base, base + 135168, RW);                     /* an arena: */
    add(&maps, base + 135168, base + HEAP, 0);               /* its reserve */
    add(&maps, base + HEAP, base + 2 * HEAP, RW);            /* a full one */
    add(&maps, base + 3 * HEAP, base + 3 * HEAP + 4096, RW); /* no reserve behind */
    add(&maps, base + 4 * HEAP + 4096, base + 5 * HEAP, RW); /* not aligned */
    add(&maps, base + 6 * HEAP, base + 8 * HEAP, RW);        /* larger than a heap */
    add(&maps, base + 9 * HEAP, base + 9 * HEAP + 4096, RW); /* reserve too short */
    add(&maps, base + 9 * HEAP + 4096, base + 9 * HEAP + 8192, 0);
    add(&maps, base + 11 * HEAP, base + 12 * HEAP, RW | MW_PERM_SHARED);
    static const bool wanted[] = {true, false, true, false, false, false, false, false, false};
    assert_int_equal(maps.count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < maps.count; i++)
        assert_int_equal(mw_list_is_arena(&maps, i), wanted[i]);
    mw_mapping_list_deinit(&maps);
}

static void test_hints(void **state)
{
    (void)state;
    const struct mw_list_row plain = {.rss_bytes = 1000,
                                      .anonymous_bytes = 900,
                                      .file_bytes = 100,
                                      .has_maps = true,
                                      .managed_rss_bytes = MW_UNKNOWN};
    struct mw_list_row row = plain;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "");
    row.arenas_estimated = 64;
    row.arenas_rss_bytes = 600;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "arenas ~64?");
    row.arenas_rss_bytes = 100; /* many and small: no headline */
    mw_list_hint(&row);
    assert_string_equal(row.hint, "");
    row = plain;
    row.managed_rss_bytes = 400;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "mostly outside its runtime");
    row.managed_rss_bytes = 2000; /* read at another moment: says nothing */
    mw_list_hint(&row);
    assert_string_equal(row.hint, "");
    row = plain;
    row.swap_bytes = 1001;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "mostly in swap");
    row = plain;
    row.file_bytes = 501;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "mostly files");
    row.shared_bytes = 501;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "mostly shared memory");
    row.heap_rss_bytes = 700;
    mw_list_hint(&row);
    assert_string_equal(row.hint, "large [heap]");
}

static void test_this_machine(void **state)
{
    (void)state;
    struct mw_context context;
    struct mw_list list;
    struct mw_error err = {0};
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    assert_true(proc_fd >= 0);
    mw_context_init(&context);
    assert_int_equal(mw_list_load(proc_fd, 2, &context, &list, &err), MW_OK);
    bool seen = false;
    for (size_t i = 0; i < list.count; i++) {
        assert_true(i == 0 || list.rows[i].rss_bytes <= list.rows[i - 1].rss_bytes);
        assert_true(list.rows[i].has_maps ? i < 2 : list.rows[i].arenas_estimated == MW_UNKNOWN);
        if (list.rows[i].pid != getpid())
            continue;
        seen = true;
        assert_true(list.rows[i].readable);
        assert_true(list.rows[i].rss_bytes > 100000);
        assert_int_equal(list.rows[i].threads, 1);
    }
    assert_true(seen);
    mw_list_deinit(&list);
    context.canceled = true;
    assert_int_equal(mw_list_load(proc_fd, 2, &context, &list, &err), MW_CANCELED);
    close(proc_fd);
}

/* Ranges come in any order, arena by arena; a walk that begins anew forgets them. */
static void test_trim_ranges(void **state)
{
    (void)state;
    struct mw_trim_ranges ranges = {0};
    struct mw_heap_options options = {0};
    mw_trim_ranges_collect(&ranges, &options);
    options.trim_range(options.trim_user, 0x51000, 0x53000);
    options.trim_restart(options.trim_user);
    options.trim_range(options.trim_user, 0x9000, 0xa000);
    options.trim_begin(options.trim_user); /* of another allocator: only its own are forgotten */
    options.trim_range(options.trim_user, 0x61000, 0x63000);
    options.trim_restart(options.trim_user);
    options.trim_range(options.trim_user, 0x2000, 0x4000); /* goes on where the next one ends */
    options.trim_range(options.trim_user, 0x1000, 0x2000);
    options.trim_range(options.trim_user, 0x3000, 0x4000); /* lies inside another */
    mw_trim_ranges_sort(&ranges);
    assert_int_equal(ranges.count, 2);
    assert_int_equal(ranges.items[0].start, 0x1000);
    assert_int_equal(ranges.items[0].end, 0x4000);
    assert_int_equal(ranges.items[1].start, 0x9000);
    assert_int_equal(ranges.items[1].end, 0xa000);
    assert_int_equal(ranges.status, MW_OK);
    mw_trim_ranges_deinit(&ranges);
    mw_trim_ranges_sort(&ranges); /* of none */
    assert_int_equal(ranges.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arenas_are_told_by_shape),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_trim_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
