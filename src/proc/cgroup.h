/* proc/cgroup.h: the memory cgroup around a process, v1 and v2.
 *
 * Found from /proc/PID/cgroup and the mount table; the root of the hierarchy is injectable. The
 * limit is the smallest one up the path, and the figures are those of the group it belongs to (of
 * the process's own group without a limit). Unknown figures are MW_UNKNOWN, bytes otherwise. */
#ifndef MW_PROC_CGROUP_H
#define MW_PROC_CGROUP_H

#include "base/error.h"
#include "proc/process.h"

struct mw_cgroup {
    int version; /* 0: none found, 1, 2 */
    char path[512];
    uint64_t limit, high, usage, peak, swap, swap_limit;
    uint64_t anon, file, shmem, active_file, inactive_file, file_mapped;
    uint64_t kernel, slab, slab_reclaimable, slab_unreclaimable, sock, page_tables, kernel_stack,
        percpu, hugetlb, zswap;
    uint64_t oom_kills, max_events;
    double cpu_quota; /* CPUs, < 0: none or unknown */
    uint64_t process_count;
};

void mw_cgroup_init(struct mw_cgroup *cgroup);

/* Read it for pid. proc_fd: an open /proc; cgroup_root: NULL for the system's mounts, else a
 * directory that stands for /sys/fs/cgroup. Finding nothing is MW_OK with version 0. */
enum mw_status mw_cgroup_load(int proc_fd, int32_t pid, const char *cgroup_root,
                              struct mw_cgroup *cgroup_out, struct mw_error *err) MW_MUST_CHECK;

#endif
