/* image/live_seccomp.h: what a seccomp filter of a stopped thread would do to a system call.
 *
 * A call into a process makes it use system calls at a moment of our choosing. Where a filter kills
 * for one of them, the call would kill the process; so the filters are asked first, by running
 * their programs here. */
#ifndef MW_IMAGE_LIVE_SECCOMP_H
#define MW_IMAGE_LIVE_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Best first. */
enum mw_live_seccomp {
    MW_SECCOMP_ALLOWS,
    MW_SECCOMP_FAILS,   /* the call returns an error, and nothing else happens */
    MW_SECCOMP_KILLS,   /* kills, raises SIGSYS, or waits for a supervisor's answer */
    MW_SECCOMP_UNKNOWN, /* the filters cannot be read: needs CAP_SYS_ADMIN, and no filter on us */
};

/* What all filters of thread tid together say to a system call with these arguments. Called by its
 * tracer while it is stopped. */
enum mw_live_seccomp mw_live_seccomp_ask(pid_t tid, int number, const uint64_t args[6]);

/* Run one filter program; gives its SECCOMP_RET value. A program that the kernel would not have
 * taken (a bad instruction, a jump past the end) and a division by zero give
 * SECCOMP_RET_KILL_PROCESS. Ends after at most `count` steps: jumps only lead forward. */
uint32_t mw_live_seccomp_run(const struct sock_filter *program, size_t count,
                             const struct seccomp_data *data);

#endif
