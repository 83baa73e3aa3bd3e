/* session/group.h: all processes of a cgroup: its own account, theirs, and how the two fit.
 *
 * From /proc and the cgroup's files alone: nothing is paused and no memory is read. The report of
 * the process that has the most is an analysis of its own (session.h). */
#ifndef MW_SESSION_GROUP_H
#define MW_SESSION_GROUP_H

#include "proc/cgroup.h"
#include "proc/rollup.h"
#include "session/list.h"
#include "verdict/verdict.h"

struct mw_group_process {
    struct mw_list_row row; /* without anything of its mappings */
    struct mw_rollup rollup;
    bool has_rollup; /* false: it may not be read from here */
};

/* Sums in bytes over the processes that were read; MW_UNKNOWN where one of them does not tell. */
struct mw_group_sums {
    uint64_t rss, pss, pss_anon, pss_file, pss_shmem, anonymous, swap_pss;
};

struct mw_group {
    struct mw_cgroup cgroup;            /* of this very group */
    struct mw_group_process *processes; /* by PSS, the largest first; then those not read, by RSS */
    size_t count;
    uint64_t read_count, hidden_count; /* hidden: in a pid namespace that is not seen from here */
    uint64_t group_count;              /* cgroups, the first included */
    struct mw_group_sums sums;
    struct mw_verdicts verdicts;
    int32_t self_pid; /* memwhy's own */
    int64_t taken_at;
    bool is_partial;
    struct mw_error why_partial;
};

/* Does target name a group: "cgroup:PATH", or the id of a container? A file of that name comes
 * first, unless the name is all digits. */
bool mw_group_is_target(const char *target);

/* Load the group that target names. cgroup_root: tests; NULL: the system's. MW_NOT_FOUND,
 * MW_INVALID (an ambiguous id: candidates are in the hint), MW_UNSUPPORTED, MW_NOMEM, MW_CANCELED.
 * A process that ends meanwhile is left out. The kernel walks the page tables of each process:
 * about 10 ms a GiB of RSS. */
enum mw_status mw_group_load(const char *target, const char *cgroup_root,
                             struct mw_context *context, struct mw_group *group_out,
                             struct mw_error *err) MW_MUST_CHECK;

/* The process with the most PSS that is not memwhy, the rank-th one of those (0: the worst); NULL
 * when there are not so many that were read. */
const struct mw_group_process *mw_group_worst(const struct mw_group *group, size_t rank);

/* How the cgroup's account and that of its processes fit: figure of memory.stat less the sum over
 * processes. False: one of the two is not known. */
bool mw_group_difference(uint64_t charged, uint64_t processes, int64_t *difference_out);

/* The part of the page cache that no process of any group has mapped; MW_UNKNOWN. */
uint64_t mw_group_unmapped_file(const struct mw_group *group);

/* File pages and shared memory of the processes, by PSS; MW_UNKNOWN. */
uint64_t mw_group_pss_mapped(const struct mw_group *group);

void mw_group_deinit(struct mw_group *group);

#endif
