/* tests/unit/test_verify.c: an earlier report read back, damaged reports, and which predictions are
 * called met. */
#include "analysis_fixture.h"

#include "base/alloc.h"
#include "report/emit.h"
#include "report/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB(n) ((uint64_t)((n)*1048576.0))

static char *report_of(fixture_fill *fill, size_t *length_out)
{
    struct mw_analysis analysis;
    struct fixture_output output = {0};
    fill(&analysis);
    assert_int_equal(mw_report_json(&analysis, fixture_sink(&output), NULL), MW_OK);
    fixture_release(&analysis);
    *length_out = output.length;
    return output.text;
}

/* What is read from a report is what would be taken from its analysis. */
static void test_report_is_read_back(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    struct mw_baseline read, taken;
    size_t length;
    char *text = report_of(fixture_icinga, &length);
    assert_int_equal(mw_baseline_parse(text, length, "before.json", &read, NULL), MW_OK);
    fixture_icinga(&analysis);
    assert_int_equal(mw_baseline_take(&analysis, &taken, NULL), MW_OK);
    fixture_release(&analysis);
    for (int i = 0; i < MW_BASELINE_FIGURES; i++)
        assert_true(read.figures[i] == taken.figures[i] && read.figures[i] != MW_UNKNOWN);
    assert_true(read.taken_at == taken.taken_at && read.started_at == taken.started_at);
    assert_true(read.pid == 4121 && taken.pid == 4121);
    assert_true(read.mmap_threshold == taken.mmap_threshold && read.mmap_threshold > 0);
    assert_true(read.tcache_count == 7 && read.arena_max == 0);
    assert_int_equal(read.setting_count, 1);
    assert_string_equal(read.settings[0].value, "64");
    assert_int_equal(read.remedy_count, taken.remedy_count);
    assert_true(read.remedy_count >= 4);
    for (size_t i = 0; i < read.remedy_count; i++) {
        assert_string_equal(read.remedies[i].action, taken.remedies[i].action);
        assert_int_equal(read.remedies[i].has_gain, taken.remedies[i].has_gain);
        assert_true(read.remedies[i].gain_high_bytes == taken.remedies[i].gain_high_bytes);
    }
    mw_baseline_deinit(&read);
    mw_baseline_deinit(&taken);
    free(text);
}

static void parse_must_fail(const char *text, enum mw_status wanted)
{
    struct mw_baseline baseline;
    struct mw_error err = {0};
    enum mw_status status = mw_baseline_parse(text, strlen(text), "x.json", &baseline, &err);
    if (status != wanted)
        fail_msg("%.60s: %s, not %s", text, mw_status_name(status), mw_status_name(wanted));
    assert_true(err.text[0] != '\0');
}

static void test_damaged_reports(void **state)
{
    (void)state;
    parse_must_fail("", MW_CORRUPT);
    parse_must_fail("{", MW_CORRUPT);
    parse_must_fail("[]", MW_UNSUPPORTED);
    parse_must_fail("{}", MW_UNSUPPORTED);
    parse_must_fail("{\"schema\": \"memwhy.heap/1\"}", MW_UNSUPPORTED);
    parse_must_fail("{\"schema\": 7}", MW_UNSUPPORTED);
    parse_must_fail("{\"schema\": \"memwhy.report/1\", \"schema\": \"x\"}", MW_CORRUPT);
    size_t length;
    char *text = report_of(fixture_icinga, &length);
    for (size_t cut = 0; cut + 2 < length; cut += 97) {
        struct mw_baseline baseline;
        assert_int_equal(mw_baseline_parse(text, cut, "x.json", &baseline, NULL), MW_CORRUPT);
    }
    free(text);
}

/* Members of the wrong type are unknown, not a crash and not 0. */
static void test_absurd_members(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\": \"memwhy.report/1\", \"taken_at\": 5, \"target\": [1], \"rss_bytes\": -4,"
        " \"anonymous_bytes\": \"many\", \"swap_bytes\": 1e300, \"unknown_bytes\": null,"
        " \"peak_rss_bytes\": 18446744073709551615,"
        " \"allocators\": [7, {\"kind\": 8, \"in_use_bytes\": 9223372036854775807, \"arenas\": {}},"
        " {\"in_use_bytes\": 9223372036854775807}, {\"in_use_bytes\": 9223372036854775807}],"
        " \"verdicts\": [{\"remedies\": [[], {\"action\": null, \"gain_low_bytes\": 9,"
        " \"gain_high_bytes\": 3}]}, \"x\"]}";
    struct mw_baseline baseline;
    assert_int_equal(mw_baseline_parse(text, strlen(text), "x.json", &baseline, NULL), MW_OK);
    assert_int_equal(baseline.taken_at, 0);
    assert_true(baseline.pid == MW_UNKNOWN);
    for (int i = 0; i < MW_BASELINE_FIGURES; i++)
        assert_true(baseline.figures[i] == MW_UNKNOWN ||
                    i == MW_BASELINE_IN_USE); /* a sum of doubles near 2^63 */
    for (size_t i = 0; i < baseline.remedy_count; i++)
        assert_false(baseline.remedies[i].has_gain);
    mw_baseline_deinit(&baseline);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    size_t length;
    char *text = report_of(fixture_icinga, &length);
    enum mw_status status = MW_NOMEM;
    long n = 0;
    for (; status != MW_OK && n < 200; n++) {
        struct mw_baseline baseline;
        mw_alloc_fail_after(n);
        status = mw_baseline_parse(text, length, "x.json", &baseline, NULL);
        mw_alloc_fail_after(-1);
        if (status == MW_OK)
            mw_baseline_deinit(&baseline);
        else
            assert_int_equal(status, MW_NOMEM);
    }
    assert_int_equal(status, MW_OK);
    assert_true(n > 5);
    free(text);
}

/* Two moments of the incident, and what is said of the remedy whose action holds `part`. */
struct scene {
    struct mw_baseline before, after;
    struct mw_verify verify;
};

static void scene_begin(struct scene *scene)
{
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    assert_int_equal(mw_baseline_take(&analysis, &scene->before, NULL), MW_OK);
    assert_int_equal(mw_baseline_take(&analysis, &scene->after, NULL), MW_OK);
    fixture_release(&analysis);
    scene->after.taken_at += 60;
}

static const struct mw_prediction *scene_compare(struct scene *scene, const char *part)
{
    assert_int_equal(mw_verify_compare(&scene->before, &scene->after, &scene->verify, NULL), MW_OK);
    for (size_t i = 0; i < scene->verify.count; i++)
        if (strstr(scene->verify.predictions[i].remedy->action, part))
            return &scene->verify.predictions[i];
    fail_msg("no remedy '%s'", part);
    return NULL;
}

static void scene_end(struct scene *scene)
{
    mw_verify_deinit(&scene->verify);
    mw_baseline_deinit(&scene->before);
    mw_baseline_deinit(&scene->after);
}

/* A remedy of two verdicts is compared once, by the larger of its gains. */
static void test_remedy_of_several_verdicts(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    struct mw_baseline *before = &scene.before;
    assert_true(before->remedy_count >= 2);
    size_t pin = before->remedy_count;
    for (size_t i = 0; i < before->remedy_count; i++)
        if (strstr(before->remedies[i].action, "mmap_threshold"))
            pin = i;
    assert_true(pin < before->remedy_count && before->remedies[pin].has_gain);
    size_t other = pin == 0 ? 1 : 0;
    free(before->remedies[other].action);
    before->remedies[other].action = strdup(before->remedies[pin].action);
    before->remedies[other].has_gain = false;
    const struct mw_prediction *found = scene_compare(&scene, "mmap_threshold");
    assert_true(found->remedy == &before->remedies[pin]);
    assert_int_equal(scene.verify.count, before->remedy_count - 1);
    scene_end(&scene);
}

/* The screen does not blame a prediction for what nobody did. */
static void test_not_met_may_be_not_applied(void **state)
{
    (void)state;
    static const char *const names[] = {"before.json", "4121"};
    struct scene scene;
    struct fixture_output output = {0};
    scene_begin(&scene);
    const struct mw_prediction *trim = scene_compare(&scene, "malloc_trim(0)");
    assert_true(scene.verify.same_process && trim->outcome == MW_OUTCOME_NOT_MET);
    assert_int_equal(mw_report_verify_text(&scene.verify, names, (struct mw_text_look){80, false},
                                           fixture_sink(&output), NULL),
                     MW_OK);
    assert_non_null(strstr(output.text, "not met or not applied"));
    assert_non_null(strstr(output.text, "or it was not applied"));
    for (const char *line = output.text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    fixture_output_release(&output);
    scene_end(&scene);
}

static void drop_anonymous(struct scene *scene, uint64_t bytes)
{
    scene->after.figures[MW_BASELINE_ANONYMOUS] =
        scene->before.figures[MW_BASELINE_ANONYMOUS] - bytes;
}

static void check_trim(uint64_t drop, enum mw_outcome wanted)
{
    struct scene scene;
    scene_begin(&scene);
    drop_anonymous(&scene, drop);
    const struct mw_prediction *trim = scene_compare(&scene, "malloc_trim");
    assert_int_equal(trim->outcome, wanted);
    assert_true(trim->actual_bytes == (int64_t)drop);
    assert_true(trim->point_bytes == MIB(1902.6));
    double wanted_error = ((double)drop - (double)MIB(1902.6)) * 100 / (double)MIB(1902.6);
    assert_true(fabs(trim->error_percent - wanted_error) < 1e-9);
    scene_end(&scene);
}

static void test_trim(void **state)
{
    (void)state;
    check_trim(MIB(1902.6), MW_OUTCOME_MET);
    check_trim(MIB(1902.6) - MIB(30), MW_OUTCOME_MET);
    check_trim(MIB(1902.6) + MIB(30), MW_OUTCOME_MET);
    check_trim(MIB(1700), MW_OUTCOME_NOT_MET);
    check_trim(0, MW_OUTCOME_NOT_MET);
    check_trim(MIB(2200), MW_OUTCOME_BETTER);
}

/* In the same process nothing that needs a restart was done, however much memory went. */
static void test_same_process(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    drop_anonymous(&scene, MIB(100));
    const struct mw_prediction *cap = scene_compare(&scene, "MALLOC_ARENA_MAX");
    assert_true(scene.verify.same_process);
    assert_int_equal(cap->outcome, MW_OUTCOME_NOT_CHECKED);
    assert_non_null(strstr(cap->why, "restart"));
    scene_end(&scene);
}

static void restart(struct scene *scene)
{
    scene->after.pid = 977;
    scene->after.started_at = scene->after.taken_at - 30;
}

/* After a restart a setting counts as taken only when the process shows it. */
static void test_settings(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    restart(&scene);
    drop_anonymous(&scene, MIB(100));
    const struct mw_prediction *cap = scene_compare(&scene, "MALLOC_ARENA_MAX");
    assert_int_equal(cap->outcome, MW_OUTCOME_NOT_CHECKED);
    assert_non_null(strstr(cap->why, "not taken"));
    mw_verify_deinit(&scene.verify);
    scene.after.arena_max = 2;
    cap = scene_compare(&scene, "MALLOC_ARENA_MAX");
    assert_int_equal(cap->outcome, MW_OUTCOME_MET); /* at most 118 MiB */
    mw_verify_deinit(&scene.verify);
    drop_anonymous(&scene, MIB(300));
    assert_int_equal(scene_compare(&scene, "MALLOC_ARENA_MAX")->outcome, MW_OUTCOME_BETTER);
    mw_verify_deinit(&scene.verify);
    scene.after.figures[MW_BASELINE_ANONYMOUS] =
        scene.before.figures[MW_BASELINE_ANONYMOUS] + MIB(50);
    assert_int_equal(scene_compare(&scene, "MALLOC_ARENA_MAX")->outcome, MW_OUTCOME_NOT_MET);
    mw_verify_deinit(&scene.verify);

    assert_int_equal(scene_compare(&scene, "mmap_threshold")->outcome, MW_OUTCOME_NOT_CHECKED);
    mw_verify_deinit(&scene.verify);
    scene.after.mmap_threshold = 131072;
    scene.after.no_dyn_threshold = true;
    drop_anonymous(&scene, MIB(600));
    assert_int_equal(scene_compare(&scene, "mmap_threshold")->outcome, MW_OUTCOME_MET);
    mw_verify_deinit(&scene.verify);

    const struct mw_prediction *trim = scene_compare(&scene, "malloc_trim");
    assert_int_equal(trim->outcome, MW_OUTCOME_NOT_CHECKED);
    assert_non_null(strstr(trim->why, "another process"));
    scene_end(&scene);
}

static void test_not_predictable_and_unknown(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    assert_int_equal(scene_compare(&scene, "stream")->outcome, MW_OUTCOME_NOT_CHECKED);
    mw_verify_deinit(&scene.verify);
    scene.after.figures[MW_BASELINE_ANONYMOUS] = MW_UNKNOWN;
    const struct mw_prediction *trim = scene_compare(&scene, "malloc_trim");
    assert_int_equal(trim->outcome, MW_OUTCOME_NOT_CHECKED);
    assert_false(trim->has_actual);
    assert_int_equal(scene.verify.met + scene.verify.not_met, 0);

    struct fixture_output output = {0};
    static const char *const names[2] = {"before.json", "4121"};
    assert_int_equal(mw_report_verify_json(&scene.verify, NULL, fixture_sink(&output), NULL),
                     MW_OK);
    assert_non_null(strstr(output.text, "\"actual_bytes\": null"));
    fixture_output_release(&output);
    assert_int_equal(mw_report_verify_text(&scene.verify, names, (struct mw_text_look){100, false},
                                           fixture_sink(&output), NULL),
                     MW_OK);
    assert_non_null(strstr(output.text, "not-checked"));
    fixture_output_release(&output);
    scene_end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_is_read_back),
        cmocka_unit_test(test_damaged_reports),
        cmocka_unit_test(test_absurd_members),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_same_process),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_remedy_of_several_verdicts),
        cmocka_unit_test(test_not_met_may_be_not_applied),
        cmocka_unit_test(test_not_predictable_and_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
