/* proc/cgroup_find.c: from a pid to the directory of its cgroup.
 *
 * /proc/PID/cgroup names a path for each hierarchy ("4:memory:/a/b" for v1, "0::/a/b" for v2), our
 * mount table says where a hierarchy is mounted and which of its directories is the root of that
 * mount. In a container the two may not fit: the path can be the host's while only the container's
 * own part is mounted. Then, in this order: cut the mount's root off the path; drop leading parts
 * of the path until the rest is there; and if the process is in the same group as we are, take the
 * root of the mount.
 *
 * Hybrid machines mount both versions; the one whose hierarchy has the controller counts.
 *
 * References: cgroups(7), proc(5) mountinfo; Linux Documentation/admin-guide/cgroup-v{1,2}. */
#include "proc/cgroup_find.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CGROUP_TEXT_BYTES = 64 << 10, MOUNTS_TEXT_BYTES = 16 << 20 };

/* Is word one of the comma-separated words of length bytes? */
static bool list_has(const char *list, size_t length, const char *word)
{
    size_t word_length = strlen(word);
    for (const char *at = list, *end = list + length; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == word_length && memcmp(at, word, word_length) == 0)
            return true;
        at = stop + 1;
    }
    return false;
}

/* The path of the v1 hierarchy with controller, or (controller NULL) of v2; false when none. */
static bool find_path(const char *text, const char *controller, char path[MW_CGROUP_PATH_BYTES])
{
    for (const char *line = text; line && *line;) {
        const char *newline = strchrnul(line, '\n');
        const char *first = memchr(line, ':', (size_t)(newline - line));
        const char *second = first ? memchr(first + 1, ':', (size_t)(newline - first - 1)) : NULL;
        if (second) {
            bool is_v2 = second == first + 1;
            size_t length = (size_t)(newline - second - 1);
            if ((controller ? list_has(first + 1, (size_t)(second - first - 1), controller)
                            : is_v2) &&
                length < MW_CGROUP_PATH_BYTES) {
                memcpy(path, second + 1, length);
                path[length] = '\0';
                return true;
            }
        }
        line = *newline ? newline + 1 : NULL;
    }
    return false;
}

/* "\040" → ' ', in place: the kernel writes blanks of a path so. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
            from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else
            *to = *from++;
    }
    *to = '\0';
}

/* One line of mountinfo: "id parent dev root mountpoint options [optional…] - type source super".
 */
struct mount {
    char *root, *point, *type, *super;
};

static bool parse_mount(char *line, struct mount *mount)
{
    char *rest = line;
    for (int skip = 0; skip < 3; skip++)
        if (!strsep(&rest, " ") || !rest)
            return false;
    mount->root = strsep(&rest, " ");
    mount->point = rest ? strsep(&rest, " ") : NULL;
    char *dash = rest ? strstr(rest, " - ") : NULL;
    if (!mount->point || !dash)
        return false;
    rest = dash + 3;
    mount->type = strsep(&rest, " ");
    if (!rest || !strsep(&rest, " ") || !rest)
        return false;
    mount->super = rest;
    unescape(mount->root);
    unescape(mount->point);
    return true;
}

/* The mount of the v1 hierarchy with controller, or of v2. */
static bool find_mount(char *text, const char *controller, struct mw_cgroup_hierarchy *hierarchy)
{
    for (char *line; (line = strsep(&text, "\n"));) {
        struct mount mount;
        if (!parse_mount(line, &mount))
            continue;
        bool fits = controller ? strcmp(mount.type, "cgroup") == 0 &&
                                     list_has(mount.super, strlen(mount.super), controller)
                               : strcmp(mount.type, "cgroup2") == 0;
        if (!fits || strlen(mount.root) >= MW_CGROUP_PATH_BYTES ||
            strlen(mount.point) >= MW_CGROUP_PATH_BYTES)
            continue;
        hierarchy->root_fd = open(mount.point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (hierarchy->root_fd < 0)
            continue;
        snprintf(hierarchy->root, sizeof hierarchy->root, "%s", mount.root);
        snprintf(hierarchy->point, sizeof hierarchy->point, "%s", mount.point);
        return true;
    }
    return false;
}

/* A directory that stands for /sys/fs/cgroup: v1 has a folder for each controller in it, v2 is
 * that directory itself or, on hybrid machines, its folder "unified". */
static bool find_injected(const char *cgroup_root, const char *controller,
                          struct mw_cgroup_hierarchy *hierarchy)
{
    MW_CLOSE int top = open(cgroup_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return false;
    const char *folder = controller                                ? controller
                         : faccessat(top, "unified", F_OK, 0) == 0 ? "unified"
                                                                   : "";
    int length = snprintf(hierarchy->point, sizeof hierarchy->point, "%s%s%s", cgroup_root,
                          *folder ? "/" : "", folder);
    if (length < 0 || (size_t)length >= sizeof hierarchy->point)
        return false;
    hierarchy->root_fd =
        *folder ? openat(top, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : mw_steal_fd(&top);
    return hierarchy->root_fd >= 0;
}

bool mw_cgroup_hierarchy_open(int proc_fd, const char *cgroup_root, const char *controller,
                              struct mw_cgroup_hierarchy *hierarchy_out)
{
    *hierarchy_out =
        (struct mw_cgroup_hierarchy){.version = controller ? 1 : 2, .root_fd = -1, .root = "/"};
    if (cgroup_root)
        return find_injected(cgroup_root, controller, hierarchy_out);
    MW_FREE char *mounts = NULL;
    size_t length;
    return mw_io_read_file_at(proc_fd, "self/mountinfo", MOUNTS_TEXT_BYTES, &mounts, &length,
                              NULL) == MW_OK &&
           find_mount(mounts, controller, hierarchy_out);
}

size_t mw_cgroup_mount_prefix(int proc_fd, const char *path)
{
    MW_FREE char *mounts = NULL;
    size_t text_length, longest = 0;
    if (mw_io_read_file_at(proc_fd, "self/mountinfo", MOUNTS_TEXT_BYTES, &mounts, &text_length,
                           NULL) != MW_OK)
        return 0;
    char *rest = mounts;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct mount mount;
        if (!parse_mount(line, &mount) || strncmp(mount.type, "cgroup", 6) != 0)
            continue;
        size_t length = strlen(mount.point);
        if (length > longest && strncmp(path, mount.point, length) == 0 &&
            (path[length] == '/' || path[length] == '\0'))
            longest = length;
    }
    return longest;
}

static bool directory_exists(int root_fd, const char *path)
{
    while (*path == '/')
        path++;
    MW_CLOSE int fd =
        openat(root_fd, *path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0;
}

/* Make path relative to the mount; false when it is not visible there. */
static bool fit_path(int root_fd, const char *mount_root, bool is_our_own, char *path)
{
    size_t length = strlen(mount_root);
    if (strncmp(path, "/..", 3) == 0) /* outside our cgroup namespace */
        return false;
    if (length > 1 && strncmp(path, mount_root, length) == 0 &&
        (path[length] == '/' || path[length] == '\0'))
        memmove(path, path + length, strlen(path + length) + 1);
    while (*path == '/' && path[1] != '\0' && !directory_exists(root_fd, path)) {
        char *next = strchr(path + 1, '/');
        if (!next) {
            if (!is_our_own)
                return false;
            *path = '\0';
            break;
        }
        memmove(path, next, strlen(next) + 1);
    }
    if (strcmp(path, "/") == 0)
        *path = '\0';
    return true;
}

static char *read_cgroup_file(int proc_fd, const char *process)
{
    char name[48], *text;
    size_t length;
    snprintf(name, sizeof name, "%s/cgroup", process);
    return mw_io_read_file_at(proc_fd, name, CGROUP_TEXT_BYTES, &text, &length, NULL) == MW_OK
               ? text
               : NULL;
}

/* Look in one version of hierarchies: controller NULL is v2. */
static bool find_in(int proc_fd, const char *theirs, const char *ours, const char *cgroup_root,
                    const char *controller, struct mw_cgroup_place *place)
{
    struct mw_cgroup_hierarchy hierarchy;
    char our_path[MW_CGROUP_PATH_BYTES];
    if (!find_path(theirs, controller, place->path))
        return false;
    bool is_our_own =
        ours && find_path(ours, controller, our_path) && strcmp(our_path, place->path) == 0;
    if (!mw_cgroup_hierarchy_open(proc_fd, cgroup_root, controller, &hierarchy))
        return false;
    if (fit_path(hierarchy.root_fd, hierarchy.root, is_our_own, place->path)) {
        place->root_fd = hierarchy.root_fd;
        place->version = hierarchy.version;
        return true;
    }
    close(hierarchy.root_fd);
    return false;
}

bool mw_cgroup_own_path(int proc_fd, const struct mw_cgroup_hierarchy *hierarchy,
                        const char *controller, char path[MW_CGROUP_PATH_BYTES])
{
    MW_FREE char *ours = read_cgroup_file(proc_fd, "self");
    return ours && find_path(ours, controller, path) &&
           fit_path(hierarchy->root_fd, hierarchy->root, true, path);
}

void mw_cgroup_place_find(int proc_fd, int32_t pid, const char *cgroup_root, const char *controller,
                          struct mw_cgroup_place *place_out)
{
    assert(controller);
    *place_out = (struct mw_cgroup_place){.root_fd = -1};
    char process[16];
    snprintf(process, sizeof process, "%d", pid);
    MW_FREE char *theirs = read_cgroup_file(proc_fd, process);
    MW_FREE char *ours = read_cgroup_file(proc_fd, "self");
    if (!theirs)
        return;
    if (!find_in(proc_fd, theirs, ours, cgroup_root, controller, place_out))
        find_in(proc_fd, theirs, ours, cgroup_root, NULL, place_out);
}

void mw_cgroup_place_deinit(struct mw_cgroup_place *place)
{
    if (place->root_fd >= 0)
        close(place->root_fd);
    *place = (struct mw_cgroup_place){.root_fd = -1};
}

bool mw_cgroup_path_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}
