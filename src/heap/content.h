/* heap/content.h: what kind of data bytes are. Kinds only: the bytes never leave this function. */
#ifndef MW_HEAP_CONTENT_H
#define MW_HEAP_CONTENT_H

#include "heap/walker.h"

enum { MW_CONTENT_SAMPLE_BYTES = 256 };

/* Classify length bytes (at most MW_CONTENT_SAMPLE_BYTES, 8-aligned in the target). Pointers are
 * judged by the regions of the image. O(length log regions). */
enum mw_content mw_content_classify(const struct mw_image *image, const uint8_t *bytes,
                                    size_t length);

#endif
