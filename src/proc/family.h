/* proc/family.h: the processes that a process was forked with.
 *
 * A family: those of the same executable (the file, not its name) in one line of descent, from the
 * highest ancestor that still runs this executable down, as far as none of them started it anew:
 * the auxiliary vector, with its random addresses, is then another. A master and its workers are
 * one family; what a shell started twice is not. */
#ifndef MW_PROC_FAMILY_H
#define MW_PROC_FAMILY_H

#include "base/context.h"
#include "proc/rollup.h"

#include <stdbool.h>

enum { MW_FAMILY_READ_MAX = 64 };

struct mw_family {
    int32_t root_pid;
    uint64_t count;       /* members, the process itself included */
    uint64_t read_count;  /* of which the memory was read: the sums below are theirs */
    bool is_cut;          /* more members, or too little time to read all */
    bool has_pss_anon;    /* of all that were read */
    uint64_t rss, pss;    /* bytes */
    uint64_t anonymous;   /* each process counts the pages that it shares in full */
    uint64_t pss_anon;    /* each page counts once, if all who map it were read */
    struct mw_rollup own; /* of the process itself */
};

/* Of pid below proc_fd. Reads at most 64 members, the process itself first, and stops reading after
 * half a second; one small file per process of the machine. MW_GONE, MW_PERM, MW_NOMEM. */
enum mw_status mw_family_load(int proc_fd, int32_t pid, struct mw_context *context,
                              struct mw_family *family_out, struct mw_error *err) MW_MUST_CHECK;

#endif
