/* graph/reach.c: marks along edges; direct and indirect.
 *
 * The queue is the array of all that has been reached: what lies ahead in it is fetched into the
 * cache while the head is looked at. Each edge is followed once. Unreachable blocks that are not
 * led to from one that nothing points to lie on cycles or behind them: in the reverse order in
 * which a depth-first search leaves them, the first of each such group is on the cycle that leads
 * to the rest (as in Kosaraju's algorithm). Linear in blocks and edges. */
#include "graph/reach.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16, CANCEL_STEP = 1 << 16 };

/* ---- marking ---- */

static inline void ahead_fetch(const struct mw_scan *scan, size_t head)
{
    if (head + AHEAD < scan->reached_count)
        __builtin_prefetch(&scan->edges.first[scan->reached[head + AHEAD]]);
    if (head + AHEAD / 2 < scan->reached_count) {
        uint32_t first = scan->edges.first[scan->reached[head + AHEAD / 2]];
        if (!(first & MW_EDGE_FLAG))
            __builtin_prefetch(scan->edges.chunks[first >> MW_EDGE_CHUNK_SHIFT].items +
                               (first & (MW_EDGE_CHUNK - 1)));
    }
}

static inline void flood_into(struct mw_scan *scan, uint64_t *marks, uint32_t rank)
{
    uint64_t *word = &marks[rank / 64], bit = (uint64_t)1 << rank % 64;
    if (*word & bit)
        return;
    *word |= bit;
    scan->reached[scan->reached_count++] = rank;
}

/* A list, without the steps of a reader: here is where all edges pass. */
static void list_flood(struct mw_scan *scan, uint64_t *marks, uint32_t first)
{
    uint32_t chunk = first >> MW_EDGE_CHUNK_SHIFT;
    const uint32_t *at = scan->edges.chunks[chunk].items + (first & (MW_EDGE_CHUNK - 1));
    for (;; at++) {
        if (*at == MW_EDGE_JUMP) {
            chunk = scan->edges.chunks[chunk].next;
            at = scan->edges.chunks[chunk].items;
        }
        flood_into(scan, marks, *at & ~MW_EDGE_FLAG);
        if (*at & MW_EDGE_FLAG)
            return;
    }
}

/* Follow the edges of all that is in the queue from head on. */
static enum mw_status flood(struct mw_scan *scan, uint64_t *marks, size_t head,
                            const struct mw_context *context)
{
    for (; head < scan->reached_count; head++) {
        if (head % CANCEL_STEP == 0 && mw_context_canceled(context))
            return MW_CANCELED;
        ahead_fetch(scan, head);
        uint32_t first = scan->edges.first[scan->reached[head]];
        if (first == MW_EDGE_NONE)
            continue;
        if (first & MW_EDGE_FLAG)
            flood_into(scan, marks, first & ~MW_EDGE_FLAG);
        else
            list_flood(scan, marks, first);
    }
    return MW_OK;
}

/* ---- direct and indirect ---- */

struct lost {
    struct mw_reach *reach;
    uint64_t *seen; /* reachable, or led to from a direct one */
    const struct mw_context *context;
};

/* Everything that the block leads to is seen now. */
static enum mw_status lost_flood(struct lost *lost, uint32_t rank)
{
    struct mw_scan *scan = &lost->reach->scan;
    size_t head = scan->reached_count;
    mw_bit_set(lost->seen, rank);
    scan->reached[scan->reached_count++] = rank;
    return flood(scan, lost->seen, head, lost->context);
}

static enum mw_status direct_take(struct lost *lost, uint32_t rank)
{
    mw_bit_set(lost->reach->is_direct, rank);
    return lost_flood(lost, rank);
}

/* Calls visit for each rank in use that is not in `without`, ascending. */
static enum mw_status
ranks_visit(struct lost *lost, const uint64_t *without,
            enum mw_status (*visit)(struct lost *lost, uint32_t rank, void *user), void *user)
{
    const struct mw_index *index = lost->reach->index;
    for (uint32_t word = 0; word <= (index->rank_count - 1) / 64 && index->rank_count > 0; word++) {
        for (uint64_t left = index->is_used[word] & ~without[word]; left; left &= left - 1) {
            uint32_t rank = word * 64 + (uint32_t)__builtin_ctzll(left);
            enum mw_status status = mw_bit_get(without, rank) ? MW_OK : visit(lost, rank, user);
            if (status != MW_OK)
                return status;
        }
    }
    return MW_OK;
}

static enum mw_status pointed_mark(struct lost *lost, uint32_t rank, void *user)
{
    uint64_t *pointed = user;
    struct mw_edge_reader edges = mw_edges_of(&lost->reach->scan.edges, rank);
    for (uint32_t target; mw_edge_next(&edges, &target);)
        mw_bit_set(pointed, target);
    return MW_OK;
}

static enum mw_status unpointed_take(struct lost *lost, uint32_t rank, void *user)
{
    const uint64_t *pointed = user;
    return mw_bit_get(pointed, rank) ? MW_OK : direct_take(lost, rank);
}

/* ---- cycles ---- */

struct frame {
    uint32_t rank;
    struct mw_edge_reader edges;
};

struct search {
    uint64_t *entered;
    MW_VEC(struct frame) stack;
    MW_VEC(uint32_t) left; /* in the order in which the search leaves them */
};

static enum mw_status search_enter(struct lost *lost, struct search *search, uint32_t rank)
{
    struct frame frame = {rank, mw_edges_of(&lost->reach->scan.edges, rank)};
    mw_bit_set(search->entered, rank);
    return mw_vec_push(&search->stack, SIZE_MAX / sizeof frame, frame);
}

static enum mw_status search_from(struct lost *lost, uint32_t rank, void *user)
{
    struct search *search = user;
    if (mw_bit_get(search->entered, rank))
        return MW_OK;
    enum mw_status status = search_enter(lost, search, rank);
    while (search->stack.count > 0 && status == MW_OK) {
        struct frame *top = &search->stack.items[search->stack.count - 1];
        uint32_t target;
        if (!mw_edge_next(&top->edges, &target)) {
            status = mw_vec_push(&search->left, SIZE_MAX / sizeof target, top->rank);
            search->stack.count--;
        } else if (!mw_bit_get(lost->seen, target) && !mw_bit_get(search->entered, target)) {
            status = search_enter(lost, search, target);
        }
    }
    return status;
}

/* Of what is left each block is led to by another one. */
static enum mw_status cycles_take(struct lost *lost, size_t words)
{
    struct search search = {.entered = mw_calloc(words, sizeof *search.entered)};
    enum mw_status status = search.entered ? MW_OK : MW_NOMEM;
    if (status == MW_OK)
        status = ranks_visit(lost, lost->seen, search_from, &search);
    for (size_t i = search.left.count; i > 0 && status == MW_OK; i--)
        if (!mw_bit_get(lost->seen, search.left.items[i - 1]))
            status = direct_take(lost, search.left.items[i - 1]);
    free(search.entered);
    mw_vec_deinit(&search.stack);
    mw_vec_deinit(&search.left);
    return status;
}

static enum mw_status lost_sort(struct mw_reach *reach, const struct mw_context *context)
{
    size_t words = reach->index->rank_count / 64 + 1;
    struct lost lost = {reach, mw_calloc(words, sizeof *lost.seen), context};
    uint64_t *pointed = mw_calloc(words, sizeof *pointed);
    enum mw_status status = lost.seen && pointed ? MW_OK : MW_NOMEM;
    if (status == MW_OK) {
        memcpy(lost.seen, reach->scan.marks, words * sizeof *lost.seen);
        status = ranks_visit(&lost, reach->scan.marks, pointed_mark, pointed);
    }
    if (status == MW_OK)
        status = ranks_visit(&lost, reach->scan.marks, unpointed_take, pointed);
    if (status == MW_OK)
        status = cycles_take(&lost, words);
    free(lost.seen);
    free(pointed);
    return status;
}

/* ---- counting ---- */

static void all_count(struct mw_reach *reach)
{
    struct mw_index_cursor cursor = {0};
    mw_addr start, next;
    bool is_there = mw_index_next(reach->index, &cursor, &start);
    for (uint32_t rank = 0; is_there; rank++, start = next) {
        is_there = mw_index_next(reach->index, &cursor, &next);
        if (!is_there || !mw_bit_get(reach->index->is_used, rank))
            continue;
        uint64_t size = mw_index_block_end(reach->index, next) - start;
        if (mw_reach_is_reachable(reach, rank)) {
            reach->reachable_count++;
            reach->reachable_bytes += size;
            continue;
        }
        if (reach->unreachable_size_min == 0 || size < reach->unreachable_size_min)
            reach->unreachable_size_min = size;
        if (mw_bit_get(reach->is_direct, rank)) {
            reach->direct_count++;
            reach->direct_bytes += size;
        } else {
            reach->indirect_count++;
            reach->indirect_bytes += size;
        }
    }
    reach->unreachable_count = reach->direct_count + reach->indirect_count;
    reach->unreachable_bytes = reach->direct_bytes + reach->indirect_bytes;
}

/* ---- the two halves ---- */

static enum mw_status fail(enum mw_status status, struct mw_error *err)
{
    if (status == MW_NOMEM)
        return mw_fail(err, status, "out of memory looking for what is reachable");
    if (status == MW_LIMIT)
        return mw_fail(err, status,
                       "the heap has more blocks or pointers than this machine's memory can hold");
    return mw_fail(err, status, "canceled");
}

/* A damaged heap may claim to span gigabytes where next to nothing is mapped. */
static bool claims_too_much(const struct mw_image *image, const struct mw_index *index)
{
    enum { SHARE = 8 };
    const uint64_t least = (uint64_t)8 << 30;
    uint64_t span = (uint64_t)index->tracts.count << MW_TRACT_SHIFT, mapped = 0;
    for (size_t i = 0; i < image->regions.count; i++)
        mapped += mw_mapping_size(&image->regions.items[i]) / SHARE + 1;
    return image->kind != MW_IMAGE_LIVE && span > least && span / SHARE / SHARE > mapped;
}

enum mw_status mw_reach_read(struct mw_image *image, struct mw_index *index,
                             const struct mw_allocator *allocators, size_t allocator_count,
                             struct mw_context *context, struct mw_reach *reach_out,
                             struct mw_error *err)
{
    *reach_out = (struct mw_reach){.index = index};
    if (claims_too_much(image, index)) {
        mw_reach_deinit(reach_out);
        return mw_fail(err, MW_LIMIT,
                       "the heap claims far more memory than is mapped: what points "
                       "to its blocks was not looked for");
    }
    enum mw_status status = mw_index_close(index);
    if (status == MW_OK)
        status = mw_roots_collect(image, allocators, allocator_count, index, &reach_out->roots);
    if (status == MW_OK)
        status = mw_scan_run(image, index, &reach_out->roots, context, &reach_out->scan);
    reach_out->is_of_once =
        (!mw_image_moves(image) || image->stopped) && image->snapshot_lacks_bytes == 0;
    reach_out->is_of_copy = image->has_snapshot;
    reach_out->is_complete = index->left_out_bytes == 0 && reach_out->roots.left_out_bytes == 0 &&
                             reach_out->scan.missing_bytes == 0 &&
                             reach_out->roots.blind_threads == 0;
    if (status == MW_OK)
        return MW_OK;
    mw_reach_deinit(reach_out);
    return fail(status, err);
}

enum mw_status mw_reach_judge(struct mw_reach *reach, struct mw_context *context,
                              struct mw_error *err)
{
    size_t words = reach->index->rank_count / 64 + 1;
    reach->is_direct = mw_calloc(words, sizeof *reach->is_direct);
    enum mw_status status = reach->is_direct ? MW_OK : MW_NOMEM;
    if (status == MW_OK)
        status = flood(&reach->scan, reach->scan.marks, 0, context);
    if (status == MW_OK)
        status = lost_sort(reach, context);
    if (status != MW_OK) {
        mw_reach_deinit(reach);
        return fail(status, err);
    }
    all_count(reach);
    assert(reach->reachable_count + reach->unreachable_count == reach->index->used_count);
    reach->is_done = true;
    return MW_OK;
}

void mw_reach_deinit(struct mw_reach *reach)
{
    mw_index_free(reach->index);
    mw_roots_deinit(&reach->roots);
    mw_scan_deinit(&reach->scan);
    free(reach->is_direct);
    *reach = (struct mw_reach){0};
}
