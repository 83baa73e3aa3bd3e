/* tests/unit/test_blocks_report.c: the whole of `blocks` on a heap that was built byte by byte:
 * what is printed, what is not, and what happens when memory runs out. */
#include "analysis_fixture.h"
#include "base/alloc.h"
#include "heap_builder.h"
#include "report/blocks_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RECORDS = 40, RECORD_BYTES = 0x60, TEXTS = 30, TEXT_BYTES = 0x40 };
static const mw_addr heap_start = 0x555555560000;
static const char secret[] = "qz7xwvkj_yzzqwvfbqxzkkzjxqwwzjjqxz";

struct result {
    struct heap_builder *heap;
    struct mw_analysis analysis;
    struct mw_blocks blocks;
    struct mw_context context;
};

/* Records: a constant, a text, a number, words that are text in one block of many; and texts. */
static struct heap_builder *heap_make(void)
{
    struct heap_builder *heap = heap_new(&heap_families[0]);
    heap_segment(heap, MW_SEGMENT_BRK, heap_map(heap, heap_start, 16 * HEAP_PAGE, "[heap]"), 0);
    for (unsigned i = 0; i < RECORDS; i++) {
        mw_addr block = heap_block(heap, RECORD_BYTES, MW_BLOCK_IN_USE) + 16;
        heap_put(heap, block, 0x1f800010001f);
        memcpy(heap_bytes(heap, block + 8), secret, 8);
        heap_put(heap, block + 16, i);
        if (i == 7)
            memcpy(heap_bytes(heap, block + 16), secret + 8, 8);
        heap_put(heap, block + 24, heap_start + 16 * i);
        if (i == 9)
            memcpy(heap_bytes(heap, block + 24), secret + 16, 8);
        heap_put(heap, block + 32, (uint64_t)i << 32 | 0x78377a71); /* "qz7x" never varies */
    }
    for (unsigned i = 0; i < TEXTS; i++)
        memcpy(heap_bytes(heap, heap_block(heap, TEXT_BYTES, MW_BLOCK_IN_USE) + 16), secret,
               sizeof secret);
    heap_top(heap);
    heap_finish(heap);
    return heap;
}

static enum mw_status run(struct result *result, struct mw_blocks_options options)
{
    struct mw_image image = {0};
    struct mw_analysis_options analysis_options = {.skip_verdicts = true, .heap_is_asked = true};
    mw_context_init(&result->context);
    result->context.workers = 1;
    heap_open(result->heap, &image);
    return mw_blocks_run_image(&image, &analysis_options, &options, &result->context,
                               &result->analysis, &result->blocks, NULL);
}

static void result_deinit(struct result *result)
{
    mw_blocks_deinit(&result->blocks);
    mw_analysis_deinit(&result->analysis);
    heap_delete(result->heap);
}

/* The texts of both forms, one after the other; the caller frees it. */
static char *printed(const struct result *result)
{
    struct fixture_output output = {0};
    const struct mw_report_text_options options = {
        .look = {.width = 100}, .target = "4121", .count_max = 20};
    assert_int_equal(mw_report_blocks_text(&result->analysis, &result->blocks, &options,
                                           fixture_sink(&output), NULL),
                     MW_OK);
    assert_int_equal(mw_report_blocks_json(&result->analysis, &result->blocks, UINT64_MAX,
                                           fixture_sink(&output), NULL),
                     MW_OK);
    char *text = strdup(output.text);
    fixture_output_release(&output);
    return text;
}

/* Any four letters of the secret, as they are or as the digits of a word. */
static bool tells_secret(const char *text)
{
    for (size_t at = 0; at + 4 < sizeof secret; at++) {
        char piece[5] = "", digits[16];
        memcpy(piece, secret + at, 4);
        snprintf(digits, sizeof digits, "%02x%02x%02x%02x", (unsigned)piece[3], (unsigned)piece[2],
                 (unsigned)piece[1], (unsigned)piece[0]);
        if (strstr(text, piece) || strstr(text, digits))
            return true;
    }
    return false;
}

static void test_secrets(void **state)
{
    (void)state;
    for (unsigned contents = 0; contents < 2; contents++) {
        const struct mw_blocks_options asked[] = {
            {.strings = true, .contents = contents},
            {.fields = true, .size_bytes = RECORD_BYTES, .strings = true, .contents = contents},
            {.fields = true, .size_bytes = TEXT_BYTES - 8, .strings = true, .contents = contents},
        };
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            struct result result = {.heap = heap_make()};
            assert_int_equal(run(&result, asked[i]), MW_OK);
            char *text = printed(&result);
            assert_int_equal(tells_secret(text), contents == 1);
            free(text);
            result_deinit(&result);
        }
    }
}

static void test_fields_and_groups(void **state)
{
    (void)state;
    struct result result = {.heap = heap_make()};
    assert_int_equal(run(&result, (struct mw_blocks_options){.fields = true, .strings = true}),
                     MW_OK);
    const struct mw_fields *fields = &result.blocks.fields;
    assert_int_equal(result.blocks.chosen->size_bytes, RECORD_BYTES); /* holds most */
    assert_int_equal(result.blocks.chosen->count, RECORDS);
    assert_int_equal(fields->count, (RECORD_BYTES - 8) / 8);
    assert_int_equal(fields->items[0].kind, MW_WORD_CONSTANT);
    assert_int_equal(fields->items[1].kind, MW_WORD_TEXT);
    assert_int_equal(fields->items[2].kind, MW_WORD_SMALL_INT);
    assert_int_equal(fields->items[3].kind, MW_WORD_HEAP_POINTER);
    assert_int_equal(fields->items[5].kind, MW_WORD_ZERO);
    char *text = printed(&result);
    assert_non_null(strstr(text, "0x1f800010001f"));
    assert_non_null(strstr(text, "\"schema\": \"memwhy.blocks/1\""));
    assert_non_null(strstr(text, "constant, not shown without --contents"));
    free(text);
    result_deinit(&result);
}

/* Who knows more is asked once, for all groups, and heard in both forms. */
static enum mw_status tell(void *user, struct mw_analysis *analysis,
                           const struct mw_block_groups *groups,
                           struct mw_block_knowledge *knowledge, struct mw_error *err)
{
    (void)analysis, (void)err;
    ++*(unsigned *)user;
    for (size_t i = 0; i < groups->count; i++)
        if (groups->items[i].size_bytes == RECORD_BYTES)
            knowledge[i] = (struct mw_block_knowledge){"saved context", 39};
    return MW_OK;
}

static void test_what_others_know(void **state)
{
    (void)state;
    unsigned calls = 0;
    struct result result = {.heap = heap_make()};
    assert_int_equal(run(&result, (struct mw_blocks_options){.tell = tell, .tell_user = &calls}),
                     MW_OK);
    assert_int_equal(calls, 1);
    char *text = printed(&result);
    assert_non_null(strstr(text, "\"unreachable_count\": 39, \"layout\": \"saved context\""));
    assert_non_null(strstr(text, "\"unreachable_count\": null, \"layout\": null"));
    assert_non_null(strstr(text, "unreachable"));
    assert_non_null(strstr(text, "  saved context\n"));
    free(text);
    result_deinit(&result);
}

/* A group of one block has no statistics: its words are its content. */
static void test_a_single_block(void **state)
{
    (void)state;
    struct heap_builder *heap = heap_new(&heap_families[0]);
    heap_segment(heap, MW_SEGMENT_BRK, heap_map(heap, heap_start, 4 * HEAP_PAGE, "[heap]"), 0);
    mw_addr block = heap_block(heap, 0x80, MW_BLOCK_IN_USE) + 16;
    heap_put(heap, block, 0xfedcba9876543210); /* a key, perhaps */
    heap_put(heap, block + 8, heap_start);
    heap_put(heap, block + 16, 17);
    heap_top(heap);
    heap_finish(heap);
    struct result result = {.heap = heap};
    assert_int_equal(run(&result, (struct mw_blocks_options){.fields = true, .size_bytes = 0x80}),
                     MW_OK);
    char *text = printed(&result);
    assert_null(strstr(text, "fedcba9876543210"));
    assert_non_null(strstr(text, "\"constant\": \"0x555555560000\""));
    assert_non_null(strstr(text, "\"constant\": \"0x11\""));
    free(text);
    result_deinit(&result);
}

static void test_no_such_size(void **state)
{
    (void)state;
    struct result result = {.heap = heap_make()};
    assert_int_equal(run(&result, (struct mw_blocks_options){.fields = true, .size_bytes = 0x50}),
                     MW_OK);
    char *text = printed(&result);
    assert_null(result.blocks.chosen);
    assert_non_null(strstr(text, "--size 88")); /* what malloc gives for a request of 80 bytes */
    assert_non_null(strstr(text, "\"groups\": []"));
    free(text);
    result_deinit(&result);
}

/* The n-th allocation fails, for every n: an error and nothing left, or the answer. */
static void test_out_of_memory(void **state)
{
    (void)state;
    struct result result = {.heap = heap_make()};
    unsigned failed = 0;
    for (long n = 0; n < 4000; n++) {
        mw_alloc_fail_after(-1);
        struct mw_image image = {0};
        const struct mw_analysis_options options = {.skip_verdicts = true, .heap_is_asked = true};
        const struct mw_blocks_options asked = {.fields = true, .strings = true};
        heap_open(result.heap, &image);
        mw_alloc_fail_after(n);
        enum mw_status status = mw_blocks_run_image(&image, &options, &asked, NULL,
                                                    &result.analysis, &result.blocks, NULL);
        mw_alloc_fail_after(-1);
        if (status == MW_OK && result.blocks.fields.count > 0 &&
            result.analysis.findings.dropped == 0 && n > 1000)
            break;
        assert_true(status == MW_OK || status == MW_NOMEM);
        failed += status == MW_NOMEM;
        if (status == MW_OK) {
            mw_blocks_deinit(&result.blocks);
            mw_analysis_deinit(&result.analysis);
        }
    }
    assert_true(failed > 50);
    result_deinit(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets),          cmocka_unit_test(test_fields_and_groups),
        cmocka_unit_test(test_what_others_know), cmocka_unit_test(test_a_single_block),
        cmocka_unit_test(test_no_such_size),     cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
