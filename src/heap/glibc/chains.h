/* heap/glibc/chains.h: chains of chunks of the main arena, and what is remembered of them from stop
 * to stop. Used by segments.c. */
#ifndef MW_HEAP_GLIBC_CHAINS_H
#define MW_HEAP_GLIBC_CHAINS_H

#include "heap/glibc/internal.h"

struct mw_glibc_chain_end {
    mw_addr end;  /* first byte behind the segment */
    bool has_top; /* ended in the arena's top */
};

/* The size word of the chunk; false when it cannot be read. */
bool mw_glibc_chunk_head(struct mw_glibc *glibc, mw_addr chunk, uint64_t *head_out);

/* Get ready to search for chains inside [start, limit). What is known for this limit is kept.
 * MW_NOMEM. */
enum mw_status mw_glibc_chains_begin(struct mw_glibc *glibc, mw_addr start, mw_addr limit);

/* Follow chunks from `chunk` to the arena's top or to fences. False when the chain breaks, would
 * pass limit or, in a search, need not go on; also when the time of this stop is over, which
 * glibc->is_cut_short tells: it is remembered how far it led. */
bool mw_glibc_chain_follow(struct mw_glibc *glibc, mw_addr chunk, mw_addr limit, bool is_search,
                           struct mw_glibc_chain_end *end_out);

#endif
