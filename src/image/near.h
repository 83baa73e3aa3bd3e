/* image/near.h: residency for reads of a few bytes, which come many to a neighbourhood. */
#ifndef MW_IMAGE_NEAR_H
#define MW_IMAGE_NEAR_H

#include "image/image.h"

enum { MW_NEAR_PAGES = 32 };

/* As mw_image_pages(), of at most MW_NEAR_PAGES pages. The flags of whole neighbourhoods are asked
 * for and remembered by each thread, until the target is stopped, let go or read anew
 * (mw_image_near_forget). While the target runs only pages with contents are believed to be as they
 * were: what is read there is read from it, so nothing old is taken for new. */
enum mw_status mw_image_pages_near(struct mw_image *image, mw_addr start, size_t page_count,
                                   uint8_t *flags_out) MW_MUST_CHECK;

/* What is remembered of this image is void, in all threads. */
void mw_image_near_forget(struct mw_image *image);

/* Is the page's content anywhere but in the one page of zeros? */
static inline bool mw_page_has_content(uint8_t flags)
{
    return (flags & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED)) &&
           !(flags & (MW_PAGE_ZERO | MW_PAGE_GUARD));
}

#endif
