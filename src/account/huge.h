/* account/huge.h: what of transparent huge pages was never used.
 *
 * A huge page is resident as a whole, touched or not. What was not touched holds zeros, so the
 * small pages inside that hold nothing but zeros are counted, by owner: those inside free blocks of
 * a walked allocator apart, since they are free memory in any case.
 *
 *   | used | 0 0 0 | free block  0 0 0 | used | 0 0 0 0 |     one huge page
 *            zero       zero_in_free            zero
 *
 * A huge page that holds zeros from end to end is not called unused: something has touched it, so
 * zeros were written there, and whoever writes zeros once does so for all of it.
 *
 * Read in three steps: choose, before the walk of the heaps; a visitor, in the walk; read, after
 * the account is built, while the target runs. Bytes that change meanwhile are noise. */
#ifndef MW_ACCOUNT_HUGE_H
#define MW_ACCOUNT_HUGE_H

#include "account/account.h"
#include "heap/walker.h"
#include "proc/thp.h"

/* So much is looked into at most; of more, a sample of huge pages. */
#define MW_HUGE_READ_BYTES_MAX ((uint64_t)256 << 20)

struct mw_huge_part {
    mw_addr start;
    bool is_asked; /* in a mapping with MADV_HUGEPAGE */
};

struct mw_huge {
    uint64_t size_bytes;   /* of a huge page; 0: nothing to look into */
    uint64_t total_bytes;  /* in huge pages, AnonHugePages */
    uint64_t looked_bytes; /* of them looked into: less is a sample */
    bool is_sampled;       /* one huge page in some was chosen */
    bool is_marked;        /* the kernel says which pages are huge; false: by what is resident */
    bool flags_known;      /* is_asked means something */

    /* Bytes that hold nothing but zeros; of a sample, scaled to total_bytes. */
    uint64_t zero_bytes[MW_CATEGORY_COUNT]; /* outside free blocks, by owner */
    uint64_t zero_in_free_bytes;            /* inside free blocks, whatever the allocator */
    uint64_t all_zero_bytes;                /* in huge pages of zeros alone, outside free blocks */
    uint64_t asked_bytes;                   /* of zero_bytes, where MADV_HUGEPAGE was called */
    uint64_t error_bytes;                   /* sample: two standard errors of all zero_bytes */

    struct mw_thp thp; /* the system's policy, set by the caller */

    struct mw_huge_part *parts; /* chosen, ascending */
    size_t part_count, part_room;
    uint8_t *free_pages; /* a bit for each small page of each part; behind them the same as they
                            were before the allocator at hand was walked */
};

/* Choose what is looked into: nothing where huge pages hold less than 2 % of the Rss or than 1 MiB,
 * or where contents or pages cannot be read. Reads residency of mappings with AnonHugePages, at
 * most 256 GiB of them. MW_NOMEM, MW_GONE. */
enum mw_status mw_huge_choose(struct mw_image *image, struct mw_huge *huge_out,
                              struct mw_error *err) MW_MUST_CHECK;

/* The visitor that notes free blocks in what was chosen. Valid as long as huge is. */
struct mw_heap_visitor mw_huge_visitor(struct mw_huge *huge);

/* After the walk: leave out what lies in segments whose blocks were not read, for there it is not
 * known what is free. total_bytes is less by as much. */
void mw_huge_leave_unread(struct mw_huge *huge, const struct mw_allocator *allocator);

/* Read what was chosen, at most MW_HUGE_READ_BYTES_MAX, and count. `account` tells the owners.
 * MW_NOMEM, MW_CANCELED. About 20 ms for 256 MiB. */
enum mw_status mw_huge_read(struct mw_image *image, const struct mw_account *account,
                            struct mw_context *context, struct mw_huge *huge,
                            struct mw_error *err) MW_MUST_CHECK;

void mw_huge_deinit(struct mw_huge *huge);

#endif
