/* tests/fault/test_busy_cores.c: heaps caught in the middle of malloc.
 *
 * Eight threads do nothing but malloc, realloc and free in three arenas (tests/fixtures/storm.c),
 * and cores are taken at random moments, by gcore and by the kernel: locks are held, lists half
 * tied, chunks half split. What must hold all the same: every byte is conserved, a held lock is
 * said, the figures are those of the program within what is under way, and two readings of one core
 * agree. BUSY_CORES=N takes N cores each way (default 3). */
#include "analysis_check.h"
#include "real_core.h"
#include "temp_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    THREADS = 8,
    ARENAS = 3,
    HELD = 1009,       /* blocks of each thread */
    UNDER_WAY = 2,     /* a thread may hold one more, or one less */
    LIBC_BLOCKS = 100, /* stdio, loader, a cache and a control block for each thread */
    FAST_MAX = 128,    /* the largest chunk of a fast bin */
    CORES_DEFAULT = 3,
};

static struct temp_tree tree;

static unsigned cores_wanted(void)
{
    const char *text = getenv("BUSY_CORES");
    return text ? (unsigned)atoi(text) : CORES_DEFAULT;
}

/* One that ends by itself, let run for a random while. */
static pid_t storm_start(unsigned *seed)
{
    const char *const argv[] = {"storm", "8", "3", "60", NULL};
    pid_t pid = real_start(tree.path, argv, true);
    const struct timespec moment = {.tv_nsec = 1000L * (rand_r(seed) % 200000)};
    nanosleep(&moment, NULL);
    return pid;
}

/* Of blocks in use, how many could have come from a fast bin? */
static uint64_t small_count(const struct mw_allocator *allocator)
{
    uint64_t count = 0;
    for (size_t i = 0; i < allocator->size_count; i++)
        if (allocator->sizes[i].size_bytes <= FAST_MAX)
            count += allocator->sizes[i].in_use_count;
    return count;
}

/* malloc_consolidate takes a whole fast bin off its list before it merges the chunks one by one:
 * those that it has not come to look in use, which only the held lock tells. */
static void check_figures(const struct mw_allocator *allocator, bool is_locked, const char *path)
{
    const uint64_t most = THREADS * (HELD + UNDER_WAY) + LIBC_BLOCKS;
    const uint64_t least = THREADS * (HELD - UNDER_WAY);
    const uint64_t merging =
        is_locked && allocator->in_use_count > most ? small_count(allocator) : 0;
    if (allocator->in_use_count - merging > most)
        fail_msg("%s: %llu blocks in use, the program holds %d", path,
                 (unsigned long long)allocator->in_use_count, THREADS * HELD);
    if (allocator->skipped_bytes == 0 && allocator->in_use_count < least)
        fail_msg("%s: %llu blocks in use and none skipped, the program holds %d", path,
                 (unsigned long long)allocator->in_use_count, THREADS * HELD);
    assert_int_equal(allocator->arena_count, ARENAS);
}

/* Was a lock held? */
static bool check_core(const char *path)
{
    uint64_t digest = 0;
    bool is_locked = false;
    for (unsigned kind = 0; kind < ANALYSIS_KINDS; kind++) {
        struct analysis_run run = {.kind = kind};
        analysis_run_target(&run, path);
        assert_int_equal(run.status, MW_OK);
        const char *wrong = analysis_wrong(&run);
        if (!wrong)
            wrong = analysis_outputs_wrong(&run, NULL);
        if (wrong)
            fail_msg("%s, %s: %s", path, analysis_kind_name(kind), wrong);
        if (kind == ANALYSIS_HEAP) {
            const struct mw_allocator *allocator = &run.analysis.allocators[0];
            assert_int_equal(run.analysis.allocator_count, 1);
            digest = analysis_digest(&run);
            is_locked = mw_finding_find(&run.analysis.findings, "arena-locked") != NULL;
            check_figures(allocator, is_locked, path);
            print_message("# %llu blocks in use, %llu of %llu bytes skipped, %zu findings%s\n",
                          (unsigned long long)allocator->in_use_count,
                          (unsigned long long)allocator->skipped_bytes,
                          (unsigned long long)allocator->system_bytes, run.analysis.findings.count,
                          is_locked ? ", a lock is held" : "");
        } else if (kind == ANALYSIS_PINS)
            assert_true(analysis_digest(&run) == digest);
        analysis_run_deinit(&run);
    }
    return is_locked;
}

static void need_storm(pid_t pid)
{
    if (pid != 0)
        return;
    print_message("skip: the fixture storm does not start here\n");
    skip();
}

static void test_gcore(void **state)
{
    (void)state;
    unsigned seed = 4711, locked = 0, taken = 0;
    char path[512];
    for (unsigned i = 0; i < cores_wanted(); i++) {
        pid_t pid = storm_start(&seed);
        need_storm(pid);
        bool good = real_gcore(pid, tree.path, path, sizeof path);
        real_stop(pid);
        if (!good)
            continue;
        taken++;
        locked += check_core(path);
        unlink(path);
    }
    print_message("# %u cores, %u with a lock held\n", taken, locked);
    if (taken == 0) {
        print_message("skip: no gcore here, or it may not trace (package gdb)\n");
        skip();
    }
}

static void test_kernel(void **state)
{
    (void)state;
    unsigned seed = 815, locked = 0, taken = 0;
    char path[512];
    for (unsigned i = 0; i < cores_wanted(); i++) {
        pid_t pid = storm_start(&seed);
        need_storm(pid);
        if (!real_kernel_core(pid, tree.path, path, sizeof path))
            continue;
        taken++;
        locked += check_core(path);
        unlink(path);
    }
    print_message("# %u cores, %u with a lock held\n", taken, locked);
    if (taken == 0) {
        print_message("skip: kernel.core_pattern sends cores elsewhere\n");
        skip();
    }
}

static int group_setup(void **state)
{
    (void)state;
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
        cmocka_unit_test(test_gcore),
        cmocka_unit_test(test_kernel),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
