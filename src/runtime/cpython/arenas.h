/* runtime/cpython/arenas.h: obmalloc's arenas, from CPython's own table of them. */
#ifndef MW_RUNTIME_CPYTHON_ARENAS_H
#define MW_RUNTIME_CPYTHON_ARENAS_H

#include "image/image.h"

struct mw_obmalloc {
    mw_addr *items; /* addresses of arenas, ascending */
    size_t count, room;
    uint64_t arena_bytes; /* 256 KiB up to 3.9, 1 MiB since 3.10 */
    uint64_t used_bytes;  /* in pools that hold objects, by the table's own counts */
};

/* Find the table by a pointer to it among the words of [start, end), which is CPython's data or
 * .bss, and read all arenas. MW_NOT_FOUND when no word points to one. MW_NOMEM. Reads the pages of
 * the range that are resident and 96 bytes per word that could be the pointer. */
enum mw_status mw_obmalloc_find(struct mw_image *image, mw_addr start, mw_addr end,
                                struct mw_obmalloc *obmalloc_out) MW_MUST_CHECK;

void mw_obmalloc_deinit(struct mw_obmalloc *obmalloc);

#endif
