/* bench/manyblocks.c: the process that the benches of whole heaps look at.
 *
 *     manyblocks THREADS BLOCKS_PER_THREAD ascending|shuffled|dense [abort [LOST]]
 *
 * Each thread allocates its blocks of 16 to 512 bytes, fills them, and frees half of them, chosen
 * at random: in the order of their allocation or in any (shuffled). 8 threads of 1,250,000 blocks
 * make 48 heaps of 64 MiB. What is left is held by arrays that are not malloc's, but for LOST
 * blocks that nothing points to. Dense: one thread, blocks of 30 pointers to any of the others,
 * none freed; the first leads to all but the lost ones, and the program to that. Then one line with
 * what it has: count and bytes of chunks by malloc_usable_size(); mallinfo2()'s uordblks, fordblks
 * and hblkhd; count and bytes of what is lost; and it waits for a line on standard input: it exits
 * then or, with "abort", dies of SIGABRT and leaves a core. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE_MIN = 16, SIZE_SPAN = 497, DENSE_POINTERS = 30 };

struct worker {
    pthread_t thread;
    uint64_t seed;
    uint64_t held_count, held_bytes;
    uint64_t lost_count, lost_bytes, to_lose;
};

static size_t blocks_each;
static bool is_shuffled;
static void **volatile dense_first;
static pthread_barrier_t all_done;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void shuffle(void **blocks, size_t count, uint64_t *state)
{
    for (size_t i = count; i > 1; i--) {
        size_t at = next_random(state) % i;
        void *swapped = blocks[i - 1];
        blocks[i - 1] = blocks[at];
        blocks[at] = swapped;
    }
}

/* Not malloc's: what it holds is counted. */
static void **array_new(void)
{
    void **blocks = mmap(NULL, blocks_each * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (blocks == MAP_FAILED)
        abort();
    return blocks;
}

static void block_count(struct worker *worker, void *block, bool is_lost)
{
    uint64_t bytes = malloc_usable_size(block) + 8;
    worker->held_count++;
    worker->held_bytes += bytes;
    worker->lost_count += is_lost;
    worker->lost_bytes += is_lost ? bytes : 0;
}

static void *worker_run(void *argument)
{
    struct worker *worker = argument;
    uint64_t state = worker->seed;
    void **blocks = array_new();
    for (size_t i = 0; i < blocks_each; i++) {
        size_t size = SIZE_MIN + next_random(&state) % SIZE_SPAN;
        blocks[i] = malloc(size);
        if (!blocks[i])
            abort();
        memset(blocks[i], (int)(i & 255), size);
    }
    if (is_shuffled)
        shuffle(blocks, blocks_each, &state);
    for (size_t i = 0; i < blocks_each; i++) {
        bool is_lost = false;
        if (next_random(&state) & 1) {
            free(blocks[i]);
        } else {
            is_lost = worker->lost_count < worker->to_lose;
            block_count(worker, blocks[i], is_lost);
        }
        if (is_lost)
            blocks[i] = NULL;
    }
    pthread_barrier_wait(&all_done);
    pause();
    return NULL;
}

/* What is lost points to others, and nothing to it: the last of the array, anywhere in memory. */
static void *dense_run(void *argument)
{
    struct worker *worker = argument;
    uint64_t state = worker->seed;
    void **blocks = array_new();
    size_t held = blocks_each - worker->to_lose;
    for (size_t i = 0; i < blocks_each; i++) {
        blocks[i] = malloc(DENSE_POINTERS * sizeof(void *));
        if (!blocks[i])
            abort();
        block_count(worker, blocks[i], false);
    }
    shuffle(blocks, blocks_each, &state);
    for (size_t i = 0; i < blocks_each; i++) {
        void **block = blocks[i];
        block[0] = blocks[i + 1 < held ? i + 1 : 0];
        for (unsigned word = 1; word < DENSE_POINTERS; word++)
            block[word] = blocks[next_random(&state) % held];
    }
    worker->lost_count = worker->to_lose;
    worker->lost_bytes = worker->to_lose * (malloc_usable_size(blocks[0]) + 8);
    dense_first = blocks[0];
    munmap(blocks, blocks_each * sizeof *blocks);
    pthread_barrier_wait(&all_done);
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: manyblocks THREADS BLOCKS_PER_THREAD ascending|shuffled|dense "
                        "[abort [LOST]]\n");
        return 2;
    }
    bool is_dense = strcmp(argv[3], "dense") == 0;
    size_t lost = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
    size_t count = strtoul(argv[1], NULL, 10);
    blocks_each = strtoul(argv[2], NULL, 10);
    is_shuffled = strcmp(argv[3], "shuffled") == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct worker *workers = calloc(count, sizeof *workers);
    if (!workers || pthread_barrier_init(&all_done, NULL, (unsigned)count + 1) != 0)
        abort();
    for (size_t i = 0; i < count; i++) {
        workers[i].seed = 88172645463325252u + i * 0x9e3779b97f4a7c15u;
        workers[i].to_lose = lost / count;
        if (pthread_create(&workers[i].thread, NULL, is_dense ? dense_run : worker_run,
                           &workers[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&all_done);
    struct worker sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.held_count += workers[i].held_count;
        sum.held_bytes += workers[i].held_bytes;
        sum.lost_count += workers[i].lost_count;
        sum.lost_bytes += workers[i].lost_bytes;
    }
    static char out[1024];
    setvbuf(stdout, out, _IOFBF, sizeof out); /* or it would be a block that mallinfo2 has not */
    struct mallinfo2 info = mallinfo2();
    printf("%d %lu %lu %zu %zu %zu %lu %lu\n", getpid(), sum.held_count, sum.held_bytes,
           info.uordblks, info.fordblks, info.hblkhd, sum.lost_count, sum.lost_bytes);
    fflush(stdout);
    char line[16];
    ssize_t got = read(STDIN_FILENO, line, sizeof line);
    if (got > 0 && argc > 4)
        abort();
    return 0;
}
