/* layout/rows_glib.c: GObject (GLib 2.74, gobject/gobject.h; alike since 2.0).
 *
 *   instance   g_class 0, ref_count u32 8, qdata 16
 *   class      g_type 0, construct_properties 8, set_property 16, get_property 24, dispose 32,
 *              finalize 40, …: functions of the libraries that derived it
 *
 * The name of a type is behind a table of quarks that only symbols lead to; the module of the
 * class's own functions says whose it is. */
#include "layout/scope.h"

#include <stdio.h>

enum { CLASS_WORDS = 6, FUNCTIONS = 2, MODULE_SHOWN = 80 };

static void class_read(struct mw_layout_scope *scope, struct mw_scope_memo *memo)
{
    uint64_t words[CLASS_WORDS];
    if (!mw_scope_read(scope, memo->address, words, sizeof words) ||
        !(mw_scope_word(scope, words[0]) & (MW_WORD_HEAP | MW_WORD_SMALL | MW_WORD_OTHER)) ||
        !(mw_scope_word(scope, words[1]) & MW_WORD_NODE))
        return;
    const struct mw_scope_module *owner = NULL;
    for (size_t i = FUNCTIONS; i < CLASS_WORDS; i++) {
        unsigned word = mw_scope_word(scope, words[i]);
        if (!(word & (MW_WORD_CODE | MW_WORD_ZERO)))
            return;
        const struct mw_scope_module *module = mw_scope_module_of(scope, words[i]);
        if (module && (!owner || mw_scope_is_in(scope, owner->base, "libgobject")))
            owner = module;
    }
    memo->holds = owner && (mw_scope_word(scope, words[5]) & MW_WORD_CODE);
    if (memo->holds)
        snprintf(memo->name, sizeof memo->name, "GObject with a class of %.*s", MODULE_SHOWN,
                 owner->name);
}

static bool is_gobject(struct mw_layout_view *view, struct mw_layout_match *match)
{
    bool is_new;
    struct mw_scope_memo *memo =
        mw_scope_memo_of(view->scope, MW_MEMO_GOBJECT_CLASS, mw_view_u64(view, 0), &is_new);
    if (is_new)
        class_read(view->scope, memo);
    if (memo->holds)
        snprintf(match->name, sizeof match->name, "%s", memo->name);
    return memo->holds;
}

const struct mw_layout_row mw_rows_glib[] = {
    {.id = "gobject",
     .basis = MW_LAYOUT_EXACT,
     .module = "libgobject",
     .usable_min = 24,
     .checks = {MW_AT8(0, WORD, MW_WORD_HEAP, 0), MW_AT4(8, RANGE, 1, 1 << 24)},
     .test = is_gobject},
    {.id = NULL},
};
