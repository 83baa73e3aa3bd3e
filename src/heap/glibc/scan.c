/* heap/glibc/scan.c: which spans are read when and by whom, and how they are put together.
 *
 * One round is what happens under one stop:
 *   match    the segments found now with those of earlier rounds
 *   read     spans, by as many threads as the context allows, until the time is up
 *   stitch   spans of a segment one after the other; where a guess was wrong, read again
 *   lists    which lists the tcaches have now
 * The order of jobs is by arena, so that an arena is read under one stop when it fits into one.
 * Linear in what is read; memory: a byte or two for each block, 12 for each that may be cached. */
#include "heap/glibc/scan.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SPAN_BYTES = 16 << 20,
    SPANS_MAX = 1 << 16, /* of one segment: larger ones have larger spans */
    PARALLEL_BYTES_MIN = 24 << 20,
};

struct job {
    size_t scanned, span;
    uint64_t arena_bytes; /* that are left of the arena that begins here; 0: goes on */
};

struct round {
    struct mw_glibc_scan *scan;
    struct mw_glibc *glibc;
    MW_VEC(struct job) jobs;
    pthread_mutex_t lock; /* of what follows */
    size_t next;
    uint64_t begin_ns, until_ns, workers, kept_max;
    bool has_begun; /* a span was read: one always is */
    bool is_over;   /* no time left */
    bool is_full;   /* no more memory may be taken */
    enum mw_status status;
};

void mw_glibc_scanned_release(struct mw_glibc_scanned *scanned, size_t from)
{
    for (size_t i = from; i < scanned->spans.count; i++)
        mw_glibc_span_release(&scanned->spans.items[i]);
    scanned->spans.count = from;
}

void mw_glibc_scan_deinit(struct mw_glibc_scan *scan)
{
    for (size_t i = 0; i < scan->segments.count; i++) {
        mw_glibc_scanned_release(&scan->segments.items[i], 0);
        mw_vec_deinit(&scan->segments.items[i].spans);
    }
    mw_vec_deinit(&scan->segments);
    mw_vec_deinit(&scan->arenas);
    mw_vec_deinit(&scan->tcache_lists);
}

/* -- matching -------------------------------------------------------------------------------- */

/* By address; of those that begin at the same one the newest first. */
static int scanned_compare(const void *a, const void *b)
{
    const struct mw_glibc_scanned *left = a, *right = b;
    mw_addr from = left->segment.public.start, to = right->segment.public.start;
    if (from != to)
        return from < to ? -1 : 1;
    return left->first_round > right->first_round ? -1 : left->first_round < right->first_round;
}

/* The first of the sorted `count` segments that starts at or after address. */
static size_t scanned_lower_bound(const struct mw_glibc_scan *scan, size_t count, mw_addr address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->segments.items[middle].segment.public.start < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t span_bytes_of(const struct mw_glibc_segment *segment, const struct mw_glibc *glibc)
{
    uint64_t size = segment->public.end - segment->public.start, page = glibc->image->page_size;
    uint64_t wanted = glibc->options->span_bytes, bytes = wanted ? wanted : SPAN_BYTES;
    if (size / bytes >= SPANS_MAX)
        bytes = (size / SPANS_MAX + page) & ~(page - 1);
    return bytes;
}

/* Room for count spans and no more: there may be a million segments of one. */
static enum mw_status spans_reserve(struct mw_glibc_scanned *scanned, uint64_t count)
{
    if (count <= scanned->spans.room)
        return MW_OK;
    if (count > (uint64_t)SPANS_MAX * 4)
        return MW_LIMIT;
    void *grown = mw_regrow(scanned->spans.items, scanned->spans.room, (size_t)count,
                            sizeof *scanned->spans.items);
    if (!grown)
        return MW_NOMEM;
    scanned->spans.items = grown;
    scanned->spans.room = (size_t)count;
    return MW_OK;
}

/* The spans that are not done, for the segment as it is now. */
static enum mw_status spans_plan(struct mw_glibc_scanned *scanned, uint64_t page)
{
    const struct mw_heap_segment *segment = &scanned->segment.public;
    mw_addr first = segment->start & ~(page - 1), end = segment->end;
    mw_glibc_scanned_release(scanned, scanned->spans_done);
    scanned->spans_fit = scanned->spans_done;
    scanned->ends_early = false;
    if (segment->kind == MW_SEGMENT_MMAPPED)
        scanned->span_bytes = end - first;
    uint64_t span_bytes = scanned->span_bytes, whole = (end - first) / span_bytes;
    uint64_t count = whole + ((end - first) % span_bytes != 0);
    enum mw_status status = spans_reserve(scanned, count);
    for (uint64_t k = scanned->spans_done; k < count && status == MW_OK; k++)
        scanned->spans.items[scanned->spans.count++] = (struct mw_glibc_span){
            .pages_start = first + k * span_bytes,
            .pages_end = k < whole ? first + (k + 1) * span_bytes : end,
        };
    return status;
}

static bool is_alike(const struct mw_glibc_scanned *scanned, const struct mw_heap_segment *segment,
                     mw_addr arena)
{
    return scanned->arena == arena && scanned->segment.public.kind == segment->kind;
}

/* What earlier rounds have of this segment, among the first `sorted`; NULL: nothing. Of one that
 * was cut it is the last part, which goes on behind the foreign bytes. */
static struct mw_glibc_scanned *scanned_find(const struct mw_glibc_scan *scan, size_t sorted,
                                             const struct mw_heap_segment *segment, mw_addr arena)
{
    struct mw_glibc_scanned *items = scan->segments.items;
    size_t at = scanned_lower_bound(scan, sorted, segment->start);
    if (at == sorted || items[at].segment.public.start != segment->start ||
        !is_alike(&items[at], segment, arena) || items[at].is_gone)
        return NULL;
    while (items[at].is_cut) {
        size_t next = at + 1;
        while (next < sorted && items[next].segment.public.start == items[at].segment.public.start)
            next++; /* older ones */
        if (next == sorted || items[next].segment.public.start >= segment->end ||
            !is_alike(&items[next], segment, arena) || items[next].is_gone)
            break;
        at = next;
    }
    return &items[at];
}

/* What was begun earlier, as the segment is now: it may have grown, shrunk, and changed its top.
 * What was read stays. */
static void scanned_refresh(struct mw_glibc_scanned *known, const struct mw_glibc_segment *segment)
{
    mw_addr start = known->segment.public.start, first_chunk = known->segment.first_chunk;
    known->segment = *segment;
    if (start != segment->public.start) { /* it goes on behind a cut */
        known->segment.public.start = start;
        known->segment.first_chunk = first_chunk;
    }
    if (known->spans_done > 0 && segment->top != 0 && segment->top < known->done_until)
        known->segment.top = known->done_until;
}

/* A segment of this round, seen before or not. */
static enum mw_status segment_match(struct mw_glibc_scan *scan, const struct mw_glibc *glibc,
                                    size_t index, size_t sorted)
{
    const struct mw_glibc_segment *segment = &glibc->segments.items[index];
    uint32_t arena = segment->public.arena;
    mw_addr arena_address = arena == MW_ARENA_NONE ? 0 : glibc->arenas.items[arena].public.address;
    struct mw_glibc_scanned *known = scanned_find(scan, sorted, &segment->public, arena_address);
    if (!known) {
        const struct mw_glibc_scanned scanned = {
            .segment = *segment,
            .arena = arena_address,
            .done_until = segment->public.start,
            .span_bytes = span_bytes_of(segment, glibc),
            .first_round = scan->round,
        };
        enum mw_status status = mw_vec_push(&scan->segments, MW_LIMIT_HEAP_SEGMENTS * 2, scanned);
        if (status != MW_OK)
            return status;
        known = &scan->segments.items[scan->segments.count - 1];
    } else if (!known->is_complete) {
        scanned_refresh(known, segment);
    }
    known->index = index;
    known->is_seen = true;
    if (!known->is_complete && mw_glibc_sample_leaves(scan, arena_address))
        mw_glibc_sample_skip(known, glibc, scan->round);
    if (known->is_complete)
        return MW_OK;
    enum mw_status status = spans_plan(known, glibc->image->page_size);
    known->is_complete = known->spans_done == known->spans.count;
    return status;
}

/* What was begun under an earlier stop and is not there any more ends where it was read to. */
static void vanished_close(struct mw_glibc_scan *scan)
{
    for (size_t i = 0; i < scan->segments.count; i++) {
        struct mw_glibc_scanned *scanned = &scan->segments.items[i];
        if (scanned->is_seen || scanned->is_complete)
            continue;
        scanned->is_gone = true;
        mw_glibc_scanned_release(scanned, scanned->spans_done);
        scanned->is_complete = true;
        scanned->segment.public.end = scanned->done_until;
    }
}

/* glibc->segments from `first` on; sorted of ours are in order. */
static enum mw_status segments_match(struct mw_glibc_scan *scan, const struct mw_glibc *glibc,
                                     size_t first, size_t sorted)
{
    enum mw_status status = MW_OK;
    for (size_t i = first; i < glibc->segments.count && status == MW_OK; i++)
        status = segment_match(scan, glibc, i, sorted);
    return status;
}

/* -- jobs ------------------------------------------------------------------------------------ */

struct order {
    uint32_t arena;
    size_t scanned;
};

static int order_compare(const void *a, const void *b)
{
    const struct order *left = a, *right = b;
    if (left->arena != right->arena)
        return left->arena < right->arena ? -1 : 1;
    return left->scanned < right->scanned ? -1 : left->scanned > right->scanned;
}

static enum mw_status segment_jobs_add(struct round *round, size_t index, size_t *arena_first,
                                       uint32_t *arena)
{
    struct mw_glibc_scanned *scanned = &round->scan->segments.items[index];
    for (size_t k = scanned->spans_done; k < scanned->spans.count; k++) {
        const struct job job = {index, k, 0};
        enum mw_status status = mw_vec_push(&round->jobs, SIZE_MAX / sizeof job, job);
        if (status != MW_OK)
            return status;
        if (scanned->segment.public.arena != *arena || round->jobs.count == 1) {
            *arena = scanned->segment.public.arena;
            *arena_first = round->jobs.count - 1;
        }
        const struct mw_glibc_span *span = &scanned->spans.items[k];
        round->jobs.items[*arena_first].arena_bytes += span->pages_end - span->pages_start;
    }
    return MW_OK;
}

/* A job for each span to be read of the segments from `first` on: by arena, mmapped blocks last,
 * ascending. */
static enum mw_status jobs_plan(struct round *round, size_t first)
{
    const struct mw_glibc_scan *scan = round->scan;
    struct order *order = mw_calloc(scan->segments.count - first, sizeof *order);
    size_t count = 0, arena_first = 0;
    uint32_t arena = MW_ARENA_NONE;
    if (!order)
        return MW_NOMEM;
    for (size_t i = first; i < scan->segments.count; i++)
        if (!scan->segments.items[i].is_complete)
            order[count++] = (struct order){scan->segments.items[i].segment.public.arena, i};
    if (count > 1)
        qsort(order, count, sizeof *order, order_compare);
    round->jobs.count = round->next = 0;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++)
        status = segment_jobs_add(round, order[i].scanned, &arena_first, &arena);
    free(order);
    return status;
}

/* How long so many bytes are going to take, by what was read before: from none nothing is known. */
static uint64_t read_estimate(const struct round *round, uint64_t bytes)
{
    const struct mw_glibc_scan *scan = round->scan;
    if (scan->read_bytes == 0)
        return 0;
    double each = (double)scan->read_ns / (double)scan->read_bytes;
    return (uint64_t)(each * (double)bytes / (double)round->workers);
}

/* May the job begin under this stop? */
static bool time_allows(const struct round *round, const struct job *job)
{
    if (round->until_ns == 0 || !round->has_begun)
        return true;
    const struct mw_glibc_span *span =
        &round->scan->segments.items[job->scanned].spans.items[job->span];
    uint64_t now = mw_clock_monotonic_ns(), span_bytes = span->pages_end - span->pages_start;
    uint64_t one = read_estimate(round, span_bytes * round->workers);
    if (now + one + one / 4 > round->until_ns)
        return false;
    uint64_t whole = read_estimate(round, job->arena_bytes);
    bool fits_alone = round->begin_ns + whole <= round->until_ns;
    return !(fits_alone && now + whole > round->until_ns);
}

/* Behind a cut another segment begins: spans are planned anew there. */
static bool is_behind_cut(const struct round *round, const struct job *job)
{
    const struct mw_glibc_scanned *scanned = &round->scan->segments.items[job->scanned];
    return scanned->ends_early && job->span >= scanned->spans_fit;
}

/* The next job, or NULL when there is none or no time. */
static const struct job *job_take(struct round *round)
{
    const struct job *job = NULL;
    pthread_mutex_lock(&round->lock);
    if (mw_context_canceled(round->glibc->context) && round->status == MW_OK)
        round->status = MW_CANCELED;
    round->is_full |= round->scan->kept_bytes > round->kept_max;
    round->is_over |= round->is_full;
    while (round->next < round->jobs.count && is_behind_cut(round, &round->jobs.items[round->next]))
        round->next++;
    if (round->status == MW_OK && !round->is_over && round->next < round->jobs.count) {
        job = &round->jobs.items[round->next];
        if (time_allows(round, job)) {
            round->next++;
            round->has_begun = true;
        } else {
            job = NULL;
            round->is_over = true;
        }
    }
    pthread_mutex_unlock(&round->lock);
    return job;
}

/* -- reading --------------------------------------------------------------------------------- */

/* What is known of where span k begins. */
static struct mw_glibc_span_start start_of(const struct mw_glibc_scan *scan,
                                           struct mw_glibc_scanned *scanned, size_t k)
{
    struct mw_glibc_span *spans = scanned->spans.items;
    if (scanned->segment.public.kind == MW_SEGMENT_MMAPPED)
        return (struct mw_glibc_span_start){.at = scanned->segment.public.end};
    if (k == 0)
        return (struct mw_glibc_span_start){.at = scanned->segment.first_chunk};
    if (k == scanned->spans_done) /* the target has run */
        return (struct mw_glibc_span_start){.at = scanned->is_lost ? 0 : scanned->done_until,
                                            .from = scanned->done_until,
                                            .must_prove = true,
                                            .is_thorough = true};
    bool is_known = atomic_load_explicit(&spans[k - 1].is_read, memory_order_acquire) &&
                    spans[k - 1].round == scan->round && spans[k - 1].close != MW_GLIBC_SPAN_LOST &&
                    spans[k - 1].close != MW_GLIBC_SPAN_CUT;
    return (struct mw_glibc_span_start){.at = is_known ? spans[k - 1].end : 0};
}

/* Does span k, which was read, go on where the one before it ended? */
static bool span_fits(const struct mw_glibc_scanned *scanned, size_t k)
{
    const struct mw_glibc_span *span = &scanned->spans.items[k];
    if (k == scanned->spans_done)
        return true;
    return span[-1].close != MW_GLIBC_SPAN_LOST &&
           (span->start == span[-1].end || span[-1].end >= span->pages_end);
}

/* How far the spans that were read are what they will be when all are put together. */
static void spans_fit_advance(struct mw_glibc_scanned *scanned)
{
    while (!scanned->ends_early && scanned->spans_fit < scanned->spans.count &&
           atomic_load_explicit(&scanned->spans.items[scanned->spans_fit].is_read,
                                memory_order_acquire) &&
           span_fits(scanned, scanned->spans_fit))
        scanned->ends_early = scanned->spans.items[scanned->spans_fit++].close == MW_GLIBC_SPAN_CUT;
}

static uint64_t span_kept_bytes(const struct mw_glibc_span *span)
{
    return span->length + span->link_count * sizeof *span->links +
           span->struct_count * sizeof *span->structs +
           span->residency_count * sizeof *span->residency;
}

static void job_do(struct round *round, struct mw_glibc_reader *reader, const struct job *job)
{
    struct mw_glibc_scan *scan = round->scan;
    struct mw_glibc_scanned *scanned = &scan->segments.items[job->scanned];
    struct mw_glibc_span *span = &scanned->spans.items[job->span];
    const struct mw_glibc_span_start how = start_of(scan, scanned, job->span);
    enum mw_status status = mw_glibc_span_read(reader, &scanned->segment, span, &how);
    span->round = scan->round;
    atomic_store_explicit(&span->is_read, status == MW_OK, memory_order_release);
    pthread_mutex_lock(&round->lock);
    if (status != MW_OK && round->status == MW_OK)
        round->status = status;
    spans_fit_advance(scanned);
    scan->kept_bytes += span_kept_bytes(span);
    scan->read_bytes += span->pages_end - span->pages_start;
    scan->read_ns += span->read_ns;
    mw_context_progress(round->glibc->context, "reading the heap", round->next, round->jobs.count);
    pthread_mutex_unlock(&round->lock);
}

struct worker {
    struct round *round;
    struct mw_glibc_reader reader;
};

static void worker_run(void *state)
{
    struct worker *worker = state;
    const struct job *job;
    while ((job = job_take(worker->round)) != NULL)
        job_do(worker->round, &worker->reader, job);
}

static uint64_t jobs_bytes(const struct round *round)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < round->jobs.count; i++)
        bytes += round->jobs.items[i].arena_bytes;
    return bytes;
}

/* All jobs, by this thread and, when it is worth it, others beside it. */
static enum mw_status jobs_run(struct round *round)
{
    struct worker workers[MW_WORKERS_MAX];
    const struct mw_glibc *glibc = round->glibc;
    bool is_worth_it = jobs_bytes(round) >= PARALLEL_BYTES_MIN || glibc->options->span_bytes != 0;
    size_t wanted = is_worth_it ? mw_workers_allowed(glibc->context) : 1, count = 0;
    for (; count < wanted; count++) {
        workers[count].round = round;
        if (mw_glibc_reader_init(&workers[count].reader, glibc) != MW_OK) {
            mw_glibc_reader_deinit(&workers[count].reader);
            break; /* fewer are enough, if there is one */
        }
    }
    if (count == 0)
        return MW_NOMEM;
    round->workers = count;
    mw_workers_run(worker_run, workers, sizeof *workers, count);
    for (size_t i = 0; i < count; i++)
        mw_glibc_reader_deinit(&workers[i].reader);
    return round->status;
}

/* -- arenas ---------------------------------------------------------------------------------- */

static int arena_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct mw_glibc_scanned_arena *)a)->arena.public.address;
    mw_addr right = ((const struct mw_glibc_scanned_arena *)b)->arena.public.address;
    return left < right ? -1 : left > right;
}

struct mw_glibc_scanned_arena *mw_glibc_scan_arena(const struct mw_glibc_scan *scan,
                                                   mw_addr address)
{
    const struct mw_glibc_scanned_arena key = {.arena.public.address = address};
    return scan->arenas.count
               ? bsearch(&key, scan->arenas.items, scan->arenas.count, sizeof key, arena_compare)
               : NULL;
}

/* Every arena of this round has a row. */
static enum mw_status arenas_match(struct mw_glibc_scan *scan, const struct mw_glibc *glibc)
{
    size_t known = scan->arenas.count;
    for (size_t i = 0; i < glibc->arenas.count; i++) {
        const struct mw_glibc_scanned_arena row = {.arena = glibc->arenas.items[i],
                                                   .safe_linking = glibc->safe_linking,
                                                   .sequence = scan->arenas.count};
        size_t all = scan->arenas.count;
        scan->arenas.count = known;
        bool is_new = !mw_glibc_scan_arena(scan, row.arena.public.address);
        scan->arenas.count = all;
        enum mw_status status =
            is_new ? mw_vec_push(&scan->arenas, MW_LIMIT_ARENAS * 2, row) : MW_OK;
        if (status != MW_OK)
            return status;
    }
    if (scan->arenas.count > 1)
        qsort(scan->arenas.items, scan->arenas.count, sizeof *scan->arenas.items, arena_compare);
    return MW_OK;
}

/* Arenas of which something was read now are as they are now. */
static void arenas_update(struct mw_glibc_scan *scan, const struct mw_glibc *glibc)
{
    for (size_t i = 0; i < scan->segments.count; i++) {
        const struct mw_glibc_scanned *scanned = &scan->segments.items[i];
        struct mw_glibc_scanned_arena *row = mw_glibc_scan_arena(scan, scanned->arena);
        if (!row || scanned->last_round != scan->round)
            continue;
        row->last_round = scan->round;
        if (row->first_round == 0 || scanned->first_round < row->first_round)
            row->first_round = scanned->first_round;
    }
    for (size_t i = 0; i < glibc->arenas.count; i++) {
        struct mw_glibc_scanned_arena *row =
            mw_glibc_scan_arena(scan, glibc->arenas.items[i].public.address);
        if (!row || row->last_round != scan->round)
            continue;
        row->has_moved |=
            row->first_round != scan->round && row->arena.digest != glibc->arenas.items[i].digest;
        row->arena = glibc->arenas.items[i];
        if (i == 0)
            row->gap_bytes = scan->found_gap_bytes + scan->cut_gap_bytes;
    }
}

/* -- rounds ---------------------------------------------------------------------------------- */

static void segments_sort(struct mw_glibc_scan *scan)
{
    if (scan->segments.count > 1)
        qsort(scan->segments.items, scan->segments.count, sizeof *scan->segments.items,
              scanned_compare);
}

static bool all_complete(const struct mw_glibc_scan *scan)
{
    for (size_t i = 0; i < scan->segments.count; i++)
        if (!scan->segments.items[i].is_complete)
            return false;
    return true;
}

/* Read, stitch, and again for what was found behind foreign sbrks: each time only that. */
static enum mw_status round_read(struct round *round)
{
    struct mw_glibc_scan *scan = round->scan;
    struct mw_glibc *glibc = round->glibc;
    size_t sorted = scan->segments.count, matched = 0, first = 0;
    for (;;) {
        enum mw_status status = segments_match(scan, glibc, matched, sorted);
        if (status == MW_OK && first == 0)
            vanished_close(scan);
        if (status == MW_OK)
            status = jobs_plan(round, first);
        if (status == MW_OK)
            status = jobs_run(round);
        matched = glibc->segments.count;
        if (status == MW_OK)
            status = mw_glibc_scan_stitch(scan, glibc, first);
        if (status != MW_OK || glibc->segments.count == matched)
            return status;
        sorted = 0; /* what comes later is new */
        first = scan->segments.count;
    }
}

/* How much memory what was read may take. */
static uint64_t kept_max(const struct mw_glibc *glibc)
{
    enum { SHARE = 4 }; /* of the machine's memory */
    if (glibc->context && glibc->context->memory_budget_bytes)
        return glibc->context->memory_budget_bytes;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / SHARE : UINT64_MAX;
}

/* What is not read yet will not be. */
static void rest_leave(struct mw_glibc_scan *scan, const struct mw_glibc *glibc, const char *why)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < scan->segments.count; i++) {
        struct mw_glibc_scanned *scanned = &scan->segments.items[i];
        if (scanned->is_complete)
            continue;
        mw_glibc_scanned_release(scanned, scanned->spans_done);
        scanned->is_complete = true;
        bytes += scanned->segment.public.end - scanned->done_until;
    }
    mw_finding_add(glibc->findings, "heap-unfinished", 0, bytes, "%s", why);
}

/* Does the target change faster than it can be read? */
static bool is_restless(const struct mw_glibc_scan *scan, const struct mw_glibc *glibc)
{
    enum { PASSES = 4, SPANS = 64, ROUNDS_MAX = 1 << 16 };
    uint64_t span_bytes = glibc->options->span_bytes ? glibc->options->span_bytes : SPAN_BYTES;
    return scan->read_bytes / PASSES > scan->wanted_bytes + SPANS * span_bytes ||
           scan->round > ROUNDS_MAX;
}

/* What a round is to find: in order, and between which addresses. */
static void segments_prepare(struct mw_glibc_scan *scan, struct mw_glibc *glibc)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < scan->segments.count; i++)
        scan->segments.items[i].is_seen = false;
    mw_glibc_sort_segments(glibc);
    for (size_t i = 0; i < glibc->segments.count; i++) {
        const struct mw_heap_segment *segment = &glibc->segments.items[i].public;
        glibc->low = i == 0 ? segment->start : glibc->low;
        glibc->high = segment->end > glibc->high ? segment->end : glibc->high;
        bytes += segment->end - segment->start;
    }
    if (bytes > scan->wanted_bytes)
        scan->wanted_bytes = bytes;
    if (glibc->gap_bytes > scan->found_gap_bytes)
        scan->found_gap_bytes = glibc->gap_bytes;
}

enum mw_status mw_glibc_scan_round(struct mw_glibc_scan *scan, struct mw_glibc *glibc,
                                   uint64_t until_ns, bool *all_done_out)
{
    struct round round = {
        .scan = scan,
        .glibc = glibc,
        .begin_ns = mw_clock_monotonic_ns(),
        .until_ns = until_ns,
        .kept_max = kept_max(glibc),
    };
    scan->round++;
    scan->ring_is_torn |= glibc->ring_is_torn;
    segments_prepare(scan, glibc);
    enum mw_status status = arenas_match(scan, glibc);
    if (status == MW_OK && scan->round == 1)
        status = mw_glibc_sample_choose(scan, glibc);
    pthread_mutex_init(&round.lock, NULL);
    if (status == MW_OK)
        status = round_read(&round);
    pthread_mutex_destroy(&round.lock);
    mw_vec_deinit(&round.jobs);
    if (round.is_full)
        rest_leave(scan, glibc, "the heap has more blocks than there is memory to keep");
    else if (is_restless(scan, glibc) && !all_complete(scan))
        rest_leave(scan, glibc, "the heap changes faster than it can be read");
    segments_sort(scan);
    if (status == MW_OK)
        status = mw_glibc_heads_keep(scan, glibc);
    if (status == MW_OK)
        arenas_update(scan, glibc);
    *all_done_out = all_complete(scan);
    return status;
}

/* A segment that was read earlier, up to where a newer one begins; false: nothing is left. */
static bool scanned_shorten(struct mw_glibc_scanned *scanned, mw_addr end)
{
    struct mw_glibc_segment *segment = &scanned->segment;
    if (segment->public.kind == MW_SEGMENT_MMAPPED || end <= segment->public.start)
        return false;
    segment->public.end = end;
    segment->top = 0;
    segment->at_brk = false;
    return true;
}

/* Of segments of different moments that lie over each other the newer one stays. */
static void overlaps_drop(struct mw_glibc_scan *scan)
{
    size_t kept = 0;
    for (size_t i = 0; i < scan->segments.count; i++) {
        struct mw_glibc_scanned scanned = scan->segments.items[i];
        struct mw_glibc_scanned *last = kept ? &scan->segments.items[kept - 1] : NULL;
        mw_addr start = scanned.segment.public.start;
        bool overlaps = last && last->segment.public.end > start;
        bool is_newer = overlaps && scanned.last_round > last->last_round;
        if (start >= scanned.segment.public.end || (overlaps && !is_newer)) {
            mw_glibc_scanned_release(&scanned, 0);
            mw_vec_deinit(&scanned.spans);
            continue;
        }
        if (is_newer && !scanned_shorten(last, start)) {
            mw_glibc_scanned_release(last, 0);
            mw_vec_deinit(&last->spans);
            kept--;
        }
        scan->segments.items[kept++] = scanned;
    }
    scan->segments.count = kept;
}

void mw_glibc_scan_close(struct mw_glibc_scan *scan, const struct mw_context *context,
                         struct mw_findings *findings)
{
    overlaps_drop(scan);
    for (size_t i = 0; i < scan->segments.count; i++) { /* indexes were those of some round */
        const struct mw_glibc_scanned_arena *row =
            mw_glibc_scan_arena(scan, scan->segments.items[i].arena);
        scan->segments.items[i].segment.public.arena =
            row ? (uint32_t)row->sequence : MW_ARENA_NONE;
    }
    mw_glibc_heads_close(scan);
    mw_glibc_lists_follow(scan, context, findings);
}
