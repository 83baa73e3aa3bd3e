/* symbol/elfmap.c: ELF headers in memory.
 *
 * Trusts nothing: the headers are a target's bytes and may be overwritten. Every sum is checked,
 * the number of headers is bounded. References: System V gABI chapter 5, <elf.h>. */
#include "symbol/elfmap.h"

#include <elf.h>
#include <string.h>

enum { PHDRS_MAX = 256, NOTE_SEGMENT_MAX = 16 << 10, NOTE_PART_MAX = 1 << 10 };

static bool add_overflows(mw_addr a, uint64_t b, mw_addr *sum_out)
{
    return __builtin_add_overflow(a, b, sum_out);
}

static enum mw_status header_read(struct mw_image *image, mw_addr base, Elf64_Ehdr *header)
{
    if (mw_image_read_mapped(image, base, header, sizeof *header) != MW_OK)
        return MW_FAULT;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB)
        return MW_UNSUPPORTED;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0 ||
        header->e_phnum > PHDRS_MAX)
        return MW_CORRUPT;
    return MW_OK;
}

static enum mw_status phdrs_read(struct mw_image *image, mw_addr base, Elf64_Phdr *phdrs,
                                 size_t *count_out, Elf64_Ehdr *header)
{
    enum mw_status status = header_read(image, base, header);
    if (status != MW_OK)
        return status;
    mw_addr at;
    if (add_overflows(base, header->e_phoff, &at))
        return MW_CORRUPT;
    *count_out = header->e_phnum;
    return mw_image_read_mapped(image, at, phdrs, header->e_phnum * sizeof *phdrs);
}

/* A segment's range in the target; false when it wraps. */
static bool segment_range(const struct mw_elf_map *map, const Elf64_Phdr *phdr, mw_addr *start_out,
                          mw_addr *end_out)
{
    /* the bias of a library is often "negative": wrapping there is how it is meant */
    *start_out = map->bias + phdr->p_vaddr;
    return !add_overflows(*start_out, phdr->p_memsz, end_out);
}

static enum mw_status segments_apply(struct mw_elf_map *map, const Elf64_Phdr *phdrs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mw_addr start, end;
        if (phdrs[i].p_type == PT_TLS) {
            map->tls_bytes = phdrs[i].p_memsz;
            map->tls_align = phdrs[i].p_align;
        }
        if (phdrs[i].p_type != PT_LOAD && phdrs[i].p_type != PT_DYNAMIC)
            continue;
        if (!segment_range(map, &phdrs[i], &start, &end) || start < map->base)
            return MW_CORRUPT;
        if (phdrs[i].p_type == PT_LOAD && end > map->end)
            map->end = end;
        if (phdrs[i].p_type == PT_DYNAMIC) {
            map->dynamic = start;
            map->dynamic_end = end;
        }
    }
    return map->end > map->base ? MW_OK : MW_CORRUPT;
}

enum mw_status mw_elf_map_read(struct mw_image *image, mw_addr base, struct mw_elf_map *map_out)
{
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[PHDRS_MAX];
    size_t count;
    enum mw_status status = phdrs_read(image, base, phdrs, &count, &header);
    if (status != MW_OK)
        return status;
    struct mw_elf_map map = {
        .image = image, .base = base, .is_executable = header.e_type == ET_EXEC};
    uint64_t page_size = image->page_size ? image->page_size : 4096;
    const Elf64_Phdr *first = NULL;
    for (size_t i = 0; i < count && !first; i++)
        if (phdrs[i].p_type == PT_LOAD)
            first = &phdrs[i];
    if (!first || first->p_offset >= page_size)
        return MW_UNSUPPORTED; /* the ELF header is not part of the first segment */
    map.bias = base - (first->p_vaddr & ~(page_size - 1));
    status = segments_apply(&map, phdrs, count);
    if (status == MW_OK)
        *map_out = map;
    return status;
}

/* ---- notes ---- */

/* The notes in size bytes; false when visit wants no more. */
static bool notes_walk(const uint8_t *bytes, size_t size, mw_elf_note_visit *visit, void *user)
{
    size_t at = 0;
    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, bytes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz > NOTE_PART_MAX || note.n_descsz > NOTE_PART_MAX)
            return true;
        size_t name_room = (note.n_namesz + 3u) & ~3u, desc_room = (note.n_descsz + 3u) & ~3u;
        if (size - at < name_room || size - at - name_room < note.n_descsz)
            return true;
        char name[NOTE_PART_MAX + 1];
        memcpy(name, bytes + at, note.n_namesz);
        name[note.n_namesz] = '\0';
        if (!visit(user, note.n_type, name, bytes + at + name_room, note.n_descsz))
            return false;
        at += name_room;
        at += size - at < desc_room ? size - at : desc_room;
    }
    return true;
}

enum mw_status mw_elf_map_notes(const struct mw_elf_map *map, mw_elf_note_visit *visit, void *user)
{
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[PHDRS_MAX];
    size_t count;
    enum mw_status status = phdrs_read(map->image, map->base, phdrs, &count, &header);
    bool goes_on = true;
    for (size_t i = 0; status == MW_OK && goes_on && i < count; i++) {
        mw_addr start, end;
        uint8_t bytes[NOTE_SEGMENT_MAX];
        if (phdrs[i].p_type != PT_NOTE || phdrs[i].p_memsz > sizeof bytes ||
            !segment_range(map, &phdrs[i], &start, &end))
            continue;
        if (mw_image_read_mapped(map->image, start, bytes, end - start) == MW_OK)
            goes_on = notes_walk(bytes, end - start, visit, user);
    }
    return status;
}

/* ---- from an address to its module ---- */

static bool same_file(const struct mw_mapping *a, const struct mw_mapping *b)
{
    if (a->inode != 0 || b->inode != 0)
        return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
    return a->name[0] == '/' && strcmp(a->name, b->name) == 0;
}

mw_addr mw_elf_base_of(const struct mw_image *image, mw_addr address)
{
    const struct mw_mapping *maps = image->regions.items;
    const struct mw_mapping *map = mw_image_region(image, address);
    if (!map || (map->inode == 0 && map->name[0] != '/'))
        return 0;
    while (map->offset != 0 && map > maps && same_file(map - 1, map) &&
           map[-1].offset <= map->offset)
        map--;
    return map->offset == 0 ? map->start : 0;
}
