/* layout/rows_jvm.c: HotSpot's and V8's own use of malloc.
 *
 *   Chunk          next 0, length 8, then so many bytes (share/memory/arena.hpp, JDK 17 to 25):
 *                  compilers and resource areas work in them
 *   MallocHeader   with native memory tracking: size 0, site u32 8, tag 12, 0xe99e at 14, then so
 *                  many bytes and 0xe8 0x8e (share/nmt/mallocHeader.hpp, JDK 18 on)
 *   Segment        of a zone of V8: next 0, its own size 8 (src/zone/zone-segment.h, V8 8 on) */
#include "layout/scope.h"

#include <stdio.h>

enum { HEADER = 16 };

/* The block holds the size and the mark behind it, where that was read. */
static bool is_tracked(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t size = mw_view_u64(view, 0);
    (void)match;
    if (size > view->block->usable_bytes || !mw_view_fits(view, size + HEADER + 2))
        return false;
    return size + HEADER + 2 > view->length ||
           mw_view_value(view, (size_t)size + HEADER, 2) == 0x8ee8;
}

const struct mw_layout_row mw_rows_jvm[] = {
    {.id = "jvm tracked block",
     .name = "block of the JVM, with native memory tracking",
     .basis = MW_LAYOUT_EXACT,
     .module = "libjvm",
     .usable_min = 24,
     .checks = {MW_AT2(14, RANGE, 0xe99e, 0xe99e), MW_AT8(0, RANGE, 1, (uint64_t)1 << 38)},
     .test = is_tracked},
    {.id = "jvm chunk",
     .name = "chunk of an arena (JVM)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "libjvm",
     .usable_min = 200,
     .checks = {MW_AT8(0, WORD, MW_WORD_NODE, 0), MW_AT8(8, END, HEADER, 0)}},
    {.id = "v8 segment",
     .name = "segment of a zone (V8)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "node|libnode|libv8|chrom",
     .usable_min = 1024,
     .checks = {MW_AT8(0, WORD, MW_WORD_NODE, 0), MW_AT8(8, END, 0, 0)}},
    {.id = NULL},
};
