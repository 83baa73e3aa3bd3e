/* heap/glibc/glibc.h: glibc's malloc behind the walker interface. Layouts 2.17 to 2.44. */
#ifndef MW_HEAP_GLIBC_GLIBC_H
#define MW_HEAP_GLIBC_GLIBC_H

#include "heap/walker.h"

extern const struct mw_heap_walker mw_glibc_walker;

/* The libc of a namespace of its own (dlmopen, auditors): an allocator beside the first. */
extern const struct mw_heap_walker mw_glibc_second_walker;

/* After them: says that a glibc is there whose layout is none of those. Its walk fails with
 * MW_UNSUPPORTED and leaves the finding "glibc-layout-unknown". */
extern const struct mw_heap_walker mw_glibc_unknown_walker;

#endif
