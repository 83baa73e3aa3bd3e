/* tests/unit/test_divide.c: division of integers that must add up, on random and extreme input. */
#include "account/divide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PARTS_MAX = 40, ROUNDS = 5000 };

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t sum_of(const uint64_t *parts, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += parts[i];
    return sum;
}

static void test_shares_are_exact(void **state)
{
    (void)state;
    uint64_t parts[4];
    mw_divide(10, (const uint64_t[]){1, 1, 1}, parts, 3);
    assert_int_equal(sum_of(parts, 3), 10);
    mw_divide(100, (const uint64_t[]){0, 3, 0, 7}, parts, 4);
    assert_int_equal(parts[0], 0);
    assert_int_equal(parts[1], 30);
    assert_int_equal(parts[2], 0);
    assert_int_equal(parts[3], 70);
    mw_divide(7, (const uint64_t[]){0, 0}, parts, 2);
    assert_int_equal(parts[0], 7);
    assert_int_equal(parts[1], 0);
    mw_divide(UINT64_MAX - 1, (const uint64_t[]){UINT64_MAX / 2, UINT64_MAX / 2}, parts, 2);
    assert_int_equal(parts[0], UINT64_MAX / 2);
    assert_int_equal(parts[1], UINT64_MAX / 2);
}

static void test_random_divisions(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t weights[PARTS_MAX], parts[PARTS_MAX];
        size_t count = 1 + random_next(&seed) % PARTS_MAX;
        unsigned shift = 6 + (unsigned)(random_next(&seed) % 58);
        for (size_t i = 0; i < count; i++)
            weights[i] = random_next(&seed) % 3 ? random_next(&seed) >> shift : 0;
        uint64_t total = random_next(&seed) >> (random_next(&seed) % 64);
        uint64_t weight_sum = sum_of(weights, count);
        mw_divide(total, weights, parts, count);
        assert_int_equal(sum_of(parts, count), total);
        for (size_t i = 0; weight_sum > 0 && i < count; i++) {
            uint64_t exact = (uint64_t)((unsigned __int128)total * weights[i] / weight_sum);
            assert_in_range(parts[i], exact, exact + 1);
        }
        uint64_t in_place[PARTS_MAX];
        memcpy(in_place, weights, sizeof in_place);
        mw_divide(total, in_place, in_place, count);
        assert_memory_equal(in_place, parts, count * sizeof *parts);
    }
}

static void test_correction_goes_to_the_largest(void **state)
{
    (void)state;
    uint64_t parts[3] = {10, 50, 20};
    const uint64_t sizes[3] = {100, 55, 100};
    mw_divide_correct(83, parts, sizes, 3); /* +3 */
    assert_int_equal(parts[1], 53);
    mw_divide_correct(90, parts, sizes, 3); /* +7: 2 fit into the largest, 5 into the next */
    assert_int_equal(parts[1], 55);
    assert_int_equal(parts[2], 25);
    mw_divide_correct(30, parts, sizes, 3); /* -60: all of the largest, then the next */
    assert_int_equal(parts[0], 10);
    assert_int_equal(parts[1], 0);
    assert_int_equal(parts[2], 20);
    mw_divide_correct(1000, parts, sizes, 3); /* more than there is room */
    assert_int_equal(sum_of(parts, 3), 1000);
}

static void test_random_corrections(void **state)
{
    (void)state;
    uint64_t seed = 1181783497276652981u;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t sizes[PARTS_MAX], parts[PARTS_MAX];
        size_t count = 1 + random_next(&seed) % PARTS_MAX;
        for (size_t i = 0; i < count; i++) {
            sizes[i] = random_next(&seed) % 100000;
            parts[i] = random_next(&seed) % (sizes[i] + 1);
        }
        uint64_t room = sum_of(sizes, count), total = random_next(&seed) % (room + 1);
        mw_divide_correct(total, parts, sizes, count);
        assert_int_equal(sum_of(parts, count), total);
        for (size_t i = 0; i < count; i++)
            assert_in_range(parts[i], 0, sizes[i]);
    }
}

static void test_saturated_sum_is_never_unknown(void **state)
{
    (void)state;
    assert_int_equal(mw_add_saturated(2, 3), 5);
    assert_true(mw_add_saturated(UINT64_MAX - 1, 1) == UINT64_MAX - 1);
    assert_true(mw_add_saturated(UINT64_MAX - 1, UINT64_MAX - 1) == UINT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_exact),
        cmocka_unit_test(test_random_divisions),
        cmocka_unit_test(test_correction_goes_to_the_largest),
        cmocka_unit_test(test_random_corrections),
        cmocka_unit_test(test_saturated_sum_is_never_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
