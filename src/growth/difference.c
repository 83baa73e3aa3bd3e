/* growth/difference.c: joining moments by category, size and kind.
 *
 * Each moment gives rows of one column; all are sorted by what and id, and rows alike are joined.
 * O(n log n) in rows; blocks are compared by two cursors in step. */
#include "growth/difference.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column { BEFORE, AFTER, CONTROL_BEFORE, CONTROL_AFTER, COLUMNS };

static struct mw_growth_figures *figures_of(struct mw_growth_row *row, enum column column)
{
    struct mw_growth_figures *const all[COLUMNS] = {&row->before, &row->after, &row->control_before,
                                                    &row->control_after};
    return all[column];
}

struct rows {
    MW_VEC(struct mw_growth_row) vec;
    enum column column;
    bool is_mapped; /* categories by what is mapped: some moment has no residency */
};

static enum mw_status row_add(struct rows *rows, enum mw_growth_what what, const char *id,
                              const struct mw_growth_figures *figures)
{
    struct mw_growth_row row = {.what = what, .survived_count = MW_UNKNOWN};
    snprintf(row.id, sizeof row.id, "%s", id);
    *figures_of(&row, rows->column) = *figures;
    return mw_vec_push(&rows->vec, SIZE_MAX / sizeof row, row);
}

static enum mw_status categories_add(struct rows *rows, const struct mw_moment *moment)
{
    enum mw_status status = MW_OK;
    for (int i = 0; i < MW_CATEGORY_COUNT && status == MW_OK; i++) {
        const struct mw_growth_figures figures = {rows->is_mapped
                                                      ? moment->categories[i].mapped_bytes
                                                      : moment->categories[i].resident_bytes,
                                                  moment->categories[i].count, MW_UNKNOWN};
        if (figures.bytes > 0)
            status =
                row_add(rows, MW_GROWTH_CATEGORY, mw_category_id((enum mw_category)i), &figures);
    }
    return status;
}

/* Kinds are ascending by size: those of one size are side by side. */
static uint64_t size_lost(const struct mw_moment *moment, uint64_t size_bytes)
{
    uint64_t lost = 0;
    size_t low = 0, high = moment->kind_count;
    if (!moment->knows_lost)
        return MW_UNKNOWN;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (moment->kinds[middle].size_bytes < size_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < moment->kind_count && moment->kinds[low].size_bytes == size_bytes; low++)
        lost += moment->kinds[low].lost_count;
    return lost;
}

static enum mw_status sizes_add(struct rows *rows, const struct mw_moment *moment)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < moment->sizes.count && status == MW_OK; i++) {
        const struct mw_block_group *group = &moment->sizes.items[i];
        const struct mw_growth_figures figures = {group->bytes, group->count,
                                                  size_lost(moment, group->size_bytes)};
        char id[32];
        snprintf(id, sizeof id, "%llu", (unsigned long long)group->size_bytes);
        status = row_add(rows, MW_GROWTH_SIZE, id, &figures);
    }
    return status;
}

/* What has no name its size tells as well. */
static enum mw_status kinds_add(struct rows *rows, const struct mw_moment *moment)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < moment->kind_count && status == MW_OK; i++) {
        const struct mw_kind *kind = &moment->kinds[i];
        const struct mw_growth_figures figures = {kind->count * kind->size_bytes, kind->count,
                                                  kind->lost_count};
        char id[MW_GROWTH_ID_ROOM];
        if (!kind->name[0])
            continue;
        snprintf(id, sizeof id, "%llu %s", (unsigned long long)kind->size_bytes, kind->name);
        status = row_add(rows, MW_GROWTH_KIND, id, &figures);
    }
    return status;
}

static int id_compare(const void *a, const void *b)
{
    const struct mw_growth_row *left = a, *right = b;
    if (left->what != right->what)
        return left->what < right->what ? -1 : 1;
    return strcmp(left->id, right->id);
}

static void figures_add(struct mw_growth_figures *to, const struct mw_growth_figures *from)
{
    to->bytes =
        to->bytes == MW_UNKNOWN || from->bytes == MW_UNKNOWN ? MW_UNKNOWN : to->bytes + from->bytes;
    to->count =
        to->count == MW_UNKNOWN || from->count == MW_UNKNOWN ? MW_UNKNOWN : to->count + from->count;
    to->lost_count = to->lost_count == MW_UNKNOWN || from->lost_count == MW_UNKNOWN
                         ? MW_UNKNOWN
                         : to->lost_count + from->lost_count;
}

static size_t rows_join(struct mw_growth_row *rows, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(rows, count, sizeof *rows, id_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || id_compare(&rows[kept - 1], &rows[i]) != 0) {
            rows[kept++] = rows[i];
            continue;
        }
        for (int column = 0; column < COLUMNS; column++)
            figures_add(figures_of(&rows[kept - 1], (enum column)column),
                        figures_of(&rows[i], (enum column)column));
    }
    return kept;
}

/* A row that one moment lacks is 0 there, unless that moment cannot say it at all. */
static void unknowns_set(struct mw_growth_row *row, const struct mw_moment *const moments[COLUMNS])
{
    for (int column = 0; column < COLUMNS; column++) {
        struct mw_growth_figures *figures = figures_of(row, (enum column)column);
        const struct mw_moment *moment = moments[column];
        if (!moment)
            continue;
        if (row->what == MW_GROWTH_CATEGORY || !moment->knows_lost)
            figures->lost_count = MW_UNKNOWN;
        if (row->what != MW_GROWTH_CATEGORY && !moment->has_heap)
            *figures = (struct mw_growth_figures){MW_UNKNOWN, MW_UNKNOWN, MW_UNKNOWN};
    }
}

static int64_t grown(uint64_t before, uint64_t after)
{
    return before == MW_UNKNOWN || after == MW_UNKNOWN ? 0 : (int64_t)(after - before);
}

int64_t mw_growth_bytes(const struct mw_growth_row *row)
{
    return grown(row->before.bytes, row->after.bytes) -
           grown(row->control_before.bytes, row->control_after.bytes);
}

int64_t mw_growth_count(const struct mw_growth_row *row)
{
    return grown(row->before.count, row->after.count) -
           grown(row->control_before.count, row->control_after.count);
}

static int growth_compare(const void *a, const void *b)
{
    const struct mw_growth_row *left = a, *right = b;
    if (left->what != right->what)
        return left->what < right->what ? -1 : 1;
    int64_t left_bytes = mw_growth_bytes(left), right_bytes = mw_growth_bytes(right);
    if (left_bytes != right_bytes)
        return left_bytes > right_bytes ? -1 : 1;
    if (left->after.bytes != right->after.bytes)
        return left->after.bytes > right->after.bytes ? -1 : 1;
    return strcmp(left->id, right->id);
}

/* ---- survivors ---- */

struct survivors {
    uint64_t size_bytes, count;
};

static int survivors_compare(const void *a, const void *b)
{
    const struct survivors *left = a, *right = b;
    return left->size_bytes < right->size_bytes ? -1 : left->size_bytes > right->size_bytes;
}

/* One for each size of before; their counts by walking both lists in step. */
static struct survivors *survivors_count(const struct mw_moment *before,
                                         const struct mw_moment *after)
{
    struct mw_block_cursor cursors[2];
    struct mw_listed_block blocks[2];
    size_t count = before->sizes.count;
    struct survivors *all = mw_calloc(count + 1, sizeof *all);
    if (!all)
        return NULL;
    for (size_t i = 0; i < count; i++)
        all[i].size_bytes = before->sizes.items[i].size_bytes;
    if (count > 1)
        qsort(all, count, sizeof *all, survivors_compare);
    mw_block_cursor_init(&cursors[0], &before->list, 0);
    mw_block_cursor_init(&cursors[1], &after->list, 0);
    bool has_before = mw_block_cursor_next(&cursors[0], &blocks[0]);
    bool has_after = mw_block_cursor_next(&cursors[1], &blocks[1]);
    while (has_before && has_after) {
        if (blocks[0].start == blocks[1].start && blocks[0].size_bytes == blocks[1].size_bytes) {
            const struct survivors key = {.size_bytes = blocks[0].size_bytes};
            struct survivors *found = bsearch(&key, all, count, sizeof key, survivors_compare);
            if (found)
                found->count++;
        }
        if (blocks[0].start <= blocks[1].start) {
            bool is_both = blocks[0].start == blocks[1].start;
            has_before = mw_block_cursor_next(&cursors[0], &blocks[0]);
            if (is_both)
                has_after = mw_block_cursor_next(&cursors[1], &blocks[1]);
        } else {
            has_after = mw_block_cursor_next(&cursors[1], &blocks[1]);
        }
    }
    return all;
}

static enum mw_status survivors_set(struct mw_difference *difference,
                                    const struct mw_moment *before, const struct mw_moment *after)
{
    struct survivors *all = survivors_count(before, after);
    if (!all)
        return MW_NOMEM;
    for (size_t i = 0; i < difference->row_count; i++) {
        struct mw_growth_row *row = &difference->rows[i];
        if (row->what != MW_GROWTH_SIZE)
            continue;
        const struct survivors key = {.size_bytes = strtoull(row->id, NULL, 10)};
        const struct survivors *found =
            before->sizes.count
                ? bsearch(&key, all, before->sizes.count, sizeof key, survivors_compare)
                : NULL;
        row->survived_count = found ? found->count : 0;
    }
    free(all);
    return MW_OK;
}

/* ---- all of it ---- */

static void facts_set(struct mw_difference *difference, const struct mw_difference_input *input)
{
    const struct mw_moment *before = input->before, *after = input->after;
    bool has_times = before->taken_at > 0 && after->taken_at >= before->taken_at;
    difference->elapsed_seconds = has_times ? after->taken_at - before->taken_at : -1.0;
    difference->is_file_time = before->is_file_time || after->is_file_time;
    difference->is_same_process = mw_moment_is_same_process(before, after);
    difference->has_control = input->control_before != NULL;
    difference->has_heap = before->has_heap && after->has_heap;
    difference->rss_before = before->rss_bytes;
    difference->rss_after = after->rss_bytes;
}

enum mw_status mw_difference_make(const struct mw_difference_input *input,
                                  struct mw_difference *difference_out, struct mw_error *err)
{
    const struct mw_moment *const moments[COLUMNS] = {input->before, input->after,
                                                      input->control_before, input->control_after};
    struct rows rows = {0};
    enum mw_status status = MW_OK;
    assert(!input->control_before == !input->control_after);
    for (int column = 0; column < COLUMNS; column++)
        rows.is_mapped |= moments[column] && moments[column]->rss_bytes == MW_UNKNOWN;
    for (int column = 0; column < COLUMNS && status == MW_OK; column++) {
        if (!moments[column])
            continue;
        rows.column = (enum column)column;
        status = categories_add(&rows, moments[column]);
        if (status == MW_OK)
            status = sizes_add(&rows, moments[column]);
        if (status == MW_OK)
            status = kinds_add(&rows, moments[column]);
    }
    struct mw_difference difference = {
        .rows = rows.vec.items, .row_count = rows.vec.count, .is_mapped = rows.is_mapped};
    if (status == MW_OK) {
        difference.row_count = rows_join(difference.rows, difference.row_count);
        for (size_t i = 0; i < difference.row_count; i++)
            unknowns_set(&difference.rows[i], moments);
        facts_set(&difference, input);
        if (difference.is_same_process && difference.has_heap)
            status = survivors_set(&difference, input->before, input->after);
    }
    if (status != MW_OK) {
        free(difference.rows);
        return mw_fail(err, status, "out of memory comparing two moments");
    }
    if (difference.row_count > 1)
        qsort(difference.rows, difference.row_count, sizeof *difference.rows, growth_compare);
    *difference_out = difference;
    return MW_OK;
}

void mw_difference_deinit(struct mw_difference *difference)
{
    free(difference->rows);
    *difference = (struct mw_difference){0};
}
