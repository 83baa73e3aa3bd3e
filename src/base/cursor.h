/* base/cursor.h: reading hostile bytes. Every read checks its bounds; after the first failure the
 * cursor stays failed and gives zeros, so a parser may read a whole struct and check once. */
#ifndef MW_BASE_CURSOR_H
#define MW_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mw_cursor {
    const uint8_t *bytes;
    size_t size, at;
    bool failed;
};

static inline struct mw_cursor mw_cursor_of(const void *bytes, size_t size)
{
    return (struct mw_cursor){.bytes = bytes, .size = size};
}

static inline size_t mw_cursor_left(const struct mw_cursor *cur)
{
    return cur->failed ? 0 : cur->size - cur->at;
}

/* Pointer to the next n bytes and step over them; NULL past the end. */
static inline const uint8_t *mw_cursor_take(struct mw_cursor *cur, size_t n)
{
    if (cur->failed || n > cur->size - cur->at) {
        cur->failed = true;
        return NULL;
    }
    const uint8_t *taken = cur->bytes + cur->at;
    cur->at += n;
    return taken;
}

#define MW_CURSOR_READER(name, type)                                                               \
    static inline type mw_cursor_##name(struct mw_cursor *cur)                                     \
    {                                                                                              \
        type value = 0;                                                                            \
        const uint8_t *taken = mw_cursor_take(cur, sizeof value);                                  \
        if (taken)                                                                                 \
            memcpy(&value, taken, sizeof value);                                                   \
        return value;                                                                              \
    }

/* Little-endian: both architectures that memwhy reads are. */
MW_CURSOR_READER(u8, uint8_t)
MW_CURSOR_READER(u16, uint16_t)
MW_CURSOR_READER(u32, uint32_t)
MW_CURSOR_READER(u64, uint64_t)

static inline void mw_cursor_skip(struct mw_cursor *cur, size_t n)
{
    (void)mw_cursor_take(cur, n);
}

/* Step to the next multiple of a power of two, counted from the start. */
static inline void mw_cursor_align(struct mw_cursor *cur, size_t power)
{
    size_t rest = cur->at & (power - 1);
    if (rest)
        mw_cursor_skip(cur, power - rest);
}

#endif
