/* proc/cgroup_room.c: limits and usage up the cgroups of a process.
 *
 * A group with a wide limit may be fuller than the one with the narrow limit below it, so each
 * level is looked at. Page cache counts as free, since the kernel drops it before it refuses; what
 * is in shared memory or tmpfs is not on those lists.
 *
 * References: Linux Documentation/admin-guide/cgroup-v1/{memory,pids}.rst, cgroup-v2.rst. */
#include "proc/cgroup_room.h"

#include "base/cleanup.h"
#include "proc/cgroup_file.h"
#include "proc/cgroup_find.h"
#include "proc/process.h"

#include <stdlib.h>

static uint64_t read_number(const struct mw_cgroup_place *place, const char *file)
{
    return mw_cgroup_number_read(place->root_fd, place->path, file);
}

/* A list of pages that memory.stat does not have is empty. */
static uint64_t list_bytes(const char *text, const char *key)
{
    uint64_t bytes = mw_cgroup_stat_value(text, key);
    return bytes == MW_UNKNOWN ? 0 : bytes;
}

static uint64_t cache_bytes(const struct mw_cgroup_place *place)
{
    MW_FREE char *text = mw_cgroup_file_read(place->root_fd, place->path, "memory.stat");
    if (!text)
        return 0;
    return place->version == 1
               ? list_bytes(text, "total_inactive_file") + list_bytes(text, "total_active_file")
               : list_bytes(text, "inactive_file") + list_bytes(text, "active_file");
}

/* One level: what is left below a limit. */
static uint64_t left(uint64_t limit, uint64_t usage, uint64_t given_back)
{
    if (limit == MW_UNKNOWN || usage == MW_UNKNOWN)
        return MW_UNKNOWN;
    uint64_t held = usage > given_back ? usage - given_back : 0;
    return limit > held ? limit - held : 0;
}

static uint64_t memory_left(const struct mw_cgroup_place *place)
{
    bool old = place->version == 1;
    uint64_t limit = read_number(place, old ? "memory.limit_in_bytes" : "memory.max");
    if (limit == MW_UNKNOWN)
        return MW_UNKNOWN;
    uint64_t usage = read_number(place, old ? "memory.usage_in_bytes" : "memory.current");
    return left(limit, usage, cache_bytes(place));
}

static uint64_t tasks_left(const struct mw_cgroup_place *place)
{
    return left(read_number(place, "pids.max"), read_number(place, "pids.current"), 0);
}

/* The least of `one` over the groups from the process's own to the root. */
static uint64_t least_up(int proc_fd, int32_t pid, const char *cgroup_root, const char *controller,
                         uint64_t (*one)(const struct mw_cgroup_place *place))
{
    struct mw_cgroup_place place;
    uint64_t least = MW_UNKNOWN;
    mw_cgroup_place_find(proc_fd, pid, cgroup_root, controller, &place);
    if (place.version != 0) {
        do {
            uint64_t here = one(&place);
            least = here < least ? here : least;
        } while (mw_cgroup_path_up(place.path));
    }
    mw_cgroup_place_deinit(&place);
    return least;
}

void mw_cgroup_room_load(int proc_fd, int32_t pid, const char *cgroup_root,
                         struct mw_cgroup_room *room_out)
{
    room_out->memory = least_up(proc_fd, pid, cgroup_root, "memory", memory_left);
    room_out->tasks = least_up(proc_fd, pid, cgroup_root, "pids", tasks_left);
}
