/* bench/bareread.c: one thread that reads what is resident of a process's private anonymous
 * writable memory, and does nothing with it: the yardstick for pauses.
 *
 *     bareread PID     prints "NANOSECONDS BYTES" of wall time and of what was read
 *
 * process_vm_readv in steps of a MiB into one warm buffer; which pages are there is asked of
 * pagemap before, and not timed. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, BUFFER_BYTES = 1 << 20, PAGES = BUFFER_BYTES / PAGE, RUNS_MAX = 1 << 20 };

struct run {
    uint64_t start, length;
};

static struct run runs[RUNS_MAX];
static size_t run_count;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void run_add(uint64_t start, uint64_t length)
{
    struct run *last = run_count ? &runs[run_count - 1] : NULL;
    if (last && last->start + last->length == start && last->length + length <= BUFFER_BYTES)
        last->length += length;
    else if (run_count < RUNS_MAX)
        runs[run_count++] = (struct run){start, length};
}

static void mapping_add(int pagemap, uint64_t start, uint64_t end)
{
    static uint64_t words[PAGES];
    for (uint64_t at = start; at < end; at += BUFFER_BYTES) {
        size_t count = (size_t)((end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES) / PAGE);
        if (pread(pagemap, words, count * 8, (off_t)(at / PAGE * 8)) != (ssize_t)(count * 8))
            die("pagemap");
        for (size_t i = 0; i < count; i++)
            if (words[i] >> 63)
                run_add(at + i * PAGE, PAGE);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    pid_t pid = atoi(argv[1]);
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    if (!maps || pagemap < 0)
        die(path);
    while (fgets(line, sizeof line, maps)) {
        uint64_t start, end, inode;
        char perms[8], name[16] = "";
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64 " %15s", &start, &end,
                   perms, &inode, name) >= 4 &&
            strncmp(perms, "rw-p", 4) == 0 && inode == 0 && strncmp(name, "[stack", 6) != 0)
            mapping_add(pagemap, start, end);
    }
    uint8_t *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        die("malloc");
    memset(buffer, 1, BUFFER_BYTES);
    struct timespec from, to;
    uint64_t bytes = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (size_t i = 0; i < run_count; i++) {
        struct iovec local = {buffer, runs[i].length};
        struct iovec remote = {(void *)(uintptr_t)runs[i].start, runs[i].length};
        ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got > 0)
            bytes += (uint64_t)got;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%" PRIu64 " %" PRIu64 "\n",
           (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec), bytes);
    return 0;
}
