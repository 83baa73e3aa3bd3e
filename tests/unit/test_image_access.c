/* tests/unit/test_image_access.c: a live process seen from places with less: another user, a root
 * without CAP_SYS_PTRACE, a seccomp filter, other namespaces, frames hidden. Each case runs in a
 * process of its own that gives a right up; it tells by its exit code what went wrong. */
#include "child.h"
#include "image/live.h"
#include "image/open.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 64, NOT_POSSIBLE = 77 };

/* In a case: the first thing that is not as it should be ends it with its line. */
#define MUST(good)                                                                                 \
    do {                                                                                           \
        if (!(good)) {                                                                             \
            fprintf(stderr, "# line %d: %s\n", __LINE__, #good);                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static struct child child;
static uint8_t **memory;

static void prepare(void *report)
{
    uint8_t **at = report;
    *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(*at, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i += 2)
        memset(*at + i * PAGE, 'm', PAGE);
    (void)*(volatile uint8_t *)(*at + PAGE); /* the zero page */
}

static int setup(void **state)
{
    (void)state;
    memory = child_start(&child, prepare, sizeof *memory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    child_stop(&child, memory, sizeof *memory);
    return 0;
}

static void run_case(void (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    int result;
    waitpid(pid, &result, 0);
    if (WIFEXITED(result) && WEXITSTATUS(result) == NOT_POSSIBLE)
        skip(); /* needs root, or a kernel that lets it be given up */
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void drop_capability(unsigned number)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0 ||
        !(data[number / 32].effective >> number % 32 & 1))
        _exit(NOT_POSSIBLE);
    data[number / 32].effective &= ~(1u << number % 32);
    data[number / 32].permitted &= ~(1u << number % 32);
    data[number / 32].inheritable = 0;
    MUST(syscall(SYS_capset, &header, data) == 0);
}

static enum mw_status open_child(struct mw_image *image, struct mw_error *err)
{
    const struct mw_image_open_options options = {.need_read = true};
    *err = (struct mw_error){0};
    return mw_image_open_live(child.pid, &options, NULL, image, err);
}

/* Everything can be had: contents, residency, the zero page told apart. */
static void check_all(struct mw_image *image)
{
    uint8_t bytes[2 * PAGE], flags[PAGES];
    MUST((image->can & (MW_CAN_READ | MW_CAN_PAGES)) == (MW_CAN_READ | MW_CAN_PAGES));
    MUST(mw_image_pages(image, (uintptr_t)*memory, PAGES, flags, NULL) == MW_OK);
    MUST(flags[1] == (MW_PAGE_PRESENT | MW_PAGE_ZERO));
    for (size_t i = 0; i < PAGES; i++)
        MUST(mw_page_is_resident(flags[i]) == (i % 2 == 0));
    MUST(mw_image_read(image, (uintptr_t)*memory + 2 * PAGE, bytes, PAGE) == MW_OK);
    for (size_t i = 0; i < PAGE; i++)
        MUST(bytes[i] == 'm');
}

static void case_other_user(void)
{
    if (geteuid() != 0)
        _exit(NOT_POSSIBLE);
    struct mw_image image;
    struct mw_error err;
    MUST(setgid(65534) == 0 && setuid(65534) == 0);
    MUST(open_child(&image, &err) == MW_PERM);
    MUST(strstr(err.text, "cannot read the mappings") && strstr(err.text, "RSS"));
    char hint[32];
    snprintf(hint, sizeof hint, "sudo memwhy %d", child.pid);
    MUST(strcmp(err.hint, hint) == 0);
}

static void case_root_without_ptrace(void)
{
    if (geteuid() != 0)
        _exit(NOT_POSSIBLE);
    struct mw_image image;
    struct mw_error err;
    drop_capability(CAP_SYS_PTRACE);
    enum mw_status status = open_child(&image, &err);
    if (status == MW_PERM) { /* kernels differ in whether smaps of the same user may be read */
        MUST(strstr(err.hint, "CAP_SYS_PTRACE"));
        return;
    }
    MUST(status == MW_OK && image.can & MW_CAN_COUNTERS && !(image.can & MW_CAN_READ));
    MUST(image.cannot_read.code == MW_PERM && strstr(image.cannot_read.hint, "CAP_SYS_PTRACE"));
    MUST(strstr(image.cannot_read.text, "cannot read the memory"));
    mw_image_close(&image);
}

static void case_frames_are_hidden(void)
{
    struct mw_image image;
    struct mw_error err;
    if (geteuid() == 0) {
        drop_capability(CAP_SYS_ADMIN);
        /* The child has more than we have now; only this right still opens it. */
    }
    enum mw_status status = open_child(&image, &err);
    if (status == MW_PERM)
        _exit(NOT_POSSIBLE);
    MUST(status == MW_OK);
    check_all(&image);
    mw_live_pages_probe_words(&image);
    MUST(mw_live_of(&image)->zero_pfn == 0);
    check_all(&image);
    mw_image_close(&image);
}

/* As Docker's default profile did for years. */
static void case_seccomp(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct mw_image image;
    struct mw_error err;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(NOT_POSSIBLE);
    enum mw_status status = open_child(&image, &err);
    if (status == MW_PERM)
        _exit(NOT_POSSIBLE);
    MUST(status == MW_OK);
    MUST(!mw_live_of(&image)->source.vm_readv_works && mw_live_of(&image)->source.mem_fd >= 0);
    check_all(&image);
    mw_image_close(&image);
}

/* The target is the first process of a container: pid 1 to itself, another root. */
static void case_other_namespaces(void)
{
    int ready[2];
    char byte = 0;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || pipe(ready) != 0)
        _exit(NOT_POSSIBLE);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/tmp", "tmpfs", 0, NULL) != 0 ||
            chroot("/tmp") != 0 || write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        _exit(NOT_POSSIBLE);
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    MUST(mw_image_open_live(pid, &options, NULL, &image, &err) == MW_OK);
    MUST(image.process.ns_pid == 1 && image.process.pid == pid);
    MUST(image.process.other_pid_namespace && image.process.other_mount_namespace);
    uint64_t word;
    MUST(mw_image_read_u64(&image, image.at_random, &word) == MW_OK);
    MUST(image.arch != MW_ARCH_UNKNOWN); /* its program is no file that it could open itself */
    mw_image_close(&image);
    kill(pid, SIGKILL);
}

/* A /proc whose numbers are not ours: another process must not be read by mistake. */
static void case_proc_of_another_namespace(void)
{
    pid_t target = child.pid;
    if (unshare(CLONE_NEWPID) != 0)
        _exit(NOT_POSSIBLE);
    pid_t pid = fork();
    if (pid != 0) {
        int result;
        waitpid(pid, &result, 0);
        _exit(WIFEXITED(result) ? WEXITSTATUS(result) : 1);
    }
    /* pid 1 here, but /proc is still the one outside. */
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    MUST(mw_image_open_live(target, &options, NULL, &image, &err) == MW_OK);
    MUST(!mw_live_of(&image)->pid_is_ours && !mw_live_of(&image)->source.vm_readv_works);
    check_all(&image);
    MUST(mw_image_stop(&image, &err) == MW_UNSUPPORTED);
    MUST(strstr(err.text, "pid namespace"));
    mw_image_close(&image);
}

#define CASE(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run_case(case_##name);                                                                     \
    }
CASE(other_user)
CASE(root_without_ptrace)
CASE(frames_are_hidden)
CASE(seccomp)
CASE(other_namespaces)
CASE(proc_of_another_namespace)

#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CHILD(test_other_user),        WITH_CHILD(test_root_without_ptrace),
        WITH_CHILD(test_frames_are_hidden), WITH_CHILD(test_seccomp),
        WITH_CHILD(test_other_namespaces),  WITH_CHILD(test_proc_of_another_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
