/* verdict/beside.c: what stands beside the verdicts: the peak, and what kept memory last held. */
#include "verdict/build.h"

#include "base/str.h"

/* Free memory of malloc: the rest of class kept has no content worth a word. */
static bool kept_matters(const struct mw_scope *scope)
{
    return mw_is_worth(scope, mw_kept_free_bytes(scope), 5, MW_MIB);
}

/* The highest RSS there ever was: the kernel's mark, else that of a container of its own. */
static uint64_t peak_bytes(const struct mw_scope *scope, const char **name)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    *name = "RSS was at";
    if (mw_known(scope->process->vm_hwm))
        return scope->process->vm_hwm;
    *name = "the container was at";
    return cgroup && cgroup->version != 0 && mw_known(cgroup->peak) && cgroup->process_count == 1
               ? cgroup->peak
               : MW_UNKNOWN;
}

/* What is free inside malloc is known: without that "in use" would be a guess. */
static bool in_use_is_known(const struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_account_row *unsplit =
        account ? &account->rows[MW_CATEGORY_MALLOC_UNSPLIT] : NULL;
    return !unsplit || !mw_is_worth(scope, unsplit->rss_bytes, 5, MW_MIB);
}

void mw_beside_peak(struct mw_scope *scope)
{
    const char *name;
    uint64_t peak = peak_bytes(scope, &name);
    uint64_t rss = scope->figures.total_bytes;
    uint64_t needed = mw_less(rss, mw_kept_free_bytes(scope));
    if (!in_use_is_known(scope) || !scope->figures.has_rss || !mw_known(peak) ||
        peak < mw_sum(needed, needed / 4) || mw_less(peak, needed) < 16 * MW_MIB)
        return;
    mw_text_set(scope, &scope->verdicts->peak,
                "%s %s, %s above what is in use: whatever ran then needs it again; %s", name,
                MW_BYTES(peak), MW_BYTES(peak - needed),
                kept_matters(scope)
                    ? "trimming does not lower the next peak, streaming or batching does"
                    : "streaming or batching lowers the next peak");
}

/* Kinds of content by share, the largest three of at least a tenth. */
void mw_beside_was(struct mw_scope *scope)
{
    const struct mw_allocator *glibc = scope->figures.glibc;
    if (!glibc || !kept_matters(scope))
        return;
    uint64_t left[MW_CONTENT_COUNT], sum = 0;
    for (int kind = 0; kind < MW_CONTENT_COUNT; kind++) {
        left[kind] = glibc->content_bytes[kind];
        sum = mw_sum(sum, left[kind]);
    }
    struct mw_str kinds = MW_STR_INIT(256);
    for (int shown = 0; shown < 3; shown++) {
        int largest = 0;
        for (int kind = 1; kind < MW_CONTENT_COUNT; kind++)
            if (left[kind] > left[largest])
                largest = kind;
        if (left[largest] == 0 || left[largest] < sum / 10)
            break;
        mw_str_printf(&kinds, "%s%s %u%%", shown ? ", " : "",
                      mw_content_name((enum mw_content)largest), mw_percent(left[largest], sum));
        left[largest] = 0;
    }
    if (kinds.status != MW_OK && scope->status == MW_OK)
        scope->status = kinds.status;
    if (kinds.length > 0)
        mw_text_set(scope, &scope->verdicts->was,
                    "last content of the free chunks: %s [likely: sampled]", mw_str_text(&kinds));
    mw_str_deinit(&kinds);
}
