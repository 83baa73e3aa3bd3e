/* base/bytes.h: questions about a run of bytes. */
#ifndef MW_BASE_BYTES_H
#define MW_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Are all of them zero? length is at least 1. At the speed of memcmp. */
static inline bool mw_bytes_are_zero(const uint8_t *bytes, size_t length)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* How many bytes from the first on are equal to it; length is at least 1. Eight at a time. */
static inline size_t mw_bytes_run(const uint8_t *bytes, size_t length)
{
    const uint64_t same = bytes[0] * 0x0101010101010101u;
    size_t count = 1;
    for (uint64_t word; length - count >= sizeof word; count += sizeof word) {
        memcpy(&word, bytes + count, sizeof word);
        if (word != same)
            break;
    }
    while (count < length && bytes[count] == bytes[0])
        count++;
    return count;
}

#endif
