/* tests/unit/test_cgroup.c: v1, v2 and hybrid trees; containers whose paths do not fit their
 * mounts; limits at several levels; damaged files; this machine's own. */
#include "base/alloc.h"
#include "proc/cgroup.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct temp_tree tree;

static int setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

/* Load pid 7 with the injected root `sys` (or by mountinfo when root is NULL). */
static struct mw_cgroup load(const char *root)
{
    char path[128];
    struct mw_cgroup cgroup;
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    assert_true(proc_fd >= 0);
    if (root)
        snprintf(path, sizeof path, "%s/%s", tree.path, root);
    assert_int_equal(mw_cgroup_load(proc_fd, 7, root ? path : NULL, &cgroup, NULL), MW_OK);
    close(proc_fd);
    return cgroup;
}

static const char v2_stat[] = "anon 101\nfile 102\nkernel 103\nkernel_stack 104\npagetables 105\n"
                              "percpu 106\nsock 107\nshmem 108\nzswap 109\nfile_mapped 110\n"
                              "inactive_file 111\nactive_file 112\nslab_reclaimable 113\n"
                              "slab_unreclaimable 114\nslab 115\nhugetlb 116\nanon_thp 117\n";

static void write_v2_group(const char *path, const char *max)
{
    char name[256];
    const char *const files[][2] = {
        {"memory.stat", v2_stat},
        {"memory.max", max},
        {"memory.current", "5001\n"},
        {"memory.peak", "5002\n"},
        {"memory.high", "5003\n"},
        {"memory.swap.current", "5004\n"},
        {"memory.swap.max", "5005\n"},
        {"memory.events", "low 0\nhigh 1\nmax 21\noom 3\noom_kill 22\n"},
        {"cgroup.procs", "1\n2\n3\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", path, files[i][0]);
        temp_tree_write(&tree, name, files[i][1]);
    }
}

static void test_v2_every_figure(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/a/b\n");
    write_v2_group("sys/a/b", "9001\n");
    temp_tree_write(&tree, "sys/a/b/cpu.max", "50000 100000\n");
    temp_tree_write(&tree, "sys/a/b/below/cgroup.procs", "4\n5\n");
    struct mw_cgroup cgroup = load("sys");
    assert_int_equal(cgroup.version, 2);
    assert_string_equal(cgroup.path, "/a/b");
    const uint64_t got[] = {
        cgroup.anon,
        cgroup.file,
        cgroup.kernel,
        cgroup.kernel_stack,
        cgroup.page_tables,
        cgroup.percpu,
        cgroup.sock,
        cgroup.shmem,
        cgroup.zswap,
        cgroup.file_mapped,
        cgroup.inactive_file,
        cgroup.active_file,
        cgroup.slab_reclaimable,
        cgroup.slab_unreclaimable,
        cgroup.slab,
        cgroup.hugetlb,
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_true(got[i] == 101 + i);
    assert_true(cgroup.limit == 9001 && cgroup.usage == 5001 && cgroup.peak == 5002);
    assert_true(cgroup.high == 5003 && cgroup.swap == 5004 && cgroup.swap_limit == 5005);
    assert_true(cgroup.max_events == 21 && cgroup.oom_kills == 22);
    assert_true(cgroup.cpu_quota == 0.5);
    assert_true(cgroup.process_count == 5);
}

static void test_v2_without_limits(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/a\n");
    write_v2_group("sys/a", "max\n");
    temp_tree_write(&tree, "sys/a/memory.high", "max\n");
    temp_tree_write(&tree, "sys/a/cpu.max", "max 100000\n");
    struct mw_cgroup cgroup = load("sys");
    assert_int_equal(cgroup.version, 2);
    assert_true(cgroup.limit == MW_UNKNOWN && cgroup.high == MW_UNKNOWN);
    assert_true(cgroup.cpu_quota < 0);
    assert_true(cgroup.usage == 5001);
}

/* The smallest limit is above: figures are those of the group that it belongs to. */
static void test_smallest_limit_up_the_path(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/pod/box/leaf\n");
    write_v2_group("sys/pod/box/leaf", "8000\n");
    temp_tree_write(&tree, "sys/pod/box/leaf/memory.current", "11\n");
    write_v2_group("sys/pod/box", "7000\n");
    temp_tree_write(&tree, "sys/pod/box/memory.current", "22\n");
    write_v2_group("sys/pod", "7000\n");
    temp_tree_write(&tree, "sys/pod/memory.current", "33\n");
    temp_tree_write(&tree, "sys/pod/cpu.max", "400000 100000\n");
    temp_tree_write(&tree, "sys/pod/box/cpu.max", "200000 100000\n");
    struct mw_cgroup cgroup = load("sys");
    assert_true(cgroup.limit == 7000);
    assert_true(cgroup.usage == 22);
    assert_string_equal(cgroup.path, "/pod/box");
    assert_true(cgroup.cpu_quota == 2.0);
}

static void write_v1_group(const char *path, const char *limit, const char *hierarchical)
{
    char name[256], stat[1024];
    snprintf(stat, sizeof stat,
             "cache 1\nrss 2\nhierarchical_memory_limit %s\ntotal_cache 201\ntotal_rss 202\n"
             "total_shmem 203\ntotal_mapped_file 204\ntotal_swap 205\ntotal_inactive_file 206\n"
             "total_active_file 207\n",
             hierarchical);
    const char *const files[][2] = {
        {"memory.stat", stat},
        {"memory.limit_in_bytes", limit},
        {"memory.usage_in_bytes", "6001\n"},
        {"memory.max_usage_in_bytes", "6002\n"},
        {"memory.kmem.usage_in_bytes", "6003\n"},
        {"memory.kmem.tcp.usage_in_bytes", "6004\n"},
        {"memory.failcnt", "31\n"},
        {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 32\n"},
        {"memory.memsw.limit_in_bytes", "9500\n"},
        {"cgroup.procs", "7\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", path, files[i][0]);
        temp_tree_write(&tree, name, files[i][1]);
    }
}

static void test_v1_every_figure(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup",
                    "9:name=systemd:/x\n4:cpuset,memory:/docker/c\n2:cpu,cpuacct:/docker/c\n");
    write_v1_group("sys/memory/docker/c", "9000\n", "9000");
    temp_tree_write(&tree, "sys/cpu/docker/c/cpu.cfs_quota_us", "150000\n");
    temp_tree_write(&tree, "sys/cpu/docker/c/cpu.cfs_period_us", "100000\n");
    temp_tree_write(&tree, "sys/cpu/docker/cpu.cfs_quota_us", "-1\n");
    temp_tree_write(&tree, "sys/cpu/docker/cpu.cfs_period_us", "100000\n");
    struct mw_cgroup cgroup = load("sys");
    assert_int_equal(cgroup.version, 1);
    assert_string_equal(cgroup.path, "/docker/c");
    assert_true(cgroup.file == 201 && cgroup.anon == 202 && cgroup.shmem == 203);
    assert_true(cgroup.file_mapped == 204 && cgroup.swap == 205);
    assert_true(cgroup.inactive_file == 206 && cgroup.active_file == 207);
    assert_true(cgroup.limit == 9000 && cgroup.usage == 6001 && cgroup.peak == 6002);
    assert_true(cgroup.kernel == 6003 && cgroup.sock == 6004);
    assert_true(cgroup.max_events == 31 && cgroup.oom_kills == 32);
    assert_true(cgroup.swap_limit == 500);
    assert_true(cgroup.process_count == 1);
    assert_true(cgroup.cpu_quota == 1.5);
    /* What v1 does not tell is unknown, not 0. */
    assert_true(cgroup.slab == MW_UNKNOWN && cgroup.percpu == MW_UNKNOWN);
    assert_true(cgroup.high == MW_UNKNOWN);
}

/* v1 names the smallest limit even of a group that is not mounted here. */
static void test_v1_limit_above_the_mount(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "4:memory:/c\n");
    write_v1_group("sys/memory/c", "9223372036854771712\n", "4000");
    assert_true(load("sys").limit == 4000);
    write_v1_group("sys/memory/c", "9223372036854771712\n", "9223372036854771712");
    assert_true(load("sys").limit == MW_UNKNOWN);
}

static void test_hybrid_takes_the_one_with_the_controller(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "4:memory:/m\n0::/u\n");
    write_v1_group("sys/memory/m", "9000\n", "9000");
    write_v2_group("sys/unified/u", "1\n");
    temp_tree_write(&tree, "sys/unified/u/cpu.max", "100000 100000\n");
    struct mw_cgroup cgroup = load("sys");
    assert_int_equal(cgroup.version, 1);
    assert_true(cgroup.limit == 9000);
    assert_true(cgroup.cpu_quota == 1.0); /* cpu is in v2 there */
    temp_tree_write(&tree, "proc/7/cgroup", "4:pids:/m\n0::/u\n");
    cgroup = load("sys");
    assert_int_equal(cgroup.version, 2);
    assert_true(cgroup.limit == 1);
}

/* mountinfo: blanks in names, optional fields, the root of the mount inside the hierarchy. */
static void write_mountinfo(const char *root, const char *point)
{
    char text[1024];
    snprintf(text, sizeof text,
             "22 1 0:20 / /proc rw - proc proc rw\n"
             "garbage\n"
             "30 22 0:26 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n"
             "31 22 0:27 %s %s/%s rw,nosuid shared:10 master:2 - cgroup cgroup rw,memory\n",
             root, tree.path, point);
    temp_tree_write(&tree, "proc/self/mountinfo", text);
}

static void test_mount_root_is_cut_off_the_path(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "4:memory:/docker/c/below\n");
    write_v1_group("my cg/below", "9000\n", "9000");
    write_mountinfo("/docker/c", "my\\040cg");
    struct mw_cgroup cgroup = load(NULL);
    assert_int_equal(cgroup.version, 1);
    assert_true(cgroup.limit == 9000);
    assert_string_equal(cgroup.path, "/below");
}

/* The path is the host's, only the end of it is mounted. */
static void test_leading_parts_are_dropped(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "4:memory:/kubepods/burstable/pod1/c\n");
    write_v1_group("cg/pod1/c", "9000\n", "9000");
    write_mountinfo("/", "cg");
    struct mw_cgroup cgroup = load(NULL);
    assert_true(cgroup.limit == 9000);
    assert_string_equal(cgroup.path, "/pod1/c");
}

/* No part of the path is there: the mount is our own container's, and so is the process. */
static void test_root_of_our_own_container(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "4:memory:/docker/abc\n");
    temp_tree_write(&tree, "proc/self/cgroup", "4:memory:/docker/abc\n");
    write_v1_group("cg", "9000\n", "9000");
    write_mountinfo("/", "cg");
    struct mw_cgroup cgroup = load(NULL);
    assert_int_equal(cgroup.version, 1);
    assert_true(cgroup.limit == 9000);
    assert_string_equal(cgroup.path, "/");
    /* A process of another container is not taken for one of ours. */
    temp_tree_write(&tree, "proc/self/cgroup", "4:memory:/docker/other\n");
    assert_int_equal(load(NULL).version, 0);
}

static void test_outside_our_namespace(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/../other\n");
    write_v2_group("sys/other", "1\n");
    assert_int_equal(load("sys").version, 0);
}

static void test_nothing_there(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/8/cgroup", "0::/\n");
    struct mw_cgroup cgroup = load(NULL); /* pid 7 is not there */
    assert_int_equal(cgroup.version, 0);
    temp_tree_write(&tree, "proc/7/cgroup", "");
    assert_int_equal(load("none").version, 0);
    temp_tree_write(&tree, "proc/7/cgroup", ":::\n\nx\n0:\n0::\n4:memory\n");
    assert_true(load("none").version == 0);
    assert_true(cgroup.limit == MW_UNKNOWN && cgroup.usage == MW_UNKNOWN);
    assert_true(cgroup.cpu_quota < 0);
}

static void test_damaged_files(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/a\n");
    write_v2_group("sys/a", "99999999999999999999999999\n");
    temp_tree_write(&tree, "sys/a/memory.stat",
                    "anon\nanon -5\nanon x\nfile 18446744073709551616\n"
                    "shmem 5");
    temp_tree_write(&tree, "sys/a/memory.current", "");
    temp_tree_write(&tree, "sys/a/cpu.max", "5 0\n");
    struct mw_cgroup cgroup = load("sys");
    assert_int_equal(cgroup.version, 2);
    assert_true(cgroup.limit == MW_UNKNOWN && cgroup.usage == MW_UNKNOWN);
    assert_true(cgroup.anon == MW_UNKNOWN && cgroup.file == MW_UNKNOWN && cgroup.shmem == 5);
    assert_true(cgroup.cpu_quota < 0);
}

/* Every allocation may fail: figures get unknown, nothing leaks, nothing is wrong. */
static void test_out_of_memory(void **state)
{
    (void)state;
    temp_tree_write(&tree, "proc/7/cgroup", "0::/a\n");
    write_v2_group("sys/a", "9001\n");
    for (long n = 0; n < 40; n++) {
        mw_alloc_fail_after(n);
        struct mw_cgroup cgroup = load("sys");
        mw_alloc_fail_after(-1);
        assert_true(cgroup.limit == 9001 || cgroup.limit == MW_UNKNOWN);
        assert_true(cgroup.usage == 5001 || cgroup.usage == MW_UNKNOWN);
    }
}

/* This machine: whatever version it has, we are in it and our usage is not 0. */
static void test_this_machine(void **state)
{
    (void)state;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    struct mw_cgroup cgroup;
    assert_int_equal(mw_cgroup_load(proc_fd, getpid(), NULL, &cgroup, NULL), MW_OK);
    close(proc_fd);
    if (cgroup.version == 0 || cgroup.usage == MW_UNKNOWN) {
        print_message("skip: no memory controller is mounted, or this is the root group\n");
        skip();
    }
    assert_true(cgroup.usage > 0);
    assert_true(cgroup.process_count == MW_UNKNOWN || cgroup.process_count > 0);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TREE(test_v2_every_figure),
        IN_TREE(test_v2_without_limits),
        IN_TREE(test_smallest_limit_up_the_path),
        IN_TREE(test_v1_every_figure),
        IN_TREE(test_v1_limit_above_the_mount),
        IN_TREE(test_hybrid_takes_the_one_with_the_controller),
        IN_TREE(test_mount_root_is_cut_off_the_path),
        IN_TREE(test_leading_parts_are_dropped),
        IN_TREE(test_root_of_our_own_container),
        IN_TREE(test_outside_our_namespace),
        IN_TREE(test_nothing_there),
        IN_TREE(test_damaged_files),
        IN_TREE(test_out_of_memory),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
