/* tests/unit/test_live_fork_kills.c: memwhy dies while it forks a live process.
 *
 * At random moments, and before and after the system calls by which it acts on the target, the
 * helper or the copy. The fixture (tests/fixtures/selfcheck.c) checks itself; orphans come to this
 * test, so that a copy that lives on is seen. MEMWHY_TEST_KILLS is the number of random kills,
 * default 200; from 1000 on every step is taken in every state. */
#include "image/live_fork.h"

#include "selfcheck_target.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STRIDE = 7 };

static const struct mw_mapping_list no_regions;
static const struct mw_live_fork_request plain = {.regions = &no_regions, .names = true};

/* Processes whose parent is pid. */
static unsigned children_count(pid_t pid)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[300], text[512], *bracket;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        int fd = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0)
            close(fd);
        text[got > 0 ? got : 0] = '\0';
        if ((bracket = strrchr(text, ')')) && atoi(bracket + 4) == pid)
            count++;
    }
    closedir(dir);
    return count;
}

/* Whoever was forked off the target and lost its parent came to us. Collect them: true when only
 * the target is left, which takes a moment after memwhy's death. */
static bool copies_are_gone(pid_t target)
{
    uint64_t until = now_ns() + 3000000000ull;
    unsigned count;
    do {
        siginfo_t info = {0};
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
               info.si_pid != 0 && info.si_pid != target)
            waitpid(info.si_pid, NULL, __WALL);
        count = children_count(getpid());
    } while (count > 1 && now_ns() < until);
    return count == 1;
}

/* ---- killing ---- */

static void fork_probe(struct target *target)
{
    struct mw_live_fork *fork;
    if (mw_live_fork_begin(target->pid, &plain, &fork, NULL) == MW_OK)
        mw_live_fork_end(fork);
}

static void assert_unharmed(struct target *target, const struct kill_mode *mode, uint64_t mask,
                            int round)
{
    assert_survived(target, mode, mask, round);
    if (!wait_until(children_count(target->pid) == 0)) /* the helper is on its way out */
        fail_msg("%s: a child is left after kill %d", mode->name, round);
    if (!copies_are_gone(target->pid))
        fail_msg("%s: a copy is left after kill %d", mode->name, round);
}

static void test_kills(void **state)
{
    (void)state;
    int kills = kills_wanted();
    unsigned seed = 20261130;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        const struct kill_mode *mode = &kill_modes[m];
        struct target target = target_start(mode->name);
        uint64_t mask = target_mask(&target);
        long duration_us = act_duration_us(&target, fork_probe);
        for (int i = 0; i < kills / (int)kill_mode_count + 1; i++) {
            kill_at_random(&target, fork_probe, duration_us, &seed);
            assert_unharmed(&target, mode, mask, i);
        }
        assert_no_eintr(&target, mode);
        target_stop(&target);
    }
}

/* All steps in the three states that differ most; in all states when many kills are wanted. */
static bool every_step(const char *name)
{
    return kills_wanted() >= 1000 || strcmp(name, "burn") == 0 || strcmp(name, "read") == 0 ||
           strcmp(name, "sigsuspend") == 0;
}

/* Before and after each system call by which memwhy acts on the target, the helper or the copy. */
static void test_kill_at_every_step(void **state)
{
    (void)state;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        const struct kill_mode *mode = &kill_modes[m];
        struct target target = target_start(mode->name);
        uint64_t mask = target_mask(&target);
        int step = 0, stride = every_step(mode->name) ? 1 : STRIDE;
        while (kill_at_step(&target, fork_probe, step)) {
            assert_unharmed(&target, mode, mask, step);
            step += stride;
            assert_true(step < 400);
        }
        assert_true(step > 40);
        assert_no_eintr(&target, mode);
        print_message("# %s: %d steps, stride %d\n", mode->name, step, stride);
        target_stop(&target);
    }
}

/* Signals in a numbered row while it is forked, and memwhy killed, again and again. */
static void test_signals(void **state)
{
    (void)state;
    struct target target = target_start("signals");
    unsigned seed = 7;
    int sent = 0;
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                fork_probe(&target);
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
    assert_true(copies_are_gone(target.pid));
    target_stop(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_kill_at_every_step),
        cmocka_unit_test(test_signals),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_fork_kills", tests, NULL, NULL);
}
