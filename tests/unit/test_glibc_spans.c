/* tests/unit/test_glibc_spans.c: a heap that is read in parts, by several threads and under many
 * stops, gives the same answer as one that is read at once; one that changes in between gives one
 * that makes sense. Spans are a few pages here, so small heaps have many; blocks in use are full of
 * what looks like chunks, so that guesses go wrong. */
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20, SECONDS_MAX = 120, HEAP_SLOTS = 5, MMAP_SLOTS = 4 };

/* xorshift64*: the same everywhere. */
static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1du >> 11) % limit;
}

/* Old headers inside of a block that is in use: a chain of them that leads nowhere. */
static void fill_with_lures(struct heap_builder *heap, mw_addr chunk, uint64_t size, bool is_thread)
{
    uint64_t step = 32 + 16 * random_below(4);
    for (uint64_t at = 32 + 16 * random_below(3); at + 64 < size; at += step)
        heap_put(heap, chunk + at + 8, step | 1 | (is_thread ? 4 : 0));
}

static uint64_t random_size(void)
{
    switch (random_below(16)) {
    case 0:
        return 1024 + 16 * random_below(1024);
    case 1:
        return 4096 + 16 * random_below(256);
    case 2:
        return 64 * KIB + 16 * random_below(2048);
    default:
        return 32 + 16 * random_below(20);
    }
}

/* Random blocks until about `rest` bytes of the segment are left; the last one is in use. */
static void fill(struct heap_builder *heap, uint64_t rest, bool is_thread)
{
    bool was_free = false, has_tcache = heap->tcache_count > 0 && heap->family->tcache_chunk;
    while (heap_left(heap) > rest) {
        uint64_t size = random_size(), kind = random_below(10);
        if (size + 64 > heap_left(heap))
            size = 32;
        enum mw_block_state state = MW_BLOCK_IN_USE;
        if (kind < 3 && !was_free && heap->arenas[heap->arena].free_count < 2000)
            state = MW_BLOCK_FREE;
        else if (kind == 3 && size <= 128)
            state = MW_BLOCK_FASTBIN;
        else if (kind == 4 && size <= 352 && has_tcache &&
                 heap->tcaches[heap->tcache_count - 1].counts[size / 16 - 2] < 7)
            state = MW_BLOCK_TCACHE;
        mw_addr chunk = heap_block(heap, size, state);
        was_free = state == MW_BLOCK_FREE;
        if (size >= 1024 && !was_free)
            fill_with_lures(heap, chunk, size, is_thread);
    }
    if (was_free)
        heap_block(heap, 32, MW_BLOCK_IN_USE);
}

static void main_arena_build(struct heap_builder *heap)
{
    uint64_t gaps = random_below(3), sizes[3], total = 0, gap = 3 * HEAP_PAGE;
    for (uint64_t i = 0; i <= gaps; i++)
        total += sizes[i] = (4 + random_below(60)) * HEAP_PAGE;
    heap_map(heap, BRK, total + gaps * gap, "[heap]");
    mw_addr at = BRK;
    for (uint64_t i = 0; i <= gaps; i++) {
        heap_segment(heap, MW_SEGMENT_BRK, at, at + sizes[i]);
        if (i == 0)
            heap_tcache_new(heap);
        fill(heap, i < gaps ? 128 : 128 + random_below(sizes[i] / 2), false);
        at += sizes[i];
        if (i == gaps)
            break;
        heap_fences(heap, MW_BLOCK_IN_USE);
        heap_foreign(heap, at, gap);
        at += gap;
    }
    heap_top(heap);
    heap_thread(heap, STACKS, true);
}

/* Some arenas of one heap or two, in places that another heap of the same process may have too. */
static void thread_arenas_build(struct heap_builder *heap)
{
    unsigned slot = (unsigned)random_below(2), arena = 0;
    for (; slot < HEAP_SLOTS; slot += 1 + (unsigned)random_below(3)) {
        mw_addr start = FIRST_HEAP + (mw_addr)slot * HEAP_MAX;
        uint64_t size = (4 + random_below(40)) * HEAP_PAGE;
        bool is_more = arena != 0 && random_below(2);
        if (is_more)
            heap_arena_more(heap, arena, start, size);
        else
            arena = heap_arena(heap, start, size);
        fill(heap, 128 + random_below(size / 2), true);
        bool is_full = slot + 1 < HEAP_SLOTS && random_below(3) == 0;
        if (!is_full) {
            heap_top(heap);
            arena = 0;
            continue;
        }
        heap_block(heap, heap_left(heap) - 32, MW_BLOCK_IN_USE);
        heap_thread_fences(heap, MW_BLOCK_IN_USE);
        heap_arena_more(heap, arena, FIRST_HEAP + (mw_addr)++slot * HEAP_MAX, 8 * HEAP_PAGE);
        fill(heap, 512, true);
        heap_top(heap);
        arena = 0;
    }
}

static struct heap_builder *random_heap(const struct heap_family *family, uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    struct heap_builder *heap = heap_new(family);
    main_arena_build(heap);
    thread_arenas_build(heap);
    for (uint64_t slot = 0; slot < MMAP_SLOTS; slot++) {
        uint64_t size = (33 + random_below(20)) * HEAP_PAGE;
        uint64_t offset = random_below(2) ? 0 : ((uint64_t)HEAP_PAGE << random_below(4)) - 16;
        if (random_below(3))
            heap_mmapped(heap, MMAPPED + (slot << 20), size, offset, MW_BLOCK_IN_USE);
    }
    heap_finish(heap);
    return heap;
}

static uint64_t count_from_environment(uint64_t usual)
{
    const char *text = getenv("MW_TEST_SPANS");
    return text ? strtoull(text, NULL, 10) : usual;
}

static const uint64_t span_sizes[] = {HEAP_PAGE, 2 * HEAP_PAGE, 16 * HEAP_PAGE, 0};
enum { SPAN_SIZES = sizeof span_sizes / sizeof *span_sizes };

/* As it was built, however it is cut and by however many it is read. */
static void test_spans_make_no_difference(void **state)
{
    (void)state;
    uint64_t count = count_from_environment(2);
    for (uint64_t i = 0; i < count * heap_family_count * SPAN_SIZES; i++) {
        struct heap_builder *heap =
            random_heap(&heap_families[i / SPAN_SIZES % heap_family_count], i / SPAN_SIZES);
        struct mw_context context;
        struct mw_image image;
        mw_context_init(&context);
        context.workers = 1 + 3 * (unsigned)(i / SPAN_SIZES % 2);
        heap_open(heap, &image);
        struct heap_walked walked = {.span_bytes = span_sizes[i % SPAN_SIZES]};
        alarm(SECONDS_MAX);
        heap_walk(&image, &context, &walked);
        alarm(0);
        const char *wrong = heap_meaning_wrong(&image, &walked);
        wrong = wrong ? wrong : heap_differs(heap, &image, &walked);
        if (wrong || mw_finding_find(&walked.findings, "heap-damaged"))
            fail_msg("heap %llu of glibc %s in spans of %llu by %u: %s",
                     (unsigned long long)(i / SPAN_SIZES), heap->family->name,
                     (unsigned long long)walked.span_bytes, context.workers,
                     wrong ? wrong : "damage was found where none is");
        heap_walked_deinit(&walked);
        mw_image_close(&image);
        heap_delete(heap);
    }
}

/* -- damage ---------------------------------------------------------------------------------- */

/* Overwrite the size in some headers of blocks of arenas. */
static void damage(struct heap_builder *heap)
{
    static const uint64_t words[] = {0, 1, 0x21, 0x31, 0x1001, 0xdeadbeefdeadbeef, 0x41414141};
    for (uint64_t i = 1 + random_below(4); i > 0; i--) {
        const struct heap_expect *victim = &heap->expects[random_below(heap->expect_count)];
        if (victim->block.state <= MW_BLOCK_FREE && victim->block.address < MMAPPED &&
            victim->block.size % 16 == 0)
            heap_put(heap, victim->block.address + 8, words[random_below(7)]);
    }
}

/* Blocks that were not read side by side are one. */
static void skipped_merge(struct heap_walked *walked)
{
    size_t kept = 0;
    for (size_t i = 0; i < walked->block_count; i++) {
        struct heap_expect *last = kept ? &walked->blocks[kept - 1] : NULL;
        const struct heap_expect *block = &walked->blocks[i];
        if (last && last->segment == block->segment && block->block.state == MW_BLOCK_SKIPPED &&
            last->block.state == MW_BLOCK_SKIPPED)
            last->block.size += block->block.size;
        else
            walked->blocks[kept++] = *block;
    }
    walked->block_count = kept;
}

static bool block_differs(const struct mw_block *a, const struct mw_block *b)
{
    return a->address != b->address || a->size != b->size || a->state != b->state;
}

static void damaged_walk(struct heap_builder *heap, uint64_t span_bytes, unsigned workers,
                         struct heap_walked *walked)
{
    struct mw_context context;
    struct mw_image image;
    mw_context_init(&context);
    context.workers = workers;
    heap_open(heap, &image);
    *walked = (struct heap_walked){.span_bytes = span_bytes};
    alarm(SECONDS_MAX);
    heap_walk(&image, &context, walked);
    alarm(0);
    const char *wrong = heap_meaning_wrong(&image, walked);
    if (wrong)
        fail_msg("glibc %s in spans of %llu: %s", heap->family->name,
                 (unsigned long long)span_bytes, wrong);
    skipped_merge(walked);
    mw_image_close(&image);
}

/* Whatever is damaged, all ways to cut the heap skip the same bytes. */
static void test_damage_is_the_same_in_spans(void **state)
{
    (void)state;
    uint64_t count = count_from_environment(2);
    for (uint64_t i = 0; i < count * heap_family_count; i++) {
        struct heap_builder *heap = random_heap(&heap_families[i % heap_family_count], 1000 + i);
        struct heap_walked whole, parts;
        damage(heap);
        damaged_walk(heap, 0, 1, &whole);
        for (size_t k = 0; k < 2 * (SPAN_SIZES - 1); k++) {
            damaged_walk(heap, span_sizes[k / 2], k % 2 ? 4 : 1, &parts);
            assert_int_equal(whole.status, parts.status);
            for (size_t n = 0; n < whole.block_count && n < parts.block_count; n++)
                if (block_differs(&whole.blocks[n].block, &parts.blocks[n].block))
                    fail_msg("heap %llu in spans of %llu: block %llx+%llx in state %d, else "
                             "%llx+%llx in state %d",
                             (unsigned long long)i, (unsigned long long)span_sizes[k / 2],
                             (unsigned long long)parts.blocks[n].block.address,
                             (unsigned long long)parts.blocks[n].block.size,
                             (int)parts.blocks[n].block.state,
                             (unsigned long long)whole.blocks[n].block.address,
                             (unsigned long long)whole.blocks[n].block.size,
                             (int)whole.blocks[n].block.state);
            assert_int_equal(whole.block_count, parts.block_count);
            heap_walked_deinit(&parts);
        }
        heap_walked_deinit(&whole);
        heap_delete(heap);
    }
}

/* -- stops ----------------------------------------------------------------------------------- */

/* An image that is another one after each stop. */
static struct {
    struct mw_image *images;
    size_t count, now;
    unsigned stops, stops_max;
    struct mw_image_ops ops;
} moving;

static enum mw_status moving_stop(struct mw_image *image, struct mw_error *err)
{
    (void)image;
    moving.stops++;
    if (moving.stops > moving.stops_max)
        return mw_fail(err, MW_GONE, "it does not end");
    return MW_OK;
}

static uint64_t moving_resume(struct mw_image *image)
{
    (void)image;
    return 0;
}

/* What this image knows of memory becomes that of the next one. */
static enum mw_status moving_refresh_ranges(struct mw_image *image, struct mw_error *err)
{
    (void)err;
    moving.now = (moving.now + 1) % moving.count;
    image->regions = moving.images[moving.now].regions;
    image->threads = moving.images[moving.now].threads;
    image->thread_count = moving.images[moving.now].thread_count;
    image->state = moving.images[moving.now].state;
    return MW_OK;
}

static void moving_walk(struct mw_image *images, size_t count, struct mw_context *context,
                        struct heap_walked *walked, struct mw_image *image)
{
    moving.images = images;
    moving.count = count;
    moving.now = 0;
    moving.stops = 0;
    moving.stops_max = 20000;
    moving.ops = *images[0].ops;
    moving.ops.stop = moving_stop;
    moving.ops.resume = moving_resume;
    moving.ops.refresh_ranges = moving_refresh_ranges;
    *image = images[0];
    image->ops = &moving.ops;
    image->kind = MW_IMAGE_LIVE;
    context->pause_ns_max = 1; /* a span, or one for each thread, under each stop */
    assert_int_equal(mw_image_stop(image, NULL), MW_OK);
    alarm(SECONDS_MAX);
    heap_walk(image, context, walked);
    alarm(0);
    if (image->stopped)
        mw_image_resume(image);
}

/* A heap that stays as it is, read under many stops, is exact. */
static void test_stops_make_no_difference(void **state)
{
    (void)state;
    uint64_t count = count_from_environment(2);
    for (uint64_t i = 0; i < count * heap_family_count; i++) {
        struct heap_builder *heap = random_heap(&heap_families[i % heap_family_count], 2000 + i);
        struct mw_context context;
        struct mw_image still, image;
        mw_context_init(&context);
        context.workers = 1 + (unsigned)random_below(4);
        heap_open(heap, &still);
        struct heap_walked walked = {.span_bytes = span_sizes[random_below(3)]};
        moving_walk(&still, 1, &context, &walked, &image);
        const char *wrong = heap_meaning_wrong(&image, &walked);
        wrong = wrong ? wrong : heap_differs(heap, &image, &walked);
        if (wrong || mw_finding_find(&walked.findings, "heap-damaged"))
            fail_msg("heap %llu of glibc %s in spans of %llu under %u stops: %s",
                     (unsigned long long)i, heap->family->name,
                     (unsigned long long)walked.span_bytes, moving.stops,
                     wrong ? wrong : "damage was found where none is");
        heap_walked_deinit(&walked);
        mw_image_close(&still);
        heap_delete(heap);
    }
}

/* What must hold of an answer that is of no one moment. */
static const char *answer_wrong(const struct heap_walked *walked)
{
    const struct mw_allocator *allocator = &walked->allocator;
    mw_addr last = 0;
    if (walked->status != MW_OK)
        return walked->err.text;
    if (walked->broken)
        return walked->broken;
    for (size_t i = 0; i < allocator->segment_count; i++) {
        const struct mw_heap_segment *segment = &allocator->segments[i];
        const struct mw_split *split = &segment->split;
        if (segment->start < last || segment->start >= segment->end)
            return "segments lie over each other, or are empty";
        last = segment->end;
        if (split->in_use_bytes + split->free_bytes + split->metadata_bytes !=
            segment->end - segment->start)
            return "a segment is not conserved";
        if (segment->arena != walked->ended[i].arena)
            return "a segment was shown as another arena's";
        if (segment->arena != MW_ARENA_NONE && segment->arena >= allocator->arena_count)
            return "a segment of no arena";
    }
    return NULL;
}

/* Two or three heaps take turns: everything comes, goes, grows, shrinks, and is not what it was. */
static void test_heaps_that_change_between_stops(void **state)
{
    (void)state;
    enum { TURNS = 3 };
    uint64_t count = count_from_environment(4);
    for (uint64_t i = 0; i < count * heap_family_count; i++) {
        struct heap_builder *heaps[TURNS];
        struct mw_image images[TURNS], image;
        size_t turns = 2 + i % 2;
        for (size_t k = 0; k < turns; k++) {
            heaps[k] = random_heap(&heap_families[i % heap_family_count], 3000 + TURNS * i + k);
            heap_open(heaps[k], &images[k]);
        }
        struct mw_context context;
        mw_context_init(&context);
        context.workers = 1 + (unsigned)random_below(4);
        struct heap_walked walked = {.span_bytes = span_sizes[random_below(3)]};
        moving_walk(images, turns, &context, &walked, &image);
        const char *wrong = answer_wrong(&walked);
        if (wrong)
            fail_msg("heaps %llu of glibc %s in spans of %llu under %u stops: %s",
                     (unsigned long long)i, heaps[0]->family->name,
                     (unsigned long long)walked.span_bytes, moving.stops, wrong);
        heap_walked_deinit(&walked);
        for (size_t k = 0; k < turns; k++) {
            mw_image_close(&images[k]);
            heap_delete(heaps[k]);
        }
    }
}

/* -- bounds ---------------------------------------------------------------------------------- */

/* What was asked of the image. */
static struct {
    const struct mw_image_ops *real;
    _Atomic uint64_t bytes, questions;
} asked;

static void counting_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                          size_t *got_out)
{
    asked.real->read(image, address, buffer, length, got_out);
    asked.bytes += *got_out;
}

static enum mw_status counting_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                     uint8_t *flags_out, struct mw_error *err)
{
    asked.questions++;
    return asked.real->pages(image, start, page_count, flags_out, err);
}

static void counted_walk(struct heap_builder *heap, unsigned workers, uint64_t budget_bytes,
                         struct heap_walked *walked)
{
    struct mw_context context;
    struct mw_image image;
    struct mw_image_ops ops;
    mw_context_init(&context);
    context.workers = workers;
    context.memory_budget_bytes = budget_bytes;
    heap_open(heap, &image);
    asked.real = image.ops;
    asked.bytes = asked.questions = 0;
    ops = *image.ops;
    ops.read = counting_read;
    ops.pages = counting_pages;
    image.ops = &ops;
    alarm(SECONDS_MAX);
    heap_walk(&image, &context, walked);
    alarm(0);
    const char *wrong = heap_meaning_wrong(&image, walked);
    if (wrong || walked->status != MW_OK)
        fail_msg("%s", wrong ? wrong : walked->err.text);
    mw_image_close(&image);
}

/* Behind each gap that somebody else's sbrk left the rest is not read for nothing. */
static void test_many_gaps_in_a_large_heap(void **state)
{
    (void)state;
    enum { GAPS = 100, PART = 1 << 20 };
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct heap_builder *heap = heap_new(&heap_families[7]);
        heap_map(heap, BRK, (uint64_t)(GAPS + 1) * PART, "[heap]");
        for (uint64_t i = 0; i <= GAPS; i++) {
            mw_addr start = BRK + i * PART;
            heap_segment(heap, MW_SEGMENT_BRK, start,
                         start + PART - (i < GAPS ? (uint64_t)HEAP_PAGE : 0));
            if (i == 0)
                heap_tcache_new(heap);
            while (heap_left(heap) > 1024)
                heap_block(heap, 512, MW_BLOCK_IN_USE);
            if (i == GAPS)
                break;
            heap_fences(heap, MW_BLOCK_IN_USE);
            heap_foreign(heap, start + PART - HEAP_PAGE, HEAP_PAGE);
        }
        heap_top(heap);
        heap_thread(heap, STACKS, true);
        heap_finish(heap);
        struct heap_walked walked = {.counts_only = true};
        counted_walk(heap, workers, 0, &walked);
        assert_true(walked.allocator.reconciled);
        assert_int_equal(walked.allocator.heap_count, GAPS + 1);
        assert_in_range(asked.bytes, (uint64_t)GAPS * PART, (3 + workers) * (GAPS + 1ull) * PART);
        heap_walked_deinit(&walked);
        heap_delete(heap);
    }
}

/* Damage, and behind it nothing that was ever written: stepped over, not looked through. */
static void test_damage_before_a_reserve(void **state)
{
    (void)state;
    const uint64_t size = (uint64_t)64 << 30;
    uint8_t *pages = calloc(size / HEAP_PAGE, 1);
    uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_non_null(pages);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    struct heap_builder *heap = heap_new(&heap_families[7]);
    heap_map_shared(heap, BRK, size, bytes, pages, "[heap]");
    heap_pages_set(heap, BRK, HEAP_PAGE, MW_PAGE_PRESENT);
    heap_pages_set(heap, BRK + size - HEAP_PAGE, HEAP_PAGE, MW_PAGE_PRESENT);
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    mw_addr victim = heap_block(heap, heap_left(heap) - 1024, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_put(heap, victim + 8, 0);
    heap_finish(heap);
    struct heap_walked walked = {.counts_only = true};
    counted_walk(heap, 1, 0, &walked);
    assert_non_null(mw_finding_find(&walked.findings, "heap-damaged"));
    assert_in_range(asked.questions, 1, 40 * size / (16 << 20)); /* place by place: 80 */
    heap_walked_deinit(&walked);
    heap_delete(heap);
    munmap(bytes, size);
    free(pages);
}

/* What would not fit into memory is left, and that is said. */
static void test_more_blocks_than_memory(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct heap_builder *heap = random_heap(&heap_families[7], 7);
        struct heap_walked walked = {.span_bytes = HEAP_PAGE};
        counted_walk(heap, workers, 400, &walked);
        assert_non_null(mw_finding_find(&walked.findings, "heap-unfinished"));
        assert_false(walked.allocator.reconciled);
        assert_true(walked.allocator.skipped_bytes > 0);
        heap_walked_deinit(&walked);
        heap_delete(heap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_make_no_difference),
        cmocka_unit_test(test_damage_is_the_same_in_spans),
        cmocka_unit_test(test_stops_make_no_difference),
        cmocka_unit_test(test_heaps_that_change_between_stops),
        cmocka_unit_test(test_many_gaps_in_a_large_heap),
        cmocka_unit_test(test_damage_before_a_reserve),
        cmocka_unit_test(test_more_blocks_than_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
