/* blocks/strings.c: hashes of texts, counted.
 *
 * A table of fixed room per thread, open addressing. When it is three quarters full a round ends:
 * texts seen too seldom since they came in are dropped, so that a text's count is never too high,
 * and too low by at most the number of rounds. The tables of the threads are added up at the end.
 * A text longer than MW_PIECE_BYTES_MAX is compared by its first bytes and the block's size. */
#include "blocks/strings.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/workers.h"
#include "blocks/piece.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TABLE_ROOM = 1 << 17,
    TABLE_FULL = TABLE_ROOM / 4 * 3,
    THREADS_MAX = 4,
    CANCEL_STEP = 4096,
    ROUNDED_MAX = 23
};

struct entry {
    uint64_t hash; /* with count; 0 blocks: empty */
    uint64_t bytes;
    mw_addr sample_block;
    uint32_t count, length, sample_offset;
    uint32_t missed; /* at most so many were seen and forgotten before it came in */
};

struct table {
    struct entry *entries; /* TABLE_ROOM */
    size_t count;
    uint32_t rounds;
};

struct string_worker {
    const struct mw_strings_input *input;
    struct mw_piece_reader reader;
    uint64_t size_bytes;
    struct table table;
    uint64_t block_count, text_count, text_bytes;
    enum mw_status status;
};

/* ---- is it text? ---- */

/* Are all eight bytes printable ASCII? No byte of 0x20 or more borrows, none below 0x7f carries. */
static bool is_plain(const uint8_t *bytes)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return ((word | (word - 0x20 * ones) | (word + ones)) & 0x80 * ones) == 0;
}

static size_t text_length(const uint8_t *bytes, size_t length)
{
    size_t i = 0;
    while (i < length) {
        size_t sequence = 1;
        if (length - i >= 8 && is_plain(bytes + i))
            sequence = 8;
        else if (bytes[i] >= 0x80)
            sequence = mw_utf8_sequence(bytes + i, length - i);
        else if (!mw_byte_is_text(bytes[i]))
            break;
        if (sequence == 0)
            break;
        i += sequence;
    }
    return i;
}

/* Is the short text at offset rather an address? */
static bool is_address(const struct mw_value_ranges *ranges, const uint8_t *bytes, size_t length,
                       size_t offset, size_t text)
{
    uint64_t value;
    size_t hint = 0;
    if (text > sizeof value || offset % sizeof value != 0 || length - offset < sizeof value)
        return false;
    memcpy(&value, bytes + offset, sizeof value);
    return mw_value_is_pointer(mw_value_classify(ranges, value, &hint));
}

bool mw_string_find(const struct mw_value_ranges *ranges, const uint8_t *bytes, size_t length,
                    uint64_t size, size_t *offset_out, size_t *length_out)
{
    for (size_t offset = 0; offset <= MW_STRING_HEADER_MAX && offset < length; offset++) {
        if (!mw_byte_is_text(bytes[offset]) && bytes[offset] < 0xc2)
            continue;
        size_t text = text_length(bytes + offset, length - offset), end = offset + text;
        bool ends = end == length || bytes[end] == 0;
        /* Most of the block: malloc rounds up by less than 24, and growing buffers double. */
        bool fills = end == length || (uint64_t)end + 1 + ROUNDED_MAX >= size ||
                     ((uint64_t)end + 1) * 2 >= size;
        if (text >= MW_STRING_LENGTH_MIN && ends && fills &&
            !is_address(ranges, bytes, length, offset, text)) {
            *offset_out = offset;
            *length_out = text;
            return true;
        }
        offset += text;
    }
    return false;
}

/* ---- the table ---- */

/* A multiply and rotate hash of eight bytes at a time. */
static uint64_t text_hash(const uint8_t *bytes, size_t length)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t hash = length * factor;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, length);
    hash = (hash ^ rest) * factor;
    return hash ^ hash >> 32;
}

static struct entry *table_slot(struct entry *entries, uint64_t hash)
{
    size_t at = (size_t)(hash >> 7) & (TABLE_ROOM - 1);
    while (entries[at].count != 0 && entries[at].hash != hash)
        at = (at + 1) & (TABLE_ROOM - 1);
    return &entries[at];
}

/* End a round: what was seen too seldom goes. At least one round, until there is room. */
static enum mw_status table_prune(struct table *table)
{
    while (table->count >= TABLE_FULL) {
        struct entry *kept = mw_calloc(TABLE_ROOM, sizeof *kept);
        if (!kept)
            return MW_NOMEM;
        table->rounds++;
        table->count = 0;
        for (size_t i = 0; i < TABLE_ROOM; i++) {
            const struct entry *entry = &table->entries[i];
            if (entry->count == 0 || (uint64_t)entry->count + entry->missed <= table->rounds)
                continue;
            *table_slot(kept, entry->hash) = *entry;
            table->count++;
        }
        free(table->entries);
        table->entries = kept;
    }
    return MW_OK;
}

static enum mw_status table_add(struct table *table, const struct entry *more)
{
    struct entry *entry = table_slot(table->entries, more->hash);
    if (entry->count == 0) {
        if (table->count >= TABLE_FULL) {
            enum mw_status status = table_prune(table);
            if (status != MW_OK)
                return status;
            entry = table_slot(table->entries, more->hash);
        }
        *entry = *more;
        entry->missed += table->rounds;
        table->count++;
        return MW_OK;
    }
    uint64_t count = (uint64_t)entry->count + more->count;
    entry->count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    entry->bytes += more->bytes;
    if (more->sample_block < entry->sample_block) {
        entry->sample_block = more->sample_block;
        entry->sample_offset = more->sample_offset;
    }
    return MW_OK;
}

/* ---- the pass ---- */

static enum mw_status block_look(struct string_worker *worker, const struct mw_listed_block *block)
{
    size_t got, offset, length;
    const uint8_t *bytes = mw_piece_read(&worker->reader, block, 0, MW_PIECE_BYTES_MAX, &got);
    worker->block_count++;
    if (!bytes || !mw_string_find(worker->input->ranges, bytes, got, block->end - block->start,
                                  &offset, &length))
        return MW_OK;
    worker->text_count++;
    worker->text_bytes += block->size_bytes;
    uint64_t hash = text_hash(bytes + offset, length);
    if (got < block->end - block->start) /* not all of it was compared */
        hash ^= block->size_bytes * 0x9e3779b97f4a7c15u;
    return table_add(&worker->table, &(struct entry){
                                         .hash = hash,
                                         .bytes = block->size_bytes,
                                         .sample_block = block->start,
                                         .count = 1,
                                         .length = (uint32_t)length,
                                         .sample_offset = (uint32_t)offset,
                                     });
}

static void worker_run(void *state)
{
    struct string_worker *worker = state;
    struct mw_listed_block block;
    while (worker->status == MW_OK && mw_piece_reader_next(&worker->reader, &block)) {
        worker->status = block_look(worker, &block);
        if (worker->block_count % CANCEL_STEP == 0 && mw_context_canceled(worker->input->context))
            worker->status = MW_CANCELED;
    }
}

static int row_compare(const void *a, const void *b)
{
    const struct mw_string_row *left = a, *right = b;
    uint64_t left_waste = mw_string_wasted_bytes(left);
    uint64_t right_waste = mw_string_wasted_bytes(right);
    if (left_waste != right_waste)
        return left_waste < right_waste ? 1 : -1;
    return (left->sample_block > right->sample_block) - (left->sample_block < right->sample_block);
}

/* Into the rows, the least of which gives way. */
static void row_offer(struct mw_strings *strings, const struct mw_string_row *row)
{
    struct mw_string_row *slot = &strings->rows[strings->row_count];
    if (strings->row_count == MW_STRING_ROWS) {
        slot = &strings->rows[0];
        for (size_t i = 1; i < MW_STRING_ROWS; i++)
            if (row_compare(slot, &strings->rows[i]) < 0)
                slot = &strings->rows[i];
        if (row_compare(row, slot) >= 0)
            return;
    } else {
        strings->row_count++;
    }
    *slot = *row;
}

static void strings_fill(struct mw_strings *strings, const struct table *table)
{
    strings->is_lower_bound |= table->rounds > 0;
    strings->distinct = table->count;
    for (size_t i = 0; i < TABLE_ROOM; i++) {
        const struct entry *entry = &table->entries[i];
        if (entry->count < 2)
            continue;
        const struct mw_string_row row = {
            .hash = entry->hash,
            .count = entry->count,
            .bytes = entry->bytes,
            .length_bytes = entry->length,
            .sample_block = entry->sample_block,
            .sample_offset = entry->sample_offset,
        };
        strings->repeated_count++;
        strings->wasted_bytes += mw_string_wasted_bytes(&row);
        row_offer(strings, &row);
    }
    if (strings->row_count > 0)
        qsort(strings->rows, strings->row_count, sizeof strings->rows[0], row_compare);
}

/* The tables of all threads into that of the first. */
static enum mw_status tables_merge(struct string_worker *workers, size_t count)
{
    enum mw_status status = MW_OK;
    uint32_t rounds = workers[0].table.rounds;
    for (size_t i = 1; i < count && status == MW_OK; i++) {
        struct table *table = &workers[i].table;
        rounds += table->rounds;
        for (size_t k = 0; k < TABLE_ROOM && status == MW_OK; k++)
            if (table->entries[k].count != 0)
                status = table_add(&workers[0].table, &table->entries[k]);
    }
    if (workers[0].table.rounds < rounds)
        workers[0].table.rounds = rounds; /* some of them forgot */
    return status;
}

static enum mw_status strings_collect(struct string_worker *workers, size_t count,
                                      struct mw_strings *strings)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count; i++) {
        status = status == MW_OK ? workers[i].status : status;
        strings->block_count += workers[i].block_count;
        strings->text_count += workers[i].text_count;
        strings->text_bytes += workers[i].text_bytes;
    }
    if (status == MW_OK)
        status = tables_merge(workers, count);
    if (status == MW_OK)
        strings_fill(strings, &workers[0].table);
    return status;
}

enum mw_status mw_strings_read(const struct mw_strings_input *input, struct mw_strings *strings_out,
                               struct mw_error *err)
{
    struct string_worker workers[THREADS_MAX] = {0};
    unsigned allowed = mw_workers_allowed(input->context);
    size_t count = allowed < THREADS_MAX ? allowed : THREADS_MAX;
    enum mw_status status = MW_OK;
    struct mw_strings strings = {0};
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        workers[i].input = input;
        workers[i].table.entries = mw_calloc(TABLE_ROOM, sizeof *workers[i].table.entries);
        status = mw_piece_reader_init(&workers[i].reader, input->image, input->list,
                                      input->size_bytes, (unsigned)i, (unsigned)count);
        if (!workers[i].table.entries)
            status = MW_NOMEM;
    }
    mw_context_progress(input->context, "looking for repeated text", 0, 1);
    if (status == MW_OK) {
        mw_workers_run(worker_run, workers, sizeof *workers, count);
        status = strings_collect(workers, count, &strings);
    }
    for (size_t i = 0; i < count; i++) {
        mw_piece_reader_deinit(&workers[i].reader);
        free(workers[i].table.entries);
    }
    if (status != MW_OK)
        return mw_fail(err, status, status == MW_CANCELED ? "canceled" : "out of memory");
    *strings_out = strings;
    return MW_OK;
}
