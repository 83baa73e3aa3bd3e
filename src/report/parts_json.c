/* report/parts_json.c: target, findings, allocator: as the contract has them, with further fields
 * behind. Trusts the analysis; strings of the target are escaped by the encoder. */
#include "report/parts_json.h"

#include <assert.h>
#include <math.h>

const char *mw_text_or_null(const char *text)
{
    return text && text[0] ? text : NULL;
}

const char *mw_image_kind_name(enum mw_image_kind kind)
{
    static const char *const names[] = {
        [MW_IMAGE_LIVE] = "live",   [MW_IMAGE_CORE] = "core",     [MW_IMAGE_CAPTURE] = "capture",
        [MW_IMAGE_SMAPS] = "smaps", [MW_IMAGE_MEMORY] = "memory",
    };
    assert((size_t)kind < sizeof names / sizeof *names);
    return names[kind];
}

const char *mw_arch_name(enum mw_arch arch)
{
    static const char *const names[] = {
        [MW_ARCH_UNKNOWN] = NULL, [MW_ARCH_X86_64] = "x86_64", [MW_ARCH_AARCH64] = "aarch64",
        [MW_ARCH_I386] = "i386",  [MW_ARCH_ARM] = "arm",
    };
    assert((size_t)arch < sizeof names / sizeof *names);
    return names[arch];
}

const char *mw_block_state_name(enum mw_block_state state)
{
    static const char *const names[] = {
        [MW_BLOCK_IN_USE] = "in-use",   [MW_BLOCK_FREE] = "free", [MW_BLOCK_TCACHE] = "tcache",
        [MW_BLOCK_FASTBIN] = "fastbin", [MW_BLOCK_TOP] = "top",   [MW_BLOCK_METADATA] = "metadata",
        [MW_BLOCK_SKIPPED] = "skipped",
    };
    assert((size_t)state < sizeof names / sizeof *names);
    return names[state];
}

void mw_json_target(struct mw_json *json, const struct mw_analysis *analysis)
{
    const struct mw_image *image = &analysis->image;
    const struct mw_process *process = &image->process;
    const struct mw_cgroup *cgroup = &analysis->cgroup;
    bool has_cgroup = cgroup->version != 0;
    mw_field_object_begin(json, MW_SCOPE_target);
    mw_field_text(json, MW_F(target, kind), mw_image_kind_name(image->kind));
    mw_field_u64(json, MW_F(target, pid), process->pid > 0 ? (uint64_t)process->pid : MW_UNKNOWN);
    mw_field_text(json, MW_F(target, exe), process->exe);
    mw_field_text(json, MW_F(target, arch), mw_arch_name(image->arch));
    mw_field_u64(json, MW_F(target, threads), process->thread_count);
    mw_field_u64(json, MW_F(target, cpus_online), process->cpus_online);
    mw_field_u64(json, MW_F(target, cpus_allowed), process->cpus_allowed);
    mw_field_double(json, MW_F(target, cpu_quota),
                    has_cgroup && cgroup->cpu_quota >= 0 ? cgroup->cpu_quota : (double)NAN);
    mw_field_u64(json, MW_F(target, cgroup_limit_bytes), has_cgroup ? cgroup->limit : MW_UNKNOWN);
    mw_field_u64(json, MW_F(target, cgroup_bytes), has_cgroup ? cgroup->usage : MW_UNKNOWN);
    mw_field_time(json, MW_F(target, started_at), process->started_at);
    mw_field_key(json, MW_F(target, env));
    if (process->has_settings) {
        mw_json_object_begin(json);
        for (size_t i = 0; i < process->setting_count; i++) {
            mw_json_put_key(json, process->settings[i].name);
            mw_json_put_text(json, process->settings[i].value);
        }
        mw_json_object_end(json);
    } else {
        mw_json_put_null(json);
    }
    mw_field_object_end(json);
}

void mw_json_findings(struct mw_json *json, const struct mw_findings *findings)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < findings->count; i++) {
        const struct mw_finding *finding = &findings->items[i];
        mw_field_object_begin(json, MW_SCOPE_finding);
        mw_field_text(json, MW_F(finding, kind), finding->kind);
        mw_field_u64(json, MW_F(finding, count), finding->count);
        if (finding->first_address)
            mw_field_address(json, MW_F(finding, first_address), finding->first_address);
        else
            mw_field_null(json, MW_F(finding, first_address));
        mw_field_u64(json, MW_F(finding, bytes), finding->bytes);
        mw_field_text(json, MW_F(finding, text), finding->text);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

void mw_json_partial(struct mw_json *json, const struct mw_analysis *analysis)
{
    if (!analysis->is_partial) {
        mw_json_put_null(json);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_partial);
    mw_field_text(json, MW_F(partial, text), analysis->why_partial.text);
    mw_field_text(json, MW_F(partial, hint), mw_text_or_null(analysis->why_partial.hint));
    mw_field_object_end(json);
}

static void json_parameters(struct mw_json *json, const struct mw_heap_parameters *parameters)
{
    mw_field_object_begin(json, MW_SCOPE_parameters);
    mw_field_u64(json, MW_F(parameters, mmap_threshold), parameters->mmap_threshold);
    mw_field_u64(json, MW_F(parameters, trim_threshold), parameters->trim_threshold);
    mw_field_u64(json, MW_F(parameters, arena_max), parameters->arena_max);
    mw_field_bool(json, MW_F(parameters, no_dyn_threshold), parameters->no_dyn_threshold);
    mw_field_u64(json, MW_F(parameters, top_pad), parameters->top_pad);
    mw_field_u64(json, MW_F(parameters, arena_test), parameters->arena_test);
    mw_field_u64(json, MW_F(parameters, mmaps_max), parameters->mmaps_max);
    mw_field_u64(json, MW_F(parameters, tcache_count), parameters->tcache_count);
    mw_field_u64(json, MW_F(parameters, tcache_max_bytes), parameters->tcache_max_bytes);
    mw_field_u64(json, MW_F(parameters, thp_pagesize), parameters->thp_pagesize);
    mw_field_u64(json, MW_F(parameters, hp_pagesize), parameters->hp_pagesize);
    mw_field_object_end(json);
}

/* The figures of a walk; null for an allocator that was only recognised. */
static void json_allocator_figures(struct mw_json *json, const struct mw_allocator *a)
{
    const struct {
        enum mw_field field;
        uint64_t value;
    } figures[] = {
        {MW_F(allocator, arenas), a->arena_count},
        {MW_F(allocator, arena_limit), a->arena_limit},
        {MW_F(allocator, heaps), a->heap_count},
        {MW_F(allocator, in_use_bytes), a->in_use_bytes},
        {MW_F(allocator, in_use_count), a->in_use_count},
        {MW_F(allocator, mmapped_bytes), a->mmapped_bytes},
        {MW_F(allocator, mmapped_count), a->mmapped_count},
        {MW_F(allocator, free_bytes), a->free_bytes},
        {MW_F(allocator, free_count), a->free_count},
        {MW_F(allocator, tcache_bytes), a->tcache_bytes},
        {MW_F(allocator, fastbin_bytes), a->fastbin_bytes},
        {MW_F(allocator, top_bytes), a->top_bytes},
        {MW_F(allocator, free_resident_bytes), a->free_resident_bytes},
        {MW_F(allocator, trimmable_bytes), a->trimmable_bytes},
        {MW_F(allocator, metadata_bytes), a->metadata_bytes},
        {MW_F(allocator, skipped_bytes), a->skipped_bytes},
        {MW_F(allocator, system_bytes), a->system_bytes},
        {MW_F(allocator, sampled_arenas), a->sampled_count ? a->sampled_count : MW_UNKNOWN},
        {MW_F(allocator, in_use_margin_bytes),
         a->sampled_count ? a->in_use_margin_bytes : MW_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        mw_field_u64(json, figures[i].field, a->walked ? figures[i].value : MW_UNKNOWN);
}

void mw_json_allocator_members(struct mw_json *json, const struct mw_allocator *allocator)
{
    mw_field_text(json, MW_F(allocator, kind), allocator->kind);
    mw_field_text(json, MW_F(allocator, version), mw_text_or_null(allocator->version));
    mw_field_bool(json, MW_F(allocator, walked), allocator->walked);
    mw_field_bool(json, MW_F(allocator, reconciled), allocator->reconciled);
    json_allocator_figures(json, allocator);
    mw_field_key(json, MW_F(allocator, parameters));
    if (allocator->walked && !allocator->lacks_parameters)
        json_parameters(json, &allocator->parameters);
    else
        mw_json_put_null(json);
}
