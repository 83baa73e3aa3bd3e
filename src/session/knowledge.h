/* session/knowledge.h: what reachability and known layouts tell of groups of blocks by size. */
#ifndef MW_SESSION_KNOWLEDGE_H
#define MW_SESSION_KNOWLEDGE_H

#include "session/blocks.h"

enum { MW_KNOWN_GROUPS_MAX = 64 }; /* the largest ones: their layouts are looked for */

struct mw_block_teller {
    struct mw_names_options names;
    struct mw_context *context;
    struct mw_layout_match *matches; /* of the groups that have one */
};

/* For struct mw_blocks_options: `tell` with a struct mw_block_teller as its user, which must
 * outlive what it tells. Unreachable blocks are counted where reachability is exact; layouts are
 * looked for where it was asked at all. MW_NOMEM. */
enum mw_status mw_block_teller_tell(void *user, struct mw_analysis *analysis,
                                    const struct mw_block_groups *groups,
                                    struct mw_block_knowledge *knowledge,
                                    struct mw_error *err) MW_MUST_CHECK;
void mw_block_teller_deinit(struct mw_block_teller *teller);

#endif
