/* report/report_json.c: memwhy.report/1. The order is the contract's, held by fields.def. */
#include "report/emit.h"

#include "report/parts_json.h"

#include <math.h>

static void json_categories(struct mw_json *json, const struct mw_account *account)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < MW_CATEGORY_COUNT; i++) {
        const struct mw_account_row *row = &account->rows[i];
        if (row->category == MW_CATEGORY_UNKNOWN)
            continue;
        mw_field_object_begin(json, MW_SCOPE_category);
        mw_field_text(json, MW_F(category, id), mw_category_id(row->category));
        mw_field_u64(json, MW_F(category, rss_bytes), row->rss_bytes);
        mw_field_u64(json, MW_F(category, pss_bytes), row->pss_bytes);
        mw_field_u64(json, MW_F(category, swap_bytes), row->swap_bytes);
        mw_field_u64(json, MW_F(category, size_bytes), row->size_bytes);
        mw_field_u64(json, MW_F(category, count), row->count);
        mw_field_text(json, MW_F(category, source), row->source);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_allocators(struct mw_json *json, const struct mw_analysis *analysis)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        mw_field_object_begin(json, MW_SCOPE_allocator);
        mw_json_allocator_members(json, &analysis->allocators[i]);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

/* Resident bytes outside managed.*; unknown without residency, and where several runtimes share
 * those categories. */
static uint64_t outside_runtime(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    if (!account->has_rss || analysis->runtime_count != 1)
        return MW_UNKNOWN;
    return account->rss_bytes - account->rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes -
           account->rows[MW_CATEGORY_MANAGED_CODE].rss_bytes -
           account->rows[MW_CATEGORY_MANAGED_METADATA].rss_bytes;
}

static void json_runtimes(struct mw_json *json, const struct mw_analysis *analysis)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < analysis->runtime_count; i++) {
        const struct mw_runtime *runtime = &analysis->runtimes[i];
        mw_field_object_begin(json, MW_SCOPE_runtime);
        mw_field_text(json, MW_F(runtime, kind), runtime->kind);
        mw_field_text(json, MW_F(runtime, version), mw_text_or_null(runtime->version));
        mw_field_u64(json, MW_F(runtime, heap_used_bytes), runtime->heap_used);
        mw_field_u64(json, MW_F(runtime, heap_committed_bytes), runtime->heap_committed);
        mw_field_u64(json, MW_F(runtime, heap_rss_bytes), runtime->heap_rss);
        mw_field_u64(json, MW_F(runtime, native_reported_bytes), runtime->native_reported);
        mw_field_u64(json, MW_F(runtime, direct_bytes), runtime->direct);
        mw_field_u64(json, MW_F(runtime, outside_runtime_rss_bytes), outside_runtime(analysis));
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

void mw_json_cgroup(struct mw_json *json, const struct mw_cgroup *cgroup)
{
    if (cgroup->version == 0) {
        mw_json_put_null(json);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_cgroup);
    mw_field_u64(json, MW_F(cgroup, version), (uint64_t)cgroup->version);
    mw_field_text(json, MW_F(cgroup, path), cgroup->path);
    mw_field_u64(json, MW_F(cgroup, limit_bytes), cgroup->limit);
    mw_field_text(json, MW_F(cgroup, limit_path), mw_text_or_null(cgroup->limit_path));
    mw_field_u64(json, MW_F(cgroup, high_bytes), cgroup->high);
    mw_field_u64(json, MW_F(cgroup, usage_bytes), cgroup->usage);
    mw_field_u64(json, MW_F(cgroup, peak_bytes), cgroup->peak);
    mw_field_u64(json, MW_F(cgroup, swap_bytes), cgroup->swap);
    mw_field_u64(json, MW_F(cgroup, swap_limit_bytes), cgroup->swap_limit);
    mw_field_u64(json, MW_F(cgroup, anon_bytes), cgroup->anon);
    mw_field_u64(json, MW_F(cgroup, file_bytes), cgroup->file);
    mw_field_u64(json, MW_F(cgroup, shmem_bytes), cgroup->shmem);
    mw_field_u64(json, MW_F(cgroup, active_file_bytes), cgroup->active_file);
    mw_field_u64(json, MW_F(cgroup, inactive_file_bytes), cgroup->inactive_file);
    mw_field_u64(json, MW_F(cgroup, file_mapped_bytes), cgroup->file_mapped);
    mw_field_u64(json, MW_F(cgroup, kernel_bytes), cgroup->kernel);
    mw_field_u64(json, MW_F(cgroup, slab_bytes), cgroup->slab);
    mw_field_u64(json, MW_F(cgroup, slab_reclaimable_bytes), cgroup->slab_reclaimable);
    mw_field_u64(json, MW_F(cgroup, slab_unreclaimable_bytes), cgroup->slab_unreclaimable);
    mw_field_u64(json, MW_F(cgroup, sock_bytes), cgroup->sock);
    mw_field_u64(json, MW_F(cgroup, page_tables_bytes), cgroup->page_tables);
    mw_field_u64(json, MW_F(cgroup, kernel_stack_bytes), cgroup->kernel_stack);
    mw_field_u64(json, MW_F(cgroup, percpu_bytes), cgroup->percpu);
    mw_field_u64(json, MW_F(cgroup, hugetlb_bytes), cgroup->hugetlb);
    mw_field_u64(json, MW_F(cgroup, zswap_bytes), cgroup->zswap);
    mw_field_u64(json, MW_F(cgroup, oom_kills), cgroup->oom_kills);
    mw_field_u64(json, MW_F(cgroup, max_events), cgroup->max_events);
    mw_field_double(json, MW_F(cgroup, cpu_quota),
                    cgroup->cpu_quota >= 0 ? cgroup->cpu_quota : (double)NAN);
    mw_field_u64(json, MW_F(cgroup, processes), cgroup->process_count);
    mw_field_object_end(json);
}

static void json_evidence(struct mw_json *json, const struct mw_verdict *verdict)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const struct mw_evidence_item *item = &verdict->evidence[i];
        mw_field_object_begin(json, MW_SCOPE_evidence);
        mw_field_text(json, MW_F(evidence, text), item->text);
        mw_field_u64(json, MW_F(evidence, value), item->has_value ? item->value : MW_UNKNOWN);
        mw_field_text(json, MW_F(evidence, source), item->source);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_ruled_out(struct mw_json *json, const struct mw_verdict *verdict)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < verdict->ruled_out_count; i++) {
        mw_field_object_begin(json, MW_SCOPE_ruled_out);
        mw_field_text(json, MW_F(ruled_out, id), verdict->ruled_out[i].id);
        mw_field_text(json, MW_F(ruled_out, why), verdict->ruled_out[i].why);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_remedies(struct mw_json *json, const struct mw_verdict *verdict)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < verdict->remedy_count; i++) {
        const struct mw_remedy *remedy = &verdict->remedies[i];
        mw_field_object_begin(json, MW_SCOPE_remedy);
        mw_field_text(json, MW_F(remedy, action), remedy->action);
        mw_field_u64(json, MW_F(remedy, gain_low_bytes),
                     remedy->has_gain ? remedy->gain_low_bytes : MW_UNKNOWN);
        mw_field_u64(json, MW_F(remedy, gain_high_bytes),
                     remedy->has_gain ? remedy->gain_high_bytes : MW_UNKNOWN);
        mw_field_text(json, MW_F(remedy, basis), remedy->basis);
        mw_field_text(json, MW_F(remedy, verify), remedy->verify);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

void mw_json_verdicts(struct mw_json *json, const struct mw_verdicts *verdicts)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        mw_field_object_begin(json, MW_SCOPE_verdict);
        mw_field_text(json, MW_F(verdict, id), verdict->id);
        mw_field_text(json, MW_F(verdict, class), mw_class_name(verdict->verdict_class));
        mw_field_text(json, MW_F(verdict, basis), mw_basis_name(verdict->basis));
        mw_field_u64(json, MW_F(verdict, bytes), verdict->bytes);
        mw_field_text(json, MW_F(verdict, part_of), verdict->part_of);
        mw_field_bool(json, MW_F(verdict, minor), verdict->minor);
        mw_field_text(json, MW_F(verdict, summary), verdict->summary);
        mw_field_key(json, MW_F(verdict, evidence));
        json_evidence(json, verdict);
        mw_field_key(json, MW_F(verdict, ruled_out));
        json_ruled_out(json, verdict);
        mw_field_key(json, MW_F(verdict, remedies));
        json_remedies(json, verdict);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_texts(struct mw_json *json, char *const *texts, size_t count)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < count; i++)
        mw_json_put_text(json, texts[i]);
    mw_json_array_end(json);
}

static void json_head(struct mw_json *json, const struct mw_analysis *analysis)
{
    const struct mw_pauses *pauses = &analysis->image.pauses;
    mw_field_text(json, MW_F(report, schema), "memwhy.report/1");
    mw_field_text(json, MW_F(report, memwhy_version), MW_VERSION);
    mw_field_time(json, MW_F(report, taken_at), analysis->taken_at);
    mw_field_key(json, MW_F(report, target));
    mw_json_target(json, analysis);
    mw_field_u64(json, MW_F(report, pauses), pauses->count);
    mw_field_double(json, MW_F(report, paused_seconds), (double)pauses->total_ns / 1e9);
    mw_field_double(json, MW_F(report, longest_pause_seconds), (double)pauses->longest_ns / 1e9);
}

static void json_figures(struct mw_json *json, const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    bool has_rss = account->has_rss;
    mw_field_u64(json, MW_F(report, rss_bytes), has_rss ? account->rss_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(report, peak_rss_bytes), analysis->image.process.vm_hwm);
    mw_field_u64(json, MW_F(report, swap_bytes),
                 account->has_swap ? account->swap_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(report, unknown_bytes), has_rss ? account->unknown_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(report, unknown_mappings), account->unknown_mappings);
    mw_field_u64(json, MW_F(report, pss_bytes), account->has_pss ? account->pss_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(report, anonymous_bytes), account->anonymous_bytes);
    mw_field_u64(json, MW_F(report, anon_huge_bytes), account->anon_huge_bytes);
    mw_field_u64(json, MW_F(report, lazy_free_bytes), account->lazy_free_bytes);
    mw_field_u64(json, MW_F(report, locked_bytes), account->locked_bytes);
    mw_field_key(json, MW_F(report, categories));
    json_categories(json, account);
}

void mw_json_report(struct mw_json *json, const struct mw_analysis *analysis)
{
    const struct mw_verdicts *verdicts = &analysis->verdicts;
    mw_field_object_begin(json, MW_SCOPE_report);
    json_head(json, analysis);
    json_figures(json, analysis);
    mw_field_key(json, MW_F(report, allocators));
    json_allocators(json, analysis);
    mw_field_key(json, MW_F(report, runtimes));
    json_runtimes(json, analysis);
    mw_field_key(json, MW_F(report, cgroup));
    mw_json_cgroup(json, &analysis->cgroup);
    mw_field_key(json, MW_F(report, verdicts));
    mw_json_verdicts(json, verdicts);
    mw_field_text(json, MW_F(report, peak), verdicts->peak);
    mw_field_text(json, MW_F(report, was), verdicts->was);
    mw_field_text(json, MW_F(report, container), verdicts->container);
    mw_field_key(json, MW_F(report, known));
    json_texts(json, verdicts->known, verdicts->known_count);
    mw_field_key(json, MW_F(report, findings));
    mw_json_findings(json, &analysis->findings);
    mw_field_key(json, MW_F(report, partial));
    mw_json_partial(json, analysis);
    mw_field_object_end(json);
}

enum mw_status mw_report_json(const struct mw_analysis *analysis, struct mw_sink sink,
                              struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_json_report(&json, analysis);
    return mw_json_finish(&json, err);
}
