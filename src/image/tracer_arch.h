/* image/tracer_arch.h: what is peculiar to a processor when a thread is stopped: its registers and
 * the system call that the stop has interrupted. One file per architecture (tracer_x86_64.c).
 *
 * A stop interrupts a sleeping system call, which then leaves one of the kernel's private restart
 * codes in the result register. On the way back to user mode the kernel turns it into a restart, or
 * into EINTR if a handler is called first. Who changes the registers meanwhile must do that. */
#ifndef MW_IMAGE_TRACER_ARCH_H
#define MW_IMAGE_TRACER_ARCH_H

#include "base/error.h"
#include "image/image.h"
#include "image/tracer.h"
#include "image/vectors.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

/* How little a thread notices when it is taken away from what it does; best first. */
enum mw_tracer_ease {
    MW_EASE_RESTARTS,   /* its system call begins again from its arguments, nothing lost */
    MW_EASE_USER,       /* in user mode, or its system call has just returned */
    MW_EASE_EINTR,      /* the kernel returns EINTR; beginning again is harmless */
    MW_EASE_WAITS_ANEW, /* begins again, and a relative timeout anew */
    MW_EASE_LOST,       /* in restart_syscall: its arguments are known to the kernel alone */
};

/* The three views of one stopped thread. */
struct mw_tracer_regs {
    struct user_regs_struct now;     /* as the kernel holds them in the stop */
    struct user_regs_struct native;  /* to set in a later stop, so that the kernel itself restarts
                                      * the call, or gives EINTR if a handler runs first */
    struct user_regs_struct resumed; /* user mode as it will be when no handler runs first */
    int syscall;                     /* number of the interrupted call, -1: user mode */
    uint64_t args[6];                /* of that call */
    enum mw_tracer_ease ease;
};

/* Registers of a stopped thread. MW_UNSUPPORTED for a 32-bit one, MW_GONE. */
enum mw_status mw_tracer_regs_read(pid_t tid, struct user_regs_struct *regs_out,
                                   struct mw_error *err) MW_MUST_CHECK;

/* Set them all in one step: a tracer that dies leaves the old set or the new one. False: failed. */
bool mw_tracer_regs_write(pid_t tid, const struct user_regs_struct *regs);

/* Work out the views from `now`. Reads up to seven bytes of code before the program counter. */
void mw_tracer_regs_view(pid_t tid, const struct user_regs_struct *now,
                         struct mw_tracer_regs *regs_out);

/* How easy a thread would be, from /proc alone. */
enum mw_tracer_ease mw_tracer_syscall_ease(const struct mw_tracer_syscall *call);

/* A few calls answer EINTR after any stop (epoll_wait, sigtimedwait, semop and the like). Make the
 * kernel restart such a call instead; it still gives EINTR if a handler runs first. A timeout would
 * begin anew: only with `anew`, which is for a stop now and then, since frequent ones would keep it
 * from ever ending. Sets one register, in a stop of any kind. True if something was changed. */
bool mw_tracer_soften(pid_t tid, const struct user_regs_struct *now, bool anew);

/* Fill pc, sp, tp and registers of a stopped thread, and soften its system call where that changes
 * nothing but a spurious EINTR. False: it has no registers that we know (32-bit code), or is gone.
 */
bool mw_tracer_thread_read(pid_t tid, struct mw_thread *thread);

/* Add what a stopped thread has in vector registers; what cannot be read is left out. */
void mw_tracer_vectors_read(pid_t tid, struct mw_vectors *vectors);

mw_addr mw_tracer_regs_pc(const struct user_regs_struct *regs);
mw_addr mw_tracer_regs_sp(const struct user_regs_struct *regs);
mw_addr mw_tracer_regs_tp(const struct user_regs_struct *regs);

#endif
