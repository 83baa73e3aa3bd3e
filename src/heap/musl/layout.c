/* heap/musl/layout.c: the sizes of mallocng's classes, in units of 16 bytes. Equal in every release
 * from 1.2.1 to 1.2.5. Reference: musl 1.2.5 src/malloc/mallocng/malloc.c (size_classes). */
#include "heap/musl/layout.h"

#include <assert.h>

uint32_t mw_musl_class_bytes(unsigned sizeclass)
{
    static const uint16_t units[MW_MUSL_CLASSES] = {
        1,   2,   3,   4,    5,    6,    7,    8,    9,    10,   12,   15,   18,   20,   25,   31,
        36,  42,  50,  63,   72,   84,   102,  127,  146,  170,  204,  255,  292,  340,  409,  511,
        584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
    };
    assert(sizeclass < MW_MUSL_CLASSES);
    return (uint32_t)MW_MUSL_UNIT * units[sizeclass];
}
