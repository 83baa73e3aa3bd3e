/* image/live_threads.c: holding a live process still, and its threads as they were then.
 *
 * The stop itself is live_freeze.c. Here: its threads become the image's, and stay there after the
 * target runs again, because where stacks are does not move. How long a stop may last is the
 * business of those who read (context->pause_ns_max); only when something holds memwhy itself up,
 * the freeze lets go after PATIENCE times as long, and what was read then may be torn: a finding.
 */
#include "image/live.h"

#include "base/alloc.h"
#include "base/context.h"
#include "image/live_freeze.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* Of a pause that is longer than the default so much is for waiting for threads that are slow to
 * stop. */
enum { ARRIVE_SHARE = 4, ARRIVE_FROM_NS = 200000000 };
enum { PATIENCE = 10, PATIENCE_NS_MIN = 100000000, NICE_URGENT = -20 };

/* On a busy machine the scheduler would take turns with us while the target waits: ask to be served
 * first for these milliseconds. Without the right to it nothing changes. */
static void be_urgent(struct mw_live *live)
{
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0);
    live->is_urgent = errno == 0 && setpriority(PRIO_PROCESS, 0, NICE_URGENT) == 0;
    live->nice_before = nice;
}

static void be_ordinary(struct mw_live *live)
{
    if (live->is_urgent)
        (void)setpriority(PRIO_PROCESS, 0, live->nice_before);
    live->is_urgent = false;
}

/* Names hardly change, and are read once; where a thread's own data is never does, so it is known
 * of one that sleeps too deeply to be asked this time. */
static void take_over(const struct mw_image *image, struct mw_thread *threads, size_t count)
{
    size_t old = 0;
    for (size_t i = 0; i < count; i++) {
        while (old < image->thread_count && image->threads[old].tid < threads[i].tid)
            old++;
        if (old == image->thread_count || image->threads[old].tid != threads[i].tid)
            continue;
        if (threads[i].name[0] == '\0')
            memcpy(threads[i].name, image->threads[old].name, sizeof threads[i].name);
        if (threads[i].tp == 0)
            threads[i].tp = image->threads[old].tp;
    }
}

/* Copy the threads of a freeze into the image; the old ones go. */
static enum mw_status keep_threads(struct mw_image *image, struct mw_live_freeze *freeze,
                                   struct mw_error *err)
{
    struct mw_thread *threads = mw_calloc(freeze->thread_count, sizeof *threads);
    if (!threads)
        return mw_fail(err, MW_NOMEM, "out of memory for %zu threads", freeze->thread_count);
    if (freeze->thread_count > 0)
        memcpy(threads, freeze->threads, freeze->thread_count * sizeof *threads);
    take_over(image, threads, freeze->thread_count);
    free(image->threads);
    image->threads = threads;
    image->thread_count = freeze->thread_count;
    mw_vec_deinit(&image->vectors);
    image->vectors = freeze->vectors;
    freeze->vectors = (struct mw_vectors){0};
    return MW_OK;
}

enum mw_status mw_live_stop(struct mw_image *image, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    assert(!live->freeze);
    if (!live->pid_is_ours)
        return mw_fail(err, MW_UNSUPPORTED,
                       "cannot stop process %d: this /proc is of another pid namespace", live->pid);
    uint64_t pause_ns_max = live->context ? live->context->pause_ns_max : 0;
    if (pause_ns_max && pause_ns_max < PATIENCE_NS_MIN / PATIENCE)
        pause_ns_max = PATIENCE_NS_MIN / PATIENCE;
    const struct mw_live_freeze_options options = {
        .hold_ns = pause_ns_max < UINT64_MAX / PATIENCE ? pause_ns_max * PATIENCE : 0,
        .arrive_ns = pause_ns_max > ARRIVE_FROM_NS ? pause_ns_max / ARRIVE_SHARE : 0,
        .names = image->thread_count == 0,
        .vectors = image->wants_vectors,
    };
    struct mw_live_freeze *freeze;
    be_urgent(live);
    enum mw_status status = mw_live_freeze_begin(live->pid, &options, &freeze, err);
    if (status != MW_OK) {
        be_ordinary(live);
        return status;
    }
    status = keep_threads(image, freeze, err);
    if (status != MW_OK) {
        mw_live_freeze_end(freeze, NULL);
        be_ordinary(live);
        return status;
    }
    if (!freeze->is_counted)
        mw_finding_add(&image->findings, "threads-uncounted", 0, 0,
                       "a thread of the target may have run on while it was read");
    live->freeze = freeze;
    image->can |= MW_CAN_REGISTERS;
    return MW_OK;
}

uint64_t mw_live_resume(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_live_freeze_end end = {0};
    assert(live->freeze);
    mw_live_freeze_end(live->freeze, &end);
    be_ordinary(live);
    live->freeze = NULL;
    image->can &= ~(unsigned)MW_CAN_REGISTERS;
    if (end.expired)
        mw_finding_add(&image->findings, "pause-expired", 0, 0,
                       "the target was let go before everything was read: figures may be torn");
    return end.pause_ns;
}
