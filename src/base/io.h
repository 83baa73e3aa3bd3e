/* base/io.h: whole reads and writes with bounds and retries. */
#ifndef MW_BASE_IO_H
#define MW_BASE_IO_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read a whole (small or /proc) file below directory dir_fd (AT_FDCWD for none). The text is
 * zero-terminated; the caller frees it. MW_LIMIT above max bytes. /proc files are read in calls of
 * 256 KiB, so that a table like smaps is walked by the kernel in few steps. */
enum mw_status mw_io_read_file_at(int dir_fd, const char *path, size_t max, char **text_out,
                                  size_t *length_out, struct mw_error *err) MW_MUST_CHECK;

/* The same from an open descriptor, to its end (a pipe too). `what` names it in errors. */
enum mw_status mw_io_read_all(int fd, const char *what, size_t max, char **text_out,
                              size_t *length_out, struct mw_error *err) MW_MUST_CHECK;

/* pread until length bytes, end of file or error; the bytes read, or -1 with errno. */
ssize_t mw_io_pread_full(int fd, void *buffer, size_t length, uint64_t offset);

/* write until all is written; 0, or an errno. EPIPE comes back as EPIPE. */
int mw_io_write_full(int fd, const void *bytes, size_t length);

#endif
