/* report/json.h: the streaming JSON encoder of every output.
 *
 * Values are pushed in document order; what is encoded leaves through the sink in pieces, so that
 * a document of any size needs MW_JSON_BUFFER_BYTES (at most MW_LIMIT_JSON_BUFFER) of memory and a
 * reader that has gone is noticed at the next piece. Nothing returns a status: the first failure
 * (out of memory, the sink's errno) is kept, makes everything after it a no-op, and is what
 * mw_json_finish() returns. Nesting and keys are our own invariants: asserted.
 *
 * Integers are exact to 64 bits. A double is written in the fewest digits that read back as the
 * same value; one that is not finite is null. A string may hold any bytes: control characters
 * (C0, DEL, C1) become \u00XX, so that a terminal is safe; each byte that is not part of valid
 * UTF-8 becomes U+FFFD. (Writing such a byte as \u00XX would claim a character that was never
 * there, and a name with the byte E9 could not be told from one with the letter é.)
 *
 * Each member of the outermost object starts a line, and so does each element of an array in it:
 * a verdict or a category is one line for grep and diff. Deeper values stay on their line. */
#ifndef MW_REPORT_JSON_H
#define MW_REPORT_JSON_H

#include "base/error.h"
#include "base/limits.h"
#include "report/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MW_JSON_DEPTH_MAX = 16, MW_JSON_BUFFER_BYTES = 64 << 10 };
_Static_assert(MW_JSON_BUFFER_BYTES <= MW_LIMIT_JSON_BUFFER, "the contract's bound");

struct mw_json_level {
    bool is_object, has_items;
    int scope;      /* enum mw_field_scope of an object that fields.h opened, else -1 */
    int next_field; /* that fields.h expects in it */
};

/* Members are private. */
struct mw_json {
    struct mw_sink sink;
    char *buffer;
    size_t used;
    unsigned depth;
    bool has_key; /* a key waits for its value */
    struct mw_json_level levels[MW_JSON_DEPTH_MAX + 1];
    enum mw_status status;
    int sink_errno;
};

/* Pair with mw_json_finish(). */
void mw_json_init(struct mw_json *json, struct mw_sink sink);

/* Write out the rest and a newline, release the buffer. MW_NOMEM, or MW_OS with the sink's errno in
 * err->os_errno. The document must be closed unless it failed. */
enum mw_status mw_json_finish(struct mw_json *json, struct mw_error *err) MW_MUST_CHECK;

/* Has the output failed? For loops that would only work for nobody. */
static inline bool mw_json_failed(const struct mw_json *json)
{
    return json->status != MW_OK;
}

void mw_json_object_begin(struct mw_json *json);
void mw_json_object_end(struct mw_json *json);
void mw_json_array_begin(struct mw_json *json);
void mw_json_array_end(struct mw_json *json);

/* Name of the next member of an object. Any bytes. */
void mw_json_put_key(struct mw_json *json, const char *key);

void mw_json_put_null(struct mw_json *json);
void mw_json_put_bool(struct mw_json *json, bool value);
void mw_json_put_u64(struct mw_json *json, uint64_t value);
void mw_json_put_i64(struct mw_json *json, int64_t value);
void mw_json_put_known(struct mw_json *json, uint64_t value);    /* MW_UNKNOWN: null */
void mw_json_put_double(struct mw_json *json, double value);     /* NaN, infinity: null */
void mw_json_put_address(struct mw_json *json, mw_addr address); /* "0x…" */
void mw_json_put_bytes(struct mw_json *json, const void *bytes, size_t length);
void mw_json_put_text(struct mw_json *json, const char *text); /* NULL: null */

#endif
