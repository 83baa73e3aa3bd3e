/* blocks/groups.c: rows of the histograms, joined by size and sorted by what they hold. */
#include "blocks/groups.h"

#include "base/alloc.h"
#include "blocks/list.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const struct mw_block_group *left = a, *right = b;
    return (left->size_bytes > right->size_bytes) - (left->size_bytes < right->size_bytes);
}

static int by_bytes(const void *a, const void *b)
{
    const struct mw_block_group *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? 1 : -1;
    return -by_size(a, b);
}

/* Equal sizes, which are neighbours, become one. */
static void groups_join(struct mw_block_groups *groups)
{
    size_t count = 0;
    for (size_t i = 0; i < groups->count; i++) {
        struct mw_block_group *last = count > 0 ? &groups->items[count - 1] : NULL;
        if (last && last->size_bytes == groups->items[i].size_bytes) {
            last->count += groups->items[i].count;
            last->bytes += groups->items[i].bytes;
        } else {
            groups->items[count++] = groups->items[i];
        }
    }
    groups->count = count;
}

enum mw_status mw_block_groups_make(const struct mw_allocator *allocators, size_t allocator_count,
                                    struct mw_block_groups *groups_out)
{
    struct mw_block_groups groups = {0};
    size_t room = 0;
    for (size_t i = 0; i < allocator_count; i++)
        room += allocators[i].size_count;
    groups.items = mw_calloc(room, sizeof *groups.items);
    if (!groups.items)
        return MW_NOMEM;
    for (size_t i = 0; i < allocator_count; i++) {
        uint64_t overhead = mw_allocator_block_shape(&allocators[i]).overhead_bytes;
        for (size_t k = 0; k < allocators[i].size_count; k++) {
            const struct mw_size_row *row = &allocators[i].sizes[k];
            uint64_t bytes = row->size_bytes * row->in_use_count;
            if (row->in_use_count == 0 || row->size_bytes <= overhead)
                continue;
            groups.items[groups.count++] = (struct mw_block_group){
                row->size_bytes, row->size_bytes - overhead, row->in_use_count, bytes};
            groups.block_count += row->in_use_count;
            groups.bytes += bytes;
        }
    }
    qsort(groups.items, groups.count, sizeof *groups.items, by_size);
    groups_join(&groups);
    qsort(groups.items, groups.count, sizeof *groups.items, by_bytes);
    *groups_out = groups;
    return MW_OK;
}

const struct mw_block_group *mw_block_groups_find(const struct mw_block_groups *groups,
                                                  uint64_t bytes)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct mw_block_group *group = &groups->items[i];
        if (group->size_bytes == mw_block_size_of(bytes, group->size_bytes - group->usable_bytes))
            return group;
    }
    return NULL;
}

const struct mw_block_group *mw_block_groups_main(const struct mw_block_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (groups->items[i].count > 1)
            return &groups->items[i];
    return groups->count > 0 ? &groups->items[0] : NULL;
}

void mw_block_groups_deinit(struct mw_block_groups *groups)
{
    free(groups->items);
    *groups = (struct mw_block_groups){0};
}
