/* base/context.c: defaults and throttled progress. */
#include "base/context.h"

#include "base/clock.h"
#include "base/workers.h"

#include <sched.h>
#include <stddef.h>

static const uint64_t PROGRESS_STEP_NS = 100000000u;

void mw_context_init(struct mw_context *context)
{
    *context = (struct mw_context){.pause_ns_max = 100000000u, .workers = 1};
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        int count = CPU_COUNT(&allowed);
        context->workers = count > 0 ? (unsigned)count : 1;
        context->workers = mw_workers_allowed(context);
    }
}

void mw_context_progress(struct mw_context *context, const char *what, uint64_t done,
                         uint64_t total)
{
    if (!context || !context->progress)
        return;
    uint64_t now = mw_clock_monotonic_ns();
    if (now - context->progress_last_ns < PROGRESS_STEP_NS)
        return;
    context->progress_last_ns = now;
    context->progress(context->progress_user, what, done, total);
}
