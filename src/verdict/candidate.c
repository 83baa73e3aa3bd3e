/* verdict/candidate.c: blocks of one size that hold much of what is in use.
 *
 * That is how a leak looks, and a cache, a table and a connection pool too. Only reachability
 * tells them apart, and this version does not compute it. So the candidate is part of `healthy`,
 * is of the class that in-use memory has until something else is shown, and says that it is
 * undecided: a headline LEAKED over live memory would cost more than it could gain. */
#include "verdict/build.h"

enum { BLOCKS_MIN = 1000, SHARE_PERCENT = 30, RSS_PERCENT = 5 };

struct size_group {
    uint64_t size_bytes, count, bytes, free_count;
};

static struct size_group largest_group(const struct mw_allocator *glibc)
{
    struct size_group largest = {0};
    for (size_t i = 0; i < glibc->size_count; i++) {
        const struct mw_size_row *row = &glibc->sizes[i];
        uint64_t bytes;
        if (row->in_use_count < BLOCKS_MIN ||
            __builtin_mul_overflow(row->size_bytes, row->in_use_count, &bytes) ||
            bytes <= largest.bytes)
            continue;
        largest = (struct size_group){row->size_bytes, row->in_use_count, bytes, row->free_count};
    }
    return largest;
}

void mw_rule_native_leak_candidate(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    if (!figures->is_glibc || !scope->healthy)
        return;
    struct size_group group = largest_group(figures->glibc);
    if (group.count == 0 || group.bytes < figures->in_use_bytes / 100 * SHARE_PERCENT ||
        !mw_is_worth(scope, group.bytes, RSS_PERCENT, MW_MIB))
        return;
    uint64_t bytes = mw_least(group.bytes, scope->healthy->bytes);
    struct mw_verdict *verdict = mw_verdict_add(scope, "native-leak", MW_CLASS_NEEDED,
                                                MW_BASIS_POSSIBLE, bytes);
    verdict->part_of = scope->healthy->id;
    scope->healthy->basis = MW_BASIS_POSSIBLE;
    mw_text_set(scope, &verdict->summary,
                "candidate, not decided: %s blocks of %s hold %s, %u%% of what is in use; a leak, "
                "or a cache or table that is needed",
                MW_COUNT(group.count), MW_SIZE(group.size_bytes), MW_BYTES(group.bytes),
                mw_percent(group.bytes, figures->in_use_bytes));
    mw_verdict_figure(scope, verdict, "heap walk", group.count,
                      "%s blocks in use of %s (%s usable)", MW_COUNT(group.count),
                      MW_SIZE(group.size_bytes), MW_SIZE(mw_less(group.size_bytes, 8)));
    mw_verdict_figure(scope, verdict, "heap walk", group.free_count,
                      "%s free chunks of the same size", MW_COUNT(group.free_count));
    mw_verdict_note(scope, verdict, "heap walk",
                    "whether anything still points to them decides, native-leak or "
                    "unbounded-growth or neither; this version has not looked");
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "take this report again under load and compare the count of that size");
    mw_text_set(scope, &remedy->basis,
                "an experiment, no gain of its own: a count that only rises is a leak or an "
                "unbounded cache, a flat one is neither");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s --json", MW_PID);
}
