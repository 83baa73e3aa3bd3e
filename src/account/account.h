/* account/account.h: every resident byte once.
 *
 * The kernel owns the total: the sum of Rss over one pass of smaps. Each mapping's Rss is divided
 * among the claims on it, by residency page by page where several share a mapping; what does not
 * add up because the target ran on between two readings is charged to the mapping's largest owner
 * and counted as the finding "account-skew". Invariant, asserted: the rows plus unknown are the
 * total, for rss, pss and swap. */
#ifndef MW_ACCOUNT_ACCOUNT_H
#define MW_ACCOUNT_ACCOUNT_H

#include "base/finding.h"
#include "image/image.h"
#include "maps/claims.h"

struct mw_account_row {
    enum mw_category category;
    uint64_t rss_bytes, pss_bytes, swap_bytes; /* MW_UNKNOWN when the source has none */
    uint64_t size_bytes;
    uint64_t count;     /* mappings, blocks for malloc.in_use and malloc.free, threads for stacks */
    const char *source; /* "smaps", "heap walk", "pagemap" */
};

/* One mapping, or a part of one that an owner claimed: the rows of `maps`. */
struct mw_account_piece {
    mw_addr start, end;
    uint32_t region; /* index into image->regions */
    enum mw_category category;
    const char *owner; /* "" when nobody */
    uint64_t rss_bytes, pss_bytes, swap_bytes, anon_huge_bytes;
};

struct mw_account {
    bool has_rss, has_pss, has_swap;
    uint64_t rss_bytes, pss_bytes, swap_bytes, unknown_bytes, size_bytes;
    uint64_t unknown_mappings;
    struct mw_account_row rows[MW_CATEGORY_COUNT]; /* by category; UNKNOWN included */

    /* Sums over smaps, MW_UNKNOWN when absent */
    uint64_t anonymous_bytes, anon_huge_bytes, lazy_free_bytes, locked_bytes, shared_clean_bytes,
        shared_dirty_bytes, private_clean_bytes, private_dirty_bytes, hugetlb_bytes;
    uint64_t file_clean_bytes; /* clean pages of file categories: reclaimable */

    struct mw_account_piece *pieces; /* ascending */
    size_t piece_count;
};

/* Kernel-level claims from names, flags and threads: stacks, files, shared memory, devices,
 * aliases (a page of one file offset mapped shared twice), guards. */
enum mw_status mw_account_claim_mappings(struct mw_image *image, struct mw_claims *claims,
                                         struct mw_findings *findings,
                                         struct mw_error *err) MW_MUST_CHECK;

/* Divide. `image` must have counters for rss figures; without, sizes only. */
enum mw_status mw_account_build(struct mw_image *image, const struct mw_claims *claims,
                                struct mw_account *account_out, struct mw_findings *findings,
                                struct mw_error *err) MW_MUST_CHECK;

void mw_account_deinit(struct mw_account *account);

#endif
