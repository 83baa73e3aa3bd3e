/* verdict/outside.c: memory that an alarm counts and that is not in this process's RSS: swap, the
 * kernel's memory, the page cache. Their bytes are charged to no category of the account.
 *
 * The cgroup's figures are those of all its processes. They are worth a verdict when the container
 * is near its limit, or when it holds little but this process and much that is not its RSS. */
#include "verdict/build.h"

#include <stdio.h>

enum { NEAR_LIMIT_PERCENT = 70, FEW_PROCESSES = 3 };

static uint64_t known_or_0(uint64_t value)
{
    return mw_known(value) ? value : 0;
}

/* Kernel memory of the cgroup, sockets included; MW_UNKNOWN without figures. */
static uint64_t cgroup_kernel_bytes(const struct mw_cgroup *cgroup)
{
    uint64_t kernel = cgroup->version == 0 ? MW_UNKNOWN : mw_cgroup_kernel_bytes(cgroup);
    if (cgroup->version == 0 || (!mw_known(kernel) && !mw_known(cgroup->sock)))
        return MW_UNKNOWN;
    return mw_sum(known_or_0(kernel), known_or_0(cgroup->sock));
}

/* Page cache of the cgroup that no process has mapped: what is mapped is in an RSS. */
static uint64_t cgroup_cache_bytes(const struct mw_cgroup *cgroup)
{
    if (cgroup->version == 0 ||
        (!mw_known(cgroup->active_file) && !mw_known(cgroup->inactive_file)))
        return MW_UNKNOWN;
    uint64_t cache = mw_sum(known_or_0(cgroup->active_file), known_or_0(cgroup->inactive_file));
    return mw_less(cache, known_or_0(cgroup->file_mapped));
}

static bool is_near_limit(const struct mw_cgroup *cgroup)
{
    return mw_known(cgroup->limit) && mw_known(cgroup->usage) &&
           cgroup->usage >= cgroup->limit / 100 * NEAR_LIMIT_PERCENT;
}

/* Is this part of the cgroup's memory what an alarm may be about? */
static bool is_alarming(const struct mw_scope *scope, uint64_t bytes)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    if (!mw_known(bytes) || bytes < 16 * MW_MIB || !mw_known(cgroup->usage) ||
        bytes < cgroup->usage / 10)
        return false;
    if (scope->group)
        return true;
    return is_near_limit(cgroup) ||
           (mw_known(cgroup->process_count) && cgroup->process_count <= FEW_PROCESSES &&
            bytes >= scope->figures.total_bytes / 4);
}

static void usage_figure(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    char own[96];
    if (!scope->group)
        snprintf(own, sizeof own, "RSS of this process is %s",
                 MW_BYTES(scope->figures.total_bytes));
    else if (mw_known(scope->group->pss))
        snprintf(own, sizeof own, "the PSS of its processes is %s", MW_BYTES(scope->group->pss));
    else
        snprintf(own, sizeof own, "the PSS of its processes is not known");
    if (mw_known(cgroup->limit))
        mw_verdict_figure(scope, verdict, "cgroup", cgroup->usage,
                          "the container holds %s of %s (%u%%); %s", MW_BYTES(cgroup->usage),
                          MW_BYTES(cgroup->limit), mw_percent(cgroup->usage, cgroup->limit), own);
    else
        mw_verdict_figure(scope, verdict, "cgroup", cgroup->usage,
                          "the container holds %s, without a limit; %s", MW_BYTES(cgroup->usage),
                          own);
}

/* A figure of memory.stat, when it is known. */
static void stat_figure(struct mw_scope *scope, struct mw_verdict *verdict, const char *name,
                        uint64_t bytes)
{
    if (mw_known(bytes))
        mw_verdict_figure(scope, verdict, "cgroup", bytes, "%s %s", name, MW_BYTES(bytes));
}

void mw_rule_swapped(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    bool is_counted = account && account->has_swap && mw_known(account->swap_bytes);
    uint64_t swap = is_counted ? account->swap_bytes : scope->process->vm_swap;
    if (!mw_known(swap) || !scope->figures.has_rss || !mw_is_worth(scope, swap, 5, MW_MIB))
        return;
    const char *source = is_counted ? "smaps" : "status";
    uint64_t rss = scope->figures.total_bytes;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "swapped", MW_CLASS_OUTSIDE, MW_BASIS_PROVEN, swap);
    mw_text_set(scope, &verdict->summary,
                "%s of this process is in swap: RSS alone hides it, RSS and swap together are %s",
                MW_BYTES(swap), MW_BYTES(mw_sum(rss, swap)));
    mw_verdict_figure(scope, verdict, source, swap, "%s in swap beside %s resident", MW_BYTES(swap),
                      MW_BYTES(rss));
    uint64_t free_swap = account ? account->rows[MW_CATEGORY_MALLOC_FREE].swap_bytes : MW_UNKNOWN;
    if (mw_known(free_swap) && free_swap > 0)
        mw_verdict_figure(scope, verdict, "heap walk", free_swap,
                          "%s of it is free memory of malloc: malloc_trim(0) drops its pages too",
                          MW_BYTES(free_swap));
    mw_verdict_rule_out(scope, verdict, "healthy",
                        "a flat RSS proves nothing here: compare RSS and swap together");
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "watch RSS + swap (VmRSS + VmSwap) instead of RSS");
    mw_text_set(scope, &remedy->basis, "no gain: it shows the growth that swap hides");
    mw_text_set(scope, &remedy->verify, "memwhy report %s", MW_PID);
}

/* Page tables and huge pages of the process itself, where there is no cgroup to ask. */
static uint64_t process_kernel_bytes(const struct mw_scope *scope)
{
    return mw_sum(known_or_0(scope->process->vm_pte), known_or_0(scope->process->hugetlb));
}

static void kernel_evidence(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    stat_figure(scope, verdict, "slab", cgroup->slab);
    stat_figure(scope, verdict, "reclaimable slab", cgroup->slab_reclaimable);
    stat_figure(scope, verdict, "page tables", cgroup->page_tables);
    stat_figure(scope, verdict, "socket buffers", cgroup->sock);
    stat_figure(scope, verdict, "kernel stacks", cgroup->kernel_stack);
    stat_figure(scope, verdict, "per-CPU", cgroup->percpu);
}

static void kernel_of_process(struct mw_scope *scope)
{
    const struct mw_process *process = scope->process;
    uint64_t bytes = process_kernel_bytes(scope);
    if (!scope->figures.has_rss || !mw_is_worth(scope, bytes, 10, 16 * MW_MIB))
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "kernel-memory", MW_CLASS_OUTSIDE, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s of this process is outside its RSS: %s in page tables, %s in hugetlb pages",
                MW_BYTES(bytes), MW_BYTES(known_or_0(process->vm_pte)),
                MW_BYTES(known_or_0(process->hugetlb)));
    if (mw_known(process->vm_pte))
        mw_verdict_figure(scope, verdict, "status", process->vm_pte, "page tables (VmPTE) %s",
                          MW_BYTES(process->vm_pte));
    if (mw_known(process->hugetlb))
        mw_verdict_figure(scope, verdict, "status", process->hugetlb, "HugetlbPages %s",
                          MW_BYTES(process->hugetlb));
}

void mw_rule_kernel_memory(struct mw_scope *scope)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    uint64_t bytes = cgroup ? cgroup_kernel_bytes(cgroup) : MW_UNKNOWN;
    if (!mw_known(bytes) || !is_alarming(scope, bytes)) {
        kernel_of_process(scope);
        return;
    }
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "kernel-memory", MW_CLASS_OUTSIDE, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s of the container is kernel memory: in no process's RSS, and counted against "
                "the limit",
                MW_BYTES(bytes));
    usage_figure(scope, verdict);
    kernel_evidence(scope, verdict);
    uint64_t cache = cgroup_cache_bytes(cgroup);
    if (mw_known(cache))
        mw_verdict_rule_out(scope, verdict, "page-cache", "%s of unmapped file cache",
                            MW_BYTES(cache));
    uint64_t reclaimable = cgroup->slab_reclaimable;
    if (!mw_known(reclaimable) || reclaimable == 0)
        return;
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "nothing for reclaimable slab: the kernel drops it before it kills");
    mw_remedy_gain(remedy, 0, mw_least(reclaimable, bytes));
    mw_text_set(scope, &remedy->basis, "upper bound: memory.stat's slab_reclaimable");
    mw_text_set(scope, &remedy->verify, "grep slab /sys/fs/cgroup/.../memory.stat");
}

void mw_rule_page_cache(struct mw_scope *scope)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    uint64_t bytes = cgroup ? cgroup_cache_bytes(cgroup) : MW_UNKNOWN;
    if (!mw_known(bytes) || !is_alarming(scope, bytes))
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "page-cache", MW_CLASS_OUTSIDE, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s of what the container is charged with is file cache that no process maps: not "
                "a leak, the kernel drops it before it kills",
                MW_BYTES(bytes));
    usage_figure(scope, verdict);
    stat_figure(scope, verdict, "active file", cgroup->active_file);
    stat_figure(scope, verdict, "inactive file", cgroup->inactive_file);
    stat_figure(scope, verdict, "anonymous", cgroup->anon);
    if (mw_known(cgroup->inactive_file)) {
        uint64_t working_set = mw_less(cgroup->usage, cgroup->inactive_file);
        mw_verdict_figure(scope, verdict, "cgroup", working_set,
                          "working set (usage less inactive file), which alarms watch, is %s: it "
                          "counts active file cache",
                          MW_BYTES(working_set));
    }
    if (mw_known(cgroup->anon))
        mw_verdict_rule_out(scope, verdict, "unbounded-growth",
                            "anonymous memory of the container is %s", MW_BYTES(cgroup->anon));
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "alarm on memory.stat's anon, not on usage");
    mw_text_set(scope, &remedy->basis, "no gain: the cache is used, and given up under pressure");
    mw_text_set(scope, &remedy->verify, "grep -E 'anon|file' /sys/fs/cgroup/.../memory.stat");
}

/* Who holds the container: this process, others, the cache, the kernel. */
void mw_beside_container(struct mw_scope *scope)
{
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    if (!cgroup || cgroup->version == 0 || !scope->figures.has_rss || !is_near_limit(cgroup))
        return;
    uint64_t rss = scope->figures.total_bytes;
    uint64_t cache = cgroup_cache_bytes(cgroup), kernel = cgroup_kernel_bytes(cgroup);
    bool at_limit = cgroup->usage >= cgroup->limit / 10 * 9;
    bool is_process = rss >= cgroup->usage / 2;
    uint64_t own = scope->evidence->account->anonymous_bytes;
    char others[96] = "", shared[96] = "";
    if (mw_known(cgroup->anon) && mw_known(own) &&
        !(mw_known(cgroup->process_count) && cgroup->process_count <= 1)) {
        uint64_t rest = mw_less(cgroup->anon, own);
        snprintf(others, sizeof others, ", anonymous memory of other processes %s", MW_BYTES(rest));
    }
    if (mw_known(cgroup->shmem) && cgroup->shmem > 0)
        snprintf(shared, sizeof shared, ", tmpfs and shared memory %s", MW_BYTES(cgroup->shmem));
    mw_text_set(scope, &scope->verdicts->container,
                "the container is %s its limit%s: %s of %s (%u%%); this process %s, unmapped file "
                "cache %s, kernel %s%s%s",
                at_limit ? "at" : "near",
                is_process ? ""
                : at_limit ? ", and this process is not what fills it"
                           : ", and most of it is not this process",
                MW_BYTES(cgroup->usage), MW_BYTES(cgroup->limit),
                mw_percent(cgroup->usage, cgroup->limit), MW_BYTES(rss),
                mw_known(cache) ? MW_BYTES(cache) : "unknown",
                mw_known(kernel) ? MW_BYTES(kernel) : "unknown", shared, others);
}
