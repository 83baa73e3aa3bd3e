/* runtime/go/go.c: the Go runtime from its mappings.
 *
 * The heap grows in arenas of 64 MiB: reserved inaccessible, then made rw from the front. Hints put
 * the first at 0xc000000000 and further ones at the same offset of the next TiB; since 1.26 the
 * base may be random, but a reserve still ends at a multiple of 64 MiB:
 *
 *   heap      | rw …………… | ---p |          stacks of goroutines are in it, too
 *             ^ 4 MiB aligned   ^ 64 MiB aligned
 *   tables    | rw | ---p ………… | rw | ---p ………… |    page summaries, heap index, span tables
 *
 * A program without a dynamic loader has nobody else who maps memory: what is left is the
 * runtime's. With one (cgo) only what lies beside a reserve is, and a walked allocator's word
 * counts more. Facts: docs/formats/go.md. Linear. */
#include "runtime/go/go.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "runtime/shapes.h"
#include "symbol/elfmap.h"

#include <string.h>

#define ARENA_ALIGN ((uint64_t)64 << 20)
#define CHUNK_ALIGN ((uint64_t)4 << 20)
#define FIRST_HINT ((mw_addr)0xc000000000)
#define RESERVE_MIN ((uint64_t)128 << 10) /* a guard of a C stack is smaller */

struct go {
    struct mw_image *image;
    struct mw_claims *claims;
    struct mw_runtime *runtime;
    const struct mw_mapping *maps;
    size_t map_count;
    bool is_static;
};

/* A maximal sequence of touching mappings. */
struct run {
    size_t first, end;
    bool has_reserve;
};

static bool belongs_to_run(const struct go *go, size_t i)
{
    const struct mw_mapping *map = &go->maps[i];
    if (!mw_mapping_is_unnamed(map) || (map->perms & MW_PERM_EXEC) ||
        (map->vm_flags & (MW_VM_NORESERVE | MW_VM_GROWSDOWN)))
        return false;
    return go->is_static ||
           (!mw_mapping_is_arena(go->image, i, 0) && !mw_mapping_is_arena_rest(go->image, i, 0));
}

static bool is_barrier(const struct mw_mapping *map)
{
    return map->perms == 0;
}

static struct run run_at(const struct go *go, size_t first)
{
    struct run run = {.first = first};
    size_t i = first;
    for (; i < go->map_count && belongs_to_run(go, i); i++) {
        if (i > first && go->maps[i].start != go->maps[i - 1].end)
            break;
        run.has_reserve |= is_barrier(&go->maps[i]) && mw_mapping_size(&go->maps[i]) >= RESERVE_MIN;
    }
    run.end = i;
    return run;
}

/* Arenas: rw from a multiple of a chunk on, reserved up to a multiple of an arena. */
static bool is_heap(const struct go *go, const struct run *run)
{
    const struct mw_mapping *first = &go->maps[run->first];
    mw_addr end = go->maps[run->end - 1].end;
    return mw_mapping_is_rw(first) && first->start % CHUNK_ALIGN == 0 && end % ARENA_ALIGN == 0 &&
           end - first->start >= CHUNK_ALIGN;
}

/* A C thread's stack: marked by MAP_STACK, or above a guard. */
static bool is_stack(const struct go *go, size_t i)
{
    const struct mw_mapping *map = &go->maps[i];
    if (map->vm_flags & MW_VM_NOHUGEPAGE)
        return true;
    return !go->is_static && i > 0 && map[-1].end == map->start && is_barrier(map - 1) &&
           mw_mapping_size(map - 1) < RESERVE_MIN;
}

static enum mw_status heap_claim(struct go *go, const struct run *run)
{
    struct mw_runtime *runtime = go->runtime;
    enum mw_status status = MW_OK;
    for (size_t i = run->first; i < run->end && status == MW_OK; i++) {
        const struct mw_mapping *map = &go->maps[i];
        if (!mw_mapping_is_rw(map))
            continue;
        if (runtime->heap_committed == MW_UNKNOWN)
            runtime->heap_committed = runtime->heap_rss = 0;
        runtime->heap_committed += mw_mapping_size(map);
        runtime->heap_rss =
            mw_add_known(runtime->heap_rss, mw_range_rss(go->image, map->start, map->end));
        status = mw_runtime_claim(go->claims, map, MW_CATEGORY_MANAGED_HEAP, MW_CLAIM_RUNTIME,
                                  "Go heap");
    }
    if (runtime->heap_start == 0) {
        runtime->heap_start = go->maps[run->first].start;
        runtime->heap_end = go->maps[run->end - 1].end;
    }
    return status;
}

static enum mw_status tables_claim(struct go *go, const struct run *run)
{
    enum mw_status status = MW_OK;
    bool is_bss = run->first > 0 && go->maps[run->first - 1].name[0] != '\0' &&
                  go->maps[run->first - 1].end == go->maps[run->first].start;
    for (size_t i = run->first; i < run->end && status == MW_OK; i++) {
        if (!mw_mapping_is_rw(&go->maps[i]) || is_stack(go, i) || (is_bss && i == run->first))
            continue;
        if (run->has_reserve || go->is_static)
            status = mw_runtime_claim(go->claims, &go->maps[i], MW_CATEGORY_MANAGED_METADATA,
                                      MW_CLAIM_GUESS, "Go runtime tables");
    }
    return status;
}

/* ---- recognition ---- */

static bool see_go_note(void *user, uint32_t type, const char *name, const uint8_t *bytes,
                        size_t size)
{
    enum { NT_GO_BUILD_ID = 4 };
    (void)bytes;
    (void)size;
    *(bool *)user |= type == NT_GO_BUILD_ID && strcmp(name, "Go") == 0;
    return !*(bool *)user;
}

static bool program_is_go(struct mw_image *image, const struct mw_mapping *program)
{
    struct mw_elf_map elf;
    bool is_go = false;
    if (!program || !(image->can & MW_CAN_READ) ||
        mw_elf_map_read(image, mw_elf_base_of(image, program->start), &elf) != MW_OK)
        return false;
    return mw_elf_map_notes(&elf, see_go_note, &is_go) == MW_OK && is_go;
}

static bool has_first_arena(const struct mw_image *image)
{
    const struct mw_mapping *map = mw_image_region(image, FIRST_HINT);
    return map && map->start == FIRST_HINT && mw_mapping_is_rw(map);
}

static bool has_loader(const struct mw_image *image)
{
    for (size_t i = 0; i < image->regions.count; i++) {
        const char *slash = strrchr(image->regions.items[i].name, '/');
        if (slash && (strncmp(slash, "/ld-", 4) == 0 || strncmp(slash, "/ld.", 4) == 0))
            return true;
    }
    return false;
}

/* The build information that the linker puts near the start of the data: "\xff Go buildinf:",
 * pointer size, flags (2: strings follow inline, since 1.18), at 32 a length and the version. */
static void version_read(struct mw_image *image, const struct mw_mapping *program, char version[64])
{
    static const char magic[] = "\xff Go buildinf:";
    enum { SEARCH = 64 << 10, FLAGS_AT = 15, STRING_AT = 32, INLINE = 2 };
    MW_FREE uint8_t *bytes = mw_calloc(SEARCH, 1);
    for (size_t i = 0; i < image->regions.count && bytes; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!(map->perms & MW_PERM_WRITE) || strcmp(map->name, program->name) != 0)
            continue;
        size_t room = mw_mapping_size(map) < SEARCH ? (size_t)mw_mapping_size(map) : SEARCH;
        size_t got = mw_image_read_some(image, map->start, bytes, room);
        for (size_t at = 0; at + STRING_AT + 1 <= got; at += 16) {
            size_t length = bytes[at + STRING_AT];
            if (memcmp(bytes + at, magic, sizeof magic - 1) != 0 ||
                !(bytes[at + FLAGS_AT] & INLINE) || length < 3 || length >= 64 ||
                at + STRING_AT + 1 + length > got)
                continue;
            const char *text = (const char *)bytes + at + STRING_AT + 1;
            if (memcmp(text, "go", 2) != 0)
                continue;
            for (size_t k = 2; k < length && text[k] > ' ' && text[k] <= '~'; k++) {
                version[k - 2] = text[k];
                version[k - 1] = '\0';
            }
            return;
        }
    }
}

static enum mw_status runs_claim(struct go *go)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < go->map_count && status == MW_OK;) {
        struct run run = run_at(go, i);
        if (run.end == i) {
            i++;
            continue;
        }
        status = is_heap(go, &run) ? heap_claim(go, &run) : tables_claim(go, &run);
        i = run.end;
    }
    return status;
}

static enum mw_status go_probe(struct mw_image *image, struct mw_claims *claims,
                               struct mw_runtime *runtime_out, struct mw_findings *findings,
                               struct mw_error *err)
{
    (void)findings;
    const struct mw_mapping *program = mw_program_find(image);
    if (!has_first_arena(image) && !program_is_go(image, program))
        return MW_NOT_FOUND;
    struct go go = {.image = image,
                    .claims = claims,
                    .runtime = runtime_out,
                    .maps = image->regions.items,
                    .map_count = image->regions.count,
                    .is_static = !has_loader(image)};
    if (program && (image->can & MW_CAN_READ))
        version_read(image, program, runtime_out->version);
    enum mw_status status = runs_claim(&go);
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot claim its mappings");
}

const struct mw_runtime_probe mw_runtime_go = {.kind = "go", .probe = go_probe};
