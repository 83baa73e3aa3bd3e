/* image/live_snapshot.c: reading a frozen copy of the target instead of the target.
 *
 * The copy (live_fork.h) has the target's private memory and its page table for it. What a fork
 * leaves out is completed from the target itself:
 *   - MADV_DONTFORK and MADV_WIPEONFORK ranges: copied under the stop while small, else read from
 *     the target when asked for, which may be newer than the rest; a finding says how much;
 *   - page tables of files and shared memory: the target's own tell what is resident there. Their
 *     contents are the same pages either way.
 *
 * Reading never touches the target's page table: a page that is not there is made in the copy.
 *
 * References: Linux 6.18 mm/memory.c (copy_page_range, vma_needs_copy), kernel/fork.c (dup_mmap);
 * madvise(2). */
#include "image/live.h"

#include "base/alloc.h"
#include "base/units.h"
#include "base/vec.h"
#include "image/live_fork.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SMALL_BYTES = 4 << 20, /* of what a fork leaves out: read under the stop, about a millisecond */
    RANGES_MAX = 1024,
    HOLD_SECONDS = 10, /* for the other threads, should memwhy itself be held up */
};

struct mw_live_snapshot {
    struct mw_live_fork *fork;
    struct mw_live_source target;              /* what live->source was */
    MW_VEC(struct mw_live_fork_range) missing; /* ascending; bytes NULL: not copied */
};

static bool is_left_out(const struct mw_mapping *map)
{
    return (map->vm_flags & (MW_VM_DONTFORK | MW_VM_WIPEONFORK)) &&
           !(map->vm_flags & (MW_VM_IO | MW_VM_PFNMAP)) && (map->perms & MW_PERM_READ);
}

/* Does the copy's page table say what the target's said? */
static bool has_table(const struct mw_mapping *map)
{
    return map && mw_mapping_is_anonymous(map) && !(map->perms & MW_PERM_SHARED) &&
           !(map->vm_flags & (MW_VM_DONTFORK | MW_VM_WIPEONFORK));
}

/* ---- reading ---- */

/* The first range that ends after address, or NULL. */
static const struct mw_live_fork_range *missing_from(const struct mw_live_snapshot *snapshot,
                                                     mw_addr address)
{
    for (size_t i = 0; i < snapshot->missing.count; i++)
        if (address < snapshot->missing.items[i].start + snapshot->missing.items[i].length)
            return &snapshot->missing.items[i];
    return NULL;
}

size_t mw_live_snapshot_read(struct mw_live *live, mw_addr address, uint8_t *buffer, size_t length)
{
    const struct mw_live_snapshot *snapshot = live->snapshot;
    size_t done = 0;
    while (done < length) {
        mw_addr at = address + done;
        const struct mw_live_fork_range *range = missing_from(snapshot, at);
        size_t part = length - done, got;
        if (range && at < range->start) {
            part = range->start - at < part ? (size_t)(range->start - at) : part;
            range = NULL;
        } else if (range) {
            size_t left = (size_t)(range->start + range->length - at);
            part = left < part ? left : part;
        }
        if (range && range->is_read) {
            memcpy(buffer + done, range->bytes + (at - range->start), part);
            got = part;
        } else {
            got = mw_live_source_read(range ? &snapshot->target : &live->source, !range, at,
                                      buffer + done, part);
        }
        done += got;
        if (got < part)
            break;
    }
    return done;
}

enum mw_status mw_live_snapshot_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                      uint8_t *flags_out, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    enum mw_status status = MW_OK;
    for (size_t done = 0; done < page_count && status == MW_OK;) {
        mw_addr at = start + done * image->page_size;
        size_t i = mw_mapping_lower_bound(&image->regions, at);
        const struct mw_mapping *map = i < image->regions.count ? &image->regions.items[i] : NULL;
        bool is_inside = map && map->start <= at;
        mw_addr end = !map ? UINT64_MAX : is_inside ? map->end : map->start;
        size_t left = page_count - done;
        size_t part =
            (end - at) / image->page_size < left ? (size_t)((end - at) / image->page_size) : left;
        if (part == 0) /* mappings are of whole pages; anything else is no reason to stand still */
            part = 1;
        const struct mw_live_source *source =
            is_inside && has_table(map) ? &live->source : &live->snapshot->target;
        status = mw_live_source_pages(image, source, at, part, flags_out + done, err);
        done += part;
    }
    return status;
}

/* ---- taking and dropping ---- */

static void missing_free(struct mw_live_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->missing.count; i++)
        free(snapshot->missing.items[i].bytes);
    mw_vec_deinit(&snapshot->missing);
}

/* What the fork will leave out; buffers for it while that is small. */
static enum mw_status missing_list(const struct mw_image *image, struct mw_live_snapshot *snapshot,
                                   struct mw_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < image->regions.count; i++)
        if (is_left_out(&image->regions.items[i]))
            bytes += mw_mapping_size(&image->regions.items[i]);
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!is_left_out(map))
            continue;
        struct mw_live_fork_range range = {.start = map->start,
                                           .length = (size_t)mw_mapping_size(map)};
        if (bytes <= SMALL_BYTES && !(range.bytes = mw_calloc(range.length, 1)))
            return mw_fail(err, MW_NOMEM, "out of memory");
        enum mw_status status = mw_vec_push(&snapshot->missing, RANGES_MAX, range);
        if (status != MW_OK) {
            free(range.bytes);
            return mw_fail(err, status, "process %d has more than %d ranges that a fork leaves out",
                           image->process.pid, RANGES_MAX);
        }
    }
    return MW_OK;
}

static void missing_say(struct mw_image *image, const struct mw_live_snapshot *snapshot)
{
    uint64_t kept = 0, live = 0;
    char text[32];
    for (size_t i = 0; i < snapshot->missing.count; i++) {
        const struct mw_live_fork_range *range = &snapshot->missing.items[i];
        *(range->is_read ? &kept : &live) += range->length;
    }
    image->snapshot_lacks_bytes = live;
    if (kept)
        mw_finding_add(&image->findings, "fork-left-out", 0, kept,
                       "%s that a fork leaves out (MADV_DONTFORK, MADV_WIPEONFORK) were read under "
                       "the same stop",
                       mw_bytes_format(text, kept));
    if (live)
        mw_finding_add(&image->findings, "fork-left-out", 0, live,
                       "%s that a fork leaves out (MADV_DONTFORK, MADV_WIPEONFORK) are read from "
                       "the running process: they may be newer than the rest",
                       mw_bytes_format(text, live));
}

/* It stands in a tracer's stop until it is killed; its number stays taken while we trace it. */
static enum mw_status copy_check(const struct mw_live *live, pid_t copy, struct mw_error *err)
{
    char path[64];
    snprintf(path, sizeof path, "%d/stat", copy);
    if (mw_live_task_state(live->proc_fd, path) == 't')
        return MW_OK;
    mw_fail(err, MW_GONE,
            "the copy of process %d was killed while it was read, as happens first "
            "when memory runs out",
            live->pid);
    mw_error_hint(err, "leave out --fork: the heap is then read in short stops");
    return MW_GONE;
}

static enum mw_status source_open(struct mw_live *live, pid_t copy, struct mw_live_source *out,
                                  struct mw_error *err)
{
    char path[64];
    struct mw_live_source source = live->source;
    source.tid = copy;
    snprintf(path, sizeof path, "%d/mem", copy);
    source.mem_fd = openat(live->proc_fd, path, O_RDONLY | O_CLOEXEC);
    int mem_errno = errno;
    snprintf(path, sizeof path, "%d/pagemap", copy);
    source.pagemap_fd = openat(live->proc_fd, path, O_RDONLY | O_CLOEXEC);
    int pagemap_errno = errno;
    *out = source;
    bool has_memory = source.mem_fd >= 0 || source.vm_readv_works;
    if (has_memory && (source.pagemap_fd >= 0 || live->source.pagemap_fd < 0))
        return MW_OK;
    enum mw_status status = copy_check(live, copy, err);
    if (status != MW_OK) /* killed already: then it has no memory to open */
        return status;
    return has_memory
               ? mw_fail_errno(err, pagemap_errno,
                               "cannot read the page table of the copy of process %d", live->pid)
               : mw_fail_errno(err, mem_errno, "cannot read the copy of process %d", live->pid);
}

static void source_close(struct mw_live_source *source)
{
    if (source->mem_fd >= 0)
        close(source->mem_fd);
    if (source->pagemap_fd >= 0)
        close(source->pagemap_fd);
}

static void snapshot_free(struct mw_image *image, struct mw_live_snapshot *snapshot)
{
    pid_t copy = snapshot->fork ? snapshot->fork->child : 0;
    if (!mw_live_fork_end(snapshot->fork))
        mw_finding_add(
            &image->findings, "fork-zombie", 0, 0,
            "the process that adopted the copy has not collected it yet: until then %d is "
            "a zombie",
            copy);
    missing_free(snapshot);
    free(snapshot);
}

/* Everything that speaks against it, before the target is touched. */
static enum mw_status snapshot_check(struct mw_image *image, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_live_fork_room room;
    if (!live->pid_is_ours)
        return mw_fail(err, MW_UNSUPPORTED,
                       "cannot fork process %d: this /proc is of another pid namespace", live->pid);
    if (!(image->can & MW_CAN_READ)) {
        if (err)
            *err = image->cannot_read;
        return image->cannot_read.code;
    }
    if ((image->can & MW_CAN_PAGES) && !live->scan_works && live->zero_pfn == 0)
        return mw_fail(err, MW_UNSUPPORTED,
                       "cannot tell untouched pages of a copy: needs Linux 6.7 or CAP_SYS_ADMIN");
    enum mw_status status = mw_live_fork_target_check(&image->process, &image->regions, err);
    if (status != MW_OK)
        return status;
    mw_live_fork_room_load(live->proc_fd, NULL, &image->process, &image->regions, &room);
    return mw_live_fork_room_check(&room, live->pid, err);
}

static enum mw_status snapshot_fork(struct mw_image *image, struct mw_live_snapshot *snapshot,
                                    struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    enum mw_status status = missing_list(image, snapshot, err);
    if (status != MW_OK)
        return status;
    const struct mw_live_fork_request request = {
        .regions = &image->regions,
        .ranges = snapshot->missing.items,
        .range_count = snapshot->missing.items && snapshot->missing.items[0].bytes
                           ? snapshot->missing.count
                           : 0,
        .names = true,
        .vectors = image->wants_vectors,
        .hold_ns = (uint64_t)HOLD_SECONDS * 1000000000u,
    };
    return mw_live_fork_begin(live->pid, &request, &snapshot->fork, err);
}

/* The fork's threads become the image's. */
static void threads_take(struct mw_image *image, struct mw_live_fork *fork)
{
    free(image->threads);
    image->threads = fork->threads;
    image->thread_count = fork->thread_count;
    mw_vec_deinit(&image->vectors);
    image->vectors = fork->vectors;
    fork->vectors = (struct mw_vectors){0};
    fork->threads = NULL;
    fork->thread_count = 0;
    image->can |= MW_CAN_REGISTERS;
}

enum mw_status mw_live_snapshot(struct mw_image *image, uint64_t *pause_out, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    assert(!live->snapshot && !live->freeze);
    enum mw_status status = snapshot_check(image, err);
    if (status != MW_OK)
        return status;
    struct mw_live_snapshot *snapshot = mw_calloc(1, sizeof *snapshot);
    struct mw_live_source copy = {.mem_fd = -1, .pagemap_fd = -1};
    if (!snapshot)
        return mw_fail(err, MW_NOMEM, "out of memory");
    status = snapshot_fork(image, snapshot, err);
    if (status == MW_OK)
        status = source_open(live, snapshot->fork->child, &copy, err);
    if (status != MW_OK) {
        source_close(&copy);
        snapshot_free(image, snapshot);
        return status;
    }
    if (snapshot->fork->expired)
        mw_finding_add(&image->findings, "pause-expired", 0, 0,
                       "the target's threads were let go before it was forked");
    missing_say(image, snapshot);
    threads_take(image, snapshot->fork);
    snapshot->target = live->source;
    live->source = copy;
    live->snapshot = snapshot;
    *pause_out = snapshot->fork->pause_ns;
    return MW_OK;
}

enum mw_status mw_live_snapshot_check(struct mw_image *image, struct mw_error *err)
{
    const struct mw_live *live = mw_live_of(image);
    return copy_check(live, live->snapshot->fork->child, err);
}

void mw_live_snapshot_drop(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_live_snapshot *snapshot = live->snapshot;
    source_close(&live->source);
    live->source = snapshot->target;
    live->snapshot = NULL;
    image->can &= ~(unsigned)MW_CAN_REGISTERS;
    snapshot_free(image, snapshot);
}
