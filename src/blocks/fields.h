/* blocks/fields.h: statistics for every 8-byte word over all blocks of one size.
 *
 * One pass over the blocks by ascending address, on several threads; what is counted of a word is
 * in blocks/word.h. Memory is at most MW_FIELDS_BUDGET_BYTES a thread: where the tables of all
 * words could take more, the words are counted in slabs, each of which reads its own part of the
 * blocks, so that large blocks cost no second reading. */
#ifndef MW_BLOCKS_FIELDS_H
#define MW_BLOCKS_FIELDS_H

#include "base/context.h"
#include "blocks/list.h"
#include "blocks/word.h"

enum mw_word_kind {
    MW_WORD_ZERO,
    MW_WORD_CONSTANT, /* the same number in all blocks, and none of the following */
    MW_WORD_SMALL_INT,
    MW_WORD_HEAP_POINTER,
    MW_WORD_STACK_POINTER,
    MW_WORD_CODE_POINTER,
    MW_WORD_DATA_POINTER,
    MW_WORD_TEXT,
    MW_WORD_FLOAT,
    MW_WORD_RANDOM,
    MW_WORD_MIXED,
    MW_WORD_KIND_COUNT,
};
const char *mw_word_kind_name(enum mw_word_kind kind); /* of the contract: "small-int" */

static inline bool mw_word_kind_is_pointer(enum mw_word_kind kind)
{
    return kind >= MW_WORD_HEAP_POINTER && kind <= MW_WORD_DATA_POINTER;
}

struct mw_block_field {
    uint64_t offset;   /* bytes from what malloc returned */
    uint64_t count;    /* blocks that have this word and could be read; 0: nothing else is known */
    uint64_t distinct; /* exact up to MW_WORD_DISTINCT_MAX */
    bool distinct_is_lower_bound;
    enum mw_word_kind kind;
    uint64_t min, max;                    /* unsigned; equal: the word is constant */
    uint64_t constant_bits, varying_bits; /* value of the bits that never vary; which do */
    uint64_t top, top_count;              /* the most frequent value; 0 blocks: not known */
    enum mw_value_class top_class;
    double entropy_bits;              /* of the distribution of values; < 0: not known */
    uint64_t classes[MW_VALUE_COUNT]; /* blocks by enum mw_value_class; sum is count */
    struct mw_field_names *names;     /* of the constant, else of top; NULL: none. Owned */
};

/* What addresses in a field are called. Any may be "". */
struct mw_field_names {
    char resolved[160]; /* module+offset */
    char symbol[256];   /* name+offset */
    char line[256];     /* file:line */
    char call[320];     /* the call that returns there */
};

struct mw_fields {
    uint64_t size_bytes, usable_bytes; /* of the group */
    uint64_t block_count;              /* in use, of that size */
    uint64_t unread_count;             /* pieces of blocks that could not be read */
    struct mw_block_field *items;      /* ascending by offset, none left out */
    size_t count;
    uint64_t cut_bytes; /* of a very large block, behind the last field */
};

enum { MW_FIELDS_WORDS_MAX = 1 << 18, MW_FIELDS_BUDGET_BYTES = 32 << 20 };

static inline bool mw_field_is_constant(const struct mw_block_field *field)
{
    return field->count > 0 && field->min == field->max;
}

/* Are all its values zero or of the one class that its kind is called after? */
bool mw_field_is_pure(const struct mw_block_field *field);

/* Parts of 4, 2 or 1 bytes that are the same in all blocks while the word varies, the widest
 * first taken. Returns how many (at most 7). */
struct mw_field_part {
    unsigned offset, width; /* bytes, in the word */
    uint64_t value;
};
enum { MW_FIELD_PARTS_MAX = 7 };
size_t mw_field_parts(const struct mw_block_field *field,
                      struct mw_field_part parts_out[MW_FIELD_PARTS_MAX]);

struct mw_fields_input {
    struct mw_image *image;
    const struct mw_block_list *list;
    const struct mw_value_ranges *ranges;
    uint64_t size_bytes, usable_bytes; /* of the blocks: chunk, and what can be used of it */
    uint64_t block_count;              /* of that size in the list */
    struct mw_context *context;
};

/* Fill *fields_out. What could not be read is counted there. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_fields_read(const struct mw_fields_input *input, struct mw_fields *fields_out,
                              struct mw_error *err) MW_MUST_CHECK;
void mw_fields_deinit(struct mw_fields *fields);

#endif
