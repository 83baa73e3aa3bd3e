/* tests/unit/test_unwind.c: stacks made by hand: chains of frame pointers that end, loop, lead out
 * of memory or into nothing; grouping. Rules of real code are tested live
 * (tests/live/test_stacks.py).
 */
#include "image/open.h"
#include "threads/unwind.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STACK = 0x7f0000000000, CODE = 0x400000, STACK_BYTES = 64 << 10, CODE_BYTES = 0x4000 };
enum { RBP = 4, RIP = 16, RSP = 19, REGISTERS = 27 };

static uint64_t stack_words[STACK_BYTES / 8];
static uint8_t code_bytes[CODE_BYTES];

struct made {
    struct mw_image image;
    struct mw_context context;
    struct mw_names *names;
    struct mw_thread threads[8];
};

static void made_open(struct made *made, size_t thread_count)
{
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = CODE,
                     .end = CODE + CODE_BYTES,
                     .perms = MW_PERM_READ | MW_PERM_EXEC,
                     .name = ""},
         .bytes = code_bytes},
        {.mapping = {.start = STACK,
                     .end = STACK + STACK_BYTES,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = ""},
         .bytes = stack_words},
    };
    memset(stack_words, 0, sizeof stack_words);
    memset(made->threads, 0, sizeof made->threads);
    mw_context_init(&made->context);
    assert_int_equal(mw_image_open_memory(parts, 2, &made->image, NULL), MW_OK);
    made->image.arch = MW_ARCH_X86_64;
    made->image.threads = made->threads;
    made->image.thread_count = thread_count;
    assert_int_equal(mw_names_open(&made->image, NULL, &made->context, &made->names, NULL), MW_OK);
}

static void made_close(struct made *made)
{
    mw_names_free(made->names);
    made->image.threads = NULL;
    made->image.thread_count = 0;
    mw_image_close(&made->image);
}

static void thread_set(struct mw_thread *thread, int32_t tid, mw_addr pc, mw_addr sp, mw_addr fp)
{
    thread->tid = tid;
    thread->has_registers = true;
    thread->register_count = REGISTERS;
    thread->pc = thread->registers[RIP] = pc;
    thread->sp = thread->registers[RSP] = sp;
    thread->registers[RBP] = fp;
}

static void word_put(mw_addr at, uint64_t value)
{
    stack_words[(at - STACK) / 8] = value;
}

/* count frames of 32 bytes from at on; the last links to `last` and returns to `back`. */
static void chain_put(mw_addr at, size_t count, mw_addr last, mw_addr back)
{
    for (size_t i = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        word_put(at + i * 32, is_last ? last : at + (i + 1) * 32);
        word_put(at + i * 32 + 8, is_last ? back : CODE + 0x100 + i);
    }
}

static struct mw_stacks collect(struct made *made)
{
    struct mw_stacks stacks;
    struct mw_error err = {0};
    assert_int_equal(mw_stacks_collect(&made->image, made->names, &made->context, &stacks, &err),
                     MW_OK);
    return stacks;
}

static void test_chain_ends(void **state)
{
    (void)state;
    struct made made;
    made_open(&made, 1);
    thread_set(&made.threads[0], 1, CODE + 8, STACK + 0x100, STACK + 0x200);
    chain_put(STACK + 0x200, 5, 0, 0);
    struct mw_stacks stacks = collect(&made);
    assert_int_equal(stacks.items[0].frame_count, 5);
    assert_int_equal(stacks.items[0].end, MW_STACK_WHOLE);
    assert_false(stacks.frames[0].by_frame_pointer);
    assert_true(stacks.frames[0].is_exact);
    for (size_t i = 1; i < 5; i++) {
        assert_int_equal(stacks.frames[i].pc, CODE + 0x100 + i - 1);
        assert_true(stacks.frames[i].by_frame_pointer);
        assert_false(stacks.frames[i].is_exact);
    }
    mw_stacks_deinit(&stacks);
    made_close(&made);
}

static void test_chain_is_bounded(void **state)
{
    (void)state;
    struct made made;
    made_open(&made, 1);
    thread_set(&made.threads[0], 1, CODE + 8, STACK + 0x100, STACK + 0x200);
    chain_put(STACK + 0x200, 1000, 0, 0);
    struct mw_stacks stacks = collect(&made);
    assert_int_equal(stacks.items[0].frame_count, MW_LIMIT_FRAMES);
    assert_int_equal(stacks.items[0].end, MW_STACK_TOO_DEEP);
    assert_non_null(mw_finding_find(&made.image.findings, "stack-too-deep"));
    mw_stacks_deinit(&stacks);
    made_close(&made);
}

/* What no stack of a program looks like: each ends early, with what was found before. */
static void test_chains_that_lead_nowhere(void **state)
{
    (void)state;
    static const struct {
        mw_addr pc, sp, fp, last, back;
        size_t frames;
    } rows[] = {
        {CODE + 8, STACK + 0x100, STACK + 0x200, STACK + 0x200, CODE + 1, 3}, /* a ring */
        {CODE + 8, STACK + 0x100, STACK + 0x204, 0, CODE + 1, 1},             /* crooked */
        {CODE + 8, STACK + 0x300, STACK + 0x200, 0, CODE + 1, 1},             /* down */
        {CODE + 8, STACK + 0x100, STACK + 0x200, 0, STACK + 8, 2},            /* no code */
        {CODE + 8, STACK + 0x100, 0, 0, CODE + 1, 1},
        {CODE + 8, STACK + 0x100, UINT64_MAX - 7, 0, CODE + 1, 1},
        {CODE + 8, UINT64_MAX - 7, UINT64_MAX - 7, 0, CODE + 1, 1},
        {CODE + 8, 0, 16, 0, CODE + 1, 1},
        {0, STACK + 0x100, 0, 0, CODE + 1, 1}, /* nothing at the stack pointer either */
        {UINT64_MAX, 8, 8, 0, CODE + 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made made;
        made_open(&made, 1);
        thread_set(&made.threads[0], 1, rows[i].pc, rows[i].sp, rows[i].fp);
        chain_put(STACK + 0x200, 2, rows[i].last, rows[i].back);
        struct mw_stacks stacks = collect(&made);
        assert_int_equal(stacks.items[0].frame_count, rows[i].frames);
        assert_int_not_equal(stacks.items[0].end, MW_STACK_WHOLE);
        assert_int_equal(made.image.findings.count, 1);
        mw_stacks_deinit(&stacks);
        made_close(&made);
    }
}

/* A call through a null pointer: the return address was just pushed. */
static void test_call_to_nowhere(void **state)
{
    (void)state;
    struct made made;
    made_open(&made, 1);
    thread_set(&made.threads[0], 1, 0, STACK + 0x100, STACK + 0x200);
    word_put(STACK + 0x100, CODE + 0x77);
    chain_put(STACK + 0x200, 1, 0, 0);
    struct mw_stacks stacks = collect(&made);
    assert_int_equal(stacks.items[0].frame_count, 2);
    assert_int_equal(stacks.frames[1].pc, CODE + 0x77);
    assert_true(stacks.frames[1].by_frame_pointer);
    assert_int_equal(stacks.items[0].end, MW_STACK_WHOLE);
    mw_stacks_deinit(&stacks);
    made_close(&made);
}

static void test_groups(void **state)
{
    (void)state;
    struct made made;
    struct mw_stack_groups groups;
    made_open(&made, 6);
    chain_put(STACK + 0x200, 2, 0, 0);
    chain_put(STACK + 0x400, 3, 0, 0);
    static const mw_addr chains[] = {STACK + 0x400, STACK + 0x200, STACK + 0x400,
                                     STACK + 0x200, STACK + 0x400, 0};
    for (int32_t i = 0; i < 5; i++)
        thread_set(&made.threads[i], 10 + i, CODE + 8, STACK + 0x100, chains[i]);
    made.threads[5].tid = 15; /* without registers */
    struct mw_stacks stacks = collect(&made);
    assert_int_equal(mw_stacks_group(&stacks, &groups, NULL), MW_OK);
    static const size_t counts[] = {3, 2, 1};
    static const int32_t tids[] = {10, 12, 14, 11, 13, 15};
    assert_int_equal(groups.count, 3);
    for (size_t i = 0, at = 0; i < groups.count; i++) {
        assert_int_equal(groups.items[i].count, counts[i]);
        for (size_t k = 0; k < counts[i]; k++, at++)
            assert_int_equal(stacks.items[groups.order[groups.items[i].first + k]].tid, tids[at]);
    }
    assert_int_equal(stacks.items[5].end, MW_STACK_NO_REGISTERS);
    mw_stack_groups_deinit(&groups);
    mw_stacks_deinit(&stacks);
    made_close(&made);
}

static void test_no_architecture(void **state)
{
    (void)state;
    struct made made;
    struct mw_stacks stacks;
    struct mw_error err = {0};
    made_open(&made, 0);
    made.image.arch = MW_ARCH_I386;
    assert_int_equal(mw_stacks_collect(&made.image, made.names, &made.context, &stacks, &err),
                     MW_UNSUPPORTED);
    assert_string_not_equal(err.text, "");
    made_close(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_ends),
        cmocka_unit_test(test_chain_is_bounded),
        cmocka_unit_test(test_chains_that_lead_nowhere),
        cmocka_unit_test(test_call_to_nowhere),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_no_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
