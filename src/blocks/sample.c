/* blocks/sample.c: reservoir sampling by size: each block seen has the same chance to be kept. */
#include "blocks/sample.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

static const uint64_t RANDOM_SEED = 0x9e3779b97f4a7c15u; /* fixed: two runs agree */

struct mw_block_samples *mw_block_samples_new(void)
{
    struct mw_block_samples *samples = mw_calloc(1, sizeof *samples);
    if (samples)
        samples->random = RANDOM_SEED;
    return samples;
}

void mw_block_samples_free(struct mw_block_samples *samples)
{
    for (size_t i = 0; samples && i < MW_SAMPLE_SIZES; i++)
        free(samples->rows[i]);
    free(samples);
}

void mw_block_samples_clear(struct mw_block_samples *samples)
{
    for (size_t i = 0; i < MW_SAMPLE_SIZES; i++) {
        free(samples->rows[i]);
        samples->rows[i] = NULL;
        samples->counts[i] = 0;
    }
    samples->random = RANDOM_SEED;
}

/* A number below limit, xorshift (Marsaglia 2003); its slight bias does not matter here. */
static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint64_t)((unsigned __int128)*state * limit >> 64);
}

static enum mw_status sample_take(struct mw_block_samples *samples, size_t index, mw_addr chunk)
{
    if (samples->counts[index] < MW_SAMPLE_FREQUENT) {
        samples->counts[index]++;
        return MW_OK;
    }
    struct mw_sample_row *row = samples->rows[index];
    if (!row) {
        row = samples->rows[index] = mw_calloc(1, sizeof *row);
        if (!row)
            return MW_NOMEM;
    }
    uint64_t slot = row->seen++;
    if (slot >= MW_SAMPLE_BLOCKS)
        slot = random_below(&samples->random, row->seen);
    if (slot < MW_SAMPLE_BLOCKS)
        row->chunks[slot] = chunk;
    return MW_OK;
}

static enum mw_status blocks_sample(void *user, const struct mw_heap_segment *segment,
                                    const struct mw_block *blocks, size_t count)
{
    struct mw_block_samples *samples = user;
    (void)segment;
    for (size_t i = 0; i < count; i++) {
        size_t index = (size_t)(blocks[i].size / 16);
        if (blocks[i].state != MW_BLOCK_IN_USE || index >= MW_SAMPLE_SIZES)
            continue;
        enum mw_status status = sample_take(samples, index, blocks[i].address);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static void samples_restart(void *user)
{
    mw_block_samples_clear(user);
}

struct mw_heap_visitor mw_block_samples_visitor(struct mw_block_samples *samples)
{
    return (struct mw_heap_visitor){
        .user = samples, .blocks = blocks_sample, .restart = samples_restart};
}

const mw_addr *mw_block_samples_of(const struct mw_block_samples *samples, uint64_t size_bytes,
                                   size_t *count_out)
{
    size_t index = (size_t)(size_bytes / 16);
    if (index >= MW_SAMPLE_SIZES || !samples->rows[index])
        return NULL;
    const struct mw_sample_row *row = samples->rows[index];
    *count_out = row->seen < MW_SAMPLE_BLOCKS ? (size_t)row->seen : MW_SAMPLE_BLOCKS;
    assert(*count_out > 0);
    return row->chunks;
}
