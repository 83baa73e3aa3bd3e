/* report/maps_text.c: the table of `memwhy maps`, in KiB: mappings are whole pages, so every figure
 * is exact. Columns that would be empty in all rows are left out. */
#include "report/screen.h"

#include "base/alloc.h"
#include "report/maps.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct maps_screen {
    struct mw_text *text;
    const struct mw_analysis *analysis;
    size_t *rows; /* indices of pieces, in the order in which they are shown */
    size_t count;
    enum mw_field fields[MW_TEXT_COLUMNS_MAX];
    size_t field_count;
};

static uint64_t piece_figure(const struct mw_account *account, const struct mw_account_piece *piece,
                             enum mw_field field)
{
    switch ((int)field) {
    case MW_F(mapping, size_bytes):
        return piece->end - piece->start;
    case MW_F(mapping, rss_bytes):
        return account->has_rss ? piece->rss_bytes : MW_UNKNOWN;
    case MW_F(mapping, pss_bytes):
        return account->has_pss ? piece->pss_bytes : MW_UNKNOWN;
    case MW_F(mapping, swap_bytes):
        return account->has_swap ? piece->swap_bytes : MW_UNKNOWN;
    case MW_F(mapping, anon_huge_bytes):
        return account->has_rss ? piece->anon_huge_bytes : MW_UNKNOWN;
    default:
        assert(false && "a column without a figure");
        return MW_UNKNOWN;
    }
}

static void piece_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct maps_screen *screen = user;
    const struct mw_account *account = &screen->analysis->account;
    const struct mw_account_piece *piece = &account->pieces[screen->rows[index]];
    const struct mw_mapping *map = mw_maps_region(screen->analysis, piece);
    for (size_t i = 0; i < screen->field_count; i++) {
        switch ((int)screen->fields[i]) {
        case MW_F(mapping, start):
            snprintf(cells[i].text, MW_TEXT_CELL_BYTES, "%012llx",
                     (unsigned long long)piece->start);
            break;
        case MW_F(mapping, perms):
            mw_maps_perms_format(cells[i].text, map->perms);
            break;
        case MW_F(mapping, category):
            cells[i].long_text = mw_category_id(piece->category);
            break;
        case MW_F(mapping, owner):
            cells[i].long_text = piece->owner[0] ? piece->owner : "-";
            break;
        case MW_F(mapping, name):
            cells[i].long_text = map->name;
            break;
        default:
            mw_text_cell_bytes(&cells[i], screen->text->unit,
                               piece_figure(account, piece, screen->fields[i]));
        }
    }
}

static bool any_piece_has(const struct maps_screen *screen, enum mw_field field)
{
    const struct mw_account *account = &screen->analysis->account;
    for (size_t i = 0; i < screen->count; i++) {
        uint64_t figure = piece_figure(account, &account->pieces[screen->rows[i]], field);
        if (figure != 0 && figure != MW_UNKNOWN)
            return true;
    }
    return false;
}

static void fields_choose(struct maps_screen *screen)
{
    static const enum mw_field optional[] = {MW_F(mapping, rss_bytes), MW_F(mapping, pss_bytes),
                                             MW_F(mapping, swap_bytes),
                                             MW_F(mapping, anon_huge_bytes)};
    screen->fields[screen->field_count++] = MW_F(mapping, start);
    screen->fields[screen->field_count++] = MW_F(mapping, perms);
    screen->fields[screen->field_count++] = MW_F(mapping, size_bytes);
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (any_piece_has(screen, optional[i]))
            screen->fields[screen->field_count++] = optional[i];
    screen->fields[screen->field_count++] = MW_F(mapping, category);
    screen->fields[screen->field_count++] = MW_F(mapping, owner);
    screen->fields[screen->field_count++] = MW_F(mapping, name);
}

static void put_sums(struct maps_screen *screen)
{
    const struct mw_account *account = &screen->analysis->account;
    char rss[32], size[32];
    uint64_t rss_sum = 0, size_sum = 0;
    for (size_t i = 0; i < screen->count; i++) {
        const struct mw_account_piece *piece = &account->pieces[screen->rows[i]];
        size_sum += piece->end - piece->start;
        rss_sum += account->has_rss ? piece->rss_bytes : 0;
    }
    mw_text_printf(screen->text, MW_STYLE_PLAIN, "%zu rows, size %s KiB", screen->count,
                   mw_unit_format(size, screen->text->unit, size_sum));
    if (account->has_rss)
        mw_text_printf(screen->text, MW_STYLE_PLAIN, ", %s %s KiB",
                       mw_where_total_name(screen->analysis),
                       mw_unit_format(rss, screen->text->unit, rss_sum));
    mw_text_newline(screen->text);
}

static void put_table(struct maps_screen *screen)
{
    struct mw_text_column columns[MW_TEXT_COLUMNS_MAX];
    fields_choose(screen);
    for (size_t i = 0; i < screen->field_count; i++)
        columns[i] = (struct mw_text_column){screen->fields[i], NULL,
                                             screen->fields[i] == MW_F(mapping, name)};
    mw_text_newline(screen->text);
    mw_text_table(screen->text, &(struct mw_text_table){
                                    .columns = columns,
                                    .column_count = screen->field_count,
                                    .row_count = screen->count,
                                    .row = piece_cells,
                                    .user = screen,
                                });
    put_sums(screen);
}

/* What would tell an owner of anonymous memory that nobody claims. */
static void put_settle(struct mw_text *text, const struct mw_analysis *analysis)
{
    mw_text_newline(text);
    mw_text_wrap(text, 0, 0, MW_STYLE_PLAIN,
                 analysis->heap_was_read || analysis->image.kind == MW_IMAGE_SMAPS
                     ? "Nobody that memwhy knows claims these. To settle it: name them in the "
                       "program (prctl PR_SET_VMA_ANON_NAME), or see who maps them: strace -f -e "
                       "trace=mmap,brk -p PID, perf trace -e mmap -p PID."
                     : "Without reading memory heaps cannot be told from other anonymous memory: "
                       "memwhy doctor says how to get the right.");
    mw_text_newline(text);
}

static int by_rss_descending(const void *a, const void *b, void *user)
{
    const struct mw_account *account = user;
    const struct mw_account_piece *left = &account->pieces[*(const size_t *)a];
    const struct mw_account_piece *right = &account->pieces[*(const size_t *)b];
    uint64_t left_key = account->has_rss ? left->rss_bytes : left->end - left->start;
    uint64_t right_key = account->has_rss ? right->rss_bytes : right->end - right->start;
    if (left_key != right_key)
        return left_key < right_key ? 1 : -1;
    return (left->start > right->start) - (left->start < right->start);
}

enum mw_status mw_report_maps_text(const struct mw_analysis *analysis, bool only_unknown,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err)
{
    const struct mw_account *account = &analysis->account;
    struct mw_text text;
    struct maps_screen screen = {.text = &text, .analysis = analysis};
    screen.rows = mw_calloc(account->piece_count, sizeof *screen.rows);
    if (!screen.rows)
        return mw_fail(err, MW_NOMEM, "out of memory for the table of mappings");
    for (size_t i = 0; i < account->piece_count; i++)
        if (!only_unknown || account->pieces[i].category == MW_CATEGORY_UNKNOWN)
            screen.rows[screen.count++] = i;
    if (only_unknown)
        qsort_r(screen.rows, screen.count, sizeof *screen.rows, by_rss_descending, (void *)account);
    mw_text_init(&text, sink, options->look);
    text.unit = (struct mw_unit){"KiB", 1024, 0};
    mw_screen_title(&text, analysis, "maps", options->target);
    if (screen.count > 0) {
        put_table(&screen);
        if (only_unknown)
            put_settle(&text, analysis);
    } else {
        mw_text_put(&text, MW_STYLE_PLAIN,
                    only_unknown ? "every mapping has an owner" : "no mappings");
        mw_text_newline(&text);
    }
    free(screen.rows);
    return mw_text_finish(&text, err);
}
