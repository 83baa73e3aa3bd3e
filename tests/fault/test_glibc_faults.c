/* tests/fault/test_glibc_faults.c: the n-th allocation, read or question about pages of a walk
 * fails, for every n. Nothing leaks (the sanitizers look), nothing is conserved wrongly, and an
 * answer that calls itself reconciled without a finding is the whole truth. */
#include "base/alloc.h"
#include "heap_check.h"

#include "heap/glibc/glibc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20, COUNT_MAX = 20000 };

enum fault { FAULT_READ, FAULT_SHORT_READ, FAULT_GONE, FAULT_PAGES };

/* An image whose n-th read goes wrong. */
static struct {
    const struct mw_image_ops *real;
    enum fault fault;
    long left; /* good ones before the fault; negative: never */
    bool happened;
} injected;

static bool is_due(enum fault fault)
{
    bool hit = injected.fault == fault && injected.left >= 0 && injected.left-- == 0;
    if (hit && fault == FAULT_GONE)
        injected.left = 0; /* and all that follow */
    injected.happened |= hit;
    return hit;
}

static void faulty_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                        size_t *got_out)
{
    *got_out = 0;
    if (is_due(FAULT_READ) || is_due(FAULT_GONE))
        return;
    if (is_due(FAULT_SHORT_READ))
        length /= 2;
    injected.real->read(image, address, buffer, length, got_out);
}

static enum mw_status faulty_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                   uint8_t *flags_out, struct mw_error *err)
{
    if (is_due(FAULT_PAGES))
        return mw_fail(err, MW_OS, "pages: injected");
    return injected.real->pages(image, start, page_count, flags_out, err);
}

static void faulty_close(struct mw_image *image)
{
    injected.real->close(image);
}

static const struct mw_image_ops faulty_ops = {
    .name = "faulty",
    .read = faulty_read,
    .pages = faulty_pages,
    .close = faulty_close,
};

/* shape 0: threads known; 1: unknown; 2: a foreign sbrk; 3: brk fallback. */
static struct heap_builder *build(const struct heap_family *family, int shape)
{
    struct heap_builder *heap = heap_new(family);
    heap_map(heap, BRK, 256 * KIB, "[heap]");
    uint64_t first = shape < 2 ? 256 * KIB : 132 * KIB;
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + first);
    heap_tcache_new(heap);
    for (unsigned i = 0; i < 5; i++) {
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        heap_block(heap, 96, MW_BLOCK_TCACHE);
        heap_block(heap, 9 * KIB, MW_BLOCK_FREE);
    }
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    if (shape >= 2)
        heap_fences(heap, MW_BLOCK_FREE);
    if (shape == 2) {
        heap_foreign(heap, BRK + first, 8 * KIB);
        heap_segment(heap, MW_SEGMENT_BRK, BRK + first + 8 * KIB, BRK + 256 * KIB);
    } else if (shape == 3) {
        heap_map(heap, MMAPPED - (1 << 30), 132 * KIB, "");
        heap_segment(heap, MW_SEGMENT_MORECORE, MMAPPED - (1 << 30),
                     MMAPPED - (1 << 30) + 132 * KIB);
        heap->arenas[0].flags |= 2;
    }
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    if (shape != 1)
        heap_thread(heap, STACKS, true);
    unsigned arena = heap_arena(heap, FIRST_HEAP, 132 * KIB);
    heap_tcache_new(heap);
    heap_block(heap, 128, MW_BLOCK_TCACHE);
    heap_block(heap, heap_left(heap) - 32, MW_BLOCK_IN_USE);
    heap_thread_fences(heap, MW_BLOCK_IN_USE);
    heap_arena_more(heap, arena, FIRST_HEAP + HEAP_MAX, 132 * KIB);
    heap_block(heap, 80 * KIB, MW_BLOCK_IN_USE);
    heap_top(heap);
    if (shape != 1)
        heap_thread(heap, STACKS + (1 << 20), true);
    heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + (1 << 20), 200 * KIB, 4096 - 16, MW_BLOCK_IN_USE);
    heap_finish(heap);
    return heap;
}

static void judge(struct heap_builder *heap, struct mw_image *image, struct heap_walked *walked,
                  const char *what, long n)
{
    const char *wrong = heap_meaning_wrong(image, walked);
    bool says_whole = walked->status == MW_OK && walked->findings.count == 0 &&
                      walked->findings.dropped == 0 && walked->allocator.reconciled;
    if (!wrong && says_whole)
        wrong = heap_differs(heap, image, walked);
    if (wrong)
        fail_msg("glibc %s, %s %ld: %s", heap->family->name, what, n, wrong);
}

/* One walk with the n-th event failing; false when there are not so many. */
static bool walk_with_fault(struct heap_builder *heap, enum fault fault, const char *what, long n)
{
    struct mw_image image;
    struct heap_walked walked = {0};
    heap_open(heap, &image);
    injected.real = image.ops;
    injected.fault = fault;
    injected.left = n;
    injected.happened = false;
    image.ops = &faulty_ops;
    heap_walk(&image, NULL, &walked);
    injected.left = -1;
    if (walked.status != MW_OK && walked.status != MW_NOT_FOUND && walked.status != MW_FAULT)
        fail_msg("%s %ld: status %s", what, n, mw_status_name(walked.status));
    judge(heap, &image, &walked, what, n);
    heap_walked_deinit(&walked);
    mw_image_close(&image);
    return injected.happened;
}

static void sweep(enum fault fault, const char *what)
{
    for (size_t i = 0; i < heap_family_count; i++)
        for (int shape = 0; shape < 4; shape++) {
            struct heap_builder *heap = build(&heap_families[i], shape);
            long n = 0;
            while (n < COUNT_MAX && walk_with_fault(heap, fault, what, n))
                n++;
            assert_in_range(n, 5, COUNT_MAX - 1);
            heap_delete(heap);
        }
}

static void test_nth_read_fails(void **state)
{
    (void)state;
    sweep(FAULT_READ, "read");
}

static void test_nth_read_is_short(void **state)
{
    (void)state;
    sweep(FAULT_SHORT_READ, "short read");
}

static void test_target_exits_at_nth_read(void **state)
{
    (void)state;
    sweep(FAULT_GONE, "exit at read");
}

static void test_nth_question_for_pages_fails(void **state)
{
    (void)state;
    sweep(FAULT_PAGES, "pages");
}

static void test_nth_allocation_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int shape = 0; shape < 4; shape++) {
            struct heap_builder *heap = build(&heap_families[i], shape);
            struct mw_image image;
            heap_open(heap, &image);
            long n = 0, failures = 0;
            for (bool whole = false; !whole && n < COUNT_MAX; n++) {
                struct heap_walked walked = {0};
                mw_alloc_fail_after(n);
                heap_walk(&image, NULL, &walked);
                mw_alloc_fail_after(-1);
                assert_true(walked.status == MW_OK || walked.status == MW_NOMEM);
                failures += walked.status == MW_NOMEM;
                assert_true(walked.status == MW_OK || walked.err.code == MW_NOMEM);
                judge(heap, &image, &walked, "allocation", n);
                whole = walked.status == MW_OK && walked.findings.dropped == 0;
                heap_walked_deinit(&walked);
            }
            assert_in_range(failures, 5, COUNT_MAX - 1);
            assert_true(n < COUNT_MAX);
            mw_image_close(&image);
            heap_delete(heap);
        }
}

/* The same for the cheap question whether there is a glibc at all. */
static void test_probe_with_faults(void **state)
{
    (void)state;
    struct heap_builder *heap = build(&heap_families[7], 0);
    for (long n = 0; n < 200; n++) {
        struct mw_image image;
        heap_open(heap, &image);
        struct mw_allocator allocator = {0};
        struct mw_error err = {0};
        mw_alloc_fail_after(n);
        enum mw_status status = mw_glibc_walker.probe(&image, &allocator, &err);
        mw_alloc_fail_after(-1);
        assert_true(status == MW_OK || (status == MW_NOMEM && err.code == MW_NOMEM));
        if (status == MW_OK)
            assert_string_equal(allocator.kind, "glibc");
        injected.real = image.ops;
        injected.fault = FAULT_READ;
        injected.left = n;
        image.ops = &faulty_ops;
        status = mw_glibc_walker.probe(&image, &allocator, &err);
        assert_true(status == MW_OK || status == MW_NOT_FOUND);
        mw_image_close(&image);
    }
    heap_delete(heap);
}

int main(void)
{
    injected.left = -1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nth_read_fails),
        cmocka_unit_test(test_nth_read_is_short),
        cmocka_unit_test(test_target_exits_at_nth_read),
        cmocka_unit_test(test_nth_question_for_pages_fails),
        cmocka_unit_test(test_nth_allocation_fails),
        cmocka_unit_test(test_probe_with_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
