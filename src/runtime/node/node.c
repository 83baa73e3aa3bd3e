/* runtime/node/node.c: V8 in Node.js from its mappings.
 *
 * V8 maps its heap in chunks aligned to 256 KiB, each at a random address of its own (hints
 * below 2^46), ordinary ones 256 KiB long, large objects as long as they need. All
 * that V8 maps carries MADV_DONTFORK ("dc"), whatever the version; "nr" or "ac" does not tell.
 *
 *   heap   | rw 256K |      | rw 256K |      | r--p read-only space |    | rw 1,028K large object |
 *   code   | rw 8K | ---p | rwx or r-x … | ---p ………………… | r-x node (builtins, remapped) | ---p |
 *
 * A touching sequence with an executable part is a code range; chunks that are not accessible are
 * address space. Buffers (ArrayBuffer, Buffer) are malloc's. A source without VmFlags has the
 * alignment alone. Facts: docs/formats/node.md. Linear. */
#include "runtime/node/node.h"

#include "runtime/shapes.h"
#include "symbol/dynsym.h"

#include <string.h>

#define CHUNK_ALIGN ((uint64_t)256 << 10)
#define HINT_END ((mw_addr)1 << 46)

struct node {
    struct mw_image *image;
    struct mw_claims *claims;
    struct mw_runtime *runtime;
    const struct mw_mapping *maps;
    size_t map_count;
};

static bool is_chunk_start(const struct mw_mapping *map)
{
    return map->start % CHUNK_ALIGN == 0;
}

/* Mapped by V8: by its mark, or without flags by where and how it lies. */
static bool is_v8(const struct mw_mapping *map)
{
    if (!mw_mapping_is_unnamed(map))
        return false;
    if (map->has_vm_flags)
        return (map->vm_flags & MW_VM_DONTFORK) != 0;
    return (is_chunk_start(map) && map->start < HINT_END && map->start >= (mw_addr)1 << 32) ||
           (map->perms & MW_PERM_EXEC);
}

/* The builtins, remapped from the program file into the code range. */
static bool is_builtins(const struct node *node, size_t i, const struct mw_mapping *program)
{
    const struct mw_mapping *map = &node->maps[i];
    return program && (map->perms & MW_PERM_EXEC) && strcmp(map->name, program->name) == 0 &&
           i > 0 && is_v8(map - 1) && map[-1].end == map->start;
}

/* The end of the touching sequence of V8's mappings from first; whether one is executable. */
static size_t run_end(const struct node *node, size_t first, const struct mw_mapping *program,
                      bool *has_code_out)
{
    size_t i = first;
    *has_code_out = false;
    for (; i < node->map_count; i++) {
        if (i > first && node->maps[i].start != node->maps[i - 1].end)
            break;
        if (!is_v8(&node->maps[i]) && !is_builtins(node, i, program))
            break;
        *has_code_out |= (node->maps[i].perms & MW_PERM_EXEC) != 0;
    }
    return i;
}

static enum mw_status heap_claim(struct node *node, const struct mw_mapping *map)
{
    struct mw_runtime *runtime = node->runtime;
    if (runtime->heap_committed == MW_UNKNOWN)
        runtime->heap_committed = runtime->heap_rss = 0;
    runtime->heap_committed += mw_mapping_size(map);
    runtime->heap_rss =
        mw_add_known(runtime->heap_rss, mw_range_rss(node->image, map->start, map->end));
    return mw_runtime_claim(node->claims, map, MW_CATEGORY_MANAGED_HEAP, MW_CLAIM_RUNTIME,
                            "V8 heap");
}

static enum mw_status part_claim(struct node *node, const struct mw_mapping *map, bool in_code)
{
    if (!(map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC)) ||
        !mw_mapping_is_unnamed(map))
        return MW_OK;
    if (in_code)
        return mw_runtime_claim(node->claims, map, MW_CATEGORY_MANAGED_CODE, MW_CLAIM_RUNTIME,
                                "V8 code");
    if (is_chunk_start(map))
        return heap_claim(node, map);
    return mw_runtime_claim(node->claims, map, MW_CATEGORY_MANAGED_METADATA, MW_CLAIM_RUNTIME,
                            "V8 tables");
}

/* Is the program Node, or is Node a library of it (libnode.so.108)? */
static bool is_node_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strcmp(name, "node") == 0 || strcmp(name, "nodejs") == 0 ||
           strncmp(name, "libnode.so", 10) == 0;
}

static const struct mw_mapping *node_find(const struct mw_image *image)
{
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->name[0] == '/' && (map->perms & MW_PERM_EXEC) && is_node_name(map->name))
            return map;
    }
    return NULL;
}

/* The version, from node::per_process::metadata, which Node exports: it begins with the std::string
 * versions.node (pointer, length, …). False when it is not in this module. */
static bool version_of_module(struct mw_image *image, const struct mw_mapping *module,
                              char version[64])
{
    struct mw_dynsym dynsym;
    struct mw_symbol symbol;
    uint64_t string[2];
    char text[32] = {0};
    mw_addr base = mw_elf_base_of(image, module->start);
    if (base == 0 || mw_dynsym_open(image, base, &dynsym) != MW_OK ||
        mw_dynsym_find(&dynsym, "_ZN4node11per_process8metadataE", &symbol) != MW_OK ||
        mw_image_read(image, symbol.address, string, sizeof string) != MW_OK || string[1] == 0 ||
        string[1] >= sizeof text || mw_image_read(image, string[0], text, string[1]) != MW_OK ||
        strspn(text, "0123456789.") != string[1])
        return false;
    memcpy(version, text, string[1] + 1);
    return true;
}

/* In the program, or in libnode.so, which Debian's program is linked against. */
static void version_read(struct mw_image *image, const struct mw_mapping *program, char version[64])
{
    if (!(image->can & MW_CAN_READ) || version_of_module(image, program, version))
        return;
    for (size_t i = 0; i < image->regions.count; i++)
        if (strstr(image->regions.items[i].name, "/libnode.so")) {
            (void)version_of_module(image, &image->regions.items[i], version);
            return;
        }
}

static enum mw_status node_probe(struct mw_image *image, struct mw_claims *claims,
                                 struct mw_runtime *runtime_out, struct mw_findings *findings,
                                 struct mw_error *err)
{
    (void)findings;
    const struct mw_mapping *program = node_find(image);
    if (!program)
        return MW_NOT_FOUND;
    struct node node = {.image = image,
                        .claims = claims,
                        .runtime = runtime_out,
                        .maps = image->regions.items,
                        .map_count = image->regions.count};
    version_read(image, program, runtime_out->version);
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < node.map_count && status == MW_OK;) {
        bool has_code;
        size_t end = run_end(&node, i, program, &has_code);
        size_t next = end > i ? end : i + 1;
        for (; i < end && status == MW_OK; i++)
            status = part_claim(&node, &node.maps[i], has_code);
        i = next;
    }
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot claim its mappings");
}

const struct mw_runtime_probe mw_runtime_node = {.kind = "node", .probe = node_probe};
