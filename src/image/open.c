/* image/open.c: what the user typed → the right source of memory.
 *
 * All digits are a pid (a file of such a name is "./123"); "-" is standard input; anything else is
 * a file. A file is recognised by its first bytes, never by its name. */
#include "image/open.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/core.h"
#include "proc/cgroup_tree.h"
#include "proc/smaps.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { SNIFF_BYTES = 4096 };

enum content { CONTENT_CORE, CONTENT_ZSTD, CONTENT_TEXT, CONTENT_OTHER };

static bool is_all_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* False when the number is too large for a pid. */
static bool parse_pid(const char *text, int32_t *pid_out)
{
    int64_t pid = 0;
    for (; *text && pid <= INT32_MAX; text++)
        pid = pid * 10 + (*text - '0');
    *pid_out = pid > INT32_MAX ? 0 : (int32_t)pid;
    return pid <= INT32_MAX;
}

static bool begins(const char *bytes, size_t length, const char *magic, size_t magic_length)
{
    return length >= magic_length && memcmp(bytes, magic, magic_length) == 0;
}

static enum content content_of(const char *bytes, size_t length)
{
    if (begins(bytes, length, ELFMAG, SELFMAG))
        return CONTENT_CORE;
    if (begins(bytes, length, "\x28\xb5\x2f\xfd", 4))
        return CONTENT_ZSTD;
    return memchr(bytes, '\0', length) ? CONTENT_OTHER : CONTENT_TEXT;
}

/* Compressed by something we do not read: say with what to unpack it. */
static enum mw_status fail_other(const char *name, const char *bytes, size_t length,
                                 struct mw_error *err)
{
    static const struct {
        const char *magic;
        size_t length;
        const char *kind, *command;
    } packed[] = {
        {"\x1f\x8b", 2, "gzip", "gunzip -k"},
        {"\xfd"
         "7zXZ",
         5, "xz", "xz -dk"},
        {"\x04\x22\x4d\x18", 4, "lz4", "lz4 -dk"},
        {"BZh", 3, "bzip2", "bunzip2 -k"},
    };
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (begins(bytes, length, packed[i].magic, packed[i].length)) {
            mw_fail(err, MW_UNSUPPORTED, "'%s' is compressed with %s", name, packed[i].kind);
            mw_error_hint(err, "%s %s", packed[i].command, name);
            return MW_UNSUPPORTED;
        }
    mw_fail(err, MW_UNSUPPORTED, "'%s' is neither a core nor the text of an smaps", name);
    mw_error_hint(err, "memwhy PID, memwhy CORE, or: cat /proc/PID/smaps | memwhy -");
    return MW_UNSUPPORTED;
}

static enum mw_status open_text(int fd, const char *name, const char *sniffed, size_t length,
                                struct mw_image *image_out, struct mw_error *err)
{
    MW_FREE char *rest = NULL;
    size_t rest_length;
    struct mw_str text = MW_STR_INIT(MW_LIMIT_PROC_TEXT_BYTES + SNIFF_BYTES);
    enum mw_status status =
        mw_io_read_all(fd, name, MW_LIMIT_PROC_TEXT_BYTES, &rest, &rest_length, err);
    if (status != MW_OK)
        return status;
    mw_str_append(&text, sniffed, length);
    mw_str_append(&text, rest, rest_length);
    if (text.status != MW_OK) {
        mw_str_deinit(&text);
        return mw_fail(err, MW_NOMEM, "out of memory reading '%s'", name);
    }
    struct mw_error inner = {0};
    status = mw_image_open_smaps(mw_str_text(&text), text.length, name, image_out, &inner);
    mw_str_deinit(&text);
    if (status == MW_INVALID) /* a text, but of something else */
        return fail_other(name, sniffed, length, err);
    if (status != MW_OK && err)
        *err = inner;
    return status;
}

static enum mw_status open_spooled(const struct mw_core_stream *stream, struct mw_context *context,
                                   struct mw_image *image_out, struct mw_error *err)
{
    MW_CLOSE int fd = -1;
    enum mw_status status = mw_core_spool(stream, context, &fd, err);
    if (status == MW_OK)
        status = mw_image_open_core_spooled(fd, stream->name, image_out, err);
    if (status != MW_OK)
        return status;
    mw_steal_fd(&fd);
    if (stream->damage && stream->damage->code != MW_OK)
        mw_finding_add(&image_out->findings, "core-stream-damaged", 0, 0, "%s",
                       stream->damage->text);
    return MW_OK;
}

/* The descriptor is taken over on success by an image that goes on reading from it. */
static enum mw_status open_stream(int *fd, const char *name, struct mw_context *context,
                                  struct mw_image *image_out, struct mw_error *err)
{
    char bytes[SNIFF_BYTES];
    size_t length = 0;
    while (length < sizeof bytes) {
        ssize_t got = read(*fd, bytes + length, sizeof bytes - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mw_fail_errno(err, errno, "cannot read '%s'", name);
        if (got == 0)
            break;
        length += (size_t)got;
    }
    enum content content = content_of(bytes, length);
    if (length == 0)
        return mw_fail(err, MW_TRUNCATED, "'%s' is empty", name);
    if (content == CONTENT_TEXT)
        return open_text(*fd, name, bytes, length, image_out, err);
    if (content == CONTENT_OTHER)
        return fail_other(name, bytes, length, err);
    bool is_packed = content == CONTENT_ZSTD;
    if (is_packed || lseek(*fd, 0, SEEK_SET) != 0) {
        struct mw_error damage = {0};
        const struct mw_core_stream stream = {
            .fd = *fd,
            .name = name,
            .first = bytes,
            .first_length = length,
            .is_zstd = is_packed,
            .bytes_max = MW_LIMIT_CORE_BYTES,
            .damage = &damage,
        };
        return open_spooled(&stream, context, image_out, err);
    }
    enum mw_status status = mw_image_open_core(*fd, name, context, image_out, err);
    if (status == MW_OK)
        mw_steal_fd(fd);
    return status;
}

/* May it stand in a command that somebody pastes into a shell? */
static bool is_plain_word(const char *target)
{
    return target[strspn(target, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "._/+-")] == '\0';
}

static enum mw_status open_file(const char *target, struct mw_context *context,
                                struct mw_image *image_out, struct mw_error *err)
{
    MW_CLOSE int fd = open(target, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) {
        enum mw_status status = mw_fail_errno(err, errno, "cannot open '%s'", target);
        size_t length = strlen(target);
        if (status == MW_NOT_FOUND && length >= 4 && length < MW_CONTAINER_ID_MIN &&
            strspn(target, "0123456789abcdefABCDEF") == length)
            mw_error_hint(err,
                          "the id of a container needs %d digits or more; for a program: "
                          "memwhy $(pidof -s %s)",
                          MW_CONTAINER_ID_MIN, target);
        else if (status == MW_NOT_FOUND && !strchr(target, '/') && is_plain_word(target))
            mw_error_hint(err, "memwhy $(pidof -s %s)", target);
        return status;
    }
    if (S_ISDIR(about.st_mode)) {
        mw_fail(err, MW_UNSUPPORTED, "'%s' is a directory", target);
        mw_error_hint(err, "memwhy PID, or memwhy %s/CORE", is_plain_word(target) ? target : "DIR");
        return MW_UNSUPPORTED;
    }
    return open_stream(&fd, target, context, image_out, err);
}

enum mw_status mw_image_open(const char *target, const struct mw_image_open_options *options,
                             struct mw_context *context, struct mw_image *image_out,
                             struct mw_error *err)
{
    assert(target && image_out);
    int32_t pid;
    if (is_all_digits(target)) {
        if (parse_pid(target, &pid))
            return mw_image_open_live(pid, options, context, image_out, err);
        return mw_fail(err, MW_NOT_FOUND, "no process %.40s: a pid is at most %d", target,
                       INT32_MAX);
    }
    if (target[0] == '\0') {
        mw_fail(err, MW_NOT_FOUND, "the target is empty");
        mw_error_hint(err, "memwhy PID, or memwhy alone for a list of processes");
        return MW_NOT_FOUND;
    }
    if (strcmp(target, "-") == 0) {
        MW_CLOSE int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return mw_fail_errno(err, errno, "cannot read standard input");
        return open_stream(&fd, "standard input", context, image_out, err);
    }
    return open_file(target, context, image_out, err);
}
