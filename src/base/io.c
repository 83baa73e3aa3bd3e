/* base/io.c: descriptors to bytes. Retries EINTR, bounds everything. */
#include "base/io.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { READ_STEP = 256 << 10 };

enum mw_status mw_io_read_all(int fd, const char *what, size_t max, char **text_out,
                              size_t *length_out, struct mw_error *err)
{
    MW_FREE char *text = NULL;
    size_t length = 0, room = 0;
    for (;;) {
        if (room - length < READ_STEP / 2) {
            size_t grown_room = room ? room * 2 : 4096 + 1;
            char *grown = mw_regrow(text, room, grown_room, 1);
            if (!grown)
                return mw_fail(err, MW_NOMEM, "out of memory reading '%s'", what);
            text = grown;
            room = grown_room;
        }
        ssize_t got = read(fd, text + length, room - length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mw_fail_errno(err, errno, "cannot read '%s'", what);
        if (got == 0)
            break;
        length += (size_t)got;
        if (length > max)
            return mw_fail(err, MW_LIMIT, "'%s' is larger than %zu bytes", what, max);
    }
    text[length] = '\0';
    *text_out = mw_steal(text);
    *length_out = length;
    return MW_OK;
}

enum mw_status mw_io_read_file_at(int dir_fd, const char *path, size_t max, char **text_out,
                                  size_t *length_out, struct mw_error *err)
{
    MW_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return mw_fail_errno(err, errno, "cannot open '%s'", path);
    return mw_io_read_all(fd, path, max, text_out, length_out, err);
}

ssize_t mw_io_pread_full(int fd, void *buffer, size_t length, uint64_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = pread(fd, (char *)buffer + done, length - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return done ? (ssize_t)done : -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int mw_io_write_full(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t put = write(fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}
