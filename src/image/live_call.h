/* image/live_call.h: run one function inside a live process.
 *
 * One thread is borrowed: stopped, entered below its stack with a return address that restores
 * everything, let go. From the single register write that enters the function on, the target needs
 * memwhy for nothing: the function returns into the C library's own signal return, and the kernel
 * puts back every register, the vector state and the signal mask from a signal frame that lies
 * ready on the stack. memwhy may die (SIGKILL) at any instruction; design note 005 walks through
 * them. No code is written into the target, nothing is allocated there, no breakpoint is set; the
 * other threads never stop.
 *
 * What the program may notice: the function's own effects; a relative timeout of the borrowed
 * thread's system call (nanosleep, poll) begins anew; if memwhy is killed before the entry,
 * epoll_wait and the like return EINTR, as after any stop. The function's return value cannot be
 * had: the frame restores the register that holds it. A function that changes the signal mask would
 * seem to have ended: the mask in force is how the end is seen without stopping the thread.
 *
 * Not safe by itself: a function that takes a lock the borrowed thread already holds waits for
 * ever, and malloc_trim() in the middle of a free() corrupts the heap even without one (fastbins
 * have no lock). `busy` must refuse such a moment. Proof without symbols: a thread that sleeps in a
 * system call which malloc never makes (read, poll, epoll_wait, accept, nanosleep …) and has no
 * signal frame on its stack is not inside malloc. */
#ifndef MW_IMAGE_LIVE_CALL_H
#define MW_IMAGE_LIVE_CALL_H

#include "base/error.h"
#include "proc/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MW_LIVE_CALL_ARGS_MAX = 3 };

/* The stopped candidate, as the busy predicate sees it. */
struct mw_live_call_thread {
    pid_t pid, tid;
    mw_addr pc, sp, tp;
    int syscall;      /* number of the system call it sleeps in or comes out of; -1: user mode */
    uint64_t args[6]; /* of that call */
    bool in_handler; /* a signal frame seems to lie within the 256 KiB above sp; a stale one counts,
                      * so this may be wrongly true, and wrongly false only in a deeper stack */
};

struct mw_live_call_syscall {
    int number;
    uint64_t args[6];
};

struct mw_live_call_request {
    mw_addr function; /* must lie in an executable mapping */
    uint64_t args[MW_LIVE_CALL_ARGS_MAX];
    size_t args_count;

    /* Would the call be unsafe in this thread right now? Called while it alone is stopped, from
     * another thread of memwhy's, so it may read the target but not wait for it. NULL: never. */
    bool (*busy)(const struct mw_live_call_thread *thread, void *user);
    void *busy_user;

    /* System calls that the function makes, with the arguments that a filter may look at. If a
     * seccomp filter of the thread would kill it for one of them (or for the signal return), the
     * call is refused. Filters that cannot be read (seccomp_unknown) are no reason. */
    const struct mw_live_call_syscall *syscalls;
    size_t syscalls_count;

    unsigned attempts;         /* rounds over the threads; 0: 20 */
    uint64_t attempt_pause_ns; /* between rounds; 0: 5 ms */
    uint64_t timeout_ns;       /* for the function; 0: 10 s */
    size_t stack_bytes;        /* that must be free below the frame; 0: 64 KiB */

    /* At the timeout, when the function sleeps in a futex: take the thread back out of it. Only for
     * a function that holds nothing while it waits for a lock. malloc_trim is one: it takes one
     * arena's lock at a time. */
    bool abandon_waiting;
};

struct mw_live_call_result {
    pid_t tid;            /* the thread that ran it */
    int syscall;          /* the system call that was interrupted, -1 for user mode */
    uint64_t stopped_ns;  /* that thread stood still, before the call */
    uint64_t elapsed_ns;  /* from the entry until the end was seen; the end is looked for in steps
                           * that grow from 0.1 to 20 ms */
    unsigned attempts;    /* rounds that were needed, 1 and up */
    bool seccomp_unknown; /* the thread has filters that we are not allowed to read */
    unsigned stops;       /* by signals that came meanwhile; we ourselves never stop it again */
};

/* Call request->function in process pid and wait for its end. *out is filled on MW_OK.
 *
 * MW_UNSUPPORTED: a 32-bit or strict-seccomp target, a filter that kills, user shadow stacks, no
 * signal return sequence, a kernel without what is needed. MW_INVALID: arguments. MW_PERM: not
 * allowed, or already traced. MW_GONE: exited (also before the function ended). MW_LIMIT: no thread
 * could be used in all attempts (busy, on another stack, no room), the target is stopped by job
 * control, or the function has not ended in time: then it goes on by itself and the text says so.
 * Cost: 0.1–0.3 ms beside the function itself, plus one reading of /proc/PID/maps. Thread-safe. */
enum mw_status mw_live_call(pid_t pid, const struct mw_live_call_request *request,
                            struct mw_live_call_result *out, struct mw_error *err) MW_MUST_CHECK;

/* What /proc/PID/status alone forbids: zombie, shadow stack, strict seccomp, another tracer, job
 * control. mw_live_call() begins with it; a caller may ask before it offers the call. */
enum mw_status mw_live_call_target_check(const struct mw_process *process,
                                         struct mw_error *err) MW_MUST_CHECK;

#endif
