/* image/live_call_stack.c: whose stack is it, and is there room?
 *
 * Trusts neither: a mapping's name, the words of struct pthread and the bytes below sp only make us
 * refuse. Bounds: CONTROL_BLOCK_WORDS words, and the stack that the caller asks for.
 * References: glibc 2.36 nptl/{descr.h,allocatestack.c}, musl 1.2 src/internal/pthread_impl.h;
 * Linux 6.18 mm/mmap.c (expand_downwards, stack_guard_gap). */
#if defined(__x86_64__)

#include "image/live_call_state.h"

#include <string.h>

enum {
    STACK_GUARD_GAP = 1 << 20, /* the kernel's default: 256 pages */
    CONTROL_BLOCK_WORDS = 320, /* of struct pthread; glibc 2.36 has 288 */
};

/* The block begins within the mapping, or in the guard pages right below it. */
static bool stack_starts_at(const struct mw_live_call_state *call, const struct mw_mapping *map,
                            mw_addr start)
{
    if (start >= map->start)
        return true;
    const struct mw_mapping *guard = mw_mapping_find(&call->maps, start);
    const uint32_t any = MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC;
    return guard && guard->end == map->start && !(guard->perms & any);
}

/* Both glibc and musl keep the stack of every thread but the first in the thread's control block,
 * which lies at its upper end: a start and a size in two words in a row (struct pthread: stackblock
 * and stackblock_size; map_base and map_size). Looked for by what they say, since the place differs
 * between versions. */
static bool stack_from_block(const struct mw_live_call_state *call, const struct mw_mapping *map,
                             mw_addr sp, mw_addr tp, struct mw_live_stack *stack_out)
{
    uint64_t words[CONTROL_BLOCK_WORDS];
    size_t count = (size_t)((map->end - tp) / sizeof *words);
    count = count < CONTROL_BLOCK_WORDS ? count : CONTROL_BLOCK_WORDS;
    if (count < 2 || !mw_tracer_read(call->frame.tid, tp, words, count * sizeof *words) ||
        words[0] != tp) /* its first word is its own address */
        return false;
    for (size_t i = 1; i + 1 < count; i++) {
        uint64_t start = words[i], size = words[i + 1], end = start + size;
        if (start > sp || end <= tp || end < start || end > map->end ||
            !stack_starts_at(call, map, start))
            continue;
        *stack_out = (struct mw_live_stack){
            .start = start > map->start ? start : map->start, .end = end, .map = map};
        return true;
    }
    return false;
}

bool mw_live_stack_find(const struct mw_live_call_state *call, mw_addr sp, mw_addr tp,
                        struct mw_live_stack *stack_out)
{
    const struct mw_mapping *map = mw_mapping_find(&call->maps, sp);
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    if (!map || (map->perms & (wanted | MW_PERM_SHARED)) != wanted)
        return false;
    if (strcmp(map->name, "[stack]") != 0)
        return tp > sp && tp < map->end && stack_from_block(call, map, sp, tp, stack_out);
    *stack_out =
        (struct mw_live_stack){.start = map->start, .end = map->end, .grows = true, .map = map};
    return call->frame.tid == call->pid;
}

/* May the main stack grow down to low? The kernel does it by itself when it is touched. */
static bool stack_may_grow(const struct mw_live_call_state *call, const struct mw_live_stack *stack,
                           mw_addr low)
{
    if (!stack->grows || stack->end - low > call->limit_stack)
        return false;
    if (stack->map == call->maps.items)
        return true;
    mw_addr below = stack->map[-1].end;
    return low >= below && low - below >= STACK_GUARD_GAP;
}

/* Reading finds guard pages that /proc/PID/maps does not show (MADV_GUARD_INSTALL, glibc 2.42 and
 * later). */
bool mw_live_stack_has_room(struct mw_live_call_state *call, const struct mw_live_stack *stack)
{
    const struct mw_live_frame *frame = &call->frame;
    if (frame->start < stack->start || frame->start < call->req.stack_bytes)
        return false;
    mw_addr low = frame->start - call->req.stack_bytes;
    if (low < stack->start) {
        if (!stack_may_grow(call, stack, low))
            return false;
        low = stack->start;
    }
    while (low < frame->end) {
        size_t length =
            frame->end - low < sizeof call->stack ? (size_t)(frame->end - low) : sizeof call->stack;
        if (!mw_tracer_read(call->frame.tid, low, call->stack, length))
            return false;
        low += length;
    }
    return true;
}

#endif
