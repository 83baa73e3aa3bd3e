/* session/list.h: the processes that one may look at, from /proc alone: nothing is paused and no
 * memory is read. */
#ifndef MW_SESSION_LIST_H
#define MW_SESSION_LIST_H

#include "base/context.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mw_list_row {
    int32_t pid;
    char name[64]; /* as the kernel has it: any bytes */
    uint64_t rss_bytes, anonymous_bytes, file_bytes, shared_bytes, swap_bytes, peak_rss_bytes;
    uint64_t threads;
    bool readable; /* may its memory be read from here? */

    /* From its mappings; of the largest processes only, else has_maps is false. */
    bool has_maps;
    char runtime[16];           /* "" none */
    uint64_t managed_rss_bytes; /* MW_UNKNOWN without a runtime */
    uint64_t arenas_estimated;  /* mappings that look like heaps of glibc thread arenas */
    uint64_t arenas_rss_bytes;  /* what is resident in them */
    uint64_t heap_rss_bytes;    /* [heap] */
    char hint[48];              /* a word of verdict, "" none */
};

struct mw_list {
    struct mw_list_row *rows; /* by resident size, the largest first */
    size_t count;
    int32_t self_pid; /* memwhy's own */
    int64_t taken_at;
};

/* All processes with memory of their own below proc_fd (an open /proc); of the details_max largest
 * the mappings too. A process that ends meanwhile is left out. MW_NOMEM, MW_LIMIT, MW_CANCELED,
 * MW_OS. One small file per process, plus smaps of the largest. */
enum mw_status mw_list_load(int proc_fd, size_t details_max, struct mw_context *context,
                            struct mw_list *list_out, struct mw_error *err) MW_MUST_CHECK;

void mw_list_deinit(struct mw_list *list);

/* The figures of one process from its status, and whether it may be read; nothing of its mappings.
 * False: it has ended, or has no memory of its own. */
bool mw_list_row_load(int proc_fd, int32_t pid, struct mw_list_row *row_out);

/* Do the mappings from index on begin with the heap of a thread arena: writable from a multiple of
 * 64 MiB, then a reserve without access to the next one? */
struct mw_mapping_list;
bool mw_list_is_arena(const struct mw_mapping_list *maps, size_t index);

/* Fill hint from the other members. */
void mw_list_hint(struct mw_list_row *row);

#endif
