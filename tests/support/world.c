/* support/world.c: see world.h. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void world_init(struct world *world)
{
    memset(world, 0, sizeof *world);
    mw_process_init(&world->image.process);
    mw_cgroup_init(&world->cgroup);
    world->image.kind = MW_IMAGE_LIVE;
    world->image.arch = MW_ARCH_X86_64;
    world->image.page_size = 4096;
    world->image.can = MW_CAN_READ | MW_CAN_PAGES | MW_CAN_COUNTERS;
    world->image.process.pid = 4121;
    world->image.process.has_settings = true;
    world->image.process.cpus_online = 8;
    world->image.process.cpus_allowed = 8;
    world->allocator.kind = "glibc";
    strcpy(world->allocator.version, "2.36");
    world->allocator.walked = true;
    world->allocator.reconciled = true;
    world->allocator.arenas = world->arenas;
    world->allocator.segments = world->segments;
    world->allocator.sizes = world->sizes;
    world->allocator.pins = world->pins;
    world->allocator.arena_limit = 64;
    world->allocator.parameters = (struct mw_heap_parameters){.mmap_threshold = 128 * KIB,
                                                              .trim_threshold = 128 * KIB,
                                                              .top_pad = 128 * KIB,
                                                              .arena_test = 8,
                                                              .mmaps_max = 65536,
                                                              .tcache_count = 7,
                                                              .tcache_max_bytes = 1032};
    world->account.has_rss = true;
    world->account.pieces = world->pieces;
    world->runtime = (struct mw_runtime){.heap_used = MW_UNKNOWN,
                                         .heap_committed = MW_UNKNOWN,
                                         .heap_rss = MW_UNKNOWN,
                                         .native_reported = MW_UNKNOWN,
                                         .direct = MW_UNKNOWN,
                                         .heap_nursery = MW_UNKNOWN};
    world->next_map = 0x7f0000000000;
    world->evidence = (struct mw_evidence){
        .image = &world->image,
        .account = &world->account,
        .allocators = &world->allocator,
        .allocator_count = 1,
        .runtimes = &world->runtime,
        .cgroup = &world->cgroup,
        .findings = &world->findings,
        .heap_was_read = true,
    };
}

void world_deinit(struct world *world)
{
    mw_mapping_list_deinit(&world->image.regions);
    mw_findings_deinit(&world->findings);
}

struct mw_arena *world_arena(struct world *world, uint64_t free_bytes, uint64_t trimmable,
                             uint64_t top, uint64_t in_use_bytes)
{
    assert_true(world->allocator.arena_count < WORLD_ARENAS_MAX);
    struct mw_arena *arena = &world->arenas[world->allocator.arena_count++];
    *arena = (struct mw_arena){.is_main = world->allocator.arena_count == 1,
                               .heap_count = 1,
                               .system_bytes = free_bytes + in_use_bytes,
                               .in_use_bytes = in_use_bytes,
                               .in_use_count = in_use_bytes / 1000,
                               .free_bytes = free_bytes,
                               .free_count = 1,
                               .top_bytes = top,
                               .free_rss = free_bytes,
                               .top_rss = top,
                               .trimmable_bytes = trimmable,
                               .attached_threads = 1,
                               .reconciled = true};
    return arena;
}

void world_size(struct world *world, uint64_t size, uint64_t in_use_count, uint64_t free_count)
{
    assert_true(world->allocator.size_count < WORLD_ROWS_MAX);
    world->sizes[world->allocator.size_count++] =
        (struct mw_size_row){size, in_use_count, free_count};
}

void world_rss(struct world *world, enum mw_category category, uint64_t rss_bytes)
{
    world->account.rows[category].rss_bytes = rss_bytes;
    world->account.rows[category].size_bytes = rss_bytes;
    world->account.rows[category].source = "smaps";
}

void world_setting(struct world *world, const char *name, const char *value)
{
    struct mw_process *process = &world->image.process;
    assert_true(process->setting_count < WORLD_SETTINGS_MAX);
    world->settings[process->setting_count++] =
        (struct mw_setting){(char *)(uintptr_t)name, (char *)(uintptr_t)value};
    process->settings = world->settings;
}

void world_map(struct world *world, const char *name, enum mw_category category, uint64_t rss_bytes)
{
    struct mw_mapping map = {.start = world->next_map, .end = world->next_map + MIB};
    world->next_map += 2 * MIB;
    assert_int_equal(mw_mapping_list_add(&world->image.regions, &map, name, strlen(name)), MW_OK);
    assert_true(world->account.piece_count < WORLD_ROWS_MAX);
    world->pieces[world->account.piece_count++] =
        (struct mw_account_piece){.start = map.start,
                                  .end = map.end,
                                  .region = (uint32_t)(world->image.regions.count - 1),
                                  .category = category,
                                  .owner = "",
                                  .rss_bytes = rss_bytes};
}

void world_finish(struct world *world)
{
    struct mw_allocator *allocator = &world->allocator;
    for (size_t i = 0; i < allocator->arena_count; i++) {
        const struct mw_arena *arena = &world->arenas[i];
        allocator->heap_count += arena->heap_count;
        allocator->in_use_bytes += arena->in_use_bytes;
        allocator->in_use_count += arena->in_use_count;
        allocator->free_bytes += arena->free_bytes;
        allocator->free_resident_bytes += arena->free_rss;
        allocator->trimmable_bytes += arena->trimmable_bytes;
        allocator->tcache_bytes += arena->tcache_bytes;
        allocator->top_bytes += arena->top_bytes;
        allocator->system_bytes += arena->system_bytes;
        uint64_t trimmed_top = arena->is_main ? arena->top_rss : 0;
        uint64_t tops = arena->is_main ? 0 : arena->top_rss;
        allocator->thread_top_rss += tops;
        allocator->fragment_bytes +=
            arena->free_rss - tops - trimmed_top - arena->tcache_bytes -
            (arena->trimmable_bytes > trimmed_top ? arena->trimmable_bytes - trimmed_top : 0);
    }
    if (allocator->arena_count > 0) {
        world_rss(world, MW_CATEGORY_MALLOC_IN_USE, allocator->in_use_bytes);
        world_rss(world, MW_CATEGORY_MALLOC_FREE, allocator->free_resident_bytes);
    }
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        world->account.rss_bytes += world->account.rows[category].rss_bytes;
    world->account.unknown_bytes = world->account.rows[MW_CATEGORY_UNKNOWN].rss_bytes;
    world->account.anonymous_bytes = world->account.rss_bytes;
    world->finished = true;
}

struct mw_verdicts world_evaluate(struct world *world)
{
    if (!world->finished)
        world_finish(world);
    struct mw_verdicts verdicts = {0};
    struct mw_error err = {0};
    assert_int_equal(mw_verdicts_evaluate(&world->evidence, &verdicts, &err), MW_OK);
    world_check(world, &verdicts);
    return verdicts;
}

/* 0: ordinary, 1: minor, 2: unknown. */
static int rank_of(const struct mw_verdict *verdict)
{
    return strcmp(verdict->id, "unknown") == 0 ? 2 : verdict->minor;
}

static void order_check(const struct mw_verdict *a, const struct mw_verdict *b)
{
    assert_true(rank_of(a) <= rank_of(b));
    if (rank_of(a) != rank_of(b))
        return;
    assert_true(a->verdict_class <= b->verdict_class);
    if (a->verdict_class == b->verdict_class)
        assert_true(a->bytes >= b->bytes);
}

void world_check(const struct world *world, const struct mw_verdicts *verdicts)
{
    const struct mw_account *account = world->evidence.account;
    bool has_rss = account && account->has_rss;
    uint64_t charged = 0, total = has_rss ? account->rss_bytes : UINT64_MAX;
    assert_true(verdicts->count > 0);
    assert_string_equal(verdicts->items[verdicts->count - 1].id, "unknown");
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        assert_non_null(verdict->summary);
        assert_true(verdict->summary[0] != '\0');
        if (i > 0)
            order_check(&verdicts->items[i - 1], verdict);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(verdicts->items[j].id, verdict->id);
        if (has_rss)
            assert_int_equal(verdict->minor, verdict->bytes < MIB && verdict->bytes * 50 < total);
        for (size_t j = 0; j < verdict->evidence_count; j++)
            assert_true(verdict->evidence[j].text && verdict->evidence[j].source);
        for (size_t j = 0; j < verdict->remedy_count; j++) {
            const struct mw_remedy *remedy = &verdict->remedies[j];
            assert_true(remedy->action && remedy->basis && remedy->verify);
            assert_true(remedy->gain_low_bytes <= remedy->gain_high_bytes);
        }
        if (verdict->part_of)
            assert_true(verdict_get(verdicts, verdict->part_of)->bytes >= verdict->bytes);
        else if (verdict->verdict_class != MW_CLASS_OUTSIDE)
            charged += verdict->bytes;
    }
    assert_true(charged <= total);
}

const struct mw_verdict *verdict_get(const struct mw_verdicts *verdicts, const char *id)
{
    const struct mw_verdict *verdict = mw_verdict_find(verdicts, id);
    if (!verdict)
        fail_msg("no verdict %s", id);
    return verdict;
}

const struct mw_remedy *remedy_get(const struct mw_verdict *verdict, const char *action_part)
{
    for (size_t i = 0; i < verdict->remedy_count; i++)
        if (strstr(verdict->remedies[i].action, action_part))
            return &verdict->remedies[i];
    fail_msg("%s has no remedy with '%s'", verdict->id, action_part);
    return NULL;
}

bool verdict_says(const struct mw_verdict *verdict, const char *part)
{
    for (size_t i = 0; i < verdict->evidence_count; i++)
        if (strstr(verdict->evidence[i].text, part))
            return true;
    return false;
}

bool verdict_rules_out(const struct mw_verdict *verdict, const char *id)
{
    for (size_t i = 0; i < verdict->ruled_out_count; i++)
        if (strcmp(verdict->ruled_out[i].id, id) == 0)
            return true;
    return false;
}

bool known_says(const struct mw_verdicts *verdicts, const char *part)
{
    for (size_t i = 0; i < verdicts->known_count; i++)
        if (strstr(verdicts->known[i], part))
            return true;
    return false;
}
