/* symbol/module.c: the files of a module and its symbols.
 *
 *   main    the mapped file (the image checks that it is that one), else a copy of what lies in
 *           memory: the vdso whole, of others the loaded segments at their place in the file
 *   debug   by build-id, debug_file.c
 *   symbols .symtab of main, else of debug and .gnu_debugdata; .dynsym beside them; without main
 *           what the loader left in memory (dynsym.h)
 *
 * A page of a live target that is not in memory is not read for this. Bounds: elf_file.h. */
#include "symbol/module.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "symbol/dynsym.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

enum { PHDRS_MAX = 256, NT_BUILD_ID = 3 };

/* ---- symbols from memory ---- */

static bool memory_symbol_visit(void *user, const char *name, const struct mw_symbol *symbol)
{
    struct mw_symtab *symtab = user;
    unsigned rank = (symbol->binding == STB_WEAK ? 2u : 3u) | (symbol->size > 0 ? 4u : 0u);
    if (symbol->type == STT_TLS || symbol->type == STT_SECTION || symbol->type == STT_FILE)
        return true;
    return mw_symtab_add(symtab, symbol->address, symbol->size, rank, name) == MW_OK;
}

static void symbols_from_memory(struct mw_names *names, struct mw_module *module)
{
    struct mw_dynsym dynsym;
    if (mw_dynsym_open(names->image, module->base, &dynsym) == MW_OK &&
        mw_dynsym_each(&dynsym, memory_symbol_visit, &module->symtab) != MW_OK)
        return; /* what was read until then stays */
}

#if MW_WITH_SYMBOLS

/* ---- the main file ---- */

static int file_of(struct mw_names *names, const struct mw_module *module)
{
    const struct mw_mapping *region = mw_image_region(names->image, module->base);
    if (!region || region->start != module->base || strcmp(region->name, module->path) != 0)
        return -1; /* unmapped since */
    return mw_image_open_file(names->image, region);
}

/* Copy the loaded segments to where they are in the file; nothing else of the file is known. */
static bool segments_copy(struct mw_image *image, const struct mw_module *module,
                          const Elf64_Phdr *phdrs, size_t count, char *bytes, size_t size)
{
    bool has_any = false;
    for (size_t i = 0; i < count; i++) {
        if (phdrs[i].p_type != PT_LOAD || phdrs[i].p_offset > size ||
            phdrs[i].p_filesz > size - phdrs[i].p_offset)
            continue;
        has_any |= mw_image_read_present(image, module->bias + phdrs[i].p_vaddr,
                                         bytes + phdrs[i].p_offset, phdrs[i].p_filesz) > 0;
    }
    return has_any;
}

static size_t segments_size(const Elf64_Phdr *phdrs, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end;
        if (phdrs[i].p_type == PT_LOAD &&
            !__builtin_add_overflow(phdrs[i].p_offset, phdrs[i].p_filesz, &end) && end > size &&
            end <= MW_LIMIT_MEMORY_MODULE_BYTES)
            size = end;
    }
    return size;
}

static struct mw_elf_file main_from_memory(struct mw_image *image, const struct mw_module *module)
{
    struct mw_elf_file file = MW_ELF_FILE_CLOSED;
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[PHDRS_MAX];
    if (mw_image_read_mapped(image, module->base, &header, sizeof header) != MW_OK ||
        header.e_phnum > PHDRS_MAX || header.e_phentsize != sizeof *phdrs ||
        mw_image_read_mapped(image, module->base + header.e_phoff, phdrs,
                             header.e_phnum * sizeof *phdrs) != MW_OK)
        return file;
    size_t size = segments_size(phdrs, header.e_phnum);
    MW_FREE char *bytes = size >= sizeof header ? mw_calloc(size, 1) : NULL;
    if (!bytes || !segments_copy(image, module, phdrs, header.e_phnum, bytes, size))
        return file;
    header.e_shoff = 0; /* section headers are not loaded */
    header.e_shnum = header.e_shstrndx = 0;
    memcpy(bytes, &header, sizeof header);
    (void)mw_elf_file_open_memory(mw_steal(bytes), size, &file);
    return file;
}

static struct mw_elf_file main_of_vdso(struct mw_image *image, const struct mw_module *module)
{
    struct mw_elf_file file = MW_ELF_FILE_CLOSED;
    const struct mw_mapping *region = mw_image_region(image, module->base);
    size_t size = region ? (size_t)(region->end - module->base) : 0;
    if (size == 0 || size > MW_LIMIT_MEMORY_MODULE_BYTES)
        return file;
    MW_FREE char *bytes = mw_calloc(size, 1);
    if (bytes && mw_image_read(image, module->base, bytes, size) == MW_OK)
        (void)mw_elf_file_open_memory(mw_steal(bytes), size, &file);
    return file;
}

const struct mw_elf_file *mw_module_main(struct mw_names *names, struct mw_module *module)
{
    if (!module->tried_main) {
        module->tried_main = true;
        module->main = MW_ELF_FILE_CLOSED;
        if (module->is_vdso)
            module->main = main_of_vdso(names->image, module);
        else if (!mw_elf_file_open(file_of(names, module), &module->main))
            module->main = main_from_memory(names->image, module);
    }
    return module->main.elf ? &module->main : NULL;
}

/* ---- the debug file ---- */

static bool build_id_visit(void *user, uint32_t type, const char *name, const uint8_t *bytes,
                           size_t size)
{
    struct mw_build_id *id = user;
    if (type != NT_BUILD_ID || strcmp(name, "GNU") != 0 || size == 0 || size > sizeof id->bytes)
        return true;
    memcpy(id->bytes, bytes, size);
    id->length = size;
    return false;
}

/* From memory first: that is what runs. */
static void build_id_of(struct mw_names *names, struct mw_module *module, struct mw_build_id *id)
{
    struct mw_elf_map map;
    *id = (struct mw_build_id){0};
    if (mw_elf_map_read(names->image, module->base, &map) != MW_OK ||
        mw_elf_map_notes(&map, build_id_visit, id) != MW_OK)
        id->length = 0;
    const struct mw_elf_file *file = id->length == 0 ? mw_module_main(names, module) : NULL;
    if (file)
        mw_elf_file_build_id(file, id);
}

const struct mw_elf_file *mw_module_debug(struct mw_names *names, struct mw_module *module)
{
    struct mw_build_id id;
    if (!module->tried_debug) {
        module->tried_debug = true;
        module->debug = MW_ELF_FILE_CLOSED;
        build_id_of(names, module, &id);
        if (id.length > 0)
            module->debug = mw_debug_file_find(names, module, &id);
    }
    return module->debug.elf ? &module->debug : NULL;
}

Dwarf *mw_module_dwarf(struct mw_names *names, struct mw_module *module)
{
    if (module->tried_dwarf)
        return module->dwarf;
    module->tried_dwarf = true;
    const struct mw_elf_file *files[] = {mw_module_main(names, module), NULL};
    bool main_has = files[0] && (mw_elf_file_section(files[0], SHT_NULL, ".debug_info") ||
                                 mw_elf_file_section(files[0], SHT_NULL, ".zdebug_info"));
    if (!main_has) {
        files[1] = files[0];
        files[0] = mw_module_debug(names, module);
    }
    for (size_t i = 0; i < 2 && !module->dwarf; i++)
        if (files[i])
            module->dwarf = files[i]->lib->dwarf_begin_elf(files[i]->elf, DWARF_C_READ, NULL);
    return module->dwarf;
}

/* ---- symbols ---- */

/* The table has copies: descriptors and what libelf holds go, unless rules or lines use them. */
static void files_release(struct mw_module *module)
{
    if (module->tried_cfi || module->tried_dwarf)
        return;
    if (module->tried_debug)
        mw_elf_file_close(&module->debug);
    if (module->tried_main)
        mw_elf_file_close(&module->main);
    module->tried_main = module->tried_debug = false;
}

static void symbols_from_files(struct mw_names *names, struct mw_module *module)
{
    const struct mw_elf_file *file = mw_module_main(names, module);
    struct mw_symtab *symtab = &module->symtab;
    bool has_table = file && mw_symtab_add_elf(symtab, file, false, module->bias);
    if (!has_table && !module->is_vdso) {
        const struct mw_elf_file *debug = mw_module_debug(names, module);
        struct mw_elf_file mini;
        if (debug)
            has_table = mw_symtab_add_elf(symtab, debug, false, module->bias);
        if (!has_table && file && mw_elf_file_mini(file, &mini)) {
            (void)mw_symtab_add_elf(symtab, &mini, false, module->bias);
            mw_elf_file_close(&mini);
        }
    }
    if (!file || !mw_symtab_add_elf(symtab, file, true, module->bias))
        symbols_from_memory(names, module);
    files_release(module);
}

void mw_module_deinit(struct mw_module *module)
{
    if (module->eh_cfi)
        module->main.lib->dwarf_cfi_end(module->eh_cfi);
    if (module->dwarf)
        mw_elfutils()->dwarf_end(module->dwarf);
    if (module->tried_debug)
        mw_elf_file_close(&module->debug);
    if (module->tried_main)
        mw_elf_file_close(&module->main);
    mw_symtab_deinit(&module->symtab);
    free(module->path);
    *module = (struct mw_module){0};
}

#else

static void symbols_from_files(struct mw_names *names, struct mw_module *module)
{
    symbols_from_memory(names, module);
}

void mw_module_deinit(struct mw_module *module)
{
    mw_symtab_deinit(&module->symtab);
    free(module->path);
    *module = (struct mw_module){0};
}

#endif

static void say_missing(struct mw_names *names)
{
    if (!names->said_missing)
        mw_finding_add(&names->image->findings, "symbols-limited", 0, 0,
                       "%s; only what the loader needs has a name", mw_elfutils_missing());
    names->said_missing = true;
}

const struct mw_symtab *mw_module_symbols(struct mw_names *names, struct mw_module *module)
{
    if (module->has_symtab)
        return &module->symtab;
    module->has_symtab = true;
    if (mw_elfutils()) {
        symbols_from_files(names, module);
    } else {
        say_missing(names);
        symbols_from_memory(names, module);
    }
    mw_symtab_sort(&module->symtab);
    return &module->symtab;
}
