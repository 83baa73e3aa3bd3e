/* image/open.h: from what the user typed to an image. */
#ifndef MW_IMAGE_OPEN_H
#define MW_IMAGE_OPEN_H

#include "image/image.h"

struct mw_image_open_options {
    int proc_dir_fd;     /* root of /proc, AT_FDCWD means the real one */
    const char *sysroot; /* where /proc and /sys are looked up in tests; NULL: "/" */
    bool need_read;      /* memory contents are wanted: find out whether they can be had */
};

/* Open TARGET: a pid, a core (also .zst), a capture, an smaps text, "-" (smaps or core on
 * standard input). A live image without the right to read memory still opens: `can` tells and
 * `cannot_read` says why. MW_NOT_FOUND, MW_PERM, MW_GONE, MW_UNSUPPORTED with a hint. */
enum mw_status mw_image_open(const char *target, const struct mw_image_open_options *options,
                             struct mw_context *context, struct mw_image *image_out,
                             struct mw_error *err) MW_MUST_CHECK;

enum mw_status mw_image_open_live(int32_t pid, const struct mw_image_open_options *options,
                                  struct mw_context *context, struct mw_image *image_out,
                                  struct mw_error *err) MW_MUST_CHECK;

/* fd stays the caller's until success. */
enum mw_status mw_image_open_core(int fd, const char *name, struct mw_context *context,
                                  struct mw_image *image_out, struct mw_error *err) MW_MUST_CHECK;

/* A text in the form of /proc/PID/smaps (or maps). */
enum mw_status mw_image_open_smaps(const char *text, size_t length, const char *name,
                                   struct mw_image *image_out, struct mw_error *err) MW_MUST_CHECK;

/* For tests: regions backed by the caller's arrays. */
struct mw_image_memory_part {
    struct mw_mapping mapping; /* name is copied */
    const void *bytes;         /* mapping size bytes; NULL: unreadable */
    const uint8_t *pages;      /* enum mw_page each; NULL: all present if bytes */
};
enum mw_status mw_image_open_memory(const struct mw_image_memory_part *parts, size_t count,
                                    struct mw_image *image_out, struct mw_error *err) MW_MUST_CHECK;

#endif
