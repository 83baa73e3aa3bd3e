/* graph/reach.h: which blocks nothing points to: conservative marking from all roots.
 *
 * A block in use is reachable when a root, or a block that is reachable, holds the address of any
 * of its bytes. What is not can be touched by the program never again, unless it hides pointers:
 * in words that are not aligned to 8 bytes, XORed, compressed, in files or other processes. The
 * contrary holds less strictly: a number that looks like an address, or a stale word in a stack or
 * in a block in use, may hold a block that is lost.
 *
 * In registers and on stacks an address in a block's header, or right behind a block, counts, too:
 * malloc, free and loops hold no other for some instructions.
 *
 * Unreachable blocks are direct when no other unreachable block leads to them; of a cycle that
 * nothing leads to one block stands for all. The rest is indirect: it would go with them.
 *
 * Cost: each byte in use and each root is read once, by all CPUs; memory: graph/index.h and
 * graph/edges.h, and 4 bytes for each block that is reached. */
#ifndef MW_GRAPH_REACH_H
#define MW_GRAPH_REACH_H

#include "graph/scan.h"

struct mw_reach {
    struct mw_index *index; /* closed */
    struct mw_roots roots;
    struct mw_scan scan;
    uint64_t *is_direct;                       /* by rank, of unreachable blocks */
    uint64_t reachable_count, reachable_bytes; /* whole blocks */
    uint64_t unreachable_count, unreachable_bytes;
    uint64_t unreachable_size_min; /* of the smallest such block */
    uint64_t direct_count, direct_bytes, indirect_count, indirect_bytes;
    bool is_done;     /* false: all of this is empty */
    bool is_of_once;  /* all memory was read at one moment; else what is unreachable is uncertain */
    bool is_of_copy;  /* if not: of a copy, but for memory that a fork leaves out */
    bool is_complete; /* nothing was left out or could not be read, registers included */
};

/* Is what is unreachable lost for certain? */
static inline bool mw_reach_is_exact(const struct mw_reach *reach)
{
    return reach->is_done && reach->is_of_once && reach->is_complete;
}

static inline bool mw_reach_is_reachable(const struct mw_reach *reach, uint32_t rank)
{
    return mw_bit_get(reach->scan.marks, rank);
}

/* Is the block in use, and nothing leads to it? */
static inline bool mw_reach_is_lost(const struct mw_reach *reach, uint32_t rank)
{
    return mw_bit_get(reach->index->is_used, rank) && !mw_reach_is_reachable(reach, rank);
}

/* The first half, which reads memory: takes index over, on failure too. allocators: whose blocks
 * are in it. The target stands still or does not move, else is_of_once is false. MW_NOMEM,
 * MW_CANCELED, MW_LIMIT: more pointers than can be kept. */
enum mw_status mw_reach_read(struct mw_image *image, struct mw_index *index,
                             const struct mw_allocator *allocators, size_t allocator_count,
                             struct mw_context *context, struct mw_reach *reach_out,
                             struct mw_error *err) MW_MUST_CHECK;

/* The second: marks and counts; reads nothing. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_reach_judge(struct mw_reach *reach, struct mw_context *context,
                              struct mw_error *err) MW_MUST_CHECK;

void mw_reach_deinit(struct mw_reach *reach);

#endif
