/* image/tracer.c: the thread that traces, and looking at what it traces.
 *
 * Trusts the kernel's answers; everything else of the target is copied with bounds. No loop here
 * depends on the target: waits end at the caller's deadline, the task list at MW_LIMIT_THREADS.
 * References: ptrace(2); Linux 6.18 kernel/ptrace.c (exit_ptrace, __ptrace_unlink),
 * kernel/exit.c (wait_task_stopped). */
#include "image/tracer.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/vec.h"
#include "image/vectors.h"
#include "proc/process.h"

#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TRACER_STACK_BYTES = 256 << 10,
    SPIN_NS = 50 * 1000,
    SLEEP_NS_MIN = 20 * 1000,
    SLEEP_NS_MAX = 1000 * 1000,
    SYSGOOD = 0x80, /* added to the signal of a system call's stop */
};

static void *tracer_main(void *user)
{
    struct mw_tracer *tracer = user;
    tracer->tid = (pid_t)syscall(SYS_gettid);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* of this thread alone */
    tracer->run(tracer->user);
    return NULL;
}

enum mw_status mw_tracer_start(struct mw_tracer *tracer, void (*run)(void *user), void *user,
                               struct mw_error *err)
{
    assert(run);
    *tracer = (struct mw_tracer){.run = run, .user = user};
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return mw_fail(err, MW_NOMEM, "out of memory starting a thread");
    pthread_attr_setstacksize(&attr, TRACER_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&tracer->thread, &attr, tracer_main, tracer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (failed)
        return mw_fail_errno(err, failed, "cannot start a thread");
    return MW_OK;
}

void mw_tracer_join(struct mw_tracer *tracer)
{
    pthread_join(tracer->thread, NULL);
    /* The C library takes a thread for ended when its stack is free, which is before the kernel
     * lets go of the tracees. The thread id is the last thing to go. */
    uint64_t deadline = mw_clock_monotonic_ns() + 1000 * 1000 * 1000;
    while (syscall(SYS_tgkill, getpid(), tracer->tid, 0) == 0 && mw_clock_monotonic_ns() < deadline)
        sched_yield();
}

void mw_tracer_sleep(uint64_t ns)
{
    struct timespec span = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &span, &span) == EINTR)
        continue;
}

/* A small file of /proc, terminated; "" when it cannot be read. */
static void task_file_read(pid_t pid, pid_t tid, const char *name, char *text, size_t room)
{
    char path[96];
    text[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    MW_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, room - 1);
    text[got > 0 ? got : 0] = '\0';
}

/* The status of one thread, or everything unknown. */
static void task_status_read(pid_t pid, pid_t tid, struct mw_process *status)
{
    char text[8192];
    task_file_read(pid, tid, "status", text, sizeof text);
    mw_process_init(status);
    mw_process_parse_status(status, text);
}

bool mw_tracer_mask_read(pid_t pid, pid_t tid, uint64_t *mask_out)
{
    static const char name[] = "\nSigBlk:";
    char text[8192];
    task_file_read(pid, tid, "status", text, sizeof text);
    const char *line = strstr(text, name);
    return line && sscanf(line + sizeof name - 1, "%" SCNx64, mask_out) == 1;
}

void mw_tracer_name_read(pid_t pid, pid_t tid, char *name, size_t room)
{
    task_file_read(pid, tid, "comm", name, room);
    name[strcspn(name, "\n")] = '\0';
}

void mw_tracer_vectors_read(pid_t tid, struct mw_vectors *vectors)
{
    /* AVX-512 takes 2.7 KiB, AMX 8 KiB more; SVE is not asked for: NT_PRFPREG has its lower parts.
     */
    uint8_t bytes[16 << 10];
#ifdef __x86_64__
    const uintptr_t type = NT_X86_XSTATE;
#else
    const uintptr_t type = NT_PRFPREG;
#endif
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)type, &iov) == 0 && iov.iov_len <= sizeof bytes)
        (void)!mw_vectors_add(vectors, tid, bytes, iov.iov_len);
}

enum mw_status mw_tracer_other(pid_t pid, pid_t other, struct mw_error *err)
{
    char name[64];
    mw_tracer_name_read(other, other, name, sizeof name);
    if (name[0] == '\0')
        snprintf(name, sizeof name, "process %d", other);
    enum mw_status code =
        mw_fail(err, MW_PERM, "process %d is already traced by %d (%s)", pid, other, name);
    mw_error_hint(err, "let %s detach first", name);
    return code;
}

/* PTRACE_SEIZE said EPERM: exiting, traced by another, or really not allowed? */
static enum mw_status seize_denied(pid_t pid, pid_t tid, struct mw_error *err)
{
    struct mw_process status;
    task_status_read(pid, tid, &status);
    char state = status.state;
    int32_t other = status.tracer_pid;
    mw_process_deinit(&status);
    if (state == 'Z' || state == 'X' || state == 0)
        return mw_fail(err, MW_GONE, "thread %d of process %d is exiting", tid, pid);
    if (other > 0)
        return mw_tracer_other(pid, other, err);
    enum mw_status code = mw_fail_errno(err, EPERM, "cannot trace process %d", pid);
    mw_error_hint(err, "memwhy doctor %d", pid);
    return code;
}

enum mw_status mw_tracer_seize(pid_t pid, pid_t tid, struct mw_error *err)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0)
        return MW_OK;
    if (errno == EPERM)
        return seize_denied(pid, tid, err);
    return mw_fail_errno(err, errno, "cannot trace thread %d of process %d", tid, pid);
}

/* si_status of a trapped thread is the signal, with a PTRACE_EVENT above it. */
static struct mw_tracer_stop stop_decode(const siginfo_t *info)
{
    if (info->si_code != CLD_TRAPPED && info->si_code != CLD_STOPPED)
        return (struct mw_tracer_stop){.event = MW_TRACER_GONE};
    int signal = info->si_status & 0x7f, event = info->si_status >> 8;
    if (event == PTRACE_EVENT_CLONE)
        return (struct mw_tracer_stop){.event = MW_TRACER_CLONE};
    if (info->si_status == (SIGTRAP | SYSGOOD))
        return (struct mw_tracer_stop){.event = MW_TRACER_SYSCALL};
    if (event == PTRACE_EVENT_STOP)
        return signal == SIGTRAP
                   ? (struct mw_tracer_stop){.event = MW_TRACER_TRAP}
                   : (struct mw_tracer_stop){.event = MW_TRACER_GROUP_STOP, .signal = signal};
    return (struct mw_tracer_stop){.event = MW_TRACER_SIGNAL, .signal = signal};
}

struct mw_tracer_stop mw_tracer_peek(pid_t tid)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WEXITED | __WALL | WNOWAIT | WNOHANG) != 0)
        return (struct mw_tracer_stop){.event = MW_TRACER_GONE};
    if (info.si_pid == 0)
        return (struct mw_tracer_stop){.event = MW_TRACER_NONE};
    return stop_decode(&info);
}

struct mw_tracer_stop mw_tracer_wait(pid_t tid, uint64_t deadline_ns)
{
    uint64_t spin_until = mw_clock_monotonic_ns() + SPIN_NS;
    uint64_t pause = SLEEP_NS_MIN;
    for (;;) {
        struct mw_tracer_stop stop = mw_tracer_peek(tid);
        if (stop.event != MW_TRACER_NONE)
            return stop;
        uint64_t now = mw_clock_monotonic_ns();
        if (now >= deadline_ns)
            return stop;
        if (now < spin_until) {
            sched_yield();
            continue;
        }
        mw_tracer_sleep(pause);
        pause = pause * 2 < SLEEP_NS_MAX ? pause * 2 : SLEEP_NS_MAX;
    }
}

bool mw_tracer_syscall_parse(const char *text, struct mw_tracer_syscall *syscall_out)
{
    struct mw_tracer_syscall call = {.known = true, .number = -1};
    if (strncmp(text, "running", 7) == 0) {
        *syscall_out = call;
        return true;
    }
    call.blocked = true;
    if (sscanf(text, "%d", &call.number) != 1)
        return false;
    int fields = call.number < 0
                     ? sscanf(text, "%*d %" SCNx64 " %" SCNx64, &call.sp, &call.pc)
                     : sscanf(text,
                              "%*d %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
                              " %" SCNx64 " %" SCNx64 " %" SCNx64,
                              &call.args[0], &call.args[1], &call.args[2], &call.args[3],
                              &call.args[4], &call.args[5], &call.sp, &call.pc);
    if (fields != (call.number < 0 ? 2 : 8))
        return false;
    *syscall_out = call;
    return true;
}

struct mw_tracer_syscall mw_tracer_syscall_read(pid_t pid, pid_t tid)
{
    struct mw_tracer_syscall call = {.known = false, .number = -1};
    char text[256];
    task_file_read(pid, tid, "syscall", text, sizeof text);
    mw_tracer_syscall_parse(text, &call);
    return call;
}

static int mem_open(pid_t tid, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", tid);
    return open(path, flags | O_CLOEXEC);
}

bool mw_tracer_read(pid_t tid, mw_addr address, void *buffer, size_t length)
{
    struct iovec ours = {.iov_base = buffer, .iov_len = length};
    struct iovec theirs = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
    ssize_t got = process_vm_readv(tid, &ours, 1, &theirs, 1, 0);
    if (got >= 0 || (errno != EPERM && errno != ENOSYS))
        return got == (ssize_t)length;
    MW_CLOSE int fd = mem_open(tid, O_RDONLY);
    return fd >= 0 && pread(fd, buffer, length, (off_t)address) == (ssize_t)length;
}

bool mw_tracer_write(pid_t tid, mw_addr address, const void *bytes, size_t length)
{
    struct iovec ours = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct iovec theirs = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
    ssize_t put = process_vm_writev(tid, &ours, 1, &theirs, 1, 0);
    if (put >= 0 || (errno != EPERM && errno != ENOSYS))
        return put == (ssize_t)length;
    MW_CLOSE int fd = mem_open(tid, O_WRONLY);
    return fd >= 0 && pwrite(fd, bytes, length, (off_t)address) == (ssize_t)length;
}

static enum mw_status tasks_add(struct mw_tracer_tasks *tasks, const char *name)
{
    char *end;
    long tid = strtol(name, &end, 10);
    if (*end != '\0' || tid <= 0 || tid > INT32_MAX)
        return MW_OK; /* "." and ".." */
    return mw_vec_push(tasks, MW_LIMIT_THREADS, (pid_t)tid);
}

static enum mw_status tasks_failed(pid_t pid, enum mw_status code, struct mw_error *err)
{
    if (code == MW_LIMIT)
        return mw_fail(err, code, "process %d has more than %zu threads", pid, MW_LIMIT_THREADS);
    return mw_fail(err, code, "out of memory listing the threads of process %d", pid);
}

enum mw_status mw_tracer_tasks_list(pid_t pid, struct mw_tracer_tasks *tasks, struct mw_error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? mw_fail(err, MW_GONE, "there is no process %d", pid)
                               : mw_fail_errno(err, errno, "cannot list '%s'", path);
    tasks->count = 0;
    enum mw_status code = MW_OK;
    for (struct dirent *entry; code == MW_OK && (entry = readdir(dir));)
        code = tasks_add(tasks, entry->d_name);
    closedir(dir);
    if (code != MW_OK)
        return tasks_failed(pid, code, err);
    if (tasks->count == 0)
        return mw_fail(err, MW_GONE, "process %d has exited", pid);
    return MW_OK;
}

void mw_tracer_tasks_deinit(struct mw_tracer_tasks *tasks)
{
    mw_vec_deinit(tasks);
}
