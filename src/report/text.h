/* report/text.h: laying out lines for people: styles, wrapping, tables.
 *
 * Every text passes an escape: control bytes and broken UTF-8 of a target become \xNN, so that
 * nothing of it drives a terminal. Widths count characters. A line that is full is wrapped with a
 * hanging indent, or cut where the caller bounds the lines. Like struct mw_json, a writer returns
 * nothing: the first failure is kept until mw_text_finish(). */
#ifndef MW_REPORT_TEXT_H
#define MW_REPORT_TEXT_H

#include "base/str.h"
#include "base/units.h"
#include "report/fields.h"
#include "report/sink.h"

#include <stdbool.h>

struct mw_text_look {
    unsigned width; /* columns: 80 to 100 for screens */
    bool color;     /* bold and colours, by ANSI sequences */
};

enum mw_text_style { MW_STYLE_PLAIN, MW_STYLE_BOLD, MW_STYLE_RED, MW_STYLE_YELLOW };

/* Members are private but for unit, which screens may read and set. */
struct mw_text {
    struct mw_sink sink;
    struct mw_text_look look;
    struct mw_unit unit; /* of this screen */
    struct mw_str buffer;
    unsigned column; /* characters on the current line */
    unsigned blanks; /* owed: written only when something follows them on the line */
    int sink_errno;
};

void mw_text_init(struct mw_text *text, struct mw_sink sink, struct mw_text_look look);
enum mw_status mw_text_finish(struct mw_text *text, struct mw_error *err) MW_MUST_CHECK;
/* A caller's own allocation failed: the text fails with MW_NOMEM. */
void mw_text_out_of_memory(struct mw_text *text);
bool mw_text_failed(const struct mw_text *text);

/* Append to the line as it is, without wrapping. */
void mw_text_put(struct mw_text *text, enum mw_text_style style, const char *piece);
void mw_text_put_bytes(struct mw_text *text, enum mw_text_style style, const char *piece,
                       size_t length);
void mw_text_printf(struct mw_text *text, enum mw_text_style style, const char *fmt, ...)
    MW_PRINTF(3, 4);

/* Blanks up to a column (at least one when the line is already there), without trailing ones. */
void mw_text_pad(struct mw_text *text, unsigned column);
/* A piece that ends at a column; behind a blank when there is no room before it. */
void mw_text_put_right(struct mw_text *text, unsigned end, const char *piece);
void mw_text_newline(struct mw_text *text);

/* Words from here on, wrapped at the width; further lines begin at column indent. At most
 * lines_max lines (0: any number); what does not fit ends in "...". The line stays open. */
void mw_text_wrap(struct mw_text *text, unsigned indent, unsigned lines_max,
                  enum mw_text_style style, const char *words);

/* Texts side by side, each wrapped in a band of its own: [from, to) in columns. At most lines_max
 * lines (0: any number); what does not fit ends in "...". Ends the last line. A band may start with
 * a lead, in bold and unbroken. */
struct mw_text_band {
    unsigned from, to;
    const char *lead; /* NULL: none */
    const char *words;
};
void mw_text_bands(struct mw_text *text, struct mw_text_band *bands, size_t count,
                   unsigned lines_max);

/* Characters in a text as it is shown. */
unsigned mw_text_width(const char *text);
/* The bytes of text, whole characters, that fit into width columns. */
size_t mw_text_fit(const char *text, unsigned width);

/* Tables: a pass over all rows finds the widths, a second one prints. Rows are made on demand, so
 * a table of any length needs no memory. */
enum { MW_TEXT_COLUMNS_MAX = 16, MW_TEXT_CELL_BYTES = 48 };

struct mw_text_cell {
    char text[MW_TEXT_CELL_BYTES];
    const char *long_text; /* used instead when set; lives until the next row is made */
};

struct mw_text_column {
    enum mw_field field; /* gives heading and alignment: text is set left, all else right */
    const char *heading; /* NULL: the field's */
    bool shorten;        /* too long: cut at its end instead of overflowing the line */
};

struct mw_text_table {
    const struct mw_text_column *columns;
    size_t column_count, row_count;
    /* Fill the cells of a row; called twice for each. */
    void (*row)(void *user, size_t index, struct mw_text_cell *cells);
    void *user;
    unsigned indent;
};

void mw_text_table(struct mw_text *text, const struct mw_text_table *table);

/* A cell in the unit of the screen; "-" for MW_UNKNOWN, "" for 0. */
void mw_text_cell_bytes(struct mw_text_cell *cell, struct mw_unit unit, uint64_t bytes);
void mw_text_cell_count(struct mw_text_cell *cell, uint64_t count);

#endif
