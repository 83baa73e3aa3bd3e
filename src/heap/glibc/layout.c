/* heap/glibc/layout.c: the rows. Facts: glibc git tags 2.17 to 2.44, malloc/malloc.c and
 * malloc/arena.c, and the debug information of Debian's 2.31, 2.36, 2.41, 2.43 and 2.44. */
#include "heap/glibc/layout.h"

#define NONE MW_GLIBC_OFFSET_NONE

const struct mw_glibc_state_layout mw_glibc_state_layouts[] = {
    /* versions    bins fast  att.  sysmem size */
    {"2.17-2.22", 104, 8, NONE, 2168, 2184},
    {"2.23-2.26", 104, 8, 2168, 2176, 2192},
    {"2.27-2.42", 112, 16, 2176, 2184, 2200},
    {"2.43-2.44", 24, NONE, 2088, 2096, 2112},
};
const size_t mw_glibc_state_layout_count =
    sizeof mw_glibc_state_layouts / sizeof *mw_glibc_state_layouts;

const struct mw_glibc_par_layout mw_glibc_par_layouts[] = {
    /* versions    bins n_mmaps mem sbrk tcache thp size */
    {"2.17-2.23", 104, 40, 56, 80, NONE, NONE, 88}, {"2.24-2.25", 104, 40, 56, 72, NONE, NONE, 80},
    {"2.26", 104, 40, 56, 72, 80, NONE, 112},       {"2.27-2.34", 112, 40, 56, 72, 80, NONE, 112},
    {"2.35-2.42", 112, 60, 80, 96, 104, 40, 136},   {"2.43-2.44", 24, 68, 88, 104, 112, 48, 136},
};
const size_t mw_glibc_par_layout_count = sizeof mw_glibc_par_layouts / sizeof *mw_glibc_par_layouts;

const struct mw_glibc_tcache_layout mw_glibc_tcache_layouts[] = {
    {"2.26-2.29", 0x250, 1, 64, 64, false},
    {"2.30-2.41", 0x290, 2, 64, 128, false},
    {"2.42-2.44", 0x300, 2, 76, 152, true},
};
const size_t mw_glibc_tcache_layout_count =
    sizeof mw_glibc_tcache_layouts / sizeof *mw_glibc_tcache_layouts;
