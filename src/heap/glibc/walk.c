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
    size_t cached_at;    /* next entry of the cached list */
    mw_addr cached_next; /* its address; UINT64_MAX: no more */
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

static void cached_next_set(struct walk *walk, size_t at)
{
    const struct mw_glibc *glibc = walk->glibc;
    bool is_there = glibc->cached_is_sorted && at < glibc->cached.count;
    walk->cached_at = at;
    walk->cached_next =
        is_there ? glibc->cached.items[at] & ~(uint64_t)MW_GLIBC_CACHED_FASTBIN : UINT64_MAX;
}

/* In use, or cached? Addresses come in ascending order. */
static inline enum mw_block_state used_state(struct walk *walk, mw_addr chunk)
{
    while (walk->cached_next < chunk)
        cached_next_set(walk, walk->cached_at + 1);
    if (walk->cached_next != chunk)
        return MW_BLOCK_IN_USE;
    uint64_t entry = walk->glibc->cached.items[walk->cached_at];
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

static bool size_is_sound(uint64_t head, mw_addr chunk, mw_addr end)
{
    uint64_t size = head & ~(uint64_t)7;
    return size >= MW_GLIBC_MINSIZE && size % 16 == 0 && size <= end - chunk &&
           !(head & MW_GLIBC_IS_MMAPPED);
}

/* A chunk whose successor is not known yet. */
struct held_chunk {
    mw_addr address; /* 0: none */
    uint64_t head;
};

/* The common case, made quick: live chunks one after the other in the window. Stops before
 * whatever needs a closer look; chunk is where, held the one before it. */
static mw_addr walk_live_chunks(struct walk *walk, mw_addr chunk, struct held_chunk *held)
{
    const struct mw_window *window = &walk->glibc->window;
    const mw_addr end = walk->segment->public.end, top = walk->segment->top;
    const mw_addr base = window->start, length = window->length;
    mw_addr address = held->address;
    uint64_t held_head = held->head;
    assert(address != 0);
    while (chunk - base < length && length - (chunk - base) >= 16) {
        uint64_t head;
        memcpy(&head, window->bytes + (chunk - base) + 8, 8);
        if (!(head & MW_GLIBC_PREV_INUSE) || !size_is_sound(head, chunk, end) || chunk == top ||
            address >= walk->cached_next)
            break;
        walk_emit(walk, address, held_head & ~(uint64_t)7, MW_BLOCK_IN_USE);
        address = chunk;
        held_head = head;
        chunk += head & ~(uint64_t)7;
        if (walk->status != MW_OK)
            break;
    }
    *held = (struct held_chunk){address, held_head};
    return chunk;
}

/* Chunks from first to top or fence. The header before `chunk` decides nothing: each chunk is
 * held back until its successor tells whether it is in use. */
static void walk_chunks(struct walk *walk, mw_addr chunk)
{
    struct mw_window *window = &walk->glibc->window;
    const struct mw_glibc_segment *segment = walk->segment;
    mw_addr end = segment->public.end;
    struct held_chunk held = {0, 0};
    while (walk->status == MW_OK) {
        if (held.address != 0)
            chunk = walk_live_chunks(walk, chunk, &held);
        const uint8_t *header = end - chunk >= 16 ? mw_window_at(window, chunk, 16) : NULL;
        uint64_t prev_size = 0, head = 0;
        if (header) {
            memcpy(&prev_size, header, 8);
            memcpy(&head, header + 8, 8);
        }
        if (!header ||
            (held.address && !walk_settle(walk, held.address, held.head, prev_size, head))) {
            walk_skip_rest(walk, held.address ? held.address : chunk);
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
        if (!size_is_sound(head, chunk, end)) {
            walk_skip_rest(walk, chunk);
            return;
        }
        held = (struct held_chunk){chunk, head};
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

enum mw_status mw_glibc_walk_segment(struct mw_glibc *glibc, const struct mw_glibc_segment *segment,
                                     const struct mw_glibc_sink *sink, mw_addr *end_out)
{
    struct walk walk;
    walk.glibc = glibc;
    walk.segment = segment;
    walk.sink = sink;
    cached_next_set(&walk, cached_lower_bound(glibc, segment->public.start));
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
