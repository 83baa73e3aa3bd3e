/* tests/support/selfcheck_target.c: see the header. */
#include "selfcheck_target.h"

#include "image/tracer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TARGET_PIPE_FD = 3 };

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static void target_path_find(char target_path[PATH_MAX])
{
    const char *build = getenv("MEMWHY_BUILD");
    char self[PATH_MAX - 64] = {0};
    if (build) {
        snprintf(target_path, PATH_MAX, "%s/tests/fixtures/selfcheck", build);
        return;
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0 && strrchr(self, '/'))
        *strrchr(self, '/') = '\0';
    snprintf(target_path, PATH_MAX, "%s/selfcheck", self);
}

static void target_exec(const char *mode, int memory, int pipe_fd)
{
    char path[64], target_path[PATH_MAX];
    target_path_find(target_path);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), memory);
    if (pipe_fd != TARGET_PIPE_FD)
        dup2(pipe_fd, TARGET_PIPE_FD);
    execl(target_path, target_path, mode, path, (char *)NULL);
    _exit(127);
}

struct target target_start(const char *mode)
{
    struct target target = {0};
    int ends[2];
    int memory = memfd_create("shared", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, sizeof *target.shared), 0);
    target.shared =
        mmap(NULL, sizeof *target.shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_ptr_not_equal(target.shared, MAP_FAILED);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    target.pid = fork();
    if (target.pid == 0)
        target_exec(mode, memory, ends[0]);
    close(ends[0]);
    target.pipe_fd = ends[1];
    /* Modes that wait for numbers are ready when they have read one. */
    target.number = 1;
    assert_int_equal(write(target.pipe_fd, &target.number, 8), 8);
    bool up = wait_until(target.shared->ready || target.shared->progress);
    close(memory);
    if (!up)
        fail_msg("the fixture did not start in mode %s", mode);
    sleep_us(20000);
    return target;
}

void target_stop(struct target *target)
{
    target->shared->stop = 1;
    close(target->pipe_fd);
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
    munmap(target->shared, sizeof *target->shared);
}

void target_poke(struct target *target)
{
    target->number++;
    assert_int_equal(write(target->pipe_fd, &target->number, 8), 8);
    atomic_fetch_add(&target->shared->futex, 1);
    syscall(SYS_futex, &target->shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void target_connect(const struct target *target)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)target->shared->thread_progress[1]),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
}

bool status_has(pid_t pid, const char *line)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, line) != NULL;
}

uint64_t target_mask(const struct target *target)
{
    uint64_t mask = 0;
    assert_true(mw_tracer_mask_read(target->pid, target->pid, &mask));
    return mask;
}

void assert_healthy(const struct target *target)
{
    if (target->shared->errors)
        fail_msg("%" PRIu64 " errors in the target, first: %s", target->shared->errors,
                 target->shared->why);
    assert_int_equal(target->shared->probe_errors, 0);
    assert_int_equal(target->shared->order, 0);
}

void target_signal(const struct target *target, int number)
{
    assert_int_equal(sigqueue(target->pid, SIGRTMIN, (union sigval){.sival_int = number}), 0);
}

/* ---- killing ------------------------------------------------------------------------------- */

const struct kill_mode kill_modes[] = {
    {"burn", false},   {"read", true},          {"futex", true},       {"epoll", true},
    {"poll", true},    {"nanosleep", false},    {"accept", false},     {"storm-sleeper", true},
    {"signals", true}, {"altstack-kept", true}, {"sigsuspend", false}, {"epoll-timeout", true},
};
const unsigned kill_mode_count = sizeof kill_modes / sizeof *kill_modes;

void assert_no_eintr(const struct target *target, const struct kill_mode *mode)
{
    if (strncmp(mode->name, "epoll", 5) != 0)
        assert_int_equal(target->shared->eintr_alone, 0);
}

int kills_wanted(void)
{
    const char *wanted = getenv("MEMWHY_TEST_KILLS");
    return wanted ? (int)strtol(wanted, NULL, 10) : 200;
}

long act_duration_us(struct target *target, void (*act)(struct target *))
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t began = now_ns();
        act(target);
        uint64_t took = now_ns() - began;
        best = took < best ? took : best;
    }
    return (long)(best / 1000);
}

void kill_at_random(struct target *target, void (*act)(struct target *), long duration_us,
                    unsigned *seed)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            act(target);
    sleep_us(100 + rand_r(seed) % (3 * duration_us + 100));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Does this system call of memwhy's touch the target? */
static bool touches_target(pid_t tid)
{
    struct user_regs_struct regs;
    struct iovec iov = {.iov_base = &regs, .iov_len = sizeof regs};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)1 /* NT_PRSTATUS */, &iov) != 0)
        return false;
#if defined(__x86_64__)
    uint64_t number = regs.orig_rax;
#else
    uint64_t number = regs.regs[8];
#endif
    return number == SYS_ptrace || number == SYS_process_vm_writev;
}

bool kill_at_step(struct target *target, void (*act)(struct target *), int step)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        act(target);
        _exit(0);
    }
    int status, steps = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, NULL,
           (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (tid != child)
                continue;
            assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
            return WIFSIGNALED(status);
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && touches_target(tid) && steps++ == step)
            kill(child, SIGKILL);
        ptrace(PTRACE_SYSCALL, tid, NULL, NULL);
    }
}

void assert_survived(struct target *target, const struct kill_mode *mode, uint64_t mask, int round)
{
    uint64_t progress = target->shared->progress;
    if (!status_has(target->pid, "TracerPid:\t0\n"))
        fail_msg("%s is still traced after kill %d", mode->name, round);
    if (mode->by_number)
        target_poke(target);
    else if (strcmp(mode->name, "accept") == 0)
        target_connect(target);
    else if (strcmp(mode->name, "sigsuspend") == 0)
        target_signal(target, (int)(target->shared->handled + 1));
    if (!wait_until(target->shared->progress > progress))
        fail_msg("no progress in %s after kill %d", mode->name, round);
    uint64_t now;
    if (!wait_until(mw_tracer_mask_read(target->pid, target->pid, &now) && now == mask))
        fail_msg("signal mask of %s changed after kill %d", mode->name, round);
    if (target->shared->errors)
        fail_msg("%s: %s after kill %d", mode->name, target->shared->why, round);
    assert_int_equal(target->shared->probe_errors, 0);
}
