/* blocks/kinds.h: from what was counted of a word to a field. Inside blocks only. */
#ifndef MW_BLOCKS_KINDS_H
#define MW_BLOCKS_KINDS_H

#include "blocks/fields.h"

/* A word that mw_word_finish() has finished. */
void mw_block_field_fill(struct mw_block_field *field, uint64_t offset, struct mw_word *word,
                         const struct mw_value_ranges *ranges);

#endif
