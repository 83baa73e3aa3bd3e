/* tests/unit/test_cgroup_tree.c: cgroups by path and by container id, in trees as docker,
 * containerd, cri-o and podman make them, v1, v2 and hybrid; what is in a group; its figures. */
#include "base/alloc.h"
#include "proc/cgroup_tree.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Ids of 64 digits; A and B differ in the 17th, C begins with 12 decimal digits. */
#define ID_A                                                                                       \
    "3f2a9c017e4b8d60"                                                                             \
    "a1c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a"
#define ID_B                                                                                       \
    "3f2a9c017e4b8d60"                                                                             \
    "b1c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a"
#define ID_C                                                                                       \
    "4194304012345678"                                                                             \
    "c1c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a"

static struct temp_tree tree;
static struct mw_context context;

static int setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    mw_context_init(&context);
    temp_tree_write(&tree, "proc/self/cgroup", "4:memory:/own/here\n0::/own/here\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

static void make(const char *group)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    temp_tree_write(&tree, path, "");
}

static int open_proc(void)
{
    int fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    return fd;
}

static enum mw_status open_path(const char *path, struct mw_cgroup_place *place,
                                struct mw_error *err)
{
    char root[128];
    int proc_fd = open_proc();
    snprintf(root, sizeof root, "%s/sys", tree.path);
    enum mw_status status = mw_cgroup_place_open(proc_fd, path, root, place, err);
    close(proc_fd);
    return status;
}

static void assert_opens(const char *path, int version, const char *wanted)
{
    struct mw_cgroup_place place;
    struct mw_error err = {0};
    assert_int_equal(open_path(path, &place, &err), MW_OK);
    assert_int_equal(place.version, version);
    assert_string_equal(place.path, wanted);
    mw_cgroup_place_deinit(&place);
}

static enum mw_status find(const char *id, struct mw_cgroup_place *place, struct mw_error *err)
{
    char root[128];
    int proc_fd = open_proc();
    snprintf(root, sizeof root, "%s/sys", tree.path);
    enum mw_status status = mw_cgroup_place_find_container(proc_fd, id, root, &context, place, err);
    close(proc_fd);
    return status;
}

static void assert_finds(const char *id, const char *wanted)
{
    struct mw_cgroup_place place;
    struct mw_error err = {0};
    assert_int_equal(find(id, &place, &err), MW_OK);
    assert_string_equal(place.path, wanted);
    mw_cgroup_place_deinit(&place);
}

/* ---- paths ---- */

static void test_paths_of_v2(void **state)
{
    (void)state;
    char path[256];
    make("sys/system.slice/x.service/inner");
    make("sys/own/here/below");
    assert_opens("/system.slice/x.service", 2, "/system.slice/x.service");
    assert_opens("/system.slice//./x.service/", 2, "/system.slice/x.service");
    assert_opens("/system.slice/x.service/inner/..", 2, "/system.slice/x.service");
    assert_opens("/", 2, "");
    assert_opens(".", 2, "/own/here");
    assert_opens("below", 2, "/own/here/below");
    assert_opens("..", 2, "/own");
    assert_opens("../../system.slice", 2, "/system.slice");
    snprintf(path, sizeof path, "%s/sys/system.slice/x.service", tree.path);
    assert_opens(path, 2, "/system.slice/x.service");
    snprintf(path, sizeof path, "%s/sys", tree.path);
    assert_opens(path, 2, "");
}

static void test_paths_that_are_none(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_error err = {0};
    make("sys/a");
    assert_int_equal(open_path("/b", &place, &err), MW_NOT_FOUND);
    assert_non_null(strstr(err.text, "'/b'"));
    assert_true(err.hint[0] != '\0');
    assert_int_equal(open_path("/a/cgroup.procs", &place, &err), MW_NOT_FOUND);
    assert_int_equal(open_path("/..", &place, &err), MW_INVALID);
    assert_int_equal(open_path("/a/../../a", &place, &err), MW_INVALID);
    assert_int_equal(open_path("../../..", &place, &err), MW_INVALID);
    char longest[MW_CGROUP_PATH_BYTES + 8];
    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(open_path(longest, &place, &err), MW_INVALID);
}

/* A hybrid machine: v1 has the memory controller; what is only in v2 is found there. */
static void test_paths_of_hybrid(void **state)
{
    (void)state;
    char path[256];
    make("sys/memory/both");
    make("sys/unified/both");
    make("sys/unified/only");
    assert_opens("/both", 1, "/both");
    assert_opens("/only", 2, "/only");
    snprintf(path, sizeof path, "%s/sys/memory/both", tree.path);
    assert_opens(path, 1, "/both");
    snprintf(path, sizeof path, "%s/sys/unified/only", tree.path);
    assert_opens(path, 2, "/only");
}

static void test_nothing_is_mounted(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_error err = {0};
    int proc_fd = open_proc();
    assert_int_equal(mw_cgroup_place_open(proc_fd, "/a", NULL, &place, &err), MW_UNSUPPORTED);
    assert_int_equal(
        mw_cgroup_place_find_container(proc_fd, "3f2a9c017e4b", NULL, &context, &place, &err),
        MW_UNSUPPORTED);
    close(proc_fd);
}

/* By the mount table: the mount shows the part of the hierarchy below its root. */
static void test_paths_by_mount_table(void **state)
{
    (void)state;
    char text[512], path[256];
    make("cg/inner");
    snprintf(text, sizeof text,
             "31 22 0:27 /docker/c %s/cg rw shared:10 - cgroup cgroup rw,memory\n"
             "32 22 0:28 / %s/pids rw shared:11 - cgroup cgroup rw,pids\n",
             tree.path, tree.path);
    temp_tree_write(&tree, "proc/self/mountinfo", text);
    int proc_fd = open_proc();
    const char *typed[] = {"/inner", "/docker/c/inner", path, NULL};
    for (size_t i = 0; i < 4; i++) {
        struct mw_cgroup_place place;
        snprintf(path, sizeof path, "%s/%s/inner", tree.path, i == 2 ? "cg" : "pids");
        /* the path of another controller's mount names the same group */
        const char *name = typed[i] ? typed[i] : path;
        assert_int_equal(mw_cgroup_place_open(proc_fd, name, NULL, &place, NULL), MW_OK);
        assert_string_equal(place.path, "/inner");
        mw_cgroup_place_deinit(&place);
    }
    close(proc_fd);
}

/* ---- containers ---- */

static void test_ids_as_they_are_typed(void **state)
{
    (void)state;
    char id[MW_CONTAINER_ID_MAX + 1];
    static const char *const good[] = {
        "3f2a9c017e4b",         "419430401234",       ID_A,
        "docker://" ID_A,       "containerd://" ID_A, "cri-o://3f2a9c017e4b",
        "podman://3f2a9c017e4b"};
    static const char *const bad[] = {
        "",          "3f2a9c017e4",        "3f2a9c017e4g",  ID_A "0",
        "docker://", "rkt://3f2a9c017e4b", "3f2a9c017e4b/", "core.3f2a9c017e4b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *slash = strrchr(good[i], '/');
        assert_true(mw_container_id_parse(good[i], id));
        assert_string_equal(id, slash ? slash + 1 : good[i]);
    }
    assert_true(mw_container_id_parse("3F2A9C1122bb", id));
    assert_string_equal(id, "3f2a9c1122bb");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mw_container_id_parse(bad[i], id));
}

static void test_names_that_engines_give(void **state)
{
    (void)state;
    char id[MW_CONTAINER_ID_MAX + 1];
    static const char *const good[] = {
        ID_A,
        "docker-" ID_A ".scope",
        "cri-containerd-" ID_A ".scope",
        "crio-" ID_A ".scope",
        "crio-" ID_A,
        "libpod-" ID_A ".scope",
        "libpod-" ID_A,
        "nerdctl-" ID_A ".scope",
    };
    static const char *const bad[] = {
        "libpod-conmon-" ID_A ".scope",
        "crio-conmon-" ID_A ".scope",
        "docker-" ID_A ".service",
        "session-12.scope",
        "pod8e2f0c1a-1b2c-3d4e-5f60-718293a4b5c6",
        ID_A "0",
        "docker",
        "kubepods-besteffort-pod8e2f0c1a_1b2c_3d4e_5f60_718293a4b5c6.slice",
        "",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(mw_container_id_of(good[i], id));
        assert_string_equal(id, ID_A);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mw_container_id_of(bad[i], id));
}

static void test_containers_are_found(void **state)
{
    (void)state;
    static const char *const places[] = {
        "/docker/" ID_A,
        "/system.slice/docker-" ID_A ".scope",
        "/kubepods/burstable/pod8e2f0c1a-1b2c-3d4e-5f60-718293a4b5c6/" ID_A,
        "/kubepods.slice/kubepods-burstable.slice/"
        "kubepods-burstable-pod8e2f0c1a_1b2c_3d4e_5f60_718293a4b5c6.slice/"
        "cri-containerd-" ID_A ".scope",
        "/kubepods.slice/kubepods-pod1.slice/crio-" ID_A ".scope",
        "/machine.slice/libpod-" ID_A ".scope",
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID_A ".scope",
    };
    for (size_t i = 0; i < 2 * sizeof places / sizeof *places; i++) {
        char group[512], inner[800];
        bool is_v1 = i % 2;
        temp_tree_remove(&tree);
        setup(NULL);
        snprintf(group, sizeof group, "sys%s%s", is_v1 ? "/memory" : "", places[i / 2]);
        make(group);
        snprintf(inner, sizeof inner, "%s/init.scope/libpod-" ID_A, group); /* not looked into */
        make(inner);
        make(is_v1 ? "sys/memory/machine.slice/libpod-conmon-" ID_A ".scope"
                   : "sys/machine.slice/libpod-conmon-" ID_A ".scope");
        make(is_v1 ? "sys/memory/docker/" ID_C : "sys/docker/" ID_C);
        assert_finds("3f2a9c017e4b", places[i / 2]);
        assert_finds(ID_A, places[i / 2]);
        assert_finds("419430401234", "/docker/" ID_C);
    }
}

static void test_ambiguous_and_missing(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_error err = {0};
    make("sys/docker/" ID_A);
    make("sys/docker/" ID_B);
    assert_int_equal(find("3f2a9c017e4b", &place, &err), MW_INVALID);
    assert_non_null(strstr(err.text, "2 containers"));
    assert_non_null(strstr(err.hint, "3f2a9c017e4b8d60a1")); /* enough to tell them apart */
    assert_non_null(strstr(err.hint, "3f2a9c017e4b8d60b1"));
    assert_finds("3f2a9c017e4b8d60a", "/docker/" ID_A);
    assert_int_equal(find("3f2a9c017e4b8d60c", &place, &err), MW_NOT_FOUND);
    assert_non_null(strstr(err.text, "3f2a9c017e4b8d60c"));
    /* One id in two places: paths tell them apart. */
    make("sys/a/crio-" ID_C);
    make("sys/b/crio-" ID_C);
    assert_int_equal(find("419430401234", &place, &err), MW_INVALID);
    assert_non_null(strstr(err.text, "2 cgroups"));
    assert_non_null(strstr(err.hint, "cgroup:/"));
    context.canceled = true;
    assert_int_equal(find(ID_A, &place, &err), MW_CANCELED);
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    make("sys/docker/none");
    make("elsewhere/" ID_A);
    assert_int_equal(symlinkat("../elsewhere", tree.fd, "sys/link"), 0);
    assert_int_equal(symlinkat(".", tree.fd, "sys/docker/loop"), 0);
    assert_int_equal(find(ID_A, &place, NULL), MW_NOT_FOUND);
    assert_int_equal(unlinkat(tree.fd, "sys/link", 0), 0);
    assert_int_equal(unlinkat(tree.fd, "sys/docker/loop", 0), 0);
}

/* ---- members and figures ---- */

static void test_members_of_a_group_and_below(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_cgroup_members members;
    struct mw_error err = {0};
    temp_tree_write(&tree, "sys/a/cgroup.procs", "30\n0\n7\n");
    temp_tree_write(&tree, "sys/a/b/cgroup.procs", "7\n2\n99999999999999999999\n-4\nx\n");
    temp_tree_write(&tree, "sys/a/b/c/cgroup.procs", "1\n0\n41"); /* no newline at its end */
    temp_tree_write(&tree, "sys/other/cgroup.procs", "77\n");
    temp_tree_write(&tree, "sys/a/no-procs/memory.current", "1\n");
    assert_int_equal(open_path("/a", &place, &err), MW_OK);
    assert_int_equal(mw_cgroup_members_load(&place, &context, &members, &err), MW_OK);
    static const int32_t wanted[] = {1, 2, 7, 30, 41};
    assert_int_equal(members.count, 5);
    assert_memory_equal(members.items, wanted, sizeof wanted);
    assert_int_equal(members.hidden_count, 2);
    assert_int_equal(members.group_count, 4);
    mw_cgroup_members_deinit(&members);
    for (long n = 0; n < 12; n++) { /* a failing allocation loses nothing and lies about nothing */
        mw_alloc_fail_after(n);
        enum mw_status status = mw_cgroup_members_load(&place, &context, &members, &err);
        mw_alloc_fail_after(-1);
        assert_true(status == MW_NOMEM || status == MW_OK);
        if (status == MW_OK) {
            assert_int_equal(members.count, 5);
            mw_cgroup_members_deinit(&members);
        }
    }
    context.canceled = true;
    assert_int_equal(mw_cgroup_members_load(&place, &context, &members, &err), MW_CANCELED);
    mw_cgroup_place_deinit(&place);
}

/* Figures are the group's own; the limit may be that of one above. */
static void test_figures_of_this_group(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_cgroup cgroup;
    char root[128];
    temp_tree_write(&tree, "sys/pod/memory.max", "7000\n");
    temp_tree_write(&tree, "sys/pod/memory.current", "6000\n");
    temp_tree_write(&tree, "sys/pod/cpu.max", "150000 100000\n");
    temp_tree_write(&tree, "sys/pod/box/memory.max", "max\n");
    temp_tree_write(&tree, "sys/pod/box/memory.current", "500\n");
    temp_tree_write(&tree, "sys/pod/box/memory.stat",
                    "anon 301\nfile 102\nslab 40\npagetables 2\n");
    assert_int_equal(open_path("/pod/box", &place, NULL), MW_OK);
    int proc_fd = open_proc();
    snprintf(root, sizeof root, "%s/sys", tree.path);
    mw_cgroup_load_place(proc_fd, &place, root, &cgroup);
    assert_true(cgroup.limit == 7000 && cgroup.usage == 500);
    assert_true(cgroup.anon == 301 && cgroup.file == 102);
    assert_string_equal(cgroup.path, "/pod/box");
    assert_string_equal(cgroup.limit_path, "/pod");
    assert_true(cgroup.cpu_quota == 1.5);
    assert_true(mw_cgroup_kernel_bytes(&cgroup) == 42); /* before Linux 5.18: the parts */
    temp_tree_write(&tree, "sys/pod/box/memory.max", "600\n");
    mw_cgroup_load_place(proc_fd, &place, root, &cgroup);
    assert_true(cgroup.limit == 600);
    assert_string_equal(cgroup.limit_path, "/pod/box");
    close(proc_fd);
    mw_cgroup_place_deinit(&place);
}

static void test_walks_are_bounded(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_cgroup_members members;
    char deep[512] = "sys";
    for (int i = 0; i < 70; i++)
        strcat(deep, "/d");
    make(deep);
    assert_int_equal(open_path("/", &place, NULL), MW_OK);
    assert_int_equal(mw_cgroup_members_load(&place, &context, &members, NULL), MW_LIMIT);
    mw_cgroup_place_deinit(&place);
}

/* This machine: our own group has us in it, by each of its names. */
static void test_this_machine(void **state)
{
    (void)state;
    struct mw_cgroup_place place;
    struct mw_cgroup_members members;
    struct mw_error err = {0};
    char path[MW_CGROUP_PATH_BYTES + 16];
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    mw_context_init(&context);
    if (mw_cgroup_place_open(proc_fd, ".", NULL, &place, &err) != MW_OK) {
        print_message("skip: our own cgroup is not visible here: %s\n", err.text);
        close(proc_fd);
        skip();
    }
    for (int name = 0; name < 2; name++) {
        bool seen = false;
        assert_int_equal(mw_cgroup_members_load(&place, &context, &members, &err), MW_OK);
        for (size_t i = 0; i < members.count; i++)
            seen = seen || members.items[i] == getpid();
        assert_true(seen);
        mw_cgroup_members_deinit(&members);
        snprintf(path, sizeof path, "%s", *place.path ? place.path : "/");
        mw_cgroup_place_deinit(&place);
        assert_int_equal(mw_cgroup_place_open(proc_fd, path, NULL, &place, &err), MW_OK);
    }
    mw_cgroup_place_deinit(&place);
    close(proc_fd);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TREE(test_paths_of_v2),
        IN_TREE(test_paths_that_are_none),
        IN_TREE(test_paths_of_hybrid),
        IN_TREE(test_nothing_is_mounted),
        IN_TREE(test_paths_by_mount_table),
        IN_TREE(test_ids_as_they_are_typed),
        IN_TREE(test_names_that_engines_give),
        IN_TREE(test_containers_are_found),
        IN_TREE(test_ambiguous_and_missing),
        IN_TREE(test_links_are_not_followed),
        IN_TREE(test_members_of_a_group_and_below),
        IN_TREE(test_figures_of_this_group),
        IN_TREE(test_walks_are_bounded),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
