/* image/live_fork_room.c: is there room for a copy of the target?
 *
 * A fork copies the page tables at once, and then each page that the target writes while the copy
 * exists. The copy exists for as long as memwhy reads, about a third of a second for a GiB. A
 * quarter of the anonymous memory is asked for: a process that writes more of itself than that in
 * such a time is one to read in short stops. Should it be wrong all the same, the kernel's choice
 * when memory runs out is the copy (live_fork.c), whose end gives everything back.
 *
 * Of processes and tasks SPARE must be left, since a target that is out of them breaks in ways that
 * nobody connects with memwhy. RLIMIT_NPROC is left to the kernel, which refuses harmlessly.
 *
 * References: proc(5) meminfo, loadavg; Linux Documentation/mm/overcommit-accounting.rst. */
#include "image/live_fork.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "proc/cgroup_room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SHARE = 4,           /* of the anonymous memory: one part in so many */
    TASKS = 2,           /* the helper and the copy */
    SPARE = 16,          /* that must be left beside them */
    TASK_BYTES = 1 << 20 /* of the kernel for two tasks, generously */
};

static char *read_text(int proc_fd, const char *path)
{
    char *text;
    size_t length;
    return mw_io_read_file_at(proc_fd, path, 64 << 10, &text, &length, NULL) == MW_OK ? text : NULL;
}

static uint64_t read_number(int proc_fd, const char *path)
{
    MW_FREE char *text = read_text(proc_fd, path);
    uint64_t value;
    return text && sscanf(text, "%19" SCNu64, &value) == 1 ? value : MW_UNKNOWN;
}

/* "NAME:   N kB" in bytes. */
static uint64_t meminfo_value(const char *text, const char *name)
{
    const char *line = text ? strstr(text, name) : NULL;
    uint64_t kib;
    if (!line || sscanf(line + strlen(name), ":%17" SCNu64, &kib) != 1)
        return MW_UNKNOWN;
    return kib << 10;
}

static uint64_t difference(uint64_t whole, uint64_t part)
{
    if (whole == MW_UNKNOWN || part == MW_UNKNOWN)
        return MW_UNKNOWN;
    return whole > part ? whole - part : 0;
}

/* "0.1 0.2 0.3 RUNNING/ALL LAST" */
static uint64_t tasks_count(int proc_fd)
{
    MW_FREE char *text = read_text(proc_fd, "loadavg");
    uint64_t count;
    return text && sscanf(text, "%*s %*s %*s %*u/%19" SCNu64, &count) == 1 ? count : MW_UNKNOWN;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What a fork adds to Committed_AS: private memory that may be written. */
static uint64_t commit_bytes(const struct mw_mapping_list *regions)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < regions->count; i++) {
        const struct mw_mapping *map = &regions->items[i];
        bool counts = map->has_vm_flags
                          ? map->vm_flags & MW_VM_ACCOUNT
                          : (map->perms & (MW_PERM_WRITE | MW_PERM_SHARED)) == MW_PERM_WRITE;
        if (counts && !(map->perms & MW_PERM_SHARED) && !(map->vm_flags & MW_VM_DONTFORK))
            sum += mw_mapping_size(map);
    }
    return sum;
}

void mw_live_fork_room_load(int proc_fd, const char *cgroup_root, const struct mw_process *process,
                            const struct mw_mapping_list *regions,
                            struct mw_live_fork_room *room_out)
{
    MW_FREE char *meminfo = read_text(proc_fd, "meminfo");
    struct mw_cgroup_room group;
    mw_cgroup_room_load(proc_fd, process->pid, cgroup_root, &group);
    uint64_t tasks_max = smaller(read_number(proc_fd, "sys/kernel/threads-max"),
                                 read_number(proc_fd, "sys/kernel/pid_max"));
    bool is_strict = read_number(proc_fd, "sys/vm/overcommit_memory") == 2;
    *room_out = (struct mw_live_fork_room){
        .page_tables = process->vm_pte,
        .anonymous = process->rss_anon,
        .available = meminfo_value(meminfo, "MemAvailable"),
        .group_free = group.memory,
        .commit_free = is_strict ? difference(meminfo_value(meminfo, "CommitLimit"),
                                              meminfo_value(meminfo, "Committed_AS"))
                                 : MW_UNKNOWN,
        .commit = commit_bytes(regions),
        .group_pids_free = group.tasks,
        .tasks_free = difference(tasks_max, tasks_count(proc_fd)),
    };
}

uint64_t mw_live_fork_room_wanted(const struct mw_live_fork_room *room)
{
    uint64_t tables = room->page_tables == MW_UNKNOWN ? 0 : room->page_tables;
    uint64_t anonymous = room->anonymous == MW_UNKNOWN ? 0 : room->anonymous;
    return tables + anonymous / SHARE + TASK_BYTES;
}

static enum mw_status memory_check(const struct mw_live_fork_room *room, int32_t pid,
                                   struct mw_error *err)
{
    uint64_t wanted = mw_live_fork_room_wanted(room);
    bool in_group = room->group_free < room->available;
    uint64_t there = in_group ? room->group_free : room->available;
    char need[32], have[32], tables[32], anonymous[32];
    if (there == MW_UNKNOWN || there >= wanted)
        return MW_OK;
    mw_bytes_format(need, wanted);
    mw_bytes_format(have, there);
    mw_bytes_format(tables, room->page_tables == MW_UNKNOWN ? 0 : room->page_tables);
    mw_bytes_format(anonymous, room->anonymous == MW_UNKNOWN ? 0 : room->anonymous);
    return mw_fail(err, MW_LIMIT,
                   "a fork of process %d may take %s (page tables %s, and a quarter of its %s "
                   "anonymous memory while it runs on), and %s %s left",
                   pid, need, tables, anonymous, have,
                   in_group ? "of its cgroup's limit are" : "of the machine's memory are");
}

static enum mw_status commit_check(const struct mw_live_fork_room *room, int32_t pid,
                                   struct mw_error *err)
{
    char need[32], have[32];
    if (room->commit_free == MW_UNKNOWN || room->commit_free >= room->commit)
        return MW_OK;
    mw_bytes_format(need, room->commit);
    mw_bytes_format(have, room->commit_free);
    return mw_fail(err, MW_LIMIT,
                   "a fork of process %d would be charged %s, and with vm.overcommit_memory = 2 %s "
                   "of CommitLimit are left",
                   pid, need, have);
}

static enum mw_status tasks_check(const struct mw_live_fork_room *room, int32_t pid,
                                  struct mw_error *err)
{
    bool in_group = room->group_pids_free < room->tasks_free;
    uint64_t there = in_group ? room->group_pids_free : room->tasks_free;
    if (there == MW_UNKNOWN || there >= TASKS + SPARE)
        return MW_OK;
    return mw_fail(err, MW_LIMIT,
                   "a fork of process %d takes %d processes for a moment, and %" PRIu64
                   " are left of %s: it must keep %d",
                   pid, TASKS, there, in_group ? "its cgroup's pids.max" : "kernel.threads-max",
                   SPARE);
}

enum mw_status mw_live_fork_room_check(const struct mw_live_fork_room *room, int32_t pid,
                                       struct mw_error *err)
{
    enum mw_status status = memory_check(room, pid, err);
    if (status == MW_OK)
        status = commit_check(room, pid, err);
    if (status == MW_OK)
        status = tasks_check(room, pid, err);
    if (status != MW_OK)
        mw_error_hint(err, "leave out --fork: the heap is then read in short stops");
    return status;
}
