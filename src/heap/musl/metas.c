/* heap/musl/metas.c: the metas of all groups, from the chain of areas.
 *
 * An area is a page of 4,096 bytes that begins with the secret; malloc keeps it apart from what the
 * program may overrun, so what it says of a group is the truth about the group's slots. A meta
 * stands for a group when it points to one; else it is on the list of free ones (it has neighbours)
 * or was never used (it has none). Trusts nothing: an area must be mapped, writable and have the
 * secret, the chain may be damaged or closed in itself, and a group must hold its slots, little
 * else and lie in private memory that is writable at both ends. Linear in areas and in the mappings
 * of groups. Reference: musl 1.2.5 src/malloc/mallocng/{meta.h,malloc.c}. */
#include "heap/musl/internal.h"

#include "base/clock.h"
#include "heap/stops.h"

#include <assert.h>
#include <string.h>

#define ITEMS_MAX ((size_t)1 << 25)
#define AREAS_MAX (ITEMS_MAX / (MW_MUSL_METAS + 1))
#define HOLES_MAX ((uint64_t)64 << 30)

static enum mw_status item_push(struct mw_musl *musl, const struct mw_musl_item *item)
{
    enum mw_status status = mw_vec_push(&musl->items, ITEMS_MAX, *item);
    assert(status != MW_LIMIT); /* no more areas than that are copied */
    return status;
}

/* Is all of [start, end) mapped, private and writable? Linear in the mappings that it touches. */
static bool is_writable(const struct mw_image *image, mw_addr start, mw_addr end)
{
    const uint32_t needed = MW_PERM_READ | MW_PERM_WRITE;
    size_t i = mw_mapping_lower_bound(&image->regions, start);
    for (mw_addr at = start; at < end; i++) {
        if (i == image->regions.count)
            return false;
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->start > at || (map->perms & (needed | MW_PERM_SHARED)) != needed)
            return false;
        at = map->end;
    }
    return true;
}

/* May a group lie there? Its first and last page have bytes of malloc's own, so they are as malloc
 * made them: private and writable. Pages between may lie inside one block, and a program may do to
 * those what it likes: guards, and in a child holes where the parent kept them to itself. Holes
 * cost time and no memory: those of all groups together have a limit. */
static bool is_group_place(struct mw_musl *musl, mw_addr start, mw_addr end)
{
    const struct mw_image *image = musl->image;
    mw_addr page = ~((mw_addr)image->page_size - 1);
    uint64_t holes = 0;
    if (end - start < MW_MUSL_GROUP_HEADER ||
        !is_writable(image, start, start + MW_MUSL_GROUP_HEADER) ||
        !is_writable(image, (end - 1) & page, end))
        return false;
    mw_addr at = start;
    for (size_t i = mw_mapping_lower_bound(&image->regions, start); at < end; i++) {
        assert(i < image->regions.count); /* the last page is in one */
        const struct mw_mapping *map = &image->regions.items[i];
        holes += map->start > at ? map->start - at : 0;
        at = map->end;
        if (map->perms & MW_PERM_SHARED ||
            !(map->perms & MW_PERM_WRITE || mw_mapping_is_anonymous(map)))
            return false;
    }
    if (holes > HOLES_MAX - musl->hole_bytes)
        return false;
    musl->hole_bytes += holes;
    return true;
}

/* What a meta says of its group, as an item. False: it contradicts itself. */
static bool item_from_meta(const struct mw_musl_meta *meta, struct mw_musl_item *item)
{
    unsigned sizeclass = mw_musl_class(meta->bits), count = mw_musl_last_index(meta->bits) + 1;
    uint64_t pages = mw_musl_pages(meta->bits), bytes;
    bool has_class = sizeclass < MW_MUSL_CLASSES;
    *item = (struct mw_musl_item){
        .start = meta->mem,
        .stride = has_class ? mw_musl_class_bytes(sizeclass) : 0,
        .free_mask = (meta->avail_mask | meta->freed_mask),
        .slot_count = (uint16_t)count,
        .sizeclass = (uint8_t)sizeclass,
        .has_mapping = pages != 0,
        .is_given = pages == 0 && !mw_musl_is_freeable(meta->bits),
    };
    uint64_t slots = MW_MUSL_GROUP_HEADER + (uint64_t)count * item->stride;
    if (pages != 0) {
        if (__builtin_mul_overflow(pages, (uint64_t)MW_MUSL_AREA_BYTES, &bytes) ||
            meta->mem % MW_MUSL_AREA_BYTES != 0 || (count > 1 && slots > bytes) ||
            (has_class && bytes > slots && bytes - slots >= MW_MUSL_PAGE_MAX))
            return false;
    } else {
        bytes = slots;
    }
    if (!has_class && (sizeclass != MW_MUSL_CLASS_OWN || count != 1 || pages == 0))
        return false;
    return meta->mem % MW_MUSL_UNIT == 0 && !__builtin_add_overflow(meta->mem, bytes, &item->end) &&
           (count == MW_MUSL_SLOTS_MAX || item->free_mask >> count == 0) &&
           (meta->avail_mask & meta->freed_mask) == 0;
}

/* What the metas add up to. */
struct counts {
    uint64_t usage[MW_MUSL_CLASSES]; /* slots, of groups that may be given back */
    uint64_t metas_unused;           /* neither a group's nor on the list of free ones */
};

static enum mw_status meta_take(struct mw_musl *musl, const struct mw_musl_meta *meta,
                                mw_addr address, struct counts *counts)
{
    struct mw_musl_item item;
    if (meta->mem == 0) {
        counts->metas_unused += meta->next == 0;
        return MW_OK;
    }
    if (!item_from_meta(meta, &item) || !is_group_place(musl, item.start, item.end)) {
        musl->is_sound = false;
        mw_finding_add(musl->findings, "meta-damaged", address, 0,
                       "what malloc notes of a group of slots makes no sense or lies in no "
                       "writable memory: the group was left out");
        return MW_OK;
    }
    item.meta = address;
    if (item.sizeclass < MW_MUSL_CLASSES && !item.is_given)
        counts->usage[item.sizeclass] += item.slot_count;
    return item_push(musl, &item);
}

/* The area itself takes a page of metadata; then its metas. */
static enum mw_status area_take(struct mw_musl *musl, const struct mw_musl_copy *copy,
                                struct counts *counts)
{
    struct mw_musl_item item = {.start = copy->address, .end = copy->address + MW_MUSL_AREA_BYTES};
    enum mw_status status = item_push(musl, &item);
    for (size_t i = 0; i < MW_MUSL_METAS && status == MW_OK; i++)
        status = meta_take(musl, &copy->area.metas[i],
                           copy->address + offsetof(struct mw_musl_area, metas) +
                               i * sizeof copy->area.metas[0],
                           counts);
    return status;
}

static bool area_read(struct mw_musl *musl, mw_addr address, struct mw_musl_area *area)
{
    return address % MW_MUSL_AREA_BYTES == 0 && address <= UINT64_MAX - MW_MUSL_AREA_BYTES &&
           mw_image_read(musl->image, address, area, sizeof *area) == MW_OK &&
           area->check == musl->ctx.secret && area->nslots == MW_MUSL_METAS &&
           is_writable(musl->image, address, address + MW_MUSL_AREA_BYTES);
}

static void chain_torn(struct mw_musl *musl, mw_addr address)
{
    musl->is_sound = false;
    mw_finding_add(musl->findings, "meta-area-damaged", address, 0,
                   "the chain of malloc's areas of metadata is torn: groups behind it are not "
                   "known");
}

/* The chain's head, and where on it the walk is: a closed one is noticed by Brent's method, a mark
 * that is moved on to where the walk is, each time after twice as many steps. */
struct chain {
    mw_addr at, last, mark;
    uint64_t steps, steps_to_mark;
    bool is_lost; /* the context changed between two stops: what was to follow is not known */
};

/* Copies areas until the end of the chain or the time: MW_OK, chain->at tells which. MW_FAULT: the
 * chain is torn here. */
static enum mw_status areas_copy(struct mw_musl *musl, struct chain *chain, uint64_t until_ns)
{
    while (chain->at != 0) {
        struct mw_musl_copy copy = {.address = chain->at};
        if (chain->at == chain->mark || !area_read(musl, chain->at, &copy.area))
            return MW_FAULT;
        enum mw_status status = mw_vec_push(&musl->areas, AREAS_MAX, copy);
        if (status != MW_OK)
            return status == MW_LIMIT ? MW_FAULT : status;
        chain->last = chain->at;
        chain->at = copy.area.next;
        if (++chain->steps == chain->steps_to_mark) {
            chain->mark = chain->last;
            chain->steps_to_mark *= 2;
        }
        if (until_ns && mw_clock_monotonic_ns() > until_ns)
            break;
    }
    return MW_OK;
}

/* A further stop: the context is that of now, and the area at the end may have a successor. Areas
 * are never given back, so those that were copied still lead here. */
static enum mw_status stop_again(struct mw_musl *musl, struct chain *chain, struct mw_error *err)
{
    struct mw_musl_context ctx;
    enum mw_status status = mw_heap_breathe(musl->image, err);
    if (status != MW_OK)
        return status;
    musl->stops++;
    if (mw_image_read(musl->image, musl->ctx_address, &ctx, sizeof ctx) != MW_OK ||
        ctx.secret != musl->ctx.secret) {
        chain_torn(musl, chain->at);
        chain->at = 0;
        chain->is_lost = true;
        return MW_OK;
    }
    musl->ctx = ctx;
    return MW_OK;
}

/* Does a chain that was walked to its end end where malloc says? */
static void tail_compare(struct mw_musl *musl, const struct chain *chain)
{
    if (chain->is_lost || chain->last == musl->ctx.meta_area_tail)
        return;
    musl->is_sound = false;
    mw_finding_add(musl->findings, "meta-tail-differs", musl->ctx_address, 0,
                   "the chain of malloc's areas of metadata does not end at the one that malloc "
                   "calls the last: groups may be missing");
}

enum mw_status mw_musl_copy_areas(struct mw_musl *musl, struct mw_error *err)
{
    struct chain chain = {.at = musl->ctx.meta_area_head, .steps_to_mark = 1};
    enum mw_status status;
    for (musl->stops = 1;;) {
        uint64_t until_ns = musl->hold ? 0 : mw_heap_stop_until(musl->image, musl->context);
        status = areas_copy(musl, &chain, until_ns);
        if (status != MW_OK || chain.at == 0)
            break;
        if (mw_context_canceled(musl->context))
            return MW_CANCELED;
        status = stop_again(musl, &chain, err);
        if (status != MW_OK)
            return status;
    }
    if (status == MW_FAULT) {
        chain_torn(musl, chain.at);
        return MW_OK;
    }
    if (status == MW_OK)
        tail_compare(musl, &chain);
    return status;
}

void mw_musl_compare_areas(struct mw_musl *musl)
{
    struct mw_musl_area area;
    musl->changed_areas = 0;
    for (size_t i = 0; i < musl->areas.count; i++) {
        const struct mw_musl_copy *copy = &musl->areas.items[i];
        if (mw_image_read(musl->image, copy->address, &area, sizeof area) != MW_OK ||
            memcmp(&area, &copy->area, sizeof area) != 0)
            musl->changed_areas++;
    }
    if (musl->changed_areas > 0)
        musl->is_sound = false;
}

/* Do the sums equal mallocng's own? Not in the middle of making or freeing a group. */
static void counts_compare(struct mw_musl *musl, const struct counts *counts)
{
    const struct mw_musl_context *ctx = &musl->ctx;
    bool is_equal = counts->metas_unused == ctx->avail_meta_count;
    for (size_t i = 0; i < MW_MUSL_CLASSES; i++)
        is_equal = is_equal && counts->usage[i] == ctx->usage_by_class[i];
    if (is_equal)
        return;
    musl->is_sound = false;
    mw_finding_add(musl->findings, "usage-differs", musl->ctx_address, 0,
                   "the groups that were found do not add up to malloc's own counters of them");
}

enum mw_status mw_musl_read_metas(struct mw_musl *musl)
{
    struct counts counts = {0};
    enum mw_status status = MW_OK;
    assert(musl->items.count == 0);
    for (size_t i = 0; i < musl->areas.count && status == MW_OK; i++)
        status = area_take(musl, &musl->areas.items[i], &counts);
    if (status == MW_OK)
        counts_compare(musl, &counts);
    mw_vec_deinit(&musl->areas);
    return status;
}
