/* account/stacks.c: stacks of threads.
 *
 *   mmap(stack) by libc, growing down:      | guard ---p | stack rw-p               TCB |
 *                                             4K to 64K    a few KiB used at the top
 *
 * A stack is proven by a thread whose stack pointer lies in it, or by a thread control block at its
 * top (image/tcb.h). That also finds stacks which libc caches after a thread's exit.
 * Without memory to read there is the shape alone: then no more candidates are believed than there
 * are threads, those of the commonest size first, and none that is alone and huge: musl's malloc
 * maps its groups next to a stack, and the kernel melts them into one mapping. So with a stack
 * pointer far below the end of one the stack ends at its control block, or soon above the pointer.
 *
 * glibc 2.42 on Linux 6.13 puts the guard inside the mapping (MADV_GUARD_INSTALL), neighbouring
 * stacks melt together, and only the pages tell where each begins. Since Linux 6.7 MAP_STACK shows
 * as the flag "nh": where one candidate has it, all must. O(n log n). */
#include "account/claiming.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/vec.h"
#include "image/tcb.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_MAX = 64 << 10,
    STACK_MIN = 16 << 10,   /* PTHREAD_STACK_MIN */
    STACK_ROUND = 64 << 10, /* as people and runtimes choose them */
    TCB_WINDOW = 16 << 10,  /* musl keeps thread-specific data above its control block */
    PAGE_BATCH = 4096,
};
#define STACK_MAX ((uint64_t)1 << 30)
#define LONE_MAX ((uint64_t)9 << 20)    /* the usual 8 MiB, a guard, thread-local data */
#define MARKED_MAX ((uint64_t)16 << 30) /* stacks side by side; a sanitizer's shadow is larger */

enum proof { PROOF_SHAPE, PROOF_TCB, PROOF_REGISTERS };

struct candidate {
    mw_addr start, end; /* guard included */
    size_t map;         /* of the stack */
    enum proof proof;
    uint64_t alike; /* candidates of the same size */
    bool is_marked; /* MAP_STACK shows */
};

struct candidates {
    struct candidate *items;
    size_t count, room;
};

static uint64_t page_size_of(const struct mw_image *image)
{
    return image->page_size ? image->page_size : 4096;
}

/* ---- proofs ---- */

static int compare_addr(const void *left, const void *right)
{
    mw_addr a = *(const mw_addr *)left, b = *(const mw_addr *)right;
    return a < b ? -1 : a > b;
}

/* Stack pointers of all threads, sorted. */
static enum mw_status pointers_collect(const struct mw_image *image, mw_addr **pointers_out,
                                       size_t *count_out)
{
    size_t count = 0;
    mw_addr *pointers = mw_calloc(image->thread_count, sizeof *pointers);
    if (!pointers)
        return MW_NOMEM;
    for (size_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].has_registers)
            pointers[count++] = image->threads[i].sp;
    qsort(pointers, count, sizeof *pointers, compare_addr);
    *pointers_out = pointers;
    *count_out = count;
    return MW_OK;
}

/* The highest stack pointer in [start, end), which has one. */
static mw_addr highest_pointer(const mw_addr *pointers, size_t count, mw_addr start, mw_addr end)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pointers[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low > 0 && pointers[low - 1] >= start);
    (void)start;
    return pointers[low - 1];
}

static bool holds_pointer(const mw_addr *pointers, size_t count, mw_addr start, mw_addr end)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pointers[middle] < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && pointers[low] < end;
}

/* Can a thread control block be told by its content in this target? */
static bool tcb_is_readable(const struct mw_image *image)
{
    return (image->can & MW_CAN_READ) && image->arch == MW_ARCH_X86_64;
}

static bool has_tcb(struct mw_image *image, mw_addr start, mw_addr end)
{
    static const size_t window = TCB_WINDOW;
    uint8_t bytes[TCB_WINDOW];
    size_t size = end - start < window ? (size_t)(end - start) : window;
    if (mw_image_read_present(image, end - size, bytes, size) < size)
        return false;
    return mw_tcb_find(bytes, size, end - size) != 0;
}

/* ---- candidates ---- */

struct search {
    struct mw_claiming *claiming;
    mw_addr *pointers;
    size_t pointer_count;
    struct candidates found;
};

/* Where a stack with a thread on it ends. Above the pointer lies what is in use of it. */
static mw_addr used_end(struct search *search, mw_addr stack, mw_addr end)
{
    mw_addr pointer = highest_pointer(search->pointers, search->pointer_count, stack, end);
    if (end - pointer <= LONE_MAX ||
        (tcb_is_readable(search->claiming->image) && has_tcb(search->claiming->image, stack, end)))
        return end;
    return (pointer / STACK_ROUND + 1) * STACK_ROUND; /* below end, which is far away */
}

static enum mw_status candidate_add(struct search *search, size_t map, mw_addr start, mw_addr end,
                                    bool is_shaped)
{
    struct mw_image *image = search->claiming->image;
    const struct mw_mapping *mapping = &search->claiming->maps[map];
    struct candidate candidate = {
        .start = start,
        .end = end,
        .map = map,
        .proof = PROOF_SHAPE,
        .is_marked = (mapping->vm_flags & MW_VM_NOHUGEPAGE) != 0,
    };
    mw_addr stack = start > mapping->start ? start : mapping->start;
    if (holds_pointer(search->pointers, search->pointer_count, stack, end)) {
        candidate.proof = PROOF_REGISTERS;
        candidate.end = used_end(search, stack, end);
    } else if (tcb_is_readable(image) && has_tcb(image, stack, end)) {
        candidate.proof = PROOF_TCB;
    } else if (!is_shaped || tcb_is_readable(image)) {
        return MW_OK; /* what could be proven and is not is no stack of libc's */
    }
    return mw_vec_push(&search->found, MW_LIMIT_THREADS, candidate);
}

/* The barrier directly below mapping i that can be a guard, or NULL. */
static const struct mw_mapping *guard_below(const struct mw_claiming *claiming, size_t i)
{
    if (i == 0 || !mw_claiming_is_open(claiming, i - 1))
        return NULL;
    const struct mw_mapping *guard = &claiming->maps[i - 1];
    uint64_t largest = 4 * page_size_of(claiming->image);
    if (largest < GUARD_MAX)
        largest = GUARD_MAX;
    if (guard->end != claiming->maps[i].start || !mw_mapping_is_barrier(guard) ||
        mw_mapping_size(guard) > largest || (guard->vm_flags & MW_VM_DONTDUMP))
        return NULL;
    return guard;
}

/* Stacks that lie in one mapping, told apart by the guard markers of their pages: each reaches
 * from the first of a run of markers to the next run. False when there are no markers. */
static enum mw_status candidates_by_markers(struct search *search, size_t i, bool *found_out)
{
    const struct mw_mapping *map = &search->claiming->maps[i];
    struct mw_image *image = search->claiming->image;
    uint64_t page_size = page_size_of(image);
    mw_addr start = 0; /* of the stack at hand, 0: none yet */
    bool in_guard = false;
    enum mw_status status = MW_OK;
    *found_out = false;
    for (mw_addr at = map->start; at < map->end && status == MW_OK;) {
        uint8_t flags[PAGE_BATCH];
        uint64_t left = (map->end - at) / page_size;
        size_t count = left < PAGE_BATCH ? (size_t)left : PAGE_BATCH;
        if (count == 0 || mw_image_pages(image, at, count, flags, NULL) != MW_OK)
            break;
        for (size_t page = 0; page < count && status == MW_OK; page++, at += page_size) {
            bool is_guard = (flags[page] & MW_PAGE_GUARD) != 0;
            if (is_guard && !in_guard) {
                if (start != 0)
                    status = candidate_add(search, i, start, at, true);
                start = at;
                *found_out = true;
            }
            in_guard = is_guard;
        }
    }
    if (status == MW_OK && start != 0)
        status = candidate_add(search, i, start, map->end, true);
    return status;
}

static enum mw_status candidates_of_mapping(struct search *search, size_t i)
{
    struct mw_claiming *claiming = search->claiming;
    const struct mw_mapping *map = &claiming->maps[i];
    if (!mw_mapping_is_plain(map) || map->name[0] != '\0' || (map->perms & MW_PERM_EXEC) ||
        claiming->decided_to[i] != map->start)
        return MW_OK;
    uint64_t size = mw_mapping_size(map);
    const struct mw_mapping *guard = guard_below(claiming, i);
    if (guard && size >= STACK_MIN && size <= STACK_MAX)
        return candidate_add(search, i, guard->start, map->end, true);
    bool can_hold_markers = (map->vm_flags & (MW_VM_GUARD | MW_VM_NOHUGEPAGE)) != 0;
    if (can_hold_markers && size <= MARKED_MAX && (claiming->image->can & MW_CAN_PAGES)) {
        bool found;
        enum mw_status status = candidates_by_markers(search, i, &found);
        if (status != MW_OK || found)
            return status;
    }
    if (holds_pointer(search->pointers, search->pointer_count, map->start, map->end))
        return candidate_add(search, i, map->start, map->end, false);
    return MW_OK;
}

/* ---- choice ---- */

static uint64_t candidate_size(const struct candidate *candidate)
{
    return candidate->end - candidate->start;
}

static int order_by_size(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (candidate_size(a) != candidate_size(b))
        return candidate_size(a) < candidate_size(b) ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Proven ones first, then those of the commonest size. */
static int order_by_belief(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->proof != b->proof)
        return a->proof > b->proof ? -1 : 1;
    if (a->alike != b->alike)
        return a->alike > b->alike ? -1 : 1;
    return order_by_size(left, right);
}

static void candidates_rank(struct candidates *found)
{
    qsort(found->items, found->count, sizeof *found->items, order_by_size);
    for (size_t start = 0, end; start < found->count; start = end) {
        for (end = start + 1; end < found->count && candidate_size(&found->items[end]) ==
                                                        candidate_size(&found->items[start]);)
            end++;
        for (size_t i = start; i < end; i++)
            found->items[i].alike = end - start;
    }
    qsort(found->items, found->count, sizeof *found->items, order_by_belief);
}

/* Is the shape enough? Stacks come in groups of one size, or at least in round sizes, with or
 * without the guard; what has melted with a neighbour is neither. */
static bool shape_is_typical(const struct mw_claiming *claiming, const struct candidate *candidate)
{
    const struct mw_mapping *map = &claiming->maps[candidate->map];
    if (candidate->alike == 1 && candidate_size(candidate) > LONE_MAX)
        return false;
    return candidate->alike > 1 || candidate_size(candidate) % STACK_ROUND == 0 ||
           mw_mapping_size(map) % STACK_ROUND == 0;
}

static enum mw_status candidate_claim(struct mw_claiming *claiming,
                                      const struct candidate *candidate)
{
    size_t map = candidate->map;
    if (candidate->start < claiming->maps[map].start) {
        assert(map > 0);
        claiming->decided_to[map - 1] = claiming->maps[map - 1].end;
    }
    if (claiming->decided_to[map] < candidate->end)
        claiming->decided_to[map] = candidate->end;
    return mw_claims_add_range(claiming->claims, candidate->start, candidate->end,
                               MW_CATEGORY_STACK_THREADS, MW_CLAIM_GUESS, "thread stack");
}

static enum mw_status candidates_choose(struct search *search)
{
    struct mw_claiming *claiming = search->claiming;
    uint64_t threads = claiming->image->process.thread_count;
    uint64_t believed = 0;
    bool must_be_marked = false;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < search->found.count; i++)
        must_be_marked |= search->found.items[i].is_marked;
    if (search->found.count == 0)
        return MW_OK;
    candidates_rank(&search->found);
    for (size_t i = 0; i < search->found.count && status == MW_OK; i++) {
        const struct candidate *candidate = &search->found.items[i];
        if (candidate->proof == PROOF_SHAPE) {
            bool too_many = threads != MW_UNKNOWN && threads != 0 && believed + 1 >= threads;
            if (too_many || (must_be_marked && !candidate->is_marked) ||
                !shape_is_typical(claiming, candidate))
                continue;
        }
        believed++;
        status = candidate_claim(claiming, candidate);
    }
    return status;
}

enum mw_status mw_claiming_stacks(struct mw_claiming *claiming)
{
    struct search search = {.claiming = claiming};
    enum mw_status status =
        pointers_collect(claiming->image, &search.pointers, &search.pointer_count);
    for (size_t i = 0; i < claiming->map_count && status == MW_OK; i++)
        status = candidates_of_mapping(&search, i);
    if (status == MW_OK)
        status = candidates_choose(&search);
    mw_vec_deinit(&search.found);
    free(search.pointers);
    return status;
}
