/* graph/scan.c: linear reading, with lookups that wait for their cache lines.
 *
 *   piece ─► buffer of 256 KiB ─► words in a block in use ─► is it in a tract that has blocks?
 *         ─► ring of 32, prefetched ─► rank ─► edge of the source, or mark and queue
 *
 * Trusts nothing: a word is a number. Bound: each byte of memory that is there is read once. */
#include "graph/scan.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/workers.h"
#include "image/near.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER = 256 << 10,
    RING = 32,
    PIECE_GRANULES = MW_TRACT_GRANULES / 8, /* 8 MiB */
    ROOT_PIECE = 8 << 20,
    PAGES_ASKED = 64 << 10,
    ZEROS_MAX = 1 << 30,
};

/* What one thread takes at a time: of a tract from `granule` on, or a part of a root. */
struct piece {
    mw_addr start, end; /* of a root */
    uint32_t tract, granule;
    enum mw_root_kind kind; /* of a root */
    bool is_root;
};

struct shared {
    struct mw_image *image;
    const struct mw_index *index;
    struct mw_scan *scan;
    struct mw_context *context;
    struct piece *pieces;
    size_t piece_count;
    atomic_size_t next;
    atomic_bool failed;
};

/* A word that may point to a block. */
struct candidate {
    mw_addr word;
    const struct mw_tract *tract;
    uint32_t source; /* MW_RANK_NONE: a root */
};

struct worker {
    struct shared *shared;
    struct mw_edge_writer writer;
    struct candidate ring[RING];
    size_t ring_count;
    bool has_popcnt;
    bool sees_chunks;        /* the root at hand is a stack or registers */
    uint8_t *buffer, *flags; /* BUFFER, PAGES_ASKED */
    mw_addr buffer_start;
    size_t buffer_length;
    MW_VEC(uint32_t) reached;
    uint64_t heap_bytes, root_bytes, missing_bytes;
    uint64_t zero_bytes; /* one after the other, up to now */
    enum mw_status status;
};

/* ---- words ---- */

static void reach(struct worker *worker, uint32_t rank)
{
    uint64_t *word = &worker->shared->scan->marks[rank / 64], bit = (uint64_t)1 << rank % 64;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit ||
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit)
        return;
    enum mw_status status = mw_vec_push(&worker->reached, SIZE_MAX / sizeof rank, rank);
    if (worker->status == MW_OK)
        worker->status = status;
}

/* A thread inside of malloc or free may have nothing of a block but the address of its chunk, 16
 * bytes below what malloc returned, and one in a loop over a block nothing but where the loop ends:
 * in registers and on stacks an address in a header counts for the blocks on both its sides. */
static inline void chunk_judge(struct worker *worker, const struct candidate *candidate,
                               uint32_t granule, uint32_t rank)
{
    const struct mw_index *index = worker->shared->index;
    const struct mw_tract *tract = candidate->tract;
    if (!tract->has_tails || !tract->bits || granule + 1 >= MW_TRACT_GRANULES ||
        !mw_bit_get(tract->bits, granule + 1))
        return;
    if (rank < index->rank_count && mw_bit_get(index->is_used, rank))
        reach(worker, rank);
    if (rank + 1 < index->rank_count && mw_bit_get(index->is_used, rank + 1))
        reach(worker, rank + 1);
}

static inline __attribute__((always_inline)) void ring_judge(struct worker *worker)
{
    const struct mw_index *index = worker->shared->index;
    for (size_t i = 0; i < worker->ring_count; i++) {
        const struct candidate *candidate = &worker->ring[i];
        uint32_t granule = mw_tract_granule(candidate->word);
        uint32_t rank = mw_tract_count(candidate->tract, granule) - 1;
        if (candidate->source == MW_RANK_NONE && worker->sees_chunks)
            chunk_judge(worker, candidate, granule, rank);
        if (rank == candidate->source || rank >= index->rank_count ||
            !mw_bit_get(index->is_used, rank) ||
            mw_tract_is_header(candidate->tract, granule, candidate->word))
            continue;
        if (candidate->source == MW_RANK_NONE)
            reach(worker, rank);
        else
            mw_edge_write(&worker->writer, candidate->source, rank);
    }
    worker->ring_count = 0;
}

/* The same with the processor's own count of bits, which x86-64 has since 2008 and does not
 * promise.
 */
#ifdef __x86_64__
__attribute__((target("popcnt"))) static void ring_judge_popcnt(struct worker *worker)
{
    ring_judge(worker);
}
#else
#define ring_judge_popcnt ring_judge
#endif

static void ring_flush(struct worker *worker)
{
    if (worker->has_popcnt)
        ring_judge_popcnt(worker);
    else
        ring_judge(worker);
}

static inline void candidate_add(struct worker *worker, mw_addr word, const struct mw_tract *tract,
                                 uint32_t source)
{
    uint32_t granule = mw_tract_granule(word);
    if (tract->bits) {
        __builtin_prefetch(&tract->bits[granule / 64]);
        __builtin_prefetch(&tract->ranks[granule / MW_INDEX_LINE]);
    }
    worker->ring[worker->ring_count++] = (struct candidate){word, tract, source};
    if (worker->ring_count == RING)
        ring_flush(worker);
}

static inline void word_consider(struct worker *worker, uint64_t word, uint32_t source)
{
    const struct mw_tract *tract = mw_index_tract(worker->shared->index, word);
    if (tract && mw_tract_may_hold(tract, word))
        candidate_add(worker, word, tract, source);
}

/* length is a multiple of 8. */
static void words_scan(struct worker *worker, const uint8_t *bytes, size_t length, uint32_t source)
{
    const mw_addr low = worker->shared->index->low;
    const uint64_t span = worker->shared->index->span;
    size_t i = 0;
    for (uint64_t words[4]; i + sizeof words <= length; i += sizeof words) {
        memcpy(words, bytes + i, sizeof words);
        /* Numbers and texts are nowhere near: mostly one branch does for four. */
        if (((words[0] - low < span) | (words[1] - low < span) | (words[2] - low < span) |
             (words[3] - low < span)) == 0)
            continue;
        for (size_t k = 0; k < 4; k++)
            word_consider(worker, words[k], source);
    }
    for (uint64_t word; i < length; i += 8) {
        memcpy(&word, bytes + i, sizeof word);
        word_consider(worker, word, source);
    }
}

/* The words that begin at any of the bytes; length is at least 8. */
static void code_scan(struct worker *worker, const uint8_t *bytes, size_t length)
{
    const mw_addr low = worker->shared->index->low;
    const uint64_t span = worker->shared->index->span;
    for (size_t i = 0; i + 8 <= length; i++) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        if (word - low < span)
            word_consider(worker, word, MW_RANK_NONE);
    }
}

/* ---- reading ---- */

/* Steps over what cannot be read at an address, by pages; where to go on. */
static mw_addr missing_skip(struct worker *worker, mw_addr at, mw_addr until)
{
    const struct mw_image *image = worker->shared->image;
    const struct mw_mapping *map = mw_image_region(image, at);
    mw_addr next = (at & ~((mw_addr)image->page_size - 1)) + image->page_size;
    if (!map) { /* a hole, as large as somebody says */
        size_t behind = mw_mapping_lower_bound(&image->regions, at);
        next = behind < image->regions.count ? image->regions.items[behind].start : until;
    } else if (image->kind != MW_IMAGE_LIVE) {
        next = map->end; /* of a core that breaks off all the rest is missing */
    }
    next = next < until ? next : until;
    worker->missing_bytes += next - at;
    return next;
}

/* Where pages that may hold more than zeros begin, from at on: a block or a mapping may be large
 * and empty. Asked for 64 Ki pages at a time. */
static mw_addr empty_skip(struct worker *worker, mw_addr at, mw_addr until)
{
    struct mw_image *image = worker->shared->image;
    const mw_addr page = image->page_size;
    while (until - at >= BUFFER) {
        mw_addr from = at & ~(page - 1);
        uint64_t left = (until - from) / page, count = left < PAGES_ASKED ? left : PAGES_ASKED;
        size_t empty = 0;
        if (mw_image_pages(image, from, (size_t)count, worker->flags, NULL) != MW_OK)
            return at;
        while (empty < count && !mw_page_has_content(worker->flags[empty]))
            empty += mw_bytes_run(worker->flags + empty, (size_t)count - empty);
        if (empty == 0)
            return at;
        at = from + empty * page;
        if (empty < count)
            return at;
    }
    return at;
}

/* The same behind a buffer of zeros. A core may claim terabytes that no file has, and not tell
 * which pages are there: behind so many zeros the rest of a range is left out, and counted as
 * missing. */
static mw_addr zeros_skip(struct worker *worker, mw_addr at, mw_addr until)
{
    at = empty_skip(worker, at, until);
    if (worker->shared->image->kind == MW_IMAGE_LIVE || worker->zero_bytes < ZEROS_MAX)
        return at;
    worker->missing_bytes += until - at;
    return until;
}

/* What of [at, until) is in the buffer, filled with what follows when nothing is; NULL: it cannot
 * be read. *length_out is a multiple of 8, at is. */
static const uint8_t *bytes_at(struct worker *worker, mw_addr at, mw_addr until, mw_addr limit,
                               size_t *length_out)
{
    if (at < worker->buffer_start || at - worker->buffer_start >= worker->buffer_length) {
        /* Not into what lies behind the heap: a library's pages would be mapped for our sake. */
        const struct mw_mapping *map = mw_image_region(worker->shared->image, at);
        if (!map)
            return NULL;
        if (map->end < limit)
            limit = map->end;
        size_t want = limit - at < BUFFER ? (size_t)(limit - at) : BUFFER;
        worker->buffer_length =
            mw_image_read_present(worker->shared->image, at, worker->buffer, want) & ~(size_t)7;
        worker->buffer_start = at;
        if (worker->buffer_length == 0)
            return NULL;
    }
    size_t offset = (size_t)(at - worker->buffer_start);
    size_t left = worker->buffer_length - offset;
    *length_out = until - at < left ? (size_t)(until - at) & ~(size_t)7 : left;
    return worker->buffer + offset;
}

/* The words of [at, until); reading ahead up to limit. What cannot be read is stepped over by
 * pages. */
static void range_scan(struct worker *worker, mw_addr at, mw_addr until, mw_addr limit,
                       uint32_t source)
{
    while (at + 8 <= until) {
        size_t length = 0;
        const uint8_t *bytes = bytes_at(worker, at, until, limit, &length);
        if (bytes && length > 0) {
            words_scan(worker, bytes, length, source);
            at += length;
            bool is_zero = length == BUFFER && mw_bytes_are_zero(bytes, length);
            worker->zero_bytes = is_zero ? worker->zero_bytes + length : 0;
            if (is_zero)
                at = zeros_skip(worker, at, until);
            continue;
        }
        at = missing_skip(worker, at, until);
    }
}

/* The same at every byte. Buffers overlap by seven. */
static void code_range_scan(struct worker *worker, mw_addr at, mw_addr until)
{
    while (at + 8 <= until) {
        size_t length = 0;
        worker->buffer_length = 0;
        const uint8_t *bytes = bytes_at(worker, at, until, until, &length);
        if (bytes && length > 0) {
            code_scan(worker, bytes, length);
            at += length - 7;
        } else if (at % 8 != 0) { /* what is left of a word before memory that is not there */
            at += 8 - at % 8;
        } else {
            at = missing_skip(worker, at, until);
        }
    }
}

static void tract_piece_scan(struct worker *worker, const struct piece *piece)
{
    const struct mw_index *index = worker->shared->index;
    const struct mw_tract *tract = &index->tracts.items[piece->tract];
    struct mw_index_cursor cursor = {piece->tract, piece->granule};
    mw_addr end = tract->start + ((mw_addr)(piece->granule + PIECE_GRANULES) << MW_GRANULE_SHIFT);
    mw_addr at, next;
    worker->buffer_length = 0;
    if (!mw_index_next(index, &cursor, &at) || at >= end)
        return;
    uint32_t rank = mw_tract_count(tract, mw_tract_granule(at)) - 1;
    for (; at < end; at = next, rank++) {
        if (!mw_index_next(index, &cursor, &next))
            break;
        if (!mw_bit_get(index->is_used, rank))
            continue;
        range_scan(worker, at, next, next > end ? next : end, rank);
        worker->heap_bytes += next - at;
        if (worker->status != MW_OK)
            return;
    }
}

static enum mw_status worker_status(const struct worker *worker)
{
    return worker->status != MW_OK ? worker->status : worker->writer.status;
}

static void worker_run(void *state)
{
    struct worker *worker = state;
    struct shared *shared = worker->shared;
    for (;;) {
        size_t i = atomic_fetch_add(&shared->next, 1);
        if (i >= shared->piece_count || atomic_load(&shared->failed))
            break;
        const struct piece *piece = &shared->pieces[i];
        if (piece->is_root) {
            worker->buffer_length = 0;
            worker->sees_chunks = piece->kind == MW_ROOT_STACK;
            if (piece->kind == MW_ROOT_CODE)
                code_range_scan(worker, piece->start, piece->end);
            else
                range_scan(worker, piece->start, piece->end, piece->end, MW_RANK_NONE);
            worker->root_bytes += piece->end - piece->start;
        } else {
            tract_piece_scan(worker, piece);
        }
        ring_flush(worker);
        if (mw_context_canceled(shared->context))
            worker->status = MW_CANCELED;
        if (worker_status(worker) != MW_OK)
            atomic_store(&shared->failed, true);
    }
    enum mw_status status = mw_edge_writer_close(&worker->writer);
    if (worker->status == MW_OK)
        worker->status = status;
}

/* ---- pieces ---- */

static enum mw_status pieces_make(struct shared *shared, const struct mw_roots *roots)
{
    struct {
        struct piece *items;
        size_t count, room;
    } list = {0};
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < shared->index->tracts.count; i++) {
        if (!shared->index->tracts.items[i].bits)
            continue;
        for (uint32_t at = 0; at < MW_TRACT_GRANULES && status == MW_OK; at += PIECE_GRANULES) {
            struct piece piece = {.tract = (uint32_t)i, .granule = at};
            status = mw_vec_push(&list, SIZE_MAX / sizeof piece, piece);
        }
    }
    for (size_t i = 0; i < roots->ranges.count; i++) {
        const struct mw_root_range *range = &roots->ranges.items[i];
        mw_addr start = (range->start + 7) & ~(mw_addr)7;
        for (mw_addr at = start; at < range->end && status == MW_OK; at += ROOT_PIECE) {
            mw_addr end = range->end - at < ROOT_PIECE ? range->end : at + ROOT_PIECE;
            struct piece piece = {.start = at, .end = end, .kind = range->kind, .is_root = true};
            if (range->kind == MW_ROOT_CODE && range->end - end >= 8)
                piece.end += 8; /* a pointer may lie across */
            status = mw_vec_push(&list, SIZE_MAX / sizeof piece, piece);
        }
    }
    shared->pieces = list.items;
    shared->piece_count = list.count;
    return status;
}

/* How much the lists of edges may take. */
static uint64_t edge_bytes_max(const struct mw_context *context)
{
    enum { SHARE = 4 }; /* of the machine's memory */
    if (context && context->memory_budget_bytes)
        return context->memory_budget_bytes;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / SHARE : UINT64_MAX;
}

static enum mw_status workers_make(struct shared *shared, struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        workers[i].shared = shared;
#ifdef __x86_64__
        workers[i].has_popcnt = __builtin_cpu_supports("popcnt") != 0;
#endif
        mw_edge_writer_init(&workers[i].writer, &shared->scan->edges);
        workers[i].buffer = mw_calloc(BUFFER, 1);
        workers[i].flags = mw_calloc(PAGES_ASKED, 1);
        if (!workers[i].buffer || !workers[i].flags)
            return MW_NOMEM;
    }
    return MW_OK;
}

/* Put the workers' parts together. */
static enum mw_status workers_join(struct shared *shared, struct worker *workers, unsigned count)
{
    struct mw_scan *scan = shared->scan;
    enum mw_status status = MW_OK;
    for (unsigned i = 0; i < count; i++) {
        struct worker *worker = &workers[i];
        if (status == MW_OK)
            status = worker_status(worker);
        if (worker->reached.count > 0)
            memcpy(scan->reached + scan->reached_count, worker->reached.items,
                   worker->reached.count * sizeof *scan->reached);
        scan->reached_count += worker->reached.count;
        scan->heap_bytes += worker->heap_bytes;
        scan->root_bytes += worker->root_bytes;
        scan->missing_bytes += worker->missing_bytes;
        mw_vec_deinit(&worker->reached);
        free(worker->buffer);
        free(worker->flags);
    }
    return status;
}

/* What threads have in registers: few words, looked at by this thread. */
static void registers_scan(struct worker *worker, const struct mw_roots *roots)
{
    worker->sees_chunks = true;
    for (size_t i = 0; i < roots->words.count; i++) {
        const struct mw_tract *tract =
            mw_index_tract(worker->shared->index, roots->words.items[i].word);
        if (tract)
            candidate_add(worker, roots->words.items[i].word, tract, MW_RANK_NONE);
    }
    ring_flush(worker);
}

enum mw_status mw_scan_run(struct mw_image *image, const struct mw_index *index,
                           const struct mw_roots *roots, struct mw_context *context,
                           struct mw_scan *scan_out)
{
    *scan_out = (struct mw_scan){.index = index};
    struct shared shared = {image, index, scan_out, context, NULL, 0, 0, false};
    struct worker workers[MW_WORKERS_MAX] = {0};
    const unsigned count = mw_workers_allowed(context);
    scan_out->marks = mw_calloc((size_t)index->rank_count / 64 + 1, sizeof *scan_out->marks);
    scan_out->reached = mw_calloc((size_t)index->used_count + 1, sizeof *scan_out->reached);
    enum mw_status status = scan_out->marks && scan_out->reached ? MW_OK : MW_NOMEM;
    if (status == MW_OK)
        status = mw_edges_init(&scan_out->edges, index->rank_count, edge_bytes_max(context));
    if (status == MW_OK)
        status = pieces_make(&shared, roots);
    if (status == MW_OK)
        status = workers_make(&shared, workers, count);
    if (status == MW_OK) {
        registers_scan(&workers[0], roots);
        mw_workers_run(worker_run, workers, sizeof *workers, count);
    }
    enum mw_status joined = workers_join(&shared, workers, count);
    free(shared.pieces);
    scan_out->root_count = scan_out->reached_count;
    status = status == MW_OK ? joined : status;
    if (status != MW_OK)
        mw_scan_deinit(scan_out);
    return status;
}

void mw_scan_deinit(struct mw_scan *scan)
{
    mw_edges_deinit(&scan->edges);
    free(scan->marks);
    free(scan->reached);
    scan->marks = NULL;
    scan->reached = NULL;
}
