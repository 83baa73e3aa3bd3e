/* layout/rows_kinds.c: what is said of bytes that no other row knows: of what kind they are. */
#include "layout/scope.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_WORDS = 64, LOOK_BYTES = 256, POINTEES = 4 };

/* The class of the object behind the word at offset, or NULL. */
static const struct mw_scope_memo *class_behind(struct mw_layout_view *view, size_t offset)
{
    uint64_t vtable;
    mw_addr pointee = mw_view_u64(view, offset);
    if (pointee % 8 != 0 || !mw_scope_read_u64(view->scope, pointee, &vtable))
        return NULL;
    return mw_cxx_class(view->scope, vtable);
}

/* All of a few pointers lead to objects of one class. */
static bool name_pointees(struct mw_layout_view *view, struct mw_layout_match *match)
{
    char name[MW_MEMO_NAME_ROOM] = "";
    size_t seen = 0;
    for (size_t i = 0; seen < POINTEES && i < LOOK_WORDS && 8 * i + 8 <= view->length; i++) {
        if (!mw_view_is(view, 8 * i, MW_WORD_HEAP))
            continue;
        const struct mw_scope_memo *class = class_behind(view, 8 * i);
        if (!class || (seen++ > 0 && strcmp(class->name, name) != 0))
            return false;
        mw_text_copy(name, sizeof name, class->name);
    }
    if (seen < 2)
        return false;
    snprintf(match->name, sizeof match->name, "array of pointers to %.*s",
             (int)sizeof match->name - 32, name);
    return true;
}

static bool are_pointers(struct mw_layout_view *view, struct mw_layout_match *match)
{
    size_t words = view->length / 8, heap = 0, zero = 0;
    words = words < LOOK_WORDS ? words : LOOK_WORDS;
    for (size_t i = 0; i < words; i++) {
        heap += mw_view_is(view, 8 * i, MW_WORD_HEAP);
        zero += mw_view_is(view, 8 * i, MW_WORD_ZERO);
    }
    if (words < 2 || (heap + zero) * 16 < words * 15 || heap * 4 < words || heap < 2)
        return false;
    if (!name_pointees(view, match))
        snprintf(match->name, sizeof match->name, "%s",
                 heap * 8 >= words * 7 ? "array of pointers" : "table of pointers, partly filled");
    return true;
}

static bool are_numbers(struct mw_layout_view *view, struct mw_layout_match *match)
{
    size_t words = view->length / 8, small = 0, zero = 0;
    (void)match;
    words = words < LOOK_WORDS ? words : LOOK_WORDS;
    for (size_t i = 0; i < words; i++) {
        small += mw_view_is(view, 8 * i, MW_WORD_SMALL);
        zero += mw_view_is(view, 8 * i, MW_WORD_ZERO);
    }
    return words >= 4 && (small + zero) * 16 >= words * 15 && small * 4 >= words;
}

static bool is_mostly_zero(struct mw_layout_view *view, struct mw_layout_match *match)
{
    size_t zero = 0;
    (void)match;
    for (size_t i = 0; i + 8 <= view->length; i += 8)
        zero += mw_view_u64(view, i) == 0;
    return zero * 64 >= view->length / 8 * 63;
}

/* 256 random bytes show about 162 different ones. */
static bool is_random(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint8_t seen[256] = {0};
    size_t look = view->length < LOOK_BYTES ? view->length : LOOK_BYTES, distinct = 0, zero = 0;
    (void)match;
    for (size_t i = 0; i < look; i++) {
        distinct += !seen[view->block->bytes[i]]++;
        zero += view->block->bytes[i] == 0;
    }
    return distinct * 8 >= look * 4 && zero * 16 < look;
}

const struct mw_layout_row mw_rows_kinds[] = {
    {.id = "pointers", .basis = MW_LAYOUT_LIKELY, .usable_min = 16, .test = are_pointers},
    {.id = "random",
     .name = "compressed, encrypted or random data",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 128,
     .test = is_random},
    {.id = "numbers",
     .name = "small numbers",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 32,
     .test = are_numbers},
    {.id = "mostly zero",
     .name = "zeros, but for one word in 64 at most",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 1024,
     .test = is_mostly_zero},
    {.id = NULL},
};
