/* heap/glibc/blocks.h: the blocks of a segment that was read, in batches, with the states that
 * lists give them. Used by tally.c. */
#ifndef MW_HEAP_GLIBC_BLOCKS_H
#define MW_HEAP_GLIBC_BLOCKS_H

#include "heap/glibc/scan.h"

enum { MW_GLIBC_BATCH = 1024 };

struct mw_glibc_blocks {
    const struct mw_glibc_scanned *scanned;
    uint64_t tail_bytes; /* behind an mmapped block: 16 from 2.43 */
    mw_addr position;    /* of the next block */
    size_t span;         /* that is being read; spans_done: none is left */
    bool is_open;        /* its stream is */
    struct mw_glibc_stream_reader reader;
    size_t link;         /* next one on a list, of the span */
    mw_addr cached_next; /* where that is; UINT64_MAX: no more */
    struct mw_block items[MW_GLIBC_BATCH];
    size_t count;
};

void mw_glibc_blocks_begin(struct mw_glibc_blocks *blocks, const struct mw_glibc_scanned *scanned,
                           uint64_t tail_bytes);

/* The next batch into items and count; false when there are no more. Batches tile the segment. */
bool mw_glibc_blocks_next(struct mw_glibc_blocks *blocks);

#endif
