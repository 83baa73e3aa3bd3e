/* tests/unit/test_block_list.c: what is noted of a walk comes back, in order, whatever its sizes.
 */
#include "base/alloc.h"
#include "base/random.h"
#include "blocks/groups.h"
#include "blocks/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCKS = 5003 };

static const mw_addr high = 0x7f0000000000, low = 0x10000000;

struct truth {
    struct mw_block blocks[2 * BLOCKS];
    size_t count;
};

/* A segment tiled by blocks of 32 to 4,096 bytes and some of a gigabyte, a third of them free. */
static mw_addr segment_make(struct truth *truth, mw_addr start, uint64_t *random)
{
    mw_addr at = start;
    for (size_t i = 0; i < BLOCKS; i++) {
        struct mw_block *block = &truth->blocks[truth->count++];
        uint64_t size = 32 + 16 * mw_random_below(random, 255);
        if (i % 1000 == 7)
            size = (uint64_t)1 << 30;
        *block = (struct mw_block){at, size,
                                   mw_random_below(random, 3) ? MW_BLOCK_IN_USE : MW_BLOCK_FREE};
        at += size;
    }
    return at;
}

static void feed(struct mw_block_list *list, const struct mw_heap_segment *segment,
                 const struct mw_block *blocks, size_t count)
{
    struct mw_heap_visitor visitor = mw_block_list_visitor(list);
    assert_int_equal(visitor.segment_begin(visitor.user, segment), MW_OK);
    for (size_t i = 0; i < count; i += 37) {
        size_t some = count - i < 37 ? count - i : 37;
        assert_int_equal(visitor.blocks(visitor.user, segment, blocks + i, some), MW_OK);
    }
}

/* Every block in use of `size` (0: of all), ascending, and nothing else. */
static void check(const struct mw_block_list *list, const struct truth *truth, uint64_t size)
{
    struct mw_block_cursor cursor;
    struct mw_listed_block block;
    uint64_t seen = 0, wanted = 0;
    mw_addr last = 0;
    mw_block_cursor_init(&cursor, list, list->wanted_bytes ? 0 : size);
    while (mw_block_cursor_next(&cursor, &block)) {
        assert_true(block.start > last);
        last = block.start;
        size_t at = 0;
        while (at < truth->count && truth->blocks[at].address + 16 != block.start)
            at++;
        assert_true(at < truth->count);
        assert_int_equal(truth->blocks[at].state, MW_BLOCK_IN_USE);
        assert_int_equal(truth->blocks[at].size, block.size_bytes);
        assert_int_equal(block.end - block.start, block.size_bytes - 8);
        assert_false(block.has_shift);
        seen++;
    }
    for (size_t i = 0; i < truth->count; i++)
        wanted += truth->blocks[i].state == MW_BLOCK_IN_USE &&
                  (size == 0 || truth->blocks[i].size == size);
    assert_int_equal(seen, wanted);
}

static void test_blocks_come_back(void **state)
{
    (void)state;
    static struct truth truth;
    uint64_t random = MW_RANDOM_SEED;
    const uint64_t wanted[] = {0, 64, 3408, 3400, 24, (uint64_t)1 << 30, 17};
    truth.count = 0;
    mw_addr high_end = segment_make(&truth, high, &random);
    mw_addr low_end = segment_make(&truth, low, &random);
    const struct mw_heap_segment segments[] = {
        {.start = high, .end = high_end + 32, .kind = MW_SEGMENT_HEAP},
        {.start = low, .end = low_end + 32, .kind = MW_SEGMENT_BRK},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct mw_block_list list = {.wanted_bytes = wanted[i]};
        feed(&list, &segments[0], truth.blocks, BLOCKS);
        feed(&list, &segments[1], truth.blocks + BLOCKS, BLOCKS);
        mw_block_list_sort(&list);
        check(&list, &truth, wanted[i] ? mw_block_size_of(wanted[i], 8) : 0);
        if (wanted[i] == 0)
            check(&list, &truth, 3408); /* one size out of a list of all */
        mw_block_list_deinit(&list);
    }
}

/* A walk that begins anew: its blocks count once, those of the allocator before stay. */
static void test_restart_forgets(void **state)
{
    (void)state;
    static struct truth truth;
    uint64_t random = MW_RANDOM_SEED;
    truth.count = 0;
    mw_addr high_end = segment_make(&truth, high, &random);
    mw_addr low_end = segment_make(&truth, low, &random);
    const struct mw_heap_segment first = {
        .start = high, .end = high_end + 32, .kind = MW_SEGMENT_HEAP};
    const struct mw_heap_segment second = {
        .start = low, .end = low_end + 32, .kind = MW_SEGMENT_BRK};
    struct mw_block_list list = {0};
    struct mw_heap_visitor visitor = mw_block_list_visitor(&list);
    visitor.begin(visitor.user);
    feed(&list, &first, truth.blocks, BLOCKS);
    visitor.begin(visitor.user);
    feed(&list, &second, truth.blocks + BLOCKS, 1234);
    visitor.restart(visitor.user);
    feed(&list, &second, truth.blocks + BLOCKS, BLOCKS);
    mw_block_list_sort(&list);
    check(&list, &truth, 0);
    mw_block_list_deinit(&list);
}

/* One with a mapping of its own ends where that ends; one of musl begins without a header. */
static void test_shapes_of_segments(void **state)
{
    (void)state;
    const struct mw_heap_segment mmapped = {
        .start = high, .end = high + 8192, .kind = MW_SEGMENT_MMAPPED};
    const struct mw_heap_segment slots = {
        .start = low, .end = low + 4096, .kind = MW_SEGMENT_GROUPS};
    const struct mw_block big = {high, 8192, MW_BLOCK_IN_USE},
                          slot = {low + 16, 48, MW_BLOCK_IN_USE};
    struct mw_block_list list = {0};
    struct mw_block_cursor cursor;
    struct mw_listed_block block;
    feed(&list, &mmapped, &big, 1);
    feed(&list, &slots, &slot, 1);
    mw_block_list_sort(&list);
    mw_block_cursor_init(&cursor, &list, 0);
    assert_true(mw_block_cursor_next(&cursor, &block));
    assert_int_equal(block.start, low + 16);
    assert_int_equal(block.end, low + 16 + 44);
    assert_true(block.has_shift);
    assert_true(mw_block_cursor_next(&cursor, &block));
    assert_int_equal(block.start, high + 16);
    assert_int_equal(block.end, high + 8192);
    assert_false(mw_block_cursor_next(&cursor, &block));
    mw_block_list_deinit(&list);
}

static void test_sizes_that_people_give(void **state)
{
    (void)state;
    assert_int_equal(mw_block_size_of(3408, 8), 3408);
    assert_int_equal(mw_block_size_of(3400, 8), 3408); /* usable */
    assert_int_equal(mw_block_size_of(3393, 8), 3408); /* asked for */
    assert_int_equal(mw_block_size_of(1, 8), 32);
    assert_int_equal(mw_block_size_of(44, 4), 48); /* musl: usable */
    assert_int_equal(mw_block_size_of(UINT64_MAX, 8), UINT64_MAX);
}

static void test_groups(void **state)
{
    (void)state;
    struct mw_heap_segment one[] = {{.start = low, .end = low + 64, .kind = MW_SEGMENT_BRK}};
    struct mw_size_row a[] = {{32, 10, 3}, {64, 0, 9}, {4096, 1, 0}},
                       b[] = {{32, 5, 0}, {48, 7, 1}};
    const struct mw_allocator allocators[] = {
        {.segments = one, .segment_count = 1, .sizes = a, .size_count = 3},
        {.segments = one, .segment_count = 1, .sizes = b, .size_count = 2},
    };
    struct mw_block_groups groups;
    assert_int_equal(mw_block_groups_make(allocators, 2, &groups), MW_OK);
    assert_int_equal(groups.count, 3);
    assert_int_equal(groups.block_count, 23);
    assert_int_equal(groups.bytes, 4096 + 15 * 32 + 7 * 48);
    assert_int_equal(groups.items[0].size_bytes, 4096);
    assert_int_equal(groups.items[1].size_bytes, 32);
    assert_int_equal(groups.items[1].count, 15);
    assert_int_equal(groups.items[1].usable_bytes, 24);
    assert_ptr_equal(mw_block_groups_main(&groups), &groups.items[1]); /* several blocks */
    assert_ptr_equal(mw_block_groups_find(&groups, 40), &groups.items[2]);
    assert_null(mw_block_groups_find(&groups, 64));
    mw_block_groups_deinit(&groups);
}

/* Every allocation fails once: an error and no leak, or all blocks. */
static void test_out_of_memory(void **state)
{
    (void)state;
    static struct truth truth;
    uint64_t random = MW_RANDOM_SEED;
    truth.count = 0;
    mw_addr end = segment_make(&truth, high, &random);
    const struct mw_heap_segment segment = {
        .start = high, .end = end + 32, .kind = MW_SEGMENT_HEAP};
    for (long n = 0; n < 3; n++) {
        struct mw_block_list list = {0};
        struct mw_heap_visitor visitor = mw_block_list_visitor(&list);
        mw_alloc_fail_after(n);
        enum mw_status status = visitor.segment_begin(visitor.user, &segment);
        if (status == MW_OK)
            status = visitor.blocks(visitor.user, &segment, truth.blocks, truth.count);
        mw_alloc_fail_after(-1);
        assert_int_equal(status, n < 2 ? MW_NOMEM : MW_OK);
        mw_block_list_deinit(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_come_back),
        cmocka_unit_test(test_restart_forgets),
        cmocka_unit_test(test_shapes_of_segments),
        cmocka_unit_test(test_sizes_that_people_give),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
