/* runtime/shapes.c: see the header. Names and counters are a target's: compared and bounded. */
#include "runtime/shapes.h"

#include <string.h>

enum { GUARD_MAX = 64 << 10, PAGE_BATCH = 4096 };
#define ARENA_HEAP ((uint64_t)64 << 20)

bool mw_path_ends_in(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash && strcmp(slash + 1, name) == 0;
}

const struct mw_mapping *mw_module_find(const struct mw_image *image, const char *name)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (mw_path_ends_in(image->regions.items[i].name, name))
            return &image->regions.items[i];
    return NULL;
}

const struct mw_mapping *mw_program_find(const struct mw_image *image)
{
    const struct mw_mapping *map = NULL;
    if (image->phdr != 0)
        map = mw_image_region(image, image->phdr);
    if (!map && image->entry != 0)
        map = mw_image_region(image, image->entry);
    if (map && map->name[0] == '/')
        return map;
    for (size_t i = 0; i < image->regions.count; i++) {
        map = &image->regions.items[i];
        if (map->name[0] == '/' &&
            (!image->process.exe || strcmp(map->name, image->process.exe) == 0))
            return map;
    }
    return NULL;
}

bool mw_mapping_is_reserve(const struct mw_mapping *map, uint32_t vm_flag)
{
    if (!mw_mapping_is_unnamed(map) || map->perms != 0)
        return false;
    return map->has_vm_flags ? (map->vm_flags & vm_flag) != 0 : mw_mapping_size(map) > GUARD_MAX;
}

/* heap_info: arena, previous heap, size, and how much has been accessible. */
static bool has_heap_header(struct mw_image *image, const struct mw_mapping *map)
{
    uint64_t words[4], size = mw_mapping_size(map);
    return mw_image_read(image, map->start, words, sizeof words) == MW_OK && words[0] % 8 == 0 &&
           mw_image_region(image, words[0]) && words[2] != 0 && words[2] <= words[3] &&
           (words[2] == size || words[3] == size);
}

bool mw_mapping_is_arena(struct mw_image *image, size_t i, uint32_t vm_flag)
{
    const struct mw_mapping *map = &image->regions.items[i];
    uint64_t size = mw_mapping_size(map);
    if (!mw_mapping_is_rw(map) || map->start % ARENA_HEAP != 0 || size > ARENA_HEAP)
        return false;
    if (map->vm_flags & MW_VM_NORESERVE)
        return true; /* up to 2.36 at least; 2.41 maps without */
    if (image->can & MW_CAN_READ)
        return has_heap_header(image, map);
    if (vm_flag == 0 || size == ARENA_HEAP || i + 1 == image->regions.count)
        return false;
    return map[1].start == map->end && map[1].perms == 0 && mw_mapping_is_unnamed(map + 1) &&
           map[1].end >= map->start + ARENA_HEAP && !(map[1].vm_flags & vm_flag);
}

bool mw_mapping_is_arena_rest(struct mw_image *image, size_t i, uint32_t vm_flag)
{
    const struct mw_mapping *map = &image->regions.items[i];
    return i > 0 && map->perms == 0 && map[-1].end == map->start &&
           mw_mapping_is_arena(image, i - 1, vm_flag);
}

/* By pages; [start, end) lies in one mapping. */
static uint64_t pages_rss(struct mw_image *image, mw_addr start, mw_addr end)
{
    uint64_t page_size = image->page_size, rss = 0;
    if (!(image->can & MW_CAN_PAGES) || page_size == 0)
        return MW_UNKNOWN;
    for (mw_addr at = start & ~(page_size - 1); at < end;) {
        uint8_t flags[PAGE_BATCH];
        uint64_t left = (end - at + page_size - 1) / page_size;
        size_t count = left < PAGE_BATCH ? (size_t)left : PAGE_BATCH;
        if (mw_image_pages(image, at, count, flags, NULL) != MW_OK)
            return MW_UNKNOWN;
        for (size_t i = 0; i < count; i++, at += page_size) {
            mw_addr from = at > start ? at : start;
            mw_addr to = end - at > page_size ? at + page_size : end;
            if (mw_page_is_resident(flags[i]))
                rss += to - from;
        }
    }
    return rss;
}

uint64_t mw_range_rss(struct mw_image *image, mw_addr start, mw_addr end)
{
    uint64_t rss = 0;
    const struct mw_mapping_list *regions = &image->regions;
    for (size_t i = mw_mapping_lower_bound(regions, start);
         i < regions->count && regions->items[i].start < end && rss != MW_UNKNOWN; i++) {
        const struct mw_mapping *map = &regions->items[i];
        if (map->start >= start && map->end <= end && mw_mapping_knows(map, MW_COUNTER_RSS)) {
            uint64_t counted = map->counters[MW_COUNTER_RSS], size = mw_mapping_size(map);
            rss += counted < size ? counted : size;
        } else {
            mw_addr from = map->start > start ? map->start : start;
            mw_addr to = map->end < end ? map->end : end;
            rss = mw_add_known(rss, pages_rss(image, from, to));
        }
    }
    return rss;
}

enum mw_status mw_runtime_claim(struct mw_claims *claims, const struct mw_mapping *map,
                                enum mw_category category, enum mw_claim_priority priority,
                                const char *owner)
{
    return mw_claims_add_range(claims, map->start, map->end, category, priority, owner);
}
