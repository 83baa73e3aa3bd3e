/* runtime/jvm/jvm.c: HotSpot (OpenJDK) from its mappings.
 *
 * HotSpot reserves with MAP_NORESERVE ("nr", inaccessible) and commits parts, which then carry
 * "ac"; stacks are marked "nh", heaps of glibc arenas told by their header. So:
 *
 *   heap        | rw ac … | ---p nr … | rw ac | rw classes.jsa |     where CollectedHeap says, or
 *                 the largest run below 32 GiB (compressed oops), or /memfd:java_heap (ZGC)
 *   code cache  | rwxp | ---p nr | rwxp | ---p nr | rwxp | ---p nr |
 *   CDS, class space, metaspace, GC tables: classes.jsa and other rw parts beside reserves
 *
 * With memory to read, gHotSpotVMStructs gives the heap's exact range and the version, hsperfdata
 * how much of it is used; without, shapes have to do. A committed part at the rim of a run may have
 * melted with a neighbour: there a walked allocator's word counts more. Facts:
 * docs/formats/jvm.md. Linear. */
#include "runtime/jvm/jvm.h"

#include "runtime/jvm/perfdata.h"
#include "runtime/jvm/vmstructs.h"
#include "runtime/shapes.h"
#include "symbol/elfmap.h"

#include <ctype.h>
#include <string.h>

#define COMPRESSED_OOPS_END ((mw_addr)32 << 30)
#define METASPACE_ALIGN ((uint64_t)64 << 20)
#define HEAP_RUN_MIN ((uint64_t)2 << 20)
#define HEAP_MAX ((uint64_t)64 << 40)

struct jvm {
    struct mw_image *image;
    struct mw_claims *claims;
    struct mw_runtime *runtime;
    const struct mw_mapping *maps;
    size_t map_count;
};

/* A maximal sequence of touching mappings that can be HotSpot's. */
struct run {
    size_t first, end;
    bool has_reserve, has_code;
};

/* ---- kinds of mappings ---- */

static bool is_archive(const struct mw_mapping *map)
{
    size_t length = strlen(map->name);
    return length > 4 && strcmp(map->name + length - 4, ".jsa") == 0;
}

static bool is_zgc_heap(const struct mw_mapping *map)
{
    return strcmp(map->name, "/memfd:java_heap") == 0;
}

static bool is_reserve(const struct mw_mapping *map)
{
    return mw_mapping_is_reserve(map, MW_VM_NORESERVE);
}

static bool is_accessible(const struct mw_mapping *map)
{
    return (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC)) != 0;
}

static bool belongs_to_run(const struct jvm *jvm, size_t i)
{
    const struct mw_mapping *map = &jvm->maps[i];
    return mw_mapping_is_unnamed(map) && !(map->vm_flags & (MW_VM_NOHUGEPAGE | MW_VM_GROWSDOWN)) &&
           !mw_mapping_is_arena(jvm->image, i, MW_VM_NORESERVE) &&
           !mw_mapping_is_arena_rest(jvm->image, i, MW_VM_NORESERVE);
}

static struct run run_at(const struct jvm *jvm, size_t first)
{
    struct run run = {.first = first};
    size_t i = first;
    for (; i < jvm->map_count && belongs_to_run(jvm, i); i++) {
        if (i > first && jvm->maps[i].start != jvm->maps[i - 1].end)
            break;
        run.has_reserve |= is_reserve(&jvm->maps[i]);
        run.has_code |= (jvm->maps[i].perms & MW_PERM_EXEC) != 0;
    }
    run.end = i;
    return run;
}

/* ---- the heap ---- */

static bool heap_range_is_plausible(const struct jvm *jvm, mw_addr start, mw_addr end)
{
    if (start >= end || end - start > HEAP_MAX)
        return false;
    const struct mw_mapping *map = mw_image_region(jvm->image, start);
    return map != NULL;
}

/* Without HotSpot's word: the widest run below 32 GiB that begins with the heap's own memory, for
 * that is where compressed oops want it; what is there else is a program linked to a fixed address
 * and the class archive. Then the widest one elsewhere that is neither code nor metaspace. */
static void heap_range_by_shape(struct jvm *jvm)
{
    struct mw_runtime *runtime = jvm->runtime;
    bool found_low = false;
    for (size_t i = 0; i < jvm->map_count;) {
        struct run run = run_at(jvm, i);
        if (run.end == i) {
            i++;
            continue;
        }
        mw_addr start = jvm->maps[i].start, end = jvm->maps[run.end - 1].end;
        while (run.end < jvm->map_count && jvm->maps[run.end].start == end &&
               (is_archive(&jvm->maps[run.end]) || mw_mapping_is_rw(&jvm->maps[run.end])))
            end = jvm->maps[run.end++].end; /* archived objects are mapped into the heap */
        bool is_low = end <= COMPRESSED_OOPS_END;
        bool after_file =
            i > 0 && jvm->maps[i - 1].name[0] != '\0' && jvm->maps[i - 1].end == start;
        bool is_metaspace = !is_low && start % METASPACE_ALIGN == 0 &&
                            (end - start) % METASPACE_ALIGN == 0 &&
                            end - start <= (uint64_t)1 << 30;
        i = run.end;
        if (run.has_code || (!run.has_reserve && !is_low) || after_file || is_metaspace ||
            end - start < HEAP_RUN_MIN || (found_low && !is_low))
            continue; /* a low heap may be committed as a whole */
        if ((is_low && !found_low) || end - start > runtime->heap_end - runtime->heap_start) {
            runtime->heap_start = start;
            runtime->heap_end = end;
        }
        found_low |= is_low;
    }
}

/* Claim what of the heap's range is committed. */
static enum mw_status heap_claim(struct jvm *jvm)
{
    struct mw_runtime *runtime = jvm->runtime;
    const struct mw_mapping_list *regions = &jvm->image->regions;
    enum mw_status status = MW_OK;
    uint64_t committed = 0, rss = 0;
    for (size_t i = mw_mapping_lower_bound(regions, runtime->heap_start);
         i < regions->count && regions->items[i].start < runtime->heap_end && status == MW_OK;
         i++) {
        const struct mw_mapping *map = &regions->items[i];
        mw_addr start = map->start > runtime->heap_start ? map->start : runtime->heap_start;
        mw_addr end = map->end < runtime->heap_end ? map->end : runtime->heap_end;
        if (!is_accessible(map))
            continue;
        committed += end - start;
        rss = mw_add_known(rss, mw_range_rss(jvm->image, start, end));
        status = mw_claims_add_range(jvm->claims, start, end, MW_CATEGORY_MANAGED_HEAP,
                                     MW_CLAIM_RUNTIME, "Java heap");
    }
    runtime->heap_committed = committed;
    runtime->heap_rss = rss;
    return status;
}

/* ZGC: a memfd, which JDK 17 and 21 map three times. The views of the same pages differ in the high
 * bits of their addresses; the first address's view counts, the account finds the aliases. */
static enum mw_status zgc_heap_claim(struct jvm *jvm, bool *found_out)
{
    struct mw_runtime *runtime = jvm->runtime;
    enum mw_status status = MW_OK;
    uint64_t committed = 0, first_view = 0;
    bool has_views = false;
    *found_out = false;
    for (size_t i = 0; i < jvm->map_count && status == MW_OK; i++) {
        const struct mw_mapping *map = &jvm->maps[i];
        if (!is_zgc_heap(map))
            continue;
        uint64_t view = map->start >> 42; /* ZAddressOffsetBits is at most 44, at least 42 */
        if (!*found_out)
            first_view = view;
        *found_out = true;
        if (view == first_view)
            committed += mw_mapping_size(map);
        else
            has_views = true;
        status = mw_runtime_claim(jvm->claims, map, MW_CATEGORY_MANAGED_HEAP, MW_CLAIM_RUNTIME,
                                  "Java heap");
        uint64_t rss = mw_range_rss(jvm->image, map->start, map->end);
        runtime->heap_rss = runtime->heap_rss == MW_UNKNOWN && committed == mw_mapping_size(map)
                                ? rss
                                : mw_add_known(runtime->heap_rss, rss);
    }
    if (*found_out)
        runtime->heap_committed = committed;
    if (has_views)
        runtime->heap_rss = MW_UNKNOWN; /* pages counted up to three times */
    return status;
}

/* ---- the rest ---- */

static bool is_in_heap(const struct jvm *jvm, const struct mw_mapping *map)
{
    return map->start < jvm->runtime->heap_end && map->end > jvm->runtime->heap_start;
}

/* The class space may lie right behind the heap and melt with it. */
static enum mw_status rest_of_heap_mapping_claim(struct jvm *jvm, const struct mw_mapping *map)
{
    if (!mw_mapping_is_rw(map) || map->end <= jvm->runtime->heap_end)
        return MW_OK;
    return mw_claims_add_range(jvm->claims, jvm->runtime->heap_end, map->end,
                               MW_CATEGORY_MANAGED_METADATA, MW_CLAIM_GUESS, "metaspace");
}

static enum mw_status part_claim(struct jvm *jvm, const struct run *run, size_t i)
{
    const struct mw_mapping *map = &jvm->maps[i];
    bool at_rim = i == run->first || i + 1 == run->end;
    enum mw_claim_priority priority =
        at_rim || !map->has_vm_flags ? MW_CLAIM_GUESS : MW_CLAIM_RUNTIME;
    if (map->perms & MW_PERM_EXEC)
        return mw_runtime_claim(jvm->claims, map, MW_CATEGORY_MANAGED_CODE, MW_CLAIM_RUNTIME,
                                "code cache");
    if (!mw_mapping_is_rw(map))
        return MW_OK;
    if (run->has_code)
        return at_rim ? MW_OK
                      : mw_runtime_claim(jvm->claims, map, MW_CATEGORY_MANAGED_METADATA, priority,
                                         "code cache tables");
    const struct mw_mapping *first = &jvm->maps[run->first];
    bool follows_archive = run->first > 0 && is_archive(first - 1) && first[-1].end == first->start;
    bool is_metaspace = follows_archive || first->start % METASPACE_ALIGN == 0 ||
                        jvm->maps[run->end - 1].end - first->start >= METASPACE_ALIGN;
    return mw_runtime_claim(jvm->claims, map, MW_CATEGORY_MANAGED_METADATA, priority,
                            is_metaspace ? "metaspace" : "JVM tables");
}

static enum mw_status runs_claim(struct jvm *jvm)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < jvm->map_count && status == MW_OK;) {
        if (is_archive(&jvm->maps[i]) && !is_in_heap(jvm, &jvm->maps[i]))
            status = mw_runtime_claim(jvm->claims, &jvm->maps[i], MW_CATEGORY_MANAGED_METADATA,
                                      MW_CLAIM_RUNTIME, "class data archive");
        struct run run = run_at(jvm, i);
        for (; i < run.end && status == MW_OK; i++) {
            if (is_in_heap(jvm, &jvm->maps[i]))
                status = rest_of_heap_mapping_claim(jvm, &jvm->maps[i]);
            else if (run.has_reserve || run.has_code)
                status = part_claim(jvm, &run, i);
        }
        if (run.end == run.first)
            i++;
    }
    return status;
}

/* ---- recognition ---- */

/* A number after the word: "java-17-openjdk-amd64" → "17", "jdk-21.0.2+13" → "21.0.2+13",
 * "java-1.8.0-openjdk" → "1.8.0". */
static void version_from_path(const char *path, char version[64])
{
    static const char *const words[] = {"java-", "jdk-",      "jdk",      "jre-",   "temurin-",
                                        "zulu",  "corretto-", "graalvm-", "openjdk"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(path, words[i]);
        if (!at)
            continue;
        at += strlen(words[i]);
        size_t length = strspn(at, "0123456789._+u");
        if (length == 0 || length >= 64 || !isdigit((unsigned char)at[0]))
            continue;
        memcpy(version, at, length);
        version[length] = '\0';
        return;
    }
}

static void version_from_memory(struct mw_image *image, mw_addr pointer_at, char version[64])
{
    mw_addr text;
    char bytes[64];
    if (mw_image_read_u64(image, pointer_at, &text) != MW_OK)
        return;
    size_t got = mw_image_read_some(image, text, bytes, sizeof bytes - 1);
    bytes[got] = '\0';
    for (const char *at = bytes; *at; at++)
        if (*at < '!' || *at > '~')
            return;
    if (isdigit((unsigned char)bytes[0]))
        memcpy(version, bytes, sizeof bytes);
}

static void perfdata_apply(struct jvm *jvm, mw_addr address)
{
    struct mw_perfdata perf;
    if (mw_perfdata_read(jvm->image, address, &perf) != MW_OK)
        return;
    jvm->runtime->heap_used = perf.heap_used != 0 ? perf.heap_used : MW_UNKNOWN; /* no GC yet */
    jvm->runtime->heap_nursery = perf.eden_size;
    if (perf.version[0] != '\0')
        memcpy(jvm->runtime->version, perf.version, sizeof perf.version);
}

enum { FIELD_RESERVED, FIELD_HEAP, FIELD_RELEASE, FIELD_PERF, FIELD_COUNT };

/* CollectedHeap::_reserved is a MemRegion: start, size in words. */
static void heap_range_from_fields(struct jvm *jvm, const struct mw_vmstruct_field *fields)
{
    mw_addr heap;
    uint64_t region[2], bytes;
    if (!fields[FIELD_RESERVED].is_found || fields[FIELD_RESERVED].is_static ||
        !fields[FIELD_HEAP].is_found || !fields[FIELD_HEAP].is_static ||
        mw_image_read_u64(jvm->image, fields[FIELD_HEAP].offset, &heap) != MW_OK ||
        mw_image_read(jvm->image, heap + fields[FIELD_RESERVED].offset, region, sizeof region) !=
            MW_OK)
        return;
    if (__builtin_mul_overflow(region[1], 8, &bytes) || bytes > UINT64_MAX - region[0] ||
        !heap_range_is_plausible(jvm, region[0], region[0] + bytes))
        return;
    jvm->runtime->heap_start = region[0];
    jvm->runtime->heap_end = region[0] + bytes;
}

/* What HotSpot itself says, where memory can be read. */
static void details_read(struct jvm *jvm, const struct mw_mapping *library)
{
    struct mw_vmstruct_field fields[FIELD_COUNT] = {
        [FIELD_RESERVED] = {.type = "CollectedHeap", .field = "_reserved"},
        [FIELD_HEAP] = {.type = "Universe", .field = "_collectedHeap"},
        [FIELD_RELEASE] = {.type = "Abstract_VM_Version", .field = "_s_vm_release"},
        [FIELD_PERF] = {.type = "PerfMemory", .field = "_start"},
    };
    mw_addr base = mw_elf_base_of(jvm->image, library->start), perf;
    if (base != 0 && mw_vmstructs_find(jvm->image, base, fields, FIELD_COUNT) == MW_OK) {
        heap_range_from_fields(jvm, fields);
        if (fields[FIELD_RELEASE].is_found && fields[FIELD_RELEASE].is_static)
            version_from_memory(jvm->image, fields[FIELD_RELEASE].offset, jvm->runtime->version);
        if (fields[FIELD_PERF].is_found && fields[FIELD_PERF].is_static &&
            mw_image_read_u64(jvm->image, fields[FIELD_PERF].offset, &perf) == MW_OK && perf != 0)
            perfdata_apply(jvm, perf);
    }
    for (size_t i = 0; i < jvm->map_count && jvm->runtime->heap_used == MW_UNKNOWN; i++)
        if (strstr(jvm->maps[i].name, "/hsperfdata_"))
            perfdata_apply(jvm, jvm->maps[i].start);
}

static enum mw_status jvm_probe(struct mw_image *image, struct mw_claims *claims,
                                struct mw_runtime *runtime_out, struct mw_findings *findings,
                                struct mw_error *err)
{
    (void)findings;
    const struct mw_mapping *library = mw_module_find(image, "libjvm.so");
    if (!library)
        return MW_NOT_FOUND;
    struct jvm jvm = {.image = image,
                      .claims = claims,
                      .runtime = runtime_out,
                      .maps = image->regions.items,
                      .map_count = image->regions.count};
    if (image->can & MW_CAN_READ)
        details_read(&jvm, library);
    if (runtime_out->version[0] == '\0')
        version_from_path(library->name, runtime_out->version);
    bool is_zgc;
    enum mw_status status = zgc_heap_claim(&jvm, &is_zgc);
    if (status == MW_OK && !is_zgc) {
        if (runtime_out->heap_end == 0)
            heap_range_by_shape(&jvm);
        if (runtime_out->heap_end != 0)
            status = heap_claim(&jvm);
    }
    if (status == MW_OK)
        status = runs_claim(&jvm);
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot claim its mappings");
}

const struct mw_runtime_probe mw_runtime_jvm = {.kind = "jvm", .probe = jvm_probe};
