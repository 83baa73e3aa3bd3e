/* report/leaks_json.c: memwhy.leaks/1. */
#include "report/emit.h"

#include "report/parts_json.h"

static void json_group(struct mw_json *json, const struct mw_analysis *analysis, size_t index)
{
    static const struct mw_lost_name unnamed;
    const struct mw_lost *lost = &analysis->lost;
    const struct mw_lost_group *group = &lost->groups.groups.items[index];
    const struct mw_lost_name *name = index < lost->name_count ? &lost->names[index] : &unnamed;
    mw_field_object_begin(json, MW_SCOPE_leak_group);
    mw_field_u64(json, MW_F(leak_group, size_bytes), group->size_bytes);
    mw_field_u64(json, MW_F(leak_group, usable_bytes), group->usable_bytes);
    mw_field_u64(json, MW_F(leak_group, count), group->count);
    mw_field_u64(json, MW_F(leak_group, bytes), group->bytes);
    mw_field_u64(json, MW_F(leak_group, direct_count), group->direct_count);
    mw_field_text(json, MW_F(leak_group, signature),
                  mw_text_or_null(mw_lost_signature(lost, index)));
    mw_field_text(json, MW_F(leak_group, layout), mw_text_or_null(name->layout));
    mw_field_text(json, MW_F(leak_group, type), mw_text_or_null(name->type));
    mw_field_text(json, MW_F(leak_group, caller), mw_text_or_null(name->caller));
    mw_field_text(json, MW_F(leak_group, constants), mw_text_or_null(name->words));
    mw_field_address(json, MW_F(leak_group, sample_address), group->samples[0]);
    mw_field_object_end(json);
}

static void json_counts(struct mw_json *json, const struct mw_reach *reach,
                        const struct mw_lost *lost)
{
    bool is_exact = mw_reach_is_exact(reach);
    const struct {
        enum mw_field field;
        uint64_t value;
    } figures[] = {
        {MW_F(leaks, reachable_count), reach->reachable_count},
        {MW_F(leaks, reachable_bytes), reach->reachable_bytes},
        {MW_F(leaks, unreachable_count), is_exact ? reach->unreachable_count : 0},
        {MW_F(leaks, unreachable_bytes), is_exact ? reach->unreachable_bytes : 0},
        {MW_F(leaks, direct_count), is_exact ? reach->direct_count : 0},
        {MW_F(leaks, direct_bytes), is_exact ? reach->direct_bytes : 0},
        {MW_F(leaks, indirect_count), is_exact ? reach->indirect_count : 0},
        {MW_F(leaks, indirect_bytes), is_exact ? reach->indirect_bytes : 0},
        {MW_F(leaks, uncertain_count), is_exact ? 0 : reach->unreachable_count},
        {MW_F(leaks, uncertain_bytes), is_exact ? 0 : reach->unreachable_bytes},
        {MW_F(leaks, suppressed_count), lost->suppressed_count},
        {MW_F(leaks, suppressed_bytes), lost->suppressed_bytes},
        {MW_F(leaks, stale_stack_bytes), reach->roots.stale_bytes},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        mw_field_u64(json, figures[i].field, reach->is_done ? figures[i].value : MW_UNKNOWN);
}

enum mw_status mw_report_leaks_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                    struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_leaks);
    mw_field_text(&json, MW_F(leaks, schema), "memwhy.leaks/1");
    mw_field_text(&json, MW_F(leaks, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(leaks, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(leaks, target));
    mw_json_target(&json, analysis);
    mw_field_bool(&json, MW_F(leaks, exact), mw_reach_is_exact(&analysis->reach));
    json_counts(&json, &analysis->reach, &analysis->lost);
    mw_field_key(&json, MW_F(leaks, groups));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < analysis->lost.groups.groups.count && !mw_json_failed(&json); i++)
        json_group(&json, analysis, i);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(leaks, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(leaks, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}
