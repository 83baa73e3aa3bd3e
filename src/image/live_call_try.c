/* image/live_call_try.c: stop one thread, see whether it is fit, enter the function.
 *
 *   SEIZE, INTERRUPT -- stop -- checks -- write frame -- SETREGS -- SETSIGMASK -- CONT -- watch
 *   '-------- nothing changed but dead stack --------'   commit     '- the frame restores it -'
 *
 * Trusts the kernel; what is read of the target only makes us refuse. Bounds: STOP_NS for the stop,
 * MW_LIVE_SCAN_BYTES of stack. References: design note 005; ptrace(2). */
#if defined(__x86_64__)

#include "image/live_call_state.h"

#include "base/clock.h"
#include "image/live_seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum {
    STOP_NS = 100 * 1000 * 1000, /* a thread in uninterruptible sleep may not stop */
    SIGNALS_BEFORE_STOP = 16,    /* deliveries that may come in front of our own stop */
};

/* Stop the thread. False when it does not come to our stop: the outcome is set. */
static bool try_stop(struct mw_live_call_state *call)
{
    pid_t tid = call->frame.tid;
    enum mw_status code = mw_tracer_seize(call->pid, tid, &call->error);
    if (code != MW_OK) {
        call->outcome = code == MW_GONE ? MW_LIVE_NEXT : MW_LIVE_FAILED;
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
            mw_live_call_soften(tid);
            ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)stop.signal);
            continue;
        case MW_TRACER_GROUP_STOP:
            mw_fail(&call->error, MW_LIMIT, "process %d is stopped by job control", call->pid);
            mw_error_hint(&call->error, "kill -CONT %d", call->pid);
            call->outcome = MW_LIVE_FAILED;
            return false;
        case MW_TRACER_GONE:
            mw_fail(&call->error, MW_GONE, "thread %d of process %d has exited", tid, call->pid);
            return false;
        case MW_TRACER_CLONE: /* options that are not set here */
        case MW_TRACER_SYSCALL:
        case MW_TRACER_NONE:
            break;
        }
        break;
    }
    mw_fail(&call->error, MW_LIMIT, "thread %d of process %d cannot be stopped now", tid,
            call->pid);
    return false;
}

static bool refuse(struct mw_live_call_state *call, const char *why)
{
    mw_fail(&call->error, MW_LIMIT, "thread %d of process %d %s", call->frame.tid, call->pid, why);
    return false;
}

/* Signal frames above sp: is a handler running, and on its own stack? */
static struct mw_live_handler handler_find(struct mw_live_call_state *call,
                                           const struct mw_live_stack *stack, mw_addr sp)
{
    size_t length =
        stack->end - sp < sizeof call->stack ? (size_t)(stack->end - sp) : sizeof call->stack;
    if (!mw_tracer_read(call->frame.tid, sp, call->stack, length))
        return (struct mw_live_handler){.found = true, .other_stack = true};
    return mw_live_handler_scan(call->restorer, sp, call->stack, length);
}

/* Would a seccomp filter kill the thread for what the call makes it do? */
static bool filters_allow(struct mw_live_call_state *call)
{
    static const struct mw_live_call_syscall signal_return = {.number = SYS_rt_sigreturn};
    if (!call->has_filters)
        return true;
    for (size_t i = 0; i <= call->req.syscalls_count; i++) {
        const struct mw_live_call_syscall *one =
            i < call->req.syscalls_count ? &call->req.syscalls[i] : &signal_return;
        enum mw_live_seccomp says = mw_live_seccomp_ask(call->frame.tid, one->number, one->args);
        call->result.seccomp_unknown |= says == MW_SECCOMP_UNKNOWN;
        if (says == MW_SECCOMP_KILLS || (says == MW_SECCOMP_FAILS && one == &signal_return)) {
            mw_fail(&call->error, MW_UNSUPPORTED,
                    "a seccomp filter of process %d does not let it do system call %d: the call "
                    "would kill it",
                    call->pid, one->number);
            call->outcome = MW_LIVE_FAILED;
            return false;
        }
    }
    return true;
}

/* Is the stopped thread fit to be borrowed right now? Also asks the caller. */
static bool try_accept(struct mw_live_call_state *call)
{
    struct mw_live_frame *frame = &call->frame;
    struct user_regs_struct now;
    enum mw_status code = mw_tracer_regs_read(frame->tid, &now, &call->error);
    if (code != MW_OK) {
        call->outcome = code == MW_UNSUPPORTED ? MW_LIVE_FAILED : MW_LIVE_NEXT;
        return false;
    }
    mw_tracer_regs_view(frame->tid, &now, &frame->regs);
    if (frame->regs.ease > call->ease_accepted)
        return refuse(call, "sleeps in a system call that would notice");
    if (mw_live_in_rseq(frame->tid, &now))
        return refuse(call, "is in a restartable sequence");
    mw_addr sp = mw_tracer_regs_sp(&now), tp = mw_tracer_regs_tp(&now);
    struct mw_live_stack stack;
    if (!mw_live_stack_find(call, sp, tp, &stack))
        return refuse(call, "does not run on its own stack (coroutine or alternate stack)");
    struct mw_live_handler handler = handler_find(call, &stack, sp);
    if (handler.other_stack)
        return refuse(call, "runs a signal handler on an alternate stack");
    code = call->step_count ? mw_live_frame_build_chain(frame, call->req.function, call->steps,
                                                        call->step_count, &call->error)
                            : mw_live_frame_build(frame, call->req.function, call->req.args,
                                                  call->req.args_count, &call->error);
    if (code != MW_OK) {
        call->outcome = code == MW_UNSUPPORTED ? MW_LIVE_FAILED : MW_LIVE_NEXT;
        return false;
    }
    if (!mw_live_stack_has_room(call, &stack))
        return refuse(call, "has no room left on its stack");
    if (!filters_allow(call))
        return false;
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

bool mw_live_call_borrow(struct mw_live_call_state *call)
{
    struct mw_live_frame *frame = &call->frame;
    call->outcome = MW_LIVE_NEXT;
    if (!try_stop(call))
        return false;
    if (!try_accept(call)) {
        mw_tracer_soften(frame->tid, &frame->regs.now, true);
        return false;
    }
    call->result.stops = 0;
    return true;
}

void mw_live_call_try(void *user)
{
    struct mw_live_call_state *call = user;
    struct mw_live_frame *frame = &call->frame;
    uint64_t began_ns = mw_clock_monotonic_ns();
    if (!mw_live_call_borrow(call))
        return;
    if (!mw_tracer_write(call->frame.tid, frame->start, frame->bytes, frame->size)) {
        refuse(call, "has a stack that cannot be written");
        return;
    }
    if (!mw_live_frame_enter(frame)) {
        mw_fail_errno(&call->error, errno, "cannot set the registers of thread %d", frame->tid);
        call->outcome = MW_LIVE_FAILED;
        return;
    }
    uint64_t entered_ns = mw_clock_monotonic_ns();
    call->result.stopped_ns = entered_ns - began_ns;
    ptrace(PTRACE_CONT, frame->tid, NULL, NULL);
    mw_live_call_watch(call, entered_ns);
}

#endif
