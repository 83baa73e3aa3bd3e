/* graph/references.h: does anything in memory point to these blocks?
 *
 * One pass over all private writable memory that is there, from stacks and data of modules to
 * heaps, for a few blocks only. A word that points anywhere into a block, from outside it, counts.
 * That is less than reachability: blocks that only point at each other count as referenced, and a
 * stale word in a freed block or on a stack may hide a leak. So "nothing points to them" is strong
 * evidence of a leak, and "something does" is no proof of the contrary. Read while the target
 * runs: nothing is held. */
#ifndef MW_GRAPH_REFERENCES_H
#define MW_GRAPH_REFERENCES_H

#include "image/image.h"

struct mw_references {
    uint64_t size_bytes;          /* of each block with its header; 0: nothing was asked */
    uint64_t sampled, referenced; /* blocks looked for, of these pointed to */
    uint64_t bytes_read;
    bool is_complete; /* all memory was looked at; false: too large, cancelled */
};

enum { MW_REFERENCES_BLOCKS_MAX = 256 };

/* Look for pointers into [start, start + usable_bytes) of each block (count ≤ 256); size_bytes is
 * its whole size, and only noted. Gives up (is_complete false) beyond bytes_max of memory, or 1 TiB
 * of mappings. MW_NOMEM, MW_INVALID, MW_CANCELED. Cost: about a second for 2 GiB. */
enum mw_status mw_references_search(struct mw_image *image, const mw_addr *starts, size_t count,
                                    uint64_t size_bytes, uint64_t usable_bytes, uint64_t bytes_max,
                                    struct mw_context *context, struct mw_references *out,
                                    struct mw_error *err) MW_MUST_CHECK;

#endif
