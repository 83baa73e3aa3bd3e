/* base/finding.c: the bounded list of findings. A linear search per add: kinds are few. */
#include "base/finding.h"

#include "base/limits.h"
#include "base/vec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct mw_finding *finding_row(struct mw_findings *list, const char *kind)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].kind, kind) == 0)
            return &list->items[i];
    return NULL;
}

/* A new row for kind, or NULL (counted as dropped) at the limit or out of memory. */
static struct mw_finding *finding_new_row(struct mw_findings *list, const char *kind,
                                          mw_addr address)
{
    struct mw_finding row = {.first_address = address};
    snprintf(row.kind, sizeof row.kind, "%s", kind);
    if (mw_vec_push(list, MW_LIMIT_FINDINGS, row) != MW_OK) {
        list->dropped++;
        return NULL;
    }
    return &list->items[list->count - 1];
}

void mw_finding_add(struct mw_findings *list, const char *kind, mw_addr address, uint64_t bytes,
                    const char *fmt, ...)
{
    if (!list)
        return;
    struct mw_finding *row = finding_row(list, kind);
    if (!row) {
        row = finding_new_row(list, kind, address);
        if (!row)
            return;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(row->text, sizeof row->text, fmt, ap);
        va_end(ap);
    }
    row->count++;
    row->bytes += bytes;
}

const struct mw_finding *mw_finding_find(const struct mw_findings *list, const char *kind)
{
    return finding_row((struct mw_findings *)list, kind);
}

void mw_findings_merge(struct mw_findings *list, const struct mw_findings *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct mw_finding *more = &from->items[i];
        struct mw_finding *row = finding_row(list, more->kind);
        if (!row) {
            row = finding_new_row(list, more->kind, more->first_address);
            if (!row)
                continue;
            memcpy(row->text, more->text, sizeof row->text);
        }
        row->count += more->count;
        row->bytes += more->bytes;
    }
    list->dropped += from->dropped;
}

void mw_findings_deinit(struct mw_findings *list)
{
    mw_vec_deinit(list);
    list->dropped = 0;
}
