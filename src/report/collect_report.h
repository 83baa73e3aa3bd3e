/* report/collect_report.h: what a capture took. */
#ifndef MW_REPORT_COLLECT_REPORT_H
#define MW_REPORT_COLLECT_REPORT_H

#include "report/text.h"
#include "session/collect.h"

enum mw_status mw_report_collect_json(const struct mw_collected *collected, const char *file,
                                      struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_collect_text(const struct mw_collected *collected, const char *target,
                                      const char *file, struct mw_text_look look,
                                      struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

#endif
