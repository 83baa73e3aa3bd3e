/* report/where.c: the account as a table for people: categories joined into rows, rounded so that
 * the figures that are printed sum to the total that is printed (largest remainders). */
#include "report/screen.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum where_group {
    WHERE_IN_USE,
    WHERE_FREE,
    WHERE_METADATA,
    WHERE_UNSPLIT,
    WHERE_MANAGED,
    WHERE_RUNTIME,
    WHERE_STACKS,
    WHERE_FILES,
    WHERE_SHARED,
    WHERE_DEVICE,
    WHERE_ALIAS,
    WHERE_OTHER,
    WHERE_UNKNOWN,
    WHERE_COUNT,
};

static const char *const group_labels[WHERE_COUNT] = {
    [WHERE_IN_USE] = "malloc in use",     [WHERE_FREE] = "malloc free",
    [WHERE_METADATA] = "malloc metadata", [WHERE_UNSPLIT] = "malloc, not split",
    [WHERE_MANAGED] = "managed heap",     [WHERE_RUNTIME] = "runtime code+meta",
    [WHERE_STACKS] = "thread stacks",     [WHERE_FILES] = "file maps",
    [WHERE_SHARED] = "shared memory",     [WHERE_DEVICE] = "device memory",
    [WHERE_ALIAS] = "mapped twice",       [WHERE_OTHER] = "anonymous, other",
    [WHERE_UNKNOWN] = "unknown",
};

static const enum where_group group_of[MW_CATEGORY_COUNT] = {
    [MW_CATEGORY_MANAGED_HEAP] = WHERE_MANAGED,
    [MW_CATEGORY_MANAGED_CODE] = WHERE_RUNTIME,
    [MW_CATEGORY_MANAGED_METADATA] = WHERE_RUNTIME,
    [MW_CATEGORY_MALLOC_IN_USE] = WHERE_IN_USE,
    [MW_CATEGORY_MALLOC_FREE] = WHERE_FREE,
    [MW_CATEGORY_MALLOC_METADATA] = WHERE_METADATA,
    [MW_CATEGORY_MALLOC_UNSPLIT] = WHERE_UNSPLIT,
    [MW_CATEGORY_STACK_MAIN] = WHERE_STACKS,
    [MW_CATEGORY_STACK_THREADS] = WHERE_STACKS,
    [MW_CATEGORY_FILE_TEXT] = WHERE_FILES,
    [MW_CATEGORY_FILE_DATA] = WHERE_FILES,
    [MW_CATEGORY_FILE_MAPPED] = WHERE_FILES,
    [MW_CATEGORY_SHARED_MEMORY] = WHERE_SHARED,
    [MW_CATEGORY_DEVICE] = WHERE_DEVICE,
    [MW_CATEGORY_ALIAS] = WHERE_ALIAS,
    [MW_CATEGORY_ANON_OTHER] = WHERE_OTHER,
    [MW_CATEGORY_UNKNOWN] = WHERE_UNKNOWN,
};

static uint64_t row_bytes(const struct mw_account *account, const struct mw_account_row *row)
{
    return account->has_rss ? row->rss_bytes : row->size_bytes;
}

uint64_t mw_where_total(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    return account->has_rss ? account->rss_bytes : account->size_bytes;
}

const char *mw_where_total_name(const struct mw_analysis *analysis)
{
    if (!analysis->account.has_rss)
        return "mapped";
    return mw_finding_find(&analysis->findings, "core-rss-anonymous") ? "anonymous RSS" : "RSS";
}

/* bytes in steps of the last decimal that the unit prints: 10^decimals per unit. */
static unsigned long steps_per_unit(struct mw_unit unit)
{
    unsigned long steps = 1;
    for (int i = 0; i < unit.decimals; i++)
        steps *= 10;
    return steps;
}

/* The steps that mw_unit_format() shows for bytes: its digits, without comma and point. */
static uint64_t shown_steps(struct mw_unit unit, uint64_t bytes)
{
    char text[32];
    uint64_t steps = 0;
    for (const char *at = mw_unit_format(text, unit, bytes); *at; at++)
        if (*at >= '0' && *at <= '9')
            steps = steps * 10 + (uint64_t)(*at - '0');
    return steps;
}

/* A pasted text may claim any number; a figure stops at the largest that is one. */
static uint64_t whole_of(double value)
{
    return value < 0x1p63 ? (uint64_t)value : (uint64_t)1 << 63;
}

/* Round every group down to a step, then give the steps that the total still lacks to the largest
 * remainders. At most one step each, since the remainders sum to less than their number. */
static void round_groups(struct mw_unit unit, const uint64_t bytes[WHERE_COUNT], uint64_t total,
                         uint64_t printed_out[WHERE_COUNT])
{
    unsigned long per_unit = steps_per_unit(unit);
    uint64_t steps[WHERE_COUNT], sum = 0;
    double rest[WHERE_COUNT];
    for (size_t i = 0; i < WHERE_COUNT; i++) {
        double exact = (double)bytes[i] * (double)per_unit / (double)unit.bytes;
        steps[i] = whole_of(exact);
        rest[i] = exact - (double)steps[i];
        sum += steps[i];
    }
    uint64_t wanted = shown_steps(unit, total);
    for (size_t given = 0; sum < wanted && given < WHERE_COUNT; given++, sum++) {
        size_t best = 0;
        for (size_t i = 1; i < WHERE_COUNT; i++)
            if (rest[i] > rest[best])
                best = i;
        steps[best]++;
        rest[best] = -1;
    }
    for (size_t i = 0; i < WHERE_COUNT; i++)
        printed_out[i] = whole_of((double)steps[i] * (double)unit.bytes / (double)per_unit + 0.5);
}

static void note_bytes(char note[48], struct mw_unit unit, uint64_t bytes, const char *word)
{
    char figure[32];
    if (bytes != MW_UNKNOWN && bytes >= unit.bytes / 10)
        snprintf(note, 48, "%s %s", mw_unit_format(figure, unit, bytes), word);
}

/* "137.3 leaked", with a question mark while it is a hypothesis. */
static void note_leaked(char note[48], const struct mw_verdicts *verdicts, struct mw_unit unit)
{
    uint64_t bytes = 0;
    bool is_sure = true;
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        if (verdict->verdict_class != MW_CLASS_LEAKED || verdict->part_of)
            continue;
        bytes += verdict->bytes;
        is_sure = is_sure && verdict->basis != MW_BASIS_POSSIBLE;
    }
    note_bytes(note, unit, bytes, is_sure ? "leaked" : "leaked?");
}

static uint64_t trimmable_bytes(const struct mw_analysis *analysis)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].trimmable_bytes != MW_UNKNOWN)
            bytes += analysis->allocators[i].trimmable_bytes;
    return bytes;
}

static void note_allocator(char note[48], const struct mw_analysis *analysis)
{
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        if (analysis->allocators[i].walked)
            continue;
        snprintf(note, 48, "%s", analysis->allocators[i].kind);
        return;
    }
}

static void note_files(char note[48], const struct mw_analysis *analysis, struct mw_unit unit,
                       uint64_t bytes)
{
    uint64_t clean = analysis->account.file_clean_bytes;
    if (clean == MW_UNKNOWN)
        return;
    if (clean >= bytes)
        snprintf(note, 48, "clean");
    else
        note_bytes(note, unit, clean, "clean");
}

/* Threads as the process has them, or as many as there are stacks. */
static void note_threads(char note[48], const struct mw_analysis *analysis)
{
    const struct mw_account_row *rows = analysis->account.rows;
    uint64_t threads = analysis->image.process.thread_count;
    char figure[32];
    if (threads == MW_UNKNOWN)
        threads = rows[MW_CATEGORY_STACK_THREADS].count + rows[MW_CATEGORY_STACK_MAIN].count;
    if (threads > 0)
        snprintf(note, 48, "%s thread%s", mw_count_format(figure, threads),
                 threads == 1 ? "" : "s");
}

/* Was a sample of an allocator's arenas read? *margin_out is by how much its figures may be off. */
static bool is_sampled(const struct mw_analysis *analysis, uint64_t *margin_out)
{
    bool sampled = false;
    *margin_out = 0;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        sampled = sampled || analysis->allocators[i].sampled_count > 0;
        *margin_out += analysis->allocators[i].in_use_margin_bytes;
    }
    return sampled;
}

/* What is printed: "~" marks an estimate. */
static const char *row_figure(char figure[40], const struct mw_where_row *row, struct mw_unit unit)
{
    char digits[32];
    snprintf(figure, 40, "%s%s", row->is_estimate ? "~" : "",
             mw_unit_format(digits, unit, row->printed));
    return figure;
}

static void where_estimate(struct mw_where_row *row, enum where_group group,
                           const struct mw_analysis *analysis, struct mw_unit unit)
{
    uint64_t margin;
    char figure[32], note[48];
    row->is_estimate = (group == WHERE_IN_USE || group == WHERE_FREE) && row->bytes > 0 &&
                       is_sampled(analysis, &margin);
    if (!row->is_estimate)
        return;
    memcpy(note, row->note, sizeof note);
    const char *between = !note[0] ? "" : group == WHERE_FREE ? ", ~" : ", ";
    snprintf(row->note, sizeof row->note, "± %s%s%.28s", mw_unit_format(figure, unit, margin),
             between, note);
}

static void where_note(char note[48], enum where_group group, const struct mw_analysis *analysis,
                       struct mw_unit unit, uint64_t bytes)
{
    switch (group) {
    case WHERE_IN_USE:
        note_leaked(note, &analysis->verdicts, unit);
        break;
    case WHERE_FREE:
        note_bytes(note, unit, trimmable_bytes(analysis), "trimmable");
        break;
    case WHERE_UNSPLIT:
        note_allocator(note, analysis);
        break;
    case WHERE_MANAGED:
        if (analysis->runtime_count == 1)
            note_bytes(note, unit, analysis->runtimes[0].heap_committed, "committed");
        break;
    case WHERE_STACKS:
        note_threads(note, analysis);
        break;
    case WHERE_FILES:
        note_files(note, analysis, unit, bytes);
        break;
    default:
        break;
    }
}

static int by_bytes_descending(const void *a, const void *b)
{
    uint64_t left = ((const struct mw_where_row *)a)->bytes;
    uint64_t right = ((const struct mw_where_row *)b)->bytes;
    return (left < right) - (left > right);
}

size_t mw_where_rows(const struct mw_analysis *analysis, struct mw_unit unit,
                     struct mw_where_row rows[MW_WHERE_ROWS_MAX], struct mw_where_row *unknown_out)
{
    const struct mw_account *account = &analysis->account;
    uint64_t bytes[WHERE_COUNT] = {0}, printed[WHERE_COUNT];
    size_t count = 0;
    _Static_assert((int)WHERE_COUNT <= (int)MW_WHERE_ROWS_MAX, "room for each group");
    for (size_t i = 0; i < MW_CATEGORY_COUNT; i++)
        bytes[group_of[account->rows[i].category]] += row_bytes(account, &account->rows[i]);
    round_groups(unit, bytes, mw_where_total(analysis), printed);
    for (int group = 0; group < WHERE_COUNT; group++) {
        struct mw_where_row row = {.label = group == WHERE_MANAGED ? mw_screen_heap_name(analysis)
                                                                   : group_labels[group],
                                   .bytes = bytes[group],
                                   .printed = printed[group]};
        where_note(row.note, (enum where_group)group, analysis, unit, bytes[group]);
        where_estimate(&row, (enum where_group)group, analysis, unit);
        if (group == WHERE_UNKNOWN)
            *unknown_out = row;
        else if (row.bytes > 0)
            rows[count++] = row;
    }
    qsort(rows, count, sizeof *rows, by_bytes_descending);
    return count;
}

static unsigned percent(uint64_t bytes, uint64_t total)
{
    return total == 0 ? 0 : (unsigned)((double)bytes * 100 / (double)total + 0.5);
}

struct where_layout {
    unsigned label, figure; /* widths */
    unsigned end;           /* of a half, counted from its start */
};

static void layout_add(struct where_layout *layout, const struct mw_where_row *row,
                       struct mw_unit unit)
{
    char figure[40];
    unsigned label = mw_text_width(row->label);
    unsigned wide = mw_text_width(row_figure(figure, row, unit));
    layout->label = label > layout->label ? label : layout->label;
    layout->figure = wide > layout->figure ? wide : layout->figure;
}

/* Of some rows, and of one more whose note does not count (NULL: none). */
static struct where_layout layout_of(const struct mw_where_row *rows, size_t count,
                                     const struct mw_where_row *more, struct mw_unit unit)
{
    struct where_layout layout = {0};
    unsigned note = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned noted = mw_text_width(rows[i].note);
        layout_add(&layout, &rows[i], unit);
        note = noted > note ? noted : note;
    }
    if (more)
        layout_add(&layout, more, unit);
    layout.end = layout.label + 2 + layout.figure + 4 + (note ? 2 + note : 0);
    return layout;
}

static void put_where_row(struct mw_text *text, unsigned start, struct where_layout layout,
                          const struct mw_where_row *row, uint64_t total)
{
    char figure[40];
    row_figure(figure, row, text->unit);
    unsigned figure_end = start + layout.label + 2 + layout.figure;
    mw_text_pad(text, start);
    mw_text_put(text, MW_STYLE_PLAIN, row->label);
    mw_text_put_right(text, figure_end, figure);
    mw_text_pad(text, figure_end + 1);
    mw_text_printf(text, MW_STYLE_PLAIN, "%3u", percent(row->bytes, total));
    if (row->note[0]) {
        mw_text_pad(text, figure_end + 6);
        mw_text_put(text, MW_STYLE_PLAIN, row->note);
    }
}

static void put_where_heading(struct mw_text *text, unsigned start, struct where_layout layout)
{
    unsigned figure_end = start + layout.label + 2 + layout.figure;
    mw_text_put_right(text, figure_end, text->unit.name);
    mw_text_pad(text, figure_end + 3);
    mw_text_put(text, MW_STYLE_PLAIN, "%");
}

/* The last row: always there, and says what would settle it. */
static void put_unknown(struct mw_text *text, struct where_layout layout,
                        const struct mw_analysis *analysis, const char *target,
                        struct mw_where_row *row)
{
    uint64_t total = mw_where_total(analysis);
    unsigned note_column = MW_SCREEN_LABEL_COLUMN + layout.label + 2 + layout.figure + 6;
    char count[32], note[MW_SCREEN_COMMAND_BYTES + 64];
    row->note[0] = '\0';
    put_where_row(text, MW_SCREEN_LABEL_COLUMN, layout, row, total);
    mw_text_pad(text, note_column);
    if (row->bytes == 0)
        snprintf(note, sizeof note, "everything has an owner");
    else if (row->bytes < total / 100 || row->bytes < 256u << 10)
        snprintf(note, sizeof note, "too small to matter");
    else
        snprintf(note, sizeof note, "%s mapping%s; to settle it: memwhy maps %s --unknown",
                 mw_count_format(count, analysis->account.unknown_mappings),
                 analysis->account.unknown_mappings == 1 ? "" : "s", mw_screen_word(target).text);
    mw_text_wrap(text, note_column, 0, MW_STYLE_PLAIN, note);
    mw_text_newline(text);
}

void mw_screen_where(struct mw_text *text, const struct mw_analysis *analysis,
                     const struct mw_report_text_options *options)
{
    struct mw_where_row rows[MW_WHERE_ROWS_MAX], unknown;
    uint64_t total = mw_where_total(analysis);
    size_t count = mw_where_rows(analysis, text->unit, rows, &unknown);
    size_t left_count = (count + 1) / 2;
    struct where_layout left = layout_of(rows, left_count, &unknown, text->unit);
    struct where_layout right = layout_of(rows + left_count, count - left_count, NULL, text->unit);
    unsigned right_start = MW_SCREEN_LABEL_COLUMN + left.end + 3;
    bool two = count > 3 && right_start + right.end <= text->look.width;
    if (!two) {
        left_count = count;
        left = layout_of(rows, count, &unknown, text->unit);
    }
    mw_text_put(text, MW_STYLE_BOLD, "WHERE");
    put_where_heading(text, MW_SCREEN_LABEL_COLUMN, left);
    if (two)
        put_where_heading(text, right_start, right);
    mw_text_newline(text);
    for (size_t i = 0; i < left_count; i++) {
        put_where_row(text, MW_SCREEN_LABEL_COLUMN, left, &rows[i], total);
        if (two && left_count + i < count)
            put_where_row(text, right_start, right, &rows[left_count + i], total);
        mw_text_newline(text);
    }
    put_unknown(text, left, analysis, options->target, &unknown);
}
