/* report/text.c: the line writer. Trusts nothing in a text: every byte is escaped on its way out.
 * Linear in what is written; buffers at most one flush size. */
#include "report/text.h"

#include "proc/process.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FLUSH_BYTES = 32 << 10, BUFFER_BYTES_MAX = 1 << 20, COLUMNS_MAX = 1 << 20 };

void mw_text_init(struct mw_text *text, struct mw_sink sink, struct mw_text_look look)
{
    assert(sink.write && look.width >= 40);
    *text = (struct mw_text){
        .sink = sink,
        .look = look,
        .unit = {"MiB", (uint64_t)1 << 20, 1},
        .buffer = MW_STR_INIT(BUFFER_BYTES_MAX),
    };
}

static void text_flush(struct mw_text *text)
{
    if (text->sink_errno == 0 && text->buffer.status == MW_OK && text->buffer.length > 0)
        text->sink_errno =
            text->sink.write(text->sink.user, text->buffer.text, text->buffer.length);
    if (text->buffer.status == MW_OK)
        mw_str_clear(&text->buffer);
}

void mw_text_out_of_memory(struct mw_text *text)
{
    text->buffer.status = MW_NOMEM;
}

bool mw_text_failed(const struct mw_text *text)
{
    return text->sink_errno != 0 || text->buffer.status != MW_OK;
}

enum mw_status mw_text_finish(struct mw_text *text, struct mw_error *err)
{
    if (text->column > 0)
        mw_text_newline(text);
    text_flush(text);
    enum mw_status status = text->buffer.status;
    mw_str_deinit(&text->buffer);
    if (status != MW_OK)
        return mw_fail(err, status, "out of memory writing text");
    if (text->sink_errno != 0) {
        (void)mw_fail_errno(err, text->sink_errno, "cannot write the output");
        return MW_OS;
    }
    return MW_OK;
}

static unsigned span_width(const char *bytes, size_t left)
{
    const unsigned char *at = (const unsigned char *)bytes;
    unsigned width = 0;
    while (left > 0) {
        size_t take = mw_utf8_sequence(at, left);
        bool escaped =
            take == 0 || *at < 0x20 || *at == 0x7f || (take == 2 && at[0] == 0xc2 && at[1] < 0xa0);
        if (escaped)
            take = 1;
        width += escaped ? 4 : 1; /* \xNN */
        at += take;
        left -= take;
    }
    return width;
}

unsigned mw_text_width(const char *text)
{
    return span_width(text, strlen(text));
}

size_t mw_text_fit(const char *text, unsigned width)
{
    size_t fit = 0, length = strlen(text);
    while (fit < length) {
        size_t take = mw_utf8_sequence((const unsigned char *)text + fit, length - fit);
        take = take ? take : 1;
        if (span_width(text, fit + take) > width)
            break;
        fit += take;
    }
    return fit;
}

static void put_blanks(struct mw_text *text)
{
    for (; text->blanks > 0; text->blanks--)
        mw_str_putc(&text->buffer, ' ');
}

void mw_text_put_bytes(struct mw_text *text, enum mw_text_style style, const char *piece,
                       size_t length)
{
    static const char *const begins[] = {
        [MW_STYLE_PLAIN] = "",
        [MW_STYLE_BOLD] = "\033[1m",
        [MW_STYLE_RED] = "\033[1;31m",
        [MW_STYLE_YELLOW] = "\033[1;33m",
    };
    bool styled = text->look.color && style != MW_STYLE_PLAIN;
    assert((size_t)style < sizeof begins / sizeof *begins);
    if (length == 0)
        return;
    put_blanks(text);
    if (styled)
        mw_str_puts(&text->buffer, begins[style]);
    mw_str_put_escaped(&text->buffer, piece, length);
    if (styled)
        mw_str_puts(&text->buffer, "\033[0m");
    text->column += span_width(piece, length);
}

void mw_text_put(struct mw_text *text, enum mw_text_style style, const char *piece)
{
    mw_text_put_bytes(text, style, piece, strlen(piece));
}

void mw_text_printf(struct mw_text *text, enum mw_text_style style, const char *fmt, ...)
{
    char piece[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    mw_text_put(text, style, piece);
}

static void add_blanks(struct mw_text *text, unsigned count)
{
    text->blanks += count;
    text->column += count;
}

void mw_text_pad(struct mw_text *text, unsigned column)
{
    assert(column <= COLUMNS_MAX);
    if (column > text->column)
        add_blanks(text, column - text->column);
    else if (text->column > 0)
        add_blanks(text, 1);
}

void mw_text_put_right(struct mw_text *text, unsigned end, const char *piece)
{
    unsigned width = mw_text_width(piece);
    mw_text_pad(text, end > width ? end - width : 0);
    mw_text_put(text, MW_STYLE_PLAIN, piece);
}

void mw_text_newline(struct mw_text *text)
{
    text->blanks = 0;
    text->column = 0;
    mw_str_putc(&text->buffer, '\n');
    if (text->buffer.length >= FLUSH_BYTES)
        text_flush(text);
}

struct word {
    const char *at;
    size_t length; /* 0: there are no more */
};

static struct word word_after(const char *at)
{
    at += strspn(at, " \n\t");
    return (struct word){at, strcspn(at, " \n\t")};
}

void mw_text_wrap(struct mw_text *text, unsigned indent, unsigned lines_max,
                  enum mw_text_style style, const char *words)
{
    unsigned line = 1, blank = 0;
    for (struct word word = word_after(words), next; word.length > 0; word = next) {
        next = word_after(word.at + word.length);
        bool is_last_line = lines_max > 0 && line >= lines_max;
        unsigned needed = blank + span_width(word.at, word.length);
        unsigned reserve = is_last_line && next.length > 0 ? 4 : 0; /* " ..." */
        bool fits = text->column + needed + reserve <= text->look.width;
        if (!fits && is_last_line) {
            add_blanks(text, blank);
            mw_text_put_bytes(text, style, "...", 3);
            return;
        }
        if (!fits && (text->column > indent || blank)) {
            mw_text_newline(text);
            mw_text_pad(text, indent);
            line++;
        } else {
            add_blanks(text, blank);
        }
        mw_text_put_bytes(text, style, word.at, word.length);
        blank = 1;
    }
}

/* The words that fit into width columns, at least one: where they begin, their length, and *rest
 * moved behind them. Blanks between them stay as they are. */
static struct word take_line(const char **rest, unsigned width)
{
    struct word line = word_after(*rest);
    struct word word = line;
    while (word.length > 0) {
        size_t length = (size_t)(word.at + word.length - line.at);
        if (word.at != line.at && span_width(line.at, length) > width)
            break;
        line.length = length;
        word = word_after(word.at + word.length);
    }
    *rest = line.at + line.length;
    return line;
}

/* The lead stands on the first line, the words go on behind it. */
static void put_band_lead(struct mw_text *text, struct mw_text_band *band, unsigned *width)
{
    unsigned wide = band->lead ? mw_text_width(band->lead) : 0;
    if (wide == 0)
        return;
    mw_text_put(text, MW_STYLE_BOLD, band->lead);
    band->lead = NULL;
    *width = *width > wide + 2 ? *width - wide - 2 : 0;
    if (word_after(band->words).length > 0)
        mw_text_pad(text, text->column + 2);
}

/* One line of a band; its words move on. On the last line a text that goes on is cut. */
static void put_band_line(struct mw_text *text, struct mw_text_band *band, bool is_last)
{
    unsigned width = band->to - band->from;
    if (text->column != band->from && (band->lead || word_after(band->words).length > 0))
        mw_text_pad(text, band->from);
    put_band_lead(text, band, &width);
    const char *rest = band->words;
    struct word line = take_line(&rest, width);
    if (span_width(line.at, line.length) > width && width + band->from < band->to)
        return; /* not even one word fits behind the lead */
    bool is_cut = is_last && word_after(rest).length > 0;
    if (is_cut && width > 8) {
        rest = band->words;
        line = take_line(&rest, width - 4);
    }
    band->words = rest;
    mw_text_put_bytes(text, MW_STYLE_PLAIN, line.at, line.length);
    if (is_cut)
        mw_text_put_bytes(text, MW_STYLE_PLAIN, " ...", 4);
}

void mw_text_bands(struct mw_text *text, struct mw_text_band *bands, size_t count,
                   unsigned lines_max)
{
    for (unsigned line = 1;; line++) {
        bool has_more = false;
        for (size_t i = 0; i < count; i++) {
            assert(bands[i].from < bands[i].to);
            put_band_line(text, &bands[i], line == lines_max);
            has_more = has_more || word_after(bands[i].words).length > 0;
        }
        mw_text_newline(text);
        if (!has_more || line == lines_max)
            return;
    }
}
