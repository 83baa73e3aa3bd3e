/* session/stacks.h: the stacks of all threads of one target: the wiring from an image to groups. */
#ifndef MW_SESSION_STACKS_H
#define MW_SESSION_STACKS_H

#include "session/session.h"
#include "symbol/names.h"
#include "threads/unwind.h"

struct mw_stacks_analysis {
    struct mw_analysis base; /* the image, findings and whether it is whole; no account, no heap */
    struct mw_names *names;  /* for the emitters: frames are named when they are printed */
    struct mw_stacks stacks;
    struct mw_stack_groups groups;
};

/* Open, read under as few stops as --max-pause allows, unwind, group. Partial when a stack could
 * not be unwound to its end. On failure nothing is left to release. */
enum mw_status mw_stacks_run(const char *target, const struct mw_names_options *options,
                             struct mw_context *context, struct mw_stacks_analysis *analysis_out,
                             struct mw_error *err) MW_MUST_CHECK;
void mw_stacks_analysis_deinit(struct mw_stacks_analysis *analysis);

#endif
