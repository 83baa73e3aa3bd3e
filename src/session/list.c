/* session/list.c: /proc/PID/status of every process, mapping-level analyses of the largest.
 *
 * Trusts nothing: processes come and go between two readings, names are any bytes. Linear in
 * processes, and in the mappings of those that are looked at closely. */
#include "session/list.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/vec.h"
#include "session/session.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_BYTES_MAX = 1 << 20, ARENAS_MANY = 8 };
#define ARENA_HEAP_BYTES ((uint64_t)64 << 20) /* glibc HEAP_MAX_SIZE on 64-bit, every version */

static bool is_readable(int proc_fd, int32_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "%d/mem", pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool mw_list_row_load(int proc_fd, int32_t pid, struct mw_list_row *row)
{
    char path[64], *text;
    size_t length;
    struct mw_process process;
    snprintf(path, sizeof path, "%d/status", pid);
    if (mw_io_read_file_at(proc_fd, path, STATUS_BYTES_MAX, &text, &length, NULL) != MW_OK)
        return false;
    mw_process_init(&process);
    mw_process_parse_status(&process, text);
    free(text);
    *row = (struct mw_list_row){
        .pid = pid,
        .rss_bytes = process.vm_rss,
        .anonymous_bytes = process.rss_anon,
        .file_bytes = process.rss_file,
        .shared_bytes = process.rss_shmem,
        .swap_bytes = process.vm_swap,
        .peak_rss_bytes = process.vm_hwm,
        .threads = process.thread_count,
        .managed_rss_bytes = MW_UNKNOWN,
        .arenas_estimated = MW_UNKNOWN,
    };
    _Static_assert(sizeof row->name == sizeof process.comm, "the kernel's name fits");
    memcpy(row->name, process.comm, sizeof row->name);
    mw_process_deinit(&process);
    row->readable = is_readable(proc_fd, pid);
    return row->rss_bytes != MW_UNKNOWN;
}

static enum mw_status rows_load(int proc_fd, DIR *directory, struct mw_context *context,
                                struct mw_list *list, struct mw_error *err)
{
    MW_VEC(struct mw_list_row) rows = {0};
    enum mw_status status = MW_OK;
    const struct dirent *entry;
    while (status == MW_OK && (entry = readdir(directory))) {
        struct mw_list_row row;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || *end != '\0' || pid > INT32_MAX)
            continue;
        if (mw_context_canceled(context))
            status = MW_CANCELED;
        else if (mw_list_row_load(proc_fd, (int32_t)pid, &row))
            status = mw_vec_push(&rows, MW_LIMIT_PROCESSES, row);
    }
    list->rows = rows.items;
    list->count = rows.count;
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot list the processes");
}

bool mw_list_is_arena(const struct mw_mapping_list *maps, size_t index)
{
    const struct mw_mapping *map = &maps->items[index];
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    if (map->start % ARENA_HEAP_BYTES != 0 || !mw_mapping_is_anonymous(map) ||
        (map->perms & (wanted | MW_PERM_SHARED)) != wanted)
        return false;
    mw_addr end = map->start + ARENA_HEAP_BYTES;
    if (map->end == end)
        return true;
    if (map->end > end || index + 1 == maps->count)
        return false;
    const struct mw_mapping *reserve = &maps->items[index + 1];
    return reserve->start == map->end && reserve->end >= end &&
           !(reserve->perms & (wanted | MW_PERM_EXEC));
}

static void row_take_regions(struct mw_list_row *row, const struct mw_mapping_list *maps)
{
    row->arenas_estimated = 0;
    for (size_t i = 0; i < maps->count; i++) {
        uint64_t rss = mw_mapping_counter(&maps->items[i], MW_COUNTER_RSS);
        if (mw_list_is_arena(maps, i)) {
            row->arenas_estimated++;
            row->arenas_rss_bytes += rss;
        } else if (strcmp(maps->items[i].name, "[heap]") == 0) {
            row->heap_rss_bytes += rss;
        }
    }
}

static void row_take_runtime(struct mw_list_row *row, const struct mw_analysis *analysis)
{
    const struct mw_account_row *rows = analysis->account.rows;
    if (analysis->runtime_count == 0 || !analysis->account.has_rss)
        return;
    snprintf(row->runtime, sizeof row->runtime, "%s", analysis->runtimes[0].kind);
    row->managed_rss_bytes = rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes +
                             rows[MW_CATEGORY_MANAGED_CODE].rss_bytes +
                             rows[MW_CATEGORY_MANAGED_METADATA].rss_bytes;
}

/* Mappings and their owners. What cannot be read stays unknown. */
static enum mw_status row_look_closely(struct mw_list_row *row, struct mw_context *context)
{
    const struct mw_analysis_options options = {.skip_heap = true, .skip_verdicts = true};
    struct mw_analysis analysis;
    char target[16];
    snprintf(target, sizeof target, "%d", row->pid);
    enum mw_status status = mw_analysis_run(target, &options, context, &analysis, NULL);
    if (status != MW_OK)
        return status == MW_NOMEM || status == MW_CANCELED ? status : MW_OK;
    row->has_maps = true;
    row_take_regions(row, &analysis.image.regions);
    row_take_runtime(row, &analysis);
    mw_analysis_deinit(&analysis);
    return MW_OK;
}

/* Is part more than half of whole? */
static bool is_most(uint64_t part, uint64_t whole)
{
    return part != MW_UNKNOWN && whole != MW_UNKNOWN && part > whole / 2;
}

void mw_list_hint(struct mw_list_row *row)
{
    uint64_t rss = row->rss_bytes;
    bool has_managed = row->managed_rss_bytes != MW_UNKNOWN && row->managed_rss_bytes <= rss;
    const char *hint = "";
    if (row->has_maps && row->arenas_estimated >= ARENAS_MANY && row->arenas_rss_bytes > rss / 4) {
        snprintf(row->hint, sizeof row->hint, "arenas ~%llu?",
                 (unsigned long long)row->arenas_estimated);
        return;
    }
    if (row->swap_bytes != MW_UNKNOWN && row->swap_bytes > rss)
        hint = "mostly in swap";
    else if (has_managed && is_most(rss - row->managed_rss_bytes, rss))
        hint = "mostly outside its runtime";
    else if (row->has_maps && is_most(row->heap_rss_bytes, rss))
        hint = "large [heap]";
    else if (is_most(row->shared_bytes, rss))
        hint = "mostly shared memory";
    else if (is_most(row->file_bytes, rss))
        hint = "mostly files";
    snprintf(row->hint, sizeof row->hint, "%s", hint);
}

static int by_rss_descending(const void *a, const void *b)
{
    const struct mw_list_row *left = a, *right = b;
    if (left->rss_bytes != right->rss_bytes)
        return left->rss_bytes < right->rss_bytes ? 1 : -1;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

static enum mw_status details_load(size_t details_max, struct mw_context *context,
                                   struct mw_list *list, struct mw_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        struct mw_list_row *row = &list->rows[i];
        enum mw_status status = MW_OK;
        if (i < details_max)
            status = row_look_closely(row, context);
        if (status != MW_OK)
            return mw_fail(err, status, "cannot list the processes");
        mw_list_hint(row);
        mw_context_progress(context, "looking at processes", i + 1, list->count);
    }
    return MW_OK;
}

enum mw_status mw_list_load(int proc_fd, size_t details_max, struct mw_context *context,
                            struct mw_list *list_out, struct mw_error *err)
{
    struct mw_list list = {.taken_at = mw_clock_realtime_s(), .self_pid = getpid()};
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        int problem = errno;
        if (fd >= 0)
            close(fd);
        return mw_fail_errno(err, problem, "cannot open '/proc'");
    }
    enum mw_status status = rows_load(proc_fd, directory, context, &list, err);
    closedir(directory);
    if (status == MW_OK) {
        qsort(list.rows, list.count, sizeof *list.rows, by_rss_descending);
        status = details_load(details_max, context, &list, err);
    }
    if (status != MW_OK) {
        mw_list_deinit(&list);
        return status;
    }
    *list_out = list;
    return MW_OK;
}

void mw_list_deinit(struct mw_list *list)
{
    if (list)
        free(list->rows);
}
