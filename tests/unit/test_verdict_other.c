/* Verdicts over needed memory, memory outside the RSS, candidates and what stays unknown. */
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

/* A process of 100 MiB with nothing to say against it. */
static void ordinary(void)
{
    world_arena(&world, PAGES(0.75), PAGES(0.75), PAGES(0.5), PAGES(80));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(12));
    world_rss(&world, MW_CATEGORY_FILE_DATA, PAGES(2));
    world_rss(&world, MW_CATEGORY_STACK_MAIN, PAGES(0.25));
    world_rss(&world, MW_CATEGORY_ANON_OTHER, PAGES(5));
    world.account.file_clean_bytes = PAGES(13);
    world.image.process.thread_count = 4;
}

/* ---- healthy and unknown ---- */

static void test_healthy_takes_what_nothing_calls_wrong(void **state)
{
    (void)state;
    ordinary();
    world_rss(&world, MW_CATEGORY_UNKNOWN, PAGES(0.5));
    world.account.unknown_mappings = 3;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "healthy");
    assert_int_equal(first->verdict_class, MW_CLASS_NEEDED);
    assert_int_equal(first->basis, MW_BASIS_LIKELY);
    assert_int_equal(first->bytes, PAGES(99.25));
    assert_true(verdict_says(first, "80.0 MiB in use in malloc"));
    assert_true(verdict_says(first, "12.0 MiB programs and libraries"));
    assert_true(verdict_rules_out(first, "trimmable-free"));
    assert_true(verdict_rules_out(first, "arena-proliferation"));
    assert_true(verdict_rules_out(first, "fragmentation"));
    const struct mw_verdict *trimmable = verdict_get(&verdicts, "trimmable-free");
    assert_true(trimmable->minor);
    const struct mw_verdict *unknown = verdict_get(&verdicts, "unknown");
    assert_int_equal(unknown->bytes, PAGES(0.5));
    assert_true(verdict_says(unknown, "memwhy maps 4121 --unknown"));
    uint64_t sum = first->bytes + trimmable->bytes + unknown->bytes;
    assert_int_equal(sum, world.account.rss_bytes);
    mw_verdicts_deinit(&verdicts);
}

static void test_healthy_is_silent_beside_much_that_is_kept(void **state)
{
    (void)state;
    for (int kept = 9; kept <= 12; kept += 3) { /* of about 110 MiB */
        world_init(&world);
        ordinary();
        world.arenas[0].free_bytes = world.arenas[0].free_rss = PAGES(kept);
        world.arenas[0].trimmable_bytes = PAGES(kept);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_string_equal(verdicts.items[0].id, "trimmable-free");
        assert_int_equal(mw_verdict_find(&verdicts, "healthy") != NULL, kept == 9);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_healthy_is_silent_in_the_dark(void **state)
{
    (void)state;
    static const enum mw_category dark[] = {MW_CATEGORY_UNKNOWN, MW_CATEGORY_MALLOC_UNSPLIT};
    for (size_t c = 0; c < 4; c++) {
        world_init(&world);
        ordinary(); /* 100 MiB: 33 beside it are 24.8 % of all, 34 are 25.3 % */
        world_rss(&world, dark[c / 2], PAGES(c % 2 ? 34 : 33));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "healthy") != NULL, c % 2 == 0);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_nothing_at_all(void **state)
{
    (void)state;
    world_init(&world);
    world.evidence = (struct mw_evidence){0};
    struct mw_verdicts verdicts = {0};
    assert_int_equal(mw_verdicts_evaluate(&world.evidence, &verdicts, NULL), MW_OK);
    assert_int_equal(verdicts.count, 1);
    assert_string_equal(verdicts.items[0].id, "unknown");
    assert_int_equal(verdicts.items[0].bytes, 0);
    mw_verdicts_deinit(&verdicts);
    mw_verdicts_deinit(&verdicts);
    mw_verdicts_deinit(NULL);
}

/* No right to read memory: nothing is said about malloc's inside, and what would settle it is. */
static void test_mapping_level(void **state)
{
    (void)state;
    world.evidence.heap_was_read = false;
    world.allocator.walked = false;
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, PAGES(300));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(12));
    world_rss(&world, MW_CATEGORY_UNKNOWN, PAGES(2));
    strcpy(world.image.cannot_read.text, "cannot read the memory of 4121: ptrace is not permitted");
    strcpy(world.image.cannot_read.hint, "sudo memwhy 4121");
    world.allocator.arena_count = 0;
    struct mw_verdicts verdicts = world_evaluate(&world);
    for (size_t i = 0; i < verdicts.count; i++)
        assert_true(verdicts.items[i].verdict_class > MW_CLASS_KEPT);
    assert_null(mw_verdict_find(&verdicts, "healthy"));
    const struct mw_verdict *unknown = verdict_get(&verdicts, "unknown");
    assert_int_equal(unknown->bytes, PAGES(2));
    assert_non_null(strstr(unknown->summary, "the inside of malloc, 300.0 MiB, was not looked"));
    assert_true(verdict_says(unknown, "ptrace is not permitted"));
    assert_true(verdict_says(unknown, "to settle it: sudo memwhy 4121"));
    mw_verdicts_deinit(&verdicts);
}

/* It is walked in this version, but could not be this time. */
static void test_allocator_that_could_not_be_walked(void **state)
{
    (void)state;
    const struct mw_error why = {
        .code = MW_PERM, .text = "process 4121 is already traced by 7 (gdb)", .hint = "quit gdb"};
    world.evidence.heap_was_read = false;
    world.evidence.why_unread = &why;
    world.allocator.walked = false;
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, PAGES(300));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *unknown = verdict_get(&verdicts, "unknown");
    assert_true(verdict_says(unknown, "already traced by 7 (gdb); to settle it: quit gdb"));
    assert_false(verdict_says(unknown, "does not walk"));
    mw_verdicts_deinit(&verdicts);
}

static void test_allocator_that_is_not_walked(void **state)
{
    (void)state;
    world.allocator.kind = "jemalloc";
    world.allocator.walked = false;
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, PAGES(3));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "healthy");
    assert_true(verdict_says(verdict_get(&verdicts, "unknown"), "belongs to jemalloc"));
    mw_verdicts_deinit(&verdicts);
}

/* ---- candidates ---- */

static void blocks_of_one_size(double mib, double in_use_mib)
{
    uint64_t size = 3408;
    world_arena(&world, PAGES(1), PAGES(0.5), PAGES(0.5), PAGES(in_use_mib));
    world_size(&world, 64, 100, 0);
    world_size(&world, size, PAGES(mib) / size, 2);
    world.image.process.uptime_seconds = 431000;
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(20));
}

static void test_dominant_size_is_a_candidate(void **state)
{
    (void)state;
    blocks_of_one_size(137.26, 163.4);
    world.cgroup.version = 2;
    world.cgroup.limit = 2048 * MIB;
    world.cgroup.usage = 371 * MIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "native-leak");
    assert_int_equal(first->verdict_class, MW_CLASS_NEEDED); /* size alone calls nothing leaked */
    assert_int_equal(first->basis, MW_BASIS_POSSIBLE);
    assert_null(first->part_of);
    assert_int_equal(first->bytes, PAGES(137.26) / 3408 * 3408);
    assert_int_equal(strncmp(first->summary, "candidate: ", 11), 0);
    assert_non_null(strstr(first->summary, "42,231 blocks of 3,400 B (3,408 B with header)"));
    assert_non_null(strstr(first->summary, "84% of what is in use"));
    assert_true(verdict_says(first, "one block per 10.2 s, 27.5"));
    assert_true(verdict_says(first, "limit in ~61 days"));
    assert_true(verdict_rules_out(first, "trimmable-free"));
    assert_true(verdict_rules_out(first, "arena-proliferation"));
    assert_null(mw_verdict_find(&verdicts, "healthy"));
    mw_verdicts_deinit(&verdicts);
}

/* A cache whose index was swapped out: the search cannot see who points to the blocks. */
static void test_pointers_may_be_in_swap(void **state)
{
    (void)state;
    static const struct mw_references lost = {
        .size_bytes = 3408, .sampled = 32, .bytes_read = 160 << 20, .is_complete = true};
    for (int is_swapped = 0; is_swapped < 2; is_swapped++) {
        world_init(&world);
        blocks_of_one_size(137, 160);
        world.evidence.references = &lost;
        world.account.has_swap = true;
        world.account.swap_bytes = is_swapped ? PAGES(0.5) : 4096;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *leak = verdict_get(&verdicts, "native-leak");
        assert_int_equal(leak->basis, is_swapped ? MW_BASIS_POSSIBLE : MW_BASIS_LIKELY);
        assert_int_equal(verdict_says(leak, "what is in swap was not"), is_swapped);
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
}

/* A cache of blocks that leak elsewhere, too: the share that nothing points to is the leak. */
static void test_part_of_a_size_may_be_lost(void **state)
{
    (void)state;
    static const struct {
        uint64_t referenced;
        bool is_leak;
    } cases[] = {{0, true}, {16, true}, {20, true}, {24, true}, {25, false}, {32, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct mw_references seen = {.size_bytes = 3408,
                                           .sampled = 32,
                                           .referenced = cases[c].referenced,
                                           .bytes_read = 160 << 20,
                                           .is_complete = true};
        world_init(&world);
        blocks_of_one_size(137, 160);
        world.evidence.references = &seen;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *leak = mw_verdict_find(&verdicts, "native-leak");
        assert_int_equal(leak != NULL, cases[c].is_leak);
        if (leak) {
            assert_int_equal(leak->verdict_class, MW_CLASS_LEAKED);
            assert_int_equal(leak->basis, MW_BASIS_LIKELY);
            assert_int_equal(leak->bytes, PAGES(137) / 3408 * 3408 * (32 - seen.referenced) / 32);
            assert_int_equal(remedy_get(leak, "find who allocates")->gain_high_bytes, leak->bytes);
        } else {
            assert_non_null(mw_verdict_find(&verdicts, "unbounded-growth"));
        }
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
}

/* Half of what is in use and a quarter of the RSS make a candidate; it stands above what is kept
 * only when it is more. Below that it is a line in the evidence. */
static void test_candidate_gives_way(void **state)
{
    (void)state;
    static const struct {
        double group, in_use, kept;
        bool is_said, leads, is_noted;
    } cases[] = {
        {60, 100, 0.5, true, false, false},  {45, 100, 0.5, false, false, true},
        {60, 100, 61, true, false, false},   {29, 100, 0.5, false, false, false},
        {7, 8, 0.5, false, false, true},     {50, 90, 200, false, false, false},
        {60, 300, 0.5, false, false, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        blocks_of_one_size(cases[c].group, cases[c].in_use);
        world.arenas[0].free_bytes = world.arenas[0].free_rss = PAGES(cases[c].kept + 1);
        world.arenas[0].trimmable_bytes = PAGES(cases[c].kept + 0.5);
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *candidate = mw_verdict_find(&verdicts, "native-leak");
        const struct mw_verdict *healthy = mw_verdict_find(&verdicts, "healthy");
        assert_int_equal(candidate != NULL, cases[c].is_said);
        assert_int_equal(verdicts.items[0].verdict_class == MW_CLASS_LEAKED, cases[c].leads);
        assert_int_equal(healthy && verdict_says(healthy, "worth a second look"),
                         cases[c].is_noted);
        if (candidate) {
            assert_null(healthy);
            assert_null(candidate->part_of);
            assert_int_equal(candidate->basis, MW_BASIS_POSSIBLE);
            assert_int_equal(strncmp(candidate->summary, "candidate: ", 11), 0);
        }
        if (candidate && !cases[c].leads)
            assert_int_equal(candidate->verdict_class, MW_CLASS_NEEDED);
        if (!candidate && verdicts.items[0].verdict_class == MW_CLASS_KEPT)
            assert_true(verdict_rules_out(&verdicts.items[0], "native-leak"));
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_few_blocks_are_no_candidate(void **state)
{
    (void)state;
    world_arena(&world, PAGES(0.5), 0, 0, PAGES(100));
    world_size(&world, 100 * KIB, 999, 0);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "native-leak"));
    mw_verdicts_deinit(&verdicts);
}

/* Blocks that were swapped out or never touched do not fill the RSS. */
static void test_candidate_must_be_resident(void **state)
{
    (void)state;
    blocks_of_one_size(137, 160);
    world_finish(&world);
    world.account.rss_bytes -= PAGES(160) - PAGES(60);
    world_rss(&world, MW_CATEGORY_MALLOC_IN_USE, PAGES(60));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdicts.items[0].verdict_class, MW_CLASS_NEEDED);
    mw_verdicts_deinit(&verdicts);
}

/* ---- needed kinds ---- */

static void test_thread_stacks(void **state)
{
    (void)state;
    ordinary();
    world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(300));
    world.account.rows[MW_CATEGORY_STACK_THREADS].count = 300;
    world.account.rows[MW_CATEGORY_STACK_MAIN].count = 1;
    world.image.process.thread_count = 301;
    world.image.process.vm_lck = PAGES(280);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "thread-stacks");
    assert_int_equal(first->basis, MW_BASIS_PROVEN);
    assert_int_equal(first->bytes, PAGES(300.25));
    assert_non_null(strstr(first->summary, "in the stacks of 301 threads"));
    assert_true(verdict_says(first, "is locked (VmLck)"));
    assert_true(verdict_rules_out(first, "thp-bloat"));
    assert_int_equal(remedy_get(first, "mlockall")->gain_high_bytes, PAGES(280));
    assert_false(remedy_get(first, "fewer threads")->has_gain);
    mw_verdicts_deinit(&verdicts);
}

/* A text without a count of threads, or with another: stacks are known by their shape only. */
static void test_stacks_are_proven_by_the_count_of_threads(void **state)
{
    (void)state;
    static const uint64_t counts[] = {MW_UNKNOWN, 300, 302, 301};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        world_init(&world);
        ordinary();
        world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(300));
        world.account.rows[MW_CATEGORY_STACK_THREADS].count = 300;
        world.account.rows[MW_CATEGORY_STACK_MAIN].count = 1;
        world.account.anon_huge_bytes = MW_UNKNOWN;
        world.image.process.thread_count = counts[i];
        if (counts[i] == 301) /* as many, and no memory that proves them */
            world.image.can &= ~(unsigned)MW_CAN_READ;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *stacks = verdict_get(&verdicts, "thread-stacks");
        assert_int_equal(stacks->basis, MW_BASIS_LIKELY);
        assert_non_null(strstr(stacks->summary, i % 3 == 0 ? "of 301 threads"
                                                : i == 1   ? "of 300 threads"
                                                           : "of 302 threads"));
        assert_false(verdict_rules_out(stacks, "thp-bloat")); /* not counted is not 0 */
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
}

/* Files that were written to are no part of the figure. */
static void test_file_maps_beside_dirty_files(void **state)
{
    (void)state;
    ordinary();
    world_rss(&world, MW_CATEGORY_FILE_MAPPED, PAGES(100));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(3));
    world.account.file_clean_bytes = PAGES(40);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *maps = verdict_get(&verdicts, "file-maps");
    assert_int_equal(maps->bytes, PAGES(40));
    assert_true(verdict_says(maps, "clean or not: data files 100.0 MiB, programs and libraries"));
    mw_verdicts_deinit(&verdicts);
}

/* Not read is not 0. */
static void test_healthy_says_nothing_of_a_heap_that_was_not_read(void **state)
{
    (void)state;
    world_rss(&world, MW_CATEGORY_ANON_OTHER, PAGES(100));
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, PAGES(1));
    world.evidence.heap_was_read = false;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(strstr(verdict_get(&verdicts, "healthy")->summary, "malloc"));
    assert_non_null(strstr(verdict_get(&verdicts, "unknown")->summary, "everything has an owner"));
    mw_verdicts_deinit(&verdicts);
}

/* A static program keeps the block of its thread in the brk area: nothing that was not read. */
static void test_the_brk_area_beside_a_walked_heap_is_read(void **state)
{
    (void)state;
    ordinary();
    world_rss(&world, MW_CATEGORY_MALLOC_UNSPLIT, 4096);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdict_get(&verdicts, "unknown")->summary, "nothing stays unexplained");
    mw_verdicts_deinit(&verdicts);
}

static void test_huge_pages_on_stacks_are_said(void **state)
{
    (void)state;
    ordinary();
    world_map(&world, "", MW_CATEGORY_STACK_THREADS, PAGES(300));
    world.pieces[0].anon_huge_bytes = PAGES(290);
    world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(300));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_true(verdict_says(verdict_get(&verdicts, "thread-stacks"), "in huge pages"));
    assert_false(verdict_rules_out(verdict_get(&verdicts, "thread-stacks"), "thp-bloat"));
    mw_verdicts_deinit(&verdicts);
}

static void test_file_maps(void **state)
{
    (void)state;
    ordinary();
    world_map(&world, "/srv/index/a.dat", MW_CATEGORY_FILE_MAPPED, PAGES(400));
    world_map(&world, "/srv/index/b\x1b[2J.dat", MW_CATEGORY_FILE_MAPPED, PAGES(500));
    world_rss(&world, MW_CATEGORY_FILE_MAPPED, PAGES(900));
    world.account.file_clean_bytes = PAGES(905);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "file-maps");
    assert_int_equal(first->bytes, PAGES(905));
    assert_true(verdict_says(first, "largest: /srv/index/b\\x1b[2J.dat, 500.0 MiB"));
    assert_true(verdict_rules_out(first, "page-cache"));
    assert_int_equal(verdict_get(&verdicts, "healthy")->bytes, PAGES(94.25));
    mw_verdicts_deinit(&verdicts);
}

static void test_libraries_of_a_small_program_are_no_finding(void **state)
{
    (void)state;
    world_arena(&world, PAGES(0.1), 0, PAGES(0.1), PAGES(2));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(5));
    world.account.file_clean_bytes = PAGES(5);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "file-maps"));
    mw_verdicts_deinit(&verdicts);
}

static void test_shared_memory(void **state)
{
    (void)state;
    ordinary();
    world_map(&world, "/memfd:frames (deleted)", MW_CATEGORY_SHARED_MEMORY, PAGES(37));
    world_rss(&world, MW_CATEGORY_SHARED_MEMORY, PAGES(150));
    world.account.rows[MW_CATEGORY_SHARED_MEMORY].pss_bytes = PAGES(75);
    world.account.rows[MW_CATEGORY_SHARED_MEMORY].count = 2;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "shared-memory");
    assert_int_equal(first->bytes, PAGES(150));
    assert_true(verdict_says(first, "/memfd:frames (deleted)"));
    assert_true(verdict_says(first, "75.0 MiB is this process's share"));
    assert_true(verdict_rules_out(first, "file-maps"));
    mw_verdicts_deinit(&verdicts);
}

static void test_managed_memory(void **state)
{
    (void)state;
    ordinary();
    world.runtime.kind = "dotnet";
    world.evidence.runtime_count = 1;
    world_rss(&world, MW_CATEGORY_MANAGED_HEAP, PAGES(500));
    world_rss(&world, MW_CATEGORY_MANAGED_CODE, PAGES(60));
    world_rss(&world, MW_CATEGORY_MANAGED_METADATA, PAGES(30));
    for (int known = 0; known <= 1; known++) {
        if (known)
            world.runtime.heap_used = PAGES(450);
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *first = &verdicts.items[0];
        assert_string_equal(first->id, "managed-live");
        assert_int_equal(first->bytes, PAGES(500));
        assert_int_equal(first->basis, known ? MW_BASIS_LIKELY : MW_BASIS_POSSIBLE);
        assert_true(verdict_rules_out(first, "untracked-native"));
        assert_int_equal(verdict_get(&verdicts, "runtime-native")->bytes, PAGES(90));
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_direct_buffers_and_untracked_native_share_what_is_in_use(void **state)
{
    (void)state;
    world_arena(&world, PAGES(10), PAGES(9), PAGES(1), PAGES(400));
    world_rss(&world, MW_CATEGORY_MANAGED_HEAP, PAGES(200));
    world.runtime.kind = "jvm";
    world.runtime.direct = PAGES(150);
    world.runtime.native_reported = PAGES(450);
    world.evidence.runtime_count = 1;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "direct-buffers")->bytes, PAGES(150));
    /* 610 anonymous, 450 reported, 10 kept */
    assert_int_equal(verdict_get(&verdicts, "untracked-native")->bytes, PAGES(150));
    assert_true(verdict_rules_out(verdict_get(&verdicts, "untracked-native"), "trimmable-free") ||
                mw_verdict_find(&verdicts, "trimmable-free"));
    assert_int_equal(verdict_get(&verdicts, "healthy")->bytes, PAGES(100));
    mw_verdicts_deinit(&verdicts);
}

/* ---- outside ---- */

static void test_swapped(void **state)
{
    (void)state;
    ordinary();
    world.account.has_swap = true;
    world.account.swap_bytes = PAGES(700);
    world.account.rows[MW_CATEGORY_MALLOC_FREE].swap_bytes = PAGES(300);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "swapped");
    assert_int_equal(first->verdict_class, MW_CLASS_OUTSIDE);
    assert_int_equal(first->bytes, PAGES(700));
    assert_non_null(strstr(first->summary, "RSS and swap together are 800.0 MiB"));
    assert_true(verdict_says(first, "300.0 MiB of it is free memory of malloc"));
    mw_verdicts_deinit(&verdicts);
}

static void container(uint64_t limit, uint64_t usage)
{
    world.cgroup.version = 2;
    world.cgroup.limit = limit;
    world.cgroup.usage = usage;
    world.cgroup.process_count = 12;
    world.cgroup.anon = 120 * MIB;
    world.cgroup.active_file = 10 * MIB;
    world.cgroup.inactive_file = 10 * MIB;
    world.cgroup.file_mapped = 5 * MIB;
    world.cgroup.kernel = 9 * MIB;
    world.cgroup.sock = MIB;
}

static void test_page_cache_fills_the_container(void **state)
{
    (void)state;
    ordinary();
    container(2048 * MIB, 2000 * MIB);
    world.cgroup.active_file = 1500 * MIB;
    world.cgroup.inactive_file = 300 * MIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "page-cache");
    assert_int_equal(first->bytes, 1795 * MIB);
    assert_true(verdict_says(first, "active file 1,500.0 MiB"));
    assert_true(verdict_says(first, "which alarms watch, is 1,700.0 MiB"));
    assert_true(verdict_rules_out(first, "unbounded-growth"));
    assert_non_null(verdict_get(&verdicts, "healthy"));
    assert_non_null(strstr(verdicts.container, "the container is at its limit, and this process "
                                               "is not what fills it: 2,000.0 MiB of 2,048.0 MiB "
                                               "(98%); this process 100.0 MiB"));
    assert_non_null(strstr(verdicts.container, "anonymous memory of other processes 20.0 MiB"));
    mw_verdicts_deinit(&verdicts);
}

static void test_kernel_memory_fills_the_container(void **state)
{
    (void)state;
    for (int version = 1; version <= 2; version++) {
        world_init(&world);
        ordinary();
        container(512 * MIB, 400 * MIB);
        world.cgroup.version = version;
        world.cgroup.kernel = version == 2 ? 259 * MIB : MW_UNKNOWN;
        world.cgroup.slab = 230 * MIB;
        world.cgroup.page_tables = 29 * MIB;
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *first = &verdicts.items[0];
        assert_string_equal(first->id, "kernel-memory");
        assert_int_equal(first->bytes, 260 * MIB);
        assert_true(verdict_says(first, "slab 230.0 MiB"));
        assert_true(verdict_rules_out(first, "page-cache"));
        assert_non_null(strstr(verdicts.container, "near its limit, and most of it is not this"));
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_a_roomy_container_raises_no_alarm(void **state)
{
    (void)state;
    ordinary();
    container(64 * GIB, 20 * GIB);
    world.cgroup.active_file = 15 * GIB;
    world.cgroup.kernel = 4 * GIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_null(mw_verdict_find(&verdicts, "page-cache"));
    assert_null(mw_verdict_find(&verdicts, "kernel-memory"));
    assert_null(verdicts.container);
    mw_verdicts_deinit(&verdicts);
}

static void test_a_container_of_its_own_without_limit(void **state)
{
    (void)state;
    ordinary();
    container(MW_UNKNOWN, 900 * MIB);
    world.cgroup.active_file = 700 * MIB;
    world.cgroup.process_count = 1;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "page-cache");
    assert_true(verdict_says(&verdicts.items[0], "without a limit"));
    mw_verdicts_deinit(&verdicts);
}

static void test_container_filled_by_the_process(void **state)
{
    (void)state;
    ordinary();
    container(120 * MIB, 118 * MIB);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_non_null(verdicts.container);
    assert_non_null(strstr(verdicts.container, "the container is at its limit: 118.0 MiB"));
    mw_verdicts_deinit(&verdicts);
}

static void test_huge_page_tables_without_a_cgroup(void **state)
{
    (void)state;
    ordinary();
    world.image.process.vm_pte = 17 * MIB;
    world.image.process.hugetlb = 512 * MIB;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "kernel-memory");
    assert_int_equal(verdicts.items[0].bytes, 529 * MIB);
    assert_true(verdict_says(&verdicts.items[0], "HugetlbPages 512.0 MiB"));
    mw_verdicts_deinit(&verdicts);
}

/* ---- the peak ---- */

static void test_peak_needs_a_distance(void **state)
{
    (void)state;
    static const struct {
        uint64_t hwm;
        bool said;
    } cases[] = {{PAGES(101), false}, {PAGES(120), false}, {PAGES(400), true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        ordinary();
        world.image.process.vm_hwm = cases[c].hwm;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(verdicts.peak != NULL, cases[c].said);
        if (verdicts.peak)
            assert_null(strstr(verdicts.peak, "trimming")); /* nothing is there to trim */
        mw_verdicts_deinit(&verdicts);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_healthy_takes_what_nothing_calls_wrong),
        TEST(test_healthy_is_silent_beside_much_that_is_kept),
        TEST(test_healthy_is_silent_in_the_dark),
        TEST(test_nothing_at_all),
        TEST(test_mapping_level),
        TEST(test_allocator_that_could_not_be_walked),
        TEST(test_allocator_that_is_not_walked),
        TEST(test_dominant_size_is_a_candidate),
        TEST(test_pointers_may_be_in_swap),
        TEST(test_part_of_a_size_may_be_lost),
        TEST(test_candidate_gives_way),
        TEST(test_few_blocks_are_no_candidate),
        TEST(test_candidate_must_be_resident),
        TEST(test_thread_stacks),
        TEST(test_stacks_are_proven_by_the_count_of_threads),
        TEST(test_huge_pages_on_stacks_are_said),
        TEST(test_the_brk_area_beside_a_walked_heap_is_read),
        TEST(test_file_maps_beside_dirty_files),
        TEST(test_healthy_says_nothing_of_a_heap_that_was_not_read),
        TEST(test_file_maps),
        TEST(test_libraries_of_a_small_program_are_no_finding),
        TEST(test_shared_memory),
        TEST(test_managed_memory),
        TEST(test_direct_buffers_and_untracked_native_share_what_is_in_use),
        TEST(test_swapped),
        TEST(test_page_cache_fills_the_container),
        TEST(test_kernel_memory_fills_the_container),
        TEST(test_a_roomy_container_raises_no_alarm),
        TEST(test_a_container_of_its_own_without_limit),
        TEST(test_container_filled_by_the_process),
        TEST(test_huge_page_tables_without_a_cgroup),
        TEST(test_peak_needs_a_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
