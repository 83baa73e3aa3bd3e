/* heap/sizes.h: the histogram of chunk sizes. Constant time per block, a few bytes per size. */
#ifndef MW_HEAP_SIZES_H
#define MW_HEAP_SIZES_H

#include "heap/walker.h"

enum { MW_SIZES_DIRECT = 4096 }; /* sizes below 64 KiB are counted by index */

struct mw_sizes {
    struct mw_size_row *direct; /* MW_SIZES_DIRECT rows */
    struct mw_size_row *table;  /* open addressing, size 0 is empty */
    size_t table_count, table_room;
};

enum mw_status mw_sizes_init(struct mw_sizes *sizes) MW_MUST_CHECK;
void mw_sizes_deinit(struct mw_sizes *sizes);

/* Count one block. MW_NOMEM. */
enum mw_status mw_sizes_add_large(struct mw_sizes *sizes, uint64_t size, bool in_use);

static inline enum mw_status mw_sizes_add(struct mw_sizes *sizes, uint64_t size, bool in_use)
{
    if (size / 16 >= MW_SIZES_DIRECT)
        return mw_sizes_add_large(sizes, size, in_use);
    struct mw_size_row *row = &sizes->direct[size / 16];
    row->in_use_count += in_use;
    row->free_count += !in_use;
    return MW_OK;
}

/* The same for a size below 64 KiB, without a branch. */
static inline void mw_sizes_add_small(struct mw_sizes *sizes, uint64_t size, bool is_free)
{
    struct mw_size_row *row = &sizes->direct[size / 16];
    row->in_use_count += !is_free;
    row->free_count += is_free;
}

/* Add what another one counted. MW_NOMEM. */
enum mw_status mw_sizes_merge(struct mw_sizes *sizes, const struct mw_sizes *more) MW_MUST_CHECK;

/* The rows that were seen, ascending by size. The caller frees *rows_out. */
enum mw_status mw_sizes_rows(const struct mw_sizes *sizes, struct mw_size_row **rows_out,
                             size_t *count_out) MW_MUST_CHECK;

#endif
