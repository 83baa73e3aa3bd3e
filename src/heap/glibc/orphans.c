/* heap/glibc/orphans.c: heaps of a core that lacks libc's data: no main_arena, no mp_.
 *
 * .NET's createdump (type Heap) leaves out .data of libraries. The heaps of threads are there, and
 * tell enough by themselves:
 *
 *   64 MiB aligned: heap_info.ar_ptr ─► arena right behind it, whose top lies in a heap that points
 *   back at it, and whose next leads from arena to arena to an address that the core lacks, in the
 *   data of a file: main_arena
 *
 * The main heap is memory behind the program whose chunks lead from its start to exactly its end;
 * the last one is top. What only main_arena and mp_ know is missing: its free lists, system_mem,
 * the count of mmapped blocks. So the result is partial and never called proven.
 *
 * Trusts nothing: at most TRIES_MAX places are looked at, a chunk is at least MINSIZE, rings are
 * searched for cycles. Format and sources: docs/formats/glibc.md, docs/formats/core.md. */
#include "base/limits.h"
#include "heap/glibc/internal.h"

#include <stdlib.h>
#include <string.h>

enum { HEAP_BYTES = 64 << 20, NEXT_AFTER_BINS = 2048, TRIES_MAX = 1 << 20, TOP_BEFORE_BINS = 16 };

/* Is this place in data of a file that the core does not hold? */
static bool is_missing_data(struct mw_glibc *glibc, mw_addr address)
{
    uint64_t word;
    const struct mw_mapping *map = mw_image_region(glibc->image, address);
    return map && map->name[0] == '/' && map->perms & MW_PERM_WRITE && address % 8 == 0 &&
           mw_image_read_u64(glibc->image, address, &word) != MW_OK;
}

/* Where the ring of arenas leaves the thread heaps; 0 when it is broken. */
static mw_addr ring_end(struct mw_glibc *glibc, mw_addr arena, uint16_t bins)
{
    struct mw_glibc_cycle cycle = {0};
    for (size_t count = 0; count < MW_LIMIT_ARENAS; count++) {
        if (mw_glibc_cycle_step(&cycle, arena) ||
            mw_image_read_u64(glibc->image, arena + bins + NEXT_AFTER_BINS, &arena) != MW_OK)
            return 0;
        if (mw_glibc_heap_info_size(glibc, arena) == 0)
            return arena;
    }
    return 0;
}

/* Is `arena` an arena under a layout with this offset of bins? Takes what it leads to. */
static bool arena_take(struct mw_glibc *glibc, mw_addr arena, uint16_t bins)
{
    uint64_t top, ar_ptr;
    if (mw_image_read_u64(glibc->image, arena + bins - TOP_BEFORE_BINS, &top) != MW_OK ||
        mw_image_read_u64(glibc->image, top & ~(mw_addr)(HEAP_BYTES - 1), &ar_ptr) != MW_OK ||
        ar_ptr != arena)
        return false;
    mw_addr main_arena = ring_end(glibc, arena, bins);
    if (main_arena == 0 || !is_missing_data(glibc, main_arena))
        return false;
    glibc->state = mw_glibc_state_layout_pick(glibc, arena, bins);
    if (!glibc->state)
        return false;
    glibc->main_arena = main_arena;
    glibc->first_orphan = arena;
    return true;
}

static bool heap_take(struct mw_glibc *glibc, mw_addr heap)
{
    static const uint16_t bins[] = {112, 24, 104};
    uint64_t arena;
    if (mw_image_read_u64(glibc->image, heap, &arena) != MW_OK || arena <= heap ||
        arena - heap > 48)
        return false;
    uint16_t info = mw_glibc_heap_info_size(glibc, arena);
    for (size_t i = 0; info != 0 && i < sizeof bins / sizeof *bins; i++)
        if (arena == heap + info && arena_take(glibc, arena, bins[i])) {
            glibc->heap_info_size = info;
            return true;
        }
    return false;
}

static bool is_private_data(const struct mw_mapping *map)
{
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    return (map->perms & (wanted | MW_PERM_SHARED)) == wanted && mw_mapping_is_anonymous(map);
}

/* Arenas by where each leads: the ring is singly linked, and its first one is to be found. */
struct link {
    mw_addr next, arena;
};
struct links {
    struct link *items;
    size_t count, room;
};

static int compare_links(const void *a, const void *b)
{
    const struct link *left = a, *right = b;
    return left->next < right->next ? -1 : left->next > right->next;
}

/* From any arena back to the one that none of them leads to: main_arena does. */
static void ring_rewind(struct mw_glibc *glibc, struct links *links)
{
    if (links->count == 0)
        return;
    qsort(links->items, links->count, sizeof *links->items, compare_links);
    for (size_t steps = 0; steps < links->count; steps++) {
        const struct link key = {.next = glibc->first_orphan};
        const struct link *before =
            bsearch(&key, links->items, links->count, sizeof key, compare_links);
        if (!before)
            return;
        glibc->first_orphan = before->arena;
    }
}

/* The heap at this place: the first that is found decides on the layout, of all the links count. */
static enum mw_status heap_visit(struct mw_glibc *glibc, mw_addr heap, struct links *links)
{
    mw_addr arena = heap + glibc->heap_info_size, next;
    if (glibc->first_orphan == 0) {
        if (!heap_take(glibc, heap))
            return MW_OK;
        arena = heap + glibc->heap_info_size;
    }
    if (mw_glibc_heap_info_size(glibc, arena) != glibc->heap_info_size ||
        mw_image_read_u64(glibc->image, arena + glibc->state->bins + NEXT_AFTER_BINS, &next) !=
            MW_OK)
        return MW_OK;
    return mw_vec_push(links, MW_LIMIT_ARENAS, (struct link){next, arena});
}

bool mw_glibc_locate_orphans(struct mw_glibc *glibc)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    struct links links = {0};
    enum mw_status status = glibc->image->kind == MW_IMAGE_LIVE ? MW_UNSUPPORTED : MW_OK;
    size_t tries = 0;
    for (size_t i = 0; i < regions->count && status == MW_OK; i++) {
        const struct mw_mapping *map = &regions->items[i];
        if (!is_private_data(map) || map->start > UINT64_MAX - HEAP_BYTES)
            continue;
        mw_addr heap = (map->start + HEAP_BYTES - 1) & ~(mw_addr)(HEAP_BYTES - 1);
        for (; heap < map->end && tries++ < TRIES_MAX && status == MW_OK; heap += HEAP_BYTES) {
            status = heap_visit(glibc, heap, &links);
            if (heap > UINT64_MAX - 2 * (mw_addr)HEAP_BYTES)
                break;
        }
    }
    ring_rewind(glibc, &links);
    mw_vec_deinit(&links);
    return glibc->first_orphan != 0;
}

/* Chunks from the start of a run to exactly its end: the last one, else 0. */
static mw_addr last_chunk(struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    mw_addr chunk = run->start, last = 0;
    mw_window_reset(&glibc->window, run->end);
    while (chunk < run->end) {
        const uint8_t *header = mw_window_at(&glibc->window, chunk, 16);
        uint64_t head;
        if (!header)
            return 0;
        memcpy(&head, header + 8, sizeof head);
        uint64_t size = head & ~(uint64_t)7;
        if (size < MW_GLIBC_MINSIZE || size % 16 || size > run->end - chunk ||
            head & (MW_GLIBC_IS_MMAPPED | MW_GLIBC_NON_MAIN))
            return 0;
        last = chunk;
        chunk += size;
    }
    return last;
}

/* Runs between the program and the next file are its .bss and the memory of brk. */
static const struct mw_glibc_run *main_heap_find(struct mw_glibc *glibc, mw_addr *top_out)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    const struct mw_mapping *program = mw_image_region(glibc->image, glibc->image->entry);
    for (const struct mw_mapping *map = program; map && map < regions->items + regions->count;
         map++) {
        if (map->name[0] == '/' && strcmp(map->name, program->name) != 0)
            return NULL;
        const struct mw_glibc_run *run = mw_glibc_run_of(glibc, map->start);
        if (!run || run->start != map->start)
            continue;
        *top_out = last_chunk(glibc, run);
        if (*top_out != 0)
            return run;
    }
    return NULL;
}

void mw_glibc_orphan_main(struct mw_glibc *glibc, struct mw_glibc_arena *arena_out,
                          mw_addr *next_out)
{
    mw_addr top;
    *arena_out = (struct mw_glibc_arena){
        .public = {.address = glibc->main_arena, .is_main = true, .attached_threads = MW_UNKNOWN},
        .is_guessed = true,
    };
    *next_out = glibc->first_orphan;
    glibc->ring_is_torn = true; /* nothing is proven */
    const struct mw_glibc_run *run = main_heap_find(glibc, &top);
    if (run) {
        glibc->sbrk_base = run->start;
        arena_out->top = top;
        arena_out->public.system_bytes = run->end - run->start;
    }
    mw_finding_add(glibc->findings, "main-arena-missing", glibc->main_arena,
                   run ? run->end - run->start : 0,
                   run ? "the core lacks libc's data: the main heap was found by its chunks, its "
                         "fastbins and mmapped blocks are unknown"
                       : "the core lacks libc's data: only the heaps of threads were found");
}
