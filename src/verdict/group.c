/* verdict/group.c: verdicts about all processes of a cgroup together.
 *
 * What the RSS of its processes hides (kernel memory, page cache) and what the sum of their RSS
 * counts more than once. Their bytes are charged to no process, so no ledger is kept. */
#include "verdict/build.h"

#include <assert.h>

enum { WORTH_PERCENT = 2 };

/* Bytes that the sum of RSS counts again in a second process and further ones; *is_anonymous:
 * of copy-on-write pages alone. */
static uint64_t counted_again(const struct mw_group_evidence *group, bool *is_anonymous)
{
    *is_anonymous = mw_known(group->anonymous) && mw_known(group->pss_anon);
    if (*is_anonymous)
        return mw_less(group->anonymous, group->pss_anon);
    if (mw_known(group->rss) && mw_known(group->pss))
        return mw_less(group->rss, group->pss);
    return 0;
}

static void group_copy_on_write(struct mw_scope *scope)
{
    const struct mw_group_evidence *group = scope->group;
    bool is_anonymous;
    uint64_t bytes = counted_again(group, &is_anonymous);
    if (group->read_count < 2 || !mw_known(group->rss) || !mw_known(group->pss) || bytes < MW_MIB ||
        bytes < group->rss / 100 * WORTH_PERCENT)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "copy-on-write", MW_CLASS_NEEDED,
                       is_anonymous ? MW_BASIS_PROVEN : MW_BASIS_POSSIBLE, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s is counted more than once by RSS%s: the %s processes have %s by PSS, %s by RSS",
                MW_BYTES(bytes),
                is_anonymous ? ", being shared copy-on-write"
                             : " (forked memory or files: this kernel does not tell)",
                MW_COUNT(group->read_count), MW_BYTES(group->pss), MW_BYTES(group->rss));
    mw_verdict_figure(scope, verdict, "smaps_rollup", group->rss, "the sum of RSS: %s",
                      MW_BYTES(group->rss));
    mw_verdict_figure(scope, verdict, "smaps_rollup", group->pss, "the sum of PSS: %s",
                      MW_BYTES(group->pss));
    if (is_anonymous) {
        mw_verdict_figure(scope, verdict, "smaps_rollup", group->anonymous,
                          "anonymous memory is %s by the RSS of each, and %s by PSS",
                          MW_BYTES(group->anonymous), MW_BYTES(group->pss_anon));
        mw_verdict_figure(scope, verdict, "smaps_rollup", bytes,
                          "they would need %s more if each wrote to all that it shares",
                          MW_BYTES(bytes));
    }
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "add up PSS, not RSS, over these processes");
    mw_text_set(scope, &remedy->basis, "no gain: it counts each page once");
    mw_text_set(scope, &remedy->verify, "grep ^Pss: /proc/PID/smaps_rollup");
}

enum mw_status mw_group_verdicts_evaluate(const struct mw_group_evidence *group,
                                          struct mw_verdicts *verdicts_out, struct mw_error *err)
{
    struct mw_process nobody;
    const struct mw_evidence evidence = {.cgroup = group->cgroup};
    const struct mw_cgroup *cgroup = group->cgroup;
    struct mw_verdicts verdicts = {0};
    assert(cgroup && verdicts_out);
    mw_process_init(&nobody);
    struct mw_scope scope = {
        .evidence = &evidence,
        .process = &nobody,
        .group = group,
        .verdicts = &verdicts,
    };
    scope.figures.total_bytes = mw_known(cgroup->usage) ? cgroup->usage
                                : mw_known(group->pss)  ? group->pss
                                                        : 0;
    scope.unit = mw_unit_for(scope.figures.total_bytes);
    if (cgroup->version != 0) {
        mw_rule_kernel_memory(&scope);
        mw_rule_page_cache(&scope);
    }
    group_copy_on_write(&scope);
    if (scope.status != MW_OK) {
        mw_verdicts_deinit(&verdicts);
        return mw_fail(err, scope.status, "cannot put the verdicts together");
    }
    mw_verdicts_order(&scope);
    *verdicts_out = verdicts;
    return MW_OK;
}
