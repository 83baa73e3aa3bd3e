/* report/json.c: the streaming JSON encoder. Trusts its callers' nesting (asserted) and nothing in
 * the bytes of a string. One pass, constant memory.
 * References: RFC 8259; Unicode 15, section 3.9 (well-formed UTF-8). */
#include "report/json.h"

#include "base/alloc.h"
#include "base/str.h"
#include "proc/process.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Levels up to this one start a line for each of their items. */
enum { LINES_DEPTH = 2 };

void mw_json_init(struct mw_json *json, struct mw_sink sink)
{
    assert(sink.write);
    *json = (struct mw_json){.sink = sink};
    json->buffer = mw_calloc(MW_JSON_BUFFER_BYTES, 1);
    if (!json->buffer)
        json->status = MW_NOMEM;
}

static void json_flush(struct mw_json *json)
{
    if (json->status != MW_OK || json->used == 0)
        return;
    json->sink_errno = json->sink.write(json->sink.user, json->buffer, json->used);
    if (json->sink_errno != 0)
        json->status = MW_OS;
    json->used = 0;
}

static void json_raw(struct mw_json *json, const char *bytes, size_t length)
{
    while (length > 0 && json->status == MW_OK) {
        size_t room = MW_JSON_BUFFER_BYTES - json->used;
        size_t take = length < room ? length : room;
        memcpy(json->buffer + json->used, bytes, take);
        json->used += take;
        bytes += take;
        length -= take;
        if (json->used == MW_JSON_BUFFER_BYTES)
            json_flush(json);
    }
}

static void json_char(struct mw_json *json, char c)
{
    json_raw(json, &c, 1);
}

/* Start a line for an item of the current level, or only a blank where a blank reads better. */
static void json_break(struct mw_json *json, bool first)
{
    static const char indent[] = "\n    ";
    _Static_assert(sizeof indent > 1 + 2 * LINES_DEPTH, "room for the deepest indent");
    if (json->depth <= LINES_DEPTH)
        json_raw(json, indent, 1 + 2 * json->depth);
    else if (!first)
        json_char(json, ' ');
}

/* What stands before any value: nothing after a key, a comma between elements. */
static void json_value_begin(struct mw_json *json)
{
    struct mw_json_level *level = &json->levels[json->depth];
    if (json->has_key) {
        assert(level->is_object);
        json->has_key = false;
        return;
    }
    assert(!level->is_object && "a member of an object needs a key");
    assert((json->depth > 0 || !level->has_items) && "one document has one value");
    if (level->has_items)
        json_char(json, ',');
    if (json->depth > 0)
        json_break(json, !level->has_items);
    level->has_items = true;
}

static void json_open(struct mw_json *json, bool is_object)
{
    json_value_begin(json);
    assert(json->depth < MW_JSON_DEPTH_MAX);
    json_char(json, is_object ? '{' : '[');
    json->levels[++json->depth] = (struct mw_json_level){.is_object = is_object, .scope = -1};
}

static void json_close(struct mw_json *json, bool is_object)
{
    const struct mw_json_level *level = &json->levels[json->depth];
    assert(json->depth > 0 && level->is_object == is_object && !json->has_key);
    json->depth--;
    if (level->has_items && json->depth < LINES_DEPTH)
        json_break(json, true);
    json_char(json, is_object ? '}' : ']');
}

void mw_json_object_begin(struct mw_json *json)
{
    json_open(json, true);
}

void mw_json_object_end(struct mw_json *json)
{
    json_close(json, true);
}

void mw_json_array_begin(struct mw_json *json)
{
    json_open(json, false);
}

void mw_json_array_end(struct mw_json *json)
{
    json_close(json, false);
}

static void json_escape_put(struct mw_json *json, unsigned c)
{
    static const char short_names[] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
                                       ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\'};
    char text[8];
    if (c < sizeof short_names && short_names[c])
        snprintf(text, sizeof text, "\\%c", short_names[c]);
    else
        snprintf(text, sizeof text, "\\u%04x", c & 0xffff);
    json_raw(json, text, strlen(text));
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* One character that is not plain ASCII; returns the bytes it took. */
static size_t json_put_special(struct mw_json *json, const unsigned char *at, size_t left)
{
    if (*at < 0x80) {
        json_escape_put(json, *at);
        return 1;
    }
    size_t take = mw_utf8_sequence(at, left);
    if (take == 0) {
        json_raw(json, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 1;
    }
    if (take == 2 && at[0] == 0xc2 && at[1] < 0xa0)
        json_escape_put(json, at[1]); /* C1 control */
    else
        json_raw(json, (const char *)at, take);
    return take;
}

static void json_quote(struct mw_json *json, const unsigned char *at, size_t length)
{
    json_char(json, '"');
    while (length > 0) {
        size_t plain = 0;
        while (plain < length && is_plain(at[plain]))
            plain++;
        json_raw(json, (const char *)at, plain);
        if (plain < length)
            plain += json_put_special(json, at + plain, length - plain);
        at += plain;
        length -= plain;
    }
    json_char(json, '"');
}

void mw_json_put_key(struct mw_json *json, const char *key)
{
    struct mw_json_level *level = &json->levels[json->depth];
    assert(level->is_object && !json->has_key);
    if (level->has_items)
        json_char(json, ',');
    json_break(json, !level->has_items);
    level->has_items = true;
    json_quote(json, (const unsigned char *)key, strlen(key));
    json_raw(json, ": ", 2);
    json->has_key = true;
}

static void json_put_literal(struct mw_json *json, const char *literal)
{
    json_value_begin(json);
    json_raw(json, literal, strlen(literal));
}

void mw_json_put_null(struct mw_json *json)
{
    json_put_literal(json, "null");
}

void mw_json_put_bool(struct mw_json *json, bool value)
{
    json_put_literal(json, value ? "true" : "false");
}

/* The digits of value before end; returns where they begin. snprintf() costs several times this,
 * and a list of blocks is mostly numbers. */
static char *digits_before(char *end, uint64_t value, unsigned base)
{
    do
        *--end = "0123456789abcdef"[value % base];
    while (value /= base);
    return end;
}

void mw_json_put_u64(struct mw_json *json, uint64_t value)
{
    char text[24], *end = text + sizeof text;
    char *start = digits_before(end, value, 10);
    json_value_begin(json);
    json_raw(json, start, (size_t)(end - start));
}

void mw_json_put_i64(struct mw_json *json, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    json_put_literal(json, text);
}

void mw_json_put_known(struct mw_json *json, uint64_t value)
{
    if (value == MW_UNKNOWN)
        mw_json_put_null(json);
    else
        mw_json_put_u64(json, value);
}

void mw_json_put_double(struct mw_json *json, double value)
{
    char text[32];
    if (!isfinite(value)) {
        mw_json_put_null(json);
        return;
    }
    if (value == 0 && signbit(value)) {
        json_put_literal(json, "-0.0"); /* "-0" would be read as an integer */
        return;
    }
    /* 17 digits always read back as the same value (IEEE 754 binary64); mostly fewer do. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof back) == 0)
            break;
    }
    json_put_literal(json, text);
}

void mw_json_put_address(struct mw_json *json, mw_addr address)
{
    char text[24], *end = text + sizeof text;
    *--end = '"';
    char *start = digits_before(end, address, 16);
    *--start = 'x';
    *--start = '0';
    *--start = '"';
    json_value_begin(json);
    json_raw(json, start, (size_t)(end + 1 - start));
}

void mw_json_put_bytes(struct mw_json *json, const void *bytes, size_t length)
{
    json_value_begin(json);
    json_quote(json, bytes, length);
}

void mw_json_put_text(struct mw_json *json, const char *text)
{
    if (text)
        mw_json_put_bytes(json, text, strlen(text));
    else
        mw_json_put_null(json);
}

enum mw_status mw_json_finish(struct mw_json *json, struct mw_error *err)
{
    assert(json->status != MW_OK || (json->depth == 0 && json->levels[0].has_items));
    json_char(json, '\n');
    json_flush(json);
    free(json->buffer);
    json->buffer = NULL;
    if (json->status == MW_NOMEM)
        return mw_fail(err, MW_NOMEM, "out of memory writing JSON");
    if (json->status != MW_OK) {
        (void)mw_fail_errno(err, json->sink_errno, "cannot write the output");
        return MW_OS;
    }
    return MW_OK;
}
