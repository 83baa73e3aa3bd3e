/* graph/groups.h: blocks that nothing points to, by size and by what they are.
 *
 * Blocks of one size whose first word points to the same place in a module (a vtable, a type, a
 * function) are a group; those of a size that have none are another. Of each group the words that
 * are the same in all blocks are kept, as far as the first MW_GROUP_WORDS go. */
#ifndef MW_GRAPH_GROUPS_H
#define MW_GRAPH_GROUPS_H

#include "graph/reach.h"

enum { MW_GROUP_WORDS = 64, MW_GROUP_SAMPLES = 64 };

struct mw_lost_group {
    uint64_t size_bytes;   /* of each block, as its allocator counts it */
    uint64_t usable_bytes; /* of each, for the program */
    uint64_t count, bytes;
    uint64_t resident_bytes; /* of these, what is in memory; MW_UNKNOWN */
    uint64_t direct_count;
    mw_addr type;                      /* what the first words point to; 0: nowhere in a module */
    uint64_t words[MW_GROUP_WORDS];    /* of the first block */
    uint64_t constant;                 /* a bit for each that all blocks have in common */
    uint32_t word_count;               /* that a block has, at most MW_GROUP_WORDS */
    mw_addr samples[MW_GROUP_SAMPLES]; /* what malloc returned, spread over the group */
    uint32_t sample_count;
};

struct mw_lost_groups {
    MW_VEC(struct mw_lost_group) groups; /* most bytes first */
    uint64_t unread_count;               /* blocks whose first words could not be read */
    bool is_coarse; /* more kinds than are kept apart: those of one size are together */
};

/* Blocks of reach, whose second half is done. Reads the first words of each, in ascending order;
 * of a live target while it runs. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_lost_groups_make(const struct mw_reach *reach, struct mw_image *image,
                                   struct mw_context *context, struct mw_lost_groups *groups_out,
                                   struct mw_error *err) MW_MUST_CHECK;
/* Does the word point into a file that is mapped, as code, constants and vtables are? *last is the
 * mapping in which the last one was found, NULL at first: most words are of one. */
bool mw_group_points_to_module(const struct mw_image *image, const struct mw_mapping **last,
                               uint64_t word);

void mw_lost_groups_deinit(struct mw_lost_groups *groups);

#endif
