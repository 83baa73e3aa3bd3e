/* symbol/perf_map.c: /tmp/perf-PID.map, in which runtimes name the code that they make.
 *
 * Looked up as the target sees it: in its mount namespace, under the number that it has in its own
 * pid namespace. /tmp is anybody's, so the file is believed only when it belongs to whom the target
 * runs as, or to root. Bounded by MW_LIMIT_PERF_MAP_BYTES.
 *
 * Reference: Linux tools/perf/Documentation/jit-interface.txt. */
#include "symbol/module.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"

#include <stdio.h>
#include <sys/stat.h>

static bool is_the_targets(int fd, const struct mw_process *process)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
           (about.st_uid == process->euid || about.st_uid == process->uid || about.st_uid == 0);
}

static void load(struct mw_names *names)
{
    const struct mw_process *process = &names->image->process;
    int32_t pid = process->ns_pid > 0 ? process->ns_pid : process->pid;
    char path[64];
    size_t length;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
    MW_CLOSE int fd = names->image->kind == MW_IMAGE_LIVE && pid > 0
                          ? mw_image_open_path(names->image, path)
                          : -1;
    MW_FREE char *text = NULL;
    if (fd >= 0 && is_the_targets(fd, process) &&
        mw_io_read_all(fd, path, MW_LIMIT_PERF_MAP_BYTES, &text, &length, NULL) == MW_OK)
        mw_symtab_add_perf_map(&names->perf_map, text, length);
    mw_symtab_sort(&names->perf_map);
}

const struct mw_symtab *mw_names_perf_map(struct mw_names *names)
{
    if (!names->has_perf_map)
        load(names);
    names->has_perf_map = true;
    return &names->perf_map;
}
