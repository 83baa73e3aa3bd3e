/* session/session.h: one analysis of one target: the wiring from an image to verdicts. */
#ifndef MW_SESSION_SESSION_H
#define MW_SESSION_SESSION_H

#include "account/account.h"
#include "base/context.h"
#include "graph/references.h"
#include "heap/walker.h"
#include "image/image.h"
#include "proc/cgroup.h"
#include "runtime/probe.h"
#include "verdict/verdict.h"

enum { MW_ALLOCATORS_MAX = 8 };

struct mw_analysis {
    struct mw_image image;
    struct mw_claims claims;
    struct mw_account account;
    struct mw_allocator allocators[MW_ALLOCATORS_MAX];
    size_t allocator_count;
    struct mw_runtime runtimes[MW_RUNTIMES_MAX];
    size_t runtime_count;
    struct mw_cgroup cgroup;
    struct mw_verdicts verdicts;
    struct mw_findings findings;
    struct mw_references references; /* to the blocks of the size that holds the most */
    bool heap_was_read;
    bool is_partial;             /* part of the question stays unanswered: exit 4 */
    struct mw_error why_partial; /* text and hint */
    int64_t taken_at;            /* Unix seconds */
};

struct mw_analysis_options {
    bool skip_heap; /* mapping level only */
    bool skip_verdicts;
    bool heap_is_asked; /* the question is the heap: an answer without one is partial */
    struct mw_heap_options heap;
    const char *cgroup_root; /* tests; NULL: the system's */
};

/* Open and analyse. On failure nothing is left to release. */
enum mw_status mw_analysis_run(const char *target, const struct mw_analysis_options *options,
                               struct mw_context *context, struct mw_analysis *analysis_out,
                               struct mw_error *err) MW_MUST_CHECK;

void mw_analysis_deinit(struct mw_analysis *analysis);

#endif
