/* heap/modules.c: finding the module of an allocator, and its version in the module's constants.
 *
 * Trusts names only as far as where to look. Every read is bounded: a core may say that a library
 * is of any size. */
#include "heap/modules.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"

#include <string.h>

const char *mw_module_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const struct mw_mapping *mw_module_library(const struct mw_image *image, const char *prefix)
{
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->name[0] == '/' &&
            strncmp(mw_module_base_name(map->name), prefix, strlen(prefix)) == 0)
            return map;
    }
    return NULL;
}

const struct mw_mapping *mw_module_library_exact(const struct mw_image *image, const char *name)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (strcmp(mw_module_base_name(image->regions.items[i].name), name) == 0)
            return &image->regions.items[i];
    return NULL;
}

const struct mw_mapping *mw_module_program(const struct mw_image *image)
{
    const struct mw_mapping *map = image->entry ? mw_image_region(image, image->entry) : NULL;
    for (size_t i = 0; !map && i < image->regions.count; i++)
        if (image->regions.items[i].name[0] == '/' && image->regions.items[i].offset == 0)
            map = &image->regions.items[i];
    return map && map->name[0] == '/' ? map : NULL;
}

/* Constants from the file behind them, or from those pages that are in memory: reading others would
 * map them in the target. */
static size_t constants_read(struct mw_image *image, int fd, const struct mw_mapping *map,
                             mw_addr at, char *bytes, size_t room)
{
    if (fd < 0)
        return mw_image_read_present(image, at, bytes, room);
    ssize_t got = mw_io_pread_full(fd, bytes, room, map->offset + (at - map->start));
    return got > 0 ? (size_t)got : 0;
}

void mw_module_version(struct mw_image *image, const struct mw_mapping *module,
                       mw_module_version_match *match, size_t skip, char version_out[32])
{
    enum { STEP = 256 << 10, SEARCH_MAX = 16 << 20 };
    MW_FREE char *bytes = mw_calloc(STEP, 1);
    MW_CLOSE int fd = mw_image_open_file(image, module);
    size_t searched = 0;
    for (size_t i = 0; bytes && i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->inode != module->inode || strcmp(map->name, module->name) != 0 ||
            (map->perms & (MW_PERM_READ | MW_PERM_WRITE)) != MW_PERM_READ)
            continue;
        for (mw_addr at = map->start; at < map->end && searched < SEARCH_MAX; at += STEP - 128) {
            size_t room = map->end - at < STEP ? (size_t)(map->end - at) : STEP;
            size_t got = constants_read(image, fd, map, at, bytes, room);
            searched += room; /* read or not: a core may lack all of it */
            for (size_t k = 0; k < got; k++) {
                size_t length =
                    k == 0 || bytes[k - 1] == '\0' || skip ? match(bytes + k, got - k) : 0;
                if (length <= skip || length - skip >= 32)
                    continue;
                memcpy(version_out, bytes + k + skip, length - skip);
                version_out[length - skip] = '\0';
                return;
            }
            if (map->end - at <= STEP)
                break;
        }
    }
}
