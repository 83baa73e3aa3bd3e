/* base/finding.h: there is an answer, but something about it must be said.
 *
 * A torn list, a truncated core, a page that cannot be read: counted per kind, the first address
 * and the sum of bytes kept, carried in the result to every output. Never unbounded: a kind is one
 * row however often it happens, and after MW_LIMIT_FINDINGS kinds only a counter grows. */
#ifndef MW_BASE_FINDING_H
#define MW_BASE_FINDING_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct mw_finding {
    char kind[40]; /* kebab-case, stable: part of the JSON contract */
    uint64_t count;
    mw_addr first_address; /* 0: none */
    uint64_t bytes;        /* bytes of the target that it concerns */
    char text[200];        /* one sentence for people, from the first occurrence */
};

struct mw_findings {
    struct mw_finding *items;
    size_t count, room;
    uint64_t dropped;
};

/* Count one more of kind. Out of memory only raises `dropped`. NULL list is allowed. */
void mw_finding_add(struct mw_findings *list, const char *kind, mw_addr address, uint64_t bytes,
                    const char *fmt, ...) MW_PRINTF(5, 6);

/* The row of a kind, or NULL. */
const struct mw_finding *mw_finding_find(const struct mw_findings *list, const char *kind);

/* Add every row of from to list. */
void mw_findings_merge(struct mw_findings *list, const struct mw_findings *from);

void mw_findings_deinit(struct mw_findings *list);

#endif
