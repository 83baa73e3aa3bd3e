/* cli/gate.h: --fail-if expressions: NAME OPERATOR VALUE.
 *
 * NAME is a class (leaked, growing, kept, outside, needed), a verdict id, or a figure: rss,
 * anonymous, swap, unknown, free, trimmable, arenas. OPERATOR is > >= < <= ==. VALUE is a size
 * (1GiB), a count, or a share of the resident memory (5%). */
#ifndef MW_CLI_GATE_H
#define MW_CLI_GATE_H

#include "session/session.h"

enum mw_gate_operator { MW_GATE_GT, MW_GATE_GE, MW_GATE_LT, MW_GATE_LE, MW_GATE_EQ };

struct mw_gate {
    char name[40];
    enum mw_gate_operator op;
    uint64_t value;
    double percent; /* of RSS; < 0: value counts */
};

enum mw_gate_result { MW_GATE_MISS, MW_GATE_HIT, MW_GATE_UNKNOWN };

/* MW_INVALID with a text that says what is wrong and a hint with an example. */
enum mw_status mw_gate_parse(const char *text, struct mw_gate *gate_out,
                             struct mw_error *err) MW_MUST_CHECK;

/* *actual_out is the figure, MW_UNKNOWN when it is not known: then the result is UNKNOWN. A figure
 * of a heap that was not read is not known, nor is a class that such a heap decides; beside an
 * allocator that was not walked it is a lower bound, and the result is UNKNOWN when more would
 * change it. */
enum mw_gate_result mw_gate_check(const struct mw_gate *gate, const struct mw_analysis *analysis,
                                  uint64_t *actual_out);

/* Is it about what is leaked, which following all pointers at one moment decides? */
bool mw_gate_is_of_leaks(const struct mw_gate *gate);

/* Is the figure in bytes? */
bool mw_gate_is_bytes(const struct mw_gate *gate);

#endif
