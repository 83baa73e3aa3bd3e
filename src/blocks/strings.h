/* blocks/strings.h: text that lies in memory several times.
 *
 * Blocks whose content is text (it begins at most MW_STRING_HEADER_MAX bytes into the block and
 * fills most of it) are told apart by a hash of their text, never kept. Memory is 6 MiB a thread;
 * with more different texts than fit, the rare ones are forgotten and counts are lower bounds
 * (lossy counting: Manku and Motwani 2002). */
#ifndef MW_BLOCKS_STRINGS_H
#define MW_BLOCKS_STRINGS_H

#include "base/context.h"
#include "blocks/list.h"
#include "blocks/value.h"

enum {
    MW_STRING_HEADER_MAX = 48, /* what libraries keep before the text: lengths, a CPython object */
    MW_STRING_LENGTH_MIN = 4,
    MW_STRING_ROWS = 64, /* the most wasteful, kept */
};

struct mw_string_row {
    uint64_t hash;
    uint64_t count;         /* blocks with this text */
    uint64_t bytes;         /* of their chunks */
    uint64_t length_bytes;  /* of the text; as far as it was compared */
    mw_addr sample_block;   /* the one with the lowest address that was kept */
    uint32_t sample_offset; /* of its text */
};

/* What a text lies in memory more often than once: all its blocks but one. */
static inline uint64_t mw_string_wasted_bytes(const struct mw_string_row *row)
{
    return row->bytes - row->bytes / row->count;
}

struct mw_strings {
    uint64_t block_count;                      /* that were looked at */
    uint64_t text_count, text_bytes;           /* blocks that hold text, their chunks */
    uint64_t distinct;                         /* different texts; a lower bound, too */
    uint64_t repeated_count;                   /* of them, in more than one block */
    uint64_t wasted_bytes;                     /* in all but one block of each text */
    bool is_lower_bound;                       /* some were forgotten */
    struct mw_string_row rows[MW_STRING_ROWS]; /* repeated, by waste, the largest first */
    size_t row_count;
};

/* Look at every block of the list (of one size, or size_bytes 0: of all). MW_NOMEM, MW_CANCELED. */
struct mw_strings_input {
    struct mw_image *image;
    const struct mw_block_list *list;
    const struct mw_value_ranges *ranges;
    uint64_t size_bytes;
    struct mw_context *context;
};
enum mw_status mw_strings_read(const struct mw_strings_input *input, struct mw_strings *strings_out,
                               struct mw_error *err) MW_MUST_CHECK;

/* Where text begins in the first bytes of a block and how long it is there; false: it is none.
 * size is that of the whole block, length what of it is at bytes. An address that happens to be
 * printable is no text. */
bool mw_string_find(const struct mw_value_ranges *ranges, const uint8_t *bytes, size_t length,
                    uint64_t size, size_t *offset_out, size_t *length_out);

#endif
