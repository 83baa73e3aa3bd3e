/* tests/support/heap_differs.c: a walk's answer against the record of what was built. Everything is
 * computed a second time, the plain way. */
#include "heap_check.h"

#include <stdio.h>
#include <stdlib.h>

static char differs_text[512];

#define DIFFERS(...) (snprintf(differs_text, sizeof differs_text, __VA_ARGS__), differs_text)
#define EQUAL(what, got, want)                                                                     \
    do {                                                                                           \
        uint64_t got_ = (got), want_ = (want);                                                     \
        if (got_ != want_)                                                                         \
            return DIFFERS("%s is %llu, built %llu", (what), (unsigned long long)got_,             \
                           (unsigned long long)want_);                                             \
    } while (0)

static int expect_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct heap_expect *)a)->block.address;
    mw_addr right = ((const struct heap_expect *)b)->block.address;
    return left < right ? -1 : left > right;
}

static const char *blocks_differ(const struct heap_builder *heap, const struct heap_walked *walked)
{
    struct heap_expect *seen = walked->blocks, *want = heap->expects;
    if (walked->block_count > 1)
        qsort(seen, walked->block_count, sizeof *seen, expect_compare);
    if (heap->expect_count > 1)
        qsort(want, heap->expect_count, sizeof *want, expect_compare);
    for (size_t i = 0; i < walked->block_count && i < heap->expect_count; i++) {
        const struct mw_block *got = &seen[i].block, *built = &want[i].block;
        if (got->address != built->address || got->size != built->size ||
            got->state != built->state)
            return DIFFERS("block %zu is %llx+%llx in state %d, built %llx+%llx in state %d", i,
                           (unsigned long long)got->address, (unsigned long long)got->size,
                           (int)got->state, (unsigned long long)built->address,
                           (unsigned long long)built->size, (int)built->state);
    }
    EQUAL("the number of blocks", walked->block_count, heap->expect_count);
    return NULL;
}

/* Kinds and arenas included. */
static const char *segments_differ(const struct heap_builder *heap,
                                   const struct mw_allocator *allocator)
{
    EQUAL("the number of segments", allocator->segment_count, heap->segment_count);
    for (size_t i = 0; i < heap->segment_count; i++) {
        const struct heap_segment_expect *built = &heap->segments[i];
        const struct mw_heap_segment *got = NULL;
        for (size_t k = 0; k < allocator->segment_count && !got; k++)
            if (allocator->segments[k].start == built->start)
                got = &allocator->segments[k];
        if (!got)
            return DIFFERS("no segment at %llx", (unsigned long long)built->start);
        EQUAL("the end of a segment", got->end, built->end);
        EQUAL("the kind of a segment", got->kind, built->kind);
        if (built->kind != MW_SEGMENT_MMAPPED)
            EQUAL("the arena's address", allocator->arenas[got->arena].address,
                  heap->arenas[built->arena].address);
    }
    return NULL;
}

struct sums {
    uint64_t bytes[MW_BLOCK_SKIPPED + 1], count[MW_BLOCK_SKIPPED + 1];
    uint64_t rss[MW_BLOCK_SKIPPED + 1];
    uint64_t large_free, mmapped, mmapped_count, thread_top_rss;
};

static bool page_resident(struct heap_builder *heap, mw_addr address)
{
    struct heap_region *region = heap_region_of(heap, address);
    return mw_page_is_resident(region->pages[(address - region->start) / HEAP_PAGE]);
}

static uint64_t resident(struct heap_builder *heap, const struct mw_block *block)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < block->size; i += 16) /* chunks are multiples of 16 */
        sum += page_resident(heap, block->address + i) ? 16 : 0;
    return sum;
}

/* Over one arena, or over everything when arena is HEAP_NONE. */
static struct sums sums_of(struct heap_builder *heap, unsigned arena)
{
    struct sums sums = {0};
    for (size_t i = 0; i < heap->segment_count; i++)
        if (arena == HEAP_NONE && heap->segments[i].kind == MW_SEGMENT_MMAPPED) {
            sums.mmapped += heap->segments[i].end - heap->segments[i].start;
            sums.mmapped_count++;
        }
    for (size_t i = 0; i < heap->expect_count; i++) {
        const struct mw_block *block = &heap->expects[i].block;
        const struct heap_segment_expect *segment = &heap->segments[heap->expects[i].segment];
        if (arena != HEAP_NONE && segment->arena != arena)
            continue;
        uint64_t rss = resident(heap, block);
        sums.bytes[block->state] += block->size;
        sums.count[block->state]++;
        sums.rss[block->state] += rss;
        if (block->state == MW_BLOCK_FREE && block->size >= 128 << 10)
            sums.large_free += block->size;
        if (block->state == MW_BLOCK_TOP && segment->arena != 0)
            sums.thread_top_rss += rss;
    }
    return sums;
}

static uint64_t free_of(const uint64_t *by_state)
{
    return by_state[MW_BLOCK_FREE] + by_state[MW_BLOCK_TCACHE] + by_state[MW_BLOCK_FASTBIN] +
           by_state[MW_BLOCK_TOP];
}

static const char *totals_differ(struct heap_builder *heap, const struct mw_allocator *got)
{
    struct sums sums = sums_of(heap, HEAP_NONE);
    EQUAL("in_use_bytes", got->in_use_bytes, sums.bytes[MW_BLOCK_IN_USE]);
    EQUAL("in_use_count", got->in_use_count, sums.count[MW_BLOCK_IN_USE]);
    EQUAL("mmapped_bytes", got->mmapped_bytes, sums.mmapped);
    EQUAL("mmapped_count", got->mmapped_count, sums.mmapped_count);
    EQUAL("free_bytes", got->free_bytes, free_of(sums.bytes));
    EQUAL("free_count", got->free_count, free_of(sums.count));
    EQUAL("tcache_bytes", got->tcache_bytes, sums.bytes[MW_BLOCK_TCACHE]);
    EQUAL("tcache_count", got->tcache_count, sums.count[MW_BLOCK_TCACHE]);
    EQUAL("fastbin_bytes", got->fastbin_bytes, sums.bytes[MW_BLOCK_FASTBIN]);
    EQUAL("fastbin_count", got->fastbin_count, sums.count[MW_BLOCK_FASTBIN]);
    EQUAL("top_bytes", got->top_bytes, sums.bytes[MW_BLOCK_TOP]);
    EQUAL("metadata_bytes", got->metadata_bytes, sums.bytes[MW_BLOCK_METADATA] + heap->gap_bytes);
    EQUAL("skipped_bytes", got->skipped_bytes, 0);
    uint64_t system = heap->gap_bytes;
    for (unsigned state = 0; state <= MW_BLOCK_SKIPPED; state++)
        system += sums.bytes[state];
    EQUAL("system_bytes", got->system_bytes, system);
    EQUAL("free_resident_bytes", got->free_resident_bytes, free_of(sums.rss));
    EQUAL("free_large_bytes", got->free_large_bytes, sums.large_free);
    EQUAL("thread_top_rss", got->thread_top_rss, sums.thread_top_rss);
    return NULL;
}

static const char *arenas_differ(struct heap_builder *heap, const struct mw_allocator *allocator)
{
    EQUAL("the number of arenas", allocator->arena_count, heap->arena_count);
    uint64_t heaps = 0;
    for (unsigned i = 0; i < heap->arena_count; i++) {
        const struct mw_arena *got = &allocator->arenas[i];
        struct sums sums = sums_of(heap, i);
        uint64_t own = 0;
        for (size_t k = 0; k < heap->segment_count; k++)
            own += heap->segments[k].arena == i;
        heaps += own;
        EQUAL("an arena's address", got->address, heap->arenas[i].address);
        EQUAL("is_main", got->is_main, i == 0);
        EQUAL("heap_count", got->heap_count, own);
        EQUAL("an arena's system_bytes", got->system_bytes, heap->arenas[i].system_mem);
        EQUAL("an arena's in_use_bytes", got->in_use_bytes, sums.bytes[MW_BLOCK_IN_USE]);
        EQUAL("an arena's in_use_count", got->in_use_count, sums.count[MW_BLOCK_IN_USE]);
        EQUAL("an arena's free_bytes", got->free_bytes, free_of(sums.bytes));
        EQUAL("an arena's free_count", got->free_count, free_of(sums.count));
        EQUAL("an arena's metadata_bytes", got->metadata_bytes,
              sums.bytes[MW_BLOCK_METADATA] + (i == 0 ? heap->gap_bytes : 0));
        EQUAL("an arena's top_bytes", got->top_bytes, sums.bytes[MW_BLOCK_TOP]);
        EQUAL("an arena's top_rss", got->top_rss, sums.rss[MW_BLOCK_TOP]);
        EQUAL("an arena's tcache_bytes", got->tcache_bytes, sums.bytes[MW_BLOCK_TCACHE]);
        EQUAL("an arena's fastbin_bytes", got->fastbin_bytes, sums.bytes[MW_BLOCK_FASTBIN]);
        EQUAL("an arena's free_rss", got->free_rss, free_of(sums.rss));
        EQUAL("an arena's attached_threads", got->attached_threads,
              heap->family->attached_threads == HEAP_NONE ? MW_UNKNOWN
                                                          : heap->arenas[i].attached_threads);
        EQUAL("an arena is reconciled", got->reconciled, true);
    }
    EQUAL("heap_count", allocator->heap_count, heaps);
    return NULL;
}

/* Does malloc_trim merge this block with such a neighbour? */
static bool merges(const struct heap_builder *heap, const struct heap_expect *expect)
{
    enum mw_block_state state = expect->block.state;
    return state == MW_BLOCK_FREE || state == MW_BLOCK_TOP ||
           (state == MW_BLOCK_FASTBIN && heap->family->fastbins != HEAP_NONE);
}

/* Is the page at `page` released when a free stretch [start, end) is? */
static bool page_goes(const struct heap_builder *heap, mw_addr start, mw_addr end, bool is_top,
                      mw_addr page)
{
    if (!is_top)
        return page >= start + 48 && page + HEAP_PAGE <= end;
    uint64_t step = heap->thp_pagesize ? heap->thp_pagesize : HEAP_PAGE;
    mw_addr kept = end;
    while (kept >= start + 32 + 1 + step)
        kept -= step;
    return page >= kept && page < end;
}

/* Mark every resident page that malloc_trim(0) releases: the walk must name exactly these. */
static const char *trims_differ(struct heap_builder *heap, struct mw_image *image,
                                const struct heap_walked *walked)
{
    uint64_t want_pages = 0, want_bytes = 0, got_pages = 0, met = 0;
    for (size_t i = 0; i < walked->trim_count; i++)
        got_pages += walked->trims[i].size / HEAP_PAGE; /* only what is resident is named */
    for (size_t i = 0; i < heap->expect_count; i++) {
        const struct heap_segment_expect *segment = &heap->segments[heap->expects[i].segment];
        if (!merges(heap, &heap->expects[i]) || segment->kind == MW_SEGMENT_MMAPPED)
            continue;
        size_t last = i;
        while (last + 1 < heap->expect_count &&
               heap->expects[last + 1].segment == heap->expects[i].segment &&
               merges(heap, &heap->expects[last + 1]))
            last++;
        const struct mw_block *end_block = &heap->expects[last].block;
        bool is_top = end_block->state == MW_BLOCK_TOP;
        mw_addr start = heap->expects[i].block.address, end = end_block->address + end_block->size;
        i = last;
        if (segment->locked || (is_top && !segment->at_brk))
            continue;
        for (mw_addr page = start & ~(mw_addr)(HEAP_PAGE - 1); page < end; page += HEAP_PAGE) {
            if (!page_goes(heap, start, end, is_top, page) || !page_resident(heap, page))
                continue;
            want_pages++;
            want_bytes += HEAP_PAGE;
            for (size_t k = 0; k < walked->trim_count; k++)
                met += page - walked->trims[k].address < walked->trims[k].size;
        }
    }
    (void)image;
    EQUAL("pages to be released", got_pages, want_pages);
    EQUAL("pages met", met, want_pages);
    EQUAL("trimmable_bytes", walked->allocator.trimmable_bytes, want_bytes);
    return NULL;
}

static const char *sizes_differ(const struct heap_builder *heap, const struct mw_allocator *got)
{
    for (size_t i = 0; i < got->size_count; i++) {
        uint64_t in_use = 0, free_count = 0;
        for (size_t k = 0; k < heap->expect_count; k++) {
            const struct mw_block *block = &heap->expects[k].block;
            if (block->size != got->sizes[i].size_bytes)
                continue;
            in_use += block->state == MW_BLOCK_IN_USE;
            free_count += block->state == MW_BLOCK_FREE || block->state == MW_BLOCK_TCACHE ||
                          block->state == MW_BLOCK_TOP || block->state == MW_BLOCK_FASTBIN;
        }
        EQUAL("in_use_count of a size", got->sizes[i].in_use_count, in_use);
        EQUAL("free_count of a size", got->sizes[i].free_count, free_count);
    }
    return NULL;
}

const char *heap_differs(struct heap_builder *heap, struct mw_image *image,
                         const struct heap_walked *walked)
{
    if (walked->status != MW_OK)
        return DIFFERS("status %s: %s", mw_status_name(walked->status), walked->err.text);
    const char *wrong = heap_meaning_wrong(image, walked);
    if (!wrong)
        wrong = blocks_differ(heap, walked);
    if (!wrong)
        wrong = segments_differ(heap, &walked->allocator);
    if (!wrong)
        wrong = totals_differ(heap, &walked->allocator);
    if (!wrong)
        wrong = arenas_differ(heap, &walked->allocator);
    if (!wrong)
        wrong = sizes_differ(heap, &walked->allocator);
    if (!wrong)
        wrong = trims_differ(heap, image, walked);
    if (!wrong && !walked->allocator.reconciled)
        wrong = walked->findings.count ? walked->findings.items[0].text : "not reconciled";
    return wrong;
}
