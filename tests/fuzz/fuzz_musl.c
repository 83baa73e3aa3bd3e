/* tests/fuzz/fuzz_musl.c: damages a heap of mallocng and walks it.
 *
 * Input: a byte of shape (static program, residency unknown, live, a module's data alone), then
 * patches of 4 + 0..8 bytes:
 *
 *     op | place | index (u16) | value
 *
 * A place is a word of a meta, of the context, of a group's header, of an area's head, or of any
 * memory; op writes a raw word, an address of one of these, an odd value, adds, flips a bit, or
 * changes a page or a whole meta. The oracle is musl_meaning_wrong(): blocks tile their segments,
 * segments do not overlap and are mapped, bytes are conserved, resident bytes are what the pages
 * say, and what does not add up is said; and effort.h's. */
#include "effort.h"
#include "fuzz_input.h"
#include "musl_builder.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
    SHAPE_STATIC = 1,
    SHAPE_NO_PAGES = 2,
    SHAPE_LIVE = 4,
    SHAPE_NO_NAMES = 8,
    METAS = 12, /* of the example, in its second area */
    PATCHES_MAX = 256,
};

/* An address that a patch is about: most of them where the walker looks. */
static mw_addr place_of(struct musl_heap *heap, unsigned place, size_t index)
{
    static const struct {
        mw_addr start;
        size_t bytes;
    } all[] = {
        {MUSL_DATA, MUSL_DATA_PAGES * MUSL_PAGE},
        {MUSL_AREAS, MUSL_AREA_PAGES * MUSL_PAGE},
        {MUSL_HEAP, MUSL_HEAP_PAGES * MUSL_PAGE},
        {MUSL_OWN, MUSL_OWN_PAGES * MUSL_PAGE},
    };
    switch (place % 8) {
    case 0:
    case 1: /* of the metas in use and two beside them */
    case 2:
        return musl_meta_address(MW_MUSL_METAS - 1 + index / 8 % (METAS + 2)) + index % 5 * 8;
    case 3:
        return MUSL_DATA + MUSL_CONTEXT_AT + index % (sizeof(struct mw_musl_context) / 8) * 8;
    case 4: {
        mw_addr mem = musl_meta(heap, MW_MUSL_METAS + index / 2 % METAS)->mem;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (mem >= all[i].start && mem - all[i].start < all[i].bytes - 16)
                return (mem & ~(mw_addr)7) + index % 2 * 8;
        return MUSL_HEAP;
    }
    case 5:
        return MUSL_AREAS + index / 4 % MUSL_AREA_PAGES * MUSL_PAGE + index % 4 * 8;
    case 6: /* where slots begin */
        return MUSL_HEAP + index * 16 % (MUSL_HEAP_PAGES * MUSL_PAGE);
    default:
        return all[place / 8 % 4].start + index * 8 % all[place / 8 % 4].bytes;
    }
}

static void patch_word(struct musl_heap *heap, unsigned op, mw_addr at, struct input *input)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   MUSL_SECRET,
                                   31,
                                   32,
                                   63 << 6,
                                   47 << 6,
                                   48 << 6,
                                   4096,
                                   4095,
                                   (uint64_t)1 << 32,
                                   (uint64_t)1 << 47,
                                   (uint64_t)1 << 63,
                                   UINT64_MAX,
                                   UINT64_MAX & ~(uint64_t)15,
                                   UINT64_MAX & ~(uint64_t)4095};
    uint8_t *bytes = musl_bytes(heap, at);
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    switch (op) {
    case 0:
        word = take(input, 8);
        break;
    case 1:
        word = take(input, 3);
        word = place_of(heap, (unsigned)word & 0xff, word >> 8);
        break;
    case 2:
        word = odd[take(input, 1) % (sizeof odd / sizeof *odd)];
        break;
    case 3:
        word += (uint64_t)(int64_t)(int8_t)take(input, 1) * 16;
        break;
    case 4:
        word ^= (uint64_t)1 << take(input, 1) % 64;
        break;
    default: /* an address and a whole page number */
        word = (MUSL_HEAP + take(input, 1) * MUSL_PAGE) + take(input, 1) * 16;
        break;
    }
    memcpy(bytes, &word, sizeof word);
}

/* A meta that may be one: a group of any class, anywhere in the heap. */
static void patch_meta(struct musl_heap *heap, size_t index, struct input *input)
{
    struct mw_musl_meta *meta = musl_meta(heap, MW_MUSL_METAS + index % (METAS + 4));
    uint64_t seed = take(input, 7);
    uint64_t count = seed & 31, sizeclass = seed >> 5 & 63, pages = seed >> 11 & 15;
    meta->mem = MUSL_HEAP + (seed >> 15 & 127) * MUSL_PAGE + (seed >> 22 & 511) * 16;
    meta->bits = count | (seed >> 31 & 1) << 5 | sizeclass << 6 | pages << 12;
    meta->freed_mask = (uint32_t)(seed >> 32) & (uint32_t)((2ull << count) - 1);
    meta->avail_mask = 0;
    uint64_t address = musl_meta_address(MW_MUSL_METAS + index % (METAS + 4));
    if (meta->mem < MUSL_HEAP + sizeof heap->heap && !(seed >> 40 & 3))
        memcpy(musl_bytes(heap, meta->mem), &address, sizeof address);
}

static void patch(struct musl_heap *heap, struct input *input)
{
    unsigned op = (unsigned)take(input, 1) % 8, place = (unsigned)take(input, 1);
    size_t index = (size_t)take(input, 2);
    if (op == 6) {
        uint8_t flags = (uint8_t)(take(input, 1) & 63);
        for (size_t i = index / 16 % MUSL_HEAP_PAGES, n = index % 16 + 1;
             i < MUSL_HEAP_PAGES && n-- > 0; i++)
            heap->heap_pages[i] = flags;
    } else if (op == 7) {
        patch_meta(heap, index, input);
    } else {
        patch_word(heap, op, place_of(heap, place, index), input);
    }
}

static void walk_and_judge(struct musl_heap *heap, unsigned shape)
{
    struct mw_image image;
    struct musl_walked walked = {0};
    heap->is_static = shape & SHAPE_STATIC;
    musl_open(heap, &image);
    if (shape & SHAPE_NO_PAGES)
        image.can &= ~(unsigned)MW_CAN_PAGES;
    if (shape & SHAPE_LIVE)
        image.kind = MW_IMAGE_LIVE;
    if (shape & SHAPE_NO_NAMES)
        image.regions.items[3].name = "";
    double began = effort_now();
    musl_walk(&image, &walked);
    const char *wrong = effort_wrong(began);
    if (!wrong)
        wrong = musl_meaning_wrong(&image, &walked);
    if (wrong) {
        fprintf(stderr, "fuzz_musl: %s\n", wrong);
        abort();
    }
    musl_walked_deinit(&walked);
    mw_image_close(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, size, 0};
    unsigned shape = (unsigned)take(&input, 1);
    struct musl_heap *heap = musl_heap_example();
    for (unsigned i = 0; i < PATCHES_MAX && input.at < input.size; i++)
        patch(heap, &input);
    walk_and_judge(heap, shape);
    musl_heap_free(heap);
    return 0;
}
