/* threads/copy.c: see copy.h.
 *
 *   [sp - red zone, end of the stack's mapping), at most MW_LIMIT_STACK_BYTES
 *
 * Threads come ascending by tid, so that the next stop goes on behind the last one copied. A stop
 * that has no time left ends early; each copies one thread at least, so there is progress, and
 * STOPS_MAX bounds a target that makes threads faster than we copy them. Pages that are not in
 * memory are not touched. */
#include "threads/copy.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/vec.h"

#include <time.h>

enum {
    RED_ZONE = 128,
    STOPS_MAX = 64,
    SHARE_NUMERATOR = 3,
    SHARE_DENOMINATOR = 4,
    RETRIES_MAX = 5,
    RETRY_NS = 20000000,
};

/* How much of a stack is wanted, from *start_out on. */
static size_t stack_extent(const struct mw_image *image, mw_addr sp, mw_addr *start_out)
{
    const struct mw_mapping *map = mw_image_region(image, sp);
    if (!map)
        return 0;
    mw_addr start = sp - map->start < RED_ZONE ? map->start : sp - RED_ZONE;
    uint64_t size = map->end - start;
    *start_out = start;
    return size < MW_LIMIT_STACK_BYTES ? (size_t)size : MW_LIMIT_STACK_BYTES;
}

/* Fill *copy_out with a thread and its stack. */
static enum mw_status copy_make(struct mw_image *image, const struct mw_thread *thread,
                                struct mw_thread_copies *copies, struct mw_thread_copy *copy_out)
{
    struct mw_thread_copy copy = {.thread = *thread};
    size_t wanted = thread->has_registers ? stack_extent(image, thread->sp, &copy.start) : 0;
    if (wanted > MW_LIMIT_STACKS_BYTES - copies->bytes) {
        copy.not_read = true;
        wanted = 0;
    }
    if (wanted > 0) {
        copy.bytes = mw_calloc(wanted, 1);
        if (!copy.bytes)
            return MW_NOMEM;
        copy.size = mw_image_read_present(image, copy.start, copy.bytes, wanted);
        copies->bytes += wanted;
    }
    *copy_out = copy;
    return MW_OK;
}

static enum mw_status copy_thread(struct mw_image *image, const struct mw_thread *thread,
                                  struct mw_thread_copies *copies)
{
    struct mw_thread_copy copy;
    enum mw_status status = copy_make(image, thread, copies, &copy);
    if (status != MW_OK)
        return status;
    status = mw_vec_push(copies, MW_LIMIT_THREADS, copy);
    if (status != MW_OK)
        free(copy.bytes);
    return status;
}

/* Copy threads behind last_tid until the time is over. *done_out: there are no more. */
static enum mw_status copy_some(struct mw_image *image, const struct mw_context *context,
                                int32_t *last_tid, struct mw_thread_copies *copies, bool *done_out)
{
    uint64_t pause_ns = context && context->pause_ns_max ? context->pause_ns_max : UINT64_MAX;
    uint64_t allowed_ns =
        pause_ns / SHARE_DENOMINATOR * SHARE_NUMERATOR; /* letting go takes some */
    bool is_first = true;
    *done_out = false;
    for (size_t i = 0; i < image->thread_count; i++) {
        const struct mw_thread *thread = &image->threads[i];
        if (thread->tid <= *last_tid)
            continue;
        if (!is_first && mw_clock_monotonic_ns() - image->stop_began_ns > allowed_ns)
            return MW_OK;
        enum mw_status status = copy_thread(image, thread, copies);
        if (status != MW_OK)
            return status;
        *last_tid = thread->tid;
        is_first = false;
    }
    *done_out = true;
    return MW_OK;
}

/* Those for whom no stop was left: known by name only. */
static enum mw_status list_rest(struct mw_image *image, int32_t last_tid,
                                struct mw_thread_copies *copies)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; status == MW_OK && i < image->thread_count; i++) {
        struct mw_thread_copy copy = {.thread = image->threads[i], .not_read = true};
        if (copy.thread.tid > last_tid)
            status = mw_vec_push(copies, MW_LIMIT_THREADS, copy);
    }
    return status;
}

/* ---- threads that slept too deeply to be asked ---- */

static size_t missing_count(const struct mw_thread_copies *copies)
{
    size_t count = 0;
    for (size_t i = 0; i < copies->count; i++)
        count += !copies->items[i].thread.has_registers && !copies->items[i].not_read;
    return count;
}

/* Both lists ascend by tid. */
static enum mw_status copy_missing(struct mw_image *image, struct mw_thread_copies *copies)
{
    size_t at = 0;
    for (size_t i = 0; i < copies->count; i++) {
        struct mw_thread_copy *copy = &copies->items[i];
        while (at < image->thread_count && image->threads[at].tid < copy->thread.tid)
            at++;
        if (copy->thread.has_registers || copy->not_read || at == image->thread_count ||
            image->threads[at].tid != copy->thread.tid || !image->threads[at].has_registers)
            continue;
        enum mw_status status = copy_make(image, &image->threads[at], copies, copy);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

/* A page fault or a write to a disk is over in a moment: ask again, a few times. */
static enum mw_status retry_missing(struct mw_image *image, struct mw_context *context,
                                    struct mw_thread_copies *copies, unsigned *stops)
{
    for (unsigned i = 0; i < RETRIES_MAX && missing_count(copies) > 0; i++) {
        const struct timespec pause = {.tv_nsec = RETRY_NS};
        nanosleep(&pause, NULL);
        if (mw_context_canceled(context) || mw_image_stop(image, NULL) != MW_OK)
            return MW_OK; /* what is known stays */
        enum mw_status status = copy_missing(image, copies);
        mw_image_resume(image);
        ++*stops;
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static enum mw_status copy_live(struct mw_image *image, struct mw_context *context,
                                struct mw_thread_copies *copies, struct mw_error *err)
{
    int32_t last_tid = 0;
    bool is_done = false;
    unsigned stops = 0;
    for (; !is_done && stops < STOPS_MAX; stops++) {
        if (mw_context_canceled(context))
            return mw_fail(err, MW_CANCELED, "interrupted");
        enum mw_status status = mw_image_stop(image, err);
        if (status != MW_OK)
            return status;
        status = copy_some(image, context, &last_tid, copies, &is_done);
        mw_image_resume(image);
        if (status != MW_OK)
            return mw_fail(err, status, "out of memory for the stacks of %zu threads",
                           image->thread_count);
    }
    enum mw_status retried = retry_missing(image, context, copies, &stops);
    if (retried != MW_OK)
        return mw_fail(err, retried, "out of memory for stacks");
    if (stops > 1)
        mw_finding_add(&image->findings, "several-stops", 0, 0,
                       "the stacks were read under %u stops: each is of one moment, all are not",
                       stops);
    if (!is_done && list_rest(image, last_tid, copies) != MW_OK)
        return mw_fail(err, MW_NOMEM, "out of memory for %zu threads", image->thread_count);
    return MW_OK;
}

enum mw_status mw_thread_copies_take(struct mw_image *image, struct mw_context *context,
                                     struct mw_thread_copies *copies_out, struct mw_error *err)
{
    struct mw_thread_copies copies = {0};
    enum mw_status status = MW_OK;
    if (mw_image_moves(image)) {
        status = copy_live(image, context, &copies, err);
    } else {
        for (size_t i = 0; status == MW_OK && i < image->thread_count; i++) {
            struct mw_thread_copy copy = {.thread = image->threads[i]};
            status = mw_vec_push(&copies, MW_LIMIT_THREADS, copy);
        }
        if (status != MW_OK)
            (void)mw_fail(err, status, "out of memory for %zu threads", image->thread_count);
    }
    if (status != MW_OK) {
        mw_thread_copies_deinit(&copies);
        return status;
    }
    *copies_out = copies;
    return MW_OK;
}

void mw_thread_copies_deinit(struct mw_thread_copies *copies)
{
    for (size_t i = 0; i < copies->count; i++)
        free(copies->items[i].bytes);
    mw_vec_deinit(copies);
}
