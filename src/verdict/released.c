/* verdict/released.c: memory that nobody needs and that its owner knows of: handed back to the
 * kernel in a way that leaves it resident (MADV_FREE), or kept by a runtime for objects to come.
 *
 * LazyFree is counted by the kernel for each mapping: pages of anonymous memory that were marked
 * and not written since. They are in the RSS until memory is short. Which owner's they are follows
 * from the mapping; where several share one, from the largest on. */
#include "verdict/build.h"

#include <string.h>

enum { LAZY_PERCENT = 5, UNUSED_PERCENT = 10 };

/* Divide the LazyFree of one mapping among its pieces [first, end): the largest takes what it can
 * hold, then the others in order. */
static void lazy_divide(const struct mw_account *account, size_t first, size_t end, uint64_t lazy,
                        uint64_t bytes[MW_CATEGORY_COUNT])
{
    size_t largest = first;
    for (size_t i = first; i < end; i++)
        if (account->pieces[i].rss_bytes > account->pieces[largest].rss_bytes)
            largest = i;
    for (size_t step = 0; step <= end - first && lazy > 0; step++) {
        size_t i = step == 0 ? largest : first + step - 1;
        if (step > 0 && i == largest)
            continue;
        uint64_t taken = mw_least(lazy, account->pieces[i].rss_bytes);
        uint64_t *sum = &bytes[account->pieces[i].category];
        *sum = mw_sum(*sum, taken);
        lazy -= taken;
    }
}

/* LazyFree by owner; pieces are in the order of the mappings. */
static void lazy_by_category(const struct mw_scope *scope, uint64_t bytes[MW_CATEGORY_COUNT])
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_image *image = scope->evidence->image;
    for (size_t first = 0, end; first < account->piece_count; first = end) {
        uint32_t region = account->pieces[first].region;
        for (end = first; end < account->piece_count && account->pieces[end].region == region;)
            end++;
        if (region < image->regions.count)
            lazy_divide(account, first, end,
                        mw_mapping_counter(&image->regions.items[region], MW_COUNTER_LAZY_FREE),
                        bytes);
    }
}

static void lazy_evidence(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_runtime *go = mw_runtime_find(scope, "go");
    uint64_t all = scope->evidence->account->lazy_free_bytes;
    mw_verdict_figure(scope, verdict, "smaps", all,
                      "LazyFree %s: marked with MADV_FREE and not written since", MW_BYTES(all));
    if (all > verdict->bytes)
        mw_verdict_figure(scope, verdict, "smaps", all - verdict->bytes,
                          "%s of it is explained by another verdict",
                          MW_BYTES(all - verdict->bytes));
    if (go)
        mw_verdict_note(scope, verdict, "go",
                        "Go 1.12 to 1.15 gives memory back this way; GODEBUG=madvdontneed=1 makes "
                        "RSS tell");
    mw_verdict_rule_out(scope, verdict, "native-leak", "the program has given these pages back");
    if (scope->evidence->runtime_count > 0)
        mw_verdict_rule_out(scope, verdict, "managed-unused",
                            "the owner of these pages no longer wants them");
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "none needed");
    mw_text_set(scope, &remedy->basis,
                "reclaimable: the kernel takes these pages first when memory is short, without "
                "swapping");
    mw_text_set(scope, &remedy->verify, "grep LazyFree /proc/%s/smaps_rollup", MW_PID);
}

void mw_rule_lazy_free(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    uint64_t wanted[MW_CATEGORY_COUNT] = {0}, bytes = 0;
    if (!account || !scope->evidence->image || !scope->figures.has_rss ||
        !mw_known(account->lazy_free_bytes) ||
        !mw_is_worth(scope, account->lazy_free_bytes, LAZY_PERCENT, MW_MIB))
        return;
    lazy_by_category(scope, wanted);
    /* Of a walked allocator that marks its free blocks they are in its free memory already. glibc
     * never does, nor musl from 1.2.4 on: there they are parts of blocks in use, which the program
     * itself has marked. */
    if (scope->figures.marked_free_bytes > 0)
        wanted[MW_CATEGORY_MALLOC_IN_USE] = 0;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        bytes = mw_sum(bytes, mw_least(wanted[category], scope->left[category]));
    if (!mw_is_worth(scope, bytes, LAZY_PERCENT, MW_MIB))
        return;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        mw_ledger_take(scope, (enum mw_category)category, wanted[category]);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "lazy-free", MW_CLASS_KEPT, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s was given back with MADV_FREE: it counts as resident until the kernel needs "
                "the memory, and is no leak",
                MW_BYTES(bytes));
    lazy_evidence(scope, verdict);
}

/* The runtime that says how much of its heap objects use, and how much room it gives to new ones;
 * or NULL. */
static const struct mw_runtime *runtime_that_tells(const struct mw_scope *scope)
{
    for (size_t i = 0; i < scope->evidence->runtime_count; i++)
        if (mw_known(scope->evidence->runtimes[i].heap_used) &&
            mw_known(scope->evidence->runtimes[i].heap_nursery))
            return &scope->evidence->runtimes[i];
    return NULL;
}

static void unused_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                            const struct mw_runtime *runtime, uint64_t there)
{
    mw_verdict_figure(scope, verdict, "smaps", there, "managed heap: %s resident", MW_BYTES(there));
    mw_verdict_figure(scope, verdict, "runtime", runtime->heap_used,
                      "%s used%s, by the runtime's "
                      "own counters",
                      MW_BYTES(runtime->heap_used),
                      runtime->heap_nursery > 0 ? " after the last collection" : "");
    if (runtime->heap_nursery > 0)
        mw_verdict_figure(scope, verdict, "runtime", runtime->heap_nursery,
                          "%s is room for objects made since then, and is not in this figure",
                          MW_BYTES(runtime->heap_nursery));
    if (mw_known(runtime->heap_committed))
        mw_verdict_figure(scope, verdict, "runtime", runtime->heap_committed,
                          "the runtime has %s committed", MW_BYTES(runtime->heap_committed));
    mw_verdict_rule_out(scope, verdict, "managed-live",
                        "live objects and their garbage are at most %s",
                        MW_BYTES(mw_sum(runtime->heap_used, runtime->heap_nursery)));
    mw_verdict_rule_out(scope, verdict, "untracked-native", "%s in use in malloc",
                        MW_BYTES(mw_category_measure(scope, MW_CATEGORY_MALLOC_IN_USE)));
}

/* What makes the heap of this runtime smaller. */
static const char *unused_action(const struct mw_runtime *runtime)
{
    if (strcmp(runtime->kind, "jvm") == 0)
        return "a smaller -Xmx and -Xms, or -XX:MaxHeapFreeRatio with G1PeriodicGCInterval, "
               "restart";
    if (strcmp(runtime->kind, "cpython") == 0)
        return "the work that peaks in a process of its own (multiprocessing, maxtasksperchild): "
               "an arena goes back only when no object is left in it";
    return "a limit for the heap, restart";
}

static void unused_remedies(struct mw_scope *scope, struct mw_verdict *verdict,
                            const struct mw_runtime *runtime)
{
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "%s", unused_action(runtime));
    mw_remedy_gain(remedy, 0, verdict->bytes);
    mw_text_set(scope, &remedy->basis, "upper bound: all of it; the next peak may need it again");
    mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
}

/* Resident in the managed heap beyond what objects used after the last collection and what new
 * ones may use until the next; a runtime without a nursery counts as it goes. Said only where the
 * runtime itself tells both, and where it is more than objects use: room to work in is no finding.
 */
void mw_rule_managed_unused(struct mw_scope *scope)
{
    const struct mw_runtime *runtime = runtime_that_tells(scope);
    uint64_t there = scope->left[MW_CATEGORY_MANAGED_HEAP];
    if (!runtime || !scope->figures.has_rss)
        return;
    uint64_t bytes = mw_less(there, mw_sum(runtime->heap_used, runtime->heap_nursery));
    if (bytes <= runtime->heap_used || !mw_is_worth(scope, bytes, UNUSED_PERCENT, 16 * MW_MIB))
        return;
    mw_ledger_take(scope, MW_CATEGORY_MANAGED_HEAP, bytes);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "managed-unused", MW_CLASS_KEPT, MW_BASIS_LIKELY, bytes);
    mw_text_set(scope, &verdict->summary, "%s of the %s heap is resident beyond the %s that %s",
                MW_BYTES(bytes), runtime->kind, MW_BYTES(runtime->heap_used),
                runtime->heap_nursery > 0
                    ? "objects used after the last collection and the room for new ones"
                    : "holds objects: free pools in arenas that are not empty");
    unused_evidence(scope, verdict, runtime, there);
    unused_remedies(scope, verdict, runtime);
}
