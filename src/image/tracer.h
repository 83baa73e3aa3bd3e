/* image/tracer.h: ptrace without leaving a trace.
 *
 * Whatever memwhy does by ptrace it does from a thread of its own that only traces. Two facts of
 * Linux make that thread the safest possible design:
 *   - when a tracing thread ends, the kernel lets go of everything it traces, stopped or not. So
 *     the normal end of our work and the death of memwhy (SIGKILL) take the same path, and a thread
 *     that cannot be detached because it sleeps is let go without being disturbed again;
 *   - a stop that was looked at with WNOWAIT keeps its signal. A stop that was consumed loses its
 *     signal when the tracer dies before it answers (measured on 6.18: 20 of 20 signals lost with a
 *     consuming wait, 0 of 20 with WNOWAIT). So stops are only ever looked at here.
 * PTRACE_SEIZE and PTRACE_INTERRUPT are used, never PTRACE_ATTACH or SIGSTOP: neither the target
 * nor its parent is told. PTRACE_O_EXITKILL is set on a copy that we had made (live_fork.h), never
 * on what was there before. */
#ifndef MW_IMAGE_TRACER_H
#define MW_IMAGE_TRACER_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The thread that traces. Its storage is the caller's, and must stay until the join. */
struct mw_tracer {
    pthread_t thread;
    pid_t tid; /* of ours; valid after mw_tracer_join() */
    void (*run)(void *user);
    void *user;
};

/* Run run(user) in a new thread with every signal blocked. Pairs with mw_tracer_join().
 * Cost: about 50 microseconds. MW_NOMEM, MW_OS. */
enum mw_status mw_tracer_start(struct mw_tracer *tracer, void (*run)(void *user), void *user,
                               struct mw_error *err) MW_MUST_CHECK;

/* Wait until the thread has returned from run and the kernel has let go of all that it traced. */
void mw_tracer_join(struct mw_tracer *tracer);

/* Everything below is called from within a tracer thread. */

/* Trace thread tid of process pid; it goes on running. MW_GONE when it has exited or is about to;
 * MW_PERM with the name of the other tracer, or with a hint to what is missing. */
enum mw_status mw_tracer_seize(pid_t pid, pid_t tid, struct mw_error *err) MW_MUST_CHECK;

enum mw_tracer_event {
    MW_TRACER_NONE,       /* it runs, or sleeps in the kernel */
    MW_TRACER_TRAP,       /* stopped by PTRACE_INTERRUPT */
    MW_TRACER_SIGNAL,     /* stopped on the way to a signal, which waits in the stop */
    MW_TRACER_GROUP_STOP, /* stopped by job control */
    MW_TRACER_CLONE,      /* has made a task (PTRACE_O_TRACECLONE) */
    MW_TRACER_SYSCALL,    /* before or after a system call (PTRACE_SYSCALL, _O_TRACESYSGOOD) */
    MW_TRACER_GONE,       /* has exited, or is not traced by us */
};

struct mw_tracer_stop {
    enum mw_tracer_event event;
    int signal; /* of MW_TRACER_SIGNAL and MW_TRACER_GROUP_STOP */
};

/* The error for a process that tracer `other` holds; names it. Always returns MW_PERM. */
enum mw_status mw_tracer_other(pid_t pid, pid_t other, struct mw_error *err);

/* How thread tid is at this moment. Consumes nothing; about one microsecond. */
struct mw_tracer_stop mw_tracer_peek(pid_t tid);

/* The same, waiting for an event until deadline_ns (mw_clock_monotonic_ns). Spins for the first
 * 50 microseconds: a running thread stops within ten. */
struct mw_tracer_stop mw_tracer_wait(pid_t tid, uint64_t deadline_ns);

/* Sleep ns nanoseconds with a slack of at most a microsecond. */
void mw_tracer_sleep(uint64_t ns);

/* What /proc/PID/task/TID/syscall says, without stopping or disturbing the thread. */
struct mw_tracer_syscall {
    bool known;   /* the file could be read and understood */
    bool blocked; /* false: running, or about to */
    int number;   /* of the system call it sleeps in; -1: none (a page fault, a stop) */
    uint64_t args[6];
    mw_addr sp, pc; /* valid when blocked */
};
struct mw_tracer_syscall mw_tracer_syscall_read(pid_t pid, pid_t tid);
bool mw_tracer_syscall_parse(const char *text, struct mw_tracer_syscall *syscall_out);

/* The signals a thread blocks now, from /proc, without a stop. False: gone or not readable. */
bool mw_tracer_mask_read(pid_t pid, pid_t tid, uint64_t *mask_out);

/* The name of a thread from its comm file, without a stop; "" when it cannot be read. room: 16 hold
 * any. */
void mw_tracer_name_read(pid_t pid, pid_t tid, char *name, size_t room);

/* Copy exactly length bytes from or to the memory of thread tid, by process_vm_readv/writev, else
 * through /proc/TID/mem. A thread, since the first one of a process may have ended. False when any
 * byte could not be copied. */
bool mw_tracer_read(pid_t tid, mw_addr address, void *buffer, size_t length);
bool mw_tracer_write(pid_t tid, mw_addr address, const void *bytes, size_t length);

/* Thread ids of a process, ascending as the kernel lists them. */
struct mw_tracer_tasks {
    pid_t *items;
    size_t count, room;
};

/* List /proc/PID/task into tasks (replacing its content). MW_GONE, MW_NOMEM, MW_LIMIT. */
enum mw_status mw_tracer_tasks_list(pid_t pid, struct mw_tracer_tasks *tasks,
                                    struct mw_error *err) MW_MUST_CHECK;
void mw_tracer_tasks_deinit(struct mw_tracer_tasks *tasks);

#endif
