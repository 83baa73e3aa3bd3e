/* blocks/piece.c: a window over the blocks of a list.
 *
 * musl: a slot whose block does not begin at its start says so in the header before the slot, byte
 * -3 is 7 << 5 and the bytes -2 and -1 are the shift in units of 16 (musl 1.2.5,
 * src/malloc/mallocng/meta.h, enframe). Read from the target, so it is held against the slot. */
#include "blocks/piece.h"

#include <assert.h>

enum { SHARE_SHIFT = 21, MUSL_SHIFTED = 7 << 5, MUSL_UNIT = 16, MUSL_HEADER = 4 };

enum mw_status mw_piece_reader_init(struct mw_piece_reader *reader, struct mw_image *image,
                                    const struct mw_block_list *list, uint64_t size_bytes,
                                    unsigned index, unsigned count)
{
    assert(count > 0 && index < count);
    *reader = (struct mw_piece_reader){.index = index, .count = count};
    mw_block_cursor_init(&reader->cursor, list, size_bytes);
    return mw_window_init(&reader->window, image);
}

void mw_piece_reader_deinit(struct mw_piece_reader *reader)
{
    mw_window_deinit(&reader->window);
}

void mw_piece_reader_rewind(struct mw_piece_reader *reader, uint64_t size_bytes)
{
    mw_block_cursor_init(&reader->cursor, reader->cursor.list, size_bytes);
    mw_window_reset(&reader->window, UINT64_MAX);
}

static void block_shift(struct mw_piece_reader *reader, struct mw_listed_block *block)
{
    if (block->start < MUSL_HEADER)
        return;
    const uint8_t *header = mw_window_at(&reader->window, block->start - MUSL_HEADER, MUSL_HEADER);
    if (!header || header[1] != MUSL_SHIFTED)
        return;
    uint64_t shift = (uint64_t)(header[2] | header[3] << 8) * MUSL_UNIT;
    if (shift < block->end - block->start)
        block->start += shift;
}

bool mw_piece_reader_next(struct mw_piece_reader *reader, struct mw_listed_block *block_out)
{
    while (mw_block_cursor_next(&reader->cursor, block_out)) {
        if ((block_out->start >> SHARE_SHIFT) % reader->count != reader->index)
            continue;
        if (block_out->has_shift)
            block_shift(reader, block_out);
        return true;
    }
    return false;
}

const uint8_t *mw_piece_read(struct mw_piece_reader *reader, const struct mw_listed_block *block,
                             uint64_t offset, size_t length, size_t *got_out)
{
    assert(length <= MW_PIECE_BYTES_MAX);
    uint64_t size = block->end - block->start;
    if (offset >= size)
        return NULL;
    size_t some = size - offset < length ? (size_t)(size - offset) : length;
    const uint8_t *bytes = mw_window_at(&reader->window, block->start + offset, some);
    if (!bytes) {
        reader->unread++;
        return NULL;
    }
    *got_out = some;
    return bytes;
}
