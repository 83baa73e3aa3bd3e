/* heap/glibc/tally.c: one pass over all segments that fills the allocator's account.
 *
 * Each batch of blocks goes to: the split and residency of its segment, the totals of its arena,
 * the histogram, the trim simulation, the pins, the sampler of free content, and the visitors of
 * the caller. Conservation per segment: in use + free + metadata (skipped is in it) = size. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "heap/content.h"
#include "heap/glibc/retain.h"
#include "heap/sizes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_STEP = 128 << 10, /* one sample of content per this many resident free bytes */
    SAMPLE_CHUNK_MIN = 512,
    LARGE_FREE_BYTES = 128 << 10, /* the default mmap threshold */
    PINS_MAX = 256,
};

struct mw_glibc_tally {
    struct mw_glibc *glibc;
    struct mw_allocator *allocator;
    struct mw_glibc_segment *segment;
    struct mw_arena *arena; /* NULL in mmapped segments */
    struct mw_glibc_pages pages;
    struct mw_sizes sizes;
    struct mw_glibc_trim trim;
    struct mw_glibc_pins pins;
    uint64_t top_rss, sample_credit;
    uint64_t interior_free_rss; /* free, resident, no top and no tcache */
    MW_VEC(struct mw_pin) pin_rows;
    MW_VEC(struct mw_arena) arenas;          /* done */
    MW_VEC(struct mw_heap_segment) segments; /* of them, and mmapped ones */
    bool is_sound;                           /* every sum so far is glibc's own */
};

/* What a free block last held, one sample per SAMPLE_STEP resident bytes. */
static void content_sample(struct mw_glibc_tally *tally, const struct mw_block *block, uint64_t rss)
{
    if (block->state != MW_BLOCK_FREE || block->size < SAMPLE_CHUNK_MIN)
        return;
    tally->sample_credit += rss;
    if (tally->sample_credit < SAMPLE_STEP)
        return;
    uint8_t bytes[MW_CONTENT_SAMPLE_BYTES];
    mw_addr middle = (block->address + block->size / 2) & ~(mw_addr)15;
    if (middle < block->address + 32)
        middle = block->address + 32;
    mw_addr page = middle & ~((mw_addr)tally->glibc->image->page_size - 1);
    if (mw_glibc_pages_sum(&tally->pages, page < block->address ? block->address : page, 1).rss)
        if (mw_image_read_present(tally->glibc->image, middle, bytes, sizeof bytes) == sizeof bytes)
            tally->allocator
                ->content_bytes[mw_content_classify(tally->glibc->image, bytes, sizeof bytes)] +=
                tally->sample_credit;
    tally->sample_credit = 0;
}

static void split_add(struct mw_heap_segment *segment, const struct mw_block *block,
                      struct mw_glibc_resident resident)
{
    struct mw_split *split = &segment->split;
    switch (block->state) {
    case MW_BLOCK_IN_USE:
        split->in_use_bytes += block->size;
        split->in_use_rss += resident.rss;
        split->in_use_swap += resident.swap;
        segment->in_use_count++;
        break;
    case MW_BLOCK_METADATA:
    case MW_BLOCK_SKIPPED:
        split->metadata_bytes += block->size;
        split->metadata_rss += resident.rss;
        split->metadata_swap += resident.swap;
        break;
    default:
        split->free_bytes += block->size;
        split->free_rss += resident.rss;
        split->free_swap += resident.swap;
        segment->free_count++;
        break;
    }
}

/* Free blocks by kind, into the arena (NULL for mmapped) and the allocator. */
static void free_add(struct mw_glibc_tally *tally, const struct mw_block *block, uint64_t rss)
{
    struct mw_arena none = {0}, *arena = tally->arena ? tally->arena : &none;
    struct mw_allocator *allocator = tally->allocator;
    switch (block->state) {
    case MW_BLOCK_TCACHE:
        arena->tcache_bytes += block->size;
        allocator->tcache_bytes += block->size;
        allocator->tcache_count++;
        break;
    case MW_BLOCK_FASTBIN:
        arena->fastbin_bytes += block->size;
        arena->fastbin_count++;
        allocator->fastbin_bytes += block->size;
        allocator->fastbin_count++;
        tally->interior_free_rss += rss;
        break;
    case MW_BLOCK_TOP:
        arena->top_bytes += block->size;
        arena->top_rss += rss;
        allocator->top_bytes += block->size;
        tally->top_rss += rss;
        break;
    default:
        tally->interior_free_rss += rss;
        if (block->size >= LARGE_FREE_BYTES)
            allocator->free_large_bytes += block->size, allocator->free_large_rss += rss;
        break;
    }
}

static inline enum mw_status block_add(struct mw_glibc_tally *tally, const struct mw_block *block,
                                       struct mw_glibc_resident resident)
{
    enum mw_status status = MW_OK;
    split_add(&tally->segment->public, block, resident);
    if (block->state == MW_BLOCK_IN_USE) {
        status = mw_sizes_add(&tally->sizes, block->size, true);
    } else if (block->state == MW_BLOCK_SKIPPED) {
        if (tally->arena)
            tally->arena->skipped_bytes += block->size;
        tally->allocator->skipped_bytes += block->size;
    } else if (block->state != MW_BLOCK_METADATA) {
        free_add(tally, block, resident.rss);
        status = mw_sizes_add(&tally->sizes, block->size, false);
        if (tally->glibc->options->classify_content)
            content_sample(tally, block, resident.rss);
    }
    if (tally->arena)
        mw_glibc_trim_block(&tally->trim, block);
    return status;
}

/* Only the blocks nearest to the end of the segment can be pins: of a batch, the last few that are
 * not free; what came before it is forgotten when they are enough. */
static void pins_add(struct mw_glibc_tally *tally, const struct mw_block *blocks, size_t count)
{
    size_t first = count, held = 0;
    while (first > 0 && held <= MW_GLIBC_PIN_RING)
        held += mw_glibc_pins_counts(&blocks[--first]);
    if (held > MW_GLIBC_PIN_RING) { /* blocks[first] is one too many */
        first++;
        tally->pins.seen = 0;
        tally->pins.gap_rss = 0;
    }
    for (size_t i = first; i < count; i++)
        mw_glibc_pins_block(&tally->pins, &blocks[i],
                            mw_glibc_pages_of(&tally->pages, &blocks[i]).rss);
}

/* A batch in pages that are all resident, which most are: live blocks after live blocks need only
 * be counted. */
static enum mw_status resident_blocks_add(struct mw_glibc_tally *tally,
                                          const struct mw_block *blocks, size_t count)
{
    struct mw_heap_segment *segment = &tally->segment->public;
    uint64_t live_bytes = 0, live_count = 0;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        const struct mw_block *block = &blocks[i];
        if (block->state == MW_BLOCK_IN_USE && tally->trim.run_start == tally->trim.run_end) {
            live_bytes += block->size;
            live_count++;
            status = mw_sizes_add(&tally->sizes, block->size, true);
        } else {
            status = block_add(tally, block, (struct mw_glibc_resident){block->size, 0});
        }
    }
    segment->split.in_use_bytes += live_bytes;
    segment->split.in_use_rss += live_bytes;
    segment->in_use_count += live_count;
    return status;
}

static enum mw_status blocks_add(void *user, const struct mw_block *blocks, size_t count)
{
    struct mw_glibc_tally *tally = user;
    const struct mw_heap_options *options = tally->glibc->options;
    enum mw_status added = MW_OK;
    assert(count > 0);
    mw_addr end = blocks[count - 1].address + blocks[count - 1].size;
    if (mw_glibc_pages_all_resident(&tally->pages, blocks[0].address, end)) {
        added = resident_blocks_add(tally, blocks, count);
    } else {
        for (size_t i = 0; i < count && added == MW_OK; i++)
            added = block_add(tally, &blocks[i], mw_glibc_pages_of(&tally->pages, &blocks[i]));
    }
    if (added != MW_OK)
        return added;
    if (tally->segment->top != 0)
        pins_add(tally, blocks, count);
    for (size_t i = 0; i < options->visitor_count; i++) {
        struct mw_heap_visitor *visitor = &options->visitors[i];
        if (!visitor->blocks)
            continue;
        enum mw_status status =
            visitor->blocks(visitor->user, &tally->segment->public, blocks, count);
        if (status != MW_OK)
            return status;
    }
    return mw_context_canceled(tally->glibc->context) ? MW_CANCELED : MW_OK;
}

static enum mw_status visitors_segment(struct mw_glibc_tally *tally, bool begin)
{
    const struct mw_heap_options *options = tally->glibc->options;
    for (size_t i = 0; i < options->visitor_count; i++) {
        struct mw_heap_visitor *visitor = &options->visitors[i];
        enum mw_status (*call)(void *, const struct mw_heap_segment *) =
            begin ? visitor->segment_begin : visitor->segment_end;
        enum mw_status status = call ? call(visitor->user, &tally->segment->public) : MW_OK;
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

/* The kind of content of a pin, and its row. */
static enum mw_status pin_add(struct mw_glibc_tally *tally)
{
    struct mw_pin pin;
    if (tally->segment->top == 0 || !tally->pages.known ||
        !mw_glibc_pins_end(&tally->pins, tally->segment, tally->top_rss, &pin))
        return MW_OK;
    uint8_t bytes[MW_CONTENT_SAMPLE_BYTES];
    size_t length = pin.size_bytes - 8 < sizeof bytes ? (size_t)(pin.size_bytes - 8) & ~(size_t)7
                                                      : sizeof bytes;
    pin.content = MW_CONTENT_MIXED;
    if (mw_image_read_present(tally->glibc->image, pin.block, bytes, length) == length)
        pin.content = mw_content_classify(tally->glibc->image, bytes, length);
    enum mw_status status = mw_vec_push(&tally->pin_rows, PINS_MAX, pin);
    return status == MW_LIMIT ? MW_OK : status;
}

/* After the last block: conservation, the arena's sums, trim and pin of this segment. */
static enum mw_status segment_finish(struct mw_glibc_tally *tally)
{
    struct mw_heap_segment *segment = &tally->segment->public;
    const struct mw_split *split = &segment->split;
    assert(split->in_use_bytes + split->free_bytes + split->metadata_bytes ==
           segment->end - segment->start);
    mw_glibc_trim_end(&tally->trim);
    if (tally->pages.failed)
        mw_finding_add(tally->glibc->findings, "pages-unknown", segment->start,
                       segment->end - segment->start,
                       "which pages of a heap are resident was not told; they count as absent");
    segment->trimmable_bytes = tally->trim.bytes;
    struct mw_allocator *allocator = tally->allocator;
    allocator->trimmable_bytes += segment->trimmable_bytes;
    allocator->free_resident_bytes += split->free_rss;
    allocator->fragment_bytes -= tally->trim.bytes - tally->trim.top_bytes;
    struct mw_arena *arena = tally->arena;
    if (!arena) {
        allocator->mmapped_bytes += segment->end - segment->start;
        allocator->mmapped_count++;
        return MW_OK;
    }
    arena->in_use_bytes += split->in_use_bytes;
    arena->in_use_count += segment->in_use_count;
    arena->free_bytes += split->free_bytes;
    arena->free_count += segment->free_count;
    arena->metadata_bytes += split->metadata_bytes;
    arena->free_rss += split->free_rss;
    arena->trimmable_bytes += segment->trimmable_bytes;
    if (!arena->is_main)
        allocator->thread_top_rss += tally->top_rss;
    return pin_add(tally);
}

/* Walk one segment; where a foreign sbrk cut it off, what follows is appended to the list. */
static enum mw_status segment_tally(struct mw_glibc_tally *tally, size_t index)
{
    struct mw_glibc *glibc = tally->glibc;
    struct mw_glibc_segment *segment = &glibc->segments.items[index];
    tally->segment = segment;
    uint32_t arena = segment->public.arena;
    tally->arena = arena == MW_ARENA_NONE ? NULL : &glibc->arenas.items[arena].public;
    enum mw_status status = mw_glibc_pages_begin(&tally->pages, glibc->image, segment->public.start,
                                                 segment->public.end);
    if (status != MW_OK)
        return status;
    tally->trim =
        (struct mw_glibc_trim){.glibc = glibc, .segment = segment, .pages = &tally->pages};
    tally->pins.seen = 0;
    tally->pins.gap_rss = 0;
    tally->top_rss = 0;
    uint64_t interior_before = tally->interior_free_rss;
    const struct mw_glibc_sink sink = {tally, blocks_add};
    mw_addr end = segment->public.end;
    status = visitors_segment(tally, true);
    if (status == MW_OK)
        status = mw_glibc_walk_segment(glibc, segment, &sink, &end);
    tally->allocator->fragment_bytes += tally->interior_free_rss - interior_before;
    if (status == MW_OK && end < segment->public.end) {
        status = mw_glibc_segment_cut(glibc, index, end);
        tally->segment = &glibc->segments.items[index];
        tally->trim.segment = tally->segment;
    }
    if (status == MW_OK)
        status = segment_finish(tally);
    if (status == MW_OK)
        status = visitors_segment(tally, false);
    return status;
}

static int pin_compare(const void *a, const void *b)
{
    uint64_t left = ((const struct mw_pin *)a)->would_release_bytes;
    uint64_t right = ((const struct mw_pin *)b)->would_release_bytes;
    return left > right ? -1 : left < right;
}

/* Does the sum over an arena's heaps equal its system_mem? Says so as a finding when not. */
static void arena_reconcile(struct mw_glibc_tally *tally, struct mw_glibc_arena *arena)
{
    uint64_t found = arena->segment_bytes, said = arena->public.system_bytes;
    arena->public.reconciled = found == said && arena->public.skipped_bytes == 0;
    if (arena->public.reconciled)
        return;
    tally->is_sound = false;
    mw_finding_add(tally->glibc->findings, "arena-not-reconciled", arena->public.address,
                   found > said ? found - said : said - found,
                   "the heaps found for an arena do not add up to its system_mem");
}

/* The same for mmapped blocks and mp_. */
static void mmapped_reconcile(struct mw_glibc_tally *tally)
{
    const struct mw_glibc *glibc = tally->glibc;
    uint64_t count = tally->allocator->mmapped_count, bytes = tally->allocator->mmapped_bytes;
    /* 2.43 and 2.44 add 16 bytes too much for each mremap that changes the size. */
    bool drifts = glibc->state->bins == 24 && glibc->mmapped_mem > bytes &&
                  (glibc->mmapped_mem - bytes) % 16 == 0;
    if (!glibc->par) {
        tally->is_sound = false;
        return;
    }
    if (drifts && count == glibc->n_mmaps)
        mw_finding_add(glibc->findings, "mmapped-mem-drift", glibc->mp, glibc->mmapped_mem - bytes,
                       "glibc 2.43 and 2.44 count mmapped memory too high after mremap");
    if (count == glibc->n_mmaps && (bytes == glibc->mmapped_mem || drifts))
        return;
    tally->is_sound = false;
    mw_finding_add(glibc->findings, "mmapped-not-reconciled", glibc->mp,
                   bytes > glibc->mmapped_mem ? bytes - glibc->mmapped_mem
                                              : glibc->mmapped_mem - bytes,
                   "%llu mmapped blocks found, malloc counts %llu", (unsigned long long)count,
                   (unsigned long long)glibc->n_mmaps);
}

static int segment_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct mw_heap_segment *)a)->start;
    mw_addr right = ((const struct mw_heap_segment *)b)->start;
    return left < right ? -1 : left > right;
}

/* Sums over the arenas. */
static void arenas_sum(struct mw_glibc_tally *tally)
{
    struct mw_allocator *allocator = tally->allocator;
    for (size_t i = 0; i < tally->arenas.count; i++) {
        const struct mw_arena *arena = &tally->arenas.items[i];
        allocator->heap_count += arena->heap_count;
        allocator->in_use_bytes += arena->in_use_bytes;
        allocator->in_use_count += arena->in_use_count;
        allocator->free_bytes += arena->free_bytes;
        allocator->free_count += arena->free_count;
        allocator->metadata_bytes += arena->metadata_bytes - arena->skipped_bytes;
    }
    for (size_t i = 0; i < tally->segments.count; i++) {
        const struct mw_heap_segment *segment = &tally->segments.items[i];
        if (segment->kind != MW_SEGMENT_MMAPPED)
            continue;
        allocator->in_use_bytes += segment->split.in_use_bytes;
        allocator->in_use_count += segment->in_use_count;
        allocator->free_bytes += segment->split.free_bytes;
        allocator->free_count += segment->free_count;
        allocator->metadata_bytes += segment->split.metadata_bytes;
        allocator->system_bytes += segment->end - segment->start;
    }
}

/* Arrays handed over to the allocator. */
static enum mw_status arrays_hand_over(struct mw_glibc_tally *tally)
{
    struct mw_allocator *allocator = tally->allocator;
    if (tally->segments.count > 1)
        qsort(tally->segments.items, tally->segments.count, sizeof *tally->segments.items,
              segment_compare);
    if (tally->pin_rows.count > 1)
        qsort(tally->pin_rows.items, tally->pin_rows.count, sizeof *tally->pin_rows.items,
              pin_compare);
    allocator->arenas = mw_steal(tally->arenas.items);
    allocator->arena_count = tally->arenas.count;
    allocator->segments = mw_steal(tally->segments.items);
    allocator->segment_count = tally->segments.count;
    allocator->pins = mw_steal(tally->pin_rows.items);
    allocator->pin_count = tally->pin_rows.count;
    return mw_sizes_rows(&tally->sizes, &allocator->sizes, &allocator->size_count);
}

static enum mw_status segment_done(struct mw_glibc_tally *tally, size_t index)
{
    enum mw_status status = segment_tally(tally, index);
    if (status != MW_OK)
        return status;
    return mw_vec_push(&tally->segments, MW_LIMIT_HEAP_SEGMENTS,
                       tally->glibc->segments.items[index].public);
}

/* Segments in the order of their arenas: order[starts[a]] … order[starts[a + 1] - 1] are those of
 * arena a, ascending; the last group is that of mmapped blocks. */
struct segment_groups {
    size_t *order, *starts;
};

static size_t group_of(const struct mw_glibc *glibc, size_t segment)
{
    uint32_t arena = glibc->segments.items[segment].public.arena;
    return arena == MW_ARENA_NONE ? glibc->arenas.count : arena;
}

static enum mw_status groups_build(const struct mw_glibc *glibc, struct segment_groups *groups)
{
    size_t count = glibc->segments.count, arenas = glibc->arenas.count;
    groups->order = mw_calloc(count, sizeof *groups->order);
    groups->starts = mw_calloc(arenas + 3, sizeof *groups->starts);
    if (!groups->order || !groups->starts)
        return MW_NOMEM;
    for (size_t i = 0; i < count; i++)
        groups->starts[group_of(glibc, i) + 2]++;
    for (size_t a = 2; a < arenas + 3; a++)
        groups->starts[a] += groups->starts[a - 1];
    for (size_t i = 0; i < count; i++)
        groups->order[groups->starts[group_of(glibc, i) + 1]++] = i;
    return MW_OK;
}

static void groups_free(struct segment_groups *groups)
{
    free(groups->order);
    free(groups->starts);
}

static bool is_done(const struct mw_glibc_tally *tally, size_t earlier, mw_addr arena)
{
    for (size_t i = 0; i < earlier; i++)
        if (tally->arenas.items[i].address == arena)
            return true;
    return false;
}

/* All segments of arena a, and for the main arena those that foreign sbrks cut off. */
static enum mw_status arena_tally(struct mw_glibc_tally *tally, const struct segment_groups *groups,
                                  size_t a, size_t known)
{
    struct mw_glibc *glibc = tally->glibc;
    enum mw_status status = MW_OK;
    for (size_t i = groups->starts[a]; i < groups->starts[a + 1] && status == MW_OK; i++)
        status = segment_done(tally, groups->order[i]);
    for (size_t i = known; a == 0 && i < glibc->segments.count && status == MW_OK; i++)
        status = segment_done(tally, i);
    if (status != MW_OK)
        return status;
    struct mw_glibc_arena *arena = &glibc->arenas.items[a];
    if (arena->public.is_main)
        arena->public.metadata_bytes += glibc->gap_bytes;
    arena_reconcile(tally, arena);
    tally->allocator->system_bytes += arena->segment_bytes;
    return mw_vec_push(&tally->arenas, MW_LIMIT_ARENAS, arena->public);
}

enum mw_status mw_glibc_tally_arenas(struct mw_glibc_tally *tally, struct mw_glibc *glibc,
                                     uint64_t until_ns, bool *all_done_out)
{
    struct segment_groups groups = {0};
    size_t earlier = tally->arenas.count;
    tally->glibc = glibc;
    tally->is_sound &= !glibc->ring_is_torn;
    mw_glibc_sort_segments(glibc);
    size_t known = glibc->segments.count;
    enum mw_status status = groups_build(glibc, &groups);
    *all_done_out = true;
    for (size_t a = 0; a < glibc->arenas.count && status == MW_OK; a++) {
        if (is_done(tally, earlier, glibc->arenas.items[a].public.address))
            continue;
        if (until_ns && tally->arenas.count > earlier && mw_clock_monotonic_ns() > until_ns) {
            *all_done_out = false;
            break;
        }
        status = arena_tally(tally, &groups, a, known);
        mw_context_progress(glibc->context, "walking the heap", a, glibc->arenas.count);
    }
    groups_free(&groups);
    return status;
}

enum mw_status mw_glibc_tally_finish(struct mw_glibc_tally *tally, struct mw_glibc *glibc)
{
    struct mw_allocator *allocator = tally->allocator;
    enum mw_status status = MW_OK;
    tally->glibc = glibc;
    for (size_t i = 0; i < glibc->segments.count && status == MW_OK; i++)
        if (glibc->segments.items[i].public.kind == MW_SEGMENT_MMAPPED)
            status = segment_done(tally, i);
    if (status != MW_OK)
        return status;
    mmapped_reconcile(tally);
    arenas_sum(tally);
    allocator->reconciled = tally->is_sound && allocator->skipped_bytes == 0;
    if (!(glibc->image->can & MW_CAN_PAGES))
        allocator->trimmable_bytes = allocator->free_resident_bytes = MW_UNKNOWN;
    return arrays_hand_over(tally);
}

struct mw_glibc_tally *mw_glibc_tally_new(struct mw_allocator *allocator)
{
    struct mw_glibc_tally *tally = mw_calloc(1, sizeof *tally);
    if (!tally)
        return NULL;
    tally->allocator = allocator;
    tally->is_sound = true;
    if (mw_sizes_init(&tally->sizes) != MW_OK) {
        free(tally);
        return NULL;
    }
    return tally;
}

void mw_glibc_tally_free(struct mw_glibc_tally *tally)
{
    if (!tally)
        return;
    mw_sizes_deinit(&tally->sizes);
    free(tally->pages.flags);
    mw_vec_deinit(&tally->pin_rows);
    mw_vec_deinit(&tally->arenas);
    mw_vec_deinit(&tally->segments);
    free(tally);
}
