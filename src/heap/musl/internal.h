/* heap/musl/internal.h: what the files of this folder share. Inside this folder only.
 *
 *   locate   the context, in the data of libc or of a static program
 *   metas    context → copies of the areas → groups, each checked by itself
 *   nest     groups sorted by address → which lies in which, what is left out
 *   tally    groups → segments and blocks → the account
 *
 * The target is held until the areas are copied, under further stops where one would take too long;
 * everything else is made from the copies, with the target let go. */
#ifndef MW_HEAP_MUSL_INTERNAL_H
#define MW_HEAP_MUSL_INTERNAL_H

#include "base/vec.h"
#include "heap/musl/layout.h"
#include "heap/walker.h"
#include "image/window.h"

/* What takes address space: a group of slots, or a page of metas. */
enum mw_musl_place {
    MW_MUSL_TOP,    /* a segment, or a part of one */
    MW_MUSL_NESTED, /* in a slot of the group before it that encloses it */
    MW_MUSL_DROPPED /* contradicts what was there before it: not counted */
};

struct mw_musl_item {
    mw_addr start, end;
    uint32_t stride;     /* of a slot when it has a class */
    uint32_t free_mask;  /* bit i: slot i is free */
    uint16_t slot_count; /* 1..32; 0: an area of metas */
    uint8_t place;       /* enum mw_musl_place */
    uint8_t sizeclass;
    bool has_mapping; /* the mapping is its own */
    bool is_given;    /* made from unused bytes of a module's data, never given back */
    bool is_damaged;  /* its header does not point back to its meta */
    mw_addr meta;
};

/* An area as it was while the target was held. */
struct mw_musl_copy {
    mw_addr address;
    struct mw_musl_area area;
};

struct mw_musl {
    bool hold; /* the target is not let go */
    struct mw_image *image;
    struct mw_context *context;
    struct mw_findings *findings;
    mw_addr ctx_address;
    struct mw_musl_context ctx;
    MW_VEC(struct mw_musl_item) items;
    MW_VEC(struct mw_musl_copy) areas;
    unsigned stops;       /* under which the areas were copied */
    uint64_t hole_bytes;  /* inside groups */
    size_t changed_areas; /* that were others after the last of several stops */
    bool is_sound;        /* every sum so far is mallocng's own */
};

/* Bytes of one slot. */
static inline uint64_t mw_musl_stride(const struct mw_musl_item *item)
{
    if (item->slot_count == 1 && item->has_mapping)
        return item->end - item->start - MW_MUSL_GROUP_HEADER;
    return item->stride;
}

/* One slot in a mapping that goes when it is freed. */
static inline bool mw_musl_is_own(const struct mw_musl_item *item)
{
    return item->slot_count == 1 && item->has_mapping &&
           (item->sizeclass == MW_MUSL_CLASS_OWN || mw_musl_stride(item) < item->stride);
}

/* locate.c: find the context by its structure in the writable data of libc, or of the program when
 * it has no loader. MW_NOT_FOUND: not there, or malloc was never called. MW_NOMEM. Reads pages in
 * memory only, at most 64 MiB. */
enum mw_status mw_musl_locate(struct mw_musl *musl) MW_MUST_CHECK;

/* The mapping of musl's libc; NULL in a static program. */
const struct mw_mapping *mw_musl_libc(const struct mw_image *image);

/* Does a loader or libc that is not musl's stand in the map? */
bool mw_musl_has_other_libc(const struct mw_image *image);

/* metas.c: copy all areas: all that is read while the target is held. Lets it go and goes on under
 * a further stop when the time of one is over. Damage is a finding and makes the walk unsound.
 * MW_NOMEM; MW_GONE and the like when it cannot be stopped again: then it runs. */
enum mw_status mw_musl_copy_areas(struct mw_musl *musl, struct mw_error *err) MW_MUST_CHECK;

/* metas.c: are copies of several stops those of one moment? Read once more, with the target let go:
 * what is still the same was so at the moment between the two readings. Fills changed_areas. */
void mw_musl_compare_areas(struct mw_musl *musl);

/* metas.c: the copies and their groups as items, in no order; their counters are compared with the
 * context's. MW_NOMEM. */
enum mw_status mw_musl_read_metas(struct mw_musl *musl) MW_MUST_CHECK;

/* nest.c: sort, decide each item's place, and read the headers of groups. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_musl_nest(struct mw_musl *musl) MW_MUST_CHECK;

/* tally.c: feed the visitors, fill the allocator. */
enum mw_status mw_musl_tally(struct mw_musl *musl, const struct mw_heap_options *options,
                             struct mw_allocator *allocator) MW_MUST_CHECK;

/* pages.c: residency of ranges that are asked for in ascending order. */
struct mw_musl_pages {
    struct mw_image *image;
    bool is_known, has_failed;
    mw_addr start, end; /* of what is in flags */
    mw_addr limit;      /* no page is asked for beyond it */
    uint8_t *flags;
};
struct mw_musl_resident {
    uint64_t rss, swap;
};
enum mw_status mw_musl_pages_init(struct mw_musl_pages *pages,
                                  struct mw_image *image) MW_MUST_CHECK;
void mw_musl_pages_deinit(struct mw_musl_pages *pages);
/* Of [start, end), at most up to limit. */
struct mw_musl_resident mw_musl_pages_sum(struct mw_musl_pages *pages, mw_addr start, mw_addr end);

#endif
