/* symbol/elf_file.h: private to the symbol room: an ELF file opened for libelf, its sizes checked.
 *
 * Both programs and debug files; files of a target are hostile. Opened by reading, never by mapping
 * (elfutils.h says why). */
#ifndef MW_SYMBOL_ELF_FILE_H
#define MW_SYMBOL_ELF_FILE_H

#include "symbol/elfutils.h"

#if MW_WITH_SYMBOLS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MW_BUILD_ID_MAX = 64 };

struct mw_build_id {
    uint8_t bytes[MW_BUILD_ID_MAX];
    size_t length; /* 0: none */
};

struct mw_elf_file {
    const struct mw_elfutils *lib;
    Elf *elf;     /* NULL: not open */
    int fd;       /* -1: from memory */
    char *memory; /* owned; NULL: from fd */
};

#define MW_ELF_FILE_CLOSED ((struct mw_elf_file){.fd = -1})

/* Take over fd, closed on failure too. False unless it is a regular file of at most
 * MW_LIMIT_SYMBOL_FILE_BYTES, ELF64, little-endian, with sections within the bounds. */
bool mw_elf_file_open(int fd, struct mw_elf_file *file_out);

/* The same of bytes in memory, which are taken over (free()d), on failure too. */
bool mw_elf_file_open_memory(char *bytes, size_t size, struct mw_elf_file *file_out);

void mw_elf_file_close(struct mw_elf_file *file); /* closed ones are fine */

void mw_elf_file_build_id(const struct mw_elf_file *file, struct mw_build_id *id_out);
static inline bool mw_build_id_equal(const struct mw_build_id *a, const struct mw_build_id *b)
{
    return a->length > 0 && a->length == b->length &&
           __builtin_memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* The first section of that type (SHT_NULL: any) and name (NULL: any); NULL when there is none. */
Elf_Scn *mw_elf_file_section(const struct mw_elf_file *file, uint32_t type, const char *name);

/* The strings of section `index`; NULL: it has none that can be read. */
Elf_Data *mw_elf_file_strings(const struct mw_elf_file *file, size_t index);

/* The string at offset; NULL when it is not there or does not end. */
const char *mw_elf_string(const Elf_Data *strings, uint64_t offset);

/* Its call frame information (.eh_frame), for dwarf_cfi_end(); NULL: none. */
Dwarf_CFI *mw_elf_file_cfi(const struct mw_elf_file *file);

/* The symbol table that .gnu_debugdata holds packed ("MiniDebugInfo"). False: none, broken, or it
 * unpacks to more than MW_LIMIT_MINI_DEBUG_BYTES. */
bool mw_elf_file_mini(const struct mw_elf_file *file, struct mw_elf_file *mini_out);

#endif
#endif
