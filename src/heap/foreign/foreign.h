/* heap/foreign/foreign.h: allocators that are recognised and named, not walked.
 *
 * Their memory is malloc.unsplit. A probe decides by the allocator's own structures: exported
 * symbols; the name of the library is what is left where memory cannot be read. */
#ifndef MW_HEAP_FOREIGN_FOREIGN_H
#define MW_HEAP_FOREIGN_FOREIGN_H

#include "heap/walker.h"

extern const struct mw_heap_walker mw_jemalloc_walker;
extern const struct mw_heap_walker mw_tcmalloc_walker;
extern const struct mw_heap_walker mw_mimalloc_walker;

/* Claim, weaker than everybody, the anonymous mappings that have the shape of the allocator's. A
 * no-op for one that was walked or is neither one of the above nor musl's older malloc. Linear. */
enum mw_status mw_foreign_claim(const struct mw_image *image, const struct mw_allocator *allocator,
                                struct mw_claims *claims) MW_MUST_CHECK;

#endif
