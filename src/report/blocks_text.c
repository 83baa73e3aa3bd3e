/* report/blocks_text.c: the screen of `memwhy blocks`: groups, the words of one, repeated text.
 *
 * A block of 3,400 bytes has 425 words: words in a row that say the same are one line, so that
 * what differs, the constants, can be seen. */
#include "report/blocks_report.h"

#include "report/screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    KIND_COLUMN = 18,
    DISTINCT_END = 40,
    VALUE_COLUMN = 42,
    LINE_BYTES = 1200,
    FOLD_MIN = 3,
    TOP_PERCENT = 20,
    NEARLY_ALL_PERCENT = 90,
    TEXT_WASTE_MIN = 4096,
    HIDDEN_TEXTS = 5,
    LINES_MAX = 400
};

struct blocks_screen {
    struct mw_text *text;
    const struct mw_blocks *blocks;
};

/* ---- groups ---- */

static void group_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct blocks_screen *screen = user;
    const struct mw_blocks *blocks = screen->blocks;
    size_t at = blocks->chosen ? (size_t)(blocks->chosen - blocks->groups.items) : index;
    const struct mw_block_group *group = &blocks->groups.items[at];
    const struct mw_block_knowledge *knowledge = &blocks->knowledge[at];
    mw_count_format(cells[0].text, group->size_bytes);
    mw_count_format(cells[1].text, group->usable_bytes);
    mw_text_cell_count(&cells[2], group->count);
    mw_text_cell_bytes(&cells[3], screen->text->unit, group->bytes);
    if (blocks->groups.bytes > 0)
        snprintf(cells[4].text, MW_TEXT_CELL_BYTES, "%.0f",
                 100.0 * (double)group->bytes / (double)blocks->groups.bytes);
    if (knowledge->unreachable_count != MW_UNKNOWN)
        mw_text_cell_count(&cells[5], knowledge->unreachable_count);
    cells[6].long_text = knowledge->layout ? knowledge->layout : "";
}

static void put_groups(struct blocks_screen *screen, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(block_group, size_bytes), NULL, false},
        {MW_F(block_group, usable_bytes), NULL, false},
        {MW_F(block_group, count), NULL, false},
        {MW_F(block_group, bytes), NULL, false},
        {MW_F(block_group, count), "%", false},
        {MW_F(block_group, unreachable_count), NULL, false},
        {MW_F(block_group, layout), NULL, true},
    };
    const struct mw_blocks *blocks = screen->blocks;
    struct mw_text *text = screen->text;
    char blocks_text[32], sizes_text[32], shown_text[32];
    size_t count = blocks->chosen ? 1 : blocks->groups.count, known = 0;
    size_t shown = count < max ? count : max;
    for (size_t i = 0; i < blocks->groups.count; i++)
        known |=
            blocks->knowledge[i].layout || blocks->knowledge[i].unreachable_count != MW_UNKNOWN;
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "BLOCKS");
    mw_text_printf(text, MW_STYLE_PLAIN, "  %s in use, of %s sizes",
                   mw_count_format(blocks_text, blocks->groups.block_count),
                   mw_count_format(sizes_text, blocks->groups.count));
    if (shown < count)
        mw_text_printf(text, MW_STYLE_PLAIN, "; the %s that hold most",
                       mw_count_format(shown_text, shown));
    mw_text_printf(text, MW_STYLE_PLAIN, ", in %s", text->unit.name);
    mw_text_newline(text);
    mw_text_table(text, &(struct mw_text_table){
                            .columns = columns,
                            .column_count = sizeof columns / sizeof *columns - (known ? 0 : 2),
                            .row_count = shown,
                            .row = group_cells,
                            .user = screen,
                            .indent = 2,
                        });
}

/* ---- fields ---- */

struct line {
    char text[LINE_BYTES];
    size_t used;
};

static void line_add(struct line *line, const char *fmt, ...) MW_PRINTF(2, 3);
static void line_add(struct line *line, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    int more = vsnprintf(line->text + line->used, sizeof line->text - line->used, fmt, arguments);
    va_end(arguments);
    if (more > 0)
        line->used += (size_t)more < sizeof line->text - line->used
                          ? (size_t)more
                          : sizeof line->text - line->used - 1;
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return whole ? (unsigned)((unsigned __int128)part * 100 / whole) : 0;
}

/* A number as people write it: small ones in decimal. */
static void add_number(struct line *line, uint64_t value)
{
    if (value < 65536)
        line_add(line, "%" PRIu64, value);
    else if ((int64_t)value < 0 && (int64_t)value > -65536)
        line_add(line, "%" PRId64, (int64_t)value);
    else
        line_add(line, "0x%" PRIx64, value);
}

static void add_names(struct line *line, const struct mw_block_field *field)
{
    const struct mw_field_names *names = field->names;
    if (!names)
        return;
    if (names->symbol[0])
        line_add(line, " %s", names->symbol);
    if (names->resolved[0])
        line_add(line, names->symbol[0] ? " (%s)" : " %s", names->resolved);
    if (names->line[0])
        line_add(line, " at %s", names->line);
    if (names->call[0])
        line_add(line, ", after: %s", names->call);
}

static void add_parts(struct line *line, const struct mw_blocks *blocks,
                      const struct mw_block_field *field)
{
    struct mw_field_part parts[MW_FIELD_PARTS_MAX];
    size_t count = mw_field_parts(field, parts);
    for (size_t i = 0; i < count; i++)
        if (parts[i].value != 0 && mw_blocks_show_part(blocks, parts[i].value))
            line_add(line, "%s%u byte%s at +%u = 0x%" PRIx64, line->used ? "; " : "",
                     parts[i].width, parts[i].width == 1 ? "" : "s", parts[i].offset,
                     parts[i].value);
}

/* The eight bytes of a constant as text; the screen escapes what is none. */
static void add_text(struct line *line, uint64_t value)
{
    char bytes[9] = "";
    memcpy(bytes, &value, 8);
    line_add(line, "\"%s\"", bytes);
}

/* What values are, where they are not all of one class: "61% heap-pointer, 39% zero". */
static void add_classes(struct line *line, const struct mw_block_field *field)
{
    bool told[MW_VALUE_COUNT] = {0};
    for (unsigned i = 0; i < MW_VALUE_COUNT; i++) {
        int most = -1;
        for (int class = 0; class < MW_VALUE_COUNT; class ++)
            if (!told[class] && (most < 0 || field->classes[class] > field->classes[most]))
                most = class;
        told[most] = true;
        unsigned share = percent(field->classes[most], field->count);
        if (share > 0)
            line_add(line, "%s%u%% %s",
                     i > 0        ? ", "
                     : line->used ? "; "
                                  : "",
                     share, mw_value_class_name((enum mw_value_class)most));
    }
}

/* The most frequent value, where it says something; true when it is nearly all that there is. */
static bool add_top(struct line *line, const struct mw_blocks *blocks,
                    const struct mw_block_field *field)
{
    unsigned share = percent(field->top_count, field->count);
    if (field->top == 0 || field->top_count < 2 || share < TOP_PERCENT ||
        !mw_blocks_show_top(blocks, field))
        return false;
    line_add(line, "%s%u%% ", line->used ? "; " : "", share);
    add_number(line, field->top);
    add_names(line, field);
    return share >= NEARLY_ALL_PERCENT;
}

/* A range of doubles is written as such. */
static void add_range(struct line *line, const struct mw_block_field *field)
{
    double min, max;
    if (field->kind == MW_WORD_SMALL_INT) {
        add_number(line, field->min);
        line_add(line, " to ");
        add_number(line, field->max);
    } else if (field->kind == MW_WORD_FLOAT) {
        memcpy(&min, &field->min, sizeof min); /* ordered as unsigned numbers: not negative ones */
        memcpy(&max, &field->max, sizeof max);
        if (min >= 0 && max >= 0)
            line_add(line, "%g to %g", min, max);
    }
}

static void constant_value(struct line *line, const struct mw_blocks *blocks,
                           const struct mw_block_field *field)
{
    if (!mw_blocks_show_constant(blocks, field)) {
        line_add(line, "constant, not shown without --contents");
    } else if (field->kind == MW_WORD_TEXT) {
        add_text(line, field->min);
    } else {
        add_number(line, field->min);
        add_names(line, field);
    }
}

static void field_value(struct line *line, const struct mw_blocks *blocks,
                        const struct mw_block_field *field)
{
    *line = (struct line){0};
    bool is_pointer = mw_word_kind_is_pointer(field->kind);
    if (field->count == 0) {
        line_add(line, "could not be read");
    } else if (field->kind == MW_WORD_ZERO || field->kind == MW_WORD_RANDOM) {
        return; /* the kind says it */
    } else if (mw_field_is_constant(field)) {
        constant_value(line, blocks, field);
    } else {
        if (mw_blocks_show_range(blocks, field))
            add_range(line, field);
        if (!add_top(line, blocks, field) &&
            (!mw_field_is_pure(field) || (is_pointer && field->classes[MW_VALUE_ZERO] > 0)))
            add_classes(line, field);
        if (field->kind != MW_WORD_TEXT && !is_pointer)
            add_parts(line, blocks, field);
    }
}

/* May b be told in the line of a, which says `first`? Mixed ones are alike in little. */
static bool is_alike(const struct mw_blocks *blocks, const struct mw_block_field *a,
                     const struct line *first, const struct mw_block_field *b)
{
    struct line line;
    if (a->kind != b->kind || (a->count == 0) != (b->count == 0))
        return false;
    if (a->kind == MW_WORD_ZERO)
        return true;
    if (mw_field_is_constant(a) != mw_field_is_constant(b))
        return false;
    field_value(&line, blocks, b);
    return strcmp(first->text, line.text) == 0;
}

/* Fields from here on that are told in one line; *line is what it says of them. */
static size_t run_length(const struct mw_blocks *blocks, size_t first, struct line *line)
{
    const struct mw_fields *fields = &blocks->fields;
    size_t last = first + 1;
    field_value(line, blocks, &fields->items[first]);
    while (last < fields->count &&
           is_alike(blocks, &fields->items[first], line, &fields->items[last]))
        last++;
    bool folds = last - first >= FOLD_MIN || fields->items[first].kind == MW_WORD_ZERO;
    return folds ? last - first : 1;
}

static void put_distinct(struct mw_text *text, const struct mw_block_field *fields, size_t count)
{
    char cell[80], number[32], other[32];
    uint64_t least = UINT64_MAX, most = 0;
    bool is_more = false;
    for (size_t i = 0; i < count; i++) {
        least = fields[i].distinct < least ? fields[i].distinct : least;
        most = fields[i].distinct > most ? fields[i].distinct : most;
        is_more |= fields[i].distinct_is_lower_bound;
    }
    if (least == most)
        snprintf(cell, sizeof cell, "%s%s", is_more ? ">" : "", mw_count_format(number, most));
    else
        snprintf(cell, sizeof cell, "%s to %s%s", mw_count_format(number, least),
                 is_more ? ">" : "", mw_count_format(other, most));
    mw_text_put_right(text, DISTINCT_END, cell);
}

static void put_field_lines(struct blocks_screen *screen)
{
    const struct mw_fields *fields = &screen->blocks->fields;
    struct mw_text *text = screen->text;
    size_t at = 0, lines = 0;
    for (size_t run; at < fields->count && lines < LINES_MAX && !mw_text_failed(text); at += run) {
        lines++;
        const struct mw_block_field *field = &fields->items[at];
        struct line line;
        run = run_length(screen->blocks, at, &line);
        mw_text_pad(text, 2);
        if (run > 1)
            mw_text_printf(text, MW_STYLE_PLAIN, "0x%" PRIx64 "..0x%" PRIx64, field->offset,
                           field->offset + 8 * run);
        else
            mw_text_printf(text, MW_STYLE_PLAIN, "0x%" PRIx64, field->offset);
        mw_text_pad(text, KIND_COLUMN);
        mw_text_put(text, MW_STYLE_PLAIN, mw_word_kind_name(field->kind));
        put_distinct(text, field, run);
        if (line.used) {
            mw_text_pad(text, VALUE_COLUMN);
            mw_text_wrap(text, VALUE_COLUMN, 0, MW_STYLE_PLAIN, line.text);
        }
        mw_text_newline(text);
    }
    char left[32];
    if (at < fields->count) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  and %s more words: --json has them all",
                       mw_count_format(left, fields->count - at));
        mw_text_newline(text);
    }
}

static void put_fields(struct blocks_screen *screen)
{
    const struct mw_fields *fields = &screen->blocks->fields;
    struct mw_text *text = screen->text;
    char count[32], usable[32], size[32];
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "FIELDS");
    mw_text_printf(text, MW_STYLE_PLAIN, "  of %s block%s of %s usable bytes (chunk %s)",
                   mw_count_format(count, fields->block_count), fields->block_count == 1 ? "" : "s",
                   mw_count_format(usable, fields->usable_bytes),
                   mw_count_format(size, fields->size_bytes));
    mw_text_newline(text);
    mw_text_pad(text, 2);
    mw_text_put(text, MW_STYLE_PLAIN, "offset");
    mw_text_pad(text, KIND_COLUMN);
    mw_text_put(text, MW_STYLE_PLAIN, "kind");
    mw_text_put_right(text, DISTINCT_END, "distinct");
    mw_text_pad(text, VALUE_COLUMN);
    mw_text_put(text, MW_STYLE_PLAIN, "constant, range or what most are");
    mw_text_newline(text);
    put_field_lines(screen);
}

/* ---- repeated text ---- */

static void string_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct blocks_screen *screen = user;
    const struct mw_string_row *row = &screen->blocks->strings.rows[index];
    static const char hidden[] = "";
    mw_text_cell_count(&cells[0], row->count);
    mw_count_format(cells[1].text, row->length_bytes);
    mw_text_cell_bytes(&cells[2], screen->text->unit, mw_string_wasted_bytes(row));
    snprintf(cells[3].text, MW_TEXT_CELL_BYTES, "0x%" PRIx64, row->sample_block);
    size_t length = screen->blocks->texts[index].length;
    length = length < MW_TEXT_CELL_BYTES - 1 ? length : MW_TEXT_CELL_BYTES - 1;
    cells[4].long_text = length ? NULL : hidden;
    memcpy(cells[4].text, screen->blocks->texts[index].text, length);
}

static void put_strings(struct blocks_screen *screen, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(block_string, count), NULL, false},
        {MW_F(block_string, length_bytes), NULL, false},
        {MW_F(block_string, wasted_bytes), NULL, false},
        {MW_F(block_string, sample_address), NULL, false},
        {MW_F(block_string, text), NULL, true},
    };
    const struct mw_strings *strings = &screen->blocks->strings;
    struct mw_text *text = screen->text;
    char count[32], bytes[32], wasted[32];
    struct mw_unit unit = text->unit; /* of the screen: here figures are smaller */
    text->unit = mw_unit_for(strings->wasted_bytes);
    const char *least = strings->is_lower_bound ? "at least " : "";
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "TEXT");
    mw_text_printf(text, MW_STYLE_PLAIN, "  %s blocks (%s %s) hold text, %s%s %s of it repeated",
                   mw_count_format(count, strings->text_count),
                   mw_unit_format(bytes, text->unit, strings->text_bytes), text->unit.name, least,
                   mw_unit_format(wasted, text->unit, strings->wasted_bytes), text->unit.name);
    mw_text_newline(text);
    if (!screen->blocks->options.contents && max > HIDDEN_TEXTS)
        max = HIDDEN_TEXTS; /* counts and addresses say little of many */
    size_t shown = strings->row_count < max ? strings->row_count : max;
    if (shown > 0 && strings->wasted_bytes >= TEXT_WASTE_MIN)
        mw_text_table(text, &(struct mw_text_table){
                                .columns = columns,
                                .column_count = sizeof columns / sizeof *columns -
                                                (screen->blocks->options.contents ? 0 : 1),
                                .row_count = shown,
                                .row = string_cells,
                                .user = screen,
                                .indent = 2,
                            });
    text->unit = unit;
}

/* ---- the screen ---- */

static void put_no_such_size(struct mw_text *text, const struct mw_blocks *blocks)
{
    char line[200];
    uint64_t wanted = blocks->options.size_bytes;
    bool was_requested = wanted % 16 == 0 && mw_block_groups_find(&blocks->groups, wanted + 8);
    snprintf(line, sizeof line,
             was_requested ? "no block in use has a chunk of %" PRIu64
                             " bytes; what malloc gives for a "
                             "request of that many has %" PRIu64 " usable bytes: --size %" PRIu64
                           : "no block in use has a chunk of %" PRIu64 " bytes",
             mw_block_size_of(wanted, 8), wanted + 8, wanted + 8);
    mw_text_newline(text);
    mw_text_wrap(text, 0, 0, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void put_next(struct mw_text *text, const struct mw_blocks *blocks, const char *target)
{
    const struct mw_screen_word word = mw_screen_word(target);
    const struct mw_block_group *group =
        blocks->chosen ? blocks->chosen : mw_block_groups_main(&blocks->groups);
    char command[MW_SCREEN_COMMAND_BYTES];
    mw_text_put(text, MW_STYLE_BOLD, "NEXT");
    if (group && (blocks->fields.count == 0 || !blocks->options.size_bytes)) {
        snprintf(command, sizeof command, "memwhy blocks %s --size %" PRIu64 "%s", word.text,
                 group->usable_bytes, blocks->fields.count ? " --list" : " --fields");
        mw_screen_command(text, command,
                          blocks->fields.count ? "where these blocks are"
                                               : "what the words of these blocks have in common");
    } else if (group) {
        snprintf(command, sizeof command, "memwhy blocks %s --size %" PRIu64 " --list", word.text,
                 group->usable_bytes);
        mw_screen_command(text, command, "where these blocks are");
    }
    snprintf(command, sizeof command, "memwhy leaks %s", word.text);
    mw_screen_command(text, command, "which of them nothing points to");
    mw_screen_next_of_stdin(text, target);
}

enum mw_status mw_report_blocks_text(const struct mw_analysis *analysis,
                                     const struct mw_blocks *blocks,
                                     const struct mw_report_text_options *options,
                                     struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    struct blocks_screen screen = {&text, blocks};
    mw_text_init(&text, sink, options->look);
    text.unit = mw_unit_for(blocks->groups.bytes);
    mw_screen_title(&text, analysis, "blocks", options->target);
    if (analysis->heap_was_read) {
        if (blocks->options.size_bytes && !blocks->chosen)
            put_no_such_size(&text, blocks);
        else if (blocks->groups.count > 0)
            put_groups(&screen, options->count_max);
        if (blocks->fields.count > 0)
            put_fields(&screen);
        if (blocks->has_strings && blocks->strings.text_count > 0)
            put_strings(&screen, options->count_max);
    } else if (!analysis->is_partial) {
        mw_text_newline(&text);
        mw_text_put(&text, MW_STYLE_PLAIN, "no allocator that memwhy can walk is in this target");
        mw_text_newline(&text);
    }
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    mw_screen_notes(&text, analysis);
    if (mw_screen_walked(analysis))
        put_next(&text, blocks, options->target);
    else
        mw_screen_next_without_heap(&text, options->target);
    return mw_text_finish(&text, err);
}

enum mw_status mw_report_blocks_list(const struct mw_blocks *blocks, uint64_t list_max,
                                     struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    struct mw_block_cursor cursor;
    struct mw_listed_block block;
    mw_text_init(&text, sink, (struct mw_text_look){.width = 100});
    mw_block_cursor_init(&cursor, &blocks->list, blocks->chosen ? blocks->chosen->size_bytes : 0);
    for (uint64_t i = 0; i < list_max && !mw_text_failed(&text); i++) {
        if (!mw_block_cursor_next(&cursor, &block))
            break;
        mw_text_printf(&text, MW_STYLE_PLAIN, "0x%" PRIx64 " %" PRIu64, block.start,
                       block.size_bytes);
        mw_text_newline(&text);
    }
    return mw_text_finish(&text, err);
}
