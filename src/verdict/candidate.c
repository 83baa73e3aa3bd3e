/* verdict/candidate.c: blocks of one size that hold much of what is in use.
 *
 * That is how a leak looks, and a cache or a table too. Following all pointers tells them apart
 * (leak.c). Where a live target is too large for that under one stop, the session looks for words
 * that point to a sample of the blocks (graph/references.h), and whatever is said here is called a
 * candidate:
 *
 *   nothing points to a fourth       native-leak, class leaked, `likely`, with the share that the
 *   of them or more                  sample shows: sampled, not counted
 *   something points to nearly all   no verdict: a line in the evidence of `healthy`, since only a
 *                                    second look can tell a cache from unbounded-growth
 *   not asked, or not all memory     by size alone, `possible`: a verdict only where one size holds
 *                                    half of what is in use and a quarter of the RSS; its class is
 *                                    needed, since size alone calls nothing leaked
 *
 * docs/design/006-verdict-engine.md argues for the thresholds. */
#include "verdict/build.h"

#include <stdio.h>

enum {
    BLOCKS_MIN = 1000,
    NOTE_IN_USE_PERCENT = 30,
    NOTE_RSS_PERCENT = 5,
    LEAK_IN_USE_PERCENT = 50,
    LEAK_RSS_PERCENT = 25,
    LOST_SHARE = 4, /* of a live kind of block, something points to nearly all */
};
#define LEAK_BYTES_MIN (8 * MW_MIB)

struct size_group {
    uint64_t size_bytes, count, bytes, free_count;
};

/* The size that holds the most bytes in use, count 0 when none has enough blocks. */
static struct size_group largest_group(const struct mw_scope *scope)
{
    struct size_group largest = {0};
    const struct mw_allocator *walked = scope->figures.walked;
    for (size_t i = 0; walked && i < walked->size_count; i++) {
        const struct mw_size_row *row = &walked->sizes[i];
        uint64_t bytes;
        if (row->in_use_count < BLOCKS_MIN ||
            __builtin_mul_overflow(row->size_bytes, row->in_use_count, &bytes) ||
            bytes <= largest.bytes)
            continue;
        largest = (struct size_group){row->size_bytes, row->in_use_count, bytes, row->free_count};
    }
    return largest;
}

static bool holds_of_in_use(const struct mw_scope *scope, const struct size_group *group,
                            unsigned percent)
{
    return group->count > 0 && group->bytes >= scope->figures.in_use_bytes / 100 * percent;
}

void mw_leak_rate_note(struct mw_scope *scope, struct mw_verdict *verdict, uint64_t count,
                       uint64_t bytes)
{
    double uptime = scope->process->uptime_seconds;
    if (!(uptime >= 60) || uptime > 1e10)
        return;
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    double per_day = (double)bytes / uptime * 86400;
    char limit[64] = "";
    if (cgroup && cgroup->version != 0 && mw_known(cgroup->limit) && mw_known(cgroup->usage) &&
        cgroup->limit > cgroup->usage && per_day >= 1)
        snprintf(limit, sizeof limit, ", limit in ~%.0f days",
                 (double)(cgroup->limit - cgroup->usage) / per_day);
    char rate[48];
    if ((double)count > uptime)
        snprintf(rate, sizeof rate, "%.0f blocks a second", (double)count / uptime);
    else
        snprintf(rate, sizeof rate, "one block per %.1f s", uptime / (double)count);
    mw_verdict_note(scope, verdict, "heap walk, status",
                    "if steady since the start: %s, %s a day%s [possible]", rate,
                    MW_SIZE(per_day < 0x1p63 ? (uint64_t)per_day : UINT64_MAX), limit);
}

/* Is there room in swap for pointers to half of the blocks? The search sees what is resident. */
static bool swap_may_point(const struct mw_scope *scope, const struct size_group *group)
{
    const struct mw_account *account = scope->evidence->account;
    uint64_t swap = account && account->has_swap ? account->swap_bytes : scope->process->vm_swap;
    return mw_known(swap) && swap / 4 >= group->count;
}

/* What the search for references says of this group. */
enum reference_state { NOT_ASKED, POINTED_TO, LOST };

static enum reference_state references_of(const struct mw_scope *scope,
                                          const struct size_group *group)
{
    const struct mw_references *references = scope->evidence->references;
    if (scope->evidence->leaks)
        return scope->evidence->leaks->is_exact ? POINTED_TO : NOT_ASKED;
    if (!references || references->size_bytes != group->size_bytes || references->sampled == 0)
        return NOT_ASKED;
    uint64_t lost = references->sampled - references->referenced;
    if (lost < references->sampled / LOST_SHARE)
        return POINTED_TO;
    return references->is_complete && !swap_may_point(scope, group) ? LOST : NOT_ASKED;
}

/* The search that decided nothing: what it saw, and what it could not see. */
static void undecided_note(struct mw_scope *scope, struct mw_verdict *verdict,
                           const struct size_group *group)
{
    const struct mw_references *references = scope->evidence->references;
    if (!references || references->size_bytes != group->size_bytes || references->sampled == 0) {
        mw_verdict_note(scope, verdict, "heap walk", "by size and count alone, not decided");
        return;
    }
    mw_verdict_figure(scope, verdict, "search for references", references->referenced,
                      "not decided: %s of %s sampled blocks are pointed to from %s that was "
                      "searched, and %s was not",
                      MW_COUNT(references->referenced), MW_COUNT(references->sampled),
                      MW_SIZE(references->bytes_read),
                      swap_may_point(scope, group) ? "what is in swap" : "the rest");
}

/* The part of the group that nothing points to, by the sample. */
static uint64_t lost_bytes(const struct mw_scope *scope, const struct size_group *group)
{
    const struct mw_references *references = scope->evidence->references;
    uint64_t lost = references->sampled - references->referenced;
    return (uint64_t)((unsigned __int128)group->bytes * lost / references->sampled);
}

/* Nothing points to the blocks of the sample. */
static void lost_candidate(struct mw_scope *scope, const struct size_group *group)
{
    const struct mw_references *references = scope->evidence->references;
    uint64_t lost = references->sampled - references->referenced;
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_IN_USE, lost_bytes(scope, group));
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "native-leak", MW_CLASS_LEAKED, MW_BASIS_LIKELY, bytes);
    scope->leak = verdict;
    mw_text_set(scope, &verdict->summary,
                "candidate: %s blocks of %s (%s with header) hold %s, and nothing in memory points "
                "to %s of %s that were sampled: about %s",
                MW_COUNT(group->count), MW_SIZE(mw_usable_bytes(scope, group->size_bytes)),
                MW_SIZE(group->size_bytes), MW_BYTES(group->bytes), MW_COUNT(lost),
                MW_COUNT(references->sampled), MW_BYTES(bytes));
    mw_verdict_figure(scope, verdict, "search for references", lost,
                      "%s of %s sampled blocks have no word pointing to them in %s of private "
                      "writable memory; shared memory and disguised pointers are not searched, "
                      "--fork follows all pointers",
                      MW_COUNT(lost), MW_COUNT(references->sampled),
                      MW_SIZE(references->bytes_read));
    mw_verdict_figure(scope, verdict, "heap walk", group->count,
                      "%s blocks in use of this size, %s free ones, %u%% of what is in use",
                      MW_COUNT(group->count), MW_COUNT(group->free_count),
                      mw_percent(group->bytes, scope->figures.in_use_bytes));
    mw_leak_rate_note(scope, verdict, group->count, group->bytes);
    mw_leak_rule_out_kept(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "unbounded-growth",
                        "a container that grows would point to its blocks");
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict,
                      "find who allocates blocks of %s, free them or stop the "
                      "trigger",
                      MW_SIZE(mw_usable_bytes(scope, group->size_bytes)));
    remedy->has_gain = true;
    remedy->gain_low_bytes = 0;
    remedy->gain_high_bytes = bytes;
    mw_text_set(scope, &remedy->basis,
                "upper bound: all that nothing points to, after a restart with the fix");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s --json", MW_PID);
}

static void candidate_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                               const struct size_group *group)
{
    mw_text_set(scope, &verdict->summary,
                "candidate: %s blocks of %s (%s with header) hold %s, %u%% of what is in use: a "
                "leak, or a cache that is needed; what points to them decides, and is not known",
                MW_COUNT(group->count), MW_SIZE(mw_usable_bytes(scope, group->size_bytes)),
                MW_SIZE(group->size_bytes), MW_BYTES(group->bytes),
                mw_percent(group->bytes, scope->figures.in_use_bytes));
    undecided_note(scope, verdict, group);
    mw_verdict_figure(scope, verdict, "heap walk", group->count,
                      "%s blocks in use of this size, %s free ones", MW_COUNT(group->count),
                      MW_COUNT(group->free_count));
    mw_leak_rate_note(scope, verdict, group->count, group->bytes);
    mw_verdict_note(scope, verdict, "heap walk",
                    "nothing points to them: native-leak; something does and they grow: "
                    "unbounded-growth; they do not grow: needed");
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "take the report again under load, compare the count of that size");
    mw_text_set(scope, &remedy->basis,
                "an experiment: only a count that rises is a leak or growth");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s --json", MW_PID);
}

void mw_leak_rule_out_kept(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    if (!figures->is_glibc) {
        uint64_t kept = mw_kept_bytes(scope);
        mw_verdict_rule_out(scope, verdict, "allocator-cache", "%s free in malloc (%u%%)",
                            MW_BYTES(kept), mw_percent(kept, figures->total_bytes));
        return;
    }
    mw_rule_out_trimmable(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "arena-proliferation", "%s arenas of threads hold %s free",
                        MW_COUNT(figures->other.count), MW_BYTES(figures->other.free_bytes));
    mw_verdict_rule_out(scope, verdict, "fragmentation", "%s in holes smaller than a page",
                        MW_BYTES(figures->parts.holes));
}

void mw_leak_by_sample(struct mw_scope *scope)
{
    struct size_group group = largest_group(scope);
    enum reference_state references = references_of(scope, &group);
    if (references == POINTED_TO)
        return;
    if (references == LOST) {
        if (holds_of_in_use(scope, &group, NOTE_IN_USE_PERCENT) &&
            mw_is_worth(scope, lost_bytes(scope, &group), NOTE_RSS_PERCENT, MW_MIB))
            lost_candidate(scope, &group);
        return;
    }
    if (!holds_of_in_use(scope, &group, LEAK_IN_USE_PERCENT) ||
        !mw_is_worth(scope, group.bytes, LEAK_RSS_PERCENT, LEAK_BYTES_MIN))
        return;
    if (scope->left[MW_CATEGORY_MALLOC_IN_USE] < group.bytes / 2)
        return; /* never touched, or swapped: not what fills the RSS */
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_IN_USE, group.bytes);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "native-leak", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, bytes);
    scope->leak = verdict;
    candidate_evidence(scope, verdict, &group);
    mw_leak_rule_out_kept(scope, verdict);
}

/* The container: what most of the blocks are led to through, and what would go with it. */
static void holder_note(struct mw_scope *scope, struct mw_verdict *verdict,
                        const struct mw_holder_evidence *holder)
{
    if (!holder || holder->sampled == 0)
        return;
    if (!holder->is_found) {
        mw_verdict_figure(scope, verdict, "reachability", holder->sampled,
                          "%s blocks were followed back: no one block holds most of them",
                          MW_COUNT(holder->sampled));
        return;
    }
    mw_verdict_figure(scope, verdict, "reachability", holder->retained_bytes,
                      "held through one block of %s at 0x%llx%s%s: %s in %s blocks would go with "
                      "it (%s of %s sampled lead through it)",
                      MW_SIZE(holder->holder_bytes), (unsigned long long)holder->address,
                      holder->type[0] ? ", " : "",
                      holder->type[0] ? MW_LONG_NAME(holder->type) : "",
                      MW_BYTES(holder->retained_bytes), MW_COUNT(holder->retained_count),
                      MW_COUNT(holder->through), MW_COUNT(holder->sampled));
    if (holder->root[0])
        mw_verdict_note(scope, verdict, "reachability, symbols", "a root leads to that block: %s",
                        MW_LONG_NAME(holder->root));
}

static void growth_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                            const struct size_group *group)
{
    const struct mw_references *references = scope->evidence->references;
    const struct mw_holder_evidence *holder = scope->evidence->holder;
    if (holder && holder->size_bytes == group->size_bytes)
        holder_note(scope, verdict, holder);
    if (scope->evidence->leaks) {
        mw_verdict_rule_out(scope, verdict, "native-leak", "roots lead to them");
        return;
    }
    mw_verdict_figure(scope, verdict, "search for references", references->referenced,
                      "%s of %s sampled blocks are pointed to", MW_COUNT(references->referenced),
                      MW_COUNT(references->sampled));
    mw_verdict_rule_out(scope, verdict, "native-leak", "something points to %s of %s blocks",
                        MW_COUNT(references->referenced), MW_COUNT(references->sampled));
}

/* Much memory in blocks of one size that something points to: part of what is needed until a second
 * look shows that it grows. */
static void growth_candidate(struct mw_scope *scope, const struct size_group *group,
                             const struct mw_verdict *whole)
{
    uint64_t bytes = mw_least(group->bytes, whole->bytes);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "unbounded-growth", MW_CLASS_NEEDED, MW_BASIS_POSSIBLE, bytes);
    verdict->part_of = whole->id;
    mw_text_set(scope, &verdict->summary,
                "candidate: %s blocks of %s (%s with header) hold %s and are pointed to: a cache "
                "or table that is needed, or one without a bound; only a second look can tell",
                MW_COUNT(group->count), MW_SIZE(mw_usable_bytes(scope, group->size_bytes)),
                MW_SIZE(group->size_bytes), MW_BYTES(group->bytes));
    growth_evidence(scope, verdict, group);
    mw_leak_rate_note(scope, verdict, group->count, group->bytes);
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "take the report again under load, compare the count of that size");
    mw_text_set(scope, &remedy->basis, "an experiment: only a count that rises is growth");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s --json", MW_PID);
}

void mw_candidate_note(struct mw_scope *scope, struct mw_verdict *verdict)
{
    struct size_group group = largest_group(scope);
    bool is_lost =
        scope->leak && (!scope->evidence->leaks || scope->leak->bytes >= group.bytes / 2);
    if (is_lost || !holds_of_in_use(scope, &group, NOTE_IN_USE_PERCENT) ||
        !mw_is_worth(scope, group.bytes, NOTE_RSS_PERCENT, MW_MIB))
        return;
    mw_verdict_figure(scope, verdict, "heap walk", group.count,
                      "%s blocks of %s hold %s, %u%% of what is in use in malloc: worth a second "
                      "look at their count",
                      MW_COUNT(group.count), MW_SIZE(group.size_bytes), MW_BYTES(group.bytes),
                      mw_percent(group.bytes, scope->figures.in_use_bytes));
    if (references_of(scope, &group) == POINTED_TO &&
        holds_of_in_use(scope, &group, LEAK_IN_USE_PERCENT) &&
        mw_is_worth(scope, group.bytes, LEAK_RSS_PERCENT, LEAK_BYTES_MIN))
        growth_candidate(scope, &group, verdict);
}
