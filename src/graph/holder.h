/* graph/holder.h: the one block or root through which all blocks of a size are held: the container.
 *
 * From a sample of them the shortest paths from roots are followed back; what they have in common
 * nearest to the blocks is the holder, and what would be lost with it is counted. */
#ifndef MW_GRAPH_HOLDER_H
#define MW_GRAPH_HOLDER_H

#include "graph/paths.h"

struct mw_holder {
    uint64_t size_bytes;   /* of the blocks asked about; 0: not asked */
    uint64_t sampled;      /* reachable ones that were followed */
    uint64_t through;      /* of them, those whose path leads through the holder */
    uint32_t rank;         /* the holder; MW_RANK_NONE: there is none but the roots */
    mw_addr address;       /* of it, what malloc returned */
    uint64_t holder_bytes; /* its own size */
    uint64_t retained_count, retained_bytes; /* would be lost with it, it included */
    struct mw_root_place root;               /* that leads to it */
    bool has_root;
};

/* Who holds the blocks of that whole size? Reads all roots again. MW_NOMEM. Linear in blocks and
 * edges. */
enum mw_status mw_holder_find(const struct mw_reach *reach, struct mw_image *image,
                              uint64_t size_bytes, struct mw_holder *holder_out) MW_MUST_CHECK;

#endif
