/* tests/fuzz/driver.c: runs a fuzz target once over each file of a corpus, as an ordinary test.
 *
 *     fuzz_<target> FILE-OR-FOLDER...
 *     fuzz_<target> --mutate SECONDS SEED ARTIFACT FILE-OR-FOLDER...
 *
 * Prints TAP, one test a file, so that a crash names its input: the name is printed (and flushed)
 * as a diagnostic before the target sees the bytes. A folder that is missing or empty still runs
 * the target on the empty input. Inputs over 64 MiB are refused.
 *
 * --mutate is for where there is no libFuzzer: mutants of the files at random, without knowledge of
 * coverage, for some seconds. One that ends the program is left in the file ARTIFACT (sanitizers
 * must abort: abort_on_error=1).
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { INPUT_SIZE_MAX = 64 << 20, MUTANT_SIZE_MAX = 1 << 18, SEEDS_MAX = 1024, STUCK_SECONDS = 20 };

static int tests_count;

static void run_bytes(const char *name, const uint8_t *bytes, size_t size)
{
    printf("# input: %s (%zu bytes)\n", name, size);
    fflush(stdout);
    int status = LLVMFuzzerTestOneInput(bytes, size);
    printf("%sok %d - %s\n", status == 0 || status == -1 ? "" : "not ", ++tests_count, name);
    fflush(stdout);
}

static void fail(const char *name, const char *why)
{
    printf("not ok %d - %s\n# %s\n", ++tests_count, name, why);
}

/* The bytes are copied to a block of exactly their size, so that a sanitizer sees one too many. */
static void run_file(const char *path, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);
    FILE *file = fopen(path, "rb");
    if (!bytes || !file || fread(bytes, 1, size, file) != size)
        fail(path, "cannot read");
    else
        run_bytes(path, bytes, size);
    if (file)
        fclose(file);
    free(bytes);
}

static void run_path(const char *path, int depth)
{
    struct stat status;
    if (depth > 8 || stat(path, &status) != 0)
        return;
    if (S_ISREG(status.st_mode)) {
        if (status.st_size > INPUT_SIZE_MAX)
            fail(path, "larger than 64 MiB");
        else
            run_file(path, (size_t)status.st_size);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof inner)
            run_path(inner, depth + 1);
        free(entries[i]);
    }
    free(entries);
}

/* -- mutants --------------------------------------------------------------------------------- */

static struct {
    uint8_t *bytes;
    size_t size;
} seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t random_state;
static uint8_t mutant[MUTANT_SIZE_MAX];
static size_t mutant_size;
static const char *artifact;

static size_t random_below(size_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % (limit ? limit : 1);
}

static void seeds_load(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        FILE *file = entries[i]->d_name[0] != '.' ? fopen(inner, "rb") : NULL;
        uint8_t *bytes = file && seed_count < SEEDS_MAX ? malloc(MUTANT_SIZE_MAX) : NULL;
        if (bytes) {
            seeds[seed_count].bytes = bytes;
            seeds[seed_count++].size = fread(bytes, 1, MUTANT_SIZE_MAX, file);
        }
        if (file)
            fclose(file);
        free(entries[i]);
    }
    free(entries);
}

static void mutate_once(void)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   8,
                                   16,
                                   127,
                                   255,
                                   4096,
                                   UINT32_MAX,
                                   UINT64_MAX,
                                   (uint64_t)1 << 32,
                                   (uint64_t)1 << 47,
                                   (uint64_t)1 << 63};
    size_t at = random_below(mutant_size), left = mutant_size - at, length = random_below(64) + 1;
    size_t kind = mutant_size ? random_below(7) : 3;
    length = length < left ? length : left;
    if (kind == 0) {
        mutant[at] ^= (uint8_t)(1u << random_below(8));
    } else if (kind == 1) {
        mutant[at] = (uint8_t)random_below(256);
    } else if (kind == 2) {
        uint64_t word = odd[random_below(sizeof odd / sizeof *odd)];
        memcpy(mutant + at, &word, length < 8 ? length : 8);
    } else if (kind == 3 && mutant_size + 64 <= MUTANT_SIZE_MAX) { /* more bytes */
        length = random_below(64) + 1;
        memmove(mutant + at + length, mutant + at, left);
        for (size_t i = 0; i < length; i++)
            mutant[at + i] = (uint8_t)random_below(256);
        mutant_size += length;
    } else if (kind == 4) { /* fewer */
        memmove(mutant + at, mutant + at + length, left - length);
        mutant_size -= length;
    } else if (kind == 5) { /* the same elsewhere */
        size_t from = random_below(mutant_size - length + 1);
        memmove(mutant + at, mutant + from, length);
    } else if (kind == 6 && seed_count > 0) { /* of another */
        size_t other = random_below(seed_count), from = random_below(seeds[other].size);
        size_t have = seeds[other].size - from;
        memcpy(mutant + at, seeds[other].bytes + from, length < have ? length : have);
    }
}

static void on_end(int number)
{
    int fd = open(artifact, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t put = fd >= 0 ? write(fd, mutant, mutant_size) : 0;
    (void)put;
    signal(number, SIG_DFL);
    raise(number);
}

static int mutate(int seconds, char **paths)
{
    static const int ends[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    time_t begin = time(NULL), now = begin;
    uint64_t executions = 0;
    for (; *paths; paths++)
        seeds_load(*paths);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], on_end);
    for (; now - begin < seconds; executions++, now = time(NULL)) {
        size_t seed = random_below(seed_count);
        mutant_size = seed_count ? seeds[seed].size : 0;
        if (seed_count)
            memcpy(mutant, seeds[seed].bytes, mutant_size);
        for (size_t count = random_below(8) + 1; count > 0; count--)
            mutate_once();
        alarm(STUCK_SECONDS);
        uint8_t *exact = malloc(mutant_size ? mutant_size : 1);
        if (!exact)
            return 1;
        memcpy(exact, mutant, mutant_size);
        LLVMFuzzerTestOneInput(exact, mutant_size);
        free(exact);
    }
    alarm(0);
    while (seed_count > 0)
        free(seeds[--seed_count].bytes);
    printf("stat::number_of_executed_units: %llu\nstat::average_exec_per_sec: %llu\n",
           (unsigned long long)executions,
           (unsigned long long)(executions / (uint64_t)(seconds > 0 ? seconds : 1)));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "--mutate") == 0) {
        random_state = strtoull(argv[3], NULL, 0);
        artifact = argv[4];
        return mutate(atoi(argv[2]), argv + 5);
    }
    uint8_t *nothing = calloc(1, 1);
    if (!nothing)
        return 1;
    run_bytes("empty input", nothing, 0);
    free(nothing);
    for (int i = 1; i < argc; i++)
        run_path(argv[i], 0);
    printf("1..%d\n", tests_count);
    return 0;
}
