/* account/mappings.c: kernel-level claims, one rule after the other.
 *
 * Everything here works on a pasted smaps; what reading memory adds (exact ends of .bss, thread
 * control blocks, the loader's list) sharpens a rule and is never required. Linear but for the
 * sorting of files. */
#include "account/claiming.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <assert.h>

enum mw_status mw_claiming_take(struct mw_claiming *claiming, size_t i, mw_addr to,
                                enum mw_category category, enum mw_claim_priority priority,
                                const char *owner)
{
    assert(i < claiming->map_count && to <= claiming->maps[i].end);
    mw_addr from = claiming->decided_to[i];
    if (from >= to)
        return MW_OK;
    claiming->decided_to[i] = to;
    return mw_claims_add_range(claiming->claims, from, to, category, priority, owner);
}

enum mw_status mw_account_claim_mappings(struct mw_image *image, struct mw_claims *claims,
                                         struct mw_findings *findings, struct mw_error *err)
{
    static enum mw_status (*const rules[])(struct mw_claiming *) = {
        mw_claiming_names,  mw_claiming_files,  mw_claiming_stacks,
        mw_claiming_loader, mw_claiming_shapes, mw_claiming_aliases,
    };
    size_t count = image->regions.count;
    MW_FREE mw_addr *decided_to = mw_calloc(count, sizeof *decided_to);
    MW_FREE bool *is_file_of_code = mw_calloc(count, sizeof *is_file_of_code);
    if (!decided_to || !is_file_of_code)
        return mw_fail(err, MW_NOMEM, "cannot claim mappings");
    struct mw_claiming claiming = {
        .image = image,
        .claims = claims,
        .findings = findings,
        .maps = image->regions.items,
        .map_count = count,
        .decided_to = decided_to,
        .is_file_of_code = is_file_of_code,
    };
    for (size_t i = 0; i < count; i++)
        decided_to[i] = claiming.maps[i].start;
    for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++) {
        enum mw_status status = rules[rule](&claiming);
        if (status != MW_OK)
            return mw_fail(err, status, "cannot claim mappings");
    }
    return MW_OK;
}
