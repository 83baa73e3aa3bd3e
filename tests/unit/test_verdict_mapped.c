/* Verdicts over the list of mappings itself: a kind that is mapped again and again, devices. */
#include "base/alloc.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAPS_MAX = 70000 };

static struct world world;
static struct mw_account_piece *pieces;

static int setup(void **state)
{
    (void)state;
    world_init(&world);
    pieces = calloc(MAPS_MAX, sizeof *pieces);
    world.account.pieces = pieces;
    world.image.process.max_map_count = 65530;
    world.account.rows[MW_CATEGORY_STACK_THREADS].count = 1;
    return pieces ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    world_deinit(&world);
    free(pieces);
    return 0;
}

struct made {
    const char *name;
    enum mw_category category;
    uint32_t perms;
    uint64_t size, rss;
};

enum { RW = MW_PERM_READ | MW_PERM_WRITE };

/* count mappings one like the other, a gap behind each. */
static void make(size_t count, struct made made)
{
    struct mw_account *account = &world.account;
    for (size_t i = 0; i < count; i++) {
        struct mw_mapping map = {.start = world.next_map,
                                 .end = world.next_map + made.size,
                                 .perms = made.perms,
                                 .has_vm_flags = true};
        world.next_map += made.size + 4096;
        assert_int_equal(
            mw_mapping_list_add(&world.image.regions, &map, made.name, strlen(made.name)), MW_OK);
        assert_true(account->piece_count < MAPS_MAX);
        pieces[account->piece_count++] =
            (struct mw_account_piece){.start = map.start,
                                      .end = map.end,
                                      .region = (uint32_t)(world.image.regions.count - 1),
                                      .category = made.category,
                                      .owner = "",
                                      .rss_bytes = made.rss};
    }
    uint64_t rss = account->rows[made.category].rss_bytes + count * made.rss;
    world_rss(&world, made.category, rss);
}

/* ---- mapping-leak ---- */

static void test_one_kind_by_the_thousand(void **state)
{
    (void)state;
    make(30, (struct made){"/usr/lib/libx.so", MW_CATEGORY_FILE_TEXT, RW, 64 * KIB, 4096});
    make(2500, (struct made){"", MW_CATEGORY_UNKNOWN, RW, 8 * KIB, 8 * KIB});
    make(2500, (struct made){"", MW_CATEGORY_UNKNOWN, MW_PERM_READ, 8 * KIB, 8 * KIB});
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *leak = &verdicts.items[0];
    assert_string_equal(leak->id, "mapping-leak");
    assert_int_equal(leak->verdict_class, MW_CLASS_GROWING);
    assert_int_equal(leak->basis, MW_BASIS_POSSIBLE);
    assert_int_equal(leak->bytes, 5000 * 8 * KIB);
    assert_non_null(strstr(leak->summary, "candidate: 5,000 of 5,030 mappings"));
    assert_non_null(strstr(leak->summary, "8 KiB, rw-p and r--p, anonymous"));
    assert_true(verdict_says(leak, "at most 65,530"));
    assert_true(verdict_rules_out(leak, "thread-stacks"));
    assert_true(verdict_rules_out(leak, "shared-memory"));
    assert_int_equal(remedy_get(leak, "munmap")->gain_high_bytes, 5000 * 8 * KIB);
    assert_int_equal(verdict_get(&verdicts, "unknown")->bytes, 0);
    assert_null(mw_verdict_find(&verdicts, "healthy"));
    assert_false(known_says(&verdicts, "max_map_count")); /* far from it */
    mw_verdicts_deinit(&verdicts);
}

/* A kind that holds little of the RSS is no headline over what is counted. */
static void test_a_small_kind_is_a_candidate(void **state)
{
    (void)state;
    world_arena(&world, PAGES(900), PAGES(900), PAGES(10), PAGES(100));
    make(5000, (struct made){"", MW_CATEGORY_UNKNOWN, RW, 8 * KIB, 8 * KIB});
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "trimmable-free");
    const struct mw_verdict *leak = verdict_get(&verdicts, "mapping-leak");
    assert_int_equal(leak->verdict_class, MW_CLASS_NEEDED);
    assert_int_equal(leak->basis, MW_BASIS_POSSIBLE);
    mw_verdicts_deinit(&verdicts);
}

/* Near the limit it is said whatever it holds. */
static void test_near_the_limit(void **state)
{
    (void)state;
    for (int near = 0; near < 2; near++) {
        teardown(state);
        setup(state);
        make(1000 + (near ? 400 : 0),
             (struct made){"", MW_CATEGORY_UNKNOWN, RW, 16 * KIB, 4 * KIB});
        world.image.process.max_map_count = 2500;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "mapping-leak") != NULL, near);
        assert_int_equal(known_says(&verdicts, "1,400 of the 2,500 mappings"), near);
        if (near)
            assert_int_equal(verdict_get(&verdicts, "mapping-leak")->bytes, 0);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Threads, allocators and runtimes have thousands of mappings for a reason. */
static void test_what_is_no_kind(void **state)
{
    (void)state;
    static const struct made look_alikes[] = {
        {"", MW_CATEGORY_STACK_THREADS, RW, 1 * MIB, 16 * KIB},
        {"", MW_CATEGORY_MALLOC_IN_USE, RW, 256 * KIB, 256 * KIB},
        {"", MW_CATEGORY_MALLOC_UNSPLIT, RW, 2 * MIB, 256 * KIB},
        {"", MW_CATEGORY_MANAGED_HEAP, RW, 256 * KIB, 256 * KIB},
        {"", MW_CATEGORY_MANAGED_CODE, RW, 64 * KIB, 64 * KIB},
        {"", MW_CATEGORY_ANON_OTHER, 0, 4 * KIB, 0}, /* guards */
    };
    for (size_t i = 0; i < sizeof look_alikes / sizeof *look_alikes; i++) {
        teardown(state);
        setup(state);
        make(34000, look_alikes[i]);
        struct mw_verdicts verdicts = world_evaluate(&world);
        if (mw_verdict_find(&verdicts, "mapping-leak"))
            fail_msg("case %zu", i);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Many mappings, none like the other: half of what is allowed must be used before it is said. */
static void test_no_kind_stands_out(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 5000; i++)
        make(1, (struct made){"", MW_CATEGORY_UNKNOWN, RW, i * 4096, 4096});
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "mapping-leak"));
    mw_verdicts_deinit(&verdicts);
}

static void test_double_mapped_code(void **state)
{
    (void)state;
    make(3000, (struct made){"/memfd:doublemapper", MW_CATEGORY_MANAGED_CODE, RW | MW_PERM_SHARED,
                             64 * KIB, 64 * KIB});
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *leak = verdict_get(&verdicts, "mapping-leak");
    assert_int_equal(leak->bytes, 0); /* the runtime's own */
    assert_false(remedy_get(leak, "DOTNET_EnableWriteXorExecute=0")->has_gain);
    assert_int_equal(verdict_get(&verdicts, "runtime-native")->bytes, 3000 * 64 * KIB);
    mw_verdicts_deinit(&verdicts);
}

static void test_an_allocation_fails(void **state)
{
    (void)state;
    make(2100, (struct made){"/dev/shm/segment", MW_CATEGORY_SHARED_MEMORY, RW | MW_PERM_SHARED,
                             8 * KIB, 8 * KIB});
    world_finish(&world);
    for (long n = 0;; n++) {
        struct mw_verdicts verdicts = {.count = 77};
        mw_alloc_fail_after(n);
        enum mw_status status = mw_verdicts_evaluate(&world.evidence, &verdicts, NULL);
        mw_alloc_fail_after(-1);
        if (status == MW_OK) {
            assert_non_null(mw_verdict_find(&verdicts, "mapping-leak"));
            assert_true(n > 10);
            mw_verdicts_deinit(&verdicts);
            return;
        }
        assert_int_equal(status, MW_NOMEM);
        assert_int_equal(verdicts.count, 77);
        assert_true(n < 500);
    }
}

static void test_without_residency_is_silent(void **state)
{
    (void)state;
    make(5000, (struct made){"", MW_CATEGORY_UNKNOWN, RW, 8 * KIB, MW_UNKNOWN});
    world_finish(&world);
    world.account.has_rss = false;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "mapping-leak"));
    assert_null(mw_verdict_find(&verdicts, "device-memory"));
    mw_verdicts_deinit(&verdicts);
}

/* ---- device-memory ---- */

static void devices(const char *name, uint32_t flags, uint64_t rss)
{
    world_arena(&world, PAGES(0.5), PAGES(0.5), PAGES(0.5), PAGES(90));
    make(16, (struct made){name, MW_CATEGORY_DEVICE, RW | MW_PERM_SHARED, 16 * MIB, rss});
    for (size_t i = 0; i < world.image.regions.count; i++)
        world.image.regions.items[i].vm_flags = flags;
}

static void test_windows_into_a_device(void **state)
{
    (void)state;
    devices("/dev/dri/renderD128", MW_VM_PFNMAP | MW_VM_IO, 0);
    world.image.process.vm_pin = 8 * MIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *device = &verdicts.items[0];
    assert_string_equal(device->id, "device-memory");
    assert_int_equal(device->verdict_class, MW_CLASS_OUTSIDE);
    assert_int_equal(device->basis, MW_BASIS_POSSIBLE); /* by size */
    assert_int_equal(device->bytes, 256 * MIB);
    assert_true(verdict_says(device, "16 mappings of devices"));
    assert_true(verdict_says(device, "8.0 MiB of the process's memory is pinned"));
    assert_false(remedy_get(device, "ask the driver")->has_gain);
    assert_int_equal(verdict_get(&verdicts, "healthy")->bytes,
                     world.account.rss_bytes - PAGES(0.5));
    mw_verdicts_deinit(&verdicts);
}

/* What the kernel counts in the RSS is charged here, and to nothing else. */
static void test_resident_device_memory_counts_once(void **state)
{
    (void)state;
    devices("/dev/nvidia0", 0, 12 * MIB);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *device = verdict_get(&verdicts, "device-memory");
    assert_int_equal(device->bytes, 256 * MIB);
    assert_int_equal(device->basis, MW_BASIS_LIKELY);
    assert_true(verdict_says(device, "192.0 MiB is counted in the RSS"));
    assert_int_equal(verdict_get(&verdicts, "healthy")->bytes, PAGES(90));
    mw_verdicts_deinit(&verdicts);
}

static void test_what_is_no_device(void **state)
{
    (void)state;
    static const char *const names[] = {"anon_inode:[io_uring]", "[vvar]", "/dev/fuse"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        teardown(state);
        setup(state);
        devices(names[i], i == 1 ? MW_VM_PFNMAP : 0, 4 * MIB);
        struct mw_verdicts verdicts = world_evaluate(&world);
        if (mw_verdict_find(&verdicts, "device-memory"))
            fail_msg("%s is called a device", names[i]);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Reserved and inaccessible, as drivers keep address space. */
static void test_reserves_are_nothing(void **state)
{
    (void)state;
    world_arena(&world, PAGES(0.5), PAGES(0.5), PAGES(0.5), PAGES(90));
    make(16, (struct made){"/dev/nvidia-uvm", MW_CATEGORY_DEVICE, MW_PERM_SHARED, GIB, 0});
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "device-memory"));
    mw_verdicts_deinit(&verdicts);
}

static void test_pinned_memory_is_said(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        world_init(&world);
        world_arena(&world, PAGES(1), PAGES(1), PAGES(1), PAGES(99));
        world.image.process.vm_pin = i ? PAGES(40) : PAGES(4);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "40.0 MiB is pinned (VmPin)"), i);
        mw_verdicts_deinit(&verdicts);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_kind_by_the_thousand), TEST(test_a_small_kind_is_a_candidate),
        TEST(test_near_the_limit),           TEST(test_what_is_no_kind),
        TEST(test_no_kind_stands_out),       TEST(test_double_mapped_code),
        TEST(test_an_allocation_fails),      TEST(test_without_residency_is_silent),
        TEST(test_windows_into_a_device),    TEST(test_resident_device_memory_counts_once),
        TEST(test_what_is_no_device),        TEST(test_reserves_are_nothing),
        TEST(test_pinned_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
