/* runtime/shapes.h: what the probes share: names of modules, runs of touching mappings, residency
 * of ranges. Inside runtime/ only. */
#ifndef MW_RUNTIME_SHAPES_H
#define MW_RUNTIME_SHAPES_H

#include "image/image.h"
#include "maps/claims.h"

/* Is the last component of the path exactly name? */
bool mw_path_ends_in(const char *path, const char *name);

/* The first mapping whose file is called name, or NULL. Linear. */
const struct mw_mapping *mw_module_find(const struct mw_image *image, const char *name);

/* The mapping that holds the program's entry or headers; without auxv the one named by exe, else
 * the lowest mapping of a file. NULL when there is none. */
const struct mw_mapping *mw_program_find(const struct mw_image *image);

/* Private, anonymous, without a name of its own. */
static inline bool mw_mapping_is_unnamed(const struct mw_mapping *map)
{
    return !(map->perms & MW_PERM_SHARED) && map->inode == 0 && map->name[0] == '\0';
}

static inline bool mw_mapping_is_rw(const struct mw_mapping *map)
{
    return mw_mapping_is_unnamed(map) &&
           (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC)) ==
               (MW_PERM_READ | MW_PERM_WRITE);
}

/* Address space kept for later: inaccessible, with the flag by which the runtime at hand marks its
 * reserves; a source without flags leaves the size: larger than a guard. */
bool mw_mapping_is_reserve(const struct mw_mapping *map, uint32_t vm_flag);

/* Is mapping i the accessible part of a heap of a glibc arena? Its header tells where memory can be
 * read; else its shape and flags, where reserves of the runtime at hand are marked vm_flag (0: they
 * are not marked, and shape alone is no proof). */
bool mw_mapping_is_arena(struct mw_image *image, size_t i, uint32_t vm_flag);

/* Is mapping i the inaccessible rest of such a heap? */
bool mw_mapping_is_arena_rest(struct mw_image *image, size_t i, uint32_t vm_flag);

/* Bytes of [start, end) that are resident: by the counters of mappings that lie in it as a whole,
 * by pages at its edges. MW_UNKNOWN when the image knows neither. */
uint64_t mw_range_rss(struct mw_image *image, mw_addr start, mw_addr end);

/* Add bytes to a sum that may be MW_UNKNOWN or become it. */
static inline uint64_t mw_add_known(uint64_t sum, uint64_t bytes)
{
    return sum == MW_UNKNOWN || bytes == MW_UNKNOWN ? MW_UNKNOWN : sum + bytes;
}

/* Claim one mapping for the runtime. */
enum mw_status mw_runtime_claim(struct mw_claims *claims, const struct mw_mapping *map,
                                enum mw_category category, enum mw_claim_priority priority,
                                const char *owner) MW_MUST_CHECK;

#endif
