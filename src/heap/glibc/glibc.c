/* heap/glibc/glibc.c: glibc's malloc as a walker. The steps, each in its own file:
 * runs → locate → parameters → arenas → thread heaps → main segments → mmapped → cached → tally.
 *
 * Trusts nothing in the target. A heap is believed only while no arena lock is held: otherwise
 * MW_LIMIT "busy", and the caller lets go and tries again. Many arenas are read under several
 * stops, each whole under one, so that a pause stays near context->pause_ns_max / 2; what is found
 * is found anew at each stop, since heaps come and go in between. Format and sources:
 * docs/formats/glibc.md. */
#include "heap/glibc/glibc.h"

#include "base/clock.h"
#include "heap/glibc/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void glibc_deinit(struct mw_glibc *glibc)
{
    mw_window_deinit(&glibc->window);
    mw_window_deinit(&glibc->lists);
    mw_vec_deinit(&glibc->runs);
    mw_vec_deinit(&glibc->arenas);
    mw_vec_deinit(&glibc->segments);
    free(glibc->visited.bits);
    free(glibc->cache.bytes);
    mw_vec_deinit(&glibc->cached);
}

static void version_fill(struct mw_glibc *glibc, struct mw_allocator *allocator)
{
    mw_glibc_read_version(glibc, allocator->version);
    if (!allocator->version[0])
        snprintf(allocator->version, sizeof allocator->version, "%s",
                 glibc->par ? glibc->par->versions : glibc->state->versions);
}

static enum mw_status glibc_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                  struct mw_error *err)
{
    struct mw_glibc glibc = {.image = image};
    enum mw_status status = mw_window_init(&glibc.window, image);
    if (status == MW_OK)
        status = mw_glibc_locate(&glibc, err);
    else
        mw_fail(err, status, "out of memory");
    if (status == MW_OK) {
        allocator_out->kind = "glibc";
        version_fill(&glibc, allocator_out);
    }
    glibc_deinit(&glibc);
    return status;
}

/* A live target is let go and tried again; a core is what it is. */
static enum mw_status locks_check(const struct mw_glibc *glibc, struct mw_error *err)
{
    for (size_t i = 0; i < glibc->arenas.count; i++) {
        if (glibc->arenas.items[i].mutex == 0)
            continue;
        mw_addr address = glibc->arenas.items[i].public.address;
        if (glibc->image->kind == MW_IMAGE_LIVE)
            return mw_fail_at(err, MW_LIMIT, address, "busy: a thread holds the lock of an arena");
        mw_finding_add(glibc->findings, "arena-locked", address,
                       glibc->arenas.items[i].public.system_bytes,
                       "a thread was inside malloc: a block of this arena may be miscounted");
    }
    return MW_OK;
}

/* Everything before the blocks themselves. */
static enum mw_status glibc_find_all(struct mw_glibc *glibc, struct mw_error *err)
{
    enum mw_status status = mw_glibc_collect_runs(glibc);
    if (status == MW_OK)
        status = mw_glibc_locate(glibc, err);
    if (status != MW_OK)
        return status;
    glibc->consolidates = mw_glibc_has(glibc->state->fastbins);
    if (mw_glibc_read_parameters(glibc) != MW_OK)
        mw_finding_add(glibc->findings, "mp-not-found", glibc->main_arena, 0,
                       "malloc's parameters were not found; mmapped blocks cannot be counted");
    status = mw_glibc_read_arenas(glibc, err);
    if (status == MW_OK)
        status = locks_check(glibc, err);
    if (status == MW_OK)
        status = mw_glibc_find_thread_heaps(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_main_segments(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_mmapped(glibc);
    mw_glibc_drop_overlaps(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_cached(glibc);
    return status;
}

/* A walk that lets a live target go between arenas. */
struct walk {
    struct mw_image *image;
    const struct mw_heap_options *options;
    struct mw_context *context;
    struct mw_findings *findings;
    struct mw_allocator *allocator;
    struct mw_glibc_tally *tally;
};

/* When a stop of the target has lasted so long, no other arena is begun. */
static uint64_t stop_until(const struct walk *walk, uint64_t begin_ns)
{
    if (walk->image->kind != MW_IMAGE_LIVE || !walk->context)
        return 0;
    return begin_ns + walk->context->pause_ns_max / 2;
}

static void allocator_describe(struct mw_glibc *glibc, struct mw_allocator *allocator)
{
    allocator->kind = "glibc";
    if (!allocator->version[0])
        version_fill(glibc, allocator);
    else
        sscanf(allocator->version, "2.%u", &glibc->version_minor);
    allocator->walked = true;
    allocator->parameters = glibc->parameters;
    allocator->arena_limit = mw_glibc_arena_limit(glibc);
}

/* What can be done under one stop: everything is found anew, and as many arenas as the time allows
 * are tallied. */
static enum mw_status walk_round(struct walk *walk, bool *all_done_out, struct mw_error *err)
{
    uint64_t begin_ns = mw_clock_monotonic_ns();
    struct mw_glibc glibc = {
        .image = walk->image,
        .options = walk->options,
        .context = walk->context,
        .findings = walk->findings,
    };
    if (walk->image->kind == MW_IMAGE_LIVE && walk->context)
        glibc.scan_until_ns = begin_ns + walk->context->pause_ns_max;
    enum mw_status status = mw_window_init(&glibc.window, walk->image);
    if (status == MW_OK)
        status = mw_window_init(&glibc.lists, walk->image);
    if (status == MW_OK)
        status = glibc_find_all(&glibc, err);
    if (status == MW_OK) {
        allocator_describe(&glibc, walk->allocator);
        status =
            mw_glibc_tally_arenas(walk->tally, &glibc, stop_until(walk, begin_ns), all_done_out);
    }
    if (status == MW_OK && *all_done_out)
        status = mw_glibc_tally_finish(walk->tally, &glibc);
    glibc_deinit(&glibc);
    return status;
}

/* Let the target run for as long as it was held, at most 20 ms, and hold it again. */
static enum mw_status walk_breathe(struct walk *walk, struct mw_error *err)
{
    enum { RUN_NS_MAX = 20000000 };
    const struct mw_pauses *pauses = &walk->image->pauses;
    uint64_t before = pauses->total_ns;
    mw_image_resume(walk->image);
    uint64_t held = pauses->total_ns - before;
    struct timespec run = {0, (long)(held < RUN_NS_MAX ? held : RUN_NS_MAX)};
    nanosleep(&run, NULL);
    enum mw_status status = mw_image_refresh(walk->image, err);
    return status == MW_OK ? mw_image_stop(walk->image, err) : status;
}

static enum mw_status walk_rounds(struct walk *walk, struct mw_error *err)
{
    enum { BUSY_MAX = 24 };
    unsigned busy = 0, stops = 1;
    for (bool all_done = false;; stops++) {
        enum mw_status status = walk_round(walk, &all_done, err);
        bool was_busy = status == MW_LIMIT && stops > 1 && busy++ < BUSY_MAX;
        if ((status != MW_OK && !was_busy) || (status == MW_OK && all_done)) {
            if (status == MW_OK && stops > 1)
                mw_finding_add(walk->findings, "several-stops", 0, 0,
                               "the arenas were read under %u stops: each one is exact, their sum "
                               "is of a moment that never was",
                               stops);
            return status;
        }
        status = walk_breathe(walk, err);
        if (status != MW_OK)
            return status;
    }
}

static enum mw_status glibc_walk(struct mw_image *image, const struct mw_heap_options *options,
                                 struct mw_context *context, struct mw_allocator *allocator,
                                 struct mw_findings *findings, struct mw_error *err)
{
    static const struct mw_heap_options no_options;
    struct walk walk = {
        .image = image,
        .options = options ? options : &no_options,
        .context = context,
        .findings = findings,
        .allocator = allocator,
        .tally = mw_glibc_tally_new(allocator),
    };
    enum mw_status status = walk.tally ? walk_rounds(&walk, err) : MW_NOMEM;
    mw_glibc_tally_free(walk.tally);
    if (status == MW_NOMEM)
        mw_fail(err, status, "out of memory walking the heap");
    if (status == MW_CANCELED)
        mw_fail(err, status, "canceled");
    return status;
}

const struct mw_heap_walker mw_glibc_walker = {
    .kind = "glibc",
    .probe = glibc_probe,
    .walk = glibc_walk,
};
