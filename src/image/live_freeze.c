/* image/live_freeze.c: seize, interrupt, until the kernel's count of threads is reached.
 *
 *   list ─ SEIZE each ─ INTERRUPT each ─ wait ─ is the count of the group ours? ─ yes ─ registers
 *    ^                    ^ pause begins           │
 *    └─────────────────── no ──────────────────────┘
 *
 * A list of /proc/PID/task proves nothing: it skips threads while others end, and shows a thread
 * that is being made before ptrace can find it (ESRCH for one that is alive). The count proves:
 * a thread can only be made by one that runs; when all that we hold have stopped, and then the
 * kernel counts as many as we hold and have seen dead, nobody is left who runs.
 *
 * Trusts the kernel. Bounds: ROUNDS_MAX rounds, MW_LIMIT_THREADS threads, arrive_ns of waiting.
 * References: ptrace(2) "Attaching and detaching"; Linux 6.18 kernel/ptrace.c, kernel/signal.c
 * (do_jobctl_trap, get_signal), kernel/fork.c (copy_process: thread_node before attach_pid),
 * fs/proc/base.c (proc_task_readdir, proc_task_getattr). */
#include "image/live_freeze.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/vec.h"
#include "image/tracer.h"
#include "image/tracer_arch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 64,
    STILL_MAX = 10, /* rounds in a row that bring nobody new before we do without the proof */
    PATH_BYTES = 64,
};
static const uint64_t ARRIVE_NS = 50 * 1000 * 1000;

/* One seized thread. */
struct held {
    pid_t tid;
    bool arrived, gone;
    char name[16];
};

struct freeze {
    struct mw_live_freeze view; /* first: what the caller sees */
    pid_t pid;
    struct mw_live_freeze_options options;
    struct mw_tracer tracer;
    sem_t ready, end; /* tracer: begun or failed; caller: let go */
    enum mw_status status;
    struct mw_error error;
    uint64_t began_ns; /* the first interrupt */
    bool expired;

    /* Of the tracer thread. */
    struct mw_tracer_tasks tasks;
    MW_VEC(struct held) held; /* ascending by tid */
    MW_VEC(pid_t) unseized;   /* of the last list: those that ptrace could not find or seize */
};

static int held_compare(const void *a, const void *b)
{
    pid_t left = ((const struct held *)a)->tid, right = ((const struct held *)b)->tid;
    return left < right ? -1 : left > right;
}

static struct held *held_find(struct freeze *freeze, size_t count, pid_t tid)
{
    struct held key = {.tid = tid};
    if (count == 0)
        return NULL;
    return bsearch(&key, freeze->held.items, count, sizeof key, held_compare);
}

static enum mw_status seize_one(struct freeze *freeze, pid_t tid, struct held *known)
{
    struct held held = {.tid = tid};
    enum mw_status status = mw_tracer_seize(freeze->pid, tid, &freeze->error);
    if (status != MW_OK)
        return status;
    if (freeze->options.names) /* while the target runs, but for threads that appear later */
        mw_tracer_name_read(freeze->pid, tid, held.name, sizeof held.name);
    if (known) { /* taken for gone, or its id was used again */
        *known = held;
        return MW_OK;
    }
    status = mw_vec_push(&freeze->held, MW_LIMIT_THREADS, held);
    if (status != MW_OK)
        return mw_fail(&freeze->error, status, "cannot hold the threads of process %d",
                       freeze->pid);
    return MW_OK;
}

/* Seize the listed threads that are not held yet; they run on. *added_out: how many. */
static enum mw_status seize_new(struct freeze *freeze, size_t *added_out)
{
    size_t before = freeze->held.count;
    *added_out = 0;
    freeze->unseized.count = 0;
    for (size_t i = 0; i < freeze->tasks.count; i++) {
        pid_t tid = freeze->tasks.items[i];
        struct held *known = held_find(freeze, before, tid);
        if (tid == freeze->options.skip_tid)
            continue;
        if (known && !known->gone)
            continue;
        enum mw_status status = seize_one(freeze, tid, known);
        *added_out += status == MW_OK;
        if (status == MW_GONE)
            status = mw_vec_push(&freeze->unseized, MW_LIMIT_THREADS, tid);
        if (status != MW_OK)
            return status;
    }
    if (freeze->held.count > 0)
        qsort(freeze->held.items, freeze->held.count, sizeof *freeze->held.items, held_compare);
    return MW_OK;
}

static void interrupt_new(struct freeze *freeze)
{
    if (freeze->began_ns == 0)
        freeze->began_ns = mw_clock_monotonic_ns();
    for (size_t i = 0; i < freeze->held.count; i++) {
        struct held *held = &freeze->held.items[i];
        if (!held->arrived && !held->gone && ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL) != 0)
            held->gone = true;
    }
}

/* Wait until they have arrived, in all rounds together at most arrive_ns. Any kind of stop will do:
 * a signal waits in its stop and is delivered when the tracer lets go. */
static void wait_new(struct freeze *freeze)
{
    uint64_t deadline = freeze->began_ns + freeze->options.arrive_ns;
    for (size_t i = 0; i < freeze->held.count; i++) {
        struct held *held = &freeze->held.items[i];
        if (held->arrived || held->gone)
            continue;
        enum mw_tracer_event event = mw_tracer_wait(held->tid, deadline).event;
        held->arrived = event != MW_TRACER_NONE && event != MW_TRACER_GONE;
        held->gone = event == MW_TRACER_GONE;
    }
}

/* How many threads the kernel counts in the group, those that have ended and are not yet released
 * included: the links of the folder say so, in a microsecond. 0: they do not. */
static size_t count_group(const struct freeze *freeze)
{
    char path[PATH_BYTES];
    struct stat stat_of;
    snprintf(path, sizeof path, "/proc/%d/task", freeze->pid);
    return stat(path, &stat_of) == 0 && stat_of.st_nlink > 2 ? (size_t)stat_of.st_nlink - 2 : 0;
}

/* Has it ended, and is still counted? Not "can it be found": one that is being made cannot. */
static bool is_dead(const struct freeze *freeze, pid_t tid)
{
    char path[PATH_BYTES], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", freeze->pid, tid);
    MW_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (got <= 0)
        return false;
    text[got] = '\0';
    const char *bracket = strrchr(text, ')');
    return bracket && bracket[1] == ' ' && (bracket[2] == 'Z' || bracket[2] == 'X');
}

/* Is nobody left that runs? First the count, then the looks: whoever is dead or held afterwards was
 * so, or ran, when it was counted, so that one whom we do not know makes the count too large. */
static bool is_complete(struct freeze *freeze)
{
    size_t counted = count_group(freeze), known = freeze->options.skip_tid != 0;
    for (size_t i = 0; i < freeze->held.count; i++) {
        struct held *held = &freeze->held.items[i];
        if (!held->arrived && !held->gone && mw_tracer_peek(held->tid).event == MW_TRACER_GONE)
            held->gone = true;
        known += held->gone ? is_dead(freeze, held->tid) : 1;
    }
    for (size_t i = 0; i < freeze->unseized.count && known < counted; i++) {
        pid_t tid = freeze->unseized.items[i];
        if (!held_find(freeze, freeze->held.count, tid))
            known += is_dead(freeze, tid);
    }
    return counted > 0 && known == counted;
}

/* Stop everybody. Where the kernel never counts as we do, lists that bring nobody new must do. */
static enum mw_status stop_all(struct freeze *freeze)
{
    unsigned still = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        size_t added;
        enum mw_status status = mw_tracer_tasks_list(freeze->pid, &freeze->tasks, &freeze->error);
        if (status == MW_OK)
            status = seize_new(freeze, &added);
        if (status != MW_OK)
            return status;
        interrupt_new(freeze);
        wait_new(freeze);
        freeze->view.is_counted = is_complete(freeze);
        still = added == 0 ? still + 1 : 0;
        if (freeze->view.is_counted || still == STILL_MAX)
            return MW_OK;
        if (still > 1)
            mw_tracer_sleep((uint64_t)1000 << still);
    }
    return mw_fail(&freeze->error, MW_LIMIT,
                   "process %d makes threads faster than they can be stopped", freeze->pid);
}

static void thread_collect(struct freeze *freeze, const struct held *held, struct mw_thread *thread)
{
    *thread = (struct mw_thread){.tid = held->tid};
    memcpy(thread->name, held->name, sizeof thread->name);
    if (held->arrived && mw_tracer_thread_read(held->tid, thread)) {
        if (freeze->options.vectors)
            mw_tracer_vectors_read(held->tid, &freeze->view.vectors);
        return;
    }
    struct mw_tracer_syscall seen = mw_tracer_syscall_read(freeze->pid, held->tid);
    if (seen.known && seen.blocked) {
        thread->pc = seen.pc;
        thread->sp = seen.sp;
    }
}

static enum mw_status collect(struct freeze *freeze)
{
    struct mw_live_freeze *view = &freeze->view;
    view->threads = mw_calloc(freeze->held.count, sizeof *view->threads);
    if (!view->threads)
        return mw_fail(&freeze->error, MW_NOMEM, "out of memory for %zu threads",
                       freeze->held.count);
    for (size_t i = 0; i < freeze->held.count; i++) {
        const struct held *held = &freeze->held.items[i];
        if (held->gone)
            continue;
        thread_collect(freeze, held, &view->threads[view->thread_count++]);
        view->asleep_count += !held->arrived;
    }
    if (view->thread_count == 0)
        return mw_fail(&freeze->error, MW_GONE, "process %d has exited", freeze->pid);
    return MW_OK;
}

/* Wait for the caller's word, or for hold_ns. */
static void hold(struct freeze *freeze)
{
    if (freeze->options.hold_ns == 0) {
        while (sem_wait(&freeze->end) != 0)
            continue;
        return;
    }
    uint64_t until = freeze->began_ns + freeze->options.hold_ns;
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
                          .tv_nsec = (long)(until % 1000000000u)};
    while (sem_clockwait(&freeze->end, CLOCK_MONOTONIC, &at) != 0)
        if (errno == ETIMEDOUT) {
            freeze->expired = true;
            return;
        }
}

/* The tracer thread; its end lets everybody go. */
static void freeze_run(void *user)
{
    struct freeze *freeze = user;
    freeze->status = stop_all(freeze);
    if (freeze->status == MW_OK)
        freeze->status = collect(freeze);
    bool stopped = freeze->status == MW_OK;
    sem_post(&freeze->ready);
    if (stopped)
        hold(freeze);
}

static void freeze_free(struct freeze *freeze)
{
    sem_destroy(&freeze->ready);
    sem_destroy(&freeze->end);
    mw_tracer_tasks_deinit(&freeze->tasks);
    mw_vec_deinit(&freeze->held);
    mw_vec_deinit(&freeze->unseized);
    free(freeze->view.threads);
    mw_vec_deinit(&freeze->view.vectors);
    free(freeze);
}

enum mw_status mw_live_freeze_begin(pid_t pid, const struct mw_live_freeze_options *options,
                                    struct mw_live_freeze **freeze_out, struct mw_error *err)
{
    if (pid <= 0 || pid == getpid())
        return mw_fail(err, MW_INVALID, "cannot stop process %d", pid);
    struct freeze *freeze = mw_calloc(1, sizeof *freeze);
    if (!freeze)
        return mw_fail(err, MW_NOMEM, "out of memory");
    freeze->pid = pid;
    if (options)
        freeze->options = *options;
    if (freeze->options.arrive_ns == 0)
        freeze->options.arrive_ns = ARRIVE_NS;
    sem_init(&freeze->ready, 0, 0);
    sem_init(&freeze->end, 0, 0);
    enum mw_status status = mw_tracer_start(&freeze->tracer, freeze_run, freeze, err);
    if (status != MW_OK) {
        freeze_free(freeze);
        return status;
    }
    while (sem_wait(&freeze->ready) != 0)
        continue;
    status = freeze->status;
    if (status == MW_OK) {
        *freeze_out = &freeze->view;
        return MW_OK;
    }
    mw_tracer_join(&freeze->tracer);
    if (err)
        *err = freeze->error;
    freeze_free(freeze);
    return status;
}

void mw_live_freeze_end(struct mw_live_freeze *view, struct mw_live_freeze_end *end_out)
{
    struct freeze *freeze = (struct freeze *)view; /* view is its first member */
    if (!freeze)
        return;
    assert(freeze->status == MW_OK);
    sem_post(&freeze->end);
    mw_tracer_join(&freeze->tracer);
    if (end_out)
        *end_out = (struct mw_live_freeze_end){
            .pause_ns = mw_clock_monotonic_ns() - freeze->began_ns, .expired = freeze->expired};
    freeze_free(freeze);
}
