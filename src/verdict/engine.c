/* verdict/engine.c: run the rules, hold the ledger to its word, order the verdicts.
 *
 * Invariants, asserted: what the top-level verdicts are charged with and what the ledger has left
 * is the total (of class outside only what is in the Rss); `unknown` is there and last; a verdict
 * that is part of another names one that is there and is no larger. */
#include "verdict/build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *mw_class_name(enum mw_class verdict_class)
{
    static const char *const names[] = {
        [MW_CLASS_LEAKED] = "leaked",   [MW_CLASS_GROWING] = "growing", [MW_CLASS_KEPT] = "kept",
        [MW_CLASS_OUTSIDE] = "outside", [MW_CLASS_NEEDED] = "needed",
    };
    assert((size_t)verdict_class < sizeof names / sizeof *names);
    return names[verdict_class];
}

const char *mw_basis_name(enum mw_basis basis)
{
    static const char *const names[] = {
        [MW_BASIS_PROVEN] = "proven",
        [MW_BASIS_LIKELY] = "likely",
        [MW_BASIS_POSSIBLE] = "possible",
    };
    assert((size_t)basis < sizeof names / sizeof *names);
    return names[basis];
}

static bool is_unknown(const struct mw_verdict *verdict)
{
    return strcmp(verdict->id, "unknown") == 0;
}

/* The order of the contract: class, then bytes; minor ones after the others, `unknown` last. A
 * state stands before its causes, and ids decide ties so that two runs agree. */
static int verdict_compare(const void *left, const void *right)
{
    const struct mw_verdict *a = left, *b = right;
    if (is_unknown(a) != is_unknown(b))
        return is_unknown(a) ? 1 : -1;
    if (a->minor != b->minor)
        return a->minor ? 1 : -1;
    if (a->verdict_class != b->verdict_class)
        return a->verdict_class < b->verdict_class ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (!a->part_of != !b->part_of)
        return a->part_of ? 1 : -1;
    return strcmp(a->id, b->id);
}

static void minor_mark(struct mw_scope *scope)
{
    uint64_t total = scope->figures.total_bytes;
    for (size_t i = 0; i < scope->verdicts->count; i++) {
        struct mw_verdict *verdict = &scope->verdicts->items[i];
        verdict->minor = verdict->bytes < MW_MIB && verdict->bytes < total / 50 + (total % 50 > 0);
    }
}

/* A verdict that holds is not ruled out by another one, whatever that one's rule thought. */
static void ruled_out_prune(struct mw_verdicts *verdicts)
{
    for (size_t i = 0; i < verdicts->count; i++) {
        struct mw_verdict *verdict = &verdicts->items[i];
        size_t kept = 0;
        for (size_t j = 0; j < verdict->ruled_out_count; j++) {
            const struct mw_verdict *other = mw_verdict_find(verdicts, verdict->ruled_out[j].id);
            if (other && !other->minor)
                free(verdict->ruled_out[j].why);
            else
                verdict->ruled_out[kept++] = verdict->ruled_out[j];
        }
        verdict->ruled_out_count = kept;
    }
}

void mw_verdicts_order(struct mw_scope *scope)
{
    struct mw_verdicts *verdicts = scope->verdicts;
    minor_mark(scope);
    ruled_out_prune(verdicts);
    if (verdicts->count > 0)
        qsort(verdicts->items, verdicts->count, sizeof *verdicts->items, verdict_compare);
}

static void result_check(const struct mw_scope *scope)
{
    const struct mw_verdicts *verdicts = scope->verdicts;
    uint64_t charged = scope->outside_taken;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        charged = mw_sum(charged, scope->left[category]);
    assert(verdicts->count > 0 && is_unknown(&verdicts->items[verdicts->count - 1]));
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        assert(verdict->summary);
        if (verdict->part_of) {
            const struct mw_verdict *whole = mw_verdict_find(verdicts, verdict->part_of);
            assert(whole && !whole->part_of && verdict->bytes <= whole->bytes);
        } else if (verdict->verdict_class != MW_CLASS_OUTSIDE) {
            charged = mw_sum(charged, verdict->bytes);
        }
    }
    assert(charged == scope->figures.total_bytes);
}

enum mw_status mw_verdicts_evaluate(const struct mw_evidence *evidence,
                                    struct mw_verdicts *verdicts_out, struct mw_error *err)
{
    assert(evidence && verdicts_out);
    struct mw_process nobody; /* rules look at it when there is no image */
    mw_process_init(&nobody);
    struct mw_verdicts verdicts = {0};
    struct mw_scope scope = {
        .evidence = evidence,
        .process = evidence->image ? &evidence->image->process : &nobody,
        .verdicts = &verdicts,
    };
    mw_figures_build(&scope);
    for (const struct mw_rule *rule = mw_rules; rule->name && scope.status == MW_OK; rule++)
        rule->apply(&scope);
    if (scope.status != MW_OK) {
        mw_verdicts_deinit(&verdicts);
        return mw_fail(err, scope.status, "cannot put the verdicts together");
    }
    mw_verdicts_order(&scope);
    result_check(&scope);
    *verdicts_out = verdicts;
    return MW_OK;
}

const struct mw_verdict *mw_verdict_find(const struct mw_verdicts *verdicts, const char *id)
{
    for (size_t i = 0; i < verdicts->count; i++)
        if (strcmp(verdicts->items[i].id, id) == 0)
            return &verdicts->items[i];
    return NULL;
}

static void verdict_deinit(struct mw_verdict *verdict)
{
    free(verdict->summary);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        free(verdict->evidence[i].text);
    free(verdict->evidence);
    for (size_t i = 0; i < verdict->ruled_out_count; i++)
        free(verdict->ruled_out[i].why);
    free(verdict->ruled_out);
    for (size_t i = 0; i < verdict->remedy_count; i++) {
        free(verdict->remedies[i].action);
        free(verdict->remedies[i].basis);
        free(verdict->remedies[i].verify);
    }
    free(verdict->remedies);
}

void mw_verdicts_deinit(struct mw_verdicts *verdicts)
{
    if (!verdicts)
        return;
    for (size_t i = 0; i < verdicts->count; i++)
        verdict_deinit(&verdicts->items[i]);
    free(verdicts->items);
    free(verdicts->peak);
    free(verdicts->was);
    free(verdicts->container);
    for (size_t i = 0; i < verdicts->known_count; i++)
        free(verdicts->known[i]);
    free(verdicts->known);
    *verdicts = (struct mw_verdicts){0};
}
