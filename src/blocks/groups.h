/* blocks/groups.h: blocks in use by size, from the histograms of the walk. */
#ifndef MW_BLOCKS_GROUPS_H
#define MW_BLOCKS_GROUPS_H

#include "heap/walker.h"

struct mw_block_group {
    uint64_t size_bytes, usable_bytes; /* chunk, and what can be used of it */
    uint64_t count, bytes;             /* in use */
};

struct mw_block_groups {
    struct mw_block_group *items; /* most bytes first, then larger sizes first */
    size_t count;
    uint64_t block_count, bytes; /* of all groups */
};

/* Groups of all walked allocators together; of a sample of arenas what was read. Sizes of which no
 * block is in use are left out. O(n log n) in sizes. MW_NOMEM. */
enum mw_status mw_block_groups_make(const struct mw_allocator *allocators, size_t allocator_count,
                                    struct mw_block_groups *groups_out) MW_MUST_CHECK;

/* The group that a size in bytes stands for (mw_block_size_of()), or NULL. */
const struct mw_block_group *mw_block_groups_find(const struct mw_block_groups *groups,
                                                  uint64_t bytes);
/* The group to look into when none was named: the first with several blocks, else the first; NULL
 * without groups. */
const struct mw_block_group *mw_block_groups_main(const struct mw_block_groups *groups);

void mw_block_groups_deinit(struct mw_block_groups *groups);

#endif
