/* blocks/value.h: what kind of thing one 8-byte value is.
 *
 * A pointer is recognised by where it points (allocator's segments, stacks of threads, executable
 * mappings, the rest), everything else by its bits. One value can only be likely to be something:
 * kinds of fields (blocks/fields.h) ask that nearly all values of a word agree. */
#ifndef MW_BLOCKS_VALUE_H
#define MW_BLOCKS_VALUE_H

#include "image/image.h"
#include "maps/claims.h"

enum mw_value_class {
    MW_VALUE_ZERO,
    MW_VALUE_SMALL, /* an integer, or two of 32 bits, of few digits */
    MW_VALUE_HEAP,  /* into an allocator's or a runtime's heap */
    MW_VALUE_STACK,
    MW_VALUE_CODE, /* into an executable mapping */
    MW_VALUE_DATA, /* into a module's other parts, or any other mapping */
    MW_VALUE_TEXT, /* printable, four bytes or more */
    MW_VALUE_FLOAT,
    MW_VALUE_OTHER,
    MW_VALUE_COUNT,
};

/* "zero", "small-int", "heap-pointer" … "other". */
const char *mw_value_class_name(enum mw_value_class class);

static inline bool mw_value_is_pointer(enum mw_value_class class)
{
    return class >= MW_VALUE_HEAP && class <= MW_VALUE_DATA;
}

struct mw_value_range {
    mw_addr start, end;
    enum mw_value_class class;
};

/* Where pointers may point: disjoint, ascending. */
struct mw_value_ranges {
    struct mw_value_range *items;
    size_t count;
};

/* From the regions of the image and who claims them. MW_NOMEM, MW_LIMIT. */
enum mw_status mw_value_ranges_init(struct mw_value_ranges *ranges, const struct mw_image *image,
                                    const struct mw_claims *claims) MW_MUST_CHECK;
void mw_value_ranges_deinit(struct mw_value_ranges *ranges);

/* The class of a value. *hint is where the last pointer was found, 0 at first: values of one word
 * tend to point to the same place. O(1) then, else O(log ranges). */
enum mw_value_class mw_value_classify(const struct mw_value_ranges *ranges, uint64_t value,
                                      size_t *hint);

/* Do four bytes or more in a row look like a piece of text? Such a value is a secret of the
 * target's, whatever else it may be. */
bool mw_value_has_text(uint64_t value);

/* Printable ASCII, a tab or the end of a line. */
static inline bool mw_byte_is_text(uint8_t byte)
{
    return (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\n' || byte == '\r';
}

#endif
