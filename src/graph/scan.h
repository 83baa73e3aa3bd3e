/* graph/scan.h: all words that may be pointers, each read once: from blocks in use to edges, from
 * roots to marks.
 *
 * Memory is cut into pieces that the CPUs take one after the other. A word counts when it is
 * aligned to 8 bytes and lies anywhere in a block in use. What it points to is looked up a few
 * dozen words later, when the bitmap's line has come into the cache. */
#ifndef MW_GRAPH_SCAN_H
#define MW_GRAPH_SCAN_H

#include "graph/edges.h"
#include "graph/index.h"
#include "graph/roots.h"

struct mw_scan {
    const struct mw_index *index;
    struct mw_edges edges;
    uint64_t *marks;   /* a bit a rank: reached from a root */
    uint32_t *reached; /* ranks that have a mark, in the order in which they got it */
    size_t reached_count, root_count; /* in all; the first of them: what roots point to */
    uint64_t heap_bytes, root_bytes;  /* looked at */
    uint64_t missing_bytes;           /* that could not be read: pointers in there are not known */
};

/* Read everything. MW_NOMEM, MW_CANCELED, MW_LIMIT: there are too many pointers to keep. The image
 * is read by several threads. */
enum mw_status mw_scan_run(struct mw_image *image, const struct mw_index *index,
                           const struct mw_roots *roots, struct mw_context *context,
                           struct mw_scan *scan_out) MW_MUST_CHECK;
void mw_scan_deinit(struct mw_scan *scan);

#endif
