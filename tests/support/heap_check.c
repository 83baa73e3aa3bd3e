/* tests/support/heap_check.c: walking, and what must hold of any answer. */
#include "heap_check.h"

#include "base/bytes.h"

#include "heap/glibc/glibc.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for one more, outside the gate of base/alloc.h: a fault sweep must not count it. */
static void *room_for(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? *room * 2 : 64;
    void *grown = realloc(items, *room * size);
    if (!grown)
        abort();
    return grown;
}

static enum mw_status on_begin(void *user, const struct mw_heap_segment *segment)
{
    struct heap_walked *walked = user;
    if (walked->begun_count != walked->ended_count)
        walked->broken = "a segment begins inside another";
    walked->begun_count++;
    walked->expected = segment->start;
    return MW_OK;
}

static enum mw_status on_blocks(void *user, const struct mw_heap_segment *segment,
                                const struct mw_block *blocks, size_t count)
{
    struct heap_walked *walked = user;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address != walked->expected || blocks[i].size == 0)
            walked->broken = "blocks do not tile their segment";
        if (blocks[i].size > segment->end - blocks[i].address)
            walked->broken = "a block passes the end of its segment";
        walked->expected = blocks[i].address + blocks[i].size;
        if (walked->counts_only)
            continue;
        walked->blocks = room_for(walked->blocks, walked->block_count, &walked->block_room,
                                  sizeof *walked->blocks);
        walked->blocks[walked->block_count++] =
            (struct heap_expect){blocks[i], walked->begun_count - 1};
    }
    return MW_OK;
}

static enum mw_status on_end(void *user, const struct mw_heap_segment *segment)
{
    struct heap_walked *walked = user;
    if (walked->expected != segment->end)
        walked->broken = "blocks end before their segment does";
    walked->ended =
        room_for(walked->ended, walked->ended_count, &walked->ended_room, sizeof *walked->ended);
    walked->ended[walked->ended_count++] = *segment;
    return MW_OK;
}

static void on_trim(void *user, mw_addr start, mw_addr end)
{
    struct heap_walked *walked = user;
    if (start >= end)
        walked->broken = "an empty range would be released";
    walked->trims =
        room_for(walked->trims, walked->trim_count, &walked->trim_room, sizeof *walked->trims);
    walked->trims[walked->trim_count++] = (struct mw_block){start, end - start, MW_BLOCK_FREE};
}

struct mw_heap_visitor heap_walked_visitor(struct heap_walked *walked)
{
    return (struct mw_heap_visitor){
        .user = walked, .segment_begin = on_begin, .blocks = on_blocks, .segment_end = on_end};
}

void heap_walked_forget(struct heap_walked *walked)
{
    bool counts_only = walked->counts_only;
    const char *broken = walked->broken;
    heap_walked_deinit(walked);
    walked->counts_only = counts_only;
    walked->broken = broken;
}

void heap_walk(struct mw_image *image, struct mw_context *context, struct heap_walked *walked)
{
    struct mw_heap_visitor visitor = heap_walked_visitor(walked);
    const struct mw_heap_options options = {
        .visitors = &visitor,
        .visitor_count = 1,
        .trim_range = on_trim,
        .trim_user = walked,
        .classify_content = true,
        .span_bytes = walked->span_bytes,
    };
    walked->status = mw_glibc_walker.walk(image, &options, context, &walked->allocator,
                                          &walked->findings, &walked->err);
}

void heap_walked_deinit(struct heap_walked *walked)
{
    mw_allocator_deinit(&walked->allocator);
    mw_findings_deinit(&walked->findings);
    free(walked->blocks);
    free(walked->ended);
    free(walked->trims);
    *walked = (struct heap_walked){0};
}

static char why_text[512];

#define WRONG(...) (snprintf(why_text, sizeof why_text, __VA_ARGS__), why_text)

/* Bytes of [start, end) in pages that are in RSS. */
static uint64_t resident_bytes(struct mw_image *image, mw_addr start, mw_addr end)
{
    enum { BATCH = 512 };
    uint8_t flags[BATCH];
    uint64_t sum = 0, size = image->page_size;
    for (mw_addr first = start & ~(size - 1); first < end; first += BATCH * size) {
        uint64_t left = (end - first + size - 1) / size;
        size_t count = left < BATCH ? (size_t)left : BATCH;
        if (mw_image_pages(image, first, count, flags, NULL) != MW_OK)
            return sum;
        if (count == BATCH && mw_bytes_are_zero(flags, BATCH))
            continue; /* a damaged heap may claim 64 GiB of nothing */
        for (size_t i = 0; i < count; i++) {
            mw_addr from = first + i * size, to = from + size;
            if (mw_page_is_resident(flags[i]))
                sum += (to < end ? to : end) - (from > start ? from : start);
        }
    }
    return sum;
}

static const char *segment_wrong(struct mw_image *image, const struct mw_findings *findings,
                                 const struct mw_heap_segment *segment)
{
    const struct mw_split *split = &segment->split;
    uint64_t size = segment->end - segment->start;
    if (segment->start >= segment->end)
        return WRONG("segment %llx is empty", (unsigned long long)segment->start);
    if (split->in_use_bytes + split->free_bytes + split->metadata_bytes != size)
        return WRONG("segment %llx is not conserved", (unsigned long long)segment->start);
    uint64_t resident = resident_bytes(image, segment->start, segment->end);
    uint64_t counted = split->in_use_rss + split->free_rss + split->metadata_rss;
    if (image->can & MW_CAN_PAGES && !mw_finding_find(findings, "pages-unknown") &&
        counted != resident)
        return WRONG("segment %llx: resident %llu, pages say %llu",
                     (unsigned long long)segment->start, (unsigned long long)counted,
                     (unsigned long long)resident);
    if (segment->trimmable_bytes > split->free_rss)
        return WRONG("segment %llx: more trimmable than free", (unsigned long long)segment->start);
    /* Pages inside of a block may be missing: a forked process lacks what was MADV_DONTFORK. */
    if (!mw_image_region(image, segment->start) || !mw_image_region(image, segment->end - 1))
        return WRONG("segment %llx begins or ends where nothing is mapped",
                     (unsigned long long)segment->start);
    return NULL;
}

static const char *segments_wrong(struct mw_image *image, const struct heap_walked *walked)
{
    const struct mw_allocator *allocator = &walked->allocator;
    mw_addr last = 0;
    for (size_t i = 0; i < allocator->segment_count; i++) {
        const struct mw_heap_segment *segment = &allocator->segments[i];
        if (segment->start < last)
            return WRONG("segments overlap at %llx", (unsigned long long)segment->start);
        last = segment->end;
        const char *wrong = segment_wrong(image, &walked->findings, segment);
        if (wrong)
            return wrong;
    }
    if (allocator->segment_count != walked->ended_count)
        return WRONG("%zu segments, the visitor saw %zu", allocator->segment_count,
                     walked->ended_count);
    return NULL;
}

/* Sums over what the visitor saw against the allocator's totals. */
static const char *totals_wrong(const struct heap_walked *walked)
{
    const struct mw_allocator *allocator = &walked->allocator;
    uint64_t in_use = 0, free_bytes = 0, metadata = 0, trimmable = 0, mmapped = 0;
    for (size_t i = 0; i < walked->ended_count; i++) {
        const struct mw_heap_segment *segment = &walked->ended[i];
        in_use += segment->split.in_use_bytes;
        free_bytes += segment->split.free_bytes;
        metadata += segment->split.metadata_bytes;
        trimmable += segment->trimmable_bytes;
        if (segment->kind == MW_SEGMENT_MMAPPED)
            mmapped += segment->end - segment->start;
    }
    if (in_use != allocator->in_use_bytes || free_bytes != allocator->free_bytes ||
        mmapped != (allocator->lacks_parameters ? 0 : allocator->mmapped_bytes))
        return WRONG("totals differ from the sum of the segments");
    if (metadata > allocator->metadata_bytes + allocator->skipped_bytes)
        return WRONG("metadata differs from the sum of the segments");
    if (allocator->trimmable_bytes != MW_UNKNOWN && trimmable != allocator->trimmable_bytes)
        return WRONG("trimmable differs from the sum of the segments");
    if (allocator->in_use_bytes + allocator->free_bytes + allocator->metadata_bytes +
            allocator->skipped_bytes !=
        allocator->system_bytes)
        return WRONG("in use + free + metadata + skipped is %llu, system %llu",
                     (unsigned long long)(allocator->in_use_bytes + allocator->free_bytes +
                                          allocator->metadata_bytes + allocator->skipped_bytes),
                     (unsigned long long)allocator->system_bytes);
    if (allocator->tcache_bytes + allocator->fastbin_bytes + allocator->top_bytes > free_bytes)
        return WRONG("kinds of free bytes exceed the free bytes");
    if (allocator->free_resident_bytes != MW_UNKNOWN &&
        allocator->fragment_bytes > allocator->free_resident_bytes)
        return WRONG("fragments exceed the resident free bytes");
    return NULL;
}

static const char *sizes_wrong(const struct mw_allocator *allocator)
{
    uint64_t last = 0, in_use = 0, free_count = 0, bytes = 0;
    for (size_t i = 0; i < allocator->size_count; i++) {
        const struct mw_size_row *row = &allocator->sizes[i];
        if (row->size_bytes <= last)
            return WRONG("sizes do not ascend");
        last = row->size_bytes;
        in_use += row->in_use_count;
        free_count += row->free_count;
        bytes += row->size_bytes * row->in_use_count;
    }
    if (in_use != allocator->in_use_count || bytes != allocator->in_use_bytes)
        return WRONG("the histogram does not have the blocks in use");
    if (free_count > allocator->free_count)
        return WRONG("the histogram has more free blocks than there are");
    return NULL;
}

const char *heap_meaning_wrong(struct mw_image *image, const struct heap_walked *walked)
{
    if (walked->broken)
        return walked->broken;
    if (walked->status != MW_OK)
        return walked->err.code == walked->status ? NULL : WRONG("an error without its text");
    const char *wrong = segments_wrong(image, walked);
    if (!wrong)
        wrong = totals_wrong(walked);
    if (!wrong)
        wrong = sizes_wrong(&walked->allocator);
    const struct mw_allocator *allocator = &walked->allocator;
    for (size_t i = 0; i < allocator->pin_count && !wrong; i++)
        if (allocator->pins[i].would_release_bytes >
            allocator->free_resident_bytes + allocator->in_use_bytes)
            wrong = WRONG("a pin holds more than there is");
    return wrong;
}
