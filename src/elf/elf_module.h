/* elf/elf_module.h: what a program or library says of itself: build-id, dynamic section, relative
 * relocations. The bytes are those of its file or of its first page in memory.
 *
 * Pure, as elf_core.h: no files, no policy; every function checks the length of what it gets. */
#ifndef MW_ELF_ELF_MODULE_H
#define MW_ELF_ELF_MODULE_H

#include "base/cursor.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MW_ELF_BUILD_ID_MAX = 64, MW_ELF_RELA_BYTES = 24, MW_ELF_RELR_BYTES = 8 };

struct mw_elf_build_id {
    uint8_t bytes[MW_ELF_BUILD_ID_MAX];
    size_t length; /* 0: there is none */
};

/* The NT_GNU_BUILD_ID of a PT_NOTE segment; false when it has none or one that is too long. */
bool mw_elf_build_id_find(const void *notes, size_t length, struct mw_elf_build_id *id_out);

/* Tables of relocations, as file addresses and bytes. */
struct mw_elf_dynamic {
    uint64_t rela, rela_bytes;
    uint64_t jmprel, jmprel_bytes;
    uint64_t relr, relr_bytes;
    bool has_text_relocations; /* the loader writes to what is not writable */
    bool has_other_tables;     /* DT_REL, or entries of another size: not for us */
};

void mw_elf_dynamic_parse(const void *bytes, size_t length, struct mw_elf_dynamic *dynamic_out);

enum mw_elf_reloc_kind {
    MW_ELF_RELOC_NONE,
    MW_ELF_RELOC_RELATIVE, /* the word becomes bias + addend */
    MW_ELF_RELOC_IN_PLACE, /* the same, for DT_RELR: the addend is what lies there */
    MW_ELF_RELOC_OTHER,    /* one word, or two, that only the loader can tell */
    MW_ELF_RELOC_OTHER_2,
};

struct mw_elf_reloc {
    uint64_t at, addend; /* at: file address of the word */
    enum mw_elf_reloc_kind kind;
};

/* One Elf64_Rela of EM_X86_64 or EM_AARCH64; bytes has MW_ELF_RELA_BYTES. */
struct mw_elf_reloc mw_elf_rela_parse(uint16_t machine, const uint8_t *bytes);

/* Visit the address of every word that a DT_RELR table relocates: bias is to be added to what lies
 * there. Stops when visit returns false, which is then returned. At most 63 words an entry. */
typedef bool mw_elf_relr_visit(void *user, uint64_t at);
bool mw_elf_relr_each(const void *bytes, size_t length, mw_elf_relr_visit *visit, void *user);

#endif
