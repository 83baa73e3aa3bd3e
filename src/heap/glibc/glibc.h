/* heap/glibc/glibc.h: glibc's malloc behind the walker interface. Layouts 2.17 to 2.44. */
#ifndef MW_HEAP_GLIBC_GLIBC_H
#define MW_HEAP_GLIBC_GLIBC_H

#include "heap/walker.h"

extern const struct mw_heap_walker mw_glibc_walker;

#endif
