/* heap/glibc/scan.h: reading all segments, in parallel and under as many stops as it takes.
 *
 * A segment is cut into spans of some MiB. Chunks that start in a span are its own:
 *
 *   segment  │ meta │ chunk │ chunk │ chunk ─┼─ chunk │ free ─┼── │ chunk │ … │ top │
 *   spans           │ span 0 ────────────────│ span 1 ────────│ span 2 …
 *                                            ▲ the chunk that begins before belongs to span 0
 *
 * Where a span's first chunk begins is known when the span before it is done; else it is guessed
 * from a row of headers that agree with each other (resync.c), and the guess is checked when both
 * are done: the chain of chunks from a boundary on is the same wherever one came from. So spans can
 * be read side by side, and a wrong guess costs a second reading, not a wrong answer.
 *
 * Between two stops the target runs. What was read stays; the next span goes on at the boundary
 * where the last one ended when there is still one, else at the next one found, and the bytes in
 * between are counted as uncertain. */
#ifndef MW_HEAP_GLIBC_SCAN_H
#define MW_HEAP_GLIBC_SCAN_H

#include "heap/glibc/internal.h"
#include "heap/glibc/stream.h"

#include <stdatomic.h>

/* A chunk that looks in use, of a size that is cached somewhere, whose first word can be the link
 * of a list. */
struct mw_glibc_link {
    uint32_t unit;     /* 16 bytes each, from the span's pages_start */
    uint32_t next_low; /* address that it would lead to; 0: the last */
    uint16_t next_high;
    uint16_t size; /* in units, at most MW_GLIBC_LINK_SIZE; the flags below */
};
enum {
    MW_GLIBC_LINK_SIZE = 0x3fff, /* or more: the size is told by the block's own stream */
    MW_GLIBC_LINK_TCACHE = 0x4000,
    MW_GLIBC_LINK_FASTBIN = 0x8000,
};

static inline mw_addr mw_glibc_link_next(const struct mw_glibc_link *link)
{
    return (mw_addr)link->next_high << 32 | link->next_low;
}

/* What became of a span. */
enum mw_glibc_span_close {
    MW_GLIBC_SPAN_OPEN, /* not read */
    MW_GLIBC_SPAN_GOES_ON,
    MW_GLIBC_SPAN_LAST,  /* the segment ended: top, fence, or its last byte */
    MW_GLIBC_SPAN_CUT,   /* fences in brk memory: somebody else's bytes follow */
    MW_GLIBC_SPAN_LOST,  /* damage up to its end: where the next chunk begins is not known */
    MW_GLIBC_SPAN_EMPTY, /* no chunk starts here that could be found */
};

struct mw_glibc_span {
    mw_addr pages_start, pages_end; /* chunks that start here are its own */
    mw_addr start;                  /* of its first chunk; 0: none starts here */
    mw_addr end;                    /* behind its last one, or behind the chunk that covers it */
    uint8_t *bytes;                 /* stream from `start` */
    size_t length, skip;            /* skip: bytes of it that a stitch dropped */
    struct mw_glibc_link *links;    /* ascending */
    size_t link_count, link_skip;
    mw_addr *structs; /* user addresses of blocks that may be a tcache struct */
    size_t struct_count;
    uint32_t *residency; /* runs of pages: count << 2 | enum mw_glibc_residency */
    size_t residency_count;
    uint64_t read_ns;
    atomic_bool is_read;
    bool has_damage;
    enum mw_glibc_span_close close;
    unsigned round;
};

enum mw_glibc_residency { MW_GLIBC_ABSENT, MW_GLIBC_RESIDENT, MW_GLIBC_SWAPPED };
enum { MW_GLIBC_RUN_PAGES_MAX = (1 << 30) - 1 };

/* Bytes that are resident and swapped. */
struct mw_glibc_resident {
    uint64_t rss, swap;
};

/* What is known of a segment whose blocks are not read: head | body | top. */
struct mw_glibc_measured {
    uint64_t head_bytes, body_bytes, top_bytes;
    struct mw_glibc_resident head, body, top;
    bool is_lost; /* its pages were not told */
};

/* A segment and how far it was read. */
struct mw_glibc_scanned {
    struct mw_glibc_segment segment;
    mw_addr arena; /* address; 0: mmapped */
    MW_VEC(struct mw_glibc_span) spans;
    size_t spans_done;
    size_t spans_fit;   /* of this round: so many of all go on where the one before ended */
    mw_addr done_until; /* blocks tile [segment.public.start, done_until) */
    uint64_t span_bytes;
    size_t index; /* in glibc->segments of this round */
    bool is_lost; /* where the next chunk begins is not known: damage */
    bool has_run; /* the target has, since the last block was read */
    bool is_complete, is_cut, is_seen;
    bool is_gone;    /* it was not there any more at some stop */
    bool ends_early; /* spans_fit ends at a cut: what lies behind is not read as a part of it */
    unsigned first_round, last_round;
    struct mw_glibc_measured measured; /* of a segment that is estimated */
};

/* The part that an arena has in a sample. */
enum mw_glibc_part {
    MW_GLIBC_PART_WHOLE, /* always read: nothing follows from it for others */
    MW_GLIBC_PART_CHOSEN,
    MW_GLIBC_PART_ESTIMATED,
};

/* An arena as it was when the last of its segments was read. */
struct mw_glibc_scanned_arena {
    struct mw_glibc_arena arena;
    unsigned first_round, last_round; /* in which segments of it were read; 0: none */
    bool has_moved;                   /* its malloc_state changed between the two */
    uint64_t gap_bytes;               /* the main one: foreign sbrk */
    size_t sequence;                  /* in the ring, the main arena is 0 */
    enum mw_glibc_part part;
    bool safe_linking;
};

struct mw_glibc_scan {
    MW_VEC(struct mw_glibc_scanned) segments; /* ascending by address once sorted */
    MW_VEC(struct mw_glibc_scanned_arena) arenas;
    MW_VEC(struct mw_glibc_tcache_list) tcache_lists; /* once closed: by owner, bin and round */
    size_t lists_open;                       /* from here on those of the last round, in order */
    uint64_t read_bytes, read_ns;            /* of all spans, by one thread: how fast it goes */
    uint64_t wanted_bytes;                   /* the most that all segments had together */
    uint64_t kept_bytes;                     /* memory that the spans take */
    uint64_t found_gap_bytes, cut_gap_bytes; /* of foreign sbrks, met before and while reading */
    unsigned round;                          /* of stops, from 1 */
    uint64_t uncertain_bytes; /* between two stops: to what block they belong is not known */
    bool ring_is_torn;
};

void mw_glibc_scan_deinit(struct mw_glibc_scan *scan);

/* Read what earlier rounds left of the segments that glibc has found under this stop, until all is
 * read or until_ns has come (0: no bound; one span at least is read). glibc->segments and arenas
 * may change: what lies behind foreign sbrks is found here. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_glibc_scan_round(struct mw_glibc_scan *scan, struct mw_glibc *glibc,
                                   uint64_t until_ns, bool *all_done_out);

/* After the last round, the target may run: put everything in order, follow the lists. */
void mw_glibc_scan_close(struct mw_glibc_scan *scan, const struct mw_context *context,
                         struct mw_findings *findings);

/* The row of the arena at address, or NULL. O(log n). */
struct mw_glibc_scanned_arena *mw_glibc_scan_arena(const struct mw_glibc_scan *scan,
                                                   mw_addr address);

/* sample.c: which arenas are read; once, at the first stop, when the rows of all are there.
 * MW_NOMEM. */
enum mw_status mw_glibc_sample_choose(struct mw_glibc_scan *scan, const struct mw_glibc *glibc);
/* Is address an arena that is not read? */
bool mw_glibc_sample_leaves(const struct mw_glibc_scan *scan, mw_addr arena);
/* A segment of such an arena is done with; reads the size of its top. */
void mw_glibc_sample_skip(struct mw_glibc_scanned *scanned, const struct mw_glibc *glibc,
                          unsigned round);
/* Which of its bytes are resident; the target may run. MW_NOMEM. */
enum mw_status mw_glibc_sample_measure(struct mw_glibc_scanned *scanned,
                                       struct mw_image *image) MW_MUST_CHECK;

/* Forget the spans from the given one on. */
void mw_glibc_scanned_release(struct mw_glibc_scanned *scanned, size_t from);

/* stitch.c: put together what was read of the segments from `first` on, as far as it was, and add
 * to glibc->segments what goes on behind foreign sbrks. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_glibc_scan_stitch(struct mw_glibc_scan *scan, struct mw_glibc *glibc,
                                    size_t first);

/* heads.c: keep the lists that tcaches have under this stop; a list that was like this under the
 * one before goes on. O(n log n) in the lists of two rounds. MW_NOMEM. */
enum mw_status mw_glibc_heads_keep(struct mw_glibc_scan *scan, struct mw_glibc *glibc);
/* After the last round: all lists in the order of their owners. */
void mw_glibc_heads_close(struct mw_glibc_scan *scan);

/* lists.c: mark the links that lists lead through. */
void mw_glibc_lists_follow(struct mw_glibc_scan *scan, const struct mw_context *context,
                           struct mw_findings *findings);

/* spans.c: what one reader of spans needs; each thread has its own. */
struct mw_glibc_reader {
    const struct mw_glibc *glibc;
    struct mw_window window;
    struct mw_glibc_stream stream;
    MW_VEC(struct mw_glibc_link) links;
    MW_VEC(mw_addr) structs;
    MW_VEC(uint32_t) runs;
    uint8_t *page_flags;         /* MW_GLIBC_READER_PAGES */
    uint64_t resync_steps_left;  /* in this span */
    uint64_t resync_steps_spent; /* in all */
    enum mw_status status;
};
enum { MW_GLIBC_READER_PAGES = 64 << 10 };

enum mw_status mw_glibc_reader_init(struct mw_glibc_reader *reader, const struct mw_glibc *glibc);
void mw_glibc_reader_deinit(struct mw_glibc_reader *reader);

/* Where a span begins. */
struct mw_glibc_span_start {
    mw_addr at;       /* its first chunk; 0: to be found. Behind the span: no chunk starts in it */
    mw_addr from;     /* where to look for it */
    bool must_prove;  /* at may not hold any more: look at it before it is believed */
    bool is_thorough; /* look for it in the whole span, not only in its first part */
};

/* Read one span: fills everything but is_read and round. MW_NOMEM. */
enum mw_status mw_glibc_span_read(struct mw_glibc_reader *reader,
                                  const struct mw_glibc_segment *segment,
                                  struct mw_glibc_span *span,
                                  const struct mw_glibc_span_start *how);
void mw_glibc_span_release(struct mw_glibc_span *span); /* what it holds; its bounds stay */

/* resync.c: the first address in [from, limit) where a row of headers begins that agree with each
 * other, 16-aligned; 0 when there is none or it would cost too much. Work is linear in
 * limit - from. */
mw_addr mw_glibc_resync(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                        mw_addr from, mw_addr limit);
/* A chunk began here before the target ran: does one still? */
bool mw_glibc_boundary_holds(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                             mw_addr chunk);

#endif
