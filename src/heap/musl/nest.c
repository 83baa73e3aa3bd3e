/* heap/musl/nest.c: which group lies in which, and whether its memory agrees.
 *
 * A small group is made in a slot of a larger one. Sorted by address, a group comes before those in
 * its slots, so one pass with a stack of the groups that are still open decides each place:
 *
 *   open: nothing          a segment of its own: it has a mapping, or was given by the loader
 *   open: a larger group   in one of its slots that is in use, alone in it; else it contradicts it
 *                          and is left out
 *
 * So no byte is counted twice, whatever the metas say. Then each group's header must point back to
 * its meta: what does not is damaged, or was freed while the target ran on. O(n log n).
 * Reference: musl 1.2.5 src/malloc/mallocng/malloc.c (alloc_group), donate.c. */
#include "heap/musl/internal.h"

#include <assert.h>
#include <string.h>

enum { DEPTH_MAX = 8, CANCEL_STEP = 4096 };

static int item_compare(const void *a, const void *b)
{
    const struct mw_musl_item *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (left->end != right->end) /* the one that may hold the other comes first */
        return left->end > right->end ? -1 : 1;
    return left->meta < right->meta ? -1 : left->meta > right->meta;
}

/* A group that is open: others may lie in its slots. */
struct open_item {
    const struct mw_musl_item *item;
    unsigned last_slot; /* the last one that holds a group; slot_count: none yet */
};

/* Is there room for the group in a slot of the open one that nobody else has? */
static bool nests_in(const struct mw_musl_item *item, struct open_item *open)
{
    const struct mw_musl_item *outer = open->item;
    if (outer->slot_count == 0 || item->slot_count == 0 || item->has_mapping || item->is_given)
        return false;
    uint64_t stride = mw_musl_stride(outer), offset = item->start - outer->start;
    if (offset < MW_MUSL_GROUP_HEADER || stride > MW_MUSL_PAGE_MAX) /* what nests is small */
        return false;
    uint64_t slot = (offset - MW_MUSL_GROUP_HEADER) / stride;
    if (slot >= outer->slot_count || outer->free_mask >> slot & 1 || slot == open->last_slot ||
        item->end > outer->start + MW_MUSL_GROUP_HEADER + (slot + 1) * stride)
        return false;
    open->last_slot = (unsigned)slot;
    return true;
}

static void places_decide(struct mw_musl *musl)
{
    struct open_item open[DEPTH_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < musl->items.count; i++) {
        struct mw_musl_item *item = &musl->items.items[i];
        while (depth > 0 && open[depth - 1].item->end <= item->start)
            depth--;
        if (depth == 0) {
            bool stands = item->slot_count == 0 || item->has_mapping || item->is_given;
            item->place = stands ? MW_MUSL_TOP : MW_MUSL_DROPPED;
        } else {
            bool nests = depth < DEPTH_MAX && nests_in(item, &open[depth - 1]);
            item->place = nests ? MW_MUSL_NESTED : MW_MUSL_DROPPED;
        }
        if (item->place != MW_MUSL_DROPPED) {
            open[depth++] = (struct open_item){item, item->slot_count};
            continue;
        }
        musl->is_sound = false;
        mw_finding_add(musl->findings, "groups-overlap", item->start, item->end - item->start,
                       "malloc's groups of slots contradict each other: one was left out");
    }
}

/* A group that was freed after its meta was read points back no more: that is no damage. */
static bool is_gone(const struct mw_musl *musl, const struct mw_musl_item *item)
{
    uint64_t mem;
    return musl->image->kind == MW_IMAGE_LIVE && !musl->image->stopped &&
           (mw_image_read_u64(musl->image, item->meta + offsetof(struct mw_musl_meta, mem), &mem) !=
                MW_OK ||
            mem != item->start);
}

static void header_check(struct mw_musl *musl, struct mw_musl_item *item, struct mw_window *window)
{
    const uint8_t *header = mw_window_at(window, item->start, MW_MUSL_GROUP_HEADER);
    uint64_t meta;
    if (!header && is_gone(musl, item))
        return;
    if (!header) {
        musl->is_sound = false;
        mw_finding_add(musl->findings, "group-unread", item->start, item->end - item->start,
                       "the header of a group of slots cannot be read: its slots are as malloc "
                       "notes them elsewhere");
        return;
    }
    memcpy(&meta, header, sizeof meta);
    if (meta == item->meta || is_gone(musl, item))
        return;
    item->is_damaged = true;
    musl->is_sound = false;
    mw_finding_add(musl->findings, "group-damaged", item->start, item->end - item->start,
                   "the header of a group of slots does not name its metadata: it was "
                   "overwritten, and the group was skipped");
}

/* How far the window may read ahead from a group: not into the next mapping, whose pages may be a
 * file's and would be mapped in the target for it; in a module's data no further than needed. */
static mw_addr read_limit(const struct mw_musl *musl, const struct mw_musl_item *item)
{
    const struct mw_mapping *map = mw_image_region(musl->image, item->start);
    return map && mw_mapping_is_anonymous(map) ? map->end : item->start + MW_MUSL_GROUP_HEADER;
}

/* Sequential reads over what is resident, with the target running. */
static enum mw_status headers_check(struct mw_musl *musl)
{
    struct mw_window window;
    mw_addr limit = 0;
    enum mw_status status = mw_window_init(&window, musl->image);
    for (size_t i = 0; i < musl->items.count && status == MW_OK; i++) {
        struct mw_musl_item *item = &musl->items.items[i];
        if (item->place != MW_MUSL_DROPPED && item->slot_count > 0) {
            if (item->start >= limit)
                mw_window_reset(&window, limit = read_limit(musl, item));
            header_check(musl, item, &window);
        }
        if (i % CANCEL_STEP == 0 && mw_context_canceled(musl->context))
            status = MW_CANCELED;
    }
    mw_window_deinit(&window);
    return status;
}

enum mw_status mw_musl_nest(struct mw_musl *musl)
{
    if (musl->items.count > 1)
        qsort(musl->items.items, musl->items.count, sizeof *musl->items.items, item_compare);
    places_decide(musl);
    return headers_check(musl);
}
