/* layout/rows_text.c: blocks that hold texts: of strings, buffers and headers in front of them.
 *
 * A text is what is printable, UTF-8 included, from the start up to a NUL; what lies behind the NUL
 * is what an earlier block left. It must be half of the block, or so long that chance has no part.
 * Headers up to 48 bytes (lengths, capacities, reference counts) may come before it. Which kind of
 * text it is comes from its punctuation and its keywords; the text itself goes nowhere. */
#include "layout/scope.h"
#include "maps/content.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"

enum {
    SAMPLE = 256, /* bytes of text that are looked at */
    LONG = 24,    /* printable bytes that are a text whatever is around them */
    SHORT = 4,    /* and those that are one if they fill half of the block */
    HEADER_MAX = 48,
    WIDE_LONG = 8,   /* characters of UTF-16 */
    CODED_LONG = 64, /* digits or base64 in a row */
};

/* Bytes of text at the start of so many: letters, digits, punctuation, white space, UTF-8. */
static size_t text_run(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        uint8_t byte = bytes[at];
        if ((byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\t' || byte == '\r') {
            at++;
            continue;
        }
        size_t sequence = byte >= 0x80 ? mw_utf8_sequence(bytes + at, length - at) : 0;
        if (sequence < 2)
            break;
        at += sequence;
    }
    return at;
}

static bool is_hex(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
           (byte >= 'A' && byte <= 'F');
}

static bool is_base64(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '+' || byte == '/' || byte == '=' ||
           byte == '-' || byte == '_';
}

/* "hexadecimal digits", "base64", or NULL. */
static const char *coded_kind(const uint8_t *bytes, size_t length)
{
    size_t hex = 0, base64 = 0, digits = 0, upper = 0;
    if (length < CODED_LONG)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        hex += is_hex(bytes[i]);
        base64 += is_base64(bytes[i]);
        digits += bytes[i] >= '0' && bytes[i] <= '9';
        upper += bytes[i] >= 'A' && bytes[i] <= 'Z';
    }
    if (hex == length && digits > length / 4)
        return "hexadecimal digits";
    /* Lines of base64 end; words of a text do so much more often. */
    return base64 * 64 >= length * 62 && digits > length / 32 && upper > length / 8 ? "base64"
                                                                                    : NULL;
}

/* Is there a text at offset that tells what the block is? Its kind, or NULL. */
static const char *text_at(const struct mw_layout_view *view, size_t offset)
{
    const uint8_t *bytes = view->block->bytes + offset;
    size_t rest = view->length - offset, look = rest < SAMPLE ? rest : SAMPLE;
    size_t run = text_run(bytes, look);
    bool is_ended = run == look || bytes[run] == '\0';
    if (run < SHORT || (!is_ended && run < LONG))
        return NULL;
    if (run < LONG && run * 2 < rest && !(run < rest && mw_bytes_are_zero(bytes + run, rest - run)))
        return NULL;
    const char *coded = coded_kind(bytes, run);
    return coded ? coded : mw_content_name(mw_content_text_kind(bytes, run));
}

static bool is_text(struct mw_layout_view *view, struct mw_layout_match *match)
{
    const char *kind = text_at(view, 0);
    if (kind)
        snprintf(match->name, sizeof match->name, "%s", kind);
    return kind;
}

static bool is_headed_text(struct mw_layout_view *view, struct mw_layout_match *match)
{
    for (size_t offset = 8; offset <= HEADER_MAX && offset + LONG <= view->length; offset += 8) {
        const uint8_t *bytes = view->block->bytes + offset;
        size_t rest = view->length - offset, look = rest < SAMPLE ? rest : SAMPLE;
        size_t run = text_run(bytes, look);
        /* Words that happen to be printable end soon. */
        if (run < LONG || (run * 2 < look && bytes[run] != '\0'))
            continue;
        const char *kind = text_at(view, offset);
        if (!kind)
            continue;
        snprintf(match->name, sizeof match->name, "%s behind a header of %zu bytes", kind, offset);
        return true;
    }
    return false;
}

/* Characters with a zero byte each: Latin text as Java, .NET and ICU keep it. */
static size_t wide_run(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at + 2 <= length && bytes[at + 1] == 0 && text_run(bytes + at, 1) == 1)
        at += 2;
    return at / 2;
}

static bool is_wide_text(struct mw_layout_view *view, struct mw_layout_match *match)
{
    for (size_t offset = 0; offset <= HEADER_MAX && offset + 2 * WIDE_LONG <= view->length;
         offset += 4) {
        if (wide_run(view->block->bytes + offset, view->length - offset) < WIDE_LONG)
            continue;
        if (offset)
            snprintf(match->name, sizeof match->name, "UTF-16 text behind a header of %zu bytes",
                     offset);
        return true;
    }
    return false;
}

/* Of a large block only the first bytes are seen. */
static void basis_by_length(const struct mw_layout_view *view, struct mw_layout_match *match)
{
    if (view->length < view->block->usable_bytes)
        match->basis = MW_LAYOUT_LIKELY;
}

static bool is_zero(struct mw_layout_view *view, struct mw_layout_match *match)
{
    basis_by_length(view, match);
    return mw_bytes_are_zero(view->block->bytes, view->length);
}

static bool is_filled(struct mw_layout_view *view, struct mw_layout_match *match)
{
    basis_by_length(view, match);
    return memcmp(view->block->bytes, view->block->bytes + 1, view->length - 1) == 0;
}

/* The first bytes of well-known files and messages. */
static bool is_format(struct mw_layout_view *view, struct mw_layout_match *match)
{
    static const struct {
        const char *magic, *name;
        size_t length;
    } formats[] = {
        {"\x1f\x8b\x08", "gzip data", 3},
        {"\x28\xb5\x2f\xfd", "zstd data", 4},
        {"\x7f"
         "ELF\x02\x01",
         "ELF file", 6},
        {"\x89PNG\r\n", "PNG image", 6},
        {"PK\x03\x04", "ZIP archive", 4},
        {"SQLite format 3", "SQLite file", 16},
        {"\xca\xfe\xba\xbe\x00\x00\x00", "Java class file", 7},
        {"\xff\xd8\xff\xe0", "JPEG image", 4},
        {"OTTO\x00", "font", 5},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (view->length >= formats[i].length + 8 &&
            memcmp(view->block->bytes, formats[i].magic, formats[i].length) == 0) {
            snprintf(match->name, sizeof match->name, "%s", formats[i].name);
            return true;
        }
    }
    return false;
}

const struct mw_layout_row mw_rows_text[] = {
    {.id = "zero",
     .name = "zeros: never written, or cleared",
     .basis = MW_LAYOUT_EXACT,
     .test = is_zero},
    {.id = "filled",
     .name = "filled with one byte",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 64,
     .test = is_filled},
    {.id = "format", .basis = MW_LAYOUT_LIKELY, .usable_min = 64, .test = is_format},
    {.id = "text", .basis = MW_LAYOUT_LIKELY, .test = is_text},
    {.id = "wide text",
     .name = "UTF-16 text",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 16,
     .test = is_wide_text},
    {.id = "headed text", .basis = MW_LAYOUT_LIKELY, .usable_min = 40, .test = is_headed_text},
    {.id = NULL},
};
