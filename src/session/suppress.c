/* session/suppress.c: reading and matching suppressions. The patterns are the user's, the names the
 * target's: matching takes bounded time whatever both say, which fnmatch(3) does not promise. */
#include "session/suppress.h"

#include "base/io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, ROWS_MAX = 4096, PATTERN_MAX = 512 };

static enum mw_status line_fail(struct mw_error *err, const char *path, unsigned number,
                                const char *why)
{
    (void)mw_fail(err, MW_INVALID, "%.200s, line %u: %s", path, number, why);
    mw_error_hint(err, "a line is [SIZE] PATTERN, like 'libssl.so*', '96 -' or "
                       "'3400 CLR exception record*'");
    return MW_INVALID;
}

/* line is zero-terminated, without blanks at its ends, and not empty. */
static enum mw_status line_parse(char *line, struct mw_suppression *row_out, const char **why_out)
{
    struct mw_suppression row = {.pattern = line};
    size_t digits = strspn(line, "0123456789");
    if (digits > 0 && (line[digits] == ' ' || line[digits] == '\t' || line[digits] == '\0')) {
        *why_out = "a size of 1 to 15 digits is followed by a pattern";
        if (digits > 15 || line[digits] == '\0')
            return MW_INVALID;
        row.usable_bytes = strtoull(line, NULL, 10);
        row.pattern = line + digits + strspn(line + digits, " \t");
        if (row.usable_bytes == 0)
            return MW_INVALID;
    }
    *why_out = "the pattern is too long";
    if (strlen(row.pattern) > PATTERN_MAX)
        return MW_INVALID;
    *row_out = row;
    return MW_OK;
}

enum mw_status mw_suppressions_read(const char *path, struct mw_suppressions *suppressions_out,
                                    struct mw_error *err)
{
    struct mw_suppressions suppressions = {0};
    size_t length;
    enum mw_status status =
        mw_io_read_file_at(AT_FDCWD, path, FILE_BYTES_MAX, &suppressions.text, &length, err);
    if (status != MW_OK)
        return status;
    if (strlen(suppressions.text) != length)
        status = line_fail(err, path, 1, "this is no text");
    char *at = suppressions.text;
    for (unsigned number = 1; at && status == MW_OK; number++) {
        char *line = strsep(&at, "\n");
        const char *why;
        struct mw_suppression row;
        line += strspn(line, " \t\r");
        for (size_t end = strlen(line); end > 0 && strchr(" \t\r", line[end - 1]); end--)
            line[end - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (line_parse(line, &row, &why) != MW_OK)
            status = line_fail(err, path, number, why);
        else
            status = mw_vec_push(&suppressions.rows, ROWS_MAX, row);
        if (status == MW_LIMIT)
            (void)mw_fail(err, status, "%.200s has more than %d kinds", path, ROWS_MAX);
        else if (status == MW_NOMEM)
            (void)mw_fail(err, status, "out of memory reading %.200s", path);
    }
    if (status == MW_OK)
        *suppressions_out = suppressions;
    else
        mw_suppressions_deinit(&suppressions);
    return status;
}

void mw_suppressions_deinit(struct mw_suppressions *suppressions)
{
    free(suppressions->text);
    mw_vec_deinit(&suppressions->rows);
    *suppressions = (struct mw_suppressions){0};
}

/* Only the last * is gone back to: what earlier ones took can stay as it is. */
static bool pattern_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

bool mw_suppressions_match(const struct mw_suppressions *suppressions, uint64_t usable_bytes,
                           const char *const *names, size_t name_count)
{
    for (size_t i = 0; i < suppressions->rows.count; i++) {
        const struct mw_suppression *row = &suppressions->rows.items[i];
        if (row->usable_bytes && row->usable_bytes != usable_bytes)
            continue;
        for (size_t j = 0; j < name_count; j++)
            if (names[j][0] && pattern_matches(row->pattern, names[j]))
                return true;
    }
    return false;
}
