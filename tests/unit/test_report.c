/* tests/unit/test_report.c: every document over hand-filled analyses: what the contract asks for is
 * there, sums hold in what is printed, nothing of a hostile target reaches a terminal, nothing
 * secret is printed, failing sinks and allocations end cleanly. */
#include "analysis_fixture.h"

#include "base/alloc.h"
#include "report/emit.h"
#include "report/trim_report.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef void fill(struct mw_analysis *analysis);
static fill *const fixtures[] = {fixture_icinga, fixture_jvm, fixture_hostile, fixture_forbidden};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static unsigned look_width = 100;
static bool look_color;

static struct mw_report_text_options text_options(void)
{
    return (struct mw_report_text_options){
        .look = {look_width, look_color}, .target = "4121", .all = true, .count_max = 20};
}

/* All emitters behind one type. */
typedef enum mw_status emitter(const struct mw_analysis *analysis, struct mw_sink sink,
                               struct mw_error *err);

static enum mw_status report_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                  struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    return mw_report_text(analysis, &options, sink, err);
}

static enum mw_status heap_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    return mw_report_heap_text(analysis, &options, sink, err);
}

static enum mw_status pins_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    return mw_report_pins_text(analysis, &options, sink, err);
}

static enum mw_status maps_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    return mw_report_maps_json(analysis, false, sink, err);
}

static enum mw_status maps_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    return mw_report_maps_text(analysis, false, &options, sink, err);
}

static enum mw_status unknown_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                   struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    return mw_report_maps_text(analysis, true, &options, sink, err);
}

static enum mw_status trim_json(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    struct mw_trim trim;
    mw_trim_predict(analysis, &trim);
    return mw_report_trim_json(analysis, &trim, sink, err);
}

static enum mw_status trim_text(const struct mw_analysis *analysis, struct mw_sink sink,
                                struct mw_error *err)
{
    const struct mw_report_text_options options = text_options();
    struct mw_trim trim;
    mw_trim_predict(analysis, &trim);
    return mw_report_trim_text(analysis, &trim, &options, sink, err);
}

static emitter *const json_emitters[] = {mw_report_json, mw_report_heap_json, mw_report_pins_json,
                                         maps_json, trim_json};
static emitter *const text_emitters[] = {report_text,  mw_report_markdown, heap_text, pins_text,
                                         unknown_text, maps_text,          trim_text};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static char *emit(emitter *write, const struct mw_analysis *analysis, struct fixture_output *output)
{
    struct mw_error err = {0};
    *output = (struct fixture_output){0};
    assert_int_equal(write(analysis, fixture_sink(output), &err), MW_OK);
    assert_non_null(output->text);
    return output->text;
}

static json_t *emit_json(emitter *write, const struct mw_analysis *analysis)
{
    struct fixture_output output;
    json_error_t problem;
    const char *text = emit(write, analysis, &output);
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!document)
        fail_msg("no JSON: line %d: %s", problem.line, problem.text);
    fixture_output_release(&output);
    return document;
}

static json_t *find(json_t *object, const char *path)
{
    char name[64];
    while (object && *path) {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        object = json_is_array(object) ? json_array_get(object, (size_t)atoi(name))
                                       : json_object_get(object, name);
        path += length + (path[length] == '.');
    }
    return object;
}

/* The contract, name by name; a letter for what it may be: n number, s string, b true or false,
 * a list, o object, 0 null. */
static void check_members(json_t *document, const char *const members[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *value = find(document, members[i][0]);
        if (!value)
            fail_msg("%s is missing", members[i][0]);
        char kind = json_is_number(value)    ? 'n'
                    : json_is_string(value)  ? 's'
                    : json_is_boolean(value) ? 'b'
                    : json_is_array(value)   ? 'a'
                    : json_is_object(value)  ? 'o'
                                             : '0';
        if (!strchr(members[i][1], kind))
            fail_msg("%s is of kind %c, not one of %s", members[i][0], kind, members[i][1]);
    }
}

static const char *const report_members[][2] = {
    {"schema", "s"},
    {"memwhy_version", "s"},
    {"taken_at", "s"},
    {"target.kind", "s"},
    {"target.pid", "n"},
    {"target.exe", "s"},
    {"target.arch", "s"},
    {"target.threads", "n"},
    {"target.cpus_online", "n"},
    {"target.cpus_allowed", "n"},
    {"target.cpu_quota", "0"},
    {"target.cgroup_limit_bytes", "n"},
    {"target.cgroup_bytes", "n"},
    {"target.started_at", "s"},
    {"target.env.MALLOC_ARENA_MAX", "s"},
    {"pauses", "n"},
    {"paused_seconds", "n"},
    {"longest_pause_seconds", "n"},
    {"rss_bytes", "n"},
    {"peak_rss_bytes", "n"},
    {"swap_bytes", "n"},
    {"unknown_bytes", "n"},
    {"categories.3.id", "s"},
    {"categories.3.rss_bytes", "n"},
    {"categories.3.pss_bytes", "n"},
    {"categories.3.swap_bytes", "n"},
    {"categories.3.size_bytes", "n"},
    {"categories.3.count", "n"},
    {"categories.3.source", "s"},
    {"allocators.0.kind", "s"},
    {"allocators.0.version", "s"},
    {"allocators.0.arenas", "n"},
    {"allocators.0.arena_limit", "n"},
    {"allocators.0.heaps", "n"},
    {"allocators.0.in_use_bytes", "n"},
    {"allocators.0.in_use_count", "n"},
    {"allocators.0.mmapped_bytes", "n"},
    {"allocators.0.mmapped_count", "n"},
    {"allocators.0.free_bytes", "n"},
    {"allocators.0.free_count", "n"},
    {"allocators.0.tcache_bytes", "n"},
    {"allocators.0.fastbin_bytes", "n"},
    {"allocators.0.top_bytes", "n"},
    {"allocators.0.free_resident_bytes", "n"},
    {"allocators.0.trimmable_bytes", "n"},
    {"allocators.0.metadata_bytes", "n"},
    {"allocators.0.system_bytes", "n"},
    {"allocators.0.parameters.mmap_threshold", "n"},
    {"allocators.0.parameters.trim_threshold", "n"},
    {"allocators.0.parameters.arena_max", "n"},
    {"allocators.0.parameters.no_dyn_threshold", "b"},
    {"runtimes", "a"},
    {"verdicts.0.id", "s"},
    {"verdicts.0.class", "s"},
    {"verdicts.0.basis", "s"},
    {"verdicts.0.bytes", "n"},
    {"verdicts.0.part_of", "0"},
    {"verdicts.1.part_of", "s"},
    {"verdicts.0.minor", "b"},
    {"verdicts.0.summary", "s"},
    {"verdicts.0.evidence.0.text", "s"},
    {"verdicts.0.evidence.0.value", "n"},
    {"verdicts.0.evidence.0.source", "s"},
    {"verdicts.0.ruled_out.0.id", "s"},
    {"verdicts.0.ruled_out.0.why", "s"},
    {"verdicts.0.remedies.0.action", "s"},
    {"verdicts.0.remedies.0.gain_low_bytes", "0"},
    {"verdicts.0.remedies.1.gain_low_bytes", "n"},
    {"verdicts.0.remedies.1.gain_high_bytes", "n"},
    {"verdicts.0.remedies.0.basis", "s"},
    {"verdicts.0.remedies.0.verify", "s"},
    {"findings.0.kind", "s"},
    {"findings.0.count", "n"},
    {"findings.0.first_address", "0"},
    {"findings.0.bytes", "n"},
    {"findings.0.text", "s"},
    {"cgroup.usage_bytes", "n"},
    {"cgroup.slab_bytes", "0"},
};

static const char *const runtime_members[][2] = {
    {"runtimes.0.kind", "s"},
    {"runtimes.0.version", "s"},
    {"runtimes.0.heap_used_bytes", "0"},
    {"runtimes.0.heap_committed_bytes", "n"},
    {"runtimes.0.heap_rss_bytes", "n"},
    {"runtimes.0.native_reported_bytes", "n"},
    {"runtimes.0.direct_bytes", "n"},
    {"runtimes.0.outside_runtime_rss_bytes", "n"},
};

static const char *const heap_members[][2] = {
    {"schema", "s"},
    {"allocators.0.arena_list.8.address", "s"},
    {"allocators.0.arena_list.8.heaps", "n"},
    {"allocators.0.arena_list.8.system_bytes", "n"},
    {"allocators.0.arena_list.8.in_use_bytes", "n"},
    {"allocators.0.arena_list.8.free_bytes", "n"},
    {"allocators.0.arena_list.8.top_bytes", "n"},
    {"allocators.0.arena_list.8.attached_threads", "n"},
    {"sizes.3.size_bytes", "n"},
    {"sizes.3.in_use_count", "n"},
    {"sizes.3.free_count", "n"},
};

static const char *const pins_members[][2] = {
    {"schema", "s"},
    {"pins.0.heap", "s"},
    {"pins.0.block", "s"},
    {"pins.0.size_bytes", "n"},
    {"pins.0.distance_from_top_bytes", "n"},
    {"pins.0.would_release_bytes", "n"},
    {"pins.0.content", "s"},
};

static const char *const maps_members[][2] = {
    {"schema", "s"},
    {"rss_bytes", "n"},
    {"mappings.0.start", "s"},
    {"mappings.0.end", "s"},
    {"mappings.0.perms", "s"},
    {"mappings.0.name", "s"},
    {"mappings.2.name", "0"},
    {"mappings.0.owner", "s"},
    {"mappings.3.owner", "0"},
    {"mappings.0.category", "s"},
    {"mappings.0.size_bytes", "n"},
    {"mappings.0.rss_bytes", "n"},
    {"mappings.0.pss_bytes", "n"},
    {"mappings.0.swap_bytes", "n"},
    {"mappings.0.anon_huge_bytes", "n"},
    {"mappings.1.locked_bytes", "n"},
    {"mappings.2.locked_bytes", "0"},
    {"mappings.0.lazy_free_bytes", "n"},
};

static const char *const trim_members[][2] = {
    {"schema", "s"},           {"predicted_bytes", "n"},
    {"applied", "b"},          {"anon_before_bytes", "n"},
    {"anon_after_bytes", "0"}, {"actual_bytes", "0"},
};

static void check_document(emitter *write, fill *fixture, const char *schema,
                           const char *const members[][2], size_t count)
{
    struct mw_analysis analysis;
    fixture(&analysis);
    json_t *document = emit_json(write, &analysis);
    assert_string_equal(json_string_value(find(document, "schema")), schema);
    check_members(document, members, count);
    json_decref(document);
    fixture_release(&analysis);
}

static void test_contract(void **state)
{
    (void)state;
    check_document(mw_report_json, fixture_icinga, "memwhy.report/1", report_members,
                   COUNT_OF(report_members));
    check_document(mw_report_json, fixture_jvm, "memwhy.report/1", runtime_members,
                   COUNT_OF(runtime_members));
    check_document(mw_report_heap_json, fixture_icinga, "memwhy.heap/1", heap_members,
                   COUNT_OF(heap_members));
    check_document(mw_report_pins_json, fixture_icinga, "memwhy.pins/1", pins_members,
                   COUNT_OF(pins_members));
    check_document(maps_json, fixture_icinga, "memwhy.maps/1", maps_members,
                   COUNT_OF(maps_members));
    check_document(trim_json, fixture_icinga, "memwhy.trim/1", trim_members,
                   COUNT_OF(trim_members));
}

static void test_categories_sum_to_rss(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        struct mw_analysis analysis;
        fixtures[i](&analysis);
        json_t *document = emit_json(mw_report_json, &analysis);
        json_t *category;
        size_t index, seen = 0;
        json_int_t sum = json_integer_value(find(document, "unknown_bytes"));
        json_array_foreach(find(document, "categories"), index, category)
        {
            sum += json_integer_value(find(category, "rss_bytes"));
            seen++;
            assert_string_not_equal(json_string_value(find(category, "id")), "unknown");
        }
        assert_int_equal(seen, MW_CATEGORY_COUNT - 1);
        if (analysis.account.has_rss)
            assert_true(sum == json_integer_value(find(document, "rss_bytes")));
        else
            assert_true(json_is_null(find(document, "rss_bytes")));
        json_decref(document);
        fixture_release(&analysis);
    }
}

/* Unknown is null, never 0: also for an allocator that was only recognised. */
static void test_unknown_is_null(void **state)
{
    (void)state;
    static const char *const nulls[][2] = {
        {"rss_bytes", "0"},
        {"peak_rss_bytes", "0"},
        {"swap_bytes", "0"},
        {"unknown_bytes", "0"},
        {"categories.0.rss_bytes", "0"},
        {"categories.0.pss_bytes", "0"},
        {"target.pid", "0"},
        {"target.threads", "0"},
        {"target.started_at", "0"},
        {"allocators.0.in_use_bytes", "0"},
        {"allocators.0.arenas", "0"},
        {"allocators.0.parameters", "0"},
        {"cgroup", "0"},
        {"verdicts.0.evidence.0.value", "0"},
    };
    struct mw_analysis analysis;
    fixture_hostile(&analysis);
    json_t *document = emit_json(mw_report_json, &analysis);
    check_members(document, nulls, COUNT_OF(nulls));
    json_decref(document);
    fixture_release(&analysis);
}

static void test_partial_is_said(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    struct fixture_output output;
    fixture_forbidden(&analysis);
    json_t *document = emit_json(mw_report_json, &analysis);
    assert_non_null(strstr(json_string_value(find(document, "partial.text")), "ptrace_scope"));
    json_decref(document);
    const char *text = emit(report_text, &analysis, &output);
    assert_non_null(strstr(text, "ptrace_scope is 1"));
    assert_non_null(strstr(text, "sudo memwhy 977"));
    assert_non_null(strstr(text, "memwhy doctor"));
    fixture_output_release(&output);
    fixture_release(&analysis);
}

/* Characters of a line, without ANSI sequences. */
static unsigned shown_width(const char *line, size_t length)
{
    unsigned width = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\033') {
            while (i < length && line[i] != 'm')
                i++;
            continue;
        }
        width += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return width;
}

static void test_screens_fit(void **state)
{
    (void)state;
    emitter *const screens[] = {report_text, heap_text, pins_text, trim_text};
    for (look_width = 80; look_width <= 100; look_width += 5)
        for (size_t i = 0; i < FIXTURES; i++)
            for (size_t k = 0; k < COUNT_OF(screens); k++) {
                struct mw_analysis analysis;
                struct fixture_output output;
                fixtures[i](&analysis);
                const char *at = emit(screens[k], &analysis, &output);
                for (; *at; at += strcspn(at, "\n") + 1) {
                    unsigned width = shown_width(at, strcspn(at, "\n"));
                    /* words of a target cannot wrap */
                    if (width > look_width && i != 2)
                        fail_msg("%u columns of %u: %.*s", width, look_width,
                                 (int)strcspn(at, "\n"), at);
                    assert_true(at[strcspn(at, "\n")] == '\n');
                    assert_false(strcspn(at, "\n") > 0 && at[strcspn(at, "\n") - 1] == ' ');
                }
                fixture_output_release(&output);
                fixture_release(&analysis);
            }
    look_width = 100;
}

/* The first number behind a label at the start of a line or cell, in hundredths; -1: none. */
static long figure_behind(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    if (!at)
        return -1;
    at += strlen(label);
    at += strspn(at, " ");
    long value = 0;
    int decimals = -1;
    for (; (*at >= '0' && *at <= '9') || *at == ',' || *at == '.'; at++) {
        if (*at == '.')
            decimals = 0;
        else if (*at != ',') {
            value = value * 10 + (*at - '0');
            decimals += decimals >= 0;
        }
    }
    for (; decimals < 2; decimals++)
        value *= 10;
    return value;
}

/* The rows of WHERE, as printed, sum to the RSS as printed: no 0.1 is lost by rounding. */
static void test_where_sums_as_printed(void **state)
{
    (void)state;
    static const char *const labels[] = {
        "malloc in use ", "malloc free ",      "malloc metadata ", "malloc, not split ",
        "GC heap ",       "Java heap ",        "managed heap ",    "runtime code+meta ",
        "thread stacks ", "file maps ",        "shared memory ",   "device memory ",
        "mapped twice ",  "anonymous, other ", "unknown ",
    };
    for (look_width = 80; look_width <= 100; look_width += 20)
        for (int nudge = 0; nudge < 40; nudge++) {
            struct mw_analysis analysis;
            struct fixture_output output;
            (nudge % 2 ? fixture_jvm : fixture_icinga)(&analysis);
            struct mw_account *account = &analysis.account;
            uint64_t moved = (uint64_t)nudge * 26209; /* a prime: every remainder comes up */
            account->rows[MW_CATEGORY_FILE_DATA].rss_bytes += moved;
            account->rows[MW_CATEGORY_SHARED_MEMORY].rss_bytes += moved / 3;
            account->rss_bytes += moved + moved / 3;
            const char *text = emit(report_text, &analysis, &output);
            const char *where = strstr(text, "WHERE");
            assert_non_null(where);
            long sum = 0;
            for (size_t i = 0; i < COUNT_OF(labels); i++) {
                long figure = figure_behind(where, labels[i]);
                sum += figure > 0 ? figure : 0;
            }
            assert_int_equal(sum, figure_behind(text, "\nRSS"));
            assert_non_null(strstr(where, "\n  unknown "));
            fixture_output_release(&output);
            fixture_release(&analysis);
        }
    look_width = 100;
}

static void test_screen_says_what_matters(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "memwhy 4121",
        "glibc 2.36",
        "up 6d02h",
        "paused 0.36 s, 4 stops",
        "RSS 2,355.6 MiB",
        "peak 2,604",
        "in use 318.4",
        "2,410 MiB of 2,861 (84%)",
        "KEPT 1,981.7 MiB",
        "trimmable-free",
        "[proven: 9 arenas walked",
        "  what ",
        "  why ",
        "heap-top-pinned: ",
        "adaptive-mmap-threshold: ",
        "  was ",
        "JSON text 41%",
        "  peak ",
        "  cure ",
        "-1,902.6 MiB -> RSS 453.0",
        "up to -118.0 MiB",
        "gain not predictable",
        "  not ",
        "native-leak: ",
        "WHERE",
        "1,902.6 trimmable",
        "22 threads",
        "too small to matter",
        "NEXT",
        "memwhy trim 4121 --apply",
        "memwhy pins 4121",
        "NEEDED 318.4 MiB",
    };
    struct mw_analysis analysis;
    struct fixture_output output;
    fixture_icinga(&analysis);
    const char *text = emit(report_text, &analysis, &output);
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("'%s' is not on the screen:\n%s", wanted[i], text);
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    assert_in_range(lines, 20, 48);
    fixture_output_release(&output);
    fixture_release(&analysis);
}

/* A hypothesis does not shout. */
static void test_possible_leak_is_a_question(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    struct fixture_output output;
    fixture_icinga(&analysis);
    look_color = true;
    analysis.verdicts.items[0].verdict_class = MW_CLASS_LEAKED;
    const char *text = emit(report_text, &analysis, &output);
    assert_non_null(strstr(text, "\033[1;31mLEAKED\033[0m\033[1m 1,981.7 MiB"));
    assert_non_null(strstr(text, "1,981.7 leaked "));
    fixture_output_release(&output);
    analysis.verdicts.items[0].basis = MW_BASIS_POSSIBLE;
    text = emit(report_text, &analysis, &output);
    assert_null(strstr(text, "\033[1;31m"));
    assert_non_null(strstr(text, "LEAKED\033[0m\033[1m? 1,981.7 MiB"));
    assert_non_null(strstr(text, "leaked?"));
    fixture_output_release(&output);
    look_color = false;
    fixture_release(&analysis);
}

static void test_color_only_when_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++)
        for (size_t k = 0; k < COUNT_OF(text_emitters); k++) {
            struct mw_analysis analysis;
            struct fixture_output output;
            fixtures[i](&analysis);
            assert_null(strchr(emit(text_emitters[k], &analysis, &output), '\033'));
            fixture_output_release(&output);
            fixture_release(&analysis);
        }
}

/* No byte of a target drives a terminal, whatever the output. */
static void test_hostile_bytes_are_escaped(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    fixture_hostile(&analysis);
    for (size_t k = 0; k < COUNT_OF(text_emitters) + COUNT_OF(json_emitters); k++) {
        struct fixture_output output;
        emitter *write = k < COUNT_OF(text_emitters) ? text_emitters[k]
                                                     : json_emitters[k - COUNT_OF(text_emitters)];
        const char *text = emit(write, &analysis, &output);
        for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
            assert_true(*at == '\n' || *at >= 0x20);
            assert_true(*at != 0x7f);
            assert_false(at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
        }
        fixture_output_release(&output);
    }
    fixture_release(&analysis);
}

/* The fixture's arguments hold a password; a setting with one is added. */
static void test_secrets_stay(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    struct mw_process *process = &analysis.image.process;
    free(process->settings[0].value);
    process->settings[0].value = mw_strdup("-Ddb.password=hunter2");
    for (size_t k = 0; k < COUNT_OF(text_emitters); k++) {
        struct fixture_output output;
        const char *text = emit(text_emitters[k], &analysis, &output);
        if (text_emitters[k] != heap_text) /* shows malloc's settings as they are */
            assert_null(strstr(text, "hunter2"));
        fixture_output_release(&output);
    }
    for (size_t k = 0; k < COUNT_OF(json_emitters); k++) {
        struct fixture_output output;
        const char *text = emit(json_emitters[k], &analysis, &output);
        assert_null(strstr(text, "--api-password"));
        fixture_output_release(&output);
    }
    fixture_release(&analysis);
}

static emitter *emitter_at(size_t index)
{
    return index < COUNT_OF(text_emitters) ? text_emitters[index]
                                           : json_emitters[index - COUNT_OF(text_emitters)];
}

/* A sink that fails at any piece: its errno comes back and it is not called again. */
static void test_failing_sinks(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    for (size_t k = 0; k < COUNT_OF(text_emitters) + COUNT_OF(json_emitters); k++) {
        struct fixture_output output = {.fail_after_bytes = 1};
        struct mw_error err = {0};
        assert_int_equal(emitter_at(k)(&analysis, fixture_sink(&output), &err), MW_OS);
        assert_int_equal(err.os_errno, EPIPE);
        assert_int_equal(output.calls, 1);
        fixture_output_release(&output);
    }
    fixture_release(&analysis);
}

/* The n-th allocation fails: MW_NOMEM or, where nothing was lost, the whole text. */
static void test_failing_allocations(void **state)
{
    (void)state;
    struct mw_analysis analysis;
    fixture_icinga(&analysis);
    for (size_t k = 0; k < COUNT_OF(text_emitters) + COUNT_OF(json_emitters); k++) {
        enum mw_status status = MW_NOMEM;
        for (long n = 0; n < 64 && status != MW_OK; n++) {
            char *bytes = malloc(1 << 20);
            struct fixture_output output = {.text = bytes, .room = 1 << 20};
            struct mw_error err = {0};
            mw_alloc_fail_after(n);
            status = emitter_at(k)(&analysis, fixture_sink(&output), &err);
            mw_alloc_fail_after(-1);
            assert_true(status == MW_OK || status == MW_NOMEM);
            fixture_output_release(&output);
        }
        assert_int_equal(status, MW_OK);
    }
    fixture_release(&analysis);
}

/* Sizes that only a damaged target has: the screens grow by digits, not by columns. */
static void test_absurd_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_MAX - 1, UINT64_MAX / 2, UINT64_MAX / 32, 1, 0};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int which = 0; which < MW_CATEGORY_COUNT; which++) {
            struct mw_analysis analysis;
            (i % 2 ? fixture_hostile : fixture_icinga)(&analysis);
            struct mw_account *account = &analysis.account;
            for (int k = 0; k < MW_CATEGORY_COUNT; k++)
                account->rows[k].rss_bytes = account->rows[k].size_bytes = 0;
            account->rows[which].rss_bytes = account->rows[which].size_bytes = sizes[i];
            account->rss_bytes = account->size_bytes = sizes[i];
            analysis.cgroup.usage = analysis.image.process.vm_hwm = sizes[i];
            analysis.allocators[0].in_use_bytes = analysis.allocators[0].system_bytes = sizes[i];
            analysis.allocators[0].trimmable_bytes = sizes[i];
            for (size_t k = 0; k < COUNT_OF(text_emitters); k++) {
                struct fixture_output output;
                (void)emit(text_emitters[k], &analysis, &output);
                assert_in_range(output.length, 1, 20000);
                fixture_output_release(&output);
            }
            fixture_release(&analysis);
        }
}

static void test_fields_are_defined(void **state)
{
    (void)state;
    for (int i = 0; i < MW_FIELD_COUNT; i++) {
        const struct mw_field_row *row = mw_field_row((enum mw_field)i);
        assert_true(row->name[0] != '\0' && strlen(row->definition) > 4);
        if (!strchr(".?", row->definition[strlen(row->definition) - 1]))
            fail_msg("%s: '%s' is no sentence", row->name, row->definition);
        size_t length = strlen(row->name);
        if (length > 6 && strcmp(row->name + length - 6, "_bytes") == 0)
            assert_int_equal(row->unit, MW_UNIT_BYTES);
        if (row->unit == MW_UNIT_SECONDS)
            assert_string_equal(row->name + length - 8, "_seconds");
        for (int k = i + 1; k < MW_FIELD_COUNT; k++) /* no name twice in one object */
            if (mw_field_row((enum mw_field)k)->scope == row->scope)
                assert_string_not_equal(mw_field_row((enum mw_field)k)->name, row->name);
    }
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

/* What changes the meaning of the figures is on the screens, four at most; the rest is not. */
static void test_findings_are_noted(void **state)
{
    (void)state;
    emitter *const screens[] = {report_text, heap_text};
    for (size_t i = 0; i < COUNT_OF(screens); i++) {
        struct mw_analysis analysis;
        struct fixture_output output;
        fixture_icinga(&analysis);
        struct mw_findings *findings = &analysis.findings;
        assert_null(strstr(emit(screens[i], &analysis, &output), "\n  note "));
        fixture_output_release(&output);
        mw_finding_add(findings, "smaps-line", 0, 0, "of no weight");
        for (int k = 0; k < 3; k++)
            mw_finding_add(findings, "heap-damaged", 1, 4096, "a header makes no sense");
        mw_finding_add(findings, "account-skew", 0, (uint64_t)1 << 30, "not this text");
        mw_finding_add(findings, "several-stops", 0, 0, "the last of five");
        mw_finding_add(findings, "core-truncated", 0, 0, "cut");
        mw_finding_add(findings, "pause-expired", 0, 0, "let go");
        const char *text = emit(screens[i], &analysis, &output);
        assert_int_equal(count_of(text, "\n  note "), 4);
        assert_non_null(strstr(text, "note   a header makes no sense (3 times, 12.0 KiB)\n"));
        assert_non_null(strstr(text, "note   let go\n"));
        assert_null(strstr(text, "of no weight"));
        assert_null(strstr(text, "the last of five"));
        fixture_output_release(&output);
        fixture_release(&analysis);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),
        cmocka_unit_test(test_categories_sum_to_rss),
        cmocka_unit_test(test_unknown_is_null),
        cmocka_unit_test(test_partial_is_said),
        cmocka_unit_test(test_screens_fit),
        cmocka_unit_test(test_findings_are_noted),
        cmocka_unit_test(test_where_sums_as_printed),
        cmocka_unit_test(test_screen_says_what_matters),
        cmocka_unit_test(test_possible_leak_is_a_question),
        cmocka_unit_test(test_color_only_when_asked),
        cmocka_unit_test(test_hostile_bytes_are_escaped),
        cmocka_unit_test(test_secrets_stay),
        cmocka_unit_test(test_failing_sinks),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_absurd_sizes),
        cmocka_unit_test(test_fields_are_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
