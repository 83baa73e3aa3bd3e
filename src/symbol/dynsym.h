/* symbol/dynsym.h: the dynamic symbols of a module, read from the target's memory.
 *
 * They are there even in stripped programs, because the loader needs them, and no file is needed:
 * it works on a core and in another mount namespace. */
#ifndef MW_SYMBOL_DYNSYM_H
#define MW_SYMBOL_DYNSYM_H

#include "symbol/elfmap.h"

struct mw_dynsym {
    struct mw_elf_map elf;
    mw_addr symbols, strings;    /* of the tables */
    uint64_t string_bytes;       /* 0: not told */
    mw_addr gnu_hash, sysv_hash; /* 0: there is none */
};

struct mw_symbol {
    mw_addr address; /* for a thread-local one: its offset in the module's block */
    uint64_t size;
    uint8_t type;    /* STT_FUNC 2, STT_OBJECT 1, STT_TLS 6, STT_GNU_IFUNC 10 */
    uint8_t binding; /* STB_GLOBAL 1, STB_WEAK 2 */
};

/* Find the tables of the module whose ELF header is at base. MW_NOT_FOUND when it has no dynamic
 * symbols; else as mw_elf_map_read(). */
enum mw_status mw_dynsym_open(struct mw_image *image, mw_addr base,
                              struct mw_dynsym *dynsym_out) MW_MUST_CHECK;

/* A defined symbol by its name, of whatever version. MW_NOT_FOUND, MW_FAULT, MW_CORRUPT. A few
 * small reads through the hash table. */
enum mw_status mw_dynsym_find(const struct mw_dynsym *dynsym, const char *name,
                              struct mw_symbol *symbol_out) MW_MUST_CHECK;

/* Is there a defined symbol of that name? */
bool mw_dynsym_has(const struct mw_dynsym *dynsym, const char *name);

/* Visit every defined symbol until visit returns false. The name lives until visit returns; names
 * longer than 1 KiB are cut. MW_LIMIT above MW_LIMIT_ELF_SYMBOLS. */
typedef bool mw_dynsym_visit(void *user, const char *name, const struct mw_symbol *symbol);
enum mw_status mw_dynsym_each(const struct mw_dynsym *dynsym, mw_dynsym_visit *visit,
                              void *user) MW_MUST_CHECK;

#endif
