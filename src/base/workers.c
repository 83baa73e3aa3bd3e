/* base/workers.c: threads for the length of one step. They are few and short, so none are kept. */
#include "base/workers.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

struct call {
    void (*run)(void *state);
    void *state;
    pthread_t thread;
    bool has_thread;
};

static void *call_make(void *argument)
{
    const struct call *call = argument;
    call->run(call->state);
    return NULL;
}

unsigned mw_workers_allowed(const struct mw_context *context)
{
    if (!context || context->workers < 1)
        return 1;
    return context->workers < MW_WORKERS_MAX ? context->workers : MW_WORKERS_MAX;
}

void mw_workers_run(void (*run)(void *state), void *states, size_t size, size_t count)
{
    struct call calls[MW_WORKERS_MAX];
    assert(count >= 1 && count <= MW_WORKERS_MAX);
    for (size_t i = 0; i < count; i++) {
        calls[i] = (struct call){.run = run, .state = (char *)states + i * size};
        calls[i].has_thread =
            i > 0 && pthread_create(&calls[i].thread, NULL, call_make, &calls[i]) == 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!calls[i].has_thread)
            call_make(&calls[i]);
    for (size_t i = 0; i < count; i++)
        if (calls[i].has_thread)
            pthread_join(calls[i].thread, NULL);
}
