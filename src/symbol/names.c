/* symbol/names.c: from an address to a name.
 *
 *   regions -> modules (base, end, path), ascending; listed once, at the first question
 *
 * A module is a run of mappings of one file that begins with its ELF header. What follows it
 * without a name, up to the end of its last segment, is its .bss. Trusts nothing: ends are cut at
 * the next mapping of another file, so that no header can claim what is not its own. */
#include "symbol/module.h"

#include "base/limits.h"
#include "base/vec.h"
#include "image/near.h"
#include "symbol/demangle.h"
#include "symbol/elfmap.h"

#include <stdio.h>
#include <string.h>

/* ---- modules ---- */

/* End of what the module that begins with region `first` can own. */
static mw_addr run_end(const struct mw_image *image, size_t first, mw_addr claimed)
{
    const struct mw_mapping *begin = &image->regions.items[first];
    mw_addr end = begin->end;
    for (size_t i = first + 1; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        bool is_other = map->name[0] != '\0' && strcmp(map->name, begin->name) != 0;
        if (map->start >= claimed || is_other || (map->offset == 0 && map->name[0] != '\0'))
            break;
        end = map->end;
    }
    return end < claimed ? end : claimed;
}

/* A core of the kernel has it without its name. */
static bool is_vdso_region(const struct mw_image *image, const struct mw_mapping *map)
{
    return strcmp(map->name, "[vdso]") == 0 ||
           (image->vdso != 0 && map->start == image->vdso && map->name[0] == '\0');
}

static bool may_begin(const struct mw_image *image, const struct mw_mapping *map)
{
    return is_vdso_region(image, map) || (map->offset == 0 && map->name[0] == '/');
}

/* A vDSO that the process has never called is in its page table only once it is read, and nothing
 * that needs a name leads there. */
static bool is_untouched(struct mw_image *image, const struct mw_mapping *map)
{
    uint8_t flags;
    return image->kind == MW_IMAGE_LIVE &&
           mw_image_pages_near(image, map->start, 1, &flags) == MW_OK && !(flags & MW_PAGE_PRESENT);
}

static enum mw_status module_add(struct mw_names *names, size_t region)
{
    struct mw_image *image = names->image;
    const struct mw_mapping *map = &image->regions.items[region];
    struct mw_elf_map elf;
    bool is_vdso = is_vdso_region(image, map);
    if ((is_vdso && is_untouched(image, map)) || mw_elf_map_read(image, map->start, &elf) != MW_OK)
        return MW_OK;
    struct mw_module module = {
        .base = map->start,
        .end = run_end(image, region, elf.end),
        .bias = elf.bias,
        .is_vdso = is_vdso,
        .path = mw_strdup(is_vdso ? "[vdso]" : map->name),
    };
    enum mw_status status = MW_NOMEM;
    if (module.path)
        status = mw_vec_push(&names->modules, MW_LIMIT_MODULES, module);
    if (status != MW_OK)
        free(module.path);
    return status;
}

static void modules_list(struct mw_names *names)
{
    const struct mw_mapping_list *regions = &names->image->regions;
    enum mw_status status = MW_OK;
    if (names->is_listed)
        return;
    names->is_listed = true;
    for (size_t i = 0; status == MW_OK && i < regions->count; i++)
        if (may_begin(names->image, &regions->items[i]))
            status = module_add(names, i);
}

struct mw_module *mw_names_module(struct mw_names *names, mw_addr address)
{
    modules_list(names);
    size_t low = 0, high = names->modules.count; /* the first module with base > address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names->modules.items[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    struct mw_module *module = low > 0 ? &names->modules.items[low - 1] : NULL;
    return module && address < module->end ? module : NULL;
}

/* ---- the interface ---- */

enum mw_status mw_names_open(struct mw_image *image, const struct mw_names_options *options,
                             struct mw_context *context, struct mw_names **names_out,
                             struct mw_error *err)
{
    struct mw_names *names = mw_calloc(1, sizeof *names);
    if (!names)
        return mw_fail(err, MW_NOMEM, "out of memory for symbols");
    names->image = image;
    names->context = context;
    if (options)
        names->options = *options;
    *names_out = names;
    return MW_OK;
}

void mw_names_free(struct mw_names *names)
{
    if (!names)
        return;
    for (size_t i = 0; i < names->modules.count; i++)
        mw_module_deinit(&names->modules.items[i]);
    mw_symtab_deinit(&names->perf_map);
    mw_vec_deinit(&names->modules);
    free(names);
}

/* Copy text, cut to room with "..." at its end. */
static void text_copy(char *to, size_t room, const char *text)
{
    size_t length = strlen(text);
    if (length < room) {
        memcpy(to, text, length + 1);
        return;
    }
    memcpy(to, text, room - 4);
    memcpy(to + room - 4, "...", 4);
}

/* Put the symbol that look_at is in into name. */
static bool symbol_put(const struct mw_symtab *symtab, mw_addr address, mw_addr look_at,
                       struct mw_name *name)
{
    const struct mw_symtab_entry *entry = mw_symtab_find(symtab, look_at);
    if (!entry)
        return false;
    const char *raw = mw_symtab_name(symtab, entry);
    if (!mw_demangle(raw, name->symbol, sizeof name->symbol))
        text_copy(name->symbol, sizeof name->symbol, raw);
    name->symbol_address = entry->address;
    name->symbol_offset = address - entry->address;
    name->is_exact = entry->size > 0;
    return true;
}

static bool resolve(struct mw_names *names, mw_addr address, mw_addr look_at, struct mw_name *name)
{
    memset(name, 0, sizeof *name);
    struct mw_module *module = mw_names_module(names, look_at);
    if (!module) {
        bool is_made = symbol_put(mw_names_perf_map(names), address, look_at, name);
        if (is_made)
            text_copy(name->module, sizeof name->module, "[perf map]");
        return is_made;
    }
    const char *slash = strrchr(module->path, '/');
    text_copy(name->module, sizeof name->module, slash ? slash + 1 : module->path);
    name->module_base = module->base;
    name->module_offset = address - module->base;
    (void)symbol_put(mw_module_symbols(names, module), address, look_at, name);
    return true;
}

bool mw_names_resolve(struct mw_names *names, mw_addr address, struct mw_name *name_out)
{
    return resolve(names, address, address, name_out);
}

bool mw_names_resolve_return(struct mw_names *names, mw_addr address, struct mw_name *name_out)
{
    return resolve(names, address, address > 0 ? address - 1 : 0, name_out);
}

void mw_names_format(const struct mw_name *name, char text[MW_NAME_TEXT_ROOM])
{
    char offset[32] = "";
    if (name->symbol[0] == '\0') {
        if (name->module[0] != '\0')
            snprintf(text, MW_NAME_TEXT_ROOM, "%s+0x%llx", name->module,
                     (unsigned long long)name->module_offset);
        else
            text[0] = '\0';
        return;
    }
    if (name->symbol_offset > 0)
        snprintf(offset, sizeof offset, "+0x%llx", (unsigned long long)name->symbol_offset);
    if (name->module[0] != '\0')
        snprintf(text, MW_NAME_TEXT_ROOM, "%s%s (%s)", name->symbol, offset, name->module);
    else
        snprintf(text, MW_NAME_TEXT_ROOM, "%s%s", name->symbol, offset);
}
