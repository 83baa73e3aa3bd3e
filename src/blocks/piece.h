/* blocks/piece.h: the blocks of a list, read piece by piece, for several threads side by side.
 *
 * Each thread goes over the whole list and takes the blocks that begin in its share of the address
 * space (every n-th 2 MiB), so that its reads stay sequential. */
#ifndef MW_BLOCKS_PIECE_H
#define MW_BLOCKS_PIECE_H

#include "blocks/list.h"
#include "image/window.h"

struct mw_piece_reader {
    struct mw_block_cursor cursor;
    struct mw_window window;
    unsigned index, count; /* this thread of how many */
    uint64_t unread;       /* pieces */
};

enum { MW_PIECE_BYTES_MAX = 32 << 10 };

/* MW_NOMEM. */
enum mw_status mw_piece_reader_init(struct mw_piece_reader *reader, struct mw_image *image,
                                    const struct mw_block_list *list, uint64_t size_bytes,
                                    unsigned index, unsigned count) MW_MUST_CHECK;
void mw_piece_reader_deinit(struct mw_piece_reader *reader);
/* From the first block again. */
void mw_piece_reader_rewind(struct mw_piece_reader *reader, uint64_t size_bytes);

/* This thread's next block as malloc returned it. False at the end. */
bool mw_piece_reader_next(struct mw_piece_reader *reader, struct mw_listed_block *block_out);

/* Bytes [offset, offset + length) of the block, length at most MW_PIECE_BYTES_MAX, or as many of
 * them as it has: *got_out. NULL when they cannot be read, or when it has none. Valid until the
 * next call. */
const uint8_t *mw_piece_read(struct mw_piece_reader *reader, const struct mw_listed_block *block,
                             uint64_t offset, size_t length, size_t *got_out);

#endif
