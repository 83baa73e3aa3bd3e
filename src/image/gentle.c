/* image/gentle.c: bytes of mapped files without mapping pages in the target.
 *
 * Reading a page of a library that the target has not touched would put it into the target's page
 * table and raise its RSS. Such a page is what the file holds, so it is read from there; the file
 * opened last stays open, since a symbol table is read in many small pieces. Where the file cannot
 * be had the page is read after all.
 *
 * A core answers for itself: what it lacks comes from files (core_files.c). */
#include "image/image.h"

#include "base/io.h"
#include "image/near.h"

#include <string.h>
#include <unistd.h>

static bool file_is_cached(const struct mw_image *image, const struct mw_mapping *map)
{
    return image->file.is_set && image->file.inode == map->inode &&
           image->file.dev_major == map->dev_major && image->file.dev_minor == map->dev_minor;
}

/* The file behind map, -1 when it cannot be had; remembered either way. */
static int file_of(struct mw_image *image, const struct mw_mapping *map)
{
    if (!file_is_cached(image, map)) {
        mw_image_forget_file(image);
        image->file.fd = mw_image_open_file(image, map);
        image->file.inode = map->inode;
        image->file.dev_major = map->dev_major;
        image->file.dev_minor = map->dev_minor;
        image->file.is_set = true;
    }
    return image->file.fd;
}

void mw_image_forget_file(struct mw_image *image)
{
    if (image->file.is_set && image->file.fd >= 0)
        close(image->file.fd);
    image->file.is_set = false;
}

/* A page that this process's page table does not have, of a private mapping of a file. */
static bool is_only_in_file(struct mw_image *image, const struct mw_mapping *map, mw_addr page)
{
    uint8_t flags;
    if (!map || map->name[0] != '/' || (map->perms & MW_PERM_SHARED))
        return false;
    return mw_image_pages_near(image, page, 1, &flags) == MW_OK &&
           !(flags & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED));
}

/* One page's part from the file. What lies behind the file's end is zero. */
static bool part_from_file(struct mw_image *image, const struct mw_mapping *map, mw_addr address,
                           uint8_t *out, size_t length)
{
    int fd = file_of(image, map);
    if (fd < 0)
        return false;
    ssize_t got = mw_io_pread_full(fd, out, length, map->offset + (address - map->start));
    if (got < 0)
        return false;
    memset(out + got, 0, length - (size_t)got);
    return true;
}

enum mw_status mw_image_read_mapped(struct mw_image *image, mw_addr address, void *buffer,
                                    size_t length)
{
    uint8_t *out = buffer;
    if (image->ops->read_initial && image->can & MW_CAN_READ && length <= UINT64_MAX - address)
        return image->ops->read_initial(image, address, buffer, length) == length ? MW_OK
                                                                                  : MW_FAULT;
    if (image->kind != MW_IMAGE_LIVE || !(image->can & MW_CAN_PAGES) ||
        length > UINT64_MAX - address)
        return mw_image_read(image, address, buffer, length);
    while (length > 0) {
        mw_addr page = address & ~((mw_addr)image->page_size - 1);
        size_t left = image->page_size - (size_t)(address - page);
        size_t part = left < length ? left : length;
        const struct mw_mapping *map = mw_image_region(image, address);
        if (!(is_only_in_file(image, map, page) &&
              part_from_file(image, map, address, out, part)) &&
            mw_image_read(image, address, out, part) != MW_OK)
            return MW_FAULT;
        address += part;
        out += part;
        length -= part;
    }
    return MW_OK;
}
