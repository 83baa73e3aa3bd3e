/* image/live_call_state.h: one call while it is made. Private to live_call*.c.
 *
 * live_call.c chooses threads in rounds; live_call_try.c borrows one, in a tracer thread of its
 * own (live_fork.c does the same for a chain of system calls that forks); live_call_stack.c says
 * whether it is on its own stack and has room; live_call_watch.c waits for the function's end;
 * live_call_<arch>.c builds the frames. */
#ifndef MW_IMAGE_LIVE_CALL_STATE_H
#define MW_IMAGE_LIVE_CALL_STATE_H

#include "image/live_call.h"
#include "image/live_call_frame.h"
#include "image/tracer.h"
#include "image/tracer_arch.h"
#include "proc/mapping.h"

enum mw_live_outcome {
    MW_LIVE_NEXT,   /* this thread cannot be used now; error says why */
    MW_LIVE_DONE,   /* the function has run */
    MW_LIVE_FAILED, /* final; error says why */
};

/* One mw_live_call(). The tracer thread owns it while it runs. */
struct mw_live_call_state {
    pid_t pid;
    struct mw_live_call_request req; /* defaults filled in */
    struct mw_mapping_list maps;     /* of this round */
    mw_addr restorer;                /* 0: not looked for yet */
    uint64_t limit_stack;
    bool has_filters; /* seccomp */
    struct mw_tracer_tasks tasks;
    pid_t memory_tid; /* a thread through which the memory can be read */
    enum mw_tracer_ease ease_accepted;

    /* A chain of system calls instead of a function: req.function is then looked for. */
    const struct mw_live_step *steps;
    size_t step_count;

    /* Try the thread frame.tid, in a tracer thread; NULL: mw_live_call_try(). */
    enum mw_status (*run_try)(struct mw_live_call_state *call, struct mw_error *err);
    void *run_user;

    enum mw_live_outcome outcome; /* of one try */
    struct mw_error error;
    struct mw_live_call_result result;
    struct mw_live_frame frame;
    uint8_t stack[MW_LIVE_SCAN_BYTES];
};

/* Fill defaults, check the target, go round its threads until one has been used. req, steps,
 * run_try are the caller's. As mw_live_call(). */
enum mw_status mw_live_call_run(struct mw_live_call_state *call, pid_t pid,
                                const struct mw_live_call_request *request, struct mw_error *err);

/* The first half of a try, in a tracer thread: stop the thread, see whether it is fit, build its
 * frame. Nothing is written. False: outcome and error are set, the thread is let go by the end of
 * the tracer thread. */
bool mw_live_call_borrow(struct mw_live_call_state *call);

/* One try with thread state->frame.tid; run in a tracer thread, whose end lets it go. Sets outcome,
 * error and result. */
void mw_live_call_try(void *state);

/* A thread's own stack: half-open, within one mapping. */
struct mw_live_stack {
    mw_addr start, end;
    bool grows; /* the first thread's: the kernel extends it */
    const struct mw_mapping *map;
};

/* Is sp on the thread's own stack? A coroutine, a goroutine or a signal handler on another stack
 * has live data of others below it. */
bool mw_live_stack_find(const struct mw_live_call_state *state, mw_addr sp, mw_addr tp,
                        struct mw_live_stack *stack_out);

/* Is there room for the frame and the function, and can every byte of it be used? Reads it. */
bool mw_live_stack_has_room(struct mw_live_call_state *state, const struct mw_live_stack *stack);

/* Wait for the function's end; sets outcome, error and result. */
void mw_live_call_watch(struct mw_live_call_state *state, uint64_t entered_ns);

/* In a stop at a signal: while it is traced, even one that the thread ignores ends its system call.
 */
void mw_live_call_soften(pid_t tid);

#endif
