/* heap/glibc/blocks.c: streams of spans → blocks that tile their segment.
 *
 * Between the streams lies what no span has: the headers before the first chunk, and what was not
 * read (damage, or bytes at a boundary that was gone when the target had run). Cached blocks are
 * told apart by merging with the links that are on a list, which ascend, too. Linear. */
#include "heap/glibc/blocks.h"

/* The first link at or after `at` that is on a list. */
static void cached_set(struct mw_glibc_blocks *blocks, size_t at)
{
    enum { ON_LIST = MW_GLIBC_LINK_TCACHE | MW_GLIBC_LINK_FASTBIN };
    const struct mw_glibc_span *span = &blocks->scanned->spans.items[blocks->span];
    while (at < span->link_count && !(span->links[at].size & ON_LIST))
        at++;
    blocks->link = at;
    blocks->cached_next =
        at < span->link_count ? span->pages_start + (mw_addr)span->links[at].unit * 16 : UINT64_MAX;
}

void mw_glibc_blocks_begin(struct mw_glibc_blocks *blocks, const struct mw_glibc_scanned *scanned,
                           uint64_t tail_bytes)
{
    blocks->scanned = scanned;
    blocks->tail_bytes = tail_bytes;
    blocks->position = scanned->segment.public.start;
    blocks->span = 0;
    blocks->is_open = false;
    blocks->cached_next = UINT64_MAX;
    blocks->count = 0;
}

static inline void blocks_put(struct mw_glibc_blocks *blocks, uint64_t size,
                              enum mw_block_state state)
{
    if (size == 0)
        return;
    assert(blocks->count < MW_GLIBC_BATCH);
    blocks->items[blocks->count++] = (struct mw_block){blocks->position, size, state};
    blocks->position += size;
}

/* In use, or cached? Addresses come in ascending order. */
static enum mw_block_state used_state(struct mw_glibc_blocks *blocks, mw_addr chunk)
{
    const struct mw_glibc_span *span = &blocks->scanned->spans.items[blocks->span];
    while (blocks->cached_next < chunk)
        cached_set(blocks, blocks->link + 1);
    if (blocks->cached_next != chunk)
        return MW_BLOCK_IN_USE;
    /* What a tcache has is surer than the link of an arena that has moved. */
    return span->links[blocks->link].size & MW_GLIBC_LINK_TCACHE ? MW_BLOCK_TCACHE
                                                                 : MW_BLOCK_FASTBIN;
}

/* The segment has shrunk since these blocks were read: what is left of the last one. */
static void stream_cut(struct mw_glibc_blocks *blocks, enum mw_block_state state)
{
    mw_addr end = blocks->scanned->segment.public.end;
    blocks->is_open = false;
    blocks->span = blocks->scanned->spans_done;
    if (blocks->position < end)
        blocks_put(blocks, end - blocks->position,
                   state == MW_BLOCK_TOP ? MW_BLOCK_TOP : MW_BLOCK_SKIPPED);
}

/* Blocks of the open stream, until the batch is full or it ends. */
static void stream_read(struct mw_glibc_blocks *blocks)
{
    const mw_addr end = blocks->scanned->segment.public.end;
    struct mw_block block;
    while (blocks->count < MW_GLIBC_BATCH) {
        if (!mw_glibc_stream_next(&blocks->reader, &block)) {
            blocks->is_open = false;
            blocks->span++;
            return;
        }
        if (blocks->reader.address > end) {
            stream_cut(blocks, block.state);
            return;
        }
        if (block.state == MW_BLOCK_IN_USE && block.address >= blocks->cached_next)
            block.state = used_state(blocks, block.address);
        blocks->items[blocks->count++] = block;
        blocks->position = blocks->reader.address;
    }
}

/* The next stream that has blocks, and what lies before it. */
static void stream_open(struct mw_glibc_blocks *blocks)
{
    const struct mw_glibc_scanned *scanned = blocks->scanned;
    while (blocks->span < scanned->spans_done && scanned->spans.items[blocks->span].start == 0)
        blocks->span++;
    if (blocks->span == scanned->spans_done)
        return;
    const struct mw_glibc_span *span = &scanned->spans.items[blocks->span];
    assert(span->start >= blocks->position);
    if (span->start >= scanned->segment.public.end) { /* it has shrunk */
        blocks->span = scanned->spans_done;
        return;
    }
    bool is_first = blocks->position == scanned->segment.public.start;
    blocks_put(blocks, span->start - blocks->position,
               is_first ? MW_BLOCK_METADATA : MW_BLOCK_SKIPPED);
    blocks->reader = (struct mw_glibc_stream_reader){span->bytes + span->skip,
                                                     span->bytes + span->length, span->start};
    blocks->is_open = true;
    cached_set(blocks, span->link_skip);
}

/* A mapping of its own: one block, between what memalign cut off in front and the tail. */
static void mmapped_put(struct mw_glibc_blocks *blocks)
{
    const struct mw_glibc_segment *segment = &blocks->scanned->segment;
    mw_addr chunk = segment->first_chunk, end = segment->public.end - blocks->tail_bytes;
    if (blocks->scanned->spans_done > 0)
        cached_set(blocks, 0);
    blocks_put(blocks, chunk - blocks->position, MW_BLOCK_METADATA);
    blocks_put(blocks, end - chunk, used_state(blocks, chunk));
    blocks_put(blocks, blocks->tail_bytes, MW_BLOCK_METADATA);
}

bool mw_glibc_blocks_next(struct mw_glibc_blocks *blocks)
{
    enum { ROOM_MIN = 4 };
    const struct mw_glibc_scanned *scanned = blocks->scanned;
    mw_addr end = scanned->segment.public.end;
    blocks->count = 0;
    if (scanned->segment.public.kind == MW_SEGMENT_MMAPPED && blocks->position < end) {
        mmapped_put(blocks);
        return true;
    }
    while (blocks->count < MW_GLIBC_BATCH - ROOM_MIN && blocks->position < end) {
        if (!blocks->is_open)
            stream_open(blocks);
        if (blocks->is_open)
            stream_read(blocks);
        else
            blocks_put(blocks, end - blocks->position, MW_BLOCK_SKIPPED);
    }
    return blocks->count > 0;
}
