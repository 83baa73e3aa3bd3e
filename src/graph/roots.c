/* graph/roots.c: all memory that may hold pointers, less what does not count.
 *
 * Trusts the regions that the image has, and the walkers' segments. What libc's control blocks say
 * of a stack is believed where it holds the thread's own stack pointer. O(n log n) in regions,
 * segments and threads. */
#include "graph/roots.h"

#include "base/alloc.h"
#include "image/tcb.h"
#include "symbol/elfmap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { RED_ZONE = 128, TCB_WINDOW = 16 << 10, TLS_SLACK = 4096 };
static const uint64_t SHARED_BYTES_MAX = (uint64_t)1 << 30;
static const uint64_t SPAN_MAX = (uint64_t)1 << 40; /* of all regions, their empty parts included */
static const uint64_t RELRO_BYTES_MAX = (uint64_t)64 << 20;

const char *mw_root_kind_name(enum mw_root_kind kind)
{
    static const char *const names[MW_ROOT_KIND_COUNT] = {
        [MW_ROOT_REGISTERS] = "register",
        [MW_ROOT_STACK] = "stack",
        [MW_ROOT_DATA] = "data",
        [MW_ROOT_ANONYMOUS] = "anonymous memory",
        [MW_ROOT_CODE] = "generated code",
        [MW_ROOT_SHARED] = "shared memory",
        [MW_ROOT_UNPARSED] = "unparsed heap memory",
    };
    assert((size_t)kind < MW_ROOT_KIND_COUNT);
    return names[kind];
}

/* What is cut out of the regions. */
struct cut {
    mw_addr start, end;
};

struct collect {
    struct mw_image *image;
    struct mw_roots *roots;
    MW_VEC(struct cut) cuts;
    size_t settled;    /* so many of them ascend and are disjoint */
    mw_addr *pointers; /* thread pointers, ascending */
    size_t pointer_count;
    uint64_t tls_bytes; /* of all modules; 0: not asked for yet */
    uint64_t shared_bytes;
};

static enum mw_status cut_add(struct collect *collect, mw_addr start, mw_addr end)
{
    if (start >= end)
        return MW_OK;
    return mw_vec_push(&collect->cuts, SIZE_MAX / sizeof(struct cut), (struct cut){start, end});
}

static int cut_compare(const void *a, const void *b)
{
    const struct cut *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Sort the cuts and melt those that overlap into one. */
static void cuts_settle(struct collect *collect)
{
    size_t kept = 0;
    if (collect->cuts.count > 1)
        qsort(collect->cuts.items, collect->cuts.count, sizeof(struct cut), cut_compare);
    for (size_t i = 0; i < collect->cuts.count; i++) {
        struct cut *cut = &collect->cuts.items[i], *last = &collect->cuts.items[kept - (kept > 0)];
        if (kept > 0 && cut->start <= last->end)
            last->end = cut->end > last->end ? cut->end : last->end;
        else
            collect->cuts.items[kept++] = *cut;
    }
    collect->cuts.count = collect->settled = kept;
}

/* ---- allocators ---- */

static enum mw_status allocator_cut(struct collect *collect, const struct mw_allocator *allocator)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < allocator->segment_count && status == MW_OK; i++)
        status = cut_add(collect, allocator->segments[i].start, allocator->segments[i].end);
    for (size_t i = 0; i < allocator->arena_count && status == MW_OK; i++)
        status = cut_add(collect, allocator->arenas[i].address,
                         allocator->arenas[i].address + allocator->arenas[i].state_bytes);
    return status;
}

/* ---- stacks ---- */

static int address_compare(const void *a, const void *b)
{
    mw_addr left = *(const mw_addr *)a, right = *(const mw_addr *)b;
    return left < right ? -1 : left > right;
}

static bool is_live_pointer(const struct collect *collect, mw_addr tp)
{
    return collect->pointer_count > 0 &&
           bsearch(&tp, collect->pointers, collect->pointer_count, sizeof tp, address_compare);
}

static enum mw_status pointers_collect(struct collect *collect)
{
    const struct mw_image *image = collect->image;
    collect->pointers = mw_calloc(image->thread_count + 1, sizeof *collect->pointers);
    if (!collect->pointers)
        return MW_NOMEM;
    for (size_t i = 0; i < image->thread_count; i++) {
        const struct mw_thread *thread = &image->threads[i];
        collect->roots->blind_threads += !thread->has_registers;
        if (thread->has_registers && thread->tp)
            collect->pointers[collect->pointer_count++] = thread->tp;
    }
    qsort(collect->pointers, collect->pointer_count, sizeof *collect->pointers, address_compare);
    return MW_OK;
}

/* Below the stack pointer of a thread nothing counts any more. */
static enum mw_status thread_cut(struct collect *collect, const struct mw_thread *thread)
{
    const struct mw_mapping *map = mw_image_region(collect->image, thread->sp);
    mw_addr start, end;
    if (!thread->has_registers || !map || thread->sp < map->start + RED_ZONE)
        return MW_OK;
    mw_addr until = (thread->sp - RED_ZONE) & ~(mw_addr)7;
    if (strcmp(map->name, "[stack]") == 0)
        start = map->start;
    else if (!mw_tcb_stack(collect->image, thread->tp, &start, &end) || thread->sp < start ||
             thread->sp >= end)
        return MW_OK; /* on a stack of the program's own: all of it counts */
    if (start < map->start)
        start = map->start; /* the guard */
    if (until > start)
        collect->roots->stale_bytes += until - start;
    return cut_add(collect, start, until);
}

static uint64_t tls_total(struct collect *collect)
{
    struct mw_image *image = collect->image;
    if (collect->tls_bytes)
        return collect->tls_bytes;
    collect->tls_bytes = TLS_SLACK;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        struct mw_elf_map elf;
        if (map->offset != 0 || mw_mapping_is_anonymous(map) || !(map->perms & MW_PERM_READ) ||
            map->perms & MW_PERM_WRITE || mw_elf_map_read(image, map->start, &elf) != MW_OK)
            continue;
        uint64_t bytes = elf.tls_bytes + elf.tls_align;
        if (bytes >= elf.tls_bytes && bytes < (uint64_t)1 << 30)
            collect->tls_bytes += bytes;
    }
    return collect->tls_bytes;
}

/* Is address in one of the cuts, which are in order up to now? */
static bool is_cut(const struct collect *collect, mw_addr address)
{
    size_t low = 0, high = collect->settled;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (collect->cuts.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < collect->settled && collect->cuts.items[low].start <= address;
}

/* A stack that libc keeps for the next thread: its frames are of calls that are over. */
static enum mw_status ended_cut(struct collect *collect, mw_addr start, mw_addr tp)
{
    mw_addr until = tp - tls_total(collect);
    if (until > tp || until <= start)
        return MW_OK;
    collect->roots->ended_threads++;
    collect->roots->stale_bytes += until - start;
    return cut_add(collect, start, until);
}

/* The stacks of ended threads in a mapping, from its end downwards: neighbours melt into one when
 * their guards are inside of them, as from glibc 2.42 on. */
static enum mw_status region_cut(struct collect *collect, const struct mw_mapping *map)
{
    uint8_t bytes[TCB_WINDOW];
    enum mw_status status = MW_OK;
    if (strcmp(map->name, "[heap]") == 0 || strncmp(map->name, "[stack", 6) == 0 ||
        is_cut(collect, map->end - 1))
        return MW_OK;
    for (mw_addr at = map->end; at - map->start >= sizeof bytes && status == MW_OK;) {
        mw_addr start, end, from = at - sizeof bytes;
        if (mw_image_read_present(collect->image, from, bytes, sizeof bytes) < sizeof bytes)
            break;
        mw_addr tp = mw_tcb_find(bytes, sizeof bytes, from);
        if (tp == 0 || !mw_tcb_stack(collect->image, tp, &start, &end) || end > at)
            break;
        if (start < map->start)
            start = map->start; /* the guard has a mapping of its own */
        if (!is_live_pointer(collect, tp))
            status = ended_cut(collect, start, tp);
        at = start;
    }
    return status;
}

/* ---- regions ---- */

/* Data that the loader made read-only when it was done: just before the same file's writable data.
 */
static bool is_relro(const struct collect *collect, size_t i)
{
    const struct mw_mapping_list *regions = &collect->image->regions;
    const struct mw_mapping *map = &regions->items[i], *next = map + 1;
    return i + 1 < regions->count && map->end == next->start && next->perms & MW_PERM_WRITE &&
           !(map->perms & MW_PERM_EXEC) && next->inode == map->inode &&
           strcmp(next->name, map->name) == 0 && mw_mapping_size(map) <= RELRO_BYTES_MAX;
}

static bool is_memory_file(const struct mw_mapping *map)
{
    return strncmp(map->name, "/memfd:", 7) == 0;
}

/* Shared memory that a core names and does not hold, as coredump_filter may want it: what it points
 * to is not known. */
static bool is_left_out(struct mw_image *image, const struct mw_mapping *map)
{
    uint64_t word;
    bool is_memory = is_memory_file(map) || strncmp(map->name, "/SYSV", 5) == 0 ||
                     strncmp(map->name, "/dev/zero", 9) == 0 ||
                     strncmp(map->name, "/dev/shm/", 9) == 0;
    return image->kind == MW_IMAGE_CORE && is_memory &&
           mw_image_read_u64(image, map->start, &word) != MW_OK;
}

/* Of what kind the region is as a root; false: it is none. */
static bool region_kind(struct collect *collect, size_t i, enum mw_root_kind *kind_out)
{
    const struct mw_mapping *map = &collect->image->regions.items[i];
    bool is_anonymous = mw_mapping_is_anonymous(map);
    if (is_left_out(collect->image, map)) {
        collect->roots->left_out_bytes += mw_mapping_size(map);
        return false;
    }
    if (!(map->perms & MW_PERM_READ) || map->vm_flags & (MW_VM_IO | MW_VM_PFNMAP))
        return false;
    if (strncmp(map->name, "[vvar", 5) == 0 || strcmp(map->name, "[vsyscall]") == 0)
        return false;
    if (map->perms & MW_PERM_SHARED) {
        bool is_memory = map->deleted || is_memory_file(map) ||
                         strncmp(map->name, "/dev/shm/", 9) == 0 ||
                         strncmp(map->name, "/dev/zero", 9) == 0 ||
                         strncmp(map->name, "/SYSV", 5) == 0 || is_anonymous;
        *kind_out = map->perms & MW_PERM_EXEC ? MW_ROOT_CODE : MW_ROOT_SHARED;
        if (!(map->perms & (MW_PERM_WRITE | MW_PERM_EXEC)) || !is_memory)
            return false;
        uint64_t bytes = mw_mapping_knows(map, MW_COUNTER_RSS)
                             ? mw_mapping_counter(map, MW_COUNTER_RSS)
                             : mw_mapping_size(map);
        if (bytes > SHARED_BYTES_MAX - collect->shared_bytes) {
            collect->roots->left_out_bytes += bytes;
            return false;
        }
        collect->shared_bytes += bytes;
        return true;
    }
    *kind_out = is_anonymous ? MW_ROOT_ANONYMOUS : MW_ROOT_DATA;
    if (strncmp(map->name, "[stack", 6) == 0)
        *kind_out = MW_ROOT_STACK;
    else if (map->perms & MW_PERM_EXEC && (is_anonymous || is_memory_file(map)))
        *kind_out = MW_ROOT_CODE; /* a core does not tell what is shared */
    return is_anonymous || *kind_out == MW_ROOT_CODE || map->perms & MW_PERM_WRITE ||
           is_relro(collect, i);
}

static enum mw_status range_add(struct collect *collect, mw_addr start, mw_addr end,
                                enum mw_root_kind kind)
{
    if (start >= end)
        return MW_OK;
    struct mw_root_range range = {start, end, kind, 0};
    return mw_vec_push(&collect->roots->ranges, SIZE_MAX / sizeof range, range);
}

/* What the cuts, which are sorted, leave of a region. *at is the first that ends behind it. */
static enum mw_status region_add(struct collect *collect, const struct mw_mapping *map,
                                 enum mw_root_kind kind, size_t *at)
{
    mw_addr start = map->start;
    enum mw_status status = MW_OK;
    while (*at < collect->cuts.count && collect->cuts.items[*at].end <= start)
        ++*at;
    for (size_t i = *at; i < collect->cuts.count && status == MW_OK; i++) {
        const struct cut *cut = &collect->cuts.items[i];
        if (cut->start >= map->end)
            break;
        if (cut->start > start)
            status = range_add(collect, start, cut->start, kind);
        if (cut->end > start)
            start = cut->end;
    }
    return status == MW_OK ? range_add(collect, start, map->end, kind) : status;
}

/* The ranges that hold stack pointers are stacks. */
static void stacks_name(struct collect *collect)
{
    const struct mw_image *image = collect->image;
    for (size_t i = 0; i < image->thread_count; i++) {
        const struct mw_thread *thread = &image->threads[i];
        size_t low = 0, high = collect->roots->ranges.count;
        while (low < high) { /* the first range that ends behind the pointer */
            size_t middle = low + (high - low) / 2;
            if (collect->roots->ranges.items[middle].end <= thread->sp)
                low = middle + 1;
            else
                high = middle;
        }
        struct mw_root_range *range = &collect->roots->ranges.items[low];
        if (!thread->has_registers || low == collect->roots->ranges.count ||
            range->start > thread->sp)
            continue;
        range->kind = MW_ROOT_STACK;
        range->tid = thread->tid;
    }
}

static enum mw_status regions_add(struct collect *collect)
{
    const struct mw_mapping_list *regions = &collect->image->regions;
    enum mw_status status = MW_OK;
    uint64_t span = 0;
    size_t at = 0;
    for (size_t i = 0; i < regions->count && status == MW_OK; i++) {
        enum mw_root_kind kind;
        uint64_t size = mw_mapping_size(&regions->items[i]);
        if (!region_kind(collect, i, &kind))
            continue;
        if (size > SPAN_MAX - span) {
            collect->roots->left_out_bytes += size;
            continue;
        }
        span += size;
        status = region_add(collect, &regions->items[i], kind, &at);
    }
    return status;
}

static enum mw_status registers_add(struct collect *collect)
{
    const struct mw_image *image = collect->image;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < image->thread_count; i++) {
        const struct mw_thread *thread = &image->threads[i];
        for (size_t k = 0; k < thread->register_count && status == MW_OK; k++) {
            struct mw_root_word word = {thread->registers[k], thread->tid};
            status = mw_vec_push(&collect->roots->words, SIZE_MAX / sizeof word, word);
        }
    }
    for (size_t i = 0; i < image->vectors.count && status == MW_OK; i++) {
        struct mw_root_word word = {image->vectors.items[i].word, image->vectors.items[i].tid};
        status = mw_vec_push(&collect->roots->words, SIZE_MAX / sizeof word, word);
    }
    return status;
}

static enum mw_status stacks_cut(struct collect *collect)
{
    struct mw_image *image = collect->image;
    enum mw_status status = pointers_collect(collect);
    for (size_t i = 0; i < image->thread_count && status == MW_OK; i++)
        status = thread_cut(collect, &image->threads[i]);
    const uint32_t plain = MW_PERM_READ | MW_PERM_WRITE;
    bool sees_ended = image->arch == MW_ARCH_X86_64 && image->thread_count > 0 &&
                      collect->roots->blind_threads == 0;
    for (size_t i = 0; sees_ended && i < image->regions.count && status == MW_OK; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if ((map->perms & (plain | MW_PERM_SHARED)) == plain && mw_mapping_is_anonymous(map))
            status = region_cut(collect, map);
    }
    return status;
}

enum mw_status mw_roots_collect(struct mw_image *image, const struct mw_allocator *allocators,
                                size_t allocator_count, const struct mw_index *index,
                                struct mw_roots *roots_out)
{
    *roots_out = (struct mw_roots){0};
    struct collect collect = {.image = image, .roots = roots_out};
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < allocator_count && status == MW_OK; i++)
        if (allocators[i].walked)
            status = allocator_cut(&collect, &allocators[i]);
    cuts_settle(&collect);
    if (status == MW_OK)
        status = stacks_cut(&collect);
    cuts_settle(&collect);
    if (status == MW_OK)
        status = regions_add(&collect);
    if (status == MW_OK)
        stacks_name(&collect);
    for (size_t i = 0; i < index->holes.count && status == MW_OK; i++)
        status = range_add(&collect, index->holes.items[i].start, index->holes.items[i].end,
                           MW_ROOT_UNPARSED);
    if (status == MW_OK)
        status = registers_add(&collect);
    mw_vec_deinit(&collect.cuts);
    free(collect.pointers);
    if (status != MW_OK)
        mw_roots_deinit(roots_out);
    return status;
}

void mw_roots_deinit(struct mw_roots *roots)
{
    mw_vec_deinit(&roots->ranges);
    mw_vec_deinit(&roots->words);
}
