/* layout/rows_zlib.c: states of zlib streams (zlib 1.2.11 to 1.3.1, inflate.h, deflate.h, zlib.h).
 *
 * Both begin with a pointer to the z_stream, which at 56 points back: that proves it. inflate: the
 * mode is one of an enum that begins at 16180. deflate: the status is one of nine. Many programs
 * link zlib statically, so no module is asked for. The window of an inflate stream (at 72) and the
 * four buffers of a deflate stream (pending 16, window 96, prev 112, head 120) have no mark of
 * their own: they are known once their state was seen. */
#include "layout/scope.h"

enum { STREAM_STATE = 56 };

static bool points_back(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t state;
    (void)match;
    mw_addr stream = mw_view_u64(view, 0);
    return stream <= UINT64_MAX - STREAM_STATE &&
           mw_scope_read_u64(view->scope, stream + STREAM_STATE, &state) &&
           state == view->block->address;
}

static bool is_inflate(struct mw_layout_view *view, struct mw_layout_match *match)
{
    if (!points_back(view, match))
        return false;
    mw_scope_own(view->scope, mw_view_u64(view, 72), "window of an inflate stream (zlib)");
    return true;
}

static bool is_deflate(struct mw_layout_view *view, struct mw_layout_match *match)
{
    static const uint32_t statuses[] = {42, 57, 69, 73, 91, 103, 113, 666};
    uint32_t status = mw_view_u32(view, 8);
    bool is_one = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        is_one |= status == statuses[i];
    if (!is_one || !points_back(view, match))
        return false;
    mw_scope_own(view->scope, mw_view_u64(view, 16), "pending output of a deflate stream (zlib)");
    mw_scope_own(view->scope, mw_view_u64(view, 96), "window of a deflate stream (zlib)");
    mw_scope_own(view->scope, mw_view_u64(view, 112), "hash chains of a deflate stream (zlib)");
    mw_scope_own(view->scope, mw_view_u64(view, 120), "hash heads of a deflate stream (zlib)");
    return true;
}

static bool is_owned(struct mw_layout_view *view, struct mw_layout_match *match)
{
    const char *what = mw_scope_owned_what(view->scope, view->block->address);
    if (what)
        mw_text_copy(match->name, sizeof match->name, what);
    return what;
}

const struct mw_layout_row mw_rows_zlib[] = {
    {.id = "zlib inflate state",
     .name = "inflate state (zlib)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 7000,
     .usable_max = 11000,
     .checks = {MW_AT4(8, RANGE, 16180, 16211), MW_AT8(0, WORD, MW_WORD_WRITABLE, 0)},
     .test = is_inflate},
    {.id = "zlib deflate state",
     .name = "deflate state (zlib)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 5800,
     .usable_max = 8192,
     .checks = {MW_AT4(8, RANGE, 42, 666), MW_AT8(0, WORD, MW_WORD_WRITABLE, 0),
                MW_AT8(16, WORD, MW_WORD_WRITABLE, 0)},
     .test = is_deflate},
    {.id = "zlib buffer", .basis = MW_LAYOUT_EXACT, .usable_min = 256, .test = is_owned},
    {.id = NULL},
};
