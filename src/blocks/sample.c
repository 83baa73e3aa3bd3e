/* blocks/sample.c: reservoir sampling by size: each block seen has the same chance to be kept. */
#include "blocks/sample.h"

#include "base/alloc.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

struct mw_block_samples *mw_block_samples_new(void)
{
    return mw_calloc(1, sizeof(struct mw_block_samples));
}

static void set_free(struct mw_sample_set *set)
{
    for (size_t i = 0; set && i < MW_SAMPLE_SIZES; i++)
        free(set->rows[i]);
    free(set);
}

void mw_block_samples_free(struct mw_block_samples *samples)
{
    for (size_t i = 0; samples && i < MW_SAMPLE_WALKS; i++)
        set_free(samples->sets[i]);
    free(samples);
}

/* Where the set of the walk at hand is kept. */
static struct mw_sample_set **set_at_hand(struct mw_block_samples *samples)
{
    assert(samples->walk_count > 0 && samples->walk_count <= MW_SAMPLE_WALKS);
    return &samples->sets[samples->walk_count - 1];
}

static enum mw_status sample_take(struct mw_sample_set *set, size_t index,
                                  const struct mw_block *block, struct mw_block_shape shape)
{
    if (set->counts[index] < MW_SAMPLE_FREQUENT) {
        set->counts[index]++;
        return MW_OK;
    }
    struct mw_sample_row *row = set->rows[index];
    if (!row) {
        row = set->rows[index] = mw_calloc(1, sizeof *row);
        if (!row)
            return MW_NOMEM;
    }
    uint64_t slot = row->seen++;
    if (slot >= MW_SAMPLE_BLOCKS)
        slot = mw_random_below(&set->random, row->seen);
    if (slot < MW_SAMPLE_BLOCKS)
        row->starts[slot] = block->address + shape.header_bytes;
    row->usable_bytes = block->size - shape.overhead_bytes;
    return MW_OK;
}

static enum mw_status blocks_sample(void *user, const struct mw_heap_segment *segment,
                                    const struct mw_block *blocks, size_t count)
{
    struct mw_sample_set **set = set_at_hand(user);
    const struct mw_block_shape shape = mw_block_shape(segment->kind);
    if (!*set) {
        *set = mw_calloc(1, sizeof **set);
        if (!*set)
            return MW_NOMEM;
        (*set)->random = MW_RANDOM_SEED;
    }
    for (size_t i = 0; i < count; i++) {
        size_t index = (size_t)(blocks[i].size / 16);
        if (blocks[i].state != MW_BLOCK_IN_USE || index >= MW_SAMPLE_SIZES)
            continue;
        enum mw_status status = sample_take(*set, index, &blocks[i], shape);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static void samples_begin(void *user)
{
    struct mw_block_samples *samples = user;
    samples->walk_count++;
}

static void samples_restart(void *user)
{
    struct mw_sample_set **set = set_at_hand(user);
    set_free(*set);
    *set = NULL;
}

struct mw_heap_visitor mw_block_samples_visitor(struct mw_block_samples *samples)
{
    return (struct mw_heap_visitor){
        .user = samples,
        .begin = samples_begin,
        .blocks = blocks_sample,
        .restart = samples_restart,
    };
}

const struct mw_sample_row *mw_block_samples_of(const struct mw_block_samples *samples, size_t walk,
                                                uint64_t size_bytes, size_t *count_out)
{
    assert(walk < MW_SAMPLE_WALKS);
    const struct mw_sample_set *set = samples->sets[walk];
    size_t index = (size_t)(size_bytes / 16);
    if (!set || index >= MW_SAMPLE_SIZES || !set->rows[index])
        return NULL;
    const struct mw_sample_row *row = set->rows[index];
    *count_out = row->seen < MW_SAMPLE_BLOCKS ? (size_t)row->seen : MW_SAMPLE_BLOCKS;
    assert(*count_out > 0);
    return row;
}
