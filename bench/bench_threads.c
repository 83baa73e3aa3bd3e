/* bench/bench_threads.c: a process with many threads and mappings, and the bare reads of its /proc.
 *
 *     bench_threads run THREADS OTHERS     prints "ready", ends when its standard input does
 *     bench_threads read PID NAME...       reads /proc/PID/NAME each to its end, prints the bytes;
 *                                          a NAME that begins with '/' is read as it is
 *
 * Each thread has the stack that libc maps for it, with its guard, and touches a few pages of it.
 * OTHERS mappings lie apart from each other: every other one is a page of this program's file, the
 * rest are anonymous of changing protection, so that neighbours do not melt together. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10, TOUCHED_BYTES = 24 << 10, READ_BYTES = 256 << 10, PAGE = 4096 };

static pthread_barrier_t all_up;

static void *sleep_for_ever(void *unused)
{
    volatile char touched[TOUCHED_BYTES];
    for (size_t i = 0; i < sizeof touched; i += PAGE)
        touched[i] = 1;
    pthread_barrier_wait(&all_up);
    for (;;)
        pause();
    return unused;
}

static int map_others(unsigned long count)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (unsigned long i = 0; i < count; i++) {
        char *room = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            return -1;
        void *at = i % 2 ? mmap(room, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0)
                         : mmap(room, 2 * PAGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED)
            return -1;
        if (i % 2 == 0)
            room[0] = 1;
    }
    return 0;
}

static int run(unsigned long threads, unsigned long others)
{
    pthread_attr_t attr;
    if (threads < 1 || map_others(others) != 0 || pthread_attr_init(&attr) != 0 ||
        pthread_attr_setstacksize(&attr, STACK_BYTES) != 0 ||
        pthread_barrier_init(&all_up, NULL, (unsigned)threads) != 0)
        return 1;
    for (unsigned long i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, sleep_for_ever, NULL) != 0)
            return 1;
    }
    pthread_barrier_wait(&all_up);
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    return 0;
}

static int64_t read_to_end(const char *path)
{
    static char bytes[READ_BYTES];
    int64_t total = 0;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        total += got;
    close(fd);
    return got < 0 ? -1 : total;
}

static int read_files(const char *pid, char **names)
{
    int64_t total = 0;
    for (; *names; names++) {
        char path[256];
        snprintf(path, sizeof path, "%s%s%s%s", **names == '/' ? "" : "/proc/",
                 **names == '/' ? "" : pid, **names == '/' ? "" : "/", *names);
        int64_t got = read_to_end(path);
        if (got < 0) {
            perror(path);
            return 1;
        }
        total += got;
    }
    printf("%lld\n", (long long)total);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "run") == 0)
        return run(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    if (argc >= 4 && strcmp(argv[1], "read") == 0)
        return read_files(argv[2], argv + 3);
    fprintf(stderr, "usage: bench_threads run THREADS OTHERS | read PID NAME...\n");
    return 2;
}
