/* tests/unit/test_live_call_kills.c: memwhy dies while it calls a function in a live process.
 *
 * At random moments, and before and after every system call by which it touches the target. The
 * fixture (tests/fixtures/selfcheck.c) checks itself; here it is asked whether it noticed.
 * MEMWHY_TEST_KILLS is the number of random kills, default 200. */
#include "image/live_call.h"

#include "selfcheck_target.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void call_probe(struct target *target)
{
    struct mw_live_call_request request = {
        .function = target->shared->probe, .args = PROBE_ARGS, .args_count = 3};
    struct mw_live_call_result result;
    if (mw_live_call(target->pid, &request, &result, NULL) != MW_OK)
        sleep_us(100);
}

static void test_kills(void **state)
{
    (void)state;
    int kills = kills_wanted();
    unsigned seed = 20261130;
    uint64_t calls = 0;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        const struct kill_mode *mode = &kill_modes[m];
        struct target target = target_start(mode->name);
        uint64_t mask = target_mask(&target);
        long duration_us = act_duration_us(&target, call_probe);
        for (int i = 0; i < kills / (int)kill_mode_count + 1; i++) {
            kill_at_random(&target, call_probe, duration_us, &seed);
            assert_survived(&target, mode, mask, i);
        }
        assert_no_eintr(&target, mode);
        calls += target.shared->called;
        target_stop(&target);
    }
    print_message("# %d kills, %" PRIu64 " calls ended\n", kills, calls);
    assert_true(calls > 0);
}

/* memwhy acts on the target through a few system calls only, so dying before and after each of them
 * is dying at any instruction. */
static void test_kill_at_every_step(void **state)
{
    (void)state;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        const struct kill_mode *mode = &kill_modes[m];
        struct target target = target_start(mode->name);
        uint64_t mask = target_mask(&target);
        int step = 0;
        while (kill_at_step(&target, call_probe, step)) {
            assert_survived(&target, mode, mask, step);
            step++;
            assert_true(step < 200);
        }
        assert_true(step > 10);
        assert_no_eintr(&target, mode);
        print_message("# %s: %d steps, %" PRIu64 " calls ended\n", mode->name, step,
                      target.shared->called);
        target_stop(&target);
    }
}

/* Signals in a numbered row while memwhy is killed again and again: none is lost or doubled. */
static void test_kills_lose_no_signal(void **state)
{
    (void)state;
    struct target target = target_start("signals");
    unsigned seed = 7;
    int sent = 0;
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (;;)
                call_probe(&target);
        }
        for (int i = 0; i < 20; i++) {
            target_signal(&target, ++sent);
            sleep_us(rand_r(&seed) % 300);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    assert_true(wait_until(target.shared->handled == (uint64_t)sent));
    assert_int_equal(target.shared->eintr_alone, 0);
    assert_true(status_has(target.pid, "TracerPid:\t0\n"));
    assert_healthy(&target);
    target_stop(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_kill_at_every_step),
        cmocka_unit_test(test_kills_lose_no_signal),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_call_kills", tests, NULL, NULL);
}
