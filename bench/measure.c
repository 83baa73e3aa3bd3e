/* bench/measure.c: runs a command several times and prints what each run cost.
 *
 *     measure RUNS COMMAND [ARGUMENT...]
 *
 * One line a run: wall nanoseconds, user and system microseconds, peak resident KiB, exit code. The
 * command's standard output goes to /dev/null, its standard error stays. Wall time is from before
 * the fork to after the wait.
 *
 * Why a program and not Python's os.wait4: ru_maxrss of a child starts with the resident size of
 * whoever forked it (the kernel keeps the maximum over exec), so a parent of 10 MiB hides every
 * child that is smaller. This one is small: its own size is the floor, and it is printed first as
 * "floor KIB".
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t microseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

static int run_once(char **command, int null_fd)
{
    int64_t started = now_ns();
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        if (dup2(null_fd, STDOUT_FILENO) >= 0)
            execvp(command[0], command);
        _exit(127);
    }
    int status = 0;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child)
        return -1;
    int64_t wall = now_ns() - started;
    printf("%lld %lld %lld %ld %d\n", (long long)wall, (long long)microseconds(usage.ru_utime),
           (long long)microseconds(usage.ru_stime), usage.ru_maxrss,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct rusage own;
    if (runs < 1 || runs > 100000 || null_fd < 0 || getrusage(RUSAGE_SELF, &own) != 0) {
        fprintf(stderr, "usage: measure RUNS COMMAND [ARGUMENT...]\n");
        return 2;
    }
    printf("floor %ld\n", own.ru_maxrss);
    fflush(stdout);
    for (long i = 0; i < runs; i++) {
        if (run_once(argv + 2, null_fd) != 0) {
            perror("measure");
            return 1;
        }
    }
    return 0;
}
