/* heap/walkers.c: the allocators that memwhy knows, in the order in which they are tried. */
#include "heap/walker.h"

#include "heap/glibc/glibc.h"

const struct mw_heap_walker *const mw_heap_walkers[] = {
    &mw_glibc_walker,
    NULL,
};
