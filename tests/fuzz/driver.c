/* tests/fuzz/driver.c: runs a fuzz target once over each file of a corpus, as an ordinary test.
 *
 *     fuzz_<target> FILE-OR-FOLDER...
 *
 * Prints TAP, one test a file, so that a crash names its input: the name is printed (and flushed)
 * as a diagnostic before the target sees the bytes. A folder that is missing or empty still runs
 * the target on the empty input. Inputs over 64 MiB are refused.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { INPUT_SIZE_MAX = 64 << 20 };

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

int main(int argc, char **argv)
{
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
