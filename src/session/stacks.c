/* session/stacks.c: see stacks.h. Nothing of the target but registers, stacks and the headers of
 * its modules is read. */
#include "session/stacks.h"

#include "base/clock.h"
#include "image/open.h"
#include "symbol/elfutils.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

static void because(struct mw_analysis *analysis, const char *hint, const char *fmt, ...)
    MW_PRINTF(3, 4);
static void because(struct mw_analysis *analysis, const char *hint, const char *fmt, ...)
{
    va_list ap;
    analysis->is_partial = true;
    analysis->why_partial = (struct mw_error){.code = MW_NOT_FOUND};
    va_start(ap, fmt);
    vsnprintf(analysis->why_partial.text, sizeof analysis->why_partial.text, fmt, ap);
    va_end(ap);
    mw_error_hint(&analysis->why_partial, "%s", hint);
}

static const char *hint_of(enum mw_stack_end end)
{
    if (!mw_elfutils())
        return mw_elfutils_remedy();
    switch (end) {
    case MW_STACK_NO_RULES:
        return "debug files of the modules may help: --symbols DIR";
    case MW_STACK_TOO_DEEP:
        return "the innermost 256 frames are shown: a recursion is most likely";
    case MW_STACK_NO_REGISTERS:
    case MW_STACK_NOT_READ:
        return "try again in a moment";
    default:
        return "the stack may be damaged: memwhy stacks TARGET --json has its addresses";
    }
}

/* A stack that ends early is a part of the question that stays unanswered. */
static void conclude(struct mw_stacks_analysis *analysis)
{
    size_t cut = 0, first = 0;
    for (size_t i = 0; i < analysis->stacks.count; i++) {
        if (analysis->stacks.items[i].end == MW_STACK_WHOLE)
            continue;
        if (cut++ == 0)
            first = i;
    }
    if (analysis->stacks.count == 0)
        because(&analysis->base, "a core of gcore or of the kernel has them",
                "no threads with registers are known");
    if (cut == 0)
        return;
    const struct mw_stack *stack = &analysis->stacks.items[first];
    const char *hint = hint_of(stack->end);
    const char *are = cut == 1 ? "is" : "are";
    if (!mw_elfutils())
        because(&analysis->base, hint, "%zu of %zu stacks %s not whole: %s", cut,
                analysis->stacks.count, are, mw_elfutils_missing());
    else
        because(&analysis->base, hint, "%zu of %zu stacks %s not whole: of thread %d it %s", cut,
                analysis->stacks.count, are, stack->tid, mw_stack_end_text(stack->end));
}

enum mw_status mw_stacks_run(const char *target, const struct mw_names_options *options,
                             struct mw_context *context, struct mw_stacks_analysis *analysis_out,
                             struct mw_error *err)
{
    const struct mw_image_open_options open_options = {
        .proc_dir_fd = AT_FDCWD,
        .need_read = true,
    };
    *analysis_out = (struct mw_stacks_analysis){.base.taken_at = mw_clock_realtime_s()};
    struct mw_image *image = &analysis_out->base.image;
    enum mw_status status = mw_image_open(target, &open_options, context, image, err);
    if (status != MW_OK)
        return status;
    status = mw_names_open(image, options, context, &analysis_out->names, err);
    if (status == MW_OK)
        status = mw_stacks_collect(image, analysis_out->names, context, &analysis_out->stacks, err);
    if (status == MW_OK)
        status = mw_stacks_group(&analysis_out->stacks, &analysis_out->groups, err);
    if (status != MW_OK) {
        mw_stacks_analysis_deinit(analysis_out);
        return status;
    }
    conclude(analysis_out);
    return MW_OK;
}

void mw_stacks_analysis_deinit(struct mw_stacks_analysis *analysis)
{
    mw_stack_groups_deinit(&analysis->groups);
    mw_stacks_deinit(&analysis->stacks);
    mw_names_free(analysis->names);
    mw_analysis_deinit(&analysis->base);
    *analysis = (struct mw_stacks_analysis){0};
}
