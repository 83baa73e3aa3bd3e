/* heap/modules.h: which file of the target is the one that has an allocator, and of which version.
 *
 * Names of mappings tell where to look, never that the allocator is there: that is for its own
 * structures to show. Pointers live as long as the image's regions. Linear in regions. */
#ifndef MW_HEAP_MODULES_H
#define MW_HEAP_MODULES_H

#include "image/image.h"

const char *mw_module_base_name(const char *path);

/* The first mapping of a file whose base name begins with prefix; NULL. */
const struct mw_mapping *mw_module_library(const struct mw_image *image, const char *prefix);

/* The first mapping of a file of exactly that base name; NULL. */
const struct mw_mapping *mw_module_library_exact(const struct mw_image *image, const char *name);

/* The program itself: what holds its entry, else the lowest file that begins at offset 0. NULL. */
const struct mw_mapping *mw_module_program(const struct mw_image *image);

/* Length of the version that the text at `at` begins with, 0: none. */
typedef size_t mw_module_version_match(const char *at, size_t left);

/* Search the constants of a module, at most 16 MiB of its mappings that are readable and not
 * writable, for a version. Texts are tried where a string begins, with skip > 0 at every byte; the
 * first `skip` bytes of what matched are left out. From the file where it can be had, else from the
 * pages that are in memory: none is mapped in the target for it. version_out is left alone when
 * there is none. */
void mw_module_version(struct mw_image *image, const struct mw_mapping *module,
                       mw_module_version_match *match, size_t skip, char version_out[32]);

#endif
