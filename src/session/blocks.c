/* session/blocks.c: from a walk that notes blocks to what is known of them.
 *
 *   walk, noting ─► groups by size ─► what others know ─► fields of one group ─► names of addresses
 *                                                     └► repeated text
 *
 * The walk notes the blocks of the named size only; where none is named it must note all, because
 * which one holds most is known at its end. Blocks are read after the walk: of a live target while
 * it runs, unless it was forked, which is the finding blocks-not-of-one-moment. */
#include "session/blocks.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "symbol/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields whose addresses are named: files are read for it. */
enum { NAMED_FIELDS_MAX = 4096, NAMED_SHARE = 5 };

static void text_put(char *to, size_t room, const char *name, uint64_t offset)
{
    size_t length = strnlen(name, room - 24);
    memcpy(to, name, length);
    if (offset)
        snprintf(to + length, room - length, "+0x%llx", (unsigned long long)offset);
    else
        to[length] = '\0';
}

/* Names of one address. Returns false when it has none. */
static bool names_fill(struct mw_names *names, struct mw_image *image, mw_addr address,
                       bool is_code, struct mw_field_names *into)
{
    struct mw_name name;
    struct mw_call call;
    bool is_return = is_code && mw_call_before(image, address, &call) == MW_OK;
    bool found = is_return ? mw_names_resolve_return(names, address, &name)
                           : mw_names_resolve(names, address, &name);
    unsigned line;
    if (!found)
        return false;
    if (name.module[0])
        snprintf(into->resolved, sizeof into->resolved, "%s+0x%llx", name.module,
                 (unsigned long long)name.module_offset);
    if (name.symbol[0])
        text_put(into->symbol, sizeof into->symbol, name.symbol, name.symbol_offset);
    if (is_return)
        mw_call_describe(&call, image, names, into->call, sizeof into->call);
    char file[sizeof into->line - 16];
    if (is_code &&
        mw_names_line(names, is_return ? address - 1 : address, file, sizeof file, &line))
        snprintf(into->line, sizeof into->line, "%s:%u", file, line);
    return true;
}

/* The address whose name says most of a field: the most frequent one, which may be all. */
static mw_addr address_to_name(const struct mw_block_field *field)
{
    bool is_named = field->top_class == MW_VALUE_CODE || field->top_class == MW_VALUE_DATA;
    bool is_rare = field->top_count < field->count / NAMED_SHARE;
    return field->top_count > 0 && is_named && !is_rare ? field->top : 0;
}

static enum mw_status fields_name(struct mw_image *image, const struct mw_names_options *options,
                                  struct mw_fields *fields, struct mw_context *context,
                                  struct mw_error *err)
{
    struct mw_names *names = NULL;
    enum mw_status status = mw_names_open(image, options, context, &names, err);
    size_t named = 0;
    for (size_t i = 0; i < fields->count && status == MW_OK && named < NAMED_FIELDS_MAX; i++) {
        struct mw_block_field *field = &fields->items[i];
        mw_addr address = address_to_name(field);
        if (address == 0)
            continue;
        named++;
        if (mw_context_canceled(context)) {
            status = mw_fail(err, MW_CANCELED, "canceled");
            break;
        }
        field->names = mw_calloc(1, sizeof *field->names);
        if (!field->names)
            status = mw_fail(err, MW_NOMEM, "out of memory");
        else if (!names_fill(names, image, address, field->top_class == MW_VALUE_CODE,
                             field->names))
            free(mw_steal(field->names));
    }
    mw_names_free(names);
    return status;
}

static void texts_read(struct mw_blocks *blocks, struct mw_image *image)
{
    for (size_t i = 0; i < blocks->strings.row_count; i++) {
        const struct mw_string_row *row = &blocks->strings.rows[i];
        size_t wanted = row->length_bytes < MW_STRING_TEXT_BYTES ? (size_t)row->length_bytes
                                                                 : MW_STRING_TEXT_BYTES;
        blocks->texts[i].length = mw_image_read_some(image, row->sample_block + row->sample_offset,
                                                     blocks->texts[i].text, wanted);
    }
}

/* What of the result is not what it seems. */
static void findings_add(const struct mw_blocks *blocks, struct mw_analysis *analysis)
{
    struct mw_findings *findings = &analysis->findings;
    bool was_read =
        blocks->fields.count > 0 || (blocks->has_strings && blocks->strings.block_count > 0);
    if (blocks->list.unlisted > 0)
        mw_finding_add(findings, "blocks-not-listed", 0, 0,
                       "%llu blocks were not looked into: there are too many to note",
                       (unsigned long long)blocks->list.unlisted);
    if (was_read && mw_image_moves(&analysis->image))
        mw_finding_add(findings, "blocks-not-of-one-moment", 0, 0,
                       "blocks were read while the target ran on, so some may have changed since "
                       "they were counted: --fork reads one moment");
    if (blocks->fields.unread_count > 0)
        mw_finding_add(findings, "blocks-unreadable", 0, 0,
                       "%llu pieces of blocks could not be read and are not in the statistics",
                       (unsigned long long)blocks->fields.unread_count);
    if (blocks->fields.cut_bytes > 0)
        mw_finding_add(findings, "fields-cut", 0, blocks->fields.cut_bytes,
                       "statistics end after %d words of such large blocks", MW_FIELDS_WORDS_MAX);
}

struct run {
    const struct mw_blocks_options *options;
    struct mw_blocks *blocks;
};

static enum mw_status group_choose(struct run *run, struct mw_analysis *analysis,
                                   struct mw_error *err)
{
    struct mw_blocks *blocks = run->blocks;
    if (mw_block_groups_make(analysis->allocators, analysis->allocator_count, &blocks->groups) !=
        MW_OK)
        return mw_fail(err, MW_NOMEM, "out of memory");
    blocks->knowledge = mw_calloc(blocks->groups.count, sizeof *blocks->knowledge);
    if (!blocks->knowledge)
        return mw_fail(err, MW_NOMEM, "out of memory");
    for (size_t i = 0; i < blocks->groups.count; i++)
        blocks->knowledge[i].unreachable_count = MW_UNKNOWN;
    if (run->options->size_bytes)
        blocks->chosen = mw_block_groups_find(&blocks->groups, run->options->size_bytes);
    else if (run->options->fields)
        blocks->chosen = mw_block_groups_main(&blocks->groups);
    if (run->options->tell)
        return run->options->tell(run->options->tell_user, analysis, &blocks->groups,
                                  blocks->knowledge, err);
    return MW_OK;
}

static enum mw_status blocks_read(struct run *run, struct mw_analysis *analysis,
                                  const struct mw_value_ranges *ranges, struct mw_context *context,
                                  struct mw_error *err)
{
    struct mw_blocks *blocks = run->blocks;
    const struct mw_block_group *chosen = blocks->chosen;
    enum mw_status status = MW_OK;
    if (run->options->fields && chosen) {
        const struct mw_fields_input input = {
            .image = &analysis->image,
            .list = &blocks->list,
            .ranges = ranges,
            .size_bytes = chosen->size_bytes,
            .usable_bytes = chosen->usable_bytes,
            .block_count = chosen->count,
            .context = context,
        };
        status = mw_fields_read(&input, &blocks->fields, err);
        if (status == MW_OK)
            status =
                fields_name(&analysis->image, &run->options->names, &blocks->fields, context, err);
    }
    if (status == MW_OK && run->options->strings && (chosen || !run->options->size_bytes)) {
        const struct mw_strings_input input = {
            .image = &analysis->image,
            .list = &blocks->list,
            .ranges = ranges,
            .size_bytes = chosen ? chosen->size_bytes : 0,
            .context = context,
        };
        status = mw_strings_read(&input, &blocks->strings, err);
        blocks->has_strings = status == MW_OK;
        if (blocks->has_strings && run->options->contents)
            texts_read(blocks, &analysis->image);
    }
    return status;
}

static enum mw_status read_more(void *user, struct mw_analysis *analysis,
                                struct mw_context *context, struct mw_error *err)
{
    struct run *run = user;
    struct mw_value_ranges ranges;
    mw_block_list_sort(&run->blocks->list);
    enum mw_status status = group_choose(run, analysis, err);
    if (status != MW_OK)
        return status;
    if (mw_value_ranges_init(&ranges, &analysis->image, &analysis->claims) != MW_OK)
        return mw_fail(err, MW_NOMEM, "out of memory");
    status = blocks_read(run, analysis, &ranges, context, err);
    mw_value_ranges_deinit(&ranges);
    if (status == MW_OK)
        findings_add(run->blocks, analysis);
    return status;
}

/* The caller's options with the visitor and the reading of blocks. */
static void run_init(struct run *run, const struct mw_blocks_options *blocks_options,
                     struct mw_blocks *blocks, struct mw_analysis_options *options,
                     struct mw_heap_visitor *visitor)
{
    assert(options->heap.visitor_count == 0 && !options->read_more);
    *blocks = (struct mw_blocks){.options = *blocks_options};
    blocks->list.wanted_bytes = blocks_options->size_bytes;
    *run = (struct run){blocks_options, blocks};
    *visitor = mw_block_list_visitor(&blocks->list);
    options->heap.visitors = visitor;
    options->heap.visitor_count = 1;
    options->read_more = read_more;
    options->read_more_user = run;
}

enum mw_status mw_blocks_run(const char *target, const struct mw_analysis_options *options,
                             const struct mw_blocks_options *blocks_options,
                             struct mw_context *context, struct mw_analysis *analysis_out,
                             struct mw_blocks *blocks_out, struct mw_error *err)
{
    struct mw_analysis_options with_blocks = *options;
    struct mw_heap_visitor visitor;
    struct run run;
    run_init(&run, blocks_options, blocks_out, &with_blocks, &visitor);
    enum mw_status status = mw_analysis_run(target, &with_blocks, context, analysis_out, err);
    if (status != MW_OK)
        mw_blocks_deinit(blocks_out);
    return status;
}

enum mw_status mw_blocks_run_image(struct mw_image *image,
                                   const struct mw_analysis_options *options,
                                   const struct mw_blocks_options *blocks_options,
                                   struct mw_context *context, struct mw_analysis *analysis_out,
                                   struct mw_blocks *blocks_out, struct mw_error *err)
{
    struct mw_analysis_options with_blocks = *options;
    struct mw_heap_visitor visitor;
    struct run run;
    run_init(&run, blocks_options, blocks_out, &with_blocks, &visitor);
    enum mw_status status = mw_analysis_run_image(image, &with_blocks, context, analysis_out, err);
    if (status != MW_OK)
        mw_blocks_deinit(blocks_out);
    return status;
}

void mw_blocks_deinit(struct mw_blocks *blocks)
{
    mw_fields_deinit(&blocks->fields);
    mw_block_groups_deinit(&blocks->groups);
    mw_block_list_deinit(&blocks->list);
    free(blocks->knowledge);
    *blocks = (struct mw_blocks){0};
}

static bool is_harmless(enum mw_value_class class)
{
    return class == MW_VALUE_ZERO || class == MW_VALUE_SMALL || mw_value_is_pointer(class);
}

bool mw_blocks_show_constant(const struct mw_blocks *blocks, const struct mw_block_field *field)
{
    if (blocks->options.contents || is_harmless(field->top_class))
        return true;
    return blocks->fields.block_count > 1 && field->kind != MW_WORD_TEXT &&
           !mw_value_has_text(field->min);
}

bool mw_blocks_show_part(const struct mw_blocks *blocks, uint64_t value)
{
    return blocks->options.contents ||
           (blocks->fields.block_count > 1 && !mw_value_has_text(value));
}

bool mw_blocks_show_range(const struct mw_blocks *blocks, const struct mw_block_field *field)
{
    if (mw_field_is_constant(field))
        return mw_blocks_show_constant(blocks, field);
    return blocks->options.contents || (field->kind != MW_WORD_TEXT && mw_field_is_pure(field));
}

bool mw_blocks_show_top(const struct mw_blocks *blocks, const struct mw_block_field *field)
{
    if (mw_field_is_constant(field))
        return mw_blocks_show_constant(blocks, field);
    return blocks->options.contents || is_harmless(field->top_class);
}
