/* heap/glibc/retain.h: what malloc keeps resident and why. Fed with the blocks of one segment in
 * order; used by tally.c only. */
#ifndef MW_HEAP_GLIBC_RETAIN_H
#define MW_HEAP_GLIBC_RETAIN_H

#include "heap/glibc/scan.h"

/* Residency of one segment as it was read: a byte of enum mw_glibc_residency per page, for a part
 * of it at a time. */
enum { MW_GLIBC_PAGES_ROOM = 256 << 10 }; /* 1 GiB of 4 KiB pages */
struct mw_glibc_pages {
    const struct mw_glibc_scanned *scanned;
    uint8_t *flags;     /* MW_GLIBC_PAGES_ROOM */
    size_t count;       /* in the part */
    mw_addr start, end; /* start of the part, end of the segment */
    unsigned shift;
    bool known, failed; /* failed: was known until a question went unanswered */
};

/* Turn to a segment. MW_NOMEM. */
enum mw_status mw_glibc_pages_begin(struct mw_glibc_pages *pages,
                                    const struct mw_glibc_scanned *scanned,
                                    const struct mw_image *image) MW_MUST_CHECK;

/* Resident and swapped bytes of [address, address + size) in the segment. Linear in its pages. */
struct mw_glibc_resident mw_glibc_pages_sum(struct mw_glibc_pages *pages, mw_addr address,
                                            uint64_t size);

/* Are all pages of [start, end) resident, by the part that is at hand? */
bool mw_glibc_pages_all_resident(const struct mw_glibc_pages *pages, mw_addr start, mw_addr end);

/* The same sum; most blocks lie in one page. */
static inline struct mw_glibc_resident mw_glibc_pages_of(struct mw_glibc_pages *pages,
                                                         const struct mw_block *block)
{
    mw_addr at = block->address - pages->start;
    uint64_t page = at >> pages->shift;
    if (page != (at + block->size - 1) >> pages->shift || page >= pages->count)
        return mw_glibc_pages_sum(pages, block->address, block->size);
    struct mw_glibc_resident resident = {0, 0};
    if (pages->flags[page] == MW_GLIBC_RESIDENT)
        resident.rss = block->size;
    else if (pages->flags[page] == MW_GLIBC_SWAPPED)
        resident.swap = block->size;
    return resident;
}

/* malloc_trim(0), simulated: free chunks side by side (fastbins merge first, up to 2.42), then the
 * inner whole pages of each, and the main arena's top down to MINSIZE when it ends at the break. */
struct mw_glibc_trim {
    struct mw_glibc *glibc;
    const struct mw_glibc_segment *segment;
    struct mw_glibc_pages *pages;
    mw_addr run_start, run_end; /* of the free run being gathered; equal: none */
    uint64_t bytes;             /* resident bytes that would go, this segment */
    uint64_t top_bytes;         /* of which at the top */
};
void mw_glibc_trim_block_slow(struct mw_glibc_trim *trim, const struct mw_block *block);
static inline void mw_glibc_trim_block(struct mw_glibc_trim *trim, const struct mw_block *block)
{
    if (block->state == MW_BLOCK_IN_USE && trim->run_start == trim->run_end)
        return; /* a live block after a live block */
    mw_glibc_trim_block_slow(trim, block);
}
/* The same for a block of less than a page that is in use or free; without a branch where it can be
 * helped. */
static inline void mw_glibc_trim_small(struct mw_glibc_trim *trim, const struct mw_block *block,
                                       bool is_free)
{
    if (!is_free && trim->run_end - trim->run_start >= 4096)
        mw_glibc_trim_block_slow(trim, block);
    mw_addr start = block->address == trim->run_end ? trim->run_start : block->address;
    trim->run_start = is_free ? start : 0;
    trim->run_end = is_free ? block->address + block->size : 0;
}
void mw_glibc_trim_end(struct mw_glibc_trim *trim);

/* The blocks nearest to the top of a segment, with what lies free below each. */
enum { MW_GLIBC_PIN_RING = 64 };
struct mw_glibc_pin_candidate {
    struct mw_block block;
    uint64_t gap_rss; /* resident free bytes right below it */
    uint64_t own_rss;
};
struct mw_glibc_pins {
    struct mw_glibc_pin_candidate ring[MW_GLIBC_PIN_RING];
    size_t seen;
    uint64_t gap_rss; /* free since the last live block */
};
static inline bool mw_glibc_pins_counts(const struct mw_block *block)
{
    return block->state == MW_BLOCK_IN_USE || block->state == MW_BLOCK_TCACHE ||
           block->state == MW_BLOCK_FASTBIN;
}
static inline void mw_glibc_pins_block(struct mw_glibc_pins *pins, const struct mw_block *block,
                                       uint64_t rss)
{
    if (block->state == MW_BLOCK_FREE)
        pins->gap_rss += rss;
    if (!mw_glibc_pins_counts(block))
        return;
    pins->ring[pins->seen++ % MW_GLIBC_PIN_RING] =
        (struct mw_glibc_pin_candidate){*block, pins->gap_rss, rss};
    pins->gap_rss = 0;
}
/* The pin of a segment that ends in top_rss resident bytes of top; false when nothing free lies
 * below its last blocks. */
bool mw_glibc_pins_end(struct mw_glibc_pins *pins, const struct mw_glibc_segment *segment,
                       uint64_t top_rss, struct mw_pin *pin_out);

#endif
