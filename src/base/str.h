/* base/str.h: a growing, always terminated string with a maximum.
 *
 * Writers return nothing: the first failure (out of memory, maximum) is kept in `status` and makes
 * later writes no-ops, so that a long text is built without a check per line. */
#ifndef MW_BASE_STR_H
#define MW_BASE_STR_H

#include "base/error.h"

#include <stddef.h>

struct mw_str {
    char *text; /* NULL while empty and never written */
    size_t length, room, max;
    enum mw_status status;
};

#define MW_STR_INIT(max_bytes) ((struct mw_str){.max = (max_bytes)})

void mw_str_append(struct mw_str *str, const void *bytes, size_t length);
void mw_str_puts(struct mw_str *str, const char *text);
void mw_str_putc(struct mw_str *str, char c);
void mw_str_printf(struct mw_str *str, const char *fmt, ...) MW_PRINTF(2, 3);

/* Bytes of a target: control bytes, DEL and invalid UTF-8 become \xNN, so that a terminal is safe.
 */
void mw_str_put_escaped(struct mw_str *str, const char *text, size_t length);

/* The text, "" when empty. Valid until the next write. */
const char *mw_str_text(const struct mw_str *str);

void mw_str_clear(struct mw_str *str); /* keeps the memory */
void mw_str_deinit(struct mw_str *str);

/* Length of the valid UTF-8 sequence at text (1 to 4), 0 when there is none. */
size_t mw_utf8_sequence(const unsigned char *text, size_t left);

#endif
