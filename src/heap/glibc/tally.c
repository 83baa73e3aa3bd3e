/* heap/glibc/tally.c: what was read → the allocator's account.
 *
 * Each batch of blocks goes to: the split and residency of its segment, the totals of its arena,
 * the histogram, the trim simulation, the pins, the sampler of free content, and the visitors of
 * the caller. Conservation per segment: in use + free + metadata (skipped is in it) = size. The
 * target runs meanwhile; what free blocks last held is looked up in it as it is now.
 *
 * Segments of a sample's unread arenas have no blocks: sample.c puts estimates in their place.
 *
 * Segments are shared out among threads, each with sums of its own, unless somebody listens: then
 * one thread does all, in ascending order. */
#include "base/limits.h"
#include "base/workers.h"
#include "heap/glibc/blocks.h"
#include "heap/glibc/retain.h"
#include "heap/glibc/sums.h"
#include "maps/content.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_STEP = 128 << 10, /* one sample of content per this many resident free bytes */
    SAMPLE_CHUNK_MIN = 512,
    LARGE_FREE_BYTES = 128 << 10, /* the default mmap threshold */
    PARALLEL_BYTES_MIN = 64 << 20,
};

/* Shared by the threads. */
struct tally {
    struct mw_glibc *glibc;
    struct mw_glibc_scan *scan;
    pthread_mutex_t lock; /* of what follows */
    size_t next;          /* segment to be done */
    struct mw_glibc_sums *sums;
    enum mw_status status;
};

/* One thread. */
struct worker {
    struct tally *tally;
    struct mw_glibc *glibc;
    struct mw_glibc_scanned *scanned;
    struct mw_heap_segment *segment; /* of it */
    struct mw_glibc_sums_part part;  /* of all segments it did */
    struct mw_arena arena;           /* of this segment alone */
    struct mw_findings findings;
    struct mw_glibc_pages pages;
    struct mw_sizes sizes;
    struct mw_glibc_trim trim;
    struct mw_glibc_pins pins;
    uint64_t top_rss, sample_credit;
    uint64_t interior_free_rss; /* free, resident, no top and no tcache: of this segment */
    enum mw_status status;
    struct mw_glibc_blocks blocks;
};

/* What a free block last held, one sample per SAMPLE_STEP resident bytes. */
static void content_sample(struct worker *worker, const struct mw_block *block, uint64_t rss)
{
    if (block->state != MW_BLOCK_FREE || block->size < SAMPLE_CHUNK_MIN)
        return;
    worker->sample_credit += rss;
    if (worker->sample_credit < SAMPLE_STEP)
        return;
    uint8_t bytes[MW_CONTENT_SAMPLE_BYTES];
    mw_addr middle = (block->address + block->size / 2) & ~(mw_addr)15;
    if (middle < block->address + 32)
        middle = block->address + 32;
    mw_addr page = middle & ~((mw_addr)worker->glibc->image->page_size - 1);
    if (mw_glibc_pages_sum(&worker->pages, page < block->address ? block->address : page, 1).rss)
        if (mw_image_read_present(worker->glibc->image, middle, bytes, sizeof bytes) ==
            sizeof bytes)
            worker->part
                .content_bytes[mw_content_classify(worker->glibc->image, bytes, sizeof bytes)] +=
                worker->sample_credit;
    worker->sample_credit = 0;
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
static void free_add(struct worker *worker, const struct mw_block *block, uint64_t rss)
{
    struct mw_arena *arena = &worker->arena;
    struct mw_glibc_sums_part *part = &worker->part;
    switch (block->state) {
    case MW_BLOCK_TCACHE:
        arena->tcache_bytes += block->size;
        part->tcache_bytes += block->size;
        part->tcache_count++;
        break;
    case MW_BLOCK_FASTBIN:
        arena->fastbin_bytes += block->size;
        arena->fastbin_count++;
        part->fastbin_bytes += block->size;
        part->fastbin_count++;
        worker->interior_free_rss += rss;
        break;
    case MW_BLOCK_TOP:
        arena->top_bytes += block->size;
        arena->top_rss += rss;
        part->top_bytes += block->size;
        worker->top_rss += rss;
        break;
    default:
        worker->interior_free_rss += rss;
        if (block->size >= LARGE_FREE_BYTES)
            arena->free_large_bytes += block->size, arena->free_large_rss += rss;
        break;
    }
}

static inline enum mw_status block_add(struct worker *worker, const struct mw_block *block,
                                       struct mw_glibc_resident resident)
{
    enum mw_status status = MW_OK;
    split_add(worker->segment, block, resident);
    if (block->state == MW_BLOCK_IN_USE) {
        status = mw_sizes_add(&worker->sizes, block->size, true);
    } else if (block->state == MW_BLOCK_SKIPPED) {
        worker->arena.skipped_bytes += block->size;
    } else if (block->state != MW_BLOCK_METADATA) {
        free_add(worker, block, resident.rss);
        status = mw_sizes_add(&worker->sizes, block->size, false);
        if (worker->glibc->options->classify_content)
            content_sample(worker, block, resident.rss);
    }
    if (worker->scanned->arena)
        mw_glibc_trim_block(&worker->trim, block);
    return status;
}

/* Only the blocks nearest to the end of the segment can be pins: of a batch, the last few that are
 * not free; what came before it is forgotten when they are enough. */
static void pins_add(struct worker *worker, const struct mw_block *blocks, size_t count)
{
    size_t first = count, held = 0;
    while (first > 0 && held <= MW_GLIBC_PIN_RING)
        held += mw_glibc_pins_counts(&blocks[--first]);
    if (held > MW_GLIBC_PIN_RING) { /* blocks[first] is one too many */
        first++;
        worker->pins.seen = 0;
        worker->pins.gap_rss = 0;
    }
    for (size_t i = first; i < count; i++)
        mw_glibc_pins_block(&worker->pins, &blocks[i],
                            mw_glibc_pages_of(&worker->pages, &blocks[i]).rss);
}

/* A batch in pages that are all resident, which most are, or of which nothing is known. Live and
 * free blocks alternate as they like: what all of them have in common is summed up without a branch
 * on it. */
static enum mw_status uniform_blocks_add(struct worker *worker, const struct mw_block *blocks,
                                         size_t count, bool is_resident)
{
    struct mw_heap_segment *segment = worker->segment;
    static const uint64_t small_sizes[2] = {4096, SAMPLE_CHUNK_MIN}; /* in use, free */
    uint64_t bytes[2] = {0, 0}, counts[2] = {0, 0};
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        const struct mw_block *block = &blocks[i];
        if (block->state > MW_BLOCK_FREE || block->size >= small_sizes[block->state]) {
            status = block_add(worker, block,
                               (struct mw_glibc_resident){is_resident ? block->size : 0, 0});
            continue;
        }
        bool is_free = block->state == MW_BLOCK_FREE;
        bytes[is_free] += block->size;
        counts[is_free]++;
        mw_sizes_add_small(&worker->sizes, block->size, is_free);
        mw_glibc_trim_small(&worker->trim, block, is_free);
    }
    segment->split.in_use_bytes += bytes[0];
    segment->in_use_count += counts[0];
    segment->split.free_bytes += bytes[1];
    segment->free_count += counts[1];
    if (is_resident) {
        segment->split.in_use_rss += bytes[0];
        segment->split.free_rss += bytes[1];
        worker->interior_free_rss += bytes[1];
    }
    return status;
}

static enum mw_status blocks_add(struct worker *worker, const struct mw_block *blocks, size_t count)
{
    const struct mw_heap_options *options = worker->glibc->options;
    enum mw_status added = MW_OK;
    assert(count > 0);
    mw_addr end = blocks[count - 1].address + blocks[count - 1].size;
    bool is_resident = mw_glibc_pages_all_resident(&worker->pages, blocks[0].address, end);
    if (is_resident || !worker->pages.known) {
        added = uniform_blocks_add(worker, blocks, count, is_resident);
    } else {
        for (size_t i = 0; i < count && added == MW_OK; i++)
            added = block_add(worker, &blocks[i], mw_glibc_pages_of(&worker->pages, &blocks[i]));
    }
    if (added != MW_OK)
        return added;
    if (worker->scanned->segment.top != 0)
        pins_add(worker, blocks, count);
    for (size_t i = 0; i < options->visitor_count; i++) {
        struct mw_heap_visitor *visitor = &options->visitors[i];
        if (!visitor->blocks)
            continue;
        enum mw_status status = visitor->blocks(visitor->user, worker->segment, blocks, count);
        if (status != MW_OK)
            return status;
    }
    return mw_context_canceled(worker->glibc->context) ? MW_CANCELED : MW_OK;
}

static enum mw_status visitors_segment(struct worker *worker, bool begin)
{
    const struct mw_heap_options *options = worker->glibc->options;
    for (size_t i = 0; i < options->visitor_count; i++) {
        struct mw_heap_visitor *visitor = &options->visitors[i];
        enum mw_status (*call)(void *, const struct mw_heap_segment *) =
            begin ? visitor->segment_begin : visitor->segment_end;
        enum mw_status status = call ? call(visitor->user, worker->segment) : MW_OK;
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

/* The kind of content of a pin, and its row. */
static enum mw_status pin_add(struct worker *worker)
{
    struct mw_pin pin;
    if (worker->scanned->segment.top == 0 || !worker->pages.known ||
        !mw_glibc_pins_end(&worker->pins, &worker->scanned->segment, worker->top_rss, &pin))
        return MW_OK;
    uint8_t bytes[MW_CONTENT_SAMPLE_BYTES];
    size_t length = pin.size_bytes - 8 < sizeof bytes ? (size_t)(pin.size_bytes - 8) & ~(size_t)7
                                                      : sizeof bytes;
    pin.content = MW_CONTENT_MIXED;
    if (mw_image_read_present(worker->glibc->image, pin.block, bytes, length) == length)
        pin.content = mw_content_classify(worker->glibc->image, bytes, length);
    pthread_mutex_lock(&worker->tally->lock);
    enum mw_status status = mw_glibc_sums_pin(worker->tally->sums, &pin);
    pthread_mutex_unlock(&worker->tally->lock);
    return status;
}

static void pages_unknown_tell(struct worker *worker, const struct mw_heap_segment *segment)
{
    mw_finding_add(&worker->findings, "pages-unknown", segment->start,
                   segment->end - segment->start,
                   "which pages of a heap are resident was not told; they count as absent");
}

/* After the last block: conservation, the arena's sums, trim and pin of this segment. */
static enum mw_status segment_finish(struct worker *worker)
{
    struct mw_heap_segment *segment = worker->segment;
    const struct mw_split *split = &segment->split;
    struct mw_glibc_sums_part *part = &worker->part;
    assert(split->in_use_bytes + split->free_bytes + split->metadata_bytes ==
           segment->end - segment->start);
    mw_glibc_trim_end(&worker->trim);
    if (worker->pages.failed)
        pages_unknown_tell(worker, segment);
    segment->trimmable_bytes = worker->trim.bytes;
    part->trimmable_bytes += segment->trimmable_bytes;
    part->free_resident_bytes += split->free_rss;
    part->fragment_bytes += worker->interior_free_rss;
    part->fragment_bytes -= worker->trim.bytes - worker->trim.top_bytes;
    part->skipped_bytes += worker->arena.skipped_bytes;
    part->free_large_bytes += worker->arena.free_large_bytes;
    part->free_large_rss += worker->arena.free_large_rss;
    if (worker->scanned->arena == 0) {
        part->mmapped_bytes += segment->end - segment->start;
        part->mmapped_count++;
        return MW_OK;
    }
    struct mw_arena *arena = &worker->arena;
    arena->heap_count = 1;
    arena->in_use_bytes = split->in_use_bytes;
    arena->in_use_count = segment->in_use_count;
    arena->free_bytes = split->free_bytes;
    arena->free_count = segment->free_count;
    arena->metadata_bytes = split->metadata_bytes;
    arena->free_rss = split->free_rss;
    arena->trimmable_bytes = segment->trimmable_bytes;
    pthread_mutex_lock(&worker->tally->lock);
    bool is_main = mw_glibc_sums_arena(worker->tally->sums, worker->scanned->arena, arena,
                                       segment->end - segment->start);
    pthread_mutex_unlock(&worker->tally->lock);
    if (!is_main)
        part->thread_top_rss += worker->top_rss;
    return pin_add(worker);
}

/* What was not read: its pages are looked at, the rest is estimated when all others are done. */
static enum mw_status segment_measure(struct worker *worker, struct mw_glibc_scanned *scanned)
{
    enum mw_status status = mw_glibc_sample_measure(scanned, worker->glibc->image);
    if (scanned->measured.is_lost)
        pages_unknown_tell(worker, &scanned->segment.public);
    if (status == MW_OK && mw_context_canceled(worker->glibc->context))
        status = MW_CANCELED;
    return status;
}

static enum mw_status segment_tally(struct worker *worker, struct mw_glibc_scanned *scanned)
{
    struct mw_glibc *glibc = worker->glibc;
    if (scanned->segment.public.is_estimated)
        return segment_measure(worker, scanned);
    worker->scanned = scanned;
    worker->segment = &scanned->segment.public;
    worker->arena = (struct mw_arena){0};
    enum mw_status status = mw_glibc_pages_begin(&worker->pages, scanned, glibc->image);
    if (status != MW_OK)
        return status;
    worker->trim = (struct mw_glibc_trim){
        .glibc = glibc, .segment = &scanned->segment, .pages = &worker->pages};
    worker->pins.seen = 0;
    worker->pins.gap_rss = 0;
    worker->top_rss = worker->interior_free_rss = 0;
    mw_glibc_blocks_begin(&worker->blocks, scanned, glibc->state->bins == 24 ? 16 : 0);
    status = visitors_segment(worker, true);
    while (status == MW_OK && mw_glibc_blocks_next(&worker->blocks))
        status = blocks_add(worker, worker->blocks.items, worker->blocks.count);
    if (status == MW_OK)
        status = segment_finish(worker);
    if (status == MW_OK)
        status = visitors_segment(worker, false);
    return status;
}

static struct mw_glibc_scanned *segment_take(struct tally *tally)
{
    struct mw_glibc_scanned *scanned = NULL;
    pthread_mutex_lock(&tally->lock);
    if (tally->status == MW_OK && tally->next < tally->scan->segments.count)
        scanned = &tally->scan->segments.items[tally->next++];
    pthread_mutex_unlock(&tally->lock);
    return scanned;
}

static void worker_run(void *state)
{
    struct worker *worker = *(struct worker **)state;
    struct tally *tally = worker->tally;
    struct mw_glibc_scanned *scanned;
    while (worker->status == MW_OK && (scanned = segment_take(tally)) != NULL)
        worker->status = segment_tally(worker, scanned);
    pthread_mutex_lock(&tally->lock);
    if (tally->status == MW_OK)
        tally->status = worker->status;
    pthread_mutex_unlock(&tally->lock);
}

static size_t workers_wanted(const struct tally *tally)
{
    const struct mw_heap_options *options = tally->glibc->options;
    if (options->visitor_count > 0 || options->trim_range ||
        tally->scan->read_bytes < PARALLEL_BYTES_MIN)
        return 1;
    return mw_workers_allowed(tally->glibc->context);
}

/* Its sums, into those of all. */
static enum mw_status worker_merge(struct tally *tally, struct worker *worker)
{
    mw_findings_merge(tally->glibc->findings, &worker->findings);
    return tally->status == MW_OK ? mw_glibc_sums_merge(tally->sums, &worker->part, &worker->sizes)
                                  : tally->status;
}

static void worker_free(struct worker *worker)
{
    mw_findings_deinit(&worker->findings);
    mw_sizes_deinit(&worker->sizes);
    free(worker->pages.flags);
    free(worker);
}

static struct worker *worker_new(struct tally *tally)
{
    struct worker *worker = mw_calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    worker->tally = tally;
    worker->glibc = tally->glibc;
    if (mw_sizes_init(&worker->sizes) == MW_OK)
        return worker;
    worker_free(worker);
    return NULL;
}

enum mw_status mw_glibc_tally(struct mw_glibc *glibc, struct mw_glibc_scan *scan,
                              struct mw_allocator *allocator)
{
    struct tally tally = {.glibc = glibc, .scan = scan};
    struct worker *workers[MW_WORKERS_MAX];
    tally.sums = mw_glibc_sums_new(glibc, scan);
    if (!tally.sums)
        return MW_NOMEM;
    pthread_mutex_init(&tally.lock, NULL);
    size_t wanted = workers_wanted(&tally), count = 0;
    while (count < wanted && (workers[count] = worker_new(&tally)) != NULL)
        count++; /* fewer are enough, if there is one */
    if (count > 0)
        mw_workers_run(worker_run, workers, sizeof(struct worker *), count);
    else
        tally.status = MW_NOMEM;
    for (size_t i = 0; i < count; i++) {
        enum mw_status status = worker_merge(&tally, workers[i]);
        tally.status = tally.status == MW_OK ? status : tally.status;
        worker_free(workers[i]);
    }
    pthread_mutex_destroy(&tally.lock);
    if (tally.status == MW_OK)
        tally.status = mw_glibc_sums_finish(tally.sums, allocator);
    mw_glibc_sums_free(tally.sums);
    return tally.status;
}
