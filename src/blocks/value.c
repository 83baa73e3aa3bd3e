/* blocks/value.c: where a value points, and if nowhere, what its bits look like.
 *
 * Ranges: the claims tell heaps and stacks, a mapping's permissions code; both are cut into
 * disjoint pieces in one merge over two ascending lists. */
#include "blocks/value.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* Below: no mapping (vm.mmap_min_addr), so a small number at once. */
#define POINTER_MIN ((uint64_t)65536)

const char *mw_value_class_name(enum mw_value_class class)
{
    static const char *const names[MW_VALUE_COUNT] = {
        [MW_VALUE_ZERO] = "zero",         [MW_VALUE_SMALL] = "small-int",
        [MW_VALUE_HEAP] = "heap-pointer", [MW_VALUE_STACK] = "stack-pointer",
        [MW_VALUE_CODE] = "code-pointer", [MW_VALUE_DATA] = "data-pointer",
        [MW_VALUE_TEXT] = "text",         [MW_VALUE_FLOAT] = "float",
        [MW_VALUE_OTHER] = "other",
    };
    return names[class];
}

static enum mw_value_class class_of_claim(enum mw_category category)
{
    switch (category) {
    case MW_CATEGORY_MANAGED_HEAP:
    case MW_CATEGORY_MALLOC_IN_USE:
    case MW_CATEGORY_MALLOC_FREE:
    case MW_CATEGORY_MALLOC_METADATA:
    case MW_CATEGORY_MALLOC_UNSPLIT:
        return MW_VALUE_HEAP;
    case MW_CATEGORY_STACK_MAIN:
    case MW_CATEGORY_STACK_THREADS:
        return MW_VALUE_STACK;
    default:
        return MW_VALUE_DATA;
    }
}

typedef MW_VEC(struct mw_value_range) range_list;

static enum mw_status range_add(range_list *list, mw_addr start, mw_addr end,
                                enum mw_value_class class)
{
    if (start >= end)
        return MW_OK;
    if (list->count > 0 && list->items[list->count - 1].end == start &&
        list->items[list->count - 1].class == class) {
        list->items[list->count - 1].end = end;
        return MW_OK;
    }
    return mw_vec_push(list, MW_LIMIT_CLAIMS, (struct mw_value_range){start, end, class});
}

/* The pieces of one mapping, from piece *next on. */
static enum mw_status map_add(range_list *list, const struct mw_mapping *map,
                              const struct mw_claim_piece *pieces, size_t count, size_t *next)
{
    enum mw_value_class rest = map->perms & MW_PERM_EXEC ? MW_VALUE_CODE : MW_VALUE_DATA;
    mw_addr at = map->start;
    enum mw_status status = MW_OK;
    while (*next < count && pieces[*next].end <= at)
        ++*next;
    for (size_t i = *next; i < count && pieces[i].start < map->end && status == MW_OK; i++) {
        enum mw_value_class class = class_of_claim(pieces[i].claim->category);
        mw_addr start = pieces[i].start > at ? pieces[i].start : at;
        mw_addr end = pieces[i].end < map->end ? pieces[i].end : map->end;
        status = range_add(list, at, start, rest);
        if (status == MW_OK)
            status = range_add(list, start, end, class == MW_VALUE_DATA ? rest : class);
        at = end;
    }
    return status == MW_OK ? range_add(list, at, map->end, rest) : status;
}

enum mw_status mw_value_ranges_init(struct mw_value_ranges *ranges, const struct mw_image *image,
                                    const struct mw_claims *claims)
{
    struct mw_claim_piece *pieces = NULL;
    size_t piece_count = 0, next = 0;
    range_list list = {0};
    *ranges = (struct mw_value_ranges){0};
    enum mw_status status = mw_claims_resolve(claims, &pieces, &piece_count);
    for (size_t i = 0; i < image->regions.count && status == MW_OK; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC)) /* guards, reserves */
            status = map_add(&list, map, pieces, piece_count, &next);
    }
    free(pieces);
    if (status != MW_OK) {
        free(list.items);
        return status;
    }
    *ranges = (struct mw_value_ranges){list.items, list.count};
    return MW_OK;
}

void mw_value_ranges_deinit(struct mw_value_ranges *ranges)
{
    free(ranges->items);
    *ranges = (struct mw_value_ranges){0};
}

/* The range that holds value, or count. */
static size_t range_find(const struct mw_value_ranges *ranges, uint64_t value)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].end <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ranges->count && ranges->items[low].start <= value ? low : ranges->count;
}

/* Printable from the first byte on, then zeros: four bytes at least, so that small numbers are not
 * taken for text. */
static bool is_text(uint64_t value)
{
    unsigned length = 0;
    for (; length < 8 && mw_byte_is_text((uint8_t)(value >> 8 * length)); length++)
        ;
    return length >= 4 && (length == 8 || value >> 8 * length == 0);
}

/* Both halves small numbers, as a length beside a capacity is. */
static bool is_small(uint64_t value)
{
    int32_t low = (int32_t)(uint32_t)value, high = (int32_t)(uint32_t)(value >> 32);
    const int32_t limit = 1 << 24;
    if (high == 0 || (int64_t)value == low)
        return true;
    return low > -limit && low < limit && high > -limit && high < limit;
}

/* Between 1e-6 and 1e12 in amount: some sixty of two thousand exponents. */
static bool is_float(uint64_t value)
{
    double number;
    memcpy(&number, &value, sizeof number);
    double amount = number < 0 ? -number : number;
    return amount > 1e-6 && amount < 1e12;
}

enum mw_value_class mw_value_classify(const struct mw_value_ranges *ranges, uint64_t value,
                                      size_t *hint)
{
    if (value == 0)
        return MW_VALUE_ZERO;
    if (value < POINTER_MIN)
        return MW_VALUE_SMALL;
    size_t at = *hint;
    if (at >= ranges->count || value < ranges->items[at].start || value >= ranges->items[at].end)
        at = range_find(ranges, value);
    if (at < ranges->count) {
        *hint = at;
        return ranges->items[at].class;
    }
    if (is_text(value))
        return MW_VALUE_TEXT;
    if (is_small(value))
        return MW_VALUE_SMALL;
    return is_float(value) ? MW_VALUE_FLOAT : MW_VALUE_OTHER;
}

bool mw_value_has_text(uint64_t value)
{
    unsigned run = 0;
    for (unsigned i = 0; i < 8; i++) {
        run = mw_byte_is_text((uint8_t)(value >> 8 * i)) ? run + 1 : 0;
        if (run == 4)
            return true;
    }
    return false;
}
