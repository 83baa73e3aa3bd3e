/* image/live_call_watch.c: seeing the end of a called function without stopping its thread.
 *
 * The signal mask of the call is like no other, and /proc tells the mask in force. Trusts the
 * kernel. Bounds: the caller's timeout, SETTLE_NS and ABANDON_NS after it.
 * References: design note 005; Linux 6.18 fs/proc/array.c (SigBlk), kernel/signal.c. */
#if defined(__x86_64__)

#include "image/live_call_state.h"

#include "base/clock.h"

#include <sys/ptrace.h>

enum {
    WATCH_NS_MIN = 100 * 1000,
    WATCH_NS_MAX = 20 * 1000 * 1000,
    SETTLE_NS = 20 * 1000 * 1000,
    SETTLE_STEP_NS = 50 * 1000,
    ABANDON_NS = 200 * 1000 * 1000, /* to arrive in a stop, and for the signal return */
};

void mw_live_call_soften(pid_t tid)
{
    struct user_regs_struct now;
    if (mw_tracer_regs_read(tid, &now, NULL) == MW_OK)
        mw_tracer_soften(tid, &now, true);
}

static void watch_gone(struct mw_live_call_state *call)
{
    mw_fail(&call->error, MW_GONE, "process %d ended while the function ran", call->pid);
    call->outcome = MW_LIVE_FAILED;
}

static void watch_done(struct mw_live_call_state *call, uint64_t entered_ns)
{
    call->result.tid = call->frame.tid;
    call->result.syscall = call->frame.regs.syscall;
    call->result.elapsed_ns = mw_clock_monotonic_ns() - entered_ns;
    call->outcome = MW_LIVE_DONE;
}

/* In a stop: over? Then leave the thread as the kernel would have. */
static bool watch_left(struct mw_live_call_state *call)
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
static bool watch_event(struct mw_live_call_state *call, struct mw_tracer_stop stop,
                        uint64_t entered_ns)
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
    case MW_TRACER_CLONE:
    case MW_TRACER_SYSCALL:
        break;
    }
    call->result.stops++;
    if (watch_left(call)) {
        mw_live_call_soften(tid);
        watch_done(call, entered_ns);
        return true;
    }
    if (stop.event == MW_TRACER_GROUP_STOP) {
        mw_fail(&call->error, MW_LIMIT,
                "process %d was stopped by job control inside the function, which goes on when "
                "the process does",
                call->pid);
        call->outcome = MW_LIVE_FAILED;
        return true;
    }
    ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)stop.signal);
    return false;
}

/* The mask in force is the thread's own again: it has returned, or is still on the way out of the
 * kernel, where a signal that has waited stops it for us to hand the system call back. Wait until
 * it sleeps in a system call, or has had the time to come to such a stop. */
static void watch_settle(struct mw_live_call_state *call, uint64_t entered_ns)
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
static bool watch_until(struct mw_live_call_state *call, uint64_t entered_ns, uint64_t deadline_ns)
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
static bool watch_abandon(struct mw_live_call_state *call)
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

void mw_live_call_watch(struct mw_live_call_state *call, uint64_t entered_ns)
{
    if (watch_until(call, entered_ns, entered_ns + call->req.timeout_ns))
        return;
    bool sent = watch_abandon(call);
    bool ended = watch_until(call, entered_ns, mw_clock_monotonic_ns() + (sent ? ABANDON_NS : 0));
    if (ended && !(sent && call->outcome == MW_LIVE_DONE))
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
    call->outcome = MW_LIVE_FAILED;
}

#endif
