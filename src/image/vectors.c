/* image/vectors.c: words of register sets that can be addresses. */
#include "image/vectors.h"

#include "base/limits.h"

#include <string.h>

enum { WORDS_A_THREAD = 512 };
static const uint64_t ADDRESS_MIN = 0x10000, ADDRESS_MAX = (uint64_t)1 << 56;

enum mw_status mw_vectors_add(struct mw_vectors *vectors, int32_t tid, const uint8_t *bytes,
                              size_t length)
{
    enum mw_status status = MW_OK;
    unsigned kept = 0;
    for (size_t i = 0; i + 8 <= length && status == MW_OK && kept < WORDS_A_THREAD; i += 8) {
        struct mw_vector_word word = {.tid = tid};
        memcpy(&word.word, bytes + i, sizeof word.word);
        if (word.word < ADDRESS_MIN || word.word >= ADDRESS_MAX)
            continue;
        status = mw_vec_push(vectors, MW_LIMIT_THREADS * WORDS_A_THREAD, word);
        kept++;
    }
    return status;
}
