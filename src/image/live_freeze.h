/* image/live_freeze.h: hold every thread of a live process still for a moment.
 *
 * One tracer thread (tracer.h) seizes and interrupts them all; ending it lets them all go in one
 * step, and so does the death of memwhy at any instruction. No SIGSTOP: neither the target nor its
 * parent is told, and a process that job control had stopped stays stopped afterwards.
 *
 * From the interrupt on a thread runs no more instructions of its own, whether it has arrived in
 * the stop or still sleeps in the kernel. What the kernel does on its behalf goes on: a read that
 * was begun may still fill its buffer.
 *
 * That nobody is missing is proven by the kernel's count of the group's threads (is_counted), not
 * by a list of /proc/PID/task, which skips some while others come and go. One hole is left: a
 * thread that has not arrived (asleep_count) because it sleeps in the middle of clone(2).
 *
 * What the program may notice: with a timeout, epoll_wait, sigtimedwait, semtimedop, io_getevents
 * and io_uring_enter return EINTR, and so do calls on sockets with SO_RCVTIMEO or SO_SNDTIMEO. All
 * other sleeps go on with the time that was left (x86-64; tests/unit/test_live_eintr.c). */
#ifndef MW_IMAGE_LIVE_FREEZE_H
#define MW_IMAGE_LIVE_FREEZE_H

#include "base/error.h"
#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mw_live_freeze_options {
    uint64_t arrive_ns; /* how long to wait for threads to arrive in the stop; 0: 50 ms */
    uint64_t hold_ns;   /* let go after this long, whatever the caller does; 0: never */
    bool names;         /* fill mw_thread.name (read before the stop) */
    bool vectors;       /* fill the view's vectors */
    pid_t skip_tid;     /* a thread that the caller holds himself; 0: none */
};

struct mw_live_freeze {
    struct mw_thread *threads; /* ascending by tid; freed by mw_live_freeze_end() */
    size_t thread_count;
    struct mw_vectors vectors;
    size_t asleep_count; /* of them, those that the kernel has not let arrive (no registers but,
                          * where /proc tells them, pc and sp) */
    bool is_counted;     /* threads, and those that had ended, are as many as the kernel counts */
};

/* How a freeze went, known at its end. */
struct mw_live_freeze_end {
    uint64_t pause_ns; /* from the first interrupt until all ran again */
    bool expired;      /* hold_ns had passed: what was read last may be torn */
};

/* Stop process pid. On MW_OK *freeze_out is released by mw_live_freeze_end(), from any thread.
 *
 * With skip_tid MW_GONE also means that there is no other thread.
 *
 * MW_PERM: not allowed (with a hint), or "process N is already traced by M (name)". MW_GONE: has
 * exited. MW_LIMIT: more threads than base/limits.h, or threads appear faster than they can be
 * stopped. MW_NOMEM, MW_OS. On failure everything runs on.
 * Cost: 0.1 ms and 10 microseconds a thread; a few more to list them, before the stop. */
enum mw_status mw_live_freeze_begin(pid_t pid, const struct mw_live_freeze_options *options,
                                    struct mw_live_freeze **freeze_out,
                                    struct mw_error *err) MW_MUST_CHECK;

/* Let it go and release freeze (NULL is allowed). end_out may be NULL. */
void mw_live_freeze_end(struct mw_live_freeze *freeze, struct mw_live_freeze_end *end_out);

#endif
