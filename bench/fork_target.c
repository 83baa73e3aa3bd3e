/* bench/fork_target.c: a process of MEBIBYTES in small pages that forks itself on request.
 *
 *   fork_target MEBIBYTES
 *
 * Says "ready". For each line on standard input it forks, and prints how long fork() took in the
 * parent, in nanoseconds; the child exits at once. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4000, BLOCKS_PER_MIB = (1 << 20) / (BLOCK_BYTES + 16) };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t fork_once(void)
{
    uint64_t began = now_ns();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    uint64_t took = now_ns() - began;
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 ? took : 0;
}

int main(int argc, char **argv)
{
    char line[64];
    unsigned long mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (mebibytes == 0)
        return 2;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (unsigned long i = 0; i < mebibytes * BLOCKS_PER_MIB; i++) {
        void *block = malloc(BLOCK_BYTES);
        if (!block)
            return 1;
        memset(block, 1, BLOCK_BYTES);
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%llu\n", (unsigned long long)fork_once());
        fflush(stdout);
    }
    return 0;
}
