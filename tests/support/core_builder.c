/* tests/support/core_builder.c: see core_builder.h. Layout: fs/binfmt_elf.c of Linux 6.18. */
#include "core_builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void put(struct core_builder *core, const void *bytes, size_t length)
{
    assert(core->note_length + length + 4 <= sizeof core->notes);
    memcpy(core->notes + core->note_length, bytes, length);
    core->note_length += length;
    while (core->note_length % 4)
        core->notes[core->note_length++] = 0;
}

void core_add_note(struct core_builder *core, const char *name, uint32_t type, const void *content,
                   size_t length)
{
    const uint32_t head[] = {(uint32_t)strlen(name) + 1, (uint32_t)length, type};
    put(core, head, sizeof head);
    put(core, name, strlen(name) + 1);
    put(core, content, length);
}

void core_add_thread(struct core_builder *core, int32_t tid, uint64_t first_register)
{
    size_t count = core->machine == EM_AARCH64 ? 34 : 27;
    uint8_t bytes[112 + 34 * 8 + 8] = {0};
    bytes[12] = 11; /* SIGSEGV */
    memcpy(bytes + 32, &tid, sizeof tid);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + 112 + i * 8, &(uint64_t){first_register + i}, 8);
    core_add_note(core, "CORE", NT_PRSTATUS, bytes, 112 + count * 8 + 8);
}

void core_add_process(struct core_builder *core, int32_t pid, const char *comm,
                      const char *arguments)
{
    uint8_t bytes[136] = {0};
    const uint32_t ids[] = {1000, 1000, (uint32_t)pid, 1};
    bytes[1] = 'D';
    memcpy(bytes + 16, ids, sizeof ids);
    memcpy(bytes + 40, comm, strnlen(comm, 16));
    memcpy(bytes + 56, arguments, strnlen(arguments, 80));
    core_add_note(core, "CORE", NT_PRPSINFO, bytes, sizeof bytes);
}

void core_add_auxv(struct core_builder *core, const uint64_t (*pairs)[2], size_t count)
{
    core_add_note(core, "CORE", NT_AUXV, pairs, count * sizeof *pairs);
}

void core_add_files(struct core_builder *core, const struct core_file *files, size_t count,
                    uint64_t page_bytes)
{
    uint8_t bytes[8192];
    size_t length = 16;
    memcpy(bytes, &(uint64_t){count}, 8);
    memcpy(bytes + 8, &page_bytes, 8);
    for (size_t i = 0; i < count; i++, length += 24) {
        const uint64_t entry[] = {files[i].start, files[i].end, files[i].page};
        memcpy(bytes + length, entry, sizeof entry);
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes + length, files[i].name, strlen(files[i].name) + 1);
        length += strlen(files[i].name) + 1;
        assert(length < sizeof bytes - 512);
    }
    core_add_note(core, "CORE", NT_FILE, bytes, length);
}

void core_add_segment(struct core_builder *core, uint64_t address, uint64_t memory_bytes,
                      uint64_t file_bytes, uint32_t flags, const void *contents)
{
    assert(core->segment_count < CORE_SEGMENTS_MAX);
    core->contents[core->segment_count] = contents;
    core->segments[core->segment_count++] = (Elf64_Phdr){
        .p_type = PT_LOAD,
        .p_flags = flags,
        .p_vaddr = address,
        .p_memsz = memory_bytes,
        .p_filesz = file_bytes,
        .p_align = 4096,
    };
}

uint8_t *core_build(const struct core_builder *core, size_t *length_out)
{
    size_t count = core->segment_count + 1, notes_at = sizeof(Elf64_Ehdr) + count * 56;
    size_t length = (notes_at + core->note_length + 4095) & ~(size_t)4095;
    size_t data_at = length;
    for (size_t i = 0; i < core->segment_count; i++)
        length += core->segments[i].p_filesz;
    uint8_t *bytes = calloc(1, length);
    assert(bytes);
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = core->machine ? core->machine : EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof header,
        .e_ehsize = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = (uint16_t)count,
    };
    memcpy(bytes, &header, sizeof header);
    Elf64_Phdr notes = {.p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = core->note_length};
    memcpy(bytes + sizeof header, &notes, sizeof notes);
    memcpy(bytes + notes_at, core->notes, core->note_length);
    for (size_t i = 0; i < core->segment_count; i++) {
        Elf64_Phdr segment = core->segments[i];
        segment.p_offset = data_at;
        memcpy(bytes + sizeof header + (i + 1) * sizeof segment, &segment, sizeof segment);
        if (core->contents[i])
            memcpy(bytes + data_at, core->contents[i], segment.p_filesz);
        data_at += segment.p_filesz;
    }
    *length_out = length;
    return bytes;
}
