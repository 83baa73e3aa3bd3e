/* support/world.h: evidence of a process that never ran, for tests of verdicts.
 *
 * Start with world_init(), add arenas, categories, settings and mappings, then world_evaluate().
 * The allocator's sums, the account's rows of malloc and the account's totals follow from the
 * arenas unless the test sets them after world_finish(). Figures in bytes. */
#ifndef MW_TESTS_WORLD_H
#define MW_TESTS_WORLD_H

#include "verdict/verdict.h"

enum {
    WORLD_ARENAS_MAX = 1024,
    WORLD_ROWS_MAX = 64,
    WORLD_SEGMENTS_MAX = 16,
    WORLD_SETTINGS_MAX = 16,
};

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
/* "1,131.0 MiB" as a figure of a screen, whole pages */
#define PAGES(mib) ((uint64_t)((mib)*256.0) * 4096)

struct world {
    struct mw_evidence evidence;
    struct mw_image image;
    struct mw_account account;
    struct mw_allocator allocator;
    struct mw_arena arenas[WORLD_ARENAS_MAX];
    struct mw_heap_segment segments[WORLD_SEGMENTS_MAX];
    struct mw_size_row sizes[WORLD_ROWS_MAX];
    struct mw_pin pins[WORLD_ROWS_MAX];
    struct mw_account_piece pieces[WORLD_ROWS_MAX];
    struct mw_runtime runtime;
    struct mw_cgroup cgroup;
    struct mw_findings findings;
    struct mw_setting settings[WORLD_SETTINGS_MAX];
    mw_addr next_map;
    bool finished;
};

/* A live, readable process with an empty reconciled glibc and nothing resident. */
void world_init(struct world *world);
void world_deinit(struct world *world);

/* The first is the main arena. free_bytes and in_use_bytes are resident as a whole; of the free
 * ones malloc_trim would release `trimmable`. Members may be changed until world_finish(). */
struct mw_arena *world_arena(struct world *world, uint64_t free_bytes, uint64_t trimmable,
                             uint64_t top, uint64_t in_use_bytes);

/* Ascending sizes. */
void world_size(struct world *world, uint64_t size, uint64_t in_use_count, uint64_t free_count);
void world_rss(struct world *world, enum mw_category category, uint64_t rss_bytes);
void world_setting(struct world *world, const char *name, const char *value);
/* A mapping of 1 MiB, in ascending order, that holds rss_bytes of category. */
void world_map(struct world *world, const char *name, enum mw_category category,
               uint64_t rss_bytes);

/* The sums. Called by world_evaluate() when the test did not. */
void world_finish(struct world *world);
/* Verdicts of this world; the test fails when there are none. */
struct mw_verdicts world_evaluate(struct world *world);

/* Fails the test unless the top-level verdicts are in order, disjoint and within the total. */
void world_check(const struct world *world, const struct mw_verdicts *verdicts);

/* Parts of a verdict; the test fails when they are not there. */
const struct mw_verdict *verdict_get(const struct mw_verdicts *verdicts, const char *id);
const struct mw_remedy *remedy_get(const struct mw_verdict *verdict, const char *action_part);
bool verdict_says(const struct mw_verdict *verdict, const char *part); /* in its evidence */
bool verdict_rules_out(const struct mw_verdict *verdict, const char *id);
bool known_says(const struct mw_verdicts *verdicts, const char *part);

#endif
