/* report/group_report.h: all processes of a cgroup for people and programs, then the worst. */
#ifndef MW_REPORT_GROUP_REPORT_H
#define MW_REPORT_GROUP_REPORT_H

#include "report/emit.h"
#include "session/group.h"

/* memwhy.group/1, and a screen above that of the worst process. worst: its analysis, NULL when
 * there is none. In options, target is the group as it was typed; `all` shows all processes. */
enum mw_status mw_report_group_json(const struct mw_group *group, const struct mw_analysis *worst,
                                    struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_group_text(const struct mw_group *group, const struct mw_analysis *worst,
                                    const struct mw_report_text_options *options,
                                    struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* Private bytes of a process, MW_UNKNOWN when it was not read. */
uint64_t mw_group_process_private(const struct mw_group_process *process);

#endif
