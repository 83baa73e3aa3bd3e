/* heap/glibc/resync.c: where chunks begin when no chunk before tells.
 *
 * In the middle of a heap, behind a damaged header, or where the target has run since: a place is
 * taken for the start of a chunk when the headers that follow from it agree with each other. Old
 * headers stay behind inside of free memory, so agreement is made hard: sizes and flags as malloc
 * writes them for this arena, footers of free chunks equal to their size, no two free chunks side
 * by side. Inside of a block that was never written old headers can still agree, but their chain
 * meets the true one: the caller compares (scan.c).
 *
 * Bound: each of the 16-byte places is tried once, each trial follows at most CHAIN_STEPS headers,
 * and all trials of a reader together no more than resync_steps_left. */
#include "heap/glibc/scan.h"

#include "base/bytes.h"

#include <string.h>

enum { CHAIN_STEPS = 24, UNREADABLE_COST = 64 };

/* The words of a header, or false. */
static bool header_at(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                      mw_addr chunk, uint64_t words[2])
{
    if (chunk >= segment->public.end || segment->public.end - chunk < 16)
        return false;
    const uint8_t *bytes = mw_window_at(&reader->window, chunk, 16);
    if (bytes)
        memcpy(words, bytes, 16);
    return bytes != NULL;
}

/* Could malloc have written this head at chunk of this segment? */
static bool head_is_sound(const struct mw_glibc_segment *segment, mw_addr chunk, uint64_t head)
{
    uint64_t size = head & ~(uint64_t)7;
    if (head & (8 | MW_GLIBC_IS_MMAPPED) || size < MW_GLIBC_MINSIZE)
        return false;
    if (segment->public.kind != MW_SEGMENT_HEAP && head & MW_GLIBC_NON_MAIN)
        return false;
    return size <= segment->public.end - chunk;
}

/* Does the chunk with `head` agree with the header of the next one? */
static bool pair_is_sound(const struct mw_glibc_segment *segment, uint64_t head,
                          const uint64_t next[2])
{
    if (!(next[1] & MW_GLIBC_PREV_INUSE)) /* free: a footer, and a neighbour before it in use */
        return next[0] == (head & ~(uint64_t)7) && head & MW_GLIBC_PREV_INUSE;
    return segment->public.kind != MW_SEGMENT_HEAP || head & MW_GLIBC_NON_MAIN;
}

static bool step_take(struct mw_glibc_reader *reader, uint64_t cost)
{
    if (reader->resync_steps_left < cost)
        return false;
    reader->resync_steps_left -= cost;
    return true;
}

/* Does a row of sound headers begin at chunk? Of at least `least` before what ends a segment: a
 * short one proves little. */
static bool chain_is_sound(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                           mw_addr chunk, unsigned least)
{
    uint64_t words[2], next[2];
    if (chunk == segment->top)
        return chunk != 0;
    if (!header_at(reader, segment, chunk, words) || !head_is_sound(segment, chunk, words[1]))
        return false;
    for (unsigned step = 0; step < CHAIN_STEPS; step++) {
        uint64_t size = words[1] & ~(uint64_t)7;
        chunk += size;
        if (!step_take(reader, 1) || !header_at(reader, segment, chunk, next))
            return false;
        bool is_fence = (next[1] & ~(uint64_t)7) < MW_GLIBC_MINSIZE;
        if (is_fence && size == MW_GLIBC_MINSIZE && step >= least)
            return true; /* perhaps the dummy before the fence of a thread heap */
        if (!pair_is_sound(segment, words[1], next))
            return false;
        if (chunk == segment->top)
            return true;
        if (is_fence)
            return step >= least && (next[1] & ~(uint64_t)(7 | 16)) == 0;
        if (!head_is_sound(segment, chunk, next[1]))
            return false;
        memcpy(words, next, sizeof words);
    }
    return true;
}

bool mw_glibc_boundary_holds(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                             mw_addr chunk)
{
    uint64_t words[2];
    if (chunk != segment->top && header_at(reader, segment, chunk, words) &&
        (words[1] & ~(uint64_t)(7 | 16)) == 0) /* fences, which close a segment or are cut at */
        return segment->public.end - chunk <= 3 * MW_GLIBC_MINSIZE ||
               (segment->public.kind == MW_SEGMENT_BRK &&
                mw_glibc_fences_end(&reader->window, chunk, segment->public.end) != 0);
    return chain_is_sound(reader, segment, chunk, 0);
}

/* Behind what cannot be read: the next page, or what a core has next. */
static mw_addr unreadable_skip(const struct mw_glibc_reader *reader, mw_addr at)
{
    const struct mw_image *image = reader->glibc->image;
    const struct mw_mapping *map = mw_image_region(image, at);
    if (image->kind != MW_IMAGE_LIVE && map)
        return map->end;
    return (at & ~((mw_addr)image->page_size - 1)) + image->page_size;
}

/* Where pages begin that may hold more than zeros, by the flags of the span's pages; `at` itself
 * when its own may. No header is in the others. */
static mw_addr empty_skip(const struct mw_glibc_reader *reader, mw_addr at)
{
    enum { CONTENT = MW_PAGE_PRESENT | MW_PAGE_SWAPPED };
    const struct mw_window *window = &reader->window;
    if (!window->known.flags || at < window->known.start)
        return at;
    uint64_t size = window->image->page_size, page = (at - window->known.start) / size;
    if (page >= window->known.count)
        return at;
    uint8_t flags = window->known.flags[page];
    if (flags & CONTENT && !(flags & MW_PAGE_ZERO))
        return at;
    page += mw_bytes_run(window->known.flags + page, (size_t)(window->known.count - page));
    return window->known.start + page * size;
}

mw_addr mw_glibc_resync(struct mw_glibc_reader *reader, const struct mw_glibc_segment *segment,
                        mw_addr from, mw_addr limit)
{
    mw_addr at = (from + 15) & ~(mw_addr)15;
    while (at < limit && limit - at >= 16 && step_take(reader, 1)) {
        uint64_t words[2];
        mw_addr content = empty_skip(reader, at);
        if (content > at) {
            at = content;
            continue;
        }
        if (!header_at(reader, segment, at, words)) {
            at = unreadable_skip(reader, at);
            if (!step_take(reader, UNREADABLE_COST))
                return 0;
            continue;
        }
        if ((at == segment->top || head_is_sound(segment, at, words[1])) &&
            chain_is_sound(reader, segment, at, 1))
            return at;
        at += 16;
    }
    return 0;
}
