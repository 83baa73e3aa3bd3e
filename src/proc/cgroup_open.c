/* proc/cgroup_open.c: from what somebody typed to a group: a path, or a container's id.
 *
 * A path is put in order by its text alone ("a/../b" is "b") and never leaves the hierarchy. For an
 * id the whole tree is looked through: engines name a container's group by its id, bare or between
 * a word of theirs and ".scope". What lies inside a container that fits is not looked at, so that
 * an engine's own groups below it are no second candidate.
 *
 * References: cgroups(7); names of groups as made by docker and containerd (cgroupfs and systemd
 * drivers), cri-o, podman (libpod), systemd.unit(5) for ".scope". */
#include "proc/cgroup_tree.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    TREE_GROUPS_MAX = 65536,
    ID_IN_NAME_MIN = 32, /* shorter words of hexadecimal digits are something else */
    CANDIDATES_MAX = 6,  /* shown when several fit */
};

static const char *const controllers[] = {"memory", NULL}; /* v1 first, then v2 */
enum { HIERARCHY_COUNT = sizeof controllers / sizeof *controllers };

/* base + "/" + path without ".", ".." and empty parts. False: it leaves the root, or is too long.
 */
static bool path_join(const char *base, const char *path, char joined[MW_CGROUP_PATH_BYTES])
{
    size_t used = 0;
    const char *texts[] = {base, path};
    for (size_t t = 0; t < 2; t++)
        for (const char *at = texts[t]; *at;) {
            size_t length = strcspn(at, "/");
            if (length == 2 && memcmp(at, "..", 2) == 0) {
                if (used == 0)
                    return false;
                while (joined[--used] != '/')
                    ;
            } else if (length > 0 && !(length == 1 && *at == '.')) {
                if (used + 1 + length >= MW_CGROUP_PATH_BYTES)
                    return false;
                joined[used++] = '/';
                memcpy(joined + used, at, length);
                used += length;
            }
            at += length;
            at += *at == '/';
        }
    joined[used] = '\0';
    return true;
}

/* The part behind prefix when path is prefix or lies below it, else NULL. */
static const char *path_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    if (length > 1 && strncmp(path, prefix, length) == 0 &&
        (path[length] == '/' || path[length] == '\0'))
        return path + length;
    return NULL;
}

/* What somebody typed, as a path below the mount of this hierarchy. */
static bool path_resolve(int proc_fd, const struct mw_cgroup_hierarchy *hierarchy,
                         const char *controller, const char *typed, char path[MW_CGROUP_PATH_BYTES])
{
    char own[MW_CGROUP_PATH_BYTES];
    if (*typed != '/')
        return mw_cgroup_own_path(proc_fd, hierarchy, controller, own) &&
               path_join(own, typed, path);
    const char *below = path_below(typed, hierarchy->point);
    if (!below) {
        size_t mount = mw_cgroup_mount_prefix(proc_fd, typed);
        below = mount > 0 ? typed + mount : path_below(typed, hierarchy->root);
    }
    return path_join("", below ? below : typed, path);
}

enum mw_status mw_cgroup_place_open(int proc_fd, const char *path, const char *cgroup_root,
                                    struct mw_cgroup_place *place_out, struct mw_error *err)
{
    bool is_mounted = false, is_inside = false;
    int problem = ENOENT;
    assert(path && place_out);
    for (size_t i = 0; i < HIERARCHY_COUNT; i++) {
        struct mw_cgroup_hierarchy hierarchy;
        struct mw_cgroup_place place;
        if (!mw_cgroup_hierarchy_open(proc_fd, cgroup_root, controllers[i], &hierarchy))
            continue;
        is_mounted = true;
        place =
            (struct mw_cgroup_place){.version = hierarchy.version, .root_fd = hierarchy.root_fd};
        if (path_resolve(proc_fd, &hierarchy, controllers[i], path, place.path)) {
            is_inside = true;
            MW_CLOSE int fd = openat(place.root_fd, *place.path ? place.path + 1 : ".",
                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (fd >= 0) {
                *place_out = place;
                return MW_OK;
            }
            problem = errno;
        }
        mw_cgroup_place_deinit(&place);
    }
    if (!is_mounted)
        return mw_fail(err, MW_UNSUPPORTED, "no cgroup hierarchy with memory is mounted here");
    if (!is_inside)
        return mw_fail(err, MW_INVALID, "'%.120s' is no path of a cgroup that is visible here",
                       path);
    enum mw_status status = problem == ENOENT || problem == ENOTDIR
                                ? mw_fail(err, MW_NOT_FOUND, "there is no cgroup '%.160s'", path)
                                : mw_fail_errno(err, problem, "cannot open cgroup '%.160s'", path);
    mw_error_hint(err, "cat /proc/PID/cgroup says which cgroup a process is in");
    return status;
}

/* The hexadecimal digits that text begins with. */
static size_t digits_count(const char *text)
{
    return strspn(text, "0123456789abcdef");
}

bool mw_container_id_parse(const char *text, char id[MW_CONTAINER_ID_MAX + 1])
{
    static const char *const schemes[] = {"docker://", "containerd://", "cri-o://", "podman://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0) {
            text += strlen(schemes[i]);
            break;
        }
    size_t length = strspn(text, "0123456789abcdefABCDEF");
    if (length < MW_CONTAINER_ID_MIN || length > MW_CONTAINER_ID_MAX || text[length] != '\0')
        return false;
    for (size_t i = 0; i <= length; i++) /* directories have it in lower case */
        id[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
    return true;
}

bool mw_container_id_of(const char *name, char id[MW_CONTAINER_ID_MAX + 1])
{
    const char *dash = strrchr(name, '-');
    const char *digits = dash ? dash + 1 : name;
    size_t length = digits_count(digits);
    if (length < ID_IN_NAME_MIN || length > MW_CONTAINER_ID_MAX ||
        (digits[length] != '\0' && strcmp(digits + length, ".scope") != 0))
        return false;
    if (strstr(name, "conmon"))
        return false;
    memcpy(id, digits, length);
    id[length] = '\0';
    return true;
}

struct search {
    const char *wanted;
    struct mw_context *context;
    bool canceled;
    size_t count; /* containers that fit; the first few are kept */
    char paths[CANDIDATES_MAX][MW_CGROUP_PATH_BYTES];
    char ids[CANDIDATES_MAX][MW_CONTAINER_ID_MAX + 1];
};

static enum mw_cgroup_step search_visit(void *user, int group_fd, const char *path,
                                        const char *name)
{
    struct search *search = user;
    char id[MW_CONTAINER_ID_MAX + 1];
    (void)group_fd;
    search->canceled = mw_context_canceled(search->context);
    if (search->canceled)
        return MW_CGROUP_STOP;
    if (!mw_container_id_of(name, id) || strncmp(id, search->wanted, strlen(search->wanted)) != 0)
        return MW_CGROUP_ENTER;
    if (search->count < CANDIDATES_MAX) {
        snprintf(search->paths[search->count], sizeof search->paths[0], "%s", path);
        memcpy(search->ids[search->count], id, sizeof id);
    }
    search->count++;
    return MW_CGROUP_PASS;
}

/* How many digits tell the candidates apart, with one more to see it; all when nothing does. */
static size_t telling_digits(const struct search *search, size_t shown)
{
    size_t most = strlen(search->wanted);
    for (size_t i = 0; i < shown; i++)
        for (size_t k = i + 1; k < shown; k++) {
            size_t same = 0;
            while (search->ids[i][same] && search->ids[i][same] == search->ids[k][same])
                same++;
            most = same > most ? same : most;
        }
    return most + 2;
}

/* One container may have a group in several places: then paths tell them apart, else digits. */
static enum mw_status fail_ambiguous(const struct search *search, struct mw_error *err)
{
    char candidates[sizeof err->hint];
    size_t shown = search->count < CANDIDATES_MAX ? search->count : CANDIDATES_MAX, used = 0;
    int digits = (int)telling_digits(search, shown);
    bool is_same = strcmp(search->ids[0], search->ids[1]) == 0;
    candidates[0] = '\0';
    for (size_t i = 0; i < shown; i++) {
        int more = is_same ? snprintf(candidates + used, sizeof candidates - used, "%scgroup:%s",
                                      i ? ", " : "", search->paths[i])
                           : snprintf(candidates + used, sizeof candidates - used, "%s%.*s",
                                      i ? ", " : "", digits, search->ids[i]);
        if (more < 0 || (size_t)more >= sizeof candidates - used) {
            candidates[used] = '\0'; /* whole ones only */
            break;
        }
        used += (size_t)more;
    }
    mw_fail(err, MW_INVALID, "'%.64s' fits %zu %s", search->wanted, search->count,
            is_same ? "cgroups" : "containers");
    mw_error_hint(err, "one of: %s%s", candidates, search->count > shown ? ", and others" : "");
    return MW_INVALID;
}

static enum mw_status fail_not_found(const char *id, struct mw_error *err)
{
    mw_fail(err, MW_NOT_FOUND, "there is no container '%.64s' among the cgroups that are visible",
            id);
    mw_error_hint(err, "run it on the host of the container, or give a PID or cgroup:PATH");
    return MW_NOT_FOUND;
}

enum mw_status mw_cgroup_place_find_container(int proc_fd, const char *id, const char *cgroup_root,
                                              struct mw_context *context,
                                              struct mw_cgroup_place *place_out,
                                              struct mw_error *err)
{
    bool is_mounted = false;
    MW_FREE struct search *search = mw_calloc(1, sizeof *search);
    MW_FREE struct mw_cgroup_walk *walk = mw_calloc(1, sizeof *walk);
    if (!search || !walk)
        return mw_fail(err, MW_NOMEM, "out of memory");
    for (size_t i = 0; i < HIERARCHY_COUNT; i++) {
        struct mw_cgroup_hierarchy hierarchy;
        if (!mw_cgroup_hierarchy_open(proc_fd, cgroup_root, controllers[i], &hierarchy))
            continue;
        is_mounted = true;
        struct mw_cgroup_place place = {.version = hierarchy.version, .root_fd = hierarchy.root_fd};
        *search = (struct search){.wanted = id, .context = context};
        *walk = (struct mw_cgroup_walk){
            .visit = search_visit, .user = search, .groups_max = TREE_GROUPS_MAX};
        bool is_whole = mw_cgroup_walk_run(walk, &place);
        if (search->count == 1 && is_whole && !search->canceled) {
            memcpy(place.path, search->paths[0], sizeof place.path);
            *place_out = place;
            return MW_OK;
        }
        mw_cgroup_place_deinit(&place);
        if (search->canceled)
            return mw_fail(err, MW_CANCELED, "the search for container '%.64s' was ended", id);
        if (search->count > 1)
            return fail_ambiguous(search, err);
        if (!is_whole)
            return mw_fail(err, MW_LIMIT, "there are more than %d cgroups here: give cgroup:PATH",
                           TREE_GROUPS_MAX);
    }
    return is_mounted
               ? fail_not_found(id, err)
               : mw_fail(err, MW_UNSUPPORTED, "no cgroup hierarchy with memory is mounted here");
}
