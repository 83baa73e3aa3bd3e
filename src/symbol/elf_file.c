/* symbol/elf_file.c: see elf_file.h.
 *
 * What libelf is given is bounded first: the file's size, each section that we may ask for, and
 * what packed sections unpack to. libelf itself checks offsets against the file's size.
 *
 * References: elfutils 0.188 libelf/elf_getdata.c, elf_compress.c; Fedora "MiniDebugInfo"; xz 5.4
 * lzma/base.h. */
#include "symbol/elf_file.h"

#if MW_WITH_SYMBOLS

#include "base/alloc.h"
#include "base/limits.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTIONS_MAX = 1 << 17, MINI_STEP = 256 << 10 };

/* ---- bounds ---- */

/* May a reader of ours be led to load it? Takes what it is unpacked from *budget. */
static bool section_is_sane(const struct mw_elf_file *file, Elf_Scn *section, uint64_t *budget)
{
    GElf_Shdr header;
    GElf_Chdr packed;
    if (!file->lib->gelf_getshdr(section, &header))
        return false;
    if (header.sh_type == SHT_NOBITS)
        return true;
    if ((header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) &&
        header.sh_size / sizeof(Elf64_Sym) > MW_LIMIT_ELF_SYMBOLS)
        return false;
    uint64_t size = header.sh_size;
    if (header.sh_flags & SHF_COMPRESSED) {
        if (!file->lib->gelf_getchdr(section, &packed))
            return false;
        size = packed.ch_size > size ? packed.ch_size : size;
    }
    if (size > *budget)
        return false;
    *budget -= size;
    return true;
}

static bool file_is_sane(const struct mw_elf_file *file)
{
    GElf_Ehdr header;
    size_t count;
    if (file->lib->elf_kind(file->elf) != ELF_K_ELF ||
        !file->lib->gelf_getehdr(file->elf, &header) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        file->lib->elf_getshdrnum(file->elf, &count) != 0 || count > SECTIONS_MAX)
        return false;
    uint64_t budget = MW_LIMIT_SYMBOL_FILE_BYTES;
    Elf_Scn *section = NULL;
    while ((section = file->lib->elf_nextscn(file->elf, section)))
        if (!section_is_sane(file, section, &budget))
            return false;
    return true;
}

/* ---- opening ---- */

bool mw_elf_file_open(int fd, struct mw_elf_file *file_out)
{
    struct mw_elf_file file = {.lib = mw_elfutils(), .fd = fd};
    struct stat about;
    bool is_fit = file.lib && fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                  (uint64_t)about.st_size <= MW_LIMIT_SYMBOL_FILE_BYTES;
    if (is_fit)
        file.elf = file.lib->elf_begin(fd, ELF_C_READ, NULL);
    if (!file.elf || !file_is_sane(&file)) {
        mw_elf_file_close(&file);
        return false;
    }
    *file_out = file;
    return true;
}

bool mw_elf_file_open_memory(char *bytes, size_t size, struct mw_elf_file *file_out)
{
    struct mw_elf_file file = {.lib = mw_elfutils(), .fd = -1, .memory = bytes};
    if (file.lib)
        file.elf = file.lib->elf_memory(bytes, size);
    if (!file.elf || !file_is_sane(&file)) {
        mw_elf_file_close(&file);
        return false;
    }
    *file_out = file;
    return true;
}

void mw_elf_file_close(struct mw_elf_file *file)
{
    if (file->elf)
        file->lib->elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    free(file->memory);
    *file = MW_ELF_FILE_CLOSED;
}

/* ---- looking in it ---- */

void mw_elf_file_build_id(const struct mw_elf_file *file, struct mw_build_id *id_out)
{
    const void *bytes;
    ssize_t length = file->lib->dwelf_elf_gnu_build_id(file->elf, &bytes);
    *id_out = (struct mw_build_id){0};
    if (length <= 0 || length > MW_BUILD_ID_MAX)
        return;
    memcpy(id_out->bytes, bytes, (size_t)length);
    id_out->length = (size_t)length;
}

Elf_Data *mw_elf_file_strings(const struct mw_elf_file *file, size_t index)
{
    GElf_Shdr header;
    Elf_Scn *section = index != SHN_UNDEF ? file->lib->elf_getscn(file->elf, index) : NULL;
    if (!section || !file->lib->gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB)
        return NULL;
    return file->lib->elf_rawdata(section, NULL);
}

const char *mw_elf_string(const Elf_Data *strings, uint64_t offset)
{
    if (!strings || !strings->d_buf || offset >= strings->d_size)
        return NULL;
    const char *text = (const char *)strings->d_buf + offset;
    return memchr(text, '\0', strings->d_size - offset) ? text : NULL;
}

Elf_Scn *mw_elf_file_section(const struct mw_elf_file *file, uint32_t type, const char *name)
{
    size_t index;
    Elf_Data *names = NULL;
    if (name && file->lib->elf_getshdrstrndx(file->elf, &index) == 0)
        names = mw_elf_file_strings(file, index);
    Elf_Scn *section = NULL;
    while ((section = file->lib->elf_nextscn(file->elf, section))) {
        GElf_Shdr header;
        if (!file->lib->gelf_getshdr(section, &header) ||
            (type != SHT_NULL && header.sh_type != type))
            continue;
        const char *found = name ? mw_elf_string(names, header.sh_name) : NULL;
        if (!name || (found && strcmp(found, name) == 0))
            return section;
    }
    return NULL;
}

/* Without a section of that name libdw looks for it by the program headers; elfutils 0.188 then
 * never gives back what it read of the file, so that is for what is in memory already. */
Dwarf_CFI *mw_elf_file_cfi(const struct mw_elf_file *file)
{
    if (!file->memory && !mw_elf_file_section(file, SHT_NULL, ".eh_frame"))
        return NULL;
    return file->lib->dwarf_getcfi_elf(file->elf);
}

/* ---- MiniDebugInfo ---- */

/* Unpack into a growing buffer of at most MW_LIMIT_MINI_DEBUG_BYTES. */
static bool unpack(const struct mw_elfutils *lib, lzma_stream *stream, char **bytes, size_t *size)
{
    size_t room = 0;
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) {
        if (stream->avail_out == 0) {
            size_t wanted = room == 0 ? MINI_STEP : room * 2;
            if (wanted > MW_LIMIT_MINI_DEBUG_BYTES)
                return false;
            char *grown = mw_regrow(*bytes, room, wanted, 1);
            if (!grown)
                return false;
            *bytes = grown;
            stream->next_out = (uint8_t *)grown + room;
            stream->avail_out = wanted - room;
            room = wanted;
        }
        result = lib->lzma_code(stream, LZMA_FINISH);
    }
    *size = room - stream->avail_out;
    return result == LZMA_STREAM_END && *size > 0;
}

bool mw_elf_file_mini(const struct mw_elf_file *file, struct mw_elf_file *mini_out)
{
    const struct mw_elfutils *lib = file->lib;
    Elf_Scn *section = mw_elf_file_section(file, SHT_PROGBITS, ".gnu_debugdata");
    Elf_Data *packed = section && lib->has_lzma ? lib->elf_rawdata(section, NULL) : NULL;
    lzma_stream stream = LZMA_STREAM_INIT;
    if (!packed || !packed->d_buf || packed->d_size == 0 ||
        lib->lzma_stream_decoder(&stream, MW_LIMIT_MINI_DEBUG_BYTES, 0) != LZMA_OK)
        return false;
    stream.next_in = packed->d_buf;
    stream.avail_in = packed->d_size;
    char *bytes = NULL;
    size_t size = 0;
    bool is_unpacked = unpack(lib, &stream, &bytes, &size);
    lib->lzma_end(&stream);
    if (!is_unpacked) {
        free(bytes);
        return false;
    }
    return mw_elf_file_open_memory(bytes, size, mini_out);
}

#endif
