/* tests/unit/test_live_freeze.c: holding all threads of a process still.
 *
 * Truth is what a process counts in shared memory: between begin and end no counter may move, and
 * afterwards all of them do. MEMWHY_TEST_KILLS is the number of random kills, default 200. */
#include "image/live_freeze.h"

#include "selfcheck_target.h"

#include <inttypes.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY_THREADS = 1000, CHURNERS = 4, CHURN_STOPS = 3000, COUNTERS = 8 };

/* Counted by a process made here. */
struct counts {
    _Atomic uint64_t ready, counter[COUNTERS], threads_made, eintr;
    _Atomic uint32_t stop;
};

static struct counts *counts_new(void)
{
    void *room = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    return room;
}

static pid_t process_start(struct counts *counts, void (*run)(struct counts *))
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(300);
        run(counts);
        _exit(0);
    }
    assert_true(wait_until(counts->ready));
    return pid;
}

static void process_stop(pid_t pid, struct counts *counts)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    munmap(counts, sizeof *counts);
}

static struct mw_live_freeze *assert_frozen(pid_t pid, const struct mw_live_freeze_options *options)
{
    /* On a busy machine a thread may take long to be served and arrive. */
    const struct mw_live_freeze_options patient = {.arrive_ns = 5000000000u};
    struct mw_error err = {0};
    struct mw_live_freeze *freeze = NULL;
    if (mw_live_freeze_begin(pid, options ? options : &patient, &freeze, &err) != MW_OK)
        fail_msg("cannot freeze: %s", err.text);
    return freeze;
}

static void assert_untraced(pid_t pid)
{
    struct target target = {.pid = pid};
    assert_true(status_has(target.pid, "TracerPid:\t0\n"));
}

/* No counter moves while it is frozen, every one that moved before moves on afterwards. */
static void assert_still(const struct counts *counts, size_t used)
{
    uint64_t before[COUNTERS];
    for (size_t i = 0; i < used; i++)
        before[i] = counts->counter[i];
    sleep_us(5000);
    for (size_t i = 0; i < used; i++)
        assert_int_equal(counts->counter[i], before[i]);
}

static void assert_moving(const struct counts *counts, size_t used)
{
    for (size_t i = 0; i < used; i++) {
        uint64_t before = counts->counter[i];
        assert_true(wait_until(counts->counter[i] > before));
    }
}

static void test_one_thread(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_freeze_options options = {.names = true};
    struct mw_live_freeze_end end;
    struct mw_live_freeze *freeze = assert_frozen(target.pid, &options);
    assert_int_equal(freeze->thread_count, 1);
    assert_int_equal(freeze->asleep_count, 0);
    assert_true(freeze->is_counted);
    const struct mw_thread *thread = &freeze->threads[0];
    assert_int_equal(thread->tid, target.pid);
    assert_string_equal(thread->name, "selfcheck");
    assert_true(thread->has_registers);
    assert_true(thread->pc != 0 && thread->sp != 0 && thread->tp != 0);
    target_poke(&target);
    sleep_us(3000);
    assert_int_equal(target.shared->progress, 1);
    mw_live_freeze_end(freeze, &end);
    assert_false(end.expired);
    assert_true(end.pause_ns >= 3000000 && end.pause_ns < 3000000000);
    assert_true(wait_until(target.shared->progress == 2));
    assert_int_equal(target.shared->eintr, 0);
    assert_untraced(target.pid);
    assert_healthy(&target);
    target_stop(&target);
}

/* ---- threads that appear and go ------------------------------------------------------------- */

static struct counts *current;

static void *short_life(void *unused)
{
    uint64_t until = now_ns() + 200000;
    atomic_fetch_add(&current->threads_made, 1);
    while (now_ns() < until)
        atomic_fetch_add(&current->counter[CHURNERS], 1);
    return unused;
}

/* Makes threads without a break; each lives 0.2 ms. */
static void *churn(void *argument)
{
    size_t index = (size_t)(uintptr_t)argument;
    while (!current->stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_life, NULL) == 0)
            pthread_detach(thread);
        usleep(50);
        atomic_fetch_add(&current->counter[index], 1);
    }
    return NULL;
}

static void run_churn(struct counts *counts)
{
    pthread_t threads[CHURNERS];
    current = counts;
    for (size_t i = 1; i < CHURNERS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    counts->ready = 1;
    churn(NULL);
}

static void test_threads_that_appear_and_go(void **state)
{
    (void)state;
    struct counts *counts = counts_new();
    pid_t pid = process_start(counts, run_churn);
    int slips = 0, uncounted = 0;
    for (int i = 0; i < CHURN_STOPS; i++) {
        struct mw_live_freeze *freeze = assert_frozen(pid, NULL);
        uint64_t made = counts->threads_made, spun = counts->counter[CHURNERS];
        assert_true(freeze->thread_count >= CHURNERS);
        for (size_t t = 1; t < freeze->thread_count; t++)
            assert_true(freeze->threads[t - 1].tid < freeze->threads[t].tid);
        if (i % 300 == 0)
            assert_still(counts, CHURNERS + 1);
        sleep_us(100);
        slips += counts->threads_made != made || counts->counter[CHURNERS] != spun;
        uncounted += !freeze->is_counted;
        mw_live_freeze_end(freeze, NULL);
        sleep_us(i * 17 % 900);
    }
    print_message("# %d of %d stops missed a thread, %d without proof\n", slips, CHURN_STOPS,
                  uncounted);
    assert_int_equal(slips, 0);
    assert_int_equal(uncounted, 0);
    assert_moving(counts, CHURNERS);
    assert_untraced(pid);
    process_stop(pid, counts);
}

/* ---- many ----------------------------------------------------------------------------------- */

static void *wait_for_ever(void *unused)
{
    atomic_fetch_add(&current->threads_made, 1);
    pause();
    return unused;
}

static void run_many(struct counts *counts)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    current = counts;
    for (int i = 0; i < MANY_THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, wait_for_ever, NULL) != 0)
            _exit(1);
    }
    while (counts->threads_made < MANY_THREADS)
        usleep(1000);
    counts->ready = 1;
    for (;;) {
        atomic_fetch_add(&counts->counter[0], 1);
        usleep(100);
    }
}

static void test_many_threads(void **state)
{
    (void)state;
    struct counts *counts = counts_new();
    pid_t pid = process_start(counts, run_many);
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct mw_live_freeze_end end;
        struct mw_live_freeze *freeze = assert_frozen(pid, NULL);
        assert_int_equal(freeze->thread_count, MANY_THREADS + 1);
        assert_true(freeze->is_counted);
        for (size_t t = 0; t < freeze->thread_count; t++)
            assert_true(freeze->threads[t].has_registers);
        mw_live_freeze_end(freeze, &end);
        if (end.pause_ns < best_ns)
            best_ns = end.pause_ns;
    }
    print_message("# %d threads: pause %.1f ms\n", MANY_THREADS, (double)best_ns / 1e6);
    assert_true(best_ns < 500000000);
    assert_moving(counts, 1);
    process_stop(pid, counts);
}

/* ---- states --------------------------------------------------------------------------------- */

/* Every state of the fixture is frozen again and again, and goes on as if nothing had been. */
static void test_states(void **state)
{
    (void)state;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        struct target target = target_start(kill_modes[m].name);
        uint64_t mask = target_mask(&target);
        for (int i = 0; i < 10; i++) {
            struct mw_live_freeze *freeze = assert_frozen(target.pid, NULL);
            mw_live_freeze_end(freeze, NULL);
            assert_survived(&target, &kill_modes[m], mask, i);
        }
        if (strcmp(kill_modes[m].name, "epoll-timeout") != 0)
            assert_int_equal(target.shared->eintr_alone, 0);
        target_stop(&target);
    }
}

static void test_first_thread_ended(void **state)
{
    (void)state;
    struct target target = target_start("leader-gone");
    struct mw_live_freeze *freeze = assert_frozen(target.pid, NULL);
    assert_int_equal(freeze->thread_count, 1);
    assert_int_not_equal(freeze->threads[0].tid, target.pid);
    assert_true(freeze->is_counted); /* the first one, dead, is in the count */
    mw_live_freeze_end(freeze, NULL);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    target_stop(&target);
}

/* Stopped by job control before, during and after. */
static void test_job_control(void **state)
{
    (void)state;
    struct target target = target_start("read");
    kill(target.pid, SIGSTOP);
    assert_true(wait_until(status_has(target.pid, "State:\tT (stopped)")));
    struct mw_live_freeze *freeze = assert_frozen(target.pid, NULL);
    assert_true(freeze->threads[0].has_registers);
    mw_live_freeze_end(freeze, NULL);
    assert_true(wait_until(status_has(target.pid, "State:\tT (stopped)")));
    uint64_t progress = target.shared->progress;
    target_poke(&target);
    sleep_us(5000);
    assert_int_equal(target.shared->progress, progress);
    kill(target.pid, SIGCONT);
    assert_true(wait_until(target.shared->progress == 2));

    freeze = assert_frozen(target.pid, NULL);
    kill(target.pid, SIGSTOP);
    mw_live_freeze_end(freeze, NULL);
    assert_true(wait_until(status_has(target.pid, "State:\tT (stopped)")));
    kill(target.pid, SIGCONT);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 3));
    assert_healthy(&target);
    target_stop(&target);
}

/* A signal sent to a frozen process is handled once it runs again, and its EINTR is the handler's.
 */
static void test_signals(void **state)
{
    (void)state;
    struct target target = target_start("signals");
    for (int i = 1; i <= 50; i++) {
        struct mw_live_freeze *freeze = assert_frozen(target.pid, NULL);
        target_signal(&target, i);
        sleep_us(i * 7 % 200);
        assert_int_equal(target.shared->handled, i - 1);
        mw_live_freeze_end(freeze, NULL);
        assert_true(wait_until(target.shared->handled == (uint64_t)i));
        assert_true(wait_until(target.shared->eintr == (uint64_t)i));
    }
    assert_int_equal(target.shared->eintr_alone, 0);
    assert_healthy(&target);
    target_stop(&target);
}

static void test_hold_expires(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_freeze_options options = {.hold_ns = 20000000};
    struct mw_live_freeze_end end;
    struct mw_live_freeze *freeze = assert_frozen(target.pid, &options);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_untraced(target.pid);
    mw_live_freeze_end(freeze, &end);
    assert_true(end.expired);
    target_stop(&target);
}

static void run_vfork(struct counts *counts)
{
    counts->ready = 1;
    for (;;) {
        pid_t pid = vfork();
        if (pid == 0) {
            syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 200000000}, NULL);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        atomic_fetch_add(&counts->counter[0], 1);
    }
}

/* A thread that waits for its vfork()ed child cannot be stopped, and is let go all the same. */
static void test_asleep_in_the_kernel(void **state)
{
    (void)state;
    struct counts *counts = counts_new();
    pid_t pid = process_start(counts, run_vfork);
    struct mw_live_freeze_options options = {.arrive_ns = 5000000};
    size_t asleep = 0;
    for (int i = 0; i < 20; i++) {
        struct mw_live_freeze *freeze = assert_frozen(pid, &options);
        if (freeze->asleep_count == 1) {
            assert_int_equal(freeze->thread_count, 1);
            assert_false(freeze->threads[0].has_registers);
            asleep += freeze->threads[0].sp != 0; /* 0: not asleep yet, only not served */
        }
        mw_live_freeze_end(freeze, NULL);
    }
    assert_true(asleep > 0);
    assert_moving(counts, 1);
    process_stop(pid, counts);
}

/* A kernel thread of io_uring's is in the list of threads. */
static void run_uring(struct counts *counts)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 100000};
    counts->ready = syscall(SYS_io_uring_setup, 8, &params) < 0 ? 2 : 1;
    for (;;)
        atomic_fetch_add(&counts->counter[0], 1);
}

static void test_kernel_worker(void **state)
{
    (void)state;
    struct counts *counts = counts_new();
    pid_t pid = process_start(counts, run_uring);
    if (counts->ready == 2) {
        process_stop(pid, counts);
        skip();
    }
    sleep_us(10000);
    struct mw_live_freeze *freeze = assert_frozen(pid, NULL);
    assert_true(freeze->thread_count >= 1);
    assert_still(counts, 1);
    mw_live_freeze_end(freeze, NULL);
    assert_moving(counts, 1);
    process_stop(pid, counts);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    struct mw_error err;
    struct mw_live_freeze *freeze = NULL;
    assert_int_equal(mw_live_freeze_begin(getpid(), NULL, &freeze, &err), MW_INVALID);
    assert_int_equal(mw_live_freeze_begin(2, NULL, &freeze, &err), MW_PERM);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(wait_until(status_has(pid, "State:\tZ")));
    assert_int_equal(mw_live_freeze_begin(pid, NULL, &freeze, &err), MW_GONE);
    waitpid(pid, NULL, 0);
    assert_int_equal(mw_live_freeze_begin(pid, NULL, &freeze, &err), MW_GONE);
    assert_null(freeze);
    mw_live_freeze_end(NULL, NULL);
}

static void test_refuses_traced(void **state)
{
    (void)state;
    struct target target = target_start("storm-sleeper");
    struct mw_error err;
    struct mw_live_freeze *freeze = NULL;
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ptrace(PTRACE_SEIZE, target.pid, NULL, NULL);
        pause();
    }
    assert_true(wait_until(!status_has(target.pid, "TracerPid:\t0\n")));
    char words[64];
    snprintf(words, sizeof words, "already traced by %d (test_live_freez", tracer);
    assert_int_equal(mw_live_freeze_begin(target.pid, NULL, &freeze, &err), MW_PERM);
    if (!strstr(err.text, words))
        fail_msg("wanted '%s', got '%s'", words, err.text);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    mw_live_freeze_end(assert_frozen(target.pid, NULL), NULL);
    target_stop(&target);
}

/* Without the right to trace: another user, no capability. */
static void test_refuses_without_privilege(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct target target = target_start("read");
    pid_t child = fork();
    if (child == 0) {
        struct mw_error err;
        struct mw_live_freeze *freeze = NULL;
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        enum mw_status status = mw_live_freeze_begin(target.pid, NULL, &freeze, &err);
        _exit(status == MW_PERM && err.hint[0] != '\0' ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    target_stop(&target);
}

/* ---- kills ---------------------------------------------------------------------------------- */

static void freeze_a_moment(struct target *target)
{
    struct mw_live_freeze *freeze = NULL;
    if (mw_live_freeze_begin(target->pid, NULL, &freeze, NULL) != MW_OK)
        return;
    sleep_us(50);
    mw_live_freeze_end(freeze, NULL);
}

static void test_kills(void **state)
{
    (void)state;
    unsigned seed = 5;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        struct target target = target_start(kill_modes[m].name);
        uint64_t mask = target_mask(&target);
        long duration_us = act_duration_us(&target, freeze_a_moment);
        for (int i = 0; i < kills_wanted() * 3 / 2 / (int)kill_mode_count + 1; i++) {
            kill_at_random(&target, freeze_a_moment, duration_us, &seed);
            assert_survived(&target, &kill_modes[m], mask, i);
        }
        assert_no_eintr(&target, &kill_modes[m]);
        target_stop(&target);
    }
}

static void test_kill_at_every_step(void **state)
{
    (void)state;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        struct target target = target_start(kill_modes[m].name);
        uint64_t mask = target_mask(&target);
        int step = 0;
        while (kill_at_step(&target, freeze_a_moment, step)) {
            assert_survived(&target, &kill_modes[m], mask, step);
            step++;
            assert_true(step < 200);
        }
        assert_true(step >= 6); /* SEIZE, INTERRUPT, GETREGSET */
        assert_no_eintr(&target, &kill_modes[m]);
        target_stop(&target);
    }
}

/* Signals in a numbered row while memwhy freezes and dies: none is lost or doubled. */
static void test_kills_lose_no_signal(void **state)
{
    (void)state;
    struct target target = target_start("signals");
    unsigned seed = 11;
    int sent = 0;
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                freeze_a_moment(&target);
        for (int i = 0; i < 20; i++) {
            target_signal(&target, ++sent);
            sleep_us(rand_r(&seed) % 300);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    assert_true(wait_until(target.shared->handled == (uint64_t)sent));
    assert_int_equal(target.shared->eintr_alone, 0);
    assert_healthy(&target);
    target_stop(&target);
}

/* An argument selects tests by name, with wildcards. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_threads_that_appear_and_go),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_first_thread_ended),
        cmocka_unit_test(test_job_control),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_hold_expires),
        cmocka_unit_test(test_asleep_in_the_kernel),
        cmocka_unit_test(test_kernel_worker),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refuses_traced),
        cmocka_unit_test(test_refuses_without_privilege),
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_kill_at_every_step),
        cmocka_unit_test(test_kills_lose_no_signal),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_freeze", tests, NULL, NULL);
}
