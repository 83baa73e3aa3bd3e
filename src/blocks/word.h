/* blocks/word.h: what the values of one 8-byte word of many blocks have in common.
 *
 * Distinct values are counted exactly up to MW_WORD_DISTINCT_MAX, each with how often it was seen;
 * then the table is given up (a sample of it is kept) and only what needs no memory goes on. */
#ifndef MW_BLOCKS_WORD_H
#define MW_BLOCKS_WORD_H

#include "blocks/value.h"

enum {
    MW_WORD_DISTINCT_MAX = 4096,
    MW_WORD_ROOM_MAX = 6144, /* slots of a full table */
    MW_WORD_SAMPLE = 64,     /* values that stay when there are more */
};
struct mw_word {
    uint64_t count; /* values seen */
    uint64_t min, max, all_and, all_or;
    uint64_t *values; /* of the table: with counts, 0 an empty slot. Of the sample: without */
    uint32_t *counts; /* stop at UINT32_MAX */
    uint32_t room, distinct;
    bool overflowed;                  /* more than MW_WORD_DISTINCT_MAX: values are a sample */
    uint64_t classes[MW_VALUE_COUNT]; /* filled from the overflow on, or by mw_word_finish() */
    size_t hint;                      /* of mw_value_classify() */
};

static inline void mw_word_init(struct mw_word *word)
{
    *word = (struct mw_word){.min = UINT64_MAX, .all_and = UINT64_MAX};
}

/* The most that a word of so many blocks takes: its table, while it grows into its last size. */
size_t mw_word_bytes_max(uint64_t block_count);

/* Count a column: `count` values, the first at `bytes`, each `stride` bytes behind the one before;
 * not aligned. MW_NOMEM. */
enum mw_status mw_word_add_column(struct mw_word *word, const struct mw_value_ranges *ranges,
                                  const uint8_t *bytes, size_t stride, size_t count);

/* Count what another one did, which is then empty. MW_NOMEM. */
enum mw_status mw_word_merge(struct mw_word *word, const struct mw_value_ranges *ranges,
                             struct mw_word *more);

/* No more values come: fill `classes`. */
void mw_word_finish(struct mw_word *word, const struct mw_value_ranges *ranges);

void mw_word_deinit(struct mw_word *word);

#endif
