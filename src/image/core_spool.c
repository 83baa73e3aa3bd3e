/* image/core_spool.c: a stream (a pipe, a .zst) → a temporary file that can be read anywhere.
 *
 * The file has no name and mode 0600: a core is full of secrets and must not outlive us. It is
 * made below $TMPDIR, else /var/tmp (a disk, where /tmp is often memory), else /tmp. Blocks of
 * zeros become holes. Bounds: the free space of that disk less RESERVE_BYTES, and
 * MW_LIMIT_CORE_BYTES in all, so that a bomb of zeros ends, too; libzstd's own bound on its window
 * (128 MiB) keeps the memory small.
 *
 * References: zstd(1) 1.5.4, RFC 8878; open(2) O_TMPFILE. */
#include "image/core.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/context.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/units.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

enum {
    INPUT_BYTES = 256 << 10,
    OUTPUT_BYTES = 128 << 10, /* a block: what a call has unpacked is lost when it fails */
    BLOCK_BYTES = 4096,
    CHECK_BYTES = 64 << 20
};
static const uint64_t RESERVE_BYTES = (uint64_t)64 << 20; /* of the disk, left to others */

struct spool {
    const char *name;
    struct mw_context *context;
    int fd;
    uint64_t length, length_max; /* of the copy, holes included */
    uint64_t written;            /* really */
    uint64_t checked;            /* value of `written` when the disk was last looked at */
    uint64_t input, input_total; /* for progress; total 0: unknown */
};

static int open_nameless(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/memwhy-XXXXXX", directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_temporary(const char **directory_out)
{
    const char *const places[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < sizeof places / sizeof *places; i++) {
        if (!places[i] || !*places[i])
            continue;
        *directory_out = places[i];
        fd = open_nameless(places[i]);
        if (i == 0 && fd < 0)
            return -1; /* it was asked for by name */
    }
    return fd;
}

static uint64_t free_bytes(int fd)
{
    struct statvfs about;
    if (fstatvfs(fd, &about) != 0)
        return UINT64_MAX;
    uint64_t bytes;
    return __builtin_mul_overflow((uint64_t)about.f_bavail, about.f_frsize, &bytes) ? UINT64_MAX
                                                                                    : bytes;
}

static enum mw_status fail_full(const struct spool *spool, struct mw_error *err)
{
    mw_fail(err, MW_LIMIT, "no room to unpack '%s' in the temporary directory", spool->name);
    mw_error_hint(err, "TMPDIR=DIRECTORY memwhy %s", spool->name);
    return MW_LIMIT;
}

/* Called before more is written: bound, disk, cancel, progress. */
static enum mw_status check_spool(struct spool *spool, size_t more, struct mw_error *err)
{
    char bound[32];
    if (mw_context_canceled(spool->context))
        return mw_fail(err, MW_CANCELED, "unpacking '%s' was cancelled", spool->name);
    if (more > spool->length_max - spool->length)
        return mw_fail(err, MW_LIMIT, "'%s' unpacks to more than %s", spool->name,
                       mw_bytes_format(bound, spool->length_max));
    mw_context_progress(spool->context, "unpacking", spool->input, spool->input_total);
    if (spool->checked != UINT64_MAX && spool->written - spool->checked < CHECK_BYTES)
        return MW_OK;
    spool->checked = spool->written;
    return free_bytes(spool->fd) < RESERVE_BYTES + CHECK_BYTES ? fail_full(spool, err) : MW_OK;
}

static enum mw_status write_at(struct spool *spool, const uint8_t *bytes, size_t length,
                               struct mw_error *err)
{
    while (length > 0) {
        ssize_t put = pwrite(spool->fd, bytes, length, (off_t)spool->length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
            return fail_full(spool, err);
        if (put < 0)
            return mw_fail_errno(err, errno, "cannot write the copy of '%s'", spool->name);
        bytes += put;
        length -= (size_t)put;
        spool->length += (uint64_t)put;
        spool->written += (uint64_t)put;
    }
    return MW_OK;
}

/* Append bytes; runs of zero blocks are stepped over. */
static enum mw_status spool_append(struct spool *spool, const uint8_t *bytes, size_t length,
                                   struct mw_error *err)
{
    enum mw_status status = check_spool(spool, length, err);
    while (status == MW_OK && length > 0) {
        size_t run = 0;
        bool is_zero = false;
        while (run < length) {
            size_t step = length - run < BLOCK_BYTES ? length - run : BLOCK_BYTES;
            bool zero = mw_bytes_are_zero(bytes + run, step);
            if (run > 0 && zero != is_zero)
                break;
            is_zero = zero;
            run += step;
        }
        if (is_zero)
            spool->length += run;
        else
            status = write_at(spool, bytes, run, err);
        bytes += run;
        length -= run;
    }
    return status;
}

/* The next input into buffer: first what was read before, then the stream. 0 at its end. */
struct input {
    int fd;
    const uint8_t *first;
    size_t first_length;
    uint8_t *buffer;
};

static ssize_t input_next(struct input *input, const uint8_t **bytes_out)
{
    if (input->first_length > 0) {
        *bytes_out = input->first;
        ssize_t length = (ssize_t)input->first_length;
        input->first_length = 0;
        return length;
    }
    ssize_t got;
    do
        got = read(input->fd, input->buffer, INPUT_BYTES);
    while (got < 0 && errno == EINTR);
    *bytes_out = input->buffer;
    return got;
}

static enum mw_status copy_plain(struct spool *spool, struct input *input, struct mw_error *err)
{
    for (;;) {
        const uint8_t *bytes;
        ssize_t got = input_next(input, &bytes);
        if (got < 0)
            return mw_fail_errno(err, errno, "cannot read '%s'", spool->name);
        if (got == 0)
            return MW_OK;
        spool->input += (uint64_t)got;
        enum mw_status status = spool_append(spool, bytes, (size_t)got, err);
        if (status != MW_OK)
            return status;
    }
}

static enum mw_status fail_zstd(const struct spool *spool, size_t code, struct mw_error *err)
{
    mw_fail(err, MW_CORRUPT, "cannot unpack '%s': %s", spool->name, ZSTD_getErrorName(code));
    if (strstr(ZSTD_getErrorName(code), "memory"))
        mw_error_hint(err, "zstd -d --long=31 %s", spool->name);
    return MW_CORRUPT;
}

/* Unpack one piece of input; *hint_out is 0 when a frame has just ended. */
static enum mw_status unpack_piece(struct spool *spool, ZSTD_DCtx *zstd, ZSTD_inBuffer *in,
                                   uint8_t *output, size_t *hint_out, struct mw_error *err)
{
    for (;;) {
        ZSTD_outBuffer out = {output, OUTPUT_BYTES, 0};
        size_t code = ZSTD_decompressStream(zstd, &out, in);
        if (ZSTD_isError(code))
            return fail_zstd(spool, code, err);
        *hint_out = code;
        enum mw_status status = out.pos > 0 ? spool_append(spool, output, out.pos, err) : MW_OK;
        if (status != MW_OK)
            return status;
        if (in->pos == in->size && out.pos < out.size)
            return MW_OK;
    }
}

/* Damage in the stream: what came before it is a core that is cut, and says so. */
static enum mw_status end_at_damage(const struct spool *spool, struct mw_error *damage,
                                    struct mw_error *err)
{
    if (!damage || spool->length < MW_ELF_HEADER_BYTES || !err)
        return MW_CORRUPT;
    *damage = *err;
    return MW_OK;
}

/* A cut .zst still gives what comes before the cut. */
static enum mw_status copy_zstd(struct spool *spool, struct input *input, struct mw_error *damage,
                                struct mw_error *err)
{
    MW_FREE uint8_t *output = mw_calloc(OUTPUT_BYTES, 1);
    ZSTD_DCtx *zstd = output ? ZSTD_createDCtx() : NULL;
    if (!zstd)
        return mw_fail(err, MW_NOMEM, "out of memory to unpack '%s'", spool->name);
    enum mw_status status = MW_OK;
    for (size_t hint = 0; status == MW_OK;) {
        const uint8_t *bytes;
        ssize_t got = input_next(input, &bytes);
        if (got < 0)
            status = mw_fail_errno(err, errno, "cannot read '%s'", spool->name);
        if (got == 0 && spool->length == 0 && hint != 0)
            status = mw_fail(err, MW_TRUNCATED, "'%s' ends before any memory", spool->name);
        if (got <= 0)
            break;
        spool->input += (uint64_t)got;
        ZSTD_inBuffer in = {bytes, (size_t)got, 0};
        status = unpack_piece(spool, zstd, &in, output, &hint, err);
        if (status == MW_CORRUPT) {
            status = end_at_damage(spool, damage, err);
            break;
        }
    }
    ZSTD_freeDCtx(zstd);
    return status;
}

static uint64_t size_of_input(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
}

enum mw_status mw_core_spool(const struct mw_core_stream *stream, struct mw_context *context,
                             int *fd_out, struct mw_error *err)
{
    const char *directory = "";
    MW_CLOSE int copy = open_temporary(&directory);
    if (copy < 0)
        return mw_fail_errno(err, errno, "cannot make a temporary file in '%s'", directory);
    MW_FREE uint8_t *buffer = mw_calloc(INPUT_BYTES, 1);
    if (!buffer)
        return mw_fail(err, MW_NOMEM, "out of memory to unpack '%s'", stream->name);
    struct spool spool = {
        .name = stream->name,
        .context = context,
        .fd = copy,
        .length_max = stream->bytes_max,
        .checked = UINT64_MAX,
        .input_total = size_of_input(stream->fd),
    };
    struct input input = {stream->fd, stream->first, stream->first_length, buffer};
    struct mw_error local = {0};
    err = err ? err : &local;
    enum mw_status status = stream->is_zstd ? copy_zstd(&spool, &input, stream->damage, err)
                                            : copy_plain(&spool, &input, err);
    if (status != MW_OK)
        return status;
    assert(spool.written <= spool.length);
    if (ftruncate(copy, (off_t)spool.length) != 0)
        return mw_fail_errno(err, errno, "cannot write the copy of '%s'", stream->name);
    *fd_out = mw_steal_fd(&copy);
    return MW_OK;
}
