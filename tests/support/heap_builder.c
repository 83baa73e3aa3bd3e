/* tests/support/heap_builder.c: see heap_builder.h. Layouts: glibc git tags 2.17 to 2.44,
 * malloc/malloc.c and malloc/arena.c. */
#include "heap_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N HEAP_NONE

const struct heap_family heap_families[] = {
    /* name  bins fast att  sys   size  nmm mem sbrk tc   thp size  chunk cb bins ent  cnt */
    {"2.17", 104, 8, N, 2168, 2184, 40, 56, 80, N, N, 88, 0, 0, 0, 0, 0, false, false, 32, 0},
    {"2.23", 104, 8, 2168, 2176, 2192, 40, 56, 80, N, N, 88, 0, 0, 0, 0, 0, false, false, 32, 0},
    {"2.24", 104, 8, 2168, 2176, 2192, 40, 56, 72, N, N, 80, 0, 0, 0, 0, 0, false, false, 32, 0},
    {"2.26", 104,   8, 2168, 2176, 2192, 40,    56,    72, 80, N,
     112,    0x250, 1, 64,   64,   7,    false, false, 32, 0},
    {"2.27", 112,   16, 2176, 2184, 2200, 40,    56,    72, 80, N,
     112,    0x250, 1,  64,   64,   7,    false, false, 32, 0},
    {"2.31", 112,   16, 2176, 2184, 2200, 40,    56,    72, 80, N,
     112,    0x290, 2,  64,   128,  7,    false, false, 32, 0},
    {"2.34", 112,   16, 2176, 2184, 2200, 40,    56,   72, 80, N,
     112,    0x290, 2,  64,   128,  7,    false, true, 32, 0},
    {"2.36", 112,   16, 2176, 2184, 2200, 60,    80,   96, 104, 40,
     136,    0x290, 2,  64,   128,  7,    false, true, 48, 0},
    {"2.42", 112,   16, 2176, 2184, 2200, 60,   80,   96, 104, 40,
     136,    0x300, 2,  76,   152,  7,    true, true, 48, 0},
    {"2.43", 24,    N, 2088, 2096, 2112, 68,   88,   104, 112, 48,
     144,    0x300, 2, 76,   152,  16,   true, true, 48,  16},
    {"2.44", 24,    N, 2088, 2096, 2112, 68,   88,   104, 112, 48,
     136,    0x310, 2, 76,   152,  16,   true, true, 48,  16},
};
const size_t heap_family_count = sizeof heap_families / sizeof *heap_families;

enum { PREV_INUSE = 1, IS_MMAPPED = 2, NON_MAIN = 4, DATA_BYTES = 2 * HEAP_PAGE };
static const mw_addr LIBC_TEXT = 0x7fff20000000, LIBC_DATA = 0x7fff20200000;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "heap_builder: %s\n", what);
    abort();
}

/* One more element of an array whose room is a power of two of its count. */
static void *array_grow(void *items, size_t count, size_t item_size)
{
    if (count & (count - 1) && count != 0)
        return items;
    void *grown = realloc(items, (count ? 2 * count : 1) * item_size);
    need(grown != NULL, "out of memory");
    return grown;
}

static struct heap_region *region_add(struct heap_builder *heap, mw_addr start, uint64_t size,
                                      const char *name, uint32_t perms)
{
    need(size > 0 && start % HEAP_PAGE == 0 && size % HEAP_PAGE == 0, "region not page-aligned");
    heap->regions = array_grow(heap->regions, heap->region_count, sizeof *heap->regions);
    struct heap_region *region = &heap->regions[heap->region_count++];
    *region = (struct heap_region){.start = start, .size = size, .perms = perms};
    snprintf(region->name, sizeof region->name, "%s", name);
    region->bytes = calloc(1, size);
    region->pages = malloc(size / HEAP_PAGE);
    need(region->bytes && region->pages, "out of memory");
    memset(region->pages, MW_PAGE_PRESENT, size / HEAP_PAGE);
    return region;
}

mw_addr heap_map(struct heap_builder *heap, mw_addr start, uint64_t size, const char *name)
{
    return region_add(heap, start, size, name, MW_PERM_READ | MW_PERM_WRITE)->start;
}

void heap_map_shared(struct heap_builder *heap, mw_addr start, uint64_t size, uint8_t *bytes,
                     uint8_t *pages, const char *name)
{
    heap->regions = array_grow(heap->regions, heap->region_count, sizeof *heap->regions);
    struct heap_region *region = &heap->regions[heap->region_count++];
    *region = (struct heap_region){
        .start = start,
        .size = size,
        .perms = MW_PERM_READ | MW_PERM_WRITE,
        .bytes = bytes,
        .pages = pages,
        .is_shared = true,
    };
    snprintf(region->name, sizeof region->name, "%s", name);
}

static struct heap_region *region_find(struct heap_builder *heap, mw_addr address)
{
    for (size_t i = heap->region_count; i-- > 0;) /* the newest is asked for most */
        if (address - heap->regions[i].start < heap->regions[i].size)
            return &heap->regions[i];
    return NULL;
}

struct heap_region *heap_region_of(struct heap_builder *heap, mw_addr address)
{
    struct heap_region *region = region_find(heap, address);
    need(region != NULL, "address outside every region");
    return region;
}

void heap_pages_set(struct heap_builder *heap, mw_addr start, uint64_t size, uint8_t flags)
{
    struct heap_region *region = heap_region_of(heap, start);
    mw_addr end = start + size;
    need(end <= region->start + region->size, "pages beyond their region");
    for (mw_addr page = (start + HEAP_PAGE - 1) & ~(mw_addr)(HEAP_PAGE - 1);
         page + HEAP_PAGE <= end; page += HEAP_PAGE)
        region->pages[(page - region->start) / HEAP_PAGE] = flags;
}

uint8_t *heap_bytes(struct heap_builder *heap, mw_addr address)
{
    struct heap_region *region = heap_region_of(heap, address);
    return region->bytes + (address - region->start);
}

void heap_put(struct heap_builder *heap, mw_addr address, uint64_t word)
{
    memcpy(heap_bytes(heap, address), &word, sizeof word);
}

uint64_t heap_get(struct heap_builder *heap, mw_addr address)
{
    uint64_t word;
    memcpy(&word, heap_bytes(heap, address), sizeof word);
    return word;
}

static void put_u32(struct heap_builder *heap, mw_addr address, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    memcpy(heap_bytes(heap, address), &narrow, sizeof narrow);
}

static struct heap_arena *arena_add(struct heap_builder *heap, mw_addr address, uint32_t flags)
{
    heap->arenas = array_grow(heap->arenas, heap->arena_count, sizeof *heap->arenas);
    struct heap_arena *arena = &heap->arenas[heap->arena_count++];
    *arena = (struct heap_arena){.address = address, .flags = flags, .attached_threads = 1};
    return arena;
}

struct heap_builder *heap_new(const struct heap_family *family)
{
    struct heap_builder *heap = calloc(1, sizeof *heap);
    need(heap != NULL, "out of memory");
    heap->family = family;
    heap->data = LIBC_DATA;
    heap->mp = LIBC_DATA + 0x1c0;
    heap->main_arena = LIBC_DATA + 0xac0;
    heap->mmap_threshold = heap->trim_threshold = 128 << 10;
    heap->tcache_limit = family->tcache_count;
    const char *libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    struct heap_region *text = region_add(heap, LIBC_TEXT, HEAP_PAGE, libc, MW_PERM_READ);
    text->inode = 4711;
    snprintf((char *)text->bytes + 600, 200,
             "GNU C Library (made by hand) stable release version %s.\n", family->name);
    region_add(heap, LIBC_DATA, DATA_BYTES, libc, MW_PERM_READ | MW_PERM_WRITE)->inode = 4711;
    arena_add(heap, heap->main_arena, family->bins == 104 ? 1 : 0);
    return heap;
}

void heap_delete(struct heap_builder *heap)
{
    for (size_t i = 0; i < heap->region_count; i++) {
        if (heap->regions[i].is_shared)
            continue;
        free(heap->regions[i].bytes);
        free(heap->regions[i].pages);
    }
    free(heap->regions);
    free(heap->arenas);
    free(heap->tcaches);
    free(heap->thread_pointers);
    free(heap->segments);
    free(heap->expects);
    free(heap);
}

static void expect(struct heap_builder *heap, mw_addr address, uint64_t size,
                   enum mw_block_state state)
{
    if (size == 0)
        return;
    heap->expects = array_grow(heap->expects, heap->expect_count, sizeof *heap->expects);
    heap->expects[heap->expect_count++] =
        (struct heap_expect){{address, size, state}, heap->segment_count - 1};
}

static struct heap_segment_expect *segment_expect(struct heap_builder *heap, mw_addr start,
                                                  mw_addr end, enum mw_segment_kind kind,
                                                  unsigned arena)
{
    heap->segments = array_grow(heap->segments, heap->segment_count, sizeof *heap->segments);
    struct heap_segment_expect *segment = &heap->segments[heap->segment_count++];
    *segment =
        (struct heap_segment_expect){.start = start, .end = end, .kind = kind, .arena = arena};
    segment->locked = heap_region_of(heap, start)->vm_flags & MW_VM_LOCKED;
    return segment;
}

/* Chunks begin at first, in memory that ends at limit. */
static void chunks_begin(struct heap_builder *heap, unsigned arena, mw_addr start, mw_addr first,
                         mw_addr limit)
{
    heap->at = (first + 15) & ~(mw_addr)15;
    heap->limit = limit;
    heap->arena = arena;
    heap->prev_in_use = true;
    heap->prev_size = 0;
    expect(heap, start, heap->at - start, MW_BLOCK_METADATA);
}

void heap_segment(struct heap_builder *heap, enum mw_segment_kind kind, mw_addr start,
                  mw_addr limit)
{
    if (heap->sbrk_base == 0)
        heap->sbrk_base = start;
    segment_expect(heap, start, limit, kind, 0);
    heap->arenas[0].system_mem += limit - start;
    chunks_begin(heap, 0, start, start, limit);
}

static void heap_info_put(struct heap_builder *heap, unsigned index, mw_addr start,
                          uint64_t committed)
{
    struct heap_arena *arena = &heap->arenas[index];
    heap_put(heap, start, arena->address);
    heap_put(heap, start + 8, arena->newest_heap);
    heap_put(heap, start + 16, committed);
    heap_put(heap, start + 24, committed);
    if (heap->family->heap_info == 48)
        heap_put(heap, start + 32, HEAP_PAGE);
    arena->newest_heap = start;
    arena->system_mem += committed;
    segment_expect(heap, start, start + committed, MW_SEGMENT_HEAP, index);
}

unsigned heap_arena(struct heap_builder *heap, mw_addr start, uint64_t committed)
{
    unsigned index = (unsigned)heap->arena_count;
    const struct heap_family *family = heap->family;
    heap_map(heap, start, committed, "");
    arena_add(heap, start + family->heap_info, 2);
    heap_info_put(heap, index, start, committed);
    chunks_begin(heap, index, start, start + family->heap_info + family->state_size,
                 start + committed);
    return index;
}

void heap_arena_more(struct heap_builder *heap, unsigned arena, mw_addr start, uint64_t committed)
{
    heap_map(heap, start, committed, "");
    heap_info_put(heap, arena, start, committed);
    chunks_begin(heap, arena, start, start + heap->family->heap_info, start + committed);
}

uint64_t heap_left(const struct heap_builder *heap)
{
    return heap->limit - heap->at;
}

/* A link as this version stores it at address `at`. */
static uint64_t link_of(const struct heap_builder *heap, mw_addr at, mw_addr to)
{
    return heap->family->safe_linking ? to ^ (at >> 12) : to;
}

/* The bin of a chunk size: malloc.c csize2tidx, large_csize2tidx (2.42). */
static size_t tcache_bin(uint64_t size)
{
    if (size <= 1040)
        return size / 16 - 2;
    return 64 + (size_t)(__builtin_clzll(1040) - __builtin_clzll(size));
}

static void tcache_push(struct heap_builder *heap, mw_addr chunk, uint64_t size)
{
    need(heap->tcache_count > 0, "no tcache yet");
    struct heap_tcache *tcache = &heap->tcaches[heap->tcache_count - 1];
    size_t bin = tcache_bin(size);
    need(bin < heap->family->tcache_bins && tcache->counts[bin] < heap->tcache_limit,
         "tcache bin is full");
    heap_put(heap, chunk + 16, link_of(heap, chunk + 16, tcache->heads[bin]));
    tcache->heads[bin] = chunk + 16;
    tcache->counts[bin]++;
}

/* What this version makes of a state. */
static enum mw_block_state state_of(const struct heap_builder *heap, enum mw_block_state state)
{
    bool none = (state == MW_BLOCK_TCACHE && heap->family->tcache_chunk == 0) ||
                (state == MW_BLOCK_FASTBIN && heap->family->fastbins == HEAP_NONE);
    return none ? MW_BLOCK_IN_USE : state;
}

/* The header of the next chunk, knowing its predecessor. */
static mw_addr header_put(struct heap_builder *heap, uint64_t size, uint64_t flags)
{
    mw_addr chunk = heap->at;
    if (!heap->prev_in_use)
        heap_put(heap, chunk, heap->prev_size);
    heap_put(heap, chunk + 8, size | flags | (heap->prev_in_use ? PREV_INUSE : 0));
    heap->at += size;
    heap->prev_in_use = true;
    return chunk;
}

mw_addr heap_block(struct heap_builder *heap, uint64_t size, enum mw_block_state wanted)
{
    enum mw_block_state state = state_of(heap, wanted);
    need(size >= 32 && size % 16 == 0 && size <= heap_left(heap), "bad chunk size");
    struct heap_arena *arena = &heap->arenas[heap->arena];
    bool marks = heap->arena != 0 && state != MW_BLOCK_FREE;
    mw_addr chunk = header_put(heap, size, marks ? NON_MAIN : 0);
    expect(heap, chunk, size, state);
    switch (state) {
    case MW_BLOCK_IN_USE:
        break;
    case MW_BLOCK_FREE:
        need(arena->free_count < 2048, "too many free chunks");
        arena->free_chunks[arena->free_count++] = chunk;
        heap->prev_in_use = false;
        heap->prev_size = size;
        break;
    case MW_BLOCK_TCACHE:
        tcache_push(heap, chunk, size);
        break;
    case MW_BLOCK_FASTBIN:
        need(size <= 176, "too big for a fastbin");
        heap_put(heap, chunk + 16, link_of(heap, chunk + 16, arena->fastbins[size / 16 - 2]));
        arena->fastbins[size / 16 - 2] = chunk;
        break;
    default:
        need(false, "not a state of a block");
    }
    return chunk;
}

mw_addr heap_top(struct heap_builder *heap)
{
    need(heap->prev_in_use, "a free chunk before top would have been merged");
    uint64_t size = heap_left(heap);
    mw_addr chunk = header_put(heap, size, 0);
    expect(heap, chunk, size, MW_BLOCK_TOP);
    heap->arenas[heap->arena].top = chunk;
    struct heap_segment_expect *segment = &heap->segments[heap->segment_count - 1];
    segment->has_top = true;
    struct heap_region *region = heap_region_of(heap, chunk);
    segment->at_brk =
        strcmp(region->name, "[heap]") == 0 && region->start + region->size == segment->end;
    return chunk;
}

/* The last chunk before fences of `fences` bytes. */
static void last_chunk(struct heap_builder *heap, uint64_t fences, enum mw_block_state state)
{
    if (heap_left(heap) > fences)
        heap_block(heap, heap_left(heap) - fences, state);
}

void heap_fences(struct heap_builder *heap, enum mw_block_state state)
{
    if (heap_left(heap) != 48)
        last_chunk(heap, 32, state);
    expect(heap, heap->at, heap_left(heap), MW_BLOCK_METADATA);
    while (heap_left(heap) > 0)
        header_put(heap, 16, 0);
}

void heap_thread_fences(struct heap_builder *heap, enum mw_block_state state)
{
    if (heap_left(heap) == 48) {
        mw_addr dummy = header_put(heap, 32, 0);
        expect(heap, dummy, 32, MW_BLOCK_METADATA);
    } else {
        last_chunk(heap, 32, state);
    }
    expect(heap, heap->at, heap_left(heap), MW_BLOCK_METADATA);
    if (heap_left(heap) == 32)
        header_put(heap, 16, 0);
    heap_put(heap, heap->at + 8, PREV_INUSE); /* size 0 */
}

void heap_foreign(struct heap_builder *heap, mw_addr start, uint64_t size)
{
    heap->gap_bytes += size;
    heap->arenas[0].system_mem += size;
    for (uint64_t i = 0; i + 8 <= size; i += 8) /* nothing that looks like a chunk */
        heap_put(heap, start + i, 0x5a5a5a5a00000000u + i * 3);
}

mw_addr heap_mmapped(struct heap_builder *heap, mw_addr start, uint64_t total, uint64_t offset,
                     enum mw_block_state state)
{
    uint64_t tail = heap->family->mmap_tail;
    if (!region_find(heap, start))
        heap_map(heap, start, total, "");
    heap_put(heap, start + 8, (total - tail) | IS_MMAPPED);
    if (offset > 0) {
        heap_put(heap, start + offset, offset);
        heap_put(heap, start + offset + 8, (total - offset - tail) | IS_MMAPPED);
    }
    heap->n_mmaps++;
    heap->mmapped_mem += total;
    segment_expect(heap, start, start + total, MW_SEGMENT_MMAPPED, MW_ARENA_NONE);
    expect(heap, start, offset, MW_BLOCK_METADATA);
    state = state_of(heap, state);
    expect(heap, start + offset, total - offset - tail, state);
    expect(heap, start + total - tail, tail, MW_BLOCK_METADATA);
    if (state == MW_BLOCK_TCACHE)
        tcache_push(heap, start + offset, total - offset - tail);
    return start + offset;
}

void heap_tcache_new(struct heap_builder *heap)
{
    if (heap->family->tcache_chunk == 0)
        return;
    mw_addr chunk = heap_block(heap, heap->family->tcache_chunk, MW_BLOCK_IN_USE);
    heap->tcaches = array_grow(heap->tcaches, heap->tcache_count, sizeof *heap->tcaches);
    heap->tcaches[heap->tcache_count++] = (struct heap_tcache){.chunk = chunk};
}

void heap_thread(struct heap_builder *heap, mw_addr stack, bool tcache)
{
    heap_map(heap, stack, 4 * HEAP_PAGE, "");
    mw_addr tp = stack + 3 * HEAP_PAGE + 0x740;
    heap->thread_pointers =
        array_grow(heap->thread_pointers, heap->thread_count, sizeof *heap->thread_pointers);
    heap->thread_pointers[heap->thread_count++] = tp;
    heap_put(heap, tp, tp); /* tcbhead_t.tcb */
    heap_put(heap, tp - 0x30, heap->arenas[heap->arena].address);
    if (tcache && heap->tcache_count > 0)
        heap_put(heap, tp - 0x48, heap->tcaches[heap->tcache_count - 1].chunk + 16);
}

static void bins_put(struct heap_builder *heap, const struct heap_arena *arena)
{
    mw_addr bins = arena->address + heap->family->bins;
    static const unsigned used[2] = {0, 5}; /* unsorted, and one of the others */
    for (unsigned bin = 0; bin < 127; bin++) {
        mw_addr at = bins + bin * 16 - 16;
        heap_put(heap, at + 16, at);
        heap_put(heap, at + 24, at);
    }
    for (size_t i = 0; i < arena->free_count; i++) { /* in front, as malloc does */
        mw_addr at = bins + used[i % 2] * 16 - 16, chunk = arena->free_chunks[i];
        mw_addr first = heap_get(heap, at + 16);
        heap_put(heap, chunk + 16, first);
        heap_put(heap, chunk + 24, at);
        heap_put(heap, first + 24, chunk);
        heap_put(heap, at + 16, chunk);
    }
}

static void arena_put(struct heap_builder *heap, size_t index)
{
    const struct heap_family *family = heap->family;
    const struct heap_arena *arena = &heap->arenas[index];
    mw_addr at = arena->address;
    put_u32(heap, at, arena->mutex);
    put_u32(heap, at + 4, arena->flags);
    if (family->fastbins != HEAP_NONE)
        for (unsigned bin = 0; bin < 10; bin++)
            heap_put(heap, at + family->fastbins + 8 * bin, arena->fastbins[bin]);
    heap_put(heap, at + family->bins - 16, arena->top);
    bins_put(heap, arena);
    heap_put(heap, at + family->bins + 2048, heap->arenas[(index + 1) % heap->arena_count].address);
    if (family->attached_threads != HEAP_NONE)
        heap_put(heap, at + family->attached_threads, arena->attached_threads);
    heap_put(heap, at + family->system_mem, arena->system_mem);
    heap_put(heap, at + family->system_mem + 8, arena->system_mem);
}

static void par_put(struct heap_builder *heap)
{
    const struct heap_family *family = heap->family;
    mw_addr mp = heap->mp;
    const uint64_t head[5] = {heap->trim_threshold, 128 << 10, heap->mmap_threshold, 8,
                              heap->arena_max};
    for (unsigned i = 0; i < 5; i++)
        heap_put(heap, mp + 8 * i, head[i]);
    uint64_t most = heap->max_n_mmaps > heap->n_mmaps ? heap->max_n_mmaps : heap->n_mmaps;
    put_u32(heap, mp + family->n_mmaps, heap->n_mmaps);
    put_u32(heap, mp + family->n_mmaps + 4, 65536);
    put_u32(heap, mp + family->n_mmaps + 8, most);
    put_u32(heap, mp + family->n_mmaps + 12, heap->trim_threshold != 128 << 10);
    heap_put(heap, mp + family->mmapped_mem, heap->mmapped_mem);
    heap_put(heap, mp + family->mmapped_mem + 8,
             heap->max_mmapped_mem > heap->mmapped_mem ? heap->max_mmapped_mem : heap->mmapped_mem);
    heap_put(heap, mp + family->sbrk_base, heap->sbrk_base);
    if (family->tcache_fields != HEAP_NONE) {
        heap_put(heap, mp + family->tcache_fields, 64);
        heap_put(heap, mp + family->tcache_fields + 8, family->mmap_tail ? 1041 : 1032);
        heap_put(heap, mp + family->tcache_fields + 16, heap->tcache_limit);
    }
    if (family->thp_pagesize != HEAP_NONE) {
        heap_put(heap, mp + family->thp_pagesize, heap->thp_pagesize);
        heap_put(heap, mp + family->thp_pagesize + 8, heap->hp_pagesize);
    }
}

static void tcache_put(struct heap_builder *heap, const struct heap_tcache *tcache)
{
    const struct heap_family *family = heap->family;
    mw_addr at = tcache->chunk + 16;
    for (unsigned bin = 0; bin < family->tcache_bins; bin++) {
        uint64_t count = tcache->counts[bin];
        if (family->counts_free_slots)
            count = heap->tcache_limit - count;
        uint8_t *slot = heap_bytes(heap, at + bin * family->count_bytes);
        slot[0] = (uint8_t)count;
        if (family->count_bytes == 2)
            slot[1] = (uint8_t)(count >> 8);
        heap_put(heap, at + family->entries + 8 * bin, tcache->heads[bin]);
    }
}

void heap_finish(struct heap_builder *heap)
{
    for (size_t i = 0; i < heap->arena_count; i++)
        arena_put(heap, i);
    for (size_t i = 0; i < heap->tcache_count; i++)
        tcache_put(heap, &heap->tcaches[i]);
    par_put(heap);
}

static int region_compare(const void *a, const void *b)
{
    mw_addr left = ((const struct heap_region *)a)->start;
    mw_addr right = ((const struct heap_region *)b)->start;
    return left < right ? -1 : left > right;
}

void heap_open(struct heap_builder *heap, struct mw_image *image_out)
{
    qsort(heap->regions, heap->region_count, sizeof *heap->regions, region_compare);
    struct mw_image_memory_part *parts = calloc(heap->region_count, sizeof *parts);
    need(parts != NULL, "out of memory");
    for (size_t i = 0; i < heap->region_count; i++) {
        const struct heap_region *region = &heap->regions[i];
        parts[i] = (struct mw_image_memory_part){
            .mapping = {.start = region->start,
                        .end = region->start + region->size,
                        .perms = region->perms,
                        .vm_flags = region->vm_flags,
                        .inode = region->inode,
                        .name = region->name},
            .bytes = region->bytes,
            .pages = region->pages,
        };
    }
    need(mw_image_open_memory(parts, heap->region_count, image_out, NULL) == MW_OK, "no image");
    free(parts);
    image_out->threads = calloc(heap->thread_count + 1, sizeof *image_out->threads);
    need(image_out->threads != NULL, "out of memory");
    image_out->thread_count = heap->thread_count;
    for (size_t i = 0; i < heap->thread_count; i++) {
        image_out->threads[i].tid = (int32_t)i + 1;
        image_out->threads[i].has_registers = true;
        image_out->threads[i].tp = heap->thread_pointers[i];
    }
}
