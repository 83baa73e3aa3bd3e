/* runtime/dotnet/dotnet.c: .NET (CoreCLR) from its mappings.
 *
 * The runtime's platform layer reserves address space inaccessible and marks it MADV_DONTDUMP
 * ("dd"); committing makes parts rw and dumpable again. So its memory shows as runs of touching
 * mappings with marked reserves between:
 *
 *   GC    | rw | ---p dd | rw | ---p dd ………… | rw  rw | ---p dd | rw | ---p dd ………… |
 *         card, brick and mark tables, ---p → | regions: each begins at a multiple of 4 MiB
 *
 *   code  | rw-s, r-xs /memfd:doublemapper | ---p dd | r-xp System.Private.CoreLib.dll | …
 *         (DOTNET_EnableWriteXorExecute=0: rw-p and rwxp instead of the memfd)
 *
 * The heap begins at the first committed part from which on all begin at multiples of a region.
 * A committed part at the rim of a run may have melted with a neighbour's: there a walked
 * allocator's word counts more. Facts: docs/formats/dotnet.md. Linear. */
#include "runtime/dotnet/dotnet.h"

#include "runtime/shapes.h"
#include "symbol/dynsym.h"

#include <string.h>

#define REGION_ALIGN ((uint64_t)4 << 20)
#define HEAP_RUN_MIN ((uint64_t)16 << 20)

/* A maximal sequence of touching mappings of the runtime. */
struct run {
    size_t first, end;
    bool has_reserve, has_code;
};

static bool is_doublemapper(const struct mw_mapping *map)
{
    return strcmp(map->name, "/memfd:doublemapper") == 0;
}

static bool is_assembly(const struct mw_mapping *map)
{
    size_t length = strlen(map->name);
    return length > 4 && strcmp(map->name + length - 4, ".dll") == 0;
}

/* Not a thread's stack or its guard (MAP_STACK shows as "nh" since Linux 6.7), nor the heap of a
 * glibc arena, which may touch the GC's reserve. */
static bool belongs_to_run(struct mw_image *image, size_t i)
{
    const struct mw_mapping *map = &image->regions.items[i];
    if (is_doublemapper(map) || is_assembly(map))
        return true;
    return mw_mapping_is_unnamed(map) &&
           !(map->vm_flags & (MW_VM_NOHUGEPAGE | MW_VM_GROWSDOWN | MW_VM_NORESERVE)) &&
           !mw_mapping_is_arena(image, i, MW_VM_DONTDUMP) &&
           !mw_mapping_is_arena_rest(image, i, MW_VM_DONTDUMP);
}

static struct run run_at(struct mw_image *image, size_t first)
{
    const struct mw_mapping *maps = image->regions.items;
    struct run run = {.first = first};
    size_t i = first;
    for (; i < image->regions.count && belongs_to_run(image, i); i++) {
        if (i > first && maps[i].start != maps[i - 1].end)
            break;
        run.has_reserve |= mw_mapping_is_reserve(&maps[i], MW_VM_DONTDUMP);
        run.has_code |=
            is_doublemapper(&maps[i]) || is_assembly(&maps[i]) || (maps[i].perms & MW_PERM_EXEC);
    }
    run.end = i;
    return run;
}

/* Index of the first committed part of the heap: see above; run.end when there is none. */
static size_t heap_first(const struct mw_image *image, const struct run *run)
{
    const struct mw_mapping *maps = image->regions.items;
    size_t first = run->end;
    for (size_t i = run->end; i-- > run->first;) {
        bool goes_on = i > run->first && mw_mapping_is_rw(&maps[i - 1]);
        if (!mw_mapping_is_rw(&maps[i]) || goes_on)
            continue; /* judged by the first of several touching parts */
        if (maps[i].start % REGION_ALIGN != 0)
            break;
        first = i;
    }
    return first;
}

/* ---- claims ---- */

/* What lies between two parts of a run is the runtime's; at its rim, or where a source has no
 * flags to tell libc's mappings by, a walked allocator's word counts more. */
static enum mw_claim_priority part_priority(const struct mw_image *image, const struct run *run,
                                            size_t i)
{
    bool at_rim = i == run->first || i + 1 == run->end;
    return at_rim || !image->regions.items[i].has_vm_flags ? MW_CLAIM_GUESS : MW_CLAIM_RUNTIME;
}

static enum mw_status heap_claim(struct mw_image *image, struct mw_claims *claims,
                                 const struct run *run, struct mw_runtime *runtime)
{
    const struct mw_mapping *maps = image->regions.items;
    size_t first = heap_first(image, run);
    enum mw_status status = MW_OK;
    for (size_t i = run->first; i < run->end && status == MW_OK; i++) {
        enum mw_claim_priority priority = part_priority(image, run, i);
        if (!mw_mapping_is_rw(&maps[i]))
            continue;
        if (i < first) {
            status = mw_runtime_claim(claims, &maps[i], MW_CATEGORY_MANAGED_METADATA, priority,
                                      "GC bookkeeping");
            continue;
        }
        status = mw_runtime_claim(claims, &maps[i], MW_CATEGORY_MANAGED_HEAP, priority, "GC heap");
        if (runtime->heap_committed == MW_UNKNOWN)
            runtime->heap_committed = runtime->heap_rss = 0;
        runtime->heap_committed += mw_mapping_size(&maps[i]);
        runtime->heap_rss =
            mw_add_known(runtime->heap_rss, mw_range_rss(image, maps[i].start, maps[i].end));
    }
    if (first < run->end) {
        runtime->heap_start = maps[first].start;
        runtime->heap_end = maps[run->end - 1].end;
    }
    return status;
}

/* Code, stubs and loader heaps near the runtime; assemblies among them stay files. */
static enum mw_status code_claim(const struct mw_image *image, struct mw_claims *claims,
                                 const struct run *run)
{
    const struct mw_mapping *maps = image->regions.items;
    enum mw_status status = MW_OK;
    for (size_t i = run->first; i < run->end && status == MW_OK; i++) {
        const struct mw_mapping *map = &maps[i];
        if (is_assembly(map))
            continue;
        enum mw_claim_priority priority =
            is_doublemapper(map) ? MW_CLAIM_RUNTIME : part_priority(image, run, i);
        if (map->perms & MW_PERM_EXEC)
            status = mw_runtime_claim(claims, map, MW_CATEGORY_MANAGED_CODE, priority,
                                      "JIT code and stubs");
        else if (map->perms & (MW_PERM_READ | MW_PERM_WRITE) || is_doublemapper(map))
            status = mw_runtime_claim(claims, map, MW_CATEGORY_MANAGED_METADATA, priority,
                                      "loader heaps");
    }
    return status;
}

/* A small reserve of its own: handle tables, lists of the GC. */
static enum mw_status table_claim(const struct mw_image *image, struct mw_claims *claims,
                                  const struct run *run)
{
    const struct mw_mapping *maps = image->regions.items;
    enum mw_status status = MW_OK;
    for (size_t i = run->first; i < run->end && status == MW_OK; i++)
        if (mw_mapping_is_rw(&maps[i]))
            status = mw_runtime_claim(claims, &maps[i], MW_CATEGORY_MANAGED_METADATA,
                                      MW_CLAIM_GUESS, "runtime tables");
    return status;
}

static enum mw_status runs_claim(struct mw_image *image, struct mw_claims *claims,
                                 struct mw_runtime *runtime)
{
    const struct mw_mapping *maps = image->regions.items;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < image->regions.count && status == MW_OK;) {
        struct run run = run_at(image, i);
        if (run.end == i) {
            i++;
            continue;
        }
        uint64_t size = maps[run.end - 1].end - maps[i].start;
        if (run.has_code && (run.has_reserve || is_doublemapper(&maps[i])))
            status = code_claim(image, claims, &run);
        else if (run.has_reserve && size >= HEAP_RUN_MIN)
            status = heap_claim(image, claims, &run, runtime);
        else if (run.has_reserve)
            status = table_claim(image, claims, &run);
        i = run.end;
    }
    return status;
}

/* ---- recognition ---- */

/* ".../Microsoft.NETCore.App/10.0.12/libcoreclr.so" → "10.0.12". */
static void version_from_path(const char *path, char version[64])
{
    static const char folder[] = "/Microsoft.NETCore.App/";
    const char *at = strstr(path, folder);
    if (!at)
        return;
    at += sizeof folder - 1;
    size_t length = strcspn(at, "/");
    if (length > 0 && length < 64 && at[0] >= '0' && at[0] <= '9') {
        memcpy(version, at, length);
        version[length] = '\0';
    }
}

/* A single file or an ahead-of-time program has the runtime inside: it exports one of these. */
static bool program_exports_runtime(struct mw_image *image)
{
    const struct mw_mapping *program = mw_program_find(image);
    struct mw_dynsym dynsym;
    if (!(image->can & MW_CAN_READ) || !program ||
        mw_dynsym_open(image, mw_elf_base_of(image, program->start), &dynsym) != MW_OK)
        return false;
    return mw_dynsym_has(&dynsym, "DotNetRuntimeInfo") ||
           mw_dynsym_has(&dynsym, "DotNetRuntimeDebugHeader") ||
           mw_dynsym_has(&dynsym, "DotNetRuntimeContractDescriptor");
}

static bool has_doublemapper(const struct mw_image *image)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (is_doublemapper(&image->regions.items[i]))
            return true;
    return false;
}

static enum mw_status dotnet_probe(struct mw_image *image, struct mw_claims *claims,
                                   struct mw_runtime *runtime_out, struct mw_findings *findings,
                                   struct mw_error *err)
{
    (void)findings;
    const struct mw_mapping *library = mw_module_find(image, "libcoreclr.so");
    if (library)
        version_from_path(library->name, runtime_out->version);
    else if (!has_doublemapper(image) && !program_exports_runtime(image))
        return MW_NOT_FOUND;
    enum mw_status status = runs_claim(image, claims, runtime_out);
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot claim its mappings");
}

const struct mw_runtime_probe mw_runtime_dotnet = {.kind = "dotnet", .probe = dotnet_probe};
