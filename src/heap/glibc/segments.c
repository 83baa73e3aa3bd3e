/* heap/glibc/segments.c: the segments of the main arena.
 *
 * The main arena has no list of its segments. The usual one runs from mp_.sbrk_base to the end of
 * top and is system_mem long. When another user of sbrk stood in the way, or brk was blocked and
 * malloc fell back to mmap, there are several; each but the last ends in two or three 16-byte
 * chunks (fences) whose end is page-aligned:
 *
 *   sbrk_base                 page           foreign            page
 *   │ chunk … chunk │0x11│0x11│ somebody else's bytes │ chunk … top │
 *
 * The sum over segments and foreign gaps equals system_mem: that proves them complete. Chains are
 * checked by following them (chains.c). A search that would hold a live target too long goes on
 * under the next stop, with what was found. */
#include "base/clock.h"
#include "base/limits.h"
#include "heap/glibc/chains.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    GAP_SCAN_MAX = 64 << 20,
    STEP_BYTES = 4 << 20, /* that each stop searches at least */
};

static bool head_may_start(uint64_t head)
{
    return (head & 7) == MW_GLIBC_PREV_INUSE && (head & ~(uint64_t)7) >= MW_GLIBC_MINSIZE;
}

static enum mw_status segment_add(struct mw_glibc *glibc, mw_addr start, mw_addr first_chunk,
                                  const struct mw_glibc_chain_end *end, enum mw_segment_kind kind,
                                  bool locked)
{
    const struct mw_glibc_segment segment = {
        .public = {.start = start, .end = end->end, .kind = kind, .arena = 0},
        .first_chunk = first_chunk,
        .top = end->has_top ? glibc->arenas.items[0].top : 0,
        .locked = locked,
    };
    return mw_glibc_segment_push(glibc, &segment);
}

enum mw_status mw_glibc_segment_push(struct mw_glibc *glibc, const struct mw_glibc_segment *segment)
{
    uint64_t size = segment->public.end - segment->public.start;
    assert(segment->public.start < segment->public.end);
    enum mw_status status = mw_vec_push(&glibc->segments, MW_LIMIT_HEAP_SEGMENTS, *segment);
    if (status == MW_LIMIT) {
        mw_finding_add(glibc->findings, "heaps-too-many", segment->public.start, size,
                       "malloc has more heaps and mappings than are looked at");
        return MW_OK;
    }
    if (status == MW_OK && segment->public.arena != MW_ARENA_NONE) {
        struct mw_glibc_arena *arena = &glibc->arenas.items[segment->public.arena];
        arena->segment_bytes += size;
        arena->public.heap_count++;
    }
    return status;
}

/* Behind the fences at gap somebody else used sbrk: find where the heap goes on, *start_out; 0 when
 * it does not. */
static enum mw_status gap_scan(struct mw_glibc *glibc, mw_addr gap, mw_addr limit,
                               struct mw_glibc_chain_end *end_out, mw_addr *start_out)
{
    *start_out = 0;
    enum mw_status status = mw_glibc_chains_begin(glibc, gap, limit);
    mw_addr last = limit - gap > GAP_SCAN_MAX ? gap + GAP_SCAN_MAX : limit;
    for (mw_addr at = gap; at < last && status == MW_OK; at += 16) {
        uint64_t head;
        if (!mw_glibc_chunk_head(glibc, at, &head))
            return MW_OK;
        if (head_may_start(head) && mw_glibc_chain_follow(glibc, at, limit, true, end_out)) {
            *start_out = at;
            return MW_OK;
        }
        if (glibc->visited.is_exhausted || glibc->is_cut_short)
            return MW_OK;
        if (at % MW_WINDOW_BYTES == 0 && mw_context_canceled(glibc->context))
            return MW_CANCELED;
    }
    return status;
}

/* What a foreign sbrk took is in system_mem. */
static void gap_add(struct mw_glibc *glibc, mw_addr start, mw_addr end)
{
    assert(start <= end);
    glibc->gap_bytes += end - start;
    glibc->arenas.items[0].segment_bytes += end - start;
}

/* Is `run` where the kernel puts brk: behind the program, no other file between? */
static bool run_follows_program(const struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    const struct mw_mapping *program = mw_image_region(glibc->image, glibc->image->entry);
    const struct mw_mapping *first = mw_image_region(glibc->image, run->start);
    if (!program || !first || program->start > first->start)
        return false;
    for (const struct mw_mapping *map = program; map < first; map++)
        if (map->name[0] == '/' && strcmp(map->name, program->name) != 0)
            return false;
    return true;
}

/* Does this region grow by brk? A core has no name for it: there it is the one of sbrk_base, unless
 * malloc had to map memory instead, and it does not lie where the kernel puts brk. */
static bool region_is_brk(const struct mw_glibc *glibc, const struct mw_mapping *map)
{
    if (strcmp(map->name, "[heap]") == 0)
        return true;
    if (glibc->image->kind == MW_IMAGE_LIVE || map->name[0] != '\0')
        return false;
    const struct mw_glibc_run *run = mw_glibc_run_of(glibc, map->start);
    if (!run || run != mw_glibc_run_of(glibc, glibc->sbrk_base))
        return false;
    return !(glibc->arenas.items[0].flags & MW_GLIBC_NONCONTIGUOUS) ||
           run_follows_program(glibc, run);
}

/* The brk area from sbrk_base on, with the gaps that foreign sbrk calls left. */
static enum mw_status brk_segments_find(struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    mw_addr start = glibc->sbrk_base, at = (start + 15) & ~(mw_addr)15;
    mw_addr limit = mw_glibc_brk_limit(glibc, run);
    enum mw_segment_kind kind = MW_SEGMENT_BRK;
    const struct mw_mapping *map = mw_image_region(glibc->image, start);
    if (map && !region_is_brk(glibc, map))
        kind = MW_SEGMENT_MORECORE;
    mw_window_reset(&glibc->window, limit);
    struct mw_glibc_chain_end end;
    bool is_whole = mw_glibc_chain_follow(glibc, at, limit, false, &end);
    for (;;) {
        if (!is_whole && glibc->is_cut_short)
            return MW_OK; /* under the next stop */
        if (!is_whole) {
            mw_finding_add(glibc->findings, "main-heap-broken", at, limit - at,
                           "the chunks of the main arena break off");
            end = (struct mw_glibc_chain_end){limit, false};
        }
        enum mw_status status = segment_add(glibc, start, at, &end, kind, run->locked);
        if (status != MW_OK || end.has_top || end.end >= limit)
            return status;
        mw_addr gap = end.end;
        status = gap_scan(glibc, gap, limit, &end, &start);
        if (status != MW_OK || start == 0)
            return status; /* the arena went on elsewhere */
        gap_add(glibc, gap, start);
        at = start;
    }
}

enum mw_status mw_glibc_segment_cut(struct mw_glibc *glibc, size_t index, mw_addr end)
{
    struct mw_glibc_segment *segment = &glibc->segments.items[index];
    struct mw_glibc_arena *arena = &glibc->arenas.items[0];
    mw_addr limit = segment->public.end, start;
    assert(end < limit);
    struct mw_glibc_segment rest = *segment;
    segment->public.end = end;
    segment->top = 0;
    segment->at_brk = false;
    arena->segment_bytes -= limit - end;
    struct mw_glibc_chain_end chain;
    mw_window_reset(&glibc->window, limit);
    uint64_t until_ns = glibc->scan_until_ns;
    glibc->scan_until_ns = 0; /* a chain that leads to top need not be followed there */
    enum mw_status status = gap_scan(glibc, end, limit, &chain, &start);
    glibc->scan_until_ns = until_ns;
    if (status == MW_OK && start == 0)
        mw_finding_add(glibc->findings, "main-heap-lost", end, limit - end,
                       "the main arena could not be followed behind a foreign sbrk");
    if (status != MW_OK || start == 0)
        return status;
    gap_add(glibc, end, start);
    rest.public = (struct mw_heap_segment){
        .start = start, .end = limit, .kind = rest.public.kind, .arena = rest.public.arena};
    rest.first_chunk = start;
    return mw_glibc_segment_push(glibc, &rest);
}

/* The common case without reading a chunk: one segment, as long as system_mem says. A foreign sbrk
 * inside it counts in system_mem, too: the walk will meet the fences there. */
static bool single_segment_fits(struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    const struct mw_glibc_arena *arena = &glibc->arenas.items[0];
    uint64_t head;
    if ((arena->flags & MW_GLIBC_NONCONTIGUOUS) || arena->top < glibc->sbrk_base ||
        mw_image_read_u64(glibc->image, arena->top + 8, &head) != MW_OK)
        return false;
    mw_addr end = arena->top + (head & ~(uint64_t)7);
    return end > arena->top && end - glibc->sbrk_base == arena->public.system_bytes &&
           (end <= run->end || mw_glibc_is_span(glibc, glibc->sbrk_base, end));
}

/* Does a page of an anonymous run begin a segment that malloc mapped instead of brk? */
static enum mw_status morecore_page_test(struct mw_glibc *glibc, mw_addr page,
                                         const struct mw_glibc_run *run, mw_addr *next_out)
{
    const struct mw_glibc_arena *arena = &glibc->arenas.items[0];
    uint64_t head, missing = arena->public.system_bytes - arena->segment_bytes;
    struct mw_glibc_chain_end end;
    *next_out = page + glibc->image->page_size;
    if (!mw_glibc_chunk_head(glibc, page, &head) || !head_may_start(head))
        return MW_OK;
    mw_addr limit = mw_glibc_next_segment(glibc, page, run->end);
    enum mw_status status = mw_glibc_chains_begin(glibc, page, limit);
    if (status != MW_OK || glibc->visited.is_exhausted ||
        !mw_glibc_chain_follow(glibc, page, limit, true, &end) ||
        end.end % glibc->image->page_size != 0 || end.end - page > missing)
        return status;
    *next_out = end.end;
    return segment_add(glibc, page, page, &end, MW_SEGMENT_MORECORE, run->locked);
}

/* A core has a mapping from its start on, or not at all, and may call it larger than any memory.
 * Is page in what is missing? *end_out is where that ends. A window gives zeros for pages that are
 * known not to be there, so a page is read itself now and then. */
static bool is_missing(struct mw_glibc *glibc, mw_addr page, mw_addr *end_out)
{
    uint8_t byte;
    if (glibc->image->kind == MW_IMAGE_LIVE ||
        (mw_window_at(&glibc->window, page, 16) &&
         (page % MW_WINDOW_BYTES != 0 || mw_image_read_some(glibc->image, page, &byte, 1) == 1)))
        return false;
    *end_out = mw_image_region(glibc->image, page)->end;
    return true;
}

/* Do the pages from a window's start on have no content? *end_out is the next that has some, or
 * run's end. Asked for in growing batches: an empty reserve may be as large as the address space.
 */
static bool is_empty(struct mw_glibc *glibc, const struct mw_glibc_run *run, mw_addr page,
                     mw_addr *end_out)
{
    enum { BATCH_MAX = 16 << 10 };
    uint8_t flags[BATCH_MAX];
    size_t page_size = glibc->image->page_size, batch = MW_WINDOW_BYTES / page_size;
    if (page % MW_WINDOW_BYTES != 0 || !(glibc->image->can & MW_CAN_PAGES))
        return false;
    for (*end_out = page; *end_out < run->end; batch = batch < BATCH_MAX ? 2 * batch : batch) {
        uint64_t left = (run->end - *end_out + page_size - 1) / page_size;
        size_t count = left < batch ? (size_t)left : batch, i = 0;
        if (mw_image_pages(glibc->image, *end_out, count, flags, NULL) != MW_OK)
            break;
        while (i < count && !(flags[i] & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED)))
            i++;
        *end_out += i * page_size;
        if (i < count || mw_context_canceled(glibc->context) ||
            (glibc->scan_until_ns && mw_clock_monotonic_ns() > glibc->scan_until_ns))
            break;
    }
    return *end_out > page;
}

mw_addr mw_glibc_scan_step(struct mw_glibc *glibc, const struct mw_glibc_run *run, mw_addr page,
                           enum mw_status *status)
{
    mw_addr page_size = glibc->image->page_size, end;
    page = (page + page_size - 1) & ~(page_size - 1);
    if (mw_context_canceled(glibc->context)) {
        *status = MW_CANCELED;
        return run->end;
    }
    while (page < run->end && (mw_glibc_in_segment(glibc, page, &end) ||
                               is_missing(glibc, page, &end) || is_empty(glibc, run, page, &end)))
        page = (end + page_size - 1) & ~(page_size - 1);
    if (glibc->scan_until_ns && page % MW_WINDOW_BYTES == 0 && page >= glibc->cut_from &&
        mw_clock_monotonic_ns() > glibc->scan_until_ns) {
        glibc->cut_at = page;
        return run->end;
    }
    return page < run->end ? page : run->end;
}

void mw_glibc_scan_cut_tell(struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    if (glibc->cut_at != 0)
        mw_finding_add(glibc->findings, "scan-cut-short", glibc->cut_at, run->end - glibc->cut_at,
                       "the search for malloc's mappings would have held the target too long");
    glibc->cut_at = 0;
}

/* Segments that earlier stops have found: malloc never gives one back. */
static enum mw_status morecore_segments_recall(struct mw_glibc *glibc)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; glibc->chains && i < glibc->chains->count && status == MW_OK; i++) {
        mw_addr start = glibc->chains->items[i].start, end;
        const struct mw_glibc_run *run = mw_glibc_run_of(glibc, start);
        struct mw_glibc_chain_end found;
        if (!run || mw_glibc_in_segment(glibc, start, &end) || start % glibc->image->page_size != 0)
            continue;
        mw_window_reset(&glibc->window, run->end);
        if (mw_glibc_chain_follow(glibc, start, run->end, false, &found))
            status = segment_add(glibc, start, start, &found, MW_SEGMENT_MORECORE, run->locked);
    }
    return status;
}

/* The time of this stop is over: the search goes on from there under the next one, if there is one.
 */
static void morecore_search_end(struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    if (glibc->chains && (glibc->cut_at != 0 || glibc->is_cut_short)) {
        glibc->is_cut_short = true;
        glibc->chains->resume = glibc->cut_at != 0 ? glibc->cut_at : glibc->chains->resume;
        glibc->cut_at = 0;
    }
    mw_glibc_scan_cut_tell(glibc, run);
}

/* Until the sum equals system_mem, look at each page of the runs that are not claimed yet. */
static enum mw_status morecore_segments_find(struct mw_glibc *glibc)
{
    struct mw_glibc_arena *arena = &glibc->arenas.items[0];
    mw_addr from = glibc->chains ? glibc->chains->resume : 0;
    mw_glibc_sort_segments(glibc);
    enum mw_status status = morecore_segments_recall(glibc);
    mw_glibc_sort_segments(glibc);
    for (size_t i = 0; i < glibc->runs.count && status == MW_OK && !glibc->is_cut_short; i++) {
        const struct mw_glibc_run *run = &glibc->runs.items[i];
        if (run->end <= from)
            continue;
        mw_window_reset(&glibc->window, run->end);
        mw_addr page = run->start > from ? run->start : from;
        if (glibc->chains && glibc->cut_from == 0)
            glibc->cut_from = page + STEP_BYTES;
        page = mw_glibc_scan_step(glibc, run, page, &status);
        while (page < run->end && status == MW_OK && !glibc->is_cut_short &&
               arena->segment_bytes < arena->public.system_bytes) {
            mw_addr next;
            if (glibc->chains)
                glibc->chains->resume = page;
            status = morecore_page_test(glibc, page, run, &next);
            if (status == MW_OK && !glibc->is_cut_short)
                page = mw_glibc_scan_step(glibc, run, next, &status);
        }
        morecore_search_end(glibc, run);
    }
    return status;
}

/* Index of the first segment that ends after address, as of the last sort. */
static size_t segment_lower_bound(const struct mw_glibc *glibc, mw_addr address)
{
    size_t low = 0, high = glibc->sorted_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (glibc->segments.items[middle].span_end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool mw_glibc_in_segment(const struct mw_glibc *glibc, mw_addr address, mw_addr *end_out)
{
    size_t at = segment_lower_bound(glibc, address);
    if (at == glibc->sorted_count || glibc->segments.items[at].public.start > address)
        return false;
    *end_out = glibc->segments.items[at].span_end;
    return true;
}

mw_addr mw_glibc_next_segment(const struct mw_glibc *glibc, mw_addr address, mw_addr limit)
{
    size_t at = segment_lower_bound(glibc, address);
    if (at == glibc->sorted_count)
        return limit;
    mw_addr start = glibc->segments.items[at].public.start;
    return start < limit ? start : limit;
}

/* top can be given back only while it ends at the program break, which is the end of [heap]. */
static void brk_end_mark(struct mw_glibc *glibc)
{
    for (size_t i = 0; i < glibc->segments.count; i++) {
        struct mw_glibc_segment *segment = &glibc->segments.items[i];
        if (segment->public.arena != 0 || segment->top == 0)
            continue;
        const struct mw_mapping *last = mw_image_region(glibc->image, segment->public.end - 1);
        segment->at_brk = last && last->end == segment->public.end && region_is_brk(glibc, last) &&
                          last->end % glibc->image->page_size == 0; /* a core's word for it */
    }
}

enum mw_status mw_glibc_find_main_segments(struct mw_glibc *glibc)
{
    struct mw_glibc_arena *arena = &glibc->arenas.items[0];
    mw_addr first_bin = arena->public.address + glibc->state->bins - 16;
    if (arena->public.system_bytes == 0 && (arena->top == 0 || arena->top == first_bin))
        return MW_OK; /* malloc was never called, or only in thread arenas */
    const struct mw_glibc_run *run = mw_glibc_run_of(glibc, glibc->sbrk_base);
    enum mw_status status = MW_OK;
    if (run && single_segment_fits(glibc, run)) {
        struct mw_glibc_chain_end end = {glibc->sbrk_base + arena->public.system_bytes, true};
        status = segment_add(glibc, glibc->sbrk_base, (glibc->sbrk_base + 15) & ~(mw_addr)15, &end,
                             MW_SEGMENT_BRK, run->locked);
    } else if (run) {
        status = brk_segments_find(glibc, run);
    }
    if (status == MW_OK && !glibc->is_cut_short &&
        arena->segment_bytes != arena->public.system_bytes)
        status = morecore_segments_find(glibc);
    brk_end_mark(glibc);
    return status;
}

static int segment_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct mw_glibc_segment *)a)->public.start;
    mw_addr right = ((const struct mw_glibc_segment *)b)->public.start;
    return left < right ? -1 : left > right;
}

void mw_glibc_sort_segments(struct mw_glibc *glibc)
{
    if (glibc->segments.count > 1)
        qsort(glibc->segments.items, glibc->segments.count, sizeof *glibc->segments.items,
              segment_compare);
    for (size_t i = 0; i < glibc->segments.count; i++)
        glibc->segments.items[i].span_end = glibc->segments.items[i].public.end;
    glibc->sorted_count = glibc->segments.count;
}

void mw_glibc_drop_overlaps(struct mw_glibc *glibc)
{
    size_t kept = 0;
    mw_addr end = 0;
    mw_glibc_sort_segments(glibc);
    for (size_t i = 0; i < glibc->segments.count; i++) {
        const struct mw_glibc_segment *segment = &glibc->segments.items[i];
        uint64_t size = segment->public.end - segment->public.start;
        if (segment->public.start >= end) {
            end = segment->public.end;
            glibc->segments.items[kept++] = *segment;
            continue;
        }
        mw_finding_add(glibc->findings, "heaps-overlap", segment->public.start, size,
                       "two heaps of malloc lie over each other; the second was left out");
        if (segment->public.arena != MW_ARENA_NONE) {
            glibc->arenas.items[segment->public.arena].segment_bytes -= size;
            glibc->arenas.items[segment->public.arena].public.heap_count--;
        }
    }
    glibc->segments.count = kept;
    glibc->sorted_count = kept;
}
