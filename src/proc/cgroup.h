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
    char limit_path[512]; /* the group that the limit belongs to; "" without one, or above ours */
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

/* Kernel memory charged to it, without sockets: the kernel's own sum (Linux 5.18 for v2), else that
 * of the parts. MW_UNKNOWN without figures. */
uint64_t mw_cgroup_kernel_bytes(const struct mw_cgroup *cgroup);

#endif
