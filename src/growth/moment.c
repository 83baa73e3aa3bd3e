/* growth/moment.c */
#include "growth/moment.h"

#include <stdlib.h>

void mw_moment_deinit(struct mw_moment *moment)
{
    mw_block_groups_deinit(&moment->sizes);
    mw_block_list_deinit(&moment->list);
    free(moment->kinds);
    *moment = (struct mw_moment){0};
}

/* Where the kernel put the random bytes, the vDSO and the program differs from one start to the
 * next. */
bool mw_moment_is_same_process(const struct mw_moment *before, const struct mw_moment *after)
{
    return before->at_random != 0 && before->at_random == after->at_random &&
           before->vdso == after->vdso && before->entry == after->entry &&
           before->pid == after->pid;
}
