/* graph/paths.c: searches over the edges of all blocks. Linear each. */
#include "graph/paths.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 256 << 10, BLOCK_READ_MAX = 1 << 20 };

enum mw_status mw_paths_referrers(const struct mw_reach *reach, uint32_t rank, size_t max,
                                  struct mw_ranks *referrers_out, uint64_t *total_out)
{
    const struct mw_index *index = reach->index;
    *referrers_out = (struct mw_ranks){0};
    *total_out = 0;
    for (uint32_t source = 0; source < index->rank_count; source++) {
        struct mw_edge_reader edges = mw_edges_of(&reach->scan.edges, source);
        for (uint32_t target; mw_edge_next(&edges, &target);) {
            if (target != rank)
                continue;
            ++*total_out;
            if (referrers_out->count < max &&
                mw_vec_push(referrers_out, SIZE_MAX / sizeof source, source) != MW_OK)
                return MW_NOMEM;
            break;
        }
    }
    return MW_OK;
}

/* ---- breadth first ---- */

struct search {
    const struct mw_reach *reach;
    uint64_t *seen;
    uint32_t *queue;
    size_t count;
    uint32_t *parents; /* by rank; NULL: not wanted */
    uint32_t without;  /* is not entered; MW_RANK_NONE: all are */
};

static enum mw_status search_init(struct search *search, const struct mw_reach *reach,
                                  bool wants_parents, uint32_t without)
{
    const struct mw_index *index = reach->index;
    *search = (struct search){
        .reach = reach,
        .seen = mw_calloc((size_t)index->rank_count / 64 + 1, sizeof *search->seen),
        .queue = mw_calloc((size_t)index->used_count + 1, sizeof *search->queue),
        .without = without,
    };
    if (wants_parents)
        search->parents = mw_calloc((size_t)index->rank_count + 1, sizeof *search->parents);
    bool is_made = search->seen && search->queue && (search->parents || !wants_parents);
    return is_made ? MW_OK : MW_NOMEM;
}

static void search_deinit(struct search *search)
{
    free(search->seen);
    free(search->queue);
    free(search->parents);
}

static void search_enter(struct search *search, uint32_t rank, uint32_t parent)
{
    if (rank == search->without || mw_bit_get(search->seen, rank))
        return;
    mw_bit_set(search->seen, rank);
    search->queue[search->count++] = rank;
    if (search->parents)
        search->parents[rank] = parent;
}

/* From all that the roots point to. */
static void search_roots(struct search *search)
{
    for (size_t i = 0; i < search->reach->scan.root_count; i++)
        search_enter(search, search->reach->scan.reached[i], MW_RANK_NONE);
}

/* From the lost blocks that nothing leads to. */
static void search_direct(struct search *search)
{
    const struct mw_index *index = search->reach->index;
    for (uint32_t rank = 0; rank < index->rank_count; rank++)
        if (mw_bit_get(search->reach->is_direct, rank))
            search_enter(search, rank, MW_RANK_NONE);
}

/* On until `wanted` is entered (MW_RANK_NONE: to the end). */
static void search_run(struct search *search, uint32_t wanted)
{
    for (size_t head = 0; head < search->count; head++) {
        uint32_t source = search->queue[head];
        if (source == wanted)
            return;
        struct mw_edge_reader edges = mw_edges_of(&search->reach->scan.edges, source);
        for (uint32_t target; mw_edge_next(&edges, &target);)
            search_enter(search, target, source);
    }
}

enum mw_status mw_paths_find(const struct mw_reach *reach, uint32_t rank, struct mw_ranks *path_out)
{
    struct search search;
    *path_out = (struct mw_ranks){0};
    enum mw_status status = search_init(&search, reach, true, MW_RANK_NONE);
    if (status == MW_OK) {
        if (mw_reach_is_reachable(reach, rank))
            search_roots(&search);
        else
            search_direct(&search);
        search_run(&search, rank);
    }
    bool is_found = status == MW_OK && mw_bit_get(search.seen, rank);
    for (uint32_t at = rank; is_found && at != MW_RANK_NONE && status == MW_OK;
         at = search.parents[at])
        status = mw_vec_push(path_out, SIZE_MAX / sizeof at, at);
    for (size_t i = 0; i < path_out->count / 2; i++) { /* it was walked from its end */
        uint32_t *left = &path_out->items[i], *right = &path_out->items[path_out->count - 1 - i];
        uint32_t swapped = *left;
        *left = *right;
        *right = swapped;
    }
    search_deinit(&search);
    return status;
}

enum mw_status mw_paths_tree(const struct mw_reach *reach, struct mw_tree *tree_out)
{
    struct search search;
    enum mw_status status = search_init(&search, reach, true, MW_RANK_NONE);
    *tree_out = (struct mw_tree){0};
    if (status == MW_OK) {
        memset(search.parents, 0xff,
               ((size_t)reach->index->rank_count + 1) * sizeof *search.parents);
        search_roots(&search);
        search_run(&search, MW_RANK_NONE);
        tree_out->parents = search.parents;
        search.parents = NULL;
    }
    search_deinit(&search);
    return status;
}

void mw_paths_tree_deinit(struct mw_tree *tree)
{
    free(tree->parents);
    *tree = (struct mw_tree){0};
}

enum mw_status mw_paths_retained(const struct mw_reach *reach, uint32_t rank, uint64_t *count_out,
                                 uint64_t *bytes_out)
{
    struct search search;
    const struct mw_index *index = reach->index;
    bool is_lost = !mw_reach_is_reachable(reach, rank);
    enum mw_status status = search_init(&search, reach, false, rank);
    *count_out = *bytes_out = 0;
    if (status == MW_OK) {
        if (is_lost)
            search_direct(&search);
        else
            search_roots(&search);
        search_run(&search, MW_RANK_NONE);
        struct mw_index_cursor cursor = {0};
        mw_addr start, next;
        bool is_there = mw_index_next(index, &cursor, &start);
        for (uint32_t at = 0; is_there; at++, start = next) {
            is_there = mw_index_next(index, &cursor, &next);
            bool is_of_these = is_there && mw_bit_get(index->is_used, at) &&
                               mw_reach_is_reachable(reach, at) != is_lost;
            if (!is_of_these || mw_bit_get(search.seen, at))
                continue;
            ++*count_out;
            *bytes_out += mw_index_block_end(index, next) - start;
        }
    }
    search_deinit(&search);
    return status;
}

/* ---- words ---- */

struct hunt {
    const struct mw_reach *reach;
    uint32_t rank;
    size_t max, count;
    struct mw_root_place *places;
    uint64_t total;
};

static void place_add(struct hunt *hunt, const struct mw_root_place *place)
{
    if (mw_index_find(hunt->reach->index, place->value) != hunt->rank)
        return;
    hunt->total++;
    if (hunt->count < hunt->max)
        hunt->places[hunt->count++] = *place;
}

/* Of generated code every byte may begin a pointer. */
static void range_hunt(struct hunt *hunt, struct mw_image *image, const struct mw_root_range *range,
                       uint8_t *buffer)
{
    const bool is_code = range->kind == MW_ROOT_CODE;
    const size_t step = is_code ? 1 : 8;
    mw_addr at = (range->start + 7) & ~(mw_addr)7;
    while (at < range->end) {
        size_t want = range->end - at < STEP ? (size_t)(range->end - at) : STEP;
        size_t got = mw_image_read_present(image, at, buffer, want);
        for (size_t i = 0; i + 8 <= got; i += step) {
            struct mw_root_place place = {at + i, 0, range->kind, range->tid};
            memcpy(&place.value, buffer + i, sizeof place.value);
            place_add(hunt, &place);
        }
        if (is_code && got == want && want > 8 && range->end - at > want)
            want = got -= 7; /* a pointer may lie across */
        else
            got &= ~(size_t)7;
        at = got == want ? at + want : ((at + got) / image->page_size + 1) * image->page_size;
    }
}

size_t mw_paths_roots(const struct mw_reach *reach, struct mw_image *image, uint32_t rank,
                      size_t max, struct mw_root_place *places, uint64_t *total_out)
{
    struct hunt hunt = {.reach = reach, .rank = rank, .max = max, .places = places};
    MW_FREE uint8_t *buffer = mw_calloc(STEP, 1);
    for (size_t i = 0; i < reach->roots.words.count; i++) {
        const struct mw_root_word *word = &reach->roots.words.items[i];
        place_add(&hunt, &(struct mw_root_place){0, word->word, MW_ROOT_REGISTERS, word->tid});
    }
    for (size_t i = 0; buffer && i < reach->roots.ranges.count; i++)
        range_hunt(&hunt, image, &reach->roots.ranges.items[i], buffer);
    *total_out = hunt.total;
    return hunt.count;
}

uint64_t mw_paths_offset(const struct mw_reach *reach, struct mw_image *image, uint32_t from,
                         uint32_t to)
{
    mw_addr start, end;
    mw_index_bounds(reach->index, from, &start, &end);
    size_t length = end - start < BLOCK_READ_MAX ? (size_t)(end - start) : BLOCK_READ_MAX;
    MW_FREE uint8_t *bytes = mw_calloc(length + 1, 1);
    if (!bytes)
        return UINT64_MAX;
    size_t got = mw_image_read_present(image, start, bytes, length);
    for (size_t i = 0; i + 8 <= got; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        if (mw_index_find(reach->index, word) == to)
            return i;
    }
    return UINT64_MAX;
}
