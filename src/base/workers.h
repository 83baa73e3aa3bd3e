/* base/workers.h: a step that several threads do at the same time, each on a state of its own. */
#ifndef MW_BASE_WORKERS_H
#define MW_BASE_WORKERS_H

#include "base/context.h"

#include <stddef.h>

enum { MW_WORKERS_MAX = 8 };

/* How many threads a parallel step may use: 1 to MW_WORKERS_MAX; 1 without a context. */
unsigned mw_workers_allowed(const struct mw_context *context);

/* Call run once with each of the `count` states (1 to MW_WORKERS_MAX) of `size` bytes from
 * `states` on, side by side, and return when all calls have. The first call is made by this thread,
 * and so is that of a thread that cannot be made, afterwards: a step must not wait for another. */
void mw_workers_run(void (*run)(void *state), void *states, size_t size, size_t count);

#endif
