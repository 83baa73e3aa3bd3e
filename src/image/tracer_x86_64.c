/* image/tracer_x86_64.c: registers and interrupted system calls on x86-64.
 *
 * Trusts the kernel's registers. Code bytes of the target only refine a guess, never an address.
 * References: Linux 6.18 arch/x86/kernel/signal.c (arch_do_signal_or_restart, handle_signal),
 * include/linux/errno.h (restart codes), fs/eventpoll.c, fs/select.c, kernel/futex/waitwake.c,
 * kernel/time/hrtimer.c (nanosleep), io_uring/io_uring.c (io_cqring_wait), signal(7) "Interruption
 * of system calls by stop signals". */
#if defined(__x86_64__)

#include "image/tracer_arch.h"

#include <asm/unistd_64.h>
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <time.h>

/* Seen by tracers only. */
enum {
    RESTART_SYS = 512,    /* restart, or EINTR if the handler has no SA_RESTART */
    RESTART_NOINTR = 513, /* restart always */
    RESTART_NOHAND = 514, /* restart, or EINTR if there is a handler */
    RESTART_BLOCK = 516,  /* continue through restart_syscall */
};

enum {
    FUTEX_WAIT_RELATIVE = 0,
    FUTEX_COMMAND_MASK = 0x7f,
    SYSCALL_INSN_BYTES = 2,
};

enum mw_status mw_tracer_regs_read(pid_t tid, struct user_regs_struct *regs_out,
                                   struct mw_error *err)
{
    struct user_regs_struct regs;
    struct iovec iov = {.iov_base = &regs, .iov_len = sizeof regs};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &iov) != 0)
        return mw_fail_errno(err, errno, "cannot read the registers of thread %d", tid);
    if (iov.iov_len != sizeof regs)
        return mw_fail(err, MW_UNSUPPORTED, "thread %d runs 32-bit code", tid);
    *regs_out = regs;
    return MW_OK;
}

bool mw_tracer_regs_write(pid_t tid, const struct user_regs_struct *regs)
{
    return ptrace(PTRACE_SETREGS, tid, NULL, (void *)(uintptr_t)regs) == 0;
}

mw_addr mw_tracer_regs_pc(const struct user_regs_struct *regs)
{
    return regs->rip;
}

mw_addr mw_tracer_regs_sp(const struct user_regs_struct *regs)
{
    return regs->rsp;
}

mw_addr mw_tracer_regs_tp(const struct user_regs_struct *regs)
{
    return regs->fs_base;
}

/* The kernel's own test: -1 marks a stop that did not come out of a system call. */
static bool from_syscall(const struct user_regs_struct *regs)
{
    return (int32_t)regs->orig_rax != -1;
}

/* The error a system call is about to return, or 0. */
static int syscall_error(const struct user_regs_struct *regs)
{
    int64_t result = (int64_t)regs->rax;
    return result < 0 && result >= -4095 ? (int)-result : 0;
}

/* Do the call's arguments hold a timeout that is relative, and so begins anew on a restart? */
static bool waits_relative(int number, const uint64_t args[6])
{
    switch (number) {
    case __NR_nanosleep:
        return true;
    case __NR_clock_nanosleep:
        return (args[1] & TIMER_ABSTIME) == 0;
    case __NR_poll:
        return (int32_t)args[2] >= 0;
    case __NR_futex:
        return (args[1] & FUTEX_COMMAND_MASK) == FUTEX_WAIT_RELATIVE && args[3] != 0;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
        return (int32_t)args[3] >= 0;
    case __NR_epoll_pwait2:
    case __NR_semtimedop:
        return args[3] != 0;
    case __NR_rt_sigtimedwait:
        return args[2] != 0;
    case __NR_io_getevents:
    case __NR_io_pgetevents:
        return args[4] != 0;
    case __NR_io_uring_enter:
        return (args[3] & IORING_ENTER_EXT_ARG) != 0; /* a timeout may stand behind it */
    default:
        return false;
    }
}

/* Calls that answer EINTR to a stop, have then done nothing, and may be called again. */
static bool eintr_restarts(int number)
{
    switch (number) {
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
    case __NR_rt_sigtimedwait:
    case __NR_semop:
    case __NR_semtimedop:
    case __NR_io_getevents:
    case __NR_io_pgetevents:
    case __NR_io_uring_enter:
        return true;
    default:
        return false;
    }
}

/* restart_syscall hides which call it continues. The wrappers of every C library load the number
 * right before the instruction: b8 NN NN NN NN (mov $N, %eax), 0f 05 (syscall). */
static int syscall_behind_restart(pid_t tid, mw_addr pc)
{
    uint8_t code[7];
    if (pc < sizeof code || !mw_tracer_read(tid, pc - sizeof code, code, sizeof code))
        return -1;
    if (code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05)
        return -1;
    int32_t number;
    memcpy(&number, code + 1, sizeof number);
    switch (number) {
    case __NR_nanosleep:
    case __NR_clock_nanosleep:
    case __NR_poll:
    case __NR_futex:
        return number;
    default:
        return -1;
    }
}

/* False for int $0x80, which has other numbers. */
static bool is_syscall_insn(pid_t tid, mw_addr pc)
{
    uint8_t code[SYSCALL_INSN_BYTES];
    return pc >= sizeof code && mw_tracer_read(tid, pc - sizeof code, code, sizeof code) &&
           code[0] == 0x0f && code[1] == 0x05;
}

static void syscall_args(const struct user_regs_struct *regs, uint64_t args[6])
{
    args[0] = regs->rdi;
    args[1] = regs->rsi;
    args[2] = regs->rdx;
    args[3] = regs->r10;
    args[4] = regs->r8;
    args[5] = regs->r9;
}

/* A register's value, sign-extended as the kernel keeps it. */
static unsigned long long reg(long long value)
{
    return (unsigned long long)value;
}

/* Begin the call again: the number back in rax, the program counter back on the instruction. */
static void view_restart(struct mw_tracer_regs *regs, int number, int native_code)
{
    regs->native.orig_rax = reg(number);
    regs->native.rax = reg(-native_code);
    regs->resumed.rax = reg(number);
    regs->resumed.rip -= SYSCALL_INSN_BYTES;
}

/* The kernel would go on by restart_syscall, but returning from a signal frame makes it forget how
 * (restore_sigcontext sets do_no_restart_syscall). So begin from the original arguments. */
static void view_restart_block(pid_t tid, struct mw_tracer_regs *regs, const uint64_t args[6])
{
    int number = (int)regs->now.orig_rax;
    if (number == __NR_restart_syscall)
        number = syscall_behind_restart(tid, regs->now.rip);
    if (number < 0) { /* what it would also get from a handler */
        regs->native.rax = regs->resumed.rax = reg(-EINTR);
        regs->ease = MW_EASE_LOST;
        return;
    }
    view_restart(regs, number, RESTART_NOHAND);
    regs->syscall = number;
    regs->ease = waits_relative(number, args) ? MW_EASE_WAITS_ANEW : MW_EASE_RESTARTS;
}

void mw_tracer_regs_view(pid_t tid, const struct user_regs_struct *now,
                         struct mw_tracer_regs *regs_out)
{
    struct mw_tracer_regs regs = {
        .now = *now, .native = *now, .resumed = *now, .syscall = -1, .ease = MW_EASE_USER};
    uint64_t *const args = regs.args;
    syscall_args(now, args);
    if (from_syscall(now)) {
        int number = (int)now->orig_rax;
        int error = syscall_error(now);
        regs.syscall = number;
        if (error == RESTART_SYS || error == RESTART_NOINTR || error == RESTART_NOHAND) {
            view_restart(&regs, number, error);
            regs.ease = MW_EASE_RESTARTS;
        } else if (error == RESTART_BLOCK) {
            view_restart_block(tid, &regs, args);
        } else if (error == EINTR && is_syscall_insn(tid, now->rip) && eintr_restarts(number)) {
            view_restart(&regs, number, RESTART_NOHAND);
            regs.ease = waits_relative(number, args) ? MW_EASE_WAITS_ANEW : MW_EASE_EINTR;
        } else if (error == EINTR) {
            regs.ease = MW_EASE_LOST;
        }
    }
    regs.resumed.orig_rax = reg(-1);
    assert(regs.resumed.rsp == now->rsp);
    *regs_out = regs;
}

enum mw_tracer_ease mw_tracer_syscall_ease(const struct mw_tracer_syscall *call)
{
    if (!call->blocked || call->number < 0)
        return MW_EASE_USER;
    if (call->number == __NR_restart_syscall)
        return MW_EASE_LOST;
    if (waits_relative(call->number, call->args))
        return MW_EASE_WAITS_ANEW;
    return eintr_restarts(call->number) ? MW_EASE_EINTR : MW_EASE_RESTARTS;
}

bool mw_tracer_soften(pid_t tid, const struct user_regs_struct *now, bool anew)
{
    uint64_t args[6];
    syscall_args(now, args);
    int number = (int)now->orig_rax;
    if (!from_syscall(now) || syscall_error(now) != EINTR || !eintr_restarts(number) ||
        (!anew && waits_relative(number, args)))
        return false;
    uint64_t code = (uint64_t)-RESTART_NOHAND;
    return ptrace(PTRACE_POKEUSER, tid, (void *)offsetof(struct user_regs_struct, rax), code) == 0;
}

bool mw_tracer_thread_read(pid_t tid, struct mw_thread *thread)
{
    struct user_regs_struct regs;
    static_assert(sizeof regs <= sizeof thread->registers, "room for NT_PRSTATUS");
    if (mw_tracer_regs_read(tid, &regs, NULL) != MW_OK)
        return false;
    mw_tracer_soften(tid, &regs, false);
    thread->pc = regs.rip;
    thread->sp = regs.rsp;
    thread->tp = regs.fs_base;
    memcpy(thread->registers, &regs, sizeof regs);
    thread->register_count = sizeof regs / sizeof thread->registers[0];
    thread->has_registers = true;
    return true;
}

#endif
