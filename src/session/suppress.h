/* session/suppress.h: kinds of leak that are known and accepted, so that a gate can tell new ones.
 *
 * A text file, one kind a line; empty lines and those that begin with # say nothing:
 *
 *     PATTERN          a kind whose signature, layout, type or caller it matches, whole
 *     SIZE PATTERN     only those of SIZE usable bytes
 *
 * In a pattern * stands for any text and ? for one character. The signature of a kind of which
 * nothing is known is "-", as `memwhy leaks` prints it. */
#ifndef MW_SESSION_SUPPRESS_H
#define MW_SESSION_SUPPRESS_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct mw_suppression {
    uint64_t usable_bytes; /* 0: any */
    const char *pattern;   /* inside text */
};

struct mw_suppressions {
    MW_VEC(struct mw_suppression) rows;
    char *text;
};

/* Read the file. MW_INVALID with the number of a line that says nothing or too much; MW_LIMIT above
 * 1 MiB or 4,096 kinds; MW_OS, MW_NOMEM. */
enum mw_status mw_suppressions_read(const char *path, struct mw_suppressions *suppressions_out,
                                    struct mw_error *err) MW_MUST_CHECK;
void mw_suppressions_deinit(struct mw_suppressions *suppressions);

/* Does a row match blocks of that size with one of these names? Empty names match nothing. Linear
 * in the rows; of each pattern at most its length times the name's. */
bool mw_suppressions_match(const struct mw_suppressions *suppressions, uint64_t usable_bytes,
                           const char *const *names, size_t name_count);

#endif
