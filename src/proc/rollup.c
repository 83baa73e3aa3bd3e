/* proc/rollup.c: /proc/PID/smaps_rollup → sums; of an older kernel /proc/PID/smaps, summed here.
 *
 * References: Linux Documentation/ABI/testing/procfs-smaps_rollup, filesystems/proc.rst. */
#include "proc/rollup.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "proc/number.h"
#include "proc/process.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *key;
    size_t offset;
} keys[] = {
    {"Rss", offsetof(struct mw_rollup, rss)},
    {"Pss", offsetof(struct mw_rollup, pss)},
    {"Pss_Anon", offsetof(struct mw_rollup, pss_anon)},
    {"Pss_File", offsetof(struct mw_rollup, pss_file)},
    {"Pss_Shmem", offsetof(struct mw_rollup, pss_shmem)},
    {"Shared_Clean", offsetof(struct mw_rollup, shared_clean)},
    {"Shared_Dirty", offsetof(struct mw_rollup, shared_dirty)},
    {"Private_Clean", offsetof(struct mw_rollup, private_clean)},
    {"Private_Dirty", offsetof(struct mw_rollup, private_dirty)},
    {"Anonymous", offsetof(struct mw_rollup, anonymous)},
    {"AnonHugePages", offsetof(struct mw_rollup, anon_huge)},
    {"LazyFree", offsetof(struct mw_rollup, lazy_free)},
    {"KSM", offsetof(struct mw_rollup, ksm)},
    {"Swap", offsetof(struct mw_rollup, swap)},
    {"SwapPss", offsetof(struct mw_rollup, swap_pss)},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

static uint64_t *figure_at(struct mw_rollup *rollup, size_t key)
{
    return (uint64_t *)(void *)((char *)rollup + keys[key].offset);
}

void mw_rollup_init(struct mw_rollup *rollup)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        *figure_at(rollup, i) = MW_UNKNOWN;
    _Static_assert(sizeof *rollup == KEY_COUNT * sizeof(uint64_t), "each figure has its key");
}

static void line_add(struct mw_rollup *rollup, const char *line, size_t name_length)
{
    uint64_t bytes;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strlen(keys[i].key) != name_length || memcmp(line, keys[i].key, name_length) != 0)
            continue;
        uint64_t *figure = figure_at(rollup, i);
        uint64_t before = *figure == MW_UNKNOWN ? 0 : *figure;
        if (mw_number_kilobytes(line + name_length + 1, &bytes) &&
            !__builtin_add_overflow(before, bytes, &bytes) && bytes != MW_UNKNOWN)
            *figure = bytes;
        return;
    }
}

void mw_rollup_parse(struct mw_rollup *rollup, const char *text)
{
    mw_rollup_init(rollup);
    for (const char *line = text; *line;) {
        size_t name_length = strcspn(line, ": \n");
        if (line[name_length] == ':')
            line_add(rollup, line, name_length);
        line = strchrnul(line, '\n');
        line += *line == '\n';
    }
}

enum mw_status mw_rollup_load(int proc_fd, int32_t pid, struct mw_rollup *rollup_out,
                              struct mw_error *err)
{
    static const char *const files[] = {"smaps_rollup", "smaps"};
    enum mw_status status = MW_NOT_FOUND;
    MW_FREE char *text = NULL;
    for (size_t i = 0; i < 2 && status == MW_NOT_FOUND; i++) {
        char path[48];
        size_t length;
        snprintf(path, sizeof path, "%d/%s", pid, files[i]);
        status = mw_io_read_file_at(proc_fd, path, MW_LIMIT_PROC_TEXT_BYTES, &text, &length, err);
    }
    if (status == MW_NOT_FOUND || status == MW_GONE)
        return mw_fail(err, MW_GONE, "there is no process %d", pid);
    if (status != MW_OK)
        return status;
    mw_rollup_parse(rollup_out, text);
    if (rollup_out->rss == MW_UNKNOWN)
        return mw_fail(err, MW_GONE, "process %d has no memory of its own", pid);
    return MW_OK;
}
