/* layout/rows_libc.c: what glibc itself keeps in its heap (glibc 2.31 to 2.42, x86-64 and aarch64).
 *
 *   FILE     _flags 0xfbad…… at 0, its vtable at 216 (libio/bits/types/struct_FILE.h)
 *   DIR      fd 0, lock 4, allocation 8, then data at 48 (sysdeps/unix/sysv/linux/dirstream.h)
 *   tcache   counts and entries of the same bins (malloc/malloc.c): 64 bins with u16 counts since
 *            2.30; 76 bins with u16 counts of what is left since 2.42
 *   link_map l_addr 0, l_name 8, l_ld 16, l_next 24, l_prev 32, l_real 40 (elf/link.h)
 *   dtv      pairs of pointer and what to free; the first holds how many there are, the second the
 *            generation (sysdeps/generic/dl-dtv.h) */
#include "layout/scope.h"

enum {
    TCACHE_BINS = 64,
    TCACHE_ENTRIES = 2 * TCACHE_BINS,
    TCACHE_BINS_242 = 76,
    TCACHE_ENTRIES_242 = 2 * TCACHE_BINS_242,
    DTV_SLOTS_MAX = 8192,
};

/* Entries where counts are, and nowhere else. */
static bool is_tcache(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    size_t filled = 0;
    for (size_t bin = 0; bin < TCACHE_BINS; bin++) {
        uint64_t count = mw_view_value(view, 2 * bin, 2);
        unsigned entry = mw_view_word(view, TCACHE_ENTRIES + 8 * bin);
        if (count == 0 ? entry != MW_WORD_ZERO : !(entry & (MW_WORD_HEAP | MW_WORD_OTHER)))
            return false;
        filled += count > 0;
    }
    return filled > 0;
}

static bool is_tcache_242(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    size_t filled = 0;
    for (size_t bin = 0; bin < TCACHE_BINS_242; bin++) {
        uint64_t left = mw_view_value(view, 2 * bin, 2);
        unsigned entry = mw_view_word(view, TCACHE_ENTRIES_242 + 8 * bin);
        if (left > 128 || !(entry & (MW_WORD_ZERO | MW_WORD_HEAP | MW_WORD_OTHER)))
            return false;
        filled += entry != MW_WORD_ZERO;
    }
    return filled > 0;
}

/* Not pointers of any kind: all slots that are not used hold -1 or nothing, and to_free, where
 * there is one, leads to the block of the pointer beside it. */
static bool is_dtv(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    uint64_t slots = mw_view_u64(view, 0);
    if (!mw_view_fits(view, (slots + 2) * 16))
        return false;
    size_t used = 0;
    for (size_t at = 32; at + 16 <= view->length && at < (slots + 2) * 16; at += 16) {
        uint64_t pointer = mw_view_u64(view, at), block = mw_view_u64(view, at + 8);
        if (block != 0 && (block > pointer || pointer - block > 4096))
            return false;
        if (pointer != 0 && pointer != UINT64_MAX &&
            !(mw_view_word(view, at) & (MW_WORD_WRITABLE | MW_WORD_CONST)))
            return false;
        used += pointer != 0;
    }
    return used > 0;
}

const struct mw_layout_row mw_rows_libc[] = {
    {.id = "libc file",
     .name = "FILE (libc)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 224,
     .checks = {MW_AT4(0, BITS, 0xffff0000, 0xfbad0000), MW_AT8(216, WORD, MW_WORD_STATIC, 0)}},
    {.id = "libc link map",
     .name = "link_map (loader)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 600,
     .usable_max = 4096,
     .checks = {MW_AT8(40, SELF, 0, 0), MW_AT8(16, WORD, MW_WORD_STATIC, 0),
                MW_AT8(8, WORD, MW_WORD_WRITABLE | MW_WORD_CONST, 0),
                MW_AT8(24, WORD, MW_WORD_NODE, 0), MW_AT8(32, WORD, MW_WORD_NODE, 0)}},
    {.id = "libc tcache",
     .name = "tcache of a thread (libc)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 640,
     .usable_max = 656,
     .test = is_tcache},
    {.id = "libc tcache",
     .name = "tcache of a thread (libc)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 760,
     .usable_max = 776,
     .test = is_tcache_242},
    {.id = "libc directory",
     .name = "DIR (libc)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 1024,
     .checks = {MW_AT4(0, RANGE, 0, 1 << 20), MW_AT4(4, RANGE, 0, 2), MW_AT8(8, END, 48, 0),
                MW_AT8(16, RANGE, 0, 1 << 20), MW_AT8(24, RANGE, 0, 1 << 20)}},
    {.id = "libc dtv",
     .name = "thread's table of thread-local storage (libc)",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 256,
     .checks = {MW_AT8(0, RANGE, 1, DTV_SLOTS_MAX), MW_AT8(8, RANGE, 0, 0),
                MW_AT8(16, RANGE, 0, 1 << 20), MW_AT8(24, RANGE, 0, 0)},
     .test = is_dtv},
    {.id = NULL},
};
