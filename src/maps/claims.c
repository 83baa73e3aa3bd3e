/* maps/claims.c: the claims table and its resolution into disjoint pieces.
 *
 * Resolution sweeps the addresses from low to high. A claim enters at its start and leaves at its
 * end; the ones that are open lie in a binary heap with the strongest at the root. A claim that
 * has ended is only taken out when it reaches the root, so each enters and leaves once.
 *
 *   priority 4            |====B====|
 *   priority 1    |=======A=================|         |==C==|
 *   pieces        [   A  )[    B    )[  A   )  (gap)  [  C  )
 *
 * O(n log n) time, 8 bytes a claim for the order, 8 for the heap. Claims are our own words, not a
 * target's, but their addresses come from one: only compared, never added. */
#include "maps/claims.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>

const char *mw_category_id(enum mw_category category)
{
    static const char *const ids[MW_CATEGORY_COUNT] = {
        [MW_CATEGORY_MANAGED_HEAP] = "managed.heap",
        [MW_CATEGORY_MANAGED_CODE] = "managed.code",
        [MW_CATEGORY_MANAGED_METADATA] = "managed.metadata",
        [MW_CATEGORY_MALLOC_IN_USE] = "malloc.in_use",
        [MW_CATEGORY_MALLOC_FREE] = "malloc.free",
        [MW_CATEGORY_MALLOC_METADATA] = "malloc.metadata",
        [MW_CATEGORY_MALLOC_UNSPLIT] = "malloc.unsplit",
        [MW_CATEGORY_STACK_MAIN] = "stack.main",
        [MW_CATEGORY_STACK_THREADS] = "stack.threads",
        [MW_CATEGORY_FILE_TEXT] = "file.text",
        [MW_CATEGORY_FILE_DATA] = "file.data",
        [MW_CATEGORY_FILE_MAPPED] = "file.mapped",
        [MW_CATEGORY_SHARED_MEMORY] = "shared.memory",
        [MW_CATEGORY_DEVICE] = "device",
        [MW_CATEGORY_ALIAS] = "alias",
        [MW_CATEGORY_ANON_OTHER] = "anon.other",
        [MW_CATEGORY_UNKNOWN] = "unknown",
    };
    assert((unsigned)category < MW_CATEGORY_COUNT);
    return ids[category];
}

/* The sizes of a split add up to the range. */
static bool split_adds_up(const struct mw_claim *claim)
{
    uint64_t sum;
    return !__builtin_add_overflow(claim->split.in_use_bytes, claim->split.free_bytes, &sum) &&
           !__builtin_add_overflow(sum, claim->split.metadata_bytes, &sum) &&
           sum == claim->end - claim->start;
}

enum mw_status mw_claims_add(struct mw_claims *claims, const struct mw_claim *claim)
{
    if (claim->start >= claim->end || (claim->has_split && !split_adds_up(claim)))
        return MW_INVALID;
    assert((unsigned)claim->category < MW_CATEGORY_COUNT);
    assert(claim->owner != NULL);
    return mw_vec_push(claims, MW_LIMIT_CLAIMS, *claim);
}

enum mw_status mw_claims_add_range(struct mw_claims *claims, mw_addr start, mw_addr end,
                                   enum mw_category category, enum mw_claim_priority priority,
                                   const char *owner)
{
    struct mw_claim claim = {
        .start = start, .end = end, .category = category, .priority = priority, .owner = owner};
    return mw_claims_add(claims, &claim);
}

void mw_claims_deinit(struct mw_claims *claims)
{
    mw_vec_deinit(claims);
}

/* The sweep: `order` is claims by start, `open` a heap of those that have begun. */
struct sweep {
    const struct mw_claim **order;
    size_t order_count, order_next;
    const struct mw_claim **open;
    size_t open_count;
    struct mw_claim_piece *pieces;
    size_t piece_count;
};

/* On a tie the claim made later wins: it lies behind in the table. */
static bool claim_beats(const struct mw_claim *a, const struct mw_claim *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a > b;
}

static void open_push(struct sweep *sweep, const struct mw_claim *claim)
{
    size_t at = sweep->open_count++;
    while (at > 0 && claim_beats(claim, sweep->open[(at - 1) / 2])) {
        sweep->open[at] = sweep->open[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sweep->open[at] = claim;
}

static void open_pop(struct sweep *sweep)
{
    assert(sweep->open_count > 0);
    const struct mw_claim *last = sweep->open[--sweep->open_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sweep->open_count)
            break;
        if (child + 1 < sweep->open_count &&
            claim_beats(sweep->open[child + 1], sweep->open[child]))
            child++;
        if (!claim_beats(sweep->open[child], last))
            break;
        sweep->open[at] = sweep->open[child];
        at = child;
    }
    sweep->open[at] = last;
}

/* The strongest claim that covers address, or NULL. */
static const struct mw_claim *open_winner(struct sweep *sweep, mw_addr address)
{
    while (sweep->open_count > 0 && sweep->open[0]->end <= address)
        open_pop(sweep);
    return sweep->open_count > 0 ? sweep->open[0] : NULL;
}

static void piece_append(struct sweep *sweep, mw_addr start, mw_addr end,
                         const struct mw_claim *claim)
{
    struct mw_claim_piece *last =
        sweep->piece_count > 0 ? &sweep->pieces[sweep->piece_count - 1] : NULL;
    assert(start < end);
    if (last && last->end == start && last->claim == claim)
        last->end = end;
    else
        sweep->pieces[sweep->piece_count++] = (struct mw_claim_piece){start, end, claim};
}

/* Between one start and the next the winner only changes where a claim ends. */
static void sweep_run(struct sweep *sweep)
{
    mw_addr at = 0;
    while (sweep->order_next < sweep->order_count || sweep->open_count > 0) {
        const struct mw_claim *next =
            sweep->order_next < sweep->order_count ? sweep->order[sweep->order_next] : NULL;
        const struct mw_claim *winner = open_winner(sweep, at);
        if (next && (!winner || next->start <= at)) {
            if (next->start > at)
                at = next->start;
            open_push(sweep, next);
            sweep->order_next++;
            continue;
        }
        if (!winner)
            break;
        mw_addr end = next && next->start < winner->end ? next->start : winner->end;
        piece_append(sweep, at, end, winner);
        at = end;
    }
}

static int order_by_start(const void *left, const void *right)
{
    const struct mw_claim *a = *(const struct mw_claim *const *)left;
    const struct mw_claim *b = *(const struct mw_claim *const *)right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a < b ? -1 : a > b;
}

enum mw_status mw_claims_resolve(const struct mw_claims *claims, struct mw_claim_piece **pieces_out,
                                 size_t *count_out)
{
    size_t count = claims->count;
    MW_FREE const struct mw_claim **order = mw_calloc(count, sizeof *order);
    MW_FREE const struct mw_claim **open = mw_calloc(count, sizeof *open);
    /* n claims have 2n ends, between which there are at most 2n - 1 pieces */
    struct mw_claim_piece *pieces = mw_calloc(2 * count, sizeof *pieces);
    if (!order || !open || !pieces) {
        free(pieces);
        return MW_NOMEM;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = &claims->items[i];
    qsort(order, count, sizeof(*order), order_by_start);

    struct sweep sweep = {.order = order, .order_count = count, .open = open, .pieces = pieces};
    sweep_run(&sweep);
    assert(sweep.piece_count <= 2 * count);
    *pieces_out = pieces;
    *count_out = sweep.piece_count;
    return MW_OK;
}
