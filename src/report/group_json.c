/* report/group_json.c: memwhy.group/1. The order is the contract's, held by fields.def. */
#include "report/group_report.h"

#include "report/parts_json.h"

uint64_t mw_group_process_private(const struct mw_group_process *process)
{
    const struct mw_rollup *rollup = &process->rollup;
    uint64_t sum;
    if (!process->has_rollup || rollup->private_clean == MW_UNKNOWN ||
        rollup->private_dirty == MW_UNKNOWN ||
        __builtin_add_overflow(rollup->private_clean, rollup->private_dirty, &sum))
        return MW_UNKNOWN;
    return sum;
}

static void json_process(struct mw_json *json, const struct mw_group_process *process)
{
    const struct mw_rollup *rollup = &process->rollup; /* unknown when it was not read */
    mw_field_object_begin(json, MW_SCOPE_group_process);
    mw_field_u64(json, MW_F(group_process, pid), (uint64_t)process->row.pid);
    mw_field_u64(json, MW_F(group_process, pss_bytes), rollup->pss);
    mw_field_u64(json, MW_F(group_process, rss_bytes),
                 process->has_rollup ? rollup->rss : process->row.rss_bytes);
    mw_field_u64(json, MW_F(group_process, pss_anon_bytes), rollup->pss_anon);
    mw_field_u64(json, MW_F(group_process, pss_file_bytes), rollup->pss_file);
    mw_field_u64(json, MW_F(group_process, pss_shmem_bytes), rollup->pss_shmem);
    mw_field_u64(json, MW_F(group_process, private_bytes), mw_group_process_private(process));
    mw_field_u64(json, MW_F(group_process, swap_bytes), process->row.swap_bytes);
    mw_field_u64(json, MW_F(group_process, threads), process->row.threads);
    mw_field_bool(json, MW_F(group_process, readable), process->has_rollup);
    mw_field_text(json, MW_F(group_process, command), process->row.name);
    mw_field_object_end(json);
}

static void json_difference(struct mw_json *json, enum mw_field field, uint64_t charged,
                            uint64_t processes)
{
    int64_t difference;
    if (mw_group_difference(charged, processes, &difference))
        mw_field_i64(json, field, difference);
    else
        mw_field_null(json, field);
}

static void json_sums(struct mw_json *json, const struct mw_group *group)
{
    const struct mw_group_sums *sums = &group->sums;
    mw_field_u64(json, MW_F(group, rss_bytes), sums->rss);
    mw_field_u64(json, MW_F(group, pss_bytes), sums->pss);
    mw_field_u64(json, MW_F(group, pss_anon_bytes), sums->pss_anon);
    mw_field_u64(json, MW_F(group, pss_file_bytes), sums->pss_file);
    mw_field_u64(json, MW_F(group, pss_shmem_bytes), sums->pss_shmem);
    mw_field_u64(json, MW_F(group, anonymous_bytes), sums->anonymous);
    mw_field_u64(json, MW_F(group, swap_pss_bytes), sums->swap_pss);
    json_difference(json, MW_F(group, anon_difference_bytes), group->cgroup.anon, sums->pss_anon);
    json_difference(json, MW_F(group, file_difference_bytes), group->cgroup.file_mapped,
                    mw_group_pss_mapped(group));
    mw_field_u64(json, MW_F(group, unmapped_file_bytes), mw_group_unmapped_file(group));
}

static void json_partial(struct mw_json *json, const struct mw_group *group)
{
    if (!group->is_partial) {
        mw_json_put_null(json);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_partial);
    mw_field_text(json, MW_F(partial, text), group->why_partial.text);
    mw_field_text(json, MW_F(partial, hint), mw_text_or_null(group->why_partial.hint));
    mw_field_object_end(json);
}

enum mw_status mw_report_group_json(const struct mw_group *group, const struct mw_analysis *worst,
                                    struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_group);
    mw_field_text(&json, MW_F(group, schema), "memwhy.group/1");
    mw_field_text(&json, MW_F(group, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(group, taken_at), group->taken_at);
    mw_field_key(&json, MW_F(group, cgroup));
    mw_json_cgroup(&json, &group->cgroup);
    mw_field_u64(&json, MW_F(group, cgroups), group->group_count);
    mw_field_u64(&json, MW_F(group, process_count), group->count);
    mw_field_u64(&json, MW_F(group, read_count), group->read_count);
    mw_field_u64(&json, MW_F(group, hidden_count), group->hidden_count);
    json_sums(&json, group);
    mw_field_key(&json, MW_F(group, processes));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < group->count; i++)
        json_process(&json, &group->processes[i]);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(group, verdicts));
    mw_json_verdicts(&json, &group->verdicts);
    mw_field_key(&json, MW_F(group, worst));
    if (worst)
        mw_json_report(&json, worst);
    else
        mw_json_put_null(&json);
    mw_field_key(&json, MW_F(group, partial));
    json_partial(&json, group);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}
