/* heap/allocator.c: what is the same for every walked allocator: claims and release; and the one
 * table of what differs between their segments. */
#include "heap/walker.h"

#include <assert.h>
#include <stdlib.h>

/* What is special about a kind of segment. A block of glibc begins 16 bytes below what malloc
 * returned and reaches 8 bytes into the next one; a slot of musl begins where malloc may return it
 * and ends with the header of the next one. */
static const struct {
    const char *owner;
    struct mw_block_shape shape;
} kinds[] = {
    [MW_SEGMENT_BRK] = {"glibc main arena", {16, 8}},
    [MW_SEGMENT_MORECORE] = {"glibc main arena, mmapped", {16, 8}},
    [MW_SEGMENT_HEAP] = {"glibc thread arena", {16, 8}},
    [MW_SEGMENT_MMAPPED] = {"glibc mmapped block", {16, 8}},
    [MW_SEGMENT_GROUPS] = {"musl malloc", {0, 4}},
    [MW_SEGMENT_SLOT] = {"musl mmapped block", {0, 4}},
    [MW_SEGMENT_METAS] = {"musl malloc metadata", {0, 0}},
};

struct mw_block_shape mw_block_shape(enum mw_segment_kind kind)
{
    assert((size_t)kind < sizeof kinds / sizeof *kinds);
    return kinds[kind].shape;
}

struct mw_block_shape mw_allocator_block_shape(const struct mw_allocator *allocator)
{
    for (size_t i = 0; i < allocator->segment_count; i++)
        if (allocator->segments[i].kind != MW_SEGMENT_METAS) /* no blocks in there */
            return mw_block_shape(allocator->segments[i].kind);
    return mw_block_shape(MW_SEGMENT_BRK);
}

enum mw_status mw_allocator_claim(const struct mw_allocator *allocator, struct mw_claims *claims)
{
    for (size_t i = 0; i < allocator->segment_count; i++) {
        const struct mw_heap_segment *segment = &allocator->segments[i];
        struct mw_claim claim = {
            .start = segment->start,
            .end = segment->end,
            .category = MW_CATEGORY_MALLOC_IN_USE,
            .priority = MW_CLAIM_ALLOCATOR,
            .owner = kinds[segment->kind].owner,
            .has_split = true,
            .split = segment->split,
        };
        claim.split.in_use_count = segment->in_use_count;
        claim.split.free_count = segment->free_count;
        enum mw_status status = mw_claims_add(claims, &claim);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

void mw_allocator_deinit(struct mw_allocator *allocator)
{
    free(allocator->arenas);
    free(allocator->segments);
    free(allocator->sizes);
    free(allocator->pins);
    *allocator = (struct mw_allocator){0};
}
