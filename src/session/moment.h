/* session/moment.h: taking a moment of a target, to be compared with another. */
#ifndef MW_SESSION_MOMENT_H
#define MW_SESSION_MOMENT_H

#include "growth/difference.h"
#include "session/session.h"

/* What the document and the screen say of a moment beside its figures. */
struct mw_moment_head {
    char title[256]; /* "java", or the name of a file: the target's text */
    bool is_partial; /* a part of the target could not be read */
    struct mw_error why_partial;
};

/* Open, analyse and close the target. Of options only fork, skip_heap, cgroup_root and
 * heap.sample_arenas are used; what is reachable is asked where it is exact. As mw_blocks_run(). */
enum mw_status mw_moment_take(const char *target, const struct mw_analysis_options *options,
                              struct mw_context *context, struct mw_moment *moment_out,
                              struct mw_moment_head *head_out, struct mw_error *err) MW_MUST_CHECK;

/* Sleep. MW_CANCELED. */
enum mw_status mw_moment_wait(uint64_t ns, struct mw_context *context,
                              struct mw_error *err) MW_MUST_CHECK;

#endif
