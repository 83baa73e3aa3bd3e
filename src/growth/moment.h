/* growth/moment.h: what is kept of a target's memory to be compared with another moment. */
#ifndef MW_GROWTH_MOMENT_H
#define MW_GROWTH_MOMENT_H

#include "blocks/groups.h"
#include "blocks/list.h"
#include "graph/reach.h"
#include "maps/claims.h"

enum { MW_KIND_NAME_ROOM = 192, MW_KINDS_MAX = 4096 };

/* Blocks in use of one size whose first word points to one place in a module, or, with an empty
 * name, those that have no such word. */
struct mw_kind {
    uint64_t size_bytes, usable_bytes; /* of each block: chunk, and what can be used of it */
    uint64_t count;
    uint64_t lost_count;          /* of them; MW_UNKNOWN where reachability is not exact */
    char name[MW_KIND_NAME_ROOM]; /* the target's text */
};

struct mw_moment {
    double taken_at;   /* Unix seconds; 0 unknown */
    bool is_file_time; /* taken_at is that of the file */
    int32_t pid;
    bool has_heap; /* every allocator found was walked whole: sizes and kinds say all */
    bool knows_lost;
    uint64_t rss_bytes; /* MW_UNKNOWN */
    struct {
        uint64_t resident_bytes; /* all 0 where rss_bytes is unknown */
        uint64_t mapped_bytes, count;
    } categories[MW_CATEGORY_COUNT];
    struct mw_block_groups sizes;
    struct mw_kind *kinds; /* ascending by size, then name; no two alike */
    size_t kind_count;
    struct mw_block_list list;       /* sorted */
    uint64_t at_random, vdso, entry; /* identity of the process; 0 unknown */
};

void mw_moment_deinit(struct mw_moment *moment);

/* Were both taken of one process? */
bool mw_moment_is_same_process(const struct mw_moment *before, const struct mw_moment *after);

/* The blocks of a list by kind, with the names of symbols. reach: NULL where nothing exact is known
 * of what is reachable. layouts: of sizes, for the blocks without a pointer to a module. Reads 8
 * bytes of each block, ascending. Of one image: while it runs, if it moves. MW_NOMEM, MW_CANCELED.
 */
struct mw_kind_layout {
    uint64_t size_bytes;
    const char *name;
};
struct mw_kinds_input {
    struct mw_image *image;
    const struct mw_block_list *list;
    const struct mw_reach *reach;
    const struct mw_kind_layout *layouts; /* ascending by size */
    size_t layout_count;
    uint64_t overhead_bytes; /* of a block */
    struct mw_context *context;
};
enum mw_status mw_kinds_count(const struct mw_kinds_input *input, struct mw_kind **kinds_out,
                              size_t *count_out, struct mw_error *err) MW_MUST_CHECK;

#endif
