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
    _Alignas(64) uint8_t bytes[MW_LIVE_FRAME_BYTES_MAX + 2048];
};

/* Find `mov $15, %rax; syscall` in the executable mappings of the process of tid, the C library's
 * first. Bytes of code are read until the first hit. MW_UNSUPPORTED when there is none. */
enum mw_status mw_live_restorer_find(pid_t tid, const struct mw_mapping_list *maps,
                                     mw_addr *restorer_out, struct mw_error *err) MW_MUST_CHECK;

/* Build the frame for frame->regs and frame->restorer below the stack pointer; sets start, end, sp,
 * size, bytes, the masks and entry. Nothing is written to the target. MW_UNSUPPORTED, MW_GONE,
 * MW_LIMIT when this thread cannot be taken now. */
enum mw_status mw_live_frame_build(struct mw_live_frame *frame, mw_addr function,
                                   const uint64_t *args, size_t args_count,
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
