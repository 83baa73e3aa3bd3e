/* proc/cgroup_find.h: private to the files of the cgroup reader: where its directory is. */
#ifndef MW_PROC_CGROUP_FIND_H
#define MW_PROC_CGROUP_FIND_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { MW_CGROUP_PATH_BYTES = 4096 };

/* A place in a hierarchy: the directory `path` below the mounted root. */
struct mw_cgroup_place {
    int version;                     /* 0: not found, 1, 2 */
    int root_fd;                     /* the mount; -1 when not found */
    char path[MW_CGROUP_PATH_BYTES]; /* as we see it below the mount, "" for the root itself */
};

/* Find the group of pid that `controller` ("memory", "cpu") counts. Never fails: what cannot be
 * found has version 0. Release with mw_cgroup_place_deinit(). */
void mw_cgroup_place_find(int proc_fd, int32_t pid, const char *cgroup_root, const char *controller,
                          struct mw_cgroup_place *place_out);
void mw_cgroup_place_deinit(struct mw_cgroup_place *place);

/* Replace path by its parent; false at the root. */
bool mw_cgroup_path_up(char *path);

#endif
