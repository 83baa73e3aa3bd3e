/* base/random.h: numbers for samples: quick, and the same in two runs. Not for secrets. */
#ifndef MW_BASE_RANDOM_H
#define MW_BASE_RANDOM_H

#include <stdint.h>

/* The state that every sample starts from. */
#define MW_RANDOM_SEED UINT64_C(0x9e3779b97f4a7c15)

/* A number below limit, 0 for a limit of 0: xorshift (Marsaglia 2003). Its slight bias does not
 * matter for a sample. The state is never 0. */
static inline uint64_t mw_random_below(uint64_t *state, uint64_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint64_t)((unsigned __int128)*state * limit >> 64);
}

#endif
