/* growth/kinds.c: blocks by size and by what their first word points to.
 *
 * One pass over the list into a hash table of (size, word); then each word is named once and
 * entries of one name are joined, since a moment of another process has other addresses. Trusts
 * nothing that it reads. Linear in blocks. */
#include "growth/moment.h"

#include "base/alloc.h"
#include "graph/groups.h"
#include "image/window.h"
#include "symbol/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * MW_KINDS_MAX, CANCEL_STEP = 1 << 14 };

struct entry {
    uint64_t size_bytes;
    mw_addr word; /* 0: points to no module */
    uint64_t count, lost_count;
};

struct counting {
    const struct mw_kinds_input *input;
    struct mw_window window;
    mw_addr window_from;          /* where the region begins that it is restricted to */
    const struct mw_mapping *map; /* in which the last word was found */
    MW_VEC(struct entry) entries;
    uint32_t slots[SLOTS * 2]; /* place in entries plus 1 */
    bool is_full;
};

/* The place of (size, word) in slots: its own, or the free one where it belongs. */
static size_t slot_find(const struct counting *counting, uint64_t size, mw_addr word)
{
    const size_t mask = sizeof counting->slots / sizeof *counting->slots - 1;
    uint64_t hash = (size * 0x9e3779b97f4a7c15u) ^ (word * 0xc2b2ae3d27d4eb4fu);
    size_t at = (size_t)(hash >> 32 ^ hash) & mask;
    for (; counting->slots[at]; at = (at + 1) & mask) {
        const struct entry *entry = &counting->entries.items[counting->slots[at] - 1];
        if (entry->size_bytes == size && entry->word == word)
            break;
    }
    return at;
}

/* NULL: no memory, or too many sizes even without words. */
static struct entry *entry_of(struct counting *counting, uint64_t size, mw_addr word)
{
    size_t at = slot_find(counting, size, word);
    if (!counting->slots[at] && counting->entries.count >= MW_KINDS_MAX && word != 0) {
        counting->is_full = true;
        word = 0;
        at = slot_find(counting, size, word);
    }
    if (!counting->slots[at]) {
        const struct entry entry = {.size_bytes = size, .word = word};
        if (mw_vec_push(&counting->entries, SLOTS, entry) != MW_OK)
            return NULL;
        counting->slots[at] = (uint32_t)counting->entries.count;
    }
    return &counting->entries.items[counting->slots[at] - 1];
}

/* What the first word of the block points to, when that is in a module; else 0. */
static mw_addr type_of(struct counting *counting, const struct mw_listed_block *block)
{
    struct mw_image *image = counting->input->image;
    uint64_t word;
    if (block->start >= counting->window.limit || block->start < counting->window_from) {
        const struct mw_mapping *map = mw_image_region(image, block->start);
        counting->window_from = map ? map->start : block->start;
        mw_window_reset(&counting->window, map ? map->end : block->start);
    }
    const uint8_t *bytes = mw_window_at(&counting->window, block->start, sizeof word);
    if (!bytes)
        return 0;
    memcpy(&word, bytes, sizeof word);
    return mw_group_points_to_module(image, &counting->map, word) ? word : 0;
}

static enum mw_status blocks_count(struct counting *counting)
{
    const struct mw_reach *reach = counting->input->reach;
    struct mw_block_cursor cursor;
    struct mw_listed_block block;
    mw_block_cursor_init(&cursor, counting->input->list, 0);
    for (uint64_t i = 0; mw_block_cursor_next(&cursor, &block); i++) {
        if (i % CANCEL_STEP == 0 && mw_context_canceled(counting->input->context))
            return MW_CANCELED;
        struct entry *entry = entry_of(counting, block.size_bytes, type_of(counting, &block));
        if (!entry && counting->entries.count < SLOTS)
            return MW_NOMEM;
        if (!entry)
            continue;
        entry->count++;
        uint32_t rank = reach ? mw_index_find(reach->index, block.start) : MW_RANK_NONE;
        entry->lost_count += rank != MW_RANK_NONE && mw_reach_is_lost(reach, rank);
    }
    return MW_OK;
}

static int layout_compare(const void *a, const void *b)
{
    const struct mw_kind_layout *left = a, *right = b;
    return left->size_bytes < right->size_bytes ? -1 : left->size_bytes > right->size_bytes;
}

static void kind_name(const struct counting *counting, struct mw_names *names,
                      const struct entry *entry, char text[MW_KIND_NAME_ROOM])
{
    const struct mw_kinds_input *input = counting->input;
    struct mw_name name;
    char whole[MW_NAME_TEXT_ROOM];
    text[0] = '\0';
    if (entry->word && mw_names_resolve(names, entry->word, &name)) {
        mw_names_format(&name, whole);
        snprintf(text, MW_KIND_NAME_ROOM, "%.*s", MW_KIND_NAME_ROOM - 1, whole);
        return;
    }
    const struct mw_kind_layout key = {.size_bytes = entry->size_bytes};
    const struct mw_kind_layout *layout =
        input->layout_count
            ? bsearch(&key, input->layouts, input->layout_count, sizeof key, layout_compare)
            : NULL;
    if (layout)
        snprintf(text, MW_KIND_NAME_ROOM, "%.*s", MW_KIND_NAME_ROOM - 1, layout->name);
}

static int kind_compare(const void *a, const void *b)
{
    const struct mw_kind *left = a, *right = b;
    if (left->size_bytes != right->size_bytes)
        return left->size_bytes < right->size_bytes ? -1 : 1;
    return strcmp(left->name, right->name);
}

static size_t kinds_join(struct mw_kind *kinds, size_t count)
{
    size_t kept = 0;
    qsort(kinds, count, sizeof *kinds, kind_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || kind_compare(&kinds[kept - 1], &kinds[i]) != 0) {
            kinds[kept++] = kinds[i];
            continue;
        }
        kinds[kept - 1].count += kinds[i].count;
        if (kinds[kept - 1].lost_count != MW_UNKNOWN)
            kinds[kept - 1].lost_count += kinds[i].lost_count;
    }
    return kept;
}

static enum mw_status kinds_make(const struct counting *counting, struct mw_kind **kinds_out,
                                 size_t *count_out, struct mw_error *err)
{
    const struct mw_names_options options = {0};
    struct mw_names *names;
    size_t count = counting->entries.count;
    struct mw_kind *kinds = mw_calloc(count + 1, sizeof *kinds);
    if (!kinds)
        return MW_NOMEM;
    enum mw_status status =
        mw_names_open(counting->input->image, &options, counting->input->context, &names, err);
    if (status != MW_OK) {
        free(kinds);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &counting->entries.items[i];
        kinds[i] = (struct mw_kind){
            .size_bytes = entry->size_bytes,
            .usable_bytes = entry->size_bytes - counting->input->overhead_bytes,
            .count = entry->count,
            .lost_count = counting->input->reach ? entry->lost_count : MW_UNKNOWN,
        };
        kind_name(counting, names, entry, kinds[i].name);
    }
    mw_names_free(names);
    *count_out = kinds_join(kinds, count);
    *kinds_out = kinds;
    return MW_OK;
}

enum mw_status mw_kinds_count(const struct mw_kinds_input *input, struct mw_kind **kinds_out,
                              size_t *count_out, struct mw_error *err)
{
    struct counting *counting = mw_calloc(1, sizeof *counting);
    if (!counting)
        return mw_fail(err, MW_NOMEM, "out of memory counting kinds of blocks");
    counting->input = input;
    enum mw_status status = mw_window_init(&counting->window, input->image);
    if (status == MW_OK) {
        mw_window_reset(&counting->window, 0);
        status = blocks_count(counting);
    }
    if (status == MW_OK)
        status = kinds_make(counting, kinds_out, count_out, err);
    mw_window_deinit(&counting->window);
    mw_vec_deinit(&counting->entries);
    free(counting);
    if (status == MW_NOMEM)
        return mw_fail(err, status, "out of memory counting kinds of blocks");
    return status == MW_OK ? status : mw_fail(err, status, "canceled");
}
