/* heap/glibc/runs.c: anonymous writable memory as runs of adjacent regions.
 *
 * One linear pass over the regions. A run ends at a gap, at a file mapping and where a [heap]
 * begins, since brk memory never continues a mapping. */
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
