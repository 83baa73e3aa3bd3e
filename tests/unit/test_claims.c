/* tests/unit/test_claims.c: the claims table against a brute-force oracle, and its edges. */
#include "base/alloc.h"
#include "maps/claims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void add(struct mw_claims *claims, mw_addr start, mw_addr end, int priority,
                const char *owner)
{
    assert_int_equal(mw_claims_add_range(claims, start, end, MW_CATEGORY_ANON_OTHER,
                                         (enum mw_claim_priority)priority, owner),
                     MW_OK);
}

static void assert_piece(const struct mw_claim_piece *piece, mw_addr start, mw_addr end,
                         const char *owner)
{
    assert_int_equal(piece->start, start);
    assert_int_equal(piece->end, end);
    assert_string_equal(piece->claim->owner, owner);
}

static void test_stronger_claim_cuts_weaker(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim_piece *pieces;
    size_t count;
    add(&claims, 100, 400, MW_CLAIM_KERNEL, "kernel");
    add(&claims, 200, 300, MW_CLAIM_RUNTIME, "runtime");
    add(&claims, 250, 500, MW_CLAIM_ALLOCATOR, "allocator");
    add(&claims, 600, 700, MW_CLAIM_KERNEL, "alone");
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    assert_int_equal(count, 4);
    assert_piece(&pieces[0], 100, 200, "kernel");
    assert_piece(&pieces[1], 200, 300, "runtime");
    assert_piece(&pieces[2], 300, 500, "allocator");
    assert_piece(&pieces[3], 600, 700, "alone");
    free(pieces);
    mw_claims_deinit(&claims);
}

static void test_later_claim_wins_a_tie(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim_piece *pieces;
    size_t count;
    add(&claims, 0, 100, MW_CLAIM_GUESS, "first");
    add(&claims, 50, 100, MW_CLAIM_GUESS, "second");
    add(&claims, 0, 20, MW_CLAIM_GUESS, "third");
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    assert_int_equal(count, 3);
    assert_piece(&pieces[0], 0, 20, "third");
    assert_piece(&pieces[1], 20, 50, "first");
    assert_piece(&pieces[2], 50, 100, "second");
    free(pieces);
    mw_claims_deinit(&claims);
}

/* A claim that goes on behind a weaker one that begins inside it stays one piece. */
static void test_hidden_claim_leaves_no_seam(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim_piece *pieces;
    size_t count;
    add(&claims, 10, 90, MW_CLAIM_BLOCK, "strong");
    for (mw_addr at = 0; at < 100; at += 7)
        add(&claims, at, at + 3, MW_CLAIM_KERNEL, "weak");
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    size_t strong = 0;
    for (size_t i = 0; i < count; i++)
        strong += strcmp(pieces[i].claim->owner, "strong") == 0;
    assert_int_equal(strong, 1);
    free(pieces);
    mw_claims_deinit(&claims);
}

static void test_ends_of_the_address_space(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim_piece *pieces;
    size_t count;
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    assert_int_equal(count, 0);
    free(pieces);
    add(&claims, 0, UINT64_MAX, MW_CLAIM_KERNEL, "all");
    add(&claims, UINT64_MAX - 1, UINT64_MAX, MW_CLAIM_GUESS, "last byte");
    add(&claims, 0, 1, MW_CLAIM_GUESS, "first byte");
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    assert_int_equal(count, 3);
    assert_piece(&pieces[0], 0, 1, "first byte");
    assert_piece(&pieces[1], 1, UINT64_MAX - 1, "all");
    assert_piece(&pieces[2], UINT64_MAX - 1, UINT64_MAX, "last byte");
    free(pieces);
    mw_claims_deinit(&claims);
}

static void test_senseless_claims_are_refused(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim claim = {.start = 5, .end = 5, .priority = MW_CLAIM_KERNEL, .owner = ""};
    assert_int_equal(mw_claims_add(&claims, &claim), MW_INVALID);
    claim.start = 6;
    assert_int_equal(mw_claims_add(&claims, &claim), MW_INVALID);
    claim.start = 1;
    claim.has_split = true;
    claim.split = (struct mw_split){.in_use_bytes = 1, .free_bytes = 1, .metadata_bytes = 1};
    assert_int_equal(mw_claims_add(&claims, &claim), MW_INVALID);
    claim.split.free_bytes = 2;
    assert_int_equal(mw_claims_add(&claims, &claim), MW_OK);
    claim.split.in_use_bytes = UINT64_MAX;
    claim.split.free_bytes = 5;
    assert_int_equal(mw_claims_add(&claims, &claim), MW_INVALID);
    assert_int_equal(claims.count, 1);
    mw_claims_deinit(&claims);
}

/* ---- oracle: ask for every address which claim it belongs to ---- */

enum { SPACE = 97, ROUNDS = 2000 };

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static const struct mw_claim *oracle_winner(const struct mw_claims *claims, mw_addr address)
{
    const struct mw_claim *winner = NULL;
    for (size_t i = 0; i < claims->count; i++) {
        const struct mw_claim *claim = &claims->items[i];
        if (claim->start <= address && address < claim->end &&
            (!winner || claim->priority >= winner->priority))
            winner = claim;
    }
    return winner;
}

static void test_against_oracle(void **state)
{
    (void)state;
    uint32_t seed = 20261130;
    for (int round = 0; round < ROUNDS; round++) {
        struct mw_claims claims = {0};
        struct mw_claim_piece *pieces;
        size_t count, at = 0;
        for (uint32_t n = random_next(&seed) % 24; n > 0; n--) {
            mw_addr start = random_next(&seed) % SPACE;
            mw_addr end = start + 1 + random_next(&seed) % 30;
            add(&claims, start, end, 1 + (int)(random_next(&seed) % 6), "x");
        }
        assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
        for (size_t i = 0; i < count; i++) {
            assert_true(pieces[i].start < pieces[i].end);
            if (i > 0) {
                assert_true(pieces[i - 1].end <= pieces[i].start);
                assert_false(pieces[i - 1].end == pieces[i].start &&
                             pieces[i - 1].claim == pieces[i].claim);
            }
        }
        for (mw_addr address = 0; address < SPACE + 32; address++) {
            while (at < count && pieces[at].end <= address)
                at++;
            const struct mw_claim *got =
                at < count && pieces[at].start <= address ? pieces[at].claim : NULL;
            assert_ptr_equal(got, oracle_winner(&claims, address));
        }
        free(pieces);
        mw_claims_deinit(&claims);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct mw_claims claims = {0};
    struct mw_claim_piece *pieces;
    size_t count;
    mw_alloc_fail_after(0);
    assert_int_equal(mw_claims_add_range(&claims, 0, 1, MW_CATEGORY_DEVICE, MW_CLAIM_KERNEL, ""),
                     MW_NOMEM);
    mw_alloc_fail_after(-1);
    add(&claims, 1, 2, MW_CLAIM_KERNEL, "a");
    for (long n = 0; n < 3; n++) {
        mw_alloc_fail_after(n);
        assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_NOMEM);
    }
    mw_alloc_fail_after(-1);
    assert_int_equal(mw_claims_resolve(&claims, &pieces, &count), MW_OK);
    free(pieces);
    mw_claims_deinit(&claims);
}

static void test_every_category_has_an_id(void **state)
{
    (void)state;
    for (int a = 0; a < MW_CATEGORY_COUNT; a++) {
        assert_non_null(mw_category_id((enum mw_category)a));
        for (int b = 0; b < a; b++)
            assert_string_not_equal(mw_category_id((enum mw_category)a),
                                    mw_category_id((enum mw_category)b));
    }
    assert_string_equal(mw_category_id(MW_CATEGORY_UNKNOWN), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stronger_claim_cuts_weaker),
        cmocka_unit_test(test_later_claim_wins_a_tie),
        cmocka_unit_test(test_hidden_claim_leaves_no_seam),
        cmocka_unit_test(test_ends_of_the_address_space),
        cmocka_unit_test(test_senseless_claims_are_refused),
        cmocka_unit_test(test_against_oracle),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_every_category_has_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
