/* heap/glibc/sums.h: what the parts of a heap add up to, and whether that is what malloc says. Used
 * by tally.c; not safe to be called by several threads at once. */
#ifndef MW_HEAP_GLIBC_SUMS_H
#define MW_HEAP_GLIBC_SUMS_H

#include "heap/glibc/scan.h"
#include "heap/sizes.h"

/* What one thread has summed up that is not an arena's. */
struct mw_glibc_sums_part {
    uint64_t mmapped_bytes, mmapped_count, skipped_bytes;
    uint64_t tcache_bytes, tcache_count, fastbin_bytes, fastbin_count, top_bytes;
    uint64_t free_resident_bytes, trimmable_bytes, free_large_bytes, free_large_rss;
    uint64_t fragment_bytes; /* wraps between the segments of a part; a sum does not */
    uint64_t thread_top_rss;
    uint64_t content_bytes[MW_CONTENT_COUNT];
};

struct mw_glibc_sums;
struct mw_glibc_sums *mw_glibc_sums_new(const struct mw_glibc *glibc, struct mw_glibc_scan *scan);
void mw_glibc_sums_free(struct mw_glibc_sums *sums);

enum mw_status mw_glibc_sums_pin(struct mw_glibc_sums *sums, const struct mw_pin *pin);

/* A segment of `bytes` of the arena at address; returns whether that is the main one. */
bool mw_glibc_sums_arena(struct mw_glibc_sums *sums, mw_addr address, const struct mw_arena *part,
                         uint64_t bytes);

enum mw_status mw_glibc_sums_merge(struct mw_glibc_sums *sums,
                                   const struct mw_glibc_sums_part *part,
                                   const struct mw_sizes *sizes);

/* What the chosen arenas say about those that were not read; size of the sample, 0: none. */
struct mw_glibc_sample {
    uint64_t chosen_count, thread_count; /* arenas */
    uint64_t estimated_in_use_bytes, estimated_bytes, margin_bytes;
};

/* sample.c: estimate what was not read and add it: to the segments, their arenas (by
 * mw_glibc_sums_arena) and *part_out, which is to be merged. */
struct mw_glibc_sample mw_glibc_sample_estimate(struct mw_glibc_sums *sums,
                                                struct mw_glibc_scan *scan,
                                                struct mw_glibc_sums_part *part_out);

/* Estimates, sums over arenas, comparison with malloc's own counters, arrays handed over. */
enum mw_status mw_glibc_sums_finish(struct mw_glibc_sums *sums, struct mw_allocator *allocator);

/* tally.c: fill the allocator's account from all that was read. */
enum mw_status mw_glibc_tally(struct mw_glibc *glibc, struct mw_glibc_scan *scan,
                              struct mw_allocator *allocator);

#endif
