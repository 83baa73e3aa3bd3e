/* tests/unit/test_layout_rows.c: every row of the table with an instance that it must name, built
 * word by word, and with each of the words that it goes by spoilt in turn: then it must not. The
 * last test sees that no row went without. */
#include "layout_instances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct layout_world *world;
static bool matched[256]; /* by place in the table */

static void world_open(void)
{
    layout_world_free(world);
    world = layout_world_new();
    assert_non_null(world);
}

static bool name_of(mw_addr at, size_t usable_bytes, struct mw_layout_match *match)
{
    assert_true(layout_world_open(world));
    struct mw_layout_block view = layout_world_view(world, at, usable_bytes);
    return mw_layout_name(world->scope, &view, match);
}

/* zlib's buffers are known from before the name was asked. */
static bool name_kept(mw_addr at, size_t usable_bytes, struct mw_layout_match *match)
{
    struct mw_layout_block view = layout_world_view(world, at, usable_bytes);
    return mw_layout_name(world->scope, &view, match);
}

static void test_every_instance_is_named(void **state)
{
    (void)state;
    for (const struct layout_instance *instance = layout_instances; instance->id; instance++) {
        world_open();
        struct mw_layout_match match = {.id = "none", .name = ""};
        mw_addr at = layout_instance_make(instance, world);
        bool is_named = instance->spoils[0] == LAYOUT_TOLD
                            ? name_kept(at, instance->usable_bytes, &match)
                            : name_of(at, instance->usable_bytes, &match);
        if (!is_named || strcmp(match.id, instance->id) != 0 ||
            strcmp(match.name, instance->name) != 0)
            fail_msg("'%s' (%s) for '%s'", match.name, match.id, instance->name);
        assert_int_equal(match.agree, 1);
        assert_true(match.priority < sizeof matched);
        matched[match.priority] = true;
    }
}

static void test_spoilt_instances_are_not(void **state)
{
    (void)state;
    for (const struct layout_instance *instance = layout_instances; instance->id; instance++) {
        for (size_t k = 0; k < LAYOUT_SPOILS && instance->spoils[k] < LAYOUT_TOLD; k++) {
            world_open();
            struct mw_layout_match match = {.id = "none", .name = ""};
            mw_addr at = layout_instance_make(instance, world);
            layout_world_put(world, at + instance->spoils[k], 0xf1e2d3c4b5a69788);
            if (name_of(at, instance->usable_bytes, &match) && strcmp(match.id, instance->id) == 0)
                fail_msg("'%s' in spite of what is at %u", match.name, instance->spoils[k]);
        }
    }
}

/* Of every length, in memory of exactly that length. */
static void test_short_blocks(void **state)
{
    (void)state;
    for (const struct layout_instance *instance = layout_instances; instance->id; instance++) {
        world_open();
        mw_addr at = layout_instance_make(instance, world);
        assert_true(layout_world_open(world));
        for (size_t length = 0; length < 320 && length < instance->usable_bytes; length++) {
            uint8_t *exact = malloc(length ? length : 1);
            assert_non_null(exact);
            memcpy(exact, layout_world_bytes(world, at), length);
            struct mw_layout_match match;
            struct mw_layout_block cut = {at, exact, length, instance->usable_bytes};
            (void)mw_layout_name(world->scope, &cut, &match);
            cut.usable_bytes = length;
            (void)mw_layout_name(world->scope, &cut, &match);
            free(exact);
        }
    }
}

/* Ids that begin alike may be several rows: the place counts. */
static void test_no_row_without_an_instance(void **state)
{
    (void)state;
    for (size_t i = 0; mw_layout_id(i); i++)
        if (!matched[i])
            fail_msg("row %zu, '%s', has no instance here", i, mw_layout_id(i));
}

static int teardown(void **state)
{
    (void)state;
    layout_world_free(world);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instance_is_named),
        cmocka_unit_test(test_spoilt_instances_are_not),
        cmocka_unit_test(test_short_blocks),
        cmocka_unit_test(test_no_row_without_an_instance),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
