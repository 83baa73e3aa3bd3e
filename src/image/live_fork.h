/* image/live_fork.h: a frozen copy of a live process, made by letting it fork.
 *
 * One thread is borrowed as for a call (live_call.h) and led by signal frames through a chain of
 * system calls: it makes a helper task in the same memory, and waits for that; the helper forks and
 * exits. All other threads are held meanwhile (live_freeze.h). The copy is stopped by the kernel
 * before its first instruction and never runs any of the program: it gives up its share of the
 * open files, and then stands still until mw_live_fork_end(), or memwhy's death, kills it.
 *
 * Whatever instruction memwhy dies at: the thread comes back by its frames, the helper exits and is
 * collected by them, and so does the copy, whose own frames lead to exit. The target has no child
 * at any time that its ordinary waits could see, and gets no SIGCHLD: the helper has no exit
 * signal, and the copy, whose parent has exited, belongs to the next process up that collects
 * orphans. Design note 016 has the details.
 *
 * What the program may notice: the pause; a page fault and a copied page for each page that it
 * writes while the copy exists; huge pages that it writes are split; a relative timeout of the
 * borrowed thread begins anew. */
#ifndef MW_IMAGE_LIVE_FORK_H
#define MW_IMAGE_LIVE_FORK_H

#include "base/error.h"
#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes to be copied under the stop, of memory that a fork does not copy. */
struct mw_live_fork_range {
    mw_addr start;
    size_t length;
    uint8_t *bytes; /* of the caller; undefined unless is_read */
    bool is_read;
};

struct mw_live_fork_request {
    const struct mw_mapping_list *regions; /* with VmFlags, as far as known */
    struct mw_live_fork_range *ranges;     /* may be NULL */
    size_t range_count;
    bool names;       /* fill mw_thread.name */
    bool vectors;     /* fill vectors */
    uint64_t hold_ns; /* the other threads are let go after this long, whatever happens; 0: never */
};

struct mw_live_fork {
    pid_t child;               /* the copy, held; its /proc/PID/mem and pagemap are readable */
    struct mw_thread *threads; /* of the target at that moment, ascending by tid */
    size_t thread_count;
    struct mw_vectors vectors;
    uint64_t pause_ns; /* from the first interrupt until every thread ran again */
    bool expired;      /* hold_ns had passed before the copy was made */
};

/* What forbids to fork it, as far as /proc tells: what forbids a call (live_call.h), any seccomp
 * filter, userfaultfd (the monitor would have to answer), the init of a pid namespace (the copy
 * would become its child). MW_UNSUPPORTED, MW_LIMIT, MW_PERM, MW_GONE with the reason. */
enum mw_status mw_live_fork_target_check(const struct mw_process *process,
                                         const struct mw_mapping_list *regions,
                                         struct mw_error *err) MW_MUST_CHECK;

/* Fork process pid, which mw_live_fork_target_check() let pass. On MW_OK *fork_out is released by
 * mw_live_fork_end(). On failure the target has no copy and runs on. MW_UNSUPPORTED also when the
 * target has made itself a collector of orphans (PR_SET_CHILD_SUBREAPER); MW_LIMIT when the kernel
 * refuses (memory, number of processes), or no thread could be borrowed.
 * Cost: one fork of the target; 0.3 ms beside it and 10 microseconds a thread. */
enum mw_status mw_live_fork_begin(pid_t pid, const struct mw_live_fork_request *request,
                                  struct mw_live_fork **fork_out,
                                  struct mw_error *err) MW_MUST_CHECK;

/* Kill the copy and release fork (NULL is allowed). True when nothing is left of it; false when
 * the process that adopted it has not collected it within a moment. */
bool mw_live_fork_end(struct mw_live_fork *fork);

/* ---- room ---- */

/* What a fork may take, and what there is. MW_UNKNOWN: not known, not checked. */
struct mw_live_fork_room {
    uint64_t page_tables, anonymous; /* of the target */
    uint64_t available;              /* of the machine's memory */
    uint64_t group_free;             /* smallest limit - usage + page cache up the cgroups */
    uint64_t commit_free, commit;    /* vm.overcommit_memory = 2: left, and wanted */
    uint64_t group_pids_free;        /* smallest pids.max - pids.current up the cgroups */
    uint64_t tasks_free;             /* of kernel.threads-max and kernel.pid_max */
};

/* Read it. proc_fd: an open /proc; cgroup_root as in mw_cgroup_load(). */
void mw_live_fork_room_load(int proc_fd, const char *cgroup_root, const struct mw_process *process,
                            const struct mw_mapping_list *regions,
                            struct mw_live_fork_room *room_out);

/* Bytes that a copy may take while it exists. */
uint64_t mw_live_fork_room_wanted(const struct mw_live_fork_room *room);

/* MW_LIMIT with the figures when there is not enough. */
enum mw_status mw_live_fork_room_check(const struct mw_live_fork_room *room, int32_t pid,
                                       struct mw_error *err) MW_MUST_CHECK;

#endif
