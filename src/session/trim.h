/* session/trim.h: what malloc_trim(0) would give back, and running it. */
#ifndef MW_SESSION_TRIM_H
#define MW_SESSION_TRIM_H

#include "session/session.h"

struct mw_trim {
    uint64_t predicted_bytes; /* MW_UNKNOWN without a walked heap or without residency */
    bool applied;
    uint64_t anon_before_bytes, anon_after_bytes; /* sums of Anonymous, MW_UNKNOWN not read */
    double call_seconds;                          /* how long it ran, < 0 not run */
    struct mw_error refused; /* why there is no prediction or it was not run; MW_OK: neither */
};

/* The prediction of an analysis that read the heap. */
void mw_trim_predict(const struct mw_analysis *analysis, struct mw_trim *trim_out);

/* Run malloc_trim(0) in the live target of an analysis and measure Anonymous before and after.
 * Refused (and nothing done) while no thread can be proven to be outside of malloc: MW_LIMIT;
 * statically linked programs: MW_UNSUPPORTED; else as mw_live_call(). The reason stays in
 * trim->refused. MW_GONE when the target ends meanwhile. Refreshes the image: regions and process
 * of before are gone. */
enum mw_status mw_trim_apply(struct mw_analysis *analysis, struct mw_trim *trim,
                             struct mw_error *err) MW_MUST_CHECK;

/* Ranges of pages that would be given back, ascending and coalesced. Collected in the walk through
 * mw_heap_options.trim_range; a walk that is begun anew forgets what it collected, and keeps that
 * of the allocators before. */
struct mw_trim_ranges {
    struct mw_trim_range {
        mw_addr start, end;
    } * items;
    size_t count, room;
    size_t kept;           /* of the allocators walked before */
    enum mw_status status; /* of collecting */
};
void mw_trim_ranges_collect(struct mw_trim_ranges *ranges, struct mw_heap_options *options);
/* Into ascending order, neighbours joined. */
void mw_trim_ranges_sort(struct mw_trim_ranges *ranges);
void mw_trim_ranges_deinit(struct mw_trim_ranges *ranges);

#endif
