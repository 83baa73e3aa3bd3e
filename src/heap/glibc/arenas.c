/* heap/glibc/arenas.c: parameters, the ring of arenas, and the heaps of thread arenas.
 *
 *   64 MiB aligned                                   64 MiB aligned
 *   heap_info │ malloc_state │ chunks … fence        heap_info │ chunks … top
 *      ▲ ar_ptr = malloc_state, prev = 0                 ar_ptr, prev ─► first heap
 *
 * arena.top lies in the newest heap; prev leads to the older ones. Every claim is checked against
 * the regions before it is believed; the ring and each chain of heaps are bounded. */
#include "base/limits.h"
#include "heap/glibc/internal.h"

#include <assert.h>
#include <string.h>

enum { HEAP_MAX_DEFAULT = 64 << 20, HUGE_HEAP_FACTOR = 4 };

enum mw_status mw_glibc_read_parameters(struct mw_glibc *glibc)
{
    if (!glibc->par)
        return MW_NOT_FOUND;
    uint8_t bytes[160] = {0};
    assert(glibc->par->size <= sizeof bytes);
    enum mw_status status = mw_image_read(glibc->image, glibc->mp, bytes, glibc->par->size);
    if (status != MW_OK)
        return status;
    struct mw_heap_parameters *par = &glibc->parameters;
    uint64_t head[5], tail[3];
    int32_t ints[4];
    memcpy(head, bytes, sizeof head);
    memcpy(ints, bytes + glibc->par->n_mmaps, sizeof ints);
    memcpy(&glibc->mmapped_mem, bytes + glibc->par->mmapped_mem, 8);
    memcpy(&glibc->sbrk_base, bytes + glibc->par->sbrk_base, 8);
    *par = (struct mw_heap_parameters){
        .trim_threshold = head[0],
        .top_pad = head[1],
        .mmap_threshold = head[2],
        .arena_test = head[3],
        .arena_max = head[4],
        .mmaps_max = (uint64_t)(uint32_t)ints[1],
        .no_dyn_threshold = ints[3] != 0,
    };
    glibc->n_mmaps = (uint64_t)(uint32_t)ints[0];
    if (mw_glibc_has(glibc->par->tcache)) {
        memcpy(tail, bytes + glibc->par->tcache, sizeof tail);
        par->tcache_max_bytes = tail[1];
        par->tcache_count = tail[2];
    }
    if (mw_glibc_has(glibc->par->thp_pagesize)) {
        memcpy(&par->thp_pagesize, bytes + glibc->par->thp_pagesize, 8);
        memcpy(&par->hp_pagesize, bytes + glibc->par->thp_pagesize + 8, 8);
    }
    return MW_OK;
}

/* FNV-1a over words: tells two states of an arena apart. The size is a multiple of 8. */
static uint64_t digest_of(const uint8_t *bytes, size_t size)
{
    uint64_t digest = 0xcbf29ce484222325u, word;
    for (size_t at = 0; at < size; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        digest = (digest ^ word) * 0x100000001b3u;
    }
    return digest;
}

static enum mw_status arena_read(struct mw_glibc *glibc, mw_addr address, bool is_main,
                                 struct mw_glibc_arena *arena_out, mw_addr *next_out)
{
    uint8_t bytes[MW_GLIBC_STATE_MAX];
    const struct mw_glibc_state_layout *row = glibc->state;
    assert(row->size <= sizeof bytes);
    enum mw_status status = mw_image_read(glibc->image, address, bytes, row->size);
    if (status != MW_OK)
        return status;
    struct mw_glibc_arena arena = {
        .public = {.address = address,
                   .state_bytes = glibc->state->size,
                   .is_main = is_main,
                   .attached_threads = MW_UNKNOWN},
    };
    memcpy(&arena.mutex, bytes, 4);
    memcpy(&arena.flags, bytes + 4, 4);
    memcpy(&arena.top, bytes + row->bins - 16, 8);
    memcpy(next_out, bytes + row->bins + 2048, 8);
    memcpy(&arena.public.system_bytes, bytes + row->system_mem, 8);
    if (mw_glibc_has(row->attached_threads))
        memcpy(&arena.public.attached_threads, bytes + row->attached_threads, 8);
    if (mw_glibc_has(row->fastbins))
        memcpy(arena.fastbins, bytes + row->fastbins, sizeof arena.fastbins);
    arena.digest = digest_of(bytes + 8, (row->size - 8u) & ~7u);
    *arena_out = arena;
    return MW_OK;
}

/* The ring closed, but not at main_arena: what comes a second time goes. at is what the last one
 * leads to. */
static void ring_cut(struct mw_glibc *glibc, uint64_t cycle_length, mw_addr at)
{
    size_t count = glibc->arenas.count, length = (size_t)cycle_length, first = 0;
    assert(cycle_length <= count);
    while (first + length < count && glibc->arenas.items[first].public.address !=
                                         glibc->arenas.items[first + length].public.address)
        first++;
    glibc->arenas.count = first + length;
    glibc->ring_is_torn = true;
    mw_finding_add(glibc->findings, "arena-ring-torn", at, 0,
                   "the ring of arenas does not lead back to main_arena; some may be missing");
}

/* One more arena; MW_FAULT when the ring cannot be followed here. */
static enum mw_status ring_step(struct mw_glibc *glibc, mw_addr at, mw_addr *next_out)
{
    struct mw_glibc_arena arena;
    bool is_main = at == glibc->main_arena;
    if (is_main && glibc->first_orphan) {
        mw_glibc_orphan_main(glibc, &arena, next_out);
        return mw_vec_push(&glibc->arenas, MW_LIMIT_ARENAS, arena);
    }
    if (!is_main && mw_glibc_heap_info_size(glibc, at) == 0)
        return MW_FAULT;
    enum mw_status status = arena_read(glibc, at, is_main, &arena, next_out);
    return status == MW_OK ? mw_vec_push(&glibc->arenas, MW_LIMIT_ARENAS, arena) : status;
}

enum mw_status mw_glibc_read_arenas(struct mw_glibc *glibc, struct mw_error *err)
{
    struct mw_glibc_cycle cycle = {0};
    mw_addr at = glibc->main_arena, next;
    do {
        if (mw_glibc_cycle_step(&cycle, at)) {
            ring_cut(glibc, cycle.length, at);
            return MW_OK;
        }
        enum mw_status status = ring_step(glibc, at, &next);
        if (status == MW_NOMEM)
            return mw_fail(err, status, "out of memory for arenas");
        if (status != MW_OK && glibc->arenas.count == 0)
            return mw_fail_at(err, status, at, "cannot read main_arena");
        if (status != MW_OK) {
            glibc->ring_is_torn = true;
            mw_finding_add(glibc->findings, "arena-ring-torn", at, 0,
                           "the ring of arenas leads to something that is no arena; those behind "
                           "it are missing");
            return MW_OK;
        }
        at = next;
    } while (at != glibc->main_arena);
    return MW_OK;
}

static uint64_t huge_heap_max(const struct mw_glibc *glibc)
{
    uint64_t huge = glibc->parameters.hp_pagesize;
    return huge <= (1ull << 30) ? huge * HUGE_HEAP_FACTOR : 0;
}

/* Heaps start at multiples of heap_max: 64 MiB, or 4 huge pages in 2.35-2.41 with
 * glibc.malloc.hugetlb=2. Decided by where a heap_info is that points back at the arena. Both may
 * be true of one heap: what follows does not depend on which. */
static uint64_t heap_max_pick(struct mw_glibc *glibc, mw_addr arena, mw_addr top)
{
    uint64_t sizes[2] = {HEAP_MAX_DEFAULT, huge_heap_max(glibc)};
    if (sizes[1] && glibc->heap_info_size == 48)
        sizes[0] = sizes[1], sizes[1] = HEAP_MAX_DEFAULT;
    for (size_t i = 0; i < 2; i++) {
        uint64_t ar_ptr;
        if (sizes[i] == 0)
            continue;
        mw_addr heap = top & ~(sizes[i] - 1);
        if (mw_image_read_u64(glibc->image, heap, &ar_ptr) == MW_OK && ar_ptr == arena)
            return sizes[i];
    }
    return 0;
}

/* No heap is larger than this, whichever rule this version follows. */
static uint64_t heap_size_max(const struct mw_glibc *glibc)
{
    uint64_t huge = huge_heap_max(glibc);
    return huge > HEAP_MAX_DEFAULT ? huge : HEAP_MAX_DEFAULT;
}

static mw_addr align16(mw_addr address)
{
    return (address + 15) & ~(mw_addr)15;
}

struct heap_info {
    mw_addr ar_ptr, prev;
    uint64_t size;
};

/* One heap of arena index; *prev_out leads to the older one. */
static enum mw_status heap_add(struct mw_glibc *glibc, uint32_t index, mw_addr heap,
                               mw_addr *prev_out)
{
    struct mw_glibc_arena *arena = &glibc->arenas.items[index];
    struct heap_info info;
    if (mw_image_read(glibc->image, heap, &info, sizeof info) != MW_OK)
        return MW_FAULT;
    const struct mw_glibc_run *run = mw_glibc_run_of(glibc, heap);
    if (info.ar_ptr != arena->public.address || info.size > heap_size_max(glibc) ||
        info.size % glibc->image->page_size || info.size == 0 || !run ||
        (info.size > run->end - heap && !mw_glibc_is_span(glibc, heap, heap + info.size)))
        return MW_CORRUPT;
    mw_addr body = heap + glibc->heap_info_size;
    if (body == arena->public.address)
        body += glibc->state->size;
    struct mw_glibc_segment segment = {
        .public = {.start = heap, .end = heap + info.size, .kind = MW_SEGMENT_HEAP, .arena = index},
        .first_chunk = align16(body),
        .locked = run->locked,
    };
    if (arena->top - heap < info.size)
        segment.top = arena->top;
    *prev_out = info.prev;
    return mw_glibc_segment_push(glibc, &segment);
}

/* All heaps of one thread arena, newest first. */
static enum mw_status arena_heaps_find(struct mw_glibc *glibc, uint32_t index)
{
    struct mw_glibc_arena *arena = &glibc->arenas.items[index];
    uint64_t heap_max = heap_max_pick(glibc, arena->public.address, arena->top);
    if (heap_max == 0) {
        mw_finding_add(glibc->findings, "heap-lost", arena->public.address,
                       arena->public.system_bytes,
                       "an arena's top does not lie in a heap of that arena");
        return MW_OK;
    }
    glibc->heap_max = heap_max;
    mw_addr heap = arena->top & ~(heap_max - 1), prev;
    struct mw_glibc_cycle cycle = {0};
    while (heap != 0) {
        /* What was added twice goes in mw_glibc_drop_overlaps(). */
        bool is_sound = heap % heap_max == 0 && !mw_glibc_cycle_step(&cycle, heap);
        enum mw_status status = is_sound ? heap_add(glibc, index, heap, &prev) : MW_CORRUPT;
        if (status == MW_FAULT || status == MW_CORRUPT) {
            mw_finding_add(glibc->findings, "heap-damaged", heap, 0,
                           "the header of a thread heap contradicts its arena");
            return MW_OK;
        }
        if (status != MW_OK)
            return status;
        heap = prev;
    }
    return MW_OK;
}

enum mw_status mw_glibc_find_thread_heaps(struct mw_glibc *glibc)
{
    for (uint32_t i = 1; i < glibc->arenas.count; i++) {
        mw_addr low = glibc->arenas.items[i].public.address & 0xfffff;
        if (glibc->heap_info_size == 0 && (low == 32 || low == 48))
            glibc->heap_info_size = (uint16_t)low;
        enum mw_status status = arena_heaps_find(glibc, i);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

/* 8 × n up to 2.43, max(8, n) from 2.44; n is what get_nprocs() gave: the affinity mask in 2.34 to
 * 2.38, the online CPUs before and after. */
uint64_t mw_glibc_arena_limit(const struct mw_glibc *glibc)
{
    if (!glibc->par)
        return MW_UNKNOWN; /* a cap may be set */
    if (glibc->parameters.arena_max)
        return glibc->parameters.arena_max;
    const struct mw_process *process = &glibc->image->process;
    unsigned minor = glibc->version_minor;
    bool by_mask = minor >= 34 && minor <= 38;
    uint64_t cpus = by_mask ? process->cpus_allowed : process->cpus_online;
    if (cpus == MW_UNKNOWN || cpus == 0)
        return MW_UNKNOWN;
    if (minor >= 44)
        return cpus > 8 ? cpus : 8;
    return 8 * cpus;
}
