/* heap/walkers.c: the allocators that memwhy knows, in the order in which they are tried. */
#include "heap/walker.h"

#include "heap/foreign/foreign.h"
#include "heap/glibc/glibc.h"
#include "heap/musl/musl.h"

const struct mw_heap_walker *const mw_heap_walkers[] = {
    &mw_glibc_walker,    &mw_glibc_second_walker, &mw_glibc_unknown_walker, &mw_jemalloc_walker,
    &mw_tcmalloc_walker, &mw_mimalloc_walker,     &mw_musl_walker,          NULL,
};
