/* tests/unit/test_live_fork.c: a live process is forked from outside and notices nothing.
 *
 * The fixture (tests/fixtures/selfcheck.c) checks itself; processes made here count the SIGCHLD
 * they get and what their waits return. The test collects orphans, so that every copy ends here and
 * can be counted. */
#include "image/live_fork.h"

#include "image/live.h"
#include "image/open.h"
#include "selfcheck_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct mw_mapping_list no_regions;
static const struct mw_live_fork_request plain = {.regions = &no_regions, .names = true};

/* Processes whose parent is pid. */
static unsigned children_count(pid_t pid)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[300], text[512], *bracket;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        int fd = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0)
            close(fd);
        text[got > 0 ? got : 0] = '\0';
        if ((bracket = strrchr(text, ')')) && atoi(bracket + 4) == pid)
            count++;
    }
    closedir(dir);
    return count;
}

static void fork_end(struct mw_live_fork *fork)
{
    pid_t copy = fork->child;
    assert_true(status_has(copy, "State:\tt"));
    assert_true(mw_live_fork_end(fork));
    assert_int_equal(kill(copy, 0), -1);
}

/* ---- what the target is spared ---- */

static void test_every_state(void **state)
{
    (void)state;
    for (unsigned m = 0; m < kill_mode_count; m++) {
        const struct kill_mode *mode = &kill_modes[m];
        struct target target = target_start(mode->name);
        uint64_t mask = target_mask(&target);
        for (int i = 0; i < 3; i++) {
            struct mw_live_fork *fork;
            struct mw_error err = {0};
            if (mw_live_fork_begin(target.pid, &plain, &fork, &err) != MW_OK)
                fail_msg("%s: %s", mode->name, err.text);
            assert_true(fork->thread_count > 0 && fork->pause_ns > 0 && !fork->expired);
            assert_int_equal(children_count(target.pid), 0);
            assert_survived(&target, mode, mask, i);
            fork_end(fork);
            assert_survived(&target, mode, mask, i);
        }
        assert_int_equal(children_count(target.pid), 0);
        assert_no_eintr(&target, mode);
        target_stop(&target);
    }
}

/* ---- what a process sees that counts ---- */

struct seen {
    _Atomic uint64_t ready, signals, waited, rounds, wrong, stop;
    _Atomic uint64_t word; /* counted up beside a private copy */
};
static struct seen *seen;
static volatile uint64_t private_word;

static void on_child(int number)
{
    (void)number;
    seen->signals++;
}

/* Waits for any child all the time; has none. */
static void counting_run(void)
{
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    seen->ready = 1;
    while (!seen->stop) {
        int status;
        if (waitpid(-1, &status, WNOHANG) >= 0 || errno != ECHILD)
            seen->waited++;
        if (wait(&status) >= 0 || errno != ECHILD)
            seen->waited++;
        seen->word = ++private_word;
        seen->rounds++;
    }
}

static pid_t process_start(void (*run)(void))
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(100);
        run();
        _exit(0);
    }
    assert_true(wait_until(seen->ready));
    return pid;
}

static void process_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    munmap(seen, sizeof *seen);
}

static uint64_t word_of(pid_t pid, const volatile void *address)
{
    uint64_t word = 0;
    struct iovec ours = {&word, sizeof word}, theirs = {(void *)(uintptr_t)address, sizeof word};
    assert_int_equal(process_vm_readv(pid, &ours, 1, &theirs, 1, 0), sizeof word);
    return word;
}

/* No SIGCHLD, nothing to wait for, and a copy that stands still while the target counts on. */
static void test_nobody_is_told(void **state)
{
    (void)state;
    pid_t pid = process_start(counting_run);
    for (int i = 0; i < 20; i++) {
        struct mw_live_fork *fork;
        struct mw_error err = {0};
        uint64_t before = seen->word;
        if (mw_live_fork_begin(pid, &plain, &fork, &err) != MW_OK)
            fail_msg("%s", err.text);
        uint64_t frozen = word_of(fork->child, &private_word), rounds = seen->rounds;
        assert_true(frozen >= before);
        assert_true(wait_until(seen->rounds > rounds + 100));
        assert_int_equal(word_of(fork->child, &private_word), frozen);
        assert_true(word_of(pid, &private_word) > frozen);
        fork_end(fork);
    }
    assert_int_equal(seen->signals, 0);
    assert_int_equal(seen->waited, 0);
    process_stop(pid);
}

static void fork_probe(struct target *target)
{
    struct mw_live_fork *fork;
    if (mw_live_fork_begin(target->pid, &plain, &fork, NULL) == MW_OK)
        mw_live_fork_end(fork);
}

/* Nor when memwhy dies at any step. */
static void test_nobody_is_told_of_a_death(void **state)
{
    (void)state;
    struct target target = {.pid = process_start(counting_run)};
    int step = 0;
    for (; kill_at_step(&target, fork_probe, step); step++) {
        uint64_t rounds = seen->rounds;
        assert_true(wait_until(seen->rounds > rounds + 100));
        assert_int_equal(seen->signals + seen->waited, 0);
        assert_true(wait_until(children_count(target.pid) == 0));
        assert_true(status_has(target.pid, "TracerPid:\t0\n"));
    }
    assert_true(step > 40);
    process_stop(target.pid);
}

static void collecting_run(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    counting_run();
}

/* The copy would come back to it: it is never made. */
static void test_collector_of_orphans(void **state)
{
    (void)state;
    pid_t pid = process_start(collecting_run);
    struct mw_live_fork *fork = NULL;
    struct mw_error err = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mw_live_fork_begin(pid, &plain, &fork, &err), MW_UNSUPPORTED);
        assert_non_null(strstr(err.text, "PR_SET_CHILD_SUBREAPER"));
        assert_int_equal(children_count(pid), 0);
    }
    uint64_t rounds = seen->rounds;
    assert_true(wait_until(seen->rounds > rounds + 100));
    assert_int_equal(seen->signals + seen->waited, 0);
    process_stop(pid);
}

/* The kernel refuses to fork it: said, and the target goes on. */
static void limited_run(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0 ||
        setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1}) != 0)
        seen->wrong = 1;
    prctl(PR_SET_DUMPABLE, 1);
    counting_run();
}

static void test_no_more_processes(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skip: needs root, to make a process of another user\n");
        skip();
    }
    pid_t pid = process_start(limited_run);
    struct mw_live_fork *fork = NULL;
    struct mw_error err = {0};
    assert_int_equal(seen->wrong, 0);
    assert_int_equal(mw_live_fork_begin(pid, &plain, &fork, &err), MW_LIMIT);
    assert_non_null(strstr(err.text, "does not let process"));
    assert_int_equal(children_count(pid), 0);
    uint64_t rounds = seen->rounds;
    assert_true(wait_until(seen->rounds > rounds + 100));
    assert_int_equal(seen->signals + seen->waited, 0);
    process_stop(pid);
}

/* ---- many threads ---- */

enum { THREADS = 12 };
static pthread_barrier_t all_there;

static void *thread_main(void *user)
{
    volatile uint64_t mark = (uint64_t)(uintptr_t)user;
    pthread_barrier_wait(&all_there);
    while (mark && !seen->stop)
        seen->rounds++;
    return NULL;
}

static void threads_run(void)
{
    pthread_t thread;
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (uintptr_t i = 1; i < THREADS; i++)
        pthread_create(&thread, NULL, thread_main, (void *)i);
    pthread_barrier_wait(&all_there);
    seen->ready = 1;
    for (;;)
        pause();
}

/* Every thread once, ascending, with its name; with registers where it came to the stop in time. */
static size_t threads_check(const struct mw_live_fork *fork, pid_t pid)
{
    size_t with_registers = 0;
    assert_int_equal(fork->thread_count, THREADS);
    for (size_t k = 0; k < THREADS; k++) {
        const struct mw_thread *thread = &fork->threads[k];
        assert_true(k == 0 ? thread->tid == pid : thread->tid > thread[-1].tid);
        assert_true(thread->name[0] != '\0');
        with_registers += thread->has_registers && thread->pc && thread->sp && thread->tp;
    }
    return with_registers;
}

static void test_threads(void **state)
{
    (void)state;
    pid_t pid = process_start(threads_run);
    size_t best = 0;
    for (int i = 0; i < 40 && (i < 5 || best < THREADS); i++) { /* a busy machine lets them wait */
        struct mw_live_fork *fork;
        assert_int_equal(mw_live_fork_begin(pid, &plain, &fork, NULL), MW_OK);
        size_t count = threads_check(fork, pid);
        best = count > best ? count : best;
        fork_end(fork);
    }
    assert_int_equal(best, THREADS);
    process_stop(pid);
}

/* ---- pages ---- */

static uint64_t *room;
enum { ROOM_PAGES = 3000 };

/* Written, read only, given back, never touched. */
static void pages_run(void)
{
    for (size_t i = 0; i < ROOM_PAGES; i++) {
        volatile uint64_t *page = room + i * 512;
        if (i % 5 == 0)
            *page = i + 1;
        else if (i % 5 == 1)
            (void)*page;
        else if (i % 5 == 2) {
            *page = 1;
            madvise((void *)(uintptr_t)page, 4096, MADV_DONTNEED);
        }
    }
    seen->ready = 1;
    for (;;)
        pause();
}

static void flags_of(struct mw_image *image, uint8_t *flags)
{
    assert_int_equal(mw_image_pages(image, (uintptr_t)room, ROOM_PAGES, flags, NULL), MW_OK);
}

static void check_pages(bool words)
{
    static uint8_t before[ROOM_PAGES], copied[ROOM_PAGES], after[ROOM_PAGES];
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    room =
        mmap(NULL, ROOM_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(room, ROOM_PAGES * 4096, MADV_NOHUGEPAGE);
    pid_t pid = process_start(pages_run);
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &image, &err), MW_OK);
    if (words)
        mw_live_pages_probe_words(&image);
    flags_of(&image, before);
    assert_true(mw_image_moves(&image));
    enum mw_status status = mw_image_snapshot(&image, &err);
    if (status != MW_OK)
        fail_msg("%s", err.text);
    assert_false(mw_image_moves(&image));
    flags_of(&image, copied);
    for (size_t i = 0; i < ROOM_PAGES; i++) {
        assert_int_equal(copied[i], before[i]);
        assert_int_equal(mw_page_is_resident(copied[i]), i % 5 == 0);
    }
    uint64_t value;
    assert_int_equal(mw_image_read_u64(&image, (uintptr_t)room + 5 * 4096, &value), MW_OK);
    assert_int_equal(value, 6);
    assert_int_equal(mw_image_read_u64(&image, (uintptr_t)room + 3 * 4096, &value), MW_OK);
    assert_int_equal(value, 0); /* reads make a page in the copy alone */
    assert_int_equal(mw_image_stop(&image, &err), MW_OK);
    mw_image_resume(&image);
    assert_int_equal(image.pauses.count, 1);
    mw_image_snapshot_drop(&image);
    flags_of(&image, after);
    assert_memory_equal(after, before, sizeof after);
    mw_image_close(&image);
    process_stop(pid);
    munmap(room, ROOM_PAGES * 4096);
}

static void test_pages(void **state)
{
    (void)state;
    check_pages(false);
}

/* As on Linux before 6.7. */
static void test_pages_by_words(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skip: needs CAP_SYS_ADMIN, to see frame numbers\n");
        skip();
    }
    check_pages(true);
}

/* Somebody kills the copy: what cannot be read then is not believed. */
static void test_copy_is_killed(void **state)
{
    (void)state;
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    pid_t pid = process_start(counting_run);
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &image, &err), MW_OK);
    assert_int_equal(mw_image_snapshot_check(&image, &err), MW_OK);
    assert_int_equal(mw_image_snapshot(&image, &err), MW_OK);
    assert_int_equal(mw_image_snapshot_check(&image, &err), MW_OK);
    kill(mw_live_of(&image)->source.tid, SIGKILL);
    uint64_t word;
    assert_true(wait_until(mw_image_read_u64(&image, (uintptr_t)&private_word, &word) != MW_OK));
    assert_int_equal(mw_image_snapshot_check(&image, &err), MW_GONE);
    assert_non_null(strstr(err.text, "was killed"));
    mw_image_snapshot_drop(&image);
    assert_int_equal(mw_image_snapshot_check(&image, &err), MW_OK);
    assert_int_equal(mw_image_read_u64(&image, (uintptr_t)&private_word, &word), MW_OK);
    mw_image_close(&image);
    process_stop(pid);
}

static bool kill_before_open;

/* The library's own opens come here. The copy's memory is the one that is named by a number. */
int openat(int dir_fd, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    int pid, end = 0;
    if (kill_before_open && sscanf(path, "%d/mem%n", &pid, &end) == 1 && end > 0) {
        kill(pid, SIGKILL);
        assert_true(wait_until(status_has(pid, "State:\tZ")));
    }
    return (int)syscall(SYS_openat, dir_fd, path, flags, mode);
}

/* Before it could be opened: the same error. (Older kernels open what has no memory any more.) */
static void test_copy_is_killed_early(void **state)
{
    (void)state;
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    pid_t pid = process_start(counting_run);
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &image, &err), MW_OK);
    kill_before_open = true;
    enum mw_status status = mw_image_snapshot(&image, &err);
    kill_before_open = false;
    if (status == MW_OK)
        status = mw_image_snapshot_check(&image, &err);
    assert_int_equal(status, MW_GONE);
    assert_non_null(strstr(err.text, "was killed while it was read"));
    assert_non_null(strstr(err.hint, "leave out --fork"));
    mw_image_close(&image);
    process_stop(pid);
}

static void filled_run(void)
{
    memset(room, 7, ROOM_PAGES * 4096);
    seen->ready = 1;
    for (;;)
        pause();
}

/* "NAME:  N kB" of smaps_rollup, in bytes. */
static uint64_t rollup_bytes(pid_t pid, const char *name)
{
    char path[64], text[4096];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    text[got > 0 ? got : 0] = '\0';
    close(fd);
    const char *line = strstr(text, name);
    assert_non_null(line);
    assert_int_equal(sscanf(line + strlen(name), ": %lu", &kib), 1);
    return (uint64_t)kib << 10;
}

static uint64_t private_bytes(pid_t pid)
{
    return rollup_bytes(pid, "Private_Dirty") + rollup_bytes(pid, "Private_Clean");
}

/* Reading the copy costs no memory: a page that is pinned for reading would be copied. */
static void test_reading_copies_nothing(void **state)
{
    (void)state;
    static uint8_t bytes[ROOM_PAGES * 4096];
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    room = mmap(NULL, sizeof bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t pid = process_start(filled_run);
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &image, &err), MW_OK);
    assert_int_equal(mw_image_snapshot(&image, &err), MW_OK);
    pid_t copy = mw_live_of(&image)->source.tid;
    uint64_t before = private_bytes(copy);
    assert_int_equal(mw_image_read(&image, (uintptr_t)room, bytes, sizeof bytes), MW_OK);
    for (size_t i = 0; i < sizeof bytes; i += 512)
        assert_int_equal(bytes[i], 7);
    if (mw_live_of(&image)->source.mem_fd >= 0)
        assert_true(private_bytes(copy) < before + sizeof bytes / 16);
    mw_image_close(&image);
    process_stop(pid);
    munmap(room, sizeof bytes);
}

/* What a fork leaves out comes from the target, under the same stop. */
static void left_out_run(void)
{
    memset(room, 7, ROOM_PAGES * 4096 / 4);
    madvise(room, ROOM_PAGES * 4096 / 8, MADV_DONTFORK);
    madvise((uint8_t *)room + ROOM_PAGES * 4096 / 8, ROOM_PAGES * 4096 / 8, MADV_WIPEONFORK);
    seen->ready = 1;
    for (;;)
        pause();
}

static void test_left_out(void **state)
{
    (void)state;
    static uint8_t flags[ROOM_PAGES / 4], bytes[ROOM_PAGES * 1024];
    struct mw_image image;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    room =
        mmap(NULL, ROOM_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t pid = process_start(left_out_run);
    assert_int_equal(mw_image_open_live(pid, &options, NULL, &image, &err), MW_OK);
    assert_int_equal(mw_image_snapshot(&image, &err), MW_OK);
    assert_true(image.can & MW_CAN_COUNTERS); /* which reading the ranges anew would take away */
    assert_int_equal(mw_image_refresh_ranges(&image, &err), MW_OK);
    assert_true(image.can & MW_CAN_COUNTERS);
    const struct mw_finding *finding = mw_finding_find(&image.findings, "fork-left-out");
    assert_non_null(finding);
    assert_int_equal(finding->bytes, sizeof bytes);
    assert_int_equal(mw_image_read(&image, (uintptr_t)room, bytes, sizeof bytes), MW_OK);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 7);
    assert_int_equal(mw_image_pages(&image, (uintptr_t)room, sizeof flags, flags, &err), MW_OK);
    for (size_t i = 0; i < sizeof flags; i++)
        assert_true(mw_page_is_resident(flags[i]));
    mw_image_close(&image);
    process_stop(pid);
    munmap(room, ROOM_PAGES * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state),
        cmocka_unit_test(test_nobody_is_told),
        cmocka_unit_test(test_nobody_is_told_of_a_death),
        cmocka_unit_test(test_collector_of_orphans),
        cmocka_unit_test(test_no_more_processes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_by_words),
        cmocka_unit_test(test_copy_is_killed),
        cmocka_unit_test(test_copy_is_killed_early),
        cmocka_unit_test(test_reading_copies_nothing),
        cmocka_unit_test(test_left_out),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_fork", tests, NULL, NULL);
}
