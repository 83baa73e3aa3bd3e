/* tests/unit/test_doctor.c: what denies an access, from facts alone, and facts from a made /proc.
 */
#include "temp_tree.h"

#include "session/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const uint64_t ALL_CAPS = 0x1ffffffffff;

/* A plain user on a plain machine, looking at a process of another user. */
static struct mw_doctor_facts plain_user(void)
{
    return (struct mw_doctor_facts){.kernel = "6.12.0",
                                    .euid = 1000,
                                    .yama = -1,
                                    .initial_userns = true,
                                    .has_target = true,
                                    .pid = 4121,
                                    .target_uid = 1000,
                                    .target_euid = 1000,
                                    .same_userns = 1};
}

static struct mw_doctor_blocker blockers[MW_DOCTOR_BLOCKERS_MAX];

static size_t explain(const struct mw_doctor_facts *facts, enum mw_doctor_access access,
                      int problem)
{
    const struct mw_doctor_check check = {access, false, problem};
    return mw_doctor_explain(facts, &check, blockers);
}

static const struct mw_doctor_blocker *find(size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(blockers[i].id, id) == 0)
            return &blockers[i];
    return NULL;
}

static bool has_way(const struct mw_doctor_blocker *blocker, const char *part)
{
    for (size_t i = 0; blocker && blocker->ways_out[i]; i++)
        if (strstr(blocker->ways_out[i], part))
            return true;
    return false;
}

static void test_yama(void **state)
{
    (void)state;
    struct mw_doctor_facts facts = plain_user();
    for (facts.yama = 1; facts.yama <= 3; facts.yama++) {
        size_t count = explain(&facts, MW_ACCESS_MEM, EACCES);
        const struct mw_doctor_blocker *yama = find(count, "yama");
        assert_int_equal(count, 1);
        assert_non_null(yama);
        assert_int_equal(has_way(yama, "sudo memwhy"), facts.yama < 3);
        assert_int_equal(has_way(yama, "ptrace_scope=0"), facts.yama < 3);
        assert_int_equal(has_way(yama, "reboot"), facts.yama == 3);
    }
    facts.yama = 2;
    facts.cap_eff = ALL_CAPS;
    assert_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "yama"));
}

static void test_other_user(void **state)
{
    (void)state;
    struct mw_doctor_facts facts = plain_user();
    facts.target_euid = 33;
    size_t count = explain(&facts, MW_ACCESS_MEM, EACCES);
    assert_non_null(find(count, "uid"));
    assert_true(has_way(find(count, "uid"), "sudo"));
    assert_true(has_way(find(count, "uid"), "setcap"));
    facts.cap_eff = (uint64_t)1 << MW_CAP_SYS_PTRACE;
    assert_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "uid"));
}

static void test_root_in_a_container(void **state)
{
    (void)state;
    struct mw_doctor_facts facts = plain_user();
    facts.euid = facts.target_uid = facts.target_euid = 0;
    facts.cap_eff = 0xa80425fb; /* Docker's default set: no SYS_PTRACE */
    facts.in_container = true;
    size_t count = explain(&facts, MW_ACCESS_PTRACE, EPERM);
    assert_non_null(find(count, "capability"));
    assert_true(has_way(find(count, "capability"), "--cap-add SYS_PTRACE"));
    assert_true(has_way(find(count, "capability"), "kubectl debug"));
    assert_true(has_way(find(count, "capability"), "securityContext"));
    facts.in_kubernetes = true;
    count = explain(&facts, MW_ACCESS_PTRACE, EPERM);
    assert_false(has_way(find(count, "capability"), "docker run"));
}

static void test_other_guards(void **state)
{
    (void)state;
    struct mw_doctor_facts facts = plain_user();
    facts.not_dumpable = true;
    assert_non_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "dumpable"));

    facts = plain_user();
    facts.cap_eff = ALL_CAPS;
    facts.tracer_pid = 77;
    size_t count = explain(&facts, MW_ACCESS_PTRACE, EPERM);
    assert_non_null(find(count, "traced"));
    assert_non_null(strstr(find(count, "traced")->why, "77"));
    assert_null(find(explain(&facts, MW_ACCESS_MEM, EPERM), "traced"));

    facts = plain_user();
    facts.cap_eff = ALL_CAPS;
    facts.seccomp = 2;
    count = explain(&facts, MW_ACCESS_VM_READV, EPERM);
    assert_true(has_way(find(count, "seccomp"), "seccomp=unconfined"));
    assert_true(has_way(find(count, "seccomp"), "seccompProfile"));
    assert_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "seccomp"));

    facts = plain_user();
    facts.same_userns = 0;
    facts.cap_eff = ALL_CAPS;
    assert_non_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "userns"));

    facts = plain_user();
    snprintf(facts.label, sizeof facts.label, "docker-default (enforce)");
    count = explain(&facts, MW_ACCESS_MEM, EACCES);
    assert_true(has_way(find(count, "lsm"), "apparmor=unconfined"));
    snprintf(facts.label, sizeof facts.label, "system_u:system_r:container_t:s0:c1,c2");
    count = explain(&facts, MW_ACCESS_MEM, EACCES);
    assert_true(has_way(find(count, "lsm"), "deny_ptrace"));
    snprintf(facts.label, sizeof facts.label, "unconfined_u:unconfined_r:unconfined_t:s0");
    assert_null(find(explain(&facts, MW_ACCESS_MEM, EACCES), "lsm"));
}

/* There is always an answer, and each blocker has a way out. */
static void test_always_an_answer(void **state)
{
    (void)state;
    static const int problems[] = {0, EPERM, EACCES, ENOSYS, ENOTTY, EINVAL, ENOENT, EIO};
    for (unsigned bits = 0; bits < 1u << 11; bits++) {
        struct mw_doctor_facts facts = plain_user();
        facts.euid = bits & 1 ? 0 : 1000;
        facts.cap_eff = bits & 2 ? ALL_CAPS : 0;
        facts.yama = (int)(bits >> 2 & 3);
        facts.seccomp = bits & 16 ? 2 : 0;
        facts.target_euid = bits & 32 ? 33 : 1000;
        facts.not_dumpable = bits & 64;
        facts.tracer_pid = bits & 128 ? 5 : 0;
        facts.same_userns = bits & 256 ? 0 : -1;
        facts.initial_userns = !(bits & 512);
        facts.has_target = bits & 1024;
        snprintf(facts.label, sizeof facts.label, "%s", bits & 8 ? "docker-default" : "");
        facts.in_container = bits & 4;
        for (size_t k = 0; k < sizeof problems / sizeof *problems; k++)
            for (int access = 0; access < MW_ACCESS_COUNT; access++) {
                size_t count = explain(&facts, (enum mw_doctor_access)access, problems[k]);
                assert_in_range(count, 1, MW_DOCTOR_BLOCKERS_MAX);
                for (size_t i = 0; i < count; i++) {
                    assert_non_null(blockers[i].ways_out[0]);
                    assert_true(blockers[i].why[0] != '\0');
                }
            }
    }
}

static void test_facts_of_a_made_proc(void **state)
{
    (void)state;
    struct temp_tree tree;
    temp_tree_make(&tree);
    temp_tree_write(&tree, "self/status",
                    "Name:\tmemwhy\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n");
    temp_tree_write(&tree, "self/uid_map", "         0     100000      65536\n");
    temp_tree_write(&tree, "self/attr/current", "docker-default (enforce)\n");
    temp_tree_write(&tree, "sys/kernel/yama/ptrace_scope", "1\n");
    temp_tree_write(&tree, "4121/status",
                    "Name:\ticinga2\nUid:\t108\t109\t108\t108\nTracerPid:\t77\nSeccomp:\t0\n");
    temp_tree_write(&tree, "4121/environ", "A=b");
    temp_tree_write(&tree, "4121/attr/current", "unconfined");
    struct mw_doctor_facts facts;
    struct mw_error err = {0};
    assert_int_equal(mw_doctor_facts_load(tree.fd, 4121, &facts, &err), MW_OK);
    assert_int_equal(facts.cap_eff, 0xa80425fb);
    assert_int_equal(facts.seccomp, 2);
    assert_int_equal(facts.yama, 1);
    assert_false(facts.initial_userns);
    assert_string_equal(facts.label, "docker-default (enforce)");
    assert_int_equal(facts.target_uid, 108);
    assert_int_equal(facts.target_euid, 109);
    assert_int_equal(facts.tracer_pid, 77);
    assert_int_equal(facts.same_userns, -1);
    assert_string_equal(facts.target_label, "unconfined");
    assert_int_equal(mw_doctor_facts_load(tree.fd, 4122, &facts, &err), MW_GONE);
    assert_non_null(strstr(err.hint, "shareProcessNamespace"));
    temp_tree_remove(&tree);
}

/* On this very machine: a child of our own can at least be looked at, and nothing is left behind.
 */
static void test_own_child(void **state)
{
    (void)state;
    struct mw_doctor doctor;
    struct mw_error err = {0};
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    assert_true(proc_fd >= 0);
    assert_int_equal(mw_doctor_run(proc_fd, 0, NULL, &doctor, &err), MW_OK);
    close(proc_fd);
    assert_int_equal(doctor.check_count, MW_ACCESS_COUNT);
    assert_true(doctor.checks[0].access == MW_ACCESS_SMAPS && doctor.checks[0].allowed);
    for (size_t i = 0; i < doctor.check_count; i++)
        assert_true(doctor.checks[i].allowed == (doctor.checks[i].os_errno == 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yama),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_root_in_a_container),
        cmocka_unit_test(test_other_guards),
        cmocka_unit_test(test_always_an_answer),
        cmocka_unit_test(test_facts_of_a_made_proc),
        cmocka_unit_test(test_own_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
