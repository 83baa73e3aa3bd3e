/* report/diff_report.c: memwhy.diff/1 and its screen. */
#include "report/diff_report.h"

#include "base/units.h"
#include "report/fields.h"
#include "report/screen.h"

#include "report/parts_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SECONDS_A_DAY = 86400 };

static const char *const what_names[MW_GROWTH_WHAT_COUNT] = {
    [MW_GROWTH_CATEGORY] = "category",
    [MW_GROWTH_SIZE] = "size",
    [MW_GROWTH_KIND] = "signature",
};

/* ---- JSON ---- */

static void json_delta(struct mw_json *json, enum mw_field field, uint64_t before, uint64_t after)
{
    if (before == MW_UNKNOWN || after == MW_UNKNOWN)
        mw_field_null(json, field);
    else
        mw_field_i64(json, field, (int64_t)(after - before));
}

static void json_row(struct mw_json *json, const struct mw_growth_row *row, bool has_control)
{
    const struct mw_growth_figures *before = &row->before, *after = &row->after;
    mw_field_object_begin(json, MW_SCOPE_diff_row);
    mw_field_text(json, MW_F(diff_row, what), what_names[row->what]);
    mw_field_text(json, MW_F(diff_row, id), row->id);
    mw_field_u64(json, MW_F(diff_row, before_bytes), before->bytes);
    mw_field_u64(json, MW_F(diff_row, after_bytes), after->bytes);
    json_delta(json, MW_F(diff_row, delta_bytes), before->bytes, after->bytes);
    mw_field_u64(json, MW_F(diff_row, before_count), before->count);
    mw_field_u64(json, MW_F(diff_row, after_count), after->count);
    json_delta(json, MW_F(diff_row, delta_count), before->count, after->count);
    json_delta(json, MW_F(diff_row, delta_unreachable_count), before->lost_count,
               after->lost_count);
    mw_field_u64(json, MW_F(diff_row, survived_count), row->survived_count);
    if (has_control) {
        json_delta(json, MW_F(diff_row, control_delta_bytes), row->control_before.bytes,
                   row->control_after.bytes);
        json_delta(json, MW_F(diff_row, control_delta_count), row->control_before.count,
                   row->control_after.count);
    } else {
        mw_field_null(json, MW_F(diff_row, control_delta_bytes));
        mw_field_null(json, MW_F(diff_row, control_delta_count));
    }
    mw_field_object_end(json);
}

static const struct mw_error *why_partial(const struct mw_diff_titles *titles)
{
    for (int i = 0; i < 2; i++)
        if (titles->heads[i]->is_partial)
            return &titles->heads[i]->why_partial;
    return NULL;
}

static void json_partial(struct mw_json *json, const struct mw_error *why)
{
    if (!why) {
        mw_json_put_null(json);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_partial);
    mw_field_text(json, MW_F(partial, text), why->text);
    mw_field_text(json, MW_F(partial, hint), mw_text_or_null(why->hint));
    mw_field_object_end(json);
}

enum mw_status mw_report_diff_json(const struct mw_difference *difference,
                                   const struct mw_diff_titles *titles, struct mw_sink sink,
                                   struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_diff);
    mw_field_text(&json, MW_F(diff, schema), "memwhy.diff/1");
    mw_field_text(&json, MW_F(diff, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(diff, before_at), (int64_t)titles->moments[0]->taken_at);
    mw_field_time(&json, MW_F(diff, after_at), (int64_t)titles->moments[1]->taken_at);
    mw_field_double(&json, MW_F(diff, elapsed_seconds),
                    difference->elapsed_seconds < 0 ? (double)NAN : difference->elapsed_seconds);
    mw_field_text(&json, MW_F(diff, elapsed_by), difference->is_file_time ? "file times" : "clock");
    mw_field_bool(&json, MW_F(diff, same_process), difference->is_same_process);
    mw_field_bool(&json, MW_F(diff, has_control), difference->has_control);
    mw_field_u64(&json, MW_F(diff, rss_before_bytes), difference->rss_before);
    mw_field_u64(&json, MW_F(diff, rss_after_bytes), difference->rss_after);
    json_delta(&json, MW_F(diff, rss_delta_bytes), difference->rss_before, difference->rss_after);
    mw_field_text(&json, MW_F(diff, category_measure),
                  difference->is_mapped ? "mapped" : "resident");
    mw_field_key(&json, MW_F(diff, rows));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < difference->row_count && !mw_json_failed(&json); i++)
        json_row(&json, &difference->rows[i], difference->has_control);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(diff, partial));
    json_partial(&json, why_partial(titles));
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

/* ---- for people ---- */

enum { COLUMNS_MAX = 9 };

struct table {
    struct mw_text *text;
    const struct mw_growth_row *rows;
    struct mw_text_column columns[COLUMNS_MAX];
    size_t column_count;
};

/* "+12.5"; "" for no change. */
static void change_put(struct mw_text_cell *cell, struct mw_unit unit, int64_t bytes)
{
    char number[32];
    cell->text[0] = '\0';
    if (bytes != 0)
        snprintf(cell->text, sizeof cell->text, "%s", mw_unit_format_signed(number, unit, bytes));
}

static int64_t control_grown(const struct mw_growth_row *row)
{
    return row->control_before.bytes == MW_UNKNOWN || row->control_after.bytes == MW_UNKNOWN
               ? 0
               : (int64_t)(row->control_after.bytes - row->control_before.bytes);
}

static void count_change_put(struct mw_text_cell *cell, uint64_t before, uint64_t after)
{
    char number[32];
    cell->text[0] = '\0';
    if (before == MW_UNKNOWN || after == MW_UNKNOWN)
        snprintf(cell->text, sizeof cell->text, "-");
    else if (before != after)
        snprintf(cell->text, sizeof cell->text, "%c%s", after > before ? '+' : '-',
                 mw_count_format(number, after > before ? after - before : before - after));
}

/* The columns of a table; those of the control only where there is one. */
static size_t columns_make(const struct mw_difference *difference, bool is_category,
                           struct mw_text_column columns[COLUMNS_MAX])
{
    static const struct {
        enum mw_field field;
        const char *heading;
        bool of_category, of_blocks, of_control;
    } all[] = {
        {MW_F(diff_row, delta_bytes), NULL, true, true, false},
        {MW_F(diff_row, control_delta_bytes), NULL, true, true, true},
        {MW_F(diff_row, before_bytes), NULL, true, false, false},
        {MW_F(diff_row, after_bytes), NULL, true, false, false},
        {MW_F(diff_row, before_count), NULL, false, true, false},
        {MW_F(diff_row, after_count), NULL, false, true, false},
        {MW_F(diff_row, delta_unreachable_count), NULL, false, true, false},
        {MW_F(diff_row, survived_count), NULL, false, true, false},
        {MW_F(diff_row, id), NULL, true, true, false},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((is_category ? all[i].of_category : all[i].of_blocks) &&
            (difference->has_control || !all[i].of_control))
            columns[count++] = (struct mw_text_column){all[i].field, all[i].heading,
                                                       all[i].field == MW_F(diff_row, id)};
    return count;
}

static void cell_put(const struct table *table, const struct mw_growth_row *row,
                     enum mw_field field, struct mw_text_cell *cell)
{
    const struct mw_unit unit = table->text->unit;
    switch ((int)field) {
    case MW_F(diff_row, delta_bytes):
        change_put(cell, unit, mw_growth_bytes(row) + control_grown(row));
        break;
    case MW_F(diff_row, control_delta_bytes):
        change_put(cell, unit, control_grown(row));
        break;
    case MW_F(diff_row, before_bytes):
        mw_text_cell_bytes(cell, unit, row->before.bytes);
        break;
    case MW_F(diff_row, after_bytes):
        mw_text_cell_bytes(cell, unit, row->after.bytes);
        break;
    case MW_F(diff_row, before_count):
        mw_text_cell_count(cell, row->before.count);
        break;
    case MW_F(diff_row, after_count):
        mw_text_cell_count(cell, row->after.count);
        break;
    case MW_F(diff_row, delta_unreachable_count):
        count_change_put(cell, row->before.lost_count, row->after.lost_count);
        break;
    case MW_F(diff_row, survived_count):
        mw_text_cell_count(cell, row->survived_count);
        break;
    default:
        cell->long_text = row->id;
        break;
    }
}

static void row_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct table *table = user;
    for (size_t i = 0; i < table->column_count; i++)
        cell_put(table, &table->rows[index], table->columns[i].field, &cells[i]);
}

/* Rows of one kind; of blocks the first max of those that grew. */
static void put_table(struct mw_text *text, const struct mw_difference *difference,
                      enum mw_growth_what what, const char *head, const char *about, size_t max)
{
    const bool is_category = what == MW_GROWTH_CATEGORY;
    size_t first = 0, count = 0;
    while (first < difference->row_count && difference->rows[first].what != what)
        first++;
    while (first + count < difference->row_count && difference->rows[first + count].what == what &&
           (is_category || mw_growth_bytes(&difference->rows[first + count]) > 0))
        count++;
    struct table table = {.text = text, .rows = difference->rows + first};
    table.column_count = columns_make(difference, is_category, table.columns);
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, head);
    mw_text_printf(text, MW_STYLE_PLAIN, "  %s, in %s", about, text->unit.name);
    mw_text_newline(text);
    if (count == 0) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  nothing grew");
        mw_text_newline(text);
        return;
    }
    mw_text_table(text, &(struct mw_text_table){
                            .columns = table.columns,
                            .column_count = table.column_count,
                            .row_count = count < max ? count : max,
                            .row = row_cells,
                            .user = &table,
                            .indent = 2,
                        });
    if (count > max) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  and %zu more that grew: --count 0", count - max);
        mw_text_newline(text);
    }
}

/* "RSS 120.0 MiB -> 180.5 MiB, +60.5 MiB in 10m, 8.5 GiB a day". */
static void put_rss(struct mw_text *text, const struct mw_difference *difference)
{
    char before[32], after[32], number[32], apart[96] = "", rate[64] = "", change[32] = "";
    const double seconds = difference->elapsed_seconds;
    if (seconds > 0)
        snprintf(apart, sizeof apart, " in %s%s", mw_duration_format(number, seconds),
                 difference->is_file_time ? " by the times of the files" : "");
    mw_text_put(text, MW_STYLE_BOLD, "RSS ");
    if (difference->rss_before == MW_UNKNOWN || difference->rss_after == MW_UNKNOWN) {
        mw_text_printf(text, MW_STYLE_PLAIN, "not known at both moments%s%s", apart[0] ? "," : "",
                       apart);
        mw_text_newline(text);
        return;
    }
    const int64_t grown = (int64_t)(difference->rss_after - difference->rss_before);
    const double a_day = seconds > 0 ? (double)grown / seconds * SECONDS_A_DAY : 0;
    if (grown > 0 && a_day > 0 && a_day < 1e18)
        snprintf(rate, sizeof rate, ", %s a day if it goes on",
                 mw_bytes_format(number, (uint64_t)a_day));
    if (grown)
        mw_unit_format_signed(change, text->unit, grown);
    mw_unit_format(before, text->unit, difference->rss_before);
    mw_unit_format(after, text->unit, difference->rss_after);
    mw_text_printf(text, MW_STYLE_BOLD, "%s -> %s %s", before, after, text->unit.name);
    mw_text_printf(text, MW_STYLE_PLAIN, "  %s%s%s", grown ? change : "no change", apart, rate);
    mw_text_newline(text);
}

static void put_notes(struct mw_text *text, const struct mw_difference *difference,
                      const struct mw_diff_titles *titles)
{
    mw_text_newline(text);
    if (!difference->is_same_process) {
        mw_screen_label(text, "note");
        mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN,
                     "two processes: which blocks stayed cannot be told");
        mw_text_newline(text);
    }
    if (!difference->has_heap) {
        mw_screen_label(text, "note");
        mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN,
                     "not every heap was walked at both moments: sizes and signatures are of what "
                     "was");
        mw_text_newline(text);
    }
    if (why_partial(titles))
        mw_screen_why_partial(text, why_partial(titles));
}

enum mw_status mw_report_diff_text(const struct mw_difference *difference,
                                   const struct mw_diff_titles *titles, size_t count_max,
                                   struct mw_text_look look, struct mw_sink sink,
                                   struct mw_error *err)
{
    struct mw_text text;
    char title[256], command[MW_SCREEN_COMMAND_BYTES];
    const struct mw_screen_word word = mw_screen_word(titles->after);
    mw_text_init(&text, sink, look);
    text.unit = mw_unit_for(difference->rss_after == MW_UNKNOWN ? (uint64_t)1 << 20
                                                                : difference->rss_after);
    snprintf(title, sizeof title, "memwhy diff %.100s%s%.100s", titles->before,
             titles->before == titles->after ? "  " : " ",
             titles->before == titles->after ? titles->heads[1]->title : titles->after);
    mw_text_wrap(&text, 2, 0, MW_STYLE_PLAIN, title);
    mw_text_newline(&text);
    put_rss(&text, difference);
    put_table(&text, difference, MW_GROWTH_CATEGORY, "WHERE",
              difference->is_mapped ? "mapped (a core without residency)" : "resident", SIZE_MAX);
    put_table(&text, difference, MW_GROWTH_SIZE, "SIZES", "blocks in use by chunk size that grew",
              count_max);
    put_table(&text, difference, MW_GROWTH_KIND, "SIGNATURES", "by size and kind", count_max);
    put_notes(&text, difference, titles);
    mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
    for (size_t i = 0; i < difference->row_count; i++) {
        const struct mw_growth_row *row = &difference->rows[i];
        if (row->what != MW_GROWTH_SIZE || mw_growth_bytes(row) <= 0)
            continue;
        snprintf(command, sizeof command, "memwhy blocks %s --size %llu --fields", word.text,
                 strtoull(row->id, NULL, 10));
        mw_screen_command(&text, command, "what the blocks that grew most have in common");
        break;
    }
    snprintf(command, sizeof command, "memwhy %s", word.text);
    mw_screen_command(&text, command, "where the memory is, and why");
    return mw_text_finish(&text, err);
}
