/* proc/cgroup_find.h: private to the files of the cgroup reader: where its directory is. */
#ifndef MW_PROC_CGROUP_FIND_H
#define MW_PROC_CGROUP_FIND_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MW_CGROUP_PATH_BYTES = 4096 };

/* A place in a hierarchy: the directory `path` below the mounted root. */
struct mw_cgroup_place {
    int version;                     /* 0: not found, 1, 2 */
    int root_fd;                     /* the mount; -1 when not found */
    char path[MW_CGROUP_PATH_BYTES]; /* as we see it below the mount, "" for the root itself */
};

/* A mounted hierarchy. */
struct mw_cgroup_hierarchy {
    int version;                      /* 1, 2 */
    int root_fd;                      /* the caller's to close; -1 when not found */
    char root[MW_CGROUP_PATH_BYTES];  /* which of its directories is mounted: "/" mostly */
    char point[MW_CGROUP_PATH_BYTES]; /* where */
};

/* The hierarchy of v1 with controller, or (controller NULL) that of v2. False: not mounted. */
bool mw_cgroup_hierarchy_open(int proc_fd, const char *cgroup_root, const char *controller,
                              struct mw_cgroup_hierarchy *hierarchy_out);

/* Our own group in a hierarchy, as a path below its mount. False: it is not visible there. */
bool mw_cgroup_own_path(int proc_fd, const struct mw_cgroup_hierarchy *hierarchy,
                        const char *controller, char path[MW_CGROUP_PATH_BYTES]);

/* Is there such a mount of a cgroup hierarchy above path? The length of its mount point, else 0. */
size_t mw_cgroup_mount_prefix(int proc_fd, const char *path);

/* Find the group of pid that `controller` ("memory", "cpu") counts. Never fails: what cannot be
 * found has version 0. Release with mw_cgroup_place_deinit(). */
void mw_cgroup_place_find(int proc_fd, int32_t pid, const char *cgroup_root, const char *controller,
                          struct mw_cgroup_place *place_out);
void mw_cgroup_place_deinit(struct mw_cgroup_place *place);

/* Replace path by its parent; false at the root. */
bool mw_cgroup_path_up(char *path);

#endif
