/* tests/unit/test_image_live.c: a child of our own, whose memory we know page for page: regions,
 * contents, residency with the zero page, both ways to read each; exits, zombies, missing rights.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "child.h"
#include "image/live.h"
#include "image/open.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 4003, MADVISE_GUARD_INSTALL = 102, HUGE = 2 << 20 };

/* What the child has done, for the test to check against. */
struct truth {
    uint8_t *anon;   /* PAGES pages: see page_kind() */
    uint8_t *hole;   /* 3 pages, the middle one is not mapped */
    uint8_t *huge;   /* two huge pages' worth: the first only read, the second written */
    uint8_t *shared; /* 4 pages: the second is written */
    uint8_t *file;   /* 2 pages of the program, untouched */
    uint8_t *none;   /* a page without any permission */
    int guard_errno;
};

enum page_kind { ABSENT, WRITTEN, READ_ONLY, GUARD };

static enum page_kind page_kind(size_t index)
{
    return index % 7 == 3     ? WRITTEN
           : index % 11 == 5  ? READ_ONLY
           : index % 97 == 50 ? GUARD
                              : ABSENT;
}

static uint8_t *map_pages(size_t count, int prot, int flags)
{
    void *at = mmap(NULL, count * PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        _exit(1);
    return at;
}

static void fill_anon(struct truth *truth)
{
    truth->anon = map_pages(PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
    madvise(truth->anon, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++) {
        volatile uint8_t *page = truth->anon + i * PAGE;
        if (page_kind(i) == WRITTEN)
            memset((void *)page, (int)(i % 251) + 1, PAGE);
        else if (page_kind(i) == READ_ONLY)
            (void)page[0];
        else if (page_kind(i) == GUARD && madvise((void *)page, PAGE, MADVISE_GUARD_INSTALL) != 0)
            truth->guard_errno = errno;
    }
}

static void prepare(void *report)
{
    struct truth *truth = report;
    fill_anon(truth);
    uint8_t *huge = map_pages(3 * HUGE / PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    truth->huge = (uint8_t *)(((uintptr_t)huge + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    madvise(truth->huge, 2 * HUGE, MADV_HUGEPAGE);
    (void)*(volatile uint8_t *)truth->huge;
    truth->huge[HUGE] = 1;
    truth->shared = map_pages(4, PROT_READ | PROT_WRITE, MAP_SHARED);
    truth->shared[PAGE] = 's';
    truth->none = map_pages(1, PROT_NONE, MAP_PRIVATE);
    int fd = open("/proc/self/exe", O_RDONLY);
    truth->file = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    truth->hole = map_pages(3, PROT_READ | PROT_WRITE, MAP_PRIVATE); /* last: nothing fills it */
    memset(truth->hole, 'h', 3 * PAGE);
    munmap(truth->hole + PAGE, PAGE);
}

static struct child child;
static struct truth *truth;
static struct mw_image image;

static void open_child(void)
{
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    enum mw_status status = mw_image_open_live(child.pid, &options, NULL, &image, &err);
    if (status != MW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(status, MW_OK);
}

static int setup(void **state)
{
    (void)state;
    truth = child_start(&child, prepare, sizeof *truth);
    open_child();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mw_image_close(&image);
    child_stop(&child, truth, sizeof *truth);
    return 0;
}

static mw_addr at(const void *pointer)
{
    return (uintptr_t)pointer;
}

/* Can this machine's kernel and our rights do what the test needs? root in a plain container can.
 */
static void need(unsigned can)
{
    if ((image.can & can) != can)
        skip();
}

static void test_what_it_says(void **state)
{
    (void)state;
    assert_int_equal(image.kind, MW_IMAGE_LIVE);
    assert_int_equal(image.page_size, PAGE);
    assert_true(image.can & MW_CAN_COUNTERS);
#if defined __x86_64__
    assert_int_equal(image.arch, MW_ARCH_X86_64);
#elif defined __aarch64__
    assert_int_equal(image.arch, MW_ARCH_AARCH64);
#endif
    assert_int_equal(image.process.pid, child.pid);
    assert_int_equal(image.process.ppid, getpid());
    /* A fork has our auxiliary vector. */
    assert_true(image.entry == getauxval(AT_ENTRY) && image.phdr == getauxval(AT_PHDR));
    assert_true(image.base == getauxval(AT_BASE) && image.vdso == getauxval(AT_SYSINFO_EHDR));
    assert_true(image.at_random == getauxval(AT_RANDOM));
}

static void test_regions(void **state)
{
    (void)state;
    const struct mw_mapping *map = mw_image_region(&image, at(truth->anon));
    assert_non_null(map);
    assert_int_equal(map->perms, MW_PERM_READ | MW_PERM_WRITE);
    assert_true(mw_mapping_is_anonymous(map));
    assert_non_null(mw_image_region(&image, at(truth->hole)));
    assert_null(mw_image_region(&image, at(truth->hole + PAGE)));
    assert_int_equal(mw_image_region(&image, at(truth->none))->perms, 0);
    assert_true(mw_image_region(&image, at(truth->shared))->perms & MW_PERM_SHARED);
    assert_non_null(strstr(mw_image_region(&image, at(truth->file))->name, "test_image_live"));
}

static void check_contents(void)
{
    uint8_t bytes[3 * PAGE], expected[PAGE];
    for (size_t i = 0; i < PAGES; i++) {
        if (page_kind(i) == GUARD && truth->guard_errno == 0) {
            assert_int_equal(mw_image_read(&image, at(truth->anon) + i * PAGE, bytes, PAGE),
                             MW_FAULT);
            continue;
        }
        if (page_kind(i) == ABSENT)
            continue; /* a read would touch it: that is the window's business */
        assert_int_equal(mw_image_read(&image, at(truth->anon) + i * PAGE, bytes, PAGE), MW_OK);
        memset(expected, page_kind(i) == WRITTEN ? (int)(i % 251) + 1 : 0, PAGE);
        assert_memory_equal(bytes, expected, PAGE);
    }
    /* To the byte up to the hole, from both sides, and across. */
    assert_int_equal(mw_image_read_some(&image, at(truth->hole) + 100, bytes, sizeof bytes),
                     PAGE - 100);
    assert_int_equal(mw_image_read_some(&image, at(truth->hole) + PAGE, bytes, 8), 0);
    assert_int_equal(mw_image_read_some(&image, at(truth->hole) + 2 * PAGE, bytes, PAGE), PAGE);
    assert_int_equal(mw_image_read(&image, at(truth->hole) + PAGE - 4, bytes, 8), MW_FAULT);
    assert_int_equal(mw_image_read(&image, UINT64_MAX - 8, bytes, 32), MW_FAULT);
    assert_int_equal(mw_image_read(&image, 0, bytes, 1), MW_FAULT);
}

static void test_contents(void **state)
{
    (void)state;
    need(MW_CAN_READ);
    struct mw_live *live = mw_live_of(&image);
    check_contents();
    bool vm_readv_works = live->source.vm_readv_works;
    live->source.vm_readv_works = false; /* as under seccomp */
    check_contents();
    if (vm_readv_works) { /* as where /proc/PID/mem is closed */
        live->source.vm_readv_works = true;
        int fd = live->source.mem_fd;
        live->source.mem_fd = -1;
        check_contents();
        live->source.mem_fd = fd;
    }
    uint64_t word = 0;
    assert_int_equal(mw_image_read_u64(&image, at(truth->hole), &word), MW_OK);
    assert_true(word == 0x6868686868686868u);
}

/* Large reads, both sides of the hole found by the large-read path. */
static void test_large_read(void **state)
{
    (void)state;
    need(MW_CAN_READ);
    size_t length = 2 * HUGE;
    uint8_t *bytes = malloc(length);
    assert_int_equal(mw_image_read(&image, at(truth->huge), bytes, length), MW_OK);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(bytes[i], i == HUGE);
    struct mw_live *live = mw_live_of(&image);
    assert_true(live->source.vm_readv_works || live->source.mem_fd >= 0);
    free(bytes);
}

static void check_pages(void)
{
    uint8_t flags[PAGES];
    assert_int_equal(mw_image_pages(&image, at(truth->anon), PAGES, flags, NULL), MW_OK);
    uint64_t resident = 0;
    for (size_t i = 0; i < PAGES; i++) {
        enum page_kind kind = page_kind(i);
        if (kind == GUARD && truth->guard_errno == 0)
            assert_int_equal(flags[i], MW_PAGE_GUARD);
        else if (kind == WRITTEN)
            assert_int_equal(flags[i], MW_PAGE_PRESENT);
        else if (kind == READ_ONLY)
            assert_int_equal(flags[i], MW_PAGE_PRESENT | MW_PAGE_ZERO);
        else
            assert_int_equal(flags[i], 0);
        resident += mw_page_is_resident(flags[i]);
    }
    const struct mw_mapping *map = mw_image_region(&image, at(truth->anon));
    if (map->start == at(truth->anon) && mw_mapping_size(map) == PAGES * PAGE)
        assert_true(resident * PAGE == mw_mapping_counter(map, MW_COUNTER_RSS));
    assert_int_equal(mw_image_pages(&image, at(truth->shared), 4, flags, NULL), MW_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(flags[i], i == 1 ? MW_PAGE_PRESENT | MW_PAGE_FILE : 0);
    assert_int_equal(mw_image_pages(&image, at(truth->hole), 3, flags, NULL), MW_OK);
    assert_true(mw_page_is_resident(flags[0]) && flags[1] == 0 && mw_page_is_resident(flags[2]));
}

static void test_pages(void **state)
{
    (void)state;
    need(MW_CAN_READ | MW_CAN_PAGES);
    check_pages();
    struct mw_live *live = mw_live_of(&image);
    uint64_t zero_pfn = live->zero_pfn;
    live->scan_works = false; /* Linux before 6.7, without CAP_SYS_ADMIN */
    live->zero_pfn = 0;
    check_pages();
    mw_live_pages_probe_words(&image); /* and with it */
    check_pages();
    live->zero_pfn = zero_pfn;
}

/* The huge zero page is no RSS either; present by both ways to ask. */
static void test_huge_zero_page(void **state)
{
    (void)state;
    need(MW_CAN_READ | MW_CAN_PAGES);
    uint8_t flags[2 * HUGE / PAGE];
    struct mw_live *live = mw_live_of(&image);
    const struct mw_mapping *map = mw_image_region(&image, at(truth->huge));
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(mw_image_pages(&image, at(truth->huge), 2 * HUGE / PAGE, flags, NULL),
                         MW_OK);
        size_t resident = 0;
        for (size_t i = 0; i < 2 * HUGE / PAGE; i++)
            resident += mw_page_is_resident(flags[i]);
        assert_true(resident * PAGE == mw_mapping_counter(map, MW_COUNTER_RSS));
        assert_false(mw_page_is_resident(flags[0]));
        assert_true(mw_page_is_resident(flags[HUGE / PAGE]));
        live->scan_works = false;
    }
}

/* All mappings of the child: the sum of the pages is RSS, and asking does not change it. */
static void test_pages_add_up_to_rss(void **state)
{
    (void)state;
    need(MW_CAN_PAGES);
    for (size_t i = 0; i < image.regions.count; i++) {
        const struct mw_mapping *map = &image.regions.items[i];
        size_t count = (size_t)(mw_mapping_size(map) / PAGE), resident = 0;
        uint8_t *flags = malloc(count);
        assert_int_equal(mw_image_pages(&image, map->start, count, flags, NULL), MW_OK);
        for (size_t k = 0; k < count; k++)
            resident += mw_page_is_resident(flags[k]);
        free(flags);
        bool is_special = map->name[0] == '[' && strncmp(map->name, "[v", 2) == 0;
        if (!is_special)
            assert_true(resident * PAGE == mw_mapping_counter(map, MW_COUNTER_RSS));
    }
    uint64_t before = image.process.vm_rss;
    assert_int_equal(mw_image_refresh(&image, NULL), MW_OK);
    assert_true(image.process.vm_rss == before);
}

static void test_bad_ranges(void **state)
{
    (void)state;
    need(MW_CAN_PAGES);
    uint8_t flags[4] = {0};
    struct mw_error err = {0};
    assert_int_equal(mw_image_pages(&image, at(truth->anon) + 1, 1, flags, &err), MW_INVALID);
    assert_int_equal(mw_image_pages(&image, UINT64_MAX - PAGE + 1, 4, flags, &err), MW_INVALID);
    assert_int_equal(mw_image_pages(&image, 0xffffffffff600000, 1, flags, &err), MW_OK);
    assert_int_equal(flags[0], 0);
    assert_int_equal(mw_image_pages(&image, 0x7ffffffff0000000, 4, flags, &err), MW_OK);
    assert_int_equal(flags[3], 0);
}

static void test_exit_half_way(void **state)
{
    (void)state;
    need(MW_CAN_READ | MW_CAN_PAGES);
    uint8_t flags[16], bytes[64];
    kill(child.pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT); /* a zombie now */
    for (int pass = 0; pass < 2; pass++) {
        struct mw_error err = {0};
        assert_int_equal(mw_image_pages(&image, at(truth->anon), 16, flags, &err), MW_GONE);
        assert_non_null(strstr(err.text, "exited"));
        assert_int_equal(mw_image_refresh(&image, &err), MW_GONE);
        assert_int_equal(mw_image_read(&image, at(truth->hole), bytes, sizeof bytes), MW_FAULT);
        assert_true(image.regions.count > 0); /* still what they were */
        mw_live_of(&image)->scan_works = false;
        if (pass == 0) {
            struct mw_image none;
            assert_int_equal(mw_image_open_live(child.pid, NULL, NULL, &none, &err), MW_GONE);
            assert_non_null(strstr(err.text, "zombie"));
        }
    }
    waitpid(child.pid, NULL, 0);
    child.pid = 0;
}

static void test_no_such_process(void **state)
{
    (void)state;
    struct mw_image none;
    struct mw_error err = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_int_equal(mw_image_open_live(pid, NULL, NULL, &none, &err), MW_NOT_FOUND);
    assert_true(err.hint[0] != '\0');
    assert_int_equal(mw_image_open("99999999999999999999", NULL, NULL, &none, &err), MW_NOT_FOUND);
    assert_int_equal(mw_image_open("0", NULL, NULL, &none, &err), MW_NOT_FOUND);
}

static void test_kernel_thread(void **state)
{
    (void)state;
    char comm[32] = "";
    int fd = open("/proc/2/comm", O_RDONLY);
    if (fd < 0 || read(fd, comm, sizeof comm - 1) <= 0 || strncmp(comm, "kthreadd", 8) != 0)
        skip(); /* in a pid namespace of its own there are none */
    close(fd);
    struct mw_image none;
    struct mw_error err = {0};
    assert_int_equal(mw_image_open_live(2, NULL, NULL, &none, &err), MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "kernel thread"));
}

static void *thread_waits(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void prepare_headless(void *report)
{
    (void)report;
    pthread_t thread;
    pthread_create(&thread, NULL, thread_waits, NULL);
}

/* The first thread has left by pthread_exit(): /proc/PID/smaps is empty, the process is not. */
static void test_first_thread_has_exited(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare_headless(NULL);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        pthread_exit(NULL);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct mw_image headless;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    enum mw_status status = MW_OK;
    for (int i = 0; i < 100; i++) { /* until it is a zombie */
        char name[64], text[64] = "";
        snprintf(name, sizeof name, "/proc/%d/smaps", pid);
        int fd = open(name, O_RDONLY);
        ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : -1;
        if (fd >= 0)
            close(fd);
        if (got == 0)
            break;
        usleep(10000);
    }
    status = mw_image_open_live(pid, &options, NULL, &headless, &err);
    assert_int_equal(status, MW_OK);
    assert_true(headless.regions.count > 5);
    uint64_t word;
    if (headless.can & MW_CAN_READ)
        assert_int_equal(mw_image_read_u64(&headless, headless.at_random, &word), MW_OK);
    assert_int_equal(mw_image_refresh(&headless, &err), MW_OK);
    assert_true(headless.arch != MW_ARCH_UNKNOWN);
    assert_int_equal(headless.process.pid, pid);
    assert_true(headless.process.vm_rss != MW_UNKNOWN);
    assert_true(headless.process.has_settings);
    size_t files = 0;
    for (size_t i = 0; i < headless.regions.count; i++) {
        int fd = mw_image_open_file(&headless, &headless.regions.items[i]);
        files += fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    assert_true(files > 0);
    mw_image_close(&headless);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

/* Without need_read nothing of the contents can be had, and it says why. */
static void test_contents_were_not_asked_for(void **state)
{
    (void)state;
    struct mw_image plain;
    uint64_t word;
    assert_int_equal(mw_image_open_live(child.pid, NULL, NULL, &plain, NULL), MW_OK);
    assert_false(plain.can & MW_CAN_READ);
    assert_int_equal(mw_image_read_u64(&plain, at(truth->hole), &word), MW_FAULT);
    assert_true(plain.cannot_read.text[0] != '\0');
    mw_image_close(&plain);
}

/* /proc of a machine without smaps: mappings from maps, counters unknown, and told. */
static void test_sysroot_without_smaps(void **state)
{
    (void)state;
    char root[] = "/tmp/memwhy-live-XXXXXX", path[256], text[256];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/proc", root);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/proc/77", root);
    mkdir(path, 0755);
    const char *const files[][2] = {
        {"status", "Name:\tx\nState:\tS (sleeping)\nVmSize:\t 4 kB\n"},
        {"stat", "77 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n"},
        {"maps", "1000-2000 rw-p 00000000 00:00 0 \n"},
    };
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/proc/77/%s", root, files[i][0]);
        FILE *file = fopen(path, "w");
        fputs(files[i][1], file);
        fclose(file);
    }
    const struct mw_image_open_options options = {.need_read = true, .sysroot = root};
    struct mw_image fake;
    struct mw_error err = {0};
    assert_int_equal(mw_image_open_live(77, &options, NULL, &fake, &err), MW_OK);
    assert_int_equal(fake.can, 0);
    assert_int_equal(fake.regions.count, 1);
    assert_int_equal(mw_finding_find(&fake.findings, "no-smaps")->count, 1);
    assert_int_equal(mw_image_refresh(&fake, &err), MW_OK);
    assert_int_equal(mw_finding_find(&fake.findings, "no-smaps")->count, 1);
    assert_true(fake.cannot_read.text[0] != '\0');
    mw_image_close(&fake);
    snprintf(text, sizeof text, "rm -r %s", root);
    assert_int_equal(system(text), 0);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const struct mw_image_open_options options = {.need_read = true};
    int failures = 0;
    for (long n = 0;; n++) {
        struct mw_image other;
        struct mw_error err = {0};
        mw_alloc_fail_after(n);
        enum mw_status status = mw_image_open_live(child.pid, &options, NULL, &other, &err);
        mw_alloc_fail_after(-1);
        if (status == MW_OK)
            mw_image_close(&other);
        else
            failures++;
        if (status != MW_OK) {
            assert_int_equal(status, MW_NOMEM);
            assert_true(err.text[0] != '\0');
        }
        if (n > 120)
            break;
    }
    assert_true(failures > 5);
}

/* -- holding still --------------------------------------------------------------------------- */

enum { THREADS = 5 };

struct counters {
    volatile uint64_t ticks[THREADS];
};

static void *thread_counts(void *counter)
{
    pthread_setname_np(pthread_self(), "counting");
    for (volatile uint64_t *ticks = counter;; usleep(1))
        for (int i = 0; i < 1000; i++)
            ++*ticks;
    return NULL;
}

static void prepare_threads(void *report)
{
    struct counters *counters = report;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, thread_counts, (void *)&counters->ticks[i]);
    }
    while (counters->ticks[THREADS - 1] == 0)
        usleep(100);
}

static void test_stop_and_resume(void **state)
{
    (void)state;
    struct child busy;
    struct counters *counters = child_start(&busy, prepare_threads, sizeof *counters), before;
    struct mw_context context;
    mw_context_init(&context);
    struct mw_image moving;
    struct mw_error err = {0};
    const struct mw_image_open_options options = {.need_read = true};
    assert_int_equal(mw_image_open_live(busy.pid, &options, &context, &moving, NULL), MW_OK);
    for (int round = 0; round < 3; round++) {
        enum mw_status status = mw_image_stop(&moving, &err);
        if (status == MW_PERM) {
            mw_image_close(&moving);
            child_stop(&busy, counters, sizeof *counters);
            skip(); /* ptrace is not permitted here */
        }
        assert_int_equal(status, MW_OK);
        before = *counters;
        usleep(20000);
        assert_memory_equal((const void *)&before, (const void *)counters, sizeof before);
        assert_int_equal(moving.thread_count, THREADS + 1);
        assert_true(moving.can & MW_CAN_REGISTERS);
        size_t counting = 0;
        for (size_t i = 0; i < moving.thread_count; i++) {
            const struct mw_thread *thread = &moving.threads[i];
            assert_true(thread->has_registers && thread->tid > 0);
            assert_non_null(mw_image_region(&moving, thread->sp));
            assert_true(mw_image_region(&moving, thread->pc)->perms & MW_PERM_EXEC);
            counting += strcmp(thread->name, "counting") == 0;
        }
        assert_int_equal(counting, THREADS); /* in every round, though read in the first */
        mw_image_resume(&moving);
        assert_false(moving.can & MW_CAN_REGISTERS);
        assert_int_equal(moving.thread_count, THREADS + 1); /* where they were */
        usleep(50000);
        for (int i = 0; i < THREADS; i++)
            assert_true(counters->ticks[i] > before.ticks[i]);
    }
    assert_true(moving.pauses.count == 3);
    assert_true(moving.pauses.total_ns >= 60u * 1000 * 1000);
    assert_true(moving.pauses.longest_ns >= 20u * 1000 * 1000);
    assert_true(moving.pauses.longest_ns <= moving.pauses.total_ns);
    assert_int_equal(mw_image_stop(&moving, &err), MW_OK);
    mw_image_close(&moving); /* lets go */
    before = *counters;
    usleep(50000);
    assert_true(counters->ticks[0] > before.ticks[0]);
    child_stop(&busy, counters, sizeof *counters);
}

/* An idle process opens within milliseconds; wide, because the machine may be busy. */
static void test_time(void **state)
{
    (void)state;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t begin = mw_clock_monotonic_ns();
        mw_image_close(&image);
        open_child();
        uint64_t took = mw_clock_monotonic_ns() - begin;
        best = took < best ? took : best;
    }
    print_message("# open: %.2f ms\n", (double)best / 1e6);
    assert_true(best < 50u * 1000 * 1000);
}

#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CHILD(test_what_it_says),
        WITH_CHILD(test_regions),
        WITH_CHILD(test_contents),
        WITH_CHILD(test_large_read),
        WITH_CHILD(test_pages),
        WITH_CHILD(test_huge_zero_page),
        WITH_CHILD(test_pages_add_up_to_rss),
        WITH_CHILD(test_bad_ranges),
        WITH_CHILD(test_exit_half_way),
        cmocka_unit_test(test_no_such_process),
        cmocka_unit_test(test_kernel_thread),
        cmocka_unit_test(test_first_thread_has_exited),
        WITH_CHILD(test_contents_were_not_asked_for),
        cmocka_unit_test(test_sysroot_without_smaps),
        WITH_CHILD(test_out_of_memory),
        cmocka_unit_test(test_stop_and_resume),
        WITH_CHILD(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
