/* tests/support/heap_builder.h: builds glibc heaps byte by byte, and remembers what it built.
 *
 * The offsets here are written down a second time, from docs/formats/glibc.md and not from
 * src/heap/glibc/layout.c, so that a wrong row there is found. A heap is built segment by segment:
 *
 *     struct heap_builder *heap = heap_new(&heap_families[i]);
 *     heap_segment(heap, MW_SEGMENT_BRK, heap_map(heap, BASE, SIZE, "[heap]"), 0);
 *     heap_block(heap, 0x30, MW_BLOCK_IN_USE);
 *     heap_top(heap);                      to the end of the region
 *     heap_finish(heap);                   lists, arenas and parameters
 *     heap_open(heap, &image);
 *     ... test or break the image with heap_put(), then
 *     mw_image_close(&image);
 *     heap_delete(heap);
 *
 * Misuse and lack of memory abort: this is a test's own code. */
#ifndef HEAP_BUILDER_H
#define HEAP_BUILDER_H

#include "heap/walker.h"
#include "image/open.h"

enum { HEAP_NONE = 0xffff, HEAP_BINS_MAX = 76, HEAP_PAGE = 4096 };

struct heap_family {
    const char *name; /* release that the banner tells */
    /* malloc_state */
    unsigned bins, fastbins, attached_threads, system_mem, state_size;
    /* malloc_par */
    unsigned n_mmaps, mmapped_mem, sbrk_base, tcache_fields, thp_pagesize, par_size;
    /* tcache; chunk 0: none */
    unsigned tcache_chunk, count_bytes, tcache_bins, entries, tcache_count;
    bool counts_free_slots, safe_linking;
    unsigned heap_info, mmap_tail;
};
extern const struct heap_family heap_families[];
extern const size_t heap_family_count;

struct heap_region {
    mw_addr start;
    uint64_t size;
    uint8_t *bytes, *pages; /* pages: enum mw_page each */
    char name[64];
    uint32_t perms, vm_flags;
    uint64_t inode;
    bool is_shared; /* bytes and pages are the test's */
};

/* A block as it was built. */
struct heap_expect {
    struct mw_block block;
    size_t segment;
};

struct heap_segment_expect {
    mw_addr start, end;
    enum mw_segment_kind kind;
    unsigned arena;
    bool has_top, at_brk, locked;
};

struct heap_arena {
    mw_addr address, top;
    uint64_t system_mem, attached_threads;
    uint32_t flags, mutex;
    uint64_t fastbins[10];
    mw_addr free_chunks[2048];
    size_t free_count;
    mw_addr newest_heap;
};

struct heap_tcache {
    mw_addr chunk; /* of the struct */
    uint64_t counts[HEAP_BINS_MAX];
    mw_addr heads[HEAP_BINS_MAX]; /* chunk + 16 */
};

struct heap_builder {
    const struct heap_family *family;
    struct heap_region *regions;
    size_t region_count, region_room;
    struct heap_arena *arenas; /* [0] is main_arena */
    size_t arena_count;
    struct heap_tcache *tcaches;
    size_t tcache_count;
    mw_addr *thread_pointers;
    size_t thread_count;
    struct heap_segment_expect *segments;
    size_t segment_count;
    struct heap_expect *expects;
    size_t expect_count, expect_room;
    uint64_t gap_bytes; /* foreign sbrk */

    /* The segment under construction. */
    mw_addr at, limit; /* next chunk; end of its memory */
    unsigned arena;
    bool prev_in_use;
    uint64_t prev_size;

    mw_addr data, main_arena, mp;
    uint64_t n_mmaps, mmapped_mem, max_n_mmaps, max_mmapped_mem;
    mw_addr sbrk_base;
    uint64_t mmap_threshold, trim_threshold, arena_max, thp_pagesize, hp_pagesize;
    uint64_t tcache_limit; /* mp_.tcache_count */
};

struct heap_builder *heap_new(const struct heap_family *family);
void heap_delete(struct heap_builder *heap);

/* Map anonymous memory, zeroed, every page present; returns start. Regions may be made in any
 * order and must not overlap. */
mw_addr heap_map(struct heap_builder *heap, mw_addr start, uint64_t size, const char *name);
/* The same with bytes and page flags of the test's own, which many regions may share. */
void heap_map_shared(struct heap_builder *heap, mw_addr start, uint64_t size, uint8_t *bytes,
                     uint8_t *pages, const char *name);
struct heap_region *heap_region_of(struct heap_builder *heap, mw_addr address);
/* Set the flags of the pages that lie wholly in [start, start + size). */
void heap_pages_set(struct heap_builder *heap, mw_addr start, uint64_t size, uint8_t flags);

uint8_t *heap_bytes(struct heap_builder *heap, mw_addr address);
void heap_put(struct heap_builder *heap, mw_addr address, uint64_t word);
uint64_t heap_get(struct heap_builder *heap, mw_addr address);

/* A new thread arena in a new heap at start (aligned to the heap size): maps committed bytes and
 * begins its first segment. Returns its index. */
unsigned heap_arena(struct heap_builder *heap, mw_addr start, uint64_t committed);
/* One more heap of that arena; its segment begins. */
void heap_arena_more(struct heap_builder *heap, unsigned arena, mw_addr start, uint64_t committed);

/* Begin a segment of the main arena at start, in memory up to limit. */
void heap_segment(struct heap_builder *heap, enum mw_segment_kind kind, mw_addr start,
                  mw_addr limit);
/* Append one chunk. TCACHE goes on the newest tcache, FASTBIN on the arena's list; where a version
 * has neither, the chunk is in use. Returns the chunk's address. */
mw_addr heap_block(struct heap_builder *heap, uint64_t size, enum mw_block_state state);
/* How many bytes are left in the segment. */
uint64_t heap_left(const struct heap_builder *heap);
/* The rest is the arena's top. */
mw_addr heap_top(struct heap_builder *heap);
/* Main arena: what is left but 32 bytes becomes a chunk of this state, then two fences end the
 * segment at `limit`; with 48 left, three fences and no chunk. */
void heap_fences(struct heap_builder *heap, enum mw_block_state state);
/* Thread heap: the same with [0x10|P][0|P]; with 48 left the 32-byte dummy and [0|P]. */
void heap_thread_fences(struct heap_builder *heap, enum mw_block_state state);
/* Somebody else's sbrk inside [heap]: size bytes that count in system_mem. */
void heap_foreign(struct heap_builder *heap, mw_addr start, uint64_t size);

/* A mapping of its own for one block, offset > 0: moved by memalign. Made unless it is there. */
mw_addr heap_mmapped(struct heap_builder *heap, mw_addr start, uint64_t total, uint64_t offset,
                     enum mw_block_state state);

/* A tcache struct as an in-use chunk, empty; later TCACHE blocks go there. */
void heap_tcache_new(struct heap_builder *heap);
/* A thread whose TLS points at the newest tcache (or at nothing when tcache is false). */
void heap_thread(struct heap_builder *heap, mw_addr stack, bool tcache);

void heap_finish(struct heap_builder *heap);

/* The bytes stay the builder's: changing them changes what the image reads. */
void heap_open(struct heap_builder *heap, struct mw_image *image_out);

#endif
