/* proc/number.c: digits → number. Trusts nothing: what does not fit is no number. */
#include "proc/number.h"

#include <string.h>

bool mw_number_take(const char **at, uint64_t *value_out)
{
    const char *first = *at + strspn(*at, " \t"), *text = first;
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    if (text == first)
        return false;
    *at = text;
    *value_out = value;
    return true;
}

bool mw_number_kilobytes(const char *text, uint64_t *bytes_out)
{
    uint64_t value;
    if (!mw_number_take(&text, &value) || __builtin_mul_overflow(value, 1024, &value))
        return false;
    *bytes_out = value;
    return true;
}
