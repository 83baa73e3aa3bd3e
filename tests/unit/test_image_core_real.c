/* tests/unit/test_image_core_real.c: a core that the kernel wrote and one that gcore wrote, against
 * the live process page for page; copies that skip zeros must not be taken for the kernel's. */
#include "child.h"
#include "image/open.h"
#include "temp_tree.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, REAL_PAGES = 4001 };

static struct temp_tree tree;

static int group_setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    setenv("TMPDIR", tree.path, 1);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

struct truth {
    uint8_t *anon; /* REAL_PAGES pages */
};

static bool is_resident(size_t page)
{
    return page % 3 != 1 && page % 101 < 90;
}

static void prepare(void *report)
{
    struct truth *truth = report;
    size_t length = (size_t)REAL_PAGES * PAGE;
    truth->anon = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(truth->anon, length, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < REAL_PAGES; i++) {
        volatile uint8_t *page = truth->anon + i * PAGE;
        if (is_resident(i))
            memset((void *)page, i % 5 ? (int)(i % 251) : 0, PAGE);
        else if (i % 2)
            (void)page[0]; /* the zero page */
    }
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &none);
    if (chdir(getenv("TMPDIR")) != 0)
        _exit(1);
}

/* The core that the kernel has left in the tree; false where it writes elsewhere. */
static bool find_core(char path[512])
{
    bool found = false;
    DIR *dir = opendir(tree.path);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strncmp(entry->d_name, "core", 4) == 0) {
            snprintf(path, 512, "%s/%s", tree.path, entry->d_name);
            found = true;
        }
    closedir(dir);
    return found;
}

static void check_real_contents(struct mw_image *image, const struct truth *truth)
{
    uint8_t bytes[PAGE], expected[PAGE];
    for (size_t i = 0; i < REAL_PAGES; i++) {
        mw_addr address = (uintptr_t)truth->anon + i * PAGE;
        assert_int_equal(mw_image_read(image, address, bytes, PAGE), MW_OK);
        memset(expected, is_resident(i) && i % 5 ? (int)(i % 251) : 0, PAGE);
        assert_memory_equal(bytes, expected, PAGE);
    }
}

static struct mw_image open_path(const char *path)
{
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = mw_image_open(path, NULL, NULL, &image, &err);
    if (status != MW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(status, MW_OK);
    return image;
}

/* The core as a .zst: the same contents, and no claim of residency by our own copy's holes. */
static void check_packed(const char *path, const struct truth *truth)
{
    char command[1200], packed[600];
    snprintf(packed, sizeof packed, "%s.zst", path);
    snprintf(command, sizeof command, "zstd -qf %s -o %s", path, packed);
    if (system(command) != 0)
        return; /* zstd(1) is not here; test_image_core packs by the library */
    struct mw_image image = open_path(packed);
    assert_false(image.can & MW_CAN_PAGES);
    check_real_contents(&image, truth);
    mw_image_close(&image);
}

/* Copies of the core at path by tools that treat zeros in their own way: none may claim. */
static void check_copies(const char *path)
{
    /* $1 the core, $2 the copy */
    static const char *const commands[] = {
        "cp --sparse=never $1 $2",
        "cp --sparse=always $1 $2",
        "zstd -qf $1 -o $2.zst && zstd -qdf --sparse $2.zst -o $2",
        "xz -0cf $1 > $2.xz && xz -df $2.xz",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[2048], copy[600];
        snprintf(copy, sizeof copy, "%s.copy", path);
        unlink(copy);
        snprintf(command, sizeof command, "set -- %s %s; %s", path, copy, commands[i]);
        if (system(command) != 0 || access(copy, R_OK) != 0)
            continue; /* that tool is not here */
        struct mw_image image = open_path(copy);
        assert_false(image.can & MW_CAN_PAGES);
        mw_image_close(&image);
    }
}

static void test_core_of_the_kernel(void **state)
{
    (void)state;
    struct child child;
    struct truth *truth = child_start(&child, prepare, sizeof *truth);
    kill(child.pid, SIGABRT);
    int result;
    waitpid(child.pid, &result, 0);
    char path[512];
    if (!WCOREDUMP(result) || !find_core(path)) {
        child.pid = 0;
        child_stop(&child, truth, sizeof *truth);
        skip(); /* kernel.core_pattern sends cores elsewhere */
    }
    struct mw_image image = open_path(path);
    assert_int_equal(image.process.pid, child.pid);
    assert_int_equal(image.thread_count, 1);
    assert_int_equal(image.threads[0].tid, child.pid);
    assert_non_null(strstr(image.process.exe, "test_image_core_real"));
    assert_string_equal(mw_image_region(&image, image.threads[0].sp)->name, "[stack]");
    assert_null(mw_finding_find(&image.findings, "core-truncated"));
    check_real_contents(&image, truth);
    check_packed(path, truth);
    struct stat about;
    stat(path, &about);
    if ((uint64_t)about.st_blocks * 512 + PAGE * 500 < (uint64_t)about.st_size) {
        assert_true(image.can & MW_CAN_PAGES);
        uint8_t flags[REAL_PAGES];
        assert_int_equal(mw_image_pages(&image, (uintptr_t)truth->anon, REAL_PAGES, flags, NULL),
                         MW_OK);
        for (size_t i = 0; i < REAL_PAGES; i++)
            assert_int_equal(flags[i], is_resident(i) ? MW_PAGE_PRESENT : 0);
        check_copies(path);
    }
    mw_image_close(&image);
    child.pid = 0;
    child_stop(&child, truth, sizeof *truth);
}

/* Contents of a program that stands still, against its core. */
static void compare_with_live(struct mw_image *core, pid_t pid)
{
    struct mw_image live;
    const struct mw_image_open_options options = {.need_read = true};
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &live, NULL), MW_OK);
    size_t compared = 0, different = 0;
    for (size_t i = 0; i < core->regions.count; i++) {
        const struct mw_mapping *map = &core->regions.items[i];
        const struct mw_mapping *same = mw_image_region(&live, map->start);
        if (!same || same->end != map->end || !(map->perms & MW_PERM_WRITE))
            continue;
        assert_int_equal(map->perms, same->perms & ~(unsigned)MW_PERM_SHARED);
        if (map->name[0] == '/')
            assert_string_equal(map->name, same->name);
        size_t length = (size_t)mw_mapping_size(map);
        uint8_t *a = malloc(length), *b = malloc(length);
        if (mw_image_read_some(core, map->start, a, length) == length &&
            mw_image_read_some(&live, map->start, b, length) == length) {
            for (size_t k = 0; k < length; k++)
                different += a[k] != b[k];
            compared += length;
        }
        free(a);
        free(b);
    }
    assert_true(different <= 16); /* while it writes, gdb counts itself at probes of the program */
    assert_true(compared > 4 << 20); /* the strings alone are more */
    assert_true(core->entry == live.entry && core->vdso == live.vdso);
    mw_image_close(&live);
}

static void test_core_of_gcore(void **state)
{
    (void)state;
    if (system("command -v gcore python3 >/dev/null") != 0)
        skip(); /* packages gdb and python3 */
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execlp("python3", "python3", "-c",
               "import time; x = [str(i) for i in range(99991)]; print(flush=True); "
               "time.sleep(600)",
               (char *)NULL);
        _exit(1);
    }
    char byte, command[512], path[512];
    assert_int_equal(read(fds[0], &byte, 1), 1);
    usleep(100000);
    snprintf(command, sizeof command, "gcore -o %s/gdb %d >/dev/null 2>&1", tree.path, pid);
    int result = system(command);
    snprintf(path, sizeof path, "%s/gdb.%d", tree.path, pid);
    if (result == 0) {
        struct mw_image image = open_path(path);
        assert_true(image.can & MW_CAN_REGISTERS);
        assert_false(image.can & MW_CAN_PAGES);
        compare_with_live(&image, pid);
        mw_image_close(&image);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    if (result != 0)
        skip(); /* gdb may not trace here */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core_of_the_kernel),
        cmocka_unit_test(test_core_of_gcore),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
