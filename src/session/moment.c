/* session/moment.c: an analysis with its blocks, reduced to what a later one is compared with. */
#include "session/moment.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "session/knowledge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct taking {
    struct mw_blocks *blocks;
    struct mw_moment *moment;
    struct mw_block_teller teller;
};

static int layout_compare(const void *a, const void *b)
{
    const struct mw_kind_layout *left = a, *right = b;
    return left->size_bytes < right->size_bytes ? -1 : left->size_bytes > right->size_bytes;
}

static enum mw_status tell(void *user, struct mw_analysis *analysis,
                           const struct mw_block_groups *groups,
                           struct mw_block_knowledge *knowledge, struct mw_error *err)
{
    struct taking *taking = user;
    size_t count = 0;
    enum mw_status status = mw_block_teller_tell(&taking->teller, analysis, groups, knowledge, err);
    if (status != MW_OK || groups->count == 0)
        return status;
    struct mw_kind_layout *layouts = mw_calloc(groups->count, sizeof *layouts);
    if (!layouts)
        return mw_fail(err, MW_NOMEM, "out of memory");
    for (size_t i = 0; i < groups->count; i++)
        if (knowledge[i].layout)
            layouts[count++] =
                (struct mw_kind_layout){groups->items[i].size_bytes, knowledge[i].layout};
    qsort(layouts, count, sizeof *layouts, layout_compare);
    const struct mw_block_group *first = &groups->items[0];
    const struct mw_kinds_input input = {
        .image = &analysis->image,
        .list = &taking->blocks->list,
        .reach = mw_reach_is_exact(&analysis->reach) ? &analysis->reach : NULL,
        .layouts = layouts,
        .layout_count = count,
        .overhead_bytes = first->size_bytes - first->usable_bytes,
        .context = taking->teller.context,
    };
    status = mw_kinds_count(&input, &taking->moment->kinds, &taking->moment->kind_count, err);
    free(layouts);
    return status;
}

/* When a file was written, which for a core mostly is when it was taken. */
static void time_set(struct mw_moment *moment, const struct mw_analysis *analysis,
                     const char *target)
{
    struct stat info = {0};
    struct timespec at = {0};
    if (analysis->image.kind == MW_IMAGE_LIVE) {
        clock_gettime(CLOCK_REALTIME, &at);
    } else if (stat(target, &info) == 0 && S_ISREG(info.st_mode)) {
        at = info.st_mtim;
        moment->is_file_time = true;
    }
    moment->taken_at = (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static bool is_whole(const struct mw_analysis *analysis)
{
    bool is_walked = analysis->heap_was_read && analysis->allocator_count > 0;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        is_walked &= analysis->allocators[i].walked;
    return is_walked;
}

static void account_keep(struct mw_moment *moment, const struct mw_account *account)
{
    moment->rss_bytes = account->has_rss ? account->rss_bytes : MW_UNKNOWN;
    for (int i = 0; i < MW_CATEGORY_COUNT; i++) {
        moment->categories[i].resident_bytes = account->has_rss ? account->rows[i].rss_bytes : 0;
        moment->categories[i].mapped_bytes = account->rows[i].size_bytes;
        moment->categories[i].count = account->rows[i].count;
    }
}

static void head_set(struct mw_moment_head *head, const struct mw_analysis *analysis,
                     const char *target)
{
    const char *slash = strrchr(target, '/');
    const char *name = analysis->image.kind == MW_IMAGE_LIVE ? analysis->image.process.comm
                       : slash                               ? slash + 1
                                                             : target;
    *head = (struct mw_moment_head){.is_partial = analysis->is_partial,
                                    .why_partial = analysis->why_partial};
    snprintf(head->title, sizeof head->title, "%.*s", (int)sizeof head->title - 1, name);
}

enum mw_status mw_moment_take(const char *target, const struct mw_analysis_options *options,
                              struct mw_context *context, struct mw_moment *moment_out,
                              struct mw_moment_head *head_out, struct mw_error *err)
{
    struct mw_blocks blocks;
    struct mw_analysis analysis;
    struct mw_moment moment = {0};
    struct taking taking = {&blocks, &moment, {.context = context}};
    const struct mw_analysis_options wanted = {
        .skip_heap = options->skip_heap,
        .skip_verdicts = true,
        .fork = options->fork,
        .reach = MW_REACH_IF_EXACT,
        .heap.sample_arenas = MW_SAMPLE_ALL,
        .cgroup_root = options->cgroup_root,
    };
    const struct mw_blocks_options blocks_options = {.tell = tell, .tell_user = &taking};
    enum mw_status status =
        mw_blocks_run(target, &wanted, &blocks_options, context, &analysis, &blocks, err);
    mw_block_teller_deinit(&taking.teller);
    if (status != MW_OK) {
        mw_moment_deinit(&moment);
        return status;
    }
    moment.sizes = blocks.groups;
    blocks.groups = (struct mw_block_groups){0};
    moment.list = blocks.list;
    blocks.list = (struct mw_block_list){0};
    moment.pid = analysis.image.process.pid;
    moment.has_heap = is_whole(&analysis);
    moment.knows_lost = moment.kind_count > 0 && moment.kinds[0].lost_count != MW_UNKNOWN;
    moment.at_random = analysis.image.at_random;
    moment.vdso = analysis.image.vdso;
    moment.entry = analysis.image.entry;
    account_keep(&moment, &analysis.account);
    time_set(&moment, &analysis, target);
    head_set(head_out, &analysis, target);
    mw_blocks_deinit(&blocks);
    mw_analysis_deinit(&analysis);
    *moment_out = moment;
    return MW_OK;
}

enum mw_status mw_moment_wait(uint64_t ns, struct mw_context *context, struct mw_error *err)
{
    enum { STEP_NS = 50000000 };
    const uint64_t start = mw_clock_monotonic_ns();
    for (uint64_t gone = 0; gone < ns; gone = mw_clock_monotonic_ns() - start) {
        const uint64_t left = ns - gone;
        if (mw_context_canceled(context))
            return mw_fail(err, MW_CANCELED, "canceled");
        mw_context_progress(context, "waiting", gone / 1000000, ns / 1000000);
        nanosleep(&(struct timespec){.tv_nsec = (long)(left < STEP_NS ? left : STEP_NS)}, NULL);
    }
    return MW_OK;
}
