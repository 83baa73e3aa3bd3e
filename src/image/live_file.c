/* image/live_file.c: the file behind a region of a running process.
 *
 * Looked up by name below the target's own root, so that another mount namespace does not matter,
 * and never following a link out of it. Believed only when it is a regular file with the inode
 * that is mapped; the device is not compared, since overlayfs and btrfs show another one in maps
 * than stat does. */
#include "image/live.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int mw_live_open_file(struct mw_image *image, const struct mw_mapping *region)
{
    const struct mw_live *live = mw_live_of(image);
    if (region->name[0] != '/' || region->deleted || region->inode == 0)
        return -1;
    MW_CLOSE int root = openat(live->memory_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    const struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    MW_CLOSE int fd = (int)syscall(SYS_openat2, root, region->name, &how, sizeof how);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_ino != region->inode)
        return -1;
    return mw_steal_fd(&fd);
}
