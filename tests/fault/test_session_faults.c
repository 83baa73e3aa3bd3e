/* tests/fault/test_session_faults.c: the n-th allocation, read or question about pages of a whole
 * analysis goes wrong, for each n, on memory, on a core and on a live process; and the live process
 * is killed before the n-th read. Each ends in an error with its text or in an answer that
 * conserves bytes; nothing leaks (the sanitizers look), nothing hangs (each run is timed), and an
 * answer that says it is whole is the whole truth.
 *
 * FAULT_POINTS=0 tries every n; else at most that many, spread evenly (default 100, live 12). */
#include "analysis_check.h"
#include "base/alloc.h"
#include "heap_core.h"
#include "io_faults.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { POINTS_DEFAULT = 100, SECONDS_MAX = 20, POINTS_LIVE = 12 };

/* What is broken, and how. */
enum breaking { BREAK_ALLOC, BREAK_READ, BREAK_SHORT, BREAK_ALL, BREAK_PAGES, BREAK_KILL };
static const char *const breaking_names[] = {"allocation",      "read",  "short read",
                                             "every read from", "pages", "killed before read"};

static long points_wanted(long fallback)
{
    const char *text = getenv("FAULT_POINTS");
    return text ? atol(text) : fallback;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* -- an image of memory whose n-th read or question goes wrong -------------------------------- */

static struct {
    const struct mw_image_ops *real;
    enum breaking how;
    long left, calls;
    bool happened;
} wrapped;

static bool is_due(bool is_pages)
{
    if (is_pages != (wrapped.how == BREAK_PAGES) || wrapped.how == BREAK_ALLOC)
        return false;
    wrapped.calls++;
    bool due = wrapped.left-- == 0 || (wrapped.happened && wrapped.how == BREAK_ALL);
    wrapped.happened |= due;
    return due;
}

static void wrapped_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                         size_t *got_out)
{
    *got_out = 0;
    bool due = is_due(false);
    if (due && wrapped.how != BREAK_SHORT)
        return;
    wrapped.real->read(image, address, buffer, due ? length / 2 : length, got_out);
}

static enum mw_status wrapped_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                    uint8_t *flags_out, struct mw_error *err)
{
    if (is_due(true))
        return mw_fail(err, MW_OS, "pages: injected");
    return wrapped.real->pages(image, start, page_count, flags_out, err);
}

static void wrapped_close(struct mw_image *image)
{
    wrapped.real->close(image);
}

static const struct mw_image_ops wrapped_ops = {
    .name = "wrapped",
    .read = wrapped_read,
    .pages = wrapped_pages,
    .close = wrapped_close,
};

/* -- one target ------------------------------------------------------------------------------ */

struct target {
    struct heap_builder *heap; /* memory; else a name */
    char name[64];
    bool can_move; /* live: two answers need not be the same */
    pid_t pid;
};

static pid_t victim; /* whom the hook kills */

static void victim_kill(void)
{
    kill(victim, SIGKILL);
}

static void arm(const struct target *target, enum breaking how, long n)
{
    static const enum io_fault faults[] = {IO_FAULT_NONE, IO_FAULT_ERROR, IO_FAULT_SHORT,
                                           IO_FAULT_ALL,  IO_FAULT_NONE,  IO_FAULT_HOOK};
    wrapped.how = how;
    wrapped.left = n;
    wrapped.calls = 0;
    wrapped.happened = false;
    victim = target->pid;
    if (how == BREAK_ALLOC && !target->heap)
        mw_alloc_fail_after(n);
    else if (!target->heap)
        io_faults_arm(n < 0 ? IO_FAULT_NONE : faults[how], n, victim_kill);
}

/* How many events there were; negative for allocations, whose gate does not count. */
static long disarm(const struct target *target, bool *happened)
{
    mw_alloc_fail_after(-1);
    if (target->heap) {
        *happened = wrapped.happened;
        return wrapped.calls;
    }
    return io_faults_disarm(happened);
}

static void ask(const struct target *target, struct analysis_run *run)
{
    struct mw_image image;
    if (!target->heap) {
        analysis_run_target(run, target->name);
        return;
    }
    heap_core_open(target->heap, &image);
    wrapped.real = image.ops;
    image.ops = &wrapped_ops;
    if (wrapped.how == BREAK_ALLOC) /* not those of the test's own image */
        mw_alloc_fail_after(wrapped.left);
    analysis_run_image(run, &image);
}

struct truth {
    uint64_t digest, findings; /* the second of what is said */
    size_t allocator_count;
    long calls;
};

/* Kinds and counts; the order of findings is not asked. */
static uint64_t findings_digest(const struct mw_findings *findings)
{
    uint64_t digest = findings->dropped;
    for (size_t i = 0; i < findings->count; i++) {
        uint64_t one = findings->items[i].count;
        for (const char *at = findings->items[i].kind; *at; at++)
            one = one * 31 + (uint64_t)*at;
        digest += one;
    }
    return digest;
}

static bool says_more(const struct analysis_run *run, const struct truth *truth)
{
    for (size_t i = 0; i < run->analysis.allocator_count; i++)
        if (!run->analysis.allocators[i].reconciled)
            return true;
    return findings_digest(&run->analysis.findings) != truth->findings || run->analysis.is_partial;
}

static void truth_take(const struct target *target, enum analysis_kind kind, enum breaking how,
                       struct truth *truth)
{
    struct analysis_run run = {.kind = kind, .workers = 1};
    bool happened;
    arm(target, how, -1);
    ask(target, &run);
    truth->calls = disarm(target, &happened);
    if (run.status != MW_OK || analysis_wrong(&run))
        fail_msg("%s without a fault: %s", analysis_kind_name(kind),
                 run.status != MW_OK ? run.err.text : analysis_wrong(&run));
    truth->digest = analysis_digest(&run);
    truth->allocator_count = run.analysis.allocator_count;
    truth->findings = findings_digest(&run.analysis.findings);
    analysis_run_deinit(&run);
}

static bool status_is_known(enum mw_status status, enum breaking how)
{
    if (how == BREAK_ALLOC)
        return status == MW_OK || status == MW_NOMEM;
    return status == MW_OK || status == MW_OS || status == MW_GONE || status == MW_FAULT ||
           status == MW_TRUNCATED || status == MW_UNSUPPORTED || status == MW_PERM ||
           status == MW_NOT_FOUND || status == MW_INVALID || status == MW_CORRUPT;
}

/* Is it another answer? Of a process only that its heap is seen is asked; and of memory of ours no
 * more when it is not seen at all: sources say themselves that they cannot read. */
static bool differs(const struct target *target, const struct analysis_run *run,
                    const struct truth *truth)
{
    bool is_seen = run->analysis.allocator_count == truth->allocator_count;
    if (target->can_move) /* one read that fails and then works again is no state of a process */
        return !is_seen && (wrapped.how == BREAK_ALL || wrapped.how == BREAK_KILL);
    return (is_seen || !target->heap) && analysis_digest(run) != truth->digest;
}

/* One run with the n-th event going wrong; false when there were not so many. The emitters are part
 * of what may run out of memory. */
static bool break_once(const struct target *target, enum analysis_kind kind, enum breaking how,
                       long n, const struct truth *truth)
{
    struct analysis_run run = {.kind = kind, .workers = 1};
    enum mw_status emitted = MW_OK;
    bool happened;
    double started = seconds_now();
    arm(target, how, n);
    ask(target, &run);
    if (how != BREAK_ALLOC)
        disarm(target, &happened);
    const char *unprintable = analysis_outputs_wrong(&run, how == BREAK_ALLOC ? &emitted : NULL);
    if (how == BREAK_ALLOC) {
        disarm(target, &happened);
        happened = run.status == MW_NOMEM || emitted == MW_NOMEM ||
                   (run.status == MW_OK && says_more(&run, truth));
    }
    const char *wrong = analysis_wrong(&run);
    if (!wrong)
        wrong = unprintable;
    if (!wrong && !status_is_known(run.status, how))
        wrong = run.err.text;
    if (!wrong && seconds_now() - started > SECONDS_MAX)
        wrong = "it takes too long";
    if (!wrong && run.status == MW_OK && !says_more(&run, truth) && differs(target, &run, truth))
        wrong = "another answer, and nothing says why";
    if (wrong)
        fail_msg("%s, %s %ld: %s", analysis_kind_name(kind), breaking_names[how], n, wrong);
    analysis_run_deinit(&run);
    return happened;
}

/* All n up to the last that happens, or evenly spread ones. */
static void sweep(const struct target *target, enum analysis_kind kind, enum breaking how)
{
    struct truth truth;
    truth_take(target, kind, how, &truth);
    long points = points_wanted(POINTS_DEFAULT), tried = 0;
    if (how == BREAK_ALLOC) { /* not counted: every n until none fails, then none in a row */
        for (long quiet = 0, n = 0; quiet < 3 && n < 100000; n++, tried++)
            quiet = break_once(target, kind, how, n, &truth) ? 0 : quiet + 1;
    } else {
        long step = points > 0 && truth.calls > points ? truth.calls / points : 1;
        for (long n = 0; n < truth.calls; n += step, tried++)
            if (!break_once(target, kind, how, n, &truth))
                fail_msg("%s: %s %ld of %ld did not happen", analysis_kind_name(kind),
                         breaking_names[how], n, truth.calls);
    }
    print_message("# %s: %s: %ld tried\n", analysis_kind_name(kind), breaking_names[how], tried);
}

/* -- memory ---------------------------------------------------------------------------------- */

static void sweep_memory(enum breaking how)
{
    for (unsigned i = 0; i < HEAP_CORE_SHAPES; i++) {
        const struct heap_family *family = &heap_families[i % 2 ? 9 : 7];
        struct target target = {.heap = heap_core_build(family, i)};
        for (unsigned kind = 0; kind < ANALYSIS_KINDS; kind++)
            sweep(&target, kind, how);
        heap_delete(target.heap);
    }
}

static void test_memory_allocations(void **state)
{
    (void)state;
    sweep_memory(BREAK_ALLOC);
}

static void test_memory_reads(void **state)
{
    (void)state;
    sweep_memory(BREAK_READ);
}

static void test_memory_short_reads(void **state)
{
    (void)state;
    sweep_memory(BREAK_SHORT);
}

static void test_memory_gone(void **state)
{
    (void)state;
    sweep_memory(BREAK_ALL);
}

static void test_memory_pages(void **state)
{
    (void)state;
    sweep_memory(BREAK_PAGES);
}

/* -- a core ---------------------------------------------------------------------------------- */

static int core_fd = -1;

static void core_make(struct target *target)
{
    struct heap_builder *heap = heap_core_build(&heap_families[7], HEAP_CORE_THREADS);
    size_t length;
    uint8_t *bytes = heap_core_file(heap, &length);
    core_fd = memfd_create("core", MFD_CLOEXEC);
    assert_true(core_fd >= 0);
    assert_int_equal(write(core_fd, bytes, length), length);
    heap_core_punch(core_fd, bytes, length);
    free(bytes);
    heap_delete(heap);
    *target = (struct target){0};
    snprintf(target->name, sizeof target->name, "/proc/self/fd/%d", core_fd);
}

static void sweep_core(enum breaking how)
{
    struct target target;
    core_make(&target);
    for (unsigned kind = 0; kind < ANALYSIS_KINDS; kind++)
        sweep(&target, kind, how);
    close(core_fd);
}

static void test_core_allocations(void **state)
{
    (void)state;
    sweep_core(BREAK_ALLOC);
}

static void test_core_reads(void **state)
{
    (void)state;
    sweep_core(BREAK_READ);
}

static void test_core_short_reads(void **state)
{
    (void)state;
    sweep_core(BREAK_SHORT);
}

static void test_core_gone(void **state)
{
    (void)state;
    sweep_core(BREAK_ALL);
}

/* -- a live process -------------------------------------------------------------------------- */

/* The fixture that makes a heap of 16 threads and stands still; it dies with us. */
static bool fixture_start(struct target *target)
{
    const char *build = getenv("MEMWHY_BUILD");
    char path[512], line[64] = "";
    int out[2], in[2];
    snprintf(path, sizeof path, "%s/tests/fixtures/heapshape", build ? build : "build");
    if (access(path, X_OK) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(in, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(path, path, "threads16", "/dev/null", (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    close(in[0]);
    ssize_t got = read(out[0], line, sizeof line - 1);
    close(out[0]);
    fcntl(in[1], F_SETFD, FD_CLOEXEC); /* stays open: its end would end the fixture */
    *target = (struct target){.pid = pid, .can_move = true};
    snprintf(target->name, sizeof target->name, "%d", pid);
    return got > 0 && strncmp(line, "ready", 5) == 0;
}

static void fixture_stop(struct target *target)
{
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
}

/* The others read as these do; each reading takes some ten milliseconds here. */
static void sweep_live(enum breaking how)
{
    static const enum analysis_kind kinds[] = {ANALYSIS_REPORT, ANALYSIS_TRIM, ANALYSIS_NO_HEAP};
    struct target target;
    struct truth truth;
    if (!fixture_start(&target)) {
        print_message("skip: the fixture heapshape does not start here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        enum analysis_kind kind = kinds[i];
        truth_take(&target, kind, how, &truth);
        long points = points_wanted(POINTS_LIVE), tried = 0;
        long step = points > 0 && truth.calls > points ? truth.calls / points : 1;
        for (long n = 0; n < truth.calls; n += step, tried++) {
            break_once(&target, kind, how, n, &truth); /* how many reads there are may differ */
            if (how == BREAK_KILL) {
                fixture_stop(&target);
                assert_true(fixture_start(&target));
            }
            assert_int_equal(kill(target.pid, 0), 0);
        }
        print_message("# live %s: %s: %ld of %ld tried\n", analysis_kind_name(kind),
                      breaking_names[how], tried, truth.calls);
    }
    fixture_stop(&target);
}

static void test_live_reads(void **state)
{
    (void)state;
    sweep_live(BREAK_READ);
}

static void test_live_short_reads(void **state)
{
    (void)state;
    sweep_live(BREAK_SHORT);
}

static void test_live_all_reads(void **state)
{
    (void)state;
    sweep_live(BREAK_ALL);
}

static void test_live_exits(void **state)
{
    (void)state;
    sweep_live(BREAK_KILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_allocations), cmocka_unit_test(test_memory_reads),
        cmocka_unit_test(test_memory_short_reads), cmocka_unit_test(test_memory_gone),
        cmocka_unit_test(test_memory_pages),       cmocka_unit_test(test_core_allocations),
        cmocka_unit_test(test_core_reads),         cmocka_unit_test(test_core_short_reads),
        cmocka_unit_test(test_core_gone),          cmocka_unit_test(test_live_reads),
        cmocka_unit_test(test_live_short_reads),   cmocka_unit_test(test_live_all_reads),
        cmocka_unit_test(test_live_exits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
