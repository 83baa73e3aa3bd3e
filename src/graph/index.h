/* graph/index.h: which block of an allocator holds an address: a rank structure over bitmaps.
 *
 * Memory that allocators have is divided into tracts of 64 MiB; a tract has one bit for each 16
 * bytes, set where what the program may use of a block begins and where a run of blocks that are
 * not in use begins. The number of bits set up to an address is the rank of its block: ranks ascend
 * with addresses and are dense, so whatever is said of blocks is an array by rank.
 *
 *   table[address >> 26] ─► tract: bits  ...1..1.......1...     1 bit a granule of 16 bytes
 *                                  ranks | 17    | 24    |      1 count every 512 granules
 *
 * Cost: 1/128 of the heap for the bits and 1/2,048 for the counts; the same again for which are in
 * use until mw_index_close(), and then one bit a block. A lookup is two reads. */
#ifndef MW_GRAPH_INDEX_H
#define MW_GRAPH_INDEX_H

#include "base/error.h"
#include "heap/walker.h"

enum {
    MW_GRANULE_SHIFT = 4,
    MW_TRACT_SHIFT = 26,
    MW_TRACT_GRANULES = 1 << (MW_TRACT_SHIFT - MW_GRANULE_SHIFT),
    MW_INDEX_LINE = 512, /* granules for each count */
    MW_INDEX_ADDRESS_BITS = 48,
    MW_PATCH_SHIFT = 16, /* a tract has 1,024 patches of 64 KiB */
    MW_TRACT_PATCHES = 1 << (MW_TRACT_SHIFT - MW_PATCH_SHIFT),
};

#define MW_RANK_NONE UINT32_MAX

/* Inlined into callers that are compiled for a processor with a population count, too. */
#define MW_HOT static inline __attribute__((always_inline))

struct mw_tract {
    mw_addr start;
    uint64_t patches[MW_TRACT_PATCHES / 64]; /* those that a segment has a part of */
    uint64_t *bits,
        *used;       /* MW_TRACT_GRANULES bits each; NULL: none begins here. used until closed */
    uint32_t *ranks; /* set bits before each line, those of earlier tracts included */
    uint32_t first_rank; /* the same before the tract */
    bool has_tails;      /* a block's last 16 bytes are shared with the next one's header */
};

struct mw_index {
    uint32_t *table; /* by address >> MW_TRACT_SHIFT: place in tracts plus 1; 0: none */
    MW_VEC(struct mw_tract) tracts;
    struct { /* segments told since begin of the allocator at hand */
        struct {
            mw_addr start, end;
        } * items;
        size_t count, room;
    } recent;
    MW_VEC(struct mw_index_hole) holes; /* not blocks, yet the program's or nobody knows whose */
    size_t recent_holes;                /* those of allocators before */
    uint32_t rank_count;                /* once closed */
    mw_addr low;                        /* of the first tract, once closed */
    uint64_t span;                      /* from there to the end of the last one */
    uint32_t used_count;
    uint64_t *is_used;       /* by rank, once closed */
    uint64_t left_out_bytes; /* segments too far up or too large to be indexed */
    uint32_t overhead_bytes; /* of a block, of the allocator told last */
    bool run_is_used;
};

/* Memory inside a segment that may hold pointers and is no block: damage that could not be parsed,
 * what a foreign sbrk took inside the main arena's span. */
struct mw_index_hole {
    mw_addr start, end;
};

/* A new one, or NULL. */
struct mw_index *mw_index_new(void);
void mw_index_free(struct mw_index *index);

/* The visitor that fills it, from any number of allocators. Valid as long as index is. */
struct mw_heap_visitor mw_index_visitor(struct mw_index *index);

/* After the last block: counts ranks. No block may be added afterwards. MW_NOMEM, MW_LIMIT above
 * 2^31 - 4 blocks. Linear in the heap's size / 1,024. */
enum mw_status mw_index_close(struct mw_index *index) MW_MUST_CHECK;

/* ---- once closed ---- */

/* The tract that holds address, or NULL. */
static inline const struct mw_tract *mw_index_tract(const struct mw_index *index, mw_addr address)
{
    if (address >> MW_INDEX_ADDRESS_BITS)
        return NULL;
    uint32_t place = index->table[address >> MW_TRACT_SHIFT];
    return place ? &index->tracts.items[place - 1] : NULL;
}

MW_HOT uint32_t mw_tract_granule(mw_addr address)
{
    return (uint32_t)(address >> MW_GRANULE_SHIFT) & (MW_TRACT_GRANULES - 1);
}

MW_HOT bool mw_bit_get(const uint64_t *bits, uint64_t at)
{
    return bits[at / 64] >> (at % 64) & 1;
}

static inline void mw_bit_set(uint64_t *bits, uint64_t at)
{
    bits[at / 64] |= (uint64_t)1 << (at % 64);
}

/* How many bits are set in the tract and before it, up to the granule, its own included. */
MW_HOT uint32_t mw_tract_count(const struct mw_tract *tract, uint32_t granule)
{
    if (!tract->bits)
        return tract->first_rank;
    uint32_t word = granule / 64, count = tract->ranks[granule / MW_INDEX_LINE];
    for (uint32_t i = granule / MW_INDEX_LINE * (MW_INDEX_LINE / 64); i < word; i++)
        count += (uint32_t)__builtin_popcountll(tract->bits[i]);
    return count + (uint32_t)__builtin_popcountll(tract->bits[word] << (63 - granule % 64));
}

/* May a segment hold the address? A look at what is always in the cache: other mappings lie between
 * an allocator's. */
MW_HOT bool mw_tract_may_hold(const struct mw_tract *tract, mw_addr address)
{
    return mw_bit_get(tract->patches, (address >> MW_PATCH_SHIFT) & (MW_TRACT_PATCHES - 1));
}

/* Is the address in the granule that holds the next block's header, behind what is usable? Where a
 * segment ends two boundaries lie side by side, as no two blocks do, and all before it is usable.
 */
MW_HOT bool mw_tract_is_header(const struct mw_tract *tract, uint32_t granule, mw_addr address)
{
    return address & 8 && tract->has_tails && tract->bits && granule + 2 < MW_TRACT_GRANULES &&
           mw_bit_get(tract->bits, granule + 1) && !mw_bit_get(tract->bits, granule + 2);
}

/* The rank of the block in use that address points into, its first byte and inner ones alike;
 * MW_RANK_NONE when there is none. */
static inline uint32_t mw_index_find(const struct mw_index *index, mw_addr address)
{
    const struct mw_tract *tract = mw_index_tract(index, address);
    if (!tract)
        return MW_RANK_NONE;
    uint32_t granule = mw_tract_granule(address), rank = mw_tract_count(tract, granule) - 1;
    if (rank >= index->rank_count || !mw_bit_get(index->is_used, rank) ||
        mw_tract_is_header(tract, granule, address))
        return MW_RANK_NONE;
    return rank;
}

/* Where the block of that rank begins for the program, and where the next would begin: their
 * difference is its size as the allocator counts it. O(log tracts + log lines). */
void mw_index_bounds(const struct mw_index *index, uint32_t rank, mw_addr *start_out,
                     mw_addr *end_out);

/* Where the block would end whose next boundary is `next`: with a segment it ends a header later,
 * as one that is followed by another does. */
static inline mw_addr mw_index_block_end(const struct mw_index *index, mw_addr next)
{
    const mw_addr behind = next + (1 << MW_GRANULE_SHIFT);
    const struct mw_tract *tract = mw_index_tract(index, behind);
    bool is_last = tract && tract->has_tails && tract->bits &&
                   mw_bit_get(tract->bits, mw_tract_granule(behind));
    return is_last ? behind : next;
}

/* A walk over runs of blocks in use, ascending. */
struct mw_index_cursor {
    size_t tract;
    uint32_t granule;
};

/* The next boundary at or after the cursor: its address, and the cursor behind it. False at the
 * end. */
bool mw_index_next(const struct mw_index *index, struct mw_index_cursor *cursor,
                   mw_addr *address_out);

#endif
