/* tests/support/smaps_lines.h: an image from a table of mappings, one short line each. */
#ifndef MW_TESTS_SMAPS_LINES_H
#define MW_TESTS_SMAPS_LINES_H

#include "image/image.h"

/* Lines are "START-END PERMS INODE RSS_KIB [NAME] [| VMFLAGS]", ended by NULL. The image knows
 * neither memory nor pages, like a pasted smaps. Fails the test when a line is wrong. */
void smaps_lines_open(const char *const *lines, struct mw_image *image_out);

#endif
