/* report/baseline.h: what `verify` needs of one moment: from an analysis, or from a report that was
 * written earlier. The inverse of report_json.c, for a few fields. */
#ifndef MW_REPORT_BASELINE_H
#define MW_REPORT_BASELINE_H

#include "report/fields.h"
#include "session/session.h"

/* Figures that are compared; MW_UNKNOWN where a moment does not know one. */
enum mw_baseline_figure {
    MW_BASELINE_RSS,
    MW_BASELINE_ANONYMOUS,
    MW_BASELINE_SWAP,
    MW_BASELINE_PEAK,
    MW_BASELINE_UNKNOWN,
    MW_BASELINE_IN_USE, /* these sum over the walked allocators */
    MW_BASELINE_MMAPPED,
    MW_BASELINE_FREE,
    MW_BASELINE_FREE_RESIDENT,
    MW_BASELINE_TRIMMABLE,
    MW_BASELINE_ARENAS,
    MW_BASELINE_THREADS,
    MW_BASELINE_FIGURES,
};

struct mw_baseline_remedy {
    char *verdict, *action;
    bool has_gain;
    uint64_t gain_low_bytes, gain_high_bytes;
};

struct mw_baseline {
    int64_t taken_at, started_at; /* Unix seconds, 0 unknown */
    uint64_t pid;                 /* MW_UNKNOWN without */
    uint64_t figures[MW_BASELINE_FIGURES];
    uint64_t mmap_threshold, arena_max, tcache_count; /* of the first walked allocator */
    bool no_dyn_threshold;
    char allocators[64]; /* kinds, "glibc jemalloc" */
    struct mw_setting *settings;
    size_t setting_count;
    struct mw_baseline_remedy *remedies;
    size_t remedy_count;
};

/* The row of fields.def that an enum mw_baseline_figure is, for its name and unit. */
enum mw_field mw_baseline_field(int figure);

/* Does this text look like a JSON document rather than another kind of target? */
bool mw_baseline_recognize(const char *text, size_t length);

/* From a memwhy.report/1. MW_CORRUPT when it is no JSON or lacks what every report has,
 * MW_UNSUPPORTED for another schema, MW_LIMIT above bounds, MW_NOMEM. `name` is for messages. */
enum mw_status mw_baseline_parse(const char *text, size_t length, const char *name,
                                 struct mw_baseline *baseline_out,
                                 struct mw_error *err) MW_MUST_CHECK;

/* From an analysis that is at hand. MW_NOMEM. */
enum mw_status mw_baseline_take(const struct mw_analysis *analysis,
                                struct mw_baseline *baseline_out,
                                struct mw_error *err) MW_MUST_CHECK;

void mw_baseline_deinit(struct mw_baseline *baseline);

#endif
