/* tests/fuzz/fuzz_input.h: taking numbers off the bytes that a fuzzer gives. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *bytes;
    size_t size, at;
};

/* The next count bytes, at most 8, lowest first; 0 behind the end. */
static inline uint64_t take(struct input *input, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && input->at < input->size; i++)
        value |= (uint64_t)input->bytes[input->at++] << (8 * i);
    return value;
}

/* One of the words at which sizes and flags change their meaning. */
static inline uint64_t take_odd(struct input *input)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   16,
                                   17,
                                   0x20,
                                   0x21,
                                   0x31,
                                   0x1000,
                                   0x1002,
                                   0x2001,
                                   (uint64_t)1 << 31,
                                   (uint64_t)1 << 32,
                                   (uint64_t)1 << 47,
                                   (uint64_t)1 << 63,
                                   UINT64_MAX,
                                   UINT64_MAX - 15,
                                   UINT64_MAX & ~(uint64_t)4095};
    return odd[take(input, 1) % (sizeof odd / sizeof *odd)];
}

#endif
