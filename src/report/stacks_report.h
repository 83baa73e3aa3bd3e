/* report/stacks_report.h: memwhy.stacks/1 and its screen. */
#ifndef MW_REPORT_STACKS_REPORT_H
#define MW_REPORT_STACKS_REPORT_H

#include "report/emit.h"
#include "session/stacks.h"

/* lines: source lines too, where debug information has them. Frames are named while they are
 * printed, which reads symbol tables. */
enum mw_status mw_report_stacks_json(const struct mw_stacks_analysis *analysis, bool lines,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_stacks_text(const struct mw_stacks_analysis *analysis, bool lines,
                                     const struct mw_report_text_options *options,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

#endif
