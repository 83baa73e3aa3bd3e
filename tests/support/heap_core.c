/* tests/support/heap_core.c: see heap_core.h. */
#include "heap_core.h"

#include "core_builder.h"

#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;
static const mw_addr MORECORE = 0x7fa000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20, MAIN_BYTES = 96 * KIB, FIRST_BYTES = 40 * KIB };

static void blocks_build(struct heap_builder *heap)
{
    for (unsigned i = 0; i < 4; i++) {
        heap_block(heap, 32 + 16 * i, MW_BLOCK_IN_USE);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        if (heap->tcache_count > 0 && i < 3) /* two such runs fit into one bin of 7 */
            heap_block(heap, 112, MW_BLOCK_TCACHE);
        heap_block(heap, 96, MW_BLOCK_FREE);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
    }
    heap_block(heap, 13 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 160, MW_BLOCK_IN_USE);
}

static void main_build(struct heap_builder *heap, enum heap_core_shape shape)
{
    bool is_split = shape == HEAP_CORE_FOREIGN || shape == HEAP_CORE_MORECORE;
    heap_map(heap, BRK, MAIN_BYTES, "[heap]");
    mw_addr limit = BRK + (is_split ? FIRST_BYTES : MAIN_BYTES);
    heap_segment(heap, MW_SEGMENT_BRK, BRK, limit);
    heap_tcache_new(heap);
    blocks_build(heap);
    if (is_split)
        heap_fences(heap, MW_BLOCK_FREE);
    if (shape == HEAP_CORE_FOREIGN) {
        heap_foreign(heap, limit, 8 * KIB);
        heap_segment(heap, MW_SEGMENT_BRK, limit + 8 * KIB, BRK + MAIN_BYTES);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
    } else if (shape == HEAP_CORE_MORECORE) {
        heap_map(heap, MORECORE, 64 * KIB, "");
        heap_segment(heap, MW_SEGMENT_MORECORE, MORECORE, MORECORE + 64 * KIB);
        heap->arenas[0].flags |= 2;
        blocks_build(heap);
    }
    heap_top(heap);
}

/* Bytes that are neither zeros nor anything else that a walk knows. */
static void contents_fill(struct heap_builder *heap)
{
    for (size_t i = 0; i < heap->expect_count; i++) {
        const struct mw_block *block = &heap->expects[i].block;
        if (block->state == MW_BLOCK_IN_USE && block->size > 48 &&
            block->size != heap->family->tcache_chunk)
            memset(heap_bytes(heap, block->address + 32), 'a' + (int)(i % 26),
                   (size_t)block->size - 48);
    }
}

struct heap_builder *heap_core_build(const struct heap_family *family, enum heap_core_shape shape)
{
    struct heap_builder *heap = heap_new(family);
    bool has_threads = shape != HEAP_CORE_NO_THREADS;
    main_build(heap, shape);
    if (has_threads)
        heap_thread(heap, STACKS, true);
    unsigned arena = heap_arena(heap, FIRST_HEAP, 48 * KIB);
    heap_tcache_new(heap);
    blocks_build(heap);
    heap_thread_fences(heap, MW_BLOCK_FREE);
    if (has_threads)
        heap_thread(heap, STACKS + 64 * KIB, true);
    heap_arena_more(heap, arena, FIRST_HEAP + HEAP_MAX, 40 * KIB);
    heap_block(heap, 20 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_arena(heap, FIRST_HEAP + 2ull * HEAP_MAX, 32 * KIB);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_mmapped(heap, MMAPPED, 12 * KIB, 0, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + 12 * KIB, 8 * KIB, 48, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + 64 * KIB, 20 * KIB, 8 * KIB - 16, MW_BLOCK_IN_USE);
    contents_fill(heap);
    heap_finish(heap);
    return heap;
}

/* -- as memory ------------------------------------------------------------------------------- */

static void counter_set(struct mw_mapping *map, enum mw_counter counter, uint64_t value)
{
    map->known |= 1u << counter;
    map->counters[counter] = value;
}

void heap_core_open(struct heap_builder *heap, struct mw_image *image_out)
{
    heap_open(heap, image_out);
    for (size_t i = 0; i < image_out->regions.count; i++) {
        struct mw_mapping *map = &image_out->regions.items[i];
        uint64_t resident = 0, swapped = 0;
        for (mw_addr at = map->start; at < map->end; at += HEAP_PAGE) {
            uint8_t flags = 0;
            if (mw_image_pages(image_out, at, 1, &flags, NULL) != MW_OK)
                abort();
            resident += mw_page_is_resident(flags) ? HEAP_PAGE : 0;
            swapped += flags & MW_PAGE_SWAPPED ? HEAP_PAGE : 0;
        }
        counter_set(map, MW_COUNTER_RSS, resident);
        counter_set(map, MW_COUNTER_PSS, resident);
        counter_set(map, MW_COUNTER_SWAP, swapped);
        counter_set(map, MW_COUNTER_ANONYMOUS, map->inode ? 0 : resident);
    }
    image_out->can |= MW_CAN_COUNTERS;
}

/* -- as a core ------------------------------------------------------------------------------- */

/* NT_PRSTATUS of x86-64: registers from byte 112, rsp the 20th, fs_base the 22nd. */
static void thread_put(struct core_builder *core, int32_t tid, mw_addr thread_pointer)
{
    uint8_t bytes[336] = {0};
    const uint64_t stack = thread_pointer - 0x800;
    bytes[12] = 11;
    memcpy(bytes + 32, &tid, sizeof tid);
    memcpy(bytes + 112 + 19 * 8, &stack, sizeof stack);
    memcpy(bytes + 112 + 21 * 8, &thread_pointer, sizeof thread_pointer);
    core_add_note(core, "CORE", NT_PRSTATUS, bytes, sizeof bytes);
}

static void notes_put(struct core_builder *core, const struct heap_builder *heap)
{
    struct core_file files[8];
    size_t file_count = 0;
    for (size_t i = 0; i < heap->thread_count || i == 0; i++) {
        thread_put(core, (int32_t)(4711 + i),
                   i < heap->thread_count ? heap->thread_pointers[i] : 0);
        if (i == 0)
            core_add_process(core, 4711, "heapy", "heapy --with 'arguments'");
    }
    const uint64_t auxv[][2] = {{AT_PAGESZ, HEAP_PAGE}, {AT_ENTRY, 0x555555555040}, {AT_NULL, 0}};
    core_add_auxv(core, auxv, sizeof auxv / sizeof *auxv);
    for (size_t i = 0; i < heap->region_count && file_count < 8; i++) {
        const struct heap_region *region = &heap->regions[i];
        if (region->name[0] == '/')
            files[file_count++] =
                (struct core_file){region->start, region->start + region->size, 0, region->name};
    }
    core_add_files(core, files, file_count, HEAP_PAGE);
}

static int compare_regions(const void *a, const void *b)
{
    const struct heap_region *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

uint8_t *heap_core_file(const struct heap_builder *heap, size_t *length_out)
{
    struct core_builder *core = calloc(1, sizeof *core);
    struct heap_region *regions = calloc(heap->region_count, sizeof *regions);
    assert(core && regions);
    memcpy(regions, heap->regions, heap->region_count * sizeof *regions);
    qsort(regions, heap->region_count, sizeof *regions, compare_regions);
    notes_put(core, heap);
    for (size_t i = 0; i < heap->region_count; i++) {
        uint32_t flags = (regions[i].perms & MW_PERM_READ ? PF_R : 0u) |
                         (regions[i].perms & MW_PERM_WRITE ? PF_W : 0u);
        core_add_segment(core, regions[i].start, regions[i].size, regions[i].size, flags,
                         regions[i].bytes);
    }
    uint8_t *bytes = core_build(core, length_out);
    free(regions);
    free(core);
    return bytes;
}

void heap_core_punch(int fd, const uint8_t *bytes, size_t length)
{
    static const uint8_t zeros[HEAP_PAGE];
    bool is_odd = false;
    for (size_t at = 0; at + sizeof zeros <= length; at += sizeof zeros)
        if (memcmp(bytes + at, zeros, sizeof zeros) == 0 && (is_odd = !is_odd) &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, sizeof zeros) != 0)
            abort();
}
