/* heap/glibc/walk.c: one segment → blocks that tile it.
 *
 * A chunk is in use when the next one has PREV_INUSE; the size of a free one stands again before
 * the next, which is checked. Cached blocks (sorted beforehand) are told apart by merging. What
 * cannot be parsed is one SKIPPED block to the end of the segment and a finding. One pass, each
 * header read once through the window.
 *
 *   metadata │ chunk │ chunk │ … │ top           or  … │ fence │ fence │ rest
 *   ▲ start    ▲ first_chunk      ▲ segment->top                          ▲ end */
#include "heap/glibc/internal.h"

#include <assert.h>
#include <string.h>

enum { BATCH = 1024 };

struct walk {
    struct mw_glibc *glibc;
    const struct mw_glibc_segment *segment;
    const struct mw_glibc_sink *sink;
    size_t cached_at; /* next entry of the cached list */
    enum mw_status status;
    size_t count;
    mw_addr expected; /* where the next block must begin: blocks tile */
    struct mw_block blocks[BATCH];
};

static void walk_flush(struct walk *walk)
{
    if (walk->count && walk->status == MW_OK)
        walk->status = walk->sink->blocks(walk->sink->user, walk->blocks, walk->count);
    walk->count = 0;
}

static inline void walk_emit(struct walk *walk, mw_addr address, uint64_t size,
                             enum mw_block_state state)
{
    if (size == 0)
        return;
    assert(address == walk->expected);
    walk->expected = address + size;
    walk->blocks[walk->count++] = (struct mw_block){address, size, state};
    if (walk->count == BATCH)
        walk_flush(walk);
}

/* The first cached entry at or after address. */
static size_t cached_lower_bound(const struct mw_glibc *glibc, mw_addr address)
{
    size_t low = 0, high = glibc->cached.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (glibc->cached.items[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* In use, or cached? Addresses come in ascending order. */
static inline enum mw_block_state used_state(struct walk *walk, mw_addr chunk)
{
    const struct mw_glibc *glibc = walk->glibc;
    if (!glibc->cached_is_sorted)
        return MW_BLOCK_IN_USE;
    while (walk->cached_at < glibc->cached.count && glibc->cached.items[walk->cached_at] < chunk)
        walk->cached_at++;
    if (walk->cached_at == glibc->cached.count)
        return MW_BLOCK_IN_USE;
    uint64_t entry = glibc->cached.items[walk->cached_at];
    if ((entry & ~(uint64_t)1) != chunk)
        return MW_BLOCK_IN_USE;
    return entry & MW_GLIBC_CACHED_FASTBIN ? MW_BLOCK_FASTBIN : MW_BLOCK_TCACHE;
}

/* The rest of the segment cannot be parsed. */
static void walk_skip_rest(struct walk *walk, mw_addr chunk)
{
    mw_finding_add(walk->glibc->findings, "heap-damaged", chunk, walk->segment->public.end - chunk,
                   "a chunk header makes no sense; the rest of its heap was not read");
    walk_emit(walk, chunk, walk->segment->public.end - chunk, MW_BLOCK_SKIPPED);
}

/* Fences close a segment that is not the newest: headers too small for a chunk. */
static bool is_fence(const struct walk *walk, mw_addr chunk, uint64_t size)
{
    uint64_t left = walk->segment->public.end - chunk;
    return size < MW_GLIBC_MINSIZE && left <= 3 * MW_GLIBC_MINSIZE;
}

/* When a thread heap's top was too small to be freed at its end, a dummy of 32 bytes stays before
 * a header of size 0. Unlike every block of a thread arena it lacks NON_MAIN_ARENA. */
static bool is_dummy_before_fence(const struct walk *walk, uint64_t held_head, uint64_t next_size)
{
    return walk->segment->public.kind == MW_SEGMENT_HEAP && next_size == 0 &&
           (held_head & ~(uint64_t)7) == MW_GLIBC_MINSIZE && !(held_head & MW_GLIBC_NON_MAIN);
}

/* What the successor of a chunk tells about it. False: they contradict each other. */
static bool walk_settle(struct walk *walk, mw_addr held, uint64_t held_head, uint64_t prev_size,
                        uint64_t head)
{
    uint64_t size = held_head & ~(uint64_t)7;
    if (!(head & MW_GLIBC_PREV_INUSE)) {
        if (prev_size != size)
            return false;
        walk_emit(walk, held, size, MW_BLOCK_FREE);
    } else if (is_dummy_before_fence(walk, held_head, head & ~(uint64_t)7)) {
        walk_emit(walk, held, size, MW_BLOCK_METADATA);
    } else {
        walk_emit(walk, held, size, used_state(walk, held));
    }
    return true;
}

static void walk_emit_top(struct walk *walk, mw_addr top, uint64_t size)
{
    uint64_t rest = walk->segment->public.end - top;
    if (size > rest)
        size = rest;
    walk_emit(walk, top, size, MW_BLOCK_TOP);
    walk_emit(walk, top + size, rest - size, MW_BLOCK_METADATA);
}

/* Chunks from first to top or fence. The header before `chunk` decides nothing: each chunk is
 * held back until its successor tells whether it is in use. */
static void walk_chunks(struct walk *walk, mw_addr chunk)
{
    struct mw_window *window = &walk->glibc->window;
    const struct mw_glibc_segment *segment = walk->segment;
    mw_addr end = segment->public.end, held = 0;
    uint64_t held_head = 0;
    while (walk->status == MW_OK) {
        const uint8_t *header = end - chunk >= 16 ? mw_window_at(window, chunk, 16) : NULL;
        uint64_t prev_size = 0, head = 0;
        if (header) {
            memcpy(&prev_size, header, 8);
            memcpy(&head, header + 8, 8);
        }
        if (!header || (held && !walk_settle(walk, held, held_head, prev_size, head))) {
            walk_skip_rest(walk, held ? held : chunk);
            return;
        }
        uint64_t size = head & ~(uint64_t)7;
        if (chunk == segment->top) {
            walk_emit_top(walk, chunk, size);
            return;
        }
        if (is_fence(walk, chunk, size)) {
            walk_emit(walk, chunk, end - chunk, MW_BLOCK_METADATA);
            return;
        }
        mw_addr cut = size < MW_GLIBC_MINSIZE && segment->public.kind == MW_SEGMENT_BRK
                          ? mw_glibc_fences_end(walk->glibc, chunk, end)
                          : 0;
        if (cut) {
            walk_emit(walk, chunk, cut - chunk, MW_BLOCK_METADATA);
            return;
        }
        if (size < MW_GLIBC_MINSIZE || size > end - chunk || (head & MW_GLIBC_IS_MMAPPED)) {
            walk_skip_rest(walk, chunk);
            return;
        }
        held = chunk;
        held_head = head;
        chunk += size;
    }
}

/* A mapping of its own: one block, between what memalign cut off in front and, since 2.43, the
 * last 16 bytes. */
static void walk_mmapped(struct walk *walk)
{
    const struct mw_glibc_segment *segment = walk->segment;
    mw_addr start = segment->public.start, chunk = segment->first_chunk;
    mw_addr end = segment->public.end - (walk->glibc->state->bins == 24 ? 16 : 0);
    walk_emit(walk, start, chunk - start, MW_BLOCK_METADATA);
    walk_emit(walk, chunk, end - chunk, used_state(walk, chunk));
    walk_emit(walk, end, segment->public.end - end, MW_BLOCK_METADATA);
}

enum mw_status mw_glibc_walk_segment(struct mw_glibc *glibc,
                                     const struct mw_glibc_segment *segment,
                                     const struct mw_glibc_sink *sink, mw_addr *end_out)
{
    struct walk walk;
    walk.glibc = glibc;
    walk.segment = segment;
    walk.sink = sink;
    walk.cached_at = cached_lower_bound(glibc, segment->public.start);
    walk.status = MW_OK;
    walk.count = 0;
    walk.expected = segment->public.start;
    if (segment->public.kind == MW_SEGMENT_MMAPPED) {
        walk_mmapped(&walk);
    } else if (segment->first_chunk < segment->public.start ||
               segment->first_chunk >= segment->public.end) {
        walk_skip_rest(&walk, segment->public.start);
    } else {
        mw_window_reset(&glibc->window, segment->public.end);
        walk_emit(&walk, segment->public.start, segment->first_chunk - segment->public.start,
                  MW_BLOCK_METADATA);
        walk_chunks(&walk, segment->first_chunk);
    }
    walk_flush(&walk);
    assert(walk.status != MW_OK || walk.expected <= segment->public.end);
    *end_out = walk.expected;
    return walk.status;
}
