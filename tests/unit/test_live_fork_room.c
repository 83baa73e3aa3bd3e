/* tests/unit/test_live_fork_room.c: when a fork is refused before anything is done. */
#include "image/live_fork.h"

#include "proc/cgroup_room.h"
#include "proc/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static const struct mw_live_fork_room wide = {
    .page_tables = 10 * MIB,
    .anonymous = 4000 * MIB,
    .available = 100000 * MIB,
    .group_free = MW_UNKNOWN,
    .commit_free = MW_UNKNOWN,
    .commit = 5000 * MIB,
    .group_pids_free = MW_UNKNOWN,
    .tasks_free = 1000,
};

static void assert_refused(const struct mw_live_fork_room *room, const char *words)
{
    struct mw_error err = {0};
    assert_int_equal(mw_live_fork_room_check(room, 77, &err), MW_LIMIT);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
    assert_non_null(strstr(err.text, "process 77"));
    assert_non_null(strstr(err.hint, "leave out --fork"));
}

static void test_memory(void **state)
{
    (void)state;
    struct mw_live_fork_room room = wide;
    const uint64_t wanted = 10 * MIB + 1000 * MIB + MIB;
    assert_int_equal(mw_live_fork_room_wanted(&room), wanted);
    assert_int_equal(mw_live_fork_room_check(&room, 77, NULL), MW_OK);
    room.available = wanted;
    assert_int_equal(mw_live_fork_room_check(&room, 77, NULL), MW_OK);
    room.available = wanted - 1;
    assert_refused(&room, "of the machine's memory are left");
    room = wide;
    room.group_free = wanted;
    assert_int_equal(mw_live_fork_room_check(&room, 77, NULL), MW_OK);
    room.group_free = wanted - 1;
    assert_refused(&room, "of its cgroup's limit are left");
    assert_refused(&room, "1,011.0 MiB");
    room.page_tables = room.anonymous = MW_UNKNOWN;
    room.group_free = MIB - 1;
    assert_refused(&room, "of its cgroup's limit are left");
}

static void test_commit(void **state)
{
    (void)state;
    struct mw_live_fork_room room = wide;
    room.commit_free = room.commit;
    assert_int_equal(mw_live_fork_room_check(&room, 77, NULL), MW_OK);
    room.commit_free = room.commit - 1;
    assert_refused(&room, "vm.overcommit_memory = 2");
}

static void test_processes(void **state)
{
    (void)state;
    struct mw_live_fork_room room = wide;
    room.tasks_free = 18;
    assert_int_equal(mw_live_fork_room_check(&room, 77, NULL), MW_OK);
    room.tasks_free = 17;
    assert_refused(&room, "17 are left of kernel.threads-max");
    room.group_pids_free = 3;
    assert_refused(&room, "3 are left of its cgroup's pids.max");
}

/* ---- cgroups ---- */

static void put(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void remove_all(const char *dir)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

/* The fuller group above counts, not the one with the smaller limit; page cache is free. */
static void test_groups_v2(void **state)
{
    (void)state;
    char dir[] = "/tmp/memwhy-room-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put(dir, "proc/77/cgroup", "0::/a/b\n");
    put(dir, "proc/self/cgroup", "0::/\n");
    put(dir, "cg/a/b/memory.max", "1000000\n");
    put(dir, "cg/a/b/memory.current", "400000\n");
    put(dir, "cg/a/b/memory.stat", "anon 1\ninactive_file 100\nactive_file 50\nshmem 7000\n");
    put(dir, "cg/a/memory.max", "8000000\n");
    put(dir, "cg/a/memory.current", "7900000\n");
    put(dir, "cg/a/memory.stat", "anon 1\ninactive_file 20000\nactive_file 3000\n");
    put(dir, "cg/a/b/pids.max", "max\n");
    put(dir, "cg/a/b/pids.current", "5\n");
    put(dir, "cg/a/pids.max", "40\n");
    put(dir, "cg/a/pids.current", "33\n");
    char proc[PATH_MAX], root[PATH_MAX];
    snprintf(proc, sizeof proc, "%s/proc", dir);
    snprintf(root, sizeof root, "%s/cg", dir);
    int proc_fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct mw_cgroup_room room;
    mw_cgroup_room_load(proc_fd, 77, root, &room);
    assert_int_equal(room.memory, 8000000 - 7900000 + 23000);
    assert_int_equal(room.tasks, 7);
    put(dir, "cg/a/memory.max", "max\n");
    put(dir, "cg/a/pids.max", "20\n");
    mw_cgroup_room_load(proc_fd, 77, root, &room);
    assert_int_equal(room.memory, 1000000 - 400000 + 150);
    assert_int_equal(room.tasks, 0);
    close(proc_fd);
    remove_all(dir);
}

static void test_groups_v1(void **state)
{
    (void)state;
    char dir[] = "/tmp/memwhy-room-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put(dir, "proc/77/cgroup", "5:pids:/x\n4:memory:/x\n");
    put(dir, "proc/self/cgroup", "5:pids:/\n4:memory:/\n");
    put(dir, "cg/memory/x/memory.limit_in_bytes", "500000\n");
    put(dir, "cg/memory/x/memory.usage_in_bytes", "450000\n");
    put(dir, "cg/memory/x/memory.stat",
        "inactive_file 9\ntotal_inactive_file 1000\ntotal_active_file 200\n");
    put(dir, "cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(dir, "cg/memory/memory.usage_in_bytes", "123\n");
    put(dir, "cg/pids/x/pids.max", "100\n");
    put(dir, "cg/pids/x/pids.current", "99\n");
    char proc[PATH_MAX], root[PATH_MAX];
    snprintf(proc, sizeof proc, "%s/proc", dir);
    snprintf(root, sizeof root, "%s/cg", dir);
    int proc_fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct mw_cgroup_room room;
    mw_cgroup_room_load(proc_fd, 77, root, &room);
    assert_int_equal(room.memory, 51200);
    assert_int_equal(room.tasks, 1);
    close(proc_fd);
    remove_all(dir);
}

/* Of this machine: figures, and enough of them for a small process. */
static void test_this_machine(void **state)
{
    (void)state;
    static const char text[] = "1000-5000 rw-p 00000000 00:00 0\nSize: 16 kB\nVmFlags: rd wr ac\n"
                               "6000-7000 rw-s 00000000 00:00 0\nSize: 4 kB\nVmFlags: rd wr sh\n"
                               "8000-9000 rw-p 00000000 00:00 0\nSize: 4 kB\nVmFlags: rd ac dc\n";
    struct mw_mapping_list regions;
    struct mw_process process;
    struct mw_live_fork_room room;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mw_smaps_parse(text, strlen(text), &regions, NULL, NULL), MW_OK);
    assert_int_equal(mw_process_load(proc_fd, getpid(), &process, NULL), MW_OK);
    mw_live_fork_room_load(proc_fd, NULL, &process, &regions, &room);
    assert_int_equal(room.commit, 16 << 10);
    assert_true(room.page_tables > 0 && room.page_tables < MIB);
    assert_true(room.available > 10 * MIB && room.available != MW_UNKNOWN);
    assert_true(room.tasks_free > 0 && room.tasks_free != MW_UNKNOWN);
    mw_mapping_list_deinit(&regions);
    mw_process_deinit(&process);
    close(proc_fd);
}

/* ---- the target itself ---- */

static void assert_target(const struct mw_process *process, const char *vm_flags, const char *words)
{
    char text[256];
    struct mw_mapping_list regions;
    struct mw_error err = {0};
    snprintf(text, sizeof text,
             "1000-5000 rw-p 00000000 00:00 0\nSize: 16 kB\nRss: 8 kB\nVmFlags: %s\n", vm_flags);
    assert_int_equal(mw_smaps_parse(text, strlen(text), &regions, NULL, NULL), MW_OK);
    enum mw_status status = mw_live_fork_target_check(process, &regions, &err);
    mw_mapping_list_deinit(&regions);
    if (!words) {
        assert_int_equal(status, MW_OK);
        return;
    }
    assert_int_not_equal(status, MW_OK);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
    assert_non_null(err.hint[0] ? err.hint : NULL);
}

static void test_targets(void **state)
{
    (void)state;
    struct mw_process process;
    mw_process_init(&process);
    process.pid = process.ns_pid = 77;
    process.state = 'S';
    process.seccomp = 0;
    assert_target(&process, "rd wr mr mw me ac", NULL);
    assert_target(&process, "rd wr dc wf", NULL);
    assert_target(&process, "rd wr mr um", "userfaultfd");
    assert_target(&process, "rd wr mr uw", "userfaultfd");
    process.seccomp = 2;
    assert_target(&process, "rd wr", "seccomp filter");
    process.seccomp = 1;
    assert_target(&process, "rd wr", "strict seccomp");
    process.seccomp = 0;
    process.user_shadow_stack = true;
    assert_target(&process, "rd wr", "shadow stack");
    process.user_shadow_stack = false;
    process.ns_pid = 1;
    assert_target(&process, "rd wr", "init of its pid namespace");
    mw_process_deinit(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_commit),
        cmocka_unit_test(test_processes), cmocka_unit_test(test_groups_v2),
        cmocka_unit_test(test_groups_v1), cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_targets),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_fork_room", tests, NULL, NULL);
}
