/* base/alloc.c: the allocation gate. The only caller of calloc() and realloc(). */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static _Atomic long fail_after = -1;

void mw_alloc_fail_after(long n)
{
    atomic_store(&fail_after, n);
}

static int alloc_must_fail(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    if (left < 0)
        return 0;
    return atomic_fetch_sub(&fail_after, 1) <= 0;
}

void *mw_calloc(size_t count, size_t size)
{
    if (alloc_must_fail())
        return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *mw_regrow(void *old, size_t old_count, size_t count, size_t size)
{
    size_t bytes;
    if (alloc_must_fail() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    char *grown = realloc(old, bytes ? bytes : 1);
    if (grown && count > old_count)
        memset(grown + old_count * size, 0, (count - old_count) * size);
    return grown;
}

static char *text_copy(const char *text, size_t length)
{
    char *copy = mw_calloc(length + 1, 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

char *mw_strndup(const char *text, size_t length)
{
    return text_copy(text, strnlen(text, length));
}

char *mw_strdup(const char *text)
{
    return text_copy(text, strlen(text));
}
