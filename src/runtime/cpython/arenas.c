/* runtime/cpython/arenas.c: finding obmalloc's table of arenas without a symbol.
 *
 *   static struct arena_object *arenas;       in .bss up to 3.11, in _PyRuntime since 3.12
 *   struct arena_object { uptr address; u8 *pool_address; u32 nfreepools, ntotalpools;
 *                         pool *freepools; arena_object *nextarena, *prevarena; }      48 bytes
 *
 * An arena is 64 pools of 4 KiB (256 KiB, up to 3.9) or of 16 KiB (1 MiB, since 3.10), mapped on
 * its own and page-aligned; where it is not aligned to a pool, one pool is lost (63). An entry
 * without an arena has address 0 and a nextarena within the table. A table is believed when its
 * first entries are all either, and one has an arena. Everything is a target's: entries are bounded
 * by ARENAS_MAX, each arena must lie in one rw mapping. References: CPython
 * Objects/obmalloc.c (2.7 to 3.11), Include/internal/pycore_obmalloc.h (3.12 on). */
#include "runtime/cpython/arenas.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "runtime/shapes.h"

#include <stdlib.h>
#include <string.h>

enum {
    ENTRY_SIZE = 48,
    ENTRIES_FIRST = 16, /* INITIAL_ARENA_OBJECTS: no table is smaller */
    ENTRY_BATCH = 256,
    POOLS = 64,
    DATA_STEP = 64 << 10,
    DATA_BYTES_MAX = 64 << 20,
};
#define ARENAS_MAX ((size_t)1 << 20)
#define ARENA_SMALL ((uint64_t)256 << 10)
#define ARENA_LARGE ((uint64_t)1 << 20)

struct entry {
    uint64_t address, pool_address;
    uint32_t free_pools, total_pools;
    uint64_t free_list, next, previous;
};
_Static_assert(sizeof(struct entry) == ENTRY_SIZE, "layout of arena_object");

/* Does the entry describe an arena of that size? */
static bool is_arena(const struct mw_image *image, const struct entry *entry, uint64_t arena_bytes)
{
    uint64_t pool = arena_bytes / POOLS;
    if (entry->address == 0 || entry->address % 4096 != 0 ||
        entry->address > UINT64_MAX - arena_bytes)
        return false;
    uint32_t pools = entry->address % pool == 0 ? POOLS : POOLS - 1;
    if (entry->total_pools != pools || entry->free_pools > pools ||
        entry->pool_address < entry->address ||
        entry->pool_address > entry->address + arena_bytes || entry->pool_address % pool != 0)
        return false;
    const struct mw_mapping *map = mw_image_region(image, entry->address);
    return map && mw_mapping_is_rw(map) && entry->address + arena_bytes <= map->end;
}

/* Is the entry unused, in a table of which at least `seen` entries begin at table? */
static bool is_unused(const struct entry *entry, mw_addr table)
{
    return entry->address == 0 &&
           (entry->next == 0 || (entry->next > table && (entry->next - table) % ENTRY_SIZE == 0 &&
                                 (entry->next - table) / ENTRY_SIZE < ARENAS_MAX));
}

/* *arena_out is the first arena of the table. */
static bool is_table(struct mw_image *image, mw_addr table, uint64_t arena_bytes,
                     mw_addr *arena_out)
{
    struct entry entries[ENTRIES_FIRST];
    mw_addr arena = 0;
    if (mw_image_read(image, table, entries, sizeof entries) != MW_OK)
        return false;
    for (size_t i = 0; i < ENTRIES_FIRST; i++) {
        if (is_arena(image, &entries[i], arena_bytes))
            arena = arena != 0 ? arena : entries[i].address;
        else if (!is_unused(&entries[i], table))
            return false;
    }
    *arena_out = arena;
    return arena != 0;
}

/* Arenas of 256 KiB may look like ones of 1 MiB where all begin at multiples of 16 KiB. The header
 * of the first pool tells: its last offset lies within the pool. */
static bool pools_fit(struct mw_image *image, mw_addr arena, uint64_t arena_bytes)
{
    enum { SIZE_INDEX_AT = 36, MAX_OFFSET_AT = 44, SIZE_INDEX_DUMMY = 0xffff };
    uint64_t pool = arena_bytes / POOLS;
    mw_addr first = (arena + pool - 1) & ~(pool - 1);
    uint32_t index, max_offset;
    if (mw_image_read(image, first + SIZE_INDEX_AT, &index, sizeof index) != MW_OK ||
        mw_image_read(image, first + MAX_OFFSET_AT, &max_offset, sizeof max_offset) != MW_OK ||
        index == SIZE_INDEX_DUMMY || max_offset == 0)
        return true; /* never used: cannot tell */
    return max_offset < pool && max_offset >= pool / 2;
}

/* The first entry alone tells most of what is no table before more is read. */
static bool may_be_table(struct mw_image *image, mw_addr table, uint64_t *arena_bytes_out)
{
    static const uint64_t sizes[] = {ARENA_LARGE, ARENA_SMALL};
    struct entry first;
    if (mw_image_read(image, table, &first, sizeof first) != MW_OK)
        return false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mw_addr arena;
        bool may_be =
            first.address == 0 ? is_unused(&first, table) : is_arena(image, &first, sizes[i]);
        if (may_be && is_table(image, table, sizes[i], &arena) &&
            pools_fit(image, arena, sizes[i])) {
            *arena_bytes_out = sizes[i];
            return true;
        }
    }
    return false;
}

static enum mw_status table_read(struct mw_image *image, mw_addr table,
                                 struct mw_obmalloc *obmalloc)
{
    for (size_t done = 0; done < ARENAS_MAX; done += ENTRY_BATCH) {
        struct entry entries[ENTRY_BATCH];
        size_t got = mw_image_read_some(image, table + done * ENTRY_SIZE, entries, sizeof entries);
        for (size_t i = 0; i < got / ENTRY_SIZE; i++) {
            if (is_arena(image, &entries[i], obmalloc->arena_bytes)) {
                enum mw_status status = mw_vec_push(obmalloc, ARENAS_MAX, entries[i].address);
                if (status != MW_OK)
                    return status;
                obmalloc->used_bytes += (entries[i].total_pools - entries[i].free_pools) *
                                        (obmalloc->arena_bytes / POOLS);
            } else if (!is_unused(&entries[i], table)) {
                return MW_OK; /* the table has ended */
            }
        }
        if (got < sizeof entries)
            return MW_OK;
    }
    return MW_OK;
}

static int compare_addr(const void *left, const void *right)
{
    mw_addr a = *(const mw_addr *)left, b = *(const mw_addr *)right;
    return a < b ? -1 : a > b;
}

/* Sort, and drop what overlaps: a table that says otherwise lies, and its counts with it. */
static void arenas_sort(struct mw_obmalloc *obmalloc)
{
    size_t kept = 0;
    qsort(obmalloc->items, obmalloc->count, sizeof *obmalloc->items, compare_addr);
    for (size_t i = 0; i < obmalloc->count; i++)
        if (kept == 0 || obmalloc->items[i] - obmalloc->items[kept - 1] >= obmalloc->arena_bytes)
            obmalloc->items[kept++] = obmalloc->items[i];
    if (kept < obmalloc->count)
        obmalloc->used_bytes = MW_UNKNOWN;
    obmalloc->count = kept;
}

/* Could the word point to malloc's memory? */
static bool is_heap_pointer(const struct mw_image *image, uint64_t word)
{
    if (word == 0 || word % 16 != 0)
        return false;
    const struct mw_mapping *map = mw_image_region(image, word);
    return map && !(map->perms & MW_PERM_SHARED) && (map->perms & MW_PERM_WRITE) &&
           map->inode == 0 && word <= map->end - ENTRIES_FIRST * ENTRY_SIZE;
}

/* Is any page of the step resident or swapped? Untouched .bss is not worth a read. */
static bool is_touched(struct mw_image *image, mw_addr start, size_t size)
{
    enum { PAGES_MAX = DATA_STEP / 4096 + 1 };
    uint8_t flags[PAGES_MAX];
    uint64_t page_size = image->page_size;
    if (!(image->can & MW_CAN_PAGES) || page_size < 4096)
        return true;
    mw_addr first = start & ~(page_size - 1);
    size_t count = (size_t)((start + size - first + page_size - 1) / page_size);
    if (count > PAGES_MAX || mw_image_pages(image, first, count, flags, NULL) != MW_OK)
        return true;
    for (size_t i = 0; i < count; i++)
        if (flags[i] & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED))
            return true;
    return false;
}

/* Read the table and keep it if it has more arenas than the best so far. */
static enum mw_status table_keep(struct mw_image *image, mw_addr table, uint64_t arena_bytes,
                                 struct mw_obmalloc *best)
{
    struct mw_obmalloc obmalloc = {.arena_bytes = arena_bytes};
    enum mw_status status = table_read(image, table, &obmalloc);
    if (status == MW_OK && obmalloc.count > best->count) {
        mw_obmalloc_deinit(best);
        *best = obmalloc;
        return MW_OK;
    }
    mw_obmalloc_deinit(&obmalloc);
    return status;
}

/* Look at every word of size bytes: `arenas` points to the table, `usable_arenas` beside it into
 * its middle, so all have to be tried and the longest is the table. */
static enum mw_status words_try(struct mw_image *image, const uint8_t *bytes, size_t size,
                                struct mw_obmalloc *best)
{
    uint64_t last = 0;
    enum mw_status status = MW_OK;
    for (size_t at = 0; at + 8 <= size && status == MW_OK; at += 8) {
        uint64_t word, arena_bytes;
        memcpy(&word, bytes + at, sizeof word);
        if (word == last || !is_heap_pointer(image, word))
            continue;
        last = word;
        if (may_be_table(image, word, &arena_bytes))
            status = table_keep(image, word, arena_bytes, best);
    }
    return status;
}

enum mw_status mw_obmalloc_find(struct mw_image *image, mw_addr start, mw_addr end,
                                struct mw_obmalloc *obmalloc_out)
{
    struct mw_obmalloc best = {0};
    enum mw_status status = MW_OK;
    MW_FREE uint8_t *bytes = mw_calloc(DATA_STEP, 1);
    if (!bytes)
        return MW_NOMEM;
    if (end > start && end - start > DATA_BYTES_MAX) /* no library has so much: damage */
        end = start + DATA_BYTES_MAX;
    for (mw_addr at = start & ~(mw_addr)7; at < end && status == MW_OK;) {
        size_t size = end - at < DATA_STEP ? (size_t)(end - at) : DATA_STEP;
        if (is_touched(image, at, size)) {
            size_t got = mw_image_read_present(image, at, bytes, size);
            status = words_try(image, bytes, got, &best);
        }
        at += size;
    }
    if (status != MW_OK || best.count == 0) {
        mw_obmalloc_deinit(&best);
        return status != MW_OK ? status : MW_NOT_FOUND;
    }
    arenas_sort(&best);
    *obmalloc_out = best;
    return MW_OK;
}

void mw_obmalloc_deinit(struct mw_obmalloc *obmalloc)
{
    free(obmalloc->items);
    *obmalloc = (struct mw_obmalloc){0};
}
