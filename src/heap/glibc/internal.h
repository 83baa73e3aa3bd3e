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
    bool is_guessed; /* the core lacks it: system_bytes is not its own word */
    mw_addr top;
    uint32_t flags;
    uint32_t mutex;
    uint64_t fastbins[MW_GLIBC_FASTBINS];
    uint64_t segment_bytes; /* sum over its segments, foreign gaps included */
    uint64_t digest;        /* of all of malloc_state but the lock */
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

/* One list of a tcache struct. */
struct mw_glibc_tcache_list {
    mw_addr owner; /* the struct, as malloc returned it */
    mw_addr head;  /* first block on it, as malloc returned it */
    uint16_t count;
    uint8_t bin;
    bool
        is_sure; /* a thread's TLS leads to the struct; else it is one only if all its lists hold */
    unsigned first_round, last_round; /* of stops in which it was seen like this */
};

/* Where a chain of chunks of the main arena leads. */
struct mw_glibc_chain {
    mw_addr start, reached;
    bool is_fenced; /* reached is its end, behind fences; else a boundary in it */
};

/* What the search for the main arena's segments knows from earlier stops. */
struct mw_glibc_chains {
    struct mw_glibc_chain *items; /* ascending by start */
    size_t count, room;
    mw_addr resume;     /* pages below were looked at */
    unsigned cut_count; /* how often it was cut short */
};

struct mw_glibc {
    struct mw_image *image;
    const struct mw_heap_options *options;
    struct mw_context *context;
    struct mw_findings *findings;
    struct mw_window window; /* of walks and scans */
    struct mw_window lists;  /* of tcache structs */

    unsigned ordinal; /* which libc of the process: 1 is the second, of a namespace of its own */

    const struct mw_glibc_state_layout *state;
    const struct mw_glibc_par_layout *par;       /* NULL: mp_ not found */
    const struct mw_glibc_tcache_layout *tcache; /* NULL: none seen */
    mw_addr main_arena, mp;
    mw_addr first_orphan;    /* an arena of a core that lacks main_arena itself; else 0 */
    unsigned version_minor;  /* 36 of "2.36"; 0 unknown */
    uint16_t heap_info_size; /* 32 or 48; 0: no thread heap */
    uint64_t heap_max;       /* alignment of thread heaps */
    bool safe_linking, linking_known;
    bool ring_is_torn; /* arenas are missing */
    bool consolidates; /* malloc_trim merges fastbins first: up to 2.42 */

    bool doubts_regions; /* they may be older than the stop: look whether they fit the main top */
    bool regions_are_old;
    uint64_t scan_until_ns; /* monotonic: a live target is not held longer to look at every page */
    mw_addr cut_from;       /* up to here it is looked at whatever the time */
    mw_addr cut_at;         /* where a look at every page ended by that; 0: it did not */
    struct mw_glibc_chains *chains; /* of a live target that is held again and again; else NULL */
    bool is_cut_short; /* the main arena's segments are not all found: go on under the next stop */

    uint64_t n_mmaps, mmapped_mem;
    mw_addr sbrk_base;
    struct mw_heap_parameters parameters;

    MW_VEC(struct mw_glibc_run) runs;
    MW_VEC(struct mw_glibc_arena) arenas;
    MW_VEC(struct mw_glibc_segment) segments;
    size_t sorted_count; /* how many of them are in ascending order: the last sort */
    mw_addr low, high;   /* of all segments, once they are found */
    uint64_t gap_bytes;  /* foreign sbrk inside the main arena's span */
    struct mw_glibc_visited visited;
    uint64_t links_tried;       /* by mw_glibc_locate() */
    uint64_t far_headers_tried; /* by mw_glibc_find_mmapped() */
    MW_VEC(struct mw_glibc_tcache_list) tcache_lists;
    uint64_t tcache_bins;  /* a bit for each of the first 64 that has a list */
    bool tcache_has_large; /* some of the others have */
    bool wants_structs;    /* blocks that may be tcache structs are to be tried */
};

static inline bool mw_glibc_has(uint16_t offset)
{
    return offset != MW_GLIBC_OFFSET_NONE;
}

/* locate.c */
enum mw_status mw_glibc_locate(struct mw_glibc *glibc, struct mw_error *err);
/* Data of an ELF object: where an arena may lie. */
bool mw_glibc_region_may_hold_arena(const struct mw_mapping *map);
/* How many mappings hold data of a file that is called as a glibc is: one for each libc. */
size_t mw_glibc_libcs_mapped(const struct mw_image *image);
/* Does an arena lie in a thread heap right behind its heap_info? The size of that, else 0. */
uint16_t mw_glibc_heap_info_size(struct mw_glibc *glibc, mw_addr arena);
/* The layout of a state with this offset of bins, as the arena's fields fit it. */
const struct mw_glibc_state_layout *mw_glibc_state_layout_pick(struct mw_glibc *glibc,
                                                               mw_addr arena, uint16_t bins);
/* The "2.36" of the release banner in libc's read-only data; "" when it is not there. */
void mw_glibc_read_version(struct mw_glibc *glibc, char version[32]);

/* orphans.c: a core without libc's data. */
bool mw_glibc_locate_orphans(struct mw_glibc *glibc);
/* What can be known of main_arena then; *next_out is the first arena of a thread. */
void mw_glibc_orphan_main(struct mw_glibc *glibc, struct mw_glibc_arena *arena_out,
                          mw_addr *next_out);

/* arenas.c */
enum mw_status mw_glibc_read_parameters(struct mw_glibc *glibc);
enum mw_status mw_glibc_read_arenas(struct mw_glibc *glibc, struct mw_error *err);
enum mw_status mw_glibc_find_thread_heaps(struct mw_glibc *glibc);
uint64_t mw_glibc_arena_limit(const struct mw_glibc *glibc);

/* runs.c */
enum mw_status mw_glibc_collect_runs(struct mw_glibc *glibc);
const struct mw_glibc_run *mw_glibc_run_of(const struct mw_glibc *glibc, mw_addr address);
/* May [start, end) be one heap or block? It begins in memory that malloc may have got, and nothing
 * else is mapped inside it: holes and other rights may be. O(regions in it). */
bool mw_glibc_is_span(const struct mw_glibc *glibc, mw_addr start, mw_addr end);
/* How far brk memory that begins in run may reach, over such pages. */
mw_addr mw_glibc_brk_limit(const struct mw_glibc *glibc, const struct mw_glibc_run *run);

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
/* Are there two or three fences at chunk that end on a page at most at limit? Their end, or 0. */
mw_addr mw_glibc_fences_end(struct mw_window *window, mw_addr chunk, mw_addr limit);
/* The walk of segment `index` ended at `end`, before its time: cut it there and append the segment
 * that goes on behind the foreign bytes. Pointers into segments are void afterwards. */
enum mw_status mw_glibc_segment_cut(struct mw_glibc *glibc, size_t index, mw_addr end);
/* Is address in a segment as it was at the last sort? *end_out is where that ended. What a cut put
 * into a segment of its own since, and the foreign bytes before it, still count. O(log n). */
bool mw_glibc_in_segment(const struct mw_glibc *glibc, mw_addr address, mw_addr *end_out);

/* The next page to look at in a scan of every page of run, or its end when the scan must stop: the
 * time is up (cut_at tells where), or it was cancelled (*status). Steps over known segments. */
mw_addr mw_glibc_scan_step(struct mw_glibc *glibc, const struct mw_glibc_run *run, mw_addr page,
                           enum mw_status *status);
/* If the scan of run was cut short, a finding says so. */
void mw_glibc_scan_cut_tell(struct mw_glibc *glibc, const struct mw_glibc_run *run);

/* mmapped.c */
enum mw_status mw_glibc_find_mmapped(struct mw_glibc *glibc);

/* tcache.c: which lists there are now, as far as threads tell; else wants_structs is set. */
enum mw_status mw_glibc_find_tcaches(struct mw_glibc *glibc);
/* The block at user address `at` may be a tcache struct: add its lists if it is. */
enum mw_status mw_glibc_tcache_try(struct mw_glibc *glibc, mw_addr at, bool *is_struct_out);

#endif
