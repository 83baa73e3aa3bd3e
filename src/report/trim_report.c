/* report/trim_report.c: what malloc_trim(0) would give back, and whether it did. */
#include "report/trim_report.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void json_arenas(struct mw_json *json, const struct mw_analysis *analysis)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        if (allocator->trimmable_bytes == MW_UNKNOWN)
            continue;
        for (size_t k = 0; k < allocator->arena_count; k++) {
            const struct mw_arena *arena = &allocator->arenas[k];
            mw_field_object_begin(json, MW_SCOPE_trim_arena);
            mw_field_address(json, MW_F(trim_arena, address), arena->address);
            mw_field_u64(json, MW_F(trim_arena, free_resident_bytes), arena->free_rss);
            mw_field_u64(json, MW_F(trim_arena, trimmable_bytes), arena->trimmable_bytes);
            mw_field_u64(json, MW_F(trim_arena, top_resident_bytes), arena->top_rss);
            mw_field_object_end(json);
        }
    }
    mw_json_array_end(json);
}

/* Why the heap was not read, or why malloc_trim was not run. */
static void json_partial(struct mw_json *json, const struct mw_analysis *analysis,
                         const struct mw_trim *trim)
{
    if (analysis->is_partial || trim->refused.code == MW_OK) {
        mw_json_partial(json, analysis);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_partial);
    mw_field_text(json, MW_F(partial, text), trim->refused.text);
    mw_field_text(json, MW_F(partial, hint), mw_text_or_null(trim->refused.hint));
    mw_field_object_end(json);
}

enum mw_status mw_report_trim_json(const struct mw_analysis *analysis, const struct mw_trim *trim,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    bool has_actual = trim->anon_before_bytes != MW_UNKNOWN && trim->anon_after_bytes != MW_UNKNOWN;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_trim);
    mw_field_text(&json, MW_F(trim, schema), "memwhy.trim/1");
    mw_field_text(&json, MW_F(trim, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(trim, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(trim, target));
    mw_json_target(&json, analysis);
    mw_field_u64(&json, MW_F(trim, predicted_bytes), trim->predicted_bytes);
    mw_field_bool(&json, MW_F(trim, applied), trim->applied);
    mw_field_u64(&json, MW_F(trim, anon_before_bytes), trim->anon_before_bytes);
    mw_field_u64(&json, MW_F(trim, anon_after_bytes), trim->anon_after_bytes);
    if (has_actual)
        mw_field_i64(&json, MW_F(trim, actual_bytes),
                     (int64_t)(trim->anon_before_bytes - trim->anon_after_bytes));
    else
        mw_field_null(&json, MW_F(trim, actual_bytes));
    mw_field_double(&json, MW_F(trim, call_seconds),
                    trim->call_seconds < 0 ? (double)NAN : trim->call_seconds);
    mw_field_key(&json, MW_F(trim, arenas));
    json_arenas(&json, analysis);
    mw_field_key(&json, MW_F(trim, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(trim, partial));
    json_partial(&json, analysis, trim);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

static void put_line(struct mw_text *text, const char *label, const char *fmt, ...) MW_PRINTF(3, 4);
static void put_line(struct mw_text *text, const char *label, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    mw_text_pad(text, 2);
    mw_text_put(text, MW_STYLE_PLAIN, label);
    mw_text_pad(text, 14);
    mw_text_wrap(text, 14, 0, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void put_prediction(struct mw_text *text, const struct mw_analysis *analysis,
                           const struct mw_trim *trim)
{
    char figure[32], after[32];
    uint64_t free_bytes = 0, tops = 0, holes = 0;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        if (!allocator->walked || allocator->free_resident_bytes == MW_UNKNOWN)
            continue;
        free_bytes += allocator->free_resident_bytes;
        tops += allocator->thread_top_rss;
        holes += allocator->fragment_bytes;
    }
    mw_text_put(text, MW_STYLE_BOLD, "TRIM");
    mw_text_pad(text, 14);
    mw_text_printf(text, MW_STYLE_BOLD, "-%s %s",
                   mw_unit_format(figure, text->unit, trim->predicted_bytes), text->unit.name);
    mw_text_pad(text, text->column + 1);
    mw_text_wrap(text, 14, 0, MW_STYLE_PLAIN,
                 "of Anonymous would be given back by malloc_trim(0), page for page");
    mw_text_newline(text);
    if (trim->anon_before_bytes != MW_UNKNOWN && trim->anon_before_bytes >= trim->predicted_bytes)
        put_line(
            text, "Anonymous", "%s now, %s after it",
            mw_unit_format(figure, text->unit, trim->anon_before_bytes),
            mw_unit_format(after, text->unit, trim->anon_before_bytes - trim->predicted_bytes));
    put_line(text, "free", "%s resident in all", mw_unit_format(figure, text->unit, free_bytes));
    if (tops > 0)
        put_line(text, "stays", "%s at the tops of thread arenas",
                 mw_unit_format(figure, text->unit, tops));
    if (holes > 0)
        put_line(text, "stays", "%s in holes smaller than a page between live blocks",
                 mw_unit_format(figure, text->unit, holes));
    mw_text_newline(text);
}

static void put_result(struct mw_text *text, const struct mw_trim *trim)
{
    char before[32], after[32], actual[32], seconds[32];
    int64_t drop = (int64_t)(trim->anon_before_bytes - trim->anon_after_bytes);
    double predicted = (double)trim->predicted_bytes;
    mw_text_put(text, MW_STYLE_BOLD, "DONE");
    mw_text_pad(text, 14);
    mw_text_printf(text, MW_STYLE_BOLD, "%s %s", mw_unit_format_signed(actual, text->unit, -drop),
                   text->unit.name);
    mw_text_printf(text, MW_STYLE_PLAIN, " of Anonymous: %s before, %s after",
                   mw_unit_format(before, text->unit, trim->anon_before_bytes),
                   mw_unit_format(after, text->unit, trim->anon_after_bytes));
    mw_text_newline(text);
    if (predicted > 0)
        put_line(text, "prediction",
                 "off by %+.2f%%: what the program allocated or freed meanwhile "
                 "is in the difference",
                 ((double)drop - predicted) * 100 / predicted);
    put_line(text, "call", "%s in the target", mw_screen_seconds(seconds, trim->call_seconds));
    mw_text_newline(text);
}

static void put_risk(struct mw_text *text, const char *target)
{
    char command[MW_SCREEN_COMMAND_BYTES];
    put_line(text, "risk",
             "--apply runs malloc_trim(0) IN the process: one of its threads is borrowed, arena "
             "locks are held while it runs (about 0.1 s for a GiB given back), pages that are "
             "used again cost a page fault each. The next peak will be as high as the last.");
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "NEXT");
    snprintf(command, sizeof command, "memwhy trim %s --apply", mw_screen_word(target).text);
    mw_screen_command(text, command, "run it, and compare with the prediction");
}

enum mw_status mw_report_trim_text(const struct mw_analysis *analysis, const struct mw_trim *trim,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    mw_text_init(&text, sink, options->look);
    text.unit = mw_unit_for(mw_where_total(analysis));
    mw_screen_title(&text, analysis, "trim", options->target);
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    if (trim->predicted_bytes == MW_UNKNOWN) {
        mw_text_wrap(&text, 0, 0, MW_STYLE_PLAIN, trim->refused.text);
        mw_text_newline(&text);
        return mw_text_finish(&text, err);
    }
    put_prediction(&text, analysis, trim);
    if (trim->applied)
        put_result(&text, trim);
    else if (trim->refused.code != MW_OK)
        put_line(&text, "NOT DONE", "%s", trim->refused.text);
    else if (analysis->image.kind == MW_IMAGE_LIVE)
        put_risk(&text, options->target);
    return mw_text_finish(&text, err);
}

enum mw_status mw_report_trim_pages(const struct mw_trim_ranges *ranges, struct mw_sink sink,
                                    struct mw_error *err)
{
    struct mw_text text;
    mw_text_init(&text, sink, (struct mw_text_look){.width = 100});
    for (size_t i = 0; i < ranges->count && !mw_text_failed(&text); i++) {
        mw_text_printf(&text, MW_STYLE_PLAIN, "0x%llx 0x%llx",
                       (unsigned long long)ranges->items[i].start,
                       (unsigned long long)ranges->items[i].end);
        mw_text_newline(&text);
    }
    return mw_text_finish(&text, err);
}
