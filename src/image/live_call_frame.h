/* image/live_call_frame.h: the signal frame that takes a borrowed thread back. Private to
 * live_call*.c; one file per architecture (live_call_x86_64.c). */
#ifndef MW_IMAGE_LIVE_CALL_FRAME_H
#define MW_IMAGE_LIVE_CALL_FRAME_H

#include "base/error.h"
#include "image/tracer_arch.h"
#include "proc/mapping.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MW_LIVE_FRAME_BYTES_MAX = 16 << 10, /* of xstate; AMX has 11 KiB */
    MW_LIVE_SCAN_BYTES = 256 << 10,     /* of stack, looking for signal frames */
};

/* Everything about one borrowed thread. `entry` is read by the kernel at the moment that counts,
 * so the whole struct is locked in memory. */
struct mw_live_frame {
    pid_t pid, tid;
    struct mw_tracer_regs regs;
    struct user_regs_struct entry; /* the one register write */
    mw_addr restorer;              /* code in the target: rt_sigreturn */
    mw_addr start, end;            /* of what is written to the target, half-open */
    mw_addr sp;                    /* at the function's entry */
    uint64_t mask;                 /* signals the thread blocks, to be restored */
    uint64_t call_mask;            /* what it blocks in the function; never equal to mask, so the
                                    * mask in force tells whether the function has ended */
    size_t size;                   /* end - start: bytes used */
    _Alignas(64) uint8_t bytes[MW_LIVE_FRAME_BYTES_MAX + 8192];
};

/* One system call of a chain: made by `syscall; ret` with a signal frame as its whole state, it
 * returns into the frame of the next step. So the kernel alone takes the thread from step to step,
 * and a task that one of them makes goes its own way from the stack that it is given. */
enum { MW_LIVE_STEPS_MAX = 8, MW_LIVE_STEP_BACK = MW_LIVE_STEPS_MAX };
struct mw_live_step {
    int number;
    struct mw_live_step_arg {
        enum {
            MW_STEP_VALUE,
            MW_STEP_FRAME,  /* the address of step `value`: a stack for a new task */
            MW_STEP_NUMBER, /* of the number that step `value` will make, `offset` bytes into it */
            MW_STEP_ARG,    /* of the first argument of step `value` */
        } kind;
        uint64_t value, offset;
    } args[6];
    unsigned next; /* index of the step after it, or MW_LIVE_STEP_BACK: what the thread did */
};

/* Find `mov $15, %rax; syscall` in the executable mappings of the process of tid, the C library's
 * first. Bytes of code are read until the first hit. MW_UNSUPPORTED when there is none. */
enum mw_status mw_live_restorer_find(pid_t tid, const struct mw_mapping_list *maps,
                                     mw_addr *restorer_out, struct mw_error *err) MW_MUST_CHECK;

/* Find `syscall; ret` likewise (getpid and its like in every C library). */
enum mw_status mw_live_syscall_find(pid_t tid, const struct mw_mapping_list *maps,
                                    mw_addr *code_out, struct mw_error *err) MW_MUST_CHECK;

/* Build the frame for frame->regs and frame->restorer below the stack pointer; sets start, end, sp,
 * size, bytes, the masks and entry. Nothing is written to the target. MW_UNSUPPORTED, MW_GONE,
 * MW_LIMIT when this thread cannot be taken now. */
enum mw_status mw_live_frame_build(struct mw_live_frame *frame, mw_addr function,
                                   const uint64_t *args, size_t args_count,
                                   struct mw_error *err) MW_MUST_CHECK;

/* The same for a chain of system calls that begins with steps[0], every signal blocked but those
 * that cannot be. syscall_ret: what mw_live_syscall_find() found. */
enum mw_status mw_live_frame_build_chain(struct mw_live_frame *frame, mw_addr syscall_ret,
                                         const struct mw_live_step *steps, size_t count,
                                         struct mw_error *err) MW_MUST_CHECK;

/* Enter the function, when bytes are in the target: the register write (which commits), then block
 * signals. False: not entered, the thread is as it was. */
bool mw_live_frame_enter(struct mw_live_frame *frame);

/* Was a system call interrupted that mw_live_frame_hand_back() would hand back? */
bool mw_live_frame_can_hand_back(const struct mw_live_frame *frame);

/* In a stop right after the return, before anything else ran: hand the interrupted system call back
 * to the kernel, so that a signal that waits gets the restart-or-EINTR it is due. No-op if the
 * thread is anywhere else. */
void mw_live_frame_hand_back(const struct mw_live_frame *frame, const struct user_regs_struct *now);

/* In a stop inside the function, which sleeps in a futex: go to the signal return right away. */
bool mw_live_frame_abandon(struct mw_live_frame *frame, const struct user_regs_struct *now);

/* Is the thread in a moment that must not be interrupted like this? In a restartable sequence it
 * would continue after the call as if it had not been preempted. */
bool mw_live_in_rseq(pid_t tid, const struct user_regs_struct *now);

/* What a stack of length bytes from sp on says about signal handlers. */
struct mw_live_handler {
    bool found;       /* a signal frame lies there */
    bool other_stack; /* and sp is within the alternate stack that it names */
};
struct mw_live_handler mw_live_handler_scan(mw_addr restorer, mw_addr sp, const uint8_t *stack,
                                            size_t length);

#endif
