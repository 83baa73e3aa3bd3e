/* heap/glibc/retain.c: residency of blocks, malloc_trim(0) page for page, and pins.
 *
 * Trim, after glibc 2.17 to 2.44 mtrim() and systrim(): for a free chunk p of more than
 * page - 1 + 48 bytes the pages from ALIGN_UP(p + 48) are released, whole ones only; then
 * systrim(0) gives back ALIGN_DOWN(top_size - MINSIZE - 1) bytes of the main arena's top (in
 * transparent huge pages' steps when mp_.thp_pagesize is set), when top ends at the break. The tops
 * of thread arenas and the tcache are never touched; mlocked ranges refuse.
 *
 * References: glibc malloc/malloc.c mtrim, systrim; measured page sets in docs/formats/glibc.md. */
#include "heap/glibc/retain.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <assert.h>
#include <string.h>

enum mw_status mw_glibc_pages_begin(struct mw_glibc_pages *pages,
                                    const struct mw_glibc_scanned *scanned,
                                    const struct mw_image *image)
{
    if (!pages->flags && !(pages->flags = mw_calloc(MW_GLIBC_PAGES_ROOM, 1)))
        return MW_NOMEM;
    pages->scanned = scanned;
    pages->start = scanned->segment.public.start & ~(mw_addr)(image->page_size - 1);
    pages->end = scanned->segment.public.end;
    pages->count = 0;
    pages->shift = (unsigned)__builtin_ctz(image->page_size);
    pages->known = image->can & MW_CAN_PAGES;
    pages->failed = false;
    return MW_OK;
}

/* Lay out the runs of a span from its page `skip` on. */
static size_t runs_expand(const struct mw_glibc_span *span, uint64_t skip, uint8_t *flags)
{
    size_t count = 0;
    for (size_t i = 0; i < span->residency_count && count < MW_GLIBC_PAGES_ROOM; i++) {
        uint64_t run = span->residency[i] >> 2;
        if (skip >= run) {
            skip -= run;
            continue;
        }
        run -= skip;
        skip = 0;
        if (run > MW_GLIBC_PAGES_ROOM - count)
            run = MW_GLIBC_PAGES_ROOM - count;
        memset(flags + count, (int)(span->residency[i] & 3), (size_t)run);
        count += (size_t)run;
    }
    return count;
}

/* Load the part that begins at the page of address: at most a span. */
static bool pages_load(struct mw_glibc_pages *pages, mw_addr address)
{
    const struct mw_glibc_scanned *scanned = pages->scanned;
    if (scanned->spans_done == 0)
        return false;
    size_t k = (size_t)((address - scanned->spans.items[0].pages_start) / scanned->span_bytes);
    if (k >= scanned->spans_done)
        return false;
    const struct mw_glibc_span *span = &scanned->spans.items[k];
    uint64_t skip = (address - span->pages_start) >> pages->shift;
    pages->start = span->pages_start + (skip << pages->shift);
    pages->count = runs_expand(span, skip, pages->flags);
    return pages->count > 0;
}

/* Turn to the part with the page of address. False when residency is not known. */
static inline bool pages_have(struct mw_glibc_pages *pages, mw_addr address)
{
    if ((address - pages->start) >> pages->shift < pages->count)
        return true;
    if (pages->known && !pages_load(pages, address))
        pages->known = false, pages->failed = true, pages->count = 0;
    return pages->known;
}

/* Those from page `index` on that are loaded and begin before end: at least that one. */
static inline size_t pages_wanted(const struct mw_glibc_pages *pages, size_t index, mw_addr end)
{
    size_t last = (size_t)((end - 1 - pages->start) >> pages->shift);
    return (last < pages->count - 1 ? last : pages->count - 1) - index + 1;
}

struct mw_glibc_resident mw_glibc_pages_sum(struct mw_glibc_pages *pages, mw_addr address,
                                            uint64_t size)
{
    struct mw_glibc_resident sum = {0, 0};
    mw_addr end = address + size;
    assert(end >= address && end <= pages->end);
    while (address < end) {
        if (!pages_have(pages, address))
            return sum;
        size_t index = (size_t)((address - pages->start) >> pages->shift);
        size_t alike = mw_bytes_run(pages->flags + index, pages_wanted(pages, index, end));
        mw_addr page_end = pages->start + ((mw_addr)(index + alike) << pages->shift);
        uint64_t part = (page_end < end ? page_end : end) - address;
        if (pages->flags[index] == MW_GLIBC_RESIDENT)
            sum.rss += part;
        else if (pages->flags[index] == MW_GLIBC_SWAPPED)
            sum.swap += part;
        address += part;
    }
    return sum;
}

bool mw_glibc_pages_all_resident(const struct mw_glibc_pages *pages, mw_addr start, mw_addr end)
{
    enum { PAGES_MAX = 4096 }; /* more is not worth a look: so large blocks are few */
    assert(start < end);
    uint64_t first = (start - pages->start) >> pages->shift;
    uint64_t last = (end - 1 - pages->start) >> pages->shift;
    if (start < pages->start || last >= pages->count || last - first >= PAGES_MAX)
        return false;
    for (uint64_t i = first; i <= last; i++)
        if (pages->flags[i] != MW_GLIBC_RESIDENT)
            return false;
    return true;
}

/* Name the runs of resident pages in [start, end); all of it when residency is not known. */
static void trim_ranges_name(const struct mw_glibc_trim *trim, mw_addr start, mw_addr end)
{
    const struct mw_heap_options *options = trim->glibc->options;
    struct mw_glibc_pages *pages = trim->pages;
    mw_addr page = trim->glibc->image->page_size, run = start;
    for (mw_addr at = start; at < end; at += page) {
        if (!pages_have(pages, at))
            break; /* the rest is not known: all of it */
        if (pages->flags[(at - pages->start) >> pages->shift] == MW_GLIBC_RESIDENT)
            continue;
        if (run < at)
            options->trim_range(options->trim_user, run, at);
        run = at + page;
    }
    if (run < end)
        options->trim_range(options->trim_user, run, end);
}

/* Whole pages [start, end). */
static void trim_release(struct mw_glibc_trim *trim, mw_addr start, mw_addr end)
{
    if (start >= end || trim->segment->locked)
        return;
    /* A top that ends inside a page is damage, or a heap caught while it moves. */
    mw_addr page = trim->glibc->image->page_size;
    start = (start + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (start >= end)
        return;
    trim->bytes += mw_glibc_pages_sum(trim->pages, start, end - start).rss;
    if (trim->glibc->options->trim_range)
        trim_ranges_name(trim, start, end);
}

/* The inner whole pages of a free chunk [start, end). */
static void trim_chunk(struct mw_glibc_trim *trim, mw_addr start, mw_addr end)
{
    uint64_t page = trim->glibc->image->page_size;
    if (end - start <= page - 1 + MW_GLIBC_CHUNK_STRUCT)
        return;
    mw_addr first = (start + MW_GLIBC_CHUNK_STRUCT + page - 1) & ~(page - 1);
    if (first < end && end - first > page - 1)
        trim_release(trim, first, first + ((end - first) & ~(page - 1)));
}

/* The main arena's top [start, end), which reaches the break. */
static void trim_top(struct mw_glibc_trim *trim, mw_addr start, mw_addr end)
{
    uint64_t step = trim->glibc->parameters.thp_pagesize;
    if (step == 0)
        step = trim->glibc->image->page_size;
    if (end - start <= MW_GLIBC_MINSIZE + 1)
        return;
    uint64_t give = (end - start - MW_GLIBC_MINSIZE - 1) & ~(step - 1);
    uint64_t before = trim->bytes;
    trim_release(trim, end - give, end);
    trim->top_bytes += trim->bytes - before;
}

void mw_glibc_trim_block_slow(struct mw_glibc_trim *trim, const struct mw_block *block)
{
    bool merges = block->state == MW_BLOCK_FREE || block->state == MW_BLOCK_TOP ||
                  (block->state == MW_BLOCK_FASTBIN && trim->glibc->consolidates);
    if (merges && block->address != trim->run_end)
        trim->run_start = block->address;
    if (merges)
        trim->run_end = block->address + block->size;
    if (block->state == MW_BLOCK_TOP) {
        if (trim->segment->at_brk)
            trim_top(trim, trim->run_start, trim->run_end);
    } else if (!merges && trim->run_start != trim->run_end) {
        trim_chunk(trim, trim->run_start, trim->run_end);
    }
    if (!merges || block->state == MW_BLOCK_TOP)
        trim->run_start = trim->run_end = 0;
}

void mw_glibc_trim_end(struct mw_glibc_trim *trim)
{
    if (trim->run_start != trim->run_end)
        trim_chunk(trim, trim->run_start, trim->run_end);
    trim->run_start = trim->run_end = 0;
}

/* From the top downwards, take the shortest row of live blocks below which the most lies free: a
 * longer row must hold more than twice as much, itself and what is free below each. */
bool mw_glibc_pins_end(struct mw_glibc_pins *pins, const struct mw_glibc_segment *segment,
                       uint64_t top_rss, struct mw_pin *pin_out)
{
    size_t kept = pins->seen < MW_GLIBC_PIN_RING ? pins->seen : MW_GLIBC_PIN_RING;
    uint64_t held = 0, free_rss = 0, best = 0;
    for (size_t i = 0; i < kept; i++) {
        const struct mw_glibc_pin_candidate *candidate =
            &pins->ring[(pins->seen - 1 - i) % MW_GLIBC_PIN_RING];
        held += candidate->own_rss + candidate->gap_rss;
        free_rss += candidate->gap_rss;
        if (free_rss > 0 && held > 2 * best)
            best = held;
    }
    if (best == 0)
        return false;
    const struct mw_block *block = &pins->ring[(pins->seen - 1) % MW_GLIBC_PIN_RING].block;
    *pin_out = (struct mw_pin){
        .heap = segment->public.start,
        .block = block->address + 16,
        .size_bytes = block->size,
        .state = block->state,
        .distance_from_top_bytes = segment->public.end - (block->address + block->size),
        .would_release_bytes = top_rss + best,
    };
    return true;
}
