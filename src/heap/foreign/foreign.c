/* heap/foreign/foreign.c: recognising jemalloc, tcmalloc and mimalloc.
 *
 *   jemalloc   exports mallctl; extents in steps of 2 MiB, MAP_NORESERVE ("nr") where the kernel
 *              overcommits
 *   tcmalloc   gperftools exports tc_malloc and takes its memory by sbrk first, then in pieces of
 *              1 MiB and more; Google's names its regions "tcmalloc_region_…"
 *   mimalloc   exports mi_malloc; segments of 32 MiB at hints from 2 TiB on
 *
 * A program that has the allocator linked in exports its symbols only when it was linked so; then
 * it stays unrecognised. All reads are bounded. References: jemalloc 5.3 src/pages.c, gperftools
 * 2.10 src/system-alloc.cc, mimalloc 2.0 src/os.c. */
#include "heap/foreign/foreign.h"

#include "heap/modules.h"
#include "symbol/dynsym.h"

#include <ctype.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define TIB ((uint64_t)1 << 40)

/* ---- modules ---- */

static bool exports(struct mw_image *image, const struct mw_mapping *module, const char *symbol)
{
    struct mw_dynsym dynsym;
    return module && (image->can & MW_CAN_READ) &&
           mw_dynsym_open(image, mw_elf_base_of(image, module->start), &dynsym) == MW_OK &&
           mw_dynsym_has(&dynsym, symbol);
}

/* "libmimalloc.so.2.0" → "2.0". */
static void version_from_name(const char *path, char version[32])
{
    const char *at = strstr(mw_module_base_name(path), ".so.");
    size_t length = at ? strspn(at + 4, "0123456789.") : 0;
    if (length > 0 && length < 32) {
        memcpy(version, at + 4, length);
        version[length] = '\0';
    }
}

/* ---- versions from constants ---- */

/* "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c" → 5.3.0 */
static size_t match_jemalloc(const char *at, size_t left)
{
    enum { HASH = 40 };
    size_t length = 0;
    while (length < 16 && length < left &&
           (isdigit((unsigned char)at[length]) || at[length] == '.'))
        length++;
    if (length < 5 || left < length + 4 + HASH || at[length] != '-')
        return 0;
    size_t i = length + 1;
    while (i < left && isdigit((unsigned char)at[i]))
        i++;
    if (i == length + 1 || left - i < 2 + HASH || at[i] != '-' || at[i + 1] != 'g')
        return 0;
    for (size_t k = 0; k < HASH; k++)
        if (!isxdigit((unsigned char)at[i + 2 + k]))
            return 0;
    return length;
}

static const char gperftools_word[] = "gperftools ";

/* "gperftools 2.10" → the word is skipped by the caller */
static size_t match_gperftools(const char *at, size_t left)
{
    size_t word = sizeof gperftools_word - 1, length = 0;
    if (left <= word || memcmp(at, gperftools_word, word) != 0)
        return 0;
    while (word + length < left && length < 16 &&
           (isdigit((unsigned char)at[word + length]) || at[word + length] == '.'))
        length++;
    return length > 0 ? word + length : 0;
}

/* ---- probes ---- */

struct recognised_by {
    const char *library;    /* the beginning of its file name */
    const char *symbols[3]; /* one of them is exported by it, or by the program */
    const char *region;     /* the beginning of a mapping's own name; NULL */
};

/* The module that is or has the allocator; NULL when there is none. */
static const struct mw_mapping *module_find(struct mw_image *image, const struct recognised_by *by)
{
    const struct mw_mapping *library = mw_module_library(image, by->library);
    const struct mw_mapping *program = mw_module_program(image);
    if (library)
        return library;
    for (size_t i = 0; i < sizeof by->symbols / sizeof *by->symbols && by->symbols[i]; i++)
        if (exports(image, program, by->symbols[i]))
            return program;
    for (size_t i = 0; by->region && i < image->regions.count; i++)
        if (strncmp(image->regions.items[i].name, by->region, strlen(by->region)) == 0)
            return &image->regions.items[i];
    return NULL;
}

static enum mw_status recognise(struct mw_image *image, const char *kind,
                                const struct recognised_by *by, struct mw_allocator *allocator_out,
                                const struct mw_mapping **module_out)
{
    *module_out = module_find(image, by);
    if (!*module_out)
        return MW_NOT_FOUND;
    *allocator_out = (struct mw_allocator){.kind = kind};
    return MW_OK;
}

static enum mw_status jemalloc_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                     struct mw_error *err)
{
    static const struct recognised_by by = {
        "libjemalloc.so", {"mallctl", "je_mallctl", "_rjem_mallctl"}, "[anon:jemalloc"};
    const struct mw_mapping *module;
    (void)err;
    enum mw_status status = recognise(image, "jemalloc", &by, allocator_out, &module);
    if (status == MW_OK && (image->can & MW_CAN_READ) && module->name[0] == '/')
        mw_module_version(image, module, match_jemalloc, 0, allocator_out->version);
    return status;
}

static enum mw_status tcmalloc_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                     struct mw_error *err)
{
    static const struct recognised_by by = {"libtcmalloc",
                                            {"tc_malloc", "MallocExtension_ReleaseFreeMemory",
                                             "MallocExtension_Internal_GetNumericProperty"},
                                            "[anon:tcmalloc_region"};
    const struct mw_mapping *module;
    (void)err;
    enum mw_status status = recognise(image, "tcmalloc", &by, allocator_out, &module);
    if (status == MW_OK && (image->can & MW_CAN_READ) && module->name[0] == '/')
        mw_module_version(image, module, match_gperftools, sizeof gperftools_word - 1,
                          allocator_out->version);
    return status;
}

static enum mw_status mimalloc_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                     struct mw_error *err)
{
    static const struct recognised_by by = {
        "libmimalloc", {"mi_malloc", "mi_version"}, "[anon:mimalloc"};
    const struct mw_mapping *module;
    (void)err;
    enum mw_status status = recognise(image, "mimalloc", &by, allocator_out, &module);
    if (status == MW_OK)
        version_from_name(module->name, allocator_out->version);
    return status;
}

static bool is_plain(const struct mw_mapping *map)
{
    return (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC | MW_PERM_SHARED)) ==
               (MW_PERM_READ | MW_PERM_WRITE) &&
           mw_mapping_is_anonymous(map);
}

const struct mw_heap_walker mw_jemalloc_walker = {.kind = "jemalloc", .probe = jemalloc_probe};
const struct mw_heap_walker mw_tcmalloc_walker = {.kind = "tcmalloc", .probe = tcmalloc_probe};
const struct mw_heap_walker mw_mimalloc_walker = {.kind = "mimalloc", .probe = mimalloc_probe};

/* ---- claims ---- */

static bool jemalloc_maps(const struct mw_mapping *map)
{
    return map->start % (2 * MIB) == 0 || (map->vm_flags & MW_VM_NORESERVE);
}

static bool tcmalloc_maps(const struct mw_mapping *map)
{
    return mw_mapping_size(map) >= MIB;
}

static bool mimalloc_maps(const struct mw_mapping *map)
{
    return map->start % (32 * MIB) == 0 || (map->start >= 2 * TIB && map->start < 32 * TIB);
}

/* Heaps of thread arenas, of a glibc whose layout is not known. */
static bool glibc_maps(const struct mw_mapping *map)
{
    return map->start % (64 * MIB) == 0;
}

/* Nothing else maps anonymous memory in a musl program but the program itself. */
static bool musl_maps(const struct mw_mapping *map)
{
    return mw_mapping_size(map) >= 4096;
}

enum mw_status mw_foreign_claim(const struct mw_image *image, const struct mw_allocator *allocator,
                                struct mw_claims *claims)
{
    static const struct {
        const char *kind;
        bool (*maps)(const struct mw_mapping *map);
    } shapes[] = {
        {"jemalloc", jemalloc_maps}, {"tcmalloc", tcmalloc_maps}, {"mimalloc", mimalloc_maps},
        {"musl", musl_maps},         {"glibc", glibc_maps},
    };
    enum mw_status status = MW_OK;
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        if (allocator->walked || strcmp(allocator->kind, shapes[shape].kind) != 0)
            continue;
        for (size_t i = 0; i < image->regions.count && status == MW_OK; i++) {
            const struct mw_mapping *map = &image->regions.items[i];
            if (is_plain(map) && map->name[0] == '\0' && shapes[shape].maps(map))
                status =
                    mw_claims_add_range(claims, map->start, map->end, MW_CATEGORY_MALLOC_UNSPLIT,
                                        MW_CLAIM_FALLBACK, shapes[shape].kind);
        }
    }
    return status;
}
