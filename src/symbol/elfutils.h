/* symbol/elfutils.h: libelf and libdw of elfutils, libdebuginfod and liblzma, loaded when first
 * asked for.
 *
 * Most of memwhy needs none of them, and a machine without them must still get its report: so the
 * program is not linked to them but takes what it needs when a name is wanted. The static program
 * has them inside (but debuginfod). Build without them: -Dsymbols=disabled, and all is NULL here.
 *
 * Whoever reads ELF files with them keeps to two rules. ELF_C_READ, never a mapping: the owner of a
 * file may cut it while we read, and a mapping would kill us with SIGBUS. And sizes are compared
 * with a bound before a section is asked for (elf_file.h). */
#ifndef MW_SYMBOL_ELFUTILS_H
#define MW_SYMBOL_ELFUTILS_H

#include "base/error.h"

#if MW_WITH_SYMBOLS

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <lzma.h>

#define MW_ELFUTILS_FUNCTIONS(each)                                                                \
    each(elf_version) each(elf_begin) each(elf_memory) each(elf_end) each(elf_kind)                \
        each(elf_getshdrnum) each(elf_getshdrstrndx) each(elf_nextscn) each(elf_getscn)            \
            each(elf_getdata) each(elf_rawdata) each(gelf_getehdr) each(gelf_getshdr)              \
                each(gelf_getchdr) each(gelf_getsym) each(dwelf_elf_gnu_build_id)                  \
                    each(dwarf_getcfi_elf) each(dwarf_cfi_end) each(dwarf_cfi_addrframe)           \
                        each(dwarf_frame_info) each(dwarf_frame_cfa) each(dwarf_frame_register)    \
                            each(dwarf_begin_elf) each(dwarf_end) each(dwarf_getcfi)               \
                                each(dwarf_nextcu) each(dwarf_offdie) each(dwarf_addrdie)          \
                                    each(dwarf_haspc) each(dwarf_getsrc_die) each(dwarf_lineno)    \
                                        each(dwarf_linesrc) each(dwarf_lineaddr)
#define MW_LZMA_FUNCTIONS(each) each(lzma_stream_decoder) each(lzma_code) each(lzma_end)

struct mw_elfutils {
#define MW_ELFUTILS_MEMBER(name) __typeof__(name) *name;
    MW_ELFUTILS_FUNCTIONS(MW_ELFUTILS_MEMBER)
    MW_LZMA_FUNCTIONS(MW_ELFUTILS_MEMBER)
#undef MW_ELFUTILS_MEMBER
    bool has_lzma;

    /* The debug file of a build-id from the servers that DEBUGINFOD_URLS names: a descriptor, or
     * negative. NULL: no libdebuginfod. */
    int (*debuginfod_find)(const unsigned char *build_id, int length);
};

#else
struct mw_elfutils;
#endif

/* The functions; NULL when they cannot be had. The first call loads the libraries: about 2 ms. */
const struct mw_elfutils *mw_elfutils(void);

/* Why they cannot be had and what to install, for an error or a finding; "" when they can. */
const char *mw_elfutils_missing(void);

/* What to do about it, for a hint. */
const char *mw_elfutils_remedy(void);

#endif
