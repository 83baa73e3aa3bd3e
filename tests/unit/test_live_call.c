/* tests/unit/test_live_call.c: calling a function in a live process.
 *
 * The fixture (tests/fixtures/selfcheck.c) checks itself all the time; here it is called
 * into, and every refusal is asked for. Kills are in test_live_call_kills.c. An argument is a
 * pattern of test names. */
#include "image/live_call.h"
#include "image/live_call_frame.h"
#include "image/tracer.h"

#include "selfcheck_target.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STORM_CALLS = 200, REPEATS = 50 };

static struct mw_live_call_request probe_request(const struct target *target)
{
    return (struct mw_live_call_request){
        .function = target->shared->probe, .args = PROBE_ARGS, .args_count = 3};
}

static void assert_call(const struct target *target, const struct mw_live_call_request *request,
                        struct mw_live_call_result *result)
{
    struct mw_error err = {0};
    uint64_t before = target->shared->called;
    if (mw_live_call(target->pid, request, result, &err) != MW_OK)
        fail_msg("call refused: %s", err.text);
    if (request->function != target->shared->malloc_trim)
        assert_int_equal(target->shared->called, before + 1);
    assert_true(status_has(target->pid, "TracerPid:\t0\n"));
}

static void assert_refused(pid_t pid, const struct mw_live_call_request *request,
                           enum mw_status wanted, const char *words)
{
    struct mw_error err = {0};
    struct mw_live_call_result result;
    enum mw_status code = mw_live_call(pid, request, &result, &err);
    if (code != wanted || !strstr(err.text, words))
        fail_msg("wanted %s '%s', got %s '%s'", mw_status_name(wanted), words, mw_status_name(code),
                 err.text);
    assert_int_equal(err.code, wanted);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void test_user_mode_is_restored(void **state)
{
    (void)state;
    struct target target = target_start("burn");
    struct mw_live_call_request request = probe_request(&target);
    struct mw_live_call_result result;
    for (int i = 0; i < 200; i++) {
        assert_call(&target, &request, &result);
        assert_int_equal(result.tid, target.pid);
        sleep_us(i * 13 % 700);
    }
    uint64_t progress = target.shared->progress;
    assert_true(wait_until(target.shared->progress > progress + 1));
    assert_healthy(&target);
    assert_int_equal(target.shared->called, 200);
    target_stop(&target);
}

/* Call into a sleeping thread again and again; its system call must go on as if nothing was. */
static void calls_in(const char *mode, int syscall_number, void (*poke)(struct target *))
{
    struct target target = target_start(mode);
    struct mw_live_call_request request = probe_request(&target);
    struct mw_live_call_result result;
    uint64_t mask = target_mask(&target);
    for (int i = 0; i < REPEATS; i++) {
        assert_call(&target, &request, &result);
        if (syscall_number >= 0)
            assert_int_equal(result.syscall, syscall_number);
        uint64_t progress = target.shared->progress;
        if (poke)
            poke(&target);
        if (!wait_until(target.shared->progress > progress))
            fail_msg("no progress in mode %s after call %d", mode, i);
        sleep_us(i * 37 % 5000);
    }
    assert_healthy(&target);
    assert_int_equal(target.shared->eintr, 0);
    assert_int_equal(target_mask(&target), mask);
    target_stop(&target);
}

static void poke_connect(struct target *target)
{
    target_connect(target);
}

static void test_read(void **state)
{
    (void)state;
    calls_in("read", SYS_read, target_poke);
}

static void test_futex(void **state)
{
    (void)state;
    calls_in("futex", SYS_futex, target_poke);
}

static void test_epoll_wait(void **state)
{
    (void)state;
    calls_in("epoll", SYS_epoll_wait, target_poke);
}

static void test_epoll_wait_with_timeout(void **state)
{
    (void)state;
    calls_in("epoll-timeout", -1, target_poke);
}

static void test_poll_with_timeout(void **state)
{
    (void)state;
    calls_in("poll", -1, target_poke);
}

static void test_nanosleep(void **state)
{
    (void)state;
    calls_in("nanosleep", -1, NULL);
}

static void test_accept(void **state)
{
    (void)state;
    calls_in("accept", SYS_accept, poke_connect);
}

static void test_alternate_stack_is_kept(void **state)
{
    (void)state;
    calls_in("altstack-kept", SYS_read, target_poke);
}

static void test_handler_on_ordinary_stack(void **state)
{
    (void)state;
    calls_in("handler", SYS_read, target_poke);
}

static void test_stack_grows(void **state)
{
    (void)state;
    struct target target = target_start("grow");
    struct mw_live_call_request request = {.function = target.shared->deep};
    struct mw_live_call_result result;
    assert_call(&target, &request, &result);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_healthy(&target);
    target_stop(&target);
}

/* Call slow() and do act(target, number) while it runs, and only then let it end. */
static void call_and_meanwhile(struct target *target, void (*act)(const struct target *, int),
                               int number, struct mw_live_call_result *result)
{
    struct mw_live_call_request request = {
        .function = target->shared->slow, .args = {3000, 1}, .args_count = 2};
    target->shared->leave = 0;
    pid_t actor = fork();
    if (actor == 0) {
        bool inside = wait_until(target->shared->inside);
        if (inside)
            act(target, number);
        target->shared->leave = 1;
        _exit(inside ? 0 : 1);
    }
    assert_call(target, &request, result);
    int status;
    waitpid(actor, &status, 0);
    assert_int_equal(status, 0);
}

/* A signal that comes while the function runs, with a handler that does not restart: the read that
 * was interrupted by us must fail with EINTR exactly then. */
static void test_signal_during_call(void **state)
{
    (void)state;
    struct target target = target_start("signals");
    struct mw_live_call_result result;
    for (int i = 1; i <= 50; i++) {
        call_and_meanwhile(&target, target_signal, i, &result);
        assert_true(wait_until(target.shared->eintr == (uint64_t)i));
        assert_int_equal(target.shared->handled, i);
        assert_int_equal(result.stops, 1);
    }
    assert_int_equal(target.shared->eintr_alone, 0);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_healthy(&target);
    target_stop(&target);
}

static void send_ignored(const struct target *target, int number)
{
    (void)number;
    kill(target->pid, SIGWINCH);
}

/* A signal that nobody handles must not end a sleep. */
static void test_ignored_signal_during_call(void **state)
{
    (void)state;
    static const char *const modes[] = {"nanosleep", "poll", "read", "epoll"};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        struct target target = target_start(modes[m]);
        struct mw_live_call_result result;
        for (int i = 0; i < 10; i++)
            call_and_meanwhile(&target, send_ignored, i, &result);
        uint64_t progress = target.shared->progress;
        target_poke(&target);
        assert_true(wait_until(target.shared->progress > progress));
        assert_int_equal(target.shared->eintr, 0);
        assert_healthy(&target);
        target_stop(&target);
    }
}

/* A handler where the mask is only replaced during the system call: the wakeup is not lost, and the
 * mask is the thread's own again. */
static void test_sigsuspend(void **state)
{
    (void)state;
    struct target target = target_start("sigsuspend");
    struct mw_live_call_result result;
    uint64_t mask = target_mask(&target);
    for (int i = 1; i <= 50; i++) {
        call_and_meanwhile(&target, target_signal, i, &result);
        assert_int_equal(result.syscall, SYS_rt_sigsuspend);
        assert_true(wait_until(target.shared->progress == (uint64_t)i));
        assert_true(wait_until(target_mask(&target) == mask));
    }
    assert_int_equal(target.shared->eintr_alone, 0);
    assert_healthy(&target);
    target_stop(&target);
}

/* Where malloc may be: its own system calls, a handler, the C library's code. */
static bool inside_malloc(const struct mw_live_call_thread *thread, void *user)
{
    const uint64_t *target_code = user; /* start and end of the fixture's own */
    switch (thread->syscall) {
    case SYS_brk:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_futex:
        return true;
    case -1:
        break;
    default:
        return thread->in_handler;
    }
    return thread->in_handler || thread->pc - target_code[0] >= target_code[1] - target_code[0];
}

static void code_range(const struct target *target, uint64_t range[2])
{
    char path[64], line[512], perms[5];
    snprintf(path, sizeof path, "/proc/%d/maps", target->pid);
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    range[0] = range[1] = 0;
    while (fgets(line, sizeof line, maps)) {
        uint64_t start, end;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, perms) == 3 &&
            perms[2] == 'x' && start <= target->shared->probe && target->shared->probe < end) {
            range[0] = start;
            range[1] = end;
        }
    }
    fclose(maps);
    assert_true(range[0] < range[1]);
}

static void trims_in(const char *mode, int calls)
{
    struct target target = target_start(mode);
    uint64_t range[2];
    code_range(&target, range);
    struct mw_live_call_request request = {.function = target.shared->malloc_trim,
                                           .args_count = 1,
                                           .busy = inside_malloc,
                                           .busy_user = range,
                                           .attempts = 400,
                                           .attempt_pause_ns = 500000};
    struct mw_live_call_result result;
    for (int i = 0; i < calls; i++) {
        assert_call(&target, &request, &result);
        sleep_us(i % 7 * 150);
    }
    uint64_t before[4];
    for (int i = 0; i < 4; i++)
        before[i] = target.shared->thread_progress[i];
    for (int i = 0; i < 4; i++)
        assert_true(wait_until(target.shared->thread_progress[i] > before[i] + 10));
    assert_healthy(&target);
    target_stop(&target);
}

static void test_malloc_trim_in_a_storm(void **state)
{
    (void)state;
    trims_in("storm-sleeper", STORM_CALLS);
}

static void test_malloc_trim_in_a_storming_thread(void **state)
{
    (void)state;
    trims_in("storm", STORM_CALLS / 4);
}

/* ---- time and locks ------------------------------------------------------------------------ */

static void test_timeout_leaves_it_running(void **state)
{
    (void)state;
    struct target target = target_start("read");
    uint64_t mask = target_mask(&target);
    struct mw_live_call_request request = {
        .function = target.shared->slow, .args = {300, 0}, .args_count = 2, .timeout_ns = 30000000};
    assert_refused(target.pid, &request, MW_LIMIT, "still runs");
    assert_int_equal(target.shared->called, 0);
    assert_true(wait_until(target.shared->called == 1));
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_int_equal(target_mask(&target), mask);
    assert_int_equal(target.shared->eintr, 0);
    assert_healthy(&target);
    target_stop(&target);
}

static void test_waiting_call_is_taken_back(void **state)
{
    (void)state;
    struct target target = target_start("held");
    struct mw_live_call_request request = {
        .function = target.shared->lock, .timeout_ns = 50000000, .abandon_waiting = true};
    uint64_t mask = target_mask(&target);
    assert_refused(target.pid, &request, MW_LIMIT, "taken back");
    assert_int_equal(target.shared->called, 0);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_true(wait_until(target_mask(&target) == mask));
    assert_int_equal(target.shared->eintr, 0);
    assert_healthy(&target);
    target_stop(&target);
}

static bool always_busy(const struct mw_live_call_thread *thread, void *user)
{
    (void)thread;
    ++*(int *)user;
    return true;
}

static void busy_in(const char *mode)
{
    struct target target = target_start(mode);
    int asked = 0;
    struct mw_live_call_request request = probe_request(&target);
    request.busy = always_busy;
    request.busy_user = &asked;
    request.attempts = 5;
    assert_refused(target.pid, &request, MW_LIMIT, "busy");
    assert_true(asked >= 4 && asked <= 5); /* the first round may meet it elsewhere */
    assert_int_equal(target.shared->called, 0);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_int_equal(target.shared->eintr, 0);
    target_stop(&target);
}

/* A refused thread does not notice that it was looked at. */
static void test_busy(void **state)
{
    (void)state;
    busy_in("epoll");
    busy_in("epoll-timeout");
    busy_in("poll");
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void refused_in(const char *mode, enum mw_status wanted, const char *words)
{
    struct target target = target_start(mode);
    if (target.shared->ready == 2) {
        target_stop(&target);
        skip();
    }
    struct mw_live_call_request request = probe_request(&target);
    request.attempts = 3;
    assert_refused(target.pid, &request, wanted, words);
    assert_int_equal(target.shared->called, 0);
    assert_true(status_has(target.pid, "TracerPid:\t0\n"));
    uint64_t progress = target.shared->progress;
    target_poke(&target);
    if (strcmp(mode, "seccomp") != 0)
        assert_true(wait_until(target.shared->progress > progress));
    assert_int_equal(kill(target.pid, 0), 0);
    assert_healthy(&target);
    target_stop(&target);
}

static void test_refuses_alternate_stack(void **state)
{
    (void)state;
    refused_in("altstack", MW_LIMIT, "alternate stack");
}

static void test_refuses_coroutine(void **state)
{
    (void)state;
    refused_in("coroutine", MW_LIMIT, "own stack");
}

static void test_refuses_without_room(void **state)
{
    (void)state;
    refused_in("noroom", MW_LIMIT, "no room");
}

static void test_refuses_guard_pages_below(void **state)
{
    (void)state;
    refused_in("guard", MW_LIMIT, "thread");
}

static void test_refuses_strict_seccomp(void **state)
{
    (void)state;
    refused_in("seccomp", MW_UNSUPPORTED, "strict seccomp");
}

static void test_refuses_stopped(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_call_request request = probe_request(&target);
    kill(target.pid, SIGSTOP);
    assert_true(wait_until(status_has(target.pid, "State:\tT")));
    assert_refused(target.pid, &request, MW_LIMIT, "job control");
    assert_true(status_has(target.pid, "State:\tT"));
    kill(target.pid, SIGCONT);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    struct mw_live_call_result result;
    assert_call(&target, &request, &result);
    target_stop(&target);
}

static void test_refuses_traced(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_call_request request = probe_request(&target);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        char byte;
        close(ends[1]);
        ptrace(PTRACE_SEIZE, target.pid, NULL, NULL);
        while (read(ends[0], &byte, 1) > 0)
            continue;
        _exit(0);
    }
    close(ends[0]);
    assert_true(wait_until(!status_has(target.pid, "TracerPid:\t0\n")));
    char words[64];
    snprintf(words, sizeof words, "already traced by %d (", tracer);
    assert_refused(target.pid, &request, MW_PERM, words);
    close(ends[1]);
    waitpid(tracer, NULL, 0);
    struct mw_live_call_result result;
    assert_call(&target, &request, &result);
    target_stop(&target);
}

static void test_refuses_zombie_and_gone(void **state)
{
    (void)state;
    struct mw_live_call_request request = {.function = 0x1000};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(wait_until(status_has(pid, "State:\tZ")));
    assert_refused(pid, &request, MW_GONE, "zombie");
    waitpid(pid, NULL, 0);
    assert_refused(pid, &request, MW_GONE, "");
    assert_refused(getpid(), &request, MW_INVALID, "");
    assert_refused(2, &request, MW_UNSUPPORTED, "no memory of its own");
}

static void test_refuses_no_code(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_call_request request = {.function = (uintptr_t)target.shared};
    assert_refused(target.pid, &request, MW_INVALID, "no code");
    request.args_count = MW_LIVE_CALL_ARGS_MAX + 1;
    assert_refused(target.pid, &request, MW_INVALID, "arguments");
    target_stop(&target);
}

static void test_target_that_dies_meanwhile(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_call_request request = {
        .function = target.shared->slow, .args = {2000, 0}, .args_count = 2};
    pid_t killer = fork();
    if (killer == 0) {
        sleep_us(30000);
        kill(target.pid, SIGKILL);
        _exit(0);
    }
    assert_refused(target.pid, &request, MW_GONE, "ended while");
    waitpid(killer, NULL, 0);
    target_stop(&target);
}

static void test_stop_inside_the_function(void **state)
{
    (void)state;
    struct target target = target_start("read");
    struct mw_live_call_request request = {
        .function = target.shared->slow, .args = {100, 0}, .args_count = 2};
    pid_t stopper = fork();
    if (stopper == 0) {
        sleep_us(30000);
        kill(target.pid, SIGSTOP);
        _exit(0);
    }
    assert_refused(target.pid, &request, MW_LIMIT, "stopped by job control inside");
    waitpid(stopper, NULL, 0);
    assert_true(wait_until(status_has(target.pid, "State:\tT (stopped)")));
    assert_int_equal(target.shared->called, 0);
    kill(target.pid, SIGCONT);
    assert_true(wait_until(target.shared->called == 1));
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_healthy(&target);
    target_stop(&target);
}

/* The first thread has ended: /proc/PID shows a zombie, and the others run on. */
static void test_first_thread_ended(void **state)
{
    (void)state;
    struct target target = target_start("leader-gone");
    assert_true(wait_until(status_has(target.pid, "State:\tZ")));
    struct mw_live_call_request request = probe_request(&target);
    struct mw_live_call_result result;
    assert_call(&target, &request, &result);
    assert_int_not_equal(result.tid, target.pid);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_healthy(&target);
    target_stop(&target);
}

/* A 32-bit program, byte by byte: it jumps to itself. Behind the jump lies a signal return
 * sequence, so that nothing else is missing. */
static pid_t program32_start(void)
{
    static const uint8_t program[] =
        {
            0x7f, 'E',  'L',  'F',  1,    1,    1,    0, 0, 0, 0,    0,   0,
            0,    0,    0,                               /* ELFCLASS32, little-endian */
            2,    0,    3,    0,    1,    0,    0,    0, /* ET_EXEC, EM_386 */
            0x54, 0x80, 0x04, 0x08, 0x34, 0,    0,    0, 0, 0, 0,    0, /* entry, program headers */
            0,    0,    0,    0,    0x34, 0,    0x20, 0, 1, 0, 0,    0,   0,
            0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0,    0,   0x80,
            0x04, 0x08, 0,    0x80, 0x04, 0x08, /* PT_LOAD */
            0x5d, 0,    0,    0,    0x5d, 0,    0,    0, 5, 0, 0,    0,   0,
            0x10, 0,    0,    0xeb, 0xfe, 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    int fd = memfd_create("program32", MFD_CLOEXEC);
    assert_int_equal(write(fd, program, sizeof program), sizeof program);
    pid_t pid = fork();
    if (pid == 0) {
        char *const argv[] = {(char *)(uintptr_t) "program32", NULL}, *const env[] = {NULL};
        alarm(60);
        fexecve(fd, argv, env);
        _exit(127);
    }
    close(fd);
    sleep_us(50000);
    return pid;
}

static void test_refuses_32_bit(void **state)
{
    (void)state;
    pid_t pid = program32_start();
    struct mw_live_call_request request = {.function = 0x08048054};
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid)
        skip(); /* this kernel runs no 32-bit programs */
    assert_refused(pid, &request, MW_UNSUPPORTED, "32-bit");
    assert_true(wait_until(status_has(pid, "State:\tR")));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_refusals_by_status(void **state)
{
    (void)state;
    struct mw_error err;
    struct mw_process process;
    mw_process_init(&process);
    process.pid = 77;
    process.state = 'S';
    process.seccomp = 2;
    assert_int_equal(mw_live_call_target_check(&process, &err), MW_OK);
    process.user_shadow_stack = true;
    assert_int_equal(mw_live_call_target_check(&process, &err), MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "shadow stack"));
    process.user_shadow_stack = false;
    process.state = 'T';
    assert_int_equal(mw_live_call_target_check(&process, &err), MW_LIMIT);
    assert_string_equal(err.hint, "kill -CONT 77");
    mw_process_deinit(&process);
}

/* ---- parts --------------------------------------------------------------------------------- */

static void test_syscall_text(void **state)
{
    (void)state;
    struct mw_tracer_syscall call;
    assert_true(mw_tracer_syscall_parse("running\n", &call));
    assert_false(call.blocked);
    assert_true(mw_tracer_syscall_parse(
        "0 0x3 0x7ffd2d6ea460 0x8 0x0 0x0 0x1f 0x7ffd2d6ea448 0x7f6b6ad4a19d\n", &call));
    assert_true(call.blocked);
    assert_int_equal(call.number, 0);
    assert_int_equal(call.args[1], 0x7ffd2d6ea460);
    assert_int_equal(call.sp, 0x7ffd2d6ea448);
    assert_int_equal(call.pc, 0x7f6b6ad4a19d);
    assert_true(mw_tracer_syscall_parse("-1 0x7ffd2d6ea448 0x7f6b6ad4a19d\n", &call));
    assert_int_equal(call.number, -1);
    assert_int_equal(call.pc, 0x7f6b6ad4a19d);
    assert_false(mw_tracer_syscall_parse("", &call));
    assert_false(mw_tracer_syscall_parse("0 0x3\n", &call));
}

static void test_handler_scan(void **state)
{
    (void)state;
    const mw_addr restorer = 0x7f0000001000, sp = 0x7fff00000010;
    uint64_t stack[256] = {0};
    uint64_t *frame = stack + 40;
    uint8_t *bytes = (uint8_t *)stack;
    assert_false(mw_live_handler_scan(restorer, sp, bytes, sizeof stack).found);
    frame[0] = restorer;
    frame[1] = 7;
    assert_false(mw_live_handler_scan(restorer, sp, bytes, sizeof stack).found); /* cs is missing */
    frame[24] = 0x33;
    frame[4] = 2; /* SS_DISABLE */
    struct mw_live_handler handler = mw_live_handler_scan(restorer, sp, bytes, sizeof stack);
    assert_true(handler.found);
    assert_false(handler.other_stack);
    frame[4] = 0;
    frame[3] = sp - 0x10;
    frame[5] = 0x2000;
    assert_true(mw_live_handler_scan(restorer, sp, bytes, sizeof stack).other_stack);
    frame[3] = sp + 0x8;
    assert_false(mw_live_handler_scan(restorer, sp, bytes, sizeof stack).other_stack);
    /* A frame that is cut off by the end is not read. */
    assert_false(mw_live_handler_scan(restorer, sp, bytes, 40 * 8 + 439).found);
}

/* An argument selects tests by name, with wildcards. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syscall_text),
        cmocka_unit_test(test_handler_scan),
        cmocka_unit_test(test_refusals_by_status),
        cmocka_unit_test(test_user_mode_is_restored),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_futex),
        cmocka_unit_test(test_epoll_wait),
        cmocka_unit_test(test_epoll_wait_with_timeout),
        cmocka_unit_test(test_poll_with_timeout),
        cmocka_unit_test(test_nanosleep),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_alternate_stack_is_kept),
        cmocka_unit_test(test_handler_on_ordinary_stack),
        cmocka_unit_test(test_stack_grows),
        cmocka_unit_test(test_signal_during_call),
        cmocka_unit_test(test_ignored_signal_during_call),
        cmocka_unit_test(test_sigsuspend),
        cmocka_unit_test(test_malloc_trim_in_a_storm),
        cmocka_unit_test(test_malloc_trim_in_a_storming_thread),
        cmocka_unit_test(test_timeout_leaves_it_running),
        cmocka_unit_test(test_waiting_call_is_taken_back),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_refuses_alternate_stack),
        cmocka_unit_test(test_refuses_coroutine),
        cmocka_unit_test(test_refuses_without_room),
        cmocka_unit_test(test_refuses_guard_pages_below),
        cmocka_unit_test(test_refuses_strict_seccomp),
        cmocka_unit_test(test_refuses_stopped),
        cmocka_unit_test(test_refuses_traced),
        cmocka_unit_test(test_refuses_zombie_and_gone),
        cmocka_unit_test(test_refuses_no_code),
        cmocka_unit_test(test_first_thread_ended),
        cmocka_unit_test(test_refuses_32_bit),
        cmocka_unit_test(test_target_that_dies_meanwhile),
        cmocka_unit_test(test_stop_inside_the_function),
    };
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_call", tests, NULL, NULL);
}
