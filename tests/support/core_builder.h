/* tests/support/core_builder.h: ELF64 core files made byte by byte.
 *
 * Add notes and segments, then build: header, program headers, notes, contents at whole pages.
 * Every field can be damaged afterwards in the finished bytes. */
#ifndef MW_TESTS_CORE_BUILDER_H
#define MW_TESTS_CORE_BUILDER_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

enum { CORE_SEGMENTS_MAX = 64, CORE_NOTE_BYTES_MAX = 64 << 10 };

struct core_builder {
    uint16_t machine; /* 0: EM_X86_64 */
    Elf64_Phdr segments[CORE_SEGMENTS_MAX];
    const void *contents[CORE_SEGMENTS_MAX];
    size_t segment_count;
    uint8_t notes[CORE_NOTE_BYTES_MAX];
    size_t note_length;
};

void core_add_note(struct core_builder *core, const char *name, uint32_t type, const void *content,
                   size_t length);
/* NT_PRSTATUS: register i holds first_register + i. */
void core_add_thread(struct core_builder *core, int32_t tid, uint64_t first_register);
void core_add_process(struct core_builder *core, int32_t pid, const char *comm,
                      const char *arguments);
void core_add_auxv(struct core_builder *core, const uint64_t (*pairs)[2], size_t count);

struct core_file {
    uint64_t start, end, page;
    const char *name;
};
void core_add_files(struct core_builder *core, const struct core_file *files, size_t count,
                    uint64_t page_bytes);

/* file_bytes of contents, memory_bytes in all; contents NULL: zeros. */
void core_add_segment(struct core_builder *core, uint64_t address, uint64_t memory_bytes,
                      uint64_t file_bytes, uint32_t flags, const void *contents);

/* The finished file, allocated. */
uint8_t *core_build(const struct core_builder *core, size_t *length_out);

#endif
