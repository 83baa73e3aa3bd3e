/* image/core_stacks.c: threads whose stack the core does not hold.
 *
 * gcore copies a mapping in pieces and stops at the first that it cannot read; what follows stays
 * zeros. glibc 2.42 on Linux 6.13 puts the guard of a thread's stack inside its mapping, at the low
 * end: so gdb loses all of it, and of neighbouring stacks that the kernel merged, too. Older gdb
 * lost what lay behind a guard in other ways, with the same look: the page of the stack pointer,
 * where return addresses lie, is zeros. A thread that runs cannot have that.
 *
 * Trusts nothing: a stack pointer is looked up like any address. At most one look at each thread's
 * page, and SCAN_BYTES_MAX of zeros in all to tell how much was lost.
 *
 * References: gdb 13 gcore.c gcore_copy_callback(); glibc 2.42 nptl/allocatestack.c. */
#include "image/core.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cleanup.h"

enum { LOOK_BYTES = 4096, STEP_BYTES = 64 << 10, LOOK_MIN = 64 };
static const uint64_t SCAN_BYTES_MAX = (uint64_t)256 << 20;

struct check {
    struct mw_image *image;
    uint8_t *buffer; /* STEP_BYTES */
    bool *seen;      /* one for each region: counted already */
    uint64_t budget;
};

/* Bytes of zeros that end the region; what the budget does not reach counts as lost. */
static uint64_t lost_bytes(struct check *check, const struct mw_mapping *map, mw_addr sp)
{
    mw_addr first = map->start; /* of the zeros */
    for (mw_addr at = map->start; at < sp && check->budget >= STEP_BYTES;) {
        size_t step = sp - at < STEP_BYTES ? (size_t)(sp - at) : STEP_BYTES;
        size_t got = mw_core_read_own(check->image, at, check->buffer, step);
        if (got == 0)
            break;
        check->budget -= step;
        for (size_t k = 0; k < got; k += LOOK_BYTES)
            if (!mw_bytes_are_zero(check->buffer + k, got - k < LOOK_BYTES ? got - k : LOOK_BYTES))
                first = at + k + LOOK_BYTES;
        at += got;
    }
    return first < map->end ? map->end - first : 0;
}

static void check_thread(struct check *check, const struct mw_thread *thread)
{
    struct mw_image *image = check->image;
    const struct mw_mapping *map = mw_image_region(image, thread->sp);
    if (!map) {
        mw_finding_add(&image->findings, "core-stack-missing", thread->sp, 0,
                       "the stack of thread %d is not in the core", thread->tid);
        return;
    }
    size_t index = (size_t)(map - image->regions.items);
    const struct mw_core_part *part = &mw_core_of(image)->parts[index];
    uint64_t skip = thread->sp - map->start;
    if (check->seen[index] || (skip >= part->file_bytes && skip < part->promised_bytes))
        return; /* counted, or behind the end of a file that is cut */
    size_t length =
        map->end - thread->sp < LOOK_BYTES ? (size_t)(map->end - thread->sp) : LOOK_BYTES;
    size_t got = mw_core_read_own(image, thread->sp, check->buffer, length);
    if (got == 0)
        mw_finding_add(&image->findings, "core-stack-missing", thread->sp,
                       mw_mapping_size(map) - part->file_bytes,
                       "the stack of thread %d is not in the core", thread->tid);
    else if (got >= LOOK_MIN && mw_bytes_are_zero(check->buffer, got))
        mw_finding_add(&image->findings, "core-stack-lost", thread->sp,
                       lost_bytes(check, map, thread->sp),
                       "the stack of thread %d is zeros: gcore stops at a guard page inside a "
                       "mapping (glibc 2.42 and later) and loses what follows",
                       thread->tid);
    else
        return;
    check->seen[index] = true;
}

void mw_core_stacks_check(struct mw_image *image)
{
    MW_FREE uint8_t *buffer = mw_calloc(STEP_BYTES, 1);
    MW_FREE bool *seen = mw_calloc(image->regions.count, sizeof *seen);
    if (!buffer || !seen)
        return;
    struct check check = {image, buffer, seen, SCAN_BYTES_MAX};
    for (size_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].has_registers)
            check_thread(&check, &image->threads[i]);
}
