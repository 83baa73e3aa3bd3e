/* heap/glibc/runs.c: anonymous writable memory as runs of adjacent regions.
 *
 * One linear pass over the regions. A run ends at a gap, at a file mapping and where a [heap]
 * begins, since brk memory never continues a mapping. A heap may be several runs: a program can
 * split its mappings by mprotect() or madvise() inside its blocks, and a forked worker lacks what
 * was MADV_DONTFORK. */
#include "base/limits.h"
#include "heap/glibc/internal.h"

#include <string.h>

/* Memory that malloc may have got from mmap or brk. */
static bool region_is_candidate(const struct mw_mapping *map)
{
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    if ((map->perms & (wanted | MW_PERM_SHARED)) != wanted || (map->vm_flags & MW_VM_IO))
        return false;
    if (!mw_mapping_is_anonymous(map) || map->end >> 63) /* user space is below, everywhere */
        return false;
    return map->name[0] != '[' || strcmp(map->name, "[heap]") == 0 ||
           strncmp(map->name, "[anon", 5) == 0;
}

enum mw_status mw_glibc_collect_runs(struct mw_glibc *glibc)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    const char *last_name = "";
    for (size_t i = 0; i < regions->count; i++) {
        const struct mw_mapping *map = &regions->items[i];
        if (!region_is_candidate(map))
            continue;
        bool locked = map->vm_flags & MW_VM_LOCKED;
        struct mw_glibc_run *last =
            glibc->runs.count ? &glibc->runs.items[glibc->runs.count - 1] : NULL;
        bool same_kind = (strcmp(map->name, "[heap]") == 0) == (strcmp(last_name, "[heap]") == 0);
        if (last && last->end == map->start && last->locked == locked && same_kind) {
            last->end = map->end;
        } else {
            struct mw_glibc_run run = {map->start, map->end, locked};
            enum mw_status status = mw_vec_push(&glibc->runs, MW_LIMIT_MAPPINGS, run);
            if (status != MW_OK)
                return status;
        }
        last_name = map->name;
    }
    return MW_OK;
}

/* Pages inside a block may have other rights: a guard, what the program has sealed. */
static bool region_may_be_inside(const struct mw_mapping *map)
{
    return !(map->perms & MW_PERM_SHARED) && !(map->vm_flags & MW_VM_IO) &&
           mw_mapping_is_anonymous(map) &&
           (map->name[0] != '[' || strcmp(map->name, "[heap]") == 0 ||
            strncmp(map->name, "[anon", 5) == 0);
}

bool mw_glibc_is_span(const struct mw_glibc *glibc, mw_addr start, mw_addr end)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    const struct mw_mapping *map = mw_image_region(glibc->image, start);
    if (start >= end || !map || !region_is_candidate(map))
        return false;
    const struct mw_mapping *stop = regions->items + regions->count;
    mw_addr covered = start;
    for (; map < stop && map->start < end; map++) {
        if (!region_may_be_inside(map))
            return false;
        covered = map->end;
    }
    return covered >= end;
}

/* What a program may have left out of its heap in a fork; beyond it is a lie. */
static const uint64_t HOLE_MAX = (uint64_t)64 << 30;

mw_addr mw_glibc_brk_limit(const struct mw_glibc *glibc, const struct mw_glibc_run *run)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    const struct mw_mapping *stop = regions->items + regions->count;
    const struct mw_mapping *map = mw_image_region(glibc->image, run->end - 1);
    mw_addr limit = run->end, last = run->end;
    for (map = map ? map + 1 : stop; map < stop && region_may_be_inside(map); map++) {
        if (map->start != last &&
            (strcmp(map->name, "[heap]") != 0 || map->start - last > HOLE_MAX))
            break;
        last = map->end;
        if (region_is_candidate(map))
            limit = last;
    }
    return limit;
}

const struct mw_glibc_run *mw_glibc_run_of(const struct mw_glibc *glibc, mw_addr address)
{
    size_t low = 0, high = glibc->runs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (glibc->runs.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == glibc->runs.count || glibc->runs.items[low].start > address)
        return NULL;
    return &glibc->runs.items[low];
}
