/* image/tcb.c: thread control blocks by their structure. */
#include "image/tcb.h"

#include <string.h>

mw_addr mw_tcb_find(const uint8_t *bytes, size_t size, mw_addr address)
{
    for (size_t at = 0; at + 32 <= size; at += 8) { /* musl aligns it to 8 */
        uint64_t words[4];
        memcpy(words, bytes + at, sizeof words);
        if (words[0] != address + at)
            continue;
        bool is_glibc = words[2] == words[0];
        /* musl: self, dtv, prev, next: the list of threads closes on itself */
        bool is_musl = words[2] != 0 && words[3] != 0 && words[2] % 8 == 0 && words[3] % 8 == 0 &&
                       words[1] != 0;
        if (is_glibc || is_musl)
            return address + at;
    }
    return 0;
}

bool mw_tcb_stack(struct mw_image *image, mw_addr tp, mw_addr *start_out, mw_addr *end_out)
{
    enum { WORDS = 512 }; /* struct pthread has 0x900 bytes in glibc 2.36 */
    const uint64_t size_max = (uint64_t)64 << 30;
    uint64_t words[WORDS];
    mw_addr page_mask = image->page_size - 1u;
    mw_addr from = image->arch == MW_ARCH_AARCH64 ? tp - sizeof words : tp; /* it lies below tp */
    if (tp % 8 != 0 || tp < sizeof words)
        return false;
    size_t count = mw_image_read_present(image, from, words, sizeof words) / 8;
    for (size_t i = 0; i + 1 < count; i++) {
        mw_addr start = words[i], size = words[i + 1];
        if (start == 0 || size == 0 || (start | size) & page_mask || size > size_max ||
            start > tp || tp - start >= size)
            continue;
        *start_out = start;
        *end_out = start + size;
        return true;
    }
    return false;
}
