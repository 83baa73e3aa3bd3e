/* heap/sizes.c: small sizes by index, large ones in a hash table that doubles at half load. */
#include "heap/sizes.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

enum { TABLE_FIRST = 256 };

enum mw_status mw_sizes_init(struct mw_sizes *sizes)
{
    *sizes = (struct mw_sizes){0};
    sizes->direct = mw_calloc(MW_SIZES_DIRECT, sizeof *sizes->direct);
    return sizes->direct ? MW_OK : MW_NOMEM;
}

void mw_sizes_deinit(struct mw_sizes *sizes)
{
    free(sizes->direct);
    free(sizes->table);
    *sizes = (struct mw_sizes){0};
}

/* The row of size, or the empty one where it belongs. room is a power of two. */
static struct mw_size_row *table_slot(struct mw_size_row *table, size_t room, uint64_t size)
{
    uint64_t hash = (size >> 4) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(hash >> 32) & (room - 1);
    while (table[at].size_bytes != 0 && table[at].size_bytes != size)
        at = (at + 1) & (room - 1);
    return &table[at];
}

static enum mw_status table_grow(struct mw_sizes *sizes)
{
    size_t room = sizes->table_room ? sizes->table_room * 2 : TABLE_FIRST;
    struct mw_size_row *table = mw_calloc(room, sizeof *table);
    if (!table)
        return MW_NOMEM;
    for (size_t i = 0; i < sizes->table_room; i++)
        if (sizes->table[i].size_bytes)
            *table_slot(table, room, sizes->table[i].size_bytes) = sizes->table[i];
    free(sizes->table);
    sizes->table = table;
    sizes->table_room = room;
    return MW_OK;
}

static enum mw_status counts_add_large(struct mw_sizes *sizes, const struct mw_size_row *more)
{
    assert(more->size_bytes != 0);
    if (sizes->table_count * 2 >= sizes->table_room) {
        enum mw_status status = table_grow(sizes);
        if (status != MW_OK)
            return status;
    }
    struct mw_size_row *row = table_slot(sizes->table, sizes->table_room, more->size_bytes);
    if (row->size_bytes == 0) {
        row->size_bytes = more->size_bytes;
        sizes->table_count++;
    }
    row->in_use_count += more->in_use_count;
    row->free_count += more->free_count;
    return MW_OK;
}

enum mw_status mw_sizes_add_large(struct mw_sizes *sizes, uint64_t size, bool in_use)
{
    const struct mw_size_row one = {
        .size_bytes = size, .in_use_count = in_use, .free_count = !in_use};
    return counts_add_large(sizes, &one);
}

enum mw_status mw_sizes_merge(struct mw_sizes *sizes, const struct mw_sizes *more)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < MW_SIZES_DIRECT; i++) {
        sizes->direct[i].in_use_count += more->direct[i].in_use_count;
        sizes->direct[i].free_count += more->direct[i].free_count;
    }
    for (size_t i = 0; i < more->table_room && status == MW_OK; i++)
        if (more->table[i].size_bytes)
            status = counts_add_large(sizes, &more->table[i]);
    return status;
}

static int row_compare(const void *a, const void *b)
{
    uint64_t left = ((const struct mw_size_row *)a)->size_bytes;
    uint64_t right = ((const struct mw_size_row *)b)->size_bytes;
    return left < right ? -1 : left > right;
}

enum mw_status mw_sizes_rows(const struct mw_sizes *sizes, struct mw_size_row **rows_out,
                             size_t *count_out)
{
    size_t count = sizes->table_count, at = 0;
    for (size_t i = 0; i < MW_SIZES_DIRECT; i++)
        count += sizes->direct[i].in_use_count || sizes->direct[i].free_count;
    struct mw_size_row *rows = mw_calloc(count, sizeof *rows);
    if (!rows)
        return MW_NOMEM;
    for (size_t i = 0; i < MW_SIZES_DIRECT; i++) {
        if (!sizes->direct[i].in_use_count && !sizes->direct[i].free_count)
            continue;
        rows[at] = sizes->direct[i];
        rows[at++].size_bytes = i * 16;
    }
    size_t large = at;
    for (size_t i = 0; i < sizes->table_room; i++)
        if (sizes->table[i].size_bytes)
            rows[at++] = sizes->table[i];
    assert(at == count);
    if (count > large)
        qsort(rows + large, count - large, sizeof *rows, row_compare);
    *rows_out = rows;
    *count_out = count;
    return MW_OK;
}
