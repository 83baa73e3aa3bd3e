/* account/loader.c: what the dynamic loader mapped for itself before malloc existed.
 *
 * ld.so of glibc allocates its list of modules and the main thread's TLS from small anonymous
 * mappings of its own (elf/dl-minimal-malloc.c, elf/rtld.c). They have no name; they are proven by
 * what lies in them: a node of the loader's list of modules (struct link_map, reached through
 * DT_DEBUG of the program: struct r_debug, <link.h>), the names those nodes point to, or the
 * thread control block of the main thread. Needs memory to read; nothing is guessed without.
 *
 *   r_debug  { int version; u64 map@8 }     link_map { u64 addr, name@8, ld@16, next@24, prev@32 } */
#include "account/claiming.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "symbol/elfmap.h"

#include <elf.h>
#include <string.h>

enum { DYNAMIC_ENTRIES_MAX = 512, OWN_MAPPING_MAX = 1 << 20 };

/* Take the open part of the plain mapping that holds address, if there is one. */
static enum mw_status take_by_address(struct mw_claiming *claiming, mw_addr address)
{
    size_t i = mw_mapping_lower_bound(&claiming->image->regions, address);
    if (i == claiming->map_count || claiming->maps[i].start > address)
        return MW_OK;
    const struct mw_mapping *map = &claiming->maps[i];
    if (!mw_mapping_is_plain(map) || map->name[0] != '\0' || address < claiming->decided_to[i] ||
        map->end - claiming->decided_to[i] > OWN_MAPPING_MAX)
        return MW_OK;
    return mw_claiming_take_rest(claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_GUESS,
                                 "dynamic loader");
}

/* Address of r_debug, from the program's DT_DEBUG; 0 when there is none. */
static mw_addr debug_find(const struct mw_elf_map *program)
{
    Elf64_Dyn entries[DYNAMIC_ENTRIES_MAX];
    uint64_t size = program->dynamic_end - program->dynamic;
    if (size > sizeof entries)
        size = sizeof entries;
    size = mw_image_read_some(program->image, program->dynamic, entries, (size_t)size);
    for (size_t i = 0; i < size / sizeof *entries && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_DEBUG)
            return entries[i].d_un.d_ptr;
    return 0;
}

/* Walk the loader's list; at most MW_LIMIT_MODULES nodes, so a ring ends. */
static enum mw_status link_maps_claim(struct mw_claiming *claiming, mw_addr debug)
{
    mw_addr node;
    if (mw_image_read_u64(claiming->image, debug + 8, &node) != MW_OK)
        return MW_OK;
    for (size_t steps = 0; node != 0 && steps < MW_LIMIT_MODULES; steps++) {
        uint64_t words[5];
        if (mw_image_read(claiming->image, node, words, sizeof words) != MW_OK)
            return MW_OK;
        enum mw_status status = take_by_address(claiming, node);
        if (status == MW_OK)
            status = take_by_address(claiming, words[1]);
        if (status != MW_OK)
            return status;
        node = words[3];
    }
    return MW_OK;
}

/* The program: by its headers from auxv, else the lowest file with a program's data. */
static mw_addr program_base(const struct mw_claiming *claiming)
{
    if (claiming->image->phdr != 0)
        return mw_elf_base_of(claiming->image, claiming->image->phdr);
    if (claiming->image->entry != 0)
        return mw_elf_base_of(claiming->image, claiming->image->entry);
    for (size_t i = 0; i < claiming->map_count; i++)
        if (claiming->is_file_of_code[i] && claiming->maps[i].offset == 0)
            return claiming->maps[i].start;
    return 0;
}

/* Small mappings that hold a thread control block and are no stack: the main thread's TLS. */
static enum mw_status main_tls_claim(struct mw_claiming *claiming)
{
    enum { TLS_MAPPING_MAX = 256 << 10 };
    if (claiming->image->arch != MW_ARCH_X86_64)
        return MW_OK;
    MW_FREE uint8_t *bytes = mw_calloc(TLS_MAPPING_MAX, 1);
    if (!bytes)
        return MW_NOMEM;
    for (size_t i = 0; i < claiming->map_count; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        mw_addr start = claiming->decided_to[i];
        if (start >= map->end || map->end - start > TLS_MAPPING_MAX || !mw_mapping_is_plain(map) ||
            map->name[0] != '\0' || mw_mapping_counter(map, MW_COUNTER_RSS) == 0)
            continue;
        size_t size = (size_t)(map->end - start);
        if (mw_image_read(claiming->image, start, bytes, size) != MW_OK ||
            !mw_tcb_find(bytes, size, start))
            continue;
        enum mw_status status = mw_claiming_take_rest(
            claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_GUESS, "thread-local storage");
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

enum mw_status mw_claiming_loader(struct mw_claiming *claiming)
{
    if (!(claiming->image->can & MW_CAN_READ))
        return MW_OK;
    struct mw_elf_map program;
    mw_addr base = program_base(claiming);
    enum mw_status status = MW_OK;
    if (base != 0 && mw_elf_map_read(claiming->image, base, &program) == MW_OK) {
        mw_addr debug = debug_find(&program);
        if (debug != 0)
            status = link_maps_claim(claiming, debug);
    }
    return status == MW_OK ? main_tls_claim(claiming) : status;
}
