/* proc/thp.c: /sys/kernel/mm/transparent_hugepage. Trusts the kernel's files for nothing but being
 * small: a word in brackets, a number, a flag. References: Linux
 * Documentation/admin-guide/mm/transhuge.rst and mm/huge_memory.c of 6.18 (thp_underused). */
#include "proc/thp.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 256 };

/* The text of a file below dir_fd, NULL when it cannot be had. The caller frees it. */
static char *file_text(int dir_fd, const char *name)
{
    char *text;
    size_t length;
    return mw_io_read_file_at(dir_fd, name, FILE_MAX, &text, &length, NULL) == MW_OK ? text : NULL;
}

static enum mw_thp_enabled enabled_parse(const char *text)
{
    if (strstr(text, "[always]"))
        return MW_THP_ALWAYS;
    if (strstr(text, "[madvise]"))
        return MW_THP_MADVISE;
    return strstr(text, "[never]") ? MW_THP_NEVER : MW_THP_UNKNOWN;
}

static uint64_t number_parse(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool good = isdigit((unsigned char)text[0]) && errno == 0 && (*end == '\n' || *end == '\0');
    return good ? value : UINT64_MAX;
}

void mw_thp_load(const char *root, struct mw_thp *thp_out)
{
    *thp_out = (struct mw_thp){.max_ptes_none = UINT64_MAX};
    MW_CLOSE int dir_fd = open(root ? root : "/sys/kernel/mm/transparent_hugepage",
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return;
    MW_FREE char *enabled = file_text(dir_fd, "enabled");
    MW_FREE char *none = file_text(dir_fd, "khugepaged/max_ptes_none");
    MW_FREE char *shrink = file_text(dir_fd, "shrink_underused");
    if (enabled)
        thp_out->enabled = enabled_parse(enabled);
    if (none)
        thp_out->max_ptes_none = number_parse(none);
    thp_out->splits_underused = shrink && number_parse(shrink) == 1;
}
