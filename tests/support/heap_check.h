/* tests/support/heap_check.h: walks an image with glibc's walker and judges the answer.
 *
 * heap_walk() records every block; heap_meaning_wrong() checks what must hold whatever the target's
 * bytes are; heap_differs() compares with what a heap_builder built. Both give NULL or what is
 * wrong, in a static buffer. No cmocka here: fuzz targets use it too. */
#ifndef HEAP_CHECK_H
#define HEAP_CHECK_H

#include "heap_builder.h"

struct heap_walked {
    enum mw_status status;
    struct mw_error err;
    struct mw_allocator allocator;
    struct mw_findings findings;

    struct heap_expect *blocks; /* in the order seen; segment: number of segment_begin calls - 1 */
    size_t block_count, block_room;
    struct mw_heap_segment *ended; /* as segment_end gave them */
    size_t begun_count, ended_count, ended_room;
    struct mw_block *trims; /* address, size of each range to be released */
    size_t trim_count, trim_room;
    uint64_t span_bytes; /* set before the walk: how much is read in one piece; 0: as usual */
    bool counts_only;    /* do not store blocks: for benches and big heaps */
    mw_addr expected;    /* where the next block must begin */
    const char *broken;
};

/* Walk with one visitor and a trim callback. walked starts zeroed (counts_only and
 * span_bytes may be set). */
void heap_walk(struct mw_image *image, struct mw_context *context, struct heap_walked *walked);
void heap_walked_deinit(struct heap_walked *walked);

/* The visitor of such a walk, for a walk by somebody else; and for its restart: forget what was
 * seen, keep how it is to be seen. */
struct mw_heap_visitor heap_walked_visitor(struct heap_walked *walked);
void heap_walked_forget(struct heap_walked *walked);

/* Blocks tile their segments and ascend, segments do not overlap and lie in regions, sums agree
 * with each other, resident bytes do not exceed the pages. NULL, or what is wrong. */
const char *heap_meaning_wrong(struct mw_image *image, const struct heap_walked *walked);

/* Every block, segment, arena, total, size row and trimmed page against the builder's record;
 * `reconciled` is demanded. NULL, or the first difference. */
const char *heap_differs(struct heap_builder *heap, struct mw_image *image,
                         const struct heap_walked *walked);

#endif
