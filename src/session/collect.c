/* session/collect.c: hold still or fork, lay out, write, rename.
 *
 * Pages of several moments are no evidence: what does not fit into one stop is refused before
 * anything is written. With a copy nothing is held but for the fork. */
#include "session/collect.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "collect/write.h"
#include "image/open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* What copying to a file takes, twice what was measured on a warm disk cache: 1 GB/s. */
enum { HOLD_NS_PER_KIB = 2000 };
/* Room that must stay on the disk beside the file: a twentieth, at most this. */
static const uint64_t ROOM_LEFT_MAX = (uint64_t)1 << 30;

/* A file that is not there until it is whole: it has no name before, where the file system allows
 * that, so that even a SIGKILL leaves nothing behind. */
struct output {
    int fd;
    const char *path;
    char *temporary; /* beside path; NULL: standard output */
    bool is_nameless;
};

static enum mw_status output_open(struct output *output, const char *path, struct mw_error *err)
{
    *output = (struct output){.fd = STDOUT_FILENO, .path = path};
    if (strcmp(path, "-") == 0)
        return isatty(STDOUT_FILENO) ? mw_fail(err, MW_INVALID, "a capture is not for a terminal")
                                     : MW_OK;
    const char *slash = strrchr(path, '/');
    struct mw_str name = MW_STR_INIT(4096), folder = MW_STR_INIT(4096);
    mw_str_printf(&name, "%s.partial-%d", path, (int)getpid());
    mw_str_append(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    enum mw_status status = name.status == MW_OK ? folder.status : name.status;
    if (status == MW_OK) {
        output->fd = open(mw_str_text(&folder), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
        output->is_nameless = output->fd >= 0;
        if (output->fd < 0 && errno != EACCES && errno != ENOENT && errno != EROFS)
            output->fd =
                open(name.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (output->fd < 0)
            status = mw_fail_errno(err, errno, "cannot write '%s'", path);
    } else {
        (void)mw_fail(err, MW_INVALID, "the name of the output is too long");
        status = MW_INVALID;
    }
    mw_str_deinit(&folder);
    if (status == MW_OK)
        output->temporary = name.text;
    else
        mw_str_deinit(&name);
    return status;
}

/* Give it its name, in place of what had that name before. */
static enum mw_status output_name(struct output *output, struct mw_error *err)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", output->fd);
    if (output->is_nameless &&
        linkat(AT_FDCWD, self, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) != 0)
        return mw_fail_errno(err, errno, "cannot name the capture '%s'", output->path);
    output->is_nameless = false;
    return rename(output->temporary, output->path) == 0
               ? MW_OK
               : mw_fail_errno(err, errno, "cannot name the capture '%s'", output->path);
}

/* The file is there now, or nothing is. */
static enum mw_status output_close(struct output *output, enum mw_status status,
                                   struct mw_error *err)
{
    if (!output->temporary)
        return status;
    if (status == MW_OK && fsync(output->fd) != 0)
        status = mw_fail_errno(err, errno, "cannot write '%s'", output->path);
    if (status == MW_OK) /* it is on disk: the cache is for others */
        (void)posix_fadvise(output->fd, 0, 0, POSIX_FADV_DONTNEED);
    if (status == MW_OK)
        status = output_name(output, err);
    if (status != MW_OK && !output->is_nameless)
        (void)unlink(output->temporary);
    close(output->fd);
    free(output->temporary);
    return status;
}

static enum mw_status room_check(const struct output *output, uint64_t wanted, struct mw_error *err)
{
    struct statvfs disk;
    char need[32], have[32];
    if (!output->temporary || fstatvfs(output->fd, &disk) != 0)
        return MW_OK;
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t spare = (uint64_t)disk.f_blocks * disk.f_frsize / 20;
    spare = spare < ROOM_LEFT_MAX ? spare : ROOM_LEFT_MAX;
    if (room >= spare && room - spare >= wanted)
        return MW_OK;
    (void)mw_fail(err, MW_LIMIT, "the capture takes about %s, and the disk has %s free",
                  mw_bytes_format(need, wanted), mw_bytes_format(have, room));
    mw_error_hint(err, "another file system, or: memwhy collect PID -o - | zstd >FILE.zst");
    return MW_LIMIT;
}

/* A target that runs is held from now on; its regions are those of this moment. */
static enum mw_status target_hold(struct mw_image *image, bool by_fork, struct mw_error *err)
{
    if (by_fork)
        return mw_image_snapshot(image, err);
    enum mw_status status = mw_image_stop(image, err);
    return status == MW_OK ? mw_image_refresh(image, err) : status;
}

static enum mw_status fits_check(const struct mw_image *image, uint64_t bytes,
                                 const struct mw_context *context, struct mw_error *err)
{
    char size[32], pause[32], limit[32];
    uint64_t ns = bytes / 1024 * HOLD_NS_PER_KIB;
    if (!mw_image_moves(image) || ns <= context->pause_ns_max)
        return MW_OK;
    (void)mw_fail(err, MW_LIMIT,
                  "writing %s would hold the process for about %s, longer than --max-pause %s",
                  mw_bytes_format(size, bytes), mw_duration_format(pause, (double)ns / 1e9),
                  mw_duration_format(limit, (double)context->pause_ns_max / 1e9));
    mw_error_hint(err, "--fork holds it for a fork alone; or a longer --max-pause");
    return MW_LIMIT;
}

static uint64_t rss_of(const struct mw_image *image)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < image->regions.count; i++)
        sum += mw_mapping_counter(&image->regions.items[i], MW_COUNTER_RSS);
    return image->can & MW_CAN_COUNTERS ? sum : MW_UNKNOWN;
}

static enum mw_status capture_write(struct mw_image *image, struct output *output,
                                    struct mw_context *context, struct mw_collected *collected,
                                    struct mw_error *err)
{
    struct mw_capture_layout layout;
    struct mw_capture_written written = {0};
    enum mw_status status = mw_capture_layout_make(image, context, &layout, err);
    if (status != MW_OK)
        return status;
    status = fits_check(image, layout.stored_bytes, context, err);
    if (status == MW_OK)
        status = room_check(output, mw_capture_size(image, &layout), err);
    if (status == MW_OK)
        status = mw_capture_write(output->fd, image, &layout, mw_clock_realtime_s(), context,
                                  &written, err);
    mw_capture_layout_deinit(&layout);
    collected->file_bytes = written.file_bytes;
    collected->memory_bytes = written.memory_bytes;
    collected->unreadable_bytes = written.unreadable_bytes;
    return status;
}

static enum mw_status image_collect(struct mw_image *image,
                                    const struct mw_collect_options *options,
                                    struct mw_context *context, struct mw_collected *collected,
                                    struct mw_error *err)
{
    struct output output;
    if (image->kind != MW_IMAGE_LIVE)
        return mw_fail(err, MW_UNSUPPORTED, "only a live process can be captured");
    if (!(image->can & MW_CAN_READ)) {
        *err = image->cannot_read;
        return image->cannot_read.code;
    }
    enum mw_status status = output_open(&output, options->output, err);
    if (status != MW_OK)
        return status;
    image->wants_vectors = true;
    status = target_hold(image, options->fork, err);
    if (status == MW_OK)
        status = capture_write(image, &output, context, collected, err);
    if (status == MW_OK && image->has_snapshot)
        status = mw_image_snapshot_check(image, err);
    collected->resident_bytes = rss_of(image);
    if (image->stopped)
        mw_image_resume(image);
    collected->pauses = image->pauses.count;
    collected->paused_ns = image->pauses.total_ns;
    collected->longest_pause_ns = image->pauses.longest_ns;
    return output_close(&output, status, err);
}

enum mw_status mw_collect(const char *target, const struct mw_collect_options *options,
                          struct mw_context *context, struct mw_collected *collected_out,
                          struct mw_error *err)
{
    const struct mw_image_open_options open_options = {.proc_dir_fd = AT_FDCWD, .need_read = true};
    const uint64_t start = mw_clock_monotonic_ns();
    struct mw_image image;
    *collected_out = (struct mw_collected){.resident_bytes = MW_UNKNOWN};
    enum mw_status status = mw_image_open(target, &open_options, context, &image, err);
    if (status != MW_OK)
        return status;
    status = image_collect(&image, options, context, collected_out, err);
    mw_image_close(&image);
    collected_out->seconds = (double)(mw_clock_monotonic_ns() - start) / 1e9;
    return status;
}
