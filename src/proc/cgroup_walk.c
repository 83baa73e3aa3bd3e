/* proc/cgroup_walk.c: over the groups below a group; the processes in them.
 *
 * Groups come and go while they are read: what has gone is passed over. Bounded in groups and in
 * depth, so that a directory that is no cgroup costs little. */
#include "proc/cgroup_tree.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, PROCS_BYTES_MAX = 4 << 20, MEMBER_GROUPS_MAX = 65536 };

/* Append "/name" to the path; its old length, or SIZE_MAX when there is no room. */
static size_t path_down(char *path, const char *name)
{
    size_t length = strlen(path), more = strlen(name) + 1;
    if (length + more >= MW_CGROUP_PATH_BYTES)
        return SIZE_MAX;
    path[length] = '/';
    memcpy(path + length + 1, name, more);
    return length;
}

/* The groups inside an open group; closes fd. */
static bool walk_inside(struct mw_cgroup_walk *walk, int fd, int depth, bool *stopped);

static bool walk_one(struct mw_cgroup_walk *walk, int fd, const char *name, int depth,
                     bool *stopped)
{
    if (depth == 0 || walk->group_count >= walk->groups_max)
        return false;
    walk->group_count++;
    enum mw_cgroup_step step = walk->visit(walk->user, fd, walk->path, name);
    *stopped = step == MW_CGROUP_STOP;
    if (step != MW_CGROUP_ENTER)
        return true;
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return copy < 0 || walk_inside(walk, copy, depth - 1, stopped);
}

static bool walk_inside(struct mw_cgroup_walk *walk, int fd, int depth, bool *stopped)
{
    DIR *directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return true;
    }
    bool is_whole = true;
    for (struct dirent *entry; !*stopped && (entry = readdir(directory));) {
        if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0)
            continue;
        size_t length = path_down(walk->path, entry->d_name);
        MW_CLOSE int below =
            length == SIZE_MAX
                ? -1
                : openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0 && !walk_one(walk, below, entry->d_name, depth, stopped))
            is_whole = false;
        if (length == SIZE_MAX)
            is_whole = false;
        else
            walk->path[length] = '\0';
    }
    closedir(directory);
    return is_whole;
}

bool mw_cgroup_walk_run(struct mw_cgroup_walk *walk, const struct mw_cgroup_place *place)
{
    assert(place->version != 0 && walk->visit);
    const char *path = place->path;
    bool stopped = false;
    walk->group_count = 0;
    snprintf(walk->path, sizeof walk->path, "%s", path);
    const char *slash = strrchr(path, '/');
    while (*path == '/')
        path++;
    MW_CLOSE int fd =
        openat(place->root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || walk_one(walk, fd, slash ? slash + 1 : "", DEPTH_MAX, &stopped);
}

struct collector {
    struct mw_context *context;
    struct mw_cgroup_members *members;
    enum mw_status status;
};

/* One pid a line; 0 stands for a process that our pid namespace does not have. */
static enum mw_status members_parse(struct mw_cgroup_members *members, const char *text)
{
    enum mw_status status = MW_OK;
    for (const char *at = text; *at && status == MW_OK;) {
        char *end;
        long pid = strtol(at, &end, 10);
        if (end > at && pid == 0)
            members->hidden_count++;
        else if (end > at && pid > 0 && pid <= INT32_MAX)
            status = mw_vec_push(members, MW_LIMIT_PROCESSES, (int32_t)pid);
        at = strchrnul(end, '\n');
        at += *at == '\n';
    }
    return status;
}

static enum mw_cgroup_step members_collect(void *user, int group_fd, const char *path,
                                           const char *name)
{
    struct collector *collector = user;
    struct mw_error problem = {0};
    MW_FREE char *text = NULL;
    size_t length;
    (void)path;
    (void)name;
    if (mw_context_canceled(collector->context)) {
        collector->status = MW_CANCELED;
        return MW_CGROUP_STOP;
    }
    enum mw_status status =
        mw_io_read_file_at(group_fd, "cgroup.procs", PROCS_BYTES_MAX, &text, &length, &problem);
    if (status == MW_OK)
        status = members_parse(collector->members, text);
    else if (problem.os_errno == EOPNOTSUPP && collector->members->group_count == 0)
        status = MW_UNSUPPORTED;
    else if (status != MW_NOMEM && status != MW_LIMIT)
        status = MW_OK; /* gone, or threaded below a group that has its processes */
    collector->members->group_count++;
    collector->status = status;
    return status == MW_OK ? MW_CGROUP_ENTER : MW_CGROUP_STOP;
}

static int by_pid(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* A process that moved meanwhile was seen twice. */
static void members_sort(struct mw_cgroup_members *members)
{
    if (members->count == 0)
        return;
    qsort(members->items, members->count, sizeof *members->items, by_pid);
    size_t kept = 1;
    for (size_t i = 1; i < members->count; i++)
        if (members->items[i] != members->items[kept - 1])
            members->items[kept++] = members->items[i];
    members->count = kept;
}

enum mw_status mw_cgroup_members_load(const struct mw_cgroup_place *place,
                                      struct mw_context *context,
                                      struct mw_cgroup_members *members_out, struct mw_error *err)
{
    struct mw_cgroup_members members = {0};
    struct collector collector = {.context = context, .members = &members};
    struct mw_cgroup_walk walk = {
        .visit = members_collect, .user = &collector, .groups_max = MEMBER_GROUPS_MAX};
    bool is_whole = mw_cgroup_walk_run(&walk, place);
    if (collector.status == MW_OK && !is_whole)
        collector.status = MW_LIMIT;
    if (collector.status != MW_OK) {
        mw_cgroup_members_deinit(&members);
        mw_fail(err, collector.status,
                collector.status == MW_UNSUPPORTED
                    ? "cgroup '%.160s' is threaded: its processes belong to a group above it"
                    : "cannot list the processes of cgroup '%.160s'",
                *place->path ? place->path : "/");
        return collector.status;
    }
    members_sort(&members);
    *members_out = members;
    return MW_OK;
}

void mw_cgroup_members_deinit(struct mw_cgroup_members *members)
{
    mw_vec_deinit(members);
}
