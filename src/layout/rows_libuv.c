/* layout/rows_libuv.c: handles of libuv (1.44.2, include/uv.h and uv/unix.h; alike since 1.0).
 *
 *   uv_handle_t   data 0, loop 8, type u32 16, close_cb 24, handle_queue 32: next and prev
 *
 * The queue is a ring, so the next entry points back: that proves it. */
#include "layout/scope.h"

#include <stdio.h>

enum { QUEUE = 32 };

static const char *const types[] = {
    [1] = "uv_async_t",   [2] = "uv_check_t",    [3] = "uv_fs_event_t", [4] = "uv_fs_poll_t",
    [5] = "uv_handle_t",  [6] = "uv_idle_t",     [7] = "uv_pipe_t",     [8] = "uv_poll_t",
    [9] = "uv_prepare_t", [10] = "uv_process_t", [11] = "uv_stream_t",  [12] = "uv_tcp_t",
    [13] = "uv_timer_t",  [14] = "uv_tty_t",     [15] = "uv_udp_t",     [16] = "uv_signal_t",
};

static bool is_handle(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t back;
    mw_addr next = mw_view_u64(view, QUEUE);
    if (next % 8 != 0 || !mw_scope_read_u64(view->scope, next + 8, &back) ||
        back != view->block->address + QUEUE)
        return false;
    mw_match_name(match, types[mw_view_u32(view, 16)], "libuv");
    return true;
}

const struct mw_layout_row mw_rows_libuv[] = {
    {.id = "libuv handle",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 96,
     .usable_max = 1024,
     .checks = {MW_AT8(8, WORD, MW_WORD_WRITABLE, 0), MW_AT4(16, RANGE, 1, 16),
                MW_AT8(24, WORD, MW_WORD_CODE | MW_WORD_ZERO | MW_WORD_OTHER, 0),
                MW_AT8(32, WORD, MW_WORD_WRITABLE, 0), MW_AT8(40, WORD, MW_WORD_WRITABLE, 0)},
     .test = is_handle},
    {.id = NULL},
};
