/* image/live_call.c: choosing a thread to borrow, entering the function, seeing its end.
 *
 * Each try runs in a tracer thread of its own (tracer.h), whose end lets the target's thread go:
 * a try that gives up, the normal end and memwhy's death are one path in the kernel.
 *
 *   SEIZE, INTERRUPT ── stop ── checks ── write frame ── SETREGS ── SETSIGMASK ── CONT ── watch
 *   └──────── nothing changed but dead stack ────────┘   commit     └─ the frame restores it ─┘
 *
 * Trusts the kernel; what is read from the target's stack only makes us refuse. Bounds: attempts ×
 * THREADS_PER_ROUND tries, each try STOP_NS, the function timeout_ns.
 * References: design note 005; ptrace(2); Linux 6.18 mm/mmap.c (stack_guard_gap). */
#include "image/live_call.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/limits.h"
#include "image/live_call_frame.h"
#include "image/tracer.h"
#include "image/tracer_arch.h"
#include "proc/process.h"
#include "proc/smaps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* What can be seen to be wrong before anything is stopped. */
enum mw_status mw_live_call_target_check(const struct mw_process *process, struct mw_error *err)
{
    int32_t pid = process->pid;
    bool others_run = process->thread_count != MW_UNKNOWN && process->thread_count > 1;
    if ((process->state == 'Z' && !others_run) || process->state == 'X')
        return mw_fail(err, MW_GONE, "process %d is a zombie: its memory is gone", pid);
    if (process->user_shadow_stack)
        return mw_fail(err, MW_UNSUPPORTED,
                       "process %d has a shadow stack, which a call from outside would violate",
                       pid);
    if (process->seccomp == 1)
        return mw_fail(err, MW_UNSUPPORTED,
                       "process %d is in strict seccomp mode: the kernel would kill it", pid);
    if (process->tracer_pid > 0)
        return mw_tracer_other(pid, process->tracer_pid, err);
    if (process->state == 'T') {
        enum mw_status code = mw_fail(err, MW_LIMIT, "process %d is stopped by job control", pid);
        mw_error_hint(err, "kill -CONT %d", pid);
        return code;
    }
    return MW_OK;
}

#if defined(__x86_64__)

enum {
    THREADS_PER_ROUND = 16,
    STOP_NS = 100 * 1000 * 1000, /* a thread in uninterruptible sleep may not stop */
    SIGNALS_BEFORE_STOP = 16,    /* deliveries that may come in front of our own stop */
    WATCH_NS_MIN = 100 * 1000,
    WATCH_NS_MAX = 20 * 1000 * 1000,
    SETTLE_NS = 20 * 1000 * 1000,
    SETTLE_STEP_NS = 50 * 1000,
    ABANDON_NS = 200 * 1000 * 1000, /* for the signal return after giving up */
    STACK_GUARD_GAP = 1 << 20,      /* the kernel's default: 256 pages */
    CONTROL_BLOCK_WORDS = 320,      /* of struct pthread; glibc 2.36 has 288 */
};

static const struct mw_live_call_request request_defaults = {
    .attempts = 20,
    .attempt_pause_ns = 5 * 1000 * 1000,
    .timeout_ns = 10ull * 1000 * 1000 * 1000,
    .stack_bytes = 64 << 10,
};

enum outcome {
    OUTCOME_NEXT,   /* this thread cannot be used now; error says why */
    OUTCOME_DONE,   /* the function has run */
    OUTCOME_FAILED, /* final; error says why */
};

/* One mw_live_call(). The tracer thread owns it while it runs. */
struct call {
    pid_t pid;
    struct mw_live_call_request req; /* defaults filled in */
    struct mw_mapping_list maps;     /* of this round */
    mw_addr restorer;                /* 0: not looked for yet */
    uint64_t limit_stack;
    struct mw_tracer_tasks tasks;
    pid_t memory_tid; /* a thread through which the memory can be read */
    enum mw_tracer_ease ease_accepted;

    enum outcome outcome; /* of one try */
    struct mw_error error;
    struct mw_live_call_result result;
    struct mw_live_frame frame;
    uint8_t stack[MW_LIVE_SCAN_BYTES];
};

static void try_ends(struct call *call, enum outcome outcome)
{
    call->outcome = outcome;
}

/* While it is traced, even a signal that the thread ignores ends its system call. */
static void signal_soften(pid_t tid)
{
    struct user_regs_struct now;
    if (mw_tracer_regs_read(tid, &now, NULL) == MW_OK)
        mw_tracer_soften(tid, &now, true);
}

/* Stop the thread. False when it does not come to our stop: the outcome is set. */
static bool try_stop(struct call *call)
{
    pid_t tid = call->frame.tid;
    enum mw_status code = mw_tracer_seize(call->pid, tid, &call->error);
    if (code != MW_OK) {
        try_ends(call, code == MW_GONE ? OUTCOME_NEXT : OUTCOME_FAILED);
        return false;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) {
        mw_fail(&call->error, MW_GONE, "thread %d of process %d has exited", tid, call->pid);
        return false;
    }
    uint64_t deadline = mw_clock_monotonic_ns() + STOP_NS;
    for (int i = 0; i < SIGNALS_BEFORE_STOP; i++) {
        struct mw_tracer_stop stop = mw_tracer_wait(tid, deadline);
        switch (stop.event) {
        case MW_TRACER_TRAP:
            return true;
        case MW_TRACER_SIGNAL: /* was on its way before us: let it be delivered */
            signal_soften(tid);
            ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)stop.signal);
            continue;
        case MW_TRACER_GROUP_STOP:
            mw_fail(&call->error, MW_LIMIT, "process %d is stopped by job control", call->pid);
            mw_error_hint(&call->error, "kill -CONT %d", call->pid);
            try_ends(call, OUTCOME_FAILED);
            return false;
        case MW_TRACER_GONE:
            mw_fail(&call->error, MW_GONE, "thread %d of process %d has exited", tid, call->pid);
            return false;
        case MW_TRACER_NONE:
            break;
        }
        break;
    }
    mw_fail(&call->error, MW_LIMIT, "thread %d of process %d cannot be stopped now", tid,
            call->pid);
    return false;
}

/* A thread's own stack: half-open, within one mapping. */
struct own_stack {
    mw_addr start, end;
    bool grows; /* the first thread's: the kernel extends it */
    const struct mw_mapping *map;
};

/* The block begins within the mapping, or in the guard pages right below it. */
static bool stack_starts_at(const struct call *call, const struct mw_mapping *map, mw_addr start)
{
    if (start >= map->start)
        return true;
    const struct mw_mapping *guard = mw_mapping_find(&call->maps, start);
    const uint32_t any = MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC;
    return guard && guard->end == map->start && !(guard->perms & any);
}

/* Both glibc and musl keep the stack of every thread but the first in the thread's control block,
 * which lies at its upper end: a start and a size in two words in a row (struct pthread: stackblock
 * and stackblock_size; map_base and map_size). Looked for by what they say, since the place differs
 * between versions. */
static bool stack_from_block(struct call *call, const struct mw_mapping *map, mw_addr sp,
                             mw_addr tp, struct own_stack *stack_out)
{
    uint64_t words[CONTROL_BLOCK_WORDS];
    size_t count = (size_t)((map->end - tp) / sizeof *words);
    count = count < CONTROL_BLOCK_WORDS ? count : CONTROL_BLOCK_WORDS;
    if (count < 2 || !mw_tracer_read(call->frame.tid, tp, words, count * sizeof *words) ||
        words[0] != tp) /* its first word is its own address */
        return false;
    for (size_t i = 1; i + 1 < count; i++) {
        uint64_t start = words[i], size = words[i + 1], end = start + size;
        if (start > sp || end <= tp || end < start || end > map->end ||
            !stack_starts_at(call, map, start))
            continue;
        *stack_out = (struct own_stack){
            .start = start > map->start ? start : map->start, .end = end, .map = map};
        return true;
    }
    return false;
}

/* Does the thread run on its own stack? A coroutine, a goroutine or a signal handler on another
 * stack has live data of others below it. */
static bool stack_find(struct call *call, mw_addr sp, mw_addr tp, struct own_stack *stack_out)
{
    const struct mw_mapping *map = mw_mapping_find(&call->maps, sp);
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    if (!map || (map->perms & (wanted | MW_PERM_SHARED)) != wanted)
        return false;
    if (strcmp(map->name, "[stack]") != 0)
        return tp > sp && tp < map->end && stack_from_block(call, map, sp, tp, stack_out);
    *stack_out =
        (struct own_stack){.start = map->start, .end = map->end, .grows = true, .map = map};
    return call->frame.tid == call->pid;
}

/* May the main stack grow down to low? The kernel does it by itself when it is touched. */
static bool stack_may_grow(const struct call *call, const struct own_stack *stack, mw_addr low)
{
    if (!stack->grows || stack->end - low > call->limit_stack)
        return false;
    if (stack->map == call->maps.items)
        return true;
    mw_addr below = stack->map[-1].end;
    return low >= below && low - below >= STACK_GUARD_GAP;
}

/* Is there room for the frame and the function, and can every byte of it be used? Reading finds
 * guard pages that /proc/PID/maps does not show (MADV_GUARD_INSTALL, glibc 2.42 and later). */
static bool stack_has_room(struct call *call, const struct own_stack *stack)
{
    const struct mw_live_frame *frame = &call->frame;
    if (frame->start < stack->start || frame->start < call->req.stack_bytes)
        return false;
    mw_addr low = frame->start - call->req.stack_bytes;
    if (low < stack->start) {
        if (!stack_may_grow(call, stack, low))
            return false;
        low = stack->start;
    }
    while (low < frame->end) {
        size_t length =
            frame->end - low < sizeof call->stack ? (size_t)(frame->end - low) : sizeof call->stack;
        if (!mw_tracer_read(call->frame.tid, low, call->stack, length))
            return false;
        low += length;
    }
    return true;
}

static bool refuse(struct call *call, const char *why)
{
    mw_fail(&call->error, MW_LIMIT, "thread %d of process %d %s", call->frame.tid, call->pid, why);
    return false;
}

/* Signal frames above sp: is a handler running, and on its own stack? */
static struct mw_live_handler handler_find(struct call *call, const struct own_stack *stack,
                                           mw_addr sp)
{
    size_t length =
        stack->end - sp < sizeof call->stack ? (size_t)(stack->end - sp) : sizeof call->stack;
    if (!mw_tracer_read(call->frame.tid, sp, call->stack, length))
        return (struct mw_live_handler){.found = true, .other_stack = true};
    return mw_live_handler_scan(call->restorer, sp, call->stack, length);
}

/* Is the stopped thread fit to be borrowed right now? Also asks the caller. */
static bool try_accept(struct call *call)
{
    struct mw_live_frame *frame = &call->frame;
    struct user_regs_struct now;
    enum mw_status code = mw_tracer_regs_read(frame->tid, &now, &call->error);
    if (code != MW_OK) {
        try_ends(call, code == MW_UNSUPPORTED ? OUTCOME_FAILED : OUTCOME_NEXT);
        return false;
    }
    mw_tracer_regs_view(frame->tid, &now, &frame->regs);
    if (frame->regs.ease > call->ease_accepted)
        return refuse(call, "sleeps in a system call that would notice");
    if (mw_live_in_rseq(frame->tid, &now))
        return refuse(call, "is in a restartable sequence");
    mw_addr sp = mw_tracer_regs_sp(&now), tp = mw_tracer_regs_tp(&now);
    struct own_stack stack;
    if (!stack_find(call, sp, tp, &stack))
        return refuse(call, "does not run on its own stack (coroutine or alternate stack)");
    struct mw_live_handler handler = handler_find(call, &stack, sp);
    if (handler.other_stack)
        return refuse(call, "runs a signal handler on an alternate stack");
    code = mw_live_frame_build(frame, call->req.function, call->req.args, call->req.args_count,
                               &call->error);
    if (code != MW_OK) {
        try_ends(call, code == MW_UNSUPPORTED ? OUTCOME_FAILED : OUTCOME_NEXT);
        return false;
    }
    if (!stack_has_room(call, &stack))
        return refuse(call, "has no room left on its stack");
    struct mw_live_call_thread thread = {.pid = call->pid,
                                         .tid = frame->tid,
                                         .pc = mw_tracer_regs_pc(&now),
                                         .sp = sp,
                                         .tp = tp,
                                         .syscall = frame->regs.syscall,
                                         .in_handler = handler.found};
    memcpy(thread.args, frame->regs.args, sizeof thread.args);
    if (call->req.busy && call->req.busy(&thread, call->req.busy_user))
        return refuse(call, "is busy: a call into it would not be safe now");
    return true;
}

static void watch_gone(struct call *call)
{
    mw_fail(&call->error, MW_GONE, "process %d ended while the function ran", call->pid);
    try_ends(call, OUTCOME_FAILED);
}

static void watch_done(struct call *call, uint64_t entered_ns)
{
    call->result.tid = call->frame.tid;
    call->result.syscall = call->frame.regs.syscall;
    call->result.elapsed_ns = mw_clock_monotonic_ns() - entered_ns;
    try_ends(call, OUTCOME_DONE);
}

/* In a stop: over? Then leave the thread as the kernel would have. */
static bool watch_left(struct call *call)
{
    struct user_regs_struct now;
    uint64_t mask;
    pid_t tid = call->frame.tid;
    if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof mask, &mask) != 0 ||
        mask == call->frame.call_mask || mw_tracer_regs_read(tid, &now, NULL) != MW_OK)
        return false;
    mw_live_frame_hand_back(&call->frame, &now);
    return true;
}

/* Handle one event. True when the watch is over. */
static bool watch_event(struct call *call, struct mw_tracer_stop stop, uint64_t entered_ns)
{
    pid_t tid = call->frame.tid;
    switch (stop.event) {
    case MW_TRACER_NONE:
        return false;
    case MW_TRACER_GONE:
        watch_gone(call);
        return true;
    case MW_TRACER_TRAP:
    case MW_TRACER_SIGNAL:
    case MW_TRACER_GROUP_STOP:
        break;
    }
    call->result.stops++;
    if (watch_left(call)) {
        signal_soften(tid);
        watch_done(call, entered_ns);
        return true;
    }
    if (stop.event == MW_TRACER_GROUP_STOP) {
        mw_fail(&call->error, MW_LIMIT,
                "process %d was stopped by job control inside the function, which goes on when "
                "the process does",
                call->pid);
        try_ends(call, OUTCOME_FAILED);
        return true;
    }
    ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)stop.signal);
    return false;
}

/* The mask in force is the thread's own again: it has returned, or is still on the way out of the
 * kernel, where a signal that has waited stops it for us to hand the system call back. Wait until
 * it sleeps in a system call, or has had the time to come to such a stop. */
static void watch_settle(struct call *call, uint64_t entered_ns)
{
    pid_t tid = call->frame.tid;
    watch_done(call, entered_ns);
    if (!mw_live_frame_can_hand_back(&call->frame))
        return;
    uint64_t deadline = mw_clock_monotonic_ns() + SETTLE_NS;
    while (mw_clock_monotonic_ns() < deadline) {
        struct mw_tracer_stop stop = mw_tracer_peek(tid);
        if (stop.event != MW_TRACER_NONE) {
            watch_event(call, stop, entered_ns);
            return;
        }
        struct mw_tracer_syscall seen = mw_tracer_syscall_read(call->pid, tid);
        if (seen.known && seen.blocked && seen.number >= 0)
            return;
        mw_tracer_sleep(SETTLE_STEP_NS);
    }
}

/* Wait for the function's end without ever stopping the thread: /proc tells the mask in force.
 * False: it has not ended at deadline_ns. */
static bool watch_until(struct call *call, uint64_t entered_ns, uint64_t deadline_ns)
{
    uint64_t pause = WATCH_NS_MIN;
    pid_t tid = call->frame.tid;
    do {
        uint64_t mask;
        struct mw_tracer_stop stop = mw_tracer_wait(tid, mw_clock_monotonic_ns() + pause);
        pause = pause * 2 < WATCH_NS_MAX ? pause * 2 : WATCH_NS_MAX;
        if (watch_event(call, stop, entered_ns))
            return true;
        if (mw_tracer_mask_read(call->pid, tid, &mask) && mask != call->frame.call_mask) {
            watch_settle(call, entered_ns);
            return true;
        }
    } while (mw_clock_monotonic_ns() < deadline_ns);
    return false;
}

/* Stop the thread in the function and, if that sleeps in a futex, send it straight back. */
static bool watch_abandon(struct call *call)
{
    pid_t tid = call->frame.tid;
    struct user_regs_struct now;
    if (!call->req.abandon_waiting || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
        return false;
    struct mw_tracer_stop stop = mw_tracer_wait(tid, mw_clock_monotonic_ns() + ABANDON_NS);
    if (stop.event != MW_TRACER_TRAP || mw_tracer_regs_read(tid, &now, NULL) != MW_OK)
        return false;
    bool sent = mw_live_frame_abandon(&call->frame, &now);
    ptrace(PTRACE_CONT, tid, NULL, NULL);
    return sent;
}

static void watch(struct call *call, uint64_t entered_ns)
{
    if (watch_until(call, entered_ns, entered_ns + call->req.timeout_ns))
        return;
    bool sent = watch_abandon(call);
    bool ended = watch_until(call, entered_ns, mw_clock_monotonic_ns() + (sent ? ABANDON_NS : 0));
    if (ended && !(sent && call->outcome == OUTCOME_DONE))
        return;
    double seconds = (double)call->req.timeout_ns / 1e9;
    if (sent)
        mw_fail(&call->error, MW_LIMIT,
                "the function waited %.1f s for a lock in thread %d and was taken back", seconds,
                call->frame.tid);
    else
        mw_fail(&call->error, MW_LIMIT,
                "the function still runs in thread %d after %.1f s; it goes on by itself",
                call->frame.tid, seconds);
    try_ends(call, OUTCOME_FAILED);
}

/* One try with one thread, in the tracer thread. Returning lets the thread go. */
static void try_run(void *user)
{
    struct call *call = user;
    struct mw_live_frame *frame = &call->frame;
    uint64_t began_ns = mw_clock_monotonic_ns();
    try_ends(call, OUTCOME_NEXT);
    if (!try_stop(call))
        return;
    if (!try_accept(call)) {
        mw_tracer_soften(frame->tid, &frame->regs.now, true);
        return;
    }
    if (!mw_tracer_write(call->frame.tid, frame->start, frame->bytes, frame->size)) {
        refuse(call, "has a stack that cannot be written");
        return;
    }
    call->result.stops = 0;
    if (!mw_live_frame_enter(frame)) {
        mw_fail_errno(&call->error, errno, "cannot set the registers of thread %d", frame->tid);
        try_ends(call, OUTCOME_FAILED);
        return;
    }
    uint64_t entered_ns = mw_clock_monotonic_ns();
    call->result.stopped_ns = entered_ns - began_ns;
    ptrace(PTRACE_CONT, frame->tid, NULL, NULL);
    watch(call, entered_ns);
}

/* Candidates in order of ease; the kernel tells it without a stop. */
struct candidate {
    pid_t tid;
    enum mw_tracer_ease ease;
};

static size_t candidates_choose(struct call *call, struct candidate *list, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < call->tasks.count; i++) {
        struct mw_tracer_syscall seen = mw_tracer_syscall_read(call->pid, call->tasks.items[i]);
        struct candidate add = {.tid = call->tasks.items[i], .ease = mw_tracer_syscall_ease(&seen)};
        size_t at = count;
        while (at > 0 && list[at - 1].ease > add.ease)
            at--;
        if (at >= room)
            continue;
        if (count < room)
            count++;
        memmove(&list[at + 1], &list[at], (count - at - 1) * sizeof *list);
        list[at] = add;
        if (count == room && list[room - 1].ease == MW_EASE_RESTARTS)
            break;
    }
    return count;
}

/* Everything below 4 GiB (but for the kernel's own page): i386, or x32. */
static bool is_32_bit(const struct mw_mapping_list *maps)
{
    for (size_t i = maps->count; i-- > 0;)
        if (strcmp(maps->items[i].name, "[vsyscall]") != 0)
            return maps->items[i].end <= 1ull << 32;
    return false;
}

/* The mappings, by way of any thread that still has them: the first one may have ended. */
static enum mw_status maps_load(struct call *call, struct mw_error *err)
{
    for (size_t i = 0; i < call->tasks.count; i++) {
        MW_FREE char *text = NULL;
        char path[64];
        size_t length = 0;
        call->memory_tid = call->tasks.items[i];
        snprintf(path, sizeof path, "/proc/%d/task/%d/maps", call->pid, call->memory_tid);
        enum mw_status code =
            mw_io_read_file_at(AT_FDCWD, path, MW_LIMIT_PROC_TEXT_BYTES, &text, &length, err);
        if (code == MW_GONE || code == MW_NOT_FOUND || (code == MW_OK && length == 0))
            continue;
        if (code != MW_OK)
            return code;
        mw_mapping_list_deinit(&call->maps);
        return mw_smaps_parse(text, length, &call->maps, NULL, err);
    }
    if (call->restorer != 0)
        return mw_fail(err, MW_GONE, "process %d has exited", call->pid);
    return mw_fail(err, MW_UNSUPPORTED, "process %d has no memory of its own", call->pid);
}

/* Mappings and threads as they are now. */
static enum mw_status round_load(struct call *call, struct mw_error *err)
{
    enum mw_status code = mw_tracer_tasks_list(call->pid, &call->tasks, err);
    if (code == MW_OK)
        code = maps_load(call, err);
    if (code != MW_OK)
        return code;
    if (is_32_bit(&call->maps))
        return mw_fail(err, MW_UNSUPPORTED, "process %d runs 32-bit code", call->pid);
    const struct mw_mapping *map = mw_mapping_find(&call->maps, call->req.function);
    if (!map || !(map->perms & MW_PERM_EXEC))
        return mw_fail_at(err, MW_INVALID, call->req.function,
                          "there is no code at 0x%" PRIx64 " in process %d", call->req.function,
                          call->pid);
    if (call->restorer != 0)
        return MW_OK;
    return mw_live_restorer_find(call->memory_tid, &call->maps, &call->restorer, err);
}

/* One round over the best threads. *first_error keeps the reason of the best one. */
static enum mw_status round_run(struct call *call, unsigned round, struct mw_error *err)
{
    struct candidate list[THREADS_PER_ROUND];
    enum mw_status code = round_load(call, err);
    if (code != MW_OK)
        return code;
    size_t count = candidates_choose(call, list, THREADS_PER_ROUND);
    call->outcome = OUTCOME_NEXT;
    for (size_t i = 0; i < count && call->outcome == OUTCOME_NEXT; i++) {
        struct mw_tracer tracer;
        call->frame = (struct mw_live_frame){
            .pid = call->pid, .tid = list[i].tid, .restorer = call->restorer};
        call->ease_accepted = round > 0                      ? MW_EASE_LOST
                              : list[i].ease > MW_EASE_EINTR ? list[i].ease
                                                             : MW_EASE_EINTR;
        code = mw_tracer_start(&tracer, try_run, call, err);
        if (code != MW_OK)
            return code;
        mw_tracer_join(&tracer);
        if (err && (i == 0 || call->outcome == OUTCOME_FAILED))
            *err = call->error;
    }
    return call->outcome == OUTCOME_FAILED ? call->error.code : MW_OK;
}

static enum mw_status target_check(struct call *call, struct mw_error *err)
{
    pid_t pid = call->pid;
    MW_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return mw_fail_errno(err, errno, "cannot open '/proc'");
    struct mw_process process;
    mw_process_init(&process);
    enum mw_status code = mw_process_load(proc, pid, &process, err);
    if (code == MW_OK)
        code = mw_live_call_target_check(&process, err);
    call->limit_stack = process.limit_stack;
    mw_process_deinit(&process);
    return code;
}

static enum mw_status request_check(pid_t pid, const struct mw_live_call_request *request,
                                    struct mw_live_call_request *filled, struct mw_error *err)
{
    if (pid <= 0 || pid == getpid())
        return mw_fail(err, MW_INVALID, "cannot call into process %d", pid);
    if (request->args_count > MW_LIVE_CALL_ARGS_MAX)
        return mw_fail(err, MW_INVALID, "more than %d arguments", MW_LIVE_CALL_ARGS_MAX);
    *filled = *request;
    if (!filled->attempts)
        filled->attempts = request_defaults.attempts;
    if (!filled->attempt_pause_ns)
        filled->attempt_pause_ns = request_defaults.attempt_pause_ns;
    if (!filled->timeout_ns)
        filled->timeout_ns = request_defaults.timeout_ns;
    if (!filled->stack_bytes)
        filled->stack_bytes = request_defaults.stack_bytes;
    return MW_OK;
}

static enum mw_status call_run(struct call *call, struct mw_error *err)
{
    enum mw_status code = target_check(call, err);
    for (unsigned round = 0; code == MW_OK && round < call->req.attempts; round++) {
        if (round > 0)
            mw_tracer_sleep(call->req.attempt_pause_ns);
        code = round_run(call, round, err);
        call->result.attempts = round + 1;
        if (call->outcome == OUTCOME_DONE)
            return MW_OK;
    }
    if (code != MW_OK)
        return code;
    mw_error_hint(err, "try again: no thread of process %d could be used in %u rounds", call->pid,
                  call->req.attempts);
    return MW_LIMIT;
}

enum mw_status mw_live_call(pid_t pid, const struct mw_live_call_request *request,
                            struct mw_live_call_result *out, struct mw_error *err)
{
    struct mw_error spare;
    MW_FREE struct call *call = mw_calloc(1, sizeof *call);
    if (!call)
        return mw_fail(err, MW_NOMEM, "out of memory");
    call->pid = pid;
    enum mw_status code = request_check(pid, request, &call->req, err);
    if (code != MW_OK)
        return code;
    /* The kernel reads the registers from `frame` in the step that commits: it must never have to
     * wait for a page there, since a fatal signal would break the step in two. */
    mlock(&call->frame, sizeof call->frame);
    code = call_run(call, err ? err : &spare);
    munlock(&call->frame, sizeof call->frame);
    mw_mapping_list_deinit(&call->maps);
    mw_tracer_tasks_deinit(&call->tasks);
    if (code == MW_OK)
        *out = call->result;
    return code;
}

#else

enum mw_status mw_live_call(pid_t pid, const struct mw_live_call_request *request,
                            struct mw_live_call_result *out, struct mw_error *err)
{
    (void)request;
    (void)out;
    return mw_fail(err, MW_UNSUPPORTED,
                   "cannot call into process %d: memwhy knows the signal frame of x86-64 only",
                   pid);
}

#endif
