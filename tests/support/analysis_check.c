/* tests/support/analysis_check.c: see analysis_check.h. The outputs are parsed with jansson, which
 * the program uses too: what must be one JSON text is read by somebody else's rules. */
#include "analysis_check.h"

#include "report/emit.h"
#include "report/trim_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why_text[640];

#define WRONG(...) (snprintf(why_text, sizeof why_text, __VA_ARGS__), why_text)

const char *analysis_kind_name(enum analysis_kind kind)
{
    static const char *const names[] = {"report", "heap", "pins", "trim", "maps", "no-heap"};
    return names[kind];
}

/* -- asking ---------------------------------------------------------------------------------- */

static void walk_restart(void *user)
{
    heap_walked_forget(user);
}

static struct mw_analysis_options options_of(struct analysis_run *run,
                                             struct mw_heap_visitor *visitor)
{
    struct mw_analysis_options options = {
        .skip_heap = run->kind == ANALYSIS_NO_HEAP,
        .skip_verdicts = run->kind != ANALYSIS_REPORT && run->kind != ANALYSIS_NO_HEAP,
        .heap_is_asked = run->kind == ANALYSIS_HEAP || run->kind == ANALYSIS_PINS,
    };
    if (run->kind == ANALYSIS_REPORT && !run->skips_reach)
        options.reach = MW_REACH_IF_EXACT;
    options.heap.classify_content = options.heap_is_asked || run->kind == ANALYSIS_REPORT;
    *visitor = heap_walked_visitor(&run->walked);
    visitor->restart = walk_restart;
    run->walked.counts_only = true;
    options.heap.visitors = visitor;
    options.heap.visitor_count = 1;
    if (run->kind == ANALYSIS_TRIM)
        mw_trim_ranges_collect(&run->ranges, &options.heap);
    return options;
}

static void finish(struct analysis_run *run)
{
    if (run->status != MW_OK)
        return;
    mw_trim_predict(&run->analysis, &run->trim);
    mw_trim_ranges_sort(&run->ranges);
}

void analysis_run_target(struct analysis_run *run, const char *target)
{
    struct mw_heap_visitor visitor;
    struct mw_analysis_options options = options_of(run, &visitor);
    struct mw_context context;
    mw_context_init(&context);
    context.workers = run->workers ? run->workers : context.workers;
    run->status = mw_analysis_run(target, &options, &context, &run->analysis, &run->err);
    finish(run);
}

void analysis_run_image(struct analysis_run *run, struct mw_image *image)
{
    struct mw_heap_visitor visitor;
    struct mw_analysis_options options = options_of(run, &visitor);
    struct mw_context context;
    mw_context_init(&context);
    context.workers = run->workers ? run->workers : context.workers;
    run->status = mw_analysis_run_image(image, &options, &context, &run->analysis, &run->err);
    finish(run);
}

void analysis_run_deinit(struct analysis_run *run)
{
    if (run->status == MW_OK)
        mw_analysis_deinit(&run->analysis);
    heap_walked_deinit(&run->walked);
    mw_trim_ranges_deinit(&run->ranges);
    *run = (struct analysis_run){.kind = run->kind};
}

/* -- the account ----------------------------------------------------------------------------- */

/* Each block in use is reachable or lost, direct or not, and in one group. */
static const char *reach_wrong(const struct mw_analysis *analysis)
{
    const struct mw_reach *reach = &analysis->reach;
    uint64_t count = 0, bytes = 0, direct = 0;
    if (!reach->is_done)
        return NULL;
    for (size_t i = 0; i < analysis->lost.groups.groups.count; i++) {
        count += analysis->lost.groups.groups.items[i].count;
        bytes += analysis->lost.groups.groups.items[i].bytes;
        direct += analysis->lost.groups.groups.items[i].direct_count;
    }
    if (reach->reachable_count + reach->unreachable_count != reach->index->used_count)
        return WRONG("not each block in use is reachable or not");
    if (reach->direct_count + reach->indirect_count != reach->unreachable_count)
        return WRONG("not each lost block is direct or indirect");
    if (reach->unreachable_count > 0 && reach->direct_count == 0)
        return WRONG("lost blocks that nothing leads to but themselves");
    if (count != reach->unreachable_count || bytes != reach->unreachable_bytes ||
        direct != reach->direct_count)
        return WRONG("groups do not add up: %llu of %llu lost blocks", (unsigned long long)count,
                     (unsigned long long)reach->unreachable_count);
    return NULL;
}

static const char *regions_wrong(const struct mw_image *image)
{
    mw_addr last = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (map->start < last || map->start >= map->end)
            return WRONG("regions overlap at %llx", (unsigned long long)map->start);
        last = map->end;
    }
    return NULL;
}

static uint64_t regions_sum(const struct mw_image *image, enum mw_counter counter)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < image->regions.count; i++)
        sum += mw_mapping_counter(&image->regions.items[i], counter);
    return sum;
}

static const char *rows_wrong(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    uint64_t rss = 0, pss = 0, swap = 0, size = 0, mapped = 0;
    for (size_t i = 0; i < MW_CATEGORY_COUNT; i++) {
        rss += account->has_rss ? account->rows[i].rss_bytes : 0;
        pss += account->has_pss ? account->rows[i].pss_bytes : 0;
        swap += account->has_swap ? account->rows[i].swap_bytes : 0;
        size += account->rows[i].size_bytes;
    }
    for (size_t i = 0; i < analysis->image.regions.count; i++)
        mapped += mw_mapping_size(&analysis->image.regions.items[i]);
    if (account->has_rss && rss != account->rss_bytes)
        return WRONG("the rows have %llu resident, the total is %llu", (unsigned long long)rss,
                     (unsigned long long)account->rss_bytes);
    if (account->has_rss && rss != regions_sum(&analysis->image, MW_COUNTER_RSS) &&
        analysis->image.can & MW_CAN_COUNTERS)
        return WRONG("the account's total is not the kernel's");
    if (account->has_pss && pss != account->pss_bytes)
        return WRONG("the rows do not add up to pss");
    if (account->has_swap && swap != account->swap_bytes)
        return WRONG("the rows do not add up to swap");
    if (size != account->size_bytes || size != mapped)
        return WRONG("the rows have %llu mapped, the total is %llu, the regions %llu",
                     (unsigned long long)size, (unsigned long long)account->size_bytes,
                     (unsigned long long)mapped);
    return NULL;
}

static const char *pieces_wrong(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    uint64_t rss = 0;
    mw_addr last = 0;
    for (size_t i = 0; i < account->piece_count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->start < last || piece->start >= piece->end)
            return WRONG("pieces overlap at %llx", (unsigned long long)piece->start);
        if (piece->region >= analysis->image.regions.count ||
            piece->start < analysis->image.regions.items[piece->region].start ||
            piece->end > analysis->image.regions.items[piece->region].end)
            return WRONG("a piece is outside its region: %llx", (unsigned long long)piece->start);
        rss += account->has_rss ? piece->rss_bytes : 0;
        last = piece->end;
    }
    if (account->has_rss && rss != account->rss_bytes)
        return WRONG("the pieces have %llu resident, the total is %llu", (unsigned long long)rss,
                     (unsigned long long)account->rss_bytes);
    return NULL;
}

/* -- the heap -------------------------------------------------------------------------------- */

static const char *trim_wrong(const struct analysis_run *run, const struct mw_allocator *allocator)
{
    mw_addr last = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < run->ranges.count; i++) {
        const struct mw_trim_range *range = &run->ranges.items[i];
        if (range->start < last || range->start >= range->end)
            return WRONG("ranges to be released overlap at %llx", (unsigned long long)range->start);
        sum += range->end - range->start;
        last = range->end;
    }
    if (run->kind == ANALYSIS_TRIM && run->ranges.status == MW_OK &&
        allocator->trimmable_bytes != MW_UNKNOWN && sum != allocator->trimmable_bytes &&
        !mw_finding_find(&run->analysis.findings, "pages-unknown"))
        return WRONG("ranges to be released have %llu, the prediction is %llu",
                     (unsigned long long)sum, (unsigned long long)allocator->trimmable_bytes);
    return NULL;
}

static const char *heap_wrong(struct analysis_run *run)
{
    const struct mw_allocator *walked = NULL;
    for (size_t i = 0; i < run->analysis.allocator_count; i++)
        if (run->analysis.allocators[i].walked) {
            if (walked)
                return NULL; /* one visitor saw both: not told apart here */
            walked = &run->analysis.allocators[i];
        }
    if (!walked)
        return NULL;
    struct heap_walked view = run->walked; /* borrows both lists */
    view.status = MW_OK;
    view.allocator = *walked;
    view.findings = run->analysis.findings;
    unsigned can = run->analysis.image.can;
    if (run->analysis.image.kind == MW_IMAGE_LIVE) /* it has moved on, or is gone */
        run->analysis.image.can &= ~(unsigned)MW_CAN_PAGES;
    const char *wrong = heap_meaning_wrong(&run->analysis.image, &view);
    run->analysis.image.can = can;
    return wrong ? wrong : trim_wrong(run, walked);
}

/* -- verdicts -------------------------------------------------------------------------------- */

static int rank_of(const struct mw_verdict *verdict)
{
    return strcmp(verdict->id, "unknown") == 0 ? 2 : verdict->minor;
}

static bool is_out_of_order(const struct mw_verdict *a, const struct mw_verdict *b)
{
    if (rank_of(a) != rank_of(b))
        return rank_of(a) > rank_of(b);
    if (a->verdict_class != b->verdict_class)
        return a->verdict_class > b->verdict_class;
    return a->bytes < b->bytes;
}

static const char *verdicts_wrong(const struct mw_analysis *analysis)
{
    const struct mw_verdicts *verdicts = &analysis->verdicts;
    uint64_t charged = 0;
    if (verdicts->count == 0 || strcmp(verdicts->items[verdicts->count - 1].id, "unknown") != 0)
        return WRONG("the last verdict is not `unknown`");
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        if (!verdict->summary || !verdict->summary[0])
            return WRONG("%s says nothing", verdict->id);
        if (i > 0 && is_out_of_order(&verdicts->items[i - 1], verdict))
            return WRONG("%s is out of order", verdict->id);
        for (size_t k = 0; k < verdict->remedy_count; k++)
            if (verdict->remedies[k].gain_low_bytes > verdict->remedies[k].gain_high_bytes)
                return WRONG("%s: a gain from much to little", verdict->id);
        const struct mw_verdict *whole =
            verdict->part_of ? mw_verdict_find(verdicts, verdict->part_of) : verdict;
        if (!whole || whole->bytes < verdict->bytes)
            return WRONG("%s is larger than what it is part of", verdict->id);
        if (!verdict->part_of && verdict->verdict_class != MW_CLASS_OUTSIDE)
            charged += verdict->bytes;
    }
    if (analysis->account.has_rss && charged > analysis->account.rss_bytes)
        return WRONG("verdicts have %llu, resident are %llu", (unsigned long long)charged,
                     (unsigned long long)analysis->account.rss_bytes);
    return NULL;
}

const char *analysis_wrong(struct analysis_run *run)
{
    if (run->walked.broken)
        return run->walked.broken;
    if (run->status != MW_OK)
        return run->err.code == run->status && run->err.text[0]
                   ? NULL
                   : WRONG("%s without its text", mw_status_name(run->status));
    if (run->analysis.image.stopped)
        return WRONG("the target is still held");
    if (run->analysis.is_partial && !run->analysis.why_partial.text[0])
        return WRONG("partial, and no reason");
    const char *wrong = regions_wrong(&run->analysis.image);
    if (!wrong)
        wrong = rows_wrong(&run->analysis);
    if (!wrong)
        wrong = pieces_wrong(&run->analysis);
    if (!wrong)
        wrong = heap_wrong(run);
    if (!wrong)
        wrong = reach_wrong(&run->analysis);
    if (!wrong && (run->kind == ANALYSIS_REPORT || run->kind == ANALYSIS_NO_HEAP))
        wrong = verdicts_wrong(&run->analysis);
    return wrong;
}

/* -- outputs --------------------------------------------------------------------------------- */

struct output {
    char *text;
    size_t length, room;
};

static int output_write(void *user, const void *bytes, size_t length)
{
    struct output *output = user;
    if (length > output->room - output->length) {
        output->room = (output->length + length) * 2;
        output->text = realloc(output->text, output->room);
        if (!output->text)
            abort();
    }
    memcpy(output->text + output->length, bytes, length);
    output->length += length;
    return 0;
}

static enum mw_status emit_json(const struct analysis_run *run, struct mw_sink sink,
                                struct mw_error *err)
{
    switch (run->kind) {
    case ANALYSIS_HEAP:
        return mw_report_heap_json(&run->analysis, sink, err);
    case ANALYSIS_PINS:
        return mw_report_pins_json(&run->analysis, sink, err);
    case ANALYSIS_TRIM:
        return mw_report_trim_json(&run->analysis, &run->trim, sink, err);
    case ANALYSIS_MAPS:
        return mw_report_maps_json(&run->analysis, false, sink, err);
    default:
        return mw_report_json(&run->analysis, sink, err);
    }
}

static enum mw_status emit_text(const struct analysis_run *run, struct mw_sink sink,
                                struct mw_error *err)
{
    const struct mw_report_text_options options = {
        .look = {.width = 100}, .target = "1", .all = true, .count_max = 20};
    enum mw_status status;
    switch (run->kind) {
    case ANALYSIS_HEAP:
        return mw_report_heap_text(&run->analysis, &options, sink, err);
    case ANALYSIS_PINS:
        return mw_report_pins_text(&run->analysis, &options, sink, err);
    case ANALYSIS_TRIM:
        status = mw_report_trim_text(&run->analysis, &run->trim, &options, sink, err);
        return status == MW_OK ? mw_report_trim_pages(&run->ranges, sink, err) : status;
    case ANALYSIS_MAPS:
        return mw_report_maps_text(&run->analysis, false, &options, sink, err);
    default:
        status = mw_report_text(&run->analysis, &options, sink, err);
        if (status == MW_OK)
            status = mw_report_leaks_text(&run->analysis, &options, sink, err);
        return status == MW_OK ? mw_report_markdown(&run->analysis, sink, err) : status;
    }
}

static const char *text_wrong(const struct output *output)
{
    for (size_t i = 0; i < output->length; i++) {
        unsigned char c = (unsigned char)output->text[i];
        if (c != '\n' && (c < 0x20 || c == 0x7f))
            return WRONG("an output has the control character %02x", c);
    }
    return NULL;
}

/* The categories of a report add up to its total, in what a program reads, too. */
static const char *categories_wrong(const json_t *document)
{
    const json_t *rss = json_object_get(document, "rss_bytes");
    const json_t *categories = json_object_get(document, "categories");
    size_t count = json_array_size(categories);
    if (!json_is_integer(rss) || count == 0)
        return NULL;
    json_int_t sum = json_integer_value(json_object_get(document, "unknown_bytes"));
    for (size_t i = 0; i < count; i++)
        sum += json_integer_value(json_object_get(json_array_get(categories, i), "rss_bytes"));
    return sum == json_integer_value(rss) ? NULL : WRONG("the JSON's categories do not add up");
}

static const char *json_wrong(const struct output *output)
{
    json_error_t problem;
    /* numbers beyond 2^63 are JSON, too; jansson reads them as doubles only */
    json_t *document = json_loadb(output->text, output->length, 0, &problem);
    if (!document)
        document = json_loadb(output->text, output->length, JSON_DECODE_INT_AS_REAL, &problem);
    if (!document)
        return WRONG("not JSON: %.400s", problem.text);
    const char *wrong = categories_wrong(document);
    json_decref(document);
    return wrong;
}

const char *analysis_outputs_wrong(const struct analysis_run *run, enum mw_status *emit_status)
{
    if (emit_status)
        *emit_status = MW_OK;
    for (int form = 0; form < 2 && run->status == MW_OK; form++) {
        struct output output = {0};
        struct mw_sink sink = {&output, output_write};
        struct mw_error err = {0};
        enum mw_status status = form == 0 ? emit_json(run, sink, &err) : emit_text(run, sink, &err);
        const char *wrong = text_wrong(&output);
        if (status == MW_OK && !wrong && form == 0)
            wrong = json_wrong(&output);
        free(output.text);
        if (status == MW_NOMEM && emit_status)
            *emit_status = status;
        else if (status != MW_OK)
            wrong = WRONG("the output fails: %s", err.text);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* -- comparing ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
    return digest ^ digest >> 29;
}

uint64_t analysis_digest(const struct analysis_run *run)
{
    uint64_t digest = run->analysis.allocator_count;
    for (size_t i = 0; i < run->analysis.allocator_count; i++) {
        const struct mw_allocator *one = &run->analysis.allocators[i];
        const uint64_t figures[] = {
            one->walked,         one->arena_count,         one->segment_count,
            one->in_use_bytes,   one->in_use_count,        one->free_bytes,
            one->free_count,     one->tcache_bytes,        one->fastbin_bytes,
            one->top_bytes,      one->metadata_bytes,      one->skipped_bytes,
            one->system_bytes,   one->free_resident_bytes, one->trimmable_bytes,
            one->mmapped_bytes,  one->mmapped_count,       one->size_count,
            one->pin_count,      one->fragment_bytes,      one->thread_top_rss,
            one->free_large_rss,
        };
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
            digest = mix(digest, figures[k]);
        for (size_t k = 0; k < one->size_count; k++)
            digest = mix(mix(digest, one->sizes[k].in_use_count), one->sizes[k].free_count);
    }
    for (size_t i = 0; i < MW_CATEGORY_COUNT; i++) {
        digest = mix(digest, run->analysis.account.rows[i].size_bytes);
        digest = mix(digest, run->analysis.account.rows[i].rss_bytes);
    }
    return digest;
}
