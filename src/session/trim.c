/* session/trim.c: the prediction, from the walk's own simulation of malloc_trim(0). */
#include "session/trim.h"

#include "base/limits.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* Why there is no prediction. */
static void refuse(const struct mw_analysis *analysis, struct mw_error *refused)
{
    const struct mw_allocator *walked = NULL;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].walked && (!walked || mw_allocator_is_glibc(walked)))
            walked = &analysis->allocators[i];
    if (walked && strcmp(walked->kind, "musl") == 0)
        (void)mw_fail(refused, MW_UNSUPPORTED,
                      "musl has no malloc_trim: it gives a group of blocks back by itself when the "
                      "last of them is freed");
    else
        (void)mw_fail(refused, MW_UNSUPPORTED,
                      analysis->heap_was_read
                          ? "no prediction: which pages are resident is not known here"
                          : "no prediction: no heap of glibc was read");
}

void mw_trim_predict(const struct mw_analysis *analysis, struct mw_trim *trim_out)
{
    *trim_out = (struct mw_trim){
        .predicted_bytes = MW_UNKNOWN,
        .anon_before_bytes = analysis->account.anonymous_bytes,
        .anon_after_bytes = MW_UNKNOWN,
        .call_seconds = -1,
    };
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        if (!allocator->walked || allocator->trimmable_bytes == MW_UNKNOWN ||
            !mw_allocator_is_glibc(allocator))
            continue;
        if (trim_out->predicted_bytes == MW_UNKNOWN)
            trim_out->predicted_bytes = 0;
        trim_out->predicted_bytes += allocator->trimmable_bytes;
    }
    if (trim_out->predicted_bytes == MW_UNKNOWN)
        refuse(analysis, &trim_out->refused);
}

static void range_take(void *user, mw_addr start, mw_addr end)
{
    struct mw_trim_ranges *ranges = user;
    if (ranges->status == MW_OK)
        ranges->status = mw_vec_push(ranges, MW_LIMIT_CLAIMS, (struct mw_trim_range){start, end});
}

static void ranges_begin(void *user)
{
    struct mw_trim_ranges *ranges = user;
    ranges->kept = ranges->count;
}

/* A failure stays: what it lost may have been of an allocator before. */
static void ranges_restart(void *user)
{
    struct mw_trim_ranges *ranges = user;
    ranges->count = ranges->kept;
}

void mw_trim_ranges_collect(struct mw_trim_ranges *ranges, struct mw_heap_options *options)
{
    options->trim_range = range_take;
    options->trim_begin = ranges_begin;
    options->trim_restart = ranges_restart;
    options->trim_user = ranges;
}

static int range_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct mw_trim_range *)a)->start;
    mw_addr right = ((const struct mw_trim_range *)b)->start;
    return left < right ? -1 : left > right;
}

void mw_trim_ranges_sort(struct mw_trim_ranges *ranges)
{
    size_t kept = 0;
    if (ranges->count > 1)
        qsort(ranges->items, ranges->count, sizeof *ranges->items, range_compare);
    for (size_t i = 0; i < ranges->count; i++) {
        struct mw_trim_range *last = kept ? &ranges->items[kept - 1] : NULL;
        if (last && ranges->items[i].start <= last->end)
            last->end = last->end > ranges->items[i].end ? last->end : ranges->items[i].end;
        else
            ranges->items[kept++] = ranges->items[i];
    }
    ranges->count = kept;
}

void mw_trim_ranges_deinit(struct mw_trim_ranges *ranges)
{
    mw_vec_deinit(ranges);
}
