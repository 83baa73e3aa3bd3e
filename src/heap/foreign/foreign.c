/* heap/foreign/foreign.c: recognising jemalloc, tcmalloc, mimalloc and musl.
 *
 *   jemalloc   exports mallctl; extents in steps of 2 MiB, MAP_NORESERVE ("nr") where the kernel
 *              overcommits
 *   tcmalloc   gperftools exports tc_malloc and takes its memory by sbrk first, then in pieces of
 *              1 MiB and more; Google's names its regions "tcmalloc_region_…"
 *   mimalloc   exports mi_malloc; segments of 32 MiB at hints from 2 TiB on
 *   musl       the loader is its libc; metadata pages of mallocng begin with a secret, which is
 *              the second word of AT_RANDOM: that tells a static program
 *
 * A program that has the allocator linked in exports its symbols only when it was linked so; then
 * it stays unrecognised. All reads are bounded. References: jemalloc 5.3 src/pages.c, gperftools
 * 2.10 src/system-alloc.cc, mimalloc 2.0 src/os.c, musl 1.2.3 src/malloc/mallocng/meta.h. */
#include "heap/foreign/foreign.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "symbol/dynsym.h"

#include <ctype.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define TIB ((uint64_t)1 << 40)

/* ---- modules ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The first mapping of a library whose name begins so. */
static const struct mw_mapping *library_find(const struct mw_image *image, const char *prefix)
{
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->name[0] == '/' && strncmp(base_name(map->name), prefix, strlen(prefix)) == 0)
            return map;
    }
    return NULL;
}

/* A library of exactly that name. */
static const struct mw_mapping *library_find_exact(const struct mw_image *image, const char *name)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (strcmp(base_name(image->regions.items[i].name), name) == 0)
            return &image->regions.items[i];
    return NULL;
}

/* The program itself: what holds its entry, else the lowest file that begins at offset 0. */
static const struct mw_mapping *program_find(const struct mw_image *image)
{
    const struct mw_mapping *map = image->entry ? mw_image_region(image, image->entry) : NULL;
    for (size_t i = 0; !map && i < image->regions.count; i++)
        if (image->regions.items[i].name[0] == '/' && image->regions.items[i].offset == 0)
            map = &image->regions.items[i];
    return map && map->name[0] == '/' ? map : NULL;
}

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
    const char *at = strstr(base_name(path), ".so.");
    size_t length = at ? strspn(at + 4, "0123456789.") : 0;
    if (length > 0 && length < 32) {
        memcpy(version, at + 4, length);
        version[length] = '\0';
    }
}

/* ---- versions from constants ---- */

/* Length of the version that the text at `at` begins with, 0: none. */
typedef size_t version_match(const char *at, size_t left);

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

/* Constants from the file behind them, or from those pages that are in memory: reading others would
 * map them in the target. */
static size_t constants_read(struct mw_image *image, int fd, const struct mw_mapping *map,
                             mw_addr at, char *bytes, size_t room)
{
    if (fd < 0)
        return mw_image_read_present(image, at, bytes, room);
    ssize_t got = mw_io_pread_full(fd, bytes, room, map->offset + (at - map->start));
    return got > 0 ? (size_t)got : 0;
}

/* Search the constants of a module (its mappings that are readable and not writable). */
static void version_from_constants(struct mw_image *image, const struct mw_mapping *module,
                                   version_match *match, size_t skip, char version[32])
{
    enum { STEP = 256 << 10, SEARCH_MAX = 16 << 20 };
    MW_FREE char *bytes = mw_calloc(STEP, 1);
    MW_CLOSE int fd = mw_image_open_file(image, module);
    size_t searched = 0;
    for (size_t i = 0; bytes && i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->inode != module->inode || strcmp(map->name, module->name) != 0 ||
            (map->perms & (MW_PERM_READ | MW_PERM_WRITE)) != MW_PERM_READ)
            continue;
        for (mw_addr at = map->start; at < map->end && searched < SEARCH_MAX; at += STEP - 128) {
            size_t room = map->end - at < STEP ? (size_t)(map->end - at) : STEP;
            size_t got = constants_read(image, fd, map, at, bytes, room);
            searched += room; /* read or not: a core may lack all of it */
            for (size_t k = 0; k < got; k++) {
                size_t length =
                    k == 0 || bytes[k - 1] == '\0' || skip ? match(bytes + k, got - k) : 0;
                if (length <= skip || length - skip >= 32)
                    continue;
                memcpy(version, bytes + k + skip, length - skip);
                version[length - skip] = '\0';
                return;
            }
            if (map->end - at <= STEP)
                break;
        }
    }
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
    const struct mw_mapping *library = library_find(image, by->library);
    const struct mw_mapping *program = program_find(image);
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
        version_from_constants(image, module, match_jemalloc, 0, allocator_out->version);
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
        version_from_constants(image, module, match_gperftools, sizeof gperftools_word - 1,
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

/* A page of a plain mapping that begins with the secret: mallocng's struct meta_area. */
static bool has_meta_area(struct mw_image *image)
{
    enum { PAGES_MAX = 64, PAGES_MAX_IN_ALL = 1 << 16 };
    uint64_t random[2], word, pages_left = PAGES_MAX_IN_ALL;
    if (!(image->can & MW_CAN_READ) || image->at_random == 0 ||
        mw_image_read(image, image->at_random, random, sizeof random) != MW_OK || random[1] == 0)
        return false;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!is_plain(map) || (map->name[0] != '\0' && strcmp(map->name, "[heap]") != 0))
            continue;
        uint64_t pages = mw_mapping_size(map) / 4096;
        pages = pages < PAGES_MAX ? pages : PAGES_MAX;
        if (pages > pages_left)
            return false;
        pages_left -= pages;
        for (size_t page = 0; page < pages; page++)
            if (mw_image_read_present(image, map->start + page * 4096, &word, sizeof word) ==
                    sizeof word &&
                word == random[1])
                return true;
    }
    return false;
}

static enum mw_status musl_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                 struct mw_error *err)
{
    (void)err;
    /* Alpine calls it ld-musl-x86_64.so.1, Debian and musl's own build libc.so; glibc's is
     * libc.so.6 */
    bool is_dynamic = library_find(image, "ld-musl-") || library_find(image, "libc.musl-") ||
                      library_find_exact(image, "libc.so");
    bool has_loader = library_find(image, "ld-") || library_find(image, "libc.so");
    if (!is_dynamic && (has_loader || !has_meta_area(image)))
        return MW_NOT_FOUND;
    *allocator_out = (struct mw_allocator){.kind = "musl"};
    return MW_OK;
}

const struct mw_heap_walker mw_jemalloc_walker = {.kind = "jemalloc", .probe = jemalloc_probe};
const struct mw_heap_walker mw_tcmalloc_walker = {.kind = "tcmalloc", .probe = tcmalloc_probe};
const struct mw_heap_walker mw_mimalloc_walker = {.kind = "mimalloc", .probe = mimalloc_probe};
const struct mw_heap_walker mw_musl_walker = {.kind = "musl", .probe = musl_probe};

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
        {"jemalloc", jemalloc_maps},
        {"tcmalloc", tcmalloc_maps},
        {"mimalloc", mimalloc_maps},
        {"musl", musl_maps},
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
