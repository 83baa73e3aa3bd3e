/* report/parts_json.h: the JSON objects that several documents share. */
#ifndef MW_REPORT_PARTS_JSON_H
#define MW_REPORT_PARTS_JSON_H

#include "report/fields.h"
#include "session/session.h"

/* Each writes one value; the key stands before it. */
void mw_json_target(struct mw_json *json, const struct mw_analysis *analysis);
void mw_json_findings(struct mw_json *json, const struct mw_findings *findings);
void mw_json_partial(struct mw_json *json, const struct mw_analysis *analysis);

void mw_json_cgroup(struct mw_json *json, const struct mw_cgroup *cgroup); /* null without one */
void mw_json_verdicts(struct mw_json *json, const struct mw_verdicts *verdicts);
/* A whole memwhy.report/1. */
void mw_json_report(struct mw_json *json, const struct mw_analysis *analysis);

/* The members of an allocator, in an object of scope `allocator` that the caller opens and ends. */
void mw_json_allocator_members(struct mw_json *json, const struct mw_allocator *allocator);

/* "" → NULL. */
const char *mw_text_or_null(const char *text);

/* Words of the contract. */
const char *mw_image_kind_name(enum mw_image_kind kind);
const char *mw_arch_name(enum mw_arch arch);
const char *mw_block_state_name(enum mw_block_state state); /* "in-use", "free", "tcache" … */

#endif
