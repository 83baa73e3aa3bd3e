/* report/blocks_json.c: memwhy.blocks/1. Groups, fields and blocks are written as they are met. */
#include "report/blocks_report.h"

#include "report/parts_json.h"

#include <math.h>

const char *mw_block_field_name(const struct mw_block_field *field)
{
    if (!field->names)
        return NULL;
    return mw_text_or_null(field->names->symbol[0] ? field->names->symbol : field->names->resolved);
}

static void address_or_null(struct mw_json *json, enum mw_field field, uint64_t value,
                            bool is_known)
{
    if (is_known)
        mw_field_address(json, field, value);
    else
        mw_field_null(json, field);
}

static void json_group(struct mw_json *json, const struct mw_block_group *group,
                       const struct mw_block_knowledge *knowledge)
{
    mw_field_object_begin(json, MW_SCOPE_block_group);
    mw_field_u64(json, MW_F(block_group, size_bytes), group->size_bytes);
    mw_field_u64(json, MW_F(block_group, usable_bytes), group->usable_bytes);
    mw_field_u64(json, MW_F(block_group, count), group->count);
    mw_field_u64(json, MW_F(block_group, bytes), group->bytes);
    mw_field_u64(json, MW_F(block_group, unreachable_count), knowledge->unreachable_count);
    mw_field_text(json, MW_F(block_group, layout), knowledge->layout);
    mw_field_object_end(json);
}

static void json_groups(struct mw_json *json, const struct mw_blocks *blocks)
{
    const struct mw_block_groups *groups = &blocks->groups;
    mw_json_array_begin(json);
    for (size_t i = 0; i < groups->count && !mw_json_failed(json); i++)
        if (!blocks->options.size_bytes || &groups->items[i] == blocks->chosen)
            json_group(json, &groups->items[i], &blocks->knowledge[i]);
    mw_json_array_end(json);
}

static void json_parts(struct mw_json *json, const struct mw_blocks *blocks,
                       const struct mw_block_field *field)
{
    struct mw_field_part parts[MW_FIELD_PARTS_MAX];
    bool has_none = mw_word_kind_is_pointer(field->kind) || field->kind == MW_WORD_TEXT;
    size_t count = has_none || field->count == 0 ? 0 : mw_field_parts(field, parts);
    mw_json_array_begin(json);
    for (size_t i = 0; i < count; i++) {
        bool is_public = mw_blocks_show_part(blocks, parts[i].value);
        mw_field_object_begin(json, MW_SCOPE_block_part);
        mw_field_u64(json, MW_F(block_part, offset), parts[i].offset);
        mw_field_u64(json, MW_F(block_part, width), parts[i].width);
        address_or_null(json, MW_F(block_part, value), parts[i].value, is_public);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_field_figures(struct mw_json *json, const struct mw_blocks *blocks,
                               const struct mw_block_field *field)
{
    bool is_known = field->count > 0;
    bool has_top = field->top_count > 0;
    mw_field_u64(json, MW_F(block_field, count), field->count);
    address_or_null(json, MW_F(block_field, min), field->min,
                    is_known && mw_blocks_show_range(blocks, field));
    address_or_null(json, MW_F(block_field, max), field->max,
                    is_known && mw_blocks_show_range(blocks, field));
    mw_field_double(json, MW_F(block_field, entropy_bits),
                    field->entropy_bits < 0 ? NAN : field->entropy_bits);
    address_or_null(json, MW_F(block_field, top), field->top,
                    has_top && mw_blocks_show_top(blocks, field));
    mw_field_u64(json, MW_F(block_field, top_count), has_top ? field->top_count : MW_UNKNOWN);
    mw_field_text(json, MW_F(block_field, top_name), mw_block_field_name(field));
    mw_field_u64(json, MW_F(block_field, zero_count), field->classes[MW_VALUE_ZERO]);
    mw_field_u64(json, MW_F(block_field, heap_pointer_count), field->classes[MW_VALUE_HEAP]);
    mw_field_u64(json, MW_F(block_field, stack_pointer_count), field->classes[MW_VALUE_STACK]);
    mw_field_u64(json, MW_F(block_field, code_pointer_count), field->classes[MW_VALUE_CODE]);
    mw_field_u64(json, MW_F(block_field, data_pointer_count), field->classes[MW_VALUE_DATA]);
}

static void json_field(struct mw_json *json, const struct mw_blocks *blocks,
                       const struct mw_block_field *field)
{
    const struct mw_field_names *names = field->names;
    bool is_constant = mw_field_is_constant(field);
    const struct mw_field_names *constant_names = is_constant ? names : NULL;
    mw_field_object_begin(json, MW_SCOPE_block_field);
    mw_field_u64(json, MW_F(block_field, offset), field->offset);
    mw_field_u64(json, MW_F(block_field, distinct), field->distinct);
    mw_field_bool(json, MW_F(block_field, distinct_is_lower_bound), field->distinct_is_lower_bound);
    address_or_null(json, MW_F(block_field, constant), field->min,
                    is_constant && mw_blocks_show_constant(blocks, field));
    mw_field_text(json, MW_F(block_field, kind), mw_word_kind_name(field->kind));
    mw_field_text(json, MW_F(block_field, resolved),
                  constant_names ? mw_text_or_null(constant_names->resolved) : NULL);
    mw_field_text(json, MW_F(block_field, symbol),
                  constant_names ? mw_text_or_null(constant_names->symbol) : NULL);
    mw_field_key(json, MW_F(block_field, parts));
    json_parts(json, blocks, field);
    json_field_figures(json, blocks, field);
    mw_field_text(json, MW_F(block_field, source_line),
                  constant_names ? mw_text_or_null(constant_names->line) : NULL);
    mw_field_text(json, MW_F(block_field, call),
                  constant_names ? mw_text_or_null(constant_names->call) : NULL);
    mw_field_object_end(json);
}

static void json_string(struct mw_json *json, const struct mw_blocks *blocks, size_t index)
{
    const struct mw_string_row *row = &blocks->strings.rows[index];
    mw_field_object_begin(json, MW_SCOPE_block_string);
    mw_field_u64(json, MW_F(block_string, count), row->count);
    mw_field_u64(json, MW_F(block_string, length_bytes), row->length_bytes);
    mw_field_u64(json, MW_F(block_string, bytes), row->bytes);
    mw_field_u64(json, MW_F(block_string, wasted_bytes), mw_string_wasted_bytes(row));
    mw_field_address(json, MW_F(block_string, sample_address), row->sample_block);
    if (blocks->texts[index].length > 0) {
        mw_field_key(json, MW_F(block_string, text));
        mw_json_put_bytes(json, blocks->texts[index].text, blocks->texts[index].length);
    } else {
        mw_field_null(json, MW_F(block_string, text));
    }
    mw_field_object_end(json);
}

static void json_strings(struct mw_json *json, const struct mw_blocks *blocks)
{
    const struct mw_strings *strings = &blocks->strings;
    if (!blocks->has_strings) {
        mw_json_put_null(json);
        return;
    }
    mw_field_object_begin(json, MW_SCOPE_block_strings);
    mw_field_u64(json, MW_F(block_strings, text_count), strings->text_count);
    mw_field_u64(json, MW_F(block_strings, text_bytes), strings->text_bytes);
    mw_field_u64(json, MW_F(block_strings, distinct), strings->distinct);
    mw_field_u64(json, MW_F(block_strings, repeated_count), strings->repeated_count);
    mw_field_u64(json, MW_F(block_strings, wasted_bytes), strings->wasted_bytes);
    mw_field_bool(json, MW_F(block_strings, is_lower_bound), strings->is_lower_bound);
    mw_field_key(json, MW_F(block_strings, rows));
    mw_json_array_begin(json);
    for (size_t i = 0; i < strings->row_count; i++)
        json_string(json, blocks, i);
    mw_json_array_end(json);
    mw_field_object_end(json);
}

static void json_list(struct mw_json *json, const struct mw_blocks *blocks, uint64_t list_max)
{
    struct mw_block_cursor cursor;
    struct mw_listed_block block;
    uint64_t size = blocks->chosen ? blocks->chosen->size_bytes : 0;
    mw_json_array_begin(json);
    mw_block_cursor_init(&cursor, &blocks->list, size);
    for (uint64_t i = 0; blocks->options.list && i < list_max && !mw_json_failed(json); i++) {
        if (!mw_block_cursor_next(&cursor, &block))
            break;
        mw_field_object_begin(json, MW_SCOPE_listed_block);
        mw_field_address(json, MW_F(listed_block, address), block.start);
        mw_field_u64(json, MW_F(listed_block, size_bytes), block.size_bytes);
        mw_field_u64(json, MW_F(listed_block, usable_bytes), block.end - block.start);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

enum mw_status mw_report_blocks_json(const struct mw_analysis *analysis,
                                     const struct mw_blocks *blocks, uint64_t list_max,
                                     struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_blocks);
    mw_field_text(&json, MW_F(blocks, schema), "memwhy.blocks/1");
    mw_field_text(&json, MW_F(blocks, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(blocks, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(blocks, target));
    mw_json_target(&json, analysis);
    mw_field_u64(&json, MW_F(blocks, size_bytes),
                 blocks->chosen ? blocks->chosen->size_bytes : MW_UNKNOWN);
    mw_field_key(&json, MW_F(blocks, groups));
    json_groups(&json, blocks);
    mw_field_key(&json, MW_F(blocks, fields));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < blocks->fields.count && !mw_json_failed(&json); i++)
        json_field(&json, blocks, &blocks->fields.items[i]);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(blocks, strings));
    json_strings(&json, blocks);
    mw_field_key(&json, MW_F(blocks, list));
    json_list(&json, blocks, list_max);
    mw_field_key(&json, MW_F(blocks, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(blocks, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}
