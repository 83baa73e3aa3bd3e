/* What the environment asks of malloc, what is in force, leftovers of workarounds, known causes. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct world world;

static int setup(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_deinit(&world);
    return 0;
}

/* 100 MiB kept in the main arena, or nothing. */
static void heap(double kept)
{
    world_arena(&world, PAGES(kept + 0.5), PAGES(kept), PAGES(0.5), PAGES(50));
    world.image.process.thread_count = 20;
}

static struct mw_verdicts evaluate_with(const char *name, const char *value)
{
    heap(100);
    world_setting(&world, name, value);
    return world_evaluate(&world);
}

/* ---- settings ---- */

static void test_setting_in_force_says_nothing(void **state)
{
    (void)state;
    heap(1);
    world_setting(&world, "MALLOC_TRIM_THRESHOLD_", "1048576");
    world_setting(&world, "GLIBC_TUNABLES",
                  "glibc.rtld.nns=4:glibc.malloc.mmap_threshold=0x40000:glibc.malloc.top_pad=0");
    world.allocator.parameters.trim_threshold = MIB;
    world.allocator.parameters.mmap_threshold = 256 * KIB;
    world.allocator.parameters.top_pad = 0;
    world.allocator.parameters.no_dyn_threshold = true;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

static void test_setting_not_in_force(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *said;
    } cases[] = {
        {"MALLOC_ARENA_MAX", "2",
         "MALLOC_ARENA_MAX=2 is in the environment, malloc's own arena_max is no limit"},
        {"MALLOC_MMAP_THRESHOLD_", "262144",
         "MALLOC_MMAP_THRESHOLD_=262144 is in the environment, malloc's own mmap_threshold is "
         "128 KiB"},
        {"MALLOC_MMAP_THRESHOLD_", "67108864", "glibc refuses more than 32 MiB"},
        {"MALLOC_TRIM_THRESHOLD_", "128K", "it is not a number that glibc reads"},
        {"MALLOC_TRIM_THRESHOLD_", "-1", "it is not a number that glibc reads"},
        {"MALLOC_TRIM_THRESHOLD_", "", "it is not a number that glibc reads"},
        {"MALLOC_TOP_PAD_", "99999999999999999999999", "it is not a number that glibc reads"},
        {"MALLOC_TOP_PAD_", "7", "malloc's own top_pad is 128 KiB"},
        {"GLIBC_TUNABLES", "glibc.malloc.arena_max=3",
         "glibc.malloc.arena_max=3 is in the environment"},
        {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", "malloc's own tcache_count is 7"},
        {"MALLOC_ARENA_MAX", "\x1b[31m", "MALLOC_ARENA_MAX=\\x1b[31m is in"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        struct mw_verdicts verdicts = evaluate_with(cases[c].name, cases[c].value);
        assert_int_equal(verdicts.known_count, 1);
        assert_true(known_says(&verdicts, "not in force: "));
        if (!known_says(&verdicts, cases[c].said))
            fail_msg("'%s' does not say '%s'", verdicts.known[0], cases[c].said);
        mw_verdicts_deinit(&verdicts);
    }
}

/* Where malloc's parameters were not found nothing is said of what is in force. */
static void test_parameters_not_found(void **state)
{
    (void)state;
    heap(1);
    world_setting(&world, "MALLOC_ARENA_MAX", "2");
    world_setting(&world, "MALLOC_MMAP_THRESHOLD_", "262144");
    world.allocator.parameters = (struct mw_heap_parameters){0};
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 2);
    mw_verdicts_deinit(&verdicts);
    world.allocator.lacks_parameters = true;
    verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

static void test_tunables_win_over_the_alias(void **state)
{
    (void)state;
    heap(1);
    world_setting(&world, "MALLOC_ARENA_MAX", "2");
    world_setting(&world, "GLIBC_TUNABLES", "glibc.malloc.arena_max=9:glibc.malloc.arena_max=5");
    world.allocator.parameters.arena_max = 5;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

static void test_odd_tunables_are_no_match(void **state)
{
    (void)state;
    heap(1);
    world_setting(
        &world, "GLIBC_TUNABLES",
        ":::=:glibc.malloc.arena_max:xglibc.malloc.arena_max=2:glibc.malloc.arena_maxi=2");
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

static void test_set_by_the_program(void **state)
{
    (void)state;
    heap(1);
    world.allocator.parameters.arena_max = 31;
    world.allocator.parameters.no_dyn_threshold = true;
    world.allocator.parameters.mmap_threshold = 64 * KIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_true(known_says(&verdicts, "arena_max is 31 and the environment does not ask"));
    assert_true(known_says(&verdicts, "mmap_threshold is fixed at 64 KiB"));
    mw_verdicts_deinit(&verdicts);
}

static void test_unread_environment_is_no_statement(void **state)
{
    (void)state;
    heap(1);
    world.image.process.has_settings = false;
    world.allocator.parameters.arena_max = 31;
    world.allocator.parameters.no_dyn_threshold = true;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

/* The cap as evidence of arena-proliferation, in each of its states. */
static void test_arena_max_in_evidence(void **state)
{
    (void)state;
    static const struct {
        const char *env;
        uint64_t in_force;
        bool is_read;
        const char *said;
    } cases[] = {
        {NULL, 0, true, "MALLOC_ARENA_MAX unset (environment and malloc agree)"},
        {NULL, 64, true, "arena_max is 64 without a setting in the environment"},
        {"64", 64, true, "MALLOC_ARENA_MAX=64 in the environment, and in force"},
        {"2", 0, true, "MALLOC_ARENA_MAX=2 in the environment, but not in force"},
        {NULL, 0, false, "malloc's own arena_max: no limit; the environment was not read"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(1), PAGES(1), 0, PAGES(5));
        for (int i = 0; i < 20; i++)
            world_arena(&world, PAGES(5), PAGES(4), PAGES(1), PAGES(1));
        if (cases[c].env)
            world_setting(&world, "MALLOC_ARENA_MAX", cases[c].env);
        world.image.process.has_settings = cases[c].is_read;
        world.allocator.parameters.arena_max = cases[c].in_force;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_true(verdict_says(verdict_get(&verdicts, "arena-proliferation"), cases[c].said));
        mw_verdicts_deinit(&verdicts);
    }
}

/* A cap that is in force is not proposed again. */
static void test_cap_in_force_is_no_remedy(void **state)
{
    (void)state;
    for (uint64_t cap = 2; cap <= 5; cap += 3) {
        world_init(&world);
        heap(100);
        for (int i = 0; i < 5; i++)
            world_arena(&world, PAGES(9), PAGES(8), PAGES(1), PAGES(1));
        world.allocator.parameters.arena_max = cap;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *kept = verdict_get(&verdicts, "trimmable-free");
        bool proposed = false;
        for (size_t i = 0; i < kept->remedy_count; i++)
            proposed |= strstr(kept->remedies[i].action, "MALLOC_ARENA_MAX") != NULL;
        assert_int_equal(proposed, cap == 5);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_cap_comes_from_the_quota(void **state)
{
    (void)state;
    static const struct {
        double quota;
        uint64_t cpus;
        const char *action;
    } cases[] = {
        {-1, 8, "MALLOC_ARENA_MAX=2,"},   {-1, 96, "MALLOC_ARENA_MAX=4,"},
        {2, 96, "MALLOC_ARENA_MAX=2,"},   {0.5, 96, "MALLOC_ARENA_MAX=2,"},
        {2.5, 96, "MALLOC_ARENA_MAX=3,"}, {64, 96, "MALLOC_ARENA_MAX=4,"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(1), PAGES(1), 0, PAGES(5));
        for (int i = 0; i < 30; i++)
            world_arena(&world, PAGES(5), PAGES(4), PAGES(1), PAGES(1));
        world.cgroup.version = 2;
        world.cgroup.cpu_quota = cases[c].quota;
        world.image.process.cpus_online = world.image.process.cpus_allowed = cases[c].cpus;
        struct mw_verdicts verdicts = world_evaluate(&world);
        remedy_get(verdict_get(&verdicts, "arena-proliferation"), cases[c].action);
        mw_verdicts_deinit(&verdicts);
    }
}

/* ---- leftovers ---- */

static void test_preload_that_is_not_mapped(void **state)
{
    (void)state;
    static const struct {
        const char *preload, *mapped;
        bool said;
    } cases[] = {
        {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/libc.so.6", true},
        {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/libjemalloc.so.2.3.0", false},
        {"libsomething.so:/opt/libtcmalloc_minimal.so.4", "/usr/lib/libc.so.6", true},
        {"/opt/my lib/libfoo.so", "/usr/lib/libc.so.6", false},
        {"/libmimalloc.so", "/usr/lib/libc.so.6", true},
        {"", "/usr/lib/libc.so.6", false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        heap(1);
        world_map(&world, cases[c].mapped, MW_CATEGORY_FILE_TEXT, 0);
        world_setting(&world, "LD_PRELOAD", cases[c].preload);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "LD_PRELOAD names"), cases[c].said);
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
    world_init(&world);
}

static void test_cap_without_effect(void **state)
{
    (void)state;
    heap(100);
    world_setting(&world, "MALLOC_ARENA_MAX", "2");
    world.allocator.parameters.arena_max = 2;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_true(known_says(&verdicts, "without effect: MALLOC_ARENA_MAX=2 is in force, and 100"));
    mw_verdicts_deinit(&verdicts);

    world_init(&world);
    heap(1);
    world.image.process.thread_count = 3;
    world_setting(&world, "MALLOC_ARENA_MAX", "16");
    world.allocator.parameters.arena_max = 16;
    verdicts = world_evaluate(&world);
    assert_true(known_says(&verdicts, "3 threads would need no more than 1 arena without"));
    mw_verdicts_deinit(&verdicts);
}

static void test_cap_with_effect_says_nothing(void **state)
{
    (void)state;
    world_arena(&world, PAGES(30), PAGES(29), 0, PAGES(5));
    world_arena(&world, PAGES(30), PAGES(29), 0, PAGES(5));
    world.image.process.thread_count = 50;
    world_setting(&world, "MALLOC_ARENA_MAX", "2");
    world.allocator.parameters.arena_max = 2;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.known_count, 0);
    mw_verdicts_deinit(&verdicts);
}

static void test_malloc_conf_without_jemalloc(void **state)
{
    (void)state;
    for (int mapped = 0; mapped <= 1; mapped++) {
        world_init(&world);
        heap(1);
        world_map(&world, mapped ? "/usr/lib/libjemalloc.so.2" : "/usr/lib/libc.so.6",
                  MW_CATEGORY_FILE_TEXT, 0);
        world_setting(&world, "MALLOC_CONF", "background_thread:true");
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "MALLOC_CONF is jemalloc's"), !mapped);
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
    world_init(&world);
    heap(1);
    world_finish(&world);
    world_map(&world, "/srv/program", MW_CATEGORY_FILE_TEXT, 0);
    world_setting(&world, "MALLOC_CONF", "background_thread:true");
    const struct mw_allocator allocators[] = {world.allocator, {.kind = "jemalloc"}};
    world.evidence.allocators = allocators; /* linked into the program */
    world.evidence.allocator_count = 2;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_false(known_says(&verdicts, "MALLOC_CONF"));
    mw_verdicts_deinit(&verdicts);
}

/* ---- known causes ---- */

static void test_known_icinga(void **state)
{
    (void)state;
    static const struct {
        const char *comm, *exe;
        double kept;
        bool said;
    } cases[] = {
        {"icinga2", NULL, 100, true},
        {"worker", "/usr/lib/x86_64-linux-gnu/icinga2/sbin/icinga2", 100, true},
        {"icinga2", NULL, 1, false},
        {"icinga2-thing", "/opt/icinga2/bin/other", 100, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        heap(cases[c].kept);
        strcpy(world.image.process.comm, cases[c].comm);
        world.image.process.exe = (char *)(uintptr_t)cases[c].exe;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "Icinga 2 before 2.16"), cases[c].said);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_known_mmapped_drift(void **state)
{
    (void)state;
    heap(1);
    mw_finding_add(&world.findings, "mmapped-mem-drift", 0x1000, 160, "drift");
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_true(known_says(&verdicts, "hblkhd is 160 B too high"));
    mw_verdicts_deinit(&verdicts);
}

static void test_known_dotnet_exception_records(void **state)
{
    (void)state;
    static const struct {
        const char *runtime;
        uint64_t size, count;
        const char *said;
    } cases[] = {
        {"dotnet", 3408, 42231, "42,231 blocks in use have the size of .NET 10's"},
        {"dotnet", 3280, 6001, ".NET 8 and 9's exception records"},
        {"dotnet", 3408, 999, NULL},
        {"dotnet", 3392, 42231, NULL},
        {"jvm", 3408, 42231, NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        heap(1);
        world.runtime.kind = cases[c].runtime;
        world.evidence.runtime_count = 1;
        world_size(&world, cases[c].size, cases[c].count, 0);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "dotnet/runtime#135234"), cases[c].said != NULL);
        if (cases[c].said)
            assert_true(known_says(&verdicts, cases[c].said));
        assert_false(known_says(&verdicts, "Npgsql"));
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_known_npgsql_without_gssapi(void **state)
{
    (void)state;
    for (int gssapi = 0; gssapi <= 1; gssapi++) {
        world_init(&world);
        heap(1);
        world.runtime.kind = "dotnet";
        world.evidence.runtime_count = 1;
        world_size(&world, 3408, 42231, 0);
        world_map(&world, "/app/Npgsql.dll", MW_CATEGORY_FILE_MAPPED, 0);
        if (gssapi)
            world_map(&world, "/usr/lib/libgssapi_krb5.so.2", MW_CATEGORY_FILE_TEXT, 0);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "PGGSSENCMODE=disable"), !gssapi);
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
    world_init(&world);
}

static void test_known_java_zlib(void **state)
{
    (void)state;
    static const struct {
        const char *runtime;
        uint64_t state_size, states, window_size, windows;
        const char *said;
    } cases[] = {
        {"jvm", 5968, 300, 65552, 1200, "about 300 deflaters"},
        {"jvm", 7168, 400, 32784, 390, "390 inflaters"},
        {"jvm", 7168, 100, 32784, 90, NULL},
        {"jvm", 7168, 0, 32784, 5000, NULL}, /* windows alone are buffers */
        {"node", 5968, 300, 65552, 1200, NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        heap(1);
        world.runtime.kind = cases[c].runtime;
        world.evidence.runtime_count = 1;
        world_size(&world, cases[c].state_size, cases[c].states, 0);
        world_size(&world, cases[c].window_size, cases[c].windows, 0);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(known_says(&verdicts, "zlib"), cases[c].said != NULL);
        if (cases[c].said)
            assert_true(known_says(&verdicts, cases[c].said));
        mw_verdicts_deinit(&verdicts);
    }
}

/* ---- the sample of what was ---- */

static void test_was_needs_a_sample_and_something_kept(void **state)
{
    (void)state;
    for (int c = 0; c < 3; c++) {
        world_init(&world);
        heap(c == 1 ? 1 : 100);
        world.allocator.content_bytes[MW_CONTENT_TEXT] = c == 2 ? 0 : 95;
        world.allocator.content_bytes[MW_CONTENT_ZERO] = c == 2 ? 0 : 5;
        struct mw_verdicts verdicts = world_evaluate(&world);
        if (c == 0)
            assert_string_equal(verdicts.was,
                                "last content of the free chunks: text 95% [likely: sampled]");
        else
            assert_null(verdicts.was);
        mw_verdicts_deinit(&verdicts);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_setting_in_force_says_nothing),
        TEST(test_setting_not_in_force),
        TEST(test_parameters_not_found),
        TEST(test_tunables_win_over_the_alias),
        TEST(test_odd_tunables_are_no_match),
        TEST(test_set_by_the_program),
        TEST(test_unread_environment_is_no_statement),
        TEST(test_arena_max_in_evidence),
        TEST(test_cap_in_force_is_no_remedy),
        TEST(test_cap_comes_from_the_quota),
        TEST(test_preload_that_is_not_mapped),
        TEST(test_cap_without_effect),
        TEST(test_cap_with_effect_says_nothing),
        TEST(test_malloc_conf_without_jemalloc),
        TEST(test_known_icinga),
        TEST(test_known_mmapped_drift),
        TEST(test_known_dotnet_exception_records),
        TEST(test_known_npgsql_without_gssapi),
        TEST(test_known_java_zlib),
        TEST(test_was_needs_a_sample_and_something_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
