/* heap/glibc/unknown.c: glibc's malloc in a layout that layout.c does not have.
 *
 * Trusts nothing. When mw_glibc_locate() found no main_arena of a known form, its bins may still be
 * there: many pairs of words in a row that each hold the address 16 bytes before them, twice, or
 * lead to chunks that lead back. No other list is made so but dlmalloc's, of which libffi and
 * others have a copy, and that has 32 bins. Then the allocator is said to be here and nothing in it
 * is counted: a wrong figure would be worse than none. Linear in the size of data mappings.
 * Reference: glibc malloc/malloc.c, bin_at() and malloc_init_state(). */
#include "base/cleanup.h"
#include "heap/glibc/glibc.h"
#include "heap/glibc/internal.h"

#include <stdio.h>
#include <string.h>

enum {
    BINS_MIN = 64,       /* more than the 32 of dlmalloc */
    EMPTY_MIN = 16,      /* of them, that hold nothing: a strong sign each */
    STEP = 256 << 10,    /* bytes read at a time */
    LINKS_MAX = 1 << 20, /* followed in all */
};
static const uint64_t SCAN_MAX = (uint64_t)256 << 20; /* of all mappings */

struct search {
    struct mw_glibc *glibc;
    uint64_t links, bytes_left;
    mw_addr next;        /* where the run of bins goes on */
    unsigned run, empty; /* its length so far, and how many in it are empty */
};

static bool leads_back(struct search *search, mw_addr chunk, unsigned at, mw_addr bin)
{
    uint64_t back;
    return search->links++ < LINKS_MAX &&
           mw_image_read_present(search->glibc->image, chunk + at, &back, sizeof back) ==
               sizeof back &&
           back == bin;
}

/* The pair of words at `at` is a bin? */
static bool pair_test(struct search *search, mw_addr at, const uint64_t pair[2])
{
    mw_addr bin = at - 16;
    bool is_empty = pair[0] == bin && pair[1] == bin;
    /* Full ones count only inside a run: a link is followed for few words. */
    bool is_full = !is_empty && search->run > 0 && search->next == at && pair[0] % 16 == 0 &&
                   pair[1] % 16 == 0 && leads_back(search, pair[0], 24, bin) &&
                   leads_back(search, pair[1], 16, bin);
    if (!is_empty && !is_full)
        return false;
    if (search->next != at)
        search->run = search->empty = 0;
    search->next = at + 16;
    search->run++;
    search->empty += is_empty;
    return true;
}

/* Bins in one mapping; where they begin, or 0. A run may start with full bins: those are missed,
 * and enough others are left. */
static mw_addr mapping_search(struct search *search, const struct mw_mapping *map, uint8_t *buffer)
{
    search->run = search->empty = 0;
    for (mw_addr at = map->start; at < map->end && search->bytes_left > 0; at += STEP) {
        size_t want = map->end - at < STEP + 8 ? (size_t)(map->end - at) : STEP + 8;
        size_t got = mw_image_read_present(search->glibc->image, at, buffer, want);
        search->bytes_left -= got < search->bytes_left ? got : search->bytes_left;
        for (size_t i = 0; i + 16 <= got;) {
            uint64_t pair[2];
            memcpy(pair, buffer + i, sizeof pair);
            bool is_bin = pair_test(search, at + i, pair);
            if (search->run >= BINS_MIN && search->empty >= EMPTY_MIN)
                return search->next - 16 * (mw_addr)search->run;
            i += is_bin ? 16 : 8;
        }
        if (got < want)
            break;
    }
    return 0;
}

/* An arena of unknown form; glibc->main_arena is a place in it. */
static enum mw_status unknown_locate(struct mw_glibc *glibc, struct mw_error *err)
{
    enum mw_status status = mw_glibc_locate(glibc, err);
    if (status == MW_OK)
        return mw_fail(err, MW_NOT_FOUND, "the layout of glibc's malloc is a known one");
    if (status != MW_NOT_FOUND)
        return status;
    MW_FREE uint8_t *buffer = mw_calloc(STEP + 8, 1);
    if (!buffer)
        return mw_fail(err, MW_NOMEM, "out of memory");
    struct search search = {.glibc = glibc, .bytes_left = SCAN_MAX};
    const struct mw_mapping_list *regions = &glibc->image->regions;
    for (int named = 1; named >= 0; named--) /* the heap of a thread arena has bins, too */
        for (size_t i = 0; i < regions->count; i++) {
            const struct mw_mapping *map = &regions->items[i];
            if ((map->name[0] != '\0') != named || !mw_glibc_region_may_hold_arena(map))
                continue;
            glibc->main_arena = mapping_search(&search, map, buffer);
            if (glibc->main_arena != 0)
                return MW_OK;
        }
    return mw_fail(err, MW_NOT_FOUND, "no glibc malloc in this image");
}

/* The same while the target is held: lists that change while they are looked at, though known, look
 * like none. */
static enum mw_status unknown_confirm(struct mw_glibc *glibc, struct mw_error *err)
{
    enum mw_status status = mw_image_stop(glibc->image, err);
    if (status != MW_OK)
        return status == MW_GONE ? MW_GONE : MW_NOT_FOUND;
    status = unknown_locate(glibc, err);
    if (glibc->image->stopped)
        mw_image_resume(glibc->image);
    return status;
}

static enum mw_status unknown_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                    struct mw_error *err)
{
    struct mw_glibc glibc = {.image = image};
    enum mw_status status = unknown_locate(&glibc, err);
    if (status == MW_OK && mw_image_moves(image) && !image->stopped) {
        glibc = (struct mw_glibc){.image = image};
        status = unknown_confirm(&glibc, err);
    }
    if (status != MW_OK)
        return status;
    allocator_out->kind = "glibc";
    mw_glibc_read_version(&glibc, allocator_out->version);
    if (!allocator_out->version[0])
        snprintf(allocator_out->version, sizeof allocator_out->version, "unknown layout");
    return MW_OK;
}

/* Says so, and counts nothing. */
static enum mw_status unknown_walk(struct mw_image *image, const struct mw_heap_options *options,
                                   struct mw_context *context, struct mw_allocator *allocator,
                                   struct mw_findings *findings, struct mw_error *err)
{
    struct mw_glibc glibc = {.image = image};
    (void)options;
    (void)context;
    enum mw_status status = unknown_locate(&glibc, err);
    if (status != MW_OK)
        return status;
    mw_finding_add(findings, "glibc-layout-unknown", glibc.main_arena, 0,
                   "glibc, unknown layout: its malloc is here in a form that this memwhy does not "
                   "know; what is in use and free in it was not counted");
    bool has_version = strncmp(allocator->version, "2.", 2) == 0;
    (void)mw_fail(err, MW_UNSUPPORTED, "glibc%s%s, unknown layout: its memory was not split",
                  has_version ? " " : "", has_version ? allocator->version : "");
    mw_error_hint(err, "a newer memwhy may know it; memwhy maps shows the mappings");
    return MW_UNSUPPORTED;
}

const struct mw_heap_walker mw_glibc_unknown_walker = {
    .kind = "glibc",
    .probe = unknown_probe,
    .walk = unknown_walk,
};
