/* graph/groups.c: lost blocks → groups, by a hash table over (size, type).
 *
 * Trusts nothing that it reads: words are compared and looked up in the map. Linear; at most
 * GROUPS_MAX groups. */
#include "graph/groups.h"

#include "base/alloc.h"
#include "base/random.h"
#include "image/window.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 1 << 12, SLOTS_MIN = 1 << 10, CANCEL_STEP = 1 << 14, PAGES_AHEAD = 1024 };

struct making {
    const struct mw_reach *reach;
    struct mw_image *image;
    struct mw_lost_groups *groups;
    struct mw_window window;
    mw_addr window_from; /* where the region begins that it is restricted to */
    uint32_t *slots;     /* place in groups plus 1 */
    size_t slot_count;
    uint64_t overhead_bytes; /* of a block */
    uint64_t random;
    const struct mw_mapping *map; /* in which the last type was found */
    struct {                      /* residency of pages around the last block */
        uint8_t flags[PAGES_AHEAD];
        mw_addr start, end;
    } pages;
};

static size_t slot_of(const struct making *making, uint64_t size, mw_addr type)
{
    uint64_t hash = (size * 0x9e3779b97f4a7c15u) ^ (type * 0xc2b2ae3d27d4eb4fu);
    return (size_t)(hash >> 32 ^ hash) & (making->slot_count - 1);
}

static enum mw_status slots_grow(struct making *making)
{
    size_t count = making->slot_count ? making->slot_count * 2 : SLOTS_MIN;
    uint32_t *slots = mw_calloc(count, sizeof *slots);
    if (!slots)
        return MW_NOMEM;
    free(making->slots);
    making->slots = slots;
    making->slot_count = count;
    for (size_t i = 0; i < making->groups->groups.count; i++) {
        const struct mw_lost_group *group = &making->groups->groups.items[i];
        size_t at = slot_of(making, group->size_bytes, group->type);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return MW_OK;
}

/* The group of that size and type, made when it is new; NULL: no memory. */
static struct mw_lost_group *group_of(struct making *making, uint64_t size, mw_addr type)
{
    struct mw_lost_groups *groups = making->groups;
    if (groups->groups.count * 2 >= making->slot_count && slots_grow(making) != MW_OK)
        return NULL;
    size_t at = slot_of(making, size, type);
    for (; making->slots[at]; at = (at + 1) & (making->slot_count - 1)) {
        struct mw_lost_group *group = &groups->groups.items[making->slots[at] - 1];
        if (group->size_bytes == size && group->type == type)
            return group;
    }
    if (groups->groups.count >= GROUPS_MAX && type != 0) {
        groups->is_coarse = true;
        return group_of(making, size, 0);
    }
    const struct mw_lost_group group = {
        .size_bytes = size, .usable_bytes = size - making->overhead_bytes, .type = type};
    if (mw_vec_push(&groups->groups, SIZE_MAX / sizeof group, group) != MW_OK)
        return NULL;
    making->slots[at] = (uint32_t)groups->groups.count;
    return &groups->groups.items[groups->groups.count - 1];
}

bool mw_group_points_to_module(const struct mw_image *image, const struct mw_mapping **last,
                               uint64_t word)
{
    const struct mw_mapping *map = *last;
    if (word < 4096 || word >> 63)
        return false;
    if (!map || word < map->start || word >= map->end)
        map = mw_image_region(image, word);
    if (!map || mw_mapping_is_anonymous(map) || map->perms & MW_PERM_SHARED)
        return false;
    *last = map;
    return true;
}

/* Reservoir sampling: each block of the group has the same chance to be kept. */
static void sample_keep(struct making *making, struct mw_lost_group *group, mw_addr address)
{
    uint64_t slot = group->sample_count;
    if (slot < MW_GROUP_SAMPLES)
        group->sample_count++;
    else
        slot = mw_random_below(&making->random, group->count);
    if (slot < MW_GROUP_SAMPLES)
        group->samples[slot] = address;
}

static void group_add(struct making *making, struct mw_lost_group *group, mw_addr address,
                      bool is_direct, const uint64_t *words, uint32_t word_count)
{
    if (group->count == 0) {
        memcpy(group->words, words, word_count * sizeof *words);
        group->word_count = word_count;
        group->constant = word_count < 64 ? ((uint64_t)1 << word_count) - 1 : UINT64_MAX;
    }
    if (word_count < group->word_count)
        group->word_count = word_count;
    for (uint32_t i = 0; i < group->word_count; i++)
        if (words[i] != group->words[i])
            group->constant &= ~((uint64_t)1 << i);
    group->count++;
    group->bytes += group->size_bytes;
    group->direct_count += is_direct;
    sample_keep(making, group, address);
}

/* Bytes of [start, end) that are in memory; MW_UNKNOWN. Blocks ascend: pages are asked for once. */
static uint64_t resident_of(struct making *making, mw_addr start, mw_addr end)
{
    struct mw_image *image = making->image;
    const uint64_t page = image->page_size;
    uint64_t resident = 0;
    if (!(image->can & MW_CAN_PAGES))
        return MW_UNKNOWN;
    for (mw_addr at = start, next; at < end; at = next) {
        if (at < making->pages.start || at >= making->pages.end) {
            const struct mw_mapping *map = mw_image_region(image, at);
            const mw_addr from = at & ~(page - 1);
            uint64_t left = map ? (map->end - from) / page : 0;
            size_t count = left < PAGES_AHEAD ? (size_t)left : PAGES_AHEAD;
            if (count == 0 ||
                mw_image_pages(image, from, count, making->pages.flags, NULL) != MW_OK)
                return MW_UNKNOWN;
            making->pages.start = from;
            making->pages.end = from + count * page;
        }
        next = (at & ~(page - 1)) + page;
        if (mw_page_is_resident(making->pages.flags[(at - making->pages.start) / page]))
            resident += (next < end ? next : end) - at;
    }
    return resident;
}

static enum mw_status block_add(struct making *making, uint32_t rank, mw_addr start, uint64_t size)
{
    uint64_t words[MW_GROUP_WORDS];
    if (start >= making->window.limit || start < making->window_from) {
        const struct mw_mapping *map = mw_image_region(making->image, start);
        making->window_from = map ? map->start : start;
        mw_window_reset(&making->window, map ? map->end : start); /* not into a library behind */
    }
    size_t want = size - 8 < sizeof words ? (size_t)(size - 8) & ~(size_t)7 : sizeof words;
    const uint8_t *bytes = want >= 8 ? mw_window_at(&making->window, start, want) : NULL;
    uint32_t word_count = bytes ? (uint32_t)(want / 8) : 0;
    making->groups->unread_count += !bytes;
    if (bytes)
        memcpy(words, bytes, want);
    mw_addr type =
        word_count > 0 && mw_group_points_to_module(making->image, &making->map, words[0])
            ? words[0]
            : 0;
    struct mw_lost_group *group = group_of(making, size, type);
    if (!group)
        return MW_NOMEM;
    group_add(making, group, start, mw_bit_get(making->reach->is_direct, rank), words, word_count);
    const uint64_t resident = resident_of(making, start, start + size);
    if (resident == MW_UNKNOWN || group->resident_bytes == MW_UNKNOWN)
        group->resident_bytes = MW_UNKNOWN;
    else
        group->resident_bytes += resident;
    return MW_OK;
}

static enum mw_status blocks_add(struct making *making, struct mw_context *context)
{
    const struct mw_reach *reach = making->reach;
    const struct mw_index *index = reach->index;
    struct mw_index_cursor cursor = {0};
    mw_addr start, next;
    enum mw_status status = MW_OK;
    bool is_there = mw_index_next(index, &cursor, &start);
    for (uint32_t rank = 0; is_there && status == MW_OK; rank++, start = next) {
        is_there = mw_index_next(index, &cursor, &next);
        if (!is_there || !mw_reach_is_lost(reach, rank))
            continue;
        status = block_add(making, rank, start, mw_index_block_end(index, next) - start);
        if (rank % CANCEL_STEP == 0 && mw_context_canceled(context))
            status = MW_CANCELED;
    }
    return status;
}

static int group_compare(const void *a, const void *b)
{
    const struct mw_lost_group *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    if (left->size_bytes != right->size_bytes)
        return left->size_bytes > right->size_bytes ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

enum mw_status mw_lost_groups_make(const struct mw_reach *reach, struct mw_image *image,
                                   struct mw_context *context, struct mw_lost_groups *groups_out,
                                   struct mw_error *err)
{
    *groups_out = (struct mw_lost_groups){0};
    struct making making = {.reach = reach,
                            .image = image,
                            .groups = groups_out,
                            .random = MW_RANDOM_SEED,
                            .overhead_bytes = reach->index->overhead_bytes};
    enum mw_status status = mw_window_init(&making.window, image);
    if (status == MW_OK) {
        mw_window_reset(&making.window, 0);
        status = blocks_add(&making, context);
    }
    mw_window_deinit(&making.window);
    free(making.slots);
    if (status != MW_OK) {
        mw_lost_groups_deinit(groups_out);
        return mw_fail(err, status,
                       status == MW_NOMEM ? "out of memory for groups of blocks" : "canceled");
    }
    if (groups_out->groups.count > 1)
        qsort(groups_out->groups.items, groups_out->groups.count, sizeof *groups_out->groups.items,
              group_compare);
    return MW_OK;
}

void mw_lost_groups_deinit(struct mw_lost_groups *groups)
{
    mw_vec_deinit(&groups->groups);
}
