/* report/refs_report.h: memwhy.refs/1 and its screen. */
#ifndef MW_REPORT_REFS_REPORT_H
#define MW_REPORT_REFS_REPORT_H

#include "report/emit.h"
#include "session/refs.h"

enum mw_status mw_report_refs_json(const struct mw_analysis *analysis, const struct mw_refs *refs,
                                   struct mw_sink sink, struct mw_error *err);
enum mw_status mw_report_refs_text(const struct mw_analysis *analysis, const struct mw_refs *refs,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err);

/* "block", "free memory of an allocator", … */
const char *mw_refs_kind_name(enum mw_refs_kind kind);

#endif
