/* image/near.c: the flags of pages that were asked for last.
 *
 * A search for structures reads some hundred words, many of them in the same few pages; a question
 * about residency costs as much as the read. So the answer for WINDOWS neighbourhoods of
 * MW_NEAR_PAGES pages is kept, in each thread (the workers of a walk read at the same time), under
 * a number that no other image and no other moment has. Constant memory. */
#include "image/near.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { WINDOWS = 32 };

struct window {
    uint64_t moment; /* 0: empty */
    mw_addr start;
    uint8_t flags[MW_NEAR_PAGES];
};

static _Thread_local struct window windows[WINDOWS];

static uint64_t moment_next(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

void mw_image_near_forget(struct mw_image *image)
{
    image->near_moment = moment_next();
}

/* Does the window say what is so now? */
static bool is_certain(const struct mw_image *image, const uint8_t *flags, size_t count)
{
    if (image->stopped || !mw_image_moves(image))
        return true;
    for (size_t i = 0; i < count; i++)
        if (!mw_page_has_content(flags[i]))
            return false;
    return true;
}

/* The pages of one window. */
static enum mw_status window_pages(struct mw_image *image, mw_addr start, size_t count,
                                   uint8_t *flags_out)
{
    uint64_t bytes = (uint64_t)MW_NEAR_PAGES * image->page_size;
    mw_addr first = start - start % bytes;
    size_t skip = (size_t)((start - first) / image->page_size);
    struct window *window = &windows[first / bytes % WINDOWS];
    assert(skip + count <= MW_NEAR_PAGES);
    bool is_known = window->moment == image->near_moment && window->start == first;
    if (!is_known || !is_certain(image, window->flags + skip, count)) {
        window->moment = 0;
        enum mw_status status =
            first <= UINT64_MAX - bytes
                ? mw_image_pages(image, first, MW_NEAR_PAGES, window->flags, NULL)
                : MW_INVALID;
        if (status != MW_OK)
            return mw_image_pages(image, start, count, flags_out, NULL);
        window->moment = image->near_moment;
        window->start = first;
    }
    memcpy(flags_out, window->flags + skip, count);
    return MW_OK;
}

enum mw_status mw_image_pages_near(struct mw_image *image, mw_addr start, size_t page_count,
                                   uint8_t *flags_out)
{
    assert(page_count <= MW_NEAR_PAGES);
    uint64_t bytes = (uint64_t)MW_NEAR_PAGES * image->page_size, end;
    if (!(image->can & MW_CAN_PAGES) || start % image->page_size != 0 ||
        __builtin_add_overflow(start, page_count * (uint64_t)image->page_size, &end))
        return mw_image_pages(image, start, page_count, flags_out, NULL);
    if (image->near_moment == 0)
        mw_image_near_forget(image);
    for (size_t done = 0; done < page_count;) {
        mw_addr at = start + done * (uint64_t)image->page_size;
        size_t room = (size_t)((bytes - at % bytes) / image->page_size);
        size_t count = page_count - done < room ? page_count - done : room;
        enum mw_status status = window_pages(image, at, count, flags_out + done);
        if (status != MW_OK)
            return status;
        done += count;
    }
    return MW_OK;
}
