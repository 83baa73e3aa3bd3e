/* proc/cgroup_tree.h: cgroups by name: from what somebody typed to a group, and what is in it.
 *
 * A target "cgroup:PATH" is a path below the root of the hierarchy ("/system.slice/x.service"), a
 * directory where it is mounted ("/sys/fs/cgroup/…"), or a path that starts at our own group
 * ("a", "."). A container is a group that a runtime has named by the container's id. */
#ifndef MW_PROC_CGROUP_TREE_H
#define MW_PROC_CGROUP_TREE_H

#include "base/context.h"
#include "proc/cgroup.h"
#include "proc/cgroup_find.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids of containers are 64 hexadecimal digits; engines print the first 12. */
enum { MW_CONTAINER_ID_MIN = 12, MW_CONTAINER_ID_MAX = 64 };

/* The group that path names. v1's memory hierarchy is asked before v2. MW_INVALID for a path that
 * leaves the hierarchy, MW_NOT_FOUND, MW_UNSUPPORTED where none is mounted. Release the place with
 * mw_cgroup_place_deinit(). */
enum mw_status mw_cgroup_place_open(int proc_fd, const char *path, const char *cgroup_root,
                                    struct mw_cgroup_place *place_out,
                                    struct mw_error *err) MW_MUST_CHECK;

/* Is text the beginning of an id, at least 12 lower-case digits long, as an engine or kubectl
 * prints it ("3f2a…", "containerd://3f2a…")? The digits go to id. Reads nothing. */
bool mw_container_id_parse(const char *text, char id[MW_CONTAINER_ID_MAX + 1]);

/* The id in the name of a group ("docker-3f2a….scope", "3f2a…"); false when there is none, or when
 * it is that of a monitor beside the container (conmon). */
bool mw_container_id_of(const char *name, char id[MW_CONTAINER_ID_MAX + 1]);

/* The container whose id begins with the digits `id`. MW_NOT_FOUND; MW_INVALID with candidates in
 * the hint when several do. Visits at most 65,536 groups: MW_LIMIT beyond. */
enum mw_status mw_cgroup_place_find_container(int proc_fd, const char *id, const char *cgroup_root,
                                              struct mw_context *context,
                                              struct mw_cgroup_place *place_out,
                                              struct mw_error *err) MW_MUST_CHECK;

/* Figures of this very group. The limit is the smallest on the way up, as in mw_cgroup_load(), and
 * limit_path names the group that it belongs to. process_count stays unknown. */
void mw_cgroup_load_place(int proc_fd, const struct mw_cgroup_place *place, const char *cgroup_root,
                          struct mw_cgroup *cgroup_out);

/* Processes of a group and of those below it. */
struct mw_cgroup_members {
    int32_t *items; /* ascending, each once */
    size_t count, room;
    uint64_t hidden_count; /* in a pid namespace that we do not see */
    uint64_t group_count;  /* groups visited, the first included */
};

/* MW_NOMEM, MW_CANCELED, MW_LIMIT; MW_UNSUPPORTED for a threaded group, whose processes belong to
 * one above it. */
enum mw_status mw_cgroup_members_load(const struct mw_cgroup_place *place,
                                      struct mw_context *context,
                                      struct mw_cgroup_members *members_out,
                                      struct mw_error *err) MW_MUST_CHECK;
void mw_cgroup_members_deinit(struct mw_cgroup_members *members);

/* A walk over a group and all below it, outer ones first, never through links. */
enum mw_cgroup_step { MW_CGROUP_ENTER, MW_CGROUP_PASS, MW_CGROUP_STOP };
struct mw_cgroup_walk {
    /* path is that of the group below the hierarchy's root, name its last part. */
    enum mw_cgroup_step (*visit)(void *user, int group_fd, const char *path, const char *name);
    void *user;
    size_t groups_max;
    size_t group_count;              /* visited so far */
    char path[MW_CGROUP_PATH_BYTES]; /* private */
};
/* False: more than groups_max groups, or deeper than 64 levels: some were not visited. */
bool mw_cgroup_walk_run(struct mw_cgroup_walk *walk, const struct mw_cgroup_place *place);

#endif
