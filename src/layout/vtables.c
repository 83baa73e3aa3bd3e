/* layout/vtables.c: the vtables of a module that has no typeinfo, by its dynamic symbols.
 *
 * Programs that are built without RTTI (Node.js, the JVM) may still export `_ZTV` symbols: an
 * object's first word is such a symbol's address + 16 (Itanium C++ ABI, 2.5.2). Read once for a
 * module, in one pass over its dynamic symbols; at most 4 MiB for all modules. */
#include "layout/scope.h"

#include "base/alloc.h"
#include "base/vec.h"
#include "symbol/dynsym.h"

#include <stdlib.h>
#include <string.h>

enum {
    VTABLE_BYTES_MAX = 4 << 20, /* of one scope */
    VTABLE_FIRST = 16,          /* from the symbol to where objects point */
    NAME_MAX_BYTES = 1024,
};

struct collected {
    MW_VEC(struct mw_scope_vtable) vtables;
    MW_VEC(char) names;
    size_t bytes_left;
};

static bool names_put(struct collected *collected, const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (mw_vec_push(&collected->names, VTABLE_BYTES_MAX, name[i]) != MW_OK)
            return false;
    return true;
}

static bool collect(void *user, const char *name, const struct mw_symbol *symbol)
{
    struct collected *collected = user;
    if (strncmp(name, "_ZTV", 4) != 0 || symbol->address > UINT64_MAX - VTABLE_FIRST)
        return true;
    size_t bytes = strnlen(name + 4, NAME_MAX_BYTES) + 1;
    size_t cost = bytes + sizeof(struct mw_scope_vtable);
    if (bytes > NAME_MAX_BYTES || cost > collected->bytes_left)
        return bytes > NAME_MAX_BYTES;
    struct mw_scope_vtable vtable = {symbol->address + VTABLE_FIRST,
                                     (uint32_t)collected->names.count};
    if (!names_put(collected, name + 4, bytes))
        return false;
    if (mw_vec_push(&collected->vtables, VTABLE_BYTES_MAX / sizeof vtable, vtable) != MW_OK)
        return false;
    collected->bytes_left -= cost;
    return true;
}

static int by_address(const void *left, const void *right)
{
    const struct mw_scope_vtable *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void vtables_load(struct mw_layout_scope *scope, struct mw_scope_module *module)
{
    struct mw_dynsym dynsym;
    module->vtables_known = true;
    if (mw_dynsym_open(scope->image, module->base, &dynsym) != MW_OK)
        return;
    struct collected collected = {.bytes_left = VTABLE_BYTES_MAX - scope->vtable_bytes};
    size_t before = collected.bytes_left;
    enum mw_status status = mw_dynsym_each(&dynsym, collect, &collected);
    (void)status; /* those that came before it failed are good */
    scope->vtable_bytes += before - collected.bytes_left;
    if (collected.vtables.count > 0)
        qsort(collected.vtables.items, collected.vtables.count, sizeof *collected.vtables.items,
              by_address);
    module->vtables = collected.vtables.items;
    module->vtable_count = collected.vtables.count;
    module->vtable_names = collected.names.items;
}

const char *mw_scope_vtable_name(struct mw_layout_scope *scope, struct mw_scope_module *module,
                                 mw_addr address)
{
    if (!module->vtables_known)
        vtables_load(scope, module);
    struct mw_scope_vtable key = {.address = address};
    const struct mw_scope_vtable *found = module->vtable_count > 0
                                              ? bsearch(&key, module->vtables, module->vtable_count,
                                                        sizeof *module->vtables, by_address)
                                              : NULL;
    return found ? module->vtable_names + found->name : NULL;
}
