/* image/tracer_aarch64.c: registers of a stopped thread on aarch64, for collecting threads. Calls
 * into a process (live_call.h) are x86-64 only, so nothing here changes a register.
 *
 * Trusts the kernel. References: Linux 6.18 arch/arm64/kernel/ptrace.c,
 * arch/arm64/include/uapi/asm/ ptrace.h. */
#if defined(__aarch64__)

#include "image/tracer_arch.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

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

/* The thread pointer is no general register here. */
static mw_addr thread_pointer(pid_t tid)
{
    uint64_t tp = 0;
    struct iovec iov = {.iov_base = &tp, .iov_len = sizeof tp};
    return ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_ARM_TLS, &iov) == 0 ? tp : 0;
}

bool mw_tracer_thread_read(pid_t tid, struct mw_thread *thread)
{
    struct user_regs_struct regs;
    static_assert(sizeof regs <= sizeof thread->registers, "room for NT_PRSTATUS");
    if (mw_tracer_regs_read(tid, &regs, NULL) != MW_OK)
        return false;
    thread->pc = regs.pc;
    thread->sp = regs.sp;
    thread->tp = thread_pointer(tid);
    memcpy(thread->registers, &regs, sizeof regs);
    thread->register_count = sizeof regs / sizeof thread->registers[0];
    thread->has_registers = true;
    return true;
}

#endif
