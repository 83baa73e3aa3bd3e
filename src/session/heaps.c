/* session/heaps.c: from an image to walked allocators, and to what nothing points to.
 *
 *   stop, walk, resume (again while a lock is held), for each allocator ─► suspect sizes
 *   or: stop, walk all, read all pointers, resume ─► marks
 *
 * What is reachable can be told of one moment only. A core and a snapshot are one; a live target is
 * held for one when all of it should fit into --max-pause, by the size of its memory; else its heap
 * is read under several stops and its pointers while it runs, and what looks unreachable then is
 * uncertain: a pointer may have moved from where nobody had looked yet to where somebody had. */
#include "session/heaps.h"

#include "base/clock.h"
#include "base/units.h"
#include "blocks/sample.h"

#include <assert.h>
#include <string.h>
#include <time.h>

enum { WALK_TRIES = 24, UNRECONCILED_TRIES = 3, SLEEP_NS_MAX = 16000000, VISITORS_MAX = 6 };

/* A copy costs more than a stop, and does not move: only its mappings may be older than it. */
enum { FORK_TRIES = 6, FORK_UNRECONCILED_TRIES = 1 };

/* A program that does little but allocate always holds some lock: after so many tries what can be
 * read is taken, with that said. */
enum { LOCKED_AFTER = 12, FORK_LOCKED_AFTER = 3 };

/* The largest chunk that a fast bin can hold, with M_MXFAST: docs/formats/glibc.md. */
enum { FAST_CHUNK_MAX = 176 };

/* One size of block that holds this share of what is in use is asked about: leak or cache? */
enum { SUSPECT_PERCENT = 30 };
_Static_assert((int)MW_SAMPLE_WALKS >= (int)MW_ALLOCATORS_MAX, "a sample for each allocator");
static const uint64_t SUSPECT_BYTES_MIN = (uint64_t)1 << 20;
static const uint64_t SUSPECT_SEARCH_BYTES_MAX = (uint64_t)8 << 30;

/* What walking a heap and reading its pointers takes: measured 190 ns a KiB by two CPUs that do
 * nothing else (bench/bench_leaks.py), and 900 where others take turns. When the walk has taken
 * half of a pause, the pointers will not fit into the rest. */
enum { HOLD_NS_PER_KIB = 800, HOLD_SHARE_PERCENT = 80 };

/* 1, 2, 4, 8, 16, 16 … ms: long enough for a thread to leave malloc. */
static void wait_before_retry(unsigned attempt)
{
    long ns = 1000000L << (attempt < 4 ? attempt : 4);
    struct timespec pause = {0, ns < SLEEP_NS_MAX ? ns : SLEEP_NS_MAX};
    nanosleep(&pause, NULL);
}

/* The caller's options with visitors of our own: the sample of blocks, free blocks in huge pages,
 * the index of all blocks. */
struct sampled_options {
    struct mw_heap_options heap;
    struct mw_heap_visitor visitors[VISITORS_MAX];
};

static void visitor_add(struct sampled_options *sampled, struct mw_heap_visitor visitor)
{
    assert(sampled->heap.visitor_count < VISITORS_MAX);
    sampled->visitors[sampled->heap.visitor_count++] = visitor;
    sampled->heap.visitors = sampled->visitors;
}

/* What the walks feed beside the caller's visitors. */
struct listeners {
    struct mw_block_samples *samples;
    struct mw_index *index;
};

static void sampled_options_init(struct sampled_options *sampled,
                                 const struct mw_heap_options *options,
                                 const struct listeners *listeners, struct mw_huge *huge)
{
    *sampled = (struct sampled_options){.heap = *options};
    assert(options->visitor_count + 3 <= VISITORS_MAX);
    for (size_t i = 0; i < options->visitor_count; i++)
        sampled->visitors[i] = options->visitors[i];
    if (listeners->samples)
        visitor_add(sampled, mw_block_samples_visitor(listeners->samples));
    if (listeners->index)
        visitor_add(sampled, mw_index_visitor(listeners->index));
    if (listeners->samples && huge->size_bytes != 0)
        visitor_add(sampled, mw_huge_visitor(huge));
}

static uint64_t expired_count(const struct mw_image *image)
{
    const struct mw_finding *expired = mw_finding_find(&image->findings, "pause-expired");
    return expired ? expired->count : 0;
}

/* Which stop it is: was everything read under the same one? */
struct moment {
    uint64_t pauses, expired;
};

static struct moment moment_of(const struct mw_image *image)
{
    return (struct moment){image->pauses.count, expired_count(image)};
}

/* Hold the target, where it is not held already. To be held for long its regions must be those of
 * that moment: a root in a new one would be missed. */
static enum mw_status target_hold(struct mw_image *image, bool for_long, struct mw_error *err)
{
    if (image->stopped)
        return MW_OK;
    enum mw_status status = mw_image_stop(image, err);
    if (status == MW_OK && for_long) {
        status = mw_image_refresh_ranges(image, err);
        if (status != MW_OK)
            mw_image_resume(image);
    }
    return status;
}

/* Let it go after all was read; counters, which regions have lost meanwhile, are read anew. A no-op
 * on what runs. */
static enum mw_status target_release(struct mw_image *image, struct mw_error *err)
{
    if (!image->stopped)
        return MW_OK;
    mw_image_resume(image);
    return mw_image_moves(image) ? mw_image_refresh(image, err) : MW_OK;
}

/* One walk under one stop, or more. */
static enum mw_status walk_once(struct mw_analysis *analysis, const struct mw_heap_walker *walker,
                                const struct sampled_options *options, struct mw_context *context,
                                struct mw_allocator *allocator, struct mw_findings *findings,
                                struct mw_error *err)
{
    struct mw_image *image = &analysis->image;
    enum mw_status status = target_hold(image, options->heap.hold, err);
    if (status != MW_OK)
        return status;
    uint64_t expired_before = expired_count(image);
    status = walker->walk(image, &options->heap, context, allocator, findings, err);
    if (image->stopped && !(options->heap.hold && status == MW_OK))
        mw_image_resume(image);
    if (expired_count(image) > expired_before) /* it ran on while it was read */
        allocator->reconciled = allocator->sample_is_sound = false;
    return status;
}

/* Is it worth letting go and looking again? A lock, or a heap that moved since its regions were
 * read. */
static bool walk_should_retry(const struct mw_analysis *analysis, enum mw_status status,
                              const struct mw_allocator *allocator, unsigned attempt)
{
    bool is_fork = analysis->image.has_snapshot;
    unsigned tries = is_fork ? FORK_TRIES : WALK_TRIES;
    unsigned sound_tries = is_fork ? FORK_UNRECONCILED_TRIES : UNRECONCILED_TRIES;
    if (analysis->image.kind != MW_IMAGE_LIVE || attempt + 1 >= tries)
        return false;
    if (status == MW_LIMIT)
        return true;
    bool is_sound =
        allocator->sampled_count > 0 ? allocator->sample_is_sound : allocator->reconciled;
    return status == MW_OK && !is_sound && allocator->moved_count == 0 && attempt < sound_tries;
}

/* Keep what identifies the allocator, drop a walk's results. */
static void allocator_reset(struct mw_allocator *allocator)
{
    struct mw_allocator kept = {.kind = allocator->kind};
    memcpy(kept.version, allocator->version, sizeof kept.version);
    mw_allocator_deinit(allocator);
    *allocator = kept;
}

/* Whoever listens to the walk keeps what it has heard of other allocators. */
static void listeners_begin(const struct mw_heap_options *options)
{
    for (size_t i = 0; i < options->visitor_count; i++)
        if (options->visitors[i].begin)
            options->visitors[i].begin(options->visitors[i].user);
    if (options->trim_begin)
        options->trim_begin(options->trim_user);
}

/* And forgets what it has heard of this one. */
static void listeners_restart(const struct mw_heap_options *options)
{
    for (size_t i = 0; i < options->visitor_count; i++)
        if (options->visitors[i].restart)
            options->visitors[i].restart(options->visitors[i].user);
    if (options->trim_restart)
        options->trim_restart(options->trim_user);
}

/* The target anew: its mappings, and a later copy where one was read. */
static enum mw_status target_reread(struct mw_image *image, struct mw_error *err)
{
    bool had_snapshot = image->has_snapshot;
    mw_image_snapshot_drop(image);
    enum mw_status status = mw_image_refresh(image, err);
    return status == MW_OK && had_snapshot ? mw_image_snapshot(image, err) : status;
}

static enum mw_status walk_until_sound(struct mw_analysis *analysis,
                                       const struct mw_heap_walker *walker,
                                       const struct sampled_options *options,
                                       struct mw_context *context, struct mw_allocator *allocator,
                                       struct mw_error *err)
{
    enum mw_status status;
    struct sampled_options tried = *options;
    const unsigned locked_after = analysis->image.has_snapshot ? FORK_LOCKED_AFTER : LOCKED_AFTER;
    tried.heap.visitors = tried.visitors;
    for (unsigned attempt = 0;; attempt++) {
        struct mw_findings findings = {0};
        tried.heap.accepts_locks = attempt >= locked_after;
        status = walk_once(analysis, walker, &tried, context, allocator, &findings, err);
        if (!walk_should_retry(analysis, status, allocator, attempt)) {
            mw_findings_merge(&analysis->findings, &findings);
            mw_findings_deinit(&findings);
            return status;
        }
        if (analysis->image.stopped)
            mw_image_resume(&analysis->image);
        mw_findings_deinit(&findings);
        allocator_reset(allocator);
        listeners_restart(&options->heap);
        wait_before_retry(attempt);
        status = target_reread(&analysis->image, err);
        if (status != MW_OK)
            return status;
    }
}

/* Probe every known allocator; walk those that can be walked. */
static enum mw_status heaps_read(struct mw_analysis *analysis,
                                 const struct sampled_options *options, struct mw_context *context,
                                 struct moment *began, struct mw_error *err)
{
    for (size_t i = 0; mw_heap_walkers[i]; i++) {
        const struct mw_heap_walker *walker = mw_heap_walkers[i];
        if (analysis->allocator_count == MW_ALLOCATORS_MAX)
            break;
        struct mw_allocator *allocator = &analysis->allocators[analysis->allocator_count];
        struct mw_error problem = {0};
        enum mw_status status = walker->probe(&analysis->image, allocator, &problem);
        if (status == MW_OK) {
            analysis->allocator_count++;
            listeners_begin(&options->heap);
        }
        if (status == MW_OK && walker->walk) {
            status = walk_until_sound(analysis, walker, options, context, allocator, &problem);
            if (status == MW_OK && !analysis->heap_was_read)
                *began = moment_of(&analysis->image);
            analysis->heap_was_read |= status == MW_OK;
        }
        if (status == MW_NOMEM || status == MW_CANCELED || status == MW_GONE) {
            *err = problem;
            return status;
        }
        if (status != MW_OK && status != MW_NOT_FOUND) {
            allocator_reset(allocator);
            mw_analysis_partial(analysis, &problem);
        }
    }
    return MW_OK;
}

/* The chunk size that holds the most bytes in use, when it is worth asking about; else 0. */
static uint64_t suspect_size(const struct mw_allocator *allocator)
{
    uint64_t size = 0, most = SUSPECT_BYTES_MIN - 1;
    for (size_t i = 0; i < allocator->size_count; i++) {
        const struct mw_size_row *row = &allocator->sizes[i];
        uint64_t bytes;
        if (!__builtin_mul_overflow(row->size_bytes, row->in_use_count, &bytes) && bytes > most) {
            most = bytes;
            size = row->size_bytes;
        }
    }
    uint64_t counted = allocator->in_use_bytes - allocator->estimated_in_use_bytes;
    return most >= counted / 100 * SUSPECT_PERCENT ? size : 0;
}

/* The size that stands out in one of the allocators; 0: none does. */
static uint64_t suspect_of(const struct mw_analysis *analysis)
{
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        uint64_t size = allocator->walked ? suspect_size(allocator) : 0;
        if (size > 0)
            return size;
    }
    return 0;
}

/* Where one size holds much of the heap: does anything point to its blocks? */
static enum mw_status suspect_search(struct mw_analysis *analysis,
                                     const struct mw_block_samples *samples,
                                     struct mw_context *context, struct mw_error *err)
{
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        uint64_t size = allocator->walked ? suspect_size(allocator) : 0;
        size_t count = 0;
        const struct mw_sample_row *row =
            size ? mw_block_samples_of(samples, i, size, &count) : NULL;
        if (row)
            return mw_references_search(&analysis->image, row->starts, count, size,
                                        row->usable_bytes, SUSPECT_SEARCH_BYTES_MAX, context,
                                        &analysis->references, err);
    }
    return MW_OK;
}

/* Private memory that may be the heap's, or hold pointers into it. */
static uint64_t readable_bytes(const struct mw_image *image)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        bool is_writable =
            (map->perms & (MW_PERM_READ | MW_PERM_WRITE)) == (MW_PERM_READ | MW_PERM_WRITE);
        if (is_writable)
            bytes +=
                mw_mapping_counter(map, MW_COUNTER_RSS) + mw_mapping_counter(map, MW_COUNTER_SWAP);
    }
    return bytes;
}

/* Can a heap and all pointers be read under one stop? */
static bool fits_one_stop(const struct mw_image *image, const struct mw_context *context)
{
    uint64_t ns = readable_bytes(image) / 1024 * HOLD_NS_PER_KIB;
    return ns <= context->pause_ns_max / 100 * HOLD_SHARE_PERCENT;
}

/* Read all pointers, and let the target go. The index is taken over. */
static enum mw_status reach_read(struct mw_analysis *analysis, struct mw_index *index,
                                 const struct moment *began,
                                 const struct mw_analysis_options *options,
                                 struct mw_context *context, struct mw_error *err)
{
    const struct mw_lost_wish wish = {
        .size_bytes = options->skip_verdicts ? 0 : suspect_of(analysis),
        .suppressions = options->suppressions,
    };
    struct mw_image *image = &analysis->image;
    struct mw_reach *reach = &analysis->reach;
    enum mw_status status = mw_reach_read(image, index, analysis->allocators,
                                          analysis->allocator_count, context, reach, err);
    bool was_held = image->stopped && image->pauses.count == began->pauses;
    struct mw_error problem = {0};
    enum mw_status released = target_release(image, &problem);
    if (status != MW_OK)
        return status;
    if (released != MW_OK) {
        *err = problem;
        mw_reach_deinit(reach);
        return released;
    }
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].walked && !analysis->allocators[i].reconciled)
            reach->is_complete = false; /* a block that is cached may look in use */
    bool is_between =
        mw_finding_find(&analysis->findings, "tcache-torn") ||
        (image->kind == MW_IMAGE_LIVE && mw_finding_find(&analysis->findings, "arena-locked"));
    if (is_between)
        reach->is_complete = false; /* so may one between two lists */
    if (mw_image_moves(image))
        reach->is_of_once = was_held && expired_count(image) == began->expired;
    status = mw_reach_judge(reach, context, err);
    if (status == MW_OK && mw_finding_find(&analysis->findings, "arena-locked") &&
        reach->unreachable_count > 0 && reach->unreachable_size_min <= FAST_CHUNK_MAX)
        reach->is_complete = false; /* it may be on its way out of a fast bin */
    return status == MW_OK
               ? mw_lost_describe(reach, image, analysis->allocators, analysis->allocator_count,
                                  &wish, context, &analysis->lost, err)
               : status;
}

/* What cannot be told for lack of memory of our own is missing from the answer. */
static enum mw_status reach_ask(struct mw_analysis *analysis, struct mw_index *index,
                                const struct moment *began,
                                const struct mw_analysis_options *options,
                                struct mw_context *context, struct mw_error *err)
{
    struct mw_error problem = {0};
    enum mw_status status = reach_read(analysis, index, began, options, context, &problem);
    if (status == MW_LIMIT) {
        mw_analysis_partial(analysis, &problem);
        return MW_OK;
    }
    if (status != MW_OK)
        *err = problem;
    return status;
}

static bool stop_is_used_up(const struct mw_image *image, const struct mw_context *context)
{
    return mw_image_moves(image) &&
           mw_clock_monotonic_ns() - image->stop_began_ns > context->pause_ns_max / 2;
}

/* Shall what is reachable be asked, and under one stop? */
static bool reach_is_wanted(const struct mw_analysis *analysis,
                            const struct mw_analysis_options *options,
                            const struct mw_context *context, bool *hold_out)
{
    const struct mw_image *image = &analysis->image;
    bool moves = mw_image_moves(image);
    *hold_out = moves && options->reach != MW_REACH_NONE && fits_one_stop(image, context);
    return options->reach == MW_REACH_ASKED ||
           (options->reach == MW_REACH_IF_EXACT && (!moves || *hold_out));
}

/* Blocks and pointers of what was not read are unknown. */
static bool all_is_read(const struct mw_analysis *analysis)
{
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].sampled_count > 0)
            return false;
    return analysis->heap_was_read;
}

static enum mw_status listeners_make(const struct mw_analysis_options *options, bool wants_index,
                                     struct listeners *listeners, struct mw_error *err)
{
    if (!options->skip_verdicts && !(listeners->samples = mw_block_samples_new()))
        return mw_fail(err, MW_NOMEM, "out of memory");
    if (wants_index && !(listeners->index = mw_index_new()))
        return mw_fail(err, MW_NOMEM, "out of memory");
    return MW_OK;
}

enum mw_status mw_heaps_examine(struct mw_analysis *analysis,
                                const struct mw_analysis_options *options,
                                struct mw_context *context, struct mw_error *err)
{
    struct mw_image *image = &analysis->image;
    struct listeners listeners = {0};
    struct mw_heap_options heap = options->heap;
    image->wants_vectors = options->reach != MW_REACH_NONE;
    enum mw_status status = options->fork ? mw_image_snapshot(image, err) : MW_OK;
    bool wants_reach = status == MW_OK && reach_is_wanted(analysis, options, context, &heap.hold);
    if (status == MW_OK)
        status = listeners_make(options, wants_reach, &listeners, err);
    struct sampled_options sampled;
    sampled_options_init(&sampled, &heap, &listeners, &analysis->huge);
    struct moment began = {0};
    if (status == MW_OK)
        status = heaps_read(analysis, &sampled, context, &began, err);
    for (size_t i = 0; i < analysis->allocator_count; i++)
        mw_huge_leave_unread(&analysis->huge, &analysis->allocators[i]);
    if (status == MW_OK && image->stopped && stop_is_used_up(image, context)) {
        status = target_release(image, err);
        wants_reach &= options->reach == MW_REACH_ASKED; /* uncertain is better than nothing */
    }
    if (status == MW_OK && wants_reach && all_is_read(analysis)) {
        status = reach_ask(analysis, listeners.index, &began, options, context, err);
        listeners.index = NULL;
    }
    if (status == MW_OK)
        status = target_release(image, err);
    else if (image->stopped)
        mw_image_resume(image);
    if (status == MW_OK && listeners.samples && !analysis->reach.is_done)
        status = suspect_search(analysis, listeners.samples, context, err);
    mw_block_samples_free(listeners.samples);
    mw_index_free(listeners.index);
    return status;
}
