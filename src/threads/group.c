/* threads/group.c: threads with the same stack together. Stacks are sorted by their frames, equal
 * ones are then neighbours. A comparison costs at most MW_LIMIT_FRAMES. */
#include "threads/unwind.h"

#include "base/alloc.h"

#include <assert.h>

static int frame_compare(const struct mw_stack_frame *a, const struct mw_stack_frame *b)
{
    if (a->pc != b->pc)
        return a->pc < b->pc ? -1 : 1;
    if (a->is_exact != b->is_exact)
        return a->is_exact ? 1 : -1;
    return a->by_frame_pointer == b->by_frame_pointer ? 0 : a->by_frame_pointer ? 1 : -1;
}

static int stack_compare(const struct mw_stacks *stacks, uint32_t left, uint32_t right)
{
    const struct mw_stack *a = &stacks->items[left], *b = &stacks->items[right];
    if (a->frame_count != b->frame_count)
        return a->frame_count < b->frame_count ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    for (size_t i = 0; i < a->frame_count; i++) {
        int order =
            frame_compare(&stacks->frames[a->first_frame + i], &stacks->frames[b->first_frame + i]);
        if (order != 0)
            return order;
    }
    return 0;
}

static int order_compare(const void *left, const void *right, void *user)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct mw_stacks *stacks = user;
    int order = stack_compare(stacks, a, b);
    if (order != 0)
        return order;
    return stacks->items[a].tid < stacks->items[b].tid   ? -1
           : stacks->items[a].tid > stacks->items[b].tid ? 1
                                                         : 0;
}

struct sorting {
    const struct mw_stacks *stacks;
    const uint32_t *order;
};

static int group_compare(const void *left, const void *right, void *user)
{
    const struct mw_stack_group *a = left, *b = right;
    const struct sorting *sorting = user;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    int32_t a_tid = sorting->stacks->items[sorting->order[a->first]].tid;
    int32_t b_tid = sorting->stacks->items[sorting->order[b->first]].tid;
    return a_tid < b_tid ? -1 : a_tid > b_tid;
}

enum mw_status mw_stacks_group(const struct mw_stacks *stacks, struct mw_stack_groups *groups_out,
                               struct mw_error *err)
{
    struct mw_stack_groups groups = {
        .items = mw_calloc(stacks->count, sizeof *groups.items),
        .order = mw_calloc(stacks->count, sizeof *groups.order),
    };
    if (!groups.items || !groups.order) {
        mw_stack_groups_deinit(&groups);
        return mw_fail(err, MW_NOMEM, "out of memory for %zu threads", stacks->count);
    }
    assert(stacks->count <= UINT32_MAX);
    for (size_t i = 0; i < stacks->count; i++)
        groups.order[i] = (uint32_t)i;
    qsort_r(groups.order, stacks->count, sizeof *groups.order, order_compare, (void *)stacks);
    for (size_t i = 0; i < stacks->count; i++) {
        if (i == 0 || stack_compare(stacks, groups.order[i - 1], groups.order[i]) != 0)
            groups.items[groups.count++].first = i;
        groups.items[groups.count - 1].count++;
    }
    struct sorting sorting = {stacks, groups.order};
    qsort_r(groups.items, groups.count, sizeof *groups.items, group_compare, &sorting);
    *groups_out = groups;
    return MW_OK;
}

void mw_stack_groups_deinit(struct mw_stack_groups *groups)
{
    free(groups->items);
    free(groups->order);
    *groups = (struct mw_stack_groups){0};
}
