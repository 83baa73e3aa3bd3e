/* heap/musl/layout.h: mallocng's structures as they lie in a 64-bit little-endian target.
 *
 * Equal in every release from 1.2.1 to 1.2.5, on x86-64 and aarch64. Reference: musl 1.2.5
 * src/malloc/mallocng/meta.h and malloc.c. */
#ifndef MW_HEAP_MUSL_LAYOUT_H
#define MW_HEAP_MUSL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MW_MUSL_CLASSES = 48,
    MW_MUSL_CLASS_OWN = 63, /* a block with a mapping of its own, of no class */
    MW_MUSL_UNIT = 16,
    MW_MUSL_SLOT_HEADER = 4, /* of a slot, in the last bytes of the one before it */
    MW_MUSL_GROUP_HEADER = 16,
    MW_MUSL_SLOTS_MAX = 32,
    MW_MUSL_AREA_BYTES = 4096,  /* whatever the page size is */
    MW_MUSL_METAS = 101,        /* of an area */
    MW_MUSL_OWN_BYTES = 131052, /* from here on a block has a mapping of its own */
    MW_MUSL_PAGE_MAX = 65536    /* of the target; a group's mapping is less than one too large */
};

struct mw_musl_context {
    uint64_t secret;
    int32_t init_done;
    uint32_t mmap_counter;
    uint64_t free_meta_head, avail_meta, avail_meta_count, avail_meta_area_count, meta_alloc_shift;
    uint64_t meta_area_head, meta_area_tail, avail_meta_areas;
    uint64_t active[MW_MUSL_CLASSES], usage_by_class[MW_MUSL_CLASSES];
    uint8_t unmap_seq[32], bounces[32], seq;
    uint64_t brk;
};
_Static_assert(sizeof(struct mw_musl_context) == 928, "layout of malloc_context");
_Static_assert(offsetof(struct mw_musl_context, usage_by_class) == 464, "layout of malloc_context");

struct mw_musl_meta {
    uint64_t prev, next, mem;
    uint32_t avail_mask, freed_mask;
    uint64_t bits; /* last_idx 5, freeable 1, sizeclass 6, maplen 52 */
};
_Static_assert(sizeof(struct mw_musl_meta) == 40, "layout of meta");

struct mw_musl_area {
    uint64_t check, next;
    int32_t nslots, padding;
    struct mw_musl_meta metas[MW_MUSL_METAS];
};
_Static_assert(sizeof(struct mw_musl_area) == 24 + 101 * 40, "layout of meta_area");

static inline unsigned mw_musl_last_index(uint64_t bits)
{
    return bits & 31;
}

static inline bool mw_musl_is_freeable(uint64_t bits)
{
    return bits >> 5 & 1;
}

static inline unsigned mw_musl_class(uint64_t bits)
{
    return bits >> 6 & 63;
}

static inline uint64_t mw_musl_pages(uint64_t bits) /* of 4,096 bytes */
{
    return bits >> 12;
}

/* Bytes of a slot of a class, its header included. sizeclass < MW_MUSL_CLASSES. */
uint32_t mw_musl_class_bytes(unsigned sizeclass);

#endif
