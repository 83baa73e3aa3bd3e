/* heap/glibc/mmapped.c: blocks with a mapping of their own.
 *
 * malloc keeps no list of them, only mp_.n_mmaps and mp_.mmapped_mem. Each begins a page:
 *
 *   start                     start + offset (memalign only)
 *   │ 0 │ size|2 │ …          │ offset │ size-offset|2 │ what malloc returned …
 *
 * Up to 2.42 size + offset is the mapping's length; from 2.43 it is 16 less and bit 0 of the first
 * word marks a huge page. First the starts of regions are tried and followed from block to block,
 * which finds nearly all, until count and sum agree with mp_; the rest by looking at every page
 * that is there. When more is found than n_mmaps, mmapped_mem tells which one or two are none.
 * Linear, but for sorting. */
#include "base/alloc.h"
#include "heap/glibc/internal.h"

#include <stdlib.h>
#include <string.h>

/* Headers behind the first page of a block: 16 for each of 65,536 blocks. Hostile pages that all
 * look like the start of a block would else have thirty of them looked at each. */
enum { FAR_HEADERS_MAX = 1 << 20 };

struct mmapped_block {
    uint64_t total;  /* bytes of the mapping */
    uint64_t offset; /* of the chunk in it */
};

static bool is_all_zero(const uint8_t *bytes, size_t length)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

static uint64_t tail_bytes(const struct mw_glibc *glibc)
{
    return glibc->state->bins == 24 ? 16 : 0; /* the layout of 2.43 */
}

/* The window stands at start: what is in the same page comes from there. */
static bool header_read(struct mw_glibc *glibc, mw_addr start, uint64_t offset, uint64_t words[2])
{
    const size_t size = 2 * sizeof *words;
    if (offset < glibc->image->page_size) {
        const uint8_t *bytes = mw_window_at(&glibc->window, start + offset, size);
        if (bytes) {
            memcpy(words, bytes, size);
            return true;
        }
    } else if (mw_image_read_present(glibc->image, start + offset, words, size) == size) {
        return true;
    }
    mw_finding_add(glibc->findings, "mmapped-unreadable", start + offset, 0,
                   "where an aligned block may begin in its mapping could not be read");
    return false;
}

/* Is there a chunk at start + offset that memalign moved there? realloc sets the size in the moved
 * header alone: block->total is mended by it. */
static bool moved_header_test(struct mw_glibc *glibc, mw_addr start, mw_addr run_end,
                              uint64_t offset, struct mmapped_block *block)
{
    uint64_t words[2];
    if (!header_read(glibc, start, offset, words))
        return false;
    uint64_t size = words[1] & ~(uint64_t)7, total = size + offset + tail_bytes(glibc);
    if ((words[0] & ~(uint64_t)1) != offset || (words[1] & 7) != MW_GLIBC_IS_MMAPPED ||
        size < MW_GLIBC_MINSIZE || size > run_end - start || total % glibc->image->page_size ||
        total > run_end - start)
        return false;
    *block = (struct mmapped_block){total, offset};
    return true;
}

/* memalign moved the header: try each power of two that could have been asked for. What lies before
 * a moved header was never written: a first page with something in it rules out all alignments
 * beyond the page without looking at more pages. */
static void moved_header_find(struct mw_glibc *glibc, mw_addr start, mw_addr run_end,
                              struct mmapped_block *block)
{
    uint64_t page = glibc->image->page_size, last = 0;
    for (uint64_t align = 32; align <= (uint64_t)1 << 40; align *= 2) {
        uint64_t offset = ((start + 16 + align - 1) & ~(align - 1)) - 16 - start;
        if (offset >= block->total || offset + MW_GLIBC_MINSIZE > run_end - start)
            return;
        if (align > page && last < page) {
            const uint8_t *bytes = mw_window_at(&glibc->window, start, page);
            if (!bytes || !is_all_zero(bytes + 16, page - 32))
                return;
        }
        if (offset == 0 || offset == last)
            continue;
        if (align > page && glibc->far_headers_tried++ >= FAR_HEADERS_MAX)
            return;
        last = offset;
        if (moved_header_test(glibc, start, run_end, offset, block))
            return;
    }
}

static bool block_parse(struct mw_glibc *glibc, mw_addr page, mw_addr run_end,
                        struct mmapped_block *block_out)
{
    const uint8_t *header = mw_window_at(&glibc->window, page, 16);
    uint64_t words[2];
    if (!header)
        return false;
    memcpy(words, header, sizeof words);
    uint64_t tail = tail_bytes(glibc);
    uint64_t flag_mask = tail ? ~(uint64_t)1 : ~(uint64_t)0;
    if ((words[0] & flag_mask) != 0 || (words[1] & 7) != MW_GLIBC_IS_MMAPPED)
        return false;
    struct mmapped_block block = {(words[1] & ~(uint64_t)7) + tail, 0};
    if (block.total < glibc->image->page_size || block.total % glibc->image->page_size)
        return false;
    if (block.total > run_end - page && block.total <= UINT64_MAX - page &&
        mw_glibc_is_span(glibc, page, page + block.total))
        run_end = page + block.total; /* the program has split its mapping */
    moved_header_find(glibc, page, run_end, &block);
    *block_out = block;
    return block.total <= run_end - page;
}

struct mmapped_search {
    size_t first;          /* index of the first segment found */
    uint64_t count, bytes; /* found so far */
    uint64_t bytes_max;    /* more cannot be */
};

static bool search_is_done(const struct mw_glibc *glibc, const struct mmapped_search *search)
{
    return search->count >= glibc->n_mmaps;
}

/* Count and sum are malloc's own. 2.43 and 2.44 count 16 bytes too much for each mremap. */
static bool sums_agree(const struct mw_glibc *glibc, const struct mmapped_search *search)
{
    return search->count == glibc->n_mmaps && search->bytes <= glibc->mmapped_mem &&
           (search->bytes == glibc->mmapped_mem ||
            (tail_bytes(glibc) && glibc->mmapped_mem - search->bytes < glibc->image->page_size));
}

/* Test the page; when a block begins here, add it and step over it. */
static enum mw_status page_test(struct mw_glibc *glibc, const struct mw_glibc_run *run,
                                mw_addr page, struct mmapped_search *search, mw_addr *next_out)
{
    struct mmapped_block block;
    mw_addr limit = mw_glibc_next_segment(glibc, page, run->end), end;
    *next_out = page;
    if (!block_parse(glibc, page, limit, &block))
        return MW_OK;
    end = page + block.total;
    if (end > limit && mw_glibc_next_segment(glibc, page, end) != end)
        return MW_OK;
    if (block.total > search->bytes_max - search->bytes)
        return MW_OK;
    struct mw_glibc_segment segment = {
        .public = {.start = page,
                   .end = page + block.total,
                   .kind = MW_SEGMENT_MMAPPED,
                   .arena = MW_ARENA_NONE},
        .first_chunk = page + block.offset,
        .locked = run->locked,
    };
    search->count++;
    search->bytes += block.total;
    *next_out = segment.public.end;
    return mw_glibc_segment_push(glibc, &segment);
}

/* From page on, block after block while there are any. */
static enum mw_status blocks_follow(struct mw_glibc *glibc, const struct mw_glibc_run *run,
                                    mw_addr page, struct mmapped_search *search)
{
    mw_addr next;
    while (page < run->end) {
        enum mw_status status = page_test(glibc, run, page, search, &next);
        if (status != MW_OK || next == page)
            return status;
        page = next;
    }
    return MW_OK;
}

/* Every region that starts inside a run, and not inside a known segment. */
static enum mw_status region_starts_try(struct mw_glibc *glibc, struct mmapped_search *search)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    mw_addr covered = 0;
    for (size_t i = 0; i < regions->count && !sums_agree(glibc, search); i++) {
        mw_addr start = regions->items[i].start, inside;
        if (i % 1024 == 0 && mw_context_canceled(glibc->context))
            return MW_CANCELED;
        const struct mw_glibc_run *run = mw_glibc_run_of(glibc, start);
        if (!run || start < covered || mw_glibc_in_segment(glibc, start, &inside))
            continue;
        mw_window_reset(&glibc->window, run->end);
        size_t before = glibc->segments.count;
        enum mw_status status = blocks_follow(glibc, run, start, search);
        if (status != MW_OK)
            return status;
        if (glibc->segments.count > before)
            covered = glibc->segments.items[glibc->segments.count - 1].public.end;
    }
    return MW_OK;
}

static enum mw_status every_page_try(struct mw_glibc *glibc, struct mmapped_search *search)
{
    enum mw_status status = MW_OK;
    mw_glibc_sort_segments(glibc);
    for (size_t i = 0; i < glibc->runs.count && status == MW_OK; i++) {
        const struct mw_glibc_run *run = &glibc->runs.items[i];
        mw_window_reset(&glibc->window, run->end);
        mw_addr page = mw_glibc_scan_step(glibc, run, run->start, &status);
        while (page < run->end && status == MW_OK && !search_is_done(glibc, search)) {
            mw_addr next;
            status = page_test(glibc, run, page, search, &next);
            if (next == page)
                next += glibc->image->page_size;
            if (status == MW_OK)
                page = mw_glibc_scan_step(glibc, run, next, &status);
        }
        mw_glibc_scan_cut_tell(glibc, run);
    }
    return status;
}

static int size_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* One or two of the ascending sizes whose sum is excess: the pair that is furthest apart. */
static bool decoys_pick(const uint64_t *sizes, size_t size_count, uint64_t decoy_count,
                        uint64_t excess, uint64_t picked[2])
{
    size_t low = 0, high = size_count;
    if (decoy_count == 1) {
        picked[0] = excess;
        return size_count && bsearch(&excess, sizes, size_count, sizeof *sizes, size_compare);
    }
    while (decoy_count == 2 && low + 1 < high) {
        uint64_t sum = sizes[low] + sizes[high - 1];
        picked[0] = sizes[low];
        picked[1] = sizes[high - 1];
        if (sum == excess)
            return true;
        if (sum < excess)
            low++;
        else
            high--;
    }
    return false;
}

/* More mappings look like blocks than there are: leave out one or two whose sizes are what is too
 * much, else those that come last. */
static enum mw_status decoys_drop(struct mw_glibc *glibc, struct mmapped_search *search)
{
    struct mw_glibc_segment *found = glibc->segments.items + search->first;
    size_t count = glibc->segments.count - search->first, kept = 0;
    uint64_t decoys = search->count - glibc->n_mmaps, page = glibc->image->page_size;
    uint64_t excess = search->bytes > glibc->mmapped_mem ? search->bytes - glibc->mmapped_mem : 0;
    if (count == 0)
        return MW_OK; /* all were over the limit of segments */
    uint64_t picked[2] = {0}, *sizes = mw_calloc(count, sizeof *sizes);
    if (!sizes)
        return MW_NOMEM;
    for (size_t i = 0; i < count; i++)
        sizes[i] = found[i].public.end - found[i].public.start;
    qsort(sizes, count, sizeof *sizes, size_compare);
    excess = (excess + page - 1) & ~(page - 1); /* mmapped_mem of 2.43 is some 16s too high */
    bool is_picked = decoys_pick(sizes, count, decoys, excess, picked);
    free(sizes);
    search->bytes = search->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = found[i].public.end - found[i].public.start;
        uint64_t *match = size == picked[0] ? &picked[0] : size == picked[1] ? &picked[1] : NULL;
        if (is_picked ? match != NULL : search->count >= glibc->n_mmaps) {
            if (match)
                *match = 0;
            continue;
        }
        search->count++;
        search->bytes += size;
        found[kept++] = found[i];
    }
    glibc->segments.count = search->first + kept;
    mw_finding_add(glibc->findings, "mmapped-lookalikes", found[0].public.start, excess,
                   "more mappings look like blocks of malloc than it has; which is which was "
                   "told by their sizes");
    return MW_OK;
}

enum mw_status mw_glibc_find_mmapped(struct mw_glibc *glibc)
{
    if (!glibc->par || glibc->n_mmaps == 0)
        return MW_OK;
    mw_glibc_sort_segments(glibc);
    struct mmapped_search search = {.first = glibc->segments.count, .bytes_max = UINT64_MAX};
    enum mw_status status = region_starts_try(glibc, &search);
    if (status == MW_OK && search.count > glibc->n_mmaps)
        status = decoys_drop(glibc, &search);
    search.bytes_max = search.bytes > glibc->mmapped_mem ? search.bytes : glibc->mmapped_mem;
    if (status == MW_OK && !search_is_done(glibc, &search))
        status = every_page_try(glibc, &search);
    return status;
}
