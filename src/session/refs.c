/* session/refs.c: one address, looked at from all sides. */
#include "session/refs.h"

#include "base/alloc.h"
#include "session/layouts.h"
#include "symbol/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asking {
    struct mw_analysis *analysis;
    struct mw_names *names;
    struct mw_refs *refs;
};

/* False: nothing, or a mapping's name alone, is known of the address. */
static bool name_of(const struct asking *asking, mw_addr address, char text[MW_REFS_NAME_ROOM])
{
    struct mw_name name;
    char whole[MW_NAME_TEXT_ROOM];
    const struct mw_mapping *map = mw_image_region(&asking->analysis->image, address);
    text[0] = '\0';
    if (mw_names_resolve(asking->names, address, &name)) {
        mw_names_format(&name, whole);
        snprintf(text, MW_REFS_NAME_ROOM, "%.*s", MW_REFS_NAME_ROOM - 1, whole);
        return true;
    }
    if (map && map->name[0])
        snprintf(text, MW_REFS_NAME_ROOM, "%.*s", MW_REFS_NAME_ROOM - 1, map->name);
    return false;
}

/* Memory without a name that a module's symbols or segments cover is its .bss. */
static void root_name(const struct asking *asking, struct mw_refs_root *root)
{
    if (root->place.address && name_of(asking, root->place.address, root->name) &&
        root->place.kind == MW_ROOT_ANONYMOUS)
        root->place.kind = MW_ROOT_DATA;
}

static struct mw_refs_block block_of(const struct mw_reach *reach, uint32_t rank)
{
    mw_addr start, end;
    mw_index_bounds(reach->index, rank, &start, &end);
    uint64_t size = end - start;
    return (struct mw_refs_block){start, size, size - reach->index->overhead_bytes, rank};
}

static bool is_in_segment(const struct mw_analysis *analysis, mw_addr address)
{
    for (size_t i = 0; i < analysis->allocator_count; i++)
        for (size_t k = 0; k < analysis->allocators[i].segment_count; k++)
            if (address >= analysis->allocators[i].segments[k].start &&
                address < analysis->allocators[i].segments[k].end)
                return true;
    return false;
}

/* The thread on whose stack the address lies; false: on none. */
static bool stack_find(const struct mw_reach *reach, mw_addr address, int32_t *tid_out)
{
    for (size_t i = 0; i < reach->roots.ranges.count; i++) {
        const struct mw_root_range *range = &reach->roots.ranges.items[i];
        if (range->kind != MW_ROOT_STACK || address < range->start || address >= range->end)
            continue;
        *tid_out = range->tid;
        return true;
    }
    return false;
}

static void place_say(struct asking *asking)
{
    struct mw_refs *refs = asking->refs;
    const struct mw_reach *reach = &asking->analysis->reach;
    const struct mw_mapping *map = mw_image_region(&asking->analysis->image, refs->address);
    if (!map) {
        refs->kind = MW_REFS_UNMAPPED;
        return;
    }
    refs->map = *map;
    bool is_of_module = name_of(asking, refs->address, refs->name);
    uint32_t rank = reach->is_done ? mw_index_find(reach->index, refs->address) : MW_RANK_NONE;
    if (rank != MW_RANK_NONE) {
        refs->kind = MW_REFS_BLOCK;
        refs->block = block_of(reach, rank);
    } else if (is_in_segment(asking->analysis, refs->address)) {
        refs->kind = MW_REFS_HEAP_FREE;
    } else if (reach->is_done && stack_find(reach, refs->address, &refs->tid)) {
        refs->kind = MW_REFS_STACK;
    } else {
        refs->kind =
            mw_mapping_is_anonymous(map) && !is_of_module ? MW_REFS_MAPPING : MW_REFS_MODULE;
    }
}

static enum mw_status referrers_say(struct asking *asking)
{
    struct mw_refs *refs = asking->refs;
    const struct mw_reach *reach = &asking->analysis->reach;
    struct mw_ranks ranks;
    enum mw_status status =
        mw_paths_referrers(reach, refs->block.rank, MW_REFS_MAX, &ranks, &refs->referrer_total);
    for (size_t i = 0; i < ranks.count && status == MW_OK; i++)
        refs->referrers[refs->referrer_count++] = (struct mw_refs_step){
            block_of(reach, ranks.items[i]),
            mw_paths_offset(reach, &asking->analysis->image, ranks.items[i], refs->block.rank),
        };
    mw_vec_deinit(&ranks);
    return status;
}

static void roots_say(struct asking *asking)
{
    struct mw_refs *refs = asking->refs;
    struct mw_root_place places[MW_REFS_MAX];
    refs->root_count = mw_paths_roots(&asking->analysis->reach, &asking->analysis->image,
                                      refs->block.rank, MW_REFS_MAX, places, &refs->root_total);
    for (size_t i = 0; i < refs->root_count; i++) {
        refs->roots[i].place = places[i];
        root_name(asking, &refs->roots[i]);
    }
}

static enum mw_status path_say(struct asking *asking)
{
    struct mw_refs *refs = asking->refs;
    const struct mw_reach *reach = &asking->analysis->reach;
    struct mw_image *image = &asking->analysis->image;
    struct mw_ranks ranks;
    enum mw_status status = mw_paths_find(reach, refs->block.rank, &ranks);
    if (status == MW_OK && ranks.count > 1 &&
        !(refs->path = mw_calloc(ranks.count, sizeof *refs->path)))
        status = MW_NOMEM;
    for (size_t i = 0; i + 1 < ranks.count && status == MW_OK; i++)
        refs->path[refs->path_count++] = (struct mw_refs_step){
            block_of(reach, ranks.items[i]),
            mw_paths_offset(reach, image, ranks.items[i], ranks.items[i + 1]),
        };
    if (status == MW_OK && ranks.count > 0 && refs->is_reachable) {
        uint64_t total;
        struct mw_refs_root *root = &refs->path_root;
        refs->has_path_root =
            mw_paths_roots(reach, image, ranks.items[0], 1, &root->place, &total) == 1;
        if (refs->has_path_root)
            root_name(asking, root);
    }
    mw_vec_deinit(&ranks);
    return status;
}

/* By what the block itself holds; a layout that only many blocks prove stays unnamed. */
static enum mw_status layout_say(struct asking *asking, struct mw_error *err)
{
    struct mw_analysis *analysis = asking->analysis;
    struct mw_refs *refs = asking->refs;
    struct mw_layouts layouts;
    struct mw_layout_match match;
    enum mw_status status =
        mw_layouts_open(&analysis->image, analysis->allocators, analysis->allocator_count,
                        asking->names, &layouts, err);
    if (status != MW_OK)
        return status;
    if (mw_layouts_name(&layouts, &refs->block.address, 1, refs->block.usable_bytes, &match))
        snprintf(refs->layout, sizeof refs->layout, "%.*s", MW_REFS_NAME_ROOM - 1, match.name);
    mw_layouts_close(&layouts);
    return MW_OK;
}

static enum mw_status block_say(struct asking *asking)
{
    struct mw_refs *refs = asking->refs;
    const struct mw_reach *reach = &asking->analysis->reach;
    refs->is_reachable = mw_reach_is_reachable(reach, refs->block.rank);
    refs->is_direct = mw_bit_get(reach->is_direct, refs->block.rank);
    roots_say(asking);
    enum mw_status status = referrers_say(asking);
    if (status == MW_OK)
        status = path_say(asking);
    if (status == MW_OK)
        status = mw_paths_retained(reach, refs->block.rank, &refs->retained_count,
                                   &refs->retained_bytes);
    return status;
}

enum mw_status mw_refs_find(struct mw_analysis *analysis, mw_addr address,
                            struct mw_context *context, struct mw_refs *refs_out,
                            struct mw_error *err)
{
    const struct mw_names_options options = {0};
    *refs_out = (struct mw_refs){.address = address};
    struct asking asking = {.analysis = analysis, .refs = refs_out};
    enum mw_status status = mw_names_open(&analysis->image, &options, context, &asking.names, err);
    if (status != MW_OK)
        return status;
    place_say(&asking);
    if (refs_out->kind == MW_REFS_BLOCK)
        status = block_say(&asking);
    if (status == MW_OK && refs_out->kind == MW_REFS_BLOCK)
        status = layout_say(&asking, err);
    mw_names_free(asking.names);
    if (status == MW_OK)
        return MW_OK;
    mw_refs_deinit(refs_out);
    return mw_fail(err, status,
                   status == MW_NOMEM ? "out of memory looking for references" : "canceled");
}

void mw_refs_deinit(struct mw_refs *refs)
{
    free(refs->path);
    *refs = (struct mw_refs){0};
}
