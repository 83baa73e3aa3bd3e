/* heap/stops.h: a walk that lets its target go now and then, so that no pause is longer than
 * context->pause_ns_max. */
#ifndef MW_HEAP_STOPS_H
#define MW_HEAP_STOPS_H

#include "base/context.h"
#include "image/image.h"

/* CLOCK_MONOTONIC when nothing more is begun under the stop at hand; 0: it need not end. */
uint64_t mw_heap_stop_until(const struct mw_image *image, const struct mw_context *context);

/* Let the target run for as long as it was held, at most 20 ms, and hold it again, with its regions
 * read anew. MW_GONE, MW_NOMEM and what stopping may fail with: then it runs. */
enum mw_status mw_heap_breathe(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;

#endif
