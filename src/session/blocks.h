/* session/blocks.h: `memwhy blocks`: groups of blocks by size, the words of one, repeated text. */
#ifndef MW_SESSION_BLOCKS_H
#define MW_SESSION_BLOCKS_H

#include "blocks/fields.h"
#include "blocks/groups.h"
#include "blocks/list.h"
#include "blocks/strings.h"
#include "session/session.h"
#include "symbol/names.h"

/* What other parts know of the blocks of one size. Unknown members are NULL and MW_UNKNOWN. */
struct mw_block_knowledge {
    const char *layout;         /* what such a block is; static, or of the one who told it */
    uint64_t unreachable_count; /* blocks of the size that nothing points to */
};

struct mw_blocks_options {
    uint64_t size_bytes; /* as mw_block_size_of() takes it; 0: none was named */
    bool fields;         /* of that size, else of mw_block_groups_main() */
    bool strings;        /* look for repeated text, in that size or in all blocks */
    bool contents;       /* keep pieces of text to print */
    bool list;           /* addresses are wanted */
    struct mw_names_options names;

    /* Called when all blocks are known, before anything is read of them; NULL: nobody knows more.
     * Fill knowledge[i] of groups->items[i]. MW_OK, or what ends the analysis. */
    enum mw_status (*tell)(void *user, struct mw_analysis *analysis,
                           const struct mw_block_groups *groups,
                           struct mw_block_knowledge *knowledge, struct mw_error *err);
    void *tell_user;
};

enum { MW_STRING_TEXT_BYTES = 64 };

struct mw_blocks {
    struct mw_blocks_options options;
    struct mw_block_list list; /* of the chosen size, or of all */
    struct mw_block_groups groups;
    struct mw_block_knowledge *knowledge; /* one for each group */
    const struct mw_block_group
        *chosen;             /* of groups; NULL: no size was named or it has no blocks */
    struct mw_fields fields; /* of chosen; no items when not asked for */
    struct mw_strings strings;
    bool has_strings;
    struct { /* of each row of strings; empty unless contents are wanted */
        char text[MW_STRING_TEXT_BYTES];
        size_t length;
    } texts[MW_STRING_ROWS];
};

/* Open the target, walk its heaps, read the blocks. On failure nothing is left to release; else
 * mw_blocks_deinit() and mw_analysis_deinit(). */
enum mw_status mw_blocks_run(const char *target, const struct mw_analysis_options *options,
                             const struct mw_blocks_options *blocks_options,
                             struct mw_context *context, struct mw_analysis *analysis_out,
                             struct mw_blocks *blocks_out, struct mw_error *err) MW_MUST_CHECK;
/* The same of an image that is open; taken over as by mw_analysis_run_image(). */
enum mw_status mw_blocks_run_image(struct mw_image *image,
                                   const struct mw_analysis_options *options,
                                   const struct mw_blocks_options *blocks_options,
                                   struct mw_context *context, struct mw_analysis *analysis_out,
                                   struct mw_blocks *blocks_out,
                                   struct mw_error *err) MW_MUST_CHECK;
void mw_blocks_deinit(struct mw_blocks *blocks);

/* May it be printed? Reports hold no pieces of text, and of a single block no contents but pointers
 * and small numbers, unless they are asked for. The constant of a field, or of a part of one; its
 * least and greatest value; its most frequent one. */
bool mw_blocks_show_constant(const struct mw_blocks *blocks, const struct mw_block_field *field);
bool mw_blocks_show_part(const struct mw_blocks *blocks, uint64_t value);
bool mw_blocks_show_range(const struct mw_blocks *blocks, const struct mw_block_field *field);
bool mw_blocks_show_top(const struct mw_blocks *blocks, const struct mw_block_field *field);

#endif
