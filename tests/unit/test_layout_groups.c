/* tests/unit/test_layout_groups.c: what is said of many blocks of one size, of ranges of heaps, of
 * what cannot be read, and what naming costs. */
#include "base/alloc.h"
#include "layout_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SAMPLES = 40, BYTES = 56 };

static struct layout_world *world;
static struct mw_layout_block blocks[SAMPLES];

static int setup(void **state)
{
    (void)state;
    world = layout_world_new();
    return world ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    layout_world_free(world);
    return 0;
}

/* Of the samples, `first` begin with one word and `second` with another; the rest tells nothing. */
static bool group(uint64_t first_word, size_t first, uint64_t second_word, size_t second,
                  struct mw_layout_match *match)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        mw_addr at = layout_world_block(world, BYTES);
        for (size_t k = 0; k < BYTES; k += 8) /* no pointers, no numbers, no text */
            layout_world_put(world, at + k, 0x9f8e7d6c5b4a3928 + 0x0101010101010101 * (i + k));
        if (i < first + second)
            layout_world_put(world, at, i < first ? first_word : second_word);
        blocks[i] = layout_world_view(world, at, BYTES);
    }
    assert_true(layout_world_open(world));
    return mw_layout_group(world->scope, blocks, SAMPLES, match);
}

static void test_all_agree(void **state)
{
    (void)state;
    struct mw_layout_match match;
    assert_true(group(layout_world_class(world, "1A"), SAMPLES, 0, 0, &match));
    assert_string_equal(match.name, "A (C++ object)");
    assert_string_equal(match.id, "c++ object");
    assert_int_equal(match.basis, MW_LAYOUT_EXACT);
    assert_int_equal(match.agree, SAMPLES);
    assert_int_equal(match.of, SAMPLES);
}

static void test_nine_in_ten_agree(void **state)
{
    (void)state;
    struct mw_layout_match match;
    mw_addr class = layout_world_class(world, "1A");
    assert_true(group(class, 36, 0, 0, &match));
    assert_string_equal(match.name, "A (C++ object)");
    assert_int_equal(match.basis, MW_LAYOUT_LIKELY);
    assert_int_equal(match.agree, 36);
    assert_true(group(class, 35, 0, 0, &match));
    assert_string_equal(match.name, "35 of 40: A (C++ object)");
    assert_int_equal(match.basis, MW_LAYOUT_LIKELY);
}

static void test_mixtures(void **state)
{
    (void)state;
    struct mw_layout_match match;
    mw_addr a = layout_world_class(world, "1A"), b = layout_world_class(world, "1B");
    assert_true(group(a, 12, b, 26, &match));
    assert_string_equal(match.name, "26 of 40: B (C++ object); 12 of 40: A (C++ object)");
    assert_int_equal(match.agree, 26);
    assert_false(group(a, 5, b, 4, &match)); /* noise */
}

/* No row knows it, but all lead to one place. */
static void test_shared_pointer(void **state)
{
    (void)state;
    struct mw_layout_match match;
    assert_true(group(WORLD_CODE + 0x123, SAMPLES, 0, 0, &match));
    assert_string_equal(match.name,
                        "structure with a pointer to a function at libx.so.1+0x123 at +0");
    assert_int_equal(match.basis, MW_LAYOUT_LIKELY);
    assert_true(group(WORLD_DATA + 0x40, 37, 0, 0, &match));
    assert_string_equal(match.name, "structure with a pointer to data at libx.so.1+0x20040 at +0");
    assert_int_equal(match.agree, 37);
    assert_false(group(WORLD_CODE + 0x123, 20, WORLD_CODE + 0x456, 20, &match));
    assert_false(group(0x123456789abc, SAMPLES, 0, 0, &match)); /* constant, and no pointer */
    assert_false(group(layout_world_file("node") + 16, 4, 0, 0, &match));
}

static void test_empty_groups(void **state)
{
    (void)state;
    struct mw_layout_match match;
    assert_true(layout_world_open(world));
    assert_false(mw_layout_group(world->scope, blocks, 0, &match));
    struct mw_layout_block unread = {
        .address = WORLD_HEAP + 64, .bytes = world->heap, .length = 0, .usable_bytes = 4096};
    assert_false(mw_layout_name(world->scope, &unread, &match));
    assert_false(mw_layout_group(world->scope, &unread, 1, &match));
}

/* Names never leave their room, whatever the type is called. */
static void test_long_names(void **state)
{
    (void)state;
    struct mw_layout_match match;
    char mangled[700];
    memset(mangled, 'y', sizeof mangled);
    memcpy(mangled, "600", 3);
    mangled[603] = '\0';
    mw_addr class = layout_world_class(world, mangled);
    assert_true(group(class, SAMPLES, 0, 0, &match));
    assert_true(strlen(match.name) < MW_LAYOUT_NAME_ROOM);
    assert_non_null(strstr(match.name, "yyy... (C++ object)"));
    assert_true(group(class, 20, class, 10, &match));
    assert_true(strlen(match.name) < MW_LAYOUT_NAME_ROOM);
    memcpy(mangled, "\x1b[31m\x07", 7); /* no name that a terminal should see */
    assert_true(group(layout_world_class(world, mangled), SAMPLES, 0, 0, &match));
    assert_string_equal(match.id, "structure");
}

/* A heap that is told is heap, and nothing else is. */
static void test_ranges_of_heaps(void **state)
{
    (void)state;
    mw_addr from = layout_world_block(world, 64), to = layout_world_block(world, 64);
    for (mw_addr i = 0; i < 8; i++)
        layout_world_put(world, from + 8 * i, to);
    assert_true(layout_world_open(world));
    struct mw_layout_block view = layout_world_view(world, from, 64);
    struct mw_layout_match match;
    struct mw_layout_scope *scope;
    const struct mw_layout_range all = {WORLD_HEAP, WORLD_HEAP + WORLD_PAGE};
    const struct mw_layout_range other = {WORLD_HEAP + WORLD_PAGE, WORLD_HEAP + 2 * WORLD_PAGE};
    assert_int_equal(mw_layout_scope_open(&world->image, &all, 1, &scope, NULL), MW_OK);
    assert_true(mw_layout_name(scope, &view, &match));
    assert_string_equal(match.id, "pointers");
    mw_layout_scope_close(scope);
    assert_int_equal(mw_layout_scope_open(&world->image, &other, 1, &scope, NULL), MW_OK);
    assert_false(mw_layout_name(scope, &view, &match));
    mw_layout_scope_close(scope);
    const struct mw_layout_range wrong[] = {other, all};
    assert_int_equal(mw_layout_scope_open(&world->image, wrong, 2, &scope, NULL), MW_INVALID);
}

/* A class without typeinfo: by its place, or by a symbol of the caller's. */
static bool symbol_of(void *user, mw_addr address, char *name, size_t room)
{
    if (address != *(mw_addr *)user - 16)
        return false;
    snprintf(name, room, "vtable for app::Plain");
    return true;
}

static void test_symbols(void **state)
{
    (void)state;
    struct mw_layout_match match;
    mw_addr vtable = layout_world_class(world, "1A");
    layout_world_put(world, vtable - 8, 0);
    assert_true(group(vtable, SAMPLES, 0, 0, &match));
    assert_non_null(strstr(match.name, "class without type information, vtable libx.so.1+0x"));
    assert_int_equal(match.basis, MW_LAYOUT_LIKELY);
    assert_true(layout_world_open(world));
    mw_layout_scope_use_symbols(world->scope, symbol_of, &vtable);
    assert_true(mw_layout_group(world->scope, blocks, SAMPLES, &match));
    assert_string_equal(match.name, "app::Plain (C++ object)");
    assert_int_equal(match.basis, MW_LAYOUT_EXACT);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(layout_world_open(world));
    enum mw_status status = MW_NOMEM;
    long n = 0;
    for (; status == MW_NOMEM && n < 100; n++) {
        struct mw_layout_scope *scope = NULL;
        mw_alloc_fail_after(n);
        status = mw_layout_scope_open(&world->image, NULL, 0, &scope, NULL);
        mw_alloc_fail_after(-1);
        mw_layout_scope_close(scope);
    }
    assert_int_equal(status, MW_OK);
    assert_true(n > 3);
}

/* What is known costs about a microsecond; tens of that are a mistake even under a sanitizer. */
static void test_cost(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    struct mw_layout_match match;
    struct timespec began, ended;
    assert_true(group(layout_world_class(world, "1A"), 20, 0, 0, &match));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    for (size_t i = 0; i < ROUNDS; i++)
        (void)mw_layout_name(world->scope, &blocks[i % SAMPLES], &match);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    double ns =
        (double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec);
    printf("# naming a block: %.0f ns\n", ns / ROUNDS);
    assert_true(ns / ROUNDS < 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nine_in_ten_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mixtures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_pointer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranges_of_heaps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_symbols, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cost, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
