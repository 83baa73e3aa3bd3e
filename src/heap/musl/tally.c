/* heap/musl/tally.c: groups to blocks, and one pass over all segments that fills the account.
 *
 *   | header 16 | slot | slot: [header | slot | slot | rest] | slot | … | rest |
 *
 * A segment is a run of groups whose mappings touch, a block with a mapping of its own, or a run of
 * areas of metas. Blocks tile it: slots in use and free, and everything else as metadata; a slot
 * that holds a group is the blocks of that group. The header of a slot lies in the last 4 bytes of
 * the slot before it and is counted there. Works on copies; of the target only residency and
 * samples of free memory are read. Linear in slots and pages. */
#include "heap/musl/internal.h"
#include "heap/sizes.h"
#include "maps/content.h"

#include "base/limits.h"

#include <assert.h>
#include <string.h>

enum {
    BATCH = 512,
    SAMPLE_STEP = 128 << 10, /* one sample of content per this many resident free bytes */
    SAMPLE_BLOCK_MIN = 512,
    LARGE_FREE_BYTES = 128 << 10,
};

struct tally {
    struct mw_musl *musl;
    const struct mw_heap_options *options;
    struct mw_allocator *allocator;
    struct mw_musl_pages pages;
    struct mw_sizes sizes;
    struct mw_arena arena;
    MW_VEC(struct mw_heap_segment) segments;
    struct mw_heap_segment segment; /* at hand */
    struct mw_block blocks[BATCH];
    size_t block_count;
    mw_addr expected; /* where the next block begins */
    size_t cursor;    /* the next item */
    uint64_t sample_credit;
    enum mw_status status; /* the first failure; later blocks are not looked at */
};

/* ---- one block ---- */

/* What a free slot last held, one sample per SAMPLE_STEP resident bytes. */
static void content_sample(struct tally *tally, const struct mw_block *block, uint64_t rss)
{
    struct mw_image *image = tally->musl->image;
    uint8_t bytes[MW_CONTENT_SAMPLE_BYTES];
    if (block->size < SAMPLE_BLOCK_MIN)
        return;
    tally->sample_credit += rss;
    if (tally->sample_credit < SAMPLE_STEP)
        return;
    mw_addr middle = (block->address + block->size / 2) & ~(mw_addr)15;
    mw_addr page = middle & ~((mw_addr)image->page_size - 1);
    mw_addr inside = page < block->address ? block->address : page;
    if (mw_musl_pages_sum(&tally->pages, inside, inside + 1).rss &&
        mw_image_read_present(image, middle, bytes, sizeof bytes) == sizeof bytes)
        tally->allocator->content_bytes[mw_content_classify(image, bytes, sizeof bytes)] +=
            tally->sample_credit;
    tally->sample_credit = 0;
}

static enum mw_status block_count(struct tally *tally, const struct mw_block *block)
{
    struct mw_heap_segment *segment = &tally->segment;
    struct mw_split *split = &segment->split;
    struct mw_allocator *allocator = tally->allocator;
    struct mw_musl_resident resident =
        mw_musl_pages_sum(&tally->pages, block->address, block->address + block->size);
    switch (block->state) {
    case MW_BLOCK_IN_USE:
        split->in_use_bytes += block->size;
        split->in_use_rss += resident.rss;
        split->in_use_swap += resident.swap;
        segment->in_use_count++;
        return mw_sizes_add(&tally->sizes, block->size, true);
    case MW_BLOCK_FREE:
        split->free_bytes += block->size;
        split->free_rss += resident.rss;
        split->free_swap += resident.swap;
        segment->free_count++;
        if (block->size >= LARGE_FREE_BYTES) {
            allocator->free_large_bytes += block->size;
            allocator->free_large_rss += resident.rss;
        }
        if (tally->options->classify_content)
            content_sample(tally, block, resident.rss);
        return mw_sizes_add(&tally->sizes, block->size, false);
    default:
        split->metadata_bytes += block->size;
        split->metadata_rss += resident.rss;
        split->metadata_swap += resident.swap;
        if (block->state == MW_BLOCK_SKIPPED) {
            allocator->skipped_bytes += block->size;
            tally->arena.skipped_bytes += segment->arena == 0 ? block->size : 0;
        }
        return MW_OK;
    }
}

static void blocks_flush(struct tally *tally)
{
    size_t count = tally->block_count;
    tally->block_count = 0;
    for (size_t i = 0; i < count && tally->status == MW_OK; i++)
        tally->status = block_count(tally, &tally->blocks[i]);
    for (size_t i = 0; i < tally->options->visitor_count && tally->status == MW_OK; i++) {
        const struct mw_heap_visitor *visitor = &tally->options->visitors[i];
        if (visitor->blocks && count > 0)
            tally->status = visitor->blocks(visitor->user, &tally->segment, tally->blocks, count);
    }
    if (tally->status == MW_OK && mw_context_canceled(tally->musl->context))
        tally->status = MW_CANCELED;
}

static void emit(struct tally *tally, mw_addr end, enum mw_block_state state)
{
    if (tally->status != MW_OK || end == tally->expected)
        return;
    assert(end > tally->expected && end <= tally->segment.end);
    tally->blocks[tally->block_count++] =
        (struct mw_block){tally->expected, end - tally->expected, state};
    tally->expected = end;
    if (tally->block_count == BATCH)
        blocks_flush(tally);
}

/* ---- groups ---- */

static const struct mw_musl_item *item_at(struct tally *tally)
{
    const struct mw_musl_item *items = tally->musl->items.items;
    size_t count = tally->musl->items.count;
    while (tally->cursor < count && items[tally->cursor].place == MW_MUSL_DROPPED)
        tally->cursor++;
    return tally->cursor < count ? &items[tally->cursor] : NULL;
}

static void group_emit(struct tally *tally, const struct mw_musl_item *item);

static void slot_emit(struct tally *tally, const struct mw_musl_item *item, unsigned slot,
                      mw_addr end)
{
    const struct mw_musl_item *next = item_at(tally);
    if (next && next->place == MW_MUSL_NESTED && next->start < end) {
        assert(next->start >= tally->expected && next->end <= end);
        emit(tally, next->start, MW_BLOCK_METADATA);
        group_emit(tally, next);
        emit(tally, end, MW_BLOCK_METADATA);
    } else {
        emit(tally, end, item->free_mask >> slot & 1 ? MW_BLOCK_FREE : MW_BLOCK_IN_USE);
    }
}

/* The group at the cursor, from its header to its end, and those in its slots. Nests no deeper than
 * places were given (nest.c). */
static void group_emit(struct tally *tally, const struct mw_musl_item *item)
{
    uint64_t stride = item->slot_count > 0 ? mw_musl_stride(item) : 0;
    tally->cursor++;
    if (item->is_damaged) {
        for (const struct mw_musl_item *next; (next = item_at(tally)) && next->start < item->end;)
            tally->cursor++;
        emit(tally, item->end, MW_BLOCK_SKIPPED);
        return;
    }
    if (item->slot_count > 0)
        emit(tally, item->start + MW_MUSL_GROUP_HEADER, MW_BLOCK_METADATA);
    for (unsigned slot = 0; slot < item->slot_count; slot++)
        slot_emit(tally, item, slot, item->start + MW_MUSL_GROUP_HEADER + (slot + 1) * stride);
    emit(tally, item->end, MW_BLOCK_METADATA);
}

/* ---- segments ---- */

static enum mw_segment_kind kind_of(const struct mw_musl_item *item)
{
    if (item->slot_count == 0)
        return MW_SEGMENT_METAS;
    return mw_musl_is_own(item) ? MW_SEGMENT_SLOT : MW_SEGMENT_GROUPS;
}

/* The segment that begins with the item at the cursor: it and what touches it and is of its kind.
 */
static void segment_begin(struct tally *tally, const struct mw_musl_item *first)
{
    const struct mw_musl *musl = tally->musl;
    enum mw_segment_kind kind = kind_of(first);
    tally->segment = (struct mw_heap_segment){
        .start = first->start,
        .end = first->end,
        .kind = kind,
        .arena = kind == MW_SEGMENT_SLOT ? MW_ARENA_NONE : 0,
    };
    for (size_t i = tally->cursor + 1; i < musl->items.count && kind != MW_SEGMENT_SLOT; i++) {
        const struct mw_musl_item *item = &musl->items.items[i];
        if (item->place != MW_MUSL_TOP)
            continue;
        if (item->start != tally->segment.end || kind_of(item) != kind)
            break;
        tally->segment.end = item->end;
    }
    tally->expected = first->start;
    tally->pages.limit = tally->segment.end;
}

static void visitors_call(struct tally *tally, bool begins)
{
    for (size_t i = 0; i < tally->options->visitor_count && tally->status == MW_OK; i++) {
        const struct mw_heap_visitor *visitor = &tally->options->visitors[i];
        enum mw_status (*call)(void *, const struct mw_heap_segment *) =
            begins ? visitor->segment_begin : visitor->segment_end;
        if (call)
            tally->status = call(visitor->user, &tally->segment);
    }
}

/* After its last block: conservation, and the sums. */
static void segment_finish(struct tally *tally)
{
    const struct mw_heap_segment *segment = &tally->segment;
    const struct mw_split *split = &segment->split;
    struct mw_allocator *allocator = tally->allocator;
    struct mw_arena *arena = &tally->arena;
    uint64_t size = segment->end - segment->start;
    assert(split->in_use_bytes + split->free_bytes + split->metadata_bytes == size);
    allocator->system_bytes += size;
    allocator->in_use_bytes += split->in_use_bytes;
    allocator->in_use_count += segment->in_use_count;
    allocator->free_bytes += split->free_bytes;
    allocator->free_count += segment->free_count;
    allocator->metadata_bytes += split->metadata_bytes; /* skipped is taken out at the end */
    allocator->free_resident_bytes += split->free_rss;
    if (segment->kind == MW_SEGMENT_SLOT) {
        allocator->mmapped_bytes += size;
        allocator->mmapped_count += segment->in_use_count;
        return;
    }
    arena->heap_count++;
    arena->system_bytes += size;
    arena->in_use_bytes += split->in_use_bytes;
    arena->in_use_count += segment->in_use_count;
    arena->free_bytes += split->free_bytes;
    arena->free_count += segment->free_count;
    arena->metadata_bytes += split->metadata_bytes;
    arena->free_rss += split->free_rss;
}

static void segment_tally(struct tally *tally, const struct mw_musl_item *first)
{
    segment_begin(tally, first);
    visitors_call(tally, true);
    while (tally->status == MW_OK && tally->expected < tally->segment.end)
        group_emit(tally, item_at(tally));
    blocks_flush(tally);
    if (tally->status != MW_OK)
        return;
    segment_finish(tally);
    visitors_call(tally, false);
    if (tally->status == MW_OK)
        tally->status = mw_vec_push(&tally->segments, MW_LIMIT_HEAP_SEGMENTS, tally->segment);
}

/* ---- the whole ---- */

static enum mw_status allocator_finish(struct tally *tally)
{
    struct mw_allocator *allocator = tally->allocator;
    allocator->metadata_bytes -= allocator->skipped_bytes;
    allocator->fragment_bytes = allocator->free_resident_bytes;
    allocator->heap_count = tally->arena.heap_count;
    allocator->arena_limit = 1;
    allocator->reconciled = tally->musl->is_sound;
    tally->arena.reconciled = tally->musl->is_sound;
    if (!tally->pages.is_known)
        allocator->free_resident_bytes = allocator->trimmable_bytes = MW_UNKNOWN;
    if (tally->pages.has_failed)
        mw_finding_add(tally->musl->findings, "pages-unknown", 0, 0,
                       "which pages of a heap are resident was not told; they count as absent");
    allocator->arenas = mw_calloc(1, sizeof *allocator->arenas);
    if (!allocator->arenas)
        return MW_NOMEM;
    allocator->arenas[0] = tally->arena;
    allocator->arena_count = 1;
    allocator->segments = tally->segments.items;
    allocator->segment_count = tally->segments.count;
    tally->segments.items = NULL;
    return mw_sizes_rows(&tally->sizes, &allocator->sizes, &allocator->size_count);
}

enum mw_status mw_musl_tally(struct mw_musl *musl, const struct mw_heap_options *options,
                             struct mw_allocator *allocator)
{
    struct tally *tally = mw_calloc(1, sizeof *tally);
    if (!tally)
        return MW_NOMEM;
    tally->musl = musl;
    tally->options = options;
    tally->allocator = allocator;
    const struct mw_image *image = musl->image;
    tally->arena = (struct mw_arena){
        .address = musl->ctx_address,
        .is_main = true,
        .attached_threads =
            image->kind == MW_IMAGE_LIVE ? image->process.thread_count : image->thread_count,
    };
    tally->status = mw_musl_pages_init(&tally->pages, musl->image);
    if (tally->status == MW_OK)
        tally->status = mw_sizes_init(&tally->sizes);
    for (const struct mw_musl_item *item; tally->status == MW_OK && (item = item_at(tally));)
        segment_tally(tally, item);
    if (tally->status == MW_LIMIT) { /* "busy" to the session; it is not */
        mw_finding_add(musl->findings, "too-many-segments", 0, 0,
                       "malloc's groups lie in more places than can be kept");
        musl->is_sound = false;
        tally->status = MW_OK;
    }
    enum mw_status status = tally->status;
    if (status == MW_OK)
        status = allocator_finish(tally);
    mw_musl_pages_deinit(&tally->pages);
    mw_sizes_deinit(&tally->sizes);
    mw_vec_deinit(&tally->segments);
    free(tally);
    return status;
}
