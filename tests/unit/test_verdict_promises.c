/* What every verdict promises, whatever the evidence: no remedy gives more than the process has, or
 * comes without a figure and a reason; nothing is said of what is resident when that is not known;
 * no figure that is unknown is printed as a number. Worlds are drawn at random, absurd ones among
 * them; the seed is fixed, so that a failure comes back. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORLDS = 4000 };

static uint64_t seed;

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators") */
static uint64_t draw(uint64_t limit)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (seed * 0x2545f4914f6cdd1d >> 11) % limit;
}

static bool chance(unsigned one_in)
{
    return draw(one_in) == 0;
}

/* Sizes of all orders, 0 among them. */
static uint64_t draw_bytes(unsigned bits_max)
{
    return chance(6) ? 0 : draw(((uint64_t)1 << draw(bits_max)) + 1);
}

static uint64_t draw_known(uint64_t value)
{
    return chance(4) ? MW_UNKNOWN : value;
}

static void arenas_draw(struct world *world)
{
    size_t count = 1 + draw(chance(3) ? 40 : 3);
    for (size_t i = 0; i < count; i++) {
        uint64_t top = draw_bytes(30), inside = draw_bytes(32), tcache = draw_bytes(22);
        uint64_t trimmed_top = i == 0 ? top : 0; /* a thread arena's top stays */
        uint64_t trimmable = trimmed_top + (chance(3) ? 0 : draw(inside + 1));
        struct mw_arena *arena =
            world_arena(world, top + inside + tcache, trimmable, top, draw_bytes(33));
        arena->tcache_bytes = tcache;
        arena->attached_threads = draw(3);
    }
    world->allocator.reconciled = !chance(4);
    world->allocator.arena_limit = chance(3) ? MW_UNKNOWN : draw(1000);
    world->allocator.free_large_bytes = draw_bytes(34);
    world->allocator.free_large_rss = draw_bytes(34);
    world->allocator.parameters.mmap_threshold = draw_bytes(26);
    world->allocator.parameters.no_dyn_threshold = chance(3);
    world->allocator.parameters.arena_max = chance(3) ? draw(10) : 0;
}

static void blocks_draw(struct world *world)
{
    uint64_t size = 32;
    for (size_t i = draw(6); i > 0; i--) {
        world_size(world, size, draw_bytes(20), draw_bytes(10));
        size += 16 + 16 * draw(100);
    }
}

static void pins_draw(struct world *world)
{
    if (chance(2))
        return;
    uint64_t size = 1 + draw_bytes(33);
    world->segments[0] =
        (struct mw_heap_segment){.start = 0x555500000000,
                                 .end = 0x555500000000 + size,
                                 .kind = chance(2) ? MW_SEGMENT_BRK : MW_SEGMENT_HEAP,
                                 .arena = (uint32_t)draw(world->allocator.arena_count)};
    world->segments[0].split.free_bytes = draw(size + 1);
    world->segments[0].split.free_rss = draw(size + 1);
    world->allocator.segment_count = 1;
    world->pins[0] = (struct mw_pin){.heap = 0x555500000000,
                                     .block = 0x555500000010,
                                     .size_bytes = 96,
                                     .distance_from_top_bytes = draw(size + 1),
                                     .would_release_bytes = draw_bytes(40)};
    world->allocator.pin_count = 1;
}

static void surroundings_draw(struct world *world)
{
    struct mw_process *process = &world->image.process;
    struct mw_cgroup *cgroup = &world->cgroup;
    process->thread_count = draw_known(draw(2000));
    process->uptime_seconds = chance(3) ? -1 : (double)draw_bytes(40);
    process->vm_hwm = draw_known(draw_bytes(40));
    process->vm_lck = draw_known(draw_bytes(34));
    process->vm_pte = draw_known(draw_bytes(34));
    process->hugetlb = draw_known(draw_bytes(34));
    process->vm_swap = draw_known(draw_bytes(36));
    process->cpus_online = draw_known(1 + draw(256));
    process->cpus_allowed = draw_known(1 + draw(256));
    if (chance(2))
        return;
    cgroup->version = 2;
    cgroup->limit = draw_known(draw_bytes(40));
    cgroup->usage = draw_known(draw_bytes(40));
    cgroup->anon = draw_known(draw_bytes(40));
    cgroup->active_file = draw_known(draw_bytes(38));
    cgroup->inactive_file = draw_known(draw_bytes(38));
    cgroup->file_mapped = draw_known(draw_bytes(38));
    cgroup->kernel = draw_known(draw_bytes(36));
    cgroup->slab_reclaimable = draw_known(draw_bytes(36));
    cgroup->sock = draw_known(draw_bytes(36));
    cgroup->process_count = draw_known(draw(8));
    cgroup->cpu_quota = chance(2) ? -1 : (double)draw(64) / 4;
}

static void residency_draw(struct world *world)
{
    struct mw_account *account = &world->account;
    if (chance(3)) { /* a core */
        account->has_rss = account->has_swap = false;
        for (int i = 0; i < MW_CATEGORY_COUNT; i++)
            account->rows[i].rss_bytes = account->rows[i].swap_bytes = MW_UNKNOWN;
        account->rss_bytes = account->unknown_bytes = account->swap_bytes = MW_UNKNOWN;
        account->file_clean_bytes = account->anonymous_bytes = MW_UNKNOWN;
        world->allocator.free_resident_bytes = world->allocator.trimmable_bytes = MW_UNKNOWN;
        for (size_t i = 0; i < world->allocator.arena_count; i++)
            world->arenas[i].free_rss = world->arenas[i].top_rss =
                world->arenas[i].trimmable_bytes = 0;
        return;
    }
    account->has_swap = chance(2);
    account->swap_bytes = account->has_swap ? draw_bytes(38) : MW_UNKNOWN;
    account->file_clean_bytes = draw_bytes(36);
    if (chance(4)) /* the account saw less of the heap than its walk: the target ran on */
        for (int i = MW_CATEGORY_MALLOC_IN_USE; i <= MW_CATEGORY_MALLOC_FREE; i++) {
            uint64_t *rss = &account->rows[i].rss_bytes, less = draw(*rss + 1);
            *rss -= less;
            account->rss_bytes -= less;
        }
}

static struct mw_references references;

static void references_draw(struct world *world)
{
    if (chance(2) || world->allocator.size_count == 0)
        return;
    references = (struct mw_references){
        .size_bytes = world->sizes[draw(world->allocator.size_count)].size_bytes,
        .sampled = 32,
        .referenced = chance(2) ? 0 : draw(33),
        .bytes_read = draw_bytes(36),
        .is_complete = !chance(3)};
    world->evidence.references = &references;
}

static struct mw_huge huge;

static void huge_draw(struct world *world)
{
    world->account.lazy_free_bytes = chance(3) ? MW_UNKNOWN : draw_bytes(34);
    world_map(world, "/dev/dri/card0", MW_CATEGORY_DEVICE, draw_bytes(20));
    struct mw_mapping *map = &world->image.regions.items[world->image.regions.count - 1];
    map->perms = MW_PERM_READ;
    map->known = 1u << MW_COUNTER_LAZY_FREE;
    map->counters[MW_COUNTER_LAZY_FREE] = draw_bytes(34);
    if (chance(2))
        return;
    huge = (struct mw_huge){.size_bytes = 2 * MIB,
                            .total_bytes = draw_bytes(38),
                            .is_sampled = chance(2),
                            .flags_known = chance(2),
                            .zero_in_free_bytes = draw_bytes(34),
                            .all_zero_bytes = draw_bytes(34),
                            .asked_bytes = draw_bytes(34),
                            .error_bytes = draw_bytes(34),
                            .thp.max_ptes_none = draw_known(draw(512)),
                            .thp.splits_underused = chance(2)};
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        huge.zero_bytes[i] = chance(2) ? 0 : draw_bytes(36);
    world->evidence.huge = &huge;
}

static void world_draw(struct world *world)
{
    world_init(world);
    arenas_draw(world);
    blocks_draw(world);
    pins_draw(world);
    for (int i = 0; i < MW_CATEGORY_COUNT; i++)
        if (i != MW_CATEGORY_MALLOC_IN_USE && i != MW_CATEGORY_MALLOC_FREE && chance(2))
            world_rss(world, (enum mw_category)i, draw_bytes(34));
    surroundings_draw(world);
    references_draw(world);
    huge_draw(world);
    world_finish(world);
    residency_draw(world);
}

static void text_check(const struct world *world, const char *text)
{
    static const char *const never[] = {"18,446,744", "1844674", "nan",
                                        "inf ",       "(null)",  "17,179,869,184.0 GiB"};
    static const char *const of_residents[] = {"malloc_trim would", "malloc_trim(0) would",
                                               "still resident"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i]))
            fail_msg("a figure that is not known: %s", text);
    for (size_t i = 0; i < sizeof of_residents / sizeof *of_residents; i++)
        if (!world->account.has_rss && strstr(text, of_residents[i]))
            fail_msg("residency is not known: %s", text);
}

static void remedy_check(const struct world *world, const struct mw_verdict *verdict,
                         const struct mw_remedy *remedy)
{
    static const char *const reasons[] = {"not predictable", "no gain", "not known here",
                                          "an experiment", "reclaimable: "};
    bool has_reason = false;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        has_reason |= strstr(remedy->basis, reasons[i]) != NULL;
    if (!remedy->has_gain && !has_reason)
        fail_msg("%s: %s: neither a gain nor a reason: %s", verdict->id, remedy->action,
                 remedy->basis);
    uint64_t total = world->account.has_rss ? world->account.rss_bytes : UINT64_MAX;
    if (remedy->has_gain && verdict->verdict_class != MW_CLASS_OUTSIDE &&
        remedy->gain_high_bytes > total)
        fail_msg("%s: %s gives %llu of %llu", verdict->id, remedy->action,
                 (unsigned long long)remedy->gain_high_bytes, (unsigned long long)total);
}

static void verdict_check(const struct world *world, const struct mw_verdict *verdict)
{
    text_check(world, verdict->summary);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        text_check(world, verdict->evidence[i].text);
    for (size_t i = 0; i < verdict->ruled_out_count; i++)
        text_check(world, verdict->ruled_out[i].why);
    for (size_t i = 0; i < verdict->remedy_count; i++) {
        text_check(world, verdict->remedies[i].basis);
        remedy_check(world, verdict, &verdict->remedies[i]);
    }
}

static void test_promises(void **state)
{
    (void)state;
    static struct world world;
    seed = 4711;
    for (int i = 0; i < WORLDS; i++) {
        world_draw(&world);
        struct mw_verdicts verdicts = world_evaluate(&world);
        for (size_t k = 0; k < verdicts.count; k++)
            verdict_check(&world, &verdicts.items[k]);
        for (size_t k = 0; k < verdicts.known_count; k++)
            text_check(&world, verdicts.known[k]);
        mw_verdicts_deinit(&verdicts);
        world_deinit(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
