/* tests/unit/test_gate.c: --fail-if: what is understood, what is refused, what holds. */
#include "analysis_fixture.h"

#include "../../src/cli/gate.c" /* the command line is no part of the library */

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static enum mw_gate_result check(struct mw_analysis *analysis, const char *text,
                                 uint64_t *actual_out)
{
    struct mw_gate gate;
    struct mw_error err = {0};
    if (mw_gate_parse(text, &gate, &err) != MW_OK)
        fail_msg("'%s': %s", text, err.text);
    return mw_gate_check(&gate, analysis, actual_out);
}

static void test_what_holds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mw_gate_result result;
    } cases[] = {
        {"kept>0", MW_GATE_HIT},
        {"kept>1GiB", MW_GATE_HIT},
        {"kept > 1.9 GiB", MW_GATE_HIT},
        {"kept>2GiB", MW_GATE_MISS},
        {"kept>=84%", MW_GATE_HIT},
        {"kept>85%", MW_GATE_MISS},
        {"leaked>0", MW_GATE_MISS},
        {"leaked==0", MW_GATE_HIT},
        {"arenas>8", MW_GATE_HIT},
        {"arenas>9", MW_GATE_MISS},
        {"arenas<=9", MW_GATE_HIT},
        {"arenas<9", MW_GATE_MISS},
        {"arenas==9", MW_GATE_HIT},
        {"trimmable>=1900MiB", MW_GATE_HIT},
        {"unknown>3%", MW_GATE_MISS},
        {"rss<1KiB", MW_GATE_MISS},
        {"free>1G", MW_GATE_HIT},
        {"trimmable-free>0", MW_GATE_HIT},
        {"heap-top-pinned>1GiB", MW_GATE_HIT},
        {"native-leak>0", MW_GATE_MISS},
        {"swap>0", MW_GATE_MISS},
        {"anonymous>2GiB", MW_GATE_HIT},
        {"needed>300MiB", MW_GATE_HIT},
        {"outside>0", MW_GATE_MISS},
    };
    struct mw_analysis analysis;
    uint64_t actual;
    fixture_icinga(&analysis);
    analysis.reach.is_done = analysis.reach.is_of_once = analysis.reach.is_complete = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check(&analysis, cases[i].text, &actual) != cases[i].result)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)actual);
    fixture_release(&analysis);
}

/* Exit code 0 would say that nothing is leaked, where not all pointers were followed. */
static void test_leaks_need_all_pointers(void **state)
{
    (void)state;
    static const char *const texts[] = {"leaked>0", "leaked==0", "leaked<1GiB", "native-leak>0"};
    struct mw_analysis analysis;
    uint64_t actual;
    fixture_icinga(&analysis);
    analysis.reach.is_done = analysis.reach.is_complete = true; /* read while it ran */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(check(&analysis, texts[i], &actual), MW_GATE_UNKNOWN);
    assert_int_equal(check(&analysis, "kept>0", &actual), MW_GATE_HIT);
    fixture_release(&analysis);
}

/* Causes overlap the state they explain and are not counted twice. */
static void test_causes_count_once(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    uint64_t kept, state_bytes;
    fixture_icinga(&analysis);
    (void)check(&analysis, "kept>0", &kept);
    (void)check(&analysis, "trimmable-free>0", &state_bytes);
    assert_true(kept == state_bytes && kept > 0);
    fixture_release(&analysis);
}

/* Without the heap nobody knows what is kept: neither hit nor miss. */
static void test_unknown_is_neither(void **state)
{
    (void)state;
    static const char *const texts[] = {"kept>0",      "kept==0",  "leaked>0",
                                        "trimmable>0", "arenas>0", "native-leak==0"};
    struct mw_analysis analysis;
    uint64_t actual;
    fixture_forbidden(&analysis);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(check(&analysis, texts[i], &actual), MW_GATE_UNKNOWN);
        assert_true(actual == MW_UNKNOWN);
    }
    assert_int_equal(check(&analysis, "rss>1MiB", &actual), MW_GATE_HIT);
    fixture_release(&analysis);
    fixture_hostile(&analysis);
    assert_int_equal(check(&analysis, "rss>0", &actual), MW_GATE_UNKNOWN);
    assert_int_equal(check(&analysis, "needed>5%", &actual), MW_GATE_UNKNOWN);
    fixture_release(&analysis);
}

/* Beside jemalloc, say, what was counted is a lower bound. */
static void test_a_lower_bound_decides_what_more_would_not_change(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mw_gate_result result;
    } cases[] = {
        {"kept>1GiB", MW_GATE_HIT},    {"kept>2GiB", MW_GATE_UNKNOWN},
        {"kept<1GiB", MW_GATE_MISS},   {"kept<=3GiB", MW_GATE_UNKNOWN},
        {"leaked>0", MW_GATE_UNKNOWN}, {"leaked==0", MW_GATE_UNKNOWN},
        {"kept==1GiB", MW_GATE_MISS},  {"trimmable>=2GiB", MW_GATE_UNKNOWN},
        {"rss>100GiB", MW_GATE_MISS},  {"arenas>9", MW_GATE_MISS},
        {"swapped>0", MW_GATE_MISS},
    };
    struct mw_analysis analysis;
    uint64_t actual;
    fixture_icinga(&analysis);
    analysis.allocators[analysis.allocator_count++] = (struct mw_allocator){.kind = "jemalloc"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check(&analysis, cases[i].text, &actual) != cases[i].result)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)actual);
    fixture_release(&analysis);
}

/* One moment shows no growth: exit code 0 would say that there is none. */
static void test_growth_is_not_known(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    uint64_t actual;
    fixture_icinga(&analysis);
    assert_int_equal(check(&analysis, "growing>0", &actual), MW_GATE_UNKNOWN);
    fixture_release(&analysis);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "kept",
        "kept>",
        "kept>>1",
        "kept=1",
        "kept!=1",
        "kept>1XB",
        "kept>-1",
        "kept>1 2",
        "Kept>1",
        "kpet>0",
        ">1",
        "rss-bloat>0", /* no rule gives it: it could never be hit */
        "kept>nan",
        "kept>inf%",
        "kept>1e400",
        "kept>%",
        "leaked>0;rm",
        "kept>18446744073709551616EiB",
        "averyveryveryveryveryveryverylongnameindeed>1",
        "kept>111111111111111111111111111111111111111111111111111111111111111111111111111",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mw_gate gate;
        struct mw_error err = {0};
        if (mw_gate_parse(texts[i], &gate, &err) != MW_INVALID)
            fail_msg("'%s' was understood", texts[i]);
        assert_true(err.text[0] != '\0' && err.hint[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_holds),
        cmocka_unit_test(test_leaks_need_all_pointers),
        cmocka_unit_test(test_causes_count_once),
        cmocka_unit_test(test_unknown_is_neither),
        cmocka_unit_test(test_a_lower_bound_decides_what_more_would_not_change),
        cmocka_unit_test(test_growth_is_not_known),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
