/* layout/rows_postgres.c: memory contexts of PostgreSQL (15.x; aset.c and memnodes.h are alike from
 * 13 to 17 in what is read here).
 *
 *   MemoryContextData   +0 NodeTag  +4 isReset  +8 mem_allocated  +16 methods  +24 parent
 *                       +32 firstchild  +40 prevchild  +48 nextchild  +56 name  +64 ident
 *   AllocBlockData      +0 context  +8 prev  +16 next  +24 freeptr  +32 endptr
 *
 * A context and its first block are one block of malloc's; later blocks name their context and end
 * where endptr says. The name is a constant of the program. */
#include "layout/scope.h"

#include <string.h>

enum { CONTEXT_METHODS = 16, CONTEXT_NAME = 56, NAME_MAX_BYTES = 64 };

/* The name of the context at address, whose first words are there. */
static const struct mw_scope_memo *context_read(struct mw_layout_scope *scope, mw_addr address)
{
    bool is_new;
    struct mw_scope_memo *memo =
        mw_scope_memo_of(scope, MW_MEMO_POSTGRES_CONTEXT, address, &is_new);
    if (is_new) {
        uint64_t words[8], method;
        memo->holds = mw_scope_read(scope, address, words, sizeof words) &&
                      (words[0] & UINT32_MAX) < 1 << 16 &&
                      (mw_scope_word(scope, words[2]) & MW_WORD_STATIC) &&
                      mw_scope_read_u64(scope, words[2], &method) &&
                      (mw_scope_word(scope, method) & MW_WORD_CODE) &&
                      (mw_scope_word(scope, words[7]) & MW_WORD_CONST) &&
                      mw_scope_read_name(scope, words[7], memo->name, NAME_MAX_BYTES) > 0;
    }
    return memo->holds ? memo : NULL;
}

static bool is_context(struct mw_layout_view *view, struct mw_layout_match *match)
{
    const struct mw_scope_memo *context = context_read(view->scope, view->block->address);
    if (context)
        mw_match_name(match, context->name, "memory context of PostgreSQL");
    return context;
}

static bool is_block(struct mw_layout_view *view, struct mw_layout_match *match)
{
    mw_addr start = view->block->address, free = mw_view_u64(view, 24), end = mw_view_u64(view, 32);
    if (free < start + 40 || free > end || !mw_view_fits(view, end - start))
        return false;
    const struct mw_scope_memo *context = context_read(view->scope, mw_view_u64(view, 0));
    if (context)
        mw_match_name(match, context->name, "block of a memory context of PostgreSQL");
    return context;
}

const struct mw_layout_row mw_rows_postgres[] = {
    {.id = "postgres context",
     .basis = MW_LAYOUT_EXACT,
     .module = "postgres",
     .usable_min = 120,
     .checks = {MW_AT4(0, RANGE, 1, UINT16_MAX), MW_AT8(16, WORD, MW_WORD_STATIC, 0),
                MW_AT8(24, WORD, MW_WORD_NODE, 0), MW_AT8(48, WORD, MW_WORD_NODE, 0),
                MW_AT8(56, WORD, MW_WORD_CONST, 0)},
     .test = is_context},
    {.id = "postgres block",
     .basis = MW_LAYOUT_EXACT,
     .module = "postgres",
     .usable_min = 64,
     .checks = {MW_AT8(0, WORD, MW_WORD_HEAP, 0), MW_AT8(8, WORD, MW_WORD_NODE, 0),
                MW_AT8(16, WORD, MW_WORD_NODE, 0)},
     .test = is_block},
    {.id = NULL},
};
