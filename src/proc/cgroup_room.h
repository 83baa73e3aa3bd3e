/* proc/cgroup_room.h: how much the cgroups of a process still let it take. */
#ifndef MW_PROC_CGROUP_ROOM_H
#define MW_PROC_CGROUP_ROOM_H

#include <stdint.h>

/* The least over the process's own group and all above it. MW_UNKNOWN (proc/process.h): no limit,
 * or none that can be seen. */
struct mw_cgroup_room {
    uint64_t memory; /* bytes: limit - usage + page cache, which is given back for the asking */
    uint64_t tasks;  /* pids.max - pids.current */
};

/* proc_fd and cgroup_root as in mw_cgroup_load(). Never fails: what cannot be read is unknown. */
void mw_cgroup_room_load(int proc_fd, int32_t pid, const char *cgroup_root,
                         struct mw_cgroup_room *room_out);

#endif
