/* heap/musl/musl.c: musl's mallocng as a walker. The steps, each in its own file:
 * locate → copies of the metas → (the target is let go) → groups → nest → tally.
 *
 * Only the metas are read while the target is held: 40 bytes for up to 32 slots, which tell
 * everything but residency. No lock is looked at: a single-threaded program takes none, and free()
 * works without one. What a half-made group leaves behind does not add up to malloc's own counters;
 * then the walk is not reconciled, and the session tries again. Format and sources:
 * docs/formats/musl.md. */
#include "heap/musl/musl.h"

#include "base/clock.h"
#include "heap/modules.h"
#include "heap/musl/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "1.2.5", or "1.2.5-git-17-g1234": the whole text. */
static size_t match_version(const char *at, size_t left)
{
    size_t length = 0;
    if (left < 6 || at[1] != '.' || at[0] < '0' || at[0] > '9')
        return 0;
    while (length < left && length < 12 &&
           (isdigit((unsigned char)at[length]) || at[length] == '.'))
        length++;
    size_t digits = length;
    if (digits < 5 || digits == 12 || at[digits - 1] == '.' || !memchr(at + 2, '.', digits - 2))
        return 0;
    if (left - digits > 5 && memcmp(at + digits, "-git-", 5) == 0)
        return digits;
    return digits < left && at[digits] == '\0' ? digits : 0;
}

/* Is this a release with mallocng, or one of which that is not known? */
static bool may_be_mallocng(const char *version)
{
    unsigned major, minor, patch;
    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return true;
    return major > 1 || (major == 1 && (minor > 2 || (minor == 2 && patch >= 1)));
}

/* Releases before 1.2.4 mark the pages of large free slots (musl's e6e82132 turned that off). Of a
 * static program the release is not known. */
static bool may_mark_free(const char *version)
{
    unsigned minor, patch;
    return sscanf(version, "1.%u.%u", &minor, &patch) != 2 || minor < 2 ||
           (minor == 2 && patch < 4);
}

static enum mw_status musl_probe(struct mw_image *image, struct mw_allocator *allocator_out,
                                 struct mw_error *err)
{
    const struct mw_mapping *libc = mw_musl_libc(image);
    if (!libc && (mw_musl_has_other_libc(image) || !(image->can & MW_CAN_READ)))
        return MW_NOT_FOUND;
    struct mw_allocator found = {.kind = "musl"};
    if (libc && (image->can & MW_CAN_READ)) {
        mw_module_version(image, libc, match_version, 0, found.version);
    } else if (!libc) {
        struct mw_musl musl = {.image = image};
        enum mw_status status = mw_musl_locate(&musl);
        if (status == MW_NOMEM)
            return mw_fail(err, status, "out of memory");
        if (status != MW_OK)
            return status;
        snprintf(found.version, sizeof found.version, "mallocng");
    }
    *allocator_out = found;
    return MW_OK;
}

/* The target runs: copies that were made under several stops are of no one moment when they changed
 * meanwhile. */
static enum mw_status several_stops_check(struct mw_musl *musl, struct mw_allocator *allocator,
                                          struct mw_error *err)
{
    if (musl->stops == 1)
        return MW_OK;
    mw_musl_compare_areas(musl);
    allocator->moved_count = musl->changed_areas > 0;
    mw_finding_add(musl->findings, "several-stops", 0, 0,
                   "the heap's metadata was read under %u stops: %zu of %zu pages of it changed "
                   "meanwhile%s",
                   musl->stops, musl->changed_areas, musl->areas.count,
                   musl->changed_areas > 0 ? ", so the sums are of a moment that never was" : "");
    return mw_image_refresh(musl->image, err); /* the regions had lost their counters */
}

static enum mw_status walk_all(struct mw_musl *musl, const struct mw_heap_options *options,
                               struct mw_allocator *allocator, struct mw_error *err)
{
    enum mw_status status = mw_musl_locate(musl);
    if (status == MW_OK)
        status = mw_musl_copy_areas(musl, err);
    if (musl->image->stopped && !musl->hold)
        mw_image_resume(musl->image);
    if (status == MW_OK)
        status = several_stops_check(musl, allocator, err);
    if (status != MW_OK)
        return status;
    if (!allocator->version[0])
        snprintf(allocator->version, sizeof allocator->version, "mallocng");
    allocator->kind = "musl";
    allocator->walked = true;
    allocator->marks_free = may_mark_free(allocator->version);
    allocator->parameters = (struct mw_heap_parameters){
        .mmap_threshold = MW_MUSL_OWN_BYTES,
        .no_dyn_threshold = true,
    };
    status = mw_musl_read_metas(musl);
    if (status == MW_OK)
        status = mw_musl_nest(musl);
    return status == MW_OK ? mw_musl_tally(musl, options, allocator) : status;
}

static enum mw_status musl_walk(struct mw_image *image, const struct mw_heap_options *options,
                                struct mw_context *context, struct mw_allocator *allocator,
                                struct mw_findings *findings, struct mw_error *err)
{
    static const struct mw_heap_options no_options;
    struct mw_musl musl = {
        .image = image,
        .context = context,
        .findings = findings,
        .hold = options && options->hold,
        .is_sound = true,
    };
    if (!may_be_mallocng(allocator->version))
        return MW_NOT_FOUND; /* the malloc before 1.2.1 */
    enum mw_status status = walk_all(&musl, options ? options : &no_options, allocator, err);
    mw_vec_deinit(&musl.areas);
    mw_vec_deinit(&musl.items);
    if (status == MW_NOMEM)
        return mw_fail(err, status, "out of memory walking the heap");
    if (status == MW_CANCELED)
        return mw_fail(err, status, "canceled");
    return status;
}

const struct mw_heap_walker mw_musl_walker = {
    .kind = "musl",
    .probe = musl_probe,
    .walk = musl_walk,
};
