/* layout/name.c: the rows are asked in order, and a group's samples are counted by their names. */
#include "layout/scope.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    GROUP_NAMES = 24,   /* different names of a group that are counted */
    SHARED_BYTES = 512, /* where a pointer that all have is looked for */
};

unsigned mw_view_word(struct mw_layout_view *view, size_t offset)
{
    assert(offset % 8 == 0);
    size_t index = offset / 8;
    if (index >= view->length / 8)
        return MW_WORD_NONE;
    if (!(view->known[index / 64] >> index % 64 & 1)) {
        view->words[index] = (uint16_t)mw_scope_word(view->scope, mw_view_u64(view, offset));
        view->known[index / 64] |= (uint64_t)1 << index % 64;
    }
    return view->words[index];
}

bool mw_view_fits(const struct mw_layout_view *view, uint64_t bytes)
{
    uint64_t usable = view->block->usable_bytes;
    if (bytes > usable)
        return false;
    uint64_t rest = usable - bytes;
    return rest < 32 || rest <= bytes / 8; /* classes of sizes, and whole pages of mappings */
}

static bool check_holds(struct mw_layout_view *view, const struct mw_layout_check *check)
{
    if (check->bytes > view->length || check->offset > view->length - check->bytes)
        return false;
    uint64_t value = mw_view_value(view, check->offset, check->bytes), sum;
    switch ((enum mw_check_op)check->op) {
    case MW_CHECK_RANGE:
        return value >= check->a && value <= check->b;
    case MW_CHECK_BITS:
        return (value & check->a) == check->b;
    case MW_CHECK_WORD:
        return mw_view_word(view, check->offset) & check->a;
    case MW_CHECK_SELF:
        return value == view->block->address + check->a;
    case MW_CHECK_END:
        return !__builtin_add_overflow(value, check->a, &sum) && mw_view_fits(view, sum);
    case MW_CHECK_NONE:
        break;
    }
    return false;
}

static bool row_holds(struct mw_layout_view *view, const struct mw_layout_row *row,
                      struct mw_layout_match *match)
{
    uint64_t usable = view->block->usable_bytes;
    if (usable < row->usable_min || (row->usable_max && usable > row->usable_max))
        return false;
    for (size_t i = 0; i < MW_ROW_CHECKS && row->checks[i].op != MW_CHECK_NONE; i++)
        if (!check_holds(view, &row->checks[i]))
            return false;
    match->basis = row->basis;
    match->name[0] = '\0';
    if (row->test && !row->test(view, match))
        return false;
    if (match->name[0] == '\0') {
        assert(row->name);
        mw_text_copy(match->name, sizeof match->name, row->name);
    }
    match->id = row->id;
    match->agree = match->of = 1;
    return true;
}

void mw_text_copy(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room - 1);
    memmove(to, from, length);
    to[length] = '\0';
}

void mw_match_name(struct mw_layout_match *match, const char *name, const char *what)
{
    size_t length = strlen(name), room = sizeof match->name - strlen(what) - sizeof "... ()";
    snprintf(match->name, sizeof match->name, "%.*s%s (%s)", (int)(length < room ? length : room),
             name, length <= room ? "" : "...", what);
}

/* Whatever a row wrote: one line of printable ASCII. */
static void name_clean(char *name)
{
    for (char *c = name; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
}

bool mw_layout_name(struct mw_layout_scope *scope, const struct mw_layout_block *block,
                    struct mw_layout_match *match_out)
{
    assert(block->length <= block->usable_bytes);
    struct mw_layout_view view; /* words[] counts only where known[] says so: not cleared */
    view.scope = scope;
    view.block = block;
    view.length = block->length < MW_LAYOUT_BYTES ? block->length : MW_LAYOUT_BYTES;
    memset(view.known, 0, sizeof view.known);
    struct mw_layout_match match;
    if (view.length < 8)
        return false;
    for (size_t i = 0; i < scope->row_count; i++) {
        if (!row_holds(&view, scope->rows[i], &match))
            continue;
        match.priority = scope->priorities[i];
        name_clean(match.name);
        *match_out = match;
        return true;
    }
    return false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

struct tally {
    struct mw_layout_match matches[GROUP_NAMES];
    size_t counts[GROUP_NAMES], exact[GROUP_NAMES];
    size_t count;
};

static void tally_add(struct tally *tally, const struct mw_layout_match *match)
{
    size_t i = 0;
    while (i < tally->count &&
           (tally->matches[i].id != match->id || strcmp(tally->matches[i].name, match->name) != 0))
        i++;
    if (i == GROUP_NAMES)
        return;
    if (i == tally->count)
        tally->matches[tally->count++] = *match;
    tally->counts[i]++;
    tally->exact[i] += match->basis == MW_LAYOUT_EXACT;
}

/* The most frequent that is not yet taken; GROUP_NAMES when there is none. */
static size_t tally_best(const struct tally *tally, const bool *taken)
{
    size_t best = GROUP_NAMES;
    for (size_t i = 0; i < tally->count; i++)
        if (!taken[i] && (best == GROUP_NAMES || tally->counts[i] > tally->counts[best]))
            best = i;
    return best;
}

/* "41 of 64: A; 12 of 64: B", as many as fit, at most three. */
static void mixture_write(const struct tally *tally, size_t count, char *name, size_t room)
{
    bool taken[GROUP_NAMES] = {false};
    size_t used = 0;
    for (int parts = 0; parts < 3; parts++) {
        size_t best = tally_best(tally, taken);
        if (best == GROUP_NAMES || (parts > 0 && tally->counts[best] * 20 < count))
            break;
        taken[best] = true;
        char part[MW_LAYOUT_NAME_ROOM + 48];
        int bytes = snprintf(part, sizeof part, "%s%zu of %zu: %s", parts ? "; " : "",
                             tally->counts[best], count, tally->matches[best].name);
        if (bytes < 0 || (parts > 0 && (size_t)bytes >= room - used))
            break;
        mw_text_copy(name + used, room - used, part);
        used = strlen(name);
    }
}

/* A word that nearly all blocks have at one place, and that leads into a module. */
static bool shared_pointer(struct mw_layout_scope *scope, const struct mw_layout_block *blocks,
                           size_t count, size_t *offset_out, mw_addr *address_out,
                           size_t *agree_out)
{
    for (size_t offset = 0; offset < SHARED_BYTES; offset += 8) {
        uint64_t value = 0, other;
        size_t agree = 0;
        for (size_t i = 0; i < count; i++) {
            if (blocks[i].length < offset + 8)
                continue;
            memcpy(&other, blocks[i].bytes + offset, 8);
            if (agree == 0)
                value = other;
            agree += value == other;
            if (i == 2 && agree < 2) /* the first of them may be the odd one */
                value = other, agree = 1;
        }
        if (agree * 10 < count * 9 || !(mw_scope_word(scope, value) & MW_WORD_MODULE))
            continue;
        *offset_out = offset, *address_out = value, *agree_out = agree;
        return mw_scope_module_of(scope, value);
    }
    return false;
}

static bool group_by_pointer(struct mw_layout_scope *scope, const struct mw_layout_block *blocks,
                             size_t count, struct mw_layout_match *match)
{
    size_t offset, agree;
    mw_addr address;
    if (!shared_pointer(scope, blocks, count, &offset, &address, &agree))
        return false;
    const struct mw_scope_module *module = mw_scope_module_of(scope, address);
    bool is_code = mw_scope_word(scope, address) == MW_WORD_CODE;
    *match = (struct mw_layout_match){
        .id = "structure", .basis = MW_LAYOUT_LIKELY, .priority = UINT16_MAX, .agree = agree};
    snprintf(match->name, sizeof match->name,
             "structure with a pointer to %s %.80s+0x%" PRIx64 " at +%zu",
             is_code ? "a function at" : "data at", module->name, address - module->base, offset);
    name_clean(match->name);
    return true;
}

/* A row that only says of what kind the bytes are gives way to a pointer that all blocks share. */
static bool is_kind_only(const struct mw_layout_match *match)
{
    return strcmp(match->id, "pointers") == 0 || strcmp(match->id, "numbers") == 0;
}

/* A quarter of one name, or half of any: less is noise. */
static bool says_something(const struct tally *tally, size_t best, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < tally->count; i++)
        all += tally->counts[i];
    return tally->counts[best] * 4 >= count || all * 2 >= count;
}

bool mw_layout_group(struct mw_layout_scope *scope, const struct mw_layout_block *blocks,
                     size_t count, struct mw_layout_match *match_out)
{
    if (count > MW_LAYOUT_GROUP_MAX)
        count = MW_LAYOUT_GROUP_MAX;
    struct tally tally;
    tally.count = 0;
    memset(tally.counts, 0, sizeof tally.counts);
    memset(tally.exact, 0, sizeof tally.exact);
    for (size_t i = 0; i < count; i++) {
        struct mw_layout_match match;
        if (mw_layout_name(scope, &blocks[i], &match))
            tally_add(&tally, &match);
    }
    bool none_taken[GROUP_NAMES] = {false};
    size_t best = tally_best(&tally, none_taken);
    struct mw_layout_match match;
    bool is_named = best != GROUP_NAMES && tally.counts[best] * 10 >= count * 9;
    bool is_mostly = best != GROUP_NAMES && tally.counts[best] * 2 >= count;
    if (is_named && !is_kind_only(&tally.matches[best])) {
        match = tally.matches[best];
        match.agree = tally.counts[best];
        match.basis = tally.exact[best] == count ? MW_LAYOUT_EXACT : MW_LAYOUT_LIKELY;
    } else if (count > 1 && (!is_mostly || is_kind_only(&tally.matches[best])) &&
               group_by_pointer(scope, blocks, count, &match)) {
        /* more than the mixture says */
    } else if (best == GROUP_NAMES || !says_something(&tally, best, count)) {
        return false;
    } else {
        match = tally.matches[best];
        match.agree = tally.counts[best];
        match.basis = MW_LAYOUT_LIKELY;
        if (!is_named)
            mixture_write(&tally, count, match.name, sizeof match.name);
    }
    match.of = count;
    *match_out = match;
    return true;
}
