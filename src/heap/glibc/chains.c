/* heap/glibc/chains.c: chunks followed from a start to the arena's top or to the fences that end a
 * segment of the main arena.
 *
 * The searches for a start try many: a chunk start that one chain went through is not gone through
 * again, and what all chains of a search read is bounded by a few times the memory searched:
 * linear. Of a live target that may not be held so long, a chain is followed under one stop after
 * the other: where it was is remembered, and believed while it leads on from there. */
#include "heap/glibc/chains.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

#include <assert.h>
#include <string.h>

enum {
    FENCE_SIZE = 16,
    VISITED_PASSES = 8,
    STEPS_AT_ONCE = 1 << 14,    /* between two looks at the clock */
    STEPS_CONVINCING = 1 << 16, /* so many sound headers in a row are no accident */
};
static const uint64_t VISITED_SPAN_MAX = (uint64_t)64 << 30; /* 512 MiB of bits, used as needed */

bool mw_glibc_chunk_head(struct mw_glibc *glibc, mw_addr chunk, uint64_t *head_out)
{
    const uint8_t *header = mw_window_at(&glibc->window, chunk, 16);
    if (!header)
        return false;
    memcpy(head_out, header + 8, 8);
    return true;
}

mw_addr mw_glibc_fences_end(struct mw_window *window, mw_addr chunk, mw_addr limit)
{
    uint64_t page = window->image->page_size;
    for (int count = 1; count <= 3; count++) {
        const uint8_t *bytes = chunk < limit ? mw_window_at(window, chunk, 16) : NULL;
        uint64_t size;
        if (!bytes)
            return 0;
        memcpy(&size, bytes + 8, sizeof size);
        if ((size & ~(uint64_t)MW_GLIBC_PREV_INUSE) != FENCE_SIZE)
            return 0;
        chunk += FENCE_SIZE;
        if (count >= 2 && chunk % page == 0)
            return chunk;
    }
    return 0;
}

enum mw_status mw_glibc_chains_begin(struct mw_glibc *glibc, mw_addr start, mw_addr limit)
{
    struct mw_glibc_visited *visited = &glibc->visited;
    assert(start < limit);
    if (visited->bits && visited->limit == limit && visited->start <= start)
        return MW_OK;
    free(visited->bits);
    mw_addr end = limit - start > VISITED_SPAN_MAX ? start + VISITED_SPAN_MAX : limit;
    start &= ~(mw_addr)15;
    *visited = (struct mw_glibc_visited){
        .start = start,
        .end = end,
        .limit = limit,
        .bytes_left = VISITED_PASSES * (limit - start) + MW_WINDOW_BYTES,
        .bits = mw_calloc((end - start) / 128 + 1, 1),
    };
    return visited->bits ? MW_OK : MW_NOMEM;
}

/* A chain comes to a chunk of this size. False: it need not go on, one was here before, or all
 * together have cost too much. */
static bool visited_step(struct mw_glibc *glibc, mw_addr chunk, uint64_t size)
{
    struct mw_glibc_visited *visited = &glibc->visited;
    uint64_t cost = size < glibc->image->page_size ? size : glibc->image->page_size;
    if (visited->bytes_left < cost) {
        visited->is_exhausted = true;
        mw_finding_add(glibc->findings, "scan-cut-short", chunk, visited->limit - chunk,
                       "the main arena was not searched further: too much looks like its chunks");
        return false;
    }
    visited->bytes_left -= cost;
    if (chunk < visited->start || chunk >= visited->end)
        return true;
    uint64_t slot = (chunk - visited->start) / 16;
    uint8_t bit = (uint8_t)(1u << slot % 8);
    bool before = visited->bits[slot / 8] & bit;
    visited->bits[slot / 8] |= bit;
    return !before;
}

/* -- memory of earlier stops ----------------------------------------------------------------- */

static size_t memo_lower_bound(const struct mw_glibc_chains *chains, mw_addr start)
{
    size_t low = 0, high = chains->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (chains->items[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct mw_glibc_chain *memo_find(const struct mw_glibc *glibc, mw_addr start)
{
    const struct mw_glibc_chains *chains = glibc->chains;
    size_t at = chains ? memo_lower_bound(chains, start) : 0;
    return chains && at < chains->count && chains->items[at].start == start ? &chains->items[at]
                                                                            : NULL;
}

/* How far the chain from start leads. Out of memory it is followed from its start again. */
static void memo_keep(struct mw_glibc *glibc, mw_addr start, mw_addr reached, bool is_fenced)
{
    struct mw_glibc_chains *chains = glibc->chains;
    struct mw_glibc_chain *memo = memo_find(glibc, start);
    const struct mw_glibc_chain row = {start, reached, is_fenced};
    if (memo) {
        *memo = row;
    } else if (chains && mw_vec_push(chains, MW_LIMIT_HEAP_SEGMENTS, row) == MW_OK) {
        size_t last = chains->count - 1;
        chains->count = last;
        size_t at = memo_lower_bound(chains, start);
        memmove(&chains->items[at + 1], &chains->items[at], (last - at) * sizeof row);
        chains->items[at] = row;
        chains->count = last + 1;
    }
}

/* -- following ------------------------------------------------------------------------------- */

/* One chain as it is followed. */
struct follow {
    struct mw_glibc *glibc;
    mw_addr start, chunk, limit;
    bool is_search;
    uint64_t steps;
};

enum verdict { GOES_ON, ENDS, BREAKS };

/* Does a top chunk of this size end where there is memory? In between there may be holes. */
static bool top_is_there(const struct mw_glibc *glibc, mw_addr top, uint64_t size, mw_addr limit)
{
    return size >= FENCE_SIZE && size <= limit - top &&
           mw_image_region(glibc->image, top + size - 1) != NULL;
}

static enum verdict chunk_follow(struct follow *follow, struct mw_glibc_chain_end *end_out)
{
    struct mw_glibc *glibc = follow->glibc;
    mw_addr chunk = follow->chunk, limit = follow->limit;
    uint64_t head;
    if (chunk >= limit || !mw_glibc_chunk_head(glibc, chunk, &head))
        return BREAKS;
    uint64_t size = head & ~(uint64_t)7;
    if (chunk == glibc->arenas.items[0].top) {
        *end_out = (struct mw_glibc_chain_end){chunk + size, true};
        return top_is_there(glibc, chunk, size, limit) ? ENDS : BREAKS;
    }
    if (size == FENCE_SIZE) {
        mw_addr end = mw_glibc_fences_end(&glibc->window, chunk, limit);
        *end_out = (struct mw_glibc_chain_end){end, false};
        return end != 0 ? ENDS : BREAKS;
    }
    if (size < MW_GLIBC_MINSIZE || size % 16 || size > limit - chunk ||
        (head & (MW_GLIBC_IS_MMAPPED | MW_GLIBC_NON_MAIN)))
        return BREAKS;
    if (follow->is_search && !visited_step(glibc, chunk, size))
        return BREAKS;
    follow->chunk = chunk + size; /* each step is at least MINSIZE */
    return GOES_ON;
}

/* Does the chain hold the top chunk, as far as one can tell without following it there? */
static bool leads_to_top(const struct follow *follow, struct mw_glibc_chain_end *end_out)
{
    mw_addr top = follow->glibc->arenas.items[0].top;
    uint64_t head;
    if (follow->steps < STEPS_CONVINCING || top < follow->chunk || top >= follow->limit ||
        mw_image_read_u64(follow->glibc->image, top + 8, &head) != MW_OK)
        return false;
    uint64_t size = head & ~(uint64_t)7;
    *end_out = (struct mw_glibc_chain_end){top + size, true};
    return top_is_there(follow->glibc, top, size, follow->limit);
}

/* Now and then, of a target that waits: remember, and look at the clock. False: stop here. */
static bool pause_allows(struct follow *follow)
{
    struct mw_glibc *glibc = follow->glibc;
    if (!glibc->chains)
        return true;
    memo_keep(glibc, follow->start, follow->chunk, false);
    if (glibc->scan_until_ns && mw_clock_monotonic_ns() > glibc->scan_until_ns)
        glibc->is_cut_short = true;
    return !glibc->is_cut_short;
}

static bool follow_all(struct follow *follow, struct mw_glibc_chain_end *end_out)
{
    for (;;) {
        enum verdict verdict = chunk_follow(follow, end_out);
        if (verdict != GOES_ON)
            return verdict == ENDS;
        if (++follow->steps % STEPS_AT_ONCE != 0)
            continue;
        if (follow->glibc->chains && leads_to_top(follow, end_out))
            return true;
        if (!pause_allows(follow))
            return false;
    }
}

bool mw_glibc_chain_follow(struct mw_glibc *glibc, mw_addr chunk, mw_addr limit, bool is_search,
                           struct mw_glibc_chain_end *end_out)
{
    const struct mw_glibc_chain *memo = memo_find(glibc, chunk);
    struct follow follow = {glibc, chunk, chunk, limit, is_search, 0};
    if (memo && memo->is_fenced && memo->reached <= limit) {
        *end_out = (struct mw_glibc_chain_end){memo->reached, false};
        return true;
    }
    if (memo && memo->reached < limit) {
        follow.chunk = memo->reached;
        follow.steps = memo->reached > chunk ? STEPS_CONVINCING : 0;
    }
    bool is_whole = follow_all(&follow, end_out);
    if (!is_whole && memo && !glibc->is_cut_short) { /* what it led to is no boundary any more */
        follow = (struct follow){glibc, chunk, chunk, limit, is_search, 0};
        is_whole = follow_all(&follow, end_out);
    }
    if (is_whole && !end_out->has_top)
        memo_keep(glibc, chunk, end_out->end, true);
    else if (is_whole && !memo_find(glibc, chunk))
        memo_keep(glibc, chunk, chunk, false); /* top moves: from here again */
    return is_whole;
}
