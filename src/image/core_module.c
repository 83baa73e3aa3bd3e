/* image/core_module.c: programs and libraries in a core, and their files.
 *
 * A module's ELF header lies in the first page of its first mapping; the kernel (coredump_filter
 * bit 4), gcore and createdump keep that page, and with it the program headers and nearly always
 * the build-id. The file is believed only when it has the same build-id.
 *
 * Trusts nothing. A core may name any file: what is not a regular one is never opened, since
 * opening a device can do something; nor is a file of /proc and the like, where reading can. The
 * numbers of headers, notes and segments are bounded. The build-id is a checksum and no signature:
 * who can write both the core and the file decides on what is read.
 *
 * References: elf(5), core(5); Linux 6.18 fs/coredump.c vma_dump_size(). */
#include "image/core_files.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum { SEGMENTS_MAX = 256, NOTES_MAX = 16 << 10 };

/* -- a file that a stranger names ------------------------------------------------------------ */

/* Files of these systems are no programs, and to read some of them is to take something away. */
static bool is_odd_system(int fd)
{
    static const uint32_t magics[] = {
        0x9fa0 /* proc */,         0x62656572 /* sysfs */,   0x64626720 /* debugfs */,
        0x74726163 /* tracefs */,  0x63677270 /* cgroup2 */, 0x27e0eb /* cgroup */,
        0x73636673 /* security */, 0x62656570 /* config */,  0x6165676c /* pstore */,
        0xde5e81e4 /* efivars */,  0xcafe4a11 /* bpf */,
    };
    struct statfs about;
    if (fstatfs(fd, &about) != 0)
        return true;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if ((uint32_t)about.f_type == magics[i])
            return true;
    return false;
}

int mw_core_file_open(const char *name)
{
    MW_CLOSE int place = name[0] == '/' ? open(name, O_PATH | O_CLOEXEC) : -1;
    struct stat about;
    if (place < 0 || fstat(place, &about) != 0) {
        errno = name[0] == '/' ? errno : ENOENT;
        return -1;
    }
    if (!S_ISREG(about.st_mode) || is_odd_system(place)) {
        errno = EINVAL;
        return -1;
    }
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

/* -- headers --------------------------------------------------------------------------------- */

/* Where headers and notes are read from: the core's own memory, or a file. */
struct source {
    struct mw_image *image; /* NULL: fd */
    mw_addr base;
    int fd;
};

static size_t source_read(const struct source *source, uint64_t at, void *buffer, size_t length)
{
    if (source->image) {
        mw_addr address;
        if (__builtin_add_overflow(source->base, at, &address))
            return 0;
        return mw_core_read_own(source->image, address, buffer, length);
    }
    ssize_t got = mw_io_pread_full(source->fd, buffer, length, at);
    return got > 0 ? (size_t)got : 0;
}

/* The program headers; NULL when this is no ELF64 module. *count_out is 0 when out of memory. */
static struct mw_elf_segment *segments_read(const struct source *source, size_t *count_out)
{
    uint8_t bytes[MW_ELF_HEADER_BYTES], raw[MW_ELF_SEGMENT_BYTES];
    struct mw_elf_header header;
    *count_out = SEGMENTS_MAX;
    if (mw_elf_header_parse(bytes, source_read(source, 0, bytes, sizeof bytes), &header) != MW_OK ||
        header.class_ != ELFCLASS64 || header.data != ELFDATA2LSB ||
        (header.type != ET_DYN && header.type != ET_EXEC) ||
        header.segment_bytes != MW_ELF_SEGMENT_BYTES || header.segment_count == 0 ||
        header.segment_count > SEGMENTS_MAX)
        return NULL;
    struct mw_elf_segment *segments = mw_calloc(header.segment_count, sizeof *segments);
    *count_out = segments ? header.segment_count : 0;
    for (size_t i = 0; i < *count_out; i++) {
        uint64_t at;
        if (__builtin_add_overflow(header.segments_offset, i * sizeof raw, &at) ||
            mw_elf_segment_parse(raw, source_read(source, at, raw, sizeof raw), &segments[i]) !=
                MW_OK) {
            free(segments);
            return NULL;
        }
    }
    return segments;
}

static void notes_read(const struct source *source, const struct mw_elf_segment *segments,
                       size_t count, struct mw_elf_build_id *id_out)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t notes[NOTES_MAX];
        if (segments[i].type != PT_NOTE || segments[i].file_bytes > sizeof notes)
            continue;
        /* in memory the notes lie as they do in the file: they are in the first segment */
        size_t got = source_read(source, segments[i].offset, notes, segments[i].file_bytes);
        if (mw_elf_build_id_find(notes, got, id_out))
            return;
    }
}

enum mw_status mw_core_module_read(struct mw_image *image, mw_addr base, bool *found_out,
                                   struct mw_core_module *module_out)
{
    const struct source source = {.image = image, .base = base};
    struct mw_core_module module = {.base = base};
    *found_out = false;
    module.segments = segments_read(&source, &module.segment_count);
    if (!module.segments)
        return module.segment_count == 0 ? MW_NOMEM : MW_OK;
    notes_read(&source, module.segments, module.segment_count, &module.id);
    for (size_t i = 0; i < module.segment_count && !*found_out; i++)
        if (module.segments[i].type == PT_LOAD) {
            /* a bias may be "negative": it is meant to wrap */
            module.bias = base + module.segments[i].offset - module.segments[i].address;
            *found_out = module.segments[i].offset < image->page_size;
            break;
        }
    if (*found_out)
        *module_out = module;
    else
        free(module.segments);
    return MW_OK;
}

bool mw_core_file_build_id(int fd, struct mw_elf_build_id *id_out)
{
    const struct source source = {.fd = fd};
    size_t count;
    struct mw_elf_segment *segments = segments_read(&source, &count);
    id_out->length = 0;
    if (segments)
        notes_read(&source, segments, count, id_out);
    free(segments);
    return id_out->length > 0;
}

const struct mw_elf_segment *mw_core_module_segment(const struct mw_core_module *module,
                                                    const struct mw_mapping *map,
                                                    uint64_t page_size)
{
    uint64_t start = map->start - module->bias, end = map->end - module->bias;
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct mw_elf_segment *segment = &module->segments[i];
        uint64_t last, first = segment->address & ~(page_size - 1);
        if (segment->type != PT_LOAD || start < first || end < start ||
            start - map->offset != segment->address - segment->offset ||
            __builtin_add_overflow(segment->address, segment->file_bytes, &last))
            continue;
        if (end <= last || end - last < page_size)
            return segment;
    }
    return NULL;
}

void mw_core_module_deinit(struct mw_core_module *module)
{
    free(module->segments);
    free(module->relocs);
}
