/* bench/records.c: the process that the bench of block statistics looks at.
 *
 *     records RECORDS OTHERS [abort]
 *
 * RECORDS blocks of 3,392 bytes by posix_memalign(16), as a runtime keeps saved processor contexts,
 * among OTHERS blocks of 40 bytes: a constant, 82 values, one to each block, noise in 32 words.
 * Then one line, its pid, and it waits for a line on standard input: it exits then or, with
 * "abort", dies of SIGABRT and leaves a core. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { RECORD_BYTES = 3392, OTHER_BYTES = 40, NOISE_FIRST = 52, NOISE_WORDS = 32 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static void record_make(uint64_t i)
{
    void *block;
    if (posix_memalign(&block, 16, RECORD_BYTES) != 0)
        abort();
    uint64_t *words = memset(block, 0, RECORD_BYTES);
    words[6] = 0x1f800010001f;
    words[19] = 0x7ffc00000000 + 16 * (i % 82);
    words[20] = i;
    for (unsigned k = 0; k < NOISE_WORDS; k++)
        words[NOISE_FIRST + k] = next_random();
    __asm__ volatile("" ::"r"(words) : "memory"); /* somebody reads it */
}

static void other_make(void)
{
    void *block = malloc(OTHER_BYTES);
    if (!block)
        abort();
    memset(block, 1, OTHER_BYTES);
    __asm__ volatile("" ::"r"(block) : "memory");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: records RECORDS OTHERS [abort]\n");
        return 2;
    }
    uint64_t records = strtoull(argv[1], NULL, 10), others = strtoull(argv[2], NULL, 10);
    static char out[64];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t i = 0, made = 0; i < records || made < others; i++) {
        if (i < records)
            record_make(i);
        for (; made < others && (i >= records || made * records < others * (i + 1)); made++)
            other_make();
    }
    printf("%d\n", getpid());
    fflush(stdout);
    char line[16];
    if (read(STDIN_FILENO, line, sizeof line) > 0 && argc > 3)
        abort();
    return 0;
}
