/* image/core.c: an ELF64 core file as an image.
 *
 *   PT_NOTE  → threads, process, auxiliary vector, names of mapped files   (core_notes.c)
 *   PT_LOAD  → regions; their bytes are read from the file when asked for, nothing is mapped
 *   holes    → residency, when the kernel itself wrote this file           (core_pages.c)
 *
 * Trusts nothing: every offset and size is checked against the file, segments that overlap are
 * cut, ones that are not whole pages are left out, and what is missing is a finding. Work and
 * memory are linear in the number of segments (at most MW_LIMIT_ELF_SEGMENTS).
 *
 * References: core(5), elf(5); Linux 6.18 fs/binfmt_elf.c. */
#include "image/core.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/vec.h"
#include "image/open.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PAGE_BYTES_DEFAULT = 4096, HEADERS_STEP = 512, NOTE_SEGMENTS_MAX = 8 };

static const mw_addr VSYSCALL_ADDRESS = 0xffffffffff600000; /* x86-64, fixed */

/* The program headers that count. */
struct segments {
    struct mw_elf_segment *items; /* PT_LOAD with memory */
    size_t count, room;
    struct mw_elf_segment notes[NOTE_SEGMENTS_MAX];
    size_t note_count;
    struct mw_elf_header header;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- header and program headers -------------------------------------------------------------- */

/* An ELF file that we do not read: say what it is. */
static enum mw_status check_header(const struct mw_elf_header *header, const char *name,
                                   struct mw_error *err)
{
    if (header->class_ != ELFCLASS64)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is a 32-bit ELF file; only 64-bit cores are read",
                       name);
    if (header->data != ELFDATA2LSB)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is a big-endian ELF file", name);
    if (header->type != ET_CORE) {
        mw_fail(err, MW_UNSUPPORTED, "'%s' is a program or a library, not a core", name);
        mw_error_hint(err, "memwhy PID of a process that runs it, or a core: gcore PID");
        return MW_UNSUPPORTED;
    }
    if (header->machine != EM_X86_64 && header->machine != EM_AARCH64)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is of machine %u; x86-64 and aarch64 are read",
                       name, header->machine);
    if (header->segment_bytes != MW_ELF_SEGMENT_BYTES)
        return mw_fail(err, MW_CORRUPT, "'%s' has program headers of %u bytes", name,
                       header->segment_bytes);
    return MW_OK;
}

/* e_phnum has 16 bits: PN_XNUM means that section 0 has the number. */
static enum mw_status resolve_segment_count(const struct mw_core *core, const char *name,
                                            struct mw_elf_header *header, struct mw_error *err)
{
    if (header->segment_count == PN_XNUM) {
        uint8_t section[MW_ELF_SECTION_BYTES];
        ssize_t got = mw_io_pread_full(core->fd, section, sizeof section, header->sections_offset);
        header->segment_count = mw_elf_section_info(section, got > 0 ? (size_t)got : 0);
    }
    if (header->segment_count > MW_LIMIT_ELF_SEGMENTS)
        return mw_fail(err, MW_LIMIT, "'%s' announces %u segments", name, header->segment_count);
    return MW_OK;
}

static enum mw_status keep_segment(struct segments *segments, const struct mw_elf_segment *segment)
{
    if (segment->type == PT_NOTE && segments->note_count < NOTE_SEGMENTS_MAX)
        segments->notes[segments->note_count++] = *segment;
    if (segment->type != PT_LOAD || segment->memory_bytes == 0)
        return MW_OK;
    return mw_vec_push(segments, MW_LIMIT_ELF_SEGMENTS, *segment);
}

static enum mw_status load_segments(const struct mw_core *core, struct segments *segments,
                                    struct mw_findings *findings, struct mw_error *err)
{
    uint8_t bytes[HEADERS_STEP * MW_ELF_SEGMENT_BYTES];
    size_t total = segments->header.segment_count;
    for (size_t done = 0; done < total;) {
        size_t step = total - done < HEADERS_STEP ? total - done : HEADERS_STEP;
        uint64_t offset;
        if (__builtin_add_overflow(segments->header.segments_offset, done * MW_ELF_SEGMENT_BYTES,
                                   &offset))
            offset = core->file_size;
        ssize_t got = mw_io_pread_full(core->fd, bytes, step * MW_ELF_SEGMENT_BYTES, offset);
        size_t whole = got > 0 ? (size_t)got / MW_ELF_SEGMENT_BYTES : 0;
        for (size_t i = 0; i < whole; i++) {
            struct mw_elf_segment segment;
            enum mw_status status = mw_elf_segment_parse(bytes + i * MW_ELF_SEGMENT_BYTES,
                                                         MW_ELF_SEGMENT_BYTES, &segment);
            if (status == MW_OK)
                status = keep_segment(segments, &segment);
            if (status != MW_OK)
                return mw_fail(err, status, "out of memory for %zu segments", total);
        }
        done += whole;
        if (whole < step) {
            mw_finding_add(findings, "core-truncated", 0, (total - done) * MW_ELF_SEGMENT_BYTES,
                           "the file ends after %zu of %zu program headers", done, total);
            break;
        }
    }
    return MW_OK;
}

static int compare_segments(const void *a, const void *b)
{
    const struct mw_elf_segment *left = a, *right = b;
    return left->address < right->address ? -1 : left->address > right->address;
}

/* -- regions --------------------------------------------------------------------------------- */

/* The page size must divide every segment, or flags of pages would make no sense. */
static uint32_t choose_page_size(uint64_t told, const struct segments *segments)
{
    if (told < PAGE_BYTES_DEFAULT || told > 65536 || (told & (told - 1)) != 0)
        return PAGE_BYTES_DEFAULT;
    for (size_t i = 0; i < segments->count; i++)
        if ((segments->items[i].address | segments->items[i].memory_bytes) & (told - 1))
            return PAGE_BYTES_DEFAULT;
    return (uint32_t)told;
}

/* Cut segment to what lies behind the last region; false when nothing sensible is left. */
static bool trim_segment(const struct mw_image *image, struct mw_elf_segment *segment)
{
    uint64_t end, file_end;
    if (__builtin_add_overflow(segment->address, segment->memory_bytes, &end) ||
        __builtin_add_overflow(segment->offset, segment->file_bytes, &file_end) ||
        ((segment->address | segment->memory_bytes) & (PAGE_BYTES_DEFAULT - 1)) != 0)
        return false;
    segment->file_bytes = smaller(segment->file_bytes, segment->memory_bytes);
    const struct mw_mapping_list *regions = &image->regions;
    mw_addr floor = regions->count ? regions->items[regions->count - 1].end : 0;
    if (segment->address >= floor)
        return true;
    if (end <= floor)
        return false;
    uint64_t skip = floor - segment->address;
    segment->address = floor;
    segment->memory_bytes -= skip;
    uint64_t lost = smaller(skip, segment->file_bytes);
    segment->offset += lost;
    segment->file_bytes -= lost;
    return true;
}

/* How much of the segment's bytes the file really has; the rest is a finding. */
static uint64_t bytes_in_file(struct mw_image *image, const struct mw_elf_segment *segment)
{
    const struct mw_core *core = mw_core_of(image);
    uint64_t left = segment->offset < core->file_size ? core->file_size - segment->offset : 0;
    uint64_t have = smaller(segment->file_bytes, left);
    if (have < segment->file_bytes)
        mw_finding_add(&image->findings, "core-truncated", segment->address + have,
                       segment->file_bytes - have, "the core is cut: its file ends too early");
    if (segment->file_bytes < segment->memory_bytes)
        mw_finding_add(&image->findings, "core-pages-missing",
                       segment->address + segment->file_bytes,
                       segment->memory_bytes - segment->file_bytes,
                       "the core leaves out memory that files hold, and what "
                       "coredump_filter excludes");
    return have;
}

/* Its length comes along: a file's name may fill the notes, and belong to every region. */
static const char *region_name(const struct mw_image *image, const struct mw_mapping *map,
                               const struct mw_elf_file *file, size_t *length_out)
{
    if (file) {
        *length_out = file->name_length;
        return file->name;
    }
    /* The kernel puts the random bytes of AT_RANDOM on the first thread's stack. */
    bool is_stack = image->at_random >= map->start && image->at_random < map->end;
    const char *name = "";
    if (image->vdso != 0 && image->vdso == map->start)
        name = "[vdso]";
    else if (map->start == VSYSCALL_ADDRESS)
        name = "[vsyscall]";
    else if (is_stack && map->perms & MW_PERM_WRITE)
        name = "[stack]";
    *length_out = strlen(name);
    return name;
}

static enum mw_status add_region(struct mw_image *image, const struct mw_core_notes *notes,
                                 struct mw_elf_segment segment)
{
    struct mw_core *core = mw_core_of(image);
    if (!trim_segment(image, &segment)) {
        mw_finding_add(&image->findings, "core-segment", segment.address, segment.memory_bytes,
                       "a segment of the core overlaps another or is not of whole pages");
        return MW_OK;
    }
    struct mw_mapping map = {
        .start = segment.address,
        .end = segment.address + segment.memory_bytes,
        .perms = (segment.flags & PF_R ? MW_PERM_READ : 0u) |
                 (segment.flags & PF_W ? MW_PERM_WRITE : 0u) |
                 (segment.flags & PF_X ? MW_PERM_EXEC : 0u),
    };
    const struct mw_elf_file *file = mw_core_notes_file(notes, map.start);
    if (file)
        map.offset = file->offset + (map.start - file->start);
    size_t length;
    const char *name = region_name(image, &map, file, &length);
    length = mw_mapping_name_trim(name, length, &map.deleted);
    core->parts[image->regions.count] = (struct mw_core_part){
        .offset = segment.offset,
        .file_bytes = bytes_in_file(image, &segment),
    };
    return mw_mapping_list_add(&image->regions, &map, name, length);
}

static enum mw_status build_regions(struct mw_image *image, const struct mw_core_notes *notes,
                                    struct segments *segments, struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    if (segments->count > 0)
        qsort(segments->items, segments->count, sizeof *segments->items, compare_segments);
    image->page_size = choose_page_size(notes->page_size, segments);
    core->parts = mw_calloc(segments->count, sizeof *core->parts);
    if (!core->parts)
        return mw_fail(err, MW_NOMEM, "out of memory for %zu segments", segments->count);
    for (size_t i = 0; i < segments->count; i++) {
        enum mw_status status = add_region(image, notes, segments->items[i]);
        if (status != MW_OK)
            return mw_fail(err, status, "cannot keep %zu segments", segments->count);
    }
    assert(image->regions.count <= segments->count);
    return MW_OK;
}

/* -- the process ----------------------------------------------------------------------------- */

/* Escaped, allocated; NULL when empty or out of memory. */
static char *escaped(const char *text)
{
    struct mw_str str = MW_STR_INIT(1024);
    mw_str_put_escaped(&str, text, strlen(text));
    if (str.status != MW_OK || str.length == 0)
        mw_str_deinit(&str);
    return str.text;
}

static void fill_process(struct mw_image *image, const struct mw_core_notes *notes)
{
    struct mw_process *process = &image->process;
    if (notes->thread_count > 0)
        process->thread_count = notes->thread_count;
    const struct mw_elf_file *program = image->phdr ? mw_core_notes_file(notes, image->phdr) : NULL;
    if (program) {
        bool deleted;
        size_t length = mw_mapping_name_trim(program->name, program->name_length, &deleted);
        process->exe = mw_strndup(program->name, smaller(length, MW_LIMIT_NAME_BYTES));
    }
    if (!notes->has_process)
        return;
    MW_FREE char *comm = escaped(notes->process.comm);
    snprintf(process->comm, sizeof process->comm, "%s", comm ? comm : "");
    process->command = escaped(notes->process.arguments);
    process->pid = notes->process.pid;
    process->ppid = notes->process.ppid;
    process->uid = process->euid = notes->process.uid;
    process->state = notes->process.state >= 'A' ? notes->process.state : 0;
}

/* -- operations ------------------------------------------------------------------------------ */

static void core_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                      size_t *got_out)
{
    const struct mw_core *core = mw_core_of(image);
    const struct mw_mapping_list *regions = &image->regions;
    size_t done = 0, index = mw_mapping_lower_bound(regions, address);
    for (; done < length && index < regions->count; index++) {
        const struct mw_core_part *part = &core->parts[index];
        mw_addr at = address + done;
        if (regions->items[index].start > at)
            break;
        uint64_t skip = at - regions->items[index].start;
        if (skip >= part->file_bytes)
            break;
        size_t step = (size_t)smaller(length - done, part->file_bytes - skip);
        ssize_t got =
            mw_io_pread_full(core->fd, (uint8_t *)buffer + done, step, part->offset + skip);
        if (got > 0)
            done += (size_t)got;
        if (got < (ssize_t)step || at + step < regions->items[index].end)
            break;
    }
    *got_out = done;
}

static void core_close(struct mw_image *image)
{
    struct mw_core *core = mw_core_of(image);
    if (!core)
        return;
    if (core->fd >= 0)
        close(core->fd);
    free(core->parts);
    free(core);
    image->state = NULL;
}

static const struct mw_image_ops core_ops = {
    .name = "core",
    .read = core_read,
    .pages = mw_core_pages,
    .close = core_close,
};

/* -- opening --------------------------------------------------------------------------------- */

static enum mw_status load_header(const struct mw_core *core, const char *name,
                                  struct mw_elf_header *header_out, struct mw_error *err)
{
    uint8_t bytes[MW_ELF_HEADER_BYTES];
    ssize_t got = mw_io_pread_full(core->fd, bytes, sizeof bytes, 0);
    if (got < 0)
        return mw_fail_errno(err, errno, "cannot read '%s'", name);
    enum mw_status status = mw_elf_header_parse(bytes, (size_t)got, header_out);
    if (status == MW_INVALID)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is not an ELF file", name);
    if (status == MW_TRUNCATED)
        return mw_fail(err, status, "'%s' ends within its ELF header", name);
    status = check_header(header_out, name, err);
    return status == MW_OK ? resolve_segment_count(core, name, header_out, err) : status;
}

static enum mw_status load_notes(struct mw_image *image, const struct segments *segments,
                                 struct mw_core_notes *notes, const char *name,
                                 struct mw_error *err)
{
    for (size_t i = 0; i < segments->note_count; i++) {
        enum mw_status status =
            mw_core_notes_load(notes, image, &segments->notes[i], segments->header.machine, err);
        if (status != MW_OK)
            return status;
    }
    if (notes->is_kernel_dump)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is a dump of a kernel, not of a process", name);
    mw_core_notes_finish(notes);
    return MW_OK;
}

static enum mw_status load_core(struct mw_image *image, const char *name, struct segments *segments,
                                struct mw_core_notes *notes, struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    enum mw_status status = load_header(core, name, &segments->header, err);
    if (status == MW_OK)
        status = load_segments(core, segments, &image->findings, err);
    if (status == MW_OK)
        status = load_notes(image, segments, notes, name, err);
    if (status == MW_OK)
        status = build_regions(image, notes, segments, err);
    if (status != MW_OK)
        return status;
    if (image->regions.count == 0)
        return mw_fail(err, MW_TRUNCATED, "'%s' holds no memory", name);
    image->arch = segments->header.machine == EM_X86_64 ? MW_ARCH_X86_64 : MW_ARCH_AARCH64;
    image->can = MW_CAN_READ;
    fill_process(image, notes);
    image->threads = mw_steal(notes->threads);
    image->thread_count = notes->thread_count;
    if (image->thread_count > 0)
        image->can |= MW_CAN_REGISTERS;
    core->is_kernels = notes->is_kernels;
    mw_core_pages_probe(image);
    return MW_OK;
}

static enum mw_status open_core(int fd, const char *name, bool is_spooled,
                                struct mw_image *image_out, struct mw_error *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return mw_fail_errno(err, errno, "cannot read '%s'", name);
    struct mw_core *core = mw_calloc(1, sizeof *core);
    if (!core)
        return mw_fail(err, MW_NOMEM, "out of memory for '%s'", name);
    core->fd = fd;
    core->file_size = (uint64_t)about.st_size;
    core->is_spooled = is_spooled;
    struct mw_image image = {.ops = &core_ops, .state = core, .kind = MW_IMAGE_CORE};
    mw_process_init(&image.process);
    struct segments segments = {0};
    struct mw_core_notes notes = {0};
    enum mw_status status = load_core(&image, name, &segments, &notes, err);
    mw_vec_deinit(&segments);
    mw_core_notes_deinit(&notes);
    if (status != MW_OK) {
        core->fd = -1; /* stays the caller's */
        mw_image_close(&image);
        return status;
    }
    *image_out = image;
    return MW_OK;
}

enum mw_status mw_image_open_core(int fd, const char *name, struct mw_context *context,
                                  struct mw_image *image_out, struct mw_error *err)
{
    (void)context;
    return open_core(fd, name, false, image_out, err);
}

enum mw_status mw_image_open_core_spooled(int fd, const char *name, struct mw_image *image_out,
                                          struct mw_error *err)
{
    return open_core(fd, name, true, image_out, err);
}
