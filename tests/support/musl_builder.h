/* tests/support/musl_builder.h: builds a heap of mallocng byte by byte, walks it, judges the walk.
 *
 * A libc's data page with the context, areas of metas in [heap], groups in anonymous memory. What
 * is built is consistent until a test damages it. No cmocka here: fuzz targets use it too. */
#ifndef MUSL_BUILDER_H
#define MUSL_BUILDER_H

#include "heap/musl/layout.h"
#include "heap/musl/musl.h"
#include "image/open.h"

enum {
    MUSL_PAGE = 4096,
    MUSL_DATA_PAGES = 2,
    MUSL_AREA_PAGES = 4,
    MUSL_HEAP_PAGES = 96,
    MUSL_OWN_PAGES = 96,
    MUSL_CONTEXT_AT = 0x600, /* in the data */
};
#define MUSL_DATA ((mw_addr)0x7f0000200000)
#define MUSL_AREAS ((mw_addr)0x555555601000)
#define MUSL_HEAP ((mw_addr)0x7e0000000000)
#define MUSL_OWN ((mw_addr)0x7e1000000000)
#define MUSL_SECRET ((uint64_t)0x0123456789abcdef)

struct musl_heap {
    _Alignas(8) uint8_t data[MUSL_DATA_PAGES * MUSL_PAGE];
    _Alignas(8) uint8_t areas[MUSL_AREA_PAGES * MUSL_PAGE];
    _Alignas(8) uint8_t heap[MUSL_HEAP_PAGES * MUSL_PAGE];
    _Alignas(8) uint8_t own[MUSL_OWN_PAGES * MUSL_PAGE];
    uint8_t heap_pages[MUSL_HEAP_PAGES]; /* enum mw_page */
    uint64_t heap_used, own_used, given_used;
    size_t area_count, meta_count;
    bool is_static; /* the data is the program's own, and there is no loader */
};

/* With count areas, all metas unused; nothing else. Ends the program when out of memory. */
struct musl_heap *musl_heap_new(size_t area_count);
void musl_heap_free(struct musl_heap *heap);

struct mw_musl_context *musl_context(struct musl_heap *heap);
struct mw_musl_area *musl_area(struct musl_heap *heap, size_t index);
struct mw_musl_meta *musl_meta(struct musl_heap *heap, size_t index);
mw_addr musl_meta_address(size_t index);
/* The bytes of the target at address, which must be in one of the four places. */
void *musl_bytes(struct musl_heap *heap, mw_addr address);

/* Groups: each takes the next meta and gives its index. A group with a mapping; one in a slot of
 * another; one block in its own mapping of that many pages; one in unused bytes of the data. */
size_t musl_group(struct musl_heap *heap, unsigned sizeclass, unsigned count, uint32_t free_mask);
size_t musl_nest(struct musl_heap *heap, size_t outer, unsigned slot, unsigned sizeclass,
                 unsigned count, uint32_t free_mask);
size_t musl_own(struct musl_heap *heap, unsigned pages);
size_t musl_give(struct musl_heap *heap, unsigned sizeclass, bool is_free);

/* A heap with all of these. */
struct musl_heap *musl_heap_example(void);

/* The image refers to the heap's bytes and must be closed first. */
void musl_open(struct musl_heap *heap, struct mw_image *image);

struct musl_walked {
    enum mw_status status;
    struct mw_error err;
    struct mw_allocator allocator;
    struct mw_findings findings;
    struct mw_block *blocks; /* in the order seen */
    size_t block_count, block_room;
    struct mw_heap_segment *ended;
    size_t begun_count, ended_count, ended_room;
    mw_addr expected; /* where the next block must begin */
    const char *broken;
};

/* Probe, then walk with one visitor. walked starts zeroed. */
void musl_walk(struct mw_image *image, struct musl_walked *walked);
void musl_walked_deinit(struct musl_walked *walked);

/* What must hold whatever the target's bytes are: blocks tile their segments and ascend, segments
 * do not overlap, lie in private memory that is writable at both ends and have holes in blocks
 * only, sums agree, resident bytes are those of the pages. NULL, or what is wrong. */
const char *musl_meaning_wrong(struct mw_image *image, const struct musl_walked *walked);

#endif
