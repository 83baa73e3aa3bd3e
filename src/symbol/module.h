/* symbol/module.h: private to the symbol room: one program or library of an image, and what is
 * known of it so far. Everything is filled when first asked for. */
#ifndef MW_SYMBOL_MODULE_H
#define MW_SYMBOL_MODULE_H

#include "base/vec.h"
#include "symbol/elf_file.h"
#include "symbol/names.h"
#include "symbol/symtab.h"

struct mw_module {
    mw_addr base, end, bias; /* a virtual address of its file plus bias is one of the target */
    char *path;              /* as the target sees it */
    bool is_vdso;

    bool has_symtab;
    struct mw_symtab symtab;

#if MW_WITH_SYMBOLS
    bool tried_main, tried_debug, tried_cfi, tried_dwarf;
    struct mw_elf_file main;  /* its file, else what of it is in memory */
    struct mw_elf_file debug; /* the separate debug file */
    Dwarf_CFI *eh_cfi;        /* .eh_frame of main; .debug_frame belongs to dwarf */
    Dwarf *dwarf;             /* of debug, else of main */
#endif
};

struct mw_names {
    struct mw_image *image;
    struct mw_names_options options;
    struct mw_context *context;
    bool is_listed, said_missing;
    MW_VEC(struct mw_module) modules; /* ascending, disjoint */
    bool has_perf_map;
    struct mw_symtab perf_map;
};

/* names.c: the module that address is in, or NULL. */
struct mw_module *mw_names_module(struct mw_names *names, mw_addr address);

/* The symbols of a module, sorted. */
const struct mw_symtab *mw_module_symbols(struct mw_names *names, struct mw_module *module);

/* perf_map.c: what a runtime wrote of the code it made; empty when it wrote nothing. */
const struct mw_symtab *mw_names_perf_map(struct mw_names *names);

#if MW_WITH_SYMBOLS
/* Its ELF file, or the separate one with debug information; NULL: there is none. */
const struct mw_elf_file *mw_module_main(struct mw_names *names, struct mw_module *module);
const struct mw_elf_file *mw_module_debug(struct mw_names *names, struct mw_module *module);
/* Its DWARF, of the debug file if it has one; NULL: none. */
Dwarf *mw_module_dwarf(struct mw_names *names, struct mw_module *module);

/* debug_file.c: the file with debug information of that build-id, checked; closed when nowhere. */
struct mw_elf_file mw_debug_file_find(struct mw_names *names, const struct mw_module *module,
                                      const struct mw_build_id *id);
#endif

void mw_module_deinit(struct mw_module *module);

#endif
