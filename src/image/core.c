/* image/core.c: an ELF64 core file as an image.
 *
 *   PT_NOTE  → threads, process, auxiliary vector, names of mapped files   (core_notes.c)
 *   PT_LOAD  → regions; their bytes are read from the file when asked for, nothing is mapped
 *   NT_FILE  → regions that have no PT_LOAD, and their bytes from files    (core_files.c)
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
#include "base/units.h"
#include "image/core_files.h"
#include "image/open.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PAGE_BYTES_DEFAULT = 4096 };

static const mw_addr VSYSCALL_ADDRESS = 0xffffffffff600000; /* x86-64, fixed */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- regions --------------------------------------------------------------------------------- */

/* The page size must divide every segment, or flags of pages would make no sense. */
static uint32_t choose_page_size(uint64_t told, const struct mw_core_segments *segments)
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
static uint64_t bytes_in_file(struct mw_image *image, const struct mw_elf_segment *segment,
                              uint64_t end)
{
    const struct mw_core *core = mw_core_of(image);
    uint64_t left = segment->offset < core->file_size ? core->file_size - segment->offset : 0;
    uint64_t have = smaller(segment->file_bytes, left);
    if (have < segment->file_bytes) {
        char size[32], wanted[32];
        mw_finding_add(&image->findings, "core-truncated", segment->address + have,
                       segment->file_bytes - have,
                       "the core is cut: its file has %s of %s, and what follows is missing",
                       mw_bytes_format(size, core->file_size), mw_bytes_format(wanted, end));
    }
    return have;
}

/* What is neither in the core nor in a file. Bytes that the core promises and lacks are said. */
static void say_missing(struct mw_image *image)
{
    const struct mw_core *core = mw_core_of(image);
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        uint64_t promised = core->parts[i].promised_bytes;
        bool is_reserve = map->perms == 0 && promised == 0; /* had nothing that could be read */
        if (promised < mw_mapping_size(map) && !is_reserve && !mw_core_files_have(image, i))
            mw_finding_add(&image->findings, "core-pages-missing", map->start + promised,
                           mw_mapping_size(map) - promised,
                           "the core leaves out memory that no file gives: what coredump_filter "
                           "excludes, and files that are not known to be the same");
    }
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
                                 struct mw_elf_segment segment, uint64_t end)
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
        .file_bytes = bytes_in_file(image, &segment, end),
        .promised_bytes = segment.file_bytes,
        .has_no_permissions = segment.type == PT_NULL,
    };
    return mw_mapping_list_add(&image->regions, &map, name, length);
}

static enum mw_status build_regions(struct mw_image *image, const struct mw_core_notes *notes,
                                    struct mw_core_segments *segments, struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    image->page_size = choose_page_size(notes->page_size, segments);
    if (mw_core_segments_add_gaps(segments, notes, image->page_size, &image->findings) != MW_OK)
        return mw_fail(err, MW_NOMEM, "out of memory for %zu segments", segments->count);
    core->parts = mw_calloc(segments->count, sizeof *core->parts);
    if (!core->parts)
        return mw_fail(err, MW_NOMEM, "out of memory for %zu segments", segments->count);
    for (size_t i = 0; i < segments->count; i++) {
        enum mw_status status = add_region(image, notes, segments->items[i], segments->end);
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

void mw_core_unreadable(struct mw_image *image, mw_addr address, uint64_t bytes)
{
    struct mw_core *core = mw_core_of(image);
    pthread_mutex_lock(&core->lock);
    mw_finding_add(&image->findings, "core-unreadable", address, bytes,
                   "the file of the core can no longer be read where it was");
    pthread_mutex_unlock(&core->lock);
}

/* Bytes of region `index` from skip on, at most to its end; those from the start that are known. */
static size_t read_region(struct mw_image *image, size_t index, uint64_t skip, uint8_t *buffer,
                          size_t length, bool own_only)
{
    struct mw_core *core = mw_core_of(image);
    const struct mw_core_part *part = &core->parts[index];
    size_t done = 0;
    if (skip < part->file_bytes) {
        size_t step = (size_t)smaller(length, part->file_bytes - skip);
        if (!mw_core_budget_take(image, &core->read_left, step))
            return 0;
        ssize_t got = mw_io_pread_full(core->fd, buffer, step, part->offset + skip);
        done = got > 0 ? (size_t)got : 0;
        if (done < step) { /* its size was known: an error, or it was cut meanwhile */
            mw_core_unreadable(image, image->regions.items[index].start + skip + done, step - done);
            return done;
        }
    }
    /* what a cut core lacks was in it because the process had changed it */
    if (done < length && !own_only && part->file_bytes == part->promised_bytes &&
        mw_core_budget_take(image, &core->read_left, length - done))
        done += mw_core_files_read(image, index, skip + done, buffer + done, length - done, false);
    return done;
}

static size_t read_regions(struct mw_image *image, mw_addr address, uint8_t *buffer, size_t length,
                           bool own_only)
{
    const struct mw_mapping_list *regions = &image->regions;
    size_t done = 0, index = mw_mapping_lower_bound(regions, address);
    for (; done < length && index < regions->count; index++) {
        mw_addr at = address + done;
        if (regions->items[index].start > at)
            break;
        size_t step = (size_t)smaller(length - done, regions->items[index].end - at);
        size_t got = read_region(image, index, at - regions->items[index].start, buffer + done,
                                 step, own_only);
        done += got;
        if (got < step)
            break;
    }
    return done;
}

size_t mw_core_read_own(struct mw_image *image, mw_addr address, void *buffer, size_t length)
{
    if (length > UINT64_MAX - address)
        length = (size_t)(UINT64_MAX - address);
    return read_regions(image, address, buffer, length, true);
}

static void core_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                      size_t *got_out)
{
    *got_out = read_regions(image, address, buffer, length, false);
}

static void core_close(struct mw_image *image)
{
    struct mw_core *core = mw_core_of(image);
    if (!core)
        return;
    if (core->fd >= 0)
        close(core->fd);
    mw_core_files_deinit(core->files);
    pthread_mutex_destroy(&core->lock);
    free(core->parts);
    free(core);
    image->state = NULL;
}

static const struct mw_image_ops core_ops = {
    .name = "core",
    .read = core_read,
    .read_initial = mw_core_read_initial,
    .pages = mw_core_pages,
    .open_file = mw_core_files_open,
    .close = core_close,
};

/* -- opening --------------------------------------------------------------------------------- */

static enum mw_status load_notes(struct mw_image *image, const struct mw_core_segments *segments,
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
    mw_core_notes_finish(notes, &image->findings);
    return MW_OK;
}

static enum mw_status load_core(struct mw_image *image, const char *name,
                                struct mw_core_segments *segments, struct mw_core_notes *notes,
                                struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    enum mw_status status = mw_core_segments_load(image, name, segments, err);
    if (status == MW_OK)
        status = load_notes(image, segments, notes, name, err);
    if (status == MW_OK)
        status = build_regions(image, notes, segments, err);
    if (status != MW_OK)
        return status;
    if (image->regions.count == 0 && segments->lost_headers > 0)
        return mw_fail(err, MW_TRUNCATED, "'%s' is cut after %" PRIu64 " bytes, before any memory",
                       name, core->file_size);
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
    core->read_left = UINT64_MAX; /* headers of modules: their number is bounded */
    status = mw_core_files_load(image, segments->header.machine, err);
    if (status != MW_OK)
        return status;
    mw_core_budget_set(image);
    say_missing(image);
    mw_core_stacks_check(image);
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
    pthread_mutex_init(&core->lock, NULL);
    struct mw_image image = {.ops = &core_ops, .state = core, .kind = MW_IMAGE_CORE};
    mw_process_init(&image.process);
    struct mw_core_segments segments = {0};
    struct mw_core_notes notes = {0};
    enum mw_status status = load_core(&image, name, &segments, &notes, err);
    if (status == MW_OK)
        status = mw_image_capture_wrap(&image, &notes.capture, err);
    free(segments.items);
    mw_core_notes_deinit(&notes);
    if (status != MW_OK) {
        if (image.state == core)
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
