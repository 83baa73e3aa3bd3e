/* elf/elf_core.h: the bytes of an ELF64 little-endian core file → structs.
 *
 * Pure: no files, no policy. Every function gets the bytes it needs and checks their length;
 * numbers are as the file says, whether sensible or not. */
#ifndef MW_ELF_ELF_CORE_H
#define MW_ELF_ELF_CORE_H

#include "base/cursor.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MW_ELF_HEADER_BYTES = 64,
    MW_ELF_SEGMENT_BYTES = 56,
    MW_ELF_SECTION_BYTES = 64,
    MW_ELF_REGISTERS_MAX = 34,
};

struct mw_elf_header {
    uint8_t class_; /* ELFCLASS32, ELFCLASS64 */
    uint8_t data;   /* ELFDATA2LSB, ELFDATA2MSB */
    uint16_t type, machine;
    uint64_t entry, segments_offset, sections_offset;
    uint32_t segment_count; /* PN_XNUM (0xffff): see mw_elf_section_info */
    uint16_t segment_bytes, section_bytes;
};

/* The first MW_ELF_HEADER_BYTES of a file. MW_INVALID when it is not ELF, MW_TRUNCATED when it is
 * and ends too early. Of a 32-bit or big-endian file only class_ and data are filled. */
enum mw_status mw_elf_header_parse(const void *bytes, size_t length,
                                   struct mw_elf_header *header_out) MW_MUST_CHECK;

/* sh_info of one section header: of section 0 it is the number of segments when e_phnum is
 * PN_XNUM. 0 when the bytes are too few. */
uint32_t mw_elf_section_info(const void *bytes, size_t length);

struct mw_elf_segment {
    uint32_t type, flags;
    uint64_t offset, address, file_bytes, memory_bytes;
};

/* One program header. MW_TRUNCATED. */
enum mw_status mw_elf_segment_parse(const void *bytes, size_t length,
                                    struct mw_elf_segment *segment_out) MW_MUST_CHECK;

struct mw_elf_note {
    uint32_t type;
    const char *name; /* not terminated, without its final zero byte */
    size_t name_length;
    const uint8_t *content;
    size_t length;
};

/* The next note of a PT_NOTE segment; false at the end or when the rest makes no sense: then
 * cursor->failed tells which. Pointers are into the cursor's bytes. */
bool mw_elf_note_next(struct mw_cursor *cursor, struct mw_elf_note *note_out);

bool mw_elf_note_is(const struct mw_elf_note *note, const char *name, uint32_t type);

/* NT_PRSTATUS: one thread. */
struct mw_elf_prstatus {
    int32_t tid;
    int16_t signal;
    uint64_t registers[MW_ELF_REGISTERS_MAX]; /* in the order of the note */
    size_t register_count;
    uint64_t pc, sp, tp; /* tp: fs_base; 0 on aarch64, where NT_ARM_TLS has it */
};

/* machine: EM_X86_64 or EM_AARCH64, else MW_UNSUPPORTED. MW_TRUNCATED. */
enum mw_status mw_elf_prstatus_parse(uint16_t machine, const void *bytes, size_t length,
                                     struct mw_elf_prstatus *status_out) MW_MUST_CHECK;

/* NT_PRPSINFO: the process. */
struct mw_elf_prpsinfo {
    char state; /* letter, 0 unknown */
    uint32_t uid;
    int32_t pid, ppid;
    char comm[17], arguments[81]; /* terminated; not escaped */
};

enum mw_status mw_elf_prpsinfo_parse(const void *bytes, size_t length,
                                     struct mw_elf_prpsinfo *info_out) MW_MUST_CHECK;

/* NT_FILE: the mappings of files. Entries first, then their names one after the other. */
struct mw_elf_files {
    struct mw_cursor entries, names;
    uint64_t count, page_bytes, done;
};

struct mw_elf_file {
    uint64_t start, end, offset; /* offset in bytes */
    const char *name;            /* terminated, into the note */
    size_t name_length;
};

enum mw_status mw_elf_files_parse(const void *bytes, size_t length,
                                  struct mw_elf_files *files_out) MW_MUST_CHECK;

/* The next entry; false at the end or where the note is cut. */
bool mw_elf_file_next(struct mw_elf_files *files, struct mw_elf_file *file_out);

#endif
