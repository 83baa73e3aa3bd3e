/* threads/unwind.c: from registers and a stack to frames.
 *
 *   innermost frame -> rules of its code (symbol/frame.h) -> caller -> ... -> outermost
 *                   \-> no rules: the frame pointer, where it points up the stack and the word
 *                       above what it points at is an address of code; marked as such
 *
 * Trusts nothing: at most MW_LIMIT_FRAMES frames, and the stack pointer must grow with each but
 * where a signal came in on another stack. Code that was made at run time has no rules; runtimes
 * that keep frame pointers can be walked through it.
 *
 * References: DWARF 5, 6.4; System V ABI x86-64 3.4.1 (rbp is 0 in the outermost frame). */
#include "threads/unwind.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"
#include "threads/copy.h"
#include "threads/registers.h"

#include <string.h>

enum { FRAMES_TOTAL_MAX = 1 << 22 };
static const uint64_t FRAME_BYTES_MAX = (uint64_t)1 << 20; /* that a frame pointer may skip */

/* ---- memory ---- */

struct memory {
    struct mw_image *image;
    const struct mw_thread_copy *copy;
};

static bool memory_read(void *user, mw_addr address, uint64_t *value_out)
{
    const struct memory *memory = user;
    const struct mw_thread_copy *copy = memory->copy;
    uint64_t skip = address - copy->start;
    if (copy->bytes && address >= copy->start && copy->size >= sizeof *value_out &&
        skip <= copy->size - sizeof *value_out) {
        memcpy(value_out, copy->bytes + skip, sizeof *value_out);
        return true;
    }
    return !mw_image_moves(memory->image) &&
           mw_image_read_u64(memory->image, address, value_out) == MW_OK;
}

static bool is_code(const struct mw_image *image, mw_addr address)
{
    const struct mw_mapping *map = mw_image_region(image, address);
    return map && map->perms & MW_PERM_EXEC;
}

/* ---- without rules ---- */

/* A call through a bad pointer: nothing is at pc, and its return address was just pushed. */
static bool step_from_nowhere(const struct mw_thread_arch *arch, struct mw_frame *frame,
                              struct memory *memory)
{
    mw_addr sp = frame->registers[arch->sp_number];
    uint64_t back = 0;
    bool has_link = arch->link_number != MW_THREAD_NO_LINK;
    if (is_code(memory->image, frame->pc))
        return false;
    if (has_link)
        back = frame->registers[arch->link_number];
    else if (!memory_read(memory, sp, &back))
        return false;
    back = mw_thread_code_address(arch, back);
    if (!is_code(memory->image, back))
        return false;
    frame->pc = back;
    frame->is_exact = false;
    if (!has_link)
        frame->registers[arch->sp_number] = sp + sizeof back;
    return true;
}

static enum mw_frame_step step_by_frame_pointer(const struct mw_thread_arch *arch,
                                                struct mw_frame *frame, struct memory *memory)
{
    mw_addr sp = frame->registers[arch->sp_number], fp = frame->registers[arch->fp_number];
    uint64_t next, back;
    if (!mw_frame_knows(frame, arch->fp_number))
        return MW_FRAME_NO_RULES;
    if (fp < sp || fp - sp > FRAME_BYTES_MAX || fp % sizeof back != 0 ||
        !memory_read(memory, fp, &next) || !memory_read(memory, fp + sizeof next, &back))
        return MW_FRAME_NO_RULES;
    back = mw_thread_code_address(arch, back);
    if (back == 0 && next == 0)
        return MW_FRAME_OUTERMOST;
    if (!is_code(memory->image, back))
        return MW_FRAME_NO_RULES;
    frame->registers[arch->sp_number] = fp + 2 * sizeof back;
    frame->registers[arch->fp_number] = next;
    frame->known = (uint64_t)1 << arch->sp_number | (uint64_t)1 << arch->fp_number;
    frame->pc = back;
    frame->is_exact = false;
    return MW_FRAME_STEPPED;
}

/* ---- one stack ---- */

/* One step up by whatever means; the frame's own marks are those of the caller found. */
static enum mw_frame_step step_up(struct mw_names *names, const struct mw_thread_arch *arch,
                                  struct memory *memory, struct mw_frame *frame, bool is_innermost,
                                  bool *by_frame_pointer)
{
    mw_addr sp = frame->registers[arch->sp_number];
    bool was_by_frame_pointer = *by_frame_pointer;
    struct mw_frame caller = *frame;
    *by_frame_pointer = false;
    enum mw_frame_step step = mw_names_frame_step(names, &caller, memory_read, memory);
    mw_addr caller_sp = caller.registers[arch->sp_number];
    bool may_stay = arch->link_number != MW_THREAD_NO_LINK && is_innermost;
    if (step == MW_FRAME_STEPPED && !caller.is_exact &&
        (may_stay ? caller_sp < sp : caller_sp <= sp))
        step = MW_FRAME_BROKEN;
    if (step == MW_FRAME_STEPPED) {
        caller.pc = mw_thread_code_address(arch, caller.pc);
        *frame = caller;
        return step;
    }
    if (step == MW_FRAME_OUTERMOST)
        return step;
    if (is_innermost && step_from_nowhere(arch, frame, memory)) {
        *by_frame_pointer = true;
        return MW_FRAME_STEPPED;
    }
    if (was_by_frame_pointer && frame->registers[arch->fp_number] == 0)
        return MW_FRAME_OUTERMOST;
    enum mw_frame_step second = step_by_frame_pointer(arch, frame, memory);
    *by_frame_pointer = second == MW_FRAME_STEPPED;
    return second == MW_FRAME_NO_RULES ? step : second;
}

static enum mw_status frame_keep(struct mw_stacks *stacks, const struct mw_frame *frame,
                                 bool by_frame_pointer)
{
    void *items = stacks->frames;
    enum mw_status status = mw_vec_reserve_one(&items, stacks->frame_count, &stacks->frame_room,
                                               sizeof *stacks->frames, FRAMES_TOTAL_MAX);
    stacks->frames = items;
    if (status == MW_OK)
        stacks->frames[stacks->frame_count++] = (struct mw_stack_frame){
            .pc = frame->pc,
            .is_exact = frame->is_exact,
            .by_frame_pointer = by_frame_pointer,
        };
    return status;
}

static enum mw_status unwind(struct mw_image *image, struct mw_names *names,
                             const struct mw_thread_arch *arch, const struct mw_thread_copy *copy,
                             struct mw_stacks *stacks, struct mw_stack *stack)
{
    struct memory memory = {image, copy};
    struct mw_frame frame = mw_thread_frame(arch, &copy->thread);
    bool by_frame_pointer = false;
    for (;;) {
        enum mw_status status = frame_keep(stacks, &frame, by_frame_pointer);
        if (status != MW_OK)
            return status;
        stack->frame_count++;
        enum mw_frame_step step =
            step_up(names, arch, &memory, &frame, stack->frame_count == 1, &by_frame_pointer);
        if (step == MW_FRAME_STEPPED && frame.is_exact) /* that was where a handler returns to */
            stacks->frames[stacks->frame_count - 1].is_exact = true;
        if (step == MW_FRAME_STEPPED && stack->frame_count < MW_LIMIT_FRAMES)
            continue;
        stack->end = step == MW_FRAME_STEPPED     ? MW_STACK_TOO_DEEP
                     : step == MW_FRAME_OUTERMOST ? MW_STACK_WHOLE
                     : step == MW_FRAME_NO_RULES  ? MW_STACK_NO_RULES
                                                  : MW_STACK_UNREADABLE;
        return MW_OK;
    }
}

/* ---- all ---- */

static const struct {
    const char *kind, *text;
} ends[] = {
    [MW_STACK_WHOLE] = {"", ""},
    [MW_STACK_TOO_DEEP] = {"stack-too-deep", "goes on beyond 256 frames"},
    [MW_STACK_NO_RULES] = {"stack-without-rules", "ends in code without unwind information"},
    [MW_STACK_UNREADABLE] = {"stack-unreadable", "ends at memory that cannot be read"},
    [MW_STACK_NO_REGISTERS] = {"stack-without-registers",
                               "is unknown: its registers cannot be read"},
    [MW_STACK_NOT_READ] = {"stack-not-read", "was not read: no time or memory was left"},
};

const char *mw_stack_end_text(enum mw_stack_end end)
{
    return ends[end].text;
}

static void say_end(struct mw_image *image, const struct mw_stack *stack, mw_addr sp)
{
    if (stack->end != MW_STACK_WHOLE)
        mw_finding_add(&image->findings, ends[stack->end].kind, sp, 0, "thread %d: the stack %s",
                       stack->tid, ends[stack->end].text);
}

static enum mw_status unwind_all(struct mw_image *image, struct mw_names *names,
                                 const struct mw_thread_arch *arch, struct mw_context *context,
                                 const struct mw_thread_copies *copies, struct mw_stacks *stacks)
{
    for (size_t i = 0; i < copies->count; i++) {
        const struct mw_thread_copy *copy = &copies->items[i];
        struct mw_stack *stack = &stacks->items[stacks->count++];
        *stack = (struct mw_stack){.tid = copy->thread.tid, .first_frame = stacks->frame_count};
        memcpy(stack->name, copy->thread.name, sizeof stack->name);
        stack->name[sizeof stack->name - 1] = '\0';
        if (mw_context_canceled(context))
            return MW_CANCELED;
        mw_context_progress(context, "unwinding threads", i, copies->count);
        if (copy->not_read || !copy->thread.has_registers) {
            stack->end = copy->not_read ? MW_STACK_NOT_READ : MW_STACK_NO_REGISTERS;
        } else {
            enum mw_status status = unwind(image, names, arch, copy, stacks, stack);
            if (status == MW_NOMEM)
                return status;
            if (status != MW_OK) { /* the bound of all frames */
                stack->end = MW_STACK_NOT_READ;
                stacks->frame_count = stack->first_frame;
                stack->frame_count = 0;
            }
        }
        say_end(image, stack, copy->thread.sp);
    }
    return MW_OK;
}

enum mw_status mw_stacks_collect(struct mw_image *image, struct mw_names *names,
                                 struct mw_context *context, struct mw_stacks *stacks_out,
                                 struct mw_error *err)
{
    const struct mw_thread_arch *arch = mw_thread_arch(image->arch);
    struct mw_thread_copies copies;
    struct mw_stacks stacks = {0};
    if (!(image->can & MW_CAN_READ)) {
        if (err && image->cannot_read.code != MW_OK)
            *err = image->cannot_read;
        else
            (void)mw_fail(err, MW_UNSUPPORTED, "there are no stacks in this target");
        return image->cannot_read.code != MW_OK ? image->cannot_read.code : MW_UNSUPPORTED;
    }
    if (!arch)
        return mw_fail(err, MW_UNSUPPORTED, "cannot unwind stacks of this architecture");
    enum mw_status status = mw_thread_copies_take(image, context, &copies, err);
    if (status != MW_OK)
        return status;
    stacks.items = mw_calloc(copies.count, sizeof *stacks.items);
    status = stacks.items ? unwind_all(image, names, arch, context, &copies, &stacks) : MW_NOMEM;
    mw_thread_copies_deinit(&copies);
    if (status != MW_OK) {
        mw_stacks_deinit(&stacks);
        return mw_fail(err, status, status == MW_CANCELED ? "interrupted" : "out of memory");
    }
    *stacks_out = stacks;
    return MW_OK;
}

void mw_stacks_deinit(struct mw_stacks *stacks)
{
    free(stacks->items);
    free(stacks->frames);
    *stacks = (struct mw_stacks){0};
}
