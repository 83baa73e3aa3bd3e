/* image/vectors.h: what threads have in vector registers, which may be all that holds a pointer: a
 * move of two at once, a copy that was interrupted.
 *
 * Kept are only words that can be addresses of user space. */
#ifndef MW_IMAGE_VECTORS_H
#define MW_IMAGE_VECTORS_H

#include "base/vec.h"

#include <stdint.h>

struct mw_vector_word {
    uint64_t word;
    int32_t tid;
};

struct mw_vectors {
    struct mw_vector_word *items;
    size_t count, room;
};

/* The words of a thread's register set as the kernel gives it (NT_PRFPREG, NT_X86_XSTATE): aligned
 * ones of 8 bytes. MW_NOMEM, MW_LIMIT. */
enum mw_status mw_vectors_add(struct mw_vectors *vectors, int32_t tid, const uint8_t *bytes,
                              size_t length) MW_MUST_CHECK;

#endif
