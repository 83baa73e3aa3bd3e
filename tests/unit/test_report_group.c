/* tests/unit/test_report_group.c: memwhy.group/1 and its screen over hand-filled groups: sums and
 * differences are those of the figures, unknown is no zero, nothing hostile reaches a terminal,
 * failing sinks and allocations end cleanly. What is a group is told from the target's text. */
#include "analysis_fixture.h"

#include "base/alloc.h"
#include "report/group_report.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
enum { PROCESSES = 30 };

static struct mw_group_process processes[PROCESSES];
static struct mw_group group;
static struct mw_analysis worst;

/* Thirty processes, two of which may not be read; a cgroup that holds 3 MiB more than they do. */
static int setup(void **state)
{
    (void)state;
    memset(processes, 0, sizeof processes);
    group = (struct mw_group){
        .processes = processes, .count = PROCESSES, .read_count = PROCESSES - 2, .group_count = 3};
    for (size_t i = 0; i < PROCESSES; i++) {
        struct mw_group_process *process = &processes[i];
        process->row = (struct mw_list_row){
            .pid = (int32_t)(4100 + i), .rss_bytes = 50 * MIB, .swap_bytes = 0, .threads = 2};
        snprintf(process->row.name, sizeof process->row.name, "worker %zu", i);
        process->has_rollup = i < group.read_count;
        mw_rollup_init(&process->rollup);
        if (!process->has_rollup)
            continue;
        process->rollup.rss = 40 * MIB;
        process->rollup.pss = (40 - i) * MIB;
        process->rollup.pss_anon = (30 - i) * MIB;
        process->rollup.pss_file = 9 * MIB;
        process->rollup.pss_shmem = MIB;
        process->rollup.private_clean = MIB;
        process->rollup.private_dirty = 3 * MIB;
    }
    group.sums = (struct mw_group_sums){.rss = 1120 * MIB,
                                        .pss = 742 * MIB,
                                        .pss_anon = 462 * MIB,
                                        .pss_file = 252 * MIB,
                                        .pss_shmem = 28 * MIB,
                                        .anonymous = 900 * MIB,
                                        .swap_pss = 0};
    mw_cgroup_init(&group.cgroup);
    group.cgroup.version = 2;
    strcpy(group.cgroup.path, "/pod/box");
    strcpy(group.cgroup.limit_path, "/pod");
    group.cgroup.limit = 2048 * MIB;
    group.cgroup.usage = 1000 * MIB;
    group.cgroup.anon = 465 * MIB;
    group.cgroup.file = 500 * MIB;
    group.cgroup.file_mapped = 270 * MIB;
    group.cgroup.kernel = 30 * MIB;
    group.cgroup.sock = MIB;
    fixture_icinga(&worst);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_release(&worst);
    return 0;
}

static enum mw_status emit(bool as_json, const struct mw_analysis *analysis, bool all,
                           struct fixture_output *output, struct mw_error *err)
{
    const struct mw_report_text_options options = {
        .look = {100, false}, .target = "cgroup:/pod/box", .all = all};
    return as_json ? mw_report_group_json(&group, analysis, fixture_sink(output), err)
                   : mw_report_group_text(&group, analysis, &options, fixture_sink(output), err);
}

static struct fixture_output screen(const struct mw_analysis *analysis, bool all)
{
    struct fixture_output output = {0};
    struct mw_error err = {0};
    assert_int_equal(emit(false, analysis, all, &output, &err), MW_OK);
    return output;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static json_t *document(const struct mw_analysis *analysis)
{
    struct fixture_output output = {0};
    struct mw_error err = {0};
    json_error_t problem;
    assert_int_equal(emit(true, analysis, false, &output, &err), MW_OK);
    json_t *json = json_loads(output.text, JSON_REJECT_DUPLICATES, &problem);
    if (!json)
        fail_msg("no JSON: %s", problem.text);
    fixture_output_release(&output);
    return json;
}

static void test_json(void **state)
{
    (void)state;
    json_t *json = document(&worst);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "memwhy.group/1");
    assert_int_equal(json_integer_value(json_object_get(json, "anon_difference_bytes")), 3 * MIB);
    assert_int_equal(json_integer_value(json_object_get(json, "file_difference_bytes")),
                     -10 * (json_int_t)MIB);
    assert_int_equal(json_integer_value(json_object_get(json, "unmapped_file_bytes")), 230 * MIB);
    const json_t *rows = json_object_get(json, "processes");
    assert_int_equal(json_array_size(rows), PROCESSES);
    const json_t *first = json_array_get(rows, 0), *last = json_array_get(rows, PROCESSES - 1);
    assert_int_equal(json_integer_value(json_object_get(first, "private_bytes")), 4 * MIB);
    assert_true(json_is_null(json_object_get(last, "pss_bytes")));
    assert_true(json_is_null(json_object_get(last, "private_bytes")));
    assert_int_equal(json_integer_value(json_object_get(last, "rss_bytes")), 50 * MIB);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json, "worst"), "schema")),
        "memwhy.report/1");
    json_decref(json);
    group.cgroup.anon = group.cgroup.file_mapped = MW_UNKNOWN;
    json = document(NULL);
    static const char *const unknown[] = {"worst", "partial", "anon_difference_bytes",
                                          "file_difference_bytes", "unmapped_file_bytes"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(json_is_null(json_object_get(json, unknown[i])));
    json_decref(json);
}

static void test_screen(void **state)
{
    (void)state;
    struct fixture_output output = screen(&worst, false);
    assert_says(output.text, "30 processes in 3 cgroups");
    assert_says(output.text, "CHARGED 1,000.0 MiB of 2,048.0 (49%), the limit of a group above it");
    assert_says(output.text, "processes have 462.0 (PSS); 3.0 is in none of them");
    assert_says(output.text, "230.0 in no process, 270.0 mapped; processes have 280.0 (PSS);");
    assert_says(output.text, "10.0");
    assert_says(output.text, "of theirs is charged elsewhere");
    assert_says(output.text, "not in memory.stat         4.0   0");
    assert_says(output.text, "WORST  PID ");
    assert_says(output.text, "trimmable-free"); /* of the report below */
    assert_says(output.text, "11 more");        /* 19 shown */
    assert_null(strstr(output.text, "worker 19"));
    fixture_output_release(&output);
    output = screen(&worst, true);
    assert_null(strstr(output.text, " more "));
    assert_says(output.text, "worker 29");
    assert_says(output.text, "~50.0");
    assert_says(output.text, "may not be read");
    assert_says(output.text, "sum  742.0  1,120.0"); /* of those read */
    fixture_output_release(&output);
}

/* Figures that are apart in time, or not there. */
static void test_screen_without_figures(void **state)
{
    (void)state;
    group.cgroup.usage = 990 * MIB;
    struct fixture_output output = screen(NULL, false);
    assert_says(output.text, "-6.0");
    assert_says(output.text, "some moments apart");
    assert_null(strstr(output.text, "WORST"));
    fixture_output_release(&output);
    mw_cgroup_init(&group.cgroup);
    group.cgroup.version = 2;
    group.count = group.read_count = 0;
    group.sums = (struct mw_group_sums){MW_UNKNOWN, MW_UNKNOWN, MW_UNKNOWN, MW_UNKNOWN,
                                        MW_UNKNOWN, MW_UNKNOWN, MW_UNKNOWN};
    group.is_partial = true;
    (void)mw_fail(&group.why_partial, MW_PERM, "nobody is to be seen");
    output = screen(NULL, false);
    assert_says(output.text, "CHARGED is not known");
    assert_says(output.text, "No process with memory of its own is in it.");
    assert_says(output.text, "PARTIAL");
    assert_says(output.text, "nobody is to be seen");
    assert_null(strstr(output.text, "18,446")); /* an unknown figure printed as a number */
    fixture_output_release(&output);
}

/* Names and paths are any bytes. */
static void test_hostile_names(void **state)
{
    (void)state;
    memset(group.cgroup.path, 'p', sizeof group.cgroup.path - 1);
    group.cgroup.path[200] = '\x1b';
    group.cgroup.path[500] = '\n';
    strcpy(processes[0].row.name, "\x1b[31m\xff\r");
    struct fixture_output output = screen(&worst, true);
    for (const char *at = output.text; *at; at++)
        assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
    for (const char *line = output.text, *end; (end = strchr(line, '\n')); line = end + 1)
        assert_true(end - line <= 110); /* bytes; a few of them are of longer characters */
    fixture_output_release(&output);
    json_decref(document(&worst));
}

static void test_failures(void **state)
{
    (void)state;
    struct mw_error err = {0};
    for (int as_json = 0; as_json < 2; as_json++) {
        struct fixture_output output = {.fail_after_bytes = 10};
        assert_int_equal(emit(as_json, &worst, true, &output, &err), MW_OS);
        assert_int_equal(err.os_errno, EPIPE);
        fixture_output_release(&output);
        for (long n = 0; n < 6; n++) {
            output = (struct fixture_output){0};
            output.text = malloc(1 << 20); /* so that the sink itself needs nothing */
            output.room = 1 << 20;
            mw_alloc_fail_after(n);
            enum mw_status status = emit(as_json, &worst, true, &output, &err);
            mw_alloc_fail_after(-1);
            assert_true(status == MW_OK || status == MW_NOMEM);
            fixture_output_release(&output);
        }
    }
}

static void test_what_is_a_group(void **state)
{
    (void)state;
    char folder[] = "/tmp/memwhy-test-XXXXXX";
    static const char *const groups[] = {
        "cgroup:",      "cgroup:/x",   "cgroup:.", "3f2a9c017e4b", "docker://3f2a9c017e4b",
        "123456789012", "3F2A9C017E4B"};
    static const char *const others[] = {"",       "-",    "4121",           "12345678901",
                                         "cgroup", "core", "./3f2a9c017e4b", "3f2a9c017e4"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        assert_true(mw_group_is_target(groups[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mw_group_is_target(others[i]));
    /* A file of that name comes first, a folder (as docker has) does not; digits are no file. */
    assert_non_null(mkdtemp(folder));
    int before = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(folder), 0);
    close(open("3f2a9c017e4b", O_WRONLY | O_CREAT, 0600));
    close(open("123456789012", O_WRONLY | O_CREAT, 0600));
    bool file = mw_group_is_target("3f2a9c017e4b"), digits = mw_group_is_target("123456789012");
    unlink("3f2a9c017e4b");
    unlink("123456789012");
    assert_int_equal(mkdir("3f2a9c017e4b", 0700), 0);
    bool is_group = mw_group_is_target("3f2a9c017e4b");
    rmdir("3f2a9c017e4b");
    assert_int_equal(fchdir(before), 0);
    close(before);
    rmdir(folder);
    assert_false(file);
    assert_true(digits);
    assert_true(is_group);
}

/* The worst is not memwhy, and can be read. */
static void test_the_worst(void **state)
{
    (void)state;
    group.self_pid = 4100;
    assert_int_equal(mw_group_worst(&group, 0)->row.pid, 4101);
    assert_int_equal(mw_group_worst(&group, 1)->row.pid, 4102);
    assert_null(mw_group_worst(&group, PROCESSES - 3));
    for (size_t i = 0; i < PROCESSES; i++)
        processes[i].has_rollup = false;
    assert_null(mw_group_worst(&group, 0));
    int64_t difference;
    assert_false(mw_group_difference(MW_UNKNOWN, 1, &difference));
    assert_false(mw_group_difference(1, MW_UNKNOWN, &difference));
    assert_true(mw_group_difference(1, 5, &difference));
    assert_int_equal(difference, -4);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_json),          TEST(test_screen),   TEST(test_screen_without_figures),
        TEST(test_hostile_names), TEST(test_failures), TEST(test_what_is_a_group),
        TEST(test_the_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
