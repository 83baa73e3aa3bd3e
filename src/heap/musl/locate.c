/* heap/musl/locate.c: the context of mallocng, without a symbol.
 *
 * It is one static struct in the data of libc or of a static program, and no other bytes look like
 * it: init_done is 1, head and tail of the list of areas are on a page each that begins with the
 * context's own secret, avail_meta points into the grid of an area. The secret is the second word
 * of AT_RANDOM; that is not needed, so a core without the page of the stack will do. Every word
 * comes from the target; the search is bounded by SEARCH_MAX. Reference: musl 1.2.5
 * src/malloc/mallocng/{meta,glue}.h. */
#include "heap/musl/internal.h"

#include "base/cleanup.h"
#include "heap/modules.h"

#include <string.h>

enum { STEP = 256 << 10, SEARCH_MAX = 64 << 20, REGION_MAX = 32 << 20 };

const struct mw_mapping *mw_musl_libc(const struct mw_image *image)
{
    /* Alpine calls it ld-musl-x86_64.so.1, Debian and musl's own build libc.so; glibc's is
     * libc.so.6 */
    const struct mw_mapping *map = mw_module_library(image, "ld-musl-");
    if (!map)
        map = mw_module_library(image, "libc.musl-");
    return map ? map : mw_module_library_exact(image, "libc.so");
}

bool mw_musl_has_other_libc(const struct mw_image *image)
{
    static const char *const prefixes[] = {"ld-linux", "ld-2.", "ld64.so", "libc.so.", "libc-2."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (mw_module_library(image, prefixes[i]))
            return true;
    return mw_module_library_exact(image, "ld.so") != NULL;
}

static bool is_on_page(mw_addr address)
{
    return address != 0 && address % MW_MUSL_AREA_BYTES == 0;
}

/* Is it the address of a meta, or of the end of the last one? */
static bool is_on_grid(mw_addr address)
{
    uint64_t offset = address % MW_MUSL_AREA_BYTES;
    return offset >= offsetof(struct mw_musl_area, metas) &&
           (offset - offsetof(struct mw_musl_area, metas)) % sizeof(struct mw_musl_meta) == 0;
}

static bool area_is_sound(struct mw_image *image, mw_addr area, uint64_t secret)
{
    uint64_t check;
    uint8_t slots[4];
    static const uint8_t expected[4] = {MW_MUSL_METAS};
    return mw_image_read_u64(image, area, &check) == MW_OK && check == secret &&
           mw_image_read(image, area + offsetof(struct mw_musl_area, nslots), slots,
                         sizeof slots) == MW_OK &&
           memcmp(slots, expected, sizeof slots) == 0;
}

static bool is_context(struct mw_image *image, const struct mw_musl_context *ctx)
{
    if (ctx->init_done != 1 || !is_on_page(ctx->meta_area_head) ||
        !is_on_page(ctx->meta_area_tail) || ctx->secret == 0 || !is_on_grid(ctx->avail_meta) ||
        ctx->avail_meta_count > MW_MUSL_METAS)
        return false;
    for (size_t i = 0; i < MW_MUSL_CLASSES; i++)
        if (ctx->active[i] != 0 && !is_on_grid(ctx->active[i]))
            return false;
    return area_is_sound(image, ctx->meta_area_head, ctx->secret) &&
           area_is_sound(image, ctx->meta_area_tail, ctx->secret);
}

/* Search [start, end). MW_OK: found. */
static enum mw_status range_search(struct mw_musl *musl, mw_addr start, mw_addr end, uint8_t *bytes,
                                   uint64_t *budget)
{
    struct mw_musl_context ctx;
    for (mw_addr at = start; at<end && * budget> 0;) {
        uint64_t room = end - at < STEP ? end - at : STEP;
        size_t got = mw_image_read_present(musl->image, at, bytes, (size_t)room);
        *budget -= *budget < room ? *budget : room;
        for (size_t k = 0; k + sizeof ctx <= got; k += 8) {
            uint32_t init_done;
            memcpy(&init_done, bytes + k + offsetof(struct mw_musl_context, init_done), 4);
            if (init_done != 1)
                continue;
            memcpy(&ctx, bytes + k, sizeof ctx);
            if (!is_context(musl->image, &ctx))
                continue;
            musl->ctx = ctx;
            musl->ctx_address = at + k;
            return MW_OK;
        }
        if (end - at <= STEP)
            break;
        at += STEP - (sizeof ctx + 7) / 8 * 8;
    }
    return MW_NOT_FOUND;
}

static bool is_private_data(const struct mw_mapping *map)
{
    return (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_SHARED)) ==
           (MW_PERM_READ | MW_PERM_WRITE);
}

/* Data of the module, or what follows on it without a gap: its .bss. */
static bool is_data_of(const struct mw_image *image, size_t i, const struct mw_mapping *module)
{
    const struct mw_mapping *map = &image->regions.items[i];
    if (!is_private_data(map) || mw_mapping_size(map) < sizeof(struct mw_musl_context))
        return false;
    if (!mw_mapping_is_anonymous(map))
        return strcmp(map->name, module->name) == 0 && map->inode == module->inode;
    const struct mw_mapping *before = i > 0 ? map - 1 : NULL;
    return before && before->end == map->start && strcmp(before->name, module->name) == 0 &&
           before->inode == module->inode;
}

/* A core without names has no modules: then all that may be data of one. */
static bool has_names(const struct mw_image *image)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (image->regions.items[i].name[0] == '/')
            return true;
    return false;
}

enum mw_status mw_musl_locate(struct mw_musl *musl)
{
    struct mw_image *image = musl->image;
    const struct mw_mapping *modules[] = {mw_musl_libc(image), mw_module_program(image)};
    uint64_t budget = SEARCH_MAX;
    bool is_nameless = !has_names(image);
    MW_FREE uint8_t *bytes = mw_calloc(STEP, 1);
    if (!bytes)
        return MW_NOMEM;
    for (size_t m = 0; m < sizeof modules / sizeof *modules; m++) {
        if (!modules[m] && (!is_nameless || m > 0))
            continue;
        for (size_t i = 0; i < image->regions.count; i++) {
            const struct mw_mapping *map = &image->regions.items[i];
            bool may_be = is_nameless ? is_private_data(map) && map->name[0] == '\0'
                                      : is_data_of(image, i, modules[m]);
            uint64_t size = mw_mapping_size(map);
            mw_addr end = map->start + (size < REGION_MAX ? size : REGION_MAX);
            if (may_be &&
                range_search(musl, (map->start + 7) & ~(mw_addr)7, end, bytes, &budget) == MW_OK)
                return MW_OK;
        }
    }
    return MW_NOT_FOUND;
}
