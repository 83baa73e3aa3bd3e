/* blocks/sample.h: a few in-use blocks of each frequent size, chosen evenly, in the walk itself.
 *
 * Memory: 48 KiB for each allocator, and 272 bytes for each of its sizes below 64 KiB of which a
 * thousand blocks were seen. */
#ifndef MW_BLOCKS_SAMPLE_H
#define MW_BLOCKS_SAMPLE_H

#include "heap/walker.h"

enum {
    MW_SAMPLE_SIZES = 4096,    /* chunk sizes below 64 KiB, by 16 */
    MW_SAMPLE_BLOCKS = 32,     /* of each size */
    MW_SAMPLE_FREQUENT = 1000, /* blocks of a size before its sampling begins */
    MW_SAMPLE_WALKS = 8,       /* allocators */
};

struct mw_sample_row {
    uint64_t seen;                    /* since the sampling of this size began */
    mw_addr starts[MW_SAMPLE_BLOCKS]; /* of what the program may use */
    uint64_t usable_bytes;            /* of the block seen last */
};

/* Those of one allocator. */
struct mw_sample_set {
    uint32_t counts[MW_SAMPLE_SIZES]; /* up to MW_SAMPLE_FREQUENT */
    struct mw_sample_row *rows[MW_SAMPLE_SIZES];
    uint64_t random;
};

struct mw_block_samples {
    struct mw_sample_set *sets[MW_SAMPLE_WALKS]; /* NULL: no block of it was seen */
    size_t walk_count;                           /* that have begun */
};

/* A new one, or NULL. */
struct mw_block_samples *mw_block_samples_new(void);
void mw_block_samples_free(struct mw_block_samples *samples);

/* The visitor that fills it: a set for each allocator that begins, at most MW_SAMPLE_WALKS. Valid
 * as long as samples is. */
struct mw_heap_visitor mw_block_samples_visitor(struct mw_block_samples *samples);

/* The sample of one size of blocks of the walk-th allocator that began, NULL when it was too rare:
 * *count_out starts of it are valid. */
const struct mw_sample_row *mw_block_samples_of(const struct mw_block_samples *samples, size_t walk,
                                                uint64_t size_bytes, size_t *count_out);

#endif
