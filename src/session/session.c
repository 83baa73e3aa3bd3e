/* session/session.c: from a target to an analysis.
 *
 *   open ─► stop, walk heaps, resume (again while a lock is held) ─► claims of runtimes and of the
 *   kernel's map ─► account ─► cgroup ─► verdicts
 *
 * Everything that can be done without holding the target still is done outside the stop. What is
 * missing makes the analysis partial, with the reason; it fails only when the target cannot be
 * opened at all. */
#include "session/session.h"

#include "base/clock.h"
#include "blocks/sample.h"
#include "heap/foreign/foreign.h"
#include "image/open.h"
#include "proc/cgroup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WALK_TRIES = 24, UNRECONCILED_TRIES = 3, SLEEP_NS_MAX = 16000000, VISITORS_MAX = 4 };

/* One size of block that holds this share of what is in use is asked about: leak or cache? */
enum { SUSPECT_PERCENT = 30 };

/* An answer about the heap is partial when an allocator that was not walked holds this share. */
enum { UNREAD_PERCENT = 5 };
static const uint64_t SUSPECT_BYTES_MIN = (uint64_t)1 << 20;
static const uint64_t SUSPECT_SEARCH_BYTES_MAX = (uint64_t)8 << 30;

static void partial_because(struct mw_analysis *analysis, const struct mw_error *why)
{
    if (analysis->is_partial)
        return; /* the first reason is the deepest */
    analysis->is_partial = true;
    analysis->why_partial = *why;
}

/* 1, 2, 4, 8, 16, 16 … ms: long enough for a thread to leave malloc. */
static void wait_before_retry(unsigned attempt)
{
    long ns = 1000000L << (attempt < 4 ? attempt : 4);
    struct timespec pause = {0, ns < SLEEP_NS_MAX ? ns : SLEEP_NS_MAX};
    nanosleep(&pause, NULL);
}

/* The caller's options with one visitor more: the sample of blocks. */
struct sampled_options {
    struct mw_heap_options heap;
    struct mw_heap_visitor visitors[VISITORS_MAX];
};

static void sampled_options_init(struct sampled_options *sampled,
                                 const struct mw_analysis_options *options,
                                 struct mw_block_samples *samples)
{
    *sampled = (struct sampled_options){.heap = options->heap};
    if (!samples || options->heap.visitor_count >= VISITORS_MAX)
        return;
    for (size_t i = 0; i < options->heap.visitor_count; i++)
        sampled->visitors[i] = options->heap.visitors[i];
    sampled->visitors[sampled->heap.visitor_count++] = mw_block_samples_visitor(samples);
    sampled->heap.visitors = sampled->visitors;
}

/* One walk under one stop. */
static enum mw_status walk_once(struct mw_analysis *analysis, const struct mw_heap_walker *walker,
                                const struct sampled_options *options, struct mw_context *context,
                                struct mw_allocator *allocator, struct mw_findings *findings,
                                struct mw_error *err)
{
    enum mw_status status = mw_image_stop(&analysis->image, err);
    if (status != MW_OK)
        return status;
    const struct mw_findings *image_findings = &analysis->image.findings;
    const struct mw_finding *expired = mw_finding_find(image_findings, "pause-expired");
    uint64_t expired_before = expired ? expired->count : 0;
    status = walker->walk(&analysis->image, &options->heap, context, allocator, findings, err);
    if (analysis->image.stopped)
        mw_image_resume(&analysis->image);
    expired = mw_finding_find(image_findings, "pause-expired");
    if (expired && expired->count > expired_before)
        allocator->reconciled = false; /* it ran on while it was read */
    return status;
}

/* Is it worth letting go and looking again? A lock, or a heap that moved since its regions were
 * read. */
static bool walk_should_retry(const struct mw_analysis *analysis, enum mw_status status,
                              const struct mw_allocator *allocator, unsigned attempt)
{
    if (analysis->image.kind != MW_IMAGE_LIVE || attempt + 1 >= WALK_TRIES)
        return false;
    if (status == MW_LIMIT)
        return true;
    return status == MW_OK && !allocator->reconciled && attempt < UNRECONCILED_TRIES;
}

/* Keep what identifies the allocator, drop a walk's results. */
static void allocator_reset(struct mw_allocator *allocator)
{
    struct mw_allocator kept = {.kind = allocator->kind};
    memcpy(kept.version, allocator->version, sizeof kept.version);
    mw_allocator_deinit(allocator);
    *allocator = kept;
}

/* Whoever listens to the walk must forget what it has heard. */
static void listeners_restart(const struct mw_heap_options *options)
{
    for (size_t i = 0; i < options->visitor_count; i++)
        if (options->visitors[i].restart)
            options->visitors[i].restart(options->visitors[i].user);
    if (options->trim_restart)
        options->trim_restart(options->trim_user);
}

static enum mw_status walk_until_sound(struct mw_analysis *analysis,
                                       const struct mw_heap_walker *walker,
                                       const struct sampled_options *options,
                                       struct mw_context *context, struct mw_allocator *allocator,
                                       struct mw_error *err)
{
    enum mw_status status;
    for (unsigned attempt = 0;; attempt++) {
        struct mw_findings findings = {0};
        status = walk_once(analysis, walker, options, context, allocator, &findings, err);
        if (!walk_should_retry(analysis, status, allocator, attempt)) {
            mw_findings_merge(&analysis->findings, &findings);
            mw_findings_deinit(&findings);
            return status;
        }
        mw_findings_deinit(&findings);
        allocator_reset(allocator);
        listeners_restart(&options->heap);
        wait_before_retry(attempt);
        struct mw_error refresh_error;
        if (mw_image_refresh(&analysis->image, &refresh_error) != MW_OK) {
            *err = refresh_error;
            return refresh_error.code;
        }
    }
}

/* Probe every known allocator; walk those that can be walked. */
static enum mw_status heaps_read(struct mw_analysis *analysis,
                                 const struct sampled_options *options, struct mw_context *context,
                                 struct mw_error *err)
{
    for (size_t i = 0; mw_heap_walkers[i]; i++) {
        const struct mw_heap_walker *walker = mw_heap_walkers[i];
        if (analysis->allocator_count == MW_ALLOCATORS_MAX)
            break;
        struct mw_allocator *allocator = &analysis->allocators[analysis->allocator_count];
        struct mw_error problem = {0};
        enum mw_status status = walker->probe(&analysis->image, allocator, &problem);
        if (status == MW_OK)
            analysis->allocator_count++;
        if (status == MW_OK && walker->walk) {
            status = walk_until_sound(analysis, walker, options, context, allocator, &problem);
            analysis->heap_was_read |= status == MW_OK;
        }
        if (status == MW_NOMEM || status == MW_CANCELED || status == MW_GONE) {
            *err = problem;
            return status;
        }
        if (status != MW_OK && status != MW_NOT_FOUND) {
            allocator_reset(allocator);
            partial_because(analysis, &problem);
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
    return most >= allocator->in_use_bytes / 100 * SUSPECT_PERCENT ? size : 0;
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
        const mw_addr *chunks = size ? mw_block_samples_of(samples, size, &count) : NULL;
        if (chunks)
            return mw_references_search(&analysis->image, chunks, count, size,
                                        SUSPECT_SEARCH_BYTES_MAX, context, &analysis->references,
                                        err);
    }
    return MW_OK;
}

/* Walk all heaps, and ask about the size of block that stands out. */
static enum mw_status heaps_examine(struct mw_analysis *analysis,
                                    const struct mw_analysis_options *options,
                                    struct mw_context *context, struct mw_error *err)
{
    struct mw_block_samples *samples = NULL;
    if (!options->skip_verdicts && !(samples = mw_block_samples_new()))
        return mw_fail(err, MW_NOMEM, "out of memory");
    struct sampled_options sampled;
    sampled_options_init(&sampled, options, samples);
    enum mw_status status = heaps_read(analysis, &sampled, context, err);
    if (status == MW_OK && samples)
        status = suspect_search(analysis, samples, context, err);
    mw_block_samples_free(samples);
    return status;
}

static enum mw_status claims_collect(struct mw_analysis *analysis, struct mw_error *err)
{
    enum mw_status status =
        mw_account_claim_mappings(&analysis->image, &analysis->claims, &analysis->findings, err);
    for (size_t i = 0; i < analysis->allocator_count && status == MW_OK; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        status = allocator->walked
                     ? mw_allocator_claim(allocator, &analysis->claims)
                     : mw_foreign_claim(&analysis->image, allocator, &analysis->claims);
    }
    if (status == MW_OK)
        status = mw_runtimes_probe(&analysis->image, &analysis->claims, analysis->runtimes,
                                   &analysis->runtime_count, &analysis->findings, err);
    return status;
}

static void cgroup_read(struct mw_analysis *analysis, const struct mw_analysis_options *options)
{
    mw_cgroup_init(&analysis->cgroup);
    if (analysis->image.kind != MW_IMAGE_LIVE)
        return;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0)
        return;
    /* A cgroup that cannot be read stays unknown: not part of the question. */
    if (mw_cgroup_load(proc_fd, analysis->image.process.pid, options->cgroup_root,
                       &analysis->cgroup, NULL) != MW_OK)
        mw_cgroup_init(&analysis->cgroup);
    close(proc_fd);
}

static enum mw_status verdicts_find(struct mw_analysis *analysis, struct mw_error *err)
{
    const struct mw_evidence evidence = {
        .image = &analysis->image,
        .account = &analysis->account,
        .allocators = analysis->allocators,
        .allocator_count = analysis->allocator_count,
        .runtimes = analysis->runtimes,
        .runtime_count = analysis->runtime_count,
        .cgroup = &analysis->cgroup,
        .findings = &analysis->findings,
        .references = analysis->references.size_bytes ? &analysis->references : NULL,
        .heap_was_read = analysis->heap_was_read,
    };
    return mw_verdicts_evaluate(&evidence, &analysis->verdicts, err);
}

static const struct mw_allocator *unwalked_allocator(const struct mw_analysis *analysis)
{
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (!analysis->allocators[i].walked)
            return &analysis->allocators[i];
    return NULL;
}

/* Is the inside of so much memory unread that the answer is none for the process? */
static bool unread_is_much(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    const struct mw_account_row *unsplit = &account->rows[MW_CATEGORY_MALLOC_UNSPLIT];
    if (account->has_rss)
        return unsplit->rss_bytes > account->rss_bytes / 100 * UNREAD_PERCENT;
    return unsplit->size_bytes > account->size_bytes / 100 * UNREAD_PERCENT;
}

/* A heap that was asked for and not read leaves a part of the question open. A report is whole
 * without: it accounts for every byte, and says which allocator was not looked into. */
static void unread_is_partial(struct mw_analysis *analysis,
                              const struct mw_analysis_options *options)
{
    const struct mw_allocator *allocator = unwalked_allocator(analysis);
    struct mw_error why = {0};
    if (options->skip_heap || !options->heap_is_asked)
        return;
    if (analysis->image.kind == MW_IMAGE_SMAPS) {
        (void)mw_fail(&why, MW_UNSUPPORTED,
                      "a text of smaps has no memory: the inside of malloc is not in it");
        mw_error_hint(&why, "memwhy heap PID or memwhy heap CORE");
    } else if (allocator && (!analysis->heap_was_read || unread_is_much(analysis))) {
        (void)mw_fail(&why, MW_UNSUPPORTED,
                      "%s is recognised and not walked in this version: what it holds free and "
                      "what is in use in it was not read",
                      allocator->kind);
        if (strcmp(allocator->kind, "musl") != 0) /* it keeps none */
            mw_error_hint(&why, "%s's own statistics tell it", allocator->kind);
    } else {
        return;
    }
    partial_because(analysis, &why);
}

static enum mw_status analysis_fill(struct mw_analysis *analysis,
                                    const struct mw_analysis_options *options,
                                    struct mw_context *context, struct mw_error *err)
{
    enum mw_status status = MW_OK;
    if (!options->skip_heap && (analysis->image.can & MW_CAN_READ))
        status = heaps_examine(analysis, options, context, err);
    else if (!options->skip_heap && analysis->image.kind != MW_IMAGE_SMAPS)
        partial_because(analysis, &analysis->image.cannot_read);
    if (status == MW_OK)
        status = claims_collect(analysis, err);
    if (status == MW_OK)
        status = mw_account_build(&analysis->image, &analysis->claims, &analysis->account,
                                  &analysis->findings, err);
    if (status == MW_OK) {
        unread_is_partial(analysis, options);
        cgroup_read(analysis, options);
    }
    if (status == MW_OK && !options->skip_verdicts)
        status = verdicts_find(analysis, err);
    mw_findings_merge(&analysis->findings, &analysis->image.findings);
    return status;
}

enum mw_status mw_analysis_run(const char *target, const struct mw_analysis_options *options,
                               struct mw_context *context, struct mw_analysis *analysis_out,
                               struct mw_error *err)
{
    assert(target && options && analysis_out);
    struct mw_error local = {0};
    if (!err)
        err = &local;
    *analysis_out = (struct mw_analysis){.taken_at = mw_clock_realtime_s()};
    const struct mw_image_open_options open_options = {
        .proc_dir_fd = AT_FDCWD,
        .need_read = !options->skip_heap,
    };
    enum mw_status status =
        mw_image_open(target, &open_options, context, &analysis_out->image, err);
    if (status != MW_OK)
        return status;
    status = analysis_fill(analysis_out, options, context, err);
    if (status != MW_OK)
        mw_analysis_deinit(analysis_out);
    return status;
}

void mw_analysis_deinit(struct mw_analysis *analysis)
{
    mw_verdicts_deinit(&analysis->verdicts);
    mw_account_deinit(&analysis->account);
    mw_claims_deinit(&analysis->claims);
    for (size_t i = 0; i < analysis->allocator_count; i++)
        mw_allocator_deinit(&analysis->allocators[i]);
    mw_findings_deinit(&analysis->findings);
    mw_image_close(&analysis->image);
    *analysis = (struct mw_analysis){0};
}
