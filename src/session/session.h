/* session/session.h: one analysis of one target: the wiring from an image to verdicts. */
#ifndef MW_SESSION_SESSION_H
#define MW_SESSION_SESSION_H

#include "account/account.h"
#include "account/huge.h"
#include "base/context.h"
#include "graph/reach.h"
#include "graph/references.h"
#include "heap/walker.h"
#include "image/image.h"
#include "proc/cgroup.h"
#include "proc/family.h"
#include "runtime/probe.h"
#include "session/lost.h"
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
    struct mw_family family; /* whom it was forked with, where it shares memory with them */
    bool has_family;
    struct mw_verdicts verdicts;
    struct mw_findings findings;
    struct mw_huge huge;             /* what of huge pages was never used */
    struct mw_references references; /* to the blocks of the size that holds the most */
    struct mw_reach reach;           /* which blocks something points to, where that was asked */
    struct mw_lost lost;             /* what the others are */
    bool heap_was_read;
    bool is_partial;             /* part of the question stays unanswered: exit 4 */
    struct mw_error why_partial; /* text and hint */
    int64_t taken_at;            /* Unix seconds */
};

enum mw_reach_wish {
    MW_REACH_NONE,
    MW_REACH_IF_EXACT, /* where it can be told of one moment: a core, --fork, one short stop */
    MW_REACH_ASKED,    /* always; else the answer is partial */
};

struct mw_analysis_options {
    bool skip_heap; /* mapping level only */
    bool skip_verdicts;
    bool fork;          /* read a forked copy of a live target instead of the target */
    bool heap_is_asked; /* the question is the heap: an answer without one is partial */
    enum mw_reach_wish reach;
    const struct mw_suppressions *suppressions; /* kinds of leak to leave out; NULL: none */
    bool pins_are_asked; /* and so is none where resident pages are what decides */
    struct mw_heap_options heap;
    /* Called when the heap was walked and the account is made, while a forked copy is still there
     * to be read; NULL: nothing more is to be read. A status other than MW_OK ends the analysis. */
    enum mw_status (*read_more)(void *user, struct mw_analysis *analysis,
                                struct mw_context *context, struct mw_error *err);
    void *read_more_user;
    const char *cgroup_root; /* tests; NULL: the system's */
};

/* Open and analyse. On failure nothing is left to release. */
enum mw_status mw_analysis_run(const char *target, const struct mw_analysis_options *options,
                               struct mw_context *context, struct mw_analysis *analysis_out,
                               struct mw_error *err) MW_MUST_CHECK;

/* The same of an image that is open already. The image is taken over, on failure too: *image is
 * then empty. */
enum mw_status mw_analysis_run_image(struct mw_image *image,
                                     const struct mw_analysis_options *options,
                                     struct mw_context *context, struct mw_analysis *analysis_out,
                                     struct mw_error *err) MW_MUST_CHECK;

void mw_analysis_deinit(struct mw_analysis *analysis);

#endif
