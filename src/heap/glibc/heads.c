/* heap/glibc/heads.c: which lists tcaches have under one stop after the other.
 *
 * Under a stop only the structs are read; a list that is there twice running is one row with the
 * rounds in which it was seen. What was seen under the last stop stands in order at the end, so a
 * round costs what its own lists and those of the round before cost. */
#include "heap/glibc/scan.h"

#include <stdlib.h>

static const size_t LISTS_MAX = (size_t)1 << 24;

/* Blocks that may be tcache structs, where threads do not tell which are. Those that are none are
 * not tried again. */
static enum mw_status structs_try(const struct mw_glibc_scanned *scanned, struct mw_glibc *glibc)
{
    enum mw_status status = MW_OK;
    for (size_t k = 0; k < scanned->spans_done && status == MW_OK; k++) {
        struct mw_glibc_span *span = &scanned->spans.items[k];
        size_t kept = 0;
        for (size_t n = 0; n < span->struct_count && status == MW_OK; n++) {
            bool is_struct;
            mw_addr at = span->structs[n];
            status = mw_glibc_tcache_try(glibc, at, &is_struct);
            if (is_struct)
                span->structs[kept++] = at;
        }
        span->struct_count = kept;
    }
    return status;
}

static int list_compare(const void *a, const void *b)
{
    const struct mw_glibc_tcache_list *left = a, *right = b;
    if (left->owner != right->owner)
        return left->owner < right->owner ? -1 : 1;
    if (left->bin != right->bin)
        return left->bin < right->bin ? -1 : 1;
    if (left->head != right->head)
        return left->head < right->head ? -1 : 1;
    return left->count < right->count ? -1 : left->count > right->count;
}

static int list_and_round_compare(const void *a, const void *b)
{
    const struct mw_glibc_tcache_list *left = a, *right = b;
    int by_list = list_compare(a, b);
    if (by_list != 0)
        return by_list;
    return left->first_round < right->first_round ? -1 : left->first_round > right->first_round;
}

/* Sort, and make one of what is there twice. */
static size_t lists_unify(struct mw_glibc_tcache_list *lists, size_t count)
{
    size_t kept = count > 0;
    if (count > 1)
        qsort(lists, count, sizeof *lists, list_compare);
    for (size_t i = 1; i < count; i++) {
        if (list_compare(&lists[kept - 1], &lists[i]) == 0)
            lists[kept - 1].is_sure |= lists[i].is_sure;
        else
            lists[kept++] = lists[i];
    }
    return kept;
}

/* Lists of the last round that are among those of this one, both in order, go over to them. */
static void open_lists_pass_on(struct mw_glibc_scan *scan, struct mw_glibc_tcache_list *now,
                               size_t count)
{
    struct mw_glibc_tcache_list *lists = scan->tcache_lists.items;
    size_t kept = scan->lists_open, next = 0;
    for (size_t i = scan->lists_open; i < scan->tcache_lists.count; i++) {
        while (next < count && list_compare(&now[next], &lists[i]) < 0)
            next++;
        if (next == count || list_compare(&now[next], &lists[i]) != 0) {
            lists[kept++] = lists[i];
            continue;
        }
        now[next].first_round = lists[i].first_round;
        now[next].is_sure |= lists[i].is_sure;
    }
    scan->tcache_lists.count = scan->lists_open = kept;
}

enum mw_status mw_glibc_heads_keep(struct mw_glibc_scan *scan, struct mw_glibc *glibc)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; glibc->wants_structs && i < scan->segments.count && status == MW_OK; i++)
        status = structs_try(&scan->segments.items[i], glibc);
    struct mw_glibc_tcache_list *now = glibc->tcache_lists.items;
    size_t count = lists_unify(now, glibc->tcache_lists.count);
    for (size_t i = 0; i < count; i++)
        now[i].first_round = now[i].last_round = scan->round;
    open_lists_pass_on(scan, now, count);
    for (size_t i = 0; i < count && status == MW_OK; i++)
        status = mw_vec_push(&scan->tcache_lists, LISTS_MAX, now[i]);
    if (status != MW_LIMIT)
        return status;
    mw_finding_add(glibc->findings, "lists-endless", 0, 0,
                   "there are more lists of cached blocks than are looked at; the others count as "
                   "in use");
    return MW_OK;
}

void mw_glibc_heads_close(struct mw_glibc_scan *scan)
{
    if (scan->tcache_lists.count > 1)
        qsort(scan->tcache_lists.items, scan->tcache_lists.count, sizeof *scan->tcache_lists.items,
              list_and_round_compare);
}
