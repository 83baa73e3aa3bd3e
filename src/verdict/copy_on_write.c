/* verdict/copy_on_write.c: memory that forked processes share, and that the RSS of each counts.
 *
 * The kernel says how much: pages of private anonymous memory that other processes map, too. They
 * are needed memory whose size is misread, so they are charged here before `healthy` or the
 * managed heap take them. A page may be free inside malloc, or have no owner, and be shared all the
 * same: where others were charged with most of these bytes, this is part of the largest of them.
 *
 * Look-alikes: shared memory (not anonymous), and pages that KSM merged (no fork behind them). */
#include "verdict/build.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { WORTH_PERCENT = 2 };

struct sharing {
    uint64_t bytes;                       /* anonymous, mapped by others, too */
    uint64_t own_bytes;                   /* private, in mappings that are shared in part */
    uint64_t category[MW_CATEGORY_COUNT]; /* where the account has those bytes */
};

/* Private anonymous bytes of a mapping of which some are shared: copies made since the fork, and
 * what was never shared. */
static uint64_t own_bytes(const struct mw_mapping *map, uint64_t shared)
{
    if (mw_mapping_knows(map, MW_COUNTER_ANONYMOUS))
        return mw_less(mw_mapping_counter(map, MW_COUNTER_ANONYMOUS), shared);
    return mw_mapping_counter(map, MW_COUNTER_PRIVATE_DIRTY);
}

/* One pass over the pieces; those of a mapping follow each other. */
static void sharing_sum(const struct mw_scope *scope, struct sharing *sharing)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_mapping_list *regions = &scope->evidence->image->regions;
    uint64_t left = 0;
    *sharing = (struct sharing){0};
    for (size_t i = 0; i < account->piece_count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->region >= regions->count)
            continue;
        if (i == 0 || account->pieces[i - 1].region != piece->region) {
            const struct mw_mapping *map = &regions->items[piece->region];
            left = mw_mapping_forked_bytes(map);
            sharing->own_bytes = mw_sum(sharing->own_bytes, left ? own_bytes(map, left) : 0);
        }
        uint64_t here = mw_least(left, mw_known(piece->rss_bytes) ? piece->rss_bytes : 0);
        sharing->category[piece->category] = mw_sum(sharing->category[piece->category], here);
        sharing->bytes = mw_sum(sharing->bytes, here);
        left -= here;
    }
}

/* Is it worth a word, and made by fork? */
static bool sharing_holds(const struct mw_scope *scope, struct sharing *sharing)
{
    const struct mw_evidence *evidence = scope->evidence;
    const struct mw_family *family = evidence->family;
    if (!evidence->image || !evidence->account || !scope->figures.has_rss)
        return false;
    sharing_sum(scope, sharing);
    if (!mw_is_worth(scope, sharing->bytes, WORTH_PERCENT, MW_MIB))
        return false;
    return !(family && mw_known(family->own.ksm) && family->own.ksm >= sharing->bytes / 2);
}

/* The categories that a piece's bytes may be in: a heap is one piece, whatever its blocks are. */
static size_t categories_of(enum mw_category category, enum mw_category list[3])
{
    size_t count = 0;
    list[count++] = category;
    if (category == MW_CATEGORY_MALLOC_IN_USE) {
        list[count++] = MW_CATEGORY_MALLOC_METADATA;
        list[count++] = MW_CATEGORY_MALLOC_FREE;
    }
    return count;
}

/* What of it nobody was charged with. What has no owner stays with `unknown`. */
static uint64_t chargeable_bytes(const struct mw_scope *scope, const struct sharing *sharing)
{
    uint64_t sum = 0;
    for (int c = 0; c < MW_CATEGORY_COUNT; c++) {
        enum mw_category list[3];
        uint64_t left = 0;
        if (c == MW_CATEGORY_UNKNOWN)
            continue;
        size_t count = categories_of((enum mw_category)c, list);
        for (size_t i = 0; i < count; i++)
            left = mw_sum(left, scope->left[list[i]]);
        sum = mw_sum(sum, mw_least(sharing->category[c], left));
    }
    return sum;
}

static uint64_t charge(struct mw_scope *scope, const struct sharing *sharing)
{
    uint64_t sum = 0;
    for (int c = 0; c < MW_CATEGORY_COUNT; c++) {
        enum mw_category list[3];
        uint64_t wanted = sharing->category[c];
        if (c == MW_CATEGORY_UNKNOWN)
            continue;
        size_t count = categories_of((enum mw_category)c, list);
        for (size_t i = 0; i < count && wanted > 0; i++) {
            uint64_t taken = mw_ledger_take(scope, list[i], wanted);
            wanted -= taken;
            sum = mw_sum(sum, taken);
        }
    }
    return sum;
}

static bool has_family(const struct mw_scope *scope)
{
    const struct mw_family *family = scope->evidence->family;
    return family && family->read_count > 1;
}

static void summary_set(struct mw_scope *scope, struct mw_verdict *verdict,
                        const struct sharing *sharing)
{
    const struct mw_family *family = scope->evidence->family;
    if (!has_family(scope))
        mw_text_set(scope, &verdict->summary,
                    "%s is shared copy-on-write with other processes: the RSS of each counts it, "
                    "and it is in memory once",
                    MW_BYTES(sharing->bytes));
    else
        mw_text_set(scope, &verdict->summary,
                    "%s is shared copy-on-write since a fork, and each process counts it: %s%s "
                    "have %s by PSS, not the %s of their RSS",
                    MW_BYTES(sharing->bytes), family->is_cut ? "the first " : "the ",
                    MW_COUNT(family->read_count), MW_BYTES(family->pss), MW_BYTES(family->rss));
}

/* If all wrote to all of it. Only where every process that shares it was read. */
static void growth_note(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_family *family = scope->evidence->family;
    if (!family->has_pss_anon || family->is_cut || family->read_count != family->count)
        return;
    uint64_t growth = mw_less(family->anonymous, family->pss_anon);
    mw_verdict_figure(scope, verdict, "smaps_rollup", growth,
                      "they would need %s more if each wrote to all that it shares",
                      MW_BYTES(growth));
}

static void evidence_add(struct mw_scope *scope, struct mw_verdict *verdict,
                         const struct sharing *sharing)
{
    const struct mw_family *family = scope->evidence->family;
    mw_verdict_figure(scope, verdict, "smaps", sharing->bytes,
                      "anonymous pages that other processes map, too: %s",
                      MW_BYTES(sharing->bytes));
    if (family) {
        mw_verdict_figure(scope, verdict, "/proc", family->count,
                          "%s process%s of this executable in one line of descent, from PID %d",
                          MW_COUNT(family->count), family->count == 1 ? "" : "es",
                          family->root_pid);
        mw_verdict_figure(scope, verdict, "smaps_rollup", family->rss, "the sum of their RSS: %s",
                          MW_BYTES(family->rss));
        mw_verdict_figure(scope, verdict, "smaps_rollup", family->pss, "the sum of their PSS: %s",
                          MW_BYTES(family->pss));
        growth_note(scope, verdict);
    }
    mw_verdict_figure(scope, verdict, "smaps", sharing->own_bytes,
                      "in mappings that are shared in part, %s is its own",
                      MW_BYTES(sharing->own_bytes));
    mw_verdict_rule_out(scope, verdict, "shared-memory",
                        "private anonymous memory: what one process writes, no other sees");
}

static void remedies_add(struct mw_scope *scope, struct mw_verdict *verdict,
                         const struct sharing *sharing)
{
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "add up PSS, not RSS, over such processes");
    mw_text_set(scope, &remedy->basis, "no gain: it counts each page once");
    mw_text_set(scope, &remedy->verify, "grep ^Pss: /proc/%s/smaps_rollup", MW_PID);
    if (sharing->own_bytes == 0)
        return;
    bool is_python = mw_runtime_find(scope, "cpython") != NULL;
    remedy = mw_remedy_add(scope, verdict, "%s",
                           is_python ? "load before the fork, then gc.freeze(): fewer copies"
                                     : "load before the fork, write little after it");
    mw_remedy_gain(remedy, 0, sharing->own_bytes);
    mw_text_set(scope, &remedy->basis,
                "upper bound: what is its own in mappings that are shared in part");
    mw_text_set(scope, &remedy->verify, "memwhy NEW_PID");
}

static void verdict_fill(struct mw_scope *scope, struct mw_verdict *verdict,
                         const struct sharing *sharing)
{
    summary_set(scope, verdict, sharing);
    evidence_add(scope, verdict, sharing);
    remedies_add(scope, verdict, sharing);
}

static enum mw_basis basis_of(const struct mw_scope *scope)
{
    return has_family(scope) ? MW_BASIS_PROVEN : MW_BASIS_LIKELY;
}

/* Less than half of it is still to be charged: then it is part of something. */
static bool is_part(const struct mw_scope *scope, const struct sharing *sharing)
{
    return chargeable_bytes(scope, sharing) < sharing->bytes / 2;
}

void mw_rule_copy_on_write(struct mw_scope *scope)
{
    struct sharing sharing;
    if (!sharing_holds(scope, &sharing) || is_part(scope, &sharing))
        return;
    uint64_t bytes = charge(scope, &sharing);
    assert(bytes <= sharing.bytes);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "copy-on-write", MW_CLASS_NEEDED, basis_of(scope), bytes);
    verdict_fill(scope, verdict, &sharing);
}

/* The verdict that was charged with most of it: what has no owner, else the largest that is kept
 * or leaked. */
static const struct mw_verdict *whole_of(const struct mw_scope *scope,
                                         const struct sharing *sharing)
{
    const struct mw_verdict *largest = NULL;
    if (sharing->category[MW_CATEGORY_UNKNOWN] >= sharing->bytes / 2)
        return mw_verdict_find(scope->verdicts, "unknown");
    for (size_t i = 0; i < scope->verdicts->count; i++) {
        const struct mw_verdict *verdict = &scope->verdicts->items[i];
        if (!verdict->part_of && verdict->verdict_class <= MW_CLASS_KEPT &&
            (!largest || verdict->bytes > largest->bytes))
            largest = verdict;
    }
    return largest;
}

void mw_rule_copy_on_write_part(struct mw_scope *scope)
{
    struct sharing sharing;
    if (mw_verdict_find(scope->verdicts, "copy-on-write") || !sharing_holds(scope, &sharing))
        return;
    const struct mw_verdict *whole = whole_of(scope, &sharing);
    if (!whole || whole->bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "copy-on-write", MW_CLASS_NEEDED, basis_of(scope),
                       mw_least(sharing.bytes, whole->bytes));
    verdict->part_of = whole->id;
    verdict_fill(scope, verdict, &sharing);
}
