/* report/emit.h: an analysis as JSON for programs, as text for a terminal, as Markdown for an
 * upstream report. Every emitter writes through a sink, holds no document in memory, and returns
 * MW_OK, MW_NOMEM, or MW_OS with the sink's errno in err->os_errno (EPIPE: the reader has gone).
 * None prints, none looks at the environment: what a text may look like is in its options.
 *
 * To add an output: its fields in fields.def, an emitter here, a command in cli/. */
#ifndef MW_REPORT_EMIT_H
#define MW_REPORT_EMIT_H

#include "report/json.h"
#include "report/text.h"
#include "session/session.h"

struct mw_report_text_options {
    struct mw_text_look look;
    const char *target; /* as the user typed it: for the next commands */
    bool all;           /* report: minor verdicts too */
    size_t count_max;   /* heap, pins, list: rows of a table */
};

/* memwhy.report/1; the one screen; the upstream report. */
enum mw_status mw_report_json(const struct mw_analysis *analysis, struct mw_sink sink,
                              struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_text(const struct mw_analysis *analysis,
                              const struct mw_report_text_options *options, struct mw_sink sink,
                              struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_markdown(const struct mw_analysis *analysis, struct mw_sink sink,
                                  struct mw_error *err) MW_MUST_CHECK;

/* memwhy.heap/1 and its screen. */
enum mw_status mw_report_heap_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                   struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_heap_text(const struct mw_analysis *analysis,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* memwhy.leaks/1 and its screen. */
enum mw_status mw_report_leaks_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                    struct mw_error *err);
enum mw_status mw_report_leaks_text(const struct mw_analysis *analysis,
                                    const struct mw_report_text_options *options,
                                    struct mw_sink sink, struct mw_error *err);

/* memwhy.pins/1 and its screen. */
enum mw_status mw_report_pins_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                   struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_pins_text(const struct mw_analysis *analysis,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* memwhy.maps/1 and its table. only_unknown: what nobody owns; in the table the largest first. */
enum mw_status mw_report_maps_json(const struct mw_analysis *analysis, bool only_unknown,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_maps_text(const struct mw_analysis *analysis, bool only_unknown,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

#endif
