/* heap/musl/musl.h: musl's mallocng (1.2.1 to 1.2.5) as a walker.
 *
 * The older malloc of musl (up to 1.2.0) is recognised and not walked. Layout and where its facts
 * come from: docs/formats/musl.md. */
#ifndef MW_HEAP_MUSL_MUSL_H
#define MW_HEAP_MUSL_MUSL_H

#include "heap/walker.h"

extern const struct mw_heap_walker mw_musl_walker;

#endif
