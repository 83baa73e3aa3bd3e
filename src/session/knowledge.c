/* session/knowledge.c: one pass over all blocks counts lost ones and takes samples, by size.
 *
 * Linear in blocks: small sizes are found in a table, others by a binary search. */
#include "session/knowledge.h"

#include "base/alloc.h"
#include "base/random.h"
#include "session/layouts.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE = 4096 }; /* sizes below 64 KiB, by 16 */

struct row {
    uint64_t size_bytes, usable_bytes, seen, lost;
    size_t group;    /* its place in groups */
    mw_addr *sample; /* MW_LAYOUTS_SAMPLES; NULL: none are wanted */
};

struct telling {
    struct mw_analysis *analysis;
    struct mw_block_teller *teller;
    struct row *rows; /* ascending by size */
    size_t count;
    uint32_t table[TABLE]; /* place in rows plus 1 */
    uint64_t random;
};

static int row_compare(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    return left->size_bytes < right->size_bytes ? -1 : left->size_bytes > right->size_bytes;
}

static enum mw_status rows_make(struct telling *telling, const struct mw_block_groups *groups)
{
    telling->rows = mw_calloc(groups->count + 1, sizeof *telling->rows);
    if (!telling->rows)
        return MW_NOMEM;
    for (size_t i = 0; i < groups->count; i++) {
        struct row *row = &telling->rows[telling->count++];
        *row = (struct row){.size_bytes = groups->items[i].size_bytes,
                            .usable_bytes = groups->items[i].usable_bytes,
                            .group = i};
        if (i < MW_KNOWN_GROUPS_MAX &&
            !(row->sample = mw_calloc(MW_LAYOUTS_SAMPLES, sizeof *row->sample)))
            return MW_NOMEM;
    }
    qsort(telling->rows, telling->count, sizeof *telling->rows, row_compare);
    for (size_t i = 0; i < telling->count; i++)
        if (telling->rows[i].size_bytes / 16 < TABLE)
            telling->table[telling->rows[i].size_bytes / 16] = (uint32_t)i + 1;
    return MW_OK;
}

static struct row *row_of(struct telling *telling, uint64_t size)
{
    if (size / 16 < TABLE) {
        uint32_t place = telling->table[size / 16];
        return place ? &telling->rows[place - 1] : NULL;
    }
    const struct row key = {.size_bytes = size};
    return bsearch(&key, telling->rows, telling->count, sizeof key, row_compare);
}

static void block_see(struct telling *telling, mw_addr start, uint64_t size, bool is_lost)
{
    struct row *row = row_of(telling, size);
    if (!row)
        return;
    uint64_t slot = row->seen++;
    row->lost += is_lost;
    if (!row->sample)
        return;
    if (slot >= MW_LAYOUTS_SAMPLES)
        slot = mw_random_below(&telling->random, row->seen);
    if (slot < MW_LAYOUTS_SAMPLES)
        row->sample[slot] = start;
}

static void blocks_see(struct telling *telling)
{
    const struct mw_reach *reach = &telling->analysis->reach;
    struct mw_index_cursor cursor = {0};
    mw_addr start, next;
    bool is_there = mw_index_next(reach->index, &cursor, &start);
    for (uint32_t rank = 0; is_there; rank++, start = next) {
        is_there = mw_index_next(reach->index, &cursor, &next);
        if (is_there && mw_bit_get(reach->index->is_used, rank))
            block_see(telling, start, mw_index_block_end(reach->index, next) - start,
                      !mw_reach_is_reachable(reach, rank));
    }
}

/* Small sizes first: an owner is seen before its buffers. */
static void layouts_tell(struct telling *telling, struct mw_layouts *layouts,
                         struct mw_block_knowledge *knowledge)
{
    size_t told = 0;
    for (size_t i = 0; i < telling->count; i++) {
        const struct row *row = &telling->rows[i];
        struct mw_layout_match *match = &telling->teller->matches[told];
        size_t count = row->seen < MW_LAYOUTS_SAMPLES ? (size_t)row->seen : MW_LAYOUTS_SAMPLES;
        if (!row->sample || !mw_layouts_name(layouts, row->sample, count, row->usable_bytes, match))
            continue;
        knowledge[row->group].layout = match->name;
        told++;
    }
}

static enum mw_status names_and_layouts(struct telling *telling,
                                        struct mw_block_knowledge *knowledge, struct mw_error *err)
{
    struct mw_analysis *analysis = telling->analysis;
    struct mw_names *names;
    struct mw_layouts layouts;
    enum mw_status status = mw_names_open(&analysis->image, &telling->teller->names,
                                          telling->teller->context, &names, err);
    if (status != MW_OK)
        return status;
    status = mw_layouts_open(&analysis->image, analysis->allocators, analysis->allocator_count,
                             names, &layouts, err);
    if (status == MW_OK) {
        layouts_tell(telling, &layouts, knowledge);
        mw_layouts_close(&layouts);
    }
    mw_names_free(names);
    return status;
}

enum mw_status mw_block_teller_tell(void *user, struct mw_analysis *analysis,
                                    const struct mw_block_groups *groups,
                                    struct mw_block_knowledge *knowledge, struct mw_error *err)
{
    struct telling telling = {.analysis = analysis, .teller = user, .random = MW_RANDOM_SEED};
    const struct mw_reach *reach = &analysis->reach;
    if (!reach->is_done)
        return MW_OK;
    telling.teller->matches = mw_calloc(MW_KNOWN_GROUPS_MAX + 1, sizeof(struct mw_layout_match));
    enum mw_status status = telling.teller->matches ? rows_make(&telling, groups) : MW_NOMEM;
    if (status == MW_OK) {
        blocks_see(&telling);
        for (size_t i = 0; i < telling.count && mw_reach_is_exact(reach); i++)
            knowledge[telling.rows[i].group].unreachable_count = telling.rows[i].lost;
        status = names_and_layouts(&telling, knowledge, err);
    } else {
        mw_fail(err, status, "out of memory for what blocks are");
    }
    for (size_t i = 0; telling.rows && i < telling.count; i++)
        free(telling.rows[i].sample);
    free(telling.rows);
    return status;
}

void mw_block_teller_deinit(struct mw_block_teller *teller)
{
    free(teller->matches);
    teller->matches = NULL;
}
