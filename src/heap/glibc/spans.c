/* heap/glibc/spans.c: one span of a segment → a stream of blocks that tile it.
 *
 * A chunk is in use when the next one has PREV_INUSE; the size of a free one stands again before
 * the next, which is checked. What contradicts itself becomes a SKIPPED block up to the next place
 * where a row of headers agrees (resync.c), and a finding. One pass, each header read once through
 * the window. The target stands still meanwhile: here is only what must be read then.
 *
 *   metadata │ chunk │ chunk │ … │ top           or  … │ fence │ fence │ rest
 *   ▲ start    ▲ first_chunk      ▲ segment->top                          ▲ end */
#include "heap/glibc/scan.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    GUESS_BYTES = 256 << 10,    /* how far into a span its first chunk is looked for */
    RESYNC_STEPS_MAX = 4 << 20, /* in a span of any size */
    RESYNC_STEPS_IN_ALL = 64 << 20,
    STRUCT_CHUNK_MIN = 0x250,
    STRUCT_CHUNK_MAX = 0x320,
};
static const size_t LIST_MAX = (size_t)1 << 32;
/* Of one segment: beyond it (a lie, or a reserve of terabytes) residency counts as not known. */
static const uint64_t RESIDENCY_BYTES_MAX = (uint64_t)256 << 30;

/* A chunk whose successor is not known yet. */
struct held_chunk {
    mw_addr address; /* 0: none */
    uint64_t head, link;
};

struct walk {
    struct mw_glibc_reader *reader;
    const struct mw_glibc_segment *segment;
    struct mw_glibc_span *span;
    struct held_chunk held;
    mw_addr position;  /* where the next block must begin: blocks tile */
    uint64_t bins;     /* a bit for each size of which some are cached: 32 is bit 0 */
    uint64_t large;    /* 1: some of other sizes are */
    mw_addr low, high; /* of all of malloc's memory */
    bool wants_structs;
};

enum mw_status mw_glibc_reader_init(struct mw_glibc_reader *reader, const struct mw_glibc *glibc)
{
    *reader = (struct mw_glibc_reader){.glibc = glibc};
    reader->page_flags = mw_calloc(MW_GLIBC_READER_PAGES, 1);
    enum mw_status status = mw_window_init(&reader->window, glibc->image);
    return reader->page_flags ? status : MW_NOMEM;
}

void mw_glibc_reader_deinit(struct mw_glibc_reader *reader)
{
    mw_window_deinit(&reader->window);
    free(reader->stream.bytes);
    free(reader->page_flags);
    mw_vec_deinit(&reader->links);
    mw_vec_deinit(&reader->structs);
    mw_vec_deinit(&reader->runs);
}

void mw_glibc_span_release(struct mw_glibc_span *span)
{
    free(span->bytes);
    free(span->links);
    free(span->structs);
    free(span->residency);
    span->bytes = NULL;
    span->links = NULL;
    span->structs = NULL;
    span->residency = NULL;
    span->length = span->skip = span->link_count = span->link_skip = span->struct_count = 0;
    span->residency_count = 0;
}

static void status_keep(struct mw_glibc_reader *reader, enum mw_status status)
{
    if (reader->status == MW_OK)
        reader->status = status;
}

static void walk_emit(struct walk *walk, mw_addr address, uint64_t size, enum mw_block_state state)
{
    if (size == 0)
        return;
    assert(address == walk->position);
    enum mw_status status = mw_glibc_stream_reserve(&walk->reader->stream);
    walk->position = address + size; /* also when there is no memory: the status tells */
    if (status == MW_OK)
        mw_glibc_stream_put(&walk->reader->stream, size, state);
    else
        status_keep(walk->reader, status);
}

/* 1: chunks of this size are cached somewhere. */
static inline uint64_t is_cached_size(const struct walk *walk, uint64_t size)
{
    uint64_t bin = size / 16 - 2;
    return bin < 64 ? walk->bins >> bin & 1 : walk->large;
}

static bool link_is_sound(const struct walk *walk, uint64_t next)
{
    return next == 0 || (next % 16 == 0 && next >= walk->low && next < walk->high);
}

/* A chunk that looks in use, of a size that is cached: can its first word be a link? While the form
 * of links is not known, either will do: hardly any word can be both. */
static void link_consider(struct mw_glibc_reader *reader, const struct walk *walk, mw_addr chunk,
                          uint64_t size, uint64_t stored)
{
    const struct mw_glibc *glibc = reader->glibc;
    uint64_t units = size / 16, unit = (chunk - walk->span->pages_start) / 16;
    uint64_t plain = stored ^ ((chunk + 16) >> 12);
    bool is_safe = glibc->linking_known ? glibc->safe_linking : !link_is_sound(walk, stored);
    uint64_t next = is_safe ? plain : stored;
    if (!link_is_sound(walk, next))
        return;
    if (next >> 48 != 0 || unit > UINT32_MAX)
        return; /* no address of a process; a block of more than memory can hold */
    const struct mw_glibc_link link = {
        .unit = (uint32_t)unit,
        .next_low = (uint32_t)next,
        .next_high = (uint16_t)(next >> 32),
        .size = (uint16_t)(units < MW_GLIBC_LINK_SIZE ? units : MW_GLIBC_LINK_SIZE),
    };
    status_keep(reader, mw_vec_push(&reader->links, LIST_MAX, link));
}

/* What else may matter of a chunk that is in use, or looks so. */
static void in_use_consider(struct walk *walk, const struct held_chunk *held)
{
    uint64_t size = held->head & ~(uint64_t)7;
    if (is_cached_size(walk, size))
        link_consider(walk->reader, walk, held->address, size, held->link);
    if (walk->wants_structs && size >= STRUCT_CHUNK_MIN && size <= STRUCT_CHUNK_MAX)
        status_keep(walk->reader,
                    mw_vec_push(&walk->reader->structs, LIST_MAX, held->address + 16));
}

static bool size_is_sound(uint64_t head, mw_addr chunk, mw_addr end)
{
    uint64_t size = head & ~(uint64_t)7;
    return size >= MW_GLIBC_MINSIZE && size % 16 == 0 && size <= end - chunk &&
           !(head & MW_GLIBC_IS_MMAPPED);
}

/* Fences close a segment that is not the newest: headers too small for a chunk. */
static bool is_fence(const struct walk *walk, mw_addr chunk, uint64_t size)
{
    uint64_t left = walk->segment->public.end - chunk;
    return size < MW_GLIBC_MINSIZE && left <= 3 * MW_GLIBC_MINSIZE;
}

/* When a thread heap's top was too small to be freed at its end, a dummy of 32 bytes stays before
 * a header of size 0. Unlike every block of a thread arena it lacks NON_MAIN_ARENA. */
static bool is_dummy_before_fence(const struct walk *walk, uint64_t held_head, uint64_t next_size)
{
    return walk->segment->public.kind == MW_SEGMENT_HEAP && next_size == 0 &&
           (held_head & ~(uint64_t)7) == MW_GLIBC_MINSIZE && !(held_head & MW_GLIBC_NON_MAIN);
}

/* What the successor of the held chunk tells about it. False: they contradict each other. */
static bool walk_settle(struct walk *walk, uint64_t prev_size, uint64_t head)
{
    const struct held_chunk *held = &walk->held;
    uint64_t size = held->head & ~(uint64_t)7;
    if (held->address == 0)
        return true;
    if (!(head & MW_GLIBC_PREV_INUSE)) {
        if (prev_size != size)
            return false;
        walk_emit(walk, held->address, size, MW_BLOCK_FREE);
    } else if (is_dummy_before_fence(walk, held->head, head & ~(uint64_t)7)) {
        walk_emit(walk, held->address, size, MW_BLOCK_METADATA);
    } else {
        walk_emit(walk, held->address, size, MW_BLOCK_IN_USE);
        in_use_consider(walk, held);
    }
    walk->held.address = 0;
    return true;
}

/* From the held chunk, or chunk, to where headers make sense again. False: not in this span. */
static bool walk_resync(struct walk *walk, mw_addr *chunk)
{
    mw_addr from = walk->held.address ? walk->held.address : *chunk;
    mw_addr limit = walk->span->pages_end;
    assert(from == walk->position);
    mw_addr found = mw_glibc_resync(walk->reader, walk->segment, from + 16, limit);
    mw_addr until = found ? found : limit > from ? limit : from;
    walk->span->has_damage = true;
    walk_emit(walk, from, until - from, MW_BLOCK_SKIPPED);
    walk->held.address = 0;
    *chunk = found;
    if (!found)
        walk->span->close =
            limit >= walk->segment->public.end ? MW_GLIBC_SPAN_LAST : MW_GLIBC_SPAN_LOST;
    return found != 0;
}

/* A top that has moved down into what an earlier round read has no header here: it is the rest. */
static void walk_emit_top(struct walk *walk, mw_addr top, uint64_t size)
{
    uint64_t rest = walk->segment->public.end - top;
    const struct mw_glibc *glibc = walk->reader->glibc;
    if (size > rest || top != glibc->arenas.items[walk->segment->public.arena].top)
        size = rest;
    walk->span->close = MW_GLIBC_SPAN_LAST;
    if (size < 16 || size % 16 != 0) { /* damage: where it ends is not known */
        walk->span->has_damage = true;
        walk_emit(walk, top, rest, MW_BLOCK_SKIPPED);
        return;
    }
    walk_emit(walk, top, size, MW_BLOCK_TOP);
    walk_emit(walk, top + size, rest - size, MW_BLOCK_METADATA);
}

/* One chunk with every special case. False: the span is done. */
static bool walk_step(struct walk *walk, mw_addr *chunk_inout)
{
    mw_addr chunk = *chunk_inout, end = walk->segment->public.end;
    size_t size_read = end - chunk >= 24 ? 24 : 16; /* a top may be nothing but its header */
    const uint8_t *header =
        end - chunk >= 16 ? mw_window_at(&walk->reader->window, chunk, size_read) : NULL;
    if (!header && size_read > 16) /* the program may have sealed a page inside of a block */
        header = mw_window_at(&walk->reader->window, chunk, size_read = 16);
    uint64_t words[3] = {0, 0, 1}; /* 1 is no link */
    if (header)
        memcpy(words, header, size_read);
    if (!header || !walk_settle(walk, words[0], words[1]))
        return walk_resync(walk, chunk_inout);
    if (chunk >= walk->span->pages_end) {
        walk->span->close = MW_GLIBC_SPAN_GOES_ON;
        return false;
    }
    uint64_t size = words[1] & ~(uint64_t)7;
    if (chunk == walk->segment->top) {
        walk_emit_top(walk, chunk, size);
        return false;
    }
    if (is_fence(walk, chunk, size)) {
        walk_emit(walk, chunk, end - chunk, MW_BLOCK_METADATA);
        walk->span->close = MW_GLIBC_SPAN_LAST;
        return false;
    }
    mw_addr cut = size < MW_GLIBC_MINSIZE && walk->segment->public.kind == MW_SEGMENT_BRK
                      ? mw_glibc_fences_end(&walk->reader->window, chunk, end)
                      : 0;
    if (cut && cut < end) {
        walk_emit(walk, chunk, cut - chunk, MW_BLOCK_METADATA);
        walk->span->close = MW_GLIBC_SPAN_CUT;
        return false;
    }
    if (!size_is_sound(words[1], chunk, end))
        return walk_resync(walk, chunk_inout);
    walk->held = (struct held_chunk){chunk, words[1], words[2]};
    *chunk_inout = chunk + size;
    return true;
}

/* The common case, made quick: chunks one after the other in the window. Stops before whatever
 * needs a closer look. Whether a chunk is free is as good as random, so nothing branches on it but
 * the rare small one in use. */
static mw_addr walk_window(struct walk *walk, mw_addr chunk)
{
    enum { NEED = 24 };
    const struct mw_window *window = &walk->reader->window;
    const mw_addr base = window->start, end = walk->segment->public.end, top = walk->segment->top;
    const mw_addr stop = walk->span->pages_end;
    struct mw_glibc_stream *stream = &walk->reader->stream;
    if (window->length < NEED || walk->held.address == 0 ||
        mw_glibc_stream_reserve(stream) != MW_OK)
        return chunk;
    const uint64_t last = window->length - NEED;
    const uint8_t *room_end = stream->bytes + stream->room - MW_GLIBC_STREAM_BLOCK_MAX;
    uint8_t *out = stream->bytes + stream->length;
    struct held_chunk held = walk->held;
    while (chunk - base <= last && chunk < stop && out <= room_end) {
        uint64_t words[3], size = held.head & ~(uint64_t)7;
        memcpy(words, window->bytes + (chunk - base), NEED);
        bool is_free = !(words[1] & MW_GLIBC_PREV_INUSE);
        if (!size_is_sound(words[1], chunk, end) || chunk == top || (is_free & (words[0] != size)))
            break;
        out = mw_glibc_stream_put_chunk(out, size, is_free);
        if (is_cached_size(walk, size) & !is_free)
            in_use_consider(walk, &held);
        held = (struct held_chunk){chunk, words[1], words[2]};
        chunk += words[1] & ~(uint64_t)7;
    }
    stream->length = (size_t)(out - stream->bytes);
    walk->held = held;
    walk->position = held.address;
    return chunk;
}

/* Flags of the first pages of a span, for the window and for resync.c. They are at hand, unless it
 * has more pages than there is room for. */
static void pages_know(struct mw_glibc_reader *reader, const struct mw_glibc_span *span,
                       mw_addr end)
{
    mw_addr page = reader->glibc->image->page_size;
    uint64_t count = (end - span->pages_start) / page;
    bool is_at_hand = count <= MW_GLIBC_READER_PAGES && reader->runs.count > 0;
    if (!is_at_hand) {
        count = count < GUESS_BYTES / page ? count : GUESS_BYTES / page;
        if (mw_image_pages(reader->glibc->image, span->pages_start, (size_t)count,
                           reader->page_flags, NULL) != MW_OK)
            return;
    }
    reader->window.known.flags = reader->page_flags;
    reader->window.known.start = span->pages_start;
    reader->window.known.count = (size_t)count;
}

/* Which pages of the span are there, in runs. */
static void residency_read(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                           struct mw_glibc_span *span)
{
    struct mw_image *image = reader->glibc->image;
    mw_addr page = image->page_size, at = span->pages_start;
    mw_addr end = (span->pages_end + page - 1) & ~(page - 1);
    reader->runs.count = 0;
    if (!(image->can & MW_CAN_PAGES))
        return;
    if (end - segment->public.start > RESIDENCY_BYTES_MAX) {
        pages_know(reader, span, end);
        return;
    }
    uint32_t state = 0, count = 0;
    while (at < end) {
        size_t left = (size_t)((end - at) / page);
        size_t step = left < MW_GLIBC_READER_PAGES ? left : MW_GLIBC_READER_PAGES;
        if (mw_image_pages(image, at, step, reader->page_flags, NULL) != MW_OK) {
            reader->runs.count = 0;
            return;
        }
        for (size_t i = 0, alike; i < step; i += alike) {
            uint8_t flags = reader->page_flags[i];
            uint32_t now = mw_page_is_resident(flags) ? MW_GLIBC_RESIDENT
                           : flags & MW_PAGE_SWAPPED  ? MW_GLIBC_SWAPPED
                                                      : MW_GLIBC_ABSENT;
            alike = mw_bytes_run(reader->page_flags + i, step - i);
            if (count > 0 && (now != state || count > MW_GLIBC_RUN_PAGES_MAX - alike)) {
                status_keep(reader, mw_vec_push(&reader->runs, LIST_MAX, count << 2 | state));
                count = 0;
            }
            state = now;
            count += (uint32_t)alike;
        }
        at += step * page;
    }
    status_keep(reader, mw_vec_push(&reader->runs, LIST_MAX, count << 2 | state));
    pages_know(reader, span, end);
}

/* A copy of exactly count items, NULL when there are none or no memory (then reader says so). */
static void *items_copy(struct mw_glibc_reader *reader, const void *items, size_t count,
                        size_t item_size)
{
    if (count == 0)
        return NULL;
    void *copy = mw_calloc(count, item_size);
    if (copy)
        memcpy(copy, items, count * item_size);
    else
        status_keep(reader, MW_NOMEM);
    return copy;
}

static void results_keep(struct mw_glibc_reader *reader, struct mw_glibc_span *span)
{
    span->bytes = items_copy(reader, reader->stream.bytes, reader->stream.length, 1);
    span->length = reader->stream.length;
    span->links =
        items_copy(reader, reader->links.items, reader->links.count, sizeof *reader->links.items);
    span->link_count = reader->links.count;
    span->structs = items_copy(reader, reader->structs.items, reader->structs.count,
                               sizeof *reader->structs.items);
    span->struct_count = reader->structs.count;
    span->residency =
        items_copy(reader, reader->runs.items, reader->runs.count, sizeof *reader->runs.items);
    span->residency_count = reader->runs.count;
    if (reader->status != MW_OK)
        mw_glibc_span_release(span);
}

/* Where the first chunk at or after `from` begins when nothing before it tells; 0: unknown. */
static mw_addr start_guess(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                           const struct mw_glibc_span *span, const struct mw_glibc_span_start *how)
{
    mw_addr limit = span->pages_end, from = how->from;
    if (from < span->pages_start)
        from = span->pages_start;
    if (from >= limit)
        return 0;
    if (!how->is_thorough && limit - from > GUESS_BYTES)
        limit = from + GUESS_BYTES;
    return mw_glibc_resync(reader, segment, from, limit);
}

/* Which sizes are cached, and where the links of lists can lead. */
static void walk_init(struct walk *walk, struct mw_glibc_reader *reader,
                      const struct mw_glibc_segment *segment, struct mw_glibc_span *span)
{
    const struct mw_glibc *glibc = reader->glibc;
    *walk = (struct walk){
        .reader = reader,
        .segment = segment,
        .span = span,
        .bins = glibc->tcache_bins,
        .large = glibc->tcache_has_large,
        .low = glibc->low,
        .high = glibc->high,
        .wants_structs = glibc->wants_structs,
    };
}

static void span_walk(struct walk *walk)
{
    const struct mw_glibc *glibc = walk->reader->glibc;
    const struct mw_glibc_arena *arena = &glibc->arenas.items[walk->segment->public.arena];
    mw_addr chunk = walk->span->start;
    walk->position = chunk;
    for (unsigned bin = 0; bin < MW_GLIBC_FASTBINS; bin++)
        walk->bins |= (uint64_t)(arena->fastbins[bin] != 0) << bin;
    do
        chunk = walk_window(walk, chunk);
    while (walk->reader->status == MW_OK && walk_step(walk, &chunk));
    walk->span->end = walk->position;
}

/* A mapping of one block, which can be in a tcache, too: from 2.43. */
static void mmapped_consider(struct walk *walk)
{
    uint64_t words[2];
    mw_addr chunk = walk->segment->first_chunk;
    if ((walk->bins | walk->large) == 0 ||
        mw_image_read_present(walk->reader->glibc->image, chunk + 8, words, sizeof words) !=
            sizeof words)
        return;
    uint64_t size = words[0] & ~(uint64_t)7;
    if (size >= MW_GLIBC_MINSIZE && is_cached_size(walk, size))
        link_consider(walk->reader, walk, chunk, size, words[1]);
}

/* How much may be looked at to find where chunks begin: as much as the span is large, and all
 * together no more than a damaged heap that claims to be of terabytes should cost. */
static uint64_t resync_steps_allowed(const struct mw_glibc_reader *reader,
                                     const struct mw_glibc_span *span)
{
    uint64_t steps = (span->pages_end - span->pages_start) / 4 + 4096;
    uint64_t left = reader->resync_steps_spent < RESYNC_STEPS_IN_ALL
                        ? RESYNC_STEPS_IN_ALL - reader->resync_steps_spent
                        : 0;
    steps = steps < RESYNC_STEPS_MAX ? steps : RESYNC_STEPS_MAX;
    return steps < left ? steps : left;
}

enum mw_status mw_glibc_span_read(struct mw_glibc_reader *reader,
                                  const struct mw_glibc_segment *segment,
                                  struct mw_glibc_span *span, const struct mw_glibc_span_start *how)
{
    uint64_t begin_ns = mw_clock_monotonic_ns();
    mw_addr start = how->at;
    reader->stream.length = reader->links.count = reader->structs.count = 0;
    reader->status = MW_OK;
    uint64_t steps = resync_steps_allowed(reader, span);
    reader->resync_steps_left = steps;
    mw_glibc_span_release(span);
    mw_window_reset(&reader->window, segment->public.end);
    residency_read(reader, segment, span);
    if (start == 0)
        start = start_guess(reader, segment, span, how);
    else if (how->must_prove && !mw_glibc_boundary_holds(reader, segment, start))
        start = start_guess(reader, segment, span, how);
    span->close = MW_GLIBC_SPAN_EMPTY;
    span->has_damage = false;
    span->start = 0;
    span->end = start;
    struct walk walk;
    walk_init(&walk, reader, segment, span);
    if (segment->public.kind == MW_SEGMENT_MMAPPED) {
        mmapped_consider(&walk);
    } else if (start != 0 && start < span->pages_end) {
        span->start = start;
        span_walk(&walk);
    }
    reader->resync_steps_spent += steps - reader->resync_steps_left;
    results_keep(reader, span);
    span->read_ns = mw_clock_monotonic_ns() - begin_ns;
    return reader->status;
}
