/* heap/walker.h: the interface between memwhy and an allocator that it can walk.
 *
 * A walker sees an image, never a pid or a file. It finds its allocator by structure, visits every
 * block, and returns an account of itself that reconciles: in use + free + metadata + skipped is
 * the size of every segment.
 *
 * To add an allocator (docs/howto/add-an-allocator.md):
 *   1. a folder heap/<name>/ with probe and walk;
 *   2. one const struct mw_heap_walker in it, listed in walkers.c;
 *   3. docs/formats/<name>.md with the layout and where each fact comes from;
 *   4. fixtures with counted truth in tests/live. */
#ifndef MW_HEAP_WALKER_H
#define MW_HEAP_WALKER_H

#include "base/context.h"
#include "base/finding.h"
#include "image/image.h"
#include "maps/claims.h"
#include "maps/content.h"

#include <string.h>

enum mw_block_state {
    MW_BLOCK_IN_USE,
    MW_BLOCK_FREE,
    MW_BLOCK_TCACHE,
    MW_BLOCK_FASTBIN,
    MW_BLOCK_TOP,
    MW_BLOCK_METADATA, /* headers of heaps and arenas, fences, alignment gaps */
    MW_BLOCK_SKIPPED,  /* damaged: could not be parsed */
};

struct mw_block {
    mw_addr address; /* of the block with its header: see mw_block_shape */
    uint64_t size;   /* whole block */
    enum mw_block_state state;
};

enum mw_segment_kind {
    MW_SEGMENT_BRK,      /* [heap] */
    MW_SEGMENT_MORECORE, /* main arena, mmapped because brk could not grow */
    MW_SEGMENT_HEAP,     /* heap of a thread arena */
    MW_SEGMENT_MMAPPED,  /* one block in a mapping of its own */
    MW_SEGMENT_GROUPS,   /* musl: groups of slots, one after the other */
    MW_SEGMENT_SLOT,     /* musl: one slot in a mapping of its own */
    MW_SEGMENT_METAS,    /* musl: pages of metadata, no blocks */
};

static inline bool mw_segment_is_mmapped(enum mw_segment_kind kind)
{
    return kind == MW_SEGMENT_MMAPPED || kind == MW_SEGMENT_SLOT;
}

/* Where the program's bytes lie in a block of such a segment: [address + header_bytes, address +
 * header_bytes + size - overhead_bytes). What malloc returned points to the first of them, in musl
 * to the first or to a later one. */
struct mw_block_shape {
    uint32_t header_bytes, overhead_bytes;
};
struct mw_block_shape mw_block_shape(enum mw_segment_kind kind);

struct mw_heap_segment {
    mw_addr start, end;
    enum mw_segment_kind kind;
    uint32_t arena; /* index into arenas; MW_ARENA_NONE for mmapped blocks */
    struct mw_split split;
    uint64_t trimmable_bytes; /* that malloc_trim(0) would release here; 0 without residency */
    uint64_t in_use_count, free_count;
    bool is_estimated; /* not read: residency was measured, its split is an estimate */
};

#define MW_ARENA_NONE UINT32_MAX

/* Sees every block of every segment that is read: segments in any order, the blocks of one in
 * ascending order, tiling it. Segments that are estimated it does not see. Any member may be NULL.
 * A status other than MW_OK ends the walk with it. Calls come one after the other; a live target
 * may run meanwhile, so what a block holds now need not be what it held. */
struct mw_heap_visitor {
    void *user;
    enum mw_status (*segment_begin)(void *user, const struct mw_heap_segment *segment);
    enum mw_status (*blocks)(void *user, const struct mw_heap_segment *segment,
                             const struct mw_block *blocks, size_t count);
    enum mw_status (*segment_end)(void *user, const struct mw_heap_segment *segment);
    /* An allocator is about to be walked: what was told so far is of others, and stays. */
    void (*begin)(void *user);
    /* Its walk begins anew: forget what was told since begin. */
    void (*restart)(void *user);
};

struct mw_arena {
    mw_addr address;      /* of malloc_state */
    uint64_t state_bytes; /* of malloc_state; 0: not known */
    bool is_main;
    uint64_t heap_count; /* segments */
    uint64_t system_bytes, in_use_bytes, in_use_count, free_bytes, free_count, metadata_bytes;
    uint64_t top_bytes, fastbin_bytes, fastbin_count, tcache_bytes, skipped_bytes;
    uint64_t free_rss, top_rss, trimmable_bytes;
    uint64_t free_large_bytes, free_large_rss; /* free chunks >= 128 KiB that are not the top */
    uint64_t attached_threads;                 /* MW_UNKNOWN before 2.23 */
    bool reconciled;                           /* segments == system_mem, bins == walk */
    bool is_estimated;                         /* not read: the allocator was sampled */
};

/* Blocks of one chunk size. */
struct mw_size_row {
    uint64_t size_bytes, in_use_count, free_count;
};

/* A live block that keeps the end of a heap from being given back. */
struct mw_pin {
    mw_addr heap;                     /* start of the segment */
    mw_addr block;                    /* as malloc returned it */
    uint64_t size_bytes;              /* chunk size */
    enum mw_block_state state;        /* in use, tcache or fastbin */
    uint64_t distance_from_top_bytes; /* from the end of the block to the end of the heap's top */
    uint64_t would_release_bytes;     /* resident bytes given back if it and its like went */
    enum mw_content content;
};

struct mw_heap_parameters {
    uint64_t mmap_threshold, trim_threshold, top_pad, arena_max, arena_test;
    uint64_t mmaps_max, tcache_count, tcache_max_bytes;
    bool no_dyn_threshold;
    uint64_t thp_pagesize, hp_pagesize; /* 0 when off or before 2.35 */
};

struct mw_allocator {
    const char *kind; /* "glibc", "musl", "jemalloc", "tcmalloc", "mimalloc" */
    char version[32]; /* "2.36", a range like "2.27-2.34" when only the layout tells; "" unknown */
    bool walked;      /* false: recognised only, memory is malloc.unsplit */
    bool reconciled;  /* every sum equals the allocator's own counters */
    uint64_t moved_count; /* arenas that changed between the stops under which they were read */

    /* Of a sample of arenas: what was read is counted, the rest is estimated from it, and the
     * histogram of sizes, the pins and the content are of what was read alone. */
    uint64_t sampled_count;          /* thread arenas that were read; 0: all arenas were */
    uint64_t estimated_in_use_bytes; /* part of in_use_bytes */
    uint64_t in_use_margin_bytes;    /* two standard errors of in_use_bytes; of free_bytes, too */
    bool sample_is_sound; /* every sum that could be made equals the allocator's own counter */

    struct mw_arena *arenas;
    size_t arena_count;
    uint64_t arena_limit;
    struct mw_heap_segment *segments; /* ascending by address */
    size_t segment_count;
    struct mw_size_row *sizes; /* ascending by size */
    size_t size_count;
    struct mw_pin *pins; /* largest gain first */
    size_t pin_count;

    /* JSON contract; mmapped blocks and libc's own are in use, cached ones free.
     * in use + free + metadata + skipped = system, where system is what the allocator got from
     * the kernel, mmapped blocks included. mmapped_bytes is what mallinfo2 calls hblkhd: whole
     * mappings, with what memalign cut off in front (which is metadata here). metadata_bytes
     * also has what a foreign sbrk took inside the main arena's span, as system_mem does.
     * mmapped_* are MW_UNKNOWN where mmapped blocks could not be looked for: then in_use and
     * system lack them. */
    uint64_t heap_count, in_use_bytes, in_use_count, mmapped_bytes, mmapped_count;
    uint64_t free_bytes, free_count, tcache_bytes, tcache_count, fastbin_bytes, fastbin_count;
    uint64_t top_bytes, metadata_bytes, skipped_bytes, system_bytes;
    uint64_t free_resident_bytes, trimmable_bytes; /* MW_UNKNOWN without residency */

    uint64_t free_large_bytes; /* free chunks >= 128 KiB that are not tops */
    uint64_t free_large_rss;   /* of them, resident */
    uint64_t fragment_bytes;   /* resident free bytes outside tops, tcache and trimmable pages */
    uint64_t thread_top_rss;   /* tops of non-main arenas, resident: malloc_trim leaves them */
    struct mw_heap_parameters parameters;
    bool marks_free; /* pages of its own free blocks may be given back with MADV_FREE, which leaves
                        them resident; true where that is not known; glibc never does */
    bool lacks_parameters; /* they were not found: `parameters` is zeros that say nothing */
    uint64_t content_bytes[MW_CONTENT_COUNT]; /* free bytes sampled, by what they last held */
};

/* Arenas with tops, tcaches, pins, settings and malloc_trim are glibc's alone: what is said of them
 * is said where this holds. */
static inline bool mw_allocator_is_glibc(const struct mw_allocator *allocator)
{
    return allocator->kind && strcmp(allocator->kind, "glibc") == 0;
}

/* That of its blocks, which is the same in all of its segments; glibc's without any. */
struct mw_block_shape mw_allocator_block_shape(const struct mw_allocator *allocator);

struct mw_heap_options {
    struct mw_heap_visitor *visitors; /* fed in the same walk */
    size_t visitor_count;
    /* Called for every run of resident pages that malloc_trim(0) would release (of all pages when
     * residency is not known); NULL: not wanted. */
    void (*trim_range)(void *user, mw_addr start, mw_addr end);
    void (*trim_begin)(void *user); /* as a visitor's begin and restart; NULL: none */
    void (*trim_restart)(void *user);
    void *trim_user;
    bool classify_content; /* sample what free chunks last held */
    /* So many thread arenas are read, chosen at random, and the others estimated; the main arena
     * and mmapped blocks are read always. 0: as many as the walker thinks fit; MW_SAMPLE_ALL: all.
     */
    uint64_t sample_arenas;
    /* Do not let the target go: all is read under the stop at hand, however long that takes, and
     * the image is still stopped when the walk succeeds. */
    bool hold;
    /* Of a live target: walk it although a thread is inside of malloc, as of a core. The finding
     * arena-locked says so, and what it holds between two lists may be miscounted. */
    bool accepts_locks;
    uint64_t span_bytes; /* for tests: how much is read in one piece; 0: as a walker thinks fit */
};
#define MW_SAMPLE_ALL UINT64_MAX

struct mw_heap_walker {
    const char *kind;

    /* Is this allocator in the image? MW_NOT_FOUND when not. Must be cheap: header words only.
     * Fills kind and version. */
    enum mw_status (*probe)(struct mw_image *image, struct mw_allocator *allocator_out,
                            struct mw_error *err);

    /* Walk everything. The image is stopped by the caller; the walk may let it go and stop it
     * again in between, so that no pause is longer than context->pause_ns_max where that can be
     * helped; it may also return with the image running (image->stopped tells); unless
     * options->hold. MW_CANCELED,
     * MW_NOMEM; damage is a finding. MW_LIMIT with text "busy" when a lock is held, unless
     * options->accepts_locks: let go and try again. MW_NOT_FOUND: the one that is there is of a
     * kind that can be recognised and not walked; NULL: that is so of all of them. */
    enum mw_status (*walk)(struct mw_image *image, const struct mw_heap_options *options,
                           struct mw_context *context, struct mw_allocator *allocator,
                           struct mw_findings *findings, struct mw_error *err);
};

/* All walkers, NULL-terminated, in the order in which they are tried. */
extern const struct mw_heap_walker *const mw_heap_walkers[];

/* Add the segments of a walked allocator to the claims. */
enum mw_status mw_allocator_claim(const struct mw_allocator *allocator,
                                  struct mw_claims *claims) MW_MUST_CHECK;

void mw_allocator_deinit(struct mw_allocator *allocator);

#endif
