/* session/collect.h: taking a capture of a live process. */
#ifndef MW_SESSION_COLLECT_H
#define MW_SESSION_COLLECT_H

#include "base/context.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct mw_collect_options {
    const char *output; /* a file; "-": standard output */
    bool fork;          /* from a forked copy */
};

struct mw_collected {
    uint64_t file_bytes, memory_bytes, resident_bytes; /* resident: RSS, MW_UNKNOWN */
    uint64_t unreadable_bytes;
    uint64_t pauses, paused_ns, longest_pause_ns;
    double seconds;
};

/* Write the capture of a process: under one stop, or of a snapshot. A file appears under its name
 * when it is whole and on disk, with mode 0600; what was there is replaced. MW_LIMIT: it does not
 * fit into one stop, or onto the disk; MW_UNSUPPORTED: no live process; MW_OS; the errors of
 * opening and of a snapshot. */
enum mw_status mw_collect(const char *target, const struct mw_collect_options *options,
                          struct mw_context *context, struct mw_collected *collected_out,
                          struct mw_error *err) MW_MUST_CHECK;

#endif
