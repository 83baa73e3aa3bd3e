/* account/account.c: divide every mapping among its owners, and add up.
 *
 * The kernel's counters of a mapping are the truth; who owns which part of it is what the claims
 * say; how a counter falls on several parts is told by the residency of their pages. So for each
 * mapping: cut it at the borders of the claims, count resident bytes per part, correct the sum to
 * the counter, hand each part to a row. A claim with a split collects the parts it won, wherever
 * they lie, and is divided once at the end.
 *
 *   smaps Rss 96K   |---------------- mapping ----------------|
 *   claims          |== glibc heap ==|      |=== mmapped ===|
 *   parts           |      64K       | 4K ? |      20K       |  8K ?     ? = unknown
 *
 * Trusts nothing that comes from the target: counters may be absurd (a pasted text), claims may
 * lie outside every mapping (the target ran on). Linear in mappings, claims and, where several
 * owners share a mapping, its pages. */
#include "account/account.h"

#include "account/divide.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>
#include <string.h>

enum { PAGE_BATCH = 64 << 10 };

/* A part of one mapping with its owner (NULL: nobody) and what of the counters falls on it. */
struct part {
    mw_addr start, end;
    const struct mw_claim *claim;
};

/* The figures of the parts of one mapping, as arrays because they are divided as such. */
enum figure { FIGURE_RSS, FIGURE_PSS, FIGURE_SWAP, FIGURE_HUGE, FIGURE_COUNT };

/* What a claim has won so far. */
struct tally {
    uint64_t size, figures[FIGURE_COUNT];
};

struct builder {
    struct mw_image *image;
    const struct mw_claims *claims;
    struct mw_findings *findings;
    struct mw_account *account;

    struct mw_claim_piece *won; /* resolved claims, ascending */
    size_t won_count, won_next;
    struct tally *tallies; /* one per claim */
    uint8_t *page_flags;   /* PAGE_BATCH of them */

    struct part *parts; /* of the mapping at hand */
    size_t part_count, part_room;
    uint64_t *sizes, *figures[FIGURE_COUNT]; /* part_room each */

    size_t piece_room;
    uint32_t counted_region[MW_CATEGORY_COUNT]; /* index + 1 of the last one that was counted */
    bool by_pages[MW_CATEGORY_COUNT], by_size[MW_CATEGORY_COUNT], by_walk[MW_CATEGORY_COUNT];
};

static bool has_figure(const struct mw_account *account, enum figure figure)
{
    switch (figure) {
    case FIGURE_PSS:
        return account->has_pss;
    case FIGURE_SWAP:
        return account->has_swap;
    default:
        return account->has_rss;
    }
}

/* ---- the parts of one mapping ---- */

static enum mw_status parts_reserve_one(struct builder *b)
{
    if (b->part_count < b->part_room)
        return MW_OK;
    size_t room = b->part_room ? b->part_room * 2 : 64;
    struct part *parts = mw_regrow(b->parts, b->part_room, room, sizeof *parts);
    if (!parts)
        return MW_NOMEM;
    b->parts = parts;
    uint64_t **arrays[] = {&b->sizes, &b->figures[FIGURE_RSS], &b->figures[FIGURE_PSS],
                           &b->figures[FIGURE_SWAP], &b->figures[FIGURE_HUGE]};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        uint64_t *grown = mw_regrow(*arrays[i], b->part_room, room, sizeof **arrays[i]);
        if (!grown)
            return MW_NOMEM;
        *arrays[i] = grown;
    }
    b->part_room = room;
    return MW_OK;
}

static enum mw_status parts_append(struct builder *b, mw_addr start, mw_addr end,
                                   const struct mw_claim *claim)
{
    assert(start < end);
    enum mw_status status = parts_reserve_one(b);
    if (status != MW_OK)
        return status;
    size_t at = b->part_count++;
    b->parts[at] = (struct part){start, end, claim};
    b->sizes[at] = end - start;
    for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
        b->figures[figure][at] = 0;
    return MW_OK;
}

/* Cut the mapping at the borders of the won pieces; what lies between them is nobody's. */
static enum mw_status parts_cut(struct builder *b, const struct mw_mapping *map)
{
    enum mw_status status = MW_OK;
    b->part_count = 0;
    while (b->won_next < b->won_count && b->won[b->won_next].end <= map->start)
        b->won_next++;
    mw_addr at = map->start;
    for (size_t i = b->won_next; status == MW_OK && at < map->end; i++) {
        if (i == b->won_count || b->won[i].start >= map->end)
            return parts_append(b, at, map->end, NULL);
        const struct mw_claim_piece *piece = &b->won[i];
        if (piece->start > at) {
            status = parts_append(b, at, piece->start, NULL);
            at = piece->start;
        }
        mw_addr end = piece->end < map->end ? piece->end : map->end;
        if (status == MW_OK)
            status = parts_append(b, at, end, piece->claim);
        at = end;
    }
    return status;
}

/* ---- dividing its counters ---- */

/* Add the pages [at, at + count) with the flags in page_flags to the parts, from *part_at on. */
static void parts_add_pages(struct builder *b, mw_addr at, size_t count, size_t *part_at)
{
    uint64_t page_size = b->image->page_size;
    for (size_t i = 0; i < count; i++, at += page_size) {
        uint8_t flags = b->page_flags[i];
        bool is_resident = mw_page_is_resident(flags);
        if (!is_resident && !(flags & MW_PAGE_SWAPPED))
            continue;
        while (b->parts[*part_at].end <= at)
            ++*part_at;
        for (size_t p = *part_at; p < b->part_count && b->parts[p].start < at + page_size; p++) {
            mw_addr start = b->parts[p].start > at ? b->parts[p].start : at;
            mw_addr end = b->parts[p].end < at + page_size ? b->parts[p].end : at + page_size;
            if (is_resident)
                b->figures[FIGURE_RSS][p] += end - start;
            else
                b->figures[FIGURE_SWAP][p] += end - start;
            if (is_resident && (flags & MW_PAGE_HUGE))
                b->figures[FIGURE_HUGE][p] += end - start;
        }
    }
}

/* Count resident, swapped and huge bytes of every part by the pages. False: not known. */
static bool parts_count_pages(struct builder *b, const struct mw_mapping *map)
{
    static const uint64_t core_bytes_max = (uint64_t)256 << 30; /* a core claims what it likes */
    uint64_t page_size = b->image->page_size;
    if (!(b->image->can & MW_CAN_PAGES) || page_size == 0 || map->start % page_size != 0 ||
        map->end % page_size != 0)
        return false;
    if (b->image->kind != MW_IMAGE_LIVE && map->end - map->start > core_bytes_max)
        return false;
    if (map->vm_flags & (MW_VM_HUGETLB | MW_VM_PFNMAP | MW_VM_IO))
        return false; /* present, and not part of Rss */
    size_t part_at = 0;
    for (mw_addr at = map->start; at < map->end;) {
        uint64_t left = (map->end - at) / page_size;
        size_t count = left < PAGE_BATCH ? (size_t)left : PAGE_BATCH;
        struct mw_error err;
        if (mw_image_pages(b->image, at, count, b->page_flags, &err) != MW_OK) {
            mw_finding_add(b->findings, "pages-unreadable", at, map->end - at,
                           "residency is unknown: %s", err.text);
            for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
                memset(b->figures[figure], 0, b->part_count * sizeof *b->figures[figure]);
            return false;
        }
        parts_add_pages(b, at, count, &part_at);
        at += count * page_size;
    }
    return true;
}

static uint64_t parts_sum(const struct builder *b, enum figure figure)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < b->part_count; i++)
        sum += b->figures[figure][i];
    return sum;
}

/* Divide the mapping's counters (totals) among several parts. */
static void parts_divide(struct builder *b, const struct mw_mapping *map, const uint64_t *totals)
{
    size_t count = b->part_count;
    uint64_t **figures = b->figures;
    bool by_pages = parts_count_pages(b, map);
    if (by_pages) {
        uint64_t counted = parts_sum(b, FIGURE_RSS);
        uint64_t total = totals[FIGURE_RSS];
        if (counted != total)
            mw_finding_add(b->findings, "account-skew", map->start,
                           counted > total ? counted - total : total - counted,
                           "mappings changed between the reading of smaps and of their pages; the "
                           "difference is charged to their largest owner");
        mw_divide_correct(total, figures[FIGURE_RSS], b->sizes, count);
        mw_divide_correct(totals[FIGURE_SWAP], figures[FIGURE_SWAP], b->sizes, count);
    } else {
        mw_divide(totals[FIGURE_RSS], b->sizes, figures[FIGURE_RSS], count);
        mw_divide(totals[FIGURE_SWAP], b->sizes, figures[FIGURE_SWAP], count);
        if (totals[FIGURE_RSS] > 0 && totals[FIGURE_RSS] < mw_mapping_size(map))
            mw_finding_add(b->findings, "account-estimated", map->start, totals[FIGURE_RSS],
                           "several owners share a mapping and the residency of its pages is not "
                           "known: its Rss is divided by size");
    }
    mw_divide(totals[FIGURE_PSS], figures[FIGURE_RSS], figures[FIGURE_PSS], count);
    bool has_huge = parts_sum(b, FIGURE_HUGE) > 0;
    uint64_t *weights = has_huge ? figures[FIGURE_HUGE] : figures[FIGURE_RSS];
    mw_divide(totals[FIGURE_HUGE], weights, figures[FIGURE_HUGE], count);
    for (size_t i = 0; i < count; i++) {
        enum mw_category category =
            b->parts[i].claim ? b->parts[i].claim->category : MW_CATEGORY_UNKNOWN;
        if (by_pages)
            b->by_pages[category] = true;
        else
            b->by_size[category] = true;
    }
}

/* ---- handing out ---- */

static uint64_t *piece_figure(struct mw_account_piece *piece, enum figure figure)
{
    switch (figure) {
    case FIGURE_RSS:
        return &piece->rss_bytes;
    case FIGURE_PSS:
        return &piece->pss_bytes;
    case FIGURE_SWAP:
        return &piece->swap_bytes;
    default:
        return &piece->anon_huge_bytes;
    }
}

/* Append part i as a row of `maps`, or widen the last one when owner and category go on. */
static enum mw_status piece_add(struct builder *b, size_t i, uint32_t region)
{
    struct mw_account *account = b->account;
    const struct part *part = &b->parts[i];
    struct mw_account_piece piece = {
        .start = part->start,
        .end = part->end,
        .region = region,
        .category = part->claim ? part->claim->category : MW_CATEGORY_UNKNOWN,
        .owner = part->claim ? part->claim->owner : "",
    };
    for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
        *piece_figure(&piece, figure) =
            has_figure(account, figure) ? b->figures[figure][i] : MW_UNKNOWN;
    struct mw_account_piece *last =
        account->piece_count > 0 ? &account->pieces[account->piece_count - 1] : NULL;
    if (last && last->region == region && last->end == piece.start &&
        last->category == piece.category && strcmp(last->owner, piece.owner) == 0) {
        last->end = piece.end;
        for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
            if (has_figure(account, figure))
                *piece_figure(last, figure) += *piece_figure(&piece, figure);
        return MW_OK;
    }
    void *items = account->pieces;
    enum mw_status status =
        mw_vec_reserve_one(&items, account->piece_count, &b->piece_room, sizeof piece, SIZE_MAX);
    account->pieces = items;
    if (status == MW_OK)
        account->pieces[account->piece_count++] = piece;
    return status;
}

/* Everything of a row but its count. */
static void row_add(struct mw_account *account, enum mw_category category, uint64_t size,
                    const uint64_t figures[FIGURE_COUNT])
{
    struct mw_account_row *row = &account->rows[category];
    row->size_bytes += size;
    if (account->has_rss)
        row->rss_bytes += figures[FIGURE_RSS];
    if (account->has_pss)
        row->pss_bytes += figures[FIGURE_PSS];
    if (account->has_swap)
        row->swap_bytes += figures[FIGURE_SWAP];
}

/* A thread's stack is one claim, though guard and stack are two mappings; a shadow stack is a
 * second one of the same thread. Everything else counts mappings. */
static bool part_counts(struct builder *b, const struct part *part, uint32_t region)
{
    enum mw_category category = part->claim ? part->claim->category : MW_CATEGORY_UNKNOWN;
    if (category == MW_CATEGORY_STACK_THREADS || category == MW_CATEGORY_STACK_MAIN) {
        const struct mw_mapping *map = &b->image->regions.items[region];
        return b->tallies[part->claim - b->claims->items].size == 0 &&
               !(map->vm_flags & MW_VM_SHADOW_STACK);
    }
    bool is_first = b->counted_region[category] != region + 1;
    b->counted_region[category] = region + 1;
    return is_first;
}

static enum mw_status part_hand_out(struct builder *b, size_t i, uint32_t region)
{
    const struct part *part = &b->parts[i];
    const struct mw_claim *claim = part->claim;
    enum mw_category category = claim ? claim->category : MW_CATEGORY_UNKNOWN;
    uint64_t figures[FIGURE_COUNT];
    for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
        figures[figure] = b->figures[figure][i];

    bool counts = part_counts(b, part, region);
    if (!claim || !claim->has_split) {
        row_add(b->account, category, b->sizes[i], figures);
        b->account->rows[category].count += counts;
    }
    if (!claim && (!b->account->has_rss || figures[FIGURE_RSS] > 0))
        b->account->unknown_mappings += counts;
    if (claim) {
        struct tally *tally = &b->tallies[claim - b->claims->items];
        tally->size += b->sizes[i];
        for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
            tally->figures[figure] += figures[figure];
    }
    return piece_add(b, i, region);
}

/* ---- sums over smaps ---- */

struct sum_field {
    enum mw_counter counter;
    size_t offset;
};

static const struct sum_field sum_fields[] = {
    {MW_COUNTER_ANONYMOUS, offsetof(struct mw_account, anonymous_bytes)},
    {MW_COUNTER_ANON_HUGE, offsetof(struct mw_account, anon_huge_bytes)},
    {MW_COUNTER_LAZY_FREE, offsetof(struct mw_account, lazy_free_bytes)},
    {MW_COUNTER_LOCKED, offsetof(struct mw_account, locked_bytes)},
    {MW_COUNTER_SHARED_CLEAN, offsetof(struct mw_account, shared_clean_bytes)},
    {MW_COUNTER_SHARED_DIRTY, offsetof(struct mw_account, shared_dirty_bytes)},
    {MW_COUNTER_PRIVATE_CLEAN, offsetof(struct mw_account, private_clean_bytes)},
    {MW_COUNTER_PRIVATE_DIRTY, offsetof(struct mw_account, private_dirty_bytes)},
    {MW_COUNTER_SHARED_HUGETLB, offsetof(struct mw_account, hugetlb_bytes)},
    {MW_COUNTER_PRIVATE_HUGETLB, offsetof(struct mw_account, hugetlb_bytes)},
};

/* MW_UNKNOWN stays until the first mapping knows the counter. */
static void sums_add(struct mw_account *account, const struct mw_mapping *map)
{
    for (size_t i = 0; i < sizeof sum_fields / sizeof *sum_fields; i++) {
        uint64_t *sum = (uint64_t *)((char *)account + sum_fields[i].offset);
        enum mw_counter counter = sum_fields[i].counter;
        if (!mw_mapping_knows(map, counter))
            continue;
        *sum = mw_add_saturated(*sum == MW_UNKNOWN ? 0 : *sum, map->counters[counter]);
    }
}

/* Clean pages of a file: of the mapping's largest part, since parts have no such counter. */
static void file_clean_add(struct builder *b, const struct mw_mapping *map)
{
    size_t largest = 0;
    for (size_t i = 1; i < b->part_count; i++)
        if (b->figures[FIGURE_RSS][i] > b->figures[FIGURE_RSS][largest])
            largest = i;
    const struct mw_claim *claim = b->parts[largest].claim;
    if (!claim ||
        (claim->category != MW_CATEGORY_FILE_TEXT && claim->category != MW_CATEGORY_FILE_DATA &&
         claim->category != MW_CATEGORY_FILE_MAPPED))
        return;
    uint64_t clean = mw_add_saturated(mw_mapping_counter(map, MW_COUNTER_SHARED_CLEAN),
                                      mw_mapping_counter(map, MW_COUNTER_PRIVATE_CLEAN));
    b->account->file_clean_bytes = mw_add_saturated(b->account->file_clean_bytes, clean);
}

/* The counter, cut so that *sum + counter stays below MW_UNKNOWN; added to *sum. */
static uint64_t counter_take(uint64_t *sum, uint64_t counter)
{
    uint64_t room = MW_UNKNOWN - 1 - *sum;
    uint64_t taken = counter < room ? counter : room;
    *sum += taken;
    return taken;
}

static void totals_take(struct builder *b, const struct mw_mapping *map,
                        uint64_t totals[FIGURE_COUNT])
{
    struct mw_account *account = b->account;
    memset(totals, 0, FIGURE_COUNT * sizeof *totals);
    if (!account->has_rss)
        return;
    uint64_t rss = mw_mapping_counter(map, MW_COUNTER_RSS);
    if (!mw_mapping_knows(map, MW_COUNTER_RSS))
        mw_finding_add(b->findings, "rss-missing", map->start, mw_mapping_size(map),
                       "a mapping has no Rss: it counts as 0");
    if (rss > mw_mapping_size(map))
        mw_finding_add(b->findings, "rss-exceeds-size", map->start, rss - mw_mapping_size(map),
                       "the Rss of a mapping is larger than the mapping");
    totals[FIGURE_RSS] = counter_take(&account->rss_bytes, rss);
    if (totals[FIGURE_RSS] != rss)
        mw_finding_add(b->findings, "rss-overflow", map->start, rss,
                       "the Rss of all mappings does not fit 64 bits: cut");
    if (account->has_pss)
        totals[FIGURE_PSS] =
            counter_take(&account->pss_bytes, mw_mapping_counter(map, MW_COUNTER_PSS));
    if (account->has_swap)
        totals[FIGURE_SWAP] =
            counter_take(&account->swap_bytes, mw_mapping_counter(map, MW_COUNTER_SWAP));
    uint64_t huge = mw_mapping_counter(map, MW_COUNTER_ANON_HUGE);
    totals[FIGURE_HUGE] = huge < totals[FIGURE_RSS] ? huge : totals[FIGURE_RSS];
}

static enum mw_status region_account(struct builder *b, uint32_t region)
{
    const struct mw_mapping *map = &b->image->regions.items[region];
    uint64_t totals[FIGURE_COUNT];
    enum mw_status status = parts_cut(b, map);
    if (status != MW_OK)
        return status;
    assert(b->part_count > 0);
    totals_take(b, map, totals);
    if (b->part_count == 1)
        for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
            b->figures[figure][0] = totals[figure];
    else if (totals[FIGURE_RSS] | totals[FIGURE_PSS] | totals[FIGURE_SWAP])
        parts_divide(b, map, totals);
    for (size_t i = 0; i < b->part_count && status == MW_OK; i++)
        status = part_hand_out(b, i, region);
    b->account->size_bytes += mw_mapping_size(map);
    sums_add(b->account, map);
    file_clean_add(b, map);
    return status;
}

/* ---- claims with a split ---- */

enum use { USE_IN_USE, USE_FREE, USE_METADATA, USE_COUNT };

/* What part of the claim's range was not mapped or went to a stronger claim is taken from its
 * blocks in use first: a stronger claim names a block. */
static void split_shrink(uint64_t sizes[USE_COUNT], uint64_t lost)
{
    static const enum use order[] = {USE_IN_USE, USE_METADATA, USE_FREE};
    for (size_t i = 0; i < USE_COUNT; i++) {
        uint64_t step = sizes[order[i]] < lost ? sizes[order[i]] : lost;
        sizes[order[i]] -= step;
        lost -= step;
    }
    assert(lost == 0);
}

/* Turn amounts by use, counted by the walk, into parts of what the kernel counted in total. */
static void split_fit(uint64_t total, bool is_whole, const uint64_t sizes[USE_COUNT],
                      uint64_t amounts[USE_COUNT])
{
    uint64_t sum = 0;
    for (size_t i = 0; i < USE_COUNT; i++) {
        if (amounts[i] > sizes[i])
            amounts[i] = sizes[i];
        sum += amounts[i];
    }
    if (sum == 0)
        mw_divide(total, sizes, amounts, USE_COUNT);
    else if (is_whole)
        mw_divide_correct(total, amounts, sizes, USE_COUNT);
    else
        mw_divide(total, amounts, amounts, USE_COUNT);
}

static void split_settle(struct builder *b, const struct mw_claim *claim, const struct tally *tally)
{
    static const enum mw_category categories[USE_COUNT] = {
        MW_CATEGORY_MALLOC_IN_USE, MW_CATEGORY_MALLOC_FREE, MW_CATEGORY_MALLOC_METADATA};
    const struct mw_split *split = &claim->split;
    uint64_t sizes[USE_COUNT] = {split->in_use_bytes, split->free_bytes, split->metadata_bytes};
    uint64_t rss[USE_COUNT] = {split->in_use_rss, split->free_rss, split->metadata_rss};
    uint64_t swap[USE_COUNT] = {split->in_use_swap, split->free_swap, split->metadata_swap};
    uint64_t pss[USE_COUNT];
    uint64_t counts[USE_COUNT] = {split->in_use_count, split->free_count, 1};
    uint64_t lost = claim->end - claim->start - tally->size;
    uint64_t walked_rss = rss[0] + rss[1] + rss[2];
    split_shrink(sizes, lost);
    if (b->account->has_rss && lost == 0 && walked_rss != 0 &&
        walked_rss != tally->figures[FIGURE_RSS])
        mw_finding_add(b->findings, "account-skew", claim->start,
                       walked_rss > tally->figures[FIGURE_RSS]
                           ? walked_rss - tally->figures[FIGURE_RSS]
                           : tally->figures[FIGURE_RSS] - walked_rss,
                       "a heap changed between its walk and the reading of smaps; the difference "
                       "is charged to its largest part");
    split_fit(tally->figures[FIGURE_RSS], lost == 0, sizes, rss);
    split_fit(tally->figures[FIGURE_SWAP], lost == 0, sizes, swap);
    mw_divide(tally->figures[FIGURE_PSS], rss, pss, USE_COUNT);
    for (size_t i = 0; i < USE_COUNT; i++) {
        uint64_t figures[FIGURE_COUNT] = {
            [FIGURE_RSS] = rss[i], [FIGURE_PSS] = pss[i], [FIGURE_SWAP] = swap[i]};
        row_add(b->account, categories[i], sizes[i], figures);
        b->account->rows[categories[i]].count += counts[i];
        b->by_walk[categories[i]] = true;
    }
}

/* ---- the whole ---- */

/* Which figures does the source have at all? */
static void figures_detect(const struct mw_image *image, struct mw_account *account)
{
    if (!(image->can & MW_CAN_COUNTERS))
        return;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        account->has_rss |= mw_mapping_knows(map, MW_COUNTER_RSS);
        account->has_pss |= mw_mapping_knows(map, MW_COUNTER_PSS);
        account->has_swap |= mw_mapping_knows(map, MW_COUNTER_SWAP);
    }
    account->has_pss &= account->has_rss;
    account->has_swap &= account->has_rss;
}

static void account_begin(struct mw_account *account)
{
    for (size_t i = 0; i < sizeof sum_fields / sizeof *sum_fields; i++)
        *(uint64_t *)((char *)account + sum_fields[i].offset) = MW_UNKNOWN;
    for (enum mw_category category = 0; category < MW_CATEGORY_COUNT; category++) {
        struct mw_account_row *row = &account->rows[category];
        row->category = category;
        row->rss_bytes = account->has_rss ? 0 : MW_UNKNOWN;
        row->pss_bytes = account->has_pss ? 0 : MW_UNKNOWN;
        row->swap_bytes = account->has_swap ? 0 : MW_UNKNOWN;
    }
}

/* Where the figures of a row come from, the least certain way named first. */
static void rows_name_sources(struct builder *b)
{
    const char *plain = b->account->has_rss ? "smaps" : "mappings";
    for (enum mw_category category = 0; category < MW_CATEGORY_COUNT; category++) {
        const char **source = &b->account->rows[category].source;
        if (b->by_walk[category])
            *source = "heap walk";
        else if (b->by_size[category])
            *source = "smaps, divided by size";
        else if (b->by_pages[category])
            *source = "pagemap";
        else
            *source = plain;
    }
}

/* The invariant: the rows, unknown among them, are the total. */
static void account_finish(struct mw_account *account)
{
    uint64_t rss = 0, pss = 0, swap = 0, size = 0;
    for (enum mw_category category = 0; category < MW_CATEGORY_COUNT; category++) {
        const struct mw_account_row *row = &account->rows[category];
        rss += account->has_rss ? row->rss_bytes : 0;
        pss += account->has_pss ? row->pss_bytes : 0;
        swap += account->has_swap ? row->swap_bytes : 0;
        size += row->size_bytes;
    }
    assert(rss == account->rss_bytes);
    assert(pss == account->pss_bytes);
    assert(swap == account->swap_bytes);
    assert(size == account->size_bytes);
    if (!account->has_rss)
        account->rss_bytes = account->file_clean_bytes = MW_UNKNOWN;
    if (!account->has_pss)
        account->pss_bytes = MW_UNKNOWN;
    if (!account->has_swap)
        account->swap_bytes = MW_UNKNOWN;
    account->unknown_bytes = account->rows[MW_CATEGORY_UNKNOWN].rss_bytes;
}

static enum mw_status builder_run(struct builder *b)
{
    enum mw_status status = mw_claims_resolve(b->claims, &b->won, &b->won_count);
    if (status != MW_OK)
        return status;
    b->tallies = mw_calloc(b->claims->count, sizeof *b->tallies);
    b->page_flags = mw_calloc(PAGE_BATCH, 1);
    if (!b->tallies || !b->page_flags)
        return MW_NOMEM;
    assert(b->image->regions.count <= UINT32_MAX);
    for (size_t i = 0; i < b->image->regions.count && status == MW_OK; i++)
        status = region_account(b, (uint32_t)i);
    for (size_t i = 0; i < b->claims->count && status == MW_OK; i++)
        if (b->claims->items[i].has_split && b->tallies[i].size > 0)
            split_settle(b, &b->claims->items[i], &b->tallies[i]);
    return status;
}

static void builder_deinit(struct builder *b)
{
    free(b->won);
    free(b->tallies);
    free(b->page_flags);
    free(b->parts);
    free(b->sizes);
    for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
        free(b->figures[figure]);
}

enum mw_status mw_account_build(struct mw_image *image, const struct mw_claims *claims,
                                struct mw_account *account_out, struct mw_findings *findings,
                                struct mw_error *err)
{
    struct mw_account account = {0};
    struct builder b = {
        .image = image, .claims = claims, .findings = findings, .account = &account};
    figures_detect(image, &account);
    account_begin(&account);
    enum mw_status status = builder_run(&b);
    if (status == MW_OK) {
        rows_name_sources(&b);
        account_finish(&account);
        *account_out = account;
    } else {
        mw_account_deinit(&account);
    }
    builder_deinit(&b);
    return status == MW_OK ? MW_OK : mw_fail(err, status, "cannot build the account");
}

void mw_account_deinit(struct mw_account *account)
{
    free(account->pieces);
    account->pieces = NULL;
    account->piece_count = 0;
}
