/* runtime/cpython/cpython.c: CPython's small-object heap (obmalloc).
 *
 * Objects up to 512 bytes live in arenas that obmalloc maps itself, 256 KiB each up to 3.9, 1 MiB
 * since 3.10; larger ones are malloc's. Neighbouring arenas, and malloc's mmapped blocks beside
 * them, melt into one mapping, so a mapping's size says little: where memory can be read, the
 * interpreter's own table of arenas is found in its data (arenas.c); without, a mapping of a whole
 * number of arenas is taken for them. Free-threaded builds use mimalloc. Facts:
 * docs/formats/cpython.md. Linear. */
#include "runtime/cpython/cpython.h"

#include "runtime/cpython/arenas.h"
#include "runtime/shapes.h"
#include "symbol/dynsym.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ARENA_SMALL ((uint64_t)256 << 10)
#define ARENA_LARGE ((uint64_t)1 << 20)

struct python {
    struct mw_image *image;
    struct mw_claims *claims;
    struct mw_runtime *runtime;
    const struct mw_mapping *module; /* of the interpreter: a program or libpython */
};

/* ---- recognition ---- */

/* "python3.11", "python3", "libpython3.11.so.1.0": the version behind the name, "" without digits;
 * NULL when it is no such name. */
static const char *version_in_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strncmp(name, "lib", 3) == 0)
        name += 3;
    if (strncmp(name, "python", 6) != 0)
        return NULL;
    name += 6;
    const char *end = name + strspn(name, "0123456789.");
    bool is_library = strncmp(end, "so", 2) == 0 || strncmp(end, "m.so", 4) == 0;
    bool is_flagged = end[0] != '\0' && strchr("dmut", end[0]) && end[1] == '\0';
    return *end == '\0' || is_library || is_flagged ? name : NULL;
}

static const struct mw_mapping *module_find(const struct mw_image *image)
{
    const struct mw_mapping *program = NULL;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->name[0] != '/' || !(map->perms & MW_PERM_EXEC) || !version_in_name(map->name))
            continue;
        if (strstr(map->name, "/libpython"))
            return map; /* the program is then only its launcher */
        if (!program)
            program = map;
    }
    return program;
}

/* An embedding program (uwsgi, a frozen application) exports the interpreter itself. */
static const struct mw_mapping *embedder_find(struct mw_image *image)
{
    const struct mw_mapping *program = mw_program_find(image);
    struct mw_dynsym dynsym;
    if (!program || !(image->can & MW_CAN_READ) ||
        mw_dynsym_open(image, mw_elf_base_of(image, program->start), &dynsym) != MW_OK ||
        !mw_dynsym_has(&dynsym, "PyObject_Malloc"))
        return NULL;
    return program;
}

/* ".../versions/3.12.1/bin/python3.12" says more than the name. */
static void version_from_path(const char *path, char version[64])
{
    const char *name = version_in_name(path);
    size_t length = name ? strspn(name, "0123456789.") : 0;
    while (length > 0 && name[length - 1] == '.')
        length--;
    if (length > 0 && length < 64) {
        memcpy(version, name, length);
        version[length] = '\0';
    }
    const char *folder = strstr(path, "/versions/");
    if (folder && isdigit((unsigned char)folder[10])) {
        length = strspn(folder + 10, "0123456789.");
        if (folder[10 + length] == '/' && length < 64) {
            memcpy(version, folder + 10, length);
            version[length] = '\0';
        }
    }
}

/* Py_Version, exported since 3.11: PY_VERSION_HEX. */
static void version_from_symbol(struct mw_image *image, const struct mw_dynsym *dynsym,
                                char version[64])
{
    struct mw_symbol symbol;
    uint32_t hex;
    if (mw_dynsym_find(dynsym, "Py_Version", &symbol) != MW_OK ||
        mw_image_read(image, symbol.address, &hex, sizeof hex) != MW_OK)
        return;
    unsigned major = hex >> 24, minor = hex >> 16 & 255, micro = hex >> 8 & 255;
    if (major == 3 && minor >= 11)
        snprintf(version, 64, "%u.%u.%u", major, minor, micro);
}

/* ---- arenas from the interpreter's table ---- */

static bool same_file(const struct mw_mapping *a, const struct mw_mapping *b)
{
    return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
           strcmp(a->name, b->name) == 0;
}

/* Look for the table in the module's .bss, in _PyRuntime, then in all of its data. */
static enum mw_status table_find(struct python *python, const struct mw_dynsym *dynsym,
                                 struct mw_obmalloc *obmalloc_out)
{
    struct mw_image *image = python->image;
    const struct mw_mapping *maps = image->regions.items;
    struct mw_symbol runtime;
    enum mw_status status = MW_NOT_FOUND;
    size_t data = image->regions.count;
    for (size_t i = 0; i < image->regions.count; i++)
        if ((maps[i].perms & MW_PERM_WRITE) && same_file(&maps[i], python->module))
            data = i;
    if (data + 1 < image->regions.count && maps[data + 1].start == maps[data].end &&
        mw_mapping_is_rw(&maps[data + 1]))
        status = mw_obmalloc_find(image, maps[data].end - 4096,
                                  maps[data + 1].end < dynsym->elf.end ? maps[data + 1].end
                                                                       : dynsym->elf.end,
                                  obmalloc_out);
    if (status == MW_NOT_FOUND && mw_dynsym_find(dynsym, "_PyRuntime", &runtime) == MW_OK &&
        runtime.size < (uint64_t)16 << 20 && runtime.address >= dynsym->elf.base &&
        runtime.address < dynsym->elf.end)
        status =
            mw_obmalloc_find(image, runtime.address, runtime.address + runtime.size, obmalloc_out);
    if (status == MW_NOT_FOUND && data < image->regions.count)
        status = mw_obmalloc_find(image, maps[data].start, maps[data].end, obmalloc_out);
    return status;
}

static enum mw_status arena_claim(struct python *python, mw_addr start, mw_addr end,
                                  enum mw_claim_priority priority)
{
    struct mw_runtime *runtime = python->runtime;
    if (runtime->heap_committed == MW_UNKNOWN)
        runtime->heap_committed = runtime->heap_rss = 0;
    runtime->heap_committed += end - start;
    runtime->heap_rss = mw_add_known(runtime->heap_rss, mw_range_rss(python->image, start, end));
    return mw_claims_add_range(python->claims, start, end, MW_CATEGORY_MANAGED_HEAP, priority,
                               "obmalloc arena");
}

static enum mw_status table_claim(struct python *python, const struct mw_obmalloc *obmalloc)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < obmalloc->count && status == MW_OK;) {
        mw_addr start = obmalloc->items[i], end = start;
        for (; i < obmalloc->count && obmalloc->items[i] == end; i++)
            end += obmalloc->arena_bytes;
        status = arena_claim(python, start, end, MW_CLAIM_RUNTIME);
    }
    python->runtime->heap_used = obmalloc->used_bytes;
    python->runtime->heap_nursery = 0; /* counted as it is, not as of a collection */
    return status;
}

/* ---- arenas by size ---- */

/* A whole number of arenas and no stack of a thread: not marked, no guard below. */
static bool is_arena_sized(const struct mw_image *image, size_t i, uint64_t arena_bytes)
{
    const struct mw_mapping *map = &image->regions.items[i];
    if (!mw_mapping_is_rw(map) || mw_mapping_size(map) % arena_bytes != 0 ||
        (map->vm_flags & (MW_VM_NOHUGEPAGE | MW_VM_NORESERVE)))
        return false;
    if (i == 0 || map[-1].end != map->start)
        return true;
    bool has_guard = mw_mapping_is_unnamed(map - 1) && map[-1].perms == 0;
    bool is_bss = map[-1].name[0] != '\0';
    return !has_guard && !is_bss;
}

static enum mw_status sizes_claim(struct python *python)
{
    const char *version = python->runtime->version;
    unsigned major = 0, minor = 0;
    bool is_large =
        sscanf(version, "%2u.%3u", &major, &minor) != 2 || major > 3 || (major == 3 && minor >= 10);
    uint64_t arena_bytes = is_large ? ARENA_LARGE : ARENA_SMALL;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < python->image->regions.count && status == MW_OK; i++) {
        const struct mw_mapping *map = &python->image->regions.items[i];
        if (is_arena_sized(python->image, i, arena_bytes))
            status = arena_claim(python, map->start, map->end, MW_CLAIM_GUESS);
    }
    return status;
}

static enum mw_status arenas_claim(struct python *python)
{
    struct mw_image *image = python->image;
    struct mw_dynsym dynsym;
    if (!(image->can & MW_CAN_READ) ||
        mw_dynsym_open(image, mw_elf_base_of(image, python->module->start), &dynsym) != MW_OK)
        return sizes_claim(python);
    version_from_symbol(image, &dynsym, python->runtime->version);
    struct mw_obmalloc obmalloc = {0};
    enum mw_status status = table_find(python, &dynsym, &obmalloc);
    if (status == MW_OK)
        status = table_claim(python, &obmalloc);
    mw_obmalloc_deinit(&obmalloc);
    return status == MW_NOT_FOUND ? MW_OK : status;
}

static enum mw_status cpython_probe(struct mw_image *image, struct mw_claims *claims,
                                    struct mw_runtime *runtime_out, struct mw_findings *findings,
                                    struct mw_error *err)
{
    (void)findings;
    const struct mw_mapping *module = module_find(image);
    if (!module)
        module = embedder_find(image);
    if (!module)
        return MW_NOT_FOUND;
    struct python python = {
        .image = image, .claims = claims, .runtime = runtime_out, .module = module};
    version_from_path(module->name, runtime_out->version);
    enum mw_status status = arenas_claim(&python);
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot claim its mappings");
}

const struct mw_runtime_probe mw_runtime_cpython = {.kind = "cpython", .probe = cpython_probe};
