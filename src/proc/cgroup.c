/* proc/cgroup.c: the figures of the memory cgroup around a process.
 *
 * Groups nest, and the limit that counts is the smallest one on the way up. The figures are those
 * of the group that this limit belongs to, so that usage and limit can be compared; without a
 * limit they are the process's own group's. v1 counts a subtree in memory.stat under names with
 * "total_", and tells the smallest limit even of groups above the mount.
 *
 * Trusts nothing: a missing or odd file leaves its figure unknown.
 *
 * References: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. */
#include "proc/cgroup.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "proc/cgroup_find.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_BYTES_MAX = 64 << 10,
    PROCS_BYTES_MAX = 4 << 20,
    DEPTH_MAX = 64,        /* levels upwards */
    GROUPS_BELOW_MAX = 64, /* groups looked at for the number of processes */
};
static const uint64_t UNLIMITED = (uint64_t)1 << 62; /* v1 writes a huge number for none */

void mw_cgroup_init(struct mw_cgroup *cgroup)
{
    const uint64_t none = MW_UNKNOWN;
    *cgroup = (struct mw_cgroup){
        .limit = none,
        .high = none,
        .usage = none,
        .peak = none,
        .swap = none,
        .swap_limit = none,
        .anon = none,
        .file = none,
        .shmem = none,
        .active_file = none,
        .inactive_file = none,
        .file_mapped = none,
        .kernel = none,
        .slab = none,
        .slab_reclaimable = none,
        .slab_unreclaimable = none,
        .sock = none,
        .page_tables = none,
        .kernel_stack = none,
        .percpu = none,
        .hugetlb = none,
        .zswap = none,
        .oom_kills = none,
        .max_events = none,
        .cpu_quota = -1,
        .process_count = none,
    };
}

/* The text of a file in the group's directory, or NULL. */
static char *read_file(int root_fd, const char *path, const char *file)
{
    char name[MW_CGROUP_PATH_BYTES + 64], *text;
    size_t length;
    while (*path == '/')
        path++;
    snprintf(name, sizeof name, "%s%s%s", path, *path ? "/" : "", file);
    return mw_io_read_file_at(root_fd, name, FILE_BYTES_MAX, &text, &length, NULL) == MW_OK ? text
                                                                                            : NULL;
}

static bool parse_number(const char *text, uint64_t *value_out)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    *value_out = value;
    return true;
}

/* A file that holds one number; "max", a missing file and v1's huge number are unknown. */
static uint64_t read_number(int root_fd, const char *path, const char *file)
{
    MW_FREE char *text = read_file(root_fd, path, file);
    uint64_t value;
    if (!text || !parse_number(text, &value) || value >= UNLIMITED)
        return MW_UNKNOWN;
    return value;
}

/* The number behind "key " at the start of a line. */
static uint64_t stat_value(const char *text, const char *key)
{
    size_t length = strlen(key);
    uint64_t value;
    for (const char *line = text; line && *line;) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return parse_number(line + length + 1, &value) && value < UNLIMITED ? value
                                                                                : MW_UNKNOWN;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return MW_UNKNOWN;
}

struct stat_key {
    const char *key;
    size_t offset; /* of the figure in struct mw_cgroup */
};

static void load_keys(const char *text, const struct stat_key *keys, size_t count,
                      struct mw_cgroup *cgroup)
{
    for (size_t i = 0; i < count; i++)
        memcpy((char *)cgroup + keys[i].offset, &(uint64_t){stat_value(text, keys[i].key)},
               sizeof(uint64_t));
}

#define KEY(name, member)                                                                          \
    {                                                                                              \
        name, offsetof(struct mw_cgroup, member)                                                   \
    }
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void load_v2(int root_fd, const char *path, struct mw_cgroup *cgroup)
{
    static const struct stat_key keys[] = {
        KEY("anon", anon),
        KEY("file", file),
        KEY("shmem", shmem),
        KEY("active_file", active_file),
        KEY("inactive_file", inactive_file),
        KEY("file_mapped", file_mapped),
        KEY("kernel", kernel),
        KEY("slab", slab),
        KEY("slab_reclaimable", slab_reclaimable),
        KEY("slab_unreclaimable", slab_unreclaimable),
        KEY("sock", sock),
        KEY("pagetables", page_tables),
        KEY("kernel_stack", kernel_stack),
        KEY("percpu", percpu),
        KEY("hugetlb", hugetlb),
        KEY("zswap", zswap),
    };
    cgroup->usage = read_number(root_fd, path, "memory.current");
    cgroup->peak = read_number(root_fd, path, "memory.peak");
    cgroup->high = read_number(root_fd, path, "memory.high");
    cgroup->swap = read_number(root_fd, path, "memory.swap.current");
    cgroup->swap_limit = read_number(root_fd, path, "memory.swap.max");
    MW_FREE char *stat = read_file(root_fd, path, "memory.stat");
    if (stat)
        load_keys(stat, keys, COUNT_OF(keys), cgroup);
    MW_FREE char *events = read_file(root_fd, path, "memory.events");
    if (events) {
        cgroup->oom_kills = stat_value(events, "oom_kill");
        cgroup->max_events = stat_value(events, "max");
    }
}

/* v1 counts memory and swap together. */
static uint64_t difference(uint64_t both, uint64_t memory)
{
    return both == MW_UNKNOWN || memory == MW_UNKNOWN || both < memory ? MW_UNKNOWN : both - memory;
}

static void load_v1(int root_fd, const char *path, struct mw_cgroup *cgroup)
{
    static const struct stat_key keys[] = {
        KEY("total_rss", anon),
        KEY("total_cache", file),
        KEY("total_shmem", shmem),
        KEY("total_active_file", active_file),
        KEY("total_inactive_file", inactive_file),
        KEY("total_mapped_file", file_mapped),
        KEY("total_swap", swap),
        KEY("hierarchical_memory_limit", limit),
    };
    MW_FREE char *stat = read_file(root_fd, path, "memory.stat");
    if (stat)
        load_keys(stat, keys, COUNT_OF(keys), cgroup);
    cgroup->usage = read_number(root_fd, path, "memory.usage_in_bytes");
    cgroup->peak = read_number(root_fd, path, "memory.max_usage_in_bytes");
    cgroup->kernel = read_number(root_fd, path, "memory.kmem.usage_in_bytes");
    cgroup->sock = read_number(root_fd, path, "memory.kmem.tcp.usage_in_bytes");
    cgroup->max_events = read_number(root_fd, path, "memory.failcnt");
    uint64_t own = read_number(root_fd, path, "memory.limit_in_bytes");
    if (cgroup->limit == MW_UNKNOWN)
        cgroup->limit = own;
    cgroup->swap_limit = difference(read_number(root_fd, path, "memory.memsw.limit_in_bytes"), own);
    MW_FREE char *oom = read_file(root_fd, path, "memory.oom_control");
    if (oom)
        cgroup->oom_kills = stat_value(oom, "oom_kill");
}

/* Walk up from the process's group; path becomes that of the smallest limit. The lowest of equal
 * ones is taken: it is the one around this process. */
static uint64_t find_limit(const struct mw_cgroup_place *place, char *path)
{
    const char *file = place->version == 1 ? "memory.limit_in_bytes" : "memory.max";
    char at[MW_CGROUP_PATH_BYTES];
    memcpy(at, place->path, sizeof at);
    memcpy(path, place->path, sizeof at);
    uint64_t smallest = MW_UNKNOWN;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        uint64_t limit = read_number(place->root_fd, at, file);
        if (limit < smallest) {
            smallest = limit;
            memcpy(path, at, sizeof at);
        }
        if (!mw_cgroup_path_up(at))
            break;
    }
    return smallest;
}

/* CPUs of one group, < 0 without a quota. */
static double read_quota(const struct mw_cgroup_place *place, const char *path)
{
    uint64_t quota, period;
    if (place->version == 1) {
        quota = read_number(place->root_fd, path, "cpu.cfs_quota_us"); /* -1: none */
        period = read_number(place->root_fd, path, "cpu.cfs_period_us");
    } else {
        MW_FREE char *text = read_file(place->root_fd, path, "cpu.max"); /* "50000 100000" */
        const char *blank = text ? strchr(text, ' ') : NULL;
        if (!blank || !parse_number(text, &quota) || !parse_number(blank + 1, &period))
            return -1;
    }
    if (quota == MW_UNKNOWN || period == MW_UNKNOWN || period == 0)
        return -1;
    return (double)quota / (double)period;
}

static double find_quota(int proc_fd, int32_t pid, const char *cgroup_root)
{
    struct mw_cgroup_place place;
    mw_cgroup_place_find(proc_fd, pid, cgroup_root, "cpu", &place);
    double smallest = -1;
    for (int depth = 0; place.version != 0 && depth < DEPTH_MAX; depth++) {
        double quota = read_quota(&place, place.path);
        if (quota >= 0 && (smallest < 0 || quota < smallest))
            smallest = quota;
        if (!mw_cgroup_path_up(place.path))
            break;
    }
    mw_cgroup_place_deinit(&place);
    return smallest;
}

/* Processes in the group and those below it. */
static uint64_t count_processes(int dir_fd, int depth, int *budget)
{
    if (depth == 0 || --*budget < 0)
        return 0;
    uint64_t count = 0;
    MW_FREE char *text = NULL;
    size_t length;
    if (mw_io_read_file_at(dir_fd, "cgroup.procs", PROCS_BYTES_MAX, &text, &length, NULL) == MW_OK)
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            count++;
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        if (copy >= 0)
            close(copy);
        return count;
    }
    for (struct dirent *entry; *budget > 0 && (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        MW_CLOSE int below = openat(copy, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (below >= 0)
            count += count_processes(below, depth - 1, budget);
    }
    closedir(dir);
    return count;
}

static void load_process_count(const struct mw_cgroup_place *place, const char *path,
                               struct mw_cgroup *cgroup)
{
    int budget = GROUPS_BELOW_MAX;
    while (*path == '/')
        path++;
    MW_CLOSE int fd =
        openat(place->root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t count = fd >= 0 ? count_processes(fd, DEPTH_MAX, &budget) : 0;
    if (count > 0 && budget > 0)
        cgroup->process_count = count;
}

enum mw_status mw_cgroup_load(int proc_fd, int32_t pid, const char *cgroup_root,
                              struct mw_cgroup *cgroup_out, struct mw_error *err)
{
    (void)err;
    struct mw_cgroup cgroup;
    mw_cgroup_init(&cgroup);
    struct mw_cgroup_place place;
    mw_cgroup_place_find(proc_fd, pid, cgroup_root, "memory", &place);
    if (place.version != 0) {
        char path[MW_CGROUP_PATH_BYTES];
        uint64_t limit = find_limit(&place, path);
        if (place.version == 1)
            load_v1(place.root_fd, path, &cgroup);
        else
            load_v2(place.root_fd, path, &cgroup);
        if (limit < cgroup.limit)
            cgroup.limit = limit;
        cgroup.version = place.version;
        snprintf(cgroup.path, sizeof cgroup.path, "%s", *path ? path : "/");
        load_process_count(&place, path, &cgroup);
        cgroup.cpu_quota = find_quota(proc_fd, pid, cgroup_root);
    }
    mw_cgroup_place_deinit(&place);
    assert(cgroup.version >= 0 && cgroup.version <= 2);
    *cgroup_out = cgroup;
    return MW_OK;
}
