/* heap/glibc/tcache.c: the tcaches of threads: which lists there are, and how long each is.
 *
 * The tcache struct of a thread is found from its thread pointer: a word near it points to a chunk
 * of the struct's size whose counts and heads agree. When a thread has no registers or its TLS is
 * not there, or no thread's led to a struct with blocks, all blocks of that size are tried once
 * they are known.
 * Only structs are read here, while the target stands still; their lists are followed later, in
 * what was read of the heap (lists.c).
 *
 * Since 2.32 a stored link is (its own address >> 12) ^ next. Where the layouts do not tell (2.27
 * to 2.34) the end of a list does, which is stored as 0 in the old form. */
#include "base/alloc.h"
#include "heap/glibc/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TLS_BYTES = 4096,
    TCACHE_BINS_MAX = 76,
};
static const size_t HEADS_MAX = (size_t)1 << 24;

/* What was asked lies in a segment of malloc, so it should be there. */
static void cached_unreadable(struct mw_glibc *glibc, mw_addr address)
{
    mw_finding_add(glibc->findings, "cached-unreadable", address, 0,
                   "lists of cached blocks could not be read; blocks on them count as in use");
}

/* The size and the first word of a chunk that a list begins with. */
static bool head_read(struct mw_glibc *glibc, mw_addr chunk, uint64_t *size_out, uint64_t *link_out)
{
    uint64_t words[2];
    mw_addr end;
    if (chunk % 16 || !mw_glibc_in_segment(glibc, chunk, &end))
        return false;
    if (mw_image_read(glibc->image, chunk + 8, words, sizeof words) != MW_OK) {
        cached_unreadable(glibc, chunk);
        return false;
    }
    *size_out = words[0] & ~(uint64_t)7;
    *link_out = words[1];
    return true;
}

/* Links of fastbins lead to chunks, those of tcaches to what malloc returned. From there to the
 * chunk: */
enum link_kind { LINK_FASTBIN = 0, LINK_TCACHE = 16 };

/* Learns the form of links from the one in the first word of a chunk, when that tells. At low
 * addresses, where a static program lies, either form may look like the other: what it leads to
 * must be a chunk of the same size. */
static void linking_learn(struct mw_glibc *glibc, mw_addr chunk, uint64_t size, uint64_t stored,
                          enum link_kind kind)
{
    uint64_t plain = stored ^ ((chunk + 16) >> 12), other_size, link;
    if (glibc->linking_known)
        return;
    bool is_plain =
        stored == 0 || (head_read(glibc, stored - kind, &other_size, &link) && other_size == size);
    bool is_safe =
        plain == 0 || (head_read(glibc, plain - kind, &other_size, &link) && other_size == size);
    if (is_plain != is_safe)
        glibc->safe_linking = is_safe, glibc->linking_known = true;
}

/* From the first chunks of fastbins. */
static void fastbins_learn(struct mw_glibc *glibc)
{
    for (size_t i = 0; i < glibc->arenas.count; i++)
        for (size_t bin = 0; bin < MW_GLIBC_FASTBINS && !glibc->linking_known; bin++) {
            mw_addr chunk = glibc->arenas.items[i].fastbins[bin];
            uint64_t size, link;
            if (chunk != 0 && head_read(glibc, chunk, &size, &link))
                linking_learn(glibc, chunk, size, link, LINK_FASTBIN);
        }
}

struct tcache_struct {
    const struct mw_glibc_tcache_layout *layout;
    uint64_t counts[TCACHE_BINS_MAX];
    mw_addr heads[TCACHE_BINS_MAX]; /* what malloc would return */
};

/* A thread may have been stopped between the two writes by which it puts a block on a list or takes
 * one, head first: that much may differ, in one bin of a struct that is surely one. */
static bool bin_settle(uint64_t *count, mw_addr head, unsigned *unsettled)
{
    if ((*count == 0) == (head == 0))
        return true;
    if (*unsettled == 0 || *count > 1)
        return false;
    --*unsettled;
    *count = head != 0;
    return true;
}

/* Read the struct at user address `at`, when its chunk has the size of this layout. So many bins
 * may be in between. */
static bool tcache_struct_read(struct mw_glibc *glibc, mw_addr at,
                               const struct mw_glibc_tcache_layout *layout, unsigned unsettled,
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
        if (count > limit || !bin_settle(&count, out->heads[bin], &unsettled) ||
            out->heads[bin] % 16)
            return false;
        out->counts[bin] = count;
    }
    return true;
}

/* Is this chunk size right for entries of a bin? Large bins (2.42+) hold a power-of-two range. */
static bool size_fits_bin(uint64_t size, size_t bin)
{
    if (bin < 64)
        return size == (bin + 2) * 16;
    return size > 1040 && size % 16 == 0;
}

/* Do the lists of the struct begin with chunks of their sizes? */
static bool heads_are_sound(struct mw_glibc *glibc, const struct tcache_struct *cache)
{
    for (size_t bin = 0; bin < cache->layout->bins; bin++) {
        uint64_t size, link;
        if (cache->counts[bin] == 0)
            continue;
        if (!head_read(glibc, cache->heads[bin] - 16, &size, &link) || !size_fits_bin(size, bin))
            return false;
        linking_learn(glibc, cache->heads[bin] - 16, size, link, LINK_TCACHE);
    }
    return true;
}

static enum mw_status heads_keep(struct mw_glibc *glibc, const struct tcache_struct *cache,
                                 mw_addr at, bool is_sure)
{
    for (size_t bin = 0; bin < cache->layout->bins; bin++) {
        const struct mw_glibc_tcache_list list = {
            .owner = at,
            .head = cache->heads[bin],
            .count = (uint16_t)cache->counts[bin],
            .bin = (uint8_t)bin,
            .is_sure = is_sure,
        };
        if (list.count == 0)
            continue;
        enum mw_status status = mw_vec_push(&glibc->tcache_lists, HEADS_MAX, list);
        if (status == MW_LIMIT) {
            mw_finding_add(glibc->findings, "lists-endless", at, 0,
                           "there are more lists of cached blocks than are looked at; the others "
                           "count as in use");
            return MW_OK;
        }
        if (status != MW_OK)
            return status;
        glibc->tcache_bins |= bin < 64 ? (uint64_t)1 << bin : 0;
        glibc->tcache_has_large |= bin >= 64;
    }
    return MW_OK;
}

/* Does a struct lie at `at` whose heads are sound? Of a layout that was seen, or any. */
static bool tcache_probe(struct mw_glibc *glibc, mw_addr at, struct tcache_struct *cache_out)
{
    const struct mw_glibc_tcache_layout *layout = glibc->tcache;
    size_t rows = layout ? 1 : mw_glibc_tcache_layout_count;
    for (size_t i = 0; i < rows; i++) {
        const struct mw_glibc_tcache_layout *row = layout ? layout : &mw_glibc_tcache_layouts[i];
        if (tcache_struct_read(glibc, at, row, 0, cache_out) && heads_are_sound(glibc, cache_out))
            return true;
    }
    return false;
}

static bool has_blocks(const struct tcache_struct *cache)
{
    for (size_t bin = 0; bin < cache->layout->bins; bin++)
        if (cache->counts[bin] != 0)
            return true;
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
static void tls_slot_learn(struct mw_glibc *glibc, mw_addr tp, struct tls_slot *slot)
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
    for (size_t i = 0; i < count; i++) {
        size_t k = above ? i : count - 1 - i; /* nearest to TP first */
        struct tcache_struct cache;
        if (words[k] == 0 || words[k] % 16 || !tcache_probe(glibc, words[k], &cache))
            continue;
        int64_t delta = (int64_t)(start + 8 * k - tp);
        if (has_blocks(&cache)) {
            glibc->tcache = cache.layout;
            *slot = (struct tls_slot){.known = true, .delta = delta};
            return;
        }
        if (!slot->is_empty)
            *slot = (struct tls_slot){.is_empty = true, .delta = delta};
    }
}

/* No thread's TLS led to a struct with blocks. Do all of them have an empty one in the same place,
 * or none? Then nothing is cached, and blocks need not be searched for structs. */
static bool tls_tcaches_are_empty(struct mw_glibc *glibc, int64_t delta)
{
    for (size_t i = 0; i < glibc->image->thread_count; i++) {
        mw_addr tp = glibc->image->threads[i].tp, at, end;
        struct tcache_struct cache;
        if (mw_image_read_u64(glibc->image, tp + (uint64_t)delta, &at) != MW_OK)
            return false;
        if (at != 0 && mw_glibc_in_segment(glibc, at, &end) &&
            (!tcache_probe(glibc, at, &cache) || has_blocks(&cache)))
            return false;
    }
    return true;
}

/* The struct of every thread that has one, by the learned slot. */
static enum mw_status tls_tcaches_take(struct mw_glibc *glibc, int64_t delta)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < glibc->image->thread_count && status == MW_OK; i++) {
        mw_addr tp = glibc->image->threads[i].tp, at, end;
        struct tcache_struct cache;
        if (tp == 0)
            continue;
        if (mw_image_read_u64(glibc->image, tp + (uint64_t)delta, &at) != MW_OK) {
            cached_unreadable(glibc, tp);
            continue;
        }
        if (!mw_glibc_in_segment(glibc, at, &end))
            continue; /* a thread that never freed: NULL, or the dummy of 2.43 */
        if (tcache_struct_read(glibc, at, glibc->tcache, 1, &cache))
            status = heads_keep(glibc, &cache, at, true);
        else
            mw_finding_add(glibc->findings, "tcache-torn", at, 0,
                           "a thread's tcache contradicts itself; its blocks count as in use");
    }
    return status;
}

enum mw_status mw_glibc_tcache_try(struct mw_glibc *glibc, mw_addr at, bool *is_struct_out)
{
    struct tcache_struct cache;
    *is_struct_out = tcache_probe(glibc, at, &cache);
    if (!*is_struct_out || !has_blocks(&cache))
        return MW_OK;
    return heads_keep(glibc, &cache, at, false);
}

/* Which sizes of chunks can be in a tcache when it is not known what is. */
static void every_bin_set(struct mw_glibc *glibc)
{
    glibc->tcache_bins = UINT64_MAX;
    glibc->tcache_has_large = glibc->parameters.tcache_max_bytes > 1041;
}

/* gdb's gcore writes zeros for the stack and TLS of a thread when a page of its mapping cannot be
 * read, as since 2.42 the guard cannot. x86-64: the thread block begins with its own address;
 * aarch64: with that of the module table. */
static bool tls_is_there(struct mw_glibc *glibc, mw_addr tp)
{
    uint64_t word;
    if (tp == 0 || mw_image_read_u64(glibc->image, tp, &word) != MW_OK)
        return false;
    return glibc->image->arch == MW_ARCH_AARCH64 ? word != 0 : word == tp;
}

enum mw_status mw_glibc_find_tcaches(struct mw_glibc *glibc)
{
    glibc->safe_linking = glibc->par && mw_glibc_has(glibc->par->thp_pagesize); /* 2.35 */
    glibc->linking_known = glibc->safe_linking || glibc->state->bins == 104;    /* 2.26 */
    fastbins_learn(glibc);
    if (glibc->par && !mw_glibc_has(glibc->par->tcache))
        return MW_OK;
    if (glibc->par && glibc->parameters.tcache_count == 0)
        return MW_OK; /* switched off */
    struct tls_slot slot = {0};
    bool all_known = true;
    for (size_t i = 0; i < glibc->image->thread_count; i++) {
        mw_addr tp = glibc->image->threads[i].tp;
        all_known &= tls_is_there(glibc, tp);
        if (tp && !slot.known)
            tls_slot_learn(glibc, tp, &slot);
    }
    enum mw_status status = MW_OK;
    if (slot.known)
        status = tls_tcaches_take(glibc, slot.delta);
    else if (all_known && slot.is_empty && tls_tcaches_are_empty(glibc, slot.delta))
        return MW_OK;
    if (!(slot.known && all_known)) {
        glibc->wants_structs = true;
        every_bin_set(glibc);
    }
    return status;
}
