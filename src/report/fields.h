/* report/fields.h: the table of fields.def, and JSON objects that follow it.
 *
 * Emitters never spell the name of a field: they name its row. An object opened here must get all
 * fields of its scope, in the order of the table, each in its own unit; that is asserted, so a
 * contract field cannot be left out and a number without a definition cannot be printed. */
#ifndef MW_REPORT_FIELDS_H
#define MW_REPORT_FIELDS_H

#include "report/json.h"

enum mw_field_scope {
#define MW_SCOPE(scope, path, about) MW_SCOPE_##scope,
#define MW_FIELD(scope, name, unit, heading, definition, excludes)
#include "report/fields.def"
#undef MW_SCOPE
#undef MW_FIELD
    MW_SCOPE_COUNT,
};

/* A scope's first field has the number MW_FIRST_<scope>; the line after it steps back so that the
 * field itself takes that number. */
enum mw_field {
#define MW_SCOPE(scope, path, about) MW_FIRST_##scope, MW_BEFORE_##scope = MW_FIRST_##scope - 1,
#define MW_FIELD(scope, name, unit, heading, definition, excludes) MW_FIELD_##scope##_##name,
#include "report/fields.def"
#undef MW_SCOPE
#undef MW_FIELD
    MW_FIELD_COUNT,
};

/* The row of a field: MW_F(report, rss_bytes). */
#define MW_F(scope, name) MW_FIELD_##scope##_##name

enum mw_field_unit {
    MW_UNIT_TEXT,
    MW_UNIT_BYTES,
    MW_UNIT_COUNT,
    MW_UNIT_NUMBER,
    MW_UNIT_SECONDS,
    MW_UNIT_TIME,
    MW_UNIT_ADDRESS,
    MW_UNIT_BOOL,
    MW_UNIT_OBJECT,
    MW_UNIT_LIST,
};

struct mw_field_row {
    enum mw_field_scope scope;
    enum mw_field_unit unit;
    const char *name, *heading, *definition;
    const char *excludes; /* "" when nothing needs saying */
};

struct mw_scope_row {
    const char *path; /* where the object stands in the document */
    const char *about;
    enum mw_field first;
};

const struct mw_field_row *mw_field_row(enum mw_field field);
const struct mw_scope_row *mw_scope_row(enum mw_field_scope scope);
const char *mw_field_unit_name(enum mw_field_unit unit);

/* An object of a scope, as a value: element of a list, member after mw_field_key(), or the
 * document. The end asserts that nothing is missing. */
void mw_field_object_begin(struct mw_json *json, enum mw_field_scope scope);
void mw_field_object_end(struct mw_json *json);

/* Go on with a second scope in the same object: its fields follow those of the first. */
void mw_field_object_extend(struct mw_json *json, enum mw_field_scope scope);

/* The key alone, for members that are objects or lists. */
void mw_field_key(struct mw_json *json, enum mw_field field);

void mw_field_text(struct mw_json *json, enum mw_field field, const char *text); /* NULL: null */
void mw_field_u64(struct mw_json *json, enum mw_field field, uint64_t value);    /* UNKNOWN: null */
void mw_field_i64(struct mw_json *json, enum mw_field field, int64_t value);
void mw_field_double(struct mw_json *json, enum mw_field field, double value); /* NaN: null */
void mw_field_bool(struct mw_json *json, enum mw_field field, bool value);
void mw_field_address(struct mw_json *json, enum mw_field field, mw_addr address);
void mw_field_time(struct mw_json *json, enum mw_field field, int64_t unix_seconds); /* 0: null */
void mw_field_null(struct mw_json *json, enum mw_field field);

#endif
