/* report/text_table.c: tables of any length in two passes over rows that are made on demand. */
#include "proc/process.h"
#include "report/text.h"

#include <assert.h>
#include <string.h>

static const char *cell_text(const struct mw_text_cell *cell)
{
    return cell->long_text ? cell->long_text : cell->text;
}

static const char *column_heading(const struct mw_text_column *column)
{
    return column->heading ? column->heading : mw_field_row(column->field)->heading;
}

static bool is_left(const struct mw_text_column *column)
{
    enum mw_field_unit unit = mw_field_row(column->field)->unit;
    return unit == MW_UNIT_TEXT || unit == MW_UNIT_ADDRESS;
}

/* The first bytes of text that fit into width characters, marked as cut. */
static void put_shortened(struct mw_text *text, const char *cell, unsigned width)
{
    char piece[256];
    size_t length = 0;
    unsigned room = width > 3 ? width - 3 : 0;
    for (;;) {
        size_t take = mw_utf8_sequence((const unsigned char *)cell + length, strlen(cell + length));
        take = take ? take : 1;
        if (length + take >= sizeof piece - 4 || cell[length] == '\0')
            break;
        memcpy(piece + length, cell + length, take);
        piece[length + take] = '\0';
        if (mw_text_width(piece) > room)
            break;
        length += take;
    }
    memcpy(piece + length, "...", 4);
    mw_text_put(text, MW_STYLE_PLAIN, piece);
}

static void put_cell(struct mw_text *text, const struct mw_text_column *column, const char *cell,
                     unsigned start, unsigned width)
{
    unsigned shown = mw_text_width(cell);
    unsigned line_left = text->look.width > start ? text->look.width - start : 0;
    if (shown == 0)
        return;
    unsigned at = is_left(column) || shown > width ? start : start + width - shown;
    if (at > text->column)
        mw_text_pad(text, at);
    if (column->shorten && shown > line_left && line_left > 8)
        put_shortened(text, cell, line_left);
    else
        mw_text_put(text, MW_STYLE_PLAIN, cell);
}

static void put_row(struct mw_text *text, const struct mw_text_table *table, const unsigned *widths,
                    const struct mw_text_cell *cells)
{
    unsigned start = table->indent;
    for (size_t i = 0; i < table->column_count; i++) {
        put_cell(text, &table->columns[i], cell_text(&cells[i]), start, widths[i]);
        start += widths[i] + 2;
    }
    mw_text_newline(text);
}

void mw_text_table(struct mw_text *text, const struct mw_text_table *table)
{
    unsigned widths[MW_TEXT_COLUMNS_MAX];
    struct mw_text_cell cells[MW_TEXT_COLUMNS_MAX];
    assert(table->column_count > 0 && table->column_count <= MW_TEXT_COLUMNS_MAX);
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = mw_text_width(column_heading(&table->columns[i]));
    for (size_t index = 0; index < table->row_count; index++) {
        memset(cells, 0, sizeof cells);
        table->row(table->user, index, cells);
        for (size_t i = 0; i < table->column_count; i++) {
            unsigned width = mw_text_width(cell_text(&cells[i]));
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    memset(cells, 0, sizeof cells);
    for (size_t i = 0; i < table->column_count; i++)
        cells[i].long_text = column_heading(&table->columns[i]);
    put_row(text, table, widths, cells);
    for (size_t index = 0; index < table->row_count && !mw_text_failed(text); index++) {
        memset(cells, 0, sizeof cells);
        table->row(table->user, index, cells);
        put_row(text, table, widths, cells);
    }
}

void mw_text_cell_bytes(struct mw_text_cell *cell, struct mw_unit unit, uint64_t bytes)
{
    if (bytes == MW_UNKNOWN)
        memcpy(cell->text, "-", 2);
    else if (bytes > 0)
        mw_unit_format(cell->text, unit, bytes);
}

void mw_text_cell_count(struct mw_text_cell *cell, uint64_t count)
{
    if (count == MW_UNKNOWN)
        memcpy(cell->text, "-", 2);
    else if (count > 0)
        mw_count_format(cell->text, count);
}
