/* image/image.c: what is the same for every source of memory: dispatch, checks, pauses. */
#include "image/image.h"

#include "base/clock.h"
#include "image/near.h"

#include <assert.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

size_t mw_image_read_some(struct mw_image *image, mw_addr address, void *buffer, size_t length)
{
    assert(image->ops && buffer);
    if (!(image->can & MW_CAN_READ))
        return 0;
    if (length > UINT64_MAX - address) /* the last byte of the address space is never mapped */
        length = (size_t)(UINT64_MAX - address);
    size_t got = 0;
    if (length > 0)
        image->ops->read(image, address, buffer, length, &got);
    assert(got <= length);
    return got;
}

enum mw_status mw_image_read(struct mw_image *image, mw_addr address, void *buffer, size_t length)
{
    return mw_image_read_some(image, address, buffer, length) == length ? MW_OK : MW_FAULT;
}

enum mw_status mw_image_read_u64(struct mw_image *image, mw_addr address, uint64_t *value_out)
{
    uint64_t value;
    enum mw_status status = mw_image_read(image, address, &value, sizeof value);
    if (status == MW_OK)
        *value_out = value;
    return status;
}

enum mw_status mw_image_pages(struct mw_image *image, mw_addr start, size_t page_count,
                              uint8_t *flags_out, struct mw_error *err)
{
    assert(image->ops && image->page_size > 0);
    uint64_t bytes, end;
    if (!(image->can & MW_CAN_PAGES))
        return mw_fail(err, MW_UNSUPPORTED, "residency page by page is not known here");
    if (start % image->page_size != 0 ||
        __builtin_mul_overflow(page_count, image->page_size, &bytes) ||
        __builtin_add_overflow(start, bytes, &end))
        return mw_fail_at(err, MW_INVALID, start, "not a range of whole pages");
    if (page_count == 0)
        return MW_OK;
    memset(flags_out, 0, page_count);
    return image->ops->pages(image, start, page_count, flags_out, err);
}

enum mw_status mw_image_stop(struct mw_image *image, struct mw_error *err)
{
    assert(!image->stopped);
    bool can_move = image->ops->stop && !image->has_snapshot;
    image->stop_began_ns = mw_clock_monotonic_ns();
    enum mw_status status = can_move ? image->ops->stop(image, err) : MW_OK;
    if (status != MW_OK)
        return status;
    image->stopped = true;
    mw_image_near_forget(image);
    return MW_OK;
}

static void pause_add(struct mw_image *image, uint64_t pause)
{
    image->pauses.count++;
    image->pauses.total_ns += pause;
    if (pause > image->pauses.longest_ns)
        image->pauses.longest_ns = pause;
}

void mw_image_resume(struct mw_image *image)
{
    assert(image->stopped);
    image->stopped = false;
    mw_image_near_forget(image);
    if (image->ops->resume && !image->has_snapshot)
        pause_add(image, image->ops->resume(image));
}

enum mw_status mw_image_snapshot(struct mw_image *image, struct mw_error *err)
{
    assert(!image->stopped && !image->has_snapshot);
    uint64_t pause;
    if (!image->ops->snapshot)
        return MW_OK;
    enum mw_status status = image->ops->snapshot(image, &pause, err);
    if (status != MW_OK)
        return status;
    image->has_snapshot = true;
    mw_image_near_forget(image);
    pause_add(image, pause);
    return MW_OK;
}

enum mw_status mw_image_snapshot_check(struct mw_image *image, struct mw_error *err)
{
    return image->has_snapshot ? image->ops->snapshot_check(image, err) : MW_OK;
}

void mw_image_snapshot_drop(struct mw_image *image)
{
    if (!image->has_snapshot)
        return;
    image->stopped = false;
    image->has_snapshot = false;
    image->snapshot_lacks_bytes = 0;
    mw_image_near_forget(image);
    image->ops->snapshot_drop(image);
}

enum mw_status mw_image_refresh(struct mw_image *image, struct mw_error *err)
{
    bool can_change = image->ops->refresh && !image->has_snapshot;
    mw_image_near_forget(image);
    return can_change ? image->ops->refresh(image, err) : MW_OK;
}

enum mw_status mw_image_refresh_ranges(struct mw_image *image, struct mw_error *err)
{
    bool can_change = image->ops->refresh_ranges && !image->has_snapshot;
    mw_image_near_forget(image);
    return can_change ? image->ops->refresh_ranges(image, err) : MW_OK;
}

void mw_image_auxv_store(struct mw_image *image, uint64_t type, uint64_t value)
{
    if (type != AT_NULL && image->auxv_count < MW_AUXV_MAX) {
        image->auxv[image->auxv_count].type = type;
        image->auxv[image->auxv_count++].value = value;
    }
    switch (type) {
    case AT_ENTRY:
        image->entry = value;
        break;
    case AT_PHDR:
        image->phdr = value;
        break;
    case AT_BASE:
        image->base = value;
        break;
    case AT_RANDOM:
        image->at_random = value;
        break;
    case AT_SYSINFO_EHDR:
        image->vdso = value;
        break;
    default:
        break;
    }
}

void mw_image_close(struct mw_image *image)
{
    if (!image)
        return;
    mw_image_snapshot_drop(image);
    if (image->stopped)
        mw_image_resume(image);
    if (image->ops && image->ops->close)
        image->ops->close(image);
    mw_image_forget_file(image);
    mw_mapping_list_deinit(&image->regions);
    mw_process_deinit(&image->process);
    free(image->threads);
    mw_vec_deinit(&image->vectors);
    mw_findings_deinit(&image->findings);
    *image = (struct mw_image){0};
}

int mw_image_open_file(struct mw_image *image, const struct mw_mapping *region)
{
    return image->ops->open_file ? image->ops->open_file(image, region) : -1;
}

int mw_image_open_path(struct mw_image *image, const char *path)
{
    return image->ops->open_path && path[0] == '/' ? image->ops->open_path(image, path) : -1;
}

/* Pages [0, count) with their flags cover [address, address + length): read or zero each run of
 * like pages. Returns the bytes that are good. */
static size_t read_runs(struct mw_image *image, mw_addr address, uint8_t *out, size_t length,
                        const uint8_t *flags, size_t count)
{
    size_t page = image->page_size, done = 0;
    for (size_t first = 0, last; first < count; first = last) {
        bool content = mw_page_has_content(flags[first]);
        for (last = first + 1; last < count && mw_page_has_content(flags[last]) == content; last++)
            ;
        size_t end = last * page - (size_t)(address & (page - 1));
        size_t part = (end < length ? end : length) - done;
        size_t got = part;
        if (content)
            got = mw_image_read_some(image, address + done, out + done, part);
        else
            memset(out + done, 0, part);
        done += got;
        if (got < part)
            break;
    }
    return done;
}

size_t mw_image_read_present(struct mw_image *image, mw_addr address, void *buffer, size_t length)
{
    enum { BATCH = 256 };
    if (!(image->can & MW_CAN_PAGES))
        return mw_image_read_some(image, address, buffer, length);
    uint8_t flags[BATCH], *out = buffer;
    size_t page = image->page_size, done = 0;
    while (done < length) {
        mw_addr at = address + done, first = at & ~((mw_addr)page - 1);
        size_t covered = BATCH * page - (size_t)(at - first);
        size_t step = length - done < covered ? length - done : covered;
        size_t count = ((size_t)(at - first) + step + page - 1) / page;
        enum mw_status status = count <= MW_NEAR_PAGES
                                    ? mw_image_pages_near(image, first, count, flags)
                                    : mw_image_pages(image, first, count, flags, NULL);
        if (status != MW_OK)
            return done;
        size_t got = read_runs(image, at, out + done, step, flags, count);
        done += got;
        if (got < step)
            return done;
    }
    return done;
}
