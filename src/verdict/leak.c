/* verdict/leak.c: blocks that nothing points to, counted by following all pointers.
 *
 *   all memory of one moment    native-leak, class leaked, `proven` where the allocators add up to
 *                               their own counters: however few they are, one is a leak
 *   some memory is missing      what may hold the pointers is unknown: `likely`, where it is much
 *   not asked                   candidate.c: by a sample */
#include "verdict/build.h"

#include <stdio.h>

enum { UNCERTAIN_PERCENT = 5, KINDS_SHOWN = 3, RESIDENT_PERCENT = 98 };

/* is_only: the summary has named it. */
static void kind_note(struct mw_scope *scope, struct mw_verdict *verdict,
                      const struct mw_leak_kind *kind, bool is_only)
{
    char held[96] = "";
    uint64_t indirect = kind->count - kind->direct_count;
    if (indirect > 0)
        snprintf(held, sizeof held, ", %s of them held by other lost blocks", MW_COUNT(indirect));
    if (!is_only || indirect > 0)
        mw_verdict_figure(scope, verdict, "reachability", kind->count,
                          "%s block%s of %s (%s with header), %s in all%s%s%s",
                          MW_COUNT(kind->count), MW_PLURAL(kind->count),
                          MW_SIZE(kind->usable_bytes), MW_SIZE(kind->size_bytes),
                          MW_BYTES(kind->bytes), held, kind->signature[0] ? ": " : "",
                          kind->signature[0] ? MW_LONG_NAME(kind->signature) : "");
    if (kind->caller[0])
        mw_verdict_note(scope, verdict, "block fields, symbols",
                        "one return address in all of them: %s", MW_LONG_NAME(kind->caller));
}

/* Of those that are named; more kinds than these may hold each other, too. */
static bool is_any_indirect(const struct mw_leak_evidence *leaks)
{
    for (size_t i = 0; i < leaks->kind_count; i++)
        if (leaks->kinds[i].direct_count < leaks->kinds[i].count)
            return true;
    return leaks->kinds_in_all > leaks->kind_count;
}

/* "42,231 blocks of 3,400 B (3,408 with header): CLR exception record", of one kind or the first of
 * more. */
static void summary_set(struct mw_scope *scope, struct mw_verdict *verdict,
                        const struct mw_leak_evidence *leaks)
{
    const struct mw_leak_kind *first = &leaks->kinds[0];
    const char *others = is_any_indirect(leaks) ? " but each other" : "";
    const char *certain = leaks->is_exact ? "nothing in memory" : "nothing that could be read";
    if (leaks->kinds_in_all == 1) {
        mw_text_set(scope, &verdict->summary,
                    "%s block%s of %s (%s with header)%s%s: %s%s points to them",
                    MW_COUNT(first->count), MW_PLURAL(first->count), MW_SIZE(first->usable_bytes),
                    MW_SIZE(first->size_bytes), first->signature[0] ? ", " : "",
                    first->signature[0] ? MW_LONG_NAME(first->signature) : "", certain, others);
        return;
    }
    mw_text_set(scope, &verdict->summary,
                "%s blocks of %s kinds: %s%s points to them; %s of %s (%s with header)%s%s hold %s "
                "of it",
                MW_COUNT(leaks->lost_count), MW_COUNT(leaks->kinds_in_all), certain, others,
                MW_COUNT(first->count), MW_SIZE(first->usable_bytes), MW_SIZE(first->size_bytes),
                first->signature[0] ? ", " : "",
                first->signature[0] ? MW_LONG_NAME(first->signature) : "", MW_BYTES(first->bytes));
}

static void fingerprint_note(struct mw_scope *scope, struct mw_verdict *verdict,
                             const struct mw_leak_evidence *leaks)
{
    mw_verdict_figure(scope, verdict, "reachability", leaks->lost_count,
                      "%s of %s blocks in use are led to from no register, stack, data or other "
                      "memory: %s",
                      MW_COUNT(leaks->lost_count), MW_COUNT(leaks->lost_count + leaks->held_count),
                      MW_BYTES(leaks->lost_bytes));
    if (leaks->lost_resident_bytes != MW_UNKNOWN &&
        leaks->lost_resident_bytes < leaks->lost_bytes / 100 * RESIDENT_PERCENT)
        mw_verdict_figure(scope, verdict, "pagemap", leaks->lost_resident_bytes,
                          "%s of it is resident: the rest was never touched, or is swapped",
                          MW_BYTES(leaks->lost_resident_bytes));
    for (size_t i = 0; i < leaks->kind_count && i < KINDS_SHOWN; i++)
        kind_note(scope, verdict, &leaks->kinds[i], leaks->kinds_in_all == 1);
}

static void remedy_add(struct mw_scope *scope, struct mw_verdict *verdict,
                       const struct mw_leak_evidence *leaks, uint64_t bytes)
{
    const struct mw_leak_kind *first = &leaks->kinds[0];
    struct mw_remedy *remedy =
        first->caller[0]
            ? mw_remedy_add(scope, verdict, "free them; look first at %s",
                            MW_LONG_NAME(first->caller))
            : mw_remedy_add(scope, verdict,
                            "find who allocates blocks of %s, free them or stop what triggers "
                            "it; restart",
                            MW_SIZE(first->usable_bytes));
    mw_remedy_gain(remedy, leaks->is_exact ? bytes : 0, bytes);
    mw_text_set(scope, &remedy->basis, "all that nothing points to, after a restart with the fix");
    mw_text_set(scope, &remedy->verify, "memwhy leaks %s", MW_PID);
}

static void leak_say(struct mw_scope *scope, const struct mw_leak_evidence *leaks)
{
    const uint64_t resident =
        leaks->lost_resident_bytes == MW_UNKNOWN ? leaks->lost_bytes : leaks->lost_resident_bytes;
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_IN_USE, resident);
    if (bytes == 0)
        return; /* never touched, or swapped */
    bool is_proven = leaks->is_exact && scope->figures.is_exact;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "native-leak", MW_CLASS_LEAKED,
                       is_proven ? MW_BASIS_PROVEN : MW_BASIS_LIKELY, bytes);
    scope->leak = verdict;
    summary_set(scope, verdict, leaks);
    fingerprint_note(scope, verdict, leaks);
    mw_leak_rate_note(scope, verdict, leaks->lost_count, leaks->lost_bytes);
    mw_leak_rule_out_kept(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "unbounded-growth",
                        "a container that grows would point to its blocks");
    remedy_add(scope, verdict, leaks, bytes);
}

void mw_rule_native_leak(struct mw_scope *scope)
{
    const struct mw_leak_evidence *leaks = scope->evidence->leaks;
    if (!leaks) {
        mw_leak_by_sample(scope);
        return;
    }
    if (leaks->lost_count == 0 || leaks->kind_count == 0)
        return;
    if (leaks->is_exact || mw_is_worth(scope, leaks->lost_bytes, UNCERTAIN_PERCENT, MW_MIB))
        leak_say(scope, leaks);
}
