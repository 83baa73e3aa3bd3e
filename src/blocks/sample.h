/* blocks/sample.h: a few in-use blocks of each frequent size, chosen evenly, in the walk itself.
 *
 * Memory: 264 bytes for each size below 64 KiB of which a thousand blocks were seen. */
#ifndef MW_BLOCKS_SAMPLE_H
#define MW_BLOCKS_SAMPLE_H

#include "heap/walker.h"

enum {
    MW_SAMPLE_SIZES = 4096,    /* chunk sizes below 64 KiB, by 16 */
    MW_SAMPLE_BLOCKS = 32,     /* of each size */
    MW_SAMPLE_FREQUENT = 1000, /* blocks of a size before its sampling begins */
};

struct mw_sample_row {
    uint64_t seen; /* since the sampling of this size began */
    mw_addr chunks[MW_SAMPLE_BLOCKS];
};

struct mw_block_samples {
    uint32_t counts[MW_SAMPLE_SIZES]; /* up to MW_SAMPLE_FREQUENT */
    struct mw_sample_row *rows[MW_SAMPLE_SIZES];
    uint64_t random;
};

/* A new one, or NULL. */
struct mw_block_samples *mw_block_samples_new(void);
void mw_block_samples_free(struct mw_block_samples *samples);

/* Forget what was sampled: the walk begins again. */
void mw_block_samples_clear(struct mw_block_samples *samples);

/* The visitor that fills it. Valid as long as samples is. */
struct mw_heap_visitor mw_block_samples_visitor(struct mw_block_samples *samples);

/* The sample of one chunk size, NULL when it was too rare; *count_out chunks of it are valid. */
const mw_addr *mw_block_samples_of(const struct mw_block_samples *samples, uint64_t size_bytes,
                                   size_t *count_out);

#endif
