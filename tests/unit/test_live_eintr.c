/* tests/unit/test_live_eintr.c: which sleeping system calls notice that they were stopped.
 *
 * A child goes to sleep in one call, is frozen and let go, and either sleeps on or has returned
 * EINTR. The table is what man pages and docs/design/020-freezing.md tell users. There is no race:
 * a child that runs on is looked at when it sleeps again, in the call or, having returned, behind
 * it. Reference: signal(7) "Interruption of system calls and library functions by stop signals". */
#include "image/live_freeze.h"

#include "selfcheck_target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLEEP_S = 60, FREEZES = 3, CANNOT = -2 };

static const struct timespec a_minute = {.tv_sec = SLEEP_S};

/* Of the child, which writes, and of the parent. */
struct outcome {
    _Atomic int ready, returned, error;
    int queue; /* of System V, to be removed */
};

static int pipe_read_end(void)
{
    int ends[2];
    return pipe(ends) == 0 ? ends[0] : -1;
}

static int byte_read(int fd)
{
    char bytes[128]; /* signalfd and inotify want room */
    return (int)read(fd, bytes, sizeof bytes);
}

static int call_read_pipe(struct outcome *o)
{
    int fd = pipe_read_end();
    o->ready = 1;
    return byte_read(fd);
}

static int call_read_eventfd(struct outcome *o)
{
    int fd = eventfd(0, 0);
    o->ready = 1;
    return byte_read(fd);
}

static int call_read_signalfd(struct outcome *o)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int fd = signalfd(-1, &set, 0);
    o->ready = 1;
    return byte_read(fd);
}

static int call_read_timerfd(struct outcome *o)
{
    struct itimerspec spec = {.it_value = a_minute};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(fd, 0, &spec, NULL);
    o->ready = 1;
    return byte_read(fd);
}

static int call_read_inotify(struct outcome *o)
{
    int fd = inotify_init();
    o->ready = 1;
    return byte_read(fd);
}

static int epoll_for(struct outcome *o, int timeout_ms)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(0);
    epoll_ctl(fd, EPOLL_CTL_ADD, pipe_read_end(), &event);
    o->ready = 1;
    return epoll_wait(fd, &event, 1, timeout_ms);
}

static int call_epoll_wait(struct outcome *o)
{
    return epoll_for(o, -1);
}

static int call_epoll_wait_timeout(struct outcome *o)
{
    return epoll_for(o, SLEEP_S * 1000);
}

static int call_poll(struct outcome *o)
{
    struct pollfd one = {.fd = pipe_read_end(), .events = POLLIN};
    o->ready = 1;
    return poll(&one, 1, -1);
}

static int call_poll_timeout(struct outcome *o)
{
    struct pollfd one = {.fd = pipe_read_end(), .events = POLLIN};
    o->ready = 1;
    return poll(&one, 1, SLEEP_S * 1000);
}

static int call_ppoll_timeout(struct outcome *o)
{
    struct pollfd one = {.fd = pipe_read_end(), .events = POLLIN};
    o->ready = 1;
    return ppoll(&one, 1, &a_minute, NULL);
}

static int select_for(struct outcome *o, struct timeval *timeout)
{
    fd_set set;
    int fd = pipe_read_end();
    FD_ZERO(&set);
    FD_SET(fd, &set);
    o->ready = 1;
    return select(fd + 1, &set, NULL, NULL, timeout);
}

static int call_select(struct outcome *o)
{
    return select_for(o, NULL);
}

static int call_select_timeout(struct outcome *o)
{
    struct timeval timeout = {.tv_sec = SLEEP_S};
    return select_for(o, &timeout);
}

static int call_futex(struct outcome *o)
{
    uint32_t word = 0;
    o->ready = 1;
    return (int)syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static int call_futex_timeout(struct outcome *o)
{
    uint32_t word = 0;
    o->ready = 1;
    return (int)syscall(SYS_futex, &word, FUTEX_WAIT, 0, &a_minute, NULL, 0);
}

static int call_sem_timedwait(struct outcome *o)
{
    sem_t semaphore;
    struct timespec until;
    sem_init(&semaphore, 0, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SLEEP_S;
    o->ready = 1;
    return sem_timedwait(&semaphore, &until);
}

static int call_nanosleep(struct outcome *o)
{
    o->ready = 1;
    return nanosleep(&a_minute, NULL);
}

static int call_clock_nanosleep_absolute(struct outcome *o)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SLEEP_S;
    o->ready = 1;
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    return errno ? -1 : 0;
}

/* A socket that listens on a port that the kernel chooses. */
static int listener(int timeout_s)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval timeout = {.tv_sec = timeout_s};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof local) != 0 || listen(fd, 1) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
        return -1;
    return fd;
}

static int call_accept(struct outcome *o)
{
    int fd = listener(0);
    o->ready = 1;
    return accept(fd, NULL, NULL);
}

static int call_accept_timeout(struct outcome *o)
{
    int fd = listener(SLEEP_S);
    o->ready = 1;
    return accept(fd, NULL, NULL);
}

static int recv_for(struct outcome *o, int timeout_s)
{
    int ends[2];
    char byte;
    struct timeval timeout = {.tv_sec = timeout_s};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    o->ready = 1;
    return (int)recv(ends[0], &byte, 1, 0);
}

static int call_recv(struct outcome *o)
{
    return recv_for(o, 0);
}

static int call_recv_timeout(struct outcome *o)
{
    return recv_for(o, SLEEP_S);
}

static int call_send_timeout(struct outcome *o)
{
    int ends[2];
    static char bytes[1 << 20];
    struct timeval timeout = {.tv_sec = SLEEP_S};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    o->ready = 1;
    return (int)send(ends[0], bytes, 1, 0);
}

static int call_msgrcv(struct outcome *o)
{
    struct {
        long type;
        char text[8];
    } message;
    o->queue = msgget(IPC_PRIVATE, 0600);
    o->ready = 1;
    ssize_t got = msgrcv(o->queue, &message, sizeof message.text, 0, 0);
    return (int)got;
}

static int semop_for(struct outcome *o, const struct timespec *timeout)
{
    struct sembuf take = {.sem_op = -1};
    int set = semget(IPC_PRIVATE, 1, 0600);
    o->queue = set;
    o->ready = 1;
    return timeout ? semtimedop(set, &take, 1, timeout) : semop(set, &take, 1);
}

static int call_semop(struct outcome *o)
{
    return semop_for(o, NULL);
}

static int call_semtimedop(struct outcome *o)
{
    return semop_for(o, &a_minute);
}

static int call_mq_receive(struct outcome *o)
{
    char name[32], text[64];
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = sizeof text};
    snprintf(name, sizeof name, "/memwhy-test-%d", getpid());
    mqd_t queue = mq_open(name, O_RDONLY | O_CREAT, 0600, &attr);
    mq_unlink(name);
    o->ready = queue >= 0 ? 1 : CANNOT;
    return (int)mq_receive(queue, text, sizeof text, NULL);
}

static sigset_t usr1_blocked(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return set;
}

static int call_sigtimedwait(struct outcome *o)
{
    sigset_t set = usr1_blocked();
    o->ready = 1;
    return sigtimedwait(&set, NULL, &a_minute);
}

static int call_sigwaitinfo(struct outcome *o)
{
    sigset_t set = usr1_blocked();
    o->ready = 1;
    return sigwaitinfo(&set, NULL);
}

static int call_sigsuspend(struct outcome *o)
{
    sigset_t none;
    sigemptyset(&none);
    o->ready = 1;
    return sigsuspend(&none);
}

static int call_waitpid(struct outcome *o)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    o->ready = 1;
    return waitpid(pid, NULL, 0);
}

static int call_flock(struct outcome *o)
{
    char path[32];
    int ours = memfd_create("lock", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ours);
    int other = open(path, O_RDWR);
    flock(ours, LOCK_EX);
    o->ready = 1;
    return flock(other, LOCK_EX);
}

static int io_getevents_for(struct outcome *o, const struct timespec *timeout)
{
    aio_context_t context = 0;
    struct io_event event;
    o->ready = syscall(SYS_io_setup, 1, &context) == 0 ? 1 : CANNOT;
    return (int)syscall(SYS_io_getevents, context, 1, 1, &event, timeout);
}

static int call_io_getevents(struct outcome *o)
{
    return io_getevents_for(o, NULL);
}

static int call_io_getevents_timeout(struct outcome *o)
{
    return io_getevents_for(o, &a_minute);
}

static int io_uring_enter_for(struct outcome *o, const struct io_uring_getevents_arg *wait)
{
    struct io_uring_params params = {0};
    long fd = syscall(SYS_io_uring_setup, 4, &params);
    bool can = fd >= 0 && (!wait || (params.features & IORING_FEAT_EXT_ARG));
    unsigned flags = IORING_ENTER_GETEVENTS | (wait ? IORING_ENTER_EXT_ARG : 0);
    o->ready = can ? 1 : CANNOT;
    return (int)syscall(SYS_io_uring_enter, fd, 0, 1, flags, wait, wait ? sizeof *wait : 0);
}

static int call_io_uring_enter(struct outcome *o)
{
    return io_uring_enter_for(o, NULL);
}

static int call_io_uring_enter_timeout(struct outcome *o)
{
    const struct io_uring_getevents_arg wait = {.ts = (uint64_t)(uintptr_t)&a_minute};
    return io_uring_enter_for(o, &wait);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct call {
    const char *name;
    int (*make)(struct outcome *o);
    bool notices;
} calls[] = {
    {"read (pipe)", call_read_pipe, false},
    {"read (eventfd)", call_read_eventfd, false},
    {"read (signalfd)", call_read_signalfd, false},
    {"read (timerfd)", call_read_timerfd, false},
    {"read (inotify)", call_read_inotify, false},
    {"epoll_wait", call_epoll_wait, false},
    {"epoll_wait, timeout", call_epoll_wait_timeout, true},
    {"poll", call_poll, false},
    {"poll, timeout", call_poll_timeout, false},
    {"ppoll, timeout", call_ppoll_timeout, false},
    {"select", call_select, false},
    {"select, timeout", call_select_timeout, false},
    {"futex", call_futex, false},
    {"futex, timeout", call_futex_timeout, false},
    {"sem_timedwait", call_sem_timedwait, false},
    {"nanosleep", call_nanosleep, false},
    {"clock_nanosleep, absolute", call_clock_nanosleep_absolute, false},
    {"accept", call_accept, false},
    {"accept, SO_RCVTIMEO", call_accept_timeout, true},
    {"recv", call_recv, false},
    {"recv, SO_RCVTIMEO", call_recv_timeout, true},
    {"send, SO_SNDTIMEO", call_send_timeout, true},
    {"msgrcv", call_msgrcv, false},
    {"semop", call_semop, false},
    {"semtimedop", call_semtimedop, true},
    {"mq_receive", call_mq_receive, false},
    {"sigtimedwait", call_sigtimedwait, true},
    {"sigwaitinfo", call_sigwaitinfo, false},
    {"sigsuspend", call_sigsuspend, false},
    {"waitpid", call_waitpid, false},
    {"flock", call_flock, false},
    {"io_getevents", call_io_getevents, false},
    {"io_getevents, timeout", call_io_getevents_timeout, true},
    {"io_uring_enter", call_io_uring_enter, false},
    {"io_uring_enter, timeout", call_io_uring_enter_timeout, true},
};

static _Noreturn void child_run(const struct call *call, struct outcome *o)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    if (call->make(o) < 0)
        o->error = errno;
    o->returned = 1;
    for (;;)
        pause();
}

/* Freeze it while it sleeps; true when it has come back from the call. */
static bool freeze_once(pid_t pid, struct outcome *o)
{
    const struct mw_live_freeze_options patient = {.arrive_ns = 5000000000u};
    struct mw_live_freeze *freeze = NULL;
    struct mw_error err = {0};
    assert_true(wait_until(status_has(pid, "State:\tS")));
    assert_int_equal(o->returned, 0);
    if (mw_live_freeze_begin(pid, &patient, &freeze, &err) != MW_OK)
        fail_msg("cannot freeze: %s", err.text);
    assert_int_equal(freeze->asleep_count, 0);
    mw_live_freeze_end(freeze, NULL);
    assert_true(wait_until(status_has(pid, "State:\tS")));
    return o->returned;
}

static void check_call(const struct call *call)
{
    struct outcome *o =
        mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(o, MAP_FAILED);
    o->queue = -1;
    pid_t pid = fork();
    if (pid == 0)
        child_run(call, o);
    assert_true(wait_until(o->ready));
    bool returned = false;
    for (int i = 0; i < FREEZES && !returned && o->ready > 0; i++)
        returned = freeze_once(pid, o);
    print_message("# %-26s %s\n", call->name,
                  o->ready < 0 ? "not here"
                  : returned   ? strerror(o->error)
                               : "sleeps on");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (o->queue >= 0 && call->make == call_msgrcv)
        msgctl(o->queue, IPC_RMID, NULL);
    else if (o->queue >= 0)
        semctl(o->queue, 0, IPC_RMID);
    if (o->ready > 0) {
        assert_int_equal(returned, call->notices);
        assert_int_equal(o->error, call->notices ? EINTR : 0);
    }
    munmap(o, sizeof *o);
}

static void test_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check_call(&calls[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_eintr", tests, NULL, NULL);
}
