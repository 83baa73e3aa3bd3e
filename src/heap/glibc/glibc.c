/* heap/glibc/glibc.c: glibc's malloc as a walker. The steps, each in its own file:
 *
 *   under each stop   runs → locate → parameters → arenas → thread heaps → main segments → mmapped
 *                     → tcaches → spans (scan.c)
 *   afterwards        lists → blocks → tally → sums, while the target runs
 *
 * Trusts nothing in the target. A heap is believed only while no arena lock is held: otherwise
 * MW_LIMIT "busy", and the caller lets go and tries again. What does not fit into
 * context->pause_ns_max is read under several stops; what is found is found anew at each, since
 * heaps come and go in between. Format and sources: docs/formats/glibc.md. */
#include "heap/glibc/glibc.h"

#include "heap/glibc/sums.h"
#include "heap/stops.h"

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
    mw_vec_deinit(&glibc->tcache_lists);
}

static void version_fill(struct mw_glibc *glibc, struct mw_allocator *allocator)
{
    mw_glibc_read_version(glibc, allocator->version);
    if (!allocator->version[0])
        snprintf(allocator->version, sizeof allocator->version, "%s",
                 glibc->par ? glibc->par->versions : glibc->state->versions);
}

static enum mw_status probe_once(unsigned ordinal, struct mw_image *image,
                                 struct mw_allocator *allocator_out, struct mw_error *err)
{
    struct mw_glibc glibc = {.image = image, .ordinal = ordinal};
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

/* The same while the target is held; MW_NOT_FOUND when it cannot be, MW_GONE. */
static enum mw_status probe_stopped(unsigned ordinal, struct mw_image *image,
                                    struct mw_allocator *allocator_out, struct mw_error *err)
{
    enum mw_status status = mw_image_stop(image, err);
    if (status != MW_OK)
        return status == MW_GONE ? MW_GONE : MW_NOT_FOUND;
    status = probe_once(ordinal, image, allocator_out, err);
    if (image->stopped)
        mw_image_resume(image);
    return status;
}

/* A live target runs meanwhile: where a thread is putting a chunk on a list at this moment, the
 * list contradicts itself, and a program that does little else never lets a look succeed. So where
 * a libc is mapped, nothing found is no answer before it was looked for under some short stops,
 * each at another moment: a thread may be held in the middle of a list, too. */
static enum mw_status nth_probe(unsigned ordinal, struct mw_image *image,
                                struct mw_allocator *allocator_out, struct mw_error *err)
{
    enum { LOOKS = 3, STOPS = 16, WAIT_NS = 500000 };
    bool moves = mw_image_moves(image) && !image->stopped;
    bool has_libc = mw_glibc_libcs_mapped(image) > ordinal;
    unsigned stops = moves && has_libc ? STOPS : 0;
    unsigned looks = (moves && (has_libc || ordinal == 0) ? LOOKS : 1) + stops;
    for (unsigned i = 0;; i++) {
        enum mw_status status = looks - i <= stops
                                    ? probe_stopped(ordinal, image, allocator_out, err)
                                    : probe_once(ordinal, image, allocator_out, err);
        if (status != MW_NOT_FOUND || i + 1 == looks)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

/* A live target is let go and tried again; a core is what it is. */
static enum mw_status locks_check(const struct mw_glibc *glibc, struct mw_error *err)
{
    for (size_t i = 0; i < glibc->arenas.count; i++) {
        if (glibc->arenas.items[i].mutex == 0)
            continue;
        mw_addr address = glibc->arenas.items[i].public.address;
        if (glibc->image->kind == MW_IMAGE_LIVE && !glibc->options->accepts_locks)
            return mw_fail_at(err, MW_LIMIT, address, "busy: a thread holds the lock of an arena");
        mw_finding_add(glibc->findings, "arena-locked", address,
                       glibc->arenas.items[i].public.system_bytes,
                       "a thread was inside malloc: a block of this arena may be miscounted, and "
                       "those that it was merging out of a fast bin count as in use");
    }
    return MW_OK;
}

/* Does the main arena's top end where no region ends? Then the break has moved since these were
 * read, or somebody else's bytes follow. */
static bool main_top_differs(const struct mw_glibc *glibc)
{
    mw_addr top = glibc->arenas.count ? glibc->arenas.items[0].top : 0;
    const struct mw_glibc_run *run = mw_glibc_run_of(glibc, top);
    uint64_t head;
    if (mw_image_read_u64(glibc->image, top + 8, &head) != MW_OK)
        return true;
    return !run || top + (head & ~(uint64_t)7) != run->end;
}

/* Everything before the blocks themselves. */
static enum mw_status glibc_find_all(struct mw_glibc *glibc, struct mw_error *err)
{
    enum mw_status status = mw_glibc_collect_runs(glibc);
    if (status == MW_OK)
        status = mw_glibc_locate(glibc, err);
    if (status == MW_NOT_FOUND && glibc->image->kind == MW_IMAGE_LIVE) /* the probe found it */
        return mw_fail(err, MW_LIMIT, "busy: a thread is in the middle of the main arena's lists");
    if (status != MW_OK)
        return status;
    glibc->consolidates = mw_glibc_has(glibc->state->fastbins);
    if (mw_glibc_read_parameters(glibc) != MW_OK) {
        glibc->par = NULL;
        mw_finding_add(glibc->findings, "mp-not-found", glibc->main_arena, 0,
                       "malloc's parameters were not found; mmapped blocks cannot be counted");
    }
    status = mw_glibc_read_arenas(glibc, err);
    if (status == MW_OK)
        status = locks_check(glibc, err);
    glibc->regions_are_old = status == MW_OK && glibc->doubts_regions && main_top_differs(glibc);
    if (glibc->regions_are_old)
        return MW_OK;
    if (status == MW_OK)
        status = mw_glibc_find_thread_heaps(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_main_segments(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_mmapped(glibc);
    mw_glibc_drop_overlaps(glibc);
    if (status == MW_OK)
        status = mw_glibc_find_tcaches(glibc);
    return status;
}

/* A walk that lets a live target go now and then. */
struct walk {
    struct mw_image *image;
    const struct mw_heap_options *options;
    struct mw_context *context;
    struct mw_findings *findings;
    struct mw_allocator *allocator;
    unsigned ordinal;
    struct mw_glibc_scan scan;
    struct mw_glibc_chains chains;
    bool is_refreshed; /* regions have lost their counters */
    bool is_settled;   /* what is found contradicts regions that are not old, too */
};

static bool is_bounded(const struct walk *walk)
{
    return mw_image_moves(walk->image) && walk->context && !walk->options->hold;
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
    allocator->lacks_parameters = !glibc->par;
    allocator->arena_limit = mw_glibc_arena_limit(glibc);
}

/* Find everything, in *glibc, which is empty; what there is to say goes to findings. */
static enum mw_status walk_find(struct walk *walk, struct mw_glibc *glibc,
                                struct mw_findings *findings, struct mw_error *err)
{
    glibc->image = walk->image;
    glibc->options = walk->options;
    glibc->context = walk->context;
    glibc->findings = findings;
    glibc->ordinal = walk->ordinal;
    if (is_bounded(walk)) {
        glibc->scan_until_ns = walk->image->stop_began_ns + walk->context->pause_ns_max / 2;
        glibc->chains = &walk->chains;
    }
    enum mw_status status = mw_window_init(&glibc->window, walk->image);
    if (status == MW_OK)
        status = mw_window_init(&glibc->lists, walk->image);
    return status == MW_OK ? glibc_find_all(glibc, err) : status;
}

static bool contradicts(const struct mw_glibc *glibc, const struct mw_findings *findings)
{
    return glibc->regions_are_old || mw_finding_find(findings, "heap-damaged") ||
           mw_finding_find(findings, "heap-lost") || mw_finding_find(findings, "main-heap-broken");
}

/* Regions were read before the target was stopped. A heap that came, went or grew in between
 * contradicts them, and damage is what contradicts those of this moment, too. */
static enum mw_status walk_find_fresh(struct walk *walk, struct mw_glibc *glibc,
                                      struct mw_error *err)
{
    struct mw_findings findings = {0};
    glibc->doubts_regions = mw_image_moves(walk->image) && !walk->is_settled;
    bool doubts = glibc->doubts_regions;
    enum mw_status status = walk_find(walk, glibc, &findings, err);
    if (status == MW_OK && doubts && contradicts(glibc, &findings)) {
        mw_findings_deinit(&findings);
        glibc_deinit(glibc);
        *glibc = (struct mw_glibc){0};
        walk->is_refreshed = true;
        status = mw_image_refresh_ranges(walk->image, err);
        if (status == MW_OK)
            status = walk_find(walk, glibc, &findings, err);
        walk->is_settled =
            status == MW_OK && (contradicts(glibc, &findings) || main_top_differs(glibc));
    }
    mw_findings_merge(walk->findings, &findings);
    mw_findings_deinit(&findings);
    glibc->findings = walk->findings;
    return status;
}

/* What can be done under one stop, in *glibc, which the caller has zeroed. */
static enum mw_status walk_round(struct walk *walk, struct mw_glibc *glibc, bool *all_done_out,
                                 struct mw_error *err)
{
    enum { CUTS_MAX = 4096 };
    uint64_t until_ns = is_bounded(walk) ? mw_heap_stop_until(walk->image, walk->context) : 0;
    enum mw_status status = walk_find_fresh(walk, glibc, err);
    if (status != MW_OK)
        return status;
    if (glibc->is_cut_short && ++walk->chains.cut_count < CUTS_MAX)
        return MW_OK; /* what is in tcaches cannot be told before all of the heap is known */
    if (glibc->is_cut_short)
        mw_finding_add(walk->findings, "scan-cut-short", walk->chains.resume, 0,
                       "the main arena's memory was not all found under %d stops", CUTS_MAX);
    allocator_describe(glibc, walk->allocator);
    return mw_glibc_scan_round(&walk->scan, glibc, until_ns, all_done_out);
}

static void several_stops_tell(const struct walk *walk, unsigned stops)
{
    const struct mw_glibc_scan *scan = &walk->scan;
    size_t moved = 0;
    for (size_t i = 0; i < scan->arenas.count; i++)
        moved += scan->arenas.items[i].has_moved;
    mw_finding_add(walk->findings, "several-stops", 0, scan->uncertain_bytes,
                   "the heap was read under %u stops: their sum is of a moment that never was; %zu "
                   "of %zu arenas changed while they were read",
                   stops, moved, scan->arenas.count);
}

/* Rounds until all is read; *glibc is that of the last one. */
static enum mw_status walk_rounds(struct walk *walk, struct mw_glibc *glibc, struct mw_error *err)
{
    enum { BUSY_MAX = 24 };
    unsigned busy = 0, stops = 1;
    for (bool all_done = false;; stops++) {
        enum mw_status status = walk_round(walk, glibc, &all_done, err);
        bool was_busy = status == MW_LIMIT && stops > 1 && busy++ < BUSY_MAX;
        if ((status != MW_OK && !was_busy) || (status == MW_OK && all_done)) {
            if (status == MW_OK && stops > 1)
                several_stops_tell(walk, stops);
            return status;
        }
        glibc_deinit(glibc);
        *glibc = (struct mw_glibc){0};
        walk->is_refreshed = true;
        status = mw_heap_breathe(walk->image, err);
        if (status != MW_OK)
            return status;
    }
}

/* Everything is read: the target may run while it is judged. */
static enum mw_status walk_judge(struct walk *walk, struct mw_glibc *glibc, struct mw_error *err)
{
    if (walk->image->stopped && !walk->options->hold)
        mw_image_resume(walk->image);
    if (walk->is_refreshed && !walk->image->stopped) {
        enum mw_status status = mw_image_refresh(walk->image, err);
        if (status != MW_OK)
            return status;
    }
    mw_glibc_scan_close(&walk->scan, walk->context, walk->findings);
    return mw_glibc_tally(glibc, &walk->scan, walk->allocator);
}

static enum mw_status nth_walk(unsigned ordinal, struct mw_image *image,
                               const struct mw_heap_options *options, struct mw_context *context,
                               struct mw_allocator *allocator, struct mw_findings *findings,
                               struct mw_error *err)
{
    static const struct mw_heap_options no_options;
    struct walk walk = {
        .image = image,
        .options = options ? options : &no_options,
        .context = context,
        .findings = findings,
        .allocator = allocator,
        .ordinal = ordinal,
    };
    struct mw_glibc glibc = {0};
    enum mw_status status = walk_rounds(&walk, &glibc, err);
    if (status == MW_OK)
        status = walk_judge(&walk, &glibc, err);
    glibc_deinit(&glibc);
    mw_glibc_scan_deinit(&walk.scan);
    mw_vec_deinit(&walk.chains);
    struct mw_error ignored;
    if (status != MW_OK && walk.is_refreshed && mw_image_refresh(image, &ignored) == MW_GONE)
        status = MW_GONE;
    if (status == MW_NOMEM)
        mw_fail(err, status, "out of memory walking the heap");
    if (status == MW_CANCELED)
        mw_fail(err, status, "canceled");
    return status;
}

static enum mw_status first_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                  struct mw_error *err)
{
    return nth_probe(0, image, allocator_out, err);
}

static enum mw_status first_walk(struct mw_image *image, const struct mw_heap_options *options,
                                 struct mw_context *context, struct mw_allocator *allocator,
                                 struct mw_findings *findings, struct mw_error *err)
{
    return nth_walk(0, image, options, context, allocator, findings, err);
}

static enum mw_status second_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                   struct mw_error *err)
{
    return nth_probe(1, image, allocator_out, err);
}

static enum mw_status second_walk(struct mw_image *image, const struct mw_heap_options *options,
                                  struct mw_context *context, struct mw_allocator *allocator,
                                  struct mw_findings *findings, struct mw_error *err)
{
    return nth_walk(1, image, options, context, allocator, findings, err);
}

const struct mw_heap_walker mw_glibc_walker = {
    .kind = "glibc",
    .probe = first_probe,
    .walk = first_walk,
};

const struct mw_heap_walker mw_glibc_second_walker = {
    .kind = "glibc",
    .probe = second_probe,
    .walk = second_walk,
};
