/* base/str.c: the growing string. Trusts its caller's lengths, nothing in the bytes. */
#include "base/str.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int str_reserve(struct mw_str *str, size_t more)
{
    if (str->status != MW_OK)
        return 0;
    if (more > str->max || str->length > str->max - more) {
        str->status = MW_LIMIT;
        return 0;
    }
    size_t needed = str->length + more + 1;
    if (needed <= str->room)
        return 1;
    size_t room = str->room < 64 ? 128 : str->room * 2;
    if (room < needed)
        room = needed;
    char *grown = mw_regrow(str->text, str->room, room, 1);
    if (!grown) {
        str->status = MW_NOMEM;
        return 0;
    }
    str->text = grown;
    str->room = room;
    return 1;
}

void mw_str_append(struct mw_str *str, const void *bytes, size_t length)
{
    if (!str_reserve(str, length))
        return;
    memcpy(str->text + str->length, bytes, length);
    str->length += length;
    str->text[str->length] = '\0';
    assert(str->length < str->room);
}

void mw_str_puts(struct mw_str *str, const char *text)
{
    mw_str_append(str, text, strlen(text));
}

void mw_str_putc(struct mw_str *str, char c)
{
    mw_str_append(str, &c, 1);
}

void mw_str_printf(struct mw_str *str, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int length = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (length >= 0 && str_reserve(str, (size_t)length)) {
        vsnprintf(str->text + str->length, (size_t)length + 1, fmt, again);
        str->length += (size_t)length;
    }
    va_end(again);
}

size_t mw_utf8_sequence(const unsigned char *text, size_t left)
{
    if (left == 0)
        return 0;
    unsigned c = text[0];
    if (c < 0x80)
        return 1;
    size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || need > left)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) ||
        (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f))
        return 0; /* overlong, surrogate, beyond U+10FFFF */
    return need;
}

void mw_str_put_escaped(struct mw_str *str, const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    while (length > 0) {
        size_t take = mw_utf8_sequence(at, length);
        int c1_control = take == 2 && at[0] == 0xc2 && at[1] < 0xa0;
        if (take == 0 || c1_control || *at < 0x20 || *at == 0x7f) {
            mw_str_printf(str, "\\x%02x", *at);
            take = 1;
        } else {
            mw_str_append(str, at, take);
        }
        at += take;
        length -= take;
    }
}

const char *mw_str_text(const struct mw_str *str)
{
    return str->text ? str->text : "";
}

void mw_str_clear(struct mw_str *str)
{
    str->length = 0;
    str->status = MW_OK;
    if (str->text)
        str->text[0] = '\0';
}

void mw_str_deinit(struct mw_str *str)
{
    free(str->text);
    *str = (struct mw_str){.max = str->max};
}
