/* session/group.c: from a cgroup or a container's id to the memory of all its processes.
 *
 * The cgroup's figures and those of the processes are read one after the other, so they fit to what
 * changed meanwhile. They also count differently: the cgroup is charged with each page once, by
 * whoever touched it first, in it or elsewhere; PSS divides each page among those who map it. The
 * difference is part of the answer. Trusts nothing: processes come and go, names are any bytes. */
#include "session/group.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "proc/cgroup_tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char cgroup_prefix[] = "cgroup:";

static bool is_file(const char *name)
{
    struct stat about;
    return stat(name, &about) == 0 && !S_ISDIR(about.st_mode);
}

bool mw_group_is_target(const char *target)
{
    char id[MW_CONTAINER_ID_MAX + 1];
    if (strncmp(target, cgroup_prefix, sizeof cgroup_prefix - 1) == 0)
        return true;
    if (!mw_container_id_parse(target, id))
        return false;
    /* All digits and as long as an id: no pid has 12 digits. */
    return target[strspn(target, "0123456789")] == '\0' || !is_file(target);
}

static enum mw_status place_find(int proc_fd, const char *target, const char *cgroup_root,
                                 struct mw_context *context, struct mw_cgroup_place *place,
                                 struct mw_error *err)
{
    char id[MW_CONTAINER_ID_MAX + 1];
    const size_t prefix = sizeof cgroup_prefix - 1;
    if (strncmp(target, cgroup_prefix, prefix) != 0) {
        bool is_id = mw_container_id_parse(target, id);
        assert(is_id && "the caller has asked mw_group_is_target()");
        (void)is_id;
        return mw_cgroup_place_find_container(proc_fd, id, cgroup_root, context, place, err);
    }
    if (target[prefix] != '\0')
        return mw_cgroup_place_open(proc_fd, target + prefix, cgroup_root, place, err);
    mw_fail(err, MW_INVALID, "'cgroup:' needs a path");
    mw_error_hint(err, "memwhy cgroup:. for our own, memwhy cgroup:/ for the whole machine");
    return MW_INVALID;
}

/* False: it has ended, or has no memory of its own. */
static bool process_load(int proc_fd, int32_t pid, struct mw_group_process *process,
                         enum mw_status *status)
{
    *process = (struct mw_group_process){.has_rollup = false};
    *status = MW_OK;
    if (!mw_list_row_load(proc_fd, pid, &process->row))
        return false;
    enum mw_status read = mw_rollup_load(proc_fd, pid, &process->rollup, NULL);
    process->has_rollup = read == MW_OK;
    if (read == MW_NOMEM)
        *status = read;
    if (!process->has_rollup)
        mw_rollup_init(&process->rollup);
    return read != MW_GONE;
}

static enum mw_status processes_load(int proc_fd, const struct mw_cgroup_members *members,
                                     struct mw_context *context, struct mw_group *group)
{
    enum mw_status status = MW_OK;
    if (members->count == 0)
        return MW_OK;
    group->processes = mw_calloc(members->count, sizeof *group->processes);
    if (!group->processes)
        return MW_NOMEM;
    for (size_t i = 0; i < members->count && status == MW_OK; i++) {
        struct mw_group_process *process = &group->processes[group->count];
        if (mw_context_canceled(context))
            return MW_CANCELED;
        if (process_load(proc_fd, members->items[i], process, &status)) {
            group->count++;
            group->read_count += process->has_rollup;
        }
        mw_context_progress(context, "looking at processes", i + 1, members->count);
    }
    return status;
}

/* What a process is sorted by: those that were read come first. */
static uint64_t weight_of(const struct mw_group_process *process)
{
    const struct mw_rollup *rollup = &process->rollup;
    if (!process->has_rollup)
        return process->row.rss_bytes;
    return rollup->pss != MW_UNKNOWN ? rollup->pss : rollup->rss;
}

static int by_weight(const void *a, const void *b)
{
    const struct mw_group_process *left = a, *right = b;
    uint64_t left_weight = weight_of(left), right_weight = weight_of(right);
    if (left->has_rollup != right->has_rollup)
        return left->has_rollup ? -1 : 1;
    if (left_weight != right_weight)
        return left_weight < right_weight ? 1 : -1;
    return (left->row.pid > right->row.pid) - (left->row.pid < right->row.pid);
}

/* A sum with something unknown in it is unknown. */
static void sum_add(uint64_t *sum, uint64_t value)
{
    if (*sum == MW_UNKNOWN || value == MW_UNKNOWN || __builtin_add_overflow(*sum, value, sum))
        *sum = MW_UNKNOWN;
}

static void sums_build(struct mw_group *group)
{
    const uint64_t start = group->read_count > 0 ? 0 : MW_UNKNOWN;
    struct mw_group_sums sums = {start, start, start, start, start, start, start};
    for (size_t i = 0; i < group->count; i++) {
        const struct mw_rollup *rollup = &group->processes[i].rollup;
        if (!group->processes[i].has_rollup)
            continue;
        sum_add(&sums.rss, rollup->rss);
        sum_add(&sums.pss, rollup->pss);
        sum_add(&sums.pss_anon, rollup->pss_anon);
        sum_add(&sums.pss_file, rollup->pss_file);
        sum_add(&sums.pss_shmem, rollup->pss_shmem);
        sum_add(&sums.anonymous, rollup->anonymous);
        sum_add(&sums.swap_pss, rollup->swap_pss);
    }
    group->sums = sums;
}

/* Processes that could not be looked at leave a part of the question open. */
static void partial_find(struct mw_group *group)
{
    uint64_t unread = group->count - group->read_count;
    struct mw_error *why = &group->why_partial;
    if (unread > 0) {
        group->is_partial = true;
        mw_fail(why, MW_PERM,
                "%llu of %zu processes may not be read from here: their PSS is not "
                "in the sums",
                (unsigned long long)unread, group->count);
        for (size_t i = 0; i < group->count; i++)
            if (!group->processes[i].has_rollup) {
                mw_error_hint(why, "memwhy doctor %d", group->processes[i].row.pid);
                break;
            }
    } else if (group->hidden_count > 0) {
        group->is_partial = true;
        mw_fail(why, MW_PERM, "%llu process%s of another pid namespace cannot be seen from here",
                (unsigned long long)group->hidden_count, group->hidden_count == 1 ? "" : "es");
        mw_error_hint(why, "run it in the host's pid namespace (docker run --pid=host)");
    }
}

static enum mw_status verdicts_find(struct mw_group *group, struct mw_error *err)
{
    const struct mw_group_evidence evidence = {
        .cgroup = &group->cgroup,
        .process_count = group->count,
        .read_count = group->read_count,
        .rss = group->sums.rss,
        .pss = group->sums.pss,
        .anonymous = group->sums.anonymous,
        .pss_anon = group->sums.pss_anon,
    };
    return mw_group_verdicts_evaluate(&evidence, &group->verdicts, err);
}

static enum mw_status group_fill(int proc_fd, const char *target, const char *cgroup_root,
                                 struct mw_context *context, struct mw_group *group,
                                 struct mw_error *err)
{
    struct mw_cgroup_place place;
    struct mw_cgroup_members members;
    enum mw_status status = place_find(proc_fd, target, cgroup_root, context, &place, err);
    if (status != MW_OK)
        return status;
    mw_cgroup_load_place(proc_fd, &place, cgroup_root, &group->cgroup);
    status = mw_cgroup_members_load(&place, context, &members, err);
    mw_cgroup_place_deinit(&place);
    if (status != MW_OK)
        return status;
    group->hidden_count = members.hidden_count;
    group->group_count = members.group_count;
    status = processes_load(proc_fd, &members, context, group);
    mw_cgroup_members_deinit(&members);
    if (status != MW_OK)
        return mw_fail(err, status, "cannot look at the processes of '%.120s'", target);
    if (group->count > 0)
        qsort(group->processes, group->count, sizeof *group->processes, by_weight);
    group->cgroup.process_count = group->count + group->hidden_count;
    sums_build(group);
    partial_find(group);
    return verdicts_find(group, err);
}

enum mw_status mw_group_load(const char *target, const char *cgroup_root,
                             struct mw_context *context, struct mw_group *group_out,
                             struct mw_error *err)
{
    struct mw_group group = {.taken_at = mw_clock_realtime_s(), .self_pid = getpid()};
    MW_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0)
        return mw_fail_errno(err, errno, "cannot open '/proc'");
    enum mw_status status = group_fill(proc_fd, target, cgroup_root, context, &group, err);
    if (status != MW_OK) {
        mw_group_deinit(&group);
        return status;
    }
    *group_out = group;
    return MW_OK;
}

const struct mw_group_process *mw_group_worst(const struct mw_group *group, size_t rank)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct mw_group_process *process = &group->processes[i];
        if (!process->has_rollup || process->row.pid == group->self_pid)
            continue;
        if (rank == 0)
            return process;
        rank--;
    }
    return NULL;
}

bool mw_group_difference(uint64_t charged, uint64_t processes, int64_t *difference_out)
{
    if (charged == MW_UNKNOWN || processes == MW_UNKNOWN || charged > INT64_MAX ||
        processes > INT64_MAX)
        return false;
    *difference_out = (int64_t)charged - (int64_t)processes;
    return true;
}

uint64_t mw_group_unmapped_file(const struct mw_group *group)
{
    const struct mw_cgroup *cgroup = &group->cgroup;
    if (cgroup->file == MW_UNKNOWN || cgroup->file_mapped == MW_UNKNOWN)
        return MW_UNKNOWN;
    return cgroup->file > cgroup->file_mapped ? cgroup->file - cgroup->file_mapped : 0;
}

uint64_t mw_group_pss_mapped(const struct mw_group *group)
{
    uint64_t sum = group->sums.pss_file;
    sum_add(&sum, group->sums.pss_shmem);
    return sum;
}

void mw_group_deinit(struct mw_group *group)
{
    mw_verdicts_deinit(&group->verdicts);
    free(group->processes);
    *group = (struct mw_group){0};
}
