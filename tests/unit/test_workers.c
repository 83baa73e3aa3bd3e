/* tests/unit/test_workers.c: each state is worked on once, whatever the number of threads. */
#include "base/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

struct state {
    atomic_int *next;
    int calls, taken;
};

enum { ITEMS = 1000 };

static void state_run(void *argument)
{
    struct state *state = argument;
    state->calls++;
    while (atomic_fetch_add(state->next, 1) < ITEMS)
        state->taken++;
}

static void test_each_state_once(void **unused)
{
    (void)unused;
    for (size_t count = 1; count <= MW_WORKERS_MAX; count++) {
        atomic_int next = 0;
        struct state states[MW_WORKERS_MAX];
        int taken = 0;
        for (size_t i = 0; i < MW_WORKERS_MAX; i++)
            states[i] = (struct state){.next = &next};
        mw_workers_run(state_run, states, sizeof *states, count);
        for (size_t i = 0; i < MW_WORKERS_MAX; i++) {
            assert_int_equal(states[i].calls, i < count);
            taken += states[i].taken;
        }
        assert_int_equal(taken, ITEMS);
    }
}

static void test_allowed(void **unused)
{
    (void)unused;
    struct mw_context context;
    mw_context_init(&context);
    assert_in_range(mw_workers_allowed(&context), 1, MW_WORKERS_MAX);
    assert_int_equal(mw_workers_allowed(NULL), 1);
    context.workers = 0;
    assert_int_equal(mw_workers_allowed(&context), 1);
    context.workers = 1000;
    assert_int_equal(mw_workers_allowed(&context), MW_WORKERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_state_once),
        cmocka_unit_test(test_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
