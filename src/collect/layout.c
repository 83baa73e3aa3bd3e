/* collect/layout.c: regions → runs, by the residency of their pages. */
#include "collect/layout.h"

#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_PAGES = 1 << 16 };

struct making {
    struct mw_image *image;
    struct mw_capture_layout *layout;
    struct mw_context *context;
    uint8_t *flags; /* STEP_PAGES */
};

/* May the program's own bytes be read there? */
static bool is_readable(const struct mw_mapping *map)
{
    return map->perms & MW_PERM_READ && !(map->vm_flags & (MW_VM_IO | MW_VM_PFNMAP)) &&
           strncmp(map->name, "[vvar", 5) != 0 && strcmp(map->name, "[vsyscall]") != 0;
}

/* Resident, and no clean page of a file, which can be had from there: headers of modules are kept,
 * since build-ids are in them. */
static bool is_stored(const struct mw_mapping *map, mw_addr page, uint8_t flags)
{
    bool is_clean_file = flags & MW_PAGE_FILE && map->name[0] == '/' &&
                         !(map->perms & MW_PERM_SHARED) && !map->deleted;
    return mw_page_is_resident(flags) && (!is_clean_file || page == map->start);
}

static enum mw_status run_add(struct mw_capture_layout *layout, const struct mw_mapping *map,
                              mw_addr start, mw_addr end, bool stored)
{
    size_t count = layout->runs.count;
    struct mw_capture_run *last = count ? &layout->runs.items[count - 1] : NULL;
    layout->stored_bytes += stored ? end - start : 0;
    if (last && last->end == start && start != map->start && last->is_stored == stored) {
        last->end = end;
        return MW_OK;
    }
    const struct mw_capture_run run = {start, end, map->perms, stored};
    return mw_vec_push(&layout->runs, MW_LIMIT_ELF_SEGMENTS - 2, run);
}

static enum mw_status pages_add(struct mw_capture_layout *layout, mw_addr start, uint32_t count,
                                uint8_t flags, uint32_t page_size)
{
    size_t told = layout->pages.count;
    struct mw_capture_pages *last = told ? &layout->pages.items[told - 1] : NULL;
    if (flags == 0)
        return MW_OK;
    if (last && last->flags == flags && last->count <= UINT32_MAX - count &&
        last->start + (mw_addr)last->count * page_size == start) {
        last->count += count;
        return MW_OK;
    }
    const struct mw_capture_pages pages = {start, count, flags};
    return mw_vec_push(&layout->pages, MW_LIMIT_ELF_SEGMENTS, pages);
}

/* Runs of pages that are alike, of at most STEP_PAGES. */
static enum mw_status step_add(struct making *making, const struct mw_mapping *map, mw_addr start,
                               size_t count)
{
    const uint32_t page_size = making->image->page_size;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < count && status == MW_OK;) {
        const mw_addr at = start + i * page_size;
        size_t same = 1;
        while (i + same < count && making->flags[i + same] == making->flags[i] && at != map->start)
            same++;
        const mw_addr end = at + same * page_size;
        status = run_add(making->layout, map, at, end, is_stored(map, at, making->flags[i]));
        if (status == MW_OK)
            status = pages_add(making->layout, at, (uint32_t)same, making->flags[i], page_size);
        i += same;
    }
    return status;
}

static enum mw_status region_add(struct making *making, const struct mw_mapping *map,
                                 struct mw_error *err)
{
    struct mw_image *image = making->image;
    const uint32_t page_size = image->page_size;
    if (!is_readable(map))
        return run_add(making->layout, map, map->start, map->end, false);
    if (!making->layout->has_pages)
        return run_add(making->layout, map, map->start, map->end, true);
    enum mw_status status = MW_OK;
    for (mw_addr at = map->start; at < map->end && status == MW_OK;) {
        uint64_t left = (map->end - at) / page_size;
        size_t count = left < STEP_PAGES ? (size_t)left : STEP_PAGES;
        if (mw_context_canceled(making->context))
            return MW_CANCELED;
        status = mw_image_pages(image, at, count, making->flags, err);
        if (status == MW_OK)
            status = step_add(making, map, at, count);
        at += (mw_addr)count * page_size;
    }
    return status;
}

enum mw_status mw_capture_layout_make(struct mw_image *image, struct mw_context *context,
                                      struct mw_capture_layout *layout_out, struct mw_error *err)
{
    *layout_out = (struct mw_capture_layout){.has_pages = image->can & MW_CAN_PAGES};
    struct making making = {image, layout_out, context, mw_calloc(STEP_PAGES, 1)};
    enum mw_status status = making.flags ? MW_OK : MW_NOMEM;
    for (size_t i = 0; i < image->regions.count && status == MW_OK; i++)
        status = region_add(&making, &image->regions.items[i], err);
    free(making.flags);
    if (status == MW_OK)
        return MW_OK;
    mw_capture_layout_deinit(layout_out);
    if (status == MW_NOMEM)
        return mw_fail(err, status, "out of memory for the runs of pages");
    if (status == MW_LIMIT)
        return mw_fail(err, status, "memory is in more runs of pages than a core may have");
    return status == MW_CANCELED ? mw_fail(err, status, "canceled") : status;
}

void mw_capture_layout_deinit(struct mw_capture_layout *layout)
{
    mw_vec_deinit(&layout->runs);
    mw_vec_deinit(&layout->pages);
    *layout = (struct mw_capture_layout){0};
}
