/* verdict/figures.c: what the rules share, computed once from the evidence.
 *
 * Trusts nothing in the figures but their types: sums stop at the largest value, differences at 0,
 * and each part of the free memory is capped by what is left of the whole, so that the parts add
 * up whatever a walker or a torn reading says. Linear in arenas, sizes and regions.
 *
 * How the free memory that arena-proliferation leaves is divided:
 *
 *   free = trimmable + tops that malloc_trim leaves + tcache + holes
 *                      = tops of thread arenas, and of a main arena that does not end at the brk
 *
 * The last is not counted by walkers. It follows from what is: the resident free bytes that are
 * neither trimmable, nor in a thread arena's top, nor in holes, nor in the tcache. */
#include "verdict/rules.h"

#include <assert.h>
#include <string.h>

uint64_t mw_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t mw_less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t mw_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t value;
    return __builtin_mul_overflow(a, b, &value) ? UINT64_MAX : value;
}

/* Take up to wanted out of *left. */
static uint64_t take(uint64_t *left, uint64_t wanted)
{
    uint64_t taken = mw_least(*left, wanted);
    *left -= taken;
    return taken;
}

uint64_t mw_ledger_take(struct mw_scope *scope, enum mw_category category, uint64_t wanted)
{
    return take(&scope->left[category], wanted);
}

uint64_t mw_category_measure(const struct mw_scope *scope, enum mw_category category)
{
    const struct mw_account *account = scope->evidence->account;
    if (!account)
        return 0;
    const struct mw_account_row *row = &account->rows[category];
    if (scope->figures.has_rss)
        return mw_known(row->rss_bytes) ? row->rss_bytes : 0;
    /* Without residency the size of a mapping says nothing: a reserve of 256 GiB is not memory.
     * malloc's inside and what nobody owns are sizes that mean something. */
    switch (category) {
    case MW_CATEGORY_MALLOC_IN_USE:
    case MW_CATEGORY_MALLOC_FREE:
    case MW_CATEGORY_MALLOC_METADATA:
    case MW_CATEGORY_MALLOC_UNSPLIT:
    case MW_CATEGORY_UNKNOWN:
        return mw_known(row->size_bytes) ? row->size_bytes : 0;
    default:
        return 0;
    }
}

static bool is_walked(const struct mw_scope *scope, const struct mw_allocator *allocator)
{
    return scope->evidence->heap_was_read && allocator->walked && allocator->kind;
}

static bool is_walked_glibc(const struct mw_scope *scope, const struct mw_allocator *allocator)
{
    return is_walked(scope, allocator) && strcmp(allocator->kind, "glibc") == 0;
}

static void arena_sum(struct mw_arena_sums *sums, const struct mw_arena *arena, bool is_resident)
{
    uint64_t free_bytes = is_resident ? arena->free_rss : arena->free_bytes;
    sums->count++;
    sums->free_bytes = mw_sum(sums->free_bytes, free_bytes);
    sums->top_bytes = mw_sum(sums->top_bytes, is_resident ? arena->top_rss : arena->top_bytes);
    sums->tcache_bytes = mw_sum(sums->tcache_bytes, arena->tcache_bytes);
    if (is_resident)
        sums->trimmable_bytes = mw_sum(sums->trimmable_bytes, arena->trimmable_bytes);
    sums->free_size = mw_sum(sums->free_size, arena->free_bytes);
    sums->in_use_size = mw_sum(sums->in_use_size, arena->in_use_bytes);
    sums->read_count += !arena->is_estimated;
    if (!arena->is_estimated && arena->free_bytes > 0 && arena->free_bytes >= arena->in_use_bytes)
        sums->mostly_free_count++;
    if (arena->attached_threads == 0)
        sums->idle_count++;
    if (free_bytes > sums->free_bytes_max)
        sums->free_bytes_max = free_bytes;
}

/* Without residency: the whole pages that free chunks of these sizes hold at least. */
static uint64_t trimmable_estimate(const struct mw_allocator *allocator)
{
    enum { PAGE = 4096, CHUNK_HEAD = 48 }; /* what mtrim() skips: see docs/formats/glibc.md */
    uint64_t sum = 0;
    for (size_t i = 0; i < allocator->size_count; i++) {
        const struct mw_size_row *row = &allocator->sizes[i];
        uint64_t pages = mw_less(row->size_bytes, PAGE - 1 + CHUNK_HEAD) / PAGE;
        sum = mw_sum(sum, product(pages * PAGE, row->free_count));
    }
    return sum;
}

static void allocator_sum(struct mw_scope *scope, const struct mw_allocator *allocator,
                          uint64_t *fragments)
{
    struct mw_figures *figures = &scope->figures;
    figures->is_exact = figures->is_exact && allocator->reconciled;
    figures->margin_bytes = mw_sum(figures->margin_bytes, allocator->in_use_margin_bytes);
    figures->is_sampled = figures->is_sampled || allocator->sampled_count > 0;
    figures->is_sound = figures->is_sound && (allocator->reconciled || allocator->sample_is_sound);
    figures->in_use_bytes = mw_sum(figures->in_use_bytes, allocator->in_use_bytes);
    figures->in_use_count = mw_sum(figures->in_use_count, allocator->in_use_count);
    if (!figures->walked || allocator->system_bytes > figures->walked->system_bytes)
        figures->walked = allocator;
    if (!is_walked_glibc(scope, allocator)) {
        uint64_t kept = mw_known(allocator->free_resident_bytes) ? allocator->free_resident_bytes
                                                                 : allocator->free_bytes;
        figures->foreign_free_bytes = mw_sum(figures->foreign_free_bytes, kept);
        if (allocator->marks_free)
            figures->marked_free_bytes = mw_sum(figures->marked_free_bytes, kept);
        return;
    }
    figures->is_glibc = true;
    if (!figures->glibc || allocator->system_bytes > figures->glibc->system_bytes)
        figures->glibc = allocator;
    if (mw_known(allocator->mmapped_bytes))
        figures->mmapped_bytes = mw_sum(figures->mmapped_bytes, allocator->mmapped_bytes);
    figures->free_large_bytes =
        mw_sum(figures->free_large_bytes,
               figures->is_resident ? allocator->free_large_rss : allocator->free_large_bytes);
    *fragments = mw_sum(*fragments, allocator->fragment_bytes);
    uint64_t outside =
        figures->is_resident ? allocator->free_resident_bytes : allocator->free_bytes;
    for (size_t i = 0; i < allocator->arena_count; i++) {
        const struct mw_arena *arena = &allocator->arenas[i];
        arena_sum(arena->is_main ? &figures->main : &figures->other, arena, figures->is_resident);
        outside = mw_less(outside, figures->is_resident ? arena->free_rss : arena->free_bytes);
    }
    /* Free and in no arena: mmapped blocks in a tcache, since 2.43. */
    figures->main.free_bytes = mw_sum(figures->main.free_bytes, outside);
    figures->main.tcache_bytes = mw_sum(figures->main.tcache_bytes, outside);
    if (!figures->is_resident)
        figures->main.trimmable_bytes =
            mw_sum(figures->main.trimmable_bytes, trimmable_estimate(allocator));
}

/* Thread arenas that hold a fair part of what all hold free: a few full ones among many small
 * ones are a few big buffers, not a crowd of arenas. */
static void holding_count(struct mw_figures *figures, const struct mw_allocator *allocator)
{
    struct mw_arena_sums *other = &figures->other;
    uint64_t least = other->count ? other->free_bytes / other->count / 4 : 0;
    for (size_t i = 0; i < allocator->arena_count; i++) {
        const struct mw_arena *arena = &allocator->arenas[i];
        uint64_t free_bytes = figures->is_resident ? arena->free_rss : arena->free_bytes;
        if (!arena->is_main && !arena->is_estimated && free_bytes > 0 && free_bytes >= least)
            other->holding_count++;
    }
}

/* Arenas are alike or not: of a sample, counts that were made stand for as large a part of all. */
static void counts_scale(struct mw_arena_sums *sums)
{
    if (sums->read_count == 0 || sums->read_count == sums->count)
        return;
    sums->mostly_free_count = product(sums->mostly_free_count, sums->count) / sums->read_count;
    sums->holding_count = product(sums->holding_count, sums->count) / sums->read_count;
}

/* The deciding evidence of arena-proliferation. */
static bool arenas_hold(const struct mw_figures *figures)
{
    return figures->other.count >= 8 && figures->other.free_bytes > figures->main.free_bytes &&
           figures->other.mostly_free_count > figures->other.count / 2 &&
           figures->other.holding_count > figures->other.count / 2;
}

/* Of the main arena's top, what malloc_trim leaves because it does not end at the brk. */
static uint64_t main_top_left(const struct mw_figures *figures, uint64_t fragments)
{
    if (!figures->is_resident)
        return 0;
    uint64_t rest = mw_sum(figures->main.free_bytes, figures->other.free_bytes);
    rest = mw_less(rest, figures->trimmable_bytes);
    rest = mw_less(rest, figures->other.top_bytes);
    rest = mw_less(rest, fragments);
    rest = mw_less(rest, mw_sum(figures->main.tcache_bytes, figures->other.tcache_bytes));
    return mw_least(rest, figures->main.top_bytes);
}

static void parts_build(struct mw_figures *figures, uint64_t fragments)
{
    struct mw_arena_sums all = figures->main;
    uint64_t top_left = main_top_left(figures, fragments);
    uint64_t tops = top_left;
    if (!figures->arenas_hold) {
        all.free_bytes = mw_sum(all.free_bytes, figures->other.free_bytes);
        all.trimmable_bytes = mw_sum(all.trimmable_bytes, figures->other.trimmable_bytes);
        all.tcache_bytes = mw_sum(all.tcache_bytes, figures->other.tcache_bytes);
        tops = mw_sum(tops, figures->other.top_bytes);
    }
    struct mw_free_parts *parts = &figures->parts;
    uint64_t left = all.free_bytes;
    if (!figures->is_resident) /* the estimate must not eat what is known to be something else */
        all.trimmable_bytes =
            mw_least(all.trimmable_bytes, mw_less(left, mw_sum(tops, all.tcache_bytes)));
    parts->trimmable = take(&left, all.trimmable_bytes);
    parts->tops = take(&left, tops);
    parts->cached = take(&left, all.tcache_bytes);
    parts->holes = left;
    parts->trimmable_inside = mw_less(parts->trimmable, mw_less(figures->main.top_bytes, top_left));
    if (!figures->is_resident)
        parts->trimmable_inside = parts->trimmable;
}

/* Of the free bytes outside tops and tcache, malloc_trim would release less than a fifth; or the
 * tops that it leaves outweigh what it gives. */
static bool fragmentation_holds(const struct mw_free_parts *parts)
{
    uint64_t inside = mw_sum(parts->trimmable_inside, parts->holes);
    return (inside > 0 && parts->trimmable_inside < inside / 5 + (inside % 5 > 0)) ||
           parts->tops > parts->trimmable;
}

static bool residency_is_known(const struct mw_scope *scope)
{
    const struct mw_evidence *evidence = scope->evidence;
    for (size_t i = 0; i < evidence->allocator_count; i++) {
        const struct mw_allocator *allocator = &evidence->allocators[i];
        if (is_walked(scope, allocator) &&
            (!mw_known(allocator->free_resident_bytes) || !mw_known(allocator->trimmable_bytes)))
            return false;
    }
    return scope->figures.has_rss;
}

void mw_figures_build(struct mw_scope *scope)
{
    const struct mw_evidence *evidence = scope->evidence;
    struct mw_figures *figures = &scope->figures;
    figures->has_rss = evidence->account && evidence->account->has_rss;
    figures->is_resident = residency_is_known(scope);
    figures->is_exact = figures->is_sound = evidence->heap_was_read;
    uint64_t fragments = 0;
    for (size_t i = 0; i < evidence->allocator_count; i++)
        if (is_walked(scope, &evidence->allocators[i]))
            allocator_sum(scope, &evidence->allocators[i], &fragments);
    figures->trimmable_bytes =
        figures->is_resident ? mw_sum(figures->main.trimmable_bytes, figures->other.trimmable_bytes)
                             : 0;
    for (size_t i = 0; i < evidence->allocator_count; i++)
        if (is_walked_glibc(scope, &evidence->allocators[i]))
            holding_count(figures, &evidence->allocators[i]);
    counts_scale(&figures->other);
    figures->arenas_hold = arenas_hold(figures);
    parts_build(figures, fragments);
    figures->fragmentation_holds = fragmentation_holds(&figures->parts);
    for (int category = 0; category < MW_CATEGORY_COUNT; category++) {
        scope->left[category] = mw_category_measure(scope, (enum mw_category)category);
        figures->total_bytes = mw_sum(figures->total_bytes, scope->left[category]);
    }
    scope->unit = mw_unit_for(figures->total_bytes);
}

bool mw_is_worth(const struct mw_scope *scope, uint64_t bytes, unsigned percent, uint64_t min_bytes)
{
    return bytes >= min_bytes && bytes >= scope->figures.total_bytes / 100 * percent;
}

uint64_t mw_kept_bytes(const struct mw_scope *scope)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < scope->verdicts->count; i++) {
        const struct mw_verdict *verdict = &scope->verdicts->items[i];
        if (verdict->verdict_class == MW_CLASS_KEPT && !verdict->part_of)
            sum = mw_sum(sum, verdict->bytes);
    }
    return sum;
}

uint64_t mw_kept_free_bytes(const struct mw_scope *scope)
{
    const struct mw_verdict *states[] = {scope->arenas, scope->trimmable, scope->fragmentation,
                                         scope->cache};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        sum = mw_sum(sum, states[i] ? states[i]->bytes : 0);
    return sum;
}

struct mw_verdict *mw_kept_largest(const struct mw_scope *scope)
{
    struct mw_verdict *states[] = {scope->arenas, scope->trimmable, scope->fragmentation,
                                   scope->cache};
    struct mw_verdict *largest = NULL;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i] && (!largest || states[i]->bytes > largest->bytes))
            largest = states[i];
    return largest;
}

const struct mw_runtime *mw_runtime_find(const struct mw_scope *scope, const char *kind)
{
    const struct mw_evidence *evidence = scope->evidence;
    for (size_t i = 0; i < evidence->runtime_count; i++)
        if (evidence->runtimes[i].kind && strcmp(evidence->runtimes[i].kind, kind) == 0)
            return &evidence->runtimes[i];
    return NULL;
}

uint64_t mw_in_use_count_of(const struct mw_scope *scope, uint64_t chunk_size)
{
    const struct mw_evidence *evidence = scope->evidence;
    uint64_t count = 0;
    for (size_t i = 0; i < evidence->allocator_count; i++) {
        const struct mw_allocator *allocator = &evidence->allocators[i];
        for (size_t j = 0; is_walked_glibc(scope, allocator) && j < allocator->size_count; j++)
            if (allocator->sizes[j].size_bytes == chunk_size)
                count = mw_sum(count, allocator->sizes[j].in_use_count);
    }
    return count;
}

uint64_t mw_usable_bytes(const struct mw_scope *scope, uint64_t size_bytes)
{
    const struct mw_allocator *walked = scope->figures.walked;
    assert(walked); /* whose sizes they are */
    return mw_less(size_bytes, mw_allocator_block_shape(walked).overhead_bytes);
}

bool mw_is_mapped(const struct mw_scope *scope, const char *name_start)
{
    const struct mw_image *image = scope->evidence->image;
    size_t length = strlen(name_start);
    for (size_t i = 0; image && i < image->regions.count; i++) {
        const char *name = image->regions.items[i].name;
        const char *slash = name ? strrchr(name, '/') : NULL;
        if (slash && strncmp(slash + 1, name_start, length) == 0)
            return true;
    }
    return false;
}
