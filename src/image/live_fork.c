/* image/live_fork.c: the chain of system calls that forks the target, and holding the copy.
 *
 *   thread   ask ─ clone(VM) ─ wait4 ................................. back to what it did
 *   helper             └─ clone ────────────────────────── exit
 *   copy                     └─ stopped at birth ─ close_range ─ stands still ─ killed
 *
 * Three tracer threads (tracer.h): the holder borrows the thread, leads it and the helper, and then
 * holds the copy; the freeze holds all other threads until the copy is made; the watcher takes over
 * the borrowed thread while that waits, since its way back is watched as that of a call is.
 *
 * Two steps are completed by the kernel on the way. PR_GET_CHILD_SUBREAPER stores its 0 or 1 into
 * the second byte of the number of the next call: 56 is clone, 56 + 256 is kcmp, which does nothing
 * here; so a target that would become the parent of the copy is not forked even if memwhy dies at
 * that point. CLONE_PARENT_SETTID stores the helper's id into wait4's first argument.
 *
 * Trusts the kernel. Bounds: STEPS_MAX stops for each task, and deadlines.
 * References: design note 016; Linux 6.18 kernel/fork.c (copy_process, dup_mmap), kernel/exit.c
 * (reparent_leader, exit_notify, wait_consider_child), kernel/signal.c (do_notify_parent),
 * include/linux/ptrace.h (ptrace_init_task), kernel/sys.c (PR_GET_CHILD_SUBREAPER). */
#include "image/live_fork.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "image/live_call_state.h"
#include "image/live_freeze.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char without[] = "leave out --fork: the heap is then read in short stops";

enum mw_status mw_live_fork_target_check(const struct mw_process *process,
                                         const struct mw_mapping_list *regions,
                                         struct mw_error *err)
{
    int32_t pid = process->pid;
    enum mw_status status = mw_live_call_target_check(process, err);
    if (status == MW_OK && process->seccomp > 0)
        status = mw_fail(err, MW_UNSUPPORTED,
                         "process %d has a seccomp filter, which may not let it fork", pid);
    if (status == MW_OK && process->ns_pid == 1)
        status = mw_fail(err, MW_UNSUPPORTED,
                         "process %d is the init of its pid namespace: a copy of it would become "
                         "its own child",
                         pid);
    for (size_t i = 0; i < regions->count && status == MW_OK; i++)
        if (regions->items[i].vm_flags & MW_VM_USERFAULTFD)
            status =
                mw_fail_at(err, MW_UNSUPPORTED, regions->items[i].start,
                           "process %d uses userfaultfd, whose monitor a fork may wait for", pid);
    if (status == MW_UNSUPPORTED)
        mw_error_hint(err, "%s", without);
    return status;
}

#if defined(__x86_64__)

enum {
    STEPS_MAX = 32,      /* stops of one task before it has made the next */
    THREAD_NS = 1 << 30, /* for the helper to appear: about a second */
    STACK_BYTES = 256,   /* below the frames; nobody runs there */
    COLLECT_MS = 500,    /* for the copy's new parent */
    CLOSE_RANGE = 436,   /* Linux 5.9 */
    CLOSE_UNSHARE = 2,
    NICE_URGENT = -20,
    IS_COLLECTOR = -1, /* an outcome that is no errno */
};
/* A second for each 60 GiB or so of small pages, and a good deal more. */
static const uint64_t COPY_NS = 120ull * 1000 * 1000 * 1000;
/* Nobody waits for the copy to settle but us; a busy machine may let it wait. */
static const uint64_t SETTLE_NS = 10ull * 1000 * 1000 * 1000;

enum { ASK, FORK, WAIT, HELPER_FORK, HELPER_EXIT, COPY_CLOSE, COPY_EXIT, STEP_COUNT };
static_assert((int)STEP_COUNT <= (int)MW_LIVE_STEPS_MAX, "room for the chain");
static_assert(SYS_clone + 256 == SYS_kcmp, "what a collector of orphans does instead");

#define VALUE(number)                                                                              \
    {                                                                                              \
        MW_STEP_VALUE, (uint64_t)(number), 0                                                       \
    }
static const struct mw_live_step chain[STEP_COUNT] = {
    [ASK] = {SYS_prctl, {VALUE(PR_GET_CHILD_SUBREAPER), {MW_STEP_NUMBER, FORK, 1}}, FORK},
    [FORK] = {SYS_clone,
              {VALUE(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PARENT_SETTID),
               {MW_STEP_FRAME, HELPER_FORK, 0},
               {MW_STEP_ARG, WAIT, 0}},
              WAIT},
    [WAIT] = {SYS_wait4, {VALUE(INT_MAX), VALUE(0), VALUE(__WALL)}, MW_LIVE_STEP_BACK},
    [HELPER_FORK] = {SYS_clone, {VALUE(CLONE_FILES), {MW_STEP_FRAME, COPY_CLOSE, 0}}, HELPER_EXIT},
    [HELPER_EXIT] = {SYS_exit_group, {VALUE(0)}, HELPER_EXIT},
    [COPY_CLOSE] = {CLOSE_RANGE, {VALUE(0), VALUE(UINT_MAX), VALUE(CLOSE_UNSHARE)}, COPY_EXIT},
    [COPY_EXIT] = {SYS_exit_group, {VALUE(0)}, COPY_EXIT},
};

struct fork_state {
    struct mw_live_fork view;                   /* first: what the caller sees */
    const struct mw_live_fork_request *request; /* until `tried` */
    struct mw_live_call_state *call;            /* likewise */
    struct mw_live_freeze *others;
    struct mw_tracer holder, watcher;
    sem_t tried, drop;       /* holder: success or not; caller: kill the copy */
    sem_t seized, returning; /* watcher has the thread; it is on its way back */
    bool is_made, watches;
    struct mw_error error; /* the holder's own: the watcher writes call->error */
    uint64_t began_ns, returning_ns, others_ns;
};

/* ---- leading tasks from stop to stop ---- */

/* From system call to system call until the task has made another: 0 and *made_out. Else the errno
 * with which it could not, IS_COLLECTOR, ESRCH, ETIMEDOUT. */
static int lead_to_clone(pid_t tid, uint64_t deadline_ns, pid_t *made_out)
{
    bool entering = false;
    for (int i = 0; i < STEPS_MAX; i++) {
        if (ptrace(PTRACE_SYSCALL, tid, NULL, NULL) != 0)
            return ESRCH;
        struct mw_tracer_stop stop = mw_tracer_wait(tid, deadline_ns);
        struct user_regs_struct regs;
        unsigned long made;
        if (stop.event == MW_TRACER_CLONE) {
            if (ptrace(PTRACE_GETEVENTMSG, tid, NULL, &made) != 0)
                return ESRCH;
            *made_out = (pid_t)made;
            return 0;
        }
        if (stop.event == MW_TRACER_NONE || stop.event == MW_TRACER_GONE)
            return stop.event == MW_TRACER_NONE ? ETIMEDOUT : ESRCH;
        if (stop.event != MW_TRACER_SYSCALL)
            continue;
        entering = !entering;
        if (mw_tracer_regs_read(tid, &regs, NULL) != MW_OK)
            return ESRCH;
        if (regs.orig_rax == SYS_kcmp)
            return IS_COLLECTOR;
        if (!entering && regs.orig_rax == SYS_clone)
            return (int)-(int64_t)regs.rax;
    }
    return ETIMEDOUT;
}

static bool options_set(pid_t tid, unsigned long options)
{
    return ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)options) == 0;
}

/* The copy, stopped at birth: from here on it dies with us. Let it give up the open files, which
 * would else stay open when the target closes them; a kernel that cannot leaves them shared, which
 * for a task that does nothing is as good while the target lives. */
static bool copy_settle(pid_t copy, uint64_t deadline_ns)
{
    bool entering = false;
    if (mw_tracer_wait(copy, deadline_ns).event != MW_TRACER_TRAP ||
        !options_set(copy, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD))
        return false;
    for (int i = 0; i < STEPS_MAX; i++) {
        struct user_regs_struct regs;
        if (ptrace(PTRACE_SYSCALL, copy, NULL, NULL) != 0)
            return false;
        struct mw_tracer_stop stop = mw_tracer_wait(copy, deadline_ns);
        if (stop.event == MW_TRACER_NONE || stop.event == MW_TRACER_GONE)
            return false;
        if (stop.event != MW_TRACER_SYSCALL)
            continue;
        entering = !entering;
        if (mw_tracer_regs_read(copy, &regs, NULL) != MW_OK)
            return false;
        if (!entering && regs.orig_rax == CLOSE_RANGE)
            return true;
    }
    return false;
}

/* When memory runs out, the copy shall be what goes. */
static void copy_offer(pid_t copy)
{
    static const char first[] = "1000";
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", copy);
    MW_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, first, sizeof first - 1) < 0)
        return; /* then it is as likely as the target */
}

/* ---- the borrowed thread and the others ---- */

static void watcher_run(void *user)
{
    struct fork_state *fork = user;
    struct mw_error spare;
    bool seized = mw_tracer_seize(fork->call->pid, fork->call->frame.tid, &spare) == MW_OK;
    sem_post(&fork->seized);
    while (sem_wait(&fork->returning) != 0)
        continue;
    if (seized)
        mw_live_call_watch(fork->call, fork->returning_ns);
}

static void watcher_start(struct fork_state *fork)
{
    fork->watches = mw_tracer_start(&fork->watcher, watcher_run, fork, NULL) == MW_OK;
    while (fork->watches && sem_wait(&fork->seized) != 0)
        continue;
}

static void watcher_join(struct fork_state *fork)
{
    if (!fork->watches)
        return;
    mw_tracer_join(&fork->watcher);
}

/* The region of the frames must be copied, or the copy would read zeros, or nothing, there. */
static bool stack_is_copied(const struct fork_state *fork)
{
    const struct mw_mapping *map = mw_mapping_find(fork->request->regions, fork->call->frame.start);
    return !map || !(map->vm_flags & (MW_VM_DONTFORK | MW_VM_WIPEONFORK));
}

/* Hold the other threads, if there are any. */
static enum mw_status others_stop(struct fork_state *fork)
{
    const struct mw_live_freeze_options options = {
        .skip_tid = fork->call->frame.tid,
        .hold_ns = fork->request->hold_ns,
        .names = fork->request->names,
        .vectors = fork->request->vectors,
    };
    enum mw_status status =
        mw_live_freeze_begin(fork->call->pid, &options, &fork->others, &fork->error);
    return status == MW_GONE ? MW_OK : status; /* the borrowed thread says if it is gone */
}

static void others_go(struct fork_state *fork)
{
    struct mw_live_freeze_end end = {0};
    mw_live_freeze_end(fork->others, &end);
    fork->others = NULL;
    fork->view.expired = end.expired;
    fork->others_ns = mw_clock_monotonic_ns();
}

static void thread_of_borrowed(const struct fork_state *fork, struct mw_thread *thread)
{
    const struct mw_live_frame *frame = &fork->call->frame;
    const struct user_regs_struct *regs = &frame->regs.now;
    *thread = (struct mw_thread){.tid = frame->tid,
                                 .has_registers = true,
                                 .pc = mw_tracer_regs_pc(regs),
                                 .sp = mw_tracer_regs_sp(regs),
                                 .tp = mw_tracer_regs_tp(regs)};
    static_assert(sizeof *regs <= sizeof thread->registers, "room for NT_PRSTATUS");
    memcpy(thread->registers, regs, sizeof *regs);
    thread->register_count = sizeof *regs / sizeof thread->registers[0];
    if (fork->request->names)
        mw_tracer_name_read(frame->pid, frame->tid, thread->name, sizeof thread->name);
}

/* All threads with their registers, before anything has changed. */
static enum mw_status threads_keep(struct fork_state *fork)
{
    size_t others = fork->others ? fork->others->thread_count : 0, at = 0;
    struct mw_thread *threads = mw_calloc(others + 1, sizeof *threads);
    if (!threads)
        return mw_fail(&fork->error, MW_NOMEM, "out of memory for %zu threads", others + 1);
    while (at < others && fork->others->threads[at].tid < fork->call->frame.tid)
        at++;
    if (at > 0)
        memcpy(threads, fork->others->threads, at * sizeof *threads);
    if (at < others)
        memcpy(threads + at + 1, fork->others->threads + at, (others - at) * sizeof *threads);
    thread_of_borrowed(fork, &threads[at]);
    fork->view.threads = threads;
    fork->view.thread_count = others + 1;
    if (others > 0) {
        fork->view.vectors = fork->others->vectors;
        fork->others->vectors = (struct mw_vectors){0};
    }
    if (fork->request->vectors)
        mw_tracer_vectors_read(fork->call->frame.tid, &fork->view.vectors);
    return MW_OK;
}

static void ranges_read(struct fork_state *fork)
{
    for (size_t i = 0; i < fork->request->range_count; i++) {
        struct mw_live_fork_range *range = &fork->request->ranges[i];
        range->is_read =
            mw_tracer_read(fork->call->frame.tid, range->start, range->bytes, range->length);
    }
}

/* ---- forking ---- */

static enum mw_status fork_failed(struct fork_state *fork, int why)
{
    struct mw_error *err = &fork->error;
    pid_t pid = fork->call->pid;
    if (why == ESRCH)
        return mw_fail(err, MW_GONE, "process %d ended while it was forked", pid);
    if (why == IS_COLLECTOR)
        mw_fail(err, MW_UNSUPPORTED,
                "process %d collects the orphans below it (PR_SET_CHILD_SUBREAPER): a copy of it "
                "would become its own child",
                pid);
    else if (why == ETIMEDOUT)
        mw_fail(err, MW_LIMIT, "process %d could not be forked in time", pid);
    else
        mw_fail(err, MW_LIMIT, "the kernel does not let process %d fork: %s", pid, strerror(why));
    mw_error_hint(err, "%s", without);
    return err->code;
}

/* The helper, stopped at birth, to its fork and its end. 0 or why not. */
static int helper_lead(struct fork_state *fork, pid_t helper)
{
    pid_t copy = 0;
    int why = ESRCH;
    if (mw_tracer_wait(helper, mw_clock_monotonic_ns() + THREAD_NS).event == MW_TRACER_TRAP &&
        options_set(helper, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE))
        why = lead_to_clone(helper, mw_clock_monotonic_ns() + COPY_NS, &copy);
    if (why == 0)
        ranges_read(fork);
    fork->returning_ns = mw_clock_monotonic_ns();
    ptrace(PTRACE_DETACH, helper, NULL, NULL); /* exits, and the thread that waits goes on */
    sem_post(&fork->returning);
    if (fork->others)
        others_go(fork);
    if (why != 0)
        return why;
    if (!copy_settle(copy, mw_clock_monotonic_ns() + SETTLE_NS)) {
        kill(copy, SIGKILL);
        return ETIMEDOUT;
    }
    fork->view.child = copy;
    copy_offer(copy);
    return 0;
}

/* From the register write on. The thread ends up let go, or watched. */
static enum mw_status fork_make(struct fork_state *fork)
{
    struct mw_live_call_state *call = fork->call;
    pid_t tid = call->frame.tid, helper = 0;
    if (!mw_tracer_write(tid, call->frame.start, call->frame.bytes, call->frame.size))
        return mw_fail(&fork->error, MW_LIMIT, "thread %d has a stack that cannot be written", tid);
    if (!options_set(tid, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) ||
        !mw_live_frame_enter(&call->frame))
        return mw_fail_errno(&fork->error, errno, "cannot set the registers of thread %d", tid);
    int why = lead_to_clone(tid, mw_clock_monotonic_ns() + THREAD_NS, &helper);
    if (why != 0) {
        options_set(tid, 0);
        ptrace(PTRACE_CONT, tid, NULL, NULL);
        fork->returning_ns = mw_clock_monotonic_ns();
        mw_live_call_watch(call, fork->returning_ns);
        return fork_failed(fork, why);
    }
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
    watcher_start(fork);
    why = helper_lead(fork, helper);
    return why == 0 ? MW_OK : fork_failed(fork, why);
}

/* The copy until it is not wanted any more. */
static void copy_hold(pid_t copy, sem_t *drop)
{
    while (sem_wait(drop) != 0)
        continue;
    if (kill(copy, SIGKILL) != 0)
        return; /* not ours to kill: the end of this thread does it */
    while (waitpid(copy, NULL, __WALL) < 0 && errno == EINTR)
        continue;
}

/* The later of the two ends; `elapsed` is the watcher's, of the thread's way back. */
static uint64_t pause_length(const struct fork_state *fork)
{
    uint64_t back_ns = fork->returning_ns + fork->call->result.elapsed_ns;
    uint64_t end_ns = back_ns > fork->others_ns ? back_ns : fork->others_ns;
    return end_ns - fork->began_ns;
}

/* One try, in the holder's thread. */
static void holder_try(struct fork_state *fork)
{
    struct mw_live_call_state *call = fork->call;
    fork->began_ns = mw_clock_monotonic_ns();
    if (!mw_live_call_borrow(call))
        return;
    if (!stack_is_copied(fork)) {
        mw_fail(&call->error, MW_LIMIT, "thread %d has a stack that a fork does not copy",
                call->frame.tid);
        return;
    }
    enum mw_status status = others_stop(fork);
    if (status == MW_OK)
        status = threads_keep(fork);
    if (status == MW_OK)
        status = fork_make(fork);
    else
        mw_tracer_soften(call->frame.tid, &call->frame.regs.now, true);
    if (fork->others)
        others_go(fork);
    watcher_join(fork);
    fork->is_made = status == MW_OK;
    call->outcome = fork->is_made ? MW_LIVE_DONE : MW_LIVE_FAILED;
    if (fork->is_made)
        fork->view.pause_ns = pause_length(fork);
    else
        call->error = fork->error;
}

static void holder_run(void *user)
{
    struct fork_state *fork = user;
    /* Of this thread and those that it starts: to be served first while the target waits. Without
     * the right to it nothing changes. */
    (void)setpriority(PRIO_PROCESS, 0, NICE_URGENT);
    holder_try(fork);
    bool is_made = fork->is_made;
    sem_post(&fork->tried);
    if (is_made)
        copy_hold(fork->view.child, &fork->drop);
}

/* mw_live_call_state.run_try. */
static enum mw_status run_try(struct mw_live_call_state *call, struct mw_error *err)
{
    struct fork_state *fork = call->run_user;
    fork->call = call;
    enum mw_status status = mw_tracer_start(&fork->holder, holder_run, fork, err);
    if (status != MW_OK)
        return status;
    while (sem_wait(&fork->tried) != 0)
        continue;
    if (!fork->is_made)
        mw_tracer_join(&fork->holder);
    return MW_OK;
}

static void fork_free(struct fork_state *fork)
{
    sem_destroy(&fork->tried);
    sem_destroy(&fork->drop);
    sem_destroy(&fork->seized);
    sem_destroy(&fork->returning);
    free(fork->view.threads);
    mw_vec_deinit(&fork->view.vectors);
    free(fork);
}

static struct fork_state *fork_new(const struct mw_live_fork_request *request)
{
    struct fork_state *fork = mw_calloc(1, sizeof *fork);
    if (!fork)
        return NULL;
    fork->request = request;
    sem_init(&fork->tried, 0, 0);
    sem_init(&fork->drop, 0, 0);
    sem_init(&fork->seized, 0, 0);
    sem_init(&fork->returning, 0, 0);
    return fork;
}

enum mw_status mw_live_fork_begin(pid_t pid, const struct mw_live_fork_request *request,
                                  struct mw_live_fork **fork_out, struct mw_error *err)
{
    static const struct mw_live_call_request borrowed = {.stack_bytes = STACK_BYTES};
    struct fork_state *fork = fork_new(request);
    MW_FREE struct mw_live_call_state *call = mw_calloc(1, sizeof *call);
    if (!fork || !call) {
        if (fork)
            fork_free(fork);
        return mw_fail(err, MW_NOMEM, "out of memory");
    }
    call->steps = chain;
    call->step_count = STEP_COUNT;
    call->run_try = run_try;
    call->run_user = fork;
    enum mw_status status = mw_live_call_run(call, pid, &borrowed, err);
    fork->call = NULL;
    fork->request = NULL;
    if (status != MW_OK) {
        assert(!fork->is_made);
        if (err && err->hint[0] == '\0' && status != MW_GONE)
            mw_error_hint(err, "%s", without);
        fork_free(fork);
        return status;
    }
    *fork_out = &fork->view;
    return MW_OK;
}

/* Is there nothing left of it, not even a zombie? */
static bool copy_is_collected(pid_t copy)
{
    for (int ms = 0; ms < COLLECT_MS; ms++) {
        if (kill(copy, 0) != 0 && errno == ESRCH)
            return true;
        mw_tracer_sleep(1000 * 1000);
    }
    return false;
}

bool mw_live_fork_end(struct mw_live_fork *view)
{
    struct fork_state *fork = (struct fork_state *)view; /* view is its first member */
    if (!fork)
        return true;
    pid_t copy = fork->view.child;
    sem_post(&fork->drop);
    mw_tracer_join(&fork->holder);
    fork_free(fork);
    return copy_is_collected(copy);
}

#else

enum mw_status mw_live_fork_begin(pid_t pid, const struct mw_live_fork_request *request,
                                  struct mw_live_fork **fork_out, struct mw_error *err)
{
    (void)request;
    (void)fork_out;
    enum mw_status status =
        mw_fail(err, MW_UNSUPPORTED,
                "cannot fork process %d: memwhy knows the signal frame of x86-64 only", pid);
    mw_error_hint(err, "%s", without);
    return status;
}

bool mw_live_fork_end(struct mw_live_fork *fork)
{
    return fork == NULL;
}

#endif
