/* heap/glibc/cached.c: free blocks that look in use: tcache and fastbins.
 *
 * A cached block keeps its in-use bit, so the walk must know its address beforehand. Fastbins hang
 * off each arena. The tcache struct of a thread is found from its thread pointer: a word near it
 * points to a chunk of the struct's size whose lists are sound. When a thread has no registers, or
 * no thread's TLS led to a struct with blocks, a first walk tries all blocks of that size.
 *
 * Lists: since 2.32 a stored link is (its own address >> 12) ^ next. Where the layouts do not tell
 * (2.27 to 2.34) the end of a list does, which is stored as 0 in the old form. A chunk is on one
 * list at most, so all lists together are followed for no more steps than there can be chunks:
 * linear, whatever the target holds. */
#include "base/alloc.h"
#include "heap/glibc/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TLS_BYTES = 4096,
    TCACHE_BINS_MAX = 76,
    TCACHE_STRUCT_MAX = 0x320,
};
static const size_t CACHED_MAX = (size_t)1 << 32;

/* What a list needs of a chunk. */
struct list_chunk {
    uint64_t head, link;
};

/* What was asked lies in a segment of malloc, so it should be there. */
static void cached_unreadable(struct mw_glibc *glibc, mw_addr address)
{
    mw_finding_add(glibc->findings, "cached-unreadable", address, 0,
                   "lists of cached blocks could not be read; blocks on them count as in use");
}

/* Bring the page of address into slot; a whole piece where that is likely to be used. */
static bool cache_fill(struct mw_glibc *glibc, size_t slot, mw_addr address)
{
    enum { NEAR_BYTES = 4 * MW_GLIBC_CACHE_PIECE, NEARNESS_MAX = 8 };
    struct mw_glibc_cache *cache = &glibc->cache;
    mw_addr piece = address & ~(mw_addr)(MW_GLIBC_CACHE_PIECE - 1);
    uint8_t *bytes = cache->bytes + slot * MW_GLIBC_CACHE_PIECE;
    bool is_near = address - cache->last + NEAR_BYTES < 2 * NEAR_BYTES;
    cache->last = address;
    if (is_near)
        cache->nearness += cache->nearness < NEARNESS_MAX;
    else
        cache->nearness /= 2;
    if (cache->piece[slot] != piece) {
        cache->piece[slot] = piece;
        cache->pages[slot] = 0;
    }
    if (cache->nearness > NEARNESS_MAX / 2 &&
        mw_image_read_present(glibc->image, piece, bytes, MW_GLIBC_CACHE_PIECE) ==
            MW_GLIBC_CACHE_PIECE) {
        cache->pages[slot] = UINT16_MAX;
        return true;
    }
    size_t page = (size_t)(address - piece) / MW_GLIBC_CACHE_PAGE;
    if (mw_image_read(glibc->image, piece + page * MW_GLIBC_CACHE_PAGE,
                      bytes + page * MW_GLIBC_CACHE_PAGE, MW_GLIBC_CACHE_PAGE) != MW_OK) {
        cache->pages[slot] = 0; /* a short read may have written to any of them */
        return false;
    }
    cache->pages[slot] |= (uint16_t)(1u << page);
    return true;
}

/* size bytes at address, by way of the cache. */
static bool cache_read(struct mw_glibc *glibc, mw_addr address, void *out, size_t size)
{
    struct mw_glibc_cache *cache = &glibc->cache;
    mw_addr piece = address & ~(mw_addr)(MW_GLIBC_CACHE_PIECE - 1);
    size_t slot = (size_t)(piece / MW_GLIBC_CACHE_PIECE) % MW_GLIBC_CACHE_PIECES;
    size_t skip = (size_t)(address - piece), page = skip / MW_GLIBC_CACHE_PAGE;
    assert(size <= MW_GLIBC_CACHE_PAGE);
    if (!cache->bytes) /* without memory for it every list goes on, at a read a block */
        cache->bytes = mw_calloc(MW_GLIBC_CACHE_PIECES, MW_GLIBC_CACHE_PIECE);
    bool is_there = cache->piece[slot] == piece && cache->pages[slot] >> page & 1;
    if (!cache->bytes || skip % MW_GLIBC_CACHE_PAGE + size > MW_GLIBC_CACHE_PAGE ||
        (!is_there && !cache_fill(glibc, slot, address)))
        return mw_image_read(glibc->image, address, out, size) == MW_OK;
    memcpy(out, cache->bytes + slot * MW_GLIBC_CACHE_PIECE + skip, size);
    return true;
}

/* A chunk that may be on a list: aligned, in a segment, readable; a step of those that are left. */
static bool list_chunk_read(struct mw_glibc *glibc, mw_addr chunk, struct list_chunk *out)
{
    mw_addr end;
    if (chunk % 16 || !mw_glibc_in_segment(glibc, chunk, &end) || glibc->list_steps == 0)
        return false;
    if (--glibc->list_steps == 0)
        mw_finding_add(glibc->findings, "lists-endless", chunk, 0,
                       "the lists of cached blocks are longer than malloc's memory");
    if (cache_read(glibc, chunk + 8, out, sizeof *out))
        return true;
    cached_unreadable(glibc, chunk);
    return false;
}

/* The chunk that the link at address `at` leads to; 0 at the end of the list. Learns the form of
 * links from the first one that tells. */
static mw_addr link_follow(struct mw_glibc *glibc, mw_addr at, uint64_t stored)
{
    if (!glibc->linking_known) {
        mw_addr end;
        uint64_t plain = stored ^ (at >> 12);
        if (stored == 0)
            glibc->safe_linking = false, glibc->linking_known = true;
        else if (plain == 0 || (plain % 16 == 0 && mw_glibc_in_segment(glibc, plain, &end)))
            glibc->safe_linking = true, glibc->linking_known = true;
    }
    return glibc->safe_linking ? stored ^ (at >> 12) : stored;
}

static enum mw_status cached_add(struct mw_glibc *glibc, mw_addr chunk, unsigned kind)
{
    enum mw_status status = mw_vec_push(&glibc->cached, CACHED_MAX, chunk | kind);
    if (status != MW_LIMIT)
        return status;
    glibc->list_steps = 0;
    mw_finding_add(glibc->findings, "lists-endless", chunk, 0,
                   "more blocks are cached than are looked at; the others count as in use");
    return MW_OK;
}

/* From now on as many steps as there can be chunks. */
static void list_steps_allow(struct mw_glibc *glibc)
{
    glibc->list_steps = 64;
    for (size_t i = 0; i < glibc->segments.count; i++) {
        const struct mw_heap_segment *segment = &glibc->segments.items[i].public;
        glibc->list_steps += (segment->end - segment->start) / MW_GLIBC_MINSIZE;
    }
}

struct fastbin_cursor {
    mw_addr chunk; /* 0: at the end */
    uint64_t size;
    struct mw_glibc_cycle cycle;
};

/* One chunk of one fastbin, and on to the next. Heads are raw, chunk addresses throughout. */
static enum mw_status fastbin_step(struct mw_glibc *glibc, struct fastbin_cursor *cursor)
{
    struct list_chunk list;
    mw_addr chunk = cursor->chunk;
    if (mw_glibc_cycle_step(&cursor->cycle, chunk) || !list_chunk_read(glibc, chunk, &list) ||
        (list.head & ~(uint64_t)7) != cursor->size) {
        mw_finding_add(glibc->findings, "fastbin-torn", chunk, 0,
                       "a fastbin leads to something that is no chunk of its size");
        cursor->chunk = 0;
        return MW_OK;
    }
    cursor->chunk = link_follow(glibc, chunk + 16, list.link);
    return cached_add(glibc, chunk, MW_GLIBC_CACHED_FASTBIN);
}

/* All lists of an arena side by side, always the one that is nearest: what was freed in a row went
 * to several of them, and is read once. */
static enum mw_status arena_fastbins_follow(struct mw_glibc *glibc,
                                            const struct mw_glibc_arena *arena)
{
    struct fastbin_cursor cursors[MW_GLIBC_FASTBINS];
    mw_addr last = 0;
    for (size_t bin = 0; bin < MW_GLIBC_FASTBINS; bin++)
        cursors[bin] = (struct fastbin_cursor){.chunk = arena->fastbins[bin],
                                               .size = (uint64_t)(bin + 2) * 16};
    for (;;) {
        struct fastbin_cursor *nearest = NULL;
        uint64_t distance = UINT64_MAX;
        for (size_t bin = 0; bin < MW_GLIBC_FASTBINS; bin++) {
            mw_addr chunk = cursors[bin].chunk;
            uint64_t away = chunk > last ? chunk - last : last - chunk;
            if (chunk == 0 || (nearest && away >= distance))
                continue;
            nearest = &cursors[bin];
            distance = away;
        }
        if (!nearest)
            return MW_OK;
        last = nearest->chunk;
        enum mw_status status = fastbin_step(glibc, nearest);
        if (status != MW_OK)
            return status;
    }
}

static enum mw_status fastbins_find(struct mw_glibc *glibc)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < glibc->arenas.count && status == MW_OK; i++)
        status = arena_fastbins_follow(glibc, &glibc->arenas.items[i]);
    return status;
}

/* Is this chunk size right for entries of a bin? Large bins (2.42+) hold a power-of-two range. */
static bool size_fits_bin(uint64_t size, size_t bin)
{
    if (bin < 64)
        return size == (bin + 2) * 16;
    return size > 1040 && size % 16 == 0;
}

struct tcache_struct {
    const struct mw_glibc_tcache_layout *layout;
    uint64_t counts[TCACHE_BINS_MAX];
    mw_addr heads[TCACHE_BINS_MAX]; /* what malloc would return */
};

/* Read the struct at user address `at`, when its chunk has the size of this layout. */
static bool tcache_struct_read(struct mw_glibc *glibc, mw_addr at,
                               const struct mw_glibc_tcache_layout *layout,
                               struct tcache_struct *out)
{
    uint64_t head;
    mw_addr end;
    const uint8_t *bytes;
    if (at % 16 || !mw_glibc_in_segment(glibc, at - 16, &end))
        return false;
    bytes = mw_window_at(&glibc->lists, at - 16, 16);
    if (!bytes) {
        cached_unreadable(glibc, at - 16);
        return false;
    }
    memcpy(&head, bytes + 8, sizeof head);
    uint64_t size = head & ~(uint64_t)7, used = layout->entries + 8u * layout->bins;
    if (size < layout->chunk_size || size > layout->chunk_size + 0x20u)
        return false;
    bytes = mw_window_at(&glibc->lists, at, used);
    if (!bytes) {
        cached_unreadable(glibc, at);
        return false;
    }
    out->layout = layout;
    uint64_t limit = glibc->par ? glibc->parameters.tcache_count : UINT16_MAX;
    for (size_t bin = 0; bin < layout->bins; bin++) {
        uint64_t count = bytes[bin * layout->count_bytes];
        if (layout->count_bytes == 2)
            count |= (uint64_t)bytes[bin * 2 + 1] << 8;
        if (layout->counts_free_slots) {
            if (count > limit)
                return false;
            count = limit - count;
        }
        memcpy(&out->heads[bin], bytes + layout->entries + 8 * bin, 8);
        out->counts[bin] = count;
        if (count > limit || (count == 0) != (out->heads[bin] == 0) || out->heads[bin] % 16)
            return false;
    }
    return true;
}

/* Follow one bin. Adds its chunks; false when the list is not what the count says. */
static bool tcache_bin_follow(struct mw_glibc *glibc, const struct tcache_struct *cache, size_t bin,
                              enum mw_status *status)
{
    mw_addr at = cache->heads[bin];
    for (uint64_t i = 0; i < cache->counts[bin]; i++) {
        struct list_chunk list;
        if (at == 0 || !list_chunk_read(glibc, at - 16, &list) ||
            !size_fits_bin(list.head & ~(uint64_t)7, bin))
            return false;
        *status = cached_add(glibc, at - 16, 0);
        if (*status != MW_OK)
            return false;
        at = link_follow(glibc, at, list.link);
    }
    return at == 0;
}

/* Take the struct at `at` if it is one: all lists sound, or nothing is added. */
static bool tcache_take(struct mw_glibc *glibc, mw_addr at, enum mw_status *status)
{
    struct tcache_struct cache;
    const struct mw_glibc_tcache_layout *layout = glibc->tcache;
    size_t rows = layout ? 1 : mw_glibc_tcache_layout_count;
    for (size_t i = 0; i < rows; i++) {
        const struct mw_glibc_tcache_layout *row = layout ? layout : &mw_glibc_tcache_layouts[i];
        if (!tcache_struct_read(glibc, at, row, &cache))
            continue;
        size_t before = glibc->cached.count;
        bool sound = true, has_blocks = false;
        for (size_t bin = 0; bin < row->bins && sound; bin++) {
            sound = tcache_bin_follow(glibc, &cache, bin, status);
            has_blocks |= cache.counts[bin] != 0;
        }
        if (sound) {
            if (has_blocks)
                glibc->tcache = row;
            return true;
        }
        glibc->cached.count = before;
        if (*status != MW_OK)
            return false;
    }
    return false;
}

/* Where a thread keeps its tcache pointer, relative to TP. The same in all threads. */
struct tls_slot {
    bool known;
    bool is_empty; /* known by structs that hold nothing: proves little by itself */
    int64_t delta;
};

/* Look for a struct with blocks in it in the words around one thread pointer: below it on x86-64,
 * above it on aarch64. An empty struct would prove nothing. */
static void tls_slot_learn(struct mw_glibc *glibc, mw_addr tp, struct tls_slot *slot,
                           enum mw_status *status)
{
    uint64_t words[TLS_BYTES / 8];
    bool above = glibc->image->arch == MW_ARCH_AARCH64;
    const struct mw_mapping *map = mw_image_region(glibc->image, above ? tp : tp - 8);
    if (tp < TLS_BYTES || !map)
        return;
    mw_addr start = above ? tp : tp - TLS_BYTES;
    if (start < map->start)
        start = map->start;
    mw_addr end = above ? tp + TLS_BYTES : tp;
    if (end > map->end)
        end = map->end;
    size_t count = mw_image_read_present(glibc->image, start, words, (size_t)(end - start)) / 8;
    for (size_t i = 0; i < count && *status == MW_OK; i++) {
        size_t k = above ? i : count - 1 - i; /* nearest to TP first */
        size_t before = glibc->cached.count;
        if (words[k] == 0 || words[k] % 16 || !tcache_take(glibc, words[k], status))
            continue;
        bool has_blocks = glibc->cached.count > before;
        glibc->cached.count = before; /* taken for good by tls_tcaches_take */
        int64_t delta = (int64_t)(start + 8 * k - tp);
        if (!has_blocks && !slot->is_empty)
            *slot = (struct tls_slot){.is_empty = true, .delta = delta};
        if (!has_blocks)
            continue;
        *slot = (struct tls_slot){.known = true, .delta = delta};
        return;
    }
}

/* No thread's TLS led to a struct with blocks. Do all of them have an empty one in the same place,
 * or none? Then nothing is cached, and blocks need not be searched for structs. */
static bool tls_tcaches_are_empty(struct mw_glibc *glibc, int64_t delta)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < glibc->image->thread_count; i++) {
        mw_addr tp = glibc->image->threads[i].tp, at, end;
        size_t before = glibc->cached.count;
        if (mw_image_read_u64(glibc->image, tp + (uint64_t)delta, &at) != MW_OK)
            return false;
        if (at != 0 && mw_glibc_in_segment(glibc, at, &end) &&
            (!tcache_take(glibc, at, &status) || glibc->cached.count != before))
            return false;
    }
    return status == MW_OK;
}

/* The struct of every thread that has one, by the learned slot. */
static enum mw_status tls_tcaches_take(struct mw_glibc *glibc, int64_t delta)
{
    enum mw_status status = MW_OK;
    list_steps_allow(glibc);
    for (size_t i = 0; i < glibc->image->thread_count && status == MW_OK; i++) {
        mw_addr tp = glibc->image->threads[i].tp, at, end;
        if (tp == 0)
            continue;
        if (mw_image_read_u64(glibc->image, tp + (uint64_t)delta, &at) != MW_OK) {
            cached_unreadable(glibc, tp);
            continue;
        }
        if (!mw_glibc_in_segment(glibc, at, &end))
            continue; /* a thread that never freed: NULL, or the dummy of 2.43 */
        if (!tcache_take(glibc, at, &status) && status == MW_OK)
            mw_finding_add(glibc->findings, "tcache-torn", at, 0,
                           "a thread's tcache contradicts itself; its blocks count as in use");
    }
    return status;
}

/* Without thread pointers: every in-use chunk of the struct's size whose lists are sound. */
static enum mw_status struct_sized_blocks_test(void *user, const struct mw_block *blocks,
                                               size_t count)
{
    struct mw_glibc *glibc = user;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK; i++)
        if (blocks[i].state == MW_BLOCK_IN_USE && blocks[i].size >= 0x250 &&
            blocks[i].size <= TCACHE_STRUCT_MAX)
            tcache_take(glibc, blocks[i].address + 16, &status);
    return status;
}

static enum mw_status tcaches_find_by_walk(struct mw_glibc *glibc)
{
    const struct mw_glibc_sink sink = {glibc, struct_sized_blocks_test};
    for (size_t i = 0; i < glibc->segments.count; i++) {
        if (glibc->segments.items[i].public.kind == MW_SEGMENT_MMAPPED)
            continue;
        mw_addr end;
        enum mw_status status =
            mw_glibc_walk_segment(glibc, &glibc->segments.items[i], &sink, &end);
        if (status == MW_OK && end < glibc->segments.items[i].public.end)
            status = mw_glibc_segment_cut(glibc, i, end);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static enum mw_status tcaches_find(struct mw_glibc *glibc)
{
    if (glibc->par && !mw_glibc_has(glibc->par->tcache))
        return MW_OK;
    if (glibc->par && glibc->parameters.tcache_count == 0)
        return MW_OK; /* switched off */
    struct tls_slot slot = {0};
    bool all_known = true;
    enum mw_status status = MW_OK;
    list_steps_allow(glibc);
    for (size_t i = 0; i < glibc->image->thread_count && status == MW_OK; i++) {
        mw_addr tp = glibc->image->threads[i].tp;
        all_known &= tp != 0;
        if (tp && !slot.known)
            tls_slot_learn(glibc, tp, &slot, &status);
    }
    list_steps_allow(glibc);
    if (status == MW_OK && slot.known)
        status = tls_tcaches_take(glibc, slot.delta);
    if (status == MW_OK && all_known && slot.is_empty && tls_tcaches_are_empty(glibc, slot.delta))
        return status;
    if (status == MW_OK && !(slot.known && all_known)) {
        list_steps_allow(glibc);
        status = tcaches_find_by_walk(glibc);
    }
    return status;
}

static int address_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

enum mw_status mw_glibc_find_cached(struct mw_glibc *glibc)
{
    list_steps_allow(glibc);
    glibc->safe_linking = glibc->par && mw_glibc_has(glibc->par->thp_pagesize); /* 2.35 */
    glibc->linking_known = glibc->safe_linking || glibc->state->bins == 104;    /* 2.26 */
    enum mw_status status = fastbins_find(glibc);
    if (status == MW_OK)
        status = tcaches_find(glibc);
    if (glibc->cached.count > 1)
        qsort(glibc->cached.items, glibc->cached.count, sizeof *glibc->cached.items,
              address_compare);
    size_t kept = 0;
    for (size_t i = 0; i < glibc->cached.count; i++) {
        uint64_t entry = glibc->cached.items[i];
        if (kept > 0 && (glibc->cached.items[kept - 1] & ~(uint64_t)1) == (entry & ~(uint64_t)1))
            continue; /* a cycle, or one struct found twice */
        glibc->cached.items[kept++] = entry;
    }
    glibc->cached.count = kept;
    glibc->cached_is_sorted = true;
    return status;
}
