/* tests/fuzz/fuzz_glibc.c: damages a glibc heap and walks it.
 *
 * Input: a byte that chooses the release, a byte of shape (threads, foreign sbrk, what is unknown),
 * then patches of 4 + 0..8 bytes:
 *
 *     op | place | index (u16) | value
 *
 * A place is a header or link of a block, or a word of an arena, a heap_info, mp_, a tcache struct,
 * TLS or any memory; op writes a raw word, an address of the heap, a size, adds, flips a bit, or
 * changes a page or a region. With shape bit 7 the rest of the input is the memory of [heap]
 * itself. The oracle is heap_meaning_wrong(): blocks tile their segments and ascend, segments do
 * not overlap and are mapped, sums are conserved, resident bytes are what the pages say; and a walk
 * of this half MiB has the bound of effort.h. */
#include "effort.h"
#include "fuzz_input.h"
#include "heap_check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;
static const mw_addr MORECORE = 0x7fa000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20, PATCHES_MAX = 256 };

enum shape {
    SHAPE_THREADS = 1,  /* thread pointers are known */
    SHAPE_FOREIGN = 2,  /* a foreign sbrk */
    SHAPE_MORECORE = 4, /* brk was blocked */
    SHAPE_NO_PAGES = 8, /* residency is not known */
    SHAPE_LIVE = 16,    /* locks count */
    SHAPE_AARCH64 = 32,
    SHAPE_MLOCKED = 64,
    SHAPE_RAW = 128,
};

static void blocks_build(struct heap_builder *heap)
{
    heap_tcache_new(heap);
    for (unsigned i = 0; i < 4; i++) {
        heap_block(heap, 32 + 16 * i, MW_BLOCK_IN_USE);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        if (heap->tcache_count > 0)
            heap_block(heap, 112, MW_BLOCK_TCACHE);
        heap_block(heap, 96, MW_BLOCK_FREE);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
    }
    heap_block(heap, 9 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 160, MW_BLOCK_IN_USE);
}

static void main_build(struct heap_builder *heap, uint8_t shape)
{
    heap_map(heap, BRK, 64 * KIB, "[heap]");
    if (shape & SHAPE_MLOCKED)
        heap_region_of(heap, BRK)->vm_flags = MW_VM_LOCKED;
    uint64_t first = shape & (SHAPE_FOREIGN | SHAPE_MORECORE) ? 24 * KIB : 64 * KIB;
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + first);
    blocks_build(heap);
    if (first != 64 * KIB)
        heap_fences(heap, MW_BLOCK_FREE);
    if (shape & SHAPE_MORECORE) {
        heap_map(heap, MORECORE, 48 * KIB, "");
        heap_segment(heap, MW_SEGMENT_MORECORE, MORECORE, MORECORE + 48 * KIB);
        heap->arenas[0].flags |= 2;
        blocks_build(heap);
    } else if (shape & SHAPE_FOREIGN) {
        heap_foreign(heap, BRK + first, 8 * KIB);
        heap_segment(heap, MW_SEGMENT_BRK, BRK + 32 * KIB, BRK + 64 * KIB);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
    }
    heap_top(heap);
}

static struct heap_builder *build(const uint8_t *bytes, size_t size, uint8_t shape)
{
    struct heap_builder *heap = heap_new(&heap_families[size ? bytes[0] % heap_family_count : 0]);
    main_build(heap, shape);
    if (shape & SHAPE_THREADS)
        heap_thread(heap, STACKS, true);
    unsigned arena = heap_arena(heap, FIRST_HEAP, 40 * KIB);
    blocks_build(heap);
    heap_thread_fences(heap, MW_BLOCK_FREE);
    if (shape & SHAPE_THREADS)
        heap_thread(heap, STACKS + 64 * KIB, true);
    heap_arena_more(heap, arena, FIRST_HEAP + HEAP_MAX, 32 * KIB);
    heap_block(heap, 20 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_arena(heap, FIRST_HEAP + 2ull * HEAP_MAX, 32 * KIB);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_mmapped(heap, MMAPPED, 12 * KIB, 0, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + 12 * KIB, 8 * KIB, 48, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + 64 * KIB, 20 * KIB, 8 * KIB - 16, MW_BLOCK_IN_USE);
    heap_finish(heap);
    return heap;
}

/* An address that a patch is about: most of them where the walker looks. */
static mw_addr place_of(const struct heap_builder *heap, unsigned place, size_t index)
{
    const struct heap_family *family = heap->family;
    const struct heap_expect *block = &heap->expects[index / 8 % heap->expect_count];
    const struct heap_arena *arena = &heap->arenas[index / 512 % heap->arena_count];
    const struct heap_region *region = &heap->regions[index % heap->region_count];
    switch (place % 8) {
    case 0:
    case 1:
        return block->block.address + index % 4 * 8;
    case 2: /* head and tail of malloc_state: the bins are much alike */
        return arena->address + index % 16 * 8;
    case 3:
        return arena->address + family->bins + 1984 + index % 20 * 8;
    case 4:
        return heap->mp + index % (family->par_size / 8) * 8;
    case 5:
        return FIRST_HEAP + index / 8 % 3 * (mw_addr)HEAP_MAX + index % 8 * 8;
    case 6:
        return heap->tcache_count
                   ? heap->tcaches[index / 256 % heap->tcache_count].chunk + 16 + index % 96 * 8
                   : heap->main_arena + index % 270 * 8;
    default:
        return region->start + index * 8 % region->size;
    }
}

static void patch_word(struct heap_builder *heap, unsigned op, mw_addr at, struct input *input)
{
    uint64_t word = heap_get(heap, at);
    switch (op) {
    case 0:
        word = take(input, 8);
        break;
    case 1: /* an address where the walker looks */
        word = take(input, 3);
        word = place_of(heap, (unsigned)word & 0xff, word >> 8) & ~(uint64_t)7;
        break;
    case 2:
        word = take_odd(input);
        break;
    case 3:
        word += (uint64_t)(int64_t)(int8_t)take(input, 1) * 16;
        break;
    case 4:
        word ^= (uint64_t)1 << take(input, 1) % 64;
        break;
    default: /* as a safe link */
        word = place_of(heap, 0, (size_t)take(input, 2)) ^ at >> 12;
        break;
    }
    heap_put(heap, at, word);
}

static bool has_word(const struct heap_builder *heap, mw_addr at)
{
    for (size_t i = 0; i < heap->region_count; i++)
        if (at >= heap->regions[i].start &&
            at - heap->regions[i].start + 8 <= heap->regions[i].size)
            return true;
    return false;
}

static void patch(struct heap_builder *heap, struct input *input)
{
    unsigned op = (unsigned)take(input, 1) % 8, place = (unsigned)take(input, 1);
    size_t index = (size_t)take(input, 2);
    mw_addr at = place_of(heap, place, index);
    struct heap_region *region = &heap->regions[place % heap->region_count];
    if (op == 6) { /* flags of some pages */
        size_t pages = region->size / HEAP_PAGE, count = index % 16 + 1;
        uint8_t flags = (uint8_t)(take(input, 1) & 63);
        for (size_t i = index / 16 % pages; i < pages && count-- > 0; i++)
            region->pages[i] = flags;
    } else if (op == 7) { /* the end of a region is not there, or is somebody else's */
        uint64_t cut = (index % 8 + 1) * HEAP_PAGE;
        if (index & 64)
            region->perms ^= 1u << index % 4;
        else if (index & 32)
            snprintf(region->name, sizeof region->name, "%s", index & 16 ? "" : "[heap]");
        else if (region->size > cut)
            region->size -= cut;
    } else if (has_word(heap, at)) {
        patch_word(heap, op, at, input);
    }
}

static void walk_and_judge(struct heap_builder *heap, uint8_t shape)
{
    struct mw_image image;
    struct heap_walked walked = {0};
    heap_open(heap, &image);
    if (shape & SHAPE_NO_PAGES)
        image.can &= ~(unsigned)MW_CAN_PAGES;
    if (shape & SHAPE_LIVE)
        image.kind = MW_IMAGE_LIVE;
    if (shape & SHAPE_AARCH64)
        image.arch = MW_ARCH_AARCH64;
    double began = effort_now();
    heap_walk(&image, NULL, &walked);
    const char *wrong = effort_wrong(began);
    if (!wrong)
        wrong = heap_meaning_wrong(&image, &walked);
    if (wrong) {
        fprintf(stderr, "fuzz_glibc: glibc %s: %s\n", heap->family->name, wrong);
        abort();
    }
    heap_walked_deinit(&walked);
    mw_image_close(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t shape = size > 1 ? bytes[1] : 0;
    struct heap_builder *heap = build(bytes, size, shape);
    struct input input = {bytes, size, 2};
    if (shape & SHAPE_RAW) {
        struct heap_region *region = heap_region_of(heap, BRK);
        if (size > 2)
            memcpy(region->bytes, bytes + 2, size - 2 < region->size ? size - 2 : region->size);
    } else {
        for (int i = 0; i < PATCHES_MAX && input.at + 4 <= size; i++)
            patch(heap, &input);
    }
    walk_and_judge(heap, shape);
    heap_delete(heap);
    return 0;
}
