/* layout/rows_cxx.c: C++ objects, by what their first word leads to.
 *
 *   object ─► vtable                typeinfo              name
 *             -16  offset to top     0  its own vtable     "N6icinga4HostE"
 *              -8  typeinfo ────►     8  name ────────►
 *               0  functions             typeinfo's vtable ─► typeinfo ─► "N10__cxxabiv1…"
 *
 * Itanium C++ ABI 2.5.2 and 2.9.4; libstdc++ and libc++ alike, no symbols. Typeinfo is proven by
 * the class of typeinfo itself being one of namespace __cxxabiv1. A class without typeinfo
 * (-fno-rtti) is named by the symbol of its vtable, else by its module and place, which is likely
 * only. What was found is remembered by vtable. */
#include "layout/scope.h"
#include "layout/typename.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MANGLED_MAX = 1024, MODULE_SHOWN = 60 };

#define ABI_NAME "N10__cxxabiv1"

/* The mangled name in the typeinfo at address: its length, 0 when there is none. */
static size_t typeinfo_name(struct mw_layout_scope *scope, mw_addr typeinfo, mw_addr *vtable_out,
                            char *name, size_t room)
{
    uint64_t words[2];
    if (typeinfo % 8 != 0 || !(mw_scope_word(scope, typeinfo) & MW_WORD_MODULE) ||
        !mw_scope_read(scope, typeinfo, words, sizeof words) ||
        !(mw_scope_word(scope, words[0]) & MW_WORD_MODULE) ||
        !(mw_scope_word(scope, words[1]) & MW_WORD_MODULE))
        return 0;
    *vtable_out = words[0];
    return mw_scope_read_name(scope, words[1], name, room);
}

/* Is it the vtable of __class_type_info, __si_class_type_info, … ? */
static bool is_abi_vtable(struct mw_layout_scope *scope, mw_addr vtable)
{
    uint64_t typeinfo;
    mw_addr above;
    char name[64];
    return vtable % 8 == 0 && mw_scope_read_u64(scope, vtable - 8, &typeinfo) &&
           typeinfo_name(scope, typeinfo, &above, name, sizeof name) > 0 &&
           strncmp(name, ABI_NAME, strlen(ABI_NAME)) == 0;
}

/* The readable name of the type that this typeinfo is of. */
static bool typeinfo_read(struct mw_layout_scope *scope, mw_addr typeinfo, char *name, size_t room)
{
    char mangled[MANGLED_MAX];
    mw_addr vtable;
    size_t length = typeinfo_name(scope, typeinfo, &vtable, mangled, sizeof mangled);
    if (length == 0 || !is_abi_vtable(scope, vtable))
        return false;
    if (!mw_type_name(mangled, length, name, room))
        snprintf(name, room, "%.*s", (int)room - 1, mangled);
    return true;
}

/* By what the caller knows of symbols, which is more than what the loader needs. */
static bool symbol_read(struct mw_layout_scope *scope, struct mw_scope_memo *memo)
{
    static const char prefix[] = "vtable for ";
    char name[sizeof prefix + MW_MEMO_NAME_ROOM] = "";
    if (!scope->symbol_of ||
        !scope->symbol_of(scope->symbol_user, memo->address - 16, name, sizeof name))
        return false;
    name[sizeof name - 1] = '\0';
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    memo->holds = memo->is_exact = true;
    mw_text_copy(memo->name, sizeof memo->name, name + sizeof prefix - 1);
    return true;
}

/* Without typeinfo: by a symbol, else two functions of the module must be there. */
static void vtable_read_bare(struct mw_layout_scope *scope, struct mw_scope_module *module,
                             struct mw_scope_memo *memo)
{
    const char *symbol = mw_scope_vtable_name(scope, module, memo->address);
    if (symbol) {
        memo->holds = memo->is_exact = true;
        if (!mw_type_name(symbol, strlen(symbol), memo->name, sizeof memo->name))
            snprintf(memo->name, sizeof memo->name, "%s", symbol);
        return;
    }
    if (symbol_read(scope, memo))
        return;
    uint64_t functions[2];
    if (!mw_scope_read(scope, memo->address, functions, sizeof functions))
        return;
    memo->holds = (mw_scope_word(scope, functions[0]) & MW_WORD_CODE) &&
                  (mw_scope_word(scope, functions[1]) & MW_WORD_CODE);
    if (memo->holds)
        snprintf(memo->name, sizeof memo->name,
                 "class without type information, vtable %.*s+0x%" PRIx64, MODULE_SHOWN,
                 module->name, memo->address - module->base);
}

static void vtable_read(struct mw_layout_scope *scope, struct mw_scope_memo *memo)
{
    struct {
        int64_t offset_to_top;
        uint64_t typeinfo, function;
    } head;
    struct mw_scope_module *module = mw_scope_module_of(scope, memo->address);
    if (!module || memo->address % 8 != 0 ||
        !mw_scope_read(scope, memo->address - 16, &head, sizeof head) || head.offset_to_top != 0)
        return;
    if (head.function != 0 && !(mw_scope_word(scope, head.function) & MW_WORD_CODE))
        return;
    memo->is_exact = memo->holds =
        typeinfo_read(scope, head.typeinfo, memo->name, sizeof memo->name);
    if (!memo->holds && head.typeinfo == 0)
        vtable_read_bare(scope, module, memo);
}

const struct mw_scope_memo *mw_cxx_class(struct mw_layout_scope *scope, mw_addr vtable)
{
    if (!(mw_scope_word(scope, vtable) & MW_WORD_STATIC))
        return NULL;
    bool is_new;
    struct mw_scope_memo *memo = mw_scope_memo_of(scope, MW_MEMO_VTABLE, vtable, &is_new);
    if (is_new)
        vtable_read(scope, memo);
    return memo->holds ? memo : NULL;
}

static bool match_class(struct mw_layout_scope *scope, mw_addr vtable, const char *what,
                        struct mw_layout_match *match)
{
    const struct mw_scope_memo *class = mw_cxx_class(scope, vtable);
    if (!class)
        return false;
    mw_match_name(match, class->name, what);
    if (!class->is_exact)
        match->basis = MW_LAYOUT_LIKELY;
    return true;
}

static bool is_object(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return match_class(view->scope, mw_view_u64(view, 0), "C++ object", match);
}

/* new T[n] keeps n in front of the objects (2.7): they are alike, and fill the block. */
static bool is_object_array(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t count = mw_view_u64(view, 0), vtable = mw_view_u64(view, 8);
    uint64_t stride = (view->block->usable_bytes - 8) / count / 8 * 8;
    if (count < 2 || stride < 8 || stride > UINT32_MAX || 8 + stride + 8 > view->length ||
        mw_view_u64(view, 8 + stride) != vtable)
        return false;
    return match_class(view->scope, vtable, "array of C++ objects", match);
}

/* What is in front of a thrown object, libstdc++'s (libsupc++/unwind-cxx.h, GCC 12) and libc++abi's
 * (src/cxa_exception.h, LLVM 14 on) alike: the type at 16, the unwinder's class, "GNUCC++\0" or
 * "CLNGC++\0", at 96, the object at 128. */
static bool is_exception(struct mw_layout_view *view, struct mw_layout_match *match)
{
    mw_addr typeinfo = mw_view_u64(view, 16);
    bool is_new;
    struct mw_scope_memo *memo = mw_scope_memo_of(view->scope, MW_MEMO_TYPEINFO, typeinfo, &is_new);
    if (is_new)
        memo->holds = typeinfo_read(view->scope, typeinfo, memo->name, sizeof memo->name);
    if (!memo->holds)
        return false;
    mw_match_name(match, memo->name, "C++ exception, thrown");
    return true;
}

const struct mw_layout_row mw_rows_cxx[] = {
    {.id = "c++ exception",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 129,
     .checks = {MW_AT8(96, BITS, UINT64_MAX, 0x474e5543432b2b00)},
     .test = is_exception},
    {.id = "c++ exception",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 129,
     .checks = {MW_AT8(96, BITS, UINT64_MAX, 0x434c4e47432b2b00)},
     .test = is_exception},
    {.id = "c++ object",
     .basis = MW_LAYOUT_EXACT,
     .checks = {MW_AT8(0, WORD, MW_WORD_STATIC, 0)},
     .test = is_object},
    {.id = "c++ object array",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 24,
     .checks = {MW_AT8(0, RANGE, 2, 1 << 24), MW_AT8(8, WORD, MW_WORD_STATIC, 0)},
     .test = is_object_array},
    {.id = NULL},
};
