/* session/layouts.h: known layouts for groups of blocks of one analysis: the scope, with the heap's
 * ranges and symbols, and the reading of samples. */
#ifndef MW_SESSION_LAYOUTS_H
#define MW_SESSION_LAYOUTS_H

#include "heap/walker.h"
#include "layout/layout.h"
#include "symbol/names.h"

enum { MW_LAYOUTS_SAMPLES = 64 };

struct mw_layouts {
    struct mw_image *image;
    struct mw_layout_scope *scope;
    struct mw_layout_range *ranges;
    uint8_t *bytes; /* of the samples at hand */
    struct mw_names *names;
};

/* image, allocators' segments and names must outlive it. MW_NOMEM. */
enum mw_status mw_layouts_open(struct mw_image *image, const struct mw_allocator *allocators,
                               size_t allocator_count, struct mw_names *names,
                               struct mw_layouts *layouts_out, struct mw_error *err) MW_MUST_CHECK;
void mw_layouts_close(struct mw_layouts *layouts);

/* What the blocks at these addresses are, all of usable_bytes: at most MW_LAYOUTS_SAMPLES of them
 * are read. False when nothing fits. Ask of small sizes first. */
bool mw_layouts_name(struct mw_layouts *layouts, const mw_addr *addresses, size_t count,
                     uint64_t usable_bytes, struct mw_layout_match *match_out);

#endif
