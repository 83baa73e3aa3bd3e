/* tests/fault/test_damage.c: random damage in cores of real heaps.
 *
 * Cores are taken of fixtures of several shapes and of python3, by gcore and by the kernel, and one
 * is built by hand; then words of chunks, arenas, mp_, caches and free memory, and bytes of the
 * core's own headers and notes, are overwritten at random, one to three places at a time. `heap`,
 * and every other time `report`, run on it in this process: no crash, no hang (100 times what the
 * undamaged core takes, at least 5 s), every byte conserved, every output well-formed; and where
 * only chunks were damaged, the heap is still seen.
 *
 *   DAMAGE=N          corruptions in all (default 165)
 *   DAMAGE_SEED=S     another series; DAMAGE_ONLY=SUBJECT:ROUND one round of it
 */
#include "analysis_check.h"
#include "heap_core.h"
#include "real_core.h"
#include "temp_tree.h"

#include "base/io.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAMAGE_DEFAULT = 165, PATCHES_MAX = 3, PATCH_BYTES_MAX = 4096, PAGE = 4096 };
enum { TRUNCATIONS = 48 };

static struct temp_tree tree;

static const char *const subject_names[] = {
    "threads16",    "tcache-full", "fastbins", "mmapped", "many-heaps", "holes",
    "foreign-sbrk", "brk-blocked", "python3",  "kernel",  "built",
};
enum { SUBJECTS = sizeof subject_names / sizeof *subject_names };

/* A core, and where in it damage is worth while. */
struct subject {
    const char *name;
    char path[512];
    int fd;
    uint64_t length, headers_length; /* headers and notes are in front */
    struct heap_expect *blocks;
    size_t block_count;
    mw_addr *arenas;
    size_t arena_count;
    struct mw_image image; /* of the undamaged core, for addresses */
    double seconds;        /* of the undamaged core */
};

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : fallback;
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t mixed = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* -- subjects -------------------------------------------------------------------------------- */

static bool built_make(struct subject *subject)
{
    struct heap_builder *heap = heap_core_build(&heap_families[7], HEAP_CORE_THREADS);
    size_t length;
    uint8_t *bytes = heap_core_file(heap, &length);
    snprintf(subject->path, sizeof subject->path, "%s/built", tree.path);
    int fd = open(subject->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && mw_io_write_full(fd, bytes, length) == 0;
    if (good)
        heap_core_punch(fd, bytes, length);
    close(fd);
    free(bytes);
    heap_delete(heap);
    return good;
}

static bool core_make(struct subject *subject)
{
    bool is_python = strcmp(subject->name, "python3") == 0, is_fixture = !is_python;
    bool is_kernels = strcmp(subject->name, "kernel") == 0;
    const char *shape[] = {"heapshape", is_kernels ? "holes" : subject->name, "/dev/null", NULL};
    static const char *const python[] = {
        "python3", "-c",
        "import time; x = [str(i) * (i % 9) for i in range(49999)]; del x[::2]; "
        "print(flush=True); time.sleep(600)",
        NULL};
    if (strcmp(subject->name, "built") == 0)
        return built_make(subject);
    pid_t pid = real_start(tree.path, is_python ? python : shape, is_fixture);
    if (pid == 0)
        return false;
    if (is_kernels)
        return real_kernel_core(pid, tree.path, subject->path, sizeof subject->path);
    bool good = real_gcore(pid, tree.path, subject->path, sizeof subject->path);
    real_stop(pid);
    return good;
}

/* The undamaged answer: what is where. */
static void subject_learn(struct subject *subject)
{
    struct analysis_run run = {.kind = ANALYSIS_HEAP};
    double started = seconds_now();
    analysis_run_target(&run, subject->path);
    subject->seconds = seconds_now() - started;
    if (run.status != MW_OK || analysis_wrong(&run) || run.analysis.allocator_count == 0)
        fail_msg("%s, undamaged: %s", subject->name,
                 run.status != MW_OK ? run.err.text : analysis_wrong(&run));
    analysis_run_deinit(&run);
    struct heap_walked walked = {0};
    assert_int_equal(mw_image_open_core(subject->fd, subject->name, NULL, &subject->image, NULL),
                     MW_OK);
    heap_walk(&subject->image, NULL, &walked);
    assert_int_equal(walked.status, MW_OK);
    subject->arenas = calloc(walked.allocator.arena_count, sizeof *subject->arenas);
    assert_non_null(subject->arenas);
    subject->arena_count = walked.allocator.arena_count;
    for (size_t i = 0; i < subject->arena_count; i++)
        subject->arenas[i] = walked.allocator.arenas[i].address;
    subject->blocks = walked.blocks;
    subject->block_count = walked.block_count;
    walked.blocks = NULL;
    heap_walked_deinit(&walked);
    assert_true(subject->block_count > 8);
}

static uint64_t first_memory_offset(int fd, uint64_t length)
{
    Elf64_Ehdr header;
    uint64_t least = length;
    assert_int_equal(mw_io_pread_full(fd, &header, sizeof header, 0), sizeof header);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (mw_io_pread_full(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment) !=
            sizeof segment)
            break;
        if (segment.p_type == PT_LOAD && segment.p_filesz > 0 && segment.p_offset < least)
            least = segment.p_offset;
    }
    return least;
}

static bool subject_open(struct subject *subject, const char *name)
{
    *subject = (struct subject){.name = name, .fd = -1};
    if (!core_make(subject))
        return false;
    struct stat about;
    subject->fd = open(subject->path, O_RDWR | O_CLOEXEC);
    assert_true(subject->fd >= 0 && fstat(subject->fd, &about) == 0);
    subject->length = (uint64_t)about.st_size;
    subject->headers_length = first_memory_offset(subject->fd, subject->length);
    subject_learn(subject);
    return true;
}

static void subject_close(struct subject *subject)
{
    mw_image_close(&subject->image); /* and fd */
    free(subject->blocks);
    free(subject->arenas);
    unlink(subject->path);
}

/* -- damage ---------------------------------------------------------------------------------- */

struct patch {
    uint64_t offset;
    size_t length;
    uint8_t before[PATCH_BYTES_MAX];
    bool was_hole, is_chunk; /* is_chunk: of chunks alone */
};

/* Where an address is in the file, by the file's own headers; the last word when nowhere. */
static uint64_t offset_of(const struct subject *subject, mw_addr address)
{
    Elf64_Ehdr header;
    if (mw_io_pread_full(subject->fd, &header, sizeof header, 0) != sizeof header)
        return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (mw_io_pread_full(subject->fd, &segment, sizeof segment, 64 + i * sizeof segment) !=
            sizeof segment)
            break;
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    }
    return subject->length - 8;
}

/* One that is no arena's: those lie in what is called metadata. */
static const struct mw_block *block_choose(const struct subject *subject, uint64_t random)
{
    for (size_t i = 0; i < subject->block_count; i++) {
        const struct mw_block *block = &subject->blocks[(random + i) % subject->block_count].block;
        if (block->state != MW_BLOCK_METADATA)
            return block;
    }
    fail_msg("%s: no block", subject->name);
    return NULL;
}

static mw_addr block_word(const struct subject *subject, uint64_t random)
{
    return block_choose(subject, random)->address + random / 7 % 5 * 8;
}

/* Half of the places are words of chunks. */
static uint64_t place_choose(const struct subject *subject, uint64_t *state, bool *is_chunk_out)
{
    uint64_t random = random_next(state), pick = random_next(state);
    mw_addr arena = subject->arenas[random % subject->arena_count];
    const struct mw_block *block = block_choose(subject, random);
    *is_chunk_out = pick % 12 == 5 || pick % 12 > 6;
    switch (pick % 12) {
    case 0: /* headers and notes of the core */
        return random % subject->headers_length;
    case 1:
        return random % (random / 3 % 2 ? 4096 : 512) % subject->headers_length;
    case 2: /* malloc_state; heap_info in front of those of threads */
        return offset_of(subject, arena + random / 5 % 2200);
    case 3:
        return offset_of(subject, (arena & ~(mw_addr)4095) + random / 5 % 64);
    case 4: /* mp_ lies within 4 KiB of main_arena */
        return offset_of(subject, subject->arenas[0] - 4096 + random / 5 % 8192);
    case 5: /* anywhere in a block: a cache, a list, contents */
        return offset_of(subject, block->address + pick / 11 % block->size);
    case 6: /* the end of memory */
        return subject->length - 1 - random % 256;
    default:
        return offset_of(subject, block_word(subject, random));
    }
}

static void bytes_choose(const struct subject *subject, uint64_t *state, struct patch *patch,
                         uint8_t *bytes)
{
    static const uint64_t odd[] = {
        0,      1,      2,      0x20,       0x21,           0x1001,
        0x2002, 0x4141, 0xfff0, 0xffffffff, UINT64_MAX,     (uint64_t)1 << 47,
        8,      0x18,   0x405,  0x21001,    UINT64_MAX - 7, 0x3f1};
    uint64_t random = random_next(state), word;
    memcpy(bytes, patch->before, patch->length);
    switch (random_next(state) % 8) {
    case 0: /* a bit */
        bytes[0] ^= (uint8_t)(1u << random % 8);
        break;
    case 1: /* a byte */
        bytes[0] = (uint8_t)random;
        break;
    case 2: /* a few bytes */
        memcpy(bytes, &random, patch->length < 8 ? patch->length : 1 + random / 3 % 8);
        break;
    case 3: /* an odd number */
    case 4: /* or an address of the heap */
        word =
            random / 2 % 2 ? odd[random % (sizeof odd / sizeof *odd)] : block_word(subject, random);
        memcpy(bytes, &word, patch->length < 8 ? patch->length : 8);
        break;
    case 5: /* another size */
        memcpy(&word, bytes, 8);
        word += (random % 64 + 1) * 16;
        memcpy(bytes, &word, 8);
        break;
    default: /* a buffer ran over */
        memset(bytes, random % 3 ? (int)(random >> 8) : 0,
               1 + (size_t)(random >> 20) % patch->length);
    }
}

static void damage(const struct subject *subject, uint64_t *state, struct patch *patch)
{
    uint64_t random = random_next(state);
    patch->offset = place_choose(subject, state, &patch->is_chunk);
    patch->length = random % 4 ? 16 : random % 16 ? 160 : PATCH_BYTES_MAX;
    patch->is_chunk &= patch->length < PATCH_BYTES_MAX; /* that may reach an arena */
    if (patch->offset >= subject->length)
        patch->offset = subject->length - 1;
    if (patch->length > subject->length - patch->offset)
        patch->length = (size_t)(subject->length - patch->offset);
    patch->was_hole = lseek(subject->fd, (off_t)patch->offset, SEEK_DATA) != (off_t)patch->offset;
    assert_int_equal(mw_io_pread_full(subject->fd, patch->before, patch->length, patch->offset),
                     patch->length);
    uint8_t bytes[PATCH_BYTES_MAX];
    if (patch->length >= 8)
        bytes_choose(subject, state, patch, bytes);
    else
        memset(bytes, (int)random, patch->length);
    assert_int_equal(pwrite(subject->fd, bytes, patch->length, (off_t)patch->offset),
                     patch->length);
}

static void mend(const struct subject *subject, const struct patch *patch)
{
    off_t page = (off_t)(patch->offset & ~(uint64_t)(PAGE - 1));
    assert_int_equal(pwrite(subject->fd, patch->before, patch->length, (off_t)patch->offset),
                     patch->length);
    if (patch->was_hole)
        (void)fallocate(subject->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page,
                        (off_t)(patch->offset + patch->length) - page);
}

/* -- rounds ---------------------------------------------------------------------------------- */

static char now_doing[128]; /* for the alarm */

static void on_alarm(int number)
{
    (void)number;
    ssize_t put = write(STDOUT_FILENO, now_doing, strlen(now_doing));
    (void)put;
    abort();
}

static void analyse(const struct subject *subject, enum analysis_kind kind, bool must_see,
                    uint64_t round, double *longest)
{
    struct analysis_run run = {.kind = kind};
    double allowed = subject->seconds * 100 > 5 ? subject->seconds * 100 : 5;
    snprintf(now_doing, sizeof now_doing, "# hangs: %s:%llu\n", subject->name,
             (unsigned long long)round);
    alarm((unsigned)allowed + 1);
    double started = seconds_now();
    analysis_run_target(&run, subject->path);
    double took = seconds_now() - started;
    *longest = took > *longest ? took : *longest;
    const char *wrong = analysis_wrong(&run);
    if (!wrong)
        wrong = analysis_outputs_wrong(&run, NULL);
    if (!wrong && must_see && (run.status != MW_OK || run.analysis.allocator_count == 0))
        wrong = "the heap is not seen any more";
    alarm(0);
    if (wrong)
        fail_msg("%s, DAMAGE_ONLY=%s:%llu: %s", analysis_kind_name(kind), subject->name,
                 (unsigned long long)round, wrong);
    analysis_run_deinit(&run);
}

static void damage_round(const struct subject *subject, uint64_t seed, uint64_t round,
                         double *longest)
{
    static struct patch patches[PATCHES_MAX];
    uint64_t state = seed + round * 1000003;
    size_t count = 1 + random_next(&state) % PATCHES_MAX;
    bool must_see = true;
    for (size_t i = 0; i < count; i++) {
        damage(subject, &state, &patches[i]);
        must_see &= patches[i].is_chunk;
    }
    analyse(subject, ANALYSIS_HEAP, must_see, round, longest);
    if (round % 2)
        analyse(subject, ANALYSIS_REPORT, must_see, round, longest);
    while (count-- > 0) /* the last first: they may overlap */
        mend(subject, &patches[count]);
}

static void test_damage(void **state)
{
    (void)state;
    uint64_t seed = number_of("DAMAGE_SEED", 20231), total = number_of("DAMAGE", DAMAGE_DEFAULT);
    const char *only = getenv("DAMAGE_ONLY"), *colon = only ? strchr(only, ':') : NULL;
    uint64_t done = 0;
    for (size_t i = 0; i < SUBJECTS; i++) {
        struct subject subject;
        double longest = 0;
        size_t length = strlen(subject_names[i]);
        if (colon && ((size_t)(colon - only) != length || strncmp(only, subject_names[i], length)))
            continue;
        if (!subject_open(&subject, subject_names[i])) {
            print_message("# %s: no core can be had here\n", subject_names[i]);
            continue;
        }
        uint64_t first = colon ? strtoull(colon + 1, NULL, 0) : 0;
        uint64_t rounds = colon ? 1 : total / SUBJECTS + (i < total % SUBJECTS);
        for (uint64_t round = first; round < first + rounds; round++)
            damage_round(&subject, seed, round, &longest);
        done += rounds;
        print_message("# seed %llu: %s: %llu damaged, undamaged %.3f s, longest %.3f s\n",
                      (unsigned long long)seed, subject.name, (unsigned long long)rounds,
                      subject.seconds, longest);
        subject_close(&subject);
    }
    print_message("# %llu corruptions in all\n", (unsigned long long)done);
    assert_true(done > 0);
}

/* One core, cut at places of every kind: within the header, the headers, the notes, and memory. */
static void test_truncation(void **state)
{
    (void)state;
    struct subject subject;
    double longest = 0;
    assert_true(subject_open(&subject, "built"));
    for (uint64_t i = 0; i < TRUNCATIONS; i++) {
        uint64_t part = i % 4, step = i / 4, at = 0;
        static const uint64_t odd[] = {0, 1, 7, 8, 63, 64, 65, 100, 511, 512, 1000, 4095};
        if (part == 0)
            at = odd[step];
        else if (part == 1)
            at = subject.headers_length * step / (TRUNCATIONS / 4);
        else
            at = subject.headers_length +
                 (subject.length - subject.headers_length) * (2 * step + part - 2) / 24 + part - 2;
        char copy[512], command[1400];
        snprintf(copy, sizeof copy, "%s/cut", tree.path);
        snprintf(command, sizeof command,
                 "cd %s && cp --sparse=always built cut && truncate -s %llu cut", tree.path,
                 (unsigned long long)at);
        assert_int_equal(system(command), 0);
        struct subject cut = subject;
        memcpy(cut.path, copy, sizeof cut.path);
        analyse(&cut, ANALYSIS_HEAP, false, at, &longest);
        analyse(&cut, ANALYSIS_REPORT, false, at, &longest);
    }
    subject_close(&subject);
}

static int group_setup(void **state)
{
    (void)state;
    signal(SIGALRM, on_alarm);
    temp_tree_make(&tree);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_truncation),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
