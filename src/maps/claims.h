/* maps/claims.h: who owns which addresses.
 *
 * The kernel's map says what is mapped; allocators and runtimes claim ranges of it with a
 * priority. Where claims overlap, the higher priority wins, and on a tie the later one; the
 * account is what the table says. A claim may carry a split: how its bytes divide into in use,
 * free and metadata, counted block by block by the walker that made it. */
#ifndef MW_MAPS_CLAIMS_H
#define MW_MAPS_CLAIMS_H

#include "base/error.h"
#include "proc/mapping.h"

enum mw_category {
    MW_CATEGORY_MANAGED_HEAP,
    MW_CATEGORY_MANAGED_CODE,
    MW_CATEGORY_MANAGED_METADATA,
    MW_CATEGORY_MALLOC_IN_USE,
    MW_CATEGORY_MALLOC_FREE,
    MW_CATEGORY_MALLOC_METADATA,
    MW_CATEGORY_MALLOC_UNSPLIT,
    MW_CATEGORY_STACK_MAIN,
    MW_CATEGORY_STACK_THREADS,
    MW_CATEGORY_FILE_TEXT,
    MW_CATEGORY_FILE_DATA,
    MW_CATEGORY_FILE_MAPPED,
    MW_CATEGORY_SHARED_MEMORY,
    MW_CATEGORY_DEVICE,
    MW_CATEGORY_ALIAS,
    MW_CATEGORY_ANON_OTHER,
    MW_CATEGORY_UNKNOWN, /* not a category of the contract: what nobody owns */
    MW_CATEGORY_COUNT,
};

/* "malloc.in_use"; "unknown" for MW_CATEGORY_UNKNOWN. */
const char *mw_category_id(enum mw_category category);

enum mw_claim_priority {
    MW_CLAIM_FALLBACK = 0,  /* what nobody else claims: a recognised allocator that is not walked */
    MW_CLAIM_KERNEL = 1,    /* what the mapping's name and flags tell */
    MW_CLAIM_GUESS = 2,     /* shape of neighbours: guard + stack, aligned reserves */
    MW_CLAIM_ALLOCATOR = 3, /* walked or recognised allocator */
    MW_CLAIM_RUNTIME = 4,
    MW_CLAIM_BLOCK = 5,
    MW_CLAIM_ALIAS = 6, /* the page is counted at its first mapping, whoever owns this one */
};

/* Sizes, resident and swapped bytes of a claimed range by use, and how many blocks. The three
 * sizes add up to the range; rss and swap are 0 when residency is not known. */
struct mw_split {
    uint64_t in_use_bytes, free_bytes, metadata_bytes;
    uint64_t in_use_rss, free_rss, metadata_rss;
    uint64_t in_use_swap, free_swap, metadata_swap;
    uint64_t in_use_count, free_count;
};

struct mw_claim {
    mw_addr start, end;
    enum mw_category category; /* MALLOC_IN_USE etc. are set by the split when there is one */
    enum mw_claim_priority priority;
    const char *owner; /* static text: "glibc arena", "V8 heap", "thread stack" */
    bool has_split;
    struct mw_split split;
};

struct mw_claims {
    struct mw_claim *items; /* in the order they were made */
    size_t count, room;
};

/* MW_INVALID when the range is empty or inverted or a split does not add up to it, MW_LIMIT,
 * MW_NOMEM. The claim is copied. */
enum mw_status mw_claims_add(struct mw_claims *claims, const struct mw_claim *claim) MW_MUST_CHECK;

/* Shorthand without a split. */
enum mw_status mw_claims_add_range(struct mw_claims *claims, mw_addr start, mw_addr end,
                                   enum mw_category category, enum mw_claim_priority priority,
                                   const char *owner) MW_MUST_CHECK;

/* A piece of the address space with the one claim that won it. */
struct mw_claim_piece {
    mw_addr start, end;
    const struct mw_claim *claim;
};

/* Resolve all claims into disjoint pieces in ascending order, gaps left out. Pieces that touch
 * belong to different claims. Fewer than two per claim. The caller frees *pieces_out.
 * O(n log n). Pointers into claims stay valid until the next add. MW_NOMEM. */
enum mw_status mw_claims_resolve(const struct mw_claims *claims, struct mw_claim_piece **pieces_out,
                                 size_t *count_out) MW_MUST_CHECK;

void mw_claims_deinit(struct mw_claims *claims);

#endif
