/* report/trim_report.h: memwhy.trim/1 and its screen. */
#ifndef MW_REPORT_TRIM_REPORT_H
#define MW_REPORT_TRIM_REPORT_H

#include "report/emit.h"
#include "session/trim.h"

enum mw_status mw_report_trim_json(const struct mw_analysis *analysis, const struct mw_trim *trim,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_trim_text(const struct mw_analysis *analysis, const struct mw_trim *trim,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* "0xSTART 0xEND" per range. */
enum mw_status mw_report_trim_pages(const struct mw_trim_ranges *ranges, struct mw_sink sink,
                                    struct mw_error *err) MW_MUST_CHECK;

#endif
