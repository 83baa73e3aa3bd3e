/* tests/unit/test_family.c: sums of a process's memory, and whom it was forked with, in a /proc
 * that is made here; this machine's own. */
#include "base/alloc.h"
#include "proc/family.h"
#include "proc/mapping.h"
#include "proc/process.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct temp_tree tree;
static struct mw_context context;

static int setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    mw_context_init(&context);
    temp_tree_write(&tree, "bin/server", "1");
    temp_tree_write(&tree, "bin/shell", "2");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

/* ---- sums ---- */

static void test_rollup_of_a_new_kernel(void **state)
{
    (void)state;
    struct mw_rollup rollup;
    mw_rollup_parse(&rollup,
                    "557ec33a4000-7ffe77777000 ---p 00000000 00:00 0   [rollup]\n"
                    "Rss:                1616 kB\nPss:    242 kB\nPss_Dirty: 112 kB\n"
                    "Pss_Anon: 112 kB\nPss_File: 130 kB\nPss_Shmem: 0 kB\n"
                    "Shared_Clean: 1464 kB\nShared_Dirty: 8 kB\nPrivate_Clean: 40 kB\n"
                    "Private_Dirty: 112 kB\nAnonymous: 112 kB\nKSM: 4 kB\n"
                    "LazyFree: 16 kB\nAnonHugePages: 2048 kB\nSwap: 20 kB\nSwapPss: 10 kB");
    assert_true(rollup.rss == 1616 << 10 && rollup.pss == 242 << 10);
    assert_true(rollup.pss_anon == 112 << 10 && rollup.pss_file == 130 << 10);
    assert_true(rollup.pss_shmem == 0 && rollup.shared_clean == 1464 << 10);
    assert_true(rollup.shared_dirty == 8 << 10 && rollup.private_clean == 40 << 10);
    assert_true(rollup.private_dirty == 112 << 10 && rollup.anonymous == 112 << 10);
    assert_true(rollup.ksm == 4 << 10 && rollup.lazy_free == 16 << 10);
    assert_true(rollup.anon_huge == 2048 << 10);
    assert_true(rollup.swap == 20 << 10 && rollup.swap_pss == 10 << 10);
}

/* Sums over an smaps; what this kernel does not tell is unknown, and so is what is no number. */
static void test_rollup_of_smaps(void **state)
{
    (void)state;
    struct mw_rollup rollup;
    mw_rollup_parse(&rollup, "1000-2000 rw-p 0 00:00 0 Rss:\nRss: 4 kB\nPss: 2 kB\nSwap: x kB\n"
                             "3000-5000 rw-p 0 00:00 0\nRss: 8 kB\nPss: 8 kB\n"
                             "KSM: 99999999999999999999 kB\nAnonymous: 18014398509481984 kB\n");
    assert_true(rollup.rss == 12 << 10 && rollup.pss == 10 << 10);
    assert_true(rollup.swap == MW_UNKNOWN && rollup.ksm == MW_UNKNOWN);
    assert_true(rollup.anonymous == MW_UNKNOWN && rollup.pss_anon == MW_UNKNOWN);
    mw_rollup_parse(&rollup, "");
    assert_true(rollup.rss == MW_UNKNOWN);
    mw_rollup_parse(&rollup, ":::\nRss\nRss:");
    assert_true(rollup.rss == MW_UNKNOWN);
}

static void test_old_kernels_have_no_rollup(void **state)
{
    (void)state;
    struct mw_rollup rollup;
    struct mw_error err = {0};
    temp_tree_write(&tree, "proc/7/smaps", "1000-2000 rw-p 0 00:00 0\nRss: 4 kB\nPss: 2 kB\n");
    temp_tree_write(&tree, "proc/8/smaps", "");
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    assert_int_equal(mw_rollup_load(proc_fd, 7, &rollup, &err), MW_OK);
    assert_true(rollup.rss == 4096 && rollup.pss == 2048);
    assert_int_equal(mw_rollup_load(proc_fd, 8, &rollup, &err), MW_GONE); /* a kernel thread */
    assert_int_equal(mw_rollup_load(proc_fd, 9, &rollup, &err), MW_GONE);
    close(proc_fd);
}

/* ---- families ---- */

/* A process with rss KiB of which anon are anonymous, pss and pss_anon by proportion. */
static void process(int pid, int parent, const char *program, unsigned rss, unsigned pss)
{
    char path[64], target[64], text[256];
    snprintf(path, sizeof path, "proc/%d/stat", pid);
    snprintf(text, sizeof text, "%d (a) b (c) S 1) S %d 1 1\n", pid, parent);
    temp_tree_write(&tree, path, text);
    snprintf(path, sizeof path, "proc/%d/smaps_rollup", pid);
    snprintf(text, sizeof text, "Rss: %u kB\nPss: %u kB\nAnonymous: %u kB\nPss_Anon: %u kB\n", rss,
             pss, rss - 1, pss - 1);
    temp_tree_write(&tree, path, text);
    snprintf(path, sizeof path, "proc/%d/exe", pid);
    snprintf(target, sizeof target, "../../bin/%s", program);
    assert_int_equal(symlinkat(target, tree.fd, path), 0);
}

static struct mw_family family_of(int32_t pid)
{
    struct mw_family family;
    struct mw_error err = {0};
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    assert_int_equal(mw_family_load(proc_fd, pid, &context, &family, &err), MW_OK);
    close(proc_fd);
    return family;
}

/* shell 10 ─ server 20 ┬ worker 21 ─ helper 23     shell 10 ─ server 30 ─ worker 31
 *                      └ worker 22 ─ shell 24 ─ server 25                          */
static void two_servers(void)
{
    process(10, 1, "shell", 5, 5);
    process(20, 10, "server", 100, 40);
    process(21, 20, "server", 101, 31);
    process(22, 20, "server", 102, 32);
    process(23, 21, "server", 103, 33);
    process(24, 22, "shell", 6, 6);
    process(25, 24, "server", 900, 900);
    process(30, 10, "server", 800, 800);
    process(31, 30, "server", 801, 801);
    temp_tree_write(&tree, "proc/self/stat", "no pid");
    temp_tree_write(&tree, "proc/12x/stat", "12 (x) S 20 1\n");
}

static void test_one_line_of_descent(void **state)
{
    (void)state;
    two_servers();
    static const int32_t members[] = {20, 21, 22, 23};
    for (size_t i = 0; i < 4; i++) { /* whichever is asked about */
        struct mw_family family = family_of(members[i]);
        assert_int_equal(family.root_pid, 20);
        assert_int_equal(family.count, 4);
        assert_int_equal(family.read_count, 4);
        assert_false(family.is_cut);
        assert_true(family.has_pss_anon);
        assert_true(family.rss == (100 + 101 + 102 + 103) << 10);
        assert_true(family.pss == (40 + 31 + 32 + 33) << 10);
        assert_true(family.anonymous == family.rss - (4 << 10));
        assert_true(family.pss_anon == family.pss - (4 << 10));
        assert_true(family.own.rss == (uint64_t)(80 + members[i]) << 10);
    }
    struct mw_family family = family_of(10); /* a shell alone: what it started is another program */
    assert_int_equal(family.count, 1);
    assert_true(family.rss == 5 << 10);
    assert_int_equal(family_of(25).root_pid, 25);
}

/* Parents that form a circle, a parent of its own, one that is not there, damaged lines. */
static void test_damaged_trees(void **state)
{
    (void)state;
    process(20, 21, "server", 100, 40);
    process(21, 20, "server", 100, 40);
    process(22, 22, "server", 100, 40);
    process(23, 99, "server", 100, 40);
    temp_tree_write(&tree, "proc/24/stat", "24 (server) S");
    temp_tree_write(&tree, "proc/25/stat", "25 server S 20");
    temp_tree_write(&tree, "proc/26/stat", "26 (server) S -20 1");
    assert_int_equal(family_of(20).count, 2);
    assert_int_equal(family_of(22).count, 1);
    assert_int_equal(family_of(23).count, 1);
}

/* A member that may not be read, or has gone, is counted and not in the sums. */
static void test_members_that_cannot_be_read(void **state)
{
    (void)state;
    two_servers();
    assert_int_equal(unlinkat(tree.fd, "proc/22/smaps_rollup", 0), 0);
    struct mw_family family = family_of(21);
    assert_int_equal(family.count, 4);
    assert_int_equal(family.read_count, 3);
    assert_true(family.rss == (100 + 101 + 103) << 10);
}

static void test_many_members(void **state)
{
    (void)state;
    process(1000, 1, "server", 100, 40);
    for (int pid = 1001; pid < 1100; pid++)
        process(pid, 1000, "server", 100, 40);
    struct mw_family family = family_of(1099); /* itself is always among those that are read */
    assert_int_equal(family.count, 100);
    assert_true(family.is_cut);
    assert_true(family.read_count <= MW_FAMILY_READ_MAX && family.read_count > 1);
    assert_true(family.rss == family.read_count * (100 << 10));
}

static void test_failures(void **state)
{
    (void)state;
    struct mw_family family;
    two_servers();
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    assert_int_equal(mw_family_load(proc_fd, 99, &context, &family, NULL), MW_GONE);
    for (long n = 0; n < 40; n++) {
        mw_alloc_fail_after(n);
        enum mw_status status = mw_family_load(proc_fd, 21, &context, &family, NULL);
        mw_alloc_fail_after(-1);
        assert_true(status == MW_OK || status == MW_NOMEM);
        if (status == MW_OK)
            assert_true(family.read_count <= family.count && family.count <= 4);
    }
    context.canceled = true;
    assert_int_equal(mw_family_load(proc_fd, 21, &context, &family, NULL), MW_CANCELED);
    close(proc_fd);
}

/* ---- one mapping ---- */

static void test_bytes_that_a_fork_shares(void **state)
{
    (void)state;
    struct mw_mapping map = {.perms = MW_PERM_READ | MW_PERM_WRITE,
                             .name = "",
                             .known = 1u << MW_COUNTER_SHARED_CLEAN |
                                      1u << MW_COUNTER_SHARED_DIRTY | 1u << MW_COUNTER_ANONYMOUS};
    map.counters[MW_COUNTER_SHARED_CLEAN] = 100;
    map.counters[MW_COUNTER_SHARED_DIRTY] = 20;
    map.counters[MW_COUNTER_ANONYMOUS] = 500;
    assert_int_equal(mw_mapping_forked_bytes(&map), 120);
    map.counters[MW_COUNTER_ANONYMOUS] = 90; /* never more than is anonymous */
    assert_int_equal(mw_mapping_forked_bytes(&map), 90);
    map.name = "/lib/libx.so";
    map.inode = 5;
    assert_int_equal(mw_mapping_forked_bytes(&map), 20); /* the clean ones are the file's */
    map.perms |= MW_PERM_SHARED;
    assert_int_equal(mw_mapping_forked_bytes(&map), 0);
    map.perms &= ~(uint32_t)MW_PERM_SHARED;
    map.known = 0;
    assert_int_equal(mw_mapping_forked_bytes(&map), 0);
    map.known = ~0u;
    map.counters[MW_COUNTER_SHARED_CLEAN] = map.counters[MW_COUNTER_SHARED_DIRTY] = UINT64_MAX;
    assert_int_equal(mw_mapping_forked_bytes(&map), 0);
}

static void test_this_process(void **state)
{
    (void)state;
    struct mw_family family;
    struct mw_error err = {0};
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    mw_context_init(&context);
    assert_int_equal(mw_family_load(proc_fd, getpid(), &context, &family, &err), MW_OK);
    close(proc_fd);
    assert_true(family.own.rss > 100000 && family.own.pss <= family.own.rss);
    assert_int_equal(family.root_pid, getpid());
    assert_int_equal(family.count, 1);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rollup_of_a_new_kernel),
        cmocka_unit_test(test_rollup_of_smaps),
        IN_TREE(test_old_kernels_have_no_rollup),
        IN_TREE(test_one_line_of_descent),
        IN_TREE(test_damaged_trees),
        IN_TREE(test_members_that_cannot_be_read),
        IN_TREE(test_many_members),
        IN_TREE(test_failures),
        cmocka_unit_test(test_bytes_that_a_fork_shares),
        cmocka_unit_test(test_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
