/* blocks/kinds.c: what a field is, from the classes of its values.
 *
 * A kind is given when nine of ten values that are not zero agree: a pointer that may be null is a
 * pointer, and a few stray values do not hide it. "random" needs evidence of its own: nearly all
 * bits vary, hardly a value repeats, and each of its bytes takes many values. */
#include "blocks/kinds.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    RANDOM_BLOCKS_MIN = 16,
    RANDOM_BITS_MIN = 60,
    SHARE_NUMERATOR = 9,
    SHARE_DENOMINATOR = 10,
};

const char *mw_word_kind_name(enum mw_word_kind kind)
{
    static const char *const names[MW_WORD_KIND_COUNT] = {
        [MW_WORD_ZERO] = "zero",
        [MW_WORD_CONSTANT] = "constant",
        [MW_WORD_SMALL_INT] = "small-int",
        [MW_WORD_HEAP_POINTER] = "heap-pointer",
        [MW_WORD_STACK_POINTER] = "stack-pointer",
        [MW_WORD_CODE_POINTER] = "code-pointer",
        [MW_WORD_DATA_POINTER] = "data-pointer",
        [MW_WORD_TEXT] = "text",
        [MW_WORD_FLOAT] = "float",
        [MW_WORD_RANDOM] = "random",
        [MW_WORD_MIXED] = "mixed",
    };
    assert((unsigned)kind < MW_WORD_KIND_COUNT);
    return names[kind];
}

static enum mw_word_kind kind_of_class(enum mw_value_class class)
{
    static const enum mw_word_kind kinds[MW_VALUE_COUNT] = {
        [MW_VALUE_ZERO] = MW_WORD_ZERO,         [MW_VALUE_SMALL] = MW_WORD_SMALL_INT,
        [MW_VALUE_HEAP] = MW_WORD_HEAP_POINTER, [MW_VALUE_STACK] = MW_WORD_STACK_POINTER,
        [MW_VALUE_CODE] = MW_WORD_CODE_POINTER, [MW_VALUE_DATA] = MW_WORD_DATA_POINTER,
        [MW_VALUE_TEXT] = MW_WORD_TEXT,         [MW_VALUE_FLOAT] = MW_WORD_FLOAT,
        [MW_VALUE_OTHER] = MW_WORD_MIXED,
    };
    return kinds[class];
}

/* The class of nearly all values that are not zero; MW_VALUE_COUNT when there is none. */
static enum mw_value_class class_of_most(const struct mw_word *word)
{
    uint64_t other_than_zero = word->count - word->classes[MW_VALUE_ZERO];
    for (int class = MW_VALUE_ZERO + 1; class < MW_VALUE_COUNT; class ++)
        if (word->classes[class] >= other_than_zero - other_than_zero / SHARE_DENOMINATOR *
                                                          (SHARE_DENOMINATOR - SHARE_NUMERATOR))
            return (enum mw_value_class) class;
    return MW_VALUE_COUNT;
}

/* Byte by byte over the values that are kept: a uniform byte shows 57 of 256 in 64 tries. */
static bool bytes_vary(const struct mw_word *word)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        uint8_t seen[256] = {0};
        uint32_t tries = 0, different = 0;
        for (uint32_t i = 0; i < word->room && tries < MW_WORD_SAMPLE; i++) {
            if (word->counts && word->counts[i] == 0)
                continue;
            uint8_t value = (uint8_t)(word->values[i] >> 8 * byte);
            different += !seen[value];
            seen[value] = 1;
            tries++;
        }
        if (different * 2 < tries)
            return false;
    }
    return true;
}

static bool is_random(const struct mw_word *word)
{
    uint64_t pointers = 0;
    for (int class = MW_VALUE_HEAP; class <= MW_VALUE_DATA; class ++)
        pointers += word->classes[class];
    bool repeats = !word->overflowed && (uint64_t)word->distinct * 2 < word->count;
    return word->count >= RANDOM_BLOCKS_MIN && pointers * 16 <= word->count && !repeats &&
           word->classes[MW_VALUE_TEXT] * 4 <= word->count &&
           __builtin_popcountll(word->all_and ^ word->all_or) >= RANDOM_BITS_MIN &&
           bytes_vary(word);
}

static enum mw_word_kind kind_of(const struct mw_word *word)
{
    if (word->count == 0)
        return MW_WORD_MIXED; /* nothing is known */
    if (word->classes[MW_VALUE_ZERO] == word->count)
        return MW_WORD_ZERO;
    enum mw_value_class class = class_of_most(word);
    enum mw_word_kind kind = class == MW_VALUE_COUNT ? MW_WORD_MIXED : kind_of_class(class);
    if (word->min == word->max)
        return mw_word_kind_is_pointer(kind) || kind == MW_WORD_TEXT ? kind : MW_WORD_CONSTANT;
    if ((kind == MW_WORD_MIXED || kind == MW_WORD_FLOAT) && is_random(word))
        return MW_WORD_RANDOM;
    return kind;
}

/* Of an exact table: entropy and the most frequent value. */
static void table_figures(struct mw_block_field *field, const struct mw_word *word)
{
    double sum = 0;
    for (uint32_t i = 0; i < word->room; i++) {
        if (word->counts[i] == 0)
            continue;
        double share = (double)word->counts[i] / (double)word->count;
        sum -= share * log2(share);
        if (word->counts[i] > field->top_count ||
            (word->counts[i] == field->top_count && word->values[i] < field->top)) {
            field->top = word->values[i];
            field->top_count = word->counts[i];
        }
    }
    field->entropy_bits = sum > 0 ? sum : 0;
}

bool mw_field_is_pure(const struct mw_block_field *field)
{
    uint64_t pure = field->classes[MW_VALUE_ZERO];
    for (int class = MW_VALUE_ZERO + 1; class < MW_VALUE_COUNT; class ++)
        if (class != MW_VALUE_OTHER && kind_of_class((enum mw_value_class) class) == field->kind)
            pure += field->classes[class];
    return pure == field->count;
}

void mw_block_field_fill(struct mw_block_field *field, uint64_t offset, struct mw_word *word,
                         const struct mw_value_ranges *ranges)
{
    uint64_t varying = word->all_and ^ word->all_or;
    *field = (struct mw_block_field){
        .offset = offset,
        .count = word->count,
        .distinct = word->distinct,
        .distinct_is_lower_bound = word->overflowed,
        .kind = kind_of(word),
        .min = word->min,
        .max = word->max,
        .constant_bits = word->all_and & ~varying,
        .varying_bits = varying,
        .entropy_bits = -1,
    };
    memcpy(field->classes, word->classes, sizeof field->classes);
    if (!word->overflowed && word->count > 0)
        table_figures(field, word);
    field->top_class = mw_value_classify(ranges, field->top, &word->hint);
}

size_t mw_field_parts(const struct mw_block_field *field,
                      struct mw_field_part parts_out[MW_FIELD_PARTS_MAX])
{
    size_t count = 0;
    uint64_t taken = 0; /* bits that are in a part */
    for (unsigned width = 4; width >= 1 && field->varying_bits != 0; width /= 2) {
        uint64_t mask = ((uint64_t)1 << 8 * width) - 1;
        for (unsigned offset = 0; offset < 8; offset += width) {
            uint64_t bits = mask << 8 * offset;
            if ((field->varying_bits | taken) & bits)
                continue;
            assert(count < MW_FIELD_PARTS_MAX); /* one byte at least varies */
            parts_out[count++] =
                (struct mw_field_part){offset, width, field->constant_bits >> 8 * offset & mask};
            taken |= bits;
        }
    }
    return count;
}
