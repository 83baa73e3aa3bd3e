/* verdict/kept.c: free memory that stays resident: the states of malloc's inside.
 *
 * Each state is charged with its part of the free memory (figures.c divides it), never with more
 * than the account has left of the category malloc.free. Where fragmentation does not hold, the
 * holes and the tops that malloc_trim leaves stand with trimmable-free: the program freed them all
 * the same, and a second verdict over a rest would only distract. */
#include "verdict/build.h"

#include <stdio.h>
#include <string.h>

/* Counted and reconciled, and residency known page by page; otherwise of one kind. */
static enum mw_basis kept_basis(const struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    return figures->is_resident && figures->is_exact ? MW_BASIS_PROVEN : MW_BASIS_LIKELY;
}

static const char *kept_words(const struct mw_scope *scope)
{
    return scope->figures.is_resident
               ? "still resident"
               : "by size: which of its pages are resident is not known here";
}

/* Why the sums may differ. Arenas that changed between two stops are no damage. */
static struct mw_phrase why_unequal(const struct mw_scope *scope)
{
    struct mw_phrase phrase = {": see the notes below"};
    const struct mw_evidence *evidence = scope->evidence;
    const struct mw_image *image = evidence->image;
    uint64_t moved = 0;
    for (size_t i = 0; i < evidence->allocator_count; i++)
        if (mw_allocator_is_glibc(&evidence->allocators[i]))
            moved = mw_sum(moved, evidence->allocators[i].moved_count);
    if (moved > 0 && image)
        snprintf(phrase.text, sizeof phrase.text,
                 ": read under %s stops, %s arena%s changed meanwhile",
                 MW_COUNT(image->pauses.count), MW_COUNT(moved), MW_PLURAL(moved));
    return phrase;
}

/* The basis in words, so that nobody has to guess what "likely" hides. */
static void reconciled_note(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    uint64_t arenas = mw_sum(figures->main.count, figures->other.count);
    if (figures->is_sampled)
        mw_verdict_figure(scope, verdict, "heap walk", figures->other.read_count,
                          "%s of %s thread arenas walked%s; the rest is estimated, ± %s",
                          MW_COUNT(figures->other.read_count), MW_COUNT(figures->other.count),
                          figures->is_sound ? "" : ", sums do not equal glibc's own counters",
                          MW_BYTES(figures->margin_bytes));
    else if (figures->is_exact)
        mw_verdict_figure(scope, verdict, "heap walk", arenas,
                          "%s arena%s walked, sums equal glibc's own counters", MW_COUNT(arenas),
                          MW_PLURAL(arenas));
    else
        mw_verdict_figure(scope, verdict, "heap walk", arenas,
                          "%s arena%s walked, sums do not equal glibc's own counters%s",
                          MW_COUNT(arenas), MW_PLURAL(arenas), why_unequal(scope).text);
    if (!figures->is_resident)
        mw_verdict_note(scope, verdict, "pagemap",
                        "residency is not known: figures are sizes of blocks");
}

/* "limit 768 = 8 x 96 CPUs" where that is how it came about. */
static struct mw_phrase arena_limit(const struct mw_scope *scope)
{
    struct mw_phrase phrase = {"limit unknown"};
    uint64_t limit = scope->figures.glibc->arena_limit;
    uint64_t cpus[] = {scope->process->cpus_online, scope->process->cpus_allowed};
    if (limit == 0 || !mw_known(limit))
        return phrase;
    snprintf(phrase.text, sizeof phrase.text, "limit %s", MW_COUNT(limit));
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        if (!mw_known(cpus[i]) || cpus[i] == 0 || limit != 8 * cpus[i])
            continue;
        snprintf(phrase.text, sizeof phrase.text, "limit %s = 8 x %s CPUs", MW_COUNT(limit),
                 MW_COUNT(cpus[i]));
        break;
    }
    return phrase;
}

static void arena_origin_notes(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_process *process = scope->process;
    const struct mw_cgroup *cgroup = scope->evidence->cgroup;
    if (mw_known(process->thread_count))
        mw_verdict_figure(scope, verdict, "status", process->thread_count,
                          "%s threads now; a thread that meets a busy arena makes a new one, and "
                          "arenas are never given back",
                          MW_COUNT(process->thread_count));
    mw_settings_note_arena_max(scope, verdict);
    if (!cgroup || cgroup->version == 0)
        return;
    if (cgroup->cpu_quota > 0)
        mw_verdict_note(scope, verdict, "cgroup",
                        "CPU quota of %.1f: no version of glibc reads it, the limit comes from "
                        "the machine's CPUs",
                        cgroup->cpu_quota);
    else
        mw_verdict_note(scope, verdict, "cgroup", "no CPU quota");
}

static void arenas_evidence(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_arena_sums *other = &scope->figures.other, *main = &scope->figures.main;
    uint64_t arenas = mw_sum(other->count, main->count);
    uint64_t held = mw_sum(other->free_size, other->in_use_size);
    reconciled_note(scope, verdict);
    arena_origin_notes(scope, verdict);
    mw_verdict_figure(scope, verdict, "heap walk", other->top_bytes,
                      "%s is at the tops of thread arenas: malloc_trim leaves it",
                      MW_BYTES(other->top_bytes));
    mw_verdict_figure(scope, verdict, "heap walk", arenas, "%s arenas, %s", MW_COUNT(arenas),
                      arena_limit(scope).text);
    mw_verdict_figure(scope, verdict, "heap walk", held,
                      "%s in the arenas of threads, %u%% of it free", MW_BYTES(held),
                      mw_percent(other->free_size, held));
    mw_verdict_figure(scope, verdict, "heap walk", other->mostly_free_count,
                      "%s of %s thread arenas are half free or more",
                      MW_COUNT(other->mostly_free_count), MW_COUNT(other->count));
    mw_verdict_figure(scope, verdict, "heap walk", main->free_bytes, "the main arena holds %s free",
                      MW_BYTES(main->free_bytes));
    if (other->idle_count > 0)
        mw_verdict_figure(scope, verdict, "heap walk", other->idle_count,
                          "%s arenas have no thread: idle until a new thread takes one",
                          MW_COUNT(other->idle_count));
}

/* What is said against the other explanations of the same bytes. */
static void leak_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    mw_verdict_rule_out(scope, verdict, "native-leak",
                        "these bytes are free inside malloc; in use are %s",
                        MW_BYTES(scope->figures.in_use_bytes));
}

void mw_rule_out_trimmable(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    uint64_t kept = mw_kept_free_bytes(scope);
    if (figures->is_resident)
        mw_verdict_rule_out(scope, verdict, "trimmable-free",
                            "malloc keeps %s free (%u%%), malloc_trim would release %s",
                            MW_BYTES(kept), mw_percent(kept, figures->total_bytes),
                            MW_BYTES(figures->trimmable_bytes));
    else
        mw_verdict_rule_out(scope, verdict, "trimmable-free",
                            "%s free in malloc (%u%%), resident or not", MW_BYTES(kept),
                            mw_percent(kept, figures->total_bytes));
}

static void stacks_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    uint64_t stacks = mw_category_measure(scope, MW_CATEGORY_STACK_THREADS);
    if (scope->figures.has_rss && stacks < verdict->bytes)
        mw_verdict_rule_out(scope, verdict, "thread-stacks", "%s resident", MW_BYTES(stacks));
}

static void direct_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    for (size_t i = 0; i < scope->evidence->runtime_count; i++) {
        const struct mw_runtime *runtime = &scope->evidence->runtimes[i];
        if (mw_known(runtime->direct) && runtime->direct < verdict->bytes)
            mw_verdict_rule_out(scope, verdict, "direct-buffers", "%s by the runtime's counters",
                                MW_BYTES(runtime->direct));
    }
}

void mw_rule_arena_proliferation(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    if (!figures->arenas_hold)
        return;
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_FREE, figures->other.free_bytes);
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "arena-proliferation", MW_CLASS_KEPT, kept_basis(scope), bytes);
    scope->arenas = verdict;
    uint64_t held = mw_sum(figures->other.free_size, figures->other.in_use_size);
    mw_text_set(scope, &verdict->summary,
                "%s glibc arenas (%s) hold %s, %u%% of it free: %s is free and %s",
                MW_COUNT(mw_sum(figures->other.count, figures->main.count)),
                arena_limit(scope).text, MW_BYTES(held), mw_percent(figures->other.free_size, held),
                MW_BYTES(bytes), kept_words(scope));
    arenas_evidence(scope, verdict);
    leak_ruled_out(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "heap-top-pinned", "the main arena holds only %s free",
                        MW_BYTES(figures->main.free_bytes));
    mw_verdict_rule_out(scope, verdict, "trimmable-free", "%s outside the arenas of threads",
                        MW_BYTES(figures->parts.trimmable));
    stacks_ruled_out(scope, verdict);
    direct_ruled_out(scope, verdict);
    if (mw_known_streams(scope))
        mw_remedy_stream(scope, verdict);
    mw_remedy_arena_cap(scope, verdict);
    if (figures->other.trimmable_bytes >= figures->main.trimmable_bytes)
        mw_remedy_trim(scope, verdict);
    mw_remedy_other_allocator(scope, verdict);
}

static struct mw_phrase arenas_at_most(const struct mw_scope *scope)
{
    struct mw_phrase phrase = {""};
    uint64_t limit = scope->figures.glibc->arena_limit;
    if (limit != 0 && mw_known(limit))
        snprintf(phrase.text, sizeof phrase.text, " of at most %s", MW_COUNT(limit));
    return phrase;
}

/* Which part of its deciding evidence is missing. */
static void arenas_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_arena_sums *other = &scope->figures.other, *main = &scope->figures.main;
    uint64_t arenas = mw_sum(other->count, main->count);
    bool is_crowd = other->count >= 8 && other->free_bytes > main->free_bytes;
    if (is_crowd && other->mostly_free_count <= other->count / 2)
        mw_verdict_rule_out(scope, verdict, "arena-proliferation",
                            "only %s of %s thread arenas are half free; their tops hold %s",
                            MW_COUNT(other->mostly_free_count), MW_COUNT(other->count),
                            MW_BYTES(other->top_bytes));
    else if (is_crowd)
        mw_verdict_rule_out(scope, verdict, "arena-proliferation",
                            "only %s of %s thread arenas hold a fair part of what all hold free; "
                            "the fullest holds %s",
                            MW_COUNT(other->holding_count), MW_COUNT(other->count),
                            MW_BYTES(other->free_bytes_max));
    else
        mw_verdict_rule_out(scope, verdict, "arena-proliferation",
                            "%s arena%s%s; those of threads hold %s free, their tops %s",
                            MW_COUNT(arenas), MW_PLURAL(arenas), arenas_at_most(scope).text,
                            MW_BYTES(other->free_bytes), MW_BYTES(other->top_bytes));
}

static void trimmable_evidence(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_free_parts *parts = &scope->figures.parts;
    reconciled_note(scope, verdict);
    mw_verdict_figure(
        scope, verdict, "heap walk", parts->trimmable, "%s in whole %spages inside free chunks%s",
        MW_BYTES(parts->trimmable), scope->figures.is_resident ? "resident " : "",
        scope->figures.is_resident ? ": malloc_trim(0) would release them" : ", at least");
    mw_verdict_figure(scope, verdict, "heap walk", scope->figures.in_use_bytes,
                      "%s in use in %s blocks", MW_BYTES(scope->figures.in_use_bytes),
                      MW_COUNT(scope->figures.in_use_count));
    if (scope->figures.fragmentation_holds)
        return;
    if (parts->holes > verdict->bytes / 100)
        mw_verdict_figure(scope, verdict, "heap walk", parts->holes,
                          "%s of it in holes smaller than a page", MW_BYTES(parts->holes));
    if (parts->tops > verdict->bytes / 100)
        mw_verdict_figure(scope, verdict, "heap walk", parts->tops,
                          "%s of it in tops that malloc_trim leaves", MW_BYTES(parts->tops));
}

void mw_rule_trimmable_free(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    const struct mw_free_parts *parts = &figures->parts;
    uint64_t wanted = parts->trimmable;
    if (wanted > 0 && !figures->fragmentation_holds)
        wanted = mw_sum(wanted, mw_sum(parts->holes, parts->tops));
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_FREE, wanted);
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "trimmable-free", MW_CLASS_KEPT, kept_basis(scope), bytes);
    scope->trimmable = verdict;
    if (figures->is_resident)
        mw_text_set(scope, &verdict->summary,
                    "%s was freed by the program and is still resident, not leaked; "
                    "malloc_trim(0) would give back %s",
                    MW_BYTES(bytes), MW_BYTES(mw_least(parts->trimmable, bytes)));
    else
        mw_text_set(scope, &verdict->summary, "%s was freed by the program and is not leaked (%s)",
                    MW_BYTES(bytes), kept_words(scope));
    trimmable_evidence(scope, verdict);
    leak_ruled_out(scope, verdict);
    if (!figures->fragmentation_holds)
        mw_verdict_rule_out(scope, verdict, "fragmentation", "%s of holes smaller than a page",
                            MW_BYTES(parts->holes));
    if (!figures->arenas_hold)
        arenas_ruled_out(scope, verdict);
    mw_remedy_stream(scope, verdict);
    if (!figures->arenas_hold || figures->main.trimmable_bytes > figures->other.trimmable_bytes)
        mw_remedy_trim(scope, verdict);
    mw_remedy_pin_threshold(scope, verdict);
    if (!figures->arenas_hold)
        mw_remedy_arena_cap(scope, verdict);
}

/* Why it cannot be given back: holes, tops, or both. */
static void fragmentation_summary(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_free_parts *parts = &scope->figures.parts;
    const char *rest = scope->figures.is_resident ? "" : " (sizes: residency is not known here)";
    if (parts->tops <= verdict->bytes / 100)
        mw_text_set(scope, &verdict->summary,
                    "%s is free in holes smaller than a page between live blocks: malloc_trim "
                    "cannot give it back%s",
                    MW_BYTES(verdict->bytes), rest);
    else
        mw_text_set(scope, &verdict->summary,
                    "%s is free where malloc_trim cannot give it back: %s in holes smaller than a "
                    "page between live blocks, %s in tops of arenas%s",
                    MW_BYTES(verdict->bytes), MW_BYTES(parts->holes), MW_BYTES(parts->tops), rest);
}

void mw_rule_fragmentation(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    const struct mw_free_parts *parts = &figures->parts;
    if (!figures->fragmentation_holds)
        return;
    uint64_t bytes =
        mw_ledger_take(scope, MW_CATEGORY_MALLOC_FREE, mw_sum(parts->holes, parts->tops));
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "fragmentation", MW_CLASS_KEPT, kept_basis(scope), bytes);
    scope->fragmentation = verdict;
    fragmentation_summary(scope, verdict);
    reconciled_note(scope, verdict);
    uint64_t inside = mw_sum(parts->trimmable_inside, parts->holes);
    mw_verdict_figure(scope, verdict, "heap walk", parts->trimmable_inside,
                      "of %s free outside tops and tcache, %s %s (%u%%)", MW_BYTES(inside),
                      figures->is_resident ? "malloc_trim would release" : "whole pages hold",
                      MW_BYTES(parts->trimmable_inside),
                      mw_percent(parts->trimmable_inside, inside));
    mw_verdict_figure(scope, verdict, "heap walk", figures->in_use_count,
                      "%s live blocks (%s) lie between the holes", MW_COUNT(figures->in_use_count),
                      MW_BYTES(figures->in_use_bytes));
    leak_ruled_out(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "trimmable-free", "%s %s in all",
                        figures->is_resident ? "malloc_trim would release"
                                             : "whole pages of free chunks hold",
                        MW_BYTES(parts->trimmable));
    if (!figures->arenas_hold)
        arenas_ruled_out(scope, verdict);
    struct mw_remedy *remedy = mw_remedy_add(
        scope, verdict, "keep long-lived and short-lived blocks apart (pools, separate processes)");
    mw_text_set(scope, &remedy->basis, "not predictable: depends on which blocks live long");
    mw_text_set(scope, &remedy->verify, "memwhy heap %s", MW_PID);
    mw_remedy_other_allocator(scope, verdict);
    if (parts->tops > parts->holes)
        mw_remedy_arena_cap(scope, verdict);
}

/* musl has neither a cache nor a setting: free slots wait in groups that hold live blocks, and a
 * few whole groups of sizes that came and went often. */
static void slots_kept(struct mw_scope *scope, uint64_t bytes)
{
    const struct mw_figures *figures = &scope->figures;
    const struct mw_allocator *musl = figures->walked;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "allocator-cache", MW_CLASS_KEPT, kept_basis(scope), bytes);
    scope->cache = verdict;
    mw_text_set(scope, &verdict->summary,
                "%s was freed by the program and is kept in musl's groups of slots, %s: musl gives "
                "a group back when the last of its blocks is freed",
                MW_BYTES(bytes), kept_words(scope));
    mw_verdict_figure(scope, verdict, "heap walk", musl->free_count,
                      "%s free slots beside %s blocks in use, sums %s musl's own counters",
                      MW_COUNT(musl->free_count), MW_COUNT(musl->in_use_count),
                      figures->is_exact ? "equal" : "do not equal");
    mw_verdict_rule_out(scope, verdict, "trimmable-free", "musl has no malloc_trim");
    leak_ruled_out(scope, verdict);
    mw_remedy_slots(scope, verdict);
}

void mw_rule_allocator_cache(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    uint64_t wanted = mw_sum(figures->parts.cached, figures->foreign_free_bytes);
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_FREE, wanted);
    if (bytes == 0)
        return;
    if (!figures->is_glibc && figures->walked && strcmp(figures->walked->kind, "musl") == 0) {
        slots_kept(scope, bytes);
        return;
    }
    /* Cached blocks were just written to; that each page is resident is not counted, though. */
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "allocator-cache", MW_CLASS_KEPT, MW_BASIS_LIKELY, bytes);
    scope->cache = verdict;
    if (figures->foreign_free_bytes > figures->parts.cached) {
        mw_text_set(scope, &verdict->summary,
                    "%s is kept free by the allocator for the next allocations", MW_BYTES(bytes));
        mw_remedy_release_settings(scope, verdict);
    } else {
        mw_text_set(scope, &verdict->summary,
                    "%s of freed blocks waits in the tcaches of threads: small blocks kept for "
                    "the thread that freed them",
                    MW_BYTES(bytes));
        mw_remedy_tcache(scope, verdict);
    }
    mw_verdict_figure(scope, verdict, "heap walk", wanted, "%s cached, by size", MW_BYTES(wanted));
    mw_verdict_rule_out(scope, verdict, "fragmentation",
                        "cached blocks are reused as they are; holes hold %s",
                        MW_BYTES(figures->parts.holes));
    leak_ruled_out(scope, verdict);
}

/* What the account has of malloc.free beyond what the walk counted: the target ran on between two
 * readings. It stands with the largest state; with none, `healthy` takes it. */
void mw_rule_kept_remainder(struct mw_scope *scope)
{
    struct mw_verdict *largest = mw_kept_largest(scope);
    if (!largest || scope->left[MW_CATEGORY_MALLOC_FREE] == 0)
        return;
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_FREE, UINT64_MAX);
    largest->bytes = mw_sum(largest->bytes, bytes);
    if (bytes >= MW_MIB)
        mw_verdict_figure(scope, largest, "smaps", bytes,
                          "%s more than the walk counted: the target ran on between the readings",
                          MW_BYTES(bytes));
}
