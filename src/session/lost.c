/* session/lost.c: groups of lost blocks and their names. */
#include "session/lost.h"

#include "base/alloc.h"
#include "session/layouts.h"
#include "symbol/call.h"
#include "symbol/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A constant of up to this much is a count or a flag and no secret. */
enum { SMALL_MAX = 0xffff, WORDS_SHOWN = 3 };

static void name_of(struct mw_names *names, mw_addr address, char text[MW_LOST_NAME_ROOM])
{
    struct mw_name name;
    char whole[MW_NAME_TEXT_ROOM];
    text[0] = '\0';
    if (!mw_names_resolve(names, address, &name))
        return;
    mw_names_format(&name, whole);
    snprintf(text, MW_LOST_NAME_ROOM, "%.*s", MW_LOST_NAME_ROOM - 1, whole);
}

/* The words that all blocks have in common and that say something. */
static void words_name(struct mw_names *names, const struct mw_lost_group *group,
                       char text[MW_LOST_NAME_ROOM])
{
    size_t length = 0;
    unsigned shown = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < group->word_count && shown < WORDS_SHOWN; i++) {
        char what[MW_LOST_NAME_ROOM] = "";
        if (!(group->constant >> i & 1) || group->words[i] == 0)
            continue;
        if (group->words[i] <= SMALL_MAX)
            snprintf(what, sizeof what, "0x%llx", (unsigned long long)group->words[i]);
        else
            name_of(names, group->words[i], what);
        if (!what[0])
            continue;
        int got = snprintf(text + length, MW_LOST_NAME_ROOM - length, "%s+0x%x %s",
                           shown ? ", " : "", i * 8, what);
        if (got < 0 || (size_t)got >= MW_LOST_NAME_ROOM - length) {
            text[length] = '\0';
            return;
        }
        length += (size_t)got;
        shown++;
    }
}

/* A return address that all blocks have in common: a record of a call, as an exception's is. The
 * first one that a call lies before. */
static void caller_name(struct mw_names *names, struct mw_image *image,
                        const struct mw_lost_group *group, char text[MW_LOST_NAME_ROOM])
{
    for (uint32_t i = 0; i < group->word_count; i++) {
        struct mw_call call;
        struct mw_name name;
        char at[MW_NAME_TEXT_ROOM], after[MW_NAME_TEXT_ROOM];
        const struct mw_mapping *map = mw_image_region(image, group->words[i]);
        if (!(group->constant >> i & 1) || !map || !(map->perms & MW_PERM_EXEC) ||
            mw_call_before(image, group->words[i], &call) != MW_OK ||
            !mw_names_resolve_return(names, group->words[i], &name))
            continue;
        mw_names_format(&name, at);
        mw_call_describe(&call, image, names, after, sizeof after);
        snprintf(text, MW_LOST_NAME_ROOM, "%.90s, after: %.80s", at, after);
        return;
    }
}

/* Layouts of the largest groups, small sizes first: an owner is seen before its buffers. */
static void layouts_name(struct mw_layouts *layouts, struct mw_lost *lost, size_t count)
{
    for (uint64_t last = 0, size;; last = size) {
        size = UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            uint64_t bytes = lost->groups.groups.items[i].size_bytes;
            if (bytes > last && bytes < size)
                size = bytes;
        }
        if (size == UINT64_MAX)
            return;
        for (size_t i = 0; i < count; i++) {
            const struct mw_lost_group *group = &lost->groups.groups.items[i];
            struct mw_layout_match match;
            if (group->size_bytes == size &&
                mw_layouts_name(layouts, group->samples, group->sample_count, group->usable_bytes,
                                &match))
                snprintf(lost->names[i].layout, MW_LOST_NAME_ROOM, "%.190s", match.name);
        }
    }
}

/* What the first word of the holder points to, and the root that leads to it. */
static void holder_name(struct mw_names *names, struct mw_image *image, struct mw_lost *lost)
{
    const struct mw_holder *holder = &lost->holder;
    uint64_t word;
    char place[MW_LOST_NAME_ROOM] = "";
    if (mw_image_read_u64(image, holder->address, &word) == MW_OK)
        name_of(names, word, lost->holder_type);
    if (!holder->has_root)
        return;
    if (holder->root.address)
        name_of(names, holder->root.address, place);
    if (holder->root.tid)
        snprintf(lost->holder_root, MW_LOST_NAME_ROOM, "%s of thread %d",
                 mw_root_kind_name(holder->root.kind), holder->root.tid);
    else
        snprintf(lost->holder_root, MW_LOST_NAME_ROOM, "%s 0x%llx %.120s",
                 mw_root_kind_name(holder->root.kind), (unsigned long long)holder->root.address,
                 place);
}

struct naming {
    struct mw_image *image;
    const struct mw_allocator *allocators;
    size_t allocator_count;
    size_t named_max;
    struct mw_context *context;
};

static enum mw_status names_make(const struct naming *naming, struct mw_lost *lost,
                                 struct mw_error *err)
{
    struct mw_image *image = naming->image;
    bool has_holder = lost->holder.rank != MW_RANK_NONE && lost->holder.size_bytes > 0;
    size_t count = lost->groups.groups.count;
    count = count < naming->named_max ? count : naming->named_max;
    if (count == 0 && !has_holder)
        return MW_OK;
    struct mw_names *names;
    const struct mw_names_options options = {0};
    enum mw_status status = mw_names_open(image, &options, naming->context, &names, err);
    if (status != MW_OK)
        return status;
    if (has_holder)
        holder_name(names, image, lost);
    lost->names = mw_calloc(count + 1, sizeof *lost->names);
    if (!lost->names)
        status = mw_fail(err, MW_NOMEM, "out of memory naming blocks");
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        const struct mw_lost_group *group = &lost->groups.groups.items[i];
        if (group->type)
            name_of(names, group->type, lost->names[i].type);
        if (group->count > 1)
            words_name(names, group, lost->names[i].words);
        if (group->count > 1)
            caller_name(names, image, group, lost->names[i].caller);
        lost->name_count = i + 1;
    }
    struct mw_layouts layouts;
    if (status == MW_OK && count > 0)
        status = mw_layouts_open(image, naming->allocators, naming->allocator_count, names,
                                 &layouts, err);
    if (status == MW_OK && count > 0) {
        layouts_name(&layouts, lost, count);
        mw_layouts_close(&layouts);
    }
    mw_names_free(names);
    return status;
}

/* Move the groups that are suppressed out of the list. */
static void suppressed_drop(struct mw_lost *lost, const struct mw_suppressions *suppressions)
{
    size_t kept = 0, kept_names = 0;
    for (size_t i = 0; i < lost->groups.groups.count; i++) {
        const struct mw_lost_group *group = &lost->groups.groups.items[i];
        const struct mw_lost_name *name = i < lost->name_count ? &lost->names[i] : NULL;
        const char *signature = name ? mw_lost_signature(lost, i) : "";
        const char *const names[] = {
            name && !signature[0] ? "-" : signature,
            name ? name->layout : "",
            name ? name->type : "",
            name ? name->caller : "",
        };
        if (mw_suppressions_match(suppressions, group->usable_bytes, names,
                                  sizeof names / sizeof *names)) {
            lost->suppressed_kinds++;
            lost->suppressed_count += group->count;
            lost->suppressed_bytes += group->bytes;
            continue;
        }
        if (name)
            lost->names[kept_names++] = *name;
        lost->groups.groups.items[kept++] = *group;
    }
    lost->groups.groups.count = kept;
    lost->name_count = kept_names;
}

enum mw_status mw_lost_describe(const struct mw_reach *reach, struct mw_image *image,
                                const struct mw_allocator *allocators, size_t allocator_count,
                                const struct mw_lost_wish *wish, struct mw_context *context,
                                struct mw_lost *lost_out, struct mw_error *err)
{
    *lost_out = (struct mw_lost){0};
    enum mw_status status = mw_lost_groups_make(reach, image, context, &lost_out->groups, err);
    if (status == MW_OK && wish->size_bytes > 0) {
        status = mw_holder_find(reach, image, wish->size_bytes, &lost_out->holder);
        if (status != MW_OK)
            mw_fail(err, status, "out of memory looking for what holds most blocks");
    }
    if (status == MW_OK)
        status = names_make(
            &(struct naming){
                .image = image,
                .allocators = allocators,
                .allocator_count = allocator_count,
                .named_max = wish->suppressions ? MW_LOST_COMPARED_MAX : MW_LOST_NAMED_MAX,
                .context = context,
            },
            lost_out, err);
    if (status == MW_OK && wish->suppressions)
        suppressed_drop(lost_out, wish->suppressions);
    if (status != MW_OK)
        mw_lost_deinit(lost_out);
    return status;
}

void mw_lost_deinit(struct mw_lost *lost)
{
    mw_lost_groups_deinit(&lost->groups);
    free(lost->names);
    *lost = (struct mw_lost){0};
}

const char *mw_lost_signature(const struct mw_lost *lost, size_t index)
{
    if (index >= lost->name_count)
        return "";
    const struct mw_lost_name *name = &lost->names[index];
    return name->layout[0] ? name->layout : name->type[0] ? name->type : name->words;
}

struct mw_leak_evidence mw_lost_evidence(const struct mw_reach *reach, const struct mw_lost *lost,
                                         struct mw_leak_kind kinds[MW_LEAK_KINDS])
{
    size_t count =
        lost->groups.groups.count < MW_LEAK_KINDS ? lost->groups.groups.count : MW_LEAK_KINDS;
    for (size_t i = 0; i < count; i++) {
        const struct mw_lost_group *group = &lost->groups.groups.items[i];
        kinds[i] = (struct mw_leak_kind){
            .size_bytes = group->size_bytes,
            .usable_bytes = group->usable_bytes,
            .count = group->count,
            .bytes = group->bytes,
            .direct_count = group->direct_count,
            .signature = mw_lost_signature(lost, i),
            .caller = i < lost->name_count ? lost->names[i].caller : "",
        };
    }
    uint64_t resident = 0;
    for (size_t i = 0; i < lost->groups.groups.count && resident != MW_UNKNOWN; i++)
        resident = lost->groups.groups.items[i].resident_bytes == MW_UNKNOWN
                       ? MW_UNKNOWN
                       : resident + lost->groups.groups.items[i].resident_bytes;
    return (struct mw_leak_evidence){
        .lost_resident_bytes = resident,
        .is_exact = mw_reach_is_exact(reach),
        .held_count = reach->reachable_count,
        .held_bytes = reach->reachable_bytes,
        .lost_count = reach->unreachable_count - lost->suppressed_count,
        .lost_bytes = reach->unreachable_bytes - lost->suppressed_bytes,
        .direct_count = reach->direct_count,
        .kinds = kinds,
        .kind_count = count,
        .kinds_in_all = lost->groups.groups.count,
    };
}

struct mw_holder_evidence mw_lost_holder(const struct mw_lost *lost)
{
    const struct mw_holder *holder = &lost->holder;
    return (struct mw_holder_evidence){
        .size_bytes = holder->size_bytes,
        .sampled = holder->sampled,
        .through = holder->through,
        .is_found = holder->size_bytes > 0 && holder->rank != MW_RANK_NONE,
        .address = holder->address,
        .holder_bytes = holder->holder_bytes,
        .retained_count = holder->retained_count,
        .retained_bytes = holder->retained_bytes,
        .type = lost->holder_type,
        .root = lost->holder_root,
    };
}
