/* image/core_pages.c: residency from the holes of a core file.
 *
 * The kernel skips a page of anonymous memory that is not mapped, or is the zero page, by seeking
 * over it: where it writes the file itself, a hole is a page that was not resident and data is one
 * that was. That holds only for such a file. A copy that skips zeros (cp --sparse, zstd -d, xz -d,
 * systemd-coredump) makes holes of resident pages that hold zeros, a plain copy fills the holes,
 * and gcore never leaves any. So residency is claimed only when
 *   1. the notes are in the kernel's order,
 *   2. there is a hole inside a segment, and
 *   3. zeros are stored as data where no copy that skips zeros leaves them. cp and systemd leave
 *      no page of zeros; zstd may leave them behind other data of the same aligned 32 KiB, so its
 *      holes start only there; xz tests aligned 8 KiB. So: a page of zeros and a hole that starts
 *      off those 8 KiB, or an aligned 32 KiB of zeros.
 * Else it is unknown. For (3) the first EXTENT_BYTES_MAX of each piece of data are looked at, and
 * at most SCAN_BYTES_MAX in all: one large block without a page of zeros does not use up the budget
 * that its neighbours need.
 *
 * Where it is known, anonymous regions get their Rss: what is not a hole. Two things a core cannot
 * tell: a page of a file is dumped, or left out, whether it was resident or not, so such regions
 * have no Rss and a finding says so; and a page that was in swap is read back for the dump, so it
 * counts as resident. At most EXTENTS_MAX pieces of data are counted.
 *
 * References: Linux 6.18 fs/coredump.c dump_user_range(), mm/gup.c get_dump_page(); lseek(2);
 * zstd 1.5 programs/fileio_asyncio.c, xz 5.4 src/xz/file_io.c (blocks that they skip). */
#include "image/core.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/io.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, ODD_BYTES = 8 << 10, ZERO_BLOCK_BYTES = 32 << 10, READ_BYTES = 1 << 20 };
static const uint64_t SCAN_BYTES_MAX = (uint64_t)16 << 20, EXTENT_BYTES_MAX = (uint64_t)2 << 20;
static const uint64_t EXTENTS_MAX = (uint64_t)1 << 22; /* about a second */

/* The extent of equal kind that begins at offset and ends at most at end. */
static bool next_extent(int fd, uint64_t offset, uint64_t end, bool *is_data_out,
                        uint64_t *extent_end_out)
{
    off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
    if (data < 0 && errno != ENXIO)
        return false;
    *is_data_out = data == (off_t)offset;
    off_t next = *is_data_out ? lseek(fd, (off_t)offset, SEEK_HOLE) : data;
    if (*is_data_out && next < 0)
        return false; /* there is a hole at the end of every file */
    *extent_end_out = next < 0 || (uint64_t)next > end ? end : (uint64_t)next;
    return *extent_end_out > offset;
}

static bool is_anonymous(const struct mw_mapping *map)
{
    return mw_mapping_is_anonymous(map) && map->perms & MW_PERM_WRITE;
}

struct evidence {
    bool has_hole, has_odd_hole, has_zero_page, has_zero_block;
    bool is_cut;     /* the file cannot be asked or read everywhere */
    uint64_t budget; /* bytes that may still be read */
};

static bool is_enough(const struct evidence *evidence)
{
    return evidence->has_hole &&
           (evidence->has_zero_block || (evidence->has_zero_page && evidence->has_odd_hole));
}

/* Zeros in the data of [start, end) of the file. */
static void inspect_data(int fd, uint64_t start, uint64_t end, uint8_t *buffer,
                         struct evidence *evidence)
{
    while (start < end && evidence->budget >= READ_BYTES && !evidence->has_zero_block) {
        size_t step = end - start < READ_BYTES ? (size_t)(end - start) : READ_BYTES;
        if (mw_io_pread_full(fd, buffer, step, start) < (ssize_t)step) {
            evidence->is_cut = true;
            return;
        }
        evidence->budget -= step;
        size_t run = 0; /* zeros that lead up to `at` */
        for (size_t at = 0; at + PAGE_BYTES <= step; at += PAGE_BYTES) {
            bool is_block_start = (start + at) % ZERO_BLOCK_BYTES == 0;
            bool is_zero = mw_bytes_are_zero(buffer + at, PAGE_BYTES);
            run = !is_zero ? 0 : is_block_start || run > 0 ? run + PAGE_BYTES : 0;
            evidence->has_zero_page |= is_zero;
            evidence->has_zero_block |= run >= ZERO_BLOCK_BYTES;
        }
        start += step;
    }
}

/* Collects evidence in one region; stops early when there is enough. */
static void inspect_region(const struct mw_image *image, size_t index, uint8_t *buffer,
                           struct evidence *evidence)
{
    const struct mw_core *core = image->state;
    const struct mw_core_part *part = &core->parts[index];
    uint64_t at = part->offset, end = part->offset + part->file_bytes, extent_end;
    bool is_data;
    while (at < end && !is_enough(evidence)) {
        if (!next_extent(core->fd, at, end, &is_data, &extent_end)) {
            evidence->is_cut = true;
            return;
        }
        uint64_t head_end = extent_end - at > EXTENT_BYTES_MAX ? at + EXTENT_BYTES_MAX : extent_end;
        if (is_data) {
            inspect_data(core->fd, at, head_end, buffer, evidence);
        } else {
            evidence->has_hole = true;
            /* At the segment's start the hole may have begun before it. */
            evidence->has_odd_hole |= at > part->offset && at % ODD_BYTES != 0;
        }
        at = extent_end;
        if (evidence->budget < READ_BYTES && evidence->has_hole)
            return;
    }
}

/* Rss of one region from its pieces of data. False when they are too many, or cannot be found. */
static bool count_region(struct mw_image *image, size_t index, uint64_t *extents_left)
{
    const struct mw_core *core = image->state;
    const struct mw_core_part *part = &core->parts[index];
    uint64_t at = part->offset, end = part->offset + part->file_bytes, extent_end, rss = 0;
    for (bool is_data; at < end; at = extent_end) {
        if (*extents_left == 0 || !next_extent(core->fd, at, end, &is_data, &extent_end))
            return false;
        --*extents_left;
        rss += is_data ? extent_end - at : 0;
    }
    struct mw_mapping *map = &image->regions.items[index];
    static const enum mw_counter counters[] = {MW_COUNTER_RSS, MW_COUNTER_ANONYMOUS};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        map->counters[counters[i]] = rss;
        map->known |= 1u << counters[i];
    }
    return true;
}

static void forget_counters(struct mw_image *image)
{
    for (size_t i = 0; i < image->regions.count; i++)
        image->regions.items[i].known = 0;
}

/* A region that the file's end cuts has pages of which nothing is known: then no Rss at all, since
 * a sum over a part looks like one over the whole. */
static void count_resident(struct mw_image *image)
{
    const struct mw_core *core = image->state;
    uint64_t extents_left = EXTENTS_MAX, other_bytes = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        const struct mw_core_part *part = &core->parts[i];
        if (part->file_bytes < part->promised_bytes) {
            forget_counters(image);
            return;
        }
        bool is_reserve = map->perms == 0; /* had it been written to, the core would have it */
        if (!mw_mapping_is_anonymous(map) || (part->promised_bytes == 0 && !is_reserve)) {
            other_bytes += mw_mapping_is_anonymous(map) ? 0 : mw_mapping_size(map);
            continue;
        }
        if (!count_region(image, i, &extents_left)) {
            forget_counters(image);
            mw_finding_add(&image->findings, "core-residency-unknown", map->start, 0,
                           "the core has too many holes to count its resident pages");
            return;
        }
    }
    image->can |= MW_CAN_COUNTERS;
    mw_finding_add(&image->findings, "core-rss-anonymous", 0, other_bytes,
                   "Rss is that of anonymous memory alone, with what was in swap: a core does not "
                   "tell which pages of its mapped files were resident");
}

void mw_core_pages_probe(struct mw_image *image)
{
    const struct mw_core *core = mw_core_of(image);
    if (!core->is_kernels || core->is_spooled)
        return;
    MW_FREE uint8_t *buffer = mw_calloc(READ_BYTES, 1);
    if (!buffer) {
        mw_finding_add(&image->findings, "core-residency-unknown", 0, 0,
                       "out of memory: whether holes tell what was resident is not known");
        return;
    }
    struct evidence evidence = {.budget = SCAN_BYTES_MAX};
    for (size_t i = 0; i < image->regions.count; i++) {
        if (is_anonymous(&image->regions.items[i]))
            inspect_region(image, i, buffer, &evidence);
        if (is_enough(&evidence))
            break;
    }
    if (is_enough(&evidence)) {
        image->can |= MW_CAN_PAGES;
        count_resident(image);
    } else if (evidence.has_hole)
        mw_finding_add(&image->findings, "core-residency-unknown", 0, 0,
                       "the file has holes, but a copy that skips zeros may have made them");
    else if (evidence.is_cut)
        mw_finding_add(&image->findings, "core-residency-unknown", 0, 0,
                       "the file cannot be searched for holes");
}

/* Flags of the pages of one part of the file: holes are absent. */
static enum mw_status flag_part(const struct mw_image *image, const struct mw_core_part *part,
                                uint64_t skip, uint64_t bytes, uint8_t *flags_out,
                                struct mw_error *err)
{
    const struct mw_core *core = image->state;
    if (skip >= part->file_bytes)
        return MW_OK;
    uint64_t start = part->offset + skip;
    uint64_t have = part->file_bytes - skip;
    uint64_t end = start + (bytes < have ? bytes : have);
    for (uint64_t at = start, extent_end; at < end; at = extent_end) {
        bool is_data;
        if (!next_extent(core->fd, at, end, &is_data, &extent_end))
            return mw_fail_errno(err, errno, "cannot find the holes of the core");
        if (!is_data)
            continue;
        size_t first = (size_t)((at - start) / image->page_size);
        size_t last = (size_t)((extent_end - start + image->page_size - 1) / image->page_size);
        memset(flags_out + first, MW_PAGE_PRESENT, last - first);
    }
    return MW_OK;
}

enum mw_status mw_core_pages(struct mw_image *image, mw_addr start, size_t page_count,
                             uint8_t *flags_out, struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    const struct mw_mapping_list *regions = &image->regions;
    if (!mw_core_budget_take(image, &core->pages_left, page_count))
        return mw_fail(err, MW_LIMIT, "the core claims far more memory than its file has bytes");
    mw_addr end = start + (uint64_t)page_count * image->page_size;
    size_t index = mw_mapping_lower_bound(regions, start);
    for (; index < regions->count && regions->items[index].start < end; index++) {
        const struct mw_mapping *map = &regions->items[index];
        mw_addr from = map->start > start ? map->start : start;
        mw_addr to = map->end < end ? map->end : end;
        assert(from < to);
        uint8_t *flags = flags_out + (from - start) / image->page_size;
        enum mw_status status =
            flag_part(image, &core->parts[index], from - map->start, to - from, flags, err);
        if (status != MW_OK) {
            mw_core_unreadable(image, from, to - from);
            return status;
        }
    }
    return MW_OK;
}
