/* threads/unwind.h: the stacks of all threads of an image. */
#ifndef MW_THREADS_UNWIND_H
#define MW_THREADS_UNWIND_H

#include "base/context.h"
#include "symbol/names.h"

struct mw_stack_frame {
    mw_addr pc;
    bool is_exact;         /* pc is where it stands; else where a call returns to */
    bool by_frame_pointer; /* found by the frame pointer, without rules: likely, not certain */
};

/* Why a stack ends where it does. */
enum mw_stack_end {
    MW_STACK_WHOLE,        /* at its outermost frame */
    MW_STACK_TOO_DEEP,     /* at MW_LIMIT_FRAMES */
    MW_STACK_NO_RULES,     /* in code without unwind information and frame pointer */
    MW_STACK_UNREADABLE,   /* rules lead to memory that was not read, or make no progress */
    MW_STACK_NO_REGISTERS, /* of this thread: it has no frames */
    MW_STACK_NOT_READ,     /* no room or time was left for it: it has no frames */
};

struct mw_stack {
    int32_t tid;
    char name[16];
    size_t first_frame, frame_count; /* innermost first, in mw_stacks.frames */
    enum mw_stack_end end;
};

struct mw_stacks {
    struct mw_stack *items; /* in the order of the image's threads */
    size_t count;
    struct mw_stack_frame *frames;
    size_t frame_count, frame_room;
};

/* Unwind every thread. A live target is held still while registers and the used part of each stack
 * (at most MW_LIMIT_STACK_BYTES of one) are copied, as long as context->pause_ns_max allows at a
 * time, and unwound from the copy while it runs on. Each stack is of one moment; stacks of several
 * stops are of several, which is a finding. Stacks that end early are findings of the image, too.
 * MW_UNSUPPORTED: no unwinding for this architecture, or memory or registers are out of reach, with
 * a hint; MW_GONE, MW_PERM, MW_NOMEM, MW_CANCELED. */
enum mw_status mw_stacks_collect(struct mw_image *image, struct mw_names *names,
                                 struct mw_context *context, struct mw_stacks *stacks_out,
                                 struct mw_error *err) MW_MUST_CHECK;
void mw_stacks_deinit(struct mw_stacks *stacks);

/* "ends in code without unwind information" and so on; "" for a whole one. */
const char *mw_stack_end_text(enum mw_stack_end end);

/* Threads with the same frames and the same end. */
struct mw_stack_group {
    size_t first, count; /* in mw_stack_groups.order */
};

struct mw_stack_groups {
    struct mw_stack_group *items; /* the largest first, then by the first tid */
    size_t count;
    uint32_t *order; /* indexes of stacks; ascending by tid within a group */
};

/* MW_NOMEM. O(n log n). */
enum mw_status mw_stacks_group(const struct mw_stacks *stacks, struct mw_stack_groups *groups_out,
                               struct mw_error *err) MW_MUST_CHECK;
void mw_stack_groups_deinit(struct mw_stack_groups *groups);

#endif
