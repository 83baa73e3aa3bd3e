/* elf/elf_module.c: build-id, dynamic section and relocations of an ELF64 little-endian module.
 *
 * Trusts nothing: tables are parsed as they come, entry by entry, and addresses are only numbers.
 *
 *   DT_RELR: an even word is an address: relocate it, and go on behind it. An odd word is a bitmap:
 *   bit i (1 to 63) is the word i - 1 from there; then go on 63 words behind.
 *
 * References: gABI; the proposal of DT_RELR in the gABI list (glibc 2.36 elf/do-rel.h); x86-64
 * psABI table of relocations; AArch64 ELF ABI, dynamic relocations. */
#include "elf/elf_module.h"

#include "elf/elf_core.h"

#include <elf.h>
#include <string.h>

enum { RELR_BITS = 63, WORD_BYTES = 8 };

bool mw_elf_build_id_find(const void *notes, size_t length, struct mw_elf_build_id *id_out)
{
    struct mw_cursor cur = mw_cursor_of(notes, length);
    struct mw_elf_note note;
    while (mw_elf_note_next(&cur, &note)) {
        if (!mw_elf_note_is(&note, "GNU", NT_GNU_BUILD_ID))
            continue;
        if (note.length == 0 || note.length > MW_ELF_BUILD_ID_MAX)
            return false;
        *id_out = (struct mw_elf_build_id){.length = note.length};
        memcpy(id_out->bytes, note.content, note.length);
        return true;
    }
    return false;
}

static void dynamic_apply(struct mw_elf_dynamic *dynamic, uint64_t tag, uint64_t value)
{
    const struct {
        uint64_t tag;
        uint64_t *field;
    } fields[] = {
        {DT_RELA, &dynamic->rela},          {DT_RELASZ, &dynamic->rela_bytes},
        {DT_JMPREL, &dynamic->jmprel},      {DT_PLTRELSZ, &dynamic->jmprel_bytes},
        {36 /* DT_RELR */, &dynamic->relr}, {35 /* DT_RELRSZ */, &dynamic->relr_bytes},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].tag == tag)
            *fields[i].field = value;
    dynamic->has_text_relocations |= tag == DT_TEXTREL || (tag == DT_FLAGS && (value & DF_TEXTREL));
    dynamic->has_other_tables |= tag == DT_REL || (tag == DT_PLTREL && value != DT_RELA) ||
                                 (tag == DT_RELAENT && value != MW_ELF_RELA_BYTES) ||
                                 (tag == 37 /* DT_RELRENT */ && value != MW_ELF_RELR_BYTES);
}

void mw_elf_dynamic_parse(const void *bytes, size_t length, struct mw_elf_dynamic *dynamic_out)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    *dynamic_out = (struct mw_elf_dynamic){0};
    for (;;) {
        uint64_t tag = mw_cursor_u64(&cur), value = mw_cursor_u64(&cur);
        if (cur.failed || tag == DT_NULL)
            return;
        dynamic_apply(dynamic_out, tag, value);
    }
}

struct mw_elf_reloc mw_elf_rela_parse(uint16_t machine, const uint8_t *bytes)
{
    enum { AARCH64_RELATIVE = 1027, AARCH64_TLSDESC = 1031 };
    struct mw_cursor cur = mw_cursor_of(bytes, MW_ELF_RELA_BYTES);
    struct mw_elf_reloc reloc = {.at = mw_cursor_u64(&cur)};
    uint32_t type = (uint32_t)mw_cursor_u64(&cur);
    reloc.addend = mw_cursor_u64(&cur);
    bool is_x86 = machine == EM_X86_64;
    if (type == 0)
        reloc.kind = MW_ELF_RELOC_NONE;
    else if (type == (is_x86 ? R_X86_64_RELATIVE : AARCH64_RELATIVE))
        reloc.kind = MW_ELF_RELOC_RELATIVE;
    else if (type == (is_x86 ? R_X86_64_TLSDESC : AARCH64_TLSDESC))
        reloc.kind = MW_ELF_RELOC_OTHER_2;
    else
        reloc.kind = MW_ELF_RELOC_OTHER;
    return reloc;
}

bool mw_elf_relr_each(const void *bytes, size_t length, mw_elf_relr_visit *visit, void *user)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    uint64_t next = 0;
    while (mw_cursor_left(&cur) >= MW_ELF_RELR_BYTES) {
        uint64_t entry = mw_cursor_u64(&cur);
        if (!(entry & 1)) {
            if (!visit(user, entry))
                return false;
            next = entry + WORD_BYTES; /* may wrap: nobody believes an address unchecked */
            continue;
        }
        for (uint64_t i = 0; entry >>= 1; i++)
            if ((entry & 1) && !visit(user, next + i * WORD_BYTES))
                return false;
        next += RELR_BITS * WORD_BYTES;
    }
    return true;
}
