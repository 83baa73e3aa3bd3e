/* heap/allocator.c: what is the same for every walked allocator: claims and release. */
#include "heap/walker.h"

#include <stdlib.h>

static const char *segment_owner(const struct mw_heap_segment *segment)
{
    switch (segment->kind) {
    case MW_SEGMENT_BRK:
        return "glibc main arena";
    case MW_SEGMENT_MORECORE:
        return "glibc main arena, mmapped";
    case MW_SEGMENT_HEAP:
        return "glibc thread arena";
    case MW_SEGMENT_MMAPPED:
        return "glibc mmapped block";
    }
    return "malloc";
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
            .owner = segment_owner(segment),
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
