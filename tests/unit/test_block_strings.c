/* tests/unit/test_block_strings.c: which blocks hold text, and how often the same. */
#include "base/alloc.h"
#include "blocks/strings.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096 };
static const mw_addr heap_start = 0x5555000000;

struct found {
    bool is_text;
    size_t offset, length;
};

static struct found find(const void *bytes, size_t length, uint64_t size)
{
    struct mw_value_range heap = {heap_start, heap_start + 0x10000000, MW_VALUE_HEAP};
    const struct mw_value_ranges ranges = {&heap, 1};
    struct found found = {0};
    found.is_text = mw_string_find(&ranges, bytes, length, size, &found.offset, &found.length);
    return found;
}

static void expect(const char *bytes, size_t length, size_t offset, size_t text)
{
    struct found found = find(bytes, length, length);
    assert_int_equal(found.length, text);
    assert_int_equal(found.offset, offset);
    assert_int_equal(found.is_text, text > 0);
}
#define EXPECT(bytes, offset, text) expect(bytes, sizeof(bytes) - 1, offset, text)

static void test_what_is_text(void **state)
{
    (void)state;
    EXPECT("hello\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0, 5);
    EXPECT("whole block to its end..", 0, 24);
    EXPECT("\5\0\0\0\0\0\0\0hello world, hello\0\xff\xff\xff\xff", 8, 18);
    EXPECT("gr\xc3\xbc\xc3\x9f"
           "e\0\1\2\3\4\5\6\7\x10\x11\x12\x13\x14",
           0, 7);
    EXPECT("abc\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0, 0); /* too short */
    EXPECT("hello\1world\0\0\0\0\0\0\0\0\0\0\0\0\0", 6, 5);
    EXPECT("\x80\x80\x80\x80\x80\x80\x80\x80\xff\xff\xff\xff\xff\xff\xff\xff", 0, 0);
    /* a name in the front of a large struct is no text block */
    char large[256] = "worker-thread-1";
    memset(large + 64, 7, sizeof large - 64);
    expect(large, sizeof large, 0, 0);
}

/* 0x5555414243 is "CBAUU" and an address of the heap. */
static void test_addresses_are_no_text(void **state)
{
    (void)state;
    uint64_t words[3] = {0x5555414243, 0, 0};
    assert_false(find(words, sizeof words, sizeof words).is_text);
    words[0] = 0x6655414243; /* the same outside of the heap */
    assert_true(find(words, sizeof words, sizeof words).is_text);
}

/* A heap of equal blocks with text by number; count how the numbers repeat. */
struct heap {
    uint8_t *bytes;
    struct mw_image image;
    struct mw_value_ranges ranges;
    struct mw_block_list list;
    struct mw_context context;
    uint64_t size, count;
};

static void heap_open(struct heap *heap, uint64_t size, uint64_t count,
                      unsigned (*number)(uint64_t index))
{
    uint64_t length = (size * count + 2 * PAGE) & ~(uint64_t)(PAGE - 1);
    *heap = (struct heap){.bytes = mw_calloc(1, length), .size = size, .count = count};
    mw_context_init(&heap->context);
    const struct mw_image_memory_part part = {.mapping = {.start = heap_start,
                                                          .end = heap_start + length,
                                                          .perms = MW_PERM_READ | MW_PERM_WRITE,
                                                          .name = "[heap]"},
                                              .bytes = heap->bytes};
    const struct mw_heap_segment segment = {
        .start = heap_start, .end = heap_start + length, .kind = MW_SEGMENT_BRK};
    struct mw_heap_visitor visitor = mw_block_list_visitor(&heap->list);
    assert_int_equal(mw_image_open_memory(&part, 1, &heap->image, NULL), MW_OK);
    assert_int_equal(visitor.segment_begin(visitor.user, &segment), MW_OK);
    for (uint64_t i = 0; i < count; i++) {
        const struct mw_block block = {heap_start + i * size, size, MW_BLOCK_IN_USE};
        char *text = (char *)heap->bytes + i * size + 16;
        if (number(i) != 0)
            snprintf(text, size - 8, "text number %u", number(i));
        else
            memset(text, 1, size - 8);
        assert_int_equal(visitor.blocks(visitor.user, &segment, &block, 1), MW_OK);
    }
    mw_block_list_sort(&heap->list);
}

static struct mw_strings heap_strings(struct heap *heap, unsigned workers)
{
    struct mw_strings strings;
    heap->context.workers = workers;
    const struct mw_strings_input input = {&heap->image, &heap->list, &heap->ranges, 0,
                                           &heap->context};
    assert_int_equal(mw_strings_read(&input, &strings, NULL), MW_OK);
    return strings;
}

static void heap_close(struct heap *heap)
{
    mw_block_list_deinit(&heap->list);
    mw_image_close(&heap->image);
    free(heap->bytes);
}

/* 1 in 2 of text 1, 1 in 4 of text 2 …, the rest none. */
static unsigned halves(uint64_t index)
{
    unsigned number = (unsigned)__builtin_ctzll(index + 1) + 1;
    return number < 6 ? number : 0;
}

static void test_counts_are_exact(void **state)
{
    (void)state;
    enum { COUNT = 200003, SIZE = 32 };
    struct heap heap;
    uint64_t counts[6] = {0}, text_count = 0;
    heap_open(&heap, SIZE, COUNT, halves);
    for (uint64_t i = 0; i < COUNT; i++)
        counts[halves(i)]++;
    for (unsigned i = 1; i < 6; i++)
        text_count += counts[i];
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct mw_strings strings = heap_strings(&heap, workers);
        assert_int_equal(strings.block_count, COUNT);
        assert_int_equal(strings.text_count, text_count);
        assert_int_equal(strings.text_bytes, text_count * SIZE);
        assert_int_equal(strings.distinct, 5);
        assert_int_equal(strings.repeated_count, 5);
        assert_int_equal(strings.wasted_bytes, (text_count - 5) * SIZE);
        assert_false(strings.is_lower_bound);
        assert_int_equal(strings.row_count, 5);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(strings.rows[i].count, counts[i + 1]);
            assert_int_equal(strings.rows[i].length_bytes, 13);
            assert_int_equal(strings.rows[i].sample_block,
                             heap_start + SIZE * (((uint64_t)1 << i) - 1) + 16);
        }
    }
    heap_close(&heap);
}

/* Every third block one text, all others different: more than the table holds. */
static unsigned needle(uint64_t index)
{
    return index % 3 == 0 ? 1 : (unsigned)index + 2;
}

static void test_many_texts_leave_a_lower_bound(void **state)
{
    (void)state;
    enum { COUNT = 600011, SIZE = 32 };
    struct heap heap;
    heap_open(&heap, SIZE, COUNT, needle);
    struct mw_strings strings = heap_strings(&heap, 2);
    assert_true(strings.is_lower_bound);
    assert_int_equal(strings.text_count, COUNT);
    assert_int_equal(strings.repeated_count, 1);
    assert_int_equal(strings.rows[0].count, (COUNT + 2) / 3); /* a frequent one is never dropped */
    assert_true(strings.distinct < COUNT);
    heap_close(&heap);
}

static unsigned always(uint64_t index)
{
    return (unsigned)(index / 2 + 1);
}

/* More repeated texts than rows: the rows are the most wasteful, none twice. */
static void test_rows_are_bounded(void **state)
{
    (void)state;
    struct heap heap;
    heap_open(&heap, 32, 2000, always);
    struct mw_strings strings = heap_strings(&heap, 2);
    assert_int_equal(strings.row_count, MW_STRING_ROWS);
    assert_int_equal(strings.repeated_count, 1000);
    assert_int_equal(strings.wasted_bytes, 1000 * 32);
    for (size_t i = 1; i < strings.row_count; i++)
        assert_true(strings.rows[i - 1].sample_block < strings.rows[i].sample_block);
    heap_close(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_text),
        cmocka_unit_test(test_addresses_are_no_text),
        cmocka_unit_test(test_counts_are_exact),
        cmocka_unit_test(test_many_texts_leave_a_lower_bound),
        cmocka_unit_test(test_rows_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
