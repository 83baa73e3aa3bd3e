/* tests/unit/test_glibc_bounds.c: large and hostile heaps stay linear. What is counted is what a
 * walk asks of the image: bytes and calls, against the size of what it was given; an alarm bounds
 * what it does by itself. Large memory is one piece of bytes mapped many times. */
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7e0000000000, STACKS = 0x7f9000000000;
static const mw_addr MORECORE = 0x7d0000000000;

enum { KIB = 1024, MIB = 1 << 20, SECONDS_MAX = 40, FAMILY = 7 /* 2.36 */ };

/* What was asked of the image. */
static struct {
    const struct mw_image_ops *real;
    uint64_t reads, bytes, questions, pages;
} asked;

static void counting_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                          size_t *got_out)
{
    asked.real->read(image, address, buffer, length, got_out);
    asked.reads++;
    asked.bytes += *got_out;
}

static enum mw_status counting_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                     uint8_t *flags_out, struct mw_error *err)
{
    asked.questions++;
    asked.pages += page_count;
    return asked.real->pages(image, start, page_count, flags_out, err);
}

static void counting_close(struct mw_image *image)
{
    asked.real->close(image);
}

static const struct mw_image_ops counting_ops = {
    .name = "counting",
    .read = counting_read,
    .pages = counting_pages,
    .close = counting_close,
};

struct run {
    struct heap_builder *heap;
    struct mw_image image;
    struct heap_walked walked;
};

/* A small main arena whose pieces the tests extend. */
static struct heap_builder *small_heap(void)
{
    struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
    heap_map(heap, BRK, 132 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + 132 * KIB);
    heap_tcache_new(heap);
    heap_block(heap, 64, MW_BLOCK_TCACHE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    return heap;
}

static struct run walk(struct heap_builder *heap, const char *what)
{
    struct run run = {.heap = heap};
    heap_open(heap, &run.image);
    memset(&asked, 0, sizeof asked);
    asked.real = run.image.ops;
    run.image.ops = &counting_ops;
    run.walked.counts_only = true;
    clock_t started = clock();
    alarm(SECONDS_MAX);
    heap_walk(&run.image, NULL, &run.walked);
    alarm(0);
    printf("# %s: %.3f s, %llu reads of %.1f MiB, %llu questions for %llu pages\n", what,
           (double)(clock() - started) / CLOCKS_PER_SEC, (unsigned long long)asked.reads,
           (double)asked.bytes / MIB, (unsigned long long)asked.questions,
           (unsigned long long)asked.pages);
    const char *wrong = heap_meaning_wrong(&run.image, &run.walked);
    if (wrong || run.walked.status != MW_OK)
        fail_msg("%s: %s", what, wrong ? wrong : run.walked.err.text);
    return run;
}

static void run_end(struct run *run)
{
    heap_walked_deinit(&run->walked);
    mw_image_close(&run->image);
    heap_delete(run->heap);
}

static uint8_t *words_new(uint64_t size)
{
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    return bytes;
}

static uint8_t *present_pages(uint64_t size)
{
    uint8_t *pages = malloc(size / HEAP_PAGE);
    assert_non_null(pages);
    memset(pages, MW_PAGE_PRESENT, size / HEAP_PAGE);
    return pages;
}

static void put(uint8_t *bytes, uint64_t at, uint64_t word)
{
    memcpy(bytes + at, &word, sizeof word);
}

/* 60,000 blocks in regions of their own, as many as the kernel's default limit lets. */
static void test_many_mmapped_blocks(void **state)
{
    (void)state;
    enum { COUNT = 60000, SIZE = 132 * KIB };
    for (int is_used = 0; is_used < 2; is_used++) {
        struct heap_builder *heap = small_heap();
        heap_top(heap);
        uint8_t *bytes = words_new(SIZE), *pages = present_pages(SIZE);
        put(bytes, 8, SIZE | 2);
        put(bytes, 128, is_used ? 0x1234 : 0);
        for (uint64_t i = 0; i < COUNT; i++)
            heap_map_shared(heap, MMAPPED + i * (SIZE + HEAP_PAGE), SIZE, bytes, pages, "");
        heap->n_mmaps = COUNT;
        heap->mmapped_mem = (uint64_t)COUNT * SIZE;
        heap_finish(heap);
        struct run run = walk(heap, is_used ? "60,000 mmapped" : "60,000 mmapped, zero");
        assert_true(run.walked.allocator.reconciled);
        assert_int_equal(run.walked.allocator.mmapped_count, COUNT);
        assert_in_range(asked.reads, COUNT, COUNT * (is_used ? 3u : 9u));
        assert_in_range(asked.bytes, COUNT * 16, (uint64_t)COUNT * HEAP_PAGE * 8);
        run_end(&run);
        free(bytes);
        free(pages);
    }
}

/* Without a place to grow, each 132 KiB come from mmap. apart: every other page is free. */
static void morecore_many(bool apart)
{
    enum { COUNT = 3200, SIZE = 132 * KIB };
    struct heap_builder *heap = small_heap();
    heap_fences(heap, MW_BLOCK_IN_USE);
    uint8_t *bytes = words_new(SIZE), *pages = present_pages(SIZE);
    for (uint64_t at = 0; at < SIZE - 32; at += 64)
        put(bytes, at + 8, (at + 64 > SIZE - 32 ? 32 : 64) | 1);
    put(bytes, SIZE - 24, 17);
    put(bytes, SIZE - 8, 17);
    uint64_t step = apart ? SIZE + HEAP_PAGE : SIZE;
    for (uint64_t i = 0; i < COUNT; i++)
        heap_map_shared(heap, MORECORE + i * step, SIZE, bytes, pages, "");
    heap->arenas[0].system_mem += (uint64_t)COUNT * SIZE;
    heap->arenas[0].flags |= 2;
    mw_addr last = MORECORE - MIB;
    heap_map(heap, last, SIZE, "");
    heap_segment(heap, MW_SEGMENT_MORECORE, last, last + SIZE);
    heap_top(heap);
    heap_finish(heap);
    struct run run = walk(heap, apart ? "3,200 fallbacks, apart" : "3,200 fallbacks, adjacent");
    assert_true(run.walked.allocator.reconciled);
    assert_int_equal(run.walked.allocator.heap_count, COUNT + 2);
    assert_in_range(asked.bytes, (uint64_t)COUNT * SIZE, 5ull * COUNT * SIZE); /* see docs */
    run_end(&run);
    free(bytes);
    free(pages);
}

static void test_many_fallback_segments(void **state)
{
    (void)state;
    morecore_many(true);
    morecore_many(false);
}

/* 100,000 threads, each with a tcache of three blocks. */
static void tcaches_many(bool has_registers)
{
    enum { COUNT = 100000, STEP = 0x290 + 4 * 64, LIST = 64 / 16 - 2, STACK_STEP = 256 };
    const uint64_t size = ((uint64_t)COUNT * STEP + MIB) & ~(uint64_t)(HEAP_PAGE - 1);
    struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
    heap_map(heap, BRK, size, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    uint8_t *bytes = heap_region_of(heap, BRK)->bytes, *stacks = NULL, *pages = NULL;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t at = i * STEP;
        put(bytes, at + 8, 0x290 | 1);
        put(bytes, at + 16 + 2 * LIST, 3);
        mw_addr head = 0;
        for (uint64_t k = 0; k < 4; k++) {
            mw_addr user = at + 0x290 + k * 64 + 16;
            put(bytes, user - 8, 64 | 1);
            if (k == 3)
                break; /* one in use */
            put(bytes, user, head ^ (BRK + user) >> 12);
            head = BRK + user;
        }
        put(bytes, at + 16 + 128 + 8 * LIST, head);
    }
    heap->at = BRK + (uint64_t)COUNT * STEP;
    heap_top(heap);
    if (has_registers) {
        uint64_t stack_size = ((uint64_t)COUNT * STACK_STEP + 2 * HEAP_PAGE) & ~4095ull;
        stacks = words_new(stack_size);
        pages = present_pages(stack_size);
        heap_map_shared(heap, STACKS, stack_size, stacks, pages, "");
        heap->thread_pointers = calloc(COUNT, sizeof *heap->thread_pointers);
        assert_non_null(heap->thread_pointers);
        heap->thread_count = COUNT;
        for (uint64_t i = 0; i < COUNT; i++) {
            heap->thread_pointers[i] = STACKS + HEAP_PAGE + i * STACK_STEP;
            put(stacks, HEAP_PAGE + i * STACK_STEP - 0x48, BRK + i * STEP + 16);
        }
    }
    heap_finish(heap);
    struct run run = walk(heap, has_registers ? "100,000 threads" : "100,000 tcaches, no threads");
    assert_true(run.walked.allocator.reconciled);
    assert_int_equal(run.walked.allocator.tcache_count, 3 * COUNT);
    assert_in_range(asked.reads, COUNT / 100, 20 * COUNT);
    assert_in_range(asked.bytes, size, 12 * size);
    run_end(&run);
    free(stacks);
    free(pages);
}

static void test_many_tcaches(void **state)
{
    (void)state;
    tcaches_many(true);
    tcaches_many(false);
}

/* Nothing is cached, and the one thread says so: no second walk over the blocks. */
static void test_empty_tcache(void **state)
{
    (void)state;
    const uint64_t size = 16 * MIB;
    struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
    heap_map(heap, BRK, size, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    heap_tcache_new(heap);
    while (heap_left(heap) > MIB)
        heap_block(heap, 0x290, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_thread(heap, STACKS, true);
    heap_finish(heap);
    struct run run = walk(heap, "an empty tcache");
    assert_true(run.walked.allocator.reconciled);
    assert_in_range(asked.bytes, size - MIB, size + MIB);
    run_end(&run);
}

/* Blocks of the size of a tcache struct that are none. */
static void test_many_blocks_like_a_tcache(void **state)
{
    (void)state;
    enum { COUNT = 100000, STEP = 0x290 };
    for (int kind = 0; kind < 3; kind++) {
        const uint64_t size = ((uint64_t)COUNT * STEP + MIB) & ~(uint64_t)(HEAP_PAGE - 1);
        struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
        heap_map(heap, BRK, size, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
        uint8_t *bytes = heap_region_of(heap, BRK)->bytes;
        for (uint64_t i = 0; i < COUNT; i++) {
            put(bytes, i * STEP + 8, 0x290 | 1);
            if (kind == 0)
                memset(bytes + i * STEP + 16, 0x11, STEP - 16);
            for (uint64_t bin = 0; kind == 2 && bin < 64; bin++) { /* full lists that lead on */
                bytes[i * STEP + 16 + 2 * bin] = 7;
                put(bytes, i * STEP + 16 + 128 + 8 * bin, BRK + i * STEP + 16);
            }
        }
        heap->at = BRK + (uint64_t)COUNT * STEP;
        heap_top(heap);
        heap_finish(heap);
        struct run run = walk(heap, "blocks like a tcache");
        assert_true(run.walked.allocator.reconciled);
        assert_int_equal(run.walked.allocator.in_use_count, COUNT);
        assert_in_range(asked.bytes, size, 5 * size);
        run_end(&run);
    }
}

/* Fences, then 64 MiB of a foreign sbrk in which every 16 bytes may begin a chain of chunks. */
static void test_gap_of_chunk_like_bytes(void **state)
{
    (void)state;
    const uint64_t gap = 63 * MIB, size = gap + 264 * KIB;
    static const uint64_t sizes[] = {33, 49, 4097, (48 << 10) | 1, (1 << 20) | 1};
    for (size_t kind = 0; kind < sizeof sizes / sizeof *sizes; kind++) {
        struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
        heap_map(heap, BRK, size, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + 132 * KIB);
        heap_fences(heap, MW_BLOCK_IN_USE);
        heap_foreign(heap, BRK + 132 * KIB, gap);
        for (uint64_t at = 0; at < gap - 2 * MIB; at += 16) /* all chains end before the heap */
            put(heap_bytes(heap, BRK + 132 * KIB), at + 8, sizes[kind]);
        heap_segment(heap, MW_SEGMENT_BRK, BRK + 132 * KIB + gap, BRK + size);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        heap_top(heap);
        heap_finish(heap);
        struct run run = walk(heap, "a gap of chunk-like bytes");
        if (sizes[kind] < 100) {
            assert_true(run.walked.allocator.reconciled);
            assert_int_equal(run.walked.allocator.metadata_bytes, gap + 32);
        } else { /* given up */
            assert_non_null(mw_finding_find(&run.walked.findings, "scan-cut-short"));
            assert_false(run.walked.allocator.reconciled);
        }
        assert_in_range(asked.bytes, gap, 20 * gap);
        run_end(&run);
    }
}

/* The main arena is missing memory, and all that there is looks like chunks. */
static void test_morecore_of_chunk_like_bytes(void **state)
{
    (void)state;
    const uint64_t size = 64 * MIB;
    static const uint64_t sizes[] = {33, 49, 4097, 4113, (1 << 20) | 1};
    for (size_t kind = 0; kind < sizeof sizes / sizeof *sizes; kind++) {
        struct heap_builder *heap = small_heap();
        heap_top(heap);
        heap->arenas[0].system_mem += (uint64_t)1 << 40;
        heap_map(heap, MORECORE, size, "");
        for (uint64_t at = 0; at < size; at += 16)
            put(heap_region_of(heap, MORECORE)->bytes, at + 8, sizes[kind]);
        heap_finish(heap);
        struct run run = walk(heap, "morecore of chunk-like bytes");
        assert_false(run.walked.allocator.reconciled);
        assert_in_range(asked.bytes, size, 20 * size);
        run_end(&run);
    }
}

/* malloc claims more mappings than there are: every page of a GiB is looked at once. */
static void test_missing_mmapped_blocks(void **state)
{
    (void)state;
    const uint64_t piece = 16 * MIB, count = 64;
    for (int kind = 0; kind < 3; kind++) {
        struct heap_builder *heap = small_heap();
        heap_top(heap);
        uint8_t *bytes = words_new(piece), *pages = present_pages(piece);
        for (uint64_t at = 0; at < piece; at += HEAP_PAGE) {
            if (kind == 0)
                memset(bytes + at, 0x77, HEAP_PAGE);
            if (kind == 1) /* the start of a block too large, its first page empty */
                put(bytes, at + 8, ((uint64_t)1 << 40) | 2);
        }
        if (kind == 2)
            memset(pages, 0, piece / HEAP_PAGE);
        for (uint64_t i = 0; i < count; i++)
            heap_map_shared(heap, MMAPPED + i * piece, piece, bytes, pages, "");
        heap->n_mmaps = 1000000;
        heap->mmapped_mem = (uint64_t)1 << 40;
        heap_finish(heap);
        struct run run = walk(heap, "missing mmapped blocks");
        assert_false(run.walked.allocator.reconciled);
        assert_non_null(mw_finding_find(&run.walked.findings, "mmapped-not-reconciled"));
        assert_in_range(asked.bytes, 0, (kind == 1 ? 8 : 2) * piece * count);
        run_end(&run);
        free(bytes);
        free(pages);
    }
}

/* A core that lacks what malloc says it has, and calls itself larger than any memory: what it does
 * not hold costs nothing. */
static void test_core_larger_than_memory(void **state)
{
    (void)state;
    const uint64_t vast = (uint64_t)1 << 60;
    struct heap_builder *heap = small_heap();
    heap_top(heap);
    heap_map_shared(heap, 2 * vast, vast, NULL, NULL, "");
    mw_addr block = heap_mmapped(heap, 4 * vast, 256 * KIB, 0, MW_BLOCK_IN_USE);
    heap->n_mmaps = 1000000;
    heap->mmapped_mem = (uint64_t)1 << 40;
    heap_finish(heap);
    heap_put(heap, heap->main_arena + heap->family->system_mem, vast);
    struct run run = {.heap = heap};
    heap_open(heap, &run.image);
    run.image.kind = MW_IMAGE_CORE;
    run.image.can &= ~(unsigned)MW_CAN_PAGES;
    run.walked.counts_only = true;
    alarm(SECONDS_MAX);
    heap_walk(&run.image, NULL, &run.walked);
    alarm(0);
    assert_int_equal(run.walked.status, MW_OK);
    assert_true(block >= 4 * vast);
    assert_int_equal(run.walked.allocator.mmapped_count, 1); /* what comes behind it is found */
    assert_non_null(mw_finding_find(&run.walked.findings, "mmapped-not-reconciled"));
    run_end(&run);
}

/* Nobody has a libc, and the same bytes over and over could be its data. */
static void test_search_for_the_arena_ends(void **state)
{
    (void)state;
    enum { COUNT = 12000 };
    uint8_t *bytes = words_new(MIB);
    struct mw_image_memory_part *parts = calloc(COUNT, sizeof *parts);
    assert_non_null(parts);
    for (size_t i = 0; i < COUNT; i++)
        parts[i] = (struct mw_image_memory_part){
            .mapping = {.start = MMAPPED + i * 2 * MIB,
                        .end = MMAPPED + i * 2 * MIB + MIB,
                        .perms = MW_PERM_READ | MW_PERM_WRITE},
            .bytes = bytes,
        };
    struct mw_image image;
    struct mw_allocator allocator = {0};
    struct mw_error err;
    assert_int_equal(mw_image_open_memory(parts, COUNT, &image, NULL), MW_OK);
    memset(&asked, 0, sizeof asked);
    asked.real = image.ops;
    image.ops = &counting_ops;
    assert_int_equal(mw_heap_walkers[0]->probe(&image, &allocator, &err), MW_NOT_FOUND);
    assert_in_range(asked.bytes, (uint64_t)7 << 30, (uint64_t)9 << 30);
    mw_image_close(&image);
    free(parts);
    free(bytes);
}

/* Each of 2,000 arenas claims the same long list, which ends in a circle. */
static void test_many_arenas_one_list(void **state)
{
    (void)state;
    enum { ARENAS = 2000, CHUNKS = 50000 };
    struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
    const uint64_t size = 4 * MIB;
    heap_map(heap, BRK, size, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    mw_addr first = heap->at;
    for (unsigned i = 0; i < CHUNKS; i++)
        heap_block(heap, 64, MW_BLOCK_FASTBIN);
    heap_top(heap);
    uint64_t head = heap->arenas[0].fastbins[2];
    heap_put(heap, first + 16, (first + 64) ^ (first + 16) >> 12);
    for (uint64_t i = 0; i < ARENAS; i++) {
        heap_arena(heap, FIRST_HEAP + i * (64ull << 20), 8 * KIB);
        heap_top(heap);
        for (unsigned bin = 0; bin < 10; bin++)
            heap->arenas[i + 1].fastbins[bin] = head;
    }
    heap_finish(heap);
    struct run run = walk(heap, "2,000 arenas with one list");
    assert_int_equal(run.walked.allocator.fastbin_count, CHUNKS);
    assert_int_equal(run.walked.allocator.arena_count, ARENAS + 1);
    assert_in_range(asked.reads, ARENAS, 2 * (CHUNKS + ARENAS * 40));
    run_end(&run);
}

/* A segment cut by a foreign sbrk every other page. */
static void test_many_foreign_gaps(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    for (int has_registers = 0; has_registers < 2; has_registers++) {
        struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
        heap_map(heap, BRK, 2ull * COUNT * HEAP_PAGE, "[heap]");
        for (uint64_t i = 0; i < COUNT; i++) {
            mw_addr start = BRK + 2 * i * HEAP_PAGE;
            bool is_last = i == COUNT - 1;
            heap_segment(heap, MW_SEGMENT_BRK, start, start + (is_last ? 8192u : 4096u));
            if (i == 0)
                heap_tcache_new(heap);
            heap_block(heap, 96, i < 7 ? MW_BLOCK_TCACHE : MW_BLOCK_IN_USE);
            if (is_last)
                break;
            heap_fences(heap, MW_BLOCK_IN_USE);
            heap_foreign(heap, start + HEAP_PAGE, HEAP_PAGE);
        }
        heap_top(heap);
        if (has_registers)
            heap_thread(heap, STACKS, true);
        heap_finish(heap);
        struct run run = walk(heap, "4,000 foreign gaps");
        assert_true(run.walked.allocator.reconciled);
        assert_int_equal(run.walked.allocator.heap_count, COUNT);
        assert_int_equal(run.walked.allocator.tcache_count, 7);
        assert_in_range(asked.bytes, COUNT * HEAP_PAGE, 30ull * COUNT * 2 * HEAP_PAGE);
        assert_in_range(asked.pages, COUNT, 5000ull * COUNT);
        run_end(&run);
    }
}

/* Data of other modules, tried before libc's, in which every word looks like main_arena.next: it
 * leads to a near place, or into heaps of threads that lead on and on. */
static void test_data_full_of_candidates(void **state)
{
    (void)state;
    const uint64_t size = 32 * MIB;
    const mw_addr data = 0x7fff40000000; /* above libc: tried first */
    for (int kind = 0; kind < 3; kind++) {
        struct heap_builder *heap = small_heap();
        heap_top(heap);
        heap_arena(heap, FIRST_HEAP, 8 * KIB);
        heap_top(heap);
        heap_map(heap, data, size, "/usr/lib/libc-not.so");
        heap_region_of(heap, data)->inode = 12;
        uint8_t *bytes = heap_region_of(heap, data)->bytes;
        for (uint64_t at = 0; at < size; at += 8) {
            if (kind == 0)
                put(bytes, at, data + at - 2048 - 112);
            else if (kind == 1)
                put(bytes, at, FIRST_HEAP + 48);
            else if (at % 2064 == 0) /* behind bins that are all empty */
                put(bytes, at, at % 4128 ? FIRST_HEAP + 48 : data + at - 2048 - 104);
        }
        heap_finish(heap);
        if (kind > 0) /* a thread's arena that leads to itself */
            heap_put(heap, FIRST_HEAP + 48 + 112 + 2048, FIRST_HEAP + 48);
        struct run run = {.heap = heap};
        heap_open(heap, &run.image);
        alarm(SECONDS_MAX);
        asked.real = run.image.ops;
        asked.reads = 0;
        run.image.ops = &counting_ops;
        heap_walk(&run.image, NULL, &run.walked);
        alarm(0);
        printf("# data full of candidates: %llu reads\n", (unsigned long long)asked.reads);
        assert_in_range(asked.reads, 100, 3 << 20);
        const char *wrong = heap_meaning_wrong(&run.image, &run.walked);
        if (wrong)
            fail_msg("%s", wrong);
        run_end(&run);
    }
}

/* A huge block of which nothing was ever touched. */
static void test_huge_untouched_block(void **state)
{
    (void)state;
    const uint64_t size = (uint64_t)1 << 36, piece = (uint64_t)1 << 30;
    struct heap_builder *heap = small_heap();
    heap_top(heap);
    uint8_t *pages = calloc(1, piece / HEAP_PAGE), *first = words_new(HEAP_PAGE), one = 1;
    assert_non_null(pages);
    put(first, 8, size | 2);
    heap_map_shared(heap, MMAPPED, HEAP_PAGE, first, &one, "");
    heap_map_shared(heap, MMAPPED + HEAP_PAGE, piece - HEAP_PAGE, NULL, pages, "");
    for (uint64_t at = piece; at < size; at += piece)
        heap_map_shared(heap, MMAPPED + at, piece, NULL, pages, "");
    heap->n_mmaps = 1;
    heap->mmapped_mem = size;
    heap_finish(heap);
    struct run run = {.heap = heap};
    heap_open(heap, &run.image);
    alarm(SECONDS_MAX);
    heap_walk(&run.image, NULL, &run.walked);
    alarm(0);
    assert_int_equal(run.walked.status, MW_OK);
    assert_true(run.walked.allocator.reconciled);
    assert_int_equal(run.walked.allocator.mmapped_bytes, size);
    run_end(&run);
    free(pages);
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_mmapped_blocks),
        cmocka_unit_test(test_many_fallback_segments),
        cmocka_unit_test(test_many_tcaches),
        cmocka_unit_test(test_empty_tcache),
        cmocka_unit_test(test_many_blocks_like_a_tcache),
        cmocka_unit_test(test_gap_of_chunk_like_bytes),
        cmocka_unit_test(test_morecore_of_chunk_like_bytes),
        cmocka_unit_test(test_missing_mmapped_blocks),
        cmocka_unit_test(test_core_larger_than_memory),
        cmocka_unit_test(test_search_for_the_arena_ends),
        cmocka_unit_test(test_many_arenas_one_list),
        cmocka_unit_test(test_many_foreign_gaps),
        cmocka_unit_test(test_data_full_of_candidates),
        cmocka_unit_test(test_huge_untouched_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
