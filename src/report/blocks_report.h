/* report/blocks_report.h: memwhy.blocks/1, its screen, and the list of addresses. */
#ifndef MW_REPORT_BLOCKS_REPORT_H
#define MW_REPORT_BLOCKS_REPORT_H

#include "report/emit.h"
#include "session/blocks.h"

/* list_max: blocks in the list, when one is wanted. */
enum mw_status mw_report_blocks_json(const struct mw_analysis *analysis,
                                     const struct mw_blocks *blocks, uint64_t list_max,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_blocks_text(const struct mw_analysis *analysis,
                                     const struct mw_blocks *blocks,
                                     const struct mw_report_text_options *options,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* "0xADDRESS SIZE" for each block, ascending, at most list_max. */
enum mw_status mw_report_blocks_list(const struct mw_blocks *blocks, uint64_t list_max,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

/* What the blocks of a field with a name are called: symbol, else module and offset; NULL. */
const char *mw_block_field_name(const struct mw_block_field *field);

#endif
