/* heap/glibc/sums.c: arenas, totals, and whether they are malloc's own.
 *
 * The sum over an arena's segments must be its system_mem, count and sum of mmapped blocks must be
 * mp_'s: that proves them complete. What differs is a finding and takes `reconciled` away. An arena
 * that changed between the stops under which it was read has no moment at which its counters hold:
 * it is not compared, and not called reconciled. */
#include "heap/glibc/sums.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/units.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PINS_MAX = 256 };

struct mw_glibc_sums {
    const struct mw_glibc *glibc;
    struct mw_glibc_scan *scan;
    struct mw_glibc_sums_part total;
    struct mw_sizes sizes;
    MW_VEC(struct mw_pin) pins;
    bool is_sound; /* every sum so far is glibc's own */
};

struct mw_glibc_sums *mw_glibc_sums_new(const struct mw_glibc *glibc, struct mw_glibc_scan *scan)
{
    struct mw_glibc_sums *sums = mw_calloc(1, sizeof *sums);
    if (!sums)
        return NULL;
    sums->glibc = glibc;
    sums->scan = scan;
    sums->is_sound = !scan->ring_is_torn;
    for (size_t i = 0; i < scan->arenas.count; i++) {
        struct mw_glibc_arena *arena = &scan->arenas.items[i].arena;
        arena->public.heap_count = 0;
        arena->segment_bytes = scan->arenas.items[i].gap_bytes;
    }
    if (mw_sizes_init(&sums->sizes) == MW_OK)
        return sums;
    free(sums);
    return NULL;
}

void mw_glibc_sums_free(struct mw_glibc_sums *sums)
{
    if (!sums)
        return;
    mw_sizes_deinit(&sums->sizes);
    mw_vec_deinit(&sums->pins);
    free(sums);
}

enum mw_status mw_glibc_sums_pin(struct mw_glibc_sums *sums, const struct mw_pin *pin)
{
    enum mw_status status = mw_vec_push(&sums->pins, PINS_MAX, *pin);
    return status == MW_LIMIT ? MW_OK : status;
}

bool mw_glibc_sums_arena(struct mw_glibc_sums *sums, mw_addr address, const struct mw_arena *part,
                         uint64_t bytes)
{
    struct mw_glibc_scanned_arena *row = mw_glibc_scan_arena(sums->scan, address);
    assert(row); /* each segment came with its arena */
    struct mw_arena *arena = &row->arena.public;
    row->arena.segment_bytes += bytes;
    arena->heap_count += part->heap_count;
    arena->in_use_bytes += part->in_use_bytes;
    arena->in_use_count += part->in_use_count;
    arena->free_bytes += part->free_bytes;
    arena->free_count += part->free_count;
    arena->metadata_bytes += part->metadata_bytes;
    arena->skipped_bytes += part->skipped_bytes;
    arena->top_bytes += part->top_bytes;
    arena->top_rss += part->top_rss;
    arena->fastbin_bytes += part->fastbin_bytes;
    arena->fastbin_count += part->fastbin_count;
    arena->tcache_bytes += part->tcache_bytes;
    arena->free_large_bytes += part->free_large_bytes;
    arena->free_large_rss += part->free_large_rss;
    arena->free_rss += part->free_rss;
    arena->trimmable_bytes += part->trimmable_bytes;
    return arena->is_main;
}

static void part_add(struct mw_glibc_sums_part *total, const struct mw_glibc_sums_part *part)
{
    total->mmapped_bytes += part->mmapped_bytes;
    total->mmapped_count += part->mmapped_count;
    total->skipped_bytes += part->skipped_bytes;
    total->tcache_bytes += part->tcache_bytes;
    total->tcache_count += part->tcache_count;
    total->fastbin_bytes += part->fastbin_bytes;
    total->fastbin_count += part->fastbin_count;
    total->top_bytes += part->top_bytes;
    total->free_resident_bytes += part->free_resident_bytes;
    total->trimmable_bytes += part->trimmable_bytes;
    total->free_large_bytes += part->free_large_bytes;
    total->free_large_rss += part->free_large_rss;
    total->fragment_bytes += part->fragment_bytes;
    total->thread_top_rss += part->thread_top_rss;
    for (size_t i = 0; i < MW_CONTENT_COUNT; i++)
        total->content_bytes[i] += part->content_bytes[i];
}

enum mw_status mw_glibc_sums_merge(struct mw_glibc_sums *sums,
                                   const struct mw_glibc_sums_part *part,
                                   const struct mw_sizes *sizes)
{
    part_add(&sums->total, part);
    return mw_sizes_merge(&sums->sizes, sizes);
}

static int pin_compare(const void *a, const void *b)
{
    const struct mw_pin *left = a, *right = b;
    if (left->would_release_bytes != right->would_release_bytes)
        return left->would_release_bytes > right->would_release_bytes ? -1 : 1;
    return left->heap < right->heap ? -1 : left->heap > right->heap;
}

/* Does the sum over an arena's heaps equal its system_mem? Says so as a finding when not. */
static void arena_reconcile(struct mw_glibc_sums *sums, struct mw_glibc_scanned_arena *row)
{
    struct mw_glibc_arena *arena = &row->arena;
    uint64_t found = arena->segment_bytes, said = arena->public.system_bytes;
    bool is_sound =
        !row->has_moved && !arena->is_guessed && found == said && arena->public.skipped_bytes == 0;
    arena->public.reconciled = is_sound && !arena->public.is_estimated;
    if (is_sound)
        return;
    sums->is_sound = false;
    if (!row->has_moved && !arena->is_guessed)
        mw_finding_add(sums->glibc->findings, "arena-not-reconciled", arena->public.address,
                       found > said ? found - said : said - found,
                       "the heaps found for an arena do not add up to its system_mem");
}

/* The same for mmapped blocks and mp_. */
static void mmapped_reconcile(struct mw_glibc_sums *sums)
{
    const struct mw_glibc *glibc = sums->glibc;
    uint64_t count = sums->total.mmapped_count, bytes = sums->total.mmapped_bytes;
    /* 2.43 and 2.44 add 16 bytes too much for each mremap that changes the size. */
    bool drifts = glibc->state->bins == 24 && glibc->mmapped_mem > bytes &&
                  (glibc->mmapped_mem - bytes) % 16 == 0;
    if (!glibc->par) {
        sums->is_sound = false;
        return;
    }
    if (drifts && count == glibc->n_mmaps)
        mw_finding_add(glibc->findings, "mmapped-mem-drift", glibc->mp, glibc->mmapped_mem - bytes,
                       "glibc 2.43 and 2.44 count mmapped memory too high after mremap");
    if (count == glibc->n_mmaps && (bytes == glibc->mmapped_mem || drifts))
        return;
    sums->is_sound = false;
    mw_finding_add(glibc->findings, "mmapped-not-reconciled", glibc->mp,
                   bytes > glibc->mmapped_mem ? bytes - glibc->mmapped_mem
                                              : glibc->mmapped_mem - bytes,
                   "%llu mmapped blocks found, malloc counts %llu", (unsigned long long)count,
                   (unsigned long long)glibc->n_mmaps);
}

/* Sums over the arenas and over mmapped blocks. */
static void arenas_sum(struct mw_glibc_sums *sums, struct mw_allocator *allocator)
{
    for (size_t i = 0; i < sums->scan->arenas.count; i++) {
        struct mw_glibc_scanned_arena *row = &sums->scan->arenas.items[i];
        struct mw_arena *arena = &row->arena.public;
        arena->metadata_bytes += row->gap_bytes;
        arena_reconcile(sums, row);
        allocator->moved_count += row->has_moved;
        allocator->system_bytes += row->arena.segment_bytes;
        allocator->heap_count += arena->heap_count;
        allocator->in_use_bytes += arena->in_use_bytes;
        allocator->in_use_count += arena->in_use_count;
        allocator->free_bytes += arena->free_bytes;
        allocator->free_count += arena->free_count;
        allocator->metadata_bytes += arena->metadata_bytes - arena->skipped_bytes;
    }
    for (size_t i = 0; i < sums->scan->segments.count; i++) {
        const struct mw_heap_segment *segment = &sums->scan->segments.items[i].segment.public;
        if (segment->kind != MW_SEGMENT_MMAPPED)
            continue;
        allocator->in_use_bytes += segment->split.in_use_bytes;
        allocator->in_use_count += segment->in_use_count;
        allocator->free_bytes += segment->split.free_bytes;
        allocator->free_count += segment->free_count;
        allocator->metadata_bytes += segment->split.metadata_bytes;
        allocator->system_bytes += segment->end - segment->start;
    }
}

static void total_hand_over(const struct mw_glibc_sums *sums, struct mw_allocator *allocator)
{
    const struct mw_glibc_sums_part *total = &sums->total;
    allocator->mmapped_bytes = sums->glibc->par ? total->mmapped_bytes : MW_UNKNOWN;
    allocator->mmapped_count = sums->glibc->par ? total->mmapped_count : MW_UNKNOWN;
    allocator->skipped_bytes = total->skipped_bytes;
    allocator->tcache_bytes = total->tcache_bytes;
    allocator->tcache_count = total->tcache_count;
    allocator->fastbin_bytes = total->fastbin_bytes;
    allocator->fastbin_count = total->fastbin_count;
    allocator->top_bytes = total->top_bytes;
    allocator->free_resident_bytes = total->free_resident_bytes;
    allocator->trimmable_bytes = total->trimmable_bytes;
    allocator->free_large_bytes = total->free_large_bytes;
    allocator->free_large_rss = total->free_large_rss;
    allocator->fragment_bytes = total->fragment_bytes;
    allocator->thread_top_rss = total->thread_top_rss;
    memcpy(allocator->content_bytes, total->content_bytes, sizeof total->content_bytes);
}

static int sequence_compare(const void *a, const void *b)
{
    const struct mw_glibc_scanned_arena *left = a, *right = b;
    return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* Arenas in the order of their ring, segments by address, pins by gain, the histogram. */
static enum mw_status arrays_hand_over(struct mw_glibc_sums *sums, struct mw_allocator *allocator)
{
    struct mw_glibc_scan *scan = sums->scan;
    allocator->arenas = mw_calloc(scan->arenas.count, sizeof *allocator->arenas);
    allocator->segments = mw_calloc(scan->segments.count, sizeof *allocator->segments);
    if (!allocator->arenas || !allocator->segments)
        return MW_NOMEM;
    for (size_t i = 0; i < scan->segments.count; i++) {
        struct mw_glibc_scanned *scanned = &scan->segments.items[i];
        const struct mw_glibc_scanned_arena *row = mw_glibc_scan_arena(scan, scanned->arena);
        scanned->segment.public.arena = row ? (uint32_t)row->sequence : MW_ARENA_NONE;
        allocator->segments[i] = scanned->segment.public;
    }
    if (scan->arenas.count > 1)
        qsort(scan->arenas.items, scan->arenas.count, sizeof *scan->arenas.items, sequence_compare);
    for (size_t i = 0; i < scan->arenas.count; i++)
        allocator->arenas[i] = scan->arenas.items[i].arena.public;
    allocator->arena_count = scan->arenas.count;
    allocator->segment_count = scan->segments.count;
    if (sums->pins.count > 1)
        qsort(sums->pins.items, sums->pins.count, sizeof *sums->pins.items, pin_compare);
    allocator->pins = mw_steal(sums->pins.items);
    allocator->pin_count = sums->pins.count;
    return mw_sizes_rows(&sums->sizes, &allocator->sizes, &allocator->size_count);
}

/* How many cached chunks hold bytes, when they are like all that were counted. */
static uint64_t tcache_count_of(const struct mw_glibc_sums_part *total, uint64_t bytes)
{
    if (total->tcache_bytes == 0)
        return 0;
    return (uint64_t)((double)total->tcache_count / (double)total->tcache_bytes * (double)bytes);
}

/* Add what stands for the arenas that were not read, and say so. */
static void estimates_add(struct mw_glibc_sums *sums, struct mw_allocator *allocator)
{
    struct mw_glibc_sums_part part;
    const struct mw_glibc_sample sample = mw_glibc_sample_estimate(sums, sums->scan, &part);
    char margin[32], bytes[32];
    if (sample.thread_count == sample.chosen_count)
        return;
    part.tcache_count = tcache_count_of(&sums->total, part.tcache_bytes);
    allocator->sampled_count = sample.chosen_count;
    allocator->estimated_in_use_bytes = sample.estimated_in_use_bytes;
    allocator->in_use_margin_bytes = sample.margin_bytes;
    mw_finding_add(sums->glibc->findings, "arenas-sampled", 0, 0,
                   "%llu of %llu thread arenas were read; in use and free of the others (%s) are "
                   "estimates, ± %s; --sample-arenas all reads them all",
                   (unsigned long long)sample.chosen_count, (unsigned long long)sample.thread_count,
                   mw_bytes_format(bytes, sample.estimated_bytes),
                   mw_bytes_format(margin, sample.margin_bytes));
    part_add(&sums->total, &part);
}

enum mw_status mw_glibc_sums_finish(struct mw_glibc_sums *sums, struct mw_allocator *allocator)
{
    estimates_add(sums, allocator);
    total_hand_over(sums, allocator);
    mmapped_reconcile(sums);
    arenas_sum(sums, allocator);
    allocator->sample_is_sound = sums->is_sound && allocator->skipped_bytes == 0;
    allocator->reconciled = allocator->sample_is_sound && allocator->sampled_count == 0;
    if (!(sums->glibc->image->can & MW_CAN_PAGES))
        allocator->trimmable_bytes = allocator->free_resident_bytes = MW_UNKNOWN;
    return arrays_hand_over(sums, allocator);
}
