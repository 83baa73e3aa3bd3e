/* heap/stops.c: when a stop ends, and what lies between two. */
#include "heap/stops.h"

#include "base/clock.h"

#include <time.h>

/* Some of what it may last is left for letting go, which takes a part of what stopping took, and
 * for clocks that others' work disturbs. */
uint64_t mw_heap_stop_until(const struct mw_image *image, const struct mw_context *context)
{
    if (!mw_image_moves(image) || !context)
        return 0;
    uint64_t began = image->stop_began_ns, pause = context->pause_ns_max;
    uint64_t freeze = mw_clock_monotonic_ns() - began;
    uint64_t reserve = pause / 5 + freeze / 2;
    return began + (reserve < pause ? pause - reserve : 0);
}

enum mw_status mw_heap_breathe(struct mw_image *image, struct mw_error *err)
{
    enum { RUN_NS_MAX = 20000000 };
    const struct mw_pauses *pauses = &image->pauses;
    uint64_t before = pauses->total_ns;
    mw_image_resume(image);
    uint64_t held = pauses->total_ns - before;
    struct timespec run = {0, (long)(held < RUN_NS_MAX ? held : RUN_NS_MAX)};
    nanosleep(&run, NULL);
    enum mw_status status = mw_image_refresh_ranges(image, err);
    return status == MW_OK ? mw_image_stop(image, err) : status;
}
