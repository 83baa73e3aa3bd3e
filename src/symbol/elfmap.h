/* symbol/elfmap.h: a program or library as it lies in the target's memory.
 *
 * Only what the loader mapped is there: program headers and the dynamic section, no section
 * headers. ELF64, little-endian. */
#ifndef MW_SYMBOL_ELFMAP_H
#define MW_SYMBOL_ELFMAP_H

#include "image/image.h"

struct mw_elf_map {
    struct mw_image *image;
    mw_addr base; /* of the ELF header */
    mw_addr bias; /* a virtual address of the file plus this is an address of the target */
    mw_addr end;  /* of the last segment's memory, .bss included; not page-aligned */
    mw_addr dynamic, dynamic_end;  /* the dynamic section; both 0 when there is none */
    uint64_t tls_bytes, tls_align; /* of its thread-local storage; 0 when there is none */
    bool is_executable;            /* ET_EXEC: linked to a fixed address */
};

/* Read the headers at base, the start of the mapping with file offset 0. MW_FAULT when they cannot
 * be read, MW_UNSUPPORTED when it is not an ELF64 file, MW_CORRUPT when the headers contradict
 * themselves. Two reads of at most 16 KiB. */
enum mw_status mw_elf_map_read(struct mw_image *image, mw_addr base,
                               struct mw_elf_map *map_out) MW_MUST_CHECK;

/* Calls visit(user, note type, owner name, descriptor, its size) for every note of a PT_NOTE
 * segment until it returns false. Names and descriptors above 1 KiB are skipped. */
typedef bool mw_elf_note_visit(void *user, uint32_t type, const char *name, const uint8_t *bytes,
                               size_t size);
enum mw_status mw_elf_map_notes(const struct mw_elf_map *map, mw_elf_note_visit *visit,
                                void *user) MW_MUST_CHECK;

/* Start of the mapping with file offset 0 that begins the run of mappings of the file that holds
 * address; 0 when address is in no file or that mapping is missing. O(log n + length of run). */
mw_addr mw_elf_base_of(const struct mw_image *image, mw_addr address);

#endif
