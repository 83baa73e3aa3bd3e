/* tests/unit/test_references.c: samples of blocks by size, and words that point into them. */
#include "base/alloc.h"
#include "blocks/sample.h"
#include "graph/references.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, HEAP_PAGES = 8, HEAP_START = 0x10000000, STACK_START = 0x20000000 };
enum { SIZE = 112, COUNT = 31 };

static uint64_t heap[HEAP_PAGES * PAGE / 8], stack[PAGE / 8], shared[PAGE / 8];

static mw_addr chunk_at(size_t i)
{
    return HEAP_START + 1024 + i * SIZE;
}

/* Put a word into the heap so that it lies at this address. */
static void heap_put(mw_addr at, uint64_t word)
{
    heap[(at - HEAP_START) / 8] = word;
}

static void image_open(struct mw_image *image)
{
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = HEAP_START,
                     .end = HEAP_START + sizeof heap,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[heap]"},
         .bytes = heap},
        {.mapping = {.start = STACK_START,
                     .end = STACK_START + sizeof stack,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[stack]"},
         .bytes = stack},
        {.mapping = {.start = STACK_START + 16 * PAGE,
                     .end = STACK_START + 16 * PAGE + sizeof shared,
                     .perms = MW_PERM_READ | MW_PERM_WRITE | MW_PERM_SHARED,
                     .name = ""},
         .bytes = shared},
    };
    assert_int_equal(mw_image_open_memory(parts, 3, image, NULL), MW_OK);
}

static struct mw_references search(void)
{
    mw_addr chunks[COUNT];
    struct mw_image image;
    struct mw_references references = {0};
    for (size_t i = 0; i < COUNT; i++)
        chunks[COUNT - 1 - i] = chunk_at(i) + 16; /* in no order */
    image_open(&image);
    assert_int_equal(mw_references_search(&image, chunks, COUNT, SIZE, SIZE - 8, UINT64_MAX, NULL,
                                          &references, NULL),
                     MW_OK);
    mw_image_close(&image);
    assert_true(references.is_complete);
    assert_int_equal(references.sampled, COUNT);
    assert_int_equal(references.size_bytes, SIZE);
    return references;
}

static int clear_memory(void **state)
{
    (void)state;
    memset(heap, 0, sizeof heap);
    memset(stack, 0, sizeof stack);
    memset(shared, 0, sizeof shared);
    return 0;
}

static void test_nothing_points(void **state)
{
    (void)state;
    assert_int_equal(search().referenced, 0);
}

/* From the stack to a start, from another block into the middle, to the last usable byte. */
static void test_pointers_count_once_each(void **state)
{
    (void)state;
    stack[17] = chunk_at(3) + 16;
    stack[18] = chunk_at(3) + 16;
    heap_put(chunk_at(5) + 24, chunk_at(7) + 16 + 40);
    heap_put(HEAP_START + 64, chunk_at(11) + SIZE + 7);
    assert_int_equal(search().referenced, 3);
}

/* A pointer to itself, to the header, behind the end, and from shared memory do not count. */
static void test_what_does_not_count(void **state)
{
    (void)state;
    heap_put(chunk_at(4) + 32, chunk_at(4) + 16);
    stack[2] = chunk_at(0) + 8;
    stack[3] = chunk_at(COUNT - 1) + SIZE + 8;
    shared[5] = chunk_at(9) + 16;
    assert_int_equal(search().referenced, 0);
}

static void test_too_much_memory_is_incomplete(void **state)
{
    (void)state;
    struct mw_image image;
    struct mw_references references;
    mw_addr chunk = chunk_at(0) + 16;
    image_open(&image);
    assert_int_equal(
        mw_references_search(&image, &chunk, 1, SIZE, SIZE - 8, PAGE, NULL, &references, NULL),
        MW_OK);
    assert_false(references.is_complete);
    assert_int_equal(
        mw_references_search(&image, &chunk, 0, SIZE, SIZE - 8, PAGE, NULL, &references, NULL),
        MW_INVALID);
    mw_image_close(&image);
}

static const struct mw_heap_segment segment = {.kind = MW_SEGMENT_HEAP};

/* Feed n blocks of a size through the visitor. */
static void feed(struct mw_heap_visitor *visitor, uint64_t size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct mw_block block = {HEAP_START + i * size, size, MW_BLOCK_IN_USE};
        assert_int_equal(visitor->blocks(visitor->user, &segment, &block, 1), MW_OK);
    }
}

static void test_sample_is_even(void **state)
{
    (void)state;
    enum { BLOCKS = 42231 };
    struct mw_block_samples *samples = mw_block_samples_new();
    assert_non_null(samples);
    struct mw_heap_visitor visitor = mw_block_samples_visitor(samples);
    visitor.begin(visitor.user);
    feed(&visitor, 64, MW_SAMPLE_FREQUENT); /* not one too many */
    feed(&visitor, 3408, BLOCKS);
    feed(&visitor, (uint64_t)MW_SAMPLE_SIZES * 16, BLOCKS); /* too large to be sampled */
    size_t count = 0, upper_half = 0;
    assert_null(mw_block_samples_of(samples, 0, 64, &count));
    assert_null(mw_block_samples_of(samples, 0, (uint64_t)MW_SAMPLE_SIZES * 16, &count));
    const struct mw_sample_row *row = mw_block_samples_of(samples, 0, 3408, &count);
    assert_non_null(row);
    assert_int_equal(row->usable_bytes, 3400);
    const mw_addr *starts = row->starts;
    assert_int_equal(count, MW_SAMPLE_BLOCKS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal((starts[i] - 16 - HEAP_START) % 3408, 0);
        upper_half += (starts[i] - HEAP_START) / 3408 > BLOCKS / 2;
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(starts[i], starts[k]);
    }
    assert_in_range(upper_half, 8, 24); /* 16 expected; the seed is fixed */
    visitor.begin(visitor.user);        /* of another allocator: both are kept apart */
    feed(&visitor, 3408, BLOCKS);
    visitor.restart(visitor.user);
    assert_null(mw_block_samples_of(samples, 1, 3408, &count));
    assert_ptr_equal(mw_block_samples_of(samples, 0, 3408, &count), row);
    assert_ptr_equal(row->starts, starts);
    feed(&visitor, 3408, MW_SAMPLE_FREQUENT + 5);
    assert_non_null(mw_block_samples_of(samples, 1, 3408, &count));
    assert_int_equal(count, 5);
    visitor.begin(visitor.user);
    visitor.restart(visitor.user);
    assert_null(mw_block_samples_of(samples, 2, 3408, &count));
    mw_block_samples_free(samples);
    mw_block_samples_free(NULL);
}

static void test_allocations_fail(void **state)
{
    (void)state;
    mw_alloc_fail_after(0);
    assert_null(mw_block_samples_new());
    mw_alloc_fail_after(-1);
    struct mw_block_samples *samples = mw_block_samples_new();
    struct mw_heap_visitor visitor = mw_block_samples_visitor(samples);
    visitor.begin(visitor.user);
    feed(&visitor, 48, MW_SAMPLE_FREQUENT);
    struct mw_block block = {HEAP_START, 48, MW_BLOCK_IN_USE};
    mw_alloc_fail_after(0);
    assert_int_equal(visitor.blocks(visitor.user, &segment, &block, 1), MW_NOMEM);
    mw_alloc_fail_after(-1);
    mw_block_samples_free(samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_points, clear_memory),
        cmocka_unit_test_setup(test_pointers_count_once_each, clear_memory),
        cmocka_unit_test_setup(test_what_does_not_count, clear_memory),
        cmocka_unit_test_setup(test_too_much_memory_is_incomplete, clear_memory),
        cmocka_unit_test(test_sample_is_even),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
