/* heap/glibc/stream.h: blocks in a byte or two each, in the order in which they tile memory.
 *
 *   varint(size / 16 << 2 | code)            code 0: in use, 1: free
 *   varint(state << 2 | 2) varint(bytes)     every other state, of any size
 *
 * What is read while the target stands still is kept in this form, and judged when it runs again.
 * Addresses follow from the sizes. Varints are little-endian groups of 7 bits. */
#ifndef MW_HEAP_GLIBC_STREAM_H
#define MW_HEAP_GLIBC_STREAM_H

#include "base/alloc.h"
#include "heap/walker.h"

#include <assert.h>

enum { MW_GLIBC_STREAM_BLOCK_MAX = 24 }; /* no block takes more bytes */

struct mw_glibc_stream {
    uint8_t *bytes;
    size_t length, room;
};

/* Room for one more block. MW_NOMEM. */
static inline enum mw_status mw_glibc_stream_reserve(struct mw_glibc_stream *stream)
{
    if (stream->room - stream->length >= MW_GLIBC_STREAM_BLOCK_MAX)
        return MW_OK;
    size_t room = stream->room ? stream->room + stream->room / 2 : 4096;
    uint8_t *grown = mw_regrow(stream->bytes, stream->room, room, 1);
    if (!grown)
        return MW_NOMEM;
    stream->bytes = grown;
    stream->room = room;
    return MW_OK;
}

static inline uint8_t *mw_glibc_stream_put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* A block in use or free, of 16-byte units, written at `at`, where there is room; returns what is
 * behind it. For the loop that does nothing else. */
static inline uint8_t *mw_glibc_stream_put_chunk(uint8_t *at, uint64_t size, bool is_free)
{
    return mw_glibc_stream_put_varint(at, size >> 2 | is_free);
}

/* Any block; there is room for it. size is not 0. */
static inline void mw_glibc_stream_put(struct mw_glibc_stream *stream, uint64_t size,
                                       enum mw_block_state state)
{
    assert(stream->room - stream->length >= MW_GLIBC_STREAM_BLOCK_MAX);
    uint8_t *at = stream->bytes + stream->length;
    if (size % 16 == 0 && state <= MW_BLOCK_FREE)
        at = mw_glibc_stream_put_chunk(at, size, state == MW_BLOCK_FREE);
    else
        at = mw_glibc_stream_put_varint(mw_glibc_stream_put_varint(at, (uint64_t)state << 2 | 2),
                                        size);
    stream->length = (size_t)(at - stream->bytes);
}

/* Where a reader is; address is that of the next block. */
struct mw_glibc_stream_reader {
    const uint8_t *at, *end;
    mw_addr address;
};

static inline uint64_t mw_glibc_stream_get_varint(struct mw_glibc_stream_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

/* The next block; false at the end. */
static inline bool mw_glibc_stream_next(struct mw_glibc_stream_reader *reader,
                                        struct mw_block *block_out)
{
    if (reader->at >= reader->end)
        return false;
    uint64_t word = mw_glibc_stream_get_varint(reader);
    bool is_short = (word & 3) < 2;
    block_out->address = reader->address;
    block_out->state = (enum mw_block_state)(is_short ? word & 3 : word >> 2);
    block_out->size = is_short ? (word >> 2) * 16 : mw_glibc_stream_get_varint(reader);
    reader->address += block_out->size;
    return true;
}

#endif
