/* base/context.h: what is passed down to long work: cancel, progress, memory budget, pauses,
 * workers. No globals: two analyses run side by side with two contexts. */
#ifndef MW_BASE_CONTEXT_H
#define MW_BASE_CONTEXT_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mw_context {
    atomic_bool canceled; /* set from a signal handler or another thread */

    /* Called now and then from long work, at most every 100 ms; NULL: nobody listens. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
    uint64_t progress_last_ns;

    uint64_t memory_budget_bytes; /* the largest working set an analysis may build; 0: no bound */
    uint64_t pause_ns_max;        /* how long one stop of the target may last */
    unsigned workers;             /* threads that a parallel step may use; at least 1 */
};

/* Defaults: no progress, budget 0, 100 ms, workers = CPUs this process may use, at most 8. */
void mw_context_init(struct mw_context *context);

static inline bool mw_context_canceled(const struct mw_context *context)
{
    return context && atomic_load_explicit(&context->canceled, memory_order_relaxed);
}

void mw_context_progress(struct mw_context *context, const char *what, uint64_t done,
                         uint64_t total);

#endif
