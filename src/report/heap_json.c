/* report/heap_json.c: memwhy.heap/1 and memwhy.pins/1. Rows are written as they are met: a heap of
 * any number of arenas or sizes needs no memory here. */
#include "report/emit.h"

#include "report/parts_json.h"

/* What only the blocks of an arena tell is null when it was not read. */
static void json_arena_figures(struct mw_json *json, const struct mw_arena *arena, bool resident)
{
    bool was_read = !arena->is_estimated;
    const struct {
        enum mw_field field;
        uint64_t value;
        bool is_known;
    } figures[] = {
        {MW_F(arena, heaps), arena->heap_count, true},
        {MW_F(arena, system_bytes), arena->system_bytes, true},
        {MW_F(arena, in_use_bytes), arena->in_use_bytes, was_read},
        {MW_F(arena, in_use_count), arena->in_use_count, was_read},
        {MW_F(arena, free_bytes), arena->free_bytes, was_read},
        {MW_F(arena, free_count), arena->free_count, was_read},
        {MW_F(arena, tcache_bytes), arena->tcache_bytes, was_read},
        {MW_F(arena, fastbin_bytes), arena->fastbin_bytes, was_read},
        {MW_F(arena, top_bytes), arena->top_bytes, true},
        {MW_F(arena, free_resident_bytes), arena->free_rss, was_read && resident},
        {MW_F(arena, trimmable_bytes), arena->trimmable_bytes, was_read && resident},
        {MW_F(arena, metadata_bytes), arena->metadata_bytes, was_read},
        {MW_F(arena, attached_threads), arena->attached_threads, true},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        mw_field_u64(json, figures[i].field, figures[i].is_known ? figures[i].value : MW_UNKNOWN);
}

static void json_arenas(struct mw_json *json, const struct mw_allocator *allocator)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < allocator->arena_count && !mw_json_failed(json); i++) {
        const struct mw_arena *arena = &allocator->arenas[i];
        mw_field_object_begin(json, MW_SCOPE_arena);
        mw_field_address(json, MW_F(arena, address), arena->address);
        mw_field_bool(json, MW_F(arena, main), arena->is_main);
        json_arena_figures(json, arena, allocator->free_resident_bytes != MW_UNKNOWN);
        mw_field_bool(json, MW_F(arena, reconciled), arena->reconciled);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_size(struct mw_json *json, const struct mw_size_row *row, uint64_t overhead)
{
    mw_field_object_begin(json, MW_SCOPE_size);
    mw_field_u64(json, MW_F(size, size_bytes), row->size_bytes);
    mw_field_u64(json, MW_F(size, in_use_count), row->in_use_count);
    mw_field_u64(json, MW_F(size, free_count), row->free_count);
    mw_field_u64(json, MW_F(size, usable_bytes),
                 row->size_bytes > overhead ? row->size_bytes - overhead : 0);
    mw_field_u64(json, MW_F(size, in_use_bytes), row->size_bytes * row->in_use_count);
    mw_field_u64(json, MW_F(size, free_bytes), row->size_bytes * row->free_count);
    mw_field_object_end(json);
}

/* The histograms of all allocators, merged by size. */
static void json_sizes(struct mw_json *json, const struct mw_analysis *analysis)
{
    size_t next[MW_ALLOCATORS_MAX] = {0};
    mw_json_array_begin(json);
    while (!mw_json_failed(json)) {
        struct mw_size_row sum = {.size_bytes = UINT64_MAX};
        uint64_t overhead = 0;
        for (size_t i = 0; i < analysis->allocator_count; i++) {
            const struct mw_allocator *allocator = &analysis->allocators[i];
            if (next[i] < allocator->size_count &&
                allocator->sizes[next[i]].size_bytes < sum.size_bytes)
                sum.size_bytes = allocator->sizes[next[i]].size_bytes;
        }
        if (sum.size_bytes == UINT64_MAX)
            break;
        for (size_t i = 0; i < analysis->allocator_count; i++) {
            const struct mw_allocator *allocator = &analysis->allocators[i];
            if (next[i] == allocator->size_count ||
                allocator->sizes[next[i]].size_bytes != sum.size_bytes)
                continue;
            overhead = mw_allocator_block_shape(allocator).overhead_bytes;
            sum.in_use_count += allocator->sizes[next[i]].in_use_count;
            sum.free_count += allocator->sizes[next[i]++].free_count;
        }
        json_size(json, &sum, overhead);
    }
    mw_json_array_end(json);
}

static void json_content(struct mw_json *json, const struct mw_analysis *analysis)
{
    mw_json_array_begin(json);
    for (int kind = 0; kind < MW_CONTENT_COUNT; kind++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < analysis->allocator_count; i++)
            bytes += analysis->allocators[i].content_bytes[kind];
        if (bytes == 0)
            continue;
        mw_field_object_begin(json, MW_SCOPE_content);
        mw_field_text(json, MW_F(content, kind), mw_content_name((enum mw_content)kind));
        mw_field_u64(json, MW_F(content, sampled_bytes), bytes);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

enum mw_status mw_report_heap_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                   struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_heap);
    mw_field_text(&json, MW_F(heap, schema), "memwhy.heap/1");
    mw_field_text(&json, MW_F(heap, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(heap, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(heap, target));
    mw_json_target(&json, analysis);
    mw_field_key(&json, MW_F(heap, allocators));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        mw_field_object_begin(&json, MW_SCOPE_allocator);
        mw_json_allocator_members(&json, &analysis->allocators[i]);
        mw_field_object_extend(&json, MW_SCOPE_heap_allocator);
        mw_field_key(&json, MW_F(heap_allocator, arena_list));
        json_arenas(&json, &analysis->allocators[i]);
        mw_field_object_end(&json);
    }
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(heap, sizes));
    json_sizes(&json, analysis);
    mw_field_key(&json, MW_F(heap, content));
    json_content(&json, analysis);
    mw_field_key(&json, MW_F(heap, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(heap, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

static void json_pin(struct mw_json *json, const struct mw_pin *pin)
{
    mw_field_object_begin(json, MW_SCOPE_pin);
    mw_field_address(json, MW_F(pin, heap), pin->heap);
    mw_field_address(json, MW_F(pin, block), pin->block);
    mw_field_u64(json, MW_F(pin, size_bytes), pin->size_bytes);
    mw_field_u64(json, MW_F(pin, usable_bytes), pin->size_bytes > 8 ? pin->size_bytes - 8 : 0);
    mw_field_text(json, MW_F(pin, state), mw_block_state_name(pin->state));
    mw_field_u64(json, MW_F(pin, distance_from_top_bytes), pin->distance_from_top_bytes);
    mw_field_u64(json, MW_F(pin, would_release_bytes), pin->would_release_bytes);
    mw_field_text(json, MW_F(pin, content), mw_content_name(pin->content));
    mw_field_object_end(json);
}

enum mw_status mw_report_pins_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                   struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_pins);
    mw_field_text(&json, MW_F(pins, schema), "memwhy.pins/1");
    mw_field_text(&json, MW_F(pins, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(pins, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(pins, target));
    mw_json_target(&json, analysis);
    mw_field_key(&json, MW_F(pins, pins));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < analysis->allocator_count; i++)
        for (size_t k = 0; k < analysis->allocators[i].pin_count; k++)
            json_pin(&json, &analysis->allocators[i].pins[k]);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(pins, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(pins, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}
