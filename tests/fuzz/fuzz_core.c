/* tests/fuzz/fuzz_core.c: any bytes as a core file. What must hold: regions ascend and do not
 * overlap, a read never gives more than the region and the file have, whole and part reads agree,
 * the window and reads of mapped files give the same bytes as a read, a cut says how much. */
#include "base/io.h"
#include "image/open.h"
#include "image/window.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGIONS_MAX = 64 }; /* looked into for each input */

static void must(int good)
{
    if (!good)
        abort();
}

static void check_region(struct mw_image *image, struct mw_window *window,
                         const struct mw_mapping *map)
{
    static uint8_t whole[64 << 10], part[4096];
    size_t got = mw_image_read_some(image, map->start, whole, sizeof whole);
    uint64_t size = mw_mapping_size(map);
    size_t within = got < size ? got : (size_t)size;
    if (within > 0) {
        size_t at = within / 2, length = within - at < sizeof part ? within - at : sizeof part;
        must(mw_image_read(image, map->start + at, part, length) == MW_OK);
        must(memcmp(whole + at, part, length) == 0);
    }
    /* how data began is only ever more than what is known to be there, and the same where both are
     */
    if (within >= 64) {
        must(mw_image_read_mapped(image, map->start, part, 64) == MW_OK);
        must(memcmp(whole, part, 64) == 0);
    } else
        (void)!mw_image_read_mapped(image, map->start, part, 64);
    if (within >= 4096) {
        const uint8_t *seen = mw_window_at(window, map->start, 4096);
        must(seen && memcmp(seen, whole, 4096) == 0);
    }
    if (image->can & MW_CAN_PAGES) {
        uint8_t flags[64];
        size_t count = (size_t)(size / image->page_size);
        count = count < sizeof flags ? count : sizeof flags;
        must(mw_image_pages(image, map->start, count, flags, NULL) == MW_OK);
        for (size_t i = 0; i < count; i++)
            must((flags[i] & ~MW_PAGE_PRESENT) == 0);
    }
}

/* Every other page of zeros becomes a hole, as in a core of the kernel. */
static void punch_holes(int fd, const uint8_t *bytes, size_t size)
{
    static const uint8_t zeros[4096];
    bool is_odd = false;
    for (size_t at = 0; at + sizeof zeros <= size; at += sizeof zeros)
        if (memcmp(bytes + at, zeros, sizeof zeros) == 0 && (is_odd = !is_odd))
            must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                           sizeof zeros) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    int fd = memfd_create("core", MFD_CLOEXEC);
    must(fd >= 0 && mw_io_write_full(fd, bytes, size) == 0);
    punch_holes(fd, bytes, size);
    struct mw_image image;
    struct mw_error err = {0};
    if (mw_image_open_core(fd, "input", NULL, &image, &err) != MW_OK) {
        must(err.text[0] != '\0');
        close(fd);
        return 0;
    }
    struct mw_window window;
    must(mw_window_init(&window, &image) == MW_OK);
    mw_addr last = 0;
    for (size_t i = 0; i < image.regions.count; i++) {
        const struct mw_mapping *map = &image.regions.items[i];
        must(map->start >= last && map->start < map->end);
        must(map->start % 4096 == 0 && map->end % 4096 == 0);
        last = map->end;
        if (i < REGIONS_MAX)
            check_region(&image, &window, map);
    }
    const struct mw_finding *cut = mw_finding_find(&image.findings, "core-truncated");
    must(!cut || cut->bytes > 0);
    for (size_t i = 0; i < image.thread_count; i++)
        must(image.threads[i].register_count <= 34);
    mw_window_deinit(&window);
    mw_image_close(&image);
    return 0;
}
