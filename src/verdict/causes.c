/* verdict/causes.c: why free memory stays, beside which state it is in. A cause is part of the
 * state that it explains, may overlap with another cause, and carries its own remedy. */
#include "verdict/build.h"

#include <stdio.h>

/* The states that a main arena's heap can be in; NULL when none was charged. */
static struct mw_verdict *main_heap_state(const struct mw_scope *scope)
{
    struct mw_verdict *trimmable = scope->trimmable, *fragmentation = scope->fragmentation;
    if (!trimmable || !fragmentation)
        return trimmable ? trimmable : fragmentation;
    return trimmable->bytes >= fragmentation->bytes ? trimmable : fragmentation;
}

struct pinned_heap {
    const struct mw_heap_segment *segment;
    const struct mw_pin *pin;
    uint64_t below_top; /* resident free bytes under the top */
    uint64_t gain;      /* of them, what the pin holds */
};

static const struct mw_heap_segment *segment_at(const struct mw_allocator *allocator, mw_addr start)
{
    size_t low = 0, high = allocator->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (allocator->segments[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < allocator->segment_count && allocator->segments[low].start == start
               ? &allocator->segments[low]
               : NULL;
}

/* Is this heap large, mostly free inside and small at its top, and would the pin's going release
 * most of it? A pin that holds a fifth of the RSS is named whatever else its heap holds. */
static bool pin_holds(const struct mw_scope *scope, const struct pinned_heap *heap, uint64_t top)
{
    const struct mw_heap_segment *segment = heap->segment;
    uint64_t size = segment->end - segment->start;
    if (mw_is_worth(scope, heap->gain, 20, MW_MIB))
        return true;
    return segment->kind == MW_SEGMENT_BRK && segment->split.free_bytes >= size / 2 &&
           top < heap->below_top / 4 && heap->gain >= heap->below_top / 2 &&
           mw_is_worth(scope, heap->gain, 5, MW_MIB);
}

/* The pin that holds the most, if one holds enough to be a cause. Only heaps that shrink from
 * their end can be pinned: the brk heap, and the heaps of thread arenas. */
static bool pinned_heap_find(const struct mw_scope *scope, struct pinned_heap *found)
{
    const struct mw_allocator *glibc = scope->figures.glibc;
    for (size_t i = 0; i < glibc->pin_count; i++) {
        const struct mw_pin *pin = &glibc->pins[i];
        const struct mw_heap_segment *segment = segment_at(glibc, pin->heap);
        if (!segment || segment->end <= segment->start || segment->arena >= glibc->arena_count ||
            (segment->kind != MW_SEGMENT_BRK && segment->kind != MW_SEGMENT_HEAP))
            continue;
        uint64_t top = glibc->arenas[segment->arena].top_rss;
        struct pinned_heap heap = {segment, pin, mw_less(segment->split.free_rss, top),
                                   mw_less(pin->would_release_bytes, top)};
        if (!pin_holds(scope, &heap, top))
            continue;
        *found = heap;
        return true;
    }
    return false;
}

static const char *pin_state_name(enum mw_block_state state)
{
    switch (state) {
    case MW_BLOCK_TCACHE:
        return "cached (tcache)";
    case MW_BLOCK_FASTBIN:
        return "cached (fastbin)";
    default:
        return "live";
    }
}

static void pin_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                         const struct pinned_heap *heap)
{
    const struct mw_pin *pin = heap->pin;
    mw_verdict_figure(scope, verdict, "heap walk", pin->block,
                      "the block: 0x%llx, %s, %s, content: %s", (unsigned long long)pin->block,
                      MW_SIZE(pin->size_bytes), pin_state_name(pin->state),
                      mw_content_name(pin->content));
    mw_verdict_figure(scope, verdict, "heap walk", pin->distance_from_top_bytes,
                      "it ends %s below the end of the heap",
                      MW_SIZE(pin->distance_from_top_bytes));
    mw_verdict_figure(scope, verdict, "heap walk", pin->would_release_bytes,
                      "without it and its like the heap would give back %s",
                      MW_BYTES(pin->would_release_bytes));
    if (!scope->figures.glibc->lacks_parameters)
        mw_verdict_figure(scope, verdict, "mp_ in memory",
                          scope->figures.glibc->parameters.trim_threshold,
                          "trim_threshold in force: %s; free() gives back the top of a heap only",
                          MW_SIZE(scope->figures.glibc->parameters.trim_threshold));
}

void mw_rule_heap_top_pinned(struct mw_scope *scope)
{
    struct pinned_heap heap;
    if (!scope->figures.is_glibc || !scope->figures.is_resident || !pinned_heap_find(scope, &heap))
        return;
    bool is_brk = heap.segment->kind == MW_SEGMENT_BRK;
    struct mw_verdict *state = main_heap_state(scope);
    if (!is_brk && scope->arenas)
        state = scope->arenas;
    if (!state)
        return;
    uint64_t bytes = mw_least(state->bytes, heap.pin->would_release_bytes);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "heap-top-pinned", MW_CLASS_KEPT, state->basis, bytes);
    verdict->part_of = state->id;
    char like[96] = "";
    if (heap.gain < heap.below_top / 10 * 9)
        snprintf(like, sizeof like, " (it and its like hold %s)",
                 MW_BYTES(heap.pin->would_release_bytes));
    mw_text_set(scope, &verdict->summary,
                "%s is %s, %s of it free; one %s block of %s (%s) %s below its top keeps it from "
                "shrinking%s",
                is_brk ? "[heap]" : "a heap of a thread arena",
                MW_BYTES(heap.segment->end - heap.segment->start),
                MW_BYTES(heap.segment->split.free_bytes), pin_state_name(heap.pin->state),
                MW_SIZE(heap.pin->size_bytes), mw_content_name(heap.pin->content),
                MW_SIZE(heap.pin->distance_from_top_bytes), like);
    pin_evidence(scope, verdict, &heap);
    mw_verdict_rule_out(scope, verdict, "arena-proliferation",
                        "%s of the free memory is in this one heap", MW_BYTES(heap.below_top));
    mw_remedy_move_pin(scope, verdict, heap.pin);
}

/* The state that large free chunks make: the largest that is not a cache of small blocks. */
static struct mw_verdict *large_chunk_state(const struct mw_scope *scope)
{
    struct mw_verdict *state = main_heap_state(scope);
    if (!state || (scope->arenas && scope->arenas->bytes > state->bytes))
        return scope->arenas;
    return state;
}

void mw_rule_adaptive_mmap_threshold(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    struct mw_verdict *state = large_chunk_state(scope);
    if (!figures->is_glibc || !state)
        return;
    const struct mw_heap_parameters *parameters = &figures->glibc->parameters;
    uint64_t large = mw_least(figures->free_large_bytes, state->bytes);
    if (parameters->mmap_threshold <= MW_MMAP_THRESHOLD_DEFAULT || parameters->no_dyn_threshold ||
        large < state->bytes / 10 || large < MW_MIB)
        return;
    /* That it was raised is read from memory; whether these chunks were big buffers or small blocks
     * that have merged since, nothing tells any more. */
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "adaptive-mmap-threshold", MW_CLASS_KEPT,
                       state->basis == MW_BASIS_PROVEN ? MW_BASIS_LIKELY : state->basis, large);
    verdict->part_of = state->id;
    mw_text_set(scope, &verdict->summary,
                "glibc raised its mmap threshold from 128 KiB to %s, so big buffers live in "
                "arenas: %s is free there in chunks of 128 KiB and more (or in small blocks that "
                "have merged to such)",
                MW_SIZE(parameters->mmap_threshold), MW_BYTES(figures->free_large_bytes));
    mw_verdict_figure(scope, verdict, "mp_ in memory", parameters->mmap_threshold,
                      "mmap_threshold %s, no setting turned its adaptation off",
                      MW_SIZE(parameters->mmap_threshold));
    mw_verdict_figure(scope, verdict, "mp_ in memory", parameters->trim_threshold,
                      "trim_threshold %s follows it", MW_SIZE(parameters->trim_threshold));
    mw_verdict_figure(scope, verdict, "heap walk", figures->free_large_bytes,
                      "%s in free chunks of 128 KiB and more, tops not counted",
                      MW_BYTES(figures->free_large_bytes));
    mw_verdict_figure(
        scope, verdict, "heap walk", figures->mmapped_bytes,
        "%s in blocks with a mapping of their own (hblkhd)%s", MW_BYTES(figures->mmapped_bytes),
        figures->mmapped_bytes < figures->free_large_bytes / 10 ? ": big buffers no longer get one"
                                                                : "");
    mw_verdict_note(
        scope, verdict, "glibc",
        "to pin it: GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072%s; a cap on arenas "
        "is the wrong cure",
        mw_process_setting(scope->process, "GLIBC_TUNABLES") ? " joined to the set one by ':'"
                                                             : "");
    mw_remedy_pin_threshold(scope, verdict);
}
