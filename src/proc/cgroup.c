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
#include "proc/cgroup_file.h"
#include "proc/cgroup_tree.h"
#include "proc/number.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PROCS_BYTES_MAX = 4 << 20,
    DEPTH_MAX = 64,        /* levels upwards */
    GROUPS_BELOW_MAX = 64, /* groups looked at for the number of processes */
};

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

struct stat_key {
    const char *key;
    size_t offset; /* of the figure in struct mw_cgroup */
};

static void load_keys(const char *text, const struct stat_key *keys, size_t count,
                      struct mw_cgroup *cgroup)
{
    for (size_t i = 0; i < count; i++)
        memcpy((char *)cgroup + keys[i].offset,
               &(uint64_t){mw_cgroup_stat_value(text, keys[i].key)}, sizeof(uint64_t));
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
    cgroup->usage = mw_cgroup_number_read(root_fd, path, "memory.current");
    cgroup->peak = mw_cgroup_number_read(root_fd, path, "memory.peak");
    cgroup->high = mw_cgroup_number_read(root_fd, path, "memory.high");
    cgroup->swap = mw_cgroup_number_read(root_fd, path, "memory.swap.current");
    cgroup->swap_limit = mw_cgroup_number_read(root_fd, path, "memory.swap.max");
    MW_FREE char *stat = mw_cgroup_file_read(root_fd, path, "memory.stat");
    if (stat)
        load_keys(stat, keys, COUNT_OF(keys), cgroup);
    MW_FREE char *events = mw_cgroup_file_read(root_fd, path, "memory.events");
    if (events) {
        cgroup->oom_kills = mw_cgroup_stat_value(events, "oom_kill");
        cgroup->max_events = mw_cgroup_stat_value(events, "max");
    }
}

static uint64_t known_or_0(uint64_t value)
{
    return value == MW_UNKNOWN ? 0 : value;
}

uint64_t mw_cgroup_kernel_bytes(const struct mw_cgroup *cgroup)
{
    uint64_t slab = cgroup->slab, sum = 0;
    if (cgroup->kernel != MW_UNKNOWN)
        return cgroup->kernel;
    if (slab == MW_UNKNOWN &&
        (cgroup->slab_reclaimable != MW_UNKNOWN || cgroup->slab_unreclaimable != MW_UNKNOWN)) {
        if (__builtin_add_overflow(known_or_0(cgroup->slab_reclaimable),
                                   known_or_0(cgroup->slab_unreclaimable), &slab))
            return MW_UNKNOWN;
    }
    if (slab == MW_UNKNOWN)
        return MW_UNKNOWN;
    const uint64_t parts[] = {slab, cgroup->page_tables, cgroup->kernel_stack, cgroup->percpu};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (__builtin_add_overflow(sum, known_or_0(parts[i]), &sum))
            return MW_UNKNOWN;
    return sum;
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
    MW_FREE char *stat = mw_cgroup_file_read(root_fd, path, "memory.stat");
    if (stat)
        load_keys(stat, keys, COUNT_OF(keys), cgroup);
    cgroup->usage = mw_cgroup_number_read(root_fd, path, "memory.usage_in_bytes");
    cgroup->peak = mw_cgroup_number_read(root_fd, path, "memory.max_usage_in_bytes");
    cgroup->kernel = mw_cgroup_number_read(root_fd, path, "memory.kmem.usage_in_bytes");
    cgroup->sock = mw_cgroup_number_read(root_fd, path, "memory.kmem.tcp.usage_in_bytes");
    cgroup->max_events = mw_cgroup_number_read(root_fd, path, "memory.failcnt");
    uint64_t own = mw_cgroup_number_read(root_fd, path, "memory.limit_in_bytes");
    if (cgroup->limit == MW_UNKNOWN)
        cgroup->limit = own;
    cgroup->swap_limit =
        difference(mw_cgroup_number_read(root_fd, path, "memory.memsw.limit_in_bytes"), own);
    MW_FREE char *oom = mw_cgroup_file_read(root_fd, path, "memory.oom_control");
    if (oom)
        cgroup->oom_kills = mw_cgroup_stat_value(oom, "oom_kill");
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
        uint64_t limit = mw_cgroup_number_read(place->root_fd, at, file);
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
        quota = mw_cgroup_number_read(place->root_fd, path, "cpu.cfs_quota_us"); /* -1: none */
        period = mw_cgroup_number_read(place->root_fd, path, "cpu.cfs_period_us");
    } else {
        /* "50000 100000" */
        MW_FREE char *text = mw_cgroup_file_read(place->root_fd, path, "cpu.max");
        const char *at = text;
        if (!text || !mw_number_take(&at, &quota) || !mw_number_take(&at, &period))
            return -1;
    }
    if (quota == MW_UNKNOWN || period == MW_UNKNOWN || period == 0)
        return -1;
    return (double)quota / (double)period;
}

/* The smallest quota on the way up; moves place there. */
static double smallest_quota(struct mw_cgroup_place *place)
{
    double smallest = -1;
    for (int depth = 0; place->version != 0 && depth < DEPTH_MAX; depth++) {
        double quota = read_quota(place, place->path);
        if (quota >= 0 && (smallest < 0 || quota < smallest))
            smallest = quota;
        if (!mw_cgroup_path_up(place->path))
            break;
    }
    return smallest;
}

static double find_quota(int proc_fd, int32_t pid, const char *cgroup_root)
{
    struct mw_cgroup_place place;
    mw_cgroup_place_find(proc_fd, pid, cgroup_root, "cpu", &place);
    double smallest = smallest_quota(&place);
    mw_cgroup_place_deinit(&place);
    return smallest;
}

struct count {
    uint64_t processes;
};

static enum mw_cgroup_step count_visit(void *user, int group_fd, const char *path, const char *name)
{
    struct count *count = user;
    MW_FREE char *text = NULL;
    size_t length;
    (void)path;
    (void)name;
    if (mw_io_read_file_at(group_fd, "cgroup.procs", PROCS_BYTES_MAX, &text, &length, NULL) ==
        MW_OK)
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            count->processes++;
    return MW_CGROUP_ENTER;
}

/* Processes in the group and those below it, where those are few. */
static void load_process_count(const struct mw_cgroup_place *place, const char *path,
                               struct mw_cgroup *cgroup)
{
    struct count count = {0};
    struct mw_cgroup_walk walk = {
        .visit = count_visit, .user = &count, .groups_max = GROUPS_BELOW_MAX};
    struct mw_cgroup_place group = {.version = place->version, .root_fd = place->root_fd};
    snprintf(group.path, sizeof group.path, "%s", path);
    bool is_whole = mw_cgroup_walk_run(&walk, &group);
    if (count.processes > 0 && is_whole)
        cgroup->process_count = count.processes;
}

/* Figures of the group at path, with the smallest limit up the path. */
static void load_figures(const struct mw_cgroup_place *place, const char *path, uint64_t limit,
                         const char *limit_path, struct mw_cgroup *cgroup)
{
    if (place->version == 1)
        load_v1(place->root_fd, path, cgroup);
    else
        load_v2(place->root_fd, path, cgroup);
    if (limit <= cgroup->limit && limit != MW_UNKNOWN) {
        cgroup->limit = limit;
        snprintf(cgroup->limit_path, sizeof cgroup->limit_path, "%s",
                 *limit_path ? limit_path : "/");
    }
    cgroup->version = place->version;
    snprintf(cgroup->path, sizeof cgroup->path, "%s", *path ? path : "/");
}

void mw_cgroup_load_place(int proc_fd, const struct mw_cgroup_place *place, const char *cgroup_root,
                          struct mw_cgroup *cgroup_out)
{
    struct mw_cgroup_hierarchy cpu;
    struct mw_cgroup_place cpu_place = *place;
    char limit_path[MW_CGROUP_PATH_BYTES];
    assert(place->version != 0);
    mw_cgroup_init(cgroup_out);
    uint64_t limit = find_limit(place, limit_path);
    load_figures(place, place->path, limit, limit_path, cgroup_out);
    if (place->version == 1 && mw_cgroup_hierarchy_open(proc_fd, cgroup_root, "cpu", &cpu)) {
        cpu_place.root_fd = cpu.root_fd;
        cgroup_out->cpu_quota = smallest_quota(&cpu_place);
        close(cpu.root_fd);
    } else if (place->version == 2) {
        cgroup_out->cpu_quota = smallest_quota(&cpu_place);
    }
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
        load_figures(&place, path, limit, path, &cgroup);
        load_process_count(&place, path, &cgroup);
        cgroup.cpu_quota = find_quota(proc_fd, pid, cgroup_root);
    }
    mw_cgroup_place_deinit(&place);
    assert(cgroup.version >= 0 && cgroup.version <= 2);
    *cgroup_out = cgroup;
    return MW_OK;
}
