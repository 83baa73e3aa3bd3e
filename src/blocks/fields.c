/* blocks/fields.c: blocks → batches of rows → columns → fields.
 *
 *   list ─► window ─► batch: rows of equal length ─► one column at a time into its struct mw_word
 *
 * A row shorter than the slab (a block at the end of its mapping, or shifted in its slot) is
 * counted by itself. Each thread has words of its own, which are merged when the slab is done. */
#include "blocks/fields.h"

#include "base/alloc.h"
#include "base/workers.h"
#include "blocks/kinds.h"
#include "blocks/piece.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_BYTES = 128 << 10,
    SLAB_WORDS_MAX = MW_PIECE_BYTES_MAX / 8,
    THREADS_MAX = 4,
};

struct slab {
    uint64_t offset; /* bytes from what malloc returned */
    size_t words;
};

struct field_worker {
    const struct mw_fields_input *input;
    struct slab slab;
    struct mw_piece_reader reader;
    struct mw_word *words; /* of the slab */
    uint8_t *batch;
    size_t rows; /* in the batch */
    enum mw_status status;
};

static void batch_count(struct field_worker *worker, const uint8_t *rows, size_t stride,
                        size_t count, size_t words)
{
    for (size_t i = 0; i < words && worker->status == MW_OK; i++)
        worker->status = mw_word_add_column(&worker->words[i], worker->input->ranges, rows + 8 * i,
                                            stride, count);
}

static void batch_flush(struct field_worker *worker)
{
    if (worker->rows > 0)
        batch_count(worker, worker->batch, worker->slab.words * 8, worker->rows,
                    worker->slab.words);
    worker->rows = 0;
    if (mw_context_canceled(worker->input->context) && worker->status == MW_OK)
        worker->status = MW_CANCELED;
}

/* One thread's blocks of the slab. */
static void worker_run(void *state)
{
    struct field_worker *worker = state;
    struct mw_listed_block block;
    size_t stride = worker->slab.words * 8, rows_max = BATCH_BYTES / stride;
    mw_piece_reader_rewind(&worker->reader, worker->input->size_bytes);
    while (worker->status == MW_OK && mw_piece_reader_next(&worker->reader, &block)) {
        size_t got;
        const uint8_t *bytes =
            mw_piece_read(&worker->reader, &block, worker->slab.offset, stride, &got);
        if (!bytes)
            continue;
        if (got < stride) {
            batch_count(worker, bytes, stride, 1, got / 8);
            continue;
        }
        memcpy(worker->batch + worker->rows++ * stride, bytes, stride);
        if (worker->rows == rows_max)
            batch_flush(worker);
    }
    batch_flush(worker);
}

static void workers_deinit(struct field_worker *workers, size_t count, size_t words)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; workers[i].words && k < words; k++)
            mw_word_deinit(&workers[i].words[k]);
        free(workers[i].words);
        free(workers[i].batch);
        mw_piece_reader_deinit(&workers[i].reader);
    }
}

static enum mw_status workers_init(struct field_worker *workers, size_t count,
                                   const struct mw_fields_input *input, size_t words)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        workers[i].input = input;
        workers[i].words = mw_calloc(words, sizeof *workers[i].words);
        workers[i].batch = mw_calloc(1, BATCH_BYTES);
        for (size_t k = 0; workers[i].words && k < words; k++)
            mw_word_init(&workers[i].words[k]);
        status = mw_piece_reader_init(&workers[i].reader, input->image, input->list,
                                      input->size_bytes, (unsigned)i, (unsigned)count);
        if (!workers[i].words || !workers[i].batch)
            status = MW_NOMEM;
    }
    return status;
}

/* All threads' words into those of the first, and from there into fields. */
static enum mw_status slab_finish(struct field_worker *workers, size_t count, struct slab slab,
                                  struct mw_fields *fields)
{
    const struct mw_value_ranges *ranges = workers[0].input->ranges;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count; i++) {
        status = status == MW_OK ? workers[i].status : status;
        fields->unread_count += workers[i].reader.unread;
        workers[i].reader.unread = 0;
    }
    for (size_t k = 0; k < slab.words && status == MW_OK; k++) {
        struct mw_word *word = &workers[0].words[k];
        for (size_t i = 1; i < count && status == MW_OK; i++)
            status = mw_word_merge(word, ranges, &workers[i].words[k]);
        if (status != MW_OK)
            break;
        mw_word_finish(word, ranges);
        mw_block_field_fill(&fields->items[fields->count++], slab.offset + 8 * k, word, ranges);
        mw_word_deinit(word);
    }
    return status;
}

static enum mw_status slabs_run(struct field_worker *workers, size_t count, size_t slab_words,
                                size_t words, struct mw_fields *fields)
{
    struct mw_context *context = workers[0].input->context;
    enum mw_status status = MW_OK;
    for (size_t at = 0; at < words && status == MW_OK; at += slab_words) {
        struct slab slab = {8 * at, words - at < slab_words ? words - at : slab_words};
        for (size_t i = 0; i < count; i++)
            workers[i].slab = slab;
        mw_context_progress(context, "reading blocks", at, words);
        mw_workers_run(worker_run, workers, sizeof *workers, count);
        status = slab_finish(workers, count, slab, fields);
    }
    return status;
}

enum mw_status mw_fields_read(const struct mw_fields_input *input, struct mw_fields *fields_out,
                              struct mw_error *err)
{
    struct field_worker workers[THREADS_MAX] = {0};
    struct mw_fields fields = {
        .size_bytes = input->size_bytes,
        .usable_bytes = input->usable_bytes,
        .block_count = input->block_count,
    };
    size_t words = (size_t)(input->usable_bytes / 8);
    if (input->usable_bytes / 8 > MW_FIELDS_WORDS_MAX) {
        words = MW_FIELDS_WORDS_MAX;
        fields.cut_bytes = input->usable_bytes - 8 * (uint64_t)words;
    }
    unsigned allowed = mw_workers_allowed(input->context);
    size_t count = allowed < THREADS_MAX ? allowed : THREADS_MAX;
    size_t slab = MW_FIELDS_BUDGET_BYTES / mw_word_bytes_max(input->block_count);
    slab = slab < SLAB_WORDS_MAX ? slab : SLAB_WORDS_MAX;
    slab = slab < words ? slab : words;
    fields.items = mw_calloc(words, sizeof *fields.items);
    enum mw_status status = fields.items ? MW_OK : MW_NOMEM;
    if (status == MW_OK && words > 0) {
        status = workers_init(workers, count, input, slab);
        if (status == MW_OK)
            status = slabs_run(workers, count, slab, words, &fields);
        workers_deinit(workers, count, slab);
    }
    /* Words that no block has: a block with a mapping of its own ends eight bytes earlier. */
    while (fields.count > 0 && fields.items[fields.count - 1].count == 0 &&
           fields.items[0].count > 0)
        fields.count--;
    if (status != MW_OK) {
        mw_fields_deinit(&fields);
        return mw_fail(err, status, status == MW_CANCELED ? "canceled" : "out of memory");
    }
    *fields_out = fields;
    return MW_OK;
}

void mw_fields_deinit(struct mw_fields *fields)
{
    for (size_t i = 0; fields->items && i < fields->count; i++)
        free(fields->items[i].names);
    free(fields->items);
    *fields = (struct mw_fields){0};
}
