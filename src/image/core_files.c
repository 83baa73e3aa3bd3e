/* image/core_files.c: memory that a core leaves out, read from the files that were mapped.
 *
 *   regions of one file, the first with its ELF header in the core  → a module   (core_module.c)
 *   the module's build-id in the core = that of the file             → the file is good
 *   a region that the program cannot write                           → the file is its content
 *   one that it can                        → the file is how it began (core_initial.c), no more
 *
 * So mw_image_read() gives bytes of a file only where the process cannot have changed them: what
 * the loader wrote to (GNU_RELRO, text relocations) counts as changed. How writable data began is
 * for mw_image_read_mapped() alone, which reads constants. A walker never sees it.
 *
 * At most MODULES_MAX files are opened, one at a time. References: core(5), proc(5)
 * coredump_filter; gdb 13 linux-tdep.c; .NET 10 createdump. */
#include "image/core_files.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/vec.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MODULES_MAX = 4096, ID_TEXT = 17 };

/* -- comparing a module with its file -------------------------------------------------------- */

/* The first digits of a build-id, enough to tell two apart. */
static const char *id_text(const struct mw_elf_build_id *id, char text[ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    size_t count = 0;
    for (size_t i = 0; i < id->length && count + 2 < ID_TEXT; i++) {
        text[count++] = digits[id->bytes[i] >> 4];
        text[count++] = digits[id->bytes[i] & 15];
    }
    text[count] = '\0';
    return count ? text : "none";
}

/* The last part of a path: a finding has little room. */
static const char *tail_of(const char *name)
{
    size_t length = strlen(name);
    return length > 80 ? name + length - 80 : name;
}

static void say_different(struct mw_image *image, const struct mw_core_module *module,
                          const struct mw_elf_build_id *found)
{
    char wanted[ID_TEXT], has[ID_TEXT];
    if (module->missing_bytes > 0)
        mw_finding_add(&image->findings, "core-file-differs", module->base, module->missing_bytes,
                       "'%s' is not the file that was mapped: build-id %s…, the core's is %s…",
                       tail_of(module->name), id_text(found, has), id_text(&module->id, wanted));
}

/* Is the file the one that was mapped? Keeps what identifies it. */
static void check_module(struct mw_image *image, struct mw_core_module *module)
{
    struct stat about;
    struct mw_elf_build_id id;
    if (module->id.length == 0) {
        if (module->missing_bytes > 0)
            mw_finding_add(&image->findings, "core-file-unchecked", module->base,
                           module->missing_bytes,
                           "the core has no build-id of '%s': its file is not believed",
                           tail_of(module->name));
        return;
    }
    MW_CLOSE int fd = mw_core_file_open(module->name);
    if (fd < 0 || fstat(fd, &about) != 0) {
        if (module->missing_bytes > 0)
            mw_finding_add(&image->findings, "core-file-missing", module->base,
                           module->missing_bytes, "cannot open '%s', which the core leaves out: %s",
                           tail_of(module->name), strerror(errno));
        return;
    }
    (void)mw_core_file_build_id(fd, &id);
    if (id.length != module->id.length || memcmp(id.bytes, module->id.bytes, id.length) != 0) {
        say_different(image, module, &id);
        return;
    }
    module->is_good = mw_core_module_dynamic(module, fd);
    module->device = about.st_dev;
    module->inode = about.st_ino;
    module->file_bytes = (uint64_t)about.st_size;
}

/* -- modules among the regions --------------------------------------------------------------- */

/* Permissions of a mapping that the core names and does not hold: those of its segment. */
static void guess_permissions(struct mw_image *image, const struct mw_core_module *module,
                              struct mw_mapping *map)
{
    const struct mw_elf_segment *segment =
        module ? mw_core_module_segment(module, map, image->page_size) : NULL;
    map->perms = MW_PERM_READ;
    if (!segment)
        return;
    map->perms = (segment->flags & PF_R ? MW_PERM_READ : 0u) |
                 (segment->flags & PF_W ? MW_PERM_WRITE : 0u) |
                 (segment->flags & PF_X ? MW_PERM_EXEC : 0u);
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct mw_elf_segment *relro = &module->segments[i];
        mw_addr start = module->bias + relro->address, end;
        if (relro->type == PT_GNU_RELRO &&
            map->start >= (start & ~(mw_addr)(image->page_size - 1)) &&
            !__builtin_add_overflow(start, relro->memory_bytes, &end) && map->end <= end)
            map->perms &= ~(unsigned)MW_PERM_WRITE;
    }
}

/* Does region `index` begin a module? Adds it then. */
static enum mw_status begin_module(struct mw_image *image, size_t index, bool *begins_out)
{
    struct mw_core *core = mw_core_of(image);
    const struct mw_mapping *map = &image->regions.items[index];
    struct mw_core_module module;
    *begins_out = false;
    if (map->offset != 0 || core->parts[index].file_bytes == 0 || core->files->count == MODULES_MAX)
        return MW_OK;
    enum mw_status status = mw_core_module_read(image, map->start, begins_out, &module);
    if (status != MW_OK || !*begins_out)
        return status;
    module.name = map->name;
    status = mw_vec_push(core->files, MODULES_MAX, module);
    if (status != MW_OK)
        mw_core_module_deinit(&module);
    return status;
}

static bool has_name_of(const struct mw_core_files *files, size_t module,
                        const struct mw_mapping *map)
{
    return module > 0 && strcmp(files->items[module - 1].name, map->name) == 0;
}

/* A module's regions follow one another; only its own .bss, without a name, comes between. */
static enum mw_status find_modules(struct mw_image *image)
{
    struct mw_core *core = mw_core_of(image);
    size_t current = 0; /* number of a module, 0 none */
    for (size_t i = 0; i < image->regions.count; i++) {
        struct mw_mapping *map = &image->regions.items[i];
        struct mw_core_part *part = &core->parts[i];
        if (map->name[0] != '/')
            continue;
        bool begins;
        enum mw_status status = begin_module(image, i, &begins);
        if (status != MW_OK)
            return status;
        if (begins)
            current = core->files->count;
        else if (!has_name_of(core->files, current, map))
            current = 0;
        part->module = (uint32_t)current;
        struct mw_core_module *module = current ? &core->files->items[current - 1] : NULL;
        if (part->has_no_permissions)
            guess_permissions(image, module, map);
        if (module)
            module->missing_bytes += mw_mapping_size(map) - part->file_bytes;
    }
    return MW_OK;
}

enum mw_status mw_core_files_load(struct mw_image *image, uint16_t machine, struct mw_error *err)
{
    struct mw_core *core = mw_core_of(image);
    core->files = mw_calloc(1, sizeof *core->files);
    if (!core->files)
        return mw_fail(err, MW_NOMEM, "out of memory for the modules of a core");
    core->files->fd = -1;
    core->files->machine = machine;
    enum mw_status status = find_modules(image);
    if (status != MW_OK)
        return mw_fail(err, status, "out of memory for the modules of a core");
    for (size_t i = 0; i < core->files->count; i++)
        check_module(image, &core->files->items[i]);
    return MW_OK;
}

void mw_core_files_deinit(struct mw_core_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->count; i++)
        mw_core_module_deinit(&files->items[i]);
    if (files->fd >= 0)
        close(files->fd);
    free(files->items);
    free(files);
}

/* -- reading --------------------------------------------------------------------------------- */

static struct mw_core_module *good_module(const struct mw_image *image, size_t index)
{
    const struct mw_core *core = image->state;
    size_t module = core->files ? core->parts[index].module : 0;
    return module > 0 && core->files->items[module - 1].is_good ? &core->files->items[module - 1]
                                                                : NULL;
}

/* A descriptor of the same file as was checked; -1 when another one has its name by now. */
static int open_again(const struct mw_core_module *module)
{
    MW_CLOSE int fd = mw_core_file_open(module->name);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0 || about.st_dev != module->device ||
        about.st_ino != module->inode || (uint64_t)about.st_size != module->file_bytes)
        return -1;
    return mw_steal_fd(&fd);
}

/* The one that stays open. */
static int file_of(struct mw_core_files *files, const struct mw_core_module *module)
{
    size_t index = (size_t)(module - files->items);
    if (files->fd < 0 || files->opened != index) {
        if (files->fd >= 0)
            close(files->fd);
        files->fd = open_again(module);
        files->opened = index;
    }
    return files->fd;
}

/* How the file of a region relates to what the process has there. */
enum relation {
    RELATION_NONE,
    RELATION_CONTENT, /* it is the content */
    RELATION_INITIAL, /* it is what the loader began with */
};

static enum relation relation_of(const struct mw_image *image, const struct mw_core_module *module,
                                 const struct mw_mapping *map,
                                 const struct mw_elf_segment **segment_out)
{
    bool is_writable = map->perms & MW_PERM_WRITE;
    *segment_out = mw_core_module_segment(module, map, image->page_size);
    if (!*segment_out) /* mapped as data: nothing was relocated */
        return is_writable ? RELATION_NONE : RELATION_CONTENT;
    if (is_writable || (*segment_out)->flags & PF_W || module->dynamic.has_text_relocations)
        return RELATION_INITIAL;
    return RELATION_CONTENT;
}

bool mw_core_files_have(const struct mw_image *image, size_t index)
{
    const struct mw_core_module *module = good_module(image, index);
    const struct mw_mapping *map = &image->regions.items[index];
    const struct mw_elf_segment *segment;
    return module && relation_of(image, module, map, &segment) == RELATION_CONTENT;
}

/* Behind the last byte of a segment that is written to, the loader leaves zeros. */
static void clear_behind(const struct mw_core_module *module, const struct mw_elf_segment *segment,
                         mw_addr address, uint8_t *bytes, size_t length)
{
    uint64_t end = segment->address + segment->file_bytes, at = address - module->bias;
    if (!(segment->flags & PF_W) || segment->memory_bytes <= segment->file_bytes)
        return;
    size_t first = at >= end ? 0 : end - at < length ? (size_t)(end - at) : length;
    memset(bytes + first, 0, length - first);
}

/* Bytes of the file as they are, zeros behind its end to the end of its last page. What lies behind
 * that is mapped, and cannot be read. */
static size_t read_file(const struct mw_core_module *module, int fd, uint64_t page_size,
                        uint64_t offset, uint8_t *bytes, size_t length)
{
    uint64_t end = module->file_bytes + (-module->file_bytes & (page_size - 1));
    if (offset >= end)
        return 0;
    if (length > end - offset)
        length = (size_t)(end - offset);
    ssize_t got = mw_io_pread_full(fd, bytes, length, offset);
    if (got < 0)
        return 0;
    memset(bytes + got, 0, length - (size_t)got);
    return length;
}

static size_t files_read(struct mw_image *image, size_t index, uint64_t skip, void *buffer,
                         size_t length, bool is_initial)
{
    struct mw_core_module *module = good_module(image, index);
    const struct mw_mapping *map = &image->regions.items[index];
    const struct mw_elf_segment *segment;
    uint64_t offset;
    assert(skip < mw_mapping_size(map) && length <= mw_mapping_size(map) - skip);
    if (!module || __builtin_add_overflow(map->offset, skip, &offset))
        return 0;
    enum relation relation = relation_of(image, module, map, &segment);
    if (relation == RELATION_NONE || (relation == RELATION_INITIAL && !is_initial))
        return 0;
    struct mw_core_files *files = mw_core_of(image)->files;
    int fd = file_of(files, module);
    if (fd < 0 ||
        (relation == RELATION_INITIAL && !mw_core_module_relocs(module, fd, files->machine)))
        return 0;
    size_t got = read_file(module, fd, image->page_size, offset, buffer, length);
    if (relation == RELATION_CONTENT)
        return got;
    clear_behind(module, segment, map->start + skip, buffer, got);
    return mw_core_module_relocate(module, fd, map->start + skip, buffer, got);
}

size_t mw_core_files_read(struct mw_image *image, size_t index, uint64_t skip, void *buffer,
                          size_t length, bool is_initial)
{
    struct mw_core *core = mw_core_of(image);
    pthread_mutex_lock(&core->lock);
    size_t got = files_read(image, index, skip, buffer, length, is_initial);
    pthread_mutex_unlock(&core->lock);
    return got;
}

int mw_core_files_open(struct mw_image *image, const struct mw_mapping *region)
{
    size_t index = mw_mapping_lower_bound(&image->regions, region->start);
    if (index == image->regions.count)
        return -1;
    const struct mw_core_module *module = good_module(image, index);
    return module ? open_again(module) : -1;
}

/* What the core has goes first, page by page: it is the truth. */
size_t mw_core_read_initial(struct mw_image *image, mw_addr address, void *buffer, size_t length)
{
    size_t done = 0;
    while (done < length) {
        mw_addr at = address + done;
        uint8_t *out = (uint8_t *)buffer + done;
        size_t index = mw_mapping_lower_bound(&image->regions, at);
        if (index == image->regions.count || image->regions.items[index].start > at)
            break;
        const struct mw_mapping *map = &image->regions.items[index];
        uint64_t left = map->end - at;
        size_t step = left < length - done ? (size_t)left : length - done;
        size_t got = mw_core_read_own(image, at, out, step);
        if (got < step)
            got += mw_core_files_read(image, index, at - map->start + got, out + got, step - got,
                                      true);
        done += got;
        if (got < step)
            break;
    }
    return done;
}
