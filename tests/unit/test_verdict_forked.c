/* tests/unit/test_verdict_forked.c: copy-on-write of one process, its look-alikes, and verdicts
 * about all processes of a cgroup. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct world world;
static struct mw_family family;

/* Eight processes; of each 60 MiB are shared. */
static int setup(void **state)
{
    (void)state;
    world_init(&world);
    family = (struct mw_family){
        .root_pid = 4100,
        .count = 8,
        .read_count = 8,
        .has_pss_anon = true,
        .rss = 800 * MIB,
        .pss = 220 * MIB,
        .anonymous = 640 * MIB,
        .pss_anon = 210 * MIB,
    };
    mw_rollup_init(&family.own);
    world.evidence.family = &family;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_deinit(&world);
    return 0;
}

/* A private anonymous mapping; `shared` of its rss is mapped by others, too. */
static struct mw_mapping *forked_map(enum mw_category category, uint64_t rss, uint64_t shared)
{
    world_map(&world, category == MW_CATEGORY_MALLOC_IN_USE ? "[heap]" : "", category, rss);
    struct mw_mapping *map = &world.image.regions.items[world.image.regions.count - 1];
    map->perms = MW_PERM_READ | MW_PERM_WRITE;
    map->known =
        1u << MW_COUNTER_SHARED_CLEAN | 1u << MW_COUNTER_SHARED_DIRTY | 1u << MW_COUNTER_ANONYMOUS;
    map->counters[MW_COUNTER_SHARED_DIRTY] = shared;
    map->counters[MW_COUNTER_ANONYMOUS] = rss;
    return map;
}

static const struct mw_verdict *forked_of(const struct mw_verdicts *verdicts)
{
    return mw_verdict_find(verdicts, "copy-on-write");
}

static void test_shared_heap_of_a_worker(void **state)
{
    (void)state;
    world_arena(&world, PAGES(0.75), PAGES(0.75), PAGES(0.5), PAGES(80));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(20));
    forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(80.75), PAGES(60));
    forked_map(MW_CATEGORY_ANON_OTHER, PAGES(5), 0); /* its own mapping: no copies in it */
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *verdict = verdict_get(&verdicts, "copy-on-write");
    assert_int_equal(verdict->bytes, PAGES(60));
    assert_int_equal(verdict->verdict_class, MW_CLASS_NEEDED);
    assert_int_equal(verdict->basis, MW_BASIS_PROVEN);
    assert_null(verdict->part_of);
    assert_non_null(strstr(verdict->summary, "the 8 have 220.0 MiB by PSS, not the 800.0 MiB"));
    assert_true(verdict_says(verdict, "8 processes of this executable in one line of descent"));
    assert_true(verdict_says(verdict, "would need 430.0 MiB more")); /* 640 - 210 */
    assert_true(verdict_rules_out(verdict, "shared-memory"));
    const struct mw_remedy *remedy = remedy_get(verdict, "write little");
    assert_int_equal(remedy->gain_high_bytes, PAGES(20.75));
    assert_false(remedy_get(verdict, "add up PSS")->has_gain);
    /* each byte once: 80 in use, 60 of it here */
    assert_int_equal(verdict_get(&verdicts, "healthy")->bytes, PAGES(40));
    mw_verdicts_deinit(&verdicts);
}

static void test_worth_a_word(void **state)
{
    (void)state;
    static const struct {
        double rss, shared;
        bool holds;
    } cases[] = {{100, 2, true}, {100, 1.9, false}, {10, 0.75, false}, {10, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup(NULL);
        world_arena(&world, 0, 0, 0, PAGES(cases[i].rss));
        forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(cases[i].rss), PAGES(cases[i].shared));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(forked_of(&verdicts) != NULL, cases[i].holds);
        mw_verdicts_deinit(&verdicts);
        teardown(NULL);
    }
    setup(NULL);
}

/* A text of smaps, or nobody found: the pages are shared all the same. */
static void test_without_a_family(void **state)
{
    (void)state;
    world.evidence.family = NULL;
    world_arena(&world, 0, 0, 0, PAGES(80));
    forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(80), PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *verdict = verdict_get(&verdicts, "copy-on-write");
    assert_int_equal(verdict->bytes, PAGES(60));
    assert_int_equal(verdict->basis, MW_BASIS_LIKELY);
    assert_non_null(strstr(verdict->summary, "with other processes"));
    mw_verdicts_deinit(&verdicts);
    family.count = family.read_count = 1; /* it alone was found */
    world.evidence.family = &family;
    assert_int_equal(mw_verdicts_evaluate(&world.evidence, &verdicts, NULL), MW_OK);
    assert_int_equal(forked_of(&verdicts)->basis, MW_BASIS_LIKELY);
    mw_verdicts_deinit(&verdicts);
}

/* Of a family that was read in part no total is claimed. */
static void test_a_family_read_in_part(void **state)
{
    (void)state;
    family.is_cut = true;
    family.count = 100;
    family.read_count = 64;
    world_arena(&world, 0, 0, 0, PAGES(80));
    forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(80), PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *verdict = verdict_get(&verdicts, "copy-on-write");
    assert_non_null(strstr(verdict->summary, "the first 64 have"));
    assert_true(verdict_says(verdict, "100 processes"));
    assert_false(verdict_says(verdict, "would need"));
    mw_verdicts_deinit(&verdicts);
}

/* The pages are free inside malloc, and kept: that is said first, and each byte once. */
static void test_part_of_what_is_kept(void **state)
{
    (void)state;
    world_arena(&world, PAGES(70), PAGES(70), PAGES(0.5), PAGES(10));
    forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(80), PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *verdict = verdict_get(&verdicts, "copy-on-write");
    assert_string_equal(verdicts.items[0].id, "trimmable-free");
    assert_string_equal(verdict->part_of, "trimmable-free");
    assert_int_equal(verdict->bytes, PAGES(60));
    assert_true(verdict->bytes <= verdicts.items[0].bytes);
    mw_verdicts_deinit(&verdicts);
}

/* What has no owner stays in `unknown`, with all its bytes. */
static void test_part_of_what_is_unknown(void **state)
{
    (void)state;
    world_arena(&world, 0, 0, 0, PAGES(10));
    world_rss(&world, MW_CATEGORY_UNKNOWN, PAGES(70));
    world.account.unknown_mappings = 1;
    forked_map(MW_CATEGORY_UNKNOWN, PAGES(70), PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *verdict = verdict_get(&verdicts, "copy-on-write");
    assert_string_equal(verdict->part_of, "unknown");
    assert_int_equal(verdict->bytes, PAGES(60));
    assert_int_equal(verdict_get(&verdicts, "unknown")->bytes, PAGES(70));
    mw_verdicts_deinit(&verdicts);
}

/* A heap that was not read: who shares it is known; what is in it is still not. */
static void test_beside_what_was_not_read(void **state)
{
    (void)state;
    world.evidence.heap_was_read = false;
    world.evidence.allocator_count = 0;
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, PAGES(80));
    forked_map(MW_CATEGORY_MALLOC_UNSPLIT, PAGES(80), PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "copy-on-write")->bytes, PAGES(60));
    assert_null(mw_verdict_find(&verdicts, "healthy")); /* all of it is in the dark */
    assert_non_null(strstr(verdict_get(&verdicts, "unknown")->summary, "80.0 MiB"));
    mw_verdicts_deinit(&verdicts);
}

static void test_look_alikes(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        setup(NULL);
        world_arena(&world, 0, 0, 0, PAGES(80));
        struct mw_mapping *map = forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(80), PAGES(60));
        if (which == 0) /* merged by KSM */
            family.own.ksm = PAGES(58);
        else if (which == 1) /* a shared mapping */
            map->perms |= MW_PERM_SHARED;
        else /* nobody else maps it */
            map->counters[MW_COUNTER_SHARED_DIRTY] = 0;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_null(forked_of(&verdicts));
        mw_verdicts_deinit(&verdicts);
        teardown(NULL);
    }
    setup(NULL);
}

/* Counters that say more than there is: nothing is charged twice, nothing overflows. */
static void test_hostile_counters(void **state)
{
    (void)state;
    world_arena(&world, PAGES(1), PAGES(1), 0, PAGES(10));
    for (int i = 0; i < 5; i++) {
        struct mw_mapping *map = forked_map(MW_CATEGORY_MALLOC_IN_USE, PAGES(11), PAGES(11));
        map->counters[MW_COUNTER_SHARED_DIRTY] = UINT64_MAX / 2;
        map->counters[MW_COUNTER_ANONYMOUS] = UINT64_MAX;
    }
    world.pieces[0].region = 4000;                        /* of a mapping that is not there */
    struct mw_verdicts verdicts = world_evaluate(&world); /* checks what is charged */
    assert_non_null(forked_of(&verdicts));
    mw_verdicts_deinit(&verdicts);
}

/* ---- groups ---- */

static struct mw_cgroup cgroup;
static struct mw_group_evidence group;

static struct mw_verdicts group_evaluate(void)
{
    struct mw_verdicts verdicts;
    struct mw_error err = {0};
    group.cgroup = &cgroup;
    assert_int_equal(mw_group_verdicts_evaluate(&group, &verdicts, &err), MW_OK);
    return verdicts;
}

static void group_make(void)
{
    mw_cgroup_init(&cgroup);
    cgroup.version = 2;
    cgroup.usage = 300 * MIB;
    group = (struct mw_group_evidence){
        .process_count = 8,
        .read_count = 8,
        .rss = 800 * MIB,
        .pss = 220 * MIB,
        .anonymous = 640 * MIB,
        .pss_anon = 210 * MIB,
    };
}

static void test_group_of_forked_processes(void **state)
{
    (void)state;
    group_make();
    struct mw_verdicts verdicts = group_evaluate();
    assert_int_equal(verdicts.count, 1);
    const struct mw_verdict *verdict = &verdicts.items[0];
    assert_string_equal(verdict->id, "copy-on-write");
    assert_int_equal(verdict->bytes, 430 * MIB);
    assert_int_equal(verdict->basis, MW_BASIS_PROVEN);
    assert_non_null(strstr(verdict->summary, "the 8 processes have 220.0 MiB by PSS, 800.0 MiB"));
    assert_true(verdict_says(verdict, "430.0 MiB more if each wrote"));
    mw_verdicts_deinit(&verdicts);
    group.pss_anon = MW_UNKNOWN; /* an older kernel: files may be it */
    verdicts = group_evaluate();
    assert_int_equal(verdicts.items[0].basis, MW_BASIS_POSSIBLE);
    assert_int_equal(verdicts.items[0].bytes, 580 * MIB);
    mw_verdicts_deinit(&verdicts);
}

static void test_group_without_anything(void **state)
{
    (void)state;
    static const struct {
        uint64_t anonymous, pss_anon, read_count;
    } cases[] = {
        {210 * MIB, 210 * MIB, 8},   /* nothing is shared */
        {225 * MIB, 210 * MIB, 8},   /* 15 MiB of 800: too little */
        {640 * MIB, 210 * MIB, 1},   /* one process: who shares it is not in the group */
        {MW_UNKNOWN, MW_UNKNOWN, 0}, /* none could be read */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        group_make();
        group.anonymous = cases[i].anonymous;
        group.pss_anon = cases[i].pss_anon;
        group.read_count = cases[i].read_count;
        if (cases[i].read_count == 0)
            group.rss = group.pss = MW_UNKNOWN;
        struct mw_verdicts verdicts = group_evaluate();
        assert_int_equal(verdicts.count, 0);
        mw_verdicts_deinit(&verdicts);
    }
}

/* What is in no process: however far the limit is, and whatever the processes have. */
static void test_group_outside_of_processes(void **state)
{
    (void)state;
    group_make();
    group.pss = MW_UNKNOWN;
    group.rss = group.anonymous = group.pss_anon = MW_UNKNOWN;
    group.read_count = 0;
    cgroup.active_file = 60 * MIB;
    cgroup.inactive_file = 100 * MIB;
    cgroup.file_mapped = 10 * MIB;
    cgroup.kernel = 40 * MIB;
    struct mw_verdicts verdicts = group_evaluate();
    assert_int_equal(verdicts.count, 2);
    assert_string_equal(verdicts.items[0].id, "page-cache");
    assert_int_equal(verdicts.items[0].bytes, 150 * MIB);
    assert_string_equal(verdicts.items[1].id, "kernel-memory");
    assert_int_equal(verdicts.items[1].bytes, 40 * MIB);
    assert_true(verdict_says(&verdicts.items[0], "PSS of its processes is not known"));
    mw_verdicts_deinit(&verdicts);
    group.pss = 90 * MIB;
    verdicts = group_evaluate();
    assert_true(verdict_says(&verdicts.items[0], "the PSS of its processes is 90.0 MiB"));
    mw_verdicts_deinit(&verdicts);
    cgroup.kernel = 15 * MIB; /* too little for a word */
    cgroup.active_file = cgroup.inactive_file = 5 * MIB;
    verdicts = group_evaluate();
    assert_int_equal(verdicts.count, 0);
    mw_verdicts_deinit(&verdicts);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shared_heap_of_a_worker),
        TEST(test_worth_a_word),
        TEST(test_without_a_family),
        TEST(test_a_family_read_in_part),
        TEST(test_part_of_what_is_kept),
        TEST(test_part_of_what_is_unknown),
        TEST(test_beside_what_was_not_read),
        TEST(test_look_alikes),
        TEST(test_hostile_counters),
        cmocka_unit_test(test_group_of_forked_processes),
        cmocka_unit_test(test_group_without_anything),
        cmocka_unit_test(test_group_outside_of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
