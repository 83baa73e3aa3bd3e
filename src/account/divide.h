/* account/divide.h: exact division of integers. Inside the account only. */
#ifndef MW_ACCOUNT_DIVIDE_H
#define MW_ACCOUNT_DIVIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Divide total among count parts in proportion to their weights: the parts add up to total
 * exactly, each within one of its exact share. All weights 0: part 0 gets everything. The weights
 * together must fit 64 bits; parts_out may be the same array. O(count). */
void mw_divide(uint64_t total, const uint64_t *weights, uint64_t *parts_out, size_t count);

/* Bring parts, whose sum is not total, to total: what is missing or too much goes to the largest
 * part, as far as its room (sizes) or its own amount reaches, then to the next; what no room takes
 * goes to the largest after all. O(count) for each part that is changed. */
void mw_divide_correct(uint64_t total, uint64_t *parts, const uint64_t *sizes, size_t count);

/* Sum that stays below UINT64_MAX, which stands for "unknown". */
static inline uint64_t mw_add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum) || sum == UINT64_MAX)
        return UINT64_MAX - 1;
    return sum;
}

#endif
