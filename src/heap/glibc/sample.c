/* heap/glibc/sample.c: some arenas for all, where there are hundreds.
 *
 * Threads that do the same work have arenas that look alike, so some chosen at random tell about
 * the rest. Of an arena that is not read its segments, its top and which of its pages are resident
 * are known all the same; how the body before the top divides is estimated:
 *
 *   segment   │ head │ body: in use and free, by the ratio of all chosen arenas │ top │
 *
 * Ratios are per byte of body, those of resident bytes per resident byte of body. The error is that
 * of a ratio estimator in a sample without replacement: with y in use in the body x of an arena,
 * n of N chosen and R = sum(y) / sum(x),
 *
 *   variance = N (N - n) / n * (mean x of all / mean x of chosen)^2 * sum((y - R x)^2) / (n - 1)
 *
 * The choice is by place in the ring of arenas with a fixed seed: two runs choose the same. Linear
 * in arenas, segments and their pages. Trusts no size of a top, and nothing else of the target.
 *
 * Reference: W. G. Cochran, Sampling Techniques, 3rd ed., 6.3 and 6.4. */
#include "heap/glibc/sums.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

enum { DEFAULT_CHOSEN = 96, DEFAULT_THREADS_MIN = 256 };
static const uint64_t DEFAULT_BYTES_MIN = (uint64_t)8 << 30;

/* -- which arenas ---------------------------------------------------------------------------- */

/* How many of the thread arenas are to be read. */
static uint64_t wanted_count(const struct mw_glibc_scan *scan, const struct mw_glibc *glibc,
                             uint64_t threads)
{
    uint64_t wanted = glibc->options->sample_arenas, bytes = 0;
    if (glibc->options->trim_range) /* each page of each arena is asked for */
        return MW_SAMPLE_ALL;
    if (wanted != 0)
        return wanted;
    for (size_t i = 0; i < scan->arenas.count; i++)
        if (!scan->arenas.items[i].arena.public.is_main &&
            __builtin_add_overflow(bytes, scan->arenas.items[i].arena.segment_bytes, &bytes))
            return MW_SAMPLE_ALL; /* damage: leave nothing out */
    bool is_crowd = threads > DEFAULT_THREADS_MIN && bytes > DEFAULT_BYTES_MIN;
    return is_crowd && glibc->image->kind == MW_IMAGE_LIVE ? DEFAULT_CHOSEN : MW_SAMPLE_ALL;
}

static int sequence_compare(const void *a, const void *b)
{
    const struct mw_glibc_scanned_arena *const *left = a, *const *right = b;
    return (*left)->sequence < (*right)->sequence ? -1 : (*left)->sequence > (*right)->sequence;
}

enum mw_status mw_glibc_sample_choose(struct mw_glibc_scan *scan, const struct mw_glibc *glibc)
{
    struct mw_glibc_scanned_arena **rows = mw_calloc(scan->arenas.count, sizeof *rows);
    uint64_t random = MW_RANDOM_SEED;
    size_t count = 0;
    if (!rows)
        return MW_NOMEM;
    for (size_t i = 0; i < scan->arenas.count; i++)
        if (!scan->arenas.items[i].arena.public.is_main)
            rows[count++] = &scan->arenas.items[i];
    uint64_t wanted = wanted_count(scan, glibc, count);
    if (wanted < count) {
        qsort(rows, count, sizeof *rows, sequence_compare);
        for (size_t i = 0; i < count; i++) { /* a shuffle, of which the first are chosen */
            size_t other = i + (size_t)mw_random_below(&random, count - i);
            struct mw_glibc_scanned_arena *row = rows[other];
            rows[other] = rows[i];
            row->part = i < wanted ? MW_GLIBC_PART_CHOSEN : MW_GLIBC_PART_ESTIMATED;
        }
    }
    free(rows);
    return MW_OK;
}

bool mw_glibc_sample_leaves(const struct mw_glibc_scan *scan, mw_addr arena)
{
    const struct mw_glibc_scanned_arena *row = arena ? mw_glibc_scan_arena(scan, arena) : NULL;
    return row && row->part == MW_GLIBC_PART_ESTIMATED;
}

/* -- what is known without reading ----------------------------------------------------------- */

void mw_glibc_sample_skip(struct mw_glibc_scanned *scanned, const struct mw_glibc *glibc,
                          unsigned round)
{
    struct mw_glibc_measured *measured = &scanned->measured;
    struct mw_heap_segment *segment = &scanned->segment.public;
    mw_addr top = scanned->segment.top, body_end = segment->end;
    uint64_t head = 0;
    if (top >= scanned->segment.first_chunk && top < segment->end) {
        body_end = top;
        /* A thread heap's top reaches to its end. What says less, or lies, does not change that:
         * a few bytes at most are something else. */
        if (mw_image_read_u64(glibc->image, top + 8, &head) == MW_OK)
            head &= ~(uint64_t)7;
        measured->top_bytes =
            head >= MW_GLIBC_MINSIZE && head < segment->end - top ? head : segment->end - top;
    }
    assert(scanned->segment.first_chunk >= segment->start);
    mw_addr first =
        scanned->segment.first_chunk < body_end ? scanned->segment.first_chunk : body_end;
    measured->body_bytes = body_end - first;
    measured->head_bytes =
        segment->end - segment->start - measured->body_bytes - measured->top_bytes;
    segment->is_estimated = scanned->is_complete = true;
    scanned->done_until = segment->end;
    scanned->last_round = round;
}

/* Adds what is resident of the page at `at`, cut to the segment, to the part that it lies in. */
static void page_add(struct mw_glibc_scanned *scanned, mw_addr at, mw_addr end, uint8_t flags)
{
    struct mw_glibc_measured *measured = &scanned->measured;
    mw_addr body = scanned->segment.first_chunk;
    mw_addr bounds[] = {body, body + measured->body_bytes,
                        body + measured->body_bytes + measured->top_bytes,
                        scanned->segment.public.end};
    struct mw_glibc_resident *parts[] = {&measured->head, &measured->body, &measured->top,
                                         &measured->head};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && at < end; i++) {
        mw_addr to = bounds[i] < end ? bounds[i] : end;
        if (to <= at)
            continue;
        if (mw_page_is_resident(flags))
            parts[i]->rss += to - at;
        else if (flags & MW_PAGE_SWAPPED)
            parts[i]->swap += to - at;
        at = to;
    }
}

enum mw_status mw_glibc_sample_measure(struct mw_glibc_scanned *scanned, struct mw_image *image)
{
    const struct mw_heap_segment *segment = &scanned->segment.public;
    uint64_t page = image->page_size;
    mw_addr at = segment->start & ~(page - 1);
    if (!(image->can & MW_CAN_PAGES))
        return MW_OK;
    uint8_t *flags = mw_calloc(MW_GLIBC_READER_PAGES, 1);
    if (!flags)
        return MW_NOMEM;
    while (at < segment->end && !scanned->measured.is_lost) {
        uint64_t left = (segment->end - at + page - 1) / page;
        size_t count = left < MW_GLIBC_READER_PAGES ? (size_t)left : MW_GLIBC_READER_PAGES;
        scanned->measured.is_lost = mw_image_pages(image, at, count, flags, NULL) != MW_OK;
        for (size_t i = 0; i < count && !scanned->measured.is_lost; i++, at += page) {
            mw_addr from = at < segment->start ? segment->start : at;
            mw_addr to = segment->end - at < page ? segment->end : at + page;
            page_add(scanned, from, to, flags[i]);
        }
    }
    free(flags);
    return MW_OK;
}

/* -- what the chosen arenas say --------------------------------------------------------------- */

/* Sums over the chosen arenas, tops left out. */
struct chosen {
    double count, body, body_rss, body_swap;
    double in_use, in_use_rss, in_use_swap, in_use_count, free_count;
    double tcache, fastbin, fastbin_count, large, large_rss, trimmable;
};

static uint64_t body_of(const struct mw_arena *arena)
{
    uint64_t whole = arena->in_use_bytes + arena->free_bytes;
    assert(whole >= arena->top_bytes);
    return whole - arena->top_bytes;
}

static void chosen_add(struct chosen *chosen, const struct mw_arena *arena)
{
    chosen->count++;
    chosen->body += (double)body_of(arena);
    chosen->in_use += (double)arena->in_use_bytes;
    chosen->in_use_count += (double)arena->in_use_count;
    chosen->free_count += (double)arena->free_count;
    chosen->tcache += (double)arena->tcache_bytes;
    chosen->fastbin += (double)arena->fastbin_bytes;
    chosen->fastbin_count += (double)arena->fastbin_count;
    chosen->large += (double)arena->free_large_bytes;
    chosen->large_rss += (double)arena->free_large_rss;
    chosen->trimmable += (double)arena->trimmable_bytes;
    chosen->body_rss += (double)(arena->free_rss - arena->top_rss);
}

static struct chosen chosen_sum(const struct mw_glibc_scan *scan)
{
    struct chosen chosen = {0};
    for (size_t i = 0; i < scan->arenas.count; i++)
        if (scan->arenas.items[i].part == MW_GLIBC_PART_CHOSEN)
            chosen_add(&chosen, &scan->arenas.items[i].arena.public);
    for (size_t i = 0; i < scan->segments.count; i++) {
        const struct mw_split *split = &scan->segments.items[i].segment.public.split;
        const struct mw_glibc_scanned_arena *row =
            mw_glibc_scan_arena(scan, scan->segments.items[i].arena);
        if (!row || row->part != MW_GLIBC_PART_CHOSEN)
            continue;
        chosen.in_use_rss += (double)split->in_use_rss;
        chosen.in_use_swap += (double)split->in_use_swap;
        chosen.body_swap += (double)split->in_use_swap + (double)split->free_swap;
    }
    chosen.body_rss += chosen.in_use_rss;
    return chosen;
}

/* part / whole of `of`, at most limit. */
static uint64_t share(double part, double whole, uint64_t of, uint64_t limit)
{
    double value = whole > 0 ? part / whole * (double)of + 0.5 : 0;
    return value < (double)limit ? (uint64_t)value : limit;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- one segment ------------------------------------------------------------------------------ */

/* Of `whole` resident bytes of the body, those in use: neither part holds more than its room. */
static uint64_t in_use_part(double part, double all, uint64_t whole, uint64_t in_use_room,
                            uint64_t free_room)
{
    uint64_t in_use = share(part, all, whole, least(whole, in_use_room));
    return whole - in_use > free_room ? whole - free_room : in_use;
}

static void segment_split(struct mw_glibc_scanned *scanned, const struct chosen *chosen)
{
    const struct mw_glibc_measured *m = &scanned->measured;
    struct mw_heap_segment *segment = &scanned->segment.public;
    struct mw_split *split = &segment->split;
    uint64_t in_use = share(chosen->in_use, chosen->body, m->body_bytes, m->body_bytes);
    uint64_t freed = m->body_bytes - in_use;
    uint64_t rss = in_use_part(chosen->in_use_rss, chosen->body_rss, m->body.rss, in_use, freed);
    uint64_t free_rss = m->body.rss - rss;
    uint64_t swap = in_use_part(chosen->in_use_swap, chosen->body_swap, m->body.swap, in_use - rss,
                                freed - free_rss);
    *split = (struct mw_split){
        .in_use_bytes = in_use,
        .free_bytes = freed + m->top_bytes,
        .metadata_bytes = m->head_bytes,
        .in_use_rss = rss,
        .free_rss = free_rss + m->top.rss,
        .metadata_rss = m->head.rss,
        .in_use_swap = swap,
        .free_swap = m->body.swap - swap + m->top.swap,
        .metadata_swap = m->head.swap,
    };
    segment->in_use_count = share(chosen->in_use_count, chosen->body, m->body_bytes, in_use / 32);
    segment->free_count =
        share(chosen->free_count, chosen->body, m->body_bytes, freed / 32 + (m->top_bytes > 0));
    segment->trimmable_bytes = share(chosen->trimmable, chosen->body_rss, m->body.rss, free_rss);
    assert(split->in_use_bytes + split->free_bytes + split->metadata_bytes ==
           segment->end - segment->start);
    assert(split->in_use_rss <= in_use && free_rss <= freed);
}

/* What free memory of the body consists of, for the arena. */
static struct mw_arena segment_arena(const struct mw_glibc_scanned *scanned,
                                     const struct chosen *chosen)
{
    const struct mw_glibc_measured *m = &scanned->measured;
    const struct mw_heap_segment *segment = &scanned->segment.public;
    const struct mw_split *split = &segment->split;
    uint64_t freed = split->free_bytes - m->top_bytes, free_rss = split->free_rss - m->top.rss;
    uint64_t tcache = share(chosen->tcache, chosen->body, m->body_bytes, freed);
    uint64_t fastbin = share(chosen->fastbin, chosen->body, m->body_bytes, freed - tcache);
    return (struct mw_arena){
        .heap_count = 1,
        .in_use_bytes = split->in_use_bytes,
        .in_use_count = segment->in_use_count,
        .free_bytes = split->free_bytes,
        .free_count = segment->free_count,
        .metadata_bytes = split->metadata_bytes,
        .free_rss = split->free_rss,
        .top_bytes = m->top_bytes,
        .top_rss = m->top.rss,
        .tcache_bytes = tcache,
        .fastbin_bytes = fastbin,
        .fastbin_count =
            share(chosen->fastbin_count, chosen->body, m->body_bytes, segment->free_count),
        .free_large_bytes =
            share(chosen->large, chosen->body, m->body_bytes, freed - tcache - fastbin),
        .free_large_rss = share(chosen->large_rss, chosen->body_rss, m->body.rss, free_rss),
        .trimmable_bytes = segment->trimmable_bytes,
    };
}

static void segment_add(struct mw_glibc_sums_part *part, const struct mw_arena *arena)
{
    uint64_t inside = arena->free_rss - arena->top_rss;
    uint64_t not_holes = arena->trimmable_bytes + arena->tcache_bytes; /* each at most inside */
    part->tcache_bytes += arena->tcache_bytes;
    part->fastbin_bytes += arena->fastbin_bytes;
    part->fastbin_count += arena->fastbin_count;
    part->top_bytes += arena->top_bytes;
    part->free_resident_bytes += arena->free_rss;
    part->trimmable_bytes += arena->trimmable_bytes;
    part->free_large_bytes += arena->free_large_bytes;
    part->free_large_rss += arena->free_large_rss;
    part->fragment_bytes += inside > not_holes ? inside - not_holes : 0;
    part->thread_top_rss += arena->top_rss;
}

/* -- how far off it may be -------------------------------------------------------------------- */

/* Newton's way, good to the last byte for what fits 64 bits; saves linking to libm. */
static double square_root(double value)
{
    double root = value > 1 ? value : 1;
    for (int i = 0; i < 128 && root * root > value; i++)
        root = (root + value / root) / 2;
    return root;
}

/* Two standard errors of what is in use in `body` bytes of `left` arenas; no more than can be. */
static uint64_t margin_of(const struct mw_glibc_scan *scan, const struct chosen *chosen,
                          double left, uint64_t body)
{
    double ratio = chosen->body > 0 ? chosen->in_use / chosen->body : 0, squares = 0;
    double n = chosen->count, all = n + left;
    if (n < 2 || chosen->body <= 0)
        return body;
    for (size_t i = 0; i < scan->arenas.count; i++) {
        const struct mw_arena *arena = &scan->arenas.items[i].arena.public;
        if (scan->arenas.items[i].part != MW_GLIBC_PART_CHOSEN)
            continue;
        double off = (double)arena->in_use_bytes - ratio * (double)body_of(arena);
        squares += off * off;
    }
    double means = (chosen->body + (double)body) / all / (chosen->body / n);
    double variance = all * left / n * means * means * squares / (n - 1);
    double margin = 2 * square_root(variance) + 1;
    return margin < (double)body ? (uint64_t)margin : body;
}

struct mw_glibc_sample mw_glibc_sample_estimate(struct mw_glibc_sums *sums,
                                                struct mw_glibc_scan *scan,
                                                struct mw_glibc_sums_part *part_out)
{
    const struct chosen chosen = chosen_sum(scan);
    struct mw_glibc_sample sample = {.chosen_count = (uint64_t)chosen.count,
                                     .thread_count = (uint64_t)chosen.count};
    uint64_t body = 0;
    *part_out = (struct mw_glibc_sums_part){0};
    for (size_t i = 0; i < scan->arenas.count; i++) {
        struct mw_glibc_scanned_arena *row = &scan->arenas.items[i];
        row->arena.public.is_estimated = row->part == MW_GLIBC_PART_ESTIMATED;
        sample.thread_count += row->arena.public.is_estimated;
    }
    for (size_t i = 0; i < scan->segments.count; i++) {
        struct mw_glibc_scanned *scanned = &scan->segments.items[i];
        const struct mw_heap_segment *segment = &scanned->segment.public;
        if (!segment->is_estimated)
            continue;
        segment_split(scanned, &chosen);
        const struct mw_arena arena = segment_arena(scanned, &chosen);
        segment_add(part_out, &arena);
        mw_glibc_sums_arena(sums, scanned->arena, &arena, segment->end - segment->start);
        body += scanned->measured.body_bytes;
        sample.estimated_in_use_bytes += arena.in_use_bytes;
        sample.estimated_bytes += segment->end - segment->start;
    }
    double left = (double)(sample.thread_count - sample.chosen_count);
    sample.margin_bytes = left > 0 ? margin_of(scan, &chosen, left, body) : 0;
    return sample;
}
