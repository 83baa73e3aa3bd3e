/* report/list_report.c: the process list, as a table and as memwhy.list/1. */
#include "report/list_report.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include "proc/process.h"

#include <stdio.h>
#include <string.h>

static uint64_t row_gap(const struct mw_list_row *row)
{
    if (row->managed_rss_bytes == MW_UNKNOWN || row->managed_rss_bytes > row->rss_bytes)
        return MW_UNKNOWN;
    return row->rss_bytes - row->managed_rss_bytes;
}

static void json_row(struct mw_json *json, const struct mw_list_row *row)
{
    mw_field_object_begin(json, MW_SCOPE_process);
    mw_field_u64(json, MW_F(process, pid), (uint64_t)row->pid);
    mw_field_u64(json, MW_F(process, rss_bytes), row->rss_bytes);
    mw_field_u64(json, MW_F(process, anonymous_bytes), row->anonymous_bytes);
    mw_field_u64(json, MW_F(process, swap_bytes), row->swap_bytes);
    mw_field_u64(json, MW_F(process, peak_rss_bytes), row->peak_rss_bytes);
    mw_field_u64(json, MW_F(process, threads), row->threads);
    mw_field_bool(json, MW_F(process, readable), row->readable);
    mw_field_text(json, MW_F(process, runtime), mw_text_or_null(row->runtime));
    mw_field_u64(json, MW_F(process, managed_rss_bytes), row->managed_rss_bytes);
    mw_field_u64(json, MW_F(process, outside_runtime_rss_bytes), row_gap(row));
    mw_field_u64(json, MW_F(process, arenas_estimated), row->arenas_estimated);
    mw_field_text(json, MW_F(process, hint), mw_text_or_null(row->hint));
    mw_field_text(json, MW_F(process, command), row->name);
    mw_field_object_end(json);
}

enum mw_status mw_report_list_json(const struct mw_list *list, size_t count_max,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_list);
    mw_field_text(&json, MW_F(list, schema), "memwhy.list/1");
    mw_field_text(&json, MW_F(list, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(list, taken_at), list->taken_at);
    mw_field_u64(&json, MW_F(list, process_count), list->count);
    mw_field_key(&json, MW_F(list, processes));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < list->count && i < count_max; i++)
        json_row(&json, &list->rows[i]);
    mw_json_array_end(&json);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

struct list_screen {
    struct mw_text *text;
    const struct mw_list *list;
    char note[80]; /* of the row at hand */
};

static void estimate_cell(struct mw_text_cell *cell, uint64_t count)
{
    char figure[32];
    if (count != MW_UNKNOWN && count > 0)
        snprintf(cell->text, sizeof cell->text, "~%s", mw_count_format(figure, count));
}

static void list_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    struct list_screen *screen = user;
    const struct mw_list_row *row = &screen->list->rows[index];
    struct mw_unit unit = screen->text->unit;
    snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "%d", row->pid);
    mw_text_cell_bytes(&cells[1], unit, row->rss_bytes);
    mw_text_cell_bytes(&cells[2], unit, row->anonymous_bytes);
    mw_text_cell_bytes(&cells[3], unit, row->swap_bytes);
    mw_text_cell_count(&cells[4], row->threads);
    estimate_cell(&cells[5], row->arenas_estimated);
    if (row->managed_rss_bytes != MW_UNKNOWN) {
        mw_text_cell_bytes(&cells[6], unit, row->managed_rss_bytes);
        mw_text_cell_bytes(&cells[7], unit, row_gap(row));
    }
    cells[8].long_text = row->name;
    snprintf(screen->note, sizeof screen->note, "%s%s%s", row->readable ? "" : "not readable",
             row->readable || !row->hint[0] ? "" : "; ", row->hint);
    cells[9].long_text = screen->note;
}

/* The largest process but memwhy that can be read, or that cannot; NULL when there is none. */
static const struct mw_list_row *first_row(const struct mw_list *list, bool readable)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->rows[i].readable == readable && list->rows[i].pid != list->self_pid)
            return &list->rows[i];
    return NULL;
}

static void put_list_next(struct mw_text *text, const struct mw_list *list)
{
    char command[64];
    const struct mw_list_row *readable = first_row(list, true), *other = first_row(list, false);
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "NEXT");
    snprintf(command, sizeof command, "memwhy %d", readable ? readable->pid : 0);
    mw_screen_command(text, readable ? command : "memwhy PID",
                      "where its memory is, why, and what gives it back");
    snprintf(command, sizeof command, "memwhy doctor %d", other ? other->pid : 0);
    if (other)
        mw_screen_command(text, command, "what keeps it from being read, and each way out");
}

enum mw_status mw_report_list_text(const struct mw_list *list, struct mw_text_look look,
                                   size_t count_max, struct mw_sink sink, struct mw_error *err)
{
    static const struct mw_text_column columns[] = {
        {MW_F(process, pid), NULL, false},
        {MW_F(process, rss_bytes), NULL, false},
        {MW_F(process, anonymous_bytes), NULL, false},
        {MW_F(process, swap_bytes), NULL, false},
        {MW_F(process, threads), NULL, false},
        {MW_F(process, arenas_estimated), NULL, false},
        {MW_F(process, managed_rss_bytes), NULL, false},
        {MW_F(process, outside_runtime_rss_bytes), NULL, false},
        {MW_F(process, command), NULL, false},
        {MW_F(process, hint), NULL, true},
    };
    struct mw_text text;
    mw_text_init(&text, sink, look);
    text.unit = mw_unit_for(list->count ? list->rows[0].rss_bytes : 0);
    struct list_screen screen = {.text = &text, .list = list};
    size_t shown = list->count < count_max ? list->count : count_max;
    mw_text_printf(&text, MW_STYLE_PLAIN,
                   "%zu of %zu processes, by resident size, in %s; nothing was paused, ~ is an "
                   "estimate",
                   shown, list->count, text.unit.name);
    mw_text_newline(&text);
    mw_text_table(&text, &(struct mw_text_table){
                             .columns = columns,
                             .column_count = sizeof columns / sizeof *columns,
                             .row_count = shown,
                             .row = list_cells,
                             .user = &screen,
                         });
    put_list_next(&text, list);
    return mw_text_finish(&text, err);
}
