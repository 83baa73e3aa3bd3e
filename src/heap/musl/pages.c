/* heap/musl/pages.c: residency of blocks, asked for in ascending order, in batches of pages. */
#include "heap/musl/internal.h"

#include <string.h>

enum { BATCH = 32 << 10 };

enum mw_status mw_musl_pages_init(struct mw_musl_pages *pages, struct mw_image *image)
{
    *pages = (struct mw_musl_pages){
        .image = image,
        .is_known = (image->can & MW_CAN_PAGES) && image->page_size != 0,
    };
    pages->flags = mw_calloc(BATCH, 1);
    return pages->flags ? MW_OK : MW_NOMEM;
}

void mw_musl_pages_deinit(struct mw_musl_pages *pages)
{
    free(pages->flags);
    pages->flags = NULL;
}

/* Pages from the one that holds at; unknown ones count as absent. */
static void batch_load(struct mw_musl_pages *pages, mw_addr at)
{
    uint64_t size = pages->image->page_size;
    mw_addr start = at & ~(size - 1);
    uint64_t left = pages->limit > start ? (pages->limit - start + size - 1) / size : 1;
    size_t count = left < BATCH ? (size_t)left : BATCH;
    memset(pages->flags, 0, count);
    if (mw_image_pages(pages->image, start, count, pages->flags, NULL) != MW_OK) {
        pages->has_failed = true;
        memset(pages->flags, 0, count);
    }
    pages->start = start;
    pages->end = start + count * size;
}

struct mw_musl_resident mw_musl_pages_sum(struct mw_musl_pages *pages, mw_addr start, mw_addr end)
{
    struct mw_musl_resident sum = {0, 0};
    uint64_t size = pages->image->page_size;
    if (!pages->is_known)
        return sum;
    for (mw_addr at = start, next; at < end; at = next) {
        if (at < pages->start || at >= pages->end)
            batch_load(pages, at);
        next = (at & ~(size - 1)) + size;
        if (next > end)
            next = end;
        uint8_t flags = pages->flags[(at - pages->start) / size];
        if (mw_page_is_resident(flags))
            sum.rss += next - at;
        else if (flags & MW_PAGE_SWAPPED)
            sum.swap += next - at;
    }
    return sum;
}
