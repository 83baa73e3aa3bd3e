/* image/memory.c: a test's byte arrays as an image. Knows the residency of each page as the test
 * gives it; a part without bytes is mapped but cannot be read. The arrays stay the caller's. */
#include "base/alloc.h"
#include "image/open.h"

#include <assert.h>
#include <string.h>

enum { PAGE_BYTES = 4096 };

struct memory_image {
    const struct mw_image_memory_part *parts; /* a copy, in the order of the regions */
    size_t count;
};

/* Index of the part that holds address, count when none. */
static size_t find_part(const struct mw_image *image, mw_addr address)
{
    size_t index = mw_mapping_lower_bound(&image->regions, address);
    if (index < image->regions.count && image->regions.items[index].start <= address)
        return index;
    return image->regions.count;
}

static void memory_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                        size_t *got_out)
{
    const struct memory_image *memory = image->state;
    size_t done = 0;
    while (done < length) {
        size_t index = find_part(image, address + done);
        if (index == image->regions.count || !memory->parts[index].bytes)
            break;
        const struct mw_mapping *map = &image->regions.items[index];
        uint64_t skip = address + done - map->start, left = mw_mapping_size(map) - skip;
        size_t step = left < length - done ? (size_t)left : length - done;
        memcpy((uint8_t *)buffer + done, (const uint8_t *)memory->parts[index].bytes + skip, step);
        done += step;
    }
    *got_out = done;
}

static enum mw_status memory_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                   uint8_t *flags_out, struct mw_error *err)
{
    (void)err;
    const struct memory_image *memory = image->state;
    for (size_t i = 0; i < page_count; i++) {
        mw_addr address = start + (uint64_t)i * PAGE_BYTES;
        size_t index = find_part(image, address);
        if (index == image->regions.count)
            continue;
        const struct mw_image_memory_part *part = &memory->parts[index];
        uint64_t page = (address - image->regions.items[index].start) / PAGE_BYTES;
        flags_out[i] = part->pages ? part->pages[page] : part->bytes ? MW_PAGE_PRESENT : 0;
    }
    return MW_OK;
}

static void memory_close(struct mw_image *image)
{
    struct memory_image *memory = image->state;
    if (!memory)
        return;
    free((void *)memory->parts);
    free(memory);
}

static const struct mw_image_ops memory_ops = {
    .name = "memory",
    .read = memory_read,
    .pages = memory_pages,
    .close = memory_close,
};

static enum mw_status copy_parts(struct mw_image *image, const struct mw_image_memory_part *parts,
                                 size_t count, struct mw_error *err)
{
    struct memory_image *memory = mw_calloc(1, sizeof *memory);
    image->state = memory;
    struct mw_image_memory_part *copy = memory ? mw_calloc(count, sizeof *copy) : NULL;
    if (!copy)
        return mw_fail(err, MW_NOMEM, "out of memory for the image");
    memcpy(copy, parts, count * sizeof *copy);
    memory->parts = copy;
    memory->count = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = parts[i].mapping.name ? parts[i].mapping.name : "";
        enum mw_status status =
            mw_mapping_list_add(&image->regions, &parts[i].mapping, name, strlen(name));
        if (status != MW_OK)
            return mw_fail(err, status, "part %zu of the image does not fit", i);
        if (parts[i].mapping.known & 1u << MW_COUNTER_RSS)
            image->can |= MW_CAN_COUNTERS;
    }
    return MW_OK;
}

enum mw_status mw_image_open_memory(const struct mw_image_memory_part *parts, size_t count,
                                    struct mw_image *image_out, struct mw_error *err)
{
    struct mw_image image = {
        .ops = &memory_ops,
        .kind = MW_IMAGE_MEMORY,
        .arch = MW_ARCH_X86_64,
        .can = MW_CAN_READ | MW_CAN_PAGES,
        .page_size = PAGE_BYTES,
    };
    mw_process_init(&image.process);
    enum mw_status status = copy_parts(&image, parts, count, err);
    if (status != MW_OK) {
        mw_image_close(&image);
        return status;
    }
    assert(image.regions.count == count);
    *image_out = image;
    return MW_OK;
}
