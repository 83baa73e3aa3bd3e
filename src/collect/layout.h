/* collect/layout.h: which memory goes into a capture, and where in its file. */
#ifndef MW_COLLECT_LAYOUT_H
#define MW_COLLECT_LAYOUT_H

#include "base/vec.h"
#include "image/image.h"

/* A run of pages of one region, all written or none: one program header. */
struct mw_capture_run {
    mw_addr start, end;
    uint32_t perms;
    bool is_stored;
};

/* Pages of which something is known, alike: enum mw_page. */
struct mw_capture_pages {
    mw_addr start;
    uint32_t count, flags;
};

struct mw_capture_layout {
    MW_VEC(struct mw_capture_run) runs;    /* ascending; together all regions that can be read */
    MW_VEC(struct mw_capture_pages) pages; /* ascending */
    uint64_t stored_bytes;                 /* of memory */
    bool has_pages;                        /* the image tells residency */
};

/* Ask for the residency of all regions. What is stored: resident pages of memory that no file can
 * give. MW_NOMEM, MW_LIMIT (too many runs), MW_CANCELED. Linear in mapped pages. */
enum mw_status mw_capture_layout_make(struct mw_image *image, struct mw_context *context,
                                      struct mw_capture_layout *layout_out,
                                      struct mw_error *err) MW_MUST_CHECK;
void mw_capture_layout_deinit(struct mw_capture_layout *layout);

#endif
