/* tests/unit/test_session_retry.c: the walk of a second C library is begun anew, because a lock was
 * held, and what visitors heard of the first one stays.
 *
 * The fixture twolibcs has two C libraries. A visitor here takes the lock of the second one's
 * main_arena, by writing into the target, before it is walked, and gives it back when it is told to
 * forget: so the second walk is busy exactly once. */
#include "session/session.h"
#include "session/trim.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t target;
static int target_input;
static bool is_ready;
static char target_name[16];

static void target_exec(int input, int output)
{
    const char *build = getenv("MEMWHY_BUILD");
    char self[PATH_MAX - 64] = {0}, path[PATH_MAX];
    if (build)
        snprintf(path, sizeof path, "%s/tests/fixtures/twolibcs", build);
    else if (readlink("/proc/self/exe", self, sizeof self - 1) > 0 && strrchr(self, '/')) {
        *strrchr(self, '/') = '\0';
        snprintf(path, sizeof path, "%s/../fixtures/twolibcs", self);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    execl(path, path, "/dev/null", (char *)NULL);
    _exit(127);
}

/* Runs when it has written its first line, and ends when its input does. */
static int target_start(void **state)
{
    (void)state;
    int ends[2], input[2];
    char line[64] = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    target_input = input[1];
    target = fork();
    assert_true(target >= 0);
    if (target == 0)
        target_exec(input[0], ends[1]);
    close(input[0]);
    close(ends[1]);
    for (size_t used = 0; used < sizeof line - 1 && !strchr(line, '\n'); used++)
        if (read(ends[0], line + used, 1) != 1)
            break;
    close(ends[0]);
    snprintf(target_name, sizeof target_name, "%d", target);
    is_ready = strncmp(line, "ready", 5) == 0;
    return 0;
}

static int target_end(void **state)
{
    (void)state;
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    close(target_input);
    return 0;
}

/* ---- a visitor that is heard twice ---- */

struct listener {
    mw_addr lock; /* of the second's main_arena; 0: leave it alone */
    unsigned begun, restarts;
    uint64_t blocks[2]; /* of each allocator, in use */
};

static void lock_write(mw_addr lock, uint32_t value)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", target);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &value, sizeof value, (off_t)lock), sizeof value);
    close(fd);
}

static void listener_begin(void *user)
{
    struct listener *listener = user;
    if (listener->begun++ == 1 && listener->lock)
        lock_write(listener->lock, 1);
}

static void listener_restart(void *user)
{
    struct listener *listener = user;
    assert_true(listener->begun >= 1);
    listener->restarts++;
    listener->blocks[listener->begun - 1] = 0;
    if (listener->lock)
        lock_write(listener->lock, 0);
}

static enum mw_status listener_blocks(void *user, const struct mw_heap_segment *segment,
                                      const struct mw_block *blocks, size_t count)
{
    struct listener *listener = user;
    (void)segment;
    assert_in_range(listener->begun, 1, 2);
    for (size_t i = 0; i < count; i++)
        listener->blocks[listener->begun - 1] += blocks[i].state == MW_BLOCK_IN_USE;
    return MW_OK;
}

static void analyse(struct listener *listener, struct mw_trim_ranges *ranges,
                    struct mw_analysis *analysis)
{
    struct mw_heap_visitor visitor = {
        .user = listener,
        .begin = listener_begin,
        .restart = listener_restart,
        .blocks = listener_blocks,
    };
    struct mw_analysis_options options = {.heap = {.visitors = &visitor, .visitor_count = 1}};
    struct mw_context context;
    struct mw_error err = {0};
    mw_context_init(&context);
    mw_trim_ranges_collect(ranges, &options.heap);
    if (mw_analysis_run(target_name, &options, &context, analysis, &err) != MW_OK)
        fail_msg("%s", err.text);
    mw_trim_ranges_sort(ranges);
}

static bool cannot_run(const struct mw_analysis *analysis)
{
    if (analysis->image.can & MW_CAN_READ)
        return false;
    printf("skip: %s\n", analysis->image.cannot_read.text);
    return true;
}

static void test_the_first_stays(void **state)
{
    (void)state;
    if (!is_ready) {
        printf("skip: no second C library can be loaded\n");
        skip();
    }
    struct listener calm = {0}, busy = {0};
    struct mw_trim_ranges calm_ranges = {0}, busy_ranges = {0};
    struct mw_analysis before, after;
    analyse(&calm, &calm_ranges, &before);
    if (cannot_run(&before)) {
        mw_analysis_deinit(&before);
        skip();
    }
    assert_int_equal(before.allocator_count, 2);
    assert_int_equal(calm.restarts, 0);
    busy.lock = before.allocators[1].arenas[0].address;
    analyse(&busy, &busy_ranges, &after);
    assert_int_equal(busy.restarts, 1);
    assert_int_equal(after.allocator_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(after.allocators[i].reconciled);
        assert_true(calm.blocks[i] > 600);
        assert_int_equal(busy.blocks[i], calm.blocks[i]);
        assert_true(busy.blocks[i] <= after.allocators[i].in_use_count);
    }
    assert_int_equal(busy_ranges.count, calm_ranges.count);
    for (size_t i = 0; i < calm_ranges.count; i++)
        assert_memory_equal(&busy_ranges.items[i], &calm_ranges.items[i],
                            sizeof *calm_ranges.items);
    mw_trim_ranges_deinit(&calm_ranges);
    mw_trim_ranges_deinit(&busy_ranges);
    mw_analysis_deinit(&before);
    mw_analysis_deinit(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_stays, target_start, target_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
