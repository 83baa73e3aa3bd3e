/* image/live_file.c: the file behind a region of a running process.
 *
 * Looked up by name below the target's own root, so that another mount namespace does not matter,
 * and never following a link out of it. Where the name leads nowhere (a target that is chrooted
 * within another mount namespace: maps names files from that namespace's root; a file that was
 * deleted or replaced since) /proc/PID/map_files leads to the very file that is mapped, for those
 * who may follow it: CAP_SYS_ADMIN, or since 5.9 CAP_CHECKPOINT_RESTORE.
 *
 * Believed only when it is a regular file with the inode that is mapped; the device is not
 * compared, since overlayfs and btrfs show another one in maps than stat does.
 *
 * References: proc(5), Linux fs/proc/base.c 6.18 (proc_map_files_get_link). */
#include "image/live.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_mapped_file(const struct stat *info, const struct mw_mapping *region)
{
    return S_ISREG(info->st_mode) && info->st_ino == region->inode;
}

static int open_below_root(int task_fd, const char *path)
{
    MW_CLOSE int root = openat(task_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    const struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

static int open_by_name(int task_fd, const struct mw_mapping *region)
{
    return region->deleted ? -1 : open_below_root(task_fd, region->name);
}

/* A thread's directory has no map_files: then there is none. A device is not even opened. */
static int open_by_address(int task_fd, const struct mw_mapping *region)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "map_files/%llx-%llx", (unsigned long long)region->start,
             (unsigned long long)region->end);
    if (fstatat(task_fd, path, &info, 0) != 0 || !is_mapped_file(&info, region))
        return -1;
    return openat(task_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

int mw_live_open_mapped(int task_fd, const struct mw_mapping *region)
{
    int (*const ways[])(int, const struct mw_mapping *) = {open_by_name, open_by_address};
    if (region->name[0] != '/' || region->inode == 0)
        return -1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        MW_CLOSE int fd = ways[i](task_fd, region);
        struct stat info;
        if (fd >= 0 && fstat(fd, &info) == 0 && is_mapped_file(&info, region))
            return mw_steal_fd(&fd);
    }
    return -1;
}

int mw_live_open_file(struct mw_image *image, const struct mw_mapping *region)
{
    return mw_live_open_mapped(mw_live_of(image)->memory_fd, region);
}

int mw_live_open_path(struct mw_image *image, const char *path)
{
    MW_CLOSE int fd = open_below_root(mw_live_of(image)->memory_fd, path);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return -1;
    return mw_steal_fd(&fd);
}
