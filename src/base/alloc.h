/* base/alloc.h: the one gate through which memwhy allocates.
 *
 * Sizes are checked for overflow, memory comes back zeroed, and a test can make the n-th
 * allocation fail (mw_alloc_fail_after). Everything is released with free(). */
#ifndef MW_BASE_ALLOC_H
#define MW_BASE_ALLOC_H

#include <stddef.h>
#include <stdlib.h>

/* count objects of size bytes, zeroed; NULL when out of memory or when the product overflows.
 * A count of 0 gives a valid pointer. */
void *mw_calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));

/* Resize an array; the part beyond old_count is zeroed. NULL on failure, the old one stays. */
void *mw_regrow(void *old, size_t old_count, size_t count, size_t size);

char *mw_strdup(const char *text);
char *mw_strndup(const char *text, size_t length);

/* For fault sweeps: let n allocations succeed, fail the next one. Negative: never fail. */
void mw_alloc_fail_after(long n);

#endif
