/* layout/rows_nginx.c: pools of nginx (1.22.1, src/core/ngx_palloc.h).
 *
 *   +0 last  +8 end  +16 next  +24 failed | +32 max  +40 current  +48 chain  +56 large
 *                                           +64 cleanup  +72 log
 *
 * end is the block's own end. A pool's later blocks have the first four words only. */
#include "layout/scope.h"

/* last lies in the block, end at its end. */
static bool ends_itself(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    mw_addr start = view->block->address, last = mw_view_u64(view, 0), end = mw_view_u64(view, 8);
    return last >= start + 32 && last <= end && mw_view_fits(view, end - start);
}

const struct mw_layout_row mw_rows_nginx[] = {
    {.id = "nginx pool",
     .name = "pool (nginx)",
     .basis = MW_LAYOUT_EXACT,
     .module = "nginx",
     .usable_min = 80,
     .checks = {MW_AT8(32, RANGE, 0, 4095), MW_AT8(24, RANGE, 0, 1 << 20),
                MW_AT8(16, WORD, MW_WORD_NODE, 0), MW_AT8(40, WORD, MW_WORD_HEAP, 0),
                MW_AT8(56, WORD, MW_WORD_NODE, 0), MW_AT8(72, WORD, MW_WORD_NODE, 0)},
     .test = ends_itself},
    {.id = "nginx pool block",
     .name = "further block of a pool (nginx)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "nginx",
     .usable_min = 128,
     .checks = {MW_AT8(24, RANGE, 0, 1 << 20), MW_AT8(16, WORD, MW_WORD_NODE, 0)},
     .test = ends_itself},
    {.id = NULL},
};
