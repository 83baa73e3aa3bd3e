/* verdict/needed.c: memory that has an owner and that nothing calls wrong, and what is left.
 *
 * A kind of needed memory gets a verdict of its own where it is large enough to be mistaken for a
 * leak; otherwise `healthy` says it in one line. Thresholds are shares of RSS with a floor, chosen
 * so that the libraries of a small program are not a finding. */
#include "verdict/build.h"

#include <stdio.h>
#include <string.h>

static const struct mw_account_row *row_of(const struct mw_scope *scope, enum mw_category category)
{
    return &scope->evidence->account->rows[category];
}

static uint64_t left_of_two(const struct mw_scope *scope, enum mw_category a, enum mw_category b)
{
    return mw_sum(scope->left[a], scope->left[b]);
}

void mw_rule_direct_buffers(struct mw_scope *scope)
{
    for (size_t i = 0; i < scope->evidence->runtime_count; i++) {
        const struct mw_runtime *runtime = &scope->evidence->runtimes[i];
        if (!mw_known(runtime->direct) || !mw_is_worth(scope, runtime->direct, 5, MW_MIB))
            continue;
        uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MALLOC_IN_USE, runtime->direct);
        if (bytes == 0)
            return;
        struct mw_verdict *verdict =
            mw_verdict_add(scope, "direct-buffers", MW_CLASS_NEEDED, MW_BASIS_LIKELY, bytes);
        mw_text_set(scope, &verdict->summary,
                    "%s is in direct buffers of the %s runtime, outside its heap", MW_BYTES(bytes),
                    runtime->kind);
        mw_verdict_figure(scope, verdict, "runtime", runtime->direct,
                          "the runtime's buffer counters say %s", MW_BYTES(runtime->direct));
        mw_verdict_rule_out(scope, verdict, "native-leak",
                            "the runtime knows these buffers and can free them");
        struct mw_remedy *remedy =
            mw_remedy_add(scope, verdict, "limit the pools (-XX:MaxDirectMemorySize)");
        mw_text_set(scope, &remedy->basis, "not predictable: depends on what the pools serve");
        mw_text_set(scope, &remedy->verify, "memwhy verify before.json NEW_PID");
        return; /* one runtime per process has a figure */
    }
}

/* In use in malloc, and in nobody's books. The C heap's free part was charged before this. */
void mw_rule_untracked_native(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    for (size_t i = 0; account && i < scope->evidence->runtime_count; i++) {
        const struct mw_runtime *runtime = &scope->evidence->runtimes[i];
        if (!mw_known(runtime->native_reported) || !mw_known(account->anonymous_bytes) ||
            !scope->figures.has_rss)
            continue;
        uint64_t gap = mw_less(account->anonymous_bytes,
                               mw_sum(runtime->native_reported, mw_kept_bytes(scope)));
        gap = mw_least(gap, scope->left[MW_CATEGORY_MALLOC_IN_USE]);
        if (!mw_is_worth(scope, gap, 10, 16 * MW_MIB))
            continue;
        mw_ledger_take(scope, MW_CATEGORY_MALLOC_IN_USE, gap);
        struct mw_verdict *verdict =
            mw_verdict_add(scope, "untracked-native", MW_CLASS_NEEDED, MW_BASIS_LIKELY, gap);
        mw_text_set(scope, &verdict->summary,
                    "%s is in use in malloc and not in the books of the %s runtime", MW_BYTES(gap),
                    runtime->kind);
        mw_verdict_figure(scope, verdict, "runtime", runtime->native_reported,
                          "the runtime reports %s", MW_BYTES(runtime->native_reported));
        mw_verdict_figure(scope, verdict, "smaps", account->anonymous_bytes,
                          "anonymous memory is %s", MW_BYTES(account->anonymous_bytes));
        mw_verdict_rule_out(scope, verdict, "trimmable-free",
                            "free memory of malloc (%s) is not in this figure",
                            MW_BYTES(mw_kept_free_bytes(scope)));
        return;
    }
}

void mw_rule_managed_live(struct mw_scope *scope)
{
    uint64_t there = scope->left[MW_CATEGORY_MANAGED_HEAP];
    if (!scope->figures.has_rss || !mw_is_worth(scope, there, 5, MW_MIB))
        return;
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_MANAGED_HEAP, there);
    const struct mw_runtime *runtime =
        scope->evidence->runtime_count > 0 ? &scope->evidence->runtimes[0] : NULL;
    uint64_t used = runtime ? runtime->heap_used : MW_UNKNOWN;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "managed-live", MW_CLASS_NEEDED,
                       mw_known(used) ? MW_BASIS_LIKELY : MW_BASIS_POSSIBLE, bytes);
    if (mw_known(used))
        mw_text_set(scope, &verdict->summary,
                    "%s is resident in the managed heap, %s of it used by objects", MW_BYTES(bytes),
                    MW_BYTES(mw_least(used, bytes)));
    else
        mw_text_set(scope, &verdict->summary,
                    "%s is resident in the managed heap; live and dead objects are not told apart "
                    "here",
                    MW_BYTES(bytes));
    mw_verdict_figure(scope, verdict, row_of(scope, MW_CATEGORY_MANAGED_HEAP)->source, bytes,
                      "managed heap%s%s: %s resident", runtime ? " of " : "",
                      runtime ? runtime->kind : "", MW_BYTES(bytes));
    if (runtime && mw_known(runtime->heap_committed))
        mw_verdict_figure(scope, verdict, "runtime", runtime->heap_committed,
                          "the runtime has %s committed", MW_BYTES(runtime->heap_committed));
    uint64_t malloc_bytes = mw_category_measure(scope, MW_CATEGORY_MALLOC_IN_USE);
    mw_verdict_rule_out(scope, verdict, "untracked-native", "%s in use in malloc",
                        MW_BYTES(malloc_bytes));
}

void mw_rule_runtime_native(struct mw_scope *scope)
{
    uint64_t code = scope->left[MW_CATEGORY_MANAGED_CODE];
    uint64_t metadata = scope->left[MW_CATEGORY_MANAGED_METADATA];
    uint64_t bytes = mw_sum(code, metadata);
    if (!scope->figures.has_rss || !mw_is_worth(scope, bytes, 5, MW_MIB))
        return;
    mw_ledger_take(scope, MW_CATEGORY_MANAGED_CODE, code);
    mw_ledger_take(scope, MW_CATEGORY_MANAGED_METADATA, metadata);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "runtime-native", MW_CLASS_NEEDED, MW_BASIS_LIKELY, bytes);
    mw_text_set(scope, &verdict->summary, "%s is the runtime's own: %s of code, %s of metadata",
                MW_BYTES(bytes), MW_BYTES(code), MW_BYTES(metadata));
    mw_verdict_figure(scope, verdict, "smaps", code, "code %s", MW_BYTES(code));
    mw_verdict_figure(scope, verdict, "smaps", metadata, "metadata and bookkeeping %s",
                      MW_BYTES(metadata));
}

/* MW_UNKNOWN for a kernel that does not count huge pages. */
static uint64_t stacks_huge_bytes(const struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    uint64_t sum = 0;
    if (!mw_known(account->anon_huge_bytes))
        return MW_UNKNOWN;
    for (size_t i = 0; i < account->piece_count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->category == MW_CATEGORY_STACK_THREADS && mw_known(piece->anon_huge_bytes))
            sum = mw_sum(sum, piece->anon_huge_bytes);
    }
    return sum;
}

void mw_rule_thread_stacks(struct mw_scope *scope)
{
    uint64_t bytes = left_of_two(scope, MW_CATEGORY_STACK_MAIN, MW_CATEGORY_STACK_THREADS);
    if (!scope->figures.has_rss || !mw_is_worth(scope, bytes, 5, 4 * MW_MIB))
        return;
    mw_ledger_take(scope, MW_CATEGORY_STACK_MAIN, UINT64_MAX);
    mw_ledger_take(scope, MW_CATEGORY_STACK_THREADS, UINT64_MAX);
    uint64_t stacks = mw_sum(row_of(scope, MW_CATEGORY_STACK_THREADS)->count,
                             row_of(scope, MW_CATEGORY_STACK_MAIN)->count);
    bool is_counted = mw_known(scope->process->thread_count);
    uint64_t threads = is_counted ? scope->process->thread_count : stacks;
    uint64_t per_thread = threads > 0 ? bytes / threads : bytes;
    /* Proven where the kernel counts as many threads, and more than a shape told them. */
    const struct mw_image *image = scope->evidence->image;
    bool is_proven = is_counted && threads == stacks && image && image->can & MW_CAN_READ;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "thread-stacks", MW_CLASS_NEEDED,
                       is_proven ? MW_BASIS_PROVEN : MW_BASIS_LIKELY, bytes);
    mw_text_set(scope, &verdict->summary, "%s is resident in the stacks of %s thread%s, %s each",
                MW_BYTES(bytes), MW_COUNT(threads), MW_PLURAL(threads), MW_SIZE(per_thread));
    mw_verdict_figure(scope, verdict, "smaps", bytes, "stacks: %s resident", MW_BYTES(bytes));
    if (is_counted)
        mw_verdict_figure(scope, verdict, "status", threads, "%s thread%s", MW_COUNT(threads),
                          MW_PLURAL(threads));
    mw_verdict_figure(scope, verdict, "smaps", stacks, "%s mapping%s with the shape of a stack",
                      MW_COUNT(stacks), MW_PLURAL(stacks));
    if (mw_known(scope->process->vm_lck) && scope->process->vm_lck > 0)
        mw_verdict_figure(scope, verdict, "status", scope->process->vm_lck,
                          "%s of the process is locked (VmLck): a locked stack is resident to its "
                          "full size",
                          MW_BYTES(scope->process->vm_lck));
    uint64_t huge = stacks_huge_bytes(scope);
    if (scope->bloat_of_stacks > 0)
        mw_verdict_figure(scope, verdict, "memory", scope->bloat_of_stacks,
                          "%s more in huge pages of stacks was never used (thp-stacks)",
                          MW_BYTES(scope->bloat_of_stacks));
    else if (mw_known(huge) && huge > bytes / 2)
        mw_verdict_figure(scope, verdict, "smaps", huge,
                          "%s of it in huge pages: touched or not, 2 MiB at a time",
                          MW_BYTES(huge));
    else if (mw_known(huge))
        mw_verdict_rule_out(scope, verdict, "thp-bloat", "%s of the stacks is in huge pages",
                            MW_BYTES(huge));
    mw_verdict_rule_out(scope, verdict, "arena-proliferation",
                        "stacks are mappings of their own; malloc holds %s free",
                        MW_BYTES(mw_category_measure(scope, MW_CATEGORY_MALLOC_FREE)));
    mw_remedy_stacks(scope, verdict, per_thread);
}

/* Charge `wanted` bytes of the file categories, data files before libraries. */
static uint64_t files_take(struct mw_scope *scope, uint64_t wanted)
{
    static const enum mw_category order[] = {MW_CATEGORY_FILE_MAPPED, MW_CATEGORY_FILE_TEXT,
                                             MW_CATEGORY_FILE_DATA};
    uint64_t taken = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        taken += mw_ledger_take(scope, order[i], wanted - taken);
    return taken;
}

/* The piece of a category with the most resident bytes, NULL when there is none. */
static const char *largest_name(const struct mw_scope *scope, enum mw_category category,
                                uint64_t *bytes_out)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_image *image = scope->evidence->image;
    const char *name = NULL;
    *bytes_out = 0;
    for (size_t i = 0; image && i < account->piece_count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->category != category || !mw_known(piece->rss_bytes) ||
            piece->rss_bytes <= *bytes_out || piece->region >= image->regions.count)
            continue;
        *bytes_out = piece->rss_bytes;
        name = image->regions.items[piece->region].name;
    }
    return name && name[0] ? name : NULL;
}

static void largest_note(struct mw_scope *scope, struct mw_verdict *verdict,
                         enum mw_category category)
{
    uint64_t bytes;
    const char *name = largest_name(scope, category, &bytes);
    if (!name)
        return;
    mw_verdict_figure(scope, verdict, "smaps", bytes, "largest: %s, %s", MW_NAME(name),
                      MW_BYTES(bytes));
    if (scope->status == MW_OK)
        verdict->evidence[verdict->evidence_count - 1].names_file = true;
}

/* Worth a word when data files are mapped, or when clean file pages are much of a large RSS; a
 * small program's libraries are not. */
static bool file_maps_matter(const struct mw_scope *scope, uint64_t clean)
{
    uint64_t mapped = mw_least(scope->left[MW_CATEGORY_FILE_MAPPED], clean);
    return mw_is_worth(scope, mapped, 20, 4 * MW_MIB) || mw_is_worth(scope, clean, 30, 32 * MW_MIB);
}

void mw_rule_file_maps(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    if (!account || !scope->figures.has_rss || !mw_known(account->file_clean_bytes) ||
        !file_maps_matter(scope, account->file_clean_bytes))
        return;
    uint64_t bytes = files_take(scope, account->file_clean_bytes);
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "file-maps", MW_CLASS_NEEDED, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s is clean pages of mapped files: the kernel drops them when memory is short",
                MW_BYTES(bytes));
    uint64_t programs = mw_sum(mw_category_measure(scope, MW_CATEGORY_FILE_TEXT),
                               mw_category_measure(scope, MW_CATEGORY_FILE_DATA));
    mw_verdict_figure(scope, verdict, "smaps", bytes, "clean pages of files: %s", MW_BYTES(bytes));
    mw_verdict_figure(scope, verdict, "smaps", mw_category_measure(scope, MW_CATEGORY_FILE_MAPPED),
                      "resident of files, clean or not: data files %s, programs and libraries %s",
                      MW_BYTES(mw_category_measure(scope, MW_CATEGORY_FILE_MAPPED)),
                      MW_BYTES(programs));
    largest_note(scope, verdict, MW_CATEGORY_FILE_MAPPED);
    mw_verdict_rule_out(scope, verdict, "page-cache",
                        "these pages are mapped, so they are in this process's RSS");
    mw_verdict_rule_out(scope, verdict, "native-leak", "backed by files, not by malloc");
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "none needed");
    mw_text_set(scope, &remedy->basis, "reclaimable: counts in RSS, not against what can be used");
    mw_text_set(scope, &remedy->verify, "memwhy maps %s", MW_PID);
}

void mw_rule_shared_memory(struct mw_scope *scope)
{
    uint64_t bytes = scope->left[MW_CATEGORY_SHARED_MEMORY];
    if (!scope->figures.has_rss || !mw_is_worth(scope, bytes, 5, MW_MIB))
        return;
    mw_ledger_take(scope, MW_CATEGORY_SHARED_MEMORY, bytes);
    const struct mw_account_row *row = row_of(scope, MW_CATEGORY_SHARED_MEMORY);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "shared-memory", MW_CLASS_NEEDED, MW_BASIS_PROVEN, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s is shared memory (shm, memfd, tmpfs or shared anonymous): it stays until the "
                "last user unmaps and unlinks it",
                MW_BYTES(bytes));
    mw_verdict_figure(scope, verdict, "smaps", bytes, "%s resident in %s shared mappings",
                      MW_BYTES(bytes), MW_COUNT(row->count));
    if (mw_known(row->pss_bytes))
        mw_verdict_figure(scope, verdict, "smaps", row->pss_bytes,
                          "%s is this process's share of it (PSS)", MW_BYTES(row->pss_bytes));
    largest_note(scope, verdict, MW_CATEGORY_SHARED_MEMORY);
    mw_verdict_rule_out(scope, verdict, "file-maps",
                        "no file on a disk backs it: it cannot be dropped, only swapped");
    struct mw_remedy *remedy = mw_remedy_add(scope, verdict, "munmap and unlink what is not used");
    mw_text_set(scope, &remedy->basis, "not predictable: which of it is used is not known here");
    mw_text_set(scope, &remedy->verify, "memwhy maps %s", MW_PID);
}

/* One line each for what the remaining memory is, the largest not first but in fixed order. */
static void healthy_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                             const uint64_t taken[MW_CATEGORY_COUNT])
{
    static const struct {
        enum mw_category category;
        const char *text, *source;
    } lines[] = {
        {MW_CATEGORY_MALLOC_IN_USE, "in use in malloc", "heap walk"},
        {MW_CATEGORY_MALLOC_METADATA, "malloc's own metadata", "heap walk"},
        {MW_CATEGORY_MALLOC_FREE, "free in malloc, counted by smaps only", "smaps"},
        {MW_CATEGORY_MANAGED_HEAP, "managed heap", "smaps"},
        {MW_CATEGORY_MANAGED_CODE, "code of the runtime", "smaps"},
        {MW_CATEGORY_MANAGED_METADATA, "metadata of the runtime", "smaps"},
        {MW_CATEGORY_STACK_MAIN, "main stack", "smaps"},
        {MW_CATEGORY_STACK_THREADS, "thread stacks", "smaps"},
        {MW_CATEGORY_FILE_TEXT, "programs and libraries", "smaps"},
        {MW_CATEGORY_FILE_DATA, "data of programs and libraries", "smaps"},
        {MW_CATEGORY_FILE_MAPPED, "mapped files", "smaps"},
        {MW_CATEGORY_SHARED_MEMORY, "shared memory", "smaps"},
        {MW_CATEGORY_DEVICE, "device memory", "smaps"},
        {MW_CATEGORY_ALIAS, "second mappings of pages that are counted elsewhere", "smaps"},
        {MW_CATEGORY_ANON_OTHER, "other anonymous memory with an owner", "smaps"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (taken[lines[i].category] > 0)
            mw_verdict_figure(scope, verdict, lines[i].source, taken[lines[i].category], "%s %s",
                              MW_BYTES(taken[lines[i].category]), lines[i].text);
}

static void healthy_ruled_out(struct mw_scope *scope, struct mw_verdict *verdict)
{
    const struct mw_figures *figures = &scope->figures;
    if (!figures->is_glibc)
        return;
    mw_rule_out_trimmable(scope, verdict);
    mw_verdict_rule_out(scope, verdict, "arena-proliferation", "%s arenas of threads hold %s free",
                        MW_COUNT(figures->other.count), MW_BYTES(figures->other.free_bytes));
    mw_verdict_rule_out(scope, verdict, "fragmentation", "%s in holes smaller than a page",
                        MW_BYTES(figures->parts.holes));
}

/* "Healthy" is a statement about the process: not beside a tenth that is kept or may be leaked,
 * nor when a quarter has no owner or was not looked into. */
static bool healthy_holds(const struct mw_scope *scope)
{
    uint64_t suspect = mw_sum(mw_kept_bytes(scope), scope->leak ? scope->leak->bytes : 0);
    suspect = mw_sum(suspect, scope->mapping_leak ? scope->mapping_leak->bytes : 0);
    uint64_t dark = mw_sum(mw_category_measure(scope, MW_CATEGORY_MALLOC_UNSPLIT),
                           scope->left[MW_CATEGORY_UNKNOWN]);
    return !mw_is_worth(scope, suspect, 10, 1) && !mw_is_worth(scope, dark, 25, MW_MIB);
}

void mw_rule_healthy(struct mw_scope *scope)
{
    if (!healthy_holds(scope))
        return;
    uint64_t taken[MW_CATEGORY_COUNT] = {0}, bytes = 0;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++) {
        if (category == MW_CATEGORY_UNKNOWN || category == MW_CATEGORY_MALLOC_UNSPLIT)
            continue;
        taken[category] = mw_ledger_take(scope, (enum mw_category)category, UINT64_MAX);
        bytes = mw_sum(bytes, taken[category]);
    }
    if (bytes == 0)
        return;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "healthy", MW_CLASS_NEEDED, MW_BASIS_LIKELY, bytes);
    scope->healthy = verdict;
    char in_malloc[96] = "";
    if (scope->evidence->heap_was_read && taken[MW_CATEGORY_MALLOC_IN_USE] > 0)
        snprintf(in_malloc, sizeof in_malloc, " (%s of it in malloc)",
                 MW_BYTES(taken[MW_CATEGORY_MALLOC_IN_USE]));
    mw_text_set(scope, &verdict->summary,
                "%s is in use%s, and nothing in one look calls it wrong; only a second look can "
                "tell growth",
                MW_BYTES(bytes), in_malloc);
    healthy_evidence(scope, verdict, taken);
    mw_candidate_note(scope, verdict);
    healthy_ruled_out(scope, verdict);
}

/* An allocator that was recognised and whose inside was not read, NULL when there is none. */
static const struct mw_allocator *unsplit_allocator(const struct mw_scope *scope)
{
    const struct mw_evidence *evidence = scope->evidence;
    for (size_t i = 0; i < evidence->allocator_count; i++)
        if (evidence->allocators[i].kind && !evidence->allocators[i].walked)
            return &evidence->allocators[i];
    return NULL;
}

/* What kept the heap from being read; NULL when nothing did. */
static const struct mw_error *unread_reason(const struct mw_scope *scope)
{
    const struct mw_evidence *evidence = scope->evidence;
    if (evidence->why_unread)
        return evidence->why_unread;
    return evidence->image && evidence->image->cannot_read.text[0] ? &evidence->image->cannot_read
                                                                   : NULL;
}

/* Memory of malloc whose inside nobody looked into: it has an owner, so it is not in the bytes of
 * `unknown`, and nothing can be said for or against it. */
static void unsplit_note(struct mw_scope *scope, struct mw_verdict *verdict, uint64_t unsplit)
{
    const struct mw_image *image = scope->evidence->image;
    const struct mw_allocator *allocator = unsplit_allocator(scope);
    const struct mw_error *why = scope->evidence->heap_was_read ? NULL : unread_reason(scope);
    bool is_live = image && image->kind == MW_IMAGE_LIVE;
    if (why)
        mw_verdict_figure(scope, verdict, "smaps", unsplit,
                          "%s belongs to malloc, and its inside was not read: %s; to settle it: "
                          "%s",
                          MW_BYTES(unsplit), why->text,
                          why->hint[0] ? why->hint : "the right to read the process's memory");
    else if (allocator)
        mw_verdict_figure(scope, verdict, "smaps", unsplit,
                          "%s belongs to %s, which this version recognises and does not walk; to "
                          "settle it: the allocator's own statistics",
                          MW_BYTES(unsplit), allocator->kind);
    else
        mw_verdict_figure(scope, verdict, "smaps", unsplit,
                          "%s belongs to malloc, and its inside was not read; to settle it: %s",
                          MW_BYTES(unsplit),
                          is_live ? "a look into its heap (without --no-heap)"
                                  : "a source with memory (a live process or a core)");
}

/* What of malloc.unsplit nobody looked into, whatever else is known of its pages. Where all
 * allocators were walked, a little of it is what lies in the brk area and is not theirs, like the
 * first thread's block of a static program.
 */
static uint64_t unread_bytes(const struct mw_scope *scope)
{
    uint64_t unsplit = mw_category_measure(scope, MW_CATEGORY_MALLOC_UNSPLIT);
    bool all_walked = scope->evidence->heap_was_read && !unsplit_allocator(scope);
    return all_walked && unsplit < MW_MIB ? 0 : unsplit;
}

void mw_rule_unknown(struct mw_scope *scope)
{
    uint64_t bytes = mw_ledger_take(scope, MW_CATEGORY_UNKNOWN, UINT64_MAX);
    uint64_t unsplit = unread_bytes(scope);
    const struct mw_account *account = scope->evidence->account;
    const struct mw_image *image = scope->evidence->image;
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "unknown", MW_CLASS_NEEDED, MW_BASIS_PROVEN, bytes);
    uint64_t mappings = account ? account->unknown_mappings : 0;
    if (!account)
        mw_text_set(scope, &verdict->summary, "nothing is known of this target's memory");
    else if (unsplit > 0 && bytes > 0)
        mw_text_set(scope, &verdict->summary,
                    "%s in %s mapping%s has no owner; beside it the inside of malloc, %s, was not "
                    "looked into: what of it is in use, free or leaked is not known",
                    MW_BYTES(bytes), MW_COUNT(mappings), MW_PLURAL(mappings), MW_BYTES(unsplit));
    else if (unsplit > 0)
        mw_text_set(scope, &verdict->summary,
                    "everything has an owner, but the inside of malloc, %s, was not looked into: "
                    "what of it is in use, free or leaked is not known",
                    MW_BYTES(unsplit));
    else if (bytes > 0)
        mw_text_set(scope, &verdict->summary, "%s in %s mapping%s stays unexplained",
                    MW_BYTES(bytes), MW_COUNT(mappings), MW_PLURAL(mappings));
    else
        mw_text_set(scope, &verdict->summary, "nothing stays unexplained");
    if (unsplit > 0)
        unsplit_note(scope, verdict, unsplit);
    if (bytes > 0)
        mw_verdict_figure(scope, verdict, "smaps", bytes, "to settle it: memwhy maps %s --unknown",
                          image && image->kind != MW_IMAGE_LIVE ? "TARGET" : MW_PID);
}
