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
#include "image/open.h"
#include "proc/cgroup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WALK_TRIES = 24, UNRECONCILED_TRIES = 3, SLEEP_NS_MAX = 16000000 };

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

/* One walk under one stop. */
static enum mw_status walk_once(struct mw_analysis *analysis, const struct mw_heap_walker *walker,
                                const struct mw_analysis_options *options,
                                struct mw_context *context, struct mw_allocator *allocator,
                                struct mw_findings *findings, struct mw_error *err)
{
    enum mw_status status = mw_image_stop(&analysis->image, err);
    if (status != MW_OK)
        return status;
    status = walker->walk(&analysis->image, &options->heap, context, allocator, findings, err);
    mw_image_resume(&analysis->image);
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

static enum mw_status walk_until_sound(struct mw_analysis *analysis,
                                       const struct mw_heap_walker *walker,
                                       const struct mw_analysis_options *options,
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
                                 const struct mw_analysis_options *options,
                                 struct mw_context *context, struct mw_error *err)
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

static enum mw_status claims_collect(struct mw_analysis *analysis, struct mw_error *err)
{
    enum mw_status status =
        mw_account_claim_mappings(&analysis->image, &analysis->claims, &analysis->findings, err);
    for (size_t i = 0; i < analysis->allocator_count && status == MW_OK; i++)
        status = mw_allocator_claim(&analysis->allocators[i], &analysis->claims);
    if (status == MW_OK)
        status = mw_runtimes_probe(&analysis->image, &analysis->claims, analysis->runtimes,
                                   &analysis->runtime_count, &analysis->findings, err);
    return status;
}

/* malloc's rows count blocks, not mappings. */
static void account_count_blocks(struct mw_analysis *analysis)
{
    uint64_t in_use = 0, free_count = 0;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        in_use += analysis->allocators[i].in_use_count;
        free_count += analysis->allocators[i].free_count;
    }
    analysis->account.rows[MW_CATEGORY_MALLOC_IN_USE].count = in_use;
    analysis->account.rows[MW_CATEGORY_MALLOC_FREE].count = free_count;
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
        .heap_was_read = analysis->heap_was_read,
    };
    return mw_verdicts_evaluate(&evidence, &analysis->verdicts, err);
}

static enum mw_status analysis_fill(struct mw_analysis *analysis,
                                    const struct mw_analysis_options *options,
                                    struct mw_context *context, struct mw_error *err)
{
    enum mw_status status = MW_OK;
    if (!options->skip_heap && (analysis->image.can & MW_CAN_READ))
        status = heaps_read(analysis, options, context, err);
    else if (!options->skip_heap && analysis->image.kind != MW_IMAGE_SMAPS)
        partial_because(analysis, &analysis->image.cannot_read);
    if (status == MW_OK)
        status = claims_collect(analysis, err);
    if (status == MW_OK)
        status = mw_account_build(&analysis->image, &analysis->claims, &analysis->account,
                                  &analysis->findings, err);
    if (status == MW_OK) {
        account_count_blocks(analysis);
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
