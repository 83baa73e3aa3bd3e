/* graph/index.c: from blocks in the order of a walk to a rank structure.
 *
 * Trusts no walker's addresses beyond that blocks of a segment ascend: bits are only set inside of
 * tracts that exist, and segments that overlap are the union of theirs. Linear. */
#include "graph/index.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HOLE_MIN = 64, HOLES_MAX = 1 << 16 };
static const size_t TRACTS_MAX = 1 << 14; /* 1 TiB of address space that has blocks */
static const mw_addr ADDRESS_END = (mw_addr)1 << MW_INDEX_ADDRESS_BITS;
static const uint32_t RANKS_MAX = (uint32_t)INT32_MAX - 4;
static const mw_addr TRACT_BYTES = (mw_addr)1 << MW_TRACT_SHIFT;

struct mw_index *mw_index_new(void)
{
    struct mw_index *index = mw_calloc(1, sizeof *index);
    if (!index)
        return NULL;
    index->table = mw_calloc((size_t)(ADDRESS_END >> MW_TRACT_SHIFT), sizeof *index->table);
    if (index->table)
        return index;
    free(index);
    return NULL;
}

void mw_index_free(struct mw_index *index)
{
    if (!index)
        return;
    for (size_t i = 0; i < index->tracts.count; i++) {
        free(index->tracts.items[i].bits);
        free(index->tracts.items[i].used);
        free(index->tracts.items[i].ranks);
    }
    mw_vec_deinit(&index->tracts);
    mw_vec_deinit(&index->recent);
    mw_vec_deinit(&index->holes);
    free(index->is_used);
    free(index->table);
    free(index);
}

/* The tract of address, which is below ADDRESS_END: made when there is none. */
static enum mw_status tract_add(struct mw_index *index, mw_addr address)
{
    uint32_t *place = &index->table[address >> MW_TRACT_SHIFT];
    if (*place)
        return MW_OK;
    struct mw_tract tract = {.start = address & ~(TRACT_BYTES - 1)};
    enum mw_status status = mw_vec_push(&index->tracts, TRACTS_MAX, tract);
    if (status == MW_OK)
        *place = (uint32_t)index->tracts.count;
    return status;
}

/* The tract of address with room for bits; NULL: no memory, or it is left out. */
static struct mw_tract *tract_open(struct mw_index *index, mw_addr address)
{
    uint32_t place = address < ADDRESS_END ? index->table[address >> MW_TRACT_SHIFT] : 0;
    if (!place)
        return NULL;
    struct mw_tract *tract = &index->tracts.items[place - 1];
    if (!tract->bits)
        tract->bits = mw_calloc(MW_TRACT_GRANULES / 64, sizeof *tract->bits);
    if (!tract->used)
        tract->used = mw_calloc(MW_TRACT_GRANULES / 64, sizeof *tract->used);
    return tract->bits && tract->used ? tract : NULL;
}

static enum mw_status boundary_set(struct mw_index *index, mw_addr address, bool is_used,
                                   bool has_tails)
{
    struct mw_tract *tract = tract_open(index, address);
    if (!tract)
        return address < ADDRESS_END && index->table[address >> MW_TRACT_SHIFT] ? MW_NOMEM : MW_OK;
    uint32_t granule = mw_tract_granule(address);
    mw_bit_set(tract->bits, granule);
    if (is_used)
        mw_bit_set(tract->used, granule);
    tract->has_tails |= has_tails;
    return MW_OK;
}

/* The patches of the tract that the segment has a part of, and where a block of it may end. */
static void patches_mark(struct mw_tract *tract, const struct mw_heap_segment *segment)
{
    mw_addr last = tract->start + TRACT_BYTES - 1;
    mw_addr from = segment->start > tract->start ? segment->start : tract->start;
    mw_addr to = segment->end < last ? segment->end : last;
    for (mw_addr at = from >> MW_PATCH_SHIFT; at <= to >> MW_PATCH_SHIFT; at++)
        mw_bit_set(tract->patches, at & (MW_TRACT_PATCHES - 1));
}

static enum mw_status on_segment_begin(void *user, const struct mw_heap_segment *segment)
{
    struct mw_index *index = user;
    if (!mw_segment_is_mmapped(segment->kind) && segment->kind != MW_SEGMENT_METAS)
        index->overhead_bytes = mw_block_shape(segment->kind).overhead_bytes;
    index->run_is_used = true; /* so that what comes first has a boundary */
    if (segment->end >= ADDRESS_END || segment->start >= segment->end) {
        index->left_out_bytes += segment->end - segment->start;
        return MW_OK;
    }
    for (mw_addr at = segment->start;; at += TRACT_BYTES) {
        mw_addr in = at < segment->end ? at : segment->end;
        enum mw_status status = tract_add(index, in);
        if (status == MW_LIMIT) {
            index->left_out_bytes += segment->end - in;
            break;
        }
        if (status != MW_OK)
            return status;
        patches_mark(&index->tracts.items[index->table[in >> MW_TRACT_SHIFT] - 1], segment);
        if (in == segment->end)
            break;
    }
    __typeof__(*index->recent.items) told = {segment->start, segment->end};
    return mw_vec_push(&index->recent, SIZE_MAX / sizeof told, told);
}

/* May it hold pointers of the program? */
static bool is_hole(const struct mw_heap_segment *segment, const struct mw_block *block)
{
    bool is_main = segment->kind == MW_SEGMENT_BRK || segment->kind == MW_SEGMENT_MORECORE;
    return block->size >= HOLE_MIN &&
           (block->state == MW_BLOCK_SKIPPED || (block->state == MW_BLOCK_METADATA && is_main));
}

static enum mw_status on_blocks(void *user, const struct mw_heap_segment *segment,
                                const struct mw_block *blocks, size_t count)
{
    struct mw_index *index = user;
    const struct mw_block_shape shape = mw_block_shape(segment->kind);
    const bool has_tails = shape.header_bytes >= 16;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        const struct mw_block *block = &blocks[i];
        bool is_used = block->state == MW_BLOCK_IN_USE && segment->kind != MW_SEGMENT_METAS;
        if (segment->kind == MW_SEGMENT_MMAPPED && !is_used && index->run_is_used)
            status = boundary_set(index, block->address, false, has_tails); /* as on its end */
        if (status == MW_OK && (is_used || index->run_is_used))
            status = boundary_set(index, block->address + shape.header_bytes, is_used, has_tails);
        index->run_is_used = is_used;
        if (status == MW_OK && is_hole(segment, block)) {
            struct mw_index_hole hole = {block->address, block->address + block->size};
            status = mw_vec_push(&index->holes, HOLES_MAX, hole);
            if (status == MW_LIMIT) {
                index->left_out_bytes += block->size;
                status = MW_OK;
            }
        }
    }
    return status;
}

static enum mw_status on_segment_end(void *user, const struct mw_heap_segment *segment)
{
    const uint32_t header_bytes = mw_block_shape(segment->kind).header_bytes;
    if (segment->end >= ADDRESS_END)
        return MW_OK;
    enum mw_status status = boundary_set(user, segment->end, false, header_bytes > 0);
    if (status == MW_OK && header_bytes > 0)
        status = boundary_set(user, segment->end + header_bytes, false, true);
    return status;
}

static void on_begin(void *user)
{
    struct mw_index *index = user;
    index->recent.count = 0;
    index->recent_holes = index->holes.count;
}

/* Take back the bits of the granules [first, last] of a tract. */
static void bits_clear(struct mw_tract *tract, uint32_t first, uint32_t last)
{
    if (!tract->bits || !tract->used)
        return;
    for (uint32_t at = first; at <= last;) {
        uint32_t in_word = 64 - at % 64, count = last - at + 1 < in_word ? last - at + 1 : in_word;
        uint64_t mask = count == 64 ? UINT64_MAX : (((uint64_t)1 << count) - 1) << at % 64;
        tract->bits[at / 64] &= ~mask;
        tract->used[at / 64] &= ~mask;
        at += count;
    }
}

static void on_restart(void *user)
{
    struct mw_index *index = user;
    for (size_t i = 0; i < index->recent.count; i++) {
        mw_addr at = index->recent.items[i].start, end = index->recent.items[i].end + 16;
        while (at <= end) {
            mw_addr next = (at & ~(TRACT_BYTES - 1)) + TRACT_BYTES,
                    last = next - 1 < end ? next - 1 : end;
            uint32_t place = index->table[at >> MW_TRACT_SHIFT];
            if (place)
                bits_clear(&index->tracts.items[place - 1], mw_tract_granule(at),
                           mw_tract_granule(last));
            at = next;
        }
    }
    index->recent.count = 0;
    index->holes.count = index->recent_holes;
}

struct mw_heap_visitor mw_index_visitor(struct mw_index *index)
{
    return (struct mw_heap_visitor){
        .user = index,
        .segment_begin = on_segment_begin,
        .blocks = on_blocks,
        .segment_end = on_segment_end,
        .begin = on_begin,
        .restart = on_restart,
    };
}

static int tract_compare(const void *a, const void *b)
{
    const struct mw_tract *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Counts before each line; returns the tract's own. */
static enum mw_status tract_count(struct mw_tract *tract, uint64_t *count)
{
    enum { LINES = MW_TRACT_GRANULES / MW_INDEX_LINE, LINE_WORDS = MW_INDEX_LINE / 64 };
    tract->first_rank = (uint32_t)*count;
    if (!tract->bits)
        return MW_OK;
    tract->ranks = mw_calloc(LINES, sizeof *tract->ranks);
    if (!tract->ranks)
        return MW_NOMEM;
    for (uint32_t line = 0; line < LINES; line++) {
        tract->ranks[line] = (uint32_t)*count;
        for (uint32_t i = 0; i < LINE_WORDS; i++)
            *count += (uint32_t)__builtin_popcountll(tract->bits[line * LINE_WORDS + i]);
        if (*count > RANKS_MAX)
            return MW_LIMIT;
    }
    return MW_OK;
}

/* Which of the tract's blocks are in use, from a bit a granule to a bit a rank. */
static uint32_t used_pack(struct mw_tract *tract, uint64_t *is_used)
{
    uint32_t rank = tract->first_rank, used_count = 0;
    for (uint32_t i = 0; tract->bits && i < MW_TRACT_GRANULES / 64; i++) {
        const uint64_t used = tract->used[i];
        for (uint64_t left = tract->bits[i]; left; left &= left - 1, rank++) {
            uint64_t bit = used & left & -left;
            is_used[rank / 64] |= (uint64_t)(bit != 0) << rank % 64;
            used_count += bit != 0;
        }
    }
    free(tract->used);
    tract->used = NULL;
    return used_count;
}

enum mw_status mw_index_close(struct mw_index *index)
{
    mw_vec_deinit(&index->recent);
    if (index->tracts.count > 1)
        qsort(index->tracts.items, index->tracts.count, sizeof *index->tracts.items, tract_compare);
    uint64_t count = 0;
    for (size_t i = 0; i < index->tracts.count; i++) {
        struct mw_tract *tract = &index->tracts.items[i];
        index->table[tract->start >> MW_TRACT_SHIFT] = (uint32_t)i + 1;
        if (tract->bits && !tract->used) /* the second of the two did not fit */
            return MW_NOMEM;
        enum mw_status status = tract_count(tract, &count);
        if (status != MW_OK)
            return status;
    }
    if (index->tracts.count > 0) {
        index->low = index->tracts.items[0].start;
        index->span = index->tracts.items[index->tracts.count - 1].start + TRACT_BYTES - index->low;
    }
    index->is_used = mw_calloc((size_t)count / 64 + 1, sizeof *index->is_used);
    if (!index->is_used)
        return MW_NOMEM;
    index->rank_count = (uint32_t)count;
    for (size_t i = 0; i < index->tracts.count; i++)
        index->used_count += used_pack(&index->tracts.items[i], index->is_used);
    return MW_OK;
}

bool mw_index_next(const struct mw_index *index, struct mw_index_cursor *cursor,
                   mw_addr *address_out)
{
    for (; cursor->tract < index->tracts.count; cursor->tract++, cursor->granule = 0) {
        const struct mw_tract *tract = &index->tracts.items[cursor->tract];
        uint32_t word = cursor->granule / 64;
        if (!tract->bits || cursor->granule >= MW_TRACT_GRANULES)
            continue;
        uint64_t left = tract->bits[word] >> cursor->granule % 64 << cursor->granule % 64;
        while (!left && ++word < MW_TRACT_GRANULES / 64)
            left = tract->bits[word];
        if (!left)
            continue;
        uint32_t granule = word * 64 + (uint32_t)__builtin_ctzll(left);
        *address_out = tract->start + ((mw_addr)granule << MW_GRANULE_SHIFT);
        cursor->granule = granule + 1;
        return true;
    }
    return false;
}

/* The tract and granule of the boundary with that rank. */
static struct mw_index_cursor rank_locate(const struct mw_index *index, uint32_t rank)
{
    size_t low = 0, high = index->tracts.count; /* the last tract with first_rank <= rank */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->tracts.items[middle].first_rank <= rank)
            low = middle;
        else
            high = middle;
    }
    const struct mw_tract *tract = &index->tracts.items[low];
    assert(tract->bits);
    uint32_t first = 0, end = MW_TRACT_GRANULES / MW_INDEX_LINE;
    while (end - first > 1) {
        uint32_t middle = first + (end - first) / 2;
        if (tract->ranks[middle] <= rank)
            first = middle;
        else
            end = middle;
    }
    uint32_t word = first * (MW_INDEX_LINE / 64), skip = rank - tract->ranks[first];
    for (;; word++) {
        uint32_t here = (uint32_t)__builtin_popcountll(tract->bits[word]);
        if (skip < here)
            break;
        skip -= here;
    }
    uint64_t left = tract->bits[word];
    for (; skip > 0; skip--)
        left &= left - 1;
    return (struct mw_index_cursor){low, word * 64 + (uint32_t)__builtin_ctzll(left)};
}

void mw_index_bounds(const struct mw_index *index, uint32_t rank, mw_addr *start_out,
                     mw_addr *end_out)
{
    assert(rank < index->rank_count);
    struct mw_index_cursor cursor = rank_locate(index, rank);
    bool is_there = mw_index_next(index, &cursor, start_out);
    assert(is_there);
    if (!mw_index_next(index, &cursor, end_out)) /* a segment ends with a boundary */
        *end_out = *start_out;
    *end_out = mw_index_block_end(index, *end_out);
}
