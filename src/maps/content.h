/* maps/content.h: what kind of data bytes are. Kinds only: the bytes never leave these functions.
 */
#ifndef MW_MAPS_CONTENT_H
#define MW_MAPS_CONTENT_H

#include "image/image.h"

enum { MW_CONTENT_SAMPLE_BYTES = 256 };

enum mw_content {
    MW_CONTENT_ZERO,
    MW_CONTENT_TEXT,
    MW_CONTENT_JSON,
    MW_CONTENT_XML,
    MW_CONTENT_SQL,
    MW_CONTENT_POINTERS, /* most words point into heaps: nodes, tables */
    MW_CONTENT_OBJECTS,  /* starts with a pointer into a module's data: vtables */
    MW_CONTENT_NUMBERS,
    MW_CONTENT_COMPRESSED, /* high entropy */
    MW_CONTENT_MIXED,
    MW_CONTENT_COUNT,
};
const char *mw_content_name(enum mw_content content);

/* Classify length bytes (at most MW_CONTENT_SAMPLE_BYTES, 8-aligned in the target). Pointers are
 * judged by the regions of the image. O(length log regions). */
enum mw_content mw_content_classify(const struct mw_image *image, const uint8_t *bytes,
                                    size_t length);

/* Which text: length bytes that are known to be text. MW_CONTENT_TEXT, JSON, XML or SQL. */
enum mw_content mw_content_text_kind(const uint8_t *bytes, size_t length);

#endif
