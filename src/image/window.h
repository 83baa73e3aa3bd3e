/* image/window.h: a moving window for walks in ascending order.
 *
 * One reused buffer; a page that is neither present nor swapped is not read but taken as zeros, so
 * that a walk never makes the target touch memory. Sequential access reads ahead up to the buffer,
 * a jump starts small again. */
#ifndef MW_IMAGE_WINDOW_H
#define MW_IMAGE_WINDOW_H

#include "image/image.h"

enum { MW_WINDOW_BYTES = 1 << 18 };

struct mw_window {
    struct mw_image *image;
    uint8_t *bytes; /* MW_WINDOW_BYTES */
    mw_addr start;  /* of what is in bytes */
    size_t length;  /* valid bytes from start */
    size_t ahead;   /* how much the next sequential fill reads */
    mw_addr limit;  /* do not read at or beyond this address */
    struct {        /* flags of pages that the caller has asked for already; NULL: none */
        const uint8_t *flags;
        mw_addr start;
        size_t count;
    } known;
    uint64_t bytes_read; /* in all, for progress and benches */
};

enum mw_status mw_window_init(struct mw_window *window, struct mw_image *image) MW_MUST_CHECK;
void mw_window_deinit(struct mw_window *window);

/* Restrict reads to below limit and forget the content: the target may have run since. */
void mw_window_reset(struct mw_window *window, mw_addr limit);

const uint8_t *mw_window_fill(struct mw_window *window, mw_addr address, size_t need);

/* Pointer to need bytes (at most 64 KiB) at address; NULL when they cannot be read. Valid until
 * the next call. */
static inline const uint8_t *mw_window_at(struct mw_window *window, mw_addr address, size_t need)
{
    mw_addr at = address - window->start;
    if (at < window->length && window->length - at >= need)
        return window->bytes + at;
    return mw_window_fill(window, address, need);
}

#endif
