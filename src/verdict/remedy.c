/* verdict/remedy.c: what can be done, and what it gives in this very heap.
 *
 * No remedy without a prediction of its own: a range of bytes where one follows from the heap
 * walk, and "not predictable" with the reason where none does. A bound is called a bound. What a
 * bound is worth is said too: an arena cap is the most copied advice and often the wrong one. */
#include "verdict/build.h"

#include <stdio.h>

static void verify_restart(struct mw_scope *scope, struct mw_remedy *remedy)
{
    mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
}

/* malloc_trim(0), or what a JVM has for it. One call works on all arenas, so the gain is that of
 * the whole heap; the caller adds it to one verdict only. */
void mw_remedy_trim(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    uint64_t gain = figures->trimmable_bytes;
    bool is_jvm = mw_runtime_find(scope, "jvm") != NULL;
    if (figures->is_resident && gain == 0)
        return;
    struct mw_remedy *remedy =
        is_jvm ? mw_remedy_add(scope, verdict,
                               "jcmd %s System.trim_native_heap (JDK 18 and late 17), now", MW_PID)
               : mw_remedy_add(scope, verdict, "malloc_trim(0), now");
    if (is_jvm)
        mw_text_set(scope, &remedy->verify, "memwhy verify before.json %s", MW_PID);
    else
        mw_text_set(scope, &remedy->verify, "memwhy trim %s --apply", MW_PID);
    if (!figures->is_resident) {
        mw_text_set(scope, &remedy->basis, "not predictable: residency is not known here");
        return;
    }
    /* The prediction is exact for the moment of the walk; the target runs on after it. */
    uint64_t slack = figures->is_sampled ? mw_least(gain, figures->margin_bytes) : gain / 50;
    uint64_t there = mw_category_measure(scope, MW_CATEGORY_MALLOC_FREE);
    mw_remedy_gain(remedy, mw_least(gain - slack, there), mw_least(mw_sum(gain, slack), there));
    if (figures->is_sampled)
        mw_text_set(scope, &remedy->basis, "estimated from the arenas that were read");
    else if (figures->other.top_bytes > 0)
        mw_text_set(scope, &remedy->basis,
                    "predicted page for page, 2%% either way; %s of thread arenas' tops stay",
                    MW_BYTES(figures->other.top_bytes));
    else
        mw_text_set(scope, &remedy->basis, "predicted page for page, 2%% either way");
}

void mw_remedy_stream(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "%s", mw_known_stream_action(scope));
    mw_text_set(scope, &remedy->basis,
                "lowers the next peak, which trimming does not; gain not predictable");
    verify_restart(scope, remedy);
}

/* The cap to propose: the CPU quota, else a few for a large machine and two for a small one. */
static uint64_t arena_count_proposed(const struct mw_scope *scope)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    const struct mw_process *process = scope->process;
    uint64_t cpus = process->cpus_online;
    if (mw_known(process->cpus_allowed) && process->cpus_allowed < cpus)
        cpus = process->cpus_allowed;
    if (cgroup && cgroup->version != 0 && cgroup->cpu_quota > 0 && cgroup->cpu_quota < 1e6) {
        uint64_t whole = (uint64_t)cgroup->cpu_quota;
        uint64_t quota = whole + (cgroup->cpu_quota > (double)whole);
        if (quota < MW_REMEDY_ARENAS)
            return MW_REMEDY_ARENAS;
        return mw_least(quota, MW_REMEDY_ARENAS_MAX);
    }
    return mw_known(cpus) && cpus >= 16 ? MW_REMEDY_ARENAS_MAX : MW_REMEDY_ARENAS;
}

/* Free bytes of the thread arenas beyond the `stay` fullest. O(arenas x stay). */
static uint64_t beyond_fullest(const struct mw_scope *scope, uint64_t stay)
{
    uint64_t fullest[MW_REMEDY_ARENAS_MAX] = {0};
    const struct mw_evidence *evidence = scope->evidence;
    for (size_t i = 0; i < evidence->allocator_count; i++) {
        const struct mw_allocator *allocator = &evidence->allocators[i];
        for (size_t j = 0; allocator->walked && j < allocator->arena_count; j++) {
            const struct mw_arena *arena = &allocator->arenas[j];
            uint64_t bytes = scope->figures.is_resident ? arena->free_rss : arena->free_bytes;
            for (size_t k = 0; !arena->is_main && k < stay; k++) {
                if (bytes <= fullest[k])
                    continue;
                uint64_t smaller = fullest[k];
                fullest[k] = bytes;
                bytes = smaller;
            }
        }
    }
    uint64_t gone = scope->figures.other.free_bytes;
    for (size_t k = 0; k < stay; k++)
        gone = mw_less(gone, fullest[k]);
    return gone;
}

/* Under the same load fewer arenas hold more each. glibc itself reckons with 8 arenas a CPU, so
 * the lower bound leaves each arena that stays the free memory of eight average ones. */
static uint64_t arena_cap_low(const struct mw_arena_sums *other, uint64_t count)
{
    uint64_t average = other->count ? other->free_bytes / other->count : 0;
    uint64_t room;
    if (__builtin_mul_overflow(average, 8 * count, &room))
        return 0;
    return mw_less(other->free_bytes, room);
}

void mw_remedy_arena_cap(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    uint64_t count = arena_count_proposed(scope);
    uint64_t in_force = figures->glibc->parameters.arena_max;
    if (mw_sum(figures->other.count, figures->main.count) <= count ||
        (in_force > 0 && in_force <= count))
        return;
    uint64_t high = mw_least(beyond_fullest(scope, count - 1),
                             mw_category_measure(scope, MW_CATEGORY_MALLOC_FREE));
    uint64_t low = figures->arenas_hold ? mw_least(arena_cap_low(&figures->other, count), high) : 0;
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "MALLOC_ARENA_MAX=%s, restart", MW_COUNT(count));
    mw_remedy_gain(remedy, low, high);
    verify_restart(scope, remedy);
    if (figures->arenas_hold)
        mw_text_set(scope, &remedy->basis,
                    "likely, under the same load: what the arenas beyond the %s fullest hold free",
                    MW_COUNT(count));
    else
        mw_text_set(scope, &remedy->basis,
                    "upper bound: what the arenas beyond the %s fullest hold free%s",
                    MW_COUNT(count), high < verdict->bytes / 10 ? ": not worth it" : "");
}

void mw_remedy_pin_threshold(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    const struct mw_heap_parameters *parameters = &figures->glibc->parameters;
    if (figures->free_large_bytes == 0 || parameters->no_dyn_threshold ||
        parameters->mmap_threshold <= MW_MMAP_THRESHOLD_DEFAULT)
        return;
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072, restart");
    mw_remedy_gain(remedy, 0, mw_least(figures->free_large_bytes, verdict->bytes));
    mw_text_set(scope, &remedy->basis,
                "upper bound, if these chunks were big buffers; peak unchanged, more page faults");
    verify_restart(scope, remedy);
}

void mw_remedy_other_allocator(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "jemalloc (LD_PRELOAD), restart");
    mw_text_set(scope, &remedy->basis, "not predictable: run it beside an unchanged process");
    mw_text_set(scope, &remedy->verify, "memwhy report NEW_PID");
}

void mw_remedy_move_pin(struct mw_scope *scope, struct mw_verdict *verdict,
                        const struct mw_pin *pin)
{
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "allocate the block at 0x%llx before the peak, or free it after it",
        (unsigned long long)pin->block);
    mw_remedy_gain(remedy, 0, mw_least(pin->would_release_bytes, verdict->bytes));
    mw_text_set(scope, &remedy->basis,
                "upper bound: that block and its like gone from the heap's end");
    mw_text_set(scope, &remedy->verify, "memwhy pins %s", MW_PID);
}

void mw_remedy_release_settings(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "the allocator's decay or release settings, restart");
    mw_text_set(scope, &remedy->basis, "not predictable: depends on the load between two peaks");
    verify_restart(scope, remedy);
}

/* For musl: what frees whole groups, and what has no groups. */
void mw_remedy_slots(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "keep long-lived and short-lived blocks apart (pools, separate processes)");
    mw_text_set(scope, &remedy->basis,
                "not predictable: one live block holds its group of up to 32 of one size");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s", MW_PID);
    remedy = mw_remedy_add(scope, verdict,
                           "jemalloc or mimalloc (LD_PRELOAD; a static program: linked in), "
                           "restart");
    mw_text_set(scope, &remedy->basis, "not predictable: run it beside an unchanged process");
    mw_text_set(scope, &remedy->verify, "memwhy report NEW_PID");
}

void mw_remedy_tcache(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "GLIBC_TUNABLES=glibc.malloc.tcache_count=0, restart");
    mw_remedy_gain(remedy, 0, verdict->bytes);
    mw_text_set(scope, &remedy->basis,
                "upper bound: all that is cached now; small allocations get slower");
    verify_restart(scope, remedy);
}

void mw_remedy_stacks(struct mw_scope *scope, struct mw_verdict *verdict, uint64_t per_thread)
{
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "fewer threads, restart");
    mw_text_set(scope, &remedy->basis, "%s for each thread; how many can go is not known here",
                MW_SIZE(per_thread));
    verify_restart(scope, remedy);
    uint64_t locked = scope->process->vm_lck;
    if (!mw_known(locked) || locked == 0)
        return;
    remedy = mw_remedy_add(scope, verdict, "no mlockall(), or a smaller ulimit -s, restart");
    mw_remedy_gain(remedy, 0, mw_least(locked, verdict->bytes));
    mw_text_set(scope, &remedy->basis,
                "upper bound: %s is locked, and a locked stack is resident in full",
                MW_BYTES(locked));
    verify_restart(scope, remedy);
}
