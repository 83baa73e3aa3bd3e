/* heap/glibc/internal.h: what the files of this folder share. Not for other rooms. */
#ifndef MW_HEAP_GLIBC_INTERNAL_H
#define MW_HEAP_GLIBC_INTERNAL_H

#include "base/vec.h"
#include "heap/glibc/layout.h"
#include "heap/walker.h"
#include "image/window.h"

/* A private, writable, anonymous run of adjacent regions: VMAs are merged and split by the kernel
 * as it likes, the heap does not care. */
struct mw_glibc_run {
    mw_addr start, end;
    bool locked; /* mlocked: MADV_DONTNEED fails there */
};

/* One segment with where its chunks begin and what ends it. */
struct mw_glibc_segment {
    struct mw_heap_segment public;
    mw_addr first_chunk;
    mw_addr top;      /* the arena's top chunk when it lies here, else 0 */
    mw_addr span_end; /* its end at the last sort, before a cut: for mw_glibc_in_segment() */
    bool at_brk;      /* its end is the program break: top can be given back */
    bool locked;
};

struct mw_glibc_arena {
    struct mw_arena public;
    mw_addr top;
    uint32_t flags;
    uint32_t mutex;
    uint64_t fastbins[MW_GLIBC_FASTBINS];
    uint64_t segment_bytes; /* sum over its segments, foreign gaps included */
};

/* Brent's search for a cycle in a linked list: constant memory, noticed within three times the
 * length of what leads into the cycle and the cycle. */
struct mw_glibc_cycle {
    mw_addr seen;
    uint64_t power, length; /* length is the cycle's once it is found */
};

/* The list went on to `at`: has it been there before? */
static inline bool mw_glibc_cycle_step(struct mw_glibc_cycle *cycle, mw_addr at)
{
    cycle->length++;
    if (cycle->power != 0 && at == cycle->seen)
        return true;
    if (cycle->power == 0 || cycle->length == cycle->power) {
        cycle->seen = at;
        cycle->power = cycle->power ? cycle->power * 2 : 1;
        cycle->length = 0;
    }
    return false;
}

/* Chunk starts that a search for the main arena went through, a bit for 16 bytes: where a chain
 * broke once it breaks again. Each is visited once; a visit reads up to a page, so what all cost is
 * bounded, too. */
struct mw_glibc_visited {
    mw_addr start, end, limit;
    uint64_t bytes_left; /* that may still be gone through */
    bool is_exhausted;
    uint8_t *bits;
};

/* Memory that lists lead through in any order. What was freed one after the other often lies side
 * by side: then whole pieces are read, else single pages. */
enum { MW_GLIBC_CACHE_PAGE = 4096, MW_GLIBC_CACHE_PIECE = 64 << 10, MW_GLIBC_CACHE_PIECES = 64 };
struct mw_glibc_cache {
    uint8_t *bytes;                        /* MW_GLIBC_CACHE_PIECES of MW_GLIBC_CACHE_PIECE */
    mw_addr piece[MW_GLIBC_CACHE_PIECES];  /* where each lies in the target */
    uint16_t pages[MW_GLIBC_CACHE_PIECES]; /* which of its pages are there */
    mw_addr last;                          /* that was not there */
    unsigned nearness;                     /* of the last few that were not */
};

struct mw_glibc {
    struct mw_image *image;
    const struct mw_heap_options *options;
    struct mw_context *context;
    struct mw_findings *findings;
    struct mw_window window; /* of walks and scans */
    struct mw_window lists;  /* of tcache structs, while the other one walks */

    const struct mw_glibc_state_layout *state;
    const struct mw_glibc_par_layout *par;       /* NULL: mp_ not found */
    const struct mw_glibc_tcache_layout *tcache; /* NULL: none seen */
    mw_addr main_arena, mp;
    unsigned version_minor;  /* 36 of "2.36"; 0 unknown */
    uint16_t heap_info_size; /* 32 or 48; 0: no thread heap */
    uint64_t heap_max;       /* alignment of thread heaps */
    bool safe_linking, linking_known;
    bool ring_is_torn; /* arenas are missing */
    bool consolidates; /* malloc_trim merges fastbins first: up to 2.42 */

    uint64_t scan_until_ns; /* monotonic: a live target is not held longer to look at every page */

    uint64_t n_mmaps, mmapped_mem;
    mw_addr sbrk_base;
    struct mw_heap_parameters parameters;

    MW_VEC(struct mw_glibc_run) runs;
    MW_VEC(struct mw_glibc_arena) arenas;
    MW_VEC(struct mw_glibc_segment) segments;
    size_t sorted_count; /* how many of them are in ascending order: the last sort */
    uint64_t gap_bytes;  /* foreign sbrk inside the main arena's span */
    struct mw_glibc_visited visited;
    uint64_t links_tried;       /* by mw_glibc_locate() */
    uint64_t far_headers_tried; /* by mw_glibc_find_mmapped() */
    uint64_t list_steps;        /* how many entries of lists may still be followed: one per chunk */
    MW_VEC(uint64_t) cached;    /* chunk addresses; bit 0: fastbin, else tcache */
    struct mw_glibc_cache cache;
    bool cached_is_sorted; /* ascending and complete: the walk may use it */
};

/* Bit 0 of an entry of `cached`. */
enum { MW_GLIBC_CACHED_FASTBIN = 1 };

static inline bool mw_glibc_has(uint16_t offset)
{
    return offset != MW_GLIBC_OFFSET_NONE;
}

/* locate.c */
enum mw_status mw_glibc_locate(struct mw_glibc *glibc, struct mw_error *err);
/* Does an arena lie in a thread heap right behind its heap_info? The size of that, else 0. */
uint16_t mw_glibc_heap_info_size(struct mw_glibc *glibc, mw_addr arena);
/* The "2.36" of the release banner in libc's read-only data; "" when it is not there. */
void mw_glibc_read_version(struct mw_glibc *glibc, char version[32]);

/* arenas.c */
enum mw_status mw_glibc_read_parameters(struct mw_glibc *glibc);
enum mw_status mw_glibc_read_arenas(struct mw_glibc *glibc, struct mw_error *err);
enum mw_status mw_glibc_find_thread_heaps(struct mw_glibc *glibc);
uint64_t mw_glibc_arena_limit(const struct mw_glibc *glibc);

/* runs.c */
enum mw_status mw_glibc_collect_runs(struct mw_glibc *glibc);
const struct mw_glibc_run *mw_glibc_run_of(const struct mw_glibc *glibc, mw_addr address);

/* segments.c: the main arena's */
enum mw_status mw_glibc_find_main_segments(struct mw_glibc *glibc);
/* Add a segment to the list and to the sums of its arena. Over the limit: a finding, not added. */
enum mw_status mw_glibc_segment_push(struct mw_glibc *glibc,
                                     const struct mw_glibc_segment *segment);
void mw_glibc_sort_segments(struct mw_glibc *glibc);
/* Sort; of segments that overlap keep the first. Only damage makes them overlap. */
void mw_glibc_drop_overlaps(struct mw_glibc *glibc);
/* Where the first segment at or after address begins, or limit. Known at the last sort. */
mw_addr mw_glibc_next_segment(const struct mw_glibc *glibc, mw_addr address, mw_addr limit);
/* Are there two or three fences at chunk that end on a page below limit? Their end, or 0. */
mw_addr mw_glibc_fences_end(struct mw_glibc *glibc, mw_addr chunk, mw_addr limit);
/* The walk of segment `index` ended at `end`, before its time: cut it there and append the segment
 * that goes on behind the foreign bytes. Pointers into segments are void afterwards. */
enum mw_status mw_glibc_segment_cut(struct mw_glibc *glibc, size_t index, mw_addr end);
/* Is address in a segment as it was at the last sort? *end_out is where that ended. What a cut put
 * into a segment of its own since, and the foreign bytes before it, still count. O(log n). */
bool mw_glibc_in_segment(const struct mw_glibc *glibc, mw_addr address, mw_addr *end_out);

/* The next page to look at in a scan of every page of run, or its end when the scan must stop: the
 * time is up, or it was cancelled (*status). Steps over known segments. */
mw_addr mw_glibc_scan_step(struct mw_glibc *glibc, const struct mw_glibc_run *run, mw_addr page,
                           enum mw_status *status);

/* mmapped.c */
enum mw_status mw_glibc_find_mmapped(struct mw_glibc *glibc);

/* cached.c */
enum mw_status mw_glibc_find_cached(struct mw_glibc *glibc);

/* walk.c: decode one segment into blocks that tile it. */
struct mw_glibc_sink {
    void *user;
    enum mw_status (*blocks)(void *user, const struct mw_block *blocks, size_t count);
};
/* *end_out is where it ended: before the segment's end when a foreign sbrk cut it off there. */
enum mw_status mw_glibc_walk_segment(struct mw_glibc *glibc, const struct mw_glibc_segment *segment,
                                     const struct mw_glibc_sink *sink, mw_addr *end_out);

/* tally.c: the pass over all segments that fills the allocator's account. It may go on over several
 * stops of the target: each round has its own struct mw_glibc, an arena is tallied in one round. */
struct mw_glibc_tally;
struct mw_glibc_tally *mw_glibc_tally_new(struct mw_allocator *allocator);
void mw_glibc_tally_free(struct mw_glibc_tally *tally);

/* Tally the arenas that earlier rounds left, until all are done or until_ns has passed (0: no
 * bound; one at least is done). */
enum mw_status mw_glibc_tally_arenas(struct mw_glibc_tally *tally, struct mw_glibc *glibc,
                                     uint64_t until_ns, bool *all_done_out);

/* The last round: mmapped blocks, sums, arrays handed to the allocator. */
enum mw_status mw_glibc_tally_finish(struct mw_glibc_tally *tally, struct mw_glibc *glibc);

#endif
