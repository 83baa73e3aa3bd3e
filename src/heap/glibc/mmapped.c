/* heap/glibc/mmapped.c: blocks with a mapping of their own.
 *
 * malloc keeps no list of them, only mp_.n_mmaps and mp_.mmapped_mem. Each begins a page:
 *
 *   start                     start + offset (memalign only)
 *   │ 0 │ size|2 │ …          │ offset │ size-offset|2 │ what malloc returned …
 *
 * Up to 2.42 size + offset is the mapping's length; from 2.43 it is 16 less and bit 0 of the first
 * word marks a huge page. First the starts of regions are tried and followed from block to block,
 * which finds nearly all; the rest by looking at every page that is there, until n_mmaps is met. */
#include "base/limits.h"
#include "heap/glibc/internal.h"

#include <string.h>

struct mmapped_block {
    uint64_t total;  /* bytes of the mapping */
    uint64_t offset; /* of the chunk in it */
};

static uint64_t tail_bytes(const struct mw_glibc *glibc)
{
    return glibc->state->bins == 24 ? 16 : 0; /* the layout of 2.43 */
}

/* memalign moved the header: try each power of two that could have been asked for. */
static uint64_t moved_header_find(struct mw_glibc *glibc, mw_addr start, uint64_t total)
{
    uint64_t tail = tail_bytes(glibc);
    mw_addr last = 0;
    for (unsigned power = 5; power < 40; power++) {
        mw_addr align = (mw_addr)1 << power;
        mw_addr chunk = ((start + 16 + align - 1) & ~(align - 1)) - 16;
        if (chunk - start + MW_GLIBC_MINSIZE > total)
            break;
        if (chunk == start || chunk == last)
            continue;
        last = chunk;
        uint64_t words[2], offset = chunk - start;
        if (mw_image_read_present(glibc->image, chunk, words, sizeof words) < sizeof words)
            return 0;
        if ((words[0] & ~(uint64_t)1) == offset &&
            words[1] == ((total - offset - tail) | MW_GLIBC_IS_MMAPPED))
            return offset;
    }
    return 0;
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
    uint64_t total = (words[1] & ~(uint64_t)7) + tail;
    if (total < glibc->image->page_size || total % glibc->image->page_size ||
        total > run_end - page)
        return false;
    *block_out = (struct mmapped_block){total, 0};
    return true;
}

struct mmapped_search {
    uint64_t count, bytes; /* found so far */
};

static bool search_is_done(const struct mw_glibc *glibc, const struct mmapped_search *search)
{
    return search->count >= glibc->n_mmaps;
}

/* Test the page; when a block begins here, add it and step over it. */
static enum mw_status page_test(struct mw_glibc *glibc, const struct mw_glibc_run *run,
                                mw_addr page, struct mmapped_search *search, mw_addr *next_out)
{
    struct mmapped_block block;
    *next_out = page;
    if (!block_parse(glibc, page, run->end, &block))
        return MW_OK;
    /* 2.43 to 2.44 count 16 bytes too much per mremap, so the sum may only be exceeded by that. */
    if (block.total > glibc->mmapped_mem || search->bytes > glibc->mmapped_mem - block.total)
        return MW_OK;
    block.offset = moved_header_find(glibc, page, block.total);
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
    return mw_vec_push(&glibc->segments, MW_LIMIT_HEAP_SEGMENTS, segment);
}

/* From page on, block after block while there are any. */
static enum mw_status blocks_follow(struct mw_glibc *glibc, const struct mw_glibc_run *run,
                                    mw_addr page, struct mmapped_search *search)
{
    mw_addr next;
    while (page < run->end && !search_is_done(glibc, search)) {
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
    for (size_t i = 0; i < regions->count && !search_is_done(glibc, search); i++) {
        mw_addr start = regions->items[i].start, inside;
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
    }
    return status;
}

enum mw_status mw_glibc_find_mmapped(struct mw_glibc *glibc)
{
    struct mmapped_search search = {0};
    if (!glibc->par || glibc->n_mmaps == 0)
        return MW_OK;
    mw_glibc_sort_segments(glibc);
    enum mw_status status = region_starts_try(glibc, &search);
    if (status == MW_OK && !search_is_done(glibc, &search))
        status = every_page_try(glibc, &search);
    return status;
}
