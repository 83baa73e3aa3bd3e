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
#include "base/units.h"
#include "heap/foreign/foreign.h"
#include "image/open.h"
#include "proc/cgroup.h"
#include "session/heaps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An answer about the heap is partial when an allocator that was not walked holds this share. */
enum { UNREAD_PERCENT = 5 };

/* From here on memory that is shared copy-on-write is worth looking for those who share it. */
enum { SHARED_PERCENT = 2 };
static const uint64_t SHARED_BYTES_MIN = (uint64_t)1 << 20;

void mw_analysis_partial(struct mw_analysis *analysis, const struct mw_error *why)
{
    if (analysis->is_partial)
        return; /* the first reason is the deepest */
    analysis->is_partial = true;
    analysis->why_partial = *why;
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

/* Processes that share this one's memory since a fork, where that is enough to matter: their sums
 * cost a walk of page tables each. What cannot be read stays unknown. */
static enum mw_status family_read(struct mw_analysis *analysis, struct mw_context *context,
                                  struct mw_error *err)
{
    const struct mw_mapping_list *regions = &analysis->image.regions;
    uint64_t shared = 0;
    if (analysis->image.kind != MW_IMAGE_LIVE || !analysis->account.has_rss)
        return MW_OK;
    for (size_t i = 0; i < regions->count; i++)
        shared += mw_mapping_forked_bytes(&regions->items[i]);
    if (shared < SHARED_BYTES_MIN || shared < analysis->account.rss_bytes / 100 * SHARED_PERCENT)
        return MW_OK;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0)
        return MW_OK;
    enum mw_status status =
        mw_family_load(proc_fd, analysis->image.process.pid, context, &analysis->family, err);
    close(proc_fd);
    analysis->has_family = status == MW_OK;
    return status == MW_NOMEM || status == MW_CANCELED ? status : MW_OK;
}

/* Why no heap was read, if it is not that its allocator is unknown or not walked. */
static const struct mw_error *unread_reason(const struct mw_analysis *analysis, bool skip_heap,
                                            struct mw_error *skipped)
{
    if (analysis->heap_was_read || analysis->image.kind == MW_IMAGE_SMAPS)
        return NULL; /* an image of smaps says by itself that it holds no memory */
    if (skip_heap) {
        (void)mw_fail(skipped, MW_INVALID, "--no-heap was given");
        mw_error_hint(skipped, "leave out --no-heap");
        return skipped;
    }
    return analysis->is_partial ? &analysis->why_partial : NULL;
}

static enum mw_status verdicts_find(struct mw_analysis *analysis, bool skip_heap,
                                    struct mw_error *err)
{
    struct mw_error skipped = {0};
    const bool has_reach = analysis->reach.is_done;
    struct mw_leak_kind kinds[MW_LEAK_KINDS];
    const struct mw_leak_evidence leaks =
        mw_lost_evidence(&analysis->reach, &analysis->lost, kinds);
    const struct mw_holder_evidence holder = mw_lost_holder(&analysis->lost);
    const struct mw_evidence evidence = {
        .image = &analysis->image,
        .account = &analysis->account,
        .allocators = analysis->allocators,
        .allocator_count = analysis->allocator_count,
        .runtimes = analysis->runtimes,
        .runtime_count = analysis->runtime_count,
        .cgroup = &analysis->cgroup,
        .family = analysis->has_family ? &analysis->family : NULL,
        .findings = &analysis->findings,
        .references = analysis->references.size_bytes ? &analysis->references : NULL,
        .leaks = has_reach ? &leaks : NULL,
        .holder = has_reach && analysis->lost.holder.size_bytes ? &holder : NULL,
        .huge = analysis->huge.size_bytes ? &analysis->huge : NULL,
        .heap_was_read = analysis->heap_was_read,
        .why_unread = unread_reason(analysis, skip_heap, &skipped),
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

/* Where an allocator would be is not there: that none was found says nothing. */
static bool core_is_too_short(const struct mw_analysis *analysis, struct mw_error *why)
{
    const struct mw_finding *cut = mw_finding_find(&analysis->image.findings, "core-truncated");
    char missing[32];
    if (analysis->image.kind != MW_IMAGE_CORE || analysis->allocator_count > 0 || !cut)
        return false;
    (void)mw_fail(why, MW_TRUNCATED,
                  "the core is cut: %s of it is missing, and no allocator is in what is left",
                  mw_bytes_format(missing, cut->bytes));
    mw_error_hint(why, "take it again with room for all of it: ulimit -c unlimited, df");
    return true;
}

/* A pin keeps resident memory: where no page of glibc's heaps is known to be resident, that none
 * was found says nothing. Pins that were found despite that count. */
static bool pins_are_unknown(const struct mw_analysis *analysis)
{
    bool is_unknown = false;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        if (allocator->pin_count > 0)
            return false;
        is_unknown |= allocator->walked && mw_allocator_is_glibc(allocator) &&
                      allocator->free_resident_bytes == MW_UNKNOWN;
    }
    return is_unknown;
}

/* A heap that was asked for and not read leaves a part of the question open. A report is whole
 * without: it accounts for every byte, and says which allocator was not looked into. */
static void unread_is_partial(struct mw_analysis *analysis,
                              const struct mw_analysis_options *options)
{
    const struct mw_allocator *allocator = unwalked_allocator(analysis);
    struct mw_error why = {0};
    if (options->skip_heap)
        return;
    if (core_is_too_short(analysis, &why)) {
        mw_analysis_partial(analysis, &why);
        return;
    }
    if (!options->heap_is_asked)
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
    } else if (options->pins_are_asked && pins_are_unknown(analysis)) {
        (void)mw_fail(&why, MW_UNSUPPORTED,
                      "no pins: which pages are resident is not known here, so neither is which "
                      "live blocks keep free memory resident");
        mw_error_hint(&why, "memwhy pins PID, of the process while it runs");
    } else {
        return;
    }
    mw_analysis_partial(analysis, &why);
}

/* Look into the huge pages that were chosen before the walk; the target runs. */
static enum mw_status huge_read(struct mw_analysis *analysis, struct mw_context *context,
                                struct mw_error *err)
{
    if (analysis->huge.size_bytes == 0)
        return MW_OK;
    if (analysis->image.kind == MW_IMAGE_LIVE)
        mw_thp_load(NULL, &analysis->huge.thp);
    return mw_huge_read(&analysis->image, &analysis->account, context, &analysis->huge, err);
}

static enum mw_status analysis_fill(struct mw_analysis *analysis,
                                    const struct mw_analysis_options *options,
                                    struct mw_context *context, struct mw_error *err)
{
    enum mw_status status = MW_OK;
    bool could_read = analysis->image.can & MW_CAN_READ;
    if (!options->skip_heap && !options->skip_verdicts)
        status = mw_huge_choose(&analysis->image, &analysis->huge, err);
    if (status != MW_OK)
        return status;
    if (!options->skip_heap && could_read)
        status = mw_heaps_examine(analysis, options, context, err);
    else if (!options->skip_heap && analysis->image.kind != MW_IMAGE_SMAPS)
        mw_analysis_partial(analysis, &analysis->image.cannot_read);
    if (status == MW_OK)
        status = claims_collect(analysis, err);
    if (!options->skip_heap && could_read && !(analysis->image.can & MW_CAN_READ))
        mw_analysis_partial(analysis, &analysis->image.cannot_read); /* it was lost meanwhile */
    if (status == MW_OK)
        status = mw_account_build(&analysis->image, &analysis->claims, &analysis->account,
                                  &analysis->findings, err);
    if (status == MW_OK)
        status = huge_read(analysis, context, err);
    if (status == MW_OK && options->read_more && analysis->heap_was_read)
        status = options->read_more(options->read_more_user, analysis, context, err);
    if (status == MW_OK)
        status = mw_image_snapshot_check(&analysis->image, err);
    mw_image_snapshot_drop(&analysis->image); /* memory is read; and it is not of the family */
    if (status == MW_OK) {
        unread_is_partial(analysis, options);
        cgroup_read(analysis, options);
    }
    if (status == MW_OK && !options->skip_verdicts)
        status = family_read(analysis, context, err);
    if (status == MW_OK && !options->skip_verdicts)
        status = verdicts_find(analysis, options->skip_heap, err);
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
    const struct mw_image_open_options open_options = {
        .proc_dir_fd = AT_FDCWD,
        .need_read = !options->skip_heap,
    };
    struct mw_image image = {0};
    *analysis_out = (struct mw_analysis){0};
    enum mw_status status = mw_image_open(target, &open_options, context, &image, err);
    if (status != MW_OK)
        return status;
    if (options->fork && image.kind != MW_IMAGE_LIVE) {
        mw_image_close(&image);
        return mw_fail(err, MW_INVALID, "only a running process can be forked: '%s' is none",
                       target);
    }
    return mw_analysis_run_image(&image, options, context, analysis_out, err);
}

enum mw_status mw_analysis_run_image(struct mw_image *image,
                                     const struct mw_analysis_options *options,
                                     struct mw_context *context, struct mw_analysis *analysis_out,
                                     struct mw_error *err)
{
    assert(image->ops && options && analysis_out);
    struct mw_error local = {0};
    if (!err)
        err = &local;
    *analysis_out = (struct mw_analysis){.image = *image, .taken_at = mw_clock_realtime_s()};
    *image = (struct mw_image){0};
    enum mw_status status = analysis_fill(analysis_out, options, context, err);
    if (status != MW_OK)
        mw_analysis_deinit(analysis_out);
    return status;
}

void mw_analysis_deinit(struct mw_analysis *analysis)
{
    mw_lost_deinit(&analysis->lost);
    mw_reach_deinit(&analysis->reach);
    mw_verdicts_deinit(&analysis->verdicts);
    mw_account_deinit(&analysis->account);
    mw_huge_deinit(&analysis->huge);
    mw_claims_deinit(&analysis->claims);
    for (size_t i = 0; i < analysis->allocator_count; i++)
        mw_allocator_deinit(&analysis->allocators[i]);
    mw_findings_deinit(&analysis->findings);
    mw_image_close(&analysis->image);
    *analysis = (struct mw_analysis){0};
}
