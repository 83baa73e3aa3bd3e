/* Verdicts over malloc's free memory: each state, its causes and its look-alikes. */
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

/* The brk heap and the block that pins it; the main arena is the first. */
static void pin_heap(uint64_t size, uint64_t free_bytes, uint64_t would_release)
{
    world.segments[0] = (struct mw_heap_segment){
        .start = 0x555500000000, .end = 0x555500000000 + size, .kind = MW_SEGMENT_BRK, .arena = 0};
    world.segments[0].split.free_bytes = free_bytes;
    world.segments[0].split.free_rss = free_bytes;
    world.allocator.segment_count = 1;
    world.pins[0] = (struct mw_pin){.heap = 0x555500000000,
                                    .block = 0x555500000000 + size - PAGES(1.2),
                                    .size_bytes = 96,
                                    .state = MW_BLOCK_IN_USE,
                                    .distance_from_top_bytes = PAGES(1.2),
                                    .would_release_bytes = would_release,
                                    .content = MW_CONTENT_TEXT};
    world.allocator.pin_count = 1;
}

/* Icinga 2 after its API requests: 9 arenas, the numbers of the incident. */
static void incident_icinga(void)
{
    world_arena(&world, PAGES(1131.0), PAGES(1112.0), PAGES(0.1), PAGES(73.0));
    world_arena(&world, PAGES(732.7), PAGES(687.6), PAGES(36.3), PAGES(100.4));
    for (int i = 0; i < 6; i++)
        world_arena(&world, PAGES(17.0), PAGES(14.5), PAGES(2.0), PAGES(20.0));
    world_arena(&world, PAGES(16.0), PAGES(16.0 - 4.1), PAGES(4.0), PAGES(25.0));
    pin_heap(PAGES(1204.0), PAGES(1131.0), PAGES(1110.0));
    world.allocator.parameters.mmap_threshold = PAGES(31.4);
    world.allocator.parameters.trim_threshold = PAGES(62.8);
    world.allocator.free_large_bytes = world.allocator.free_large_rss = PAGES(640.0);
    world.allocator.content_bytes[MW_CONTENT_JSON] = 41;
    world.allocator.content_bytes[MW_CONTENT_OBJECTS] = 37;
    world.allocator.content_bytes[MW_CONTENT_MIXED] = 9;
    world.allocator.content_bytes[MW_CONTENT_NUMBERS] = 8;
    world.allocator.content_bytes[MW_CONTENT_ZERO] = 5;
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(41.2));
    world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(6.4));
    world_rss(&world, MW_CATEGORY_MALLOC_METADATA, PAGES(3.1));
    world_rss(&world, MW_CATEGORY_UNKNOWN, PAGES(1.9));
    world.image.process.vm_hwm = PAGES(2604);
    world.image.process.thread_count = 22;
    strcpy(world.image.process.comm, "icinga2");
}

static void test_incident_icinga_is_kept(void **state)
{
    (void)state;
    incident_icinga();
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "trimmable-free");
    assert_int_equal(first->verdict_class, MW_CLASS_KEPT);
    assert_int_equal(first->basis, MW_BASIS_PROVEN);
    assert_null(first->part_of);
    assert_int_equal(first->bytes, world.allocator.free_resident_bytes);
    assert_null(mw_verdict_find(&verdicts, "native-leak"));
    assert_null(mw_verdict_find(&verdicts, "fragmentation"));
    assert_null(mw_verdict_find(&verdicts, "arena-proliferation"));
    assert_null(mw_verdict_find(&verdicts, "healthy"));
    assert_true(verdict_rules_out(first, "native-leak"));
    assert_true(verdict_rules_out(first, "fragmentation"));
    assert_true(verdict_rules_out(first, "arena-proliferation"));
    assert_string_equal(first->evidence[0].text,
                        "9 arenas walked, sums equal glibc's own counters");
    mw_verdicts_deinit(&verdicts);
}

static void test_incident_icinga_names_its_causes(void **state)
{
    (void)state;
    incident_icinga();
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *pinned = verdict_get(&verdicts, "heap-top-pinned");
    assert_string_equal(pinned->part_of, "trimmable-free");
    assert_int_equal(pinned->bytes, PAGES(1110.0));
    assert_string_equal(pinned->summary,
                        "[heap] is 1,204.0 MiB, 1,131.0 MiB of it free; one live block of 96 B "
                        "(text) 1.2 MiB below its top keeps it from shrinking");
    assert_true(verdict_says(pinned, "trim_threshold in force: 62.8 MiB"));
    assert_int_equal(remedy_get(pinned, "before the peak")->gain_high_bytes, PAGES(1110.0));
    const struct mw_verdict *adaptive = verdict_get(&verdicts, "adaptive-mmap-threshold");
    assert_string_equal(adaptive->part_of, "trimmable-free");
    assert_int_equal(adaptive->bytes, PAGES(640.0));
    assert_non_null(strstr(adaptive->summary, "from 128 KiB to 31.4 MiB"));
    assert_true(verdict_says(adaptive, "big buffers no longer get one"));
    mw_verdicts_deinit(&verdicts);
}

static void test_incident_icinga_predicts_each_remedy(void **state)
{
    (void)state;
    incident_icinga();
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    const struct mw_remedy *trim = remedy_get(first, "malloc_trim(0)");
    uint64_t trimmable = world.allocator.trimmable_bytes;
    assert_true(trim->has_gain);
    assert_true(trim->gain_low_bytes <= trimmable && trim->gain_high_bytes >= trimmable);
    assert_true(trim->gain_high_bytes - trim->gain_low_bytes <= trimmable / 25);
    assert_string_equal(trim->verify, "memwhy trim 4121 --apply");
    const struct mw_remedy *stream = remedy_get(first, "Icinga 2 >= 2.16");
    assert_false(stream->has_gain);
    const struct mw_remedy *cap = remedy_get(first, "MALLOC_ARENA_MAX=2, restart");
    assert_int_equal(cap->gain_low_bytes, 0);
    assert_int_equal(cap->gain_high_bytes, 6 * PAGES(17.0) + PAGES(16.0));
    assert_non_null(strstr(cap->basis, "not worth it"));
    const struct mw_remedy *pin = remedy_get(first, "mmap_threshold=131072");
    assert_int_equal(pin->gain_high_bytes, PAGES(640.0));
    mw_verdicts_deinit(&verdicts);
}

static void test_incident_icinga_beside(void **state)
{
    (void)state;
    incident_icinga();
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.was, "last content of the free chunks: JSON text 41%, objects "
                                      "37% [likely: sampled]");
    assert_non_null(strstr(verdicts.peak, "RSS was at 2,604.0 MiB"));
    assert_non_null(strstr(verdicts.peak, "trimming does not lower the next peak"));
    assert_true(known_says(&verdicts, "Icinga/icinga2#10407"));
    assert_null(verdicts.container);
    mw_verdicts_deinit(&verdicts);
}

/* 971 Java threads on 96 CPUs: 767 arenas. */
static void incident_jvm(void)
{
    world_arena(&world, PAGES(30.0), PAGES(20.0), PAGES(2.0), PAGES(900.0));
    for (unsigned i = 0; i < 766; i++) {
        struct mw_arena *arena =
            world_arena(&world, PAGES(28.9), PAGES(18.9), PAGES(8.7), PAGES(0.4));
        arena->attached_threads = i % 3;
    }
    world.allocator.arena_limit = 768;
    world.image.process.cpus_online = 96;
    world.image.process.cpus_allowed = 96;
    world.image.process.thread_count = 971;
    world.runtime.kind = "jvm";
    world.runtime.direct = PAGES(920.0);
    world.evidence.runtime_count = 1;
    world.cgroup.version = 2;
    world.cgroup.cpu_quota = -1;
    world_rss(&world, MW_CATEGORY_MANAGED_HEAP, PAGES(7475.0));
    world_rss(&world, MW_CATEGORY_MANAGED_METADATA, PAGES(901.0));
    world_rss(&world, MW_CATEGORY_STACK_THREADS, PAGES(245.0));
    world_rss(&world, MW_CATEGORY_FILE_TEXT, PAGES(174.0));
    world_rss(&world, MW_CATEGORY_UNKNOWN, PAGES(92.0));
}

static void test_incident_jvm_is_arena_proliferation(void **state)
{
    (void)state;
    incident_jvm();
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "arena-proliferation");
    assert_int_equal(first->bytes, 766 * PAGES(28.9));
    assert_int_equal(first->basis, MW_BASIS_PROVEN);
    assert_non_null(strstr(first->summary, "767 glibc arenas (limit 768 = 8 x 96 CPUs)"));
    assert_non_null(strstr(first->summary, "99% of it free"));
    assert_true(verdict_says(first, "MALLOC_ARENA_MAX unset (environment and malloc agree)"));
    assert_true(verdict_says(first, "971 threads"));
    assert_true(verdict_says(first, "no CPU quota"));
    assert_true(verdict_says(first, "tops of thread arenas: malloc_trim leaves it"));
    assert_true(verdict_says(first, "256 arenas have no thread"));
    assert_true(verdict_rules_out(first, "native-leak"));
    assert_true(verdict_rules_out(first, "heap-top-pinned"));
    assert_true(verdict_rules_out(first, "thread-stacks"));
    /* the runtime's buffers are a verdict of their own only when they are large */
    assert_true(verdict_rules_out(first, "direct-buffers"));
    mw_verdicts_deinit(&verdicts);
}

static void test_incident_jvm_predicts_each_remedy(void **state)
{
    (void)state;
    incident_jvm();
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    const struct mw_remedy *cap = remedy_get(first, "MALLOC_ARENA_MAX=4, restart");
    assert_int_equal(cap->gain_high_bytes, 763 * PAGES(28.9));
    assert_true(cap->gain_low_bytes < cap->gain_high_bytes);
    assert_true(cap->gain_low_bytes > cap->gain_high_bytes / 100 * 90);
    const struct mw_remedy *trim = remedy_get(first, "jcmd 4121 System.trim_native_heap");
    assert_true(trim->gain_low_bytes <= world.allocator.trimmable_bytes &&
                trim->gain_high_bytes >= world.allocator.trimmable_bytes);
    assert_non_null(strstr(trim->basis, "tops stay"));
    assert_false(remedy_get(first, "jemalloc")->has_gain);
    const struct mw_verdict *rest = verdict_get(&verdicts, "trimmable-free");
    for (size_t i = 0; i < rest->remedy_count; i++)
        assert_null(strstr(rest->remedies[i].action, "trim_native_heap"));
    mw_verdicts_deinit(&verdicts);
}

static const char *why_not(const struct mw_verdict *verdict, const char *id)
{
    for (size_t i = 0; i < verdict->ruled_out_count; i++)
        if (strcmp(verdict->ruled_out[i].id, id) == 0)
            return verdict->ruled_out[i].why;
    return "";
}

/* One figure decides: each look-alike lacks one part of the evidence. */
static void test_arenas_need_eight_that_outweigh_main_and_are_mostly_free(void **state)
{
    (void)state;
    for (int arenas = 7; arenas <= 8; arenas++) {
        world_init(&world);
        world_arena(&world, PAGES(10), PAGES(9), 0, PAGES(10));
        for (int i = 0; i < arenas; i++)
            world_arena(&world, PAGES(5), PAGES(3), PAGES(1), PAGES(1));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "arena-proliferation") != NULL, arenas == 8);
        mw_verdicts_deinit(&verdicts);
    }
    static const struct {
        double main_free, free, in_use;
        bool holds;
    } cases[] = {{39, 5, 1, true}, {40, 5, 1, false}, {10, 5, 5, true}, {10, 5, 5.5, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(cases[c].main_free), PAGES(5), 0, PAGES(10));
        for (int i = 0; i < 8; i++)
            world_arena(&world, PAGES(cases[c].free), PAGES(3), PAGES(1), PAGES(cases[c].in_use));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "arena-proliferation") != NULL, cases[c].holds);
        if (!cases[c].holds)
            assert_non_null(strstr(why_not(&verdicts.items[0], "arena-proliferation"),
                                   cases[c].in_use > 5 ? "only 0 of 8 thread arenas are half free"
                                                       : "9 arenas of at most 64"));
        mw_verdicts_deinit(&verdicts);
    }
}

/* All half free, but four of twelve hold nearly everything: that is what is said, and nothing of a
 * limit that is not known. */
static void test_arenas_say_which_evidence_is_missing(void **state)
{
    (void)state;
    world_arena(&world, PAGES(5), PAGES(4), 0, PAGES(1));
    for (int i = 0; i < 12; i++)
        world_arena(&world, PAGES(i < 4 ? 40 : 0.25), PAGES(i < 4 ? 38 : 0), 0, 4096);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "trimmable-free");
    const char *why = why_not(&verdicts.items[0], "arena-proliferation");
    assert_non_null(strstr(why, "only 4 of 12 thread arenas hold a fair part"));
    mw_verdicts_deinit(&verdicts);

    world_init(&world);
    world_arena(&world, PAGES(50), PAGES(48), 0, PAGES(10));
    world.allocator.arena_limit = MW_UNKNOWN;
    verdicts = world_evaluate(&world);
    why = why_not(&verdicts.items[0], "arena-proliferation");
    assert_string_equal(why, "1 arena; those of threads hold 0.0 MiB free, their tops 0.0 MiB");
    mw_verdicts_deinit(&verdicts);
}

static void test_arenas_leave_the_main_arena_to_trimmable(void **state)
{
    (void)state;
    world_arena(&world, PAGES(50), PAGES(48), PAGES(1), PAGES(10));
    for (int i = 0; i < 16; i++)
        world_arena(&world, PAGES(5), PAGES(3), PAGES(1.5), PAGES(1));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "arena-proliferation")->bytes, 16 * PAGES(5));
    assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes, PAGES(50));
    /* one call trims all arenas: predicted once, where most of it lies */
    assert_int_equal(
        remedy_get(verdict_get(&verdicts, "arena-proliferation"), "malloc_trim")->gain_low_bytes,
        world.allocator.trimmable_bytes - world.allocator.trimmable_bytes / 50);
    mw_verdicts_deinit(&verdicts);
}

static void test_fragmentation_below_a_fifth(void **state)
{
    (void)state;
    /* interior free memory of 100 MiB, of which so much is in whole pages */
    static const struct {
        double trimmable;
        bool holds;
    } cases[] = {{0, true}, {19.5, true}, {20, false}, {60, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(102), PAGES(cases[c].trimmable + 2), PAGES(2), PAGES(80));
        struct mw_verdicts verdicts = world_evaluate(&world);
        const struct mw_verdict *first = &verdicts.items[0];
        assert_int_equal(mw_verdict_find(&verdicts, "fragmentation") != NULL, cases[c].holds);
        if (cases[c].holds) {
            assert_string_equal(first->id, "fragmentation");
            assert_int_equal(first->bytes, PAGES(100 - cases[c].trimmable));
            assert_true(verdict_rules_out(first, "native-leak"));
            assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes,
                             PAGES(cases[c].trimmable + 2));
            assert_false(remedy_get(first, "jemalloc")->has_gain);
        } else {
            assert_string_equal(first->id, "trimmable-free");
            assert_int_equal(first->bytes, PAGES(102));
            assert_true(verdict_rules_out(first, "fragmentation"));
        }
        mw_verdicts_deinit(&verdicts);
    }
}

/* A large top of the main arena is trimmed and is no proof against fragmentation inside. */
static void test_fragmentation_is_not_hidden_by_the_top(void **state)
{
    (void)state;
    world_arena(&world, PAGES(160), PAGES(62), PAGES(60), PAGES(80));
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "fragmentation")->bytes, PAGES(98));
    assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes, PAGES(62));
    mw_verdicts_deinit(&verdicts);
}

/* Tops of a few thread arenas: not a hole, and nothing that malloc_trim gives back. */
static void test_tops_of_few_arenas_are_called_so(void **state)
{
    (void)state;
    world_arena(&world, PAGES(1), PAGES(1), PAGES(1), PAGES(10));
    for (int i = 0; i < 3; i++)
        world_arena(&world, PAGES(20), 0, PAGES(19.5), PAGES(1));
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "fragmentation");
    assert_int_equal(first->bytes, 3 * PAGES(20));
    assert_non_null(strstr(first->summary, "58.5 MiB in tops of arenas"));
    assert_int_equal(remedy_get(first, "MALLOC_ARENA_MAX")->gain_high_bytes, 2 * PAGES(20));
    mw_verdicts_deinit(&verdicts);
}

/* A main arena that does not end at the brk keeps its top, although walkers do not say so. */
static void test_top_off_the_brk_is_not_interior(void **state)
{
    (void)state;
    world_arena(&world, PAGES(100), PAGES(38), PAGES(60), PAGES(10));
    world_finish(&world);
    world.allocator.fragment_bytes = PAGES(2);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *rest = verdict_get(&verdicts, "fragmentation");
    assert_int_equal(rest->bytes, PAGES(62));
    assert_non_null(strstr(rest->summary, "60.0 MiB in tops of arenas"));
    assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes, PAGES(38));
    mw_verdicts_deinit(&verdicts);
}

static void test_tcache_is_the_allocators_cache(void **state)
{
    (void)state;
    struct mw_arena *main = world_arena(&world, PAGES(31), PAGES(1), PAGES(1), PAGES(20));
    main->tcache_bytes = PAGES(29.5);
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "allocator-cache");
    assert_int_equal(first->bytes, PAGES(29.5));
    assert_int_equal(remedy_get(first, "tcache_count=0")->gain_high_bytes, PAGES(29.5));
    assert_true(verdict_rules_out(first, "fragmentation"));
    mw_verdicts_deinit(&verdicts);
}

/* musl keeps free slots in its groups, and has no malloc_trim to recommend. */
static void test_free_slots_of_musl(void **state)
{
    (void)state;
    world_arena(&world, PAGES(40), 0, 0, PAGES(20));
    world.allocator.kind = "musl";
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "allocator-cache");
    assert_int_equal(first->bytes, PAGES(40));
    assert_int_equal(first->basis, MW_BASIS_PROVEN);
    assert_non_null(strstr(first->summary, "musl gives a group back"));
    assert_true(verdict_rules_out(first, "trimmable-free"));
    assert_true(verdict_rules_out(first, "native-leak"));
    assert_int_equal(first->remedy_count, 2);
    assert_false(remedy_get(first, "jemalloc or mimalloc")->has_gain);
    for (size_t i = 0; i < first->remedy_count; i++)
        assert_null(strstr(first->remedies[i].action, "trim"));
    assert_null(mw_verdict_find(&verdicts, "trimmable-free"));
    mw_verdicts_deinit(&verdicts);
}

/* A walked allocator of another kind: what it keeps free is its cache. */
static void test_another_allocators_free_memory_is_its_cache(void **state)
{
    (void)state;
    world_arena(&world, PAGES(40), 0, 0, PAGES(20));
    world.allocator.kind = "mimalloc";
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "allocator-cache");
    assert_int_equal(first->bytes, PAGES(40));
    assert_false(remedy_get(first, "decay or release settings")->has_gain);
    assert_null(mw_verdict_find(&verdicts, "trimmable-free"));
    mw_verdicts_deinit(&verdicts);
}

/* Since 2.43 the tcache may hold mmapped blocks, which are in no arena. */
static void test_cached_mmapped_blocks_are_cached(void **state)
{
    (void)state;
    world_arena(&world, PAGES(1), PAGES(1), PAGES(1), PAGES(20));
    world_finish(&world);
    world.allocator.free_resident_bytes += PAGES(40);
    world_rss(&world, MW_CATEGORY_MALLOC_FREE, world.allocator.free_resident_bytes);
    world.account.rss_bytes += PAGES(40);
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "allocator-cache")->bytes, PAGES(40));
    mw_verdicts_deinit(&verdicts);
}

static void test_pin_look_alikes(void **state)
{
    (void)state;
    /* free inside, gain of the pin, and whether the heap counts as pinned */
    static const struct {
        double free, top, gain;
        bool holds;
    } cases[] = {
        {90, 1, 80, true},
        {90, 1, 5, false},   /* its going would release little */
        {90, 60, 62, false}, /* the top is large: it is not pinned, only not trimmed */
        {4, 0, 3, false},    /* too little to matter */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(cases[c].free), PAGES(cases[c].free - 1), PAGES(cases[c].top),
                    PAGES(100 - cases[c].free));
        pin_heap(PAGES(100), PAGES(cases[c].free), PAGES(cases[c].gain));
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "heap-top-pinned") != NULL, cases[c].holds);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_adaptive_threshold_look_alikes(void **state)
{
    (void)state;
    static const struct {
        uint64_t threshold, large;
        bool fixed, holds;
    } cases[] = {
        {802800, PAGES(30), false, true},
        {128 * KIB, PAGES(30), false, false}, /* never raised */
        {802800, PAGES(30), true, false},     /* set, not adapted */
        {802800, PAGES(0.5), false, false},   /* nothing large is free */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        world_init(&world);
        world_arena(&world, PAGES(50), PAGES(49), PAGES(1), PAGES(10));
        world.allocator.parameters.mmap_threshold = cases[c].threshold;
        world.allocator.parameters.no_dyn_threshold = cases[c].fixed;
        world.allocator.free_large_bytes = world.allocator.free_large_rss = cases[c].large;
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(mw_verdict_find(&verdicts, "adaptive-mmap-threshold") != NULL,
                         cases[c].holds);
        mw_verdicts_deinit(&verdicts);
    }
}

static void test_not_reconciled_is_likely(void **state)
{
    (void)state;
    world_arena(&world, PAGES(50), PAGES(49), PAGES(1), PAGES(10));
    world.allocator.reconciled = false;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_int_equal(verdict_get(&verdicts, "trimmable-free")->basis, MW_BASIS_LIKELY);
    assert_true(verdict_says(&verdicts.items[0], "counters: see the notes below"));
    mw_verdicts_deinit(&verdicts);
    world.allocator.moved_count = 1;
    world.image.pauses.count = 12;
    verdicts = world_evaluate(&world);
    assert_true(verdict_says(&verdicts.items[0], "read under 12 stops, 1 arena changed"));
    mw_verdicts_deinit(&verdicts);
}

/* A core without residency: sizes, and the text says so. */
static void test_without_residency(void **state)
{
    (void)state;
    world_arena(&world, PAGES(50), 0, PAGES(1), PAGES(10));
    world_size(&world, 64 * KIB, 10, 700);
    world_finish(&world);
    world.allocator.free_resident_bytes = world.allocator.trimmable_bytes = MW_UNKNOWN;
    world.account.has_rss = false;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        world.account.rows[category].rss_bytes = MW_UNKNOWN;
    struct mw_verdicts verdicts = world_evaluate(&world);
    const struct mw_verdict *first = &verdicts.items[0];
    assert_string_equal(first->id, "trimmable-free");
    assert_int_equal(first->basis, MW_BASIS_LIKELY);
    assert_int_equal(first->bytes, PAGES(50));
    assert_non_null(strstr(first->summary, "resident is not known here"));
    assert_false(remedy_get(first, "malloc_trim")->has_gain);
    mw_verdicts_deinit(&verdicts);
}

static void test_small_chunks_without_residency_are_fragmentation(void **state)
{
    (void)state;
    world_arena(&world, PAGES(50), 0, PAGES(1), PAGES(10));
    world_size(&world, 1200, 10, 40000);
    world_finish(&world);
    world.allocator.free_resident_bytes = world.allocator.trimmable_bytes = MW_UNKNOWN;
    world.account.has_rss = false;
    struct mw_verdicts verdicts = world_evaluate(&world);
    assert_string_equal(verdicts.items[0].id, "fragmentation");
    assert_int_equal(verdicts.items[0].basis, MW_BASIS_LIKELY);
    mw_verdicts_deinit(&verdicts);
}

/* smaps and the walk were read at two moments: the account's figure holds. */
static void test_account_bounds_what_is_charged(void **state)
{
    (void)state;
    for (int more = 0; more <= 1; more++) {
        world_init(&world);
        world_arena(&world, PAGES(50), PAGES(49), PAGES(1), PAGES(10));
        world_finish(&world);
        uint64_t counted = more ? PAGES(60) : PAGES(30);
        world.account.rss_bytes = world.account.rss_bytes - PAGES(50) + counted;
        world_rss(&world, MW_CATEGORY_MALLOC_FREE, counted);
        struct mw_verdicts verdicts = world_evaluate(&world);
        assert_int_equal(verdict_get(&verdicts, "trimmable-free")->bytes, counted);
        mw_verdicts_deinit(&verdicts);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_incident_icinga_is_kept),
        TEST(test_incident_icinga_names_its_causes),
        TEST(test_incident_icinga_predicts_each_remedy),
        TEST(test_incident_icinga_beside),
        TEST(test_incident_jvm_is_arena_proliferation),
        TEST(test_incident_jvm_predicts_each_remedy),
        TEST(test_arenas_need_eight_that_outweigh_main_and_are_mostly_free),
        TEST(test_arenas_say_which_evidence_is_missing),
        TEST(test_arenas_leave_the_main_arena_to_trimmable),
        TEST(test_fragmentation_below_a_fifth),
        TEST(test_fragmentation_is_not_hidden_by_the_top),
        TEST(test_tops_of_few_arenas_are_called_so),
        TEST(test_top_off_the_brk_is_not_interior),
        TEST(test_tcache_is_the_allocators_cache),
        TEST(test_free_slots_of_musl),
        TEST(test_another_allocators_free_memory_is_its_cache),
        TEST(test_cached_mmapped_blocks_are_cached),
        TEST(test_pin_look_alikes),
        TEST(test_adaptive_threshold_look_alikes),
        TEST(test_not_reconciled_is_likely),
        TEST(test_without_residency),
        TEST(test_small_chunks_without_residency_are_fragmentation),
        TEST(test_account_bounds_what_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
