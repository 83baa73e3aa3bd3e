/* tests/fuzz/fuzz_notes.c: any bytes as the notes of a core.
 *
 * Input: a byte of choice (bit 0: aarch64; bits 1-2: cut the file so many bytes after their start),
 * then the notes. The core around them has three segments of memory. What must hold: the notes that
 * are found lie in the bytes, one behind the other; every whole NT_PRSTATUS that a plain reading of
 * the same bytes finds is a thread, in its order, with its registers, and no thread comes from
 * elsewhere; names of regions stand in the bytes, and belong to a file that was said to lie there;
 * texts have no control characters; the three segments are regions, and there are others only where
 * a file is said to lie, unless the core is cut. */
#include "base/io.h"
#include "image/core.h"
#include "image/open.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGIONS = 3, PAGE = 4096, HEADERS = 64 + (REGIONS + 1) * 56 };

static const mw_addr ADDRESSES[REGIONS] = {0x555555600000, 0x7f0000000000, 0x7ffff7a00000};

static void must(int good)
{
    if (!good)
        abort();
}

static size_t headers_put(uint8_t *file, size_t note_bytes, uint16_t machine)
{
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = machine,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof header,
        .e_ehsize = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = REGIONS + 1,
    };
    Elf64_Phdr segments[REGIONS + 1] = {
        {.p_type = PT_NOTE, .p_offset = HEADERS, .p_filesz = note_bytes}};
    for (size_t i = 0; i < REGIONS; i++)
        segments[i + 1] = (Elf64_Phdr){
            .p_type = PT_LOAD,
            .p_flags = PF_R | PF_W,
            .p_vaddr = ADDRESSES[i],
            .p_offset = HEADERS + note_bytes + i * PAGE,
            .p_filesz = PAGE,
            .p_memsz = PAGE,
        };
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, segments, sizeof segments);
    return HEADERS + note_bytes + (size_t)REGIONS * PAGE;
}

/* -- a plain reading of the same notes -------------------------------------------------------- */

struct plain {
    const uint8_t *bytes;
    size_t size, at;
    Elf64_Nhdr head;
    const uint8_t *name, *content;
};

static bool plain_next(struct plain *plain)
{
    if (plain->size - plain->at < sizeof plain->head)
        return false;
    memcpy(&plain->head, plain->bytes + plain->at, sizeof plain->head);
    uint64_t name_room = ((uint64_t)plain->head.n_namesz + 3) & ~(uint64_t)3;
    uint64_t left = plain->size - plain->at - sizeof plain->head;
    if (name_room > left || plain->head.n_descsz > left - name_room)
        return false;
    plain->name = plain->bytes + plain->at + sizeof plain->head;
    plain->content = plain->name + name_room;
    uint64_t room = ((uint64_t)plain->head.n_descsz + 3) & ~(uint64_t)3;
    room = room < left - name_room ? room : left - name_room;
    plain->at += sizeof plain->head + (size_t)(name_room + room);
    return true;
}

static bool plain_is(const struct plain *plain, uint32_t type)
{
    uint32_t length = plain->head.n_namesz; /* its zero byte may lack */
    return plain->head.n_type == type && (length == 4 || length == 5) &&
           memcmp(plain->name, "CORE", length) == 0;
}

/* Each whole one is a thread, in order; and there are no more threads than such notes. */
static void check_threads(const struct mw_image *image, const uint8_t *bytes, size_t size,
                          uint16_t machine)
{
    struct plain plain = {.bytes = bytes, .size = size};
    size_t registers = machine == EM_X86_64 ? 27 : 34, whole = 112 + registers * 8, seen = 0;
    while (plain_next(&plain)) {
        if (!plain_is(&plain, NT_PRSTATUS) || plain.head.n_descsz < whole)
            continue;
        must(seen < image->thread_count);
        const struct mw_thread *thread = &image->threads[seen++];
        must(memcmp(&thread->tid, plain.content + 32, sizeof thread->tid) == 0);
        must(thread->register_count == registers);
        must(memcmp(thread->registers, plain.content + 112, registers * 8) == 0);
    }
    must(seen == image->thread_count);
}

/* Does some NT_FILE say that a file of this name lies at address? */
static bool file_is_told(const uint8_t *bytes, size_t size, mw_addr address, const char *name)
{
    struct plain plain = {.bytes = bytes, .size = size};
    size_t length = strlen(name);
    while (plain_next(&plain)) {
        if (!plain_is(&plain, NT_FILE) || plain.head.n_descsz < 16 + 24)
            continue;
        if (!memmem(plain.content, plain.head.n_descsz, name, length))
            continue;
        for (size_t at = 16; at + 24 <= plain.head.n_descsz; at += 24) {
            uint64_t entry[3];
            memcpy(entry, plain.content + at, sizeof entry);
            if (entry[0] <= address && address < entry[1])
                return true;
        }
    }
    return false;
}

static void check_notes(const uint8_t *bytes, size_t size)
{
    struct mw_cursor cur = mw_cursor_of(bytes, size);
    struct plain plain = {.bytes = bytes, .size = size};
    struct mw_elf_note note;
    while (mw_elf_note_next(&cur, &note)) {
        must(plain_next(&plain) && plain.head.n_type == note.type);
        must(note.length == plain.head.n_descsz && note.content == plain.content);
        must(note.name_length <= plain.head.n_namesz);
    }
    must(!plain_next(&plain));
}

static void check_text(const char *text)
{
    for (; text && *text; text++)
        must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_image(struct mw_image *image, const uint8_t *bytes, size_t size, uint16_t machine)
{
    size_t loads = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        bool is_load = loads < REGIONS && map->start == ADDRESSES[loads];
        if (is_load)
            must(mw_mapping_size(map) == PAGE && ++loads);
        if (!is_load || (map->name[0] != '\0' && map->name[0] != '['))
            must(file_is_told(bytes, size, map->start, map->name));
    }
    must(loads == REGIONS);
    check_threads(image, bytes, size, machine);
    check_text(image->process.comm);
    check_text(image->process.command);
    must(image->page_size >= PAGE && (image->page_size & (image->page_size - 1)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t choice = size > 0 ? bytes[0] : 0;
    uint16_t machine = choice & 1 ? EM_AARCH64 : EM_X86_64;
    if (size > 0)
        bytes++, size--;
    if (size > 1 << 16)
        return -1;
    check_notes(bytes, size);
    uint8_t *file = calloc(1, HEADERS + size + (size_t)REGIONS * PAGE);
    must(file != NULL);
    size_t length = headers_put(file, size, machine);
    memcpy(file + HEADERS, bytes, size);
    size_t cut = (choice >> 1) & 3 ? HEADERS + size * ((choice >> 1) & 3) / 4 : length;
    int fd = memfd_create("core", MFD_CLOEXEC);
    must(fd >= 0 && mw_io_write_full(fd, file, cut) == 0);
    free(file);
    struct mw_image image;
    struct mw_error err = {0};
    if (mw_image_open_core(fd, "input", NULL, &image, &err) != MW_OK) {
        must(err.text[0] != '\0');
        close(fd);
        return 0;
    }
    if (cut == length)
        check_image(&image, bytes, size, machine);
    else
        must(mw_finding_find(&image.findings, "core-truncated") != NULL);
    mw_image_close(&image);
    return 0;
}
