/* report/baseline.c: reading an earlier report. A report is a file like any other, so nothing in it
 * is trusted: types are checked, lists bounded, texts copied. jansson does the parsing. */
#include "report/baseline.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REPORT_BYTES_MAX = 64 << 20,
    REMEDIES_MAX = 1024,
    SETTINGS_MAX = 256,
    TEXT_BYTES_MAX = 4096
};

enum mw_field mw_baseline_field(int figure)
{
    static const enum mw_field fields[MW_BASELINE_FIGURES] = {
        [MW_BASELINE_RSS] = MW_F(report, rss_bytes),
        [MW_BASELINE_ANONYMOUS] = MW_F(report, anonymous_bytes),
        [MW_BASELINE_SWAP] = MW_F(report, swap_bytes),
        [MW_BASELINE_PEAK] = MW_F(report, peak_rss_bytes),
        [MW_BASELINE_UNKNOWN] = MW_F(report, unknown_bytes),
        [MW_BASELINE_IN_USE] = MW_F(allocator, in_use_bytes),
        [MW_BASELINE_MMAPPED] = MW_F(allocator, mmapped_bytes),
        [MW_BASELINE_FREE] = MW_F(allocator, free_bytes),
        [MW_BASELINE_FREE_RESIDENT] = MW_F(allocator, free_resident_bytes),
        [MW_BASELINE_TRIMMABLE] = MW_F(allocator, trimmable_bytes),
        [MW_BASELINE_ARENAS] = MW_F(allocator, arenas),
        [MW_BASELINE_THREADS] = MW_F(target, threads),
    };
    assert(figure >= 0 && figure < MW_BASELINE_FIGURES);
    return fields[figure];
}

bool mw_baseline_recognize(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", text[at]) && text[at] != '\0')
        at++;
    return at < length && text[at] == '{';
}

static void baseline_init(struct mw_baseline *baseline)
{
    *baseline = (struct mw_baseline){
        .pid = MW_UNKNOWN,
        .mmap_threshold = MW_UNKNOWN,
        .arena_max = MW_UNKNOWN,
        .tcache_count = MW_UNKNOWN,
    };
    for (int i = 0; i < MW_BASELINE_FIGURES; i++)
        baseline->figures[i] = MW_UNKNOWN;
}

/* A sum that stays unknown once a part is, and where it would overflow. */
static uint64_t sum_known(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return a == MW_UNKNOWN || b == MW_UNKNOWN || __builtin_add_overflow(a, b, &sum) ? MW_UNKNOWN
                                                                                    : sum;
}

static enum mw_status remedy_add(struct mw_baseline *baseline, const char *verdict,
                                 const char *action, const uint64_t *gains)
{
    struct {
        struct mw_baseline_remedy *items;
        size_t count, room;
    } remedies = {baseline->remedies, baseline->remedy_count, baseline->remedy_count};
    struct mw_baseline_remedy remedy = {.verdict = mw_strndup(verdict, TEXT_BYTES_MAX),
                                        .action = mw_strndup(action, TEXT_BYTES_MAX)};
    if (gains) {
        remedy.has_gain = true;
        remedy.gain_low_bytes = gains[0];
        remedy.gain_high_bytes = gains[1];
    }
    enum mw_status status = remedy.verdict && remedy.action ? MW_OK : MW_NOMEM;
    if (status == MW_OK)
        status = mw_vec_push(&remedies, REMEDIES_MAX, remedy);
    if (status != MW_OK) {
        free(remedy.verdict);
        free(remedy.action);
    }
    baseline->remedies = remedies.items;
    baseline->remedy_count = remedies.count;
    return status;
}

static enum mw_status setting_add(struct mw_baseline *baseline, const char *name, const char *value)
{
    if (baseline->setting_count == SETTINGS_MAX)
        return MW_OK; /* more than any process has of these */
    struct mw_setting *grown = mw_regrow(baseline->settings, baseline->setting_count,
                                         baseline->setting_count + 1, sizeof *grown);
    if (!grown)
        return MW_NOMEM;
    baseline->settings = grown;
    struct mw_setting *setting = &grown[baseline->setting_count++];
    setting->name = mw_strndup(name, TEXT_BYTES_MAX);
    setting->value = mw_strndup(value, TEXT_BYTES_MAX);
    return setting->name && setting->value ? MW_OK : MW_NOMEM;
}

static void allocator_name_add(struct mw_baseline *baseline, const char *kind)
{
    size_t used = strlen(baseline->allocators);
    snprintf(baseline->allocators + used, sizeof baseline->allocators - used, "%s%.20s",
             used ? " " : "", kind);
}

/* ---- from JSON ---- */

static const char *json_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static uint64_t json_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_real(value) && json_real_value(value) >= 0 && json_real_value(value) < 0x1p63)
        return (uint64_t)json_real_value(value); /* see report_decode() */
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return MW_UNKNOWN;
    return (uint64_t)json_integer_value(value);
}

static int64_t json_time(const json_t *object, const char *name)
{
    struct tm utc = {0};
    const char *end = strptime(json_text(object, name), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return end && *end == '\0' ? (int64_t)timegm(&utc) : 0;
}

static enum mw_status parse_remedies(struct mw_baseline *baseline, const json_t *report)
{
    size_t i, k;
    json_t *verdict, *remedy;
    json_array_foreach(json_object_get(report, "verdicts"), i, verdict)
    {
        json_array_foreach(json_object_get(verdict, "remedies"), k, remedy)
        {
            uint64_t gains[2] = {json_number(remedy, "gain_low_bytes"),
                                 json_number(remedy, "gain_high_bytes")};
            bool has_gain =
                gains[0] != MW_UNKNOWN && gains[1] != MW_UNKNOWN && gains[0] <= gains[1];
            enum mw_status status =
                remedy_add(baseline, json_text(verdict, "id"), json_text(remedy, "action"),
                           has_gain ? gains : NULL);
            if (status != MW_OK)
                return status;
        }
    }
    return MW_OK;
}

static enum mw_status parse_settings(struct mw_baseline *baseline, json_t *target)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(target, "env"), name, value)
    {
        const char *text = json_string_value(value);
        enum mw_status status = setting_add(baseline, name, text ? text : "");
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static void parse_allocators(struct mw_baseline *baseline, const json_t *report)
{
    size_t i;
    json_t *allocator;
    bool first = true;
    json_array_foreach(json_object_get(report, "allocators"), i, allocator)
    {
        allocator_name_add(baseline, json_text(allocator, "kind"));
        if (json_number(allocator, "in_use_bytes") == MW_UNKNOWN)
            continue; /* recognised only */
        for (int figure = MW_BASELINE_IN_USE; figure <= MW_BASELINE_ARENAS; figure++) {
            const char *name = mw_field_row(mw_baseline_field(figure))->name;
            uint64_t value = json_number(allocator, name);
            baseline->figures[figure] = first ? value : sum_known(baseline->figures[figure], value);
        }
        const json_t *parameters = json_object_get(allocator, "parameters");
        if (first) {
            baseline->mmap_threshold = json_number(parameters, "mmap_threshold");
            baseline->arena_max = json_number(parameters, "arena_max");
            baseline->tcache_count = json_number(parameters, "tcache_count");
            baseline->no_dyn_threshold =
                json_is_true(json_object_get(parameters, "no_dyn_threshold"));
        }
        first = false;
    }
}

static enum mw_status parse_report(struct mw_baseline *baseline, const json_t *report)
{
    json_t *target = json_object_get(report, "target");
    baseline->taken_at = json_time(report, "taken_at");
    baseline->started_at = json_time(target, "started_at");
    baseline->pid = json_number(target, "pid");
    for (int figure = MW_BASELINE_RSS; figure <= MW_BASELINE_UNKNOWN; figure++)
        baseline->figures[figure] =
            json_number(report, mw_field_row(mw_baseline_field(figure))->name);
    baseline->figures[MW_BASELINE_THREADS] = json_number(target, "threads");
    parse_allocators(baseline, report);
    enum mw_status status = parse_settings(baseline, target);
    return status == MW_OK ? parse_remedies(baseline, report) : status;
}

static enum mw_status check_schema(const json_t *report, const char *name, struct mw_error *err)
{
    const char *schema = json_text(report, "schema");
    if (strcmp(schema, "memwhy.report/1") == 0)
        return MW_OK;
    (void)mw_fail(err, MW_UNSUPPORTED, "'%.80s' is no memwhy.report/1 but '%.40s'", name, schema);
    mw_error_hint(err, "memwhy PID --json >before.json");
    return MW_UNSUPPORTED;
}

/* jansson's integers are signed. A report with one beyond 2^63 (a value that a damaged target gave)
 * is read again with all numbers as doubles, which are exact to 2^53. */
static json_t *report_decode(const char *text, size_t length, json_error_t *problem)
{
    json_t *report = json_loadb(text, length, JSON_REJECT_DUPLICATES, problem);
    if (!report && json_error_code(problem) == json_error_numeric_overflow)
        report =
            json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, problem);
    return report;
}

enum mw_status mw_baseline_parse(const char *text, size_t length, const char *name,
                                 struct mw_baseline *baseline_out, struct mw_error *err)
{
    json_error_t problem;
    struct mw_baseline baseline;
    if (length > REPORT_BYTES_MAX)
        return mw_fail(err, MW_LIMIT, "'%.80s' is too large for a report", name);
    json_t *report = report_decode(text, length, &problem);
    if (!report)
        return mw_fail(err, MW_CORRUPT, "cannot read '%.80s' as JSON: line %d: %.100s", name,
                       problem.line, problem.text);
    enum mw_status status = check_schema(report, name, err);
    baseline_init(&baseline);
    if (status == MW_OK) {
        status = parse_report(&baseline, report);
        if (status != MW_OK)
            (void)mw_fail(err, status, "cannot take over the report '%.80s'", name);
    }
    json_decref(report);
    if (status != MW_OK) {
        mw_baseline_deinit(&baseline);
        return status;
    }
    *baseline_out = baseline;
    return MW_OK;
}

/* ---- from an analysis ---- */

static void take_allocators(struct mw_baseline *baseline, const struct mw_analysis *analysis)
{
    bool first = true;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *a = &analysis->allocators[i];
        allocator_name_add(baseline, a->kind);
        if (!a->walked)
            continue;
        const uint64_t values[] = {a->in_use_bytes,        a->mmapped_bytes,   a->free_bytes,
                                   a->free_resident_bytes, a->trimmable_bytes, a->arena_count};
        for (int figure = MW_BASELINE_IN_USE; figure <= MW_BASELINE_ARENAS; figure++) {
            uint64_t value = values[figure - MW_BASELINE_IN_USE];
            baseline->figures[figure] = first ? value : sum_known(baseline->figures[figure], value);
        }
        if (first) {
            bool known = !a->lacks_parameters;
            baseline->mmap_threshold = known ? a->parameters.mmap_threshold : MW_UNKNOWN;
            baseline->arena_max = known ? a->parameters.arena_max : MW_UNKNOWN;
            baseline->tcache_count = known ? a->parameters.tcache_count : MW_UNKNOWN;
            baseline->no_dyn_threshold = a->parameters.no_dyn_threshold;
        }
        first = false;
    }
}

static enum mw_status take_remedies(struct mw_baseline *baseline,
                                    const struct mw_verdicts *verdicts)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < verdicts->count; i++)
        for (size_t k = 0; k < verdicts->items[i].remedy_count && status == MW_OK; k++) {
            const struct mw_remedy *remedy = &verdicts->items[i].remedies[k];
            const uint64_t gains[2] = {remedy->gain_low_bytes, remedy->gain_high_bytes};
            status = remedy_add(baseline, verdicts->items[i].id, remedy->action,
                                remedy->has_gain ? gains : NULL);
        }
    return status;
}

enum mw_status mw_baseline_take(const struct mw_analysis *analysis,
                                struct mw_baseline *baseline_out, struct mw_error *err)
{
    const struct mw_process *process = &analysis->image.process;
    const struct mw_account *account = &analysis->account;
    struct mw_baseline baseline;
    baseline_init(&baseline);
    baseline.taken_at = analysis->taken_at;
    baseline.started_at = process->started_at;
    baseline.pid = process->pid > 0 ? (uint64_t)process->pid : MW_UNKNOWN;
    baseline.figures[MW_BASELINE_RSS] = account->has_rss ? account->rss_bytes : MW_UNKNOWN;
    baseline.figures[MW_BASELINE_ANONYMOUS] = account->anonymous_bytes;
    baseline.figures[MW_BASELINE_SWAP] = account->has_swap ? account->swap_bytes : MW_UNKNOWN;
    baseline.figures[MW_BASELINE_PEAK] = process->vm_hwm;
    baseline.figures[MW_BASELINE_UNKNOWN] = account->has_rss ? account->unknown_bytes : MW_UNKNOWN;
    baseline.figures[MW_BASELINE_THREADS] = process->thread_count;
    take_allocators(&baseline, analysis);
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < process->setting_count && status == MW_OK; i++)
        status = setting_add(&baseline, process->settings[i].name, process->settings[i].value);
    if (status == MW_OK)
        status = take_remedies(&baseline, &analysis->verdicts);
    if (status != MW_OK) {
        mw_baseline_deinit(&baseline);
        return mw_fail(err, status, "out of memory comparing two moments");
    }
    *baseline_out = baseline;
    return MW_OK;
}

void mw_baseline_deinit(struct mw_baseline *baseline)
{
    for (size_t i = 0; i < baseline->setting_count; i++) {
        free(baseline->settings[i].name);
        free(baseline->settings[i].value);
    }
    free(baseline->settings);
    for (size_t i = 0; i < baseline->remedy_count; i++) {
        free(baseline->remedies[i].verdict);
        free(baseline->remedies[i].action);
    }
    free(baseline->remedies);
    *baseline = (struct mw_baseline){0};
}
