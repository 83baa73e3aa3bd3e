/* graph/holder.c: common ancestors in a tree of shortest paths.
 *
 * A block that most sampled paths lead through, and that is nearest to their ends, is a container's
 * own block: its table, its head, its first node. In a list each node leads to the next, so that
 * the first node is the holder. Whether all is held by it alone is then counted, not guessed. */
#include "graph/holder.h"

#include "base/alloc.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, MOST_PERCENT = 90, STEPS_MAX = 1 << 24 };

struct finding {
    const struct mw_reach *reach;
    uint32_t samples[SAMPLES];
    size_t sample_count;
    uint64_t seen; /* blocks of that size that are reachable */
    struct mw_tree tree;
};

/* A few of the reachable blocks of that size, each with the same chance. */
static void samples_take(struct finding *finding, uint64_t size_bytes)
{
    const struct mw_index *index = finding->reach->index;
    struct mw_index_cursor cursor = {0};
    uint64_t random = MW_RANDOM_SEED;
    mw_addr start, next;
    bool is_there = mw_index_next(index, &cursor, &start);
    for (uint32_t rank = 0; is_there; rank++, start = next) {
        is_there = mw_index_next(index, &cursor, &next);
        if (!is_there || mw_index_block_end(index, next) - start != size_bytes ||
            !mw_bit_get(index->is_used, rank) || !mw_reach_is_reachable(finding->reach, rank))
            continue;
        uint64_t slot = finding->seen++;
        if (slot >= SAMPLES)
            slot = mw_random_below(&random, finding->seen);
        if (slot >= SAMPLES)
            continue;
        finding->samples[slot] = rank;
        if (finding->sample_count < SAMPLES)
            finding->sample_count++;
    }
}

static uint32_t depth_of(const struct finding *finding, uint32_t rank)
{
    uint32_t depth = 0;
    for (uint32_t at = finding->tree.parents[rank]; at != MW_RANK_NONE && depth < STEPS_MAX;
         at = finding->tree.parents[at])
        depth++;
    return depth;
}

/* The nearest block that is on the path to both. */
static uint32_t common_ancestor(const struct finding *finding, uint32_t a, uint32_t b)
{
    const uint32_t *parents = finding->tree.parents;
    uint32_t depth_a = depth_of(finding, a), depth_b = depth_of(finding, b);
    for (; depth_a > depth_b; depth_a--)
        a = parents[a];
    for (; depth_b > depth_a; depth_b--)
        b = parents[b];
    while (a != b && a != MW_RANK_NONE && b != MW_RANK_NONE) {
        a = parents[a];
        b = parents[b];
    }
    return a == b ? a : MW_RANK_NONE;
}

/* How many samples are led to through the block. */
static uint64_t through_count(const struct finding *finding, uint32_t rank)
{
    uint64_t count = 0;
    for (size_t i = 0; i < finding->sample_count; i++) {
        uint32_t at = finding->samples[i];
        for (uint32_t step = 0; at != MW_RANK_NONE && at != rank && step < STEPS_MAX; step++)
            at = finding->tree.parents[at];
        count += at == rank;
    }
    return count;
}

/* The common ancestor of a pair of samples that most of all lead through. */
static uint32_t holder_choose(const struct finding *finding, uint64_t *through_out)
{
    enum { PAIRS = 8 };
    uint32_t best = MW_RANK_NONE;
    *through_out = 0;
    for (size_t i = 0; i + 1 < finding->sample_count && i < PAIRS; i++) {
        uint32_t rank = common_ancestor(finding, finding->samples[i], finding->samples[i + 1]);
        uint64_t through = rank == MW_RANK_NONE ? 0 : through_count(finding, rank);
        if (through > *through_out) {
            best = rank;
            *through_out = through;
        }
    }
    return best;
}

static enum mw_status holder_describe(const struct mw_reach *reach, struct mw_image *image,
                                      struct mw_holder *holder)
{
    mw_addr start, end;
    uint64_t total;
    mw_index_bounds(reach->index, holder->rank, &start, &end);
    holder->address = start;
    holder->holder_bytes = end - start;
    struct mw_ranks path;
    enum mw_status status = mw_paths_find(reach, holder->rank, &path);
    if (status == MW_OK && path.count > 0)
        holder->has_root =
            mw_paths_roots(reach, image, path.items[0], 1, &holder->root, &total) == 1;
    mw_vec_deinit(&path);
    return status == MW_OK ? mw_paths_retained(reach, holder->rank, &holder->retained_count,
                                               &holder->retained_bytes)
                           : status;
}

enum mw_status mw_holder_find(const struct mw_reach *reach, struct mw_image *image,
                              uint64_t size_bytes, struct mw_holder *holder_out)
{
    struct finding finding = {.reach = reach};
    *holder_out = (struct mw_holder){.size_bytes = size_bytes, .rank = MW_RANK_NONE};
    samples_take(&finding, size_bytes);
    holder_out->sampled = finding.sample_count;
    if (finding.sample_count < 2)
        return MW_OK;
    enum mw_status status = mw_paths_tree(reach, &finding.tree);
    if (status == MW_OK) {
        uint32_t rank = holder_choose(&finding, &holder_out->through);
        if (holder_out->through * 100 >= holder_out->sampled * MOST_PERCENT)
            holder_out->rank = rank;
    }
    mw_paths_tree_deinit(&finding.tree);
    return status == MW_OK && holder_out->rank != MW_RANK_NONE
               ? holder_describe(reach, image, holder_out)
               : status;
}
