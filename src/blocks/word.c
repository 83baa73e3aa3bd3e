/* blocks/word.c: a small hash table a word, filled column by column.
 *
 * Blocks come in batches that fit the second-level cache, and a batch is counted word by word, so
 * that one table at a time is hot. Runs of equal values, the rule in constant words, cost a
 * compare. Open addressing, linear probing, at most two thirds full: constant time a value on
 * average; the hash is a multiplication, so a hostile target could make probes long, never longer
 * than a table of MW_WORD_ROOM_MAX. */
#include "blocks/word.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t rooms[] = {16, 96, 384, 1536, MW_WORD_ROOM_MAX};

static uint32_t room_after(uint32_t room)
{
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (rooms[i] > room)
            return rooms[i];
    assert(false); /* a table that is full has overflowed before */
    return room;
}

/* Two thirds full: the next size is due. */
static bool is_full(uint64_t distinct, uint32_t room)
{
    return distinct * 3 >= (uint64_t)room * 2;
}

size_t mw_word_bytes_max(uint64_t block_count)
{
    uint64_t distinct = block_count < MW_WORD_DISTINCT_MAX ? block_count : MW_WORD_DISTINCT_MAX;
    uint32_t before = 0, room = rooms[0];
    while (is_full(distinct, room) && room < MW_WORD_ROOM_MAX) {
        before = room;
        room = room_after(room);
    }
    return (room + before) * (sizeof(uint64_t) + sizeof(uint32_t)) + sizeof(struct mw_word);
}

/* The slot of a value, or the empty one where it belongs. */
static uint32_t slot_of(const uint64_t *values, const uint32_t *counts, uint32_t room,
                        uint64_t value)
{
    uint64_t hash = (value ^ value >> 32) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)((hash >> 32) * room >> 32);
    while (counts[at] != 0 && values[at] != value)
        at = at + 1 < room ? at + 1 : 0;
    return at;
}

static enum mw_status table_grow(struct mw_word *word)
{
    uint32_t room = room_after(word->room);
    uint64_t *values = mw_calloc(room, sizeof *values);
    uint32_t *counts = mw_calloc(room, sizeof *counts);
    if (!values || !counts) {
        free(values);
        free(counts);
        return MW_NOMEM;
    }
    for (uint32_t i = 0; i < word->room; i++) {
        if (word->counts[i] == 0)
            continue;
        uint32_t at = slot_of(values, counts, room, word->values[i]);
        values[at] = word->values[i];
        counts[at] = word->counts[i];
    }
    free(word->values);
    free(word->counts);
    word->values = values;
    word->counts = counts;
    word->room = room;
    return MW_OK;
}

static void classes_add(struct mw_word *word, const struct mw_value_ranges *ranges, uint64_t value,
                        uint64_t times)
{
    word->classes[mw_value_classify(ranges, value, &word->hint)] += times;
}

static void classes_from_table(struct mw_word *word, const struct mw_value_ranges *ranges)
{
    for (uint32_t i = 0; i < word->room; i++)
        if (word->counts[i] != 0)
            classes_add(word, ranges, word->values[i], word->counts[i]);
}

/* Too many values: from here on each is classified as it comes. */
static void table_give_up(struct mw_word *word, const struct mw_value_ranges *ranges)
{
    assert(!word->overflowed && word->distinct >= MW_WORD_SAMPLE);
    classes_from_table(word, ranges);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < word->room && kept < MW_WORD_SAMPLE; i++)
        if (word->counts[i] != 0)
            word->values[kept++] = word->values[i];
    free(word->counts);
    word->counts = NULL;
    word->room = kept;
    word->overflowed = true;
    uint64_t *sample = mw_calloc(kept, sizeof *sample);
    if (!sample)
        return; /* a large table for a small sample, until the end */
    memcpy(sample, word->values, kept * sizeof *sample);
    free(word->values);
    word->values = sample;
}

static enum mw_status value_add(struct mw_word *word, const struct mw_value_ranges *ranges,
                                uint64_t value, uint64_t times)
{
    if (word->overflowed) {
        classes_add(word, ranges, value, times);
        return MW_OK;
    }
    if (is_full(word->distinct, word->room) && word->room < MW_WORD_ROOM_MAX) {
        enum mw_status status = table_grow(word);
        if (status != MW_OK)
            return status;
    }
    uint32_t at = slot_of(word->values, word->counts, word->room, value);
    if (word->counts[at] == 0) {
        if (word->distinct == MW_WORD_DISTINCT_MAX) {
            table_give_up(word, ranges);
            classes_add(word, ranges, value, times);
            return MW_OK;
        }
        word->values[at] = value;
        word->distinct++;
    }
    uint64_t sum = word->counts[at] + times;
    word->counts[at] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    return MW_OK;
}

enum mw_status mw_word_add_column(struct mw_word *word, const struct mw_value_ranges *ranges,
                                  const uint8_t *bytes, size_t stride, size_t count)
{
    uint64_t last = 0, times = 0, min = word->min, max = word->max;
    uint64_t all_and = word->all_and, all_or = word->all_or;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++, bytes += stride) {
        uint64_t value;
        memcpy(&value, bytes, sizeof value);
        if (value == last && times > 0) {
            times++;
            continue;
        }
        if (times > 0)
            status = value_add(word, ranges, last, times);
        all_and &= value;
        all_or |= value;
        min = value < min ? value : min;
        max = value > max ? value : max;
        last = value;
        times = 1;
    }
    if (times > 0 && status == MW_OK)
        status = value_add(word, ranges, last, times);
    word->min = min;
    word->max = max;
    word->all_and = all_and;
    word->all_or = all_or;
    word->count += count;
    return status;
}

enum mw_status mw_word_merge(struct mw_word *word, const struct mw_value_ranges *ranges,
                             struct mw_word *more)
{
    enum mw_status status = MW_OK;
    if (more->overflowed && !word->overflowed) { /* the one without a table takes in the other */
        struct mw_word swapped = *word;
        *word = *more;
        *more = swapped;
    }
    for (uint32_t i = 0; i < more->room && !more->overflowed && status == MW_OK; i++)
        if (more->counts[i] != 0)
            status = value_add(word, ranges, more->values[i], more->counts[i]);
    for (size_t i = 0; i < MW_VALUE_COUNT && more->overflowed; i++)
        word->classes[i] += more->classes[i];
    word->count += more->count;
    word->min = more->min < word->min ? more->min : word->min;
    word->max = more->max > word->max ? more->max : word->max;
    word->all_and &= more->all_and;
    word->all_or |= more->all_or;
    mw_word_deinit(more);
    return status;
}

void mw_word_finish(struct mw_word *word, const struct mw_value_ranges *ranges)
{
    if (!word->overflowed)
        classes_from_table(word, ranges);
}

void mw_word_deinit(struct mw_word *word)
{
    free(word->values);
    free(word->counts);
    mw_word_init(word);
}
