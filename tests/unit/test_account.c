/* tests/unit/test_account.c: dividing counters among owners, on hand-made mappings whose pages are
 * known, and on random ones where only conservation is known. */
#include "account/account.h"
#include "base/alloc.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, P = MW_PAGE_PRESENT, S = MW_PAGE_SWAPPED, Z = MW_PAGE_PRESENT | MW_PAGE_ZERO };

#define KNOWN(counter) (1u << MW_COUNTER_##counter)

struct fixture {
    struct mw_image image;
    struct mw_claims claims;
    struct mw_account account;
    struct mw_findings findings;
};

static struct mw_image_memory_part part(mw_addr start, mw_addr end, uint64_t rss, uint64_t pss,
                                        uint64_t swap, const uint8_t *pages)
{
    struct mw_image_memory_part made = {
        .mapping = {.start = start,
                    .end = end,
                    .perms = MW_PERM_READ | MW_PERM_WRITE,
                    .known = KNOWN(RSS) | KNOWN(PSS) | KNOWN(SWAP)},
        .pages = pages,
    };
    made.mapping.counters[MW_COUNTER_RSS] = rss;
    made.mapping.counters[MW_COUNTER_PSS] = pss;
    made.mapping.counters[MW_COUNTER_SWAP] = swap;
    return made;
}

static void claim(struct fixture *f, mw_addr start, mw_addr end, enum mw_category category)
{
    assert_int_equal(mw_claims_add_range(&f->claims, start, end, category, MW_CLAIM_GUESS, "owner"),
                     MW_OK);
}

static void build(struct fixture *f, const struct mw_image_memory_part *parts, size_t count)
{
    if (f->image.ops == NULL)
        assert_int_equal(mw_image_open_memory(parts, count, &f->image, NULL), MW_OK);
    assert_int_equal(mw_account_build(&f->image, &f->claims, &f->account, &f->findings, NULL),
                     MW_OK);
}

static void release(struct fixture *f)
{
    mw_account_deinit(&f->account);
    mw_claims_deinit(&f->claims);
    mw_findings_deinit(&f->findings);
    mw_image_close(&f->image);
}

/* Every mapping's pieces cover it and carry its counters. */
static void assert_pieces_conserve(const struct fixture *f)
{
    const struct mw_account *account = &f->account;
    size_t at = 0;
    for (size_t i = 0; i < f->image.regions.count; i++) {
        const struct mw_mapping *map = &f->image.regions.items[i];
        uint64_t rss = 0, pss = 0, swap = 0;
        mw_addr end = map->start;
        for (; at < account->piece_count && account->pieces[at].region == i; at++) {
            assert_int_equal(account->pieces[at].start, end);
            end = account->pieces[at].end;
            rss += account->pieces[at].rss_bytes;
            pss += account->pieces[at].pss_bytes;
            swap += account->pieces[at].swap_bytes;
        }
        assert_int_equal(end, map->end);
        if (account->has_rss && !mw_finding_find(&f->findings, "rss-overflow")) {
            assert_int_equal(rss, mw_mapping_counter(map, MW_COUNTER_RSS));
            assert_int_equal(pss, mw_mapping_counter(map, MW_COUNTER_PSS));
            assert_int_equal(swap, mw_mapping_counter(map, MW_COUNTER_SWAP));
        }
    }
    assert_int_equal(at, account->piece_count);
}

static void test_mapping_with_one_owner(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x17000, 5 * PAGE, 3 * PAGE, PAGE, NULL),
        part(0x20000, 0x21000, PAGE, PAGE, 0, NULL),
    };
    claim(&f, 0x10000, 0x17000, MW_CATEGORY_FILE_TEXT);
    build(&f, parts, 2);
    const struct mw_account_row *text = &f.account.rows[MW_CATEGORY_FILE_TEXT];
    assert_int_equal(text->rss_bytes, 5 * PAGE);
    assert_int_equal(text->pss_bytes, 3 * PAGE);
    assert_int_equal(text->swap_bytes, PAGE);
    assert_int_equal(text->size_bytes, 7 * PAGE);
    assert_int_equal(text->count, 1);
    assert_string_equal(text->source, "smaps");
    assert_int_equal(f.account.unknown_bytes, PAGE);
    assert_int_equal(f.account.unknown_mappings, 1);
    assert_int_equal(f.account.rss_bytes, 6 * PAGE);
    assert_int_equal(f.account.size_bytes, 8 * PAGE);
    assert_int_equal(f.findings.count, 0);
    assert_pieces_conserve(&f);
    release(&f);
}

static void test_owners_are_told_apart_by_pages(void **state)
{
    (void)state;
    struct fixture f = {0};
    /*                            heap........  nobody  device....... */
    static const uint8_t pages[] = {P, 0, P, S, P, Z, 0, P, P, P | MW_PAGE_HUGE, S};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x1b000, 6 * PAGE, 3 * PAGE, 2 * PAGE, pages)};
    claim(&f, 0x10000, 0x14000, MW_CATEGORY_MANAGED_HEAP);
    claim(&f, 0x17000, 0x1b000, MW_CATEGORY_DEVICE);
    build(&f, parts, 1);
    const struct mw_account_row *rows = f.account.rows;
    assert_int_equal(rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes, 2 * PAGE);
    assert_int_equal(rows[MW_CATEGORY_MANAGED_HEAP].pss_bytes, PAGE);
    assert_int_equal(rows[MW_CATEGORY_MANAGED_HEAP].swap_bytes, PAGE);
    assert_int_equal(rows[MW_CATEGORY_UNKNOWN].rss_bytes, PAGE);
    assert_int_equal(rows[MW_CATEGORY_UNKNOWN].size_bytes, 3 * PAGE);
    assert_int_equal(rows[MW_CATEGORY_DEVICE].rss_bytes, 3 * PAGE);
    assert_int_equal(rows[MW_CATEGORY_DEVICE].swap_bytes, PAGE);
    assert_string_equal(rows[MW_CATEGORY_DEVICE].source, "pagemap");
    assert_int_equal(f.account.piece_count, 3);
    assert_int_equal(f.findings.count, 0);
    assert_pieces_conserve(&f);
    release(&f);
}

/* A page with two owners is divided by the bytes that each has of it. */
static void test_owners_may_share_a_page(void **state)
{
    (void)state;
    struct fixture f = {0};
    static const uint8_t pages[] = {P, P};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x12000, 2 * PAGE, 2 * PAGE, 0, pages)};
    claim(&f, 0x10000, 0x10000 + 1009, MW_CATEGORY_FILE_DATA);
    claim(&f, 0x10000 + 1009, 0x10000 + 5003, MW_CATEGORY_ANON_OTHER);
    build(&f, parts, 1);
    assert_int_equal(f.account.rows[MW_CATEGORY_FILE_DATA].rss_bytes, 1009);
    assert_int_equal(f.account.rows[MW_CATEGORY_ANON_OTHER].rss_bytes, 5003 - 1009);
    assert_int_equal(f.account.unknown_bytes, 2 * PAGE - 5003);
    assert_pieces_conserve(&f);
    release(&f);
}

static void test_skew_goes_to_the_largest_owner(void **state)
{
    (void)state;
    struct fixture f = {0};
    static const uint8_t pages[] = {P, P, P, 0, P, 0};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x16000, 5 * PAGE, 5 * PAGE, 0, pages),
        part(0x20000, 0x26000, 2 * PAGE, 2 * PAGE, 0, pages),
    };
    claim(&f, 0x10000, 0x14000, MW_CATEGORY_MANAGED_HEAP);
    claim(&f, 0x14000, 0x16000, MW_CATEGORY_MANAGED_CODE);
    claim(&f, 0x20000, 0x24000, MW_CATEGORY_STACK_MAIN);
    claim(&f, 0x24000, 0x26000, MW_CATEGORY_DEVICE);
    build(&f, parts, 2);
    assert_int_equal(f.account.rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes, 4 * PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_MANAGED_CODE].rss_bytes, PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_MAIN].rss_bytes, PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_DEVICE].rss_bytes, PAGE);
    const struct mw_finding *skew = mw_finding_find(&f.findings, "account-skew");
    assert_non_null(skew);
    assert_int_equal(skew->count, 2);
    assert_int_equal(skew->bytes, 3 * PAGE);
    assert_pieces_conserve(&f);
    release(&f);
}

static void test_without_pages_rss_is_divided_by_size(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x1a000, 5 * PAGE, 5 * PAGE, 0, NULL)};
    assert_int_equal(mw_image_open_memory(parts, 1, &f.image, NULL), MW_OK);
    f.image.can &= ~(unsigned)MW_CAN_PAGES;
    claim(&f, 0x10000, 0x18000, MW_CATEGORY_MANAGED_HEAP);
    build(&f, NULL, 0);
    assert_int_equal(f.account.rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes, 4 * PAGE);
    assert_int_equal(f.account.unknown_bytes, PAGE);
    assert_non_null(mw_finding_find(&f.findings, "account-estimated"));
    assert_string_equal(f.account.rows[MW_CATEGORY_MANAGED_HEAP].source, "smaps, divided by size");
    assert_pieces_conserve(&f);
    release(&f);
}

static void claim_split(struct fixture *f, mw_addr start, mw_addr end, struct mw_split split)
{
    struct mw_claim made = {.start = start,
                            .end = end,
                            .category = MW_CATEGORY_MALLOC_IN_USE,
                            .priority = MW_CLAIM_ALLOCATOR,
                            .owner = "heap",
                            .has_split = true,
                            .split = split};
    assert_int_equal(mw_claims_add(&f->claims, &made), MW_OK);
}

static void test_split_of_a_heap(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x14000, 3 * PAGE, 2 * PAGE, PAGE, NULL)};
    claim_split(&f, 0x10000, 0x14000,
                (struct mw_split){.in_use_bytes = 9001,
                                  .free_bytes = 4 * PAGE - 9001 - 101,
                                  .metadata_bytes = 101,
                                  .in_use_rss = 8009,
                                  .free_rss = 3 * PAGE - 8009 - 101,
                                  .metadata_rss = 101,
                                  .in_use_swap = 992,
                                  .free_swap = PAGE - 992,
                                  .in_use_count = 307,
                                  .free_count = 11});
    build(&f, parts, 1);
    const struct mw_account_row *rows = f.account.rows;
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].rss_bytes, 8009);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].swap_bytes, 992);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].count, 307);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_FREE].rss_bytes, 3 * PAGE - 8009 - 101);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_FREE].count, 11);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_METADATA].rss_bytes, 101);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_METADATA].size_bytes, 101);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].pss_bytes +
                         rows[MW_CATEGORY_MALLOC_FREE].pss_bytes +
                         rows[MW_CATEGORY_MALLOC_METADATA].pss_bytes,
                     2 * PAGE);
    assert_string_equal(rows[MW_CATEGORY_MALLOC_FREE].source, "heap walk");
    assert_int_equal(f.findings.count, 0);
    release(&f);
}

/* The heap grew by a page after its walk; and a second heap has lost its middle to a runtime. */
static void test_split_that_no_longer_fits(void **state)
{
    (void)state;
    struct fixture f = {0};
    static const uint8_t pages[] = {P, P, P, P};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x14000, 4 * PAGE, 4 * PAGE, 0, NULL),
        part(0x20000, 0x24000, 4 * PAGE, 4 * PAGE, 0, pages),
    };
    claim_split(&f, 0x10000, 0x14000,
                (struct mw_split){.in_use_bytes = PAGE,
                                  .free_bytes = 3 * PAGE,
                                  .in_use_rss = PAGE,
                                  .free_rss = 2 * PAGE});
    claim_split(&f, 0x20000, 0x24000,
                (struct mw_split){.in_use_bytes = 3 * PAGE,
                                  .free_bytes = PAGE,
                                  .in_use_rss = 3 * PAGE,
                                  .free_rss = PAGE});
    assert_int_equal(mw_claims_add_range(&f.claims, 0x21000, 0x22000, MW_CATEGORY_MANAGED_HEAP,
                                         MW_CLAIM_RUNTIME, "runtime"),
                     MW_OK);
    build(&f, parts, 2);
    const struct mw_account_row *rows = f.account.rows;
    assert_int_equal(rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes, PAGE);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].size_bytes, PAGE + 2 * PAGE);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_FREE].size_bytes, 3 * PAGE + PAGE);
    assert_int_equal(rows[MW_CATEGORY_MALLOC_IN_USE].rss_bytes +
                         rows[MW_CATEGORY_MALLOC_FREE].rss_bytes,
                     7 * PAGE);
    assert_true(rows[MW_CATEGORY_MALLOC_FREE].rss_bytes >= 3 * PAGE);
    const struct mw_finding *skew = mw_finding_find(&f.findings, "account-skew");
    assert_non_null(skew);
    assert_int_equal(skew->bytes, PAGE);
    assert_pieces_conserve(&f);
    release(&f);
}

static void test_guard_and_stack_are_one_thread(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct mw_image_memory_part parts[] = {
        part(0x10000, 0x11000, 0, 0, 0, NULL),
        part(0x11000, 0x15000, PAGE, PAGE, 0, NULL),
        part(0x15000, 0x16000, 0, 0, 0, NULL),
        part(0x16000, 0x1a000, 2 * PAGE, PAGE, 0, NULL),
        part(0x30000, 0x31000, PAGE, PAGE, 0, NULL),
    };
    parts[4].mapping.vm_flags = MW_VM_SHADOW_STACK;
    claim(&f, 0x10000, 0x15000, MW_CATEGORY_STACK_THREADS);
    claim(&f, 0x15000, 0x1a000, MW_CATEGORY_STACK_THREADS);
    claim(&f, 0x30000, 0x31000, MW_CATEGORY_STACK_THREADS);
    build(&f, parts, 5);
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].count, 2);
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].rss_bytes, 4 * PAGE);
    release(&f);
}

static void test_absurd_counters(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x11000, 100 * PAGE, UINT64_MAX, 3, NULL),
        part(0x20000, 0x22000, UINT64_MAX - 5, UINT64_MAX - 5, UINT64_MAX, NULL),
        part(0x30000, 0x31000, PAGE, PAGE, 0, NULL),
    };
    claim(&f, 0x20000, 0x21000, MW_CATEGORY_DEVICE);
    build(&f, parts, 3);
    assert_true(f.account.rss_bytes == MW_UNKNOWN - 1);
    assert_true(f.account.pss_bytes == MW_UNKNOWN - 1);
    assert_true(f.account.swap_bytes == MW_UNKNOWN - 1);
    assert_non_null(mw_finding_find(&f.findings, "rss-exceeds-size"));
    assert_non_null(mw_finding_find(&f.findings, "rss-overflow"));
    release(&f);
}

static void test_unknown_counters_stay_unknown(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct mw_image_memory_part parts[] = {part(0x10000, 0x12000, 0, 0, 0, NULL),
                                           part(0x20000, 0x21000, 0, 0, 0, NULL)};
    parts[0].mapping.known = parts[1].mapping.known = 0;
    claim(&f, 0x10000, 0x11000, MW_CATEGORY_FILE_TEXT);
    build(&f, parts, 2);
    assert_false(f.account.has_rss);
    assert_true(f.account.rss_bytes == MW_UNKNOWN);
    assert_true(f.account.unknown_bytes == MW_UNKNOWN);
    assert_true(f.account.rows[MW_CATEGORY_FILE_TEXT].rss_bytes == MW_UNKNOWN);
    assert_true(f.account.pieces[0].swap_bytes == MW_UNKNOWN);
    assert_true(f.account.anonymous_bytes == MW_UNKNOWN);
    assert_int_equal(f.account.rows[MW_CATEGORY_FILE_TEXT].size_bytes, PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_UNKNOWN].size_bytes, 2 * PAGE);
    assert_int_equal(f.account.unknown_mappings, 2);
    assert_pieces_conserve(&f);
    release(&f);
}

/* A kernel before 2.6.25 has no Pss; one mapping of a torn text has no Rss either. */
static void test_some_counters_missing(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct mw_image_memory_part parts[] = {part(0x10000, 0x12000, PAGE, 0, 0, NULL),
                                           part(0x20000, 0x21000, 0, 0, 0, NULL)};
    parts[0].mapping.known = KNOWN(RSS) | KNOWN(PRIVATE_DIRTY);
    parts[0].mapping.counters[MW_COUNTER_PRIVATE_DIRTY] = PAGE;
    parts[1].mapping.known = 0;
    build(&f, parts, 2);
    assert_int_equal(f.account.rss_bytes, PAGE);
    assert_true(f.account.pss_bytes == MW_UNKNOWN);
    assert_true(f.account.swap_bytes == MW_UNKNOWN);
    assert_int_equal(f.account.private_dirty_bytes, PAGE);
    assert_true(f.account.anon_huge_bytes == MW_UNKNOWN);
    assert_int_equal(mw_finding_find(&f.findings, "rss-missing")->count, 1);
    release(&f);
}

static void test_clean_file_pages(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct mw_image_memory_part parts[] = {part(0x10000, 0x14000, 4 * PAGE, PAGE, 0, NULL),
                                           part(0x20000, 0x24000, 4 * PAGE, PAGE, 0, NULL)};
    for (int i = 0; i < 2; i++) {
        parts[i].mapping.known |= KNOWN(SHARED_CLEAN) | KNOWN(PRIVATE_CLEAN);
        parts[i].mapping.counters[MW_COUNTER_SHARED_CLEAN] = 2 * PAGE;
        parts[i].mapping.counters[MW_COUNTER_PRIVATE_CLEAN] = PAGE;
    }
    claim(&f, 0x10000, 0x14000, MW_CATEGORY_FILE_MAPPED);
    claim(&f, 0x20000, 0x24000, MW_CATEGORY_SHARED_MEMORY);
    build(&f, parts, 2);
    assert_int_equal(f.account.file_clean_bytes, 3 * PAGE);
    assert_int_equal(f.account.shared_clean_bytes, 4 * PAGE);
    release(&f);
}

/* Claims beside every mapping and across several ones are no harm. */
static void test_claims_off_the_map(void **state)
{
    (void)state;
    struct fixture f = {0};
    static const uint8_t pages[] = {P, P};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x12000, 2 * PAGE, 2 * PAGE, 0, pages),
        part(0x13000, 0x15000, 2 * PAGE, 2 * PAGE, 0, pages)};
    claim(&f, 0x1000, 0x2000, MW_CATEGORY_DEVICE);
    claim(&f, 0x11000, 0x14000, MW_CATEGORY_FILE_TEXT);
    claim(&f, 0x100000, UINT64_MAX, MW_CATEGORY_DEVICE);
    build(&f, parts, 2);
    assert_int_equal(f.account.rows[MW_CATEGORY_DEVICE].size_bytes, 0);
    assert_int_equal(f.account.rows[MW_CATEGORY_FILE_TEXT].rss_bytes, 2 * PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_FILE_TEXT].count, 2);
    assert_pieces_conserve(&f);
    release(&f);
}

/* ---- random mappings, claims and counters: what can be said of all of them ---- */

enum { REGIONS = 7, REGION_PAGES = 12, ROUNDS = 1500 };

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void random_round(uint32_t *seed)
{
    struct fixture f = {0};
    struct mw_image_memory_part parts[REGIONS];
    uint8_t pages[REGIONS][REGION_PAGES];
    for (size_t i = 0; i < REGIONS; i++) {
        mw_addr start = 0x100000 + i * 0x10000;
        uint32_t count = 1 + random_next(seed) % REGION_PAGES;
        uint64_t rss = 0;
        for (uint32_t page = 0; page < count; page++) {
            static const uint8_t kinds[] = {0, P, P, S, Z, P | MW_PAGE_HUGE};
            pages[i][page] = kinds[random_next(seed) % sizeof kinds];
            rss += mw_page_is_resident(pages[i][page]) ? PAGE : 0;
        }
        if (random_next(seed) % 4 == 0)
            rss = random_next(seed) % ((count + 2) * PAGE);
        parts[i] = part(start, start + count * PAGE, rss, rss / 3,
                        random_next(seed) % 3 ? 0 : random_next(seed) % (2 * PAGE), pages[i]);
    }
    assert_int_equal(mw_image_open_memory(parts, REGIONS, &f.image, NULL), MW_OK);
    if (random_next(seed) % 4 == 0)
        f.image.can &= ~(unsigned)MW_CAN_PAGES;
    for (uint32_t n = random_next(seed) % 12; n > 0; n--) {
        mw_addr start = 0x100000 + random_next(seed) % (REGIONS * 0x10000);
        uint64_t size = 1 + random_next(seed) % (3 * PAGE);
        if (random_next(seed) % 3 == 0) {
            uint64_t used = random_next(seed) % (size + 1);
            claim_split(&f, start, start + size,
                        (struct mw_split){.in_use_bytes = used,
                                          .free_bytes = size - used,
                                          .in_use_rss = random_next(seed) % (2 * PAGE),
                                          .free_rss = random_next(seed) % PAGE});
        } else {
            claim(&f, start, start + size,
                  (enum mw_category)(random_next(seed) % MW_CATEGORY_COUNT));
        }
    }
    build(&f, NULL, 0); /* asserts that the rows are the total */
    assert_pieces_conserve(&f);
    release(&f);
}

static void test_conservation(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < ROUNDS; round++)
        random_round(&seed);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct fixture f = {0};
    static const uint8_t pages[] = {P, P};
    const struct mw_image_memory_part parts[] = {
        part(0x10000, 0x12000, 2 * PAGE, 2 * PAGE, 0, pages)};
    assert_int_equal(mw_image_open_memory(parts, 1, &f.image, NULL), MW_OK);
    claim(&f, 0x10000, 0x11000, MW_CATEGORY_DEVICE);
    long n = 0;
    for (;; n++) {
        struct mw_error err = {0};
        mw_alloc_fail_after(n);
        enum mw_status status =
            mw_account_build(&f.image, &f.claims, &f.account, &f.findings, &err);
        mw_alloc_fail_after(-1);
        if (status == MW_OK)
            break;
        assert_int_equal(status, MW_NOMEM);
        assert_true(n < 50);
    }
    assert_true(n > 5);
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapping_with_one_owner),
        cmocka_unit_test(test_owners_are_told_apart_by_pages),
        cmocka_unit_test(test_owners_may_share_a_page),
        cmocka_unit_test(test_skew_goes_to_the_largest_owner),
        cmocka_unit_test(test_without_pages_rss_is_divided_by_size),
        cmocka_unit_test(test_split_of_a_heap),
        cmocka_unit_test(test_split_that_no_longer_fits),
        cmocka_unit_test(test_guard_and_stack_are_one_thread),
        cmocka_unit_test(test_absurd_counters),
        cmocka_unit_test(test_unknown_counters_stay_unknown),
        cmocka_unit_test(test_some_counters_missing),
        cmocka_unit_test(test_clean_file_pages),
        cmocka_unit_test(test_claims_off_the_map),
        cmocka_unit_test(test_conservation),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
