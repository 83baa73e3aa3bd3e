/* symbol/symtab.h: symbols of one module (or of a perf map) by address.
 *
 * Filled from any number of sources, then sorted once; found by bisection. Holds copies: 24 bytes a
 * symbol and its name. */
#ifndef MW_SYMBOL_SYMTAB_H
#define MW_SYMBOL_SYMTAB_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mw_symtab_entry {
    mw_addr address;
    uint64_t size : 60; /* 0: not told */
    uint64_t rank : 4;  /* among those at one address the highest is the name */
    uint32_t name;      /* offset in names */
};

struct mw_symtab {
    struct mw_symtab_entry *items;
    size_t count, room;
    char *names;
    size_t names_used, names_room;
    bool is_sorted;
};

/* Add one. Names of more than 4 KiB are cut. MW_NOMEM, MW_LIMIT: it is not added. */
enum mw_status mw_symtab_add(struct mw_symtab *symtab, mw_addr address, uint64_t size,
                             unsigned rank, const char *name) MW_MUST_CHECK;

/* Sort, and keep one name of each address: one with a size, not a local one, with the fewest
 * underscores at its beginning (read rather than __read), and then the one added last. */
void mw_symtab_sort(struct mw_symtab *symtab);

/* The symbol that address is in: the last that begins at or before it and does not end before it,
 * or one of no told size at most 4 KiB before it if nothing else begins in between. NULL: none.
 * O(log n). */
const struct mw_symtab_entry *mw_symtab_find(const struct mw_symtab *symtab, mw_addr address);

static inline const char *mw_symtab_name(const struct mw_symtab *symtab,
                                         const struct mw_symtab_entry *entry)
{
    return symtab->names + entry->name;
}

void mw_symtab_deinit(struct mw_symtab *symtab);

struct mw_elf_file;

/* Functions and data of .symtab (or of .dynsym), bias added. False: there is no such table. */
bool mw_symtab_add_elf(struct mw_symtab *symtab, const struct mw_elf_file *file, bool is_dynamic,
                       uint64_t bias);

/* A perf map: lines "START SIZE NAME", hexadecimal. What is not such a line is skipped. */
void mw_symtab_add_perf_map(struct mw_symtab *symtab, const char *text, size_t length);

#endif
