/* tests/unit/test_report_heap.c: the heap document: sums over arenas, histograms that merge. */
#include "analysis_fixture.h"

#include "report/emit.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static json_t *heap_document(const struct mw_analysis *analysis)
{
    struct fixture_output output = {0};
    assert_int_equal(mw_report_heap_json(analysis, fixture_sink(&output), NULL), MW_OK);
    json_error_t problem;
    json_t *document = json_loads(output.text, JSON_REJECT_DUPLICATES, &problem);
    if (!document)
        fail_msg("no JSON: line %d: %s", problem.line, problem.text);
    fixture_output_release(&output);
    return document;
}

static json_t *allocator_of(json_t *document)
{
    return json_array_get(json_object_get(document, "allocators"), 0);
}

static json_t *size_member(json_t *document, size_t index, const char *name)
{
    return json_object_get(json_array_get(json_object_get(document, "sizes"), index), name);
}

static void test_heap_sums(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    json_t *document = heap_document(&analysis);
    json_t *arena;
    size_t index;
    json_int_t free_bytes = 0;
    json_array_foreach(json_object_get(allocator_of(document), "arena_list"), index, arena)
        free_bytes += json_integer_value(json_object_get(arena, "free_bytes"));
    assert_true(free_bytes ==
                json_integer_value(json_object_get(allocator_of(document), "free_bytes")));
    assert_int_equal(json_integer_value(size_member(document, 2, "size_bytes")), 4112);
    json_decref(document);
    fixture_release(&analysis);
}

/* Two allocators of one kind: their histograms become one. */
static void test_heap_sizes_merge(void **state)
{
    (void)state;
    static struct mw_size_row more[] = {{48, 5, 7}, {96, 1, 2}, {2097168, 3, 0}};
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    analysis.allocators[1] = (struct mw_allocator){.kind = "glibc", .walked = true};
    analysis.allocators[1].sizes = more;
    analysis.allocators[1].size_count = sizeof more / sizeof *more;
    analysis.allocator_count = 2;
    json_t *document = heap_document(&analysis);
    json_t *size;
    size_t index;
    json_int_t last = 0;
    json_array_foreach(json_object_get(document, "sizes"), index, size)
    {
        assert_true(json_integer_value(json_object_get(size, "size_bytes")) > last);
        last = json_integer_value(json_object_get(size, "size_bytes"));
    }
    assert_int_equal(index, 6);
    assert_int_equal(json_integer_value(size_member(document, 2, "in_use_count")), 700001 + 1);
    json_decref(document);
    analysis.allocator_count = 1;
    fixture_release(&analysis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_sums),
        cmocka_unit_test(test_heap_sizes_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
