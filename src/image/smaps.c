/* image/smaps.c: the text of somebody's smaps as an image: regions and counters, no memory.
 *
 * What such a text can answer is the mapping level: where the memory is by mapping. The page size
 * is the smallest KernelPageSize of its mappings; the architecture is not told. A text of maps has
 * no counters, and then even RSS is unknown. */
#include "proc/smaps.h"
#include "image/open.h"

#include <assert.h>

enum { PAGE_BYTES_DEFAULT = 4096 };

static const struct mw_image_ops smaps_ops = {.name = "smaps"};

static bool is_page_size(uint64_t bytes)
{
    return bytes >= 4096 && bytes <= 65536 && (bytes & (bytes - 1)) == 0;
}

/* Smallest page size that a mapping names; every counter is a multiple of it. */
static uint32_t page_size_of(const struct mw_mapping_list *regions)
{
    uint64_t smallest = 0;
    for (size_t i = 0; i < regions->count; i++) {
        uint64_t bytes = regions->items[i].kernel_page_size;
        if (is_page_size(bytes) && (smallest == 0 || bytes < smallest))
            smallest = bytes;
    }
    return smallest ? (uint32_t)smallest : PAGE_BYTES_DEFAULT;
}

static bool has_counters(const struct mw_mapping_list *regions)
{
    for (size_t i = 0; i < regions->count; i++)
        if (mw_mapping_knows(&regions->items[i], MW_COUNTER_RSS))
            return true;
    return false;
}

enum mw_status mw_image_open_smaps(const char *text, size_t length, const char *name,
                                   struct mw_image *image_out, struct mw_error *err)
{
    struct mw_image image = {.ops = &smaps_ops, .kind = MW_IMAGE_SMAPS};
    mw_process_init(&image.process);
    enum mw_status status = mw_smaps_parse(text, length, &image.regions, &image.findings, err);
    if (status != MW_OK) {
        mw_error_prefix(err, "cannot read '%s'", name);
        mw_image_close(&image);
        return status;
    }
    assert(image.regions.count > 0);
    image.page_size = page_size_of(&image.regions);
    if (has_counters(&image.regions)) {
        image.can |= MW_CAN_COUNTERS;
    } else {
        mw_finding_add(&image.findings, "no-counters", 0, 0,
                       "'%s' is a maps text: it tells ranges, not what is resident", name);
    }
    mw_fail(&image.cannot_read, MW_UNSUPPORTED, "an smaps text holds no memory contents");
    mw_error_hint(&image.cannot_read, "memwhy PID, or a core taken with: gcore PID");
    *image_out = image;
    return MW_OK;
}
