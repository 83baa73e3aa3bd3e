/* blocks/list.h: where blocks in use lie, noted in the walk, one or two bytes a block.
 *
 * While the target stands still there is no time to look at contents, so the walk's visitor notes
 * the blocks, of one size or of all, and they are read afterwards by ascending address. Blocks of a
 * heap follow each other: the gap to the last one noted is what a block costs, and its size where
 * several sizes are noted. Ten million blocks take about 30 MB. */
#ifndef MW_BLOCKS_LIST_H
#define MW_BLOCKS_LIST_H

#include "heap/walker.h"

struct mw_block_list {
    uint64_t wanted_bytes; /* as the user gave it: see mw_block_size_of(); 0: every size */
    struct mw_block_list_segment {
        mw_addr start, end;
        enum mw_segment_kind kind;
        size_t first_byte, last_byte;
        mw_addr cursor; /* private, while it is filled: end of the last block noted */
    } * segments;
    size_t segment_count, segment_room;
    uint8_t *bytes;
    size_t byte_count, byte_room;
    uint64_t count, unlisted; /* blocks noted; and left out, there being too many */

    size_t kept_segments, kept_bytes; /* private: of the allocators walked before */
    uint64_t kept_count, kept_unlisted;
};

/* Chunk size that a size in bytes stands for: itself when it is a multiple of 16, else the one
 * whose usable part it is (or, if there is none, the one that malloc takes for a request of it). */
uint64_t mw_block_size_of(uint64_t bytes, uint64_t overhead_bytes);

/* The visitor that fills it; valid as long as list is. */
struct mw_heap_visitor mw_block_list_visitor(struct mw_block_list *list);

/* Segments into ascending order, once the walk is over; before the first cursor. */
void mw_block_list_sort(struct mw_block_list *list);

/* One block: what the program may use of it. In musl malloc may have returned an address behind
 * `start`: has_shift tells to look into the four bytes before it. */
struct mw_listed_block {
    mw_addr start, end;
    uint64_t size_bytes; /* chunk */
    bool has_shift;
};

/* Ascending by address. Several cursors may read one list at the same time. */
struct mw_block_cursor {
    const struct mw_block_list *list;
    uint64_t size_bytes; /* chunk size to show; 0: all. Only for a list of every size */
    size_t segment;
    const uint8_t *at;
    mw_addr address; /* end of the last block */
};
void mw_block_cursor_init(struct mw_block_cursor *cursor, const struct mw_block_list *list,
                          uint64_t size_bytes);
/* False at the end. */
bool mw_block_cursor_next(struct mw_block_cursor *cursor, struct mw_listed_block *block_out);

void mw_block_list_deinit(struct mw_block_list *list);

#endif
