/* tests/unit/test_glibc_retention.c: what malloc keeps and why, against figures worked out by hand:
 * pins, trimmed ranges, fragments, contents of free blocks; and what a caller may ask of a walk. */
#include "heap_check.h"

#include "heap/glibc/glibc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000, STACKS = 0x7f9000000000;

enum { KIB = 1024, MIB = 1 << 20, FAMILY = 7 /* 2.36 */ };

struct run {
    struct heap_builder *heap;
    struct mw_image image;
    struct heap_walked walked;
};

static struct heap_builder *main_heap(uint64_t size)
{
    struct heap_builder *heap = heap_new(&heap_families[FAMILY]);
    heap_map(heap, BRK, size, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    return heap;
}

static void run_open(struct run *run, struct heap_builder *heap)
{
    heap_finish(heap);
    *run = (struct run){.heap = heap};
    heap_open(heap, &run->image);
}

static void run_walk(struct run *run)
{
    heap_walk(&run->image, NULL, &run->walked);
    const char *wrong = heap_differs(run->heap, &run->image, &run->walked);
    if (wrong)
        fail_msg("%s", wrong);
}

static void run_end(struct run *run)
{
    heap_walked_deinit(&run->walked);
    mw_image_close(&run->image);
    heap_delete(run->heap);
}

/* One live block of 112 bytes above a MiB that is free: it alone keeps the end of [heap]. */
static void test_one_pin(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(2 * MIB);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_block(heap, MIB, MW_BLOCK_FREE);
    mw_addr pin = heap_block(heap, 112, MW_BLOCK_IN_USE);
    static const char json[] = "{\"a\":1,\"b\":2},{\"c\":3,\"d\":4}";
    memset(heap_bytes(heap, pin + 16), ' ', 112 - 16);
    memcpy(heap_bytes(heap, pin + 16), json, sizeof json - 1);
    mw_addr top = heap_top(heap);
    heap_pages_set(heap, top + 40 * KIB, BRK + 2 * MIB - top - 40 * KIB, 0);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    const struct mw_allocator *allocator = &run.walked.allocator;
    assert_int_equal(allocator->pin_count, 1);
    const struct mw_pin *got = &allocator->pins[0];
    assert_int_equal(got->heap, BRK);
    assert_int_equal(got->block, BRK + 64 + MIB + 16);
    assert_int_equal(got->size_bytes, 112);
    assert_int_equal(got->state, MW_BLOCK_IN_USE);
    assert_int_equal(got->distance_from_top_bytes, 2 * MIB - 64 - MIB - 112);
    uint64_t top_rss = ((top + 40 * KIB + 4095) & ~4095ull) - top;
    assert_int_equal(allocator->arenas[0].top_rss, top_rss);
    assert_int_equal(got->would_release_bytes, MIB + 112 + top_rss);
    assert_int_equal(got->content, MW_CONTENT_JSON);
    run_end(&run);
}

/* Cached blocks pin as live ones do, and a row of them counts as one. */
static void test_pins_that_are_cached(void **state)
{
    (void)state;
    static const enum mw_block_state kinds[] = {MW_BLOCK_TCACHE, MW_BLOCK_FASTBIN};
    for (size_t kind = 0; kind < 2; kind++) {
        struct heap_builder *heap = main_heap(MIB);
        heap_tcache_new(heap);
        heap_block(heap, 512 * KIB, MW_BLOCK_FREE);
        for (int i = 0; i < 3; i++) {
            heap_block(heap, 64, kinds[kind]);
            heap_block(heap, 4096, MW_BLOCK_FREE);
        }
        mw_addr last = heap_block(heap, 96, kinds[kind]);
        heap_top(heap);
        struct run run;
        run_open(&run, heap);
        run_walk(&run);
        assert_int_equal(run.walked.allocator.pin_count, 1);
        const struct mw_pin *got = &run.walked.allocator.pins[0];
        uint64_t top = MIB - (last + 96 - BRK);
        assert_int_equal(got->block, last + 16);
        assert_int_equal(got->state, kinds[kind]);
        assert_int_equal(got->distance_from_top_bytes, top);
        /* With the first three gone 12 KiB more are free, with the fourth half a MiB: twice that
         * of before is what a longer row must be worth. */
        assert_int_equal(got->would_release_bytes, top + 96 + 3 * (4096 + 64) + 512 * KIB);
        run_end(&run);
    }
}

/* Nothing is held where nothing is free below the last block, or only far below. */
static void test_no_pin(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct heap_builder *heap = main_heap(MIB);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        if (kind == 0)
            heap_block(heap, 256 * KIB, MW_BLOCK_FREE);
        for (int i = 0; i < 80; i++) /* more than are looked at */
            heap_block(heap, kind == 0 ? 4096 : 64, MW_BLOCK_IN_USE);
        heap_top(heap);
        struct run run;
        run_open(&run, heap);
        run_walk(&run);
        assert_int_equal(run.walked.allocator.pin_count, 0);
        run_end(&run);
    }
}

/* One of each heap, the largest gain first. */
static void test_pins_are_sorted(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_block(heap, 100 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    const uint64_t sizes[] = {300 * KIB, 700 * KIB, 50 * KIB};
    for (size_t i = 0; i < 3; i++) {
        heap_arena(heap, FIRST_HEAP + i * (64ull << 20), MIB);
        heap_block(heap, sizes[i], MW_BLOCK_FREE);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        mw_addr top = heap_top(heap);
        heap_pages_set(heap, top + 4096, FIRST_HEAP + i * (64ull << 20) + MIB - top - 4096, 0);
    }
    heap_pages_set(heap, BRK + 110 * KIB, MIB - 110 * KIB, 0);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    const struct mw_allocator *allocator = &run.walked.allocator;
    assert_int_equal(allocator->pin_count, 4);
    assert_int_equal(allocator->pins[0].heap, FIRST_HEAP + (64ull << 20));
    assert_int_equal(allocator->pins[1].heap, FIRST_HEAP);
    assert_int_equal(allocator->pins[2].heap, BRK);
    assert_int_equal(allocator->pins[3].heap, FIRST_HEAP + 2 * (64ull << 20));
    run_end(&run);
}

/* Page for page: 48 bytes at the front stay, the last part of a page stays, one byte decides. */
static void test_trimmed_ranges(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_block(heap, 4096 - 48, MW_BLOCK_IN_USE);
    mw_addr exact = heap_block(heap, 48 + 4096, MW_BLOCK_FREE); /* exactly the page behind 48 */
    heap_block(heap, 4096 - 32, MW_BLOCK_IN_USE);               /* next one starts 16 too late */
    mw_addr late = heap_block(heap, 48 + 4096, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    mw_addr large = heap_block(heap, 40000, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    assert_int_equal(exact, BRK + 4096 - 48);
    assert_int_equal((late + 48) % 4096, 16);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    assert_int_equal(run.walked.trim_count, 3);
    assert_int_equal(run.walked.trims[0].address, BRK + 4096);
    assert_int_equal(run.walked.trims[0].size, 4096);
    mw_addr first = (large + 48 + 4095) & ~4095ull, last = (large + 40000) & ~4095ull;
    assert_int_equal(run.walked.trims[1].address, first);
    assert_int_equal(run.walked.trims[1].size, last - first);
    mw_addr kept = (large + 40000 + 64 + 32 + 1 + 4095) & ~4095ull; /* MINSIZE of top and a byte */
    assert_int_equal(run.walked.trims[2].address, kept);
    assert_int_equal(run.walked.trims[2].size, BRK + MIB - kept);
    assert_int_equal(run.walked.allocator.trimmable_bytes,
                     4096 + (last - first) + (BRK + MIB - kept));
    /* What is free, resident, no top and not released. */
    assert_int_equal(run.walked.allocator.fragment_bytes,
                     2 * (48 + 4096) + 40000 - 4096 - (last - first));
    run_end(&run);
}

/* With transparent huge pages the top goes in their steps. */
static void test_trim_of_top_in_huge_steps(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(8 * MIB);
    heap->thp_pagesize = 2 * MIB;
    heap_block(heap, 3 * MIB, MW_BLOCK_IN_USE);
    heap_top(heap);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    assert_int_equal(run.walked.allocator.trimmable_bytes, 4 * MIB);
    assert_int_equal(run.walked.trims[0].address, BRK + 4 * MIB);
    run_end(&run);
}

/* Somebody mapped memory right behind top, or top is not in [heap]: it cannot go. */
static void test_top_off_the_break(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_region_of(heap, BRK)->name[0] = '\0';
    heap->segments[0].at_brk = false;
    heap->segments[0].kind = MW_SEGMENT_MORECORE;
    heap->arenas[0].flags = 2;
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    assert_int_equal(run.walked.allocator.trimmable_bytes, 0);
    run_end(&run);
}

/* What free blocks last held, weighed by their resident bytes; only as a kind. */
static void test_contents_of_free_blocks(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(4 * MIB);
    static const char text[] = "a line of a log that somebody wrote once and freed\n";
    uint64_t free_bytes = 0;
    for (int i = 0; i < 20; i++) {
        mw_addr block = heap_block(heap, 128 * KIB, MW_BLOCK_FREE);
        uint8_t *bytes = heap_bytes(heap, block);
        for (size_t at = 32; at < 128 * KIB; at++)
            bytes[at] = i < 15 ? (uint8_t)text[at % (sizeof text - 1)] : 0;
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        free_bytes += 128 * KIB;
    }
    heap_top(heap);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    const uint64_t *content = run.walked.allocator.content_bytes;
    assert_int_equal(content[MW_CONTENT_TEXT], 15 * 128 * KIB);
    assert_int_equal(content[MW_CONTENT_ZERO], 5 * 128 * KIB);
    uint64_t all = 0;
    for (int i = 0; i < MW_CONTENT_COUNT; i++)
        all += content[i];
    assert_int_equal(all, free_bytes);
    run_end(&run);
}

static void test_without_residency(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_block(heap, 256 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    struct run run;
    run_open(&run, heap);
    run.image.can &= ~(unsigned)MW_CAN_PAGES;
    heap_walk(&run.image, NULL, &run.walked);
    const struct mw_allocator *allocator = &run.walked.allocator;
    assert_int_equal(run.walked.status, MW_OK);
    assert_true(allocator->reconciled);
    assert_true(allocator->trimmable_bytes == MW_UNKNOWN);
    assert_true(allocator->free_resident_bytes == MW_UNKNOWN);
    assert_int_equal(allocator->in_use_bytes, 64);
    assert_int_equal(allocator->pin_count, 0); /* what it would release is not known */
    run_end(&run);
}

/* A visitor that has seen enough, or that wants all of it to stop. */
static enum mw_status stop_here(void *user, const struct mw_heap_segment *segment,
                                const struct mw_block *blocks, size_t count)
{
    (void)segment;
    (void)blocks;
    (void)count;
    if (user)
        atomic_store(&((struct mw_context *)user)->canceled, true);
    return user ? MW_OK : MW_INVALID;
}

static void test_visitor_and_cancel(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct heap_builder *heap = main_heap(MIB);
        while (heap_left(heap) > 64 * KIB)
            heap_block(heap, 32, MW_BLOCK_IN_USE);
        heap_top(heap);
        struct run run;
        run_open(&run, heap);
        struct mw_context context;
        mw_context_init(&context);
        struct mw_heap_visitor visitor = {.user = cancel ? &context : NULL, .blocks = stop_here};
        const struct mw_heap_options options = {.visitors = &visitor, .visitor_count = 1};
        enum mw_status status =
            mw_glibc_walker.walk(&run.image, &options, &context, &run.walked.allocator,
                                 &run.walked.findings, &run.walked.err);
        assert_int_equal(status, cancel ? MW_CANCELED : MW_INVALID);
        run_end(&run);
    }
}

/* The same heap as a thread of aarch64 has it: TLS lies above the thread pointer. */
static void test_tls_above(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_tcache_new(heap);
    heap_block(heap, 64, MW_BLOCK_TCACHE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_thread(heap, STACKS, false);
    heap->thread_pointers[0] = STACKS + 64; /* near the start of its mapping */
    heap_put(heap, STACKS + 64 + 0x28, heap->tcaches[0].chunk + 16);
    struct run run;
    run_open(&run, heap);
    run.image.arch = MW_ARCH_AARCH64;
    run_walk(&run);
    run_end(&run);
}

/* 8 for each CPU; 2.44: the larger of 8 and the CPUs; what arena_max says goes first. */
static void test_arena_limit(void **state)
{
    (void)state;
    static const struct {
        size_t family;
        uint64_t arena_max, online, allowed, want;
    } cases[] = {
        {5, 0, 16, 4, 128},
        {6, 0, 16, 4, 32}, /* 2.34: the affinity mask */
        {7, 0, 16, 4, 32},
        {8, 0, 16, 4, 128},
        {10, 0, 16, 4, 16},
        {10, 0, 4, 4, 8},
        {7, 3, 16, 4, 3},
        {7, 0, 16, MW_UNKNOWN, MW_UNKNOWN},
        {5, 0, MW_UNKNOWN, 4, MW_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heap_builder *heap = heap_new(&heap_families[cases[i].family]);
        heap_map(heap, BRK, MIB, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + MIB);
        heap_top(heap);
        heap->arena_max = cases[i].arena_max;
        struct run run;
        run_open(&run, heap);
        run.image.process.cpus_online = cases[i].online;
        run.image.process.cpus_allowed = cases[i].allowed;
        run_walk(&run);
        assert_true(run.walked.allocator.arena_limit == cases[i].want);
        run_end(&run);
    }
}

static void test_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        const struct heap_family *family = &heap_families[i];
        struct heap_builder *heap = heap_new(family);
        heap_map(heap, BRK, MIB, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + MIB);
        heap_top(heap);
        heap->mmap_threshold = 802816;
        heap->trim_threshold = 1605632;
        heap->arena_max = 4;
        struct run run;
        run_open(&run, heap);
        run_walk(&run);
        const struct mw_heap_parameters *got = &run.walked.allocator.parameters;
        assert_int_equal(got->mmap_threshold, 802816);
        assert_int_equal(got->trim_threshold, 1605632);
        assert_int_equal(got->top_pad, 128 * KIB);
        assert_int_equal(got->arena_max, 4);
        assert_int_equal(got->arena_test, 8);
        assert_int_equal(got->mmaps_max, 65536);
        assert_int_equal(got->tcache_count, family->tcache_count);
        assert_true(got->no_dyn_threshold);
        run_end(&run);
    }
}

/* Two small blocks hold what is free below them however large the top is. */
static void test_pin_under_a_large_top(void **state)
{
    (void)state;
    struct heap_builder *heap = main_heap(MIB);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_block(heap, 80 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    mw_addr last = heap_block(heap, 48, MW_BLOCK_IN_USE);
    heap_top(heap);
    struct run run;
    run_open(&run, heap);
    run_walk(&run);
    assert_int_equal(run.walked.allocator.pin_count, 1);
    assert_int_equal(run.walked.allocator.pins[0].block, last + 16);
    assert_int_equal(run.walked.allocator.pins[0].would_release_bytes,
                     80 * KIB + 64 + 48 + run.walked.allocator.arenas[0].top_rss);
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_pin),
        cmocka_unit_test(test_pins_that_are_cached),
        cmocka_unit_test(test_no_pin),
        cmocka_unit_test(test_pin_under_a_large_top),
        cmocka_unit_test(test_pins_are_sorted),
        cmocka_unit_test(test_trimmed_ranges),
        cmocka_unit_test(test_trim_of_top_in_huge_steps),
        cmocka_unit_test(test_top_off_the_break),
        cmocka_unit_test(test_contents_of_free_blocks),
        cmocka_unit_test(test_without_residency),
        cmocka_unit_test(test_visitor_and_cancel),
        cmocka_unit_test(test_tls_above),
        cmocka_unit_test(test_arena_limit),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
