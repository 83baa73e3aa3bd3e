/* report/maps_json.c: memwhy.maps/1. */
#include "report/emit.h"

#include "report/maps.h"
#include "report/parts_json.h"

#include <assert.h>

void mw_maps_perms_format(char text[5], uint32_t perms)
{
    text[0] = perms & MW_PERM_READ ? 'r' : '-';
    text[1] = perms & MW_PERM_WRITE ? 'w' : '-';
    text[2] = perms & MW_PERM_EXEC ? 'x' : '-';
    text[3] = perms & MW_PERM_SHARED ? 's' : 'p';
    text[4] = '\0';
}

const struct mw_mapping *mw_maps_region(const struct mw_analysis *analysis,
                                        const struct mw_account_piece *piece)
{
    assert(piece->region < analysis->image.regions.count);
    return &analysis->image.regions.items[piece->region];
}

static uint64_t whole_counter(const struct mw_mapping *map, enum mw_counter counter, bool is_part)
{
    return is_part || !mw_mapping_knows(map, counter) ? MW_UNKNOWN : map->counters[counter];
}

static void json_piece(struct mw_json *json, const struct mw_analysis *analysis,
                       const struct mw_account_piece *piece)
{
    const struct mw_account *account = &analysis->account;
    const struct mw_mapping *map = mw_maps_region(analysis, piece);
    bool is_part = piece->start != map->start || piece->end != map->end;
    char perms[5];
    mw_maps_perms_format(perms, map->perms);
    mw_field_object_begin(json, MW_SCOPE_mapping);
    mw_field_address(json, MW_F(mapping, start), piece->start);
    mw_field_address(json, MW_F(mapping, end), piece->end);
    mw_field_text(json, MW_F(mapping, perms), perms);
    mw_field_text(json, MW_F(mapping, name), mw_text_or_null(map->name));
    mw_field_text(json, MW_F(mapping, owner), mw_text_or_null(piece->owner));
    mw_field_text(json, MW_F(mapping, category), mw_category_id(piece->category));
    mw_field_u64(json, MW_F(mapping, size_bytes), piece->end - piece->start);
    mw_field_u64(json, MW_F(mapping, rss_bytes), account->has_rss ? piece->rss_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(mapping, pss_bytes), account->has_pss ? piece->pss_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(mapping, swap_bytes),
                 account->has_swap ? piece->swap_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(mapping, anon_huge_bytes),
                 account->has_rss ? piece->anon_huge_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(mapping, locked_bytes), whole_counter(map, MW_COUNTER_LOCKED, is_part));
    mw_field_u64(json, MW_F(mapping, lazy_free_bytes),
                 whole_counter(map, MW_COUNTER_LAZY_FREE, is_part));
    mw_field_bool(json, MW_F(mapping, is_part), is_part);
    mw_field_object_end(json);
}

enum mw_status mw_report_maps_json(const struct mw_analysis *analysis, bool only_unknown,
                                   struct mw_sink sink, struct mw_error *err)
{
    const struct mw_account *account = &analysis->account;
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_maps);
    mw_field_text(&json, MW_F(maps, schema), "memwhy.maps/1");
    mw_field_text(&json, MW_F(maps, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(maps, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(maps, target));
    mw_json_target(&json, analysis);
    mw_field_u64(&json, MW_F(maps, rss_bytes), account->has_rss ? account->rss_bytes : MW_UNKNOWN);
    mw_field_key(&json, MW_F(maps, mappings));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < account->piece_count && !mw_json_failed(&json); i++)
        if (!only_unknown || account->pieces[i].category == MW_CATEGORY_UNKNOWN)
            json_piece(&json, analysis, &account->pieces[i]);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(maps, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(maps, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}
