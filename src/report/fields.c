/* report/fields.c: the table as data, and the checks that hold JSON objects to it. */
#include "report/fields.h"

#include "base/clock.h"
#include "proc/process.h"

#include <assert.h>
#include <stddef.h>

static const struct mw_field_row field_rows[] = {
#define MW_SCOPE(scope, path, about)
#define MW_FIELD(scope, name, unit, heading, definition, excludes)                                 \
    {MW_SCOPE_##scope, MW_UNIT_##unit, #name, heading, definition, excludes},
#include "report/fields.def"
#undef MW_SCOPE
#undef MW_FIELD
};

static const struct mw_scope_row scope_rows[] = {
#define MW_SCOPE(scope, path, about) {path, about, MW_FIRST_##scope},
#define MW_FIELD(scope, name, unit, heading, definition, excludes)
#include "report/fields.def"
#undef MW_SCOPE
#undef MW_FIELD
};

const struct mw_field_row *mw_field_row(enum mw_field field)
{
    assert((unsigned)field < MW_FIELD_COUNT);
    return &field_rows[field];
}

const struct mw_scope_row *mw_scope_row(enum mw_field_scope scope)
{
    assert((unsigned)scope < MW_SCOPE_COUNT);
    return &scope_rows[scope];
}

const char *mw_field_unit_name(enum mw_field_unit unit)
{
    static const char *const names[] = {
        [MW_UNIT_TEXT] = "text",       [MW_UNIT_BYTES] = "bytes",     [MW_UNIT_COUNT] = "count",
        [MW_UNIT_NUMBER] = "number",   [MW_UNIT_SECONDS] = "seconds", [MW_UNIT_TIME] = "RFC 3339",
        [MW_UNIT_ADDRESS] = "address", [MW_UNIT_BOOL] = "true/false", [MW_UNIT_OBJECT] = "object",
        [MW_UNIT_LIST] = "list",
    };
    assert((unsigned)unit < sizeof names / sizeof *names);
    return names[unit];
}

static struct mw_json_level *object_level(struct mw_json *json)
{
    return &json->levels[json->depth];
}

static void assert_complete(const struct mw_json_level *level)
{
    assert(level->scope >= 0);
    assert((level->next_field == MW_FIELD_COUNT ||
            (int)field_rows[level->next_field].scope != level->scope) &&
           "an object lacks a field of its scope");
}

void mw_field_object_begin(struct mw_json *json, enum mw_field_scope scope)
{
    mw_json_object_begin(json);
    object_level(json)->scope = (int)scope;
    object_level(json)->next_field = (int)mw_scope_row(scope)->first;
}

void mw_field_object_extend(struct mw_json *json, enum mw_field_scope scope)
{
    assert_complete(object_level(json));
    object_level(json)->scope = (int)scope;
    object_level(json)->next_field = (int)mw_scope_row(scope)->first;
}

void mw_field_object_end(struct mw_json *json)
{
    assert_complete(object_level(json));
    mw_json_object_end(json);
}

void mw_field_key(struct mw_json *json, enum mw_field field)
{
    struct mw_json_level *level = object_level(json);
    assert(level->next_field == (int)field && "a field is out of the table's order");
    assert((int)mw_field_row(field)->scope == level->scope);
    level->next_field++;
    mw_json_put_key(json, field_rows[field].name);
}

static void key_of_unit(struct mw_json *json, enum mw_field field, unsigned units)
{
    assert(units >> mw_field_row(field)->unit & 1);
    mw_field_key(json, field);
}

void mw_field_text(struct mw_json *json, enum mw_field field, const char *text)
{
    key_of_unit(json, field, 1 << MW_UNIT_TEXT);
    mw_json_put_text(json, text);
}

void mw_field_u64(struct mw_json *json, enum mw_field field, uint64_t value)
{
    key_of_unit(json, field, 1 << MW_UNIT_BYTES | 1 << MW_UNIT_COUNT);
    mw_json_put_known(json, value);
}

void mw_field_i64(struct mw_json *json, enum mw_field field, int64_t value)
{
    key_of_unit(json, field, 1 << MW_UNIT_BYTES | 1 << MW_UNIT_COUNT);
    mw_json_put_i64(json, value);
}

void mw_field_double(struct mw_json *json, enum mw_field field, double value)
{
    key_of_unit(json, field, 1 << MW_UNIT_NUMBER | 1 << MW_UNIT_SECONDS);
    mw_json_put_double(json, value);
}

void mw_field_bool(struct mw_json *json, enum mw_field field, bool value)
{
    key_of_unit(json, field, 1 << MW_UNIT_BOOL);
    mw_json_put_bool(json, value);
}

void mw_field_address(struct mw_json *json, enum mw_field field, mw_addr address)
{
    key_of_unit(json, field, 1 << MW_UNIT_ADDRESS);
    mw_json_put_address(json, address);
}

void mw_field_time(struct mw_json *json, enum mw_field field, int64_t unix_seconds)
{
    char text[32];
    key_of_unit(json, field, 1 << MW_UNIT_TIME);
    mw_json_put_text(json, unix_seconds == 0 ? NULL : mw_clock_rfc3339(text, unix_seconds));
}

void mw_field_null(struct mw_json *json, enum mw_field field)
{
    mw_field_key(json, field);
    mw_json_put_null(json);
}
