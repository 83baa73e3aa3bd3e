/* session/heaps.h: the part of an analysis that reads heaps. */
#ifndef MW_SESSION_HEAPS_H
#define MW_SESSION_HEAPS_H

#include "session/session.h"

/* Walk all heaps, ask what is reachable, or else about the size of block that stands out: fills
 * allocators, heap_was_read, reach, references, huge. MW_NOMEM, MW_CANCELED, MW_GONE. */
enum mw_status mw_heaps_examine(struct mw_analysis *analysis,
                                const struct mw_analysis_options *options,
                                struct mw_context *context, struct mw_error *err) MW_MUST_CHECK;

/* The answer is partial for this reason, unless it is already for another. */
void mw_analysis_partial(struct mw_analysis *analysis, const struct mw_error *why);

#endif
