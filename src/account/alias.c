/* account/alias.c: pages that one process maps twice.
 *
 * A memfd mapped rw here and rx there (JITs that keep W^X), or three times with different pointer
 * colours (ZGC of JDK 17), has its pages counted once per mapping in Rss. Shared mappings of
 * one file whose offsets overlap form a cluster; its views are taken in order, writable ones
 * first, then by address, and a page that an earlier view has resident too is an alias in the
 * later one:
 *
 *   file pages     0 1 2 3 4 5 6 7
 *   view 1 (rw)    R R . . R .              R = resident
 *   view 2 (rx)      R R . R R R            the pages 1 and 4 of view 2 are aliases
 *
 * Page by page where residency is known; else the smaller of what the earlier views have resident
 * and what this one has, claimed as a range of proportionate length. Private mappings of a file are
 * left alone: their pages may be copies. O(n log n + resident pages); the bitmap of a cluster is
 * bounded by MW_LIMIT_ALIAS_PAGES. */
#include "account/claiming.h"

#include "account/divide.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"

#include <stdlib.h>

enum { PAGE_BATCH = 4096 };

struct view {
    const struct mw_mapping *map;
    uint64_t start, end; /* in the file */
};

static bool is_view(const struct mw_mapping *map)
{
    uint64_t end;
    return (map->perms & MW_PERM_SHARED) && map->inode != 0 &&
           !(map->vm_flags & (MW_VM_HUGETLB | MW_VM_PFNMAP | MW_VM_IO)) &&
           !(mw_mapping_knows(map, MW_COUNTER_RSS) && map->counters[MW_COUNTER_RSS] == 0) &&
           !__builtin_add_overflow(map->offset, mw_mapping_size(map), &end);
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int file_of_view_compare(const struct view *a, const struct view *b)
{
    int order = compare_u64(a->map->inode, b->map->inode);
    if (order == 0)
        order = compare_u64(a->map->dev_major, b->map->dev_major);
    return order != 0 ? order : compare_u64(a->map->dev_minor, b->map->dev_minor);
}

static int order_by_file(const void *left, const void *right)
{
    const struct view *a = left, *b = right;
    int order = file_of_view_compare(a, b);
    if (order == 0)
        order = compare_u64(a->start, b->start);
    return order != 0 ? order : compare_u64(a->map->start, b->map->start);
}

/* Whose pages count: the writable view's, then the one at the lowest address. */
static int order_in_cluster(const void *left, const void *right)
{
    const struct view *a = left, *b = right;
    bool a_writes = (a->map->perms & MW_PERM_WRITE) != 0;
    bool b_writes = (b->map->perms & MW_PERM_WRITE) != 0;
    return a_writes != b_writes ? (a_writes ? -1 : 1) : compare_u64(a->map->start, b->map->start);
}

static enum mw_status alias_claim(struct mw_claiming *claiming, mw_addr start, mw_addr end)
{
    return mw_claims_add_range(claiming->claims, start, end, MW_CATEGORY_ALIAS, MW_CLAIM_ALIAS,
                               "mapped twice");
}

/* ---- page by page ---- */

struct cluster {
    struct view *views;
    size_t count;
    uint64_t start, end; /* in the file */
    uint64_t page_size;
    uint64_t *seen; /* one bit a page of [start, end): resident in an earlier view */
};

static bool seen_test_and_set(struct cluster *cluster, uint64_t page)
{
    uint64_t bit = (uint64_t)1 << (page & 63);
    bool was_set = (cluster->seen[page >> 6] & bit) != 0;
    cluster->seen[page >> 6] |= bit;
    return was_set;
}

/* Claim every run of pages of one view that are aliases. MW_UNSUPPORTED etc. from the pages. */
static enum mw_status view_claim_pages(struct mw_claiming *claiming, struct cluster *cluster,
                                       const struct view *view)
{
    uint64_t page_size = cluster->page_size;
    uint64_t page = (view->start - cluster->start) / page_size;
    mw_addr run = 0; /* start of the run of alias pages at hand, 0: none */
    enum mw_status status = MW_OK;
    for (mw_addr at = view->map->start; at < view->map->end && status == MW_OK;) {
        uint8_t flags[PAGE_BATCH];
        uint64_t left = (view->map->end - at) / page_size;
        size_t count = left < PAGE_BATCH ? (size_t)left : PAGE_BATCH;
        status = mw_image_pages(claiming->image, at, count, flags, NULL);
        for (size_t i = 0; i < count && status == MW_OK; i++, page++, at += page_size) {
            bool is_alias = mw_page_is_resident(flags[i]) && seen_test_and_set(cluster, page);
            if (is_alias && run == 0)
                run = at;
            if (!is_alias && run != 0) {
                status = alias_claim(claiming, run, at);
                run = 0;
            }
        }
    }
    if (status == MW_OK && run != 0)
        status = alias_claim(claiming, run, view->map->end);
    return status;
}

/* False when the pages are not known or too many to be told apart. */
static bool cluster_has_pages(const struct mw_claiming *claiming, const struct cluster *cluster)
{
    if (!(claiming->image->can & MW_CAN_PAGES) || cluster->page_size == 0)
        return false;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct view *view = &cluster->views[i];
        if ((view->start | view->map->start | view->map->end) % cluster->page_size != 0)
            return false;
    }
    if ((cluster->end - cluster->start) / cluster->page_size <= MW_LIMIT_ALIAS_PAGES)
        return true;
    mw_finding_add(claiming->findings, "alias-limit", cluster->views[0].map->start,
                   cluster->end - cluster->start,
                   "a file mapped twice is too large to tell its pages apart: estimated");
    return false;
}

/* ---- by counters ---- */

/* What the views before this one cover of the file, and have resident of it. */
struct earlier {
    uint64_t start, end, resident;
};

static enum mw_status view_claim_share(struct mw_claiming *claiming, const struct cluster *cluster,
                                       const struct view *view, struct earlier *earlier)
{
    const struct mw_mapping *map = view->map;
    uint64_t size = mw_mapping_size(map);
    uint64_t rss = mw_mapping_knows(map, MW_COUNTER_RSS) ? map->counters[MW_COUNTER_RSS] : size;
    uint64_t from = view->start > earlier->start ? view->start : earlier->start;
    uint64_t to = view->end < earlier->end ? view->end : earlier->end;
    uint64_t alias = 0;
    if (from < to)
        alias = rss < earlier->resident ? rss : earlier->resident;
    earlier->resident = mw_add_saturated(earlier->resident, rss - alias);
    if (alias == 0)
        return MW_OK;
    uint64_t page_size = cluster->page_size ? cluster->page_size : 4096;
    uint64_t length = to - from;
    if (alias < rss) {
        uint64_t share = (uint64_t)((unsigned __int128)size * alias / rss);
        share += (page_size - share % page_size) % page_size;
        length = share < length ? share : length;
    }
    mw_addr start = map->start + (from - view->start);
    return length == 0 ? MW_OK : alias_claim(claiming, start, start + length);
}

static enum mw_status cluster_claim_shares(struct mw_claiming *claiming,
                                           const struct cluster *cluster)
{
    struct earlier earlier = {.start = UINT64_MAX};
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < cluster->count && status == MW_OK; i++) {
        const struct view *view = &cluster->views[i];
        status = view_claim_share(claiming, cluster, view, &earlier);
        earlier.start = view->start < earlier.start ? view->start : earlier.start;
        earlier.end = view->end > earlier.end ? view->end : earlier.end;
    }
    return status;
}

/* ---- clusters ---- */

static enum mw_status cluster_claim(struct mw_claiming *claiming, struct cluster *cluster)
{
    qsort(cluster->views, cluster->count, sizeof *cluster->views, order_in_cluster);
    if (!cluster_has_pages(claiming, cluster))
        return cluster_claim_shares(claiming, cluster);
    uint64_t pages = (cluster->end - cluster->start) / cluster->page_size;
    MW_FREE uint64_t *seen = mw_calloc(pages / 64 + 1, sizeof *seen);
    if (!seen)
        return MW_NOMEM;
    cluster->seen = seen;
    for (size_t i = 0; i < cluster->count; i++) {
        enum mw_status status = view_claim_pages(claiming, cluster, &cluster->views[i]);
        if (status == MW_NOMEM || status == MW_LIMIT)
            return status;
        if (status != MW_OK)
            mw_finding_add(claiming->findings, "pages-unreadable", cluster->views[i].map->start,
                           mw_mapping_size(cluster->views[i].map),
                           "residency of a mapping is unknown");
    }
    return MW_OK;
}

enum mw_status mw_claiming_aliases(struct mw_claiming *claiming)
{
    MW_FREE struct view *views = mw_calloc(claiming->map_count, sizeof *views);
    if (!views)
        return MW_NOMEM;
    size_t count = 0;
    for (size_t i = 0; i < claiming->map_count; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        if (is_view(map))
            views[count++] = (struct view){map, map->offset, map->offset + mw_mapping_size(map)};
    }
    qsort(views, count, sizeof *views, order_by_file);
    enum mw_status status = MW_OK;
    for (size_t start = 0, end; start < count && status == MW_OK; start = end) {
        struct cluster cluster = {.views = &views[start],
                                  .start = views[start].start,
                                  .end = views[start].end,
                                  .page_size = claiming->image->page_size};
        for (end = start + 1; end < count && views[end].start < cluster.end &&
                              file_of_view_compare(&views[start], &views[end]) == 0;
             end++)
            if (views[end].end > cluster.end)
                cluster.end = views[end].end;
        cluster.count = end - start;
        if (cluster.count > 1)
            status = cluster_claim(claiming, &cluster);
    }
    return status;
}
