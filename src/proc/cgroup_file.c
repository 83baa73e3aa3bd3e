/* proc/cgroup_file.c: one number a file, or one a line behind its key.
 *
 * Trusts nothing: files are bounded, and what is no number is unknown. */
#include "proc/cgroup_file.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "proc/cgroup_find.h"
#include "proc/number.h"
#include "proc/process.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 10 };
static const uint64_t UNLIMITED = (uint64_t)1 << 62; /* v1 writes a huge number for none */

static uint64_t number_of(const char *text)
{
    uint64_t value;
    return mw_number_take(&text, &value) && value < UNLIMITED ? value : MW_UNKNOWN;
}

char *mw_cgroup_file_read(int root_fd, const char *path, const char *file)
{
    char name[MW_CGROUP_PATH_BYTES + 64], *text;
    size_t length;
    path += strspn(path, "/");
    snprintf(name, sizeof name, "%s%s%s", path, *path ? "/" : "", file);
    return mw_io_read_file_at(root_fd, name, FILE_BYTES_MAX, &text, &length, NULL) == MW_OK ? text
                                                                                            : NULL;
}

uint64_t mw_cgroup_number_read(int root_fd, const char *path, const char *file)
{
    MW_FREE char *text = mw_cgroup_file_read(root_fd, path, file);
    return text ? number_of(text) : MW_UNKNOWN;
}

uint64_t mw_cgroup_stat_value(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line && *line;) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return number_of(line + length);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return MW_UNKNOWN;
}
