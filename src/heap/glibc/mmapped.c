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
 * that is there, where much may look like a block by chance: JVM 17 has constants in its metaspace
 * that begin a page with 0 and 0x30002. When more is found than n_mmaps, mmapped_mem tells which
 * one or two are blocks, or are none. Linear, but for sorting. */
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
    size_t first;          /* the segments of this stage begin here: region starts, then any page */
    uint64_t count, bytes; /* found so far */
    uint64_t block_max;    /* a block larger than this is none */
    bool is_last;          /* one block is missing, and its size is block_max */
};

/* Count and sum are malloc's own. 2.43 and 2.44 count 16 bytes too much for each mremap; drift_max
 * says how much of that is taken for it. */
static bool sums_agree(const struct mw_glibc *glibc, const struct mmapped_search *search,
                       uint64_t drift_max)
{
    return search->count == glibc->n_mmaps && search->bytes <= glibc->mmapped_mem &&
           glibc->mmapped_mem - search->bytes <= (tail_bytes(glibc) ? drift_max : 0);
}

/* What of mmapped_mem is not found yet, without the drift of 2.43; 0: nothing. */
static uint64_t missing_bytes(const struct mw_glibc *glibc, const struct mmapped_search *search)
{
    uint64_t sum = glibc->mmapped_mem & ~(glibc->image->page_size - 1);
    return sum > search->bytes ? sum - search->bytes : 0;
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
    if (block.total > search->block_max || (search->is_last && block.total != search->block_max))
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
    const uint64_t drift = glibc->image->page_size - 1;
    mw_addr covered = 0;
    for (size_t i = 0; i < regions->count && !sums_agree(glibc, search, drift); i++) {
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
    const uint64_t drift = glibc->image->page_size - 1;
    mw_glibc_sort_segments(glibc);
    search->first = glibc->segments.count;
    search->block_max = missing_bytes(glibc, search);
    search->is_last = search->count + 1 == glibc->n_mmaps && tail_bytes(glibc) == 0;
    if (search->count >= glibc->n_mmaps || search->block_max == 0) {
        search->block_max = glibc->mmapped_mem; /* one of those found so far is none */
        search->is_last = false;
    }
    for (size_t i = 0; i < glibc->runs.count && status == MW_OK; i++) {
        const struct mw_glibc_run *run = &glibc->runs.items[i];
        mw_window_reset(&glibc->window, run->end);
        mw_addr page = mw_glibc_scan_step(glibc, run, run->start, &status);
        while (page < run->end && status == MW_OK && !sums_agree(glibc, search, drift)) {
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

/* One or two of the ascending sizes that add up to sum: the pair that is furthest apart. */
static bool sizes_pick(const uint64_t *sizes, size_t size_count, uint64_t pick_count, uint64_t sum,
                       uint64_t picked[2])
{
    size_t low = 0, high = size_count;
    if (pick_count == 1) {
        picked[0] = sum;
        return size_count && bsearch(&sum, sizes, size_count, sizeof *sizes, size_compare);
    }
    while (pick_count == 2 && low + 1 < high) {
        uint64_t both = sizes[low] + sizes[high - 1];
        picked[0] = sizes[low];
        picked[1] = sizes[high - 1];
        if (both == sum)
            return true;
        if (both < sum)
            low++;
        else
            high--;
    }
    return false;
}

/* The largest of the ascending sizes that is at most limit; 0: none. */
static uint64_t largest_within(const uint64_t *sizes, size_t count, uint64_t limit)
{
    while (count > 0 && sizes[count - 1] > limit)
        count--;
    return count ? sizes[count - 1] : 0;
}

/* How to tell the blocks among the segments from `first` on. */
struct selection {
    size_t first;
    uint64_t count;     /* so many there are blocks */
    uint64_t picked[2]; /* sizes of one or two that are, or are not */
    bool keeps_picked;
};

/* The sizes tell: one or two of them are what is too much, or what is missing. */
static enum mw_status selection_make(const struct mw_glibc *glibc,
                                     const struct mmapped_search *search, size_t first,
                                     struct selection *selection, bool *is_told)
{
    const struct mw_glibc_segment *segments = glibc->segments.items;
    uint64_t bytes = 0, count = 0;
    uint64_t *sizes = mw_calloc(glibc->segments.count - first + 1, sizeof *sizes);
    if (!sizes)
        return MW_NOMEM;
    for (size_t i = first; i < glibc->segments.count; i++)
        if (segments[i].public.kind == MW_SEGMENT_MMAPPED) {
            sizes[count] = segments[i].public.end - segments[i].public.start;
            bytes += sizes[count++];
        }
    qsort(sizes, count, sizeof *sizes, size_compare);
    struct mmapped_search before = {.count = search->count - count, .bytes = search->bytes - bytes};
    uint64_t missing = missing_bytes(glibc, &before);
    *is_told = false;
    *selection = (struct selection){.first = first, .count = glibc->n_mmaps};
    if (before.count <= glibc->n_mmaps && before.count + count > glibc->n_mmaps) {
        selection->count = glibc->n_mmaps - before.count;
        *is_told = bytes > missing && sizes_pick(sizes, count, count - selection->count,
                                                 bytes - missing, selection->picked);
        if (!*is_told && selection->count == 1 && tail_bytes(glibc))
            missing = largest_within(sizes, count, missing); /* the drift may exceed a page */
        if (!*is_told)
            *is_told = selection->keeps_picked =
                sizes_pick(sizes, count, selection->count, missing, selection->picked);
    }
    free(sizes);
    return MW_OK;
}

/* Leave out what the selection says, or, when the sizes do not tell, those that come last. */
static void selection_apply(struct mw_glibc *glibc, struct selection *selection, bool is_told,
                            struct mmapped_search *search)
{
    struct mw_glibc_segment *segments = glibc->segments.items;
    size_t kept = selection->first;
    for (size_t i = selection->first; i < glibc->segments.count; i++) {
        uint64_t size = segments[i].public.end - segments[i].public.start;
        bool keeps = true;
        if (segments[i].public.kind == MW_SEGMENT_MMAPPED && is_told) {
            uint64_t *match = size == selection->picked[0]   ? &selection->picked[0]
                              : size == selection->picked[1] ? &selection->picked[1]
                                                             : NULL;
            if (match)
                *match = 0;
            keeps = (match != NULL) == selection->keeps_picked;
        } else if (segments[i].public.kind == MW_SEGMENT_MMAPPED) {
            keeps = selection->count > 0;
            selection->count -= keeps;
        }
        if (keeps) {
            segments[kept++] = segments[i];
        } else {
            search->count--;
            search->bytes -= size;
        }
    }
    glibc->segments.count = kept;
}

/* More mappings look like blocks than there are. Those of the last stage are doubted first, then
 * all. */
static enum mw_status lookalikes_drop(struct mw_glibc *glibc, struct mmapped_search *search)
{
    struct selection selection;
    bool is_told = false;
    enum mw_status status = selection_make(glibc, search, search->first, &selection, &is_told);
    if (status == MW_OK && !is_told)
        status = selection_make(glibc, search, 0, &selection, &is_told);
    if (status != MW_OK)
        return status;
    uint64_t bytes = search->bytes;
    selection_apply(glibc, &selection, is_told, search);
    if (bytes > search->bytes)
        mw_finding_add(glibc->findings, "mmapped-lookalikes", glibc->mp, bytes - search->bytes,
                       "more mappings look like blocks of malloc than it has; which is which was "
                       "told by their sizes");
    return MW_OK;
}

enum mw_status mw_glibc_find_mmapped(struct mw_glibc *glibc)
{
    if (!glibc->par || glibc->n_mmaps == 0)
        return MW_OK;
    mw_glibc_sort_segments(glibc);
    struct mmapped_search search = {.first = glibc->segments.count, .block_max = UINT64_MAX};
    enum mw_status status = region_starts_try(glibc, &search);
    if (status == MW_OK && search.count > glibc->n_mmaps)
        status = lookalikes_drop(glibc, &search);
    if (status == MW_OK && !sums_agree(glibc, &search, UINT64_MAX))
        status = every_page_try(glibc, &search);
    if (status == MW_OK && search.count > glibc->n_mmaps)
        status = lookalikes_drop(glibc, &search);
    return status;
}
