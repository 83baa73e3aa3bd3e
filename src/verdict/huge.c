/* verdict/huge.c: parts of huge pages that hold nothing but zeros: never used, and resident.
 *
 * Charged are those outside free blocks of malloc, whoever owns them; what lies in free blocks is
 * free memory, which other verdicts explain, and is said beside it. That a page of zeros was never
 * used is what its neighbours make likely and nothing proves: a program may write zeros. So the
 * basis is `likely` at best, and huge pages of zeros from end to end are left out. A runtime clears
 * memory before objects get it, so in its heap zeros say little: they are charged to nothing, and
 * where nothing else is bloat they are the cause, `possible`, of what the heap holds.
 *
 * Stacks are the case with a name of its own, thp-stacks: a part of thp-bloat. */
#include "verdict/build.h"

#include <stdio.h>

enum { WORTH_PERCENT = 2, MANAGED_PERCENT = 10, STACKS_SHARE = 10 /* of thp-bloat */ };

/* Owners in the order in which they are named. Free blocks are not here: mw_huge keeps them apart.
 */
static const struct {
    enum mw_category category;
    const char *text;
} owners[] = {
    {MW_CATEGORY_MALLOC_IN_USE, "in blocks in use of malloc"},
    {MW_CATEGORY_MALLOC_UNSPLIT, "in an allocator that was not walked"},
    {MW_CATEGORY_STACK_THREADS, "in stacks of threads"},
    {MW_CATEGORY_STACK_MAIN, "in the main stack"},
    {MW_CATEGORY_FILE_DATA, "in data of programs and libraries"},
    {MW_CATEGORY_ANON_OTHER, "in other anonymous memory with an owner"},
    {MW_CATEGORY_UNKNOWN, "in mappings without an owner"},
};
enum { OWNER_COUNT = sizeof owners / sizeof *owners };

/* What could be charged: zeros that no verdict before has explained. */
static uint64_t chargeable(const struct mw_scope *scope, size_t owner)
{
    enum mw_category category = owners[owner].category;
    return mw_least(scope->evidence->huge->zero_bytes[category], scope->left[category]);
}

/* " ± 12.0 MiB" of a sample, else nothing. */
static struct mw_phrase error_phrase(const struct mw_scope *scope)
{
    struct mw_phrase phrase = {""};
    if (scope->evidence->huge->is_sampled)
        snprintf(phrase.text, sizeof phrase.text, " ± %s",
                 MW_BYTES(scope->evidence->huge->error_bytes));
    return phrase;
}

static void owners_note(struct mw_scope *scope, struct mw_verdict *verdict,
                        const uint64_t taken[OWNER_COUNT])
{
    for (size_t i = 0; i < OWNER_COUNT; i++)
        if (taken[i] > 0 && taken[i] >= verdict->bytes / 50)
            mw_verdict_figure(scope, verdict, "memory", taken[i], "%s of it %s", MW_BYTES(taken[i]),
                              owners[i].text);
}

static void policy_note(struct mw_scope *scope, struct mw_verdict *verdict)
{
    static const char *const words[] = {
        [MW_THP_ALWAYS] = "always", [MW_THP_MADVISE] = "madvise", [MW_THP_NEVER] = "never"};
    const struct mw_huge *huge = scope->evidence->huge;
    if (huge->flags_known)
        mw_verdict_figure(scope, verdict, "smaps", huge->asked_bytes,
                          "%s of such pages where the program asked for huge ones (MADV_HUGEPAGE)",
                          MW_BYTES(huge->asked_bytes));
    if (huge->thp.enabled != MW_THP_UNKNOWN)
        mw_verdict_note(scope, verdict, "sysfs", "transparent_hugepage/enabled is %s",
                        words[huge->thp.enabled]);
    if (mw_known(huge->thp.max_ptes_none))
        mw_verdict_figure(scope, verdict, "sysfs", huge->thp.max_ptes_none,
                          "khugepaged/max_ptes_none is %s%s", MW_COUNT(huge->thp.max_ptes_none),
                          huge->thp.max_ptes_none == 0 ? "" : ": it fills up what is not there");
}

static void bloat_evidence(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_huge *huge = scope->evidence->huge;
    mw_verdict_figure(scope, verdict, "smaps", huge->total_bytes,
                      "%s in huge pages (AnonHugePages), %u%% of RSS", MW_BYTES(huge->total_bytes),
                      mw_percent(huge->total_bytes, scope->figures.total_bytes));
    mw_verdict_figure(scope, verdict, "memory", huge->looked_bytes,
                      "%s of them looked into%s while the process ran: small pages with nothing "
                      "but zeros beside such as are used",
                      MW_BYTES(huge->looked_bytes), huge->is_sampled ? ", a sample," : "");
    if (huge->zero_in_free_bytes > 0)
        mw_verdict_figure(scope, verdict, "memory", huge->zero_in_free_bytes,
                          "%s more such pages lie in free blocks of malloc, and are counted there",
                          MW_BYTES(huge->zero_in_free_bytes));
    if (huge->all_zero_bytes > 0)
        mw_verdict_figure(scope, verdict, "memory", huge->all_zero_bytes,
                          "%s in huge pages of zeros from end to end is not counted: zeros were "
                          "written there",
                          MW_BYTES(huge->all_zero_bytes));
    if (!huge->is_marked)
        mw_verdict_note(scope, verdict, "pagemap",
                        "this kernel does not tell which pages are huge: taken from what is "
                        "resident");
}

/* Beside bloat elsewhere: what a runtime's heap has of the same looks. */
static void managed_note(struct mw_scope *scope, struct mw_verdict *verdict)
{
    uint64_t managed = scope->evidence->huge->zero_bytes[MW_CATEGORY_MANAGED_HEAP];
    if (managed > 0)
        mw_verdict_figure(scope, verdict, "memory", managed,
                          "%s more in the managed heap are not counted: a runtime clears memory "
                          "before objects get it, which looks the same",
                          MW_BYTES(managed));
}

static void bloat_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    if (!figures->is_glibc)
        return;
    mw_verdict_rule_out(scope, verdict, "fragmentation",
                        "these pages are in no free block; holes smaller than a page are %s",
                        MW_BYTES(figures->parts.holes));
    mw_rule_out_trimmable(scope, verdict);
}

/* What turns huge pages off, for this program. */
static const char *off_switch(const struct mw_scope *scope)
{
    const struct mw_huge *huge = scope->evidence->huge;
    const struct mw_allocator *glibc = scope->figures.glibc;
    bool is_asked = huge->flags_known && huge->asked_bytes > 0;
    if (is_asked && mw_runtime_find(scope, "jvm"))
        return "-XX:-UseTransparentHugePages, restart";
    if (is_asked && glibc && glibc->parameters.thp_pagesize > 0)
        return "glibc.malloc.hugetlb=0 in GLIBC_TUNABLES, restart";
    if (is_asked)
        return "no MADV_HUGEPAGE on memory that is used in parts, restart";
    return "madvise or never instead of always in /sys/kernel/mm/transparent_hugepage/enabled, or "
           "prctl(PR_SET_THP_DISABLE), restart";
}

static void bloat_remedies(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_huge *huge = scope->evidence->huge;
    uint64_t rss = scope->figures.total_bytes, error = huge->is_sampled ? huge->error_bytes : 0;
    uint64_t high = mw_sum(mw_sum(verdict->bytes, huge->zero_in_free_bytes), error);
    high = mw_least(mw_least(high, huge->total_bytes), rss);
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "%s", off_switch(scope));
    mw_remedy_gain(remedy, mw_least(mw_less(verdict->bytes, error), high), high);
    mw_text_set(scope, &remedy->basis,
                "likely, less where the program itself cleared memory%s; AnonHugePages falls to 0, "
                "page faults rise",
                huge->zero_in_free_bytes > 0 ? "; at most with the zeros in free blocks" : "");
    mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
    if (huge->thp.max_ptes_none == 0)
        return;
    remedy = mw_remedy_add(scope, verdict,
                           "echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none%s",
                           huge->thp.splits_underused ? ", now" : "");
    mw_remedy_gain(remedy, 0,
                   mw_least(mw_sum(high, huge->all_zero_bytes), mw_least(huge->total_bytes, rss)));
    if (huge->thp.splits_underused)
        mw_text_set(scope, &remedy->basis,
                    "upper bound: under memory pressure this kernel then splits such huge pages "
                    "and drops the zeros; for all processes");
    else
        mw_text_set(scope, &remedy->basis,
                    "upper bound, if khugepaged made these pages: it then makes no new ones of "
                    "pages that are not there; for all processes");
    mw_text_set(scope, &remedy->verify, "grep AnonHugePages /proc/%s/smaps_rollup", MW_PID);
}

void mw_rule_thp_bloat(struct mw_scope *scope)
{
    const struct mw_huge *huge = scope->evidence->huge;
    uint64_t taken[OWNER_COUNT], bytes = 0;
    if (!huge || !scope->figures.has_rss)
        return;
    for (size_t i = 0; i < OWNER_COUNT; i++)
        bytes = mw_sum(bytes, chargeable(scope, i));
    if (!mw_is_worth(scope, bytes, WORTH_PERCENT, MW_MIB))
        return;
    for (size_t i = 0; i < OWNER_COUNT; i++)
        taken[i] = mw_ledger_take(scope, owners[i].category, chargeable(scope, i));
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "thp-bloat", MW_CLASS_KEPT, MW_BASIS_LIKELY, bytes);
    scope->bloat = verdict;
    for (size_t i = 0; i < OWNER_COUNT; i++)
        if (owners[i].category == MW_CATEGORY_STACK_THREADS)
            scope->bloat_of_stacks = taken[i];
    mw_text_set(scope, &verdict->summary,
                "%s%s%s was never used and is resident all the same: the kernel backs memory with "
                "%s in huge pages, which are there as a whole when one byte is touched",
                huge->is_sampled ? "about " : "", MW_BYTES(bytes), error_phrase(scope).text,
                MW_BYTES(huge->total_bytes));
    bloat_evidence(scope, verdict);
    managed_note(scope, verdict);
    owners_note(scope, verdict, taken);
    policy_note(scope, verdict);
    bloat_ruled_out(scope, verdict);
    bloat_remedies(scope, verdict);
}

void mw_rule_thp_stacks(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    uint64_t bytes = scope->bloat_of_stacks;
    if (!scope->bloat || bytes < MW_MIB || bytes < scope->bloat->bytes / STACKS_SHARE)
        return;
    uint64_t stacks = account->rows[MW_CATEGORY_STACK_THREADS].count;
    uint64_t each = stacks > 0 ? bytes / stacks : bytes;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "thp-stacks", MW_CLASS_KEPT, scope->bloat->basis, bytes);
    verdict->part_of = scope->bloat->id;
    mw_text_set(scope, &verdict->summary,
                "%s of it is in the stacks of %s thread%s, %s each: a stack uses a few pages at "
                "its end and gets huge ones",
                MW_BYTES(bytes), MW_COUNT(stacks), MW_PLURAL(stacks), MW_SIZE(each));
    mw_verdict_figure(scope, verdict, "memory", bytes,
                      "%s of stacks in huge pages holds nothing but zeros", MW_BYTES(bytes));
    mw_verdict_rule_out(scope, verdict, "thread-stacks",
                        "these pages of the stacks were never used; %s of stacks are",
                        MW_BYTES(scope->left[MW_CATEGORY_STACK_THREADS]));
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict,
                      "MADV_NOHUGEPAGE on the stacks, or MAP_STACK when they are "
                      "mapped and Linux 6.7 or later, restart");
    mw_remedy_gain(remedy, mw_less(bytes, mw_least(bytes, scope->evidence->huge->error_bytes)),
                   bytes);
    mw_text_set(scope, &remedy->basis, "likely: stacks then hold what they use");
    mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
}

/* Zeros in the heap of a runtime: the heap's state explained, or not; a comparison decides. */
void mw_rule_thp_managed(struct mw_scope *scope)
{
    const struct mw_huge *huge = scope->evidence->huge;
    const struct mw_verdict *state = mw_verdict_find(scope->verdicts, "managed-unused");
    if (!state)
        state = mw_verdict_find(scope->verdicts, "managed-live");
    if (!huge || !state || scope->bloat || !scope->figures.has_rss)
        return;
    uint64_t bytes = mw_least(huge->zero_bytes[MW_CATEGORY_MANAGED_HEAP], state->bytes);
    if (!mw_is_worth(scope, bytes, MANAGED_PERCENT, MW_MIB))
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "thp-bloat", state->verdict_class, MW_BASIS_POSSIBLE, bytes);
    verdict->part_of = state->id;
    mw_text_set(scope, &verdict->summary,
                "up to %s of the heap's huge pages may never have been used: small pages of zeros "
                "beside such as are used; a runtime that clears memory makes them, too",
                MW_BYTES(bytes));
    bloat_evidence(scope, verdict);
    policy_note(scope, verdict);
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "%s", off_switch(scope));
    mw_remedy_gain(remedy, 0, bytes);
    mw_text_set(scope, &remedy->basis,
                "upper bound, an experiment: only a process without huge pages tells; page faults "
                "rise");
    mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
}
