/* elf/elf_core.c: parsing of ELF64 core files. Reads through a bounds-checked cursor, keeps no
 * state, follows no pointer of the file.
 *
 *   header | program headers | notes (PT_NOTE) | memory (PT_LOAD) …
 *   note:   name length, content length, type, name padded to 4, content padded to 4
 *   NT_FILE: count, page size, count × (start, end, offset in pages), count × name\0
 *
 * References: elf(5); Linux 6.18 fs/binfmt_elf.c, include/linux/elfcore.h,
 * arch/x86/include/asm/user_64.h, arch/arm64/include/uapi/asm/ptrace.h. */
#include "elf/elf_core.h"

#include <assert.h>
#include <elf.h>
#include <string.h>

/* Offsets in struct elf_prstatus and elf_prpsinfo of a 64-bit kernel. */
enum {
    PRSTATUS_SIGNAL = 12,
    PRSTATUS_TID = 32,
    PRSTATUS_REGISTERS = 112,
    X86_64_REGISTERS = 27,
    X86_64_PC = 16,
    X86_64_SP = 19,
    X86_64_FS_BASE = 21,
    AARCH64_REGISTERS = 34,
    AARCH64_SP = 31,
    AARCH64_PC = 32,
    PRPSINFO_STATE = 1,
    PRPSINFO_UID = 16,
    PRPSINFO_PID = 24,
    PRPSINFO_COMM = 40,
    PRPSINFO_ARGUMENTS = 56,
    PRPSINFO_BYTES = 136,
};

enum mw_status mw_elf_header_parse(const void *bytes, size_t length,
                                   struct mw_elf_header *header_out)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    const uint8_t *ident = mw_cursor_take(&cur, EI_NIDENT);
    if (length < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return MW_INVALID;
    if (!ident)
        return MW_TRUNCATED;
    struct mw_elf_header header = {.class_ = ident[EI_CLASS], .data = ident[EI_DATA]};
    if (header.class_ == ELFCLASS64 && header.data == ELFDATA2LSB) {
        header.type = mw_cursor_u16(&cur);
        header.machine = mw_cursor_u16(&cur);
        mw_cursor_skip(&cur, 4); /* version */
        header.entry = mw_cursor_u64(&cur);
        header.segments_offset = mw_cursor_u64(&cur);
        header.sections_offset = mw_cursor_u64(&cur);
        mw_cursor_skip(&cur, 4 + 2); /* flags, size of this header */
        header.segment_bytes = mw_cursor_u16(&cur);
        header.segment_count = mw_cursor_u16(&cur);
        header.section_bytes = mw_cursor_u16(&cur);
        mw_cursor_skip(&cur, 2 + 2);
    }
    if (cur.failed)
        return MW_TRUNCATED;
    *header_out = header;
    return MW_OK;
}

uint32_t mw_elf_section_info(const void *bytes, size_t length)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    mw_cursor_skip(&cur, offsetof(Elf64_Shdr, sh_info));
    return mw_cursor_u32(&cur);
}

enum mw_status mw_elf_segment_parse(const void *bytes, size_t length,
                                    struct mw_elf_segment *segment_out)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    struct mw_elf_segment segment = {.type = mw_cursor_u32(&cur), .flags = mw_cursor_u32(&cur)};
    segment.offset = mw_cursor_u64(&cur);
    segment.address = mw_cursor_u64(&cur);
    mw_cursor_skip(&cur, 8); /* physical address */
    segment.file_bytes = mw_cursor_u64(&cur);
    segment.memory_bytes = mw_cursor_u64(&cur);
    mw_cursor_skip(&cur, 8); /* alignment */
    if (cur.failed)
        return MW_TRUNCATED;
    *segment_out = segment;
    return MW_OK;
}

bool mw_elf_note_next(struct mw_cursor *cursor, struct mw_elf_note *note_out)
{
    if (mw_cursor_left(cursor) == 0)
        return false;
    uint32_t name_length = mw_cursor_u32(cursor), length = mw_cursor_u32(cursor);
    struct mw_elf_note note = {.type = mw_cursor_u32(cursor)};
    note.name = (const char *)mw_cursor_take(cursor, name_length);
    mw_cursor_align(cursor, 4);
    note.content = mw_cursor_take(cursor, length);
    if (cursor->failed)
        return false;
    size_t padding = (4 - length % 4) % 4, left = mw_cursor_left(cursor);
    mw_cursor_skip(cursor, padding < left ? padding : left); /* the last may lack some or all */
    note.length = length;
    note.name_length = name_length;
    if (name_length > 0 && note.name[name_length - 1] == '\0')
        note.name_length--;
    *note_out = note;
    return !cursor->failed;
}

bool mw_elf_note_is(const struct mw_elf_note *note, const char *name, uint32_t type)
{
    return note->type == type && note->name_length == strlen(name) &&
           memcmp(note->name, name, note->name_length) == 0;
}

enum mw_status mw_elf_prstatus_parse(uint16_t machine, const void *bytes, size_t length,
                                     struct mw_elf_prstatus *status_out)
{
    struct mw_elf_prstatus status = {0};
    if (machine == EM_X86_64)
        status.register_count = X86_64_REGISTERS;
    else if (machine == EM_AARCH64)
        status.register_count = AARCH64_REGISTERS;
    else
        return MW_UNSUPPORTED;
    assert(status.register_count <= MW_ELF_REGISTERS_MAX);
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    mw_cursor_skip(&cur, PRSTATUS_SIGNAL);
    status.signal = (int16_t)mw_cursor_u16(&cur);
    mw_cursor_skip(&cur, PRSTATUS_TID - PRSTATUS_SIGNAL - 2);
    status.tid = (int32_t)mw_cursor_u32(&cur);
    mw_cursor_skip(&cur, PRSTATUS_REGISTERS - PRSTATUS_TID - 4);
    for (size_t i = 0; i < status.register_count; i++)
        status.registers[i] = mw_cursor_u64(&cur);
    if (cur.failed)
        return MW_TRUNCATED;
    bool is_x86 = machine == EM_X86_64;
    status.pc = status.registers[is_x86 ? X86_64_PC : AARCH64_PC];
    status.sp = status.registers[is_x86 ? X86_64_SP : AARCH64_SP];
    status.tp = is_x86 ? status.registers[X86_64_FS_BASE] : 0;
    *status_out = status;
    return MW_OK;
}

enum mw_status mw_elf_prpsinfo_parse(const void *bytes, size_t length,
                                     struct mw_elf_prpsinfo *info_out)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    const uint8_t *all = mw_cursor_take(&cur, PRPSINFO_BYTES);
    if (!all)
        return MW_TRUNCATED;
    struct mw_elf_prpsinfo info = {.state = (char)all[PRPSINFO_STATE]};
    memcpy(&info.uid, all + PRPSINFO_UID, sizeof info.uid);
    memcpy(&info.pid, all + PRPSINFO_PID, sizeof info.pid);
    memcpy(&info.ppid, all + PRPSINFO_PID + 4, sizeof info.ppid);
    memcpy(info.comm, all + PRPSINFO_COMM, sizeof info.comm - 1);
    memcpy(info.arguments, all + PRPSINFO_ARGUMENTS, sizeof info.arguments - 1);
    *info_out = info;
    return MW_OK;
}

enum mw_status mw_elf_files_parse(const void *bytes, size_t length, struct mw_elf_files *files_out)
{
    struct mw_cursor cur = mw_cursor_of(bytes, length);
    struct mw_elf_files files = {.count = mw_cursor_u64(&cur), .page_bytes = mw_cursor_u64(&cur)};
    enum { ENTRY_BYTES = 24 };
    if (cur.failed || files.count > mw_cursor_left(&cur) / ENTRY_BYTES)
        return MW_TRUNCATED;
    size_t entries_length = (size_t)files.count * ENTRY_BYTES;
    files.entries = mw_cursor_of(mw_cursor_take(&cur, entries_length), entries_length);
    size_t names_length = mw_cursor_left(&cur);
    files.names = mw_cursor_of(mw_cursor_take(&cur, names_length), names_length);
    *files_out = files;
    return MW_OK;
}

bool mw_elf_file_next(struct mw_elf_files *files, struct mw_elf_file *file_out)
{
    if (files->done == files->count)
        return false;
    struct mw_elf_file file = {
        .start = mw_cursor_u64(&files->entries),
        .end = mw_cursor_u64(&files->entries),
    };
    uint64_t pages = mw_cursor_u64(&files->entries);
    size_t left = mw_cursor_left(&files->names);
    const char *name = (const char *)files->names.bytes + files->names.at;
    size_t length = left > 0 ? strnlen(name, left) : 0;
    if (files->entries.failed || length == left)
        return false;
    mw_cursor_skip(&files->names, length + 1);
    file.offset = pages * files->page_bytes; /* may wrap: an offset is never used unchecked */
    file.name = name;
    file.name_length = length;
    files->done++;
    *file_out = file;
    return true;
}
