/* proc/mapping.c: the sorted list of mappings and its name storage.
 *
 * Names are packed into blocks of 64 KiB; a name equal to the one before it is stored once, since
 * the mappings of a library come in a row. */
#include "proc/mapping.h"

#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>
#include <string.h>

enum { NAME_BLOCK_BYTES = 64 << 10 };

bool mw_mapping_is_anonymous(const struct mw_mapping *map)
{
    return map->inode == 0 && map->name[0] != '/';
}

uint64_t mw_mapping_forked_bytes(const struct mw_mapping *map)
{
    if (map->perms & MW_PERM_SHARED)
        return 0;
    uint64_t dirty = mw_mapping_counter(map, MW_COUNTER_SHARED_DIRTY);
    uint64_t shared;
    if (__builtin_add_overflow(dirty, mw_mapping_counter(map, MW_COUNTER_SHARED_CLEAN), &shared))
        return 0;
    if (!mw_mapping_is_anonymous(map))
        shared = dirty; /* clean ones are the file's */
    uint64_t anonymous = mw_mapping_counter(map, MW_COUNTER_ANONYMOUS);
    return mw_mapping_knows(map, MW_COUNTER_ANONYMOUS) && anonymous < shared ? anonymous : shared;
}

size_t mw_mapping_name_trim(const char *name, size_t length, bool *deleted_out)
{
    static const char mark[] = " (deleted)";
    size_t mark_length = sizeof mark - 1;
    *deleted_out =
        length > mark_length && memcmp(name + length - mark_length, mark, mark_length) == 0;
    return *deleted_out ? length - mark_length : length;
}

/* Room for length + 1 bytes in the name storage; NULL when out of memory. */
static char *name_reserve(struct mw_mapping_list *list, size_t length)
{
    if (list->name_block_count == 0 || list->name_used + length + 1 > NAME_BLOCK_BYTES) {
        struct {
            char **items;
            size_t count, room;
        } blocks = {list->name_blocks, list->name_block_count, list->name_block_room};
        char *block = mw_calloc(NAME_BLOCK_BYTES, 1);
        if (!block || mw_vec_push(&blocks, MW_LIMIT_MAPPINGS, block) != MW_OK) {
            free(block);
            return NULL;
        }
        list->name_blocks = blocks.items;
        list->name_block_count = blocks.count;
        list->name_block_room = blocks.room;
        list->name_used = 0;
    }
    char *at = list->name_blocks[list->name_block_count - 1] + list->name_used;
    list->name_used += length + 1;
    return at;
}

static const char *name_store(struct mw_mapping_list *list, const char *name, size_t length)
{
    /* A text may hold a zero byte anywhere: the name ends there. */
    length = strnlen(name, length < MW_LIMIT_NAME_BYTES ? length : MW_LIMIT_NAME_BYTES);
    if (length == 0)
        return "";
    if (list->count > 0) {
        const char *last = list->items[list->count - 1].name;
        if (strncmp(last, name, length) == 0 && last[length] == '\0')
            return last;
    }
    char *stored = name_reserve(list, length);
    if (!stored)
        return NULL;
    memcpy(stored, name, length);
    stored[length] = '\0';
    return stored;
}

enum mw_status mw_mapping_list_add(struct mw_mapping_list *list, const struct mw_mapping *map,
                                   const char *name, size_t name_length)
{
    if (map->start >= map->end ||
        (list->count > 0 && map->start < list->items[list->count - 1].end))
        return MW_CORRUPT;
    struct mw_mapping copy = *map;
    copy.name = name_store(list, name, name_length);
    if (!copy.name)
        return MW_NOMEM;
    return mw_vec_push(list, MW_LIMIT_MAPPINGS, copy);
}

size_t mw_mapping_lower_bound(const struct mw_mapping_list *list, mw_addr address)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low <= list->count);
    return low;
}

const struct mw_mapping *mw_mapping_find(const struct mw_mapping_list *list, mw_addr address)
{
    size_t index = mw_mapping_lower_bound(list, address);
    if (index == list->count || list->items[index].start > address)
        return NULL;
    return &list->items[index];
}

void mw_mapping_list_deinit(struct mw_mapping_list *list)
{
    for (size_t i = 0; i < list->name_block_count; i++)
        free(list->name_blocks[i]);
    free(list->name_blocks);
    mw_vec_deinit(list);
    *list = (struct mw_mapping_list){0};
}
