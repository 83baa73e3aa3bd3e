/* account/loader.c: what the dynamic loader mapped for itself before malloc existed.
 *
 * ld.so of glibc allocates its list of modules and the main thread's TLS from small anonymous
 * mappings of its own (elf/dl-minimal-malloc.c, elf/rtld.c). They have no name; they are proven by
 * what lies in them: a node of the loader's list of modules (struct link_map, reached through
 * DT_DEBUG of the program: struct r_debug, <link.h>), the names those nodes point to, several
 * pointers to nodes (scopes, the table of unique symbols), or the thread control block of the main
 * thread. Needs memory to read; nothing is guessed without.
 *
 *   r_debug  { int version; u64 map@8 }     link_map { u64 addr, name@8, ld@16, next@24, prev@32 }
 */
#include "account/claiming.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/vec.h"
#include "image/tcb.h"
#include "symbol/elfmap.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
    DYNAMIC_ENTRIES_MAX = 512,
    NODE_MAPPING_MAX = 1 << 20,    /* largest mapping that a node makes the loader's */
    SMALL_MAPPING_MAX = 256 << 10, /* largest one that is read as a whole */
    NEIGHBOUR_GAP_MAX = 64 << 10,
    POINTERS_MIN = 4, /* to nodes: a program keeps a handle or two, never a table */
};

struct nodes {
    mw_addr *items; /* sorted after the walk */
    size_t count, room;
};

/* Take the open part of the plain mapping that holds address, if there is one. */
static enum mw_status take_by_address(struct mw_claiming *claiming, mw_addr address)
{
    size_t i = mw_mapping_lower_bound(&claiming->image->regions, address);
    if (i == claiming->map_count || claiming->maps[i].start > address)
        return MW_OK;
    const struct mw_mapping *map = &claiming->maps[i];
    if (!mw_mapping_is_plain(map) || map->name[0] != '\0' || address < claiming->decided_to[i] ||
        map->end - claiming->decided_to[i] > NODE_MAPPING_MAX)
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
static enum mw_status link_maps_claim(struct mw_claiming *claiming, mw_addr debug,
                                      struct nodes *nodes)
{
    mw_addr node;
    if (mw_image_read_u64(claiming->image, debug + 8, &node) != MW_OK)
        return MW_OK;
    while (node != 0 && nodes->count < MW_LIMIT_MODULES) {
        uint64_t words[5];
        if (mw_image_read(claiming->image, node, words, sizeof words) != MW_OK)
            return MW_OK;
        enum mw_status status = mw_vec_push(nodes, MW_LIMIT_MODULES, node);
        if (status == MW_OK)
            status = take_by_address(claiming, node);
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

static int compare_addr(const void *left, const void *right)
{
    mw_addr a = *(const mw_addr *)left, b = *(const mw_addr *)right;
    return a < b ? -1 : a > b;
}

static bool points_at_nodes(const struct nodes *nodes, const uint8_t *bytes, size_t size)
{
    size_t found = 0;
    for (size_t at = 0; at + 8 <= size && found < POINTERS_MIN && nodes->count > 0; at += 8) {
        mw_addr word;
        memcpy(&word, bytes + at, sizeof word);
        found += word != 0 && bsearch(&word, nodes->items, nodes->count, sizeof word, compare_addr);
    }
    return found >= POINTERS_MIN;
}

/* ld.so maps where the kernel has just put a library: beside something that has a name. This keeps
 * the reading to a few mappings in a target that has thousands. */
static bool is_beside_named(const struct mw_claiming *claiming, size_t i)
{
    const struct mw_mapping *maps = claiming->maps;
    if (i > 0 && maps[i - 1].name[0] != '\0' &&
        maps[i].start - maps[i - 1].end <= NEIGHBOUR_GAP_MAX)
        return true;
    return i + 1 < claiming->map_count && maps[i + 1].name[0] != '\0' &&
           maps[i + 1].start - maps[i].end <= NEIGHBOUR_GAP_MAX;
}

/* Small resident mappings that nobody has claimed: look at what is in them. */
static enum mw_status small_mappings_claim(struct mw_claiming *claiming, const struct nodes *nodes)
{
    MW_FREE uint8_t *bytes = mw_calloc(SMALL_MAPPING_MAX, 1);
    if (!bytes)
        return MW_NOMEM;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < claiming->map_count && status == MW_OK; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        mw_addr start = claiming->decided_to[i];
        bool is_empty = mw_mapping_knows(map, MW_COUNTER_RSS) && map->counters[MW_COUNTER_RSS] == 0;
        if (start >= map->end || map->end - start > SMALL_MAPPING_MAX || is_empty ||
            !mw_mapping_is_plain(map) || map->name[0] != '\0' || !is_beside_named(claiming, i))
            continue;
        size_t size = (size_t)(map->end - start);
        if (mw_image_read_present(claiming->image, start, bytes, size) < size)
            continue;
        if (claiming->image->arch == MW_ARCH_X86_64 && mw_tcb_find(bytes, size, start))
            status = mw_claiming_take_rest(claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_GUESS,
                                           "thread-local storage");
        else if (points_at_nodes(nodes, bytes, size))
            status = mw_claiming_take_rest(claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_GUESS,
                                           "dynamic loader");
    }
    return status;
}

enum mw_status mw_claiming_loader(struct mw_claiming *claiming)
{
    if (!(claiming->image->can & MW_CAN_READ))
        return MW_OK;
    struct mw_elf_map program;
    struct nodes nodes = {0};
    mw_addr base = program_base(claiming);
    enum mw_status status = MW_OK;
    if (base != 0 && mw_elf_map_read(claiming->image, base, &program) == MW_OK) {
        mw_addr debug = debug_find(&program);
        if (debug != 0)
            status = link_maps_claim(claiming, debug, &nodes);
    }
    if (nodes.count > 0)
        qsort(nodes.items, nodes.count, sizeof *nodes.items, compare_addr);
    if (status == MW_OK)
        status = small_mappings_claim(claiming, &nodes);
    mw_vec_deinit(&nodes);
    return status;
}
