/* tests/support/analysis_check.h: what must hold of any analysis, whatever its target's bytes are.
 *
 * Checks give NULL or what is wrong, in a static buffer. No cmocka, and nothing is allocated
 * through the gate of base/alloc.h: fault sweeps and fuzz targets use it. */
#ifndef MW_TESTS_ANALYSIS_CHECK_H
#define MW_TESTS_ANALYSIS_CHECK_H

#include "heap_check.h"
#include "session/session.h"
#include "session/trim.h"

/* The questions that memwhy's commands ask. */
enum analysis_kind {
    ANALYSIS_REPORT,
    ANALYSIS_HEAP,
    ANALYSIS_PINS,
    ANALYSIS_TRIM,
    ANALYSIS_MAPS,
    ANALYSIS_NO_HEAP, /* report --no-heap */
    ANALYSIS_KINDS
};
const char *analysis_kind_name(enum analysis_kind kind);

/* One question and its answer. Starts zeroed but for `kind` and `workers`. */
struct analysis_run {
    enum analysis_kind kind;
    unsigned workers; /* threads that may read; 0: as many as there are processors */
    bool skips_reach; /* a report that does not follow pointers */
    enum mw_status status;
    struct mw_error err;
    struct mw_analysis analysis; /* when status is MW_OK */
    struct heap_walked walked;   /* what a visitor of the walk saw; owns no allocator */
    struct mw_trim_ranges ranges;
    struct mw_trim trim;
};

/* Ask about a target by name, or about an open image, which is taken over. */
void analysis_run_target(struct analysis_run *run, const char *target);
void analysis_run_image(struct analysis_run *run, struct mw_image *image);
void analysis_run_deinit(struct analysis_run *run);

/* Regions, pieces, segments and blocks do not overlap; blocks tile; the account's rows add up to
 * the kernel's total; in use + free + metadata + skipped is what malloc has; verdicts are in order
 * and charge no byte twice; an error has a text. */
const char *analysis_wrong(struct analysis_run *run);

/* The outputs of that command: JSON parses and adds up, no text has a control character. When
 * `emit_status` is not NULL, MW_NOMEM from an emitter is let pass and stored there. */
const char *analysis_outputs_wrong(const struct analysis_run *run, enum mw_status *emit_status);

/* A sum over all figures of the heap, to tell whether two answers are the same. */
uint64_t analysis_digest(const struct analysis_run *run);

#endif
