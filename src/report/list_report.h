/* report/list_report.h: the process list for people and programs. */
#ifndef MW_REPORT_LIST_REPORT_H
#define MW_REPORT_LIST_REPORT_H

#include "report/text.h"
#include "session/list.h"

/* memwhy.list/1, and a table; at most count_max rows. */
enum mw_status mw_report_list_json(const struct mw_list *list, size_t count_max,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_list_text(const struct mw_list *list, struct mw_text_look look,
                                   size_t count_max, struct mw_sink sink,
                                   struct mw_error *err) MW_MUST_CHECK;

#endif
