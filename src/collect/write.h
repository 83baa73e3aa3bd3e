/* collect/write.h: writing a capture. */
#ifndef MW_COLLECT_WRITE_H
#define MW_COLLECT_WRITE_H

#include "collect/layout.h"

struct mw_capture_written {
    uint64_t file_bytes, memory_bytes; /* of the file; of memory in it */
    uint64_t unreadable_bytes;         /* of memory that could not be read: zeros in the file */
};

/* Header, notes and memory, in the order of the file, so that fd may be a pipe. The image holds
 * still: stopped, or a snapshot. MW_OS with the errno (no space, the reader is gone), MW_NOMEM,
 * MW_CANCELED. */
enum mw_status mw_capture_write(int fd, struct mw_image *image,
                                const struct mw_capture_layout *layout, int64_t when,
                                struct mw_context *context, struct mw_capture_written *written_out,
                                struct mw_error *err) MW_MUST_CHECK;

/* How large the file will be, within some kilobytes. */
uint64_t mw_capture_size(const struct mw_image *image, const struct mw_capture_layout *layout);

#endif
