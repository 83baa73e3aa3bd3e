/* tests/fuzz/fuzz_smaps.c: any text as an smaps. What must hold: mappings ascend and do not
 * overlap, no byte is in two of them, names are terminated and bounded, a counter is a multiple of
 * 1024 and only there when it is known, and an image of it answers without reading memory. */
#include "base/limits.h"
#include "image/open.h"
#include "proc/smaps.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = mw_image_open_smaps((const char *)bytes, size, "input", &image, &err);
    if (status != MW_OK) {
        must(err.text[0] != '\0' && status == MW_INVALID);
        return 0;
    }
    mw_addr last = 0;
    for (size_t i = 0; i < image.regions.count; i++) {
        const struct mw_mapping *map = &image.regions.items[i];
        must(map->start >= last && map->start < map->end);
        must(strlen(map->name) <= MW_LIMIT_NAME_BYTES);
        must(map->known >> MW_COUNTER_COUNT == 0);
        for (int c = 0; c < MW_COUNTER_COUNT; c++)
            must(map->counters[c] % 1024 == 0 &&
                 (map->counters[c] == 0 || mw_mapping_knows(map, (enum mw_counter)c)));
        must(mw_image_region(&image, map->start) == map);
        must(mw_image_region(&image, map->end - 1) == map);
        last = map->end;
    }
    uint64_t word;
    must(mw_image_read_u64(&image, image.regions.items[0].start, &word) == MW_FAULT);
    must(image.page_size >= 4096 && (image.page_size & (image.page_size - 1)) == 0);
    mw_image_close(&image);
    return 0;
}
