/* report/diff_report.h: what grew between two moments. */
#ifndef MW_REPORT_DIFF_REPORT_H
#define MW_REPORT_DIFF_REPORT_H

#include "report/sink.h"
#include "report/text.h"
#include "session/moment.h"

struct mw_diff_titles {
    const char *before, *after; /* targets as they were given */
    const struct mw_moment *moments[2];
    const struct mw_moment_head *heads[2];
};

enum mw_status mw_report_diff_json(const struct mw_difference *difference,
                                   const struct mw_diff_titles *titles, struct mw_sink sink,
                                   struct mw_error *err) MW_MUST_CHECK;
/* count_max rows of sizes and as many of signatures; those that did not change are left out. */
enum mw_status mw_report_diff_text(const struct mw_difference *difference,
                                   const struct mw_diff_titles *titles, size_t count_max,
                                   struct mw_text_look look, struct mw_sink sink,
                                   struct mw_error *err) MW_MUST_CHECK;

#endif
