/* graph/paths.h: who points to a block, how a root leads to it, and what it alone holds.
 *
 * Of reach, whose second half is done. Edges are kept from source to target only, so each question
 * is one pass over all of them: some milliseconds for a million blocks. */
#ifndef MW_GRAPH_PATHS_H
#define MW_GRAPH_PATHS_H

#include "graph/reach.h"

/* The root of a block: a word in memory, or in a register. */
struct mw_root_place {
    mw_addr address; /* of the word; 0: in a register */
    mw_addr value;   /* where it points to */
    enum mw_root_kind kind;
    int32_t tid; /* of a stack or a register; 0: not known */
};

struct mw_ranks {
    uint32_t *items;
    size_t count, room;
};

/* Blocks that point to the one of that rank: at most `max` of them, ascending, *total_out in all.
 * MW_NOMEM. */
enum mw_status mw_paths_referrers(const struct mw_reach *reach, uint32_t rank, size_t max,
                                  struct mw_ranks *referrers_out,
                                  uint64_t *total_out) MW_MUST_CHECK;

/* A shortest path: ranks from a block that a root points to, to the one asked, both included; for a
 * block that is lost, from one that nothing else leads to. Empty when nothing leads to it.
 * MW_NOMEM.
 */
enum mw_status mw_paths_find(const struct mw_reach *reach, uint32_t rank,
                             struct mw_ranks *path_out) MW_MUST_CHECK;

/* For each reachable block the one before it on a shortest path from a root. */
struct mw_tree {
    uint32_t *parents; /* by rank; MW_RANK_NONE: a root points to it, or it is not reachable */
};
enum mw_status mw_paths_tree(const struct mw_reach *reach, struct mw_tree *tree_out) MW_MUST_CHECK;
void mw_paths_tree_deinit(struct mw_tree *tree);

/* Roots that point to the block: at most max, *total_out in all. Reads all roots again; of a live
 * target while it runs, so that what it finds may be newer than reach. Returns how many are in
 * places. */
size_t mw_paths_roots(const struct mw_reach *reach, struct mw_image *image, uint32_t rank,
                      size_t max, struct mw_root_place *places, uint64_t *total_out);

/* Blocks that would be lost with this one, it included: reachable only through it. MW_NOMEM. */
enum mw_status mw_paths_retained(const struct mw_reach *reach, uint32_t rank, uint64_t *count_out,
                                 uint64_t *bytes_out) MW_MUST_CHECK;

/* Where in the block of rank `from` a word points into that of rank `to`: the offset from what
 * malloc returned, MW_UNKNOWN when it is not found (any more). Reads the block, at most 1 MiB. */
uint64_t mw_paths_offset(const struct mw_reach *reach, struct mw_image *image, uint32_t from,
                         uint32_t to);

#endif
