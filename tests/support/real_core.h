/* tests/support/real_core.h: cores of real processes, taken while a test runs. */
#ifndef MW_TESTS_REAL_CORE_H
#define MW_TESTS_REAL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Start argv (found by $PATH, or a fixture of this build when it has no slash and `is_fixture`) in
 * directory `where` and wait until it prints something. 0 when it does not start. It dies with
 * us. */
pid_t real_start(const char *where, const char *const argv[], bool is_fixture);
void real_stop(pid_t pid);

/* A core of pid by gdb's gcore, below `where`; false when there is no gcore or it may not trace. */
bool real_gcore(pid_t pid, const char *where, char *path_out, size_t room);

/* Kill a process of real_start() so that the kernel writes its core into `where`; false where
 * kernel.core_pattern sends cores elsewhere. The process is gone in any case. */
bool real_kernel_core(pid_t pid, const char *where, char *path_out, size_t room);

#endif
