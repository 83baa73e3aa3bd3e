/* base/error.c: filling the fixed-size error object. Trusts nothing but its own format strings:
 * arguments may carry bytes of a target, so the text is made printable at the end. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *mw_status_name(enum mw_status code)
{
    static const char *const names[] = {
        [MW_OK] = "ok",
        [MW_NOMEM] = "nomem",
        [MW_OS] = "os",
        [MW_PERM] = "perm",
        [MW_GONE] = "gone",
        [MW_FAULT] = "fault",
        [MW_TRUNCATED] = "truncated",
        [MW_CORRUPT] = "corrupt",
        [MW_UNSUPPORTED] = "unsupported",
        [MW_NOT_FOUND] = "not-found",
        [MW_LIMIT] = "limit",
        [MW_CANCELED] = "canceled",
        [MW_INVALID] = "invalid",
    };
    if ((size_t)code >= sizeof names / sizeof *names || names[code] == NULL)
        return "unknown";
    return names[code];
}

/* Replace control bytes, so that a path of the target cannot drive a terminal. */
static void text_sanitize(char *text)
{
    for (; *text; text++) {
        bool is_c1 = (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] >= 0x80 &&
                     (unsigned char)text[1] < 0xa0; /* a control of eight bits, in UTF-8 */
        if (is_c1 || (unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
        if (is_c1)
            text[1] = '?';
    }
}

static void error_set(struct mw_error *err, enum mw_status code, const char *fmt, va_list ap)
{
    err->code = code;
    err->os_errno = 0;
    err->address = 0;
    err->hint[0] = '\0';
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    text_sanitize(err->text);
}

enum mw_status mw_fail(struct mw_error *err, enum mw_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        error_set(err, code, fmt, ap);
        va_end(ap);
    }
    return code;
}

static enum mw_status status_of_errno(int os_errno)
{
    switch (os_errno) {
    case EPERM:
    case EACCES:
        return MW_PERM;
    case ESRCH:
        return MW_GONE;
    case ENOENT:
        return MW_NOT_FOUND;
    case ENOMEM:
        return MW_NOMEM;
    default:
        return MW_OS;
    }
}

enum mw_status mw_fail_errno(struct mw_error *err, int os_errno, const char *fmt, ...)
{
    enum mw_status code = status_of_errno(os_errno);
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        error_set(err, code, fmt, ap);
        va_end(ap);
        err->os_errno = os_errno;
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(os_errno));
    }
    return code;
}

enum mw_status mw_fail_at(struct mw_error *err, enum mw_status code, mw_addr address,
                          const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        error_set(err, code, fmt, ap);
        va_end(ap);
        err->address = address;
    }
    return code;
}

void mw_error_prefix(struct mw_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    text_sanitize(err->text);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", inner);
}

void mw_error_hint(struct mw_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    text_sanitize(err->hint);
}
