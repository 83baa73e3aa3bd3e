/* report/verify.c: which remedy was taken, and did it give what was predicted?
 *
 * A remedy is checked only where it can be seen to have been taken: trimming in the same process,
 * a setting in the next one whose environment or allocator shows it. The rest is not checked and
 * says why: a drop of memory must not be credited to what nobody did. */
#include "report/verify.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *mw_outcome_name(enum mw_outcome outcome)
{
    static const char *const names[] = {
        [MW_OUTCOME_MET] = "met",
        [MW_OUTCOME_BETTER] = "better",
        [MW_OUTCOME_NOT_MET] = "not-met",
        [MW_OUTCOME_NOT_CHECKED] = "not-checked",
    };
    assert((unsigned)outcome < sizeof names / sizeof *names);
    return names[outcome];
}

static const char *setting_of(const struct mw_baseline *baseline, const char *name)
{
    for (size_t i = 0; i < baseline->setting_count; i++)
        if (strcmp(baseline->settings[i].name, name) == 0)
            return baseline->settings[i].value;
    return NULL;
}

/* The number behind `key` ("MALLOC_ARENA_MAX=") in an action; MW_UNKNOWN when it is not there. */
static uint64_t number_behind(const char *action, const char *key)
{
    const char *at = strstr(action, key);
    if (!at || at[strlen(key)] < '0' || at[strlen(key)] > '9')
        return MW_UNKNOWN;
    return strtoull(at + strlen(key), NULL, 10);
}

enum taken { TAKEN_YES, TAKEN_NO, TAKEN_UNSEEN };

static bool is_trim(const char *action)
{
    return strstr(action, "malloc_trim") || strstr(action, "trim_native_heap");
}

static enum taken taken_if(bool condition)
{
    return condition ? TAKEN_YES : TAKEN_NO;
}

static enum taken arena_cap_taken(const struct mw_baseline *after, uint64_t wanted)
{
    const char *value = setting_of(after, "MALLOC_ARENA_MAX");
    bool by_environment = value && strtoull(value, NULL, 10) == wanted;
    return taken_if(after->arena_max == wanted || by_environment);
}

/* Was a remedy that needs a new process taken in this one? */
static enum taken restart_taken(const struct mw_baseline *after, const char *action)
{
    uint64_t wanted = number_behind(action, "MALLOC_ARENA_MAX=");
    if (wanted != MW_UNKNOWN)
        return arena_cap_taken(after, wanted);
    wanted = number_behind(action, "mmap_threshold=");
    if (wanted != MW_UNKNOWN)
        return taken_if(after->mmap_threshold == wanted && after->no_dyn_threshold);
    wanted = number_behind(action, "tcache_count=");
    if (wanted != MW_UNKNOWN)
        return taken_if(after->tcache_count == wanted);
    if (strstr(action, "jemalloc"))
        return taken_if(strstr(after->allocators, "jemalloc") != NULL);
    return TAKEN_UNSEEN;
}

static void not_checked(struct mw_prediction *prediction, const char *why)
{
    prediction->outcome = MW_OUTCOME_NOT_CHECKED;
    snprintf(prediction->why, sizeof prediction->why, "%s", why);
}

/* Within 2 % of the range; for a prediction of one figure the range is that figure. */
static void judge(struct mw_prediction *prediction)
{
    const struct mw_baseline_remedy *remedy = prediction->remedy;
    double actual = (double)prediction->actual_bytes;
    double low = (double)remedy->gain_low_bytes, high = (double)remedy->gain_high_bytes;
    double slack = high / 50;
    double end = actual < low ? low : actual > high ? high : actual;
    if (prediction->point_bytes != MW_UNKNOWN)
        end = (double)prediction->point_bytes;
    prediction->error_percent = end > 0 ? (actual - end) * 100 / end : actual == end ? 0 : NAN;
    prediction->outcome = actual > high + slack  ? MW_OUTCOME_BETTER
                          : actual < low - slack ? MW_OUTCOME_NOT_MET
                                                 : MW_OUTCOME_MET;
    snprintf(prediction->why, sizeof prediction->why, "the drop of %s",
             mw_field_row(mw_baseline_field(prediction->measure))->name);
}

static bool is_decidable(const struct mw_verify *verify, struct mw_prediction *prediction)
{
    const char *action = prediction->remedy->action;
    if (!prediction->remedy->has_gain) {
        not_checked(prediction, "its gain was not predictable");
        return false;
    }
    if (!prediction->has_actual) {
        not_checked(prediction, "one of the two moments does not know the figure");
        return false;
    }
    if (is_trim(action)) {
        if (!verify->same_process)
            not_checked(prediction, "this is another process, not the one to be trimmed");
        return verify->same_process;
    }
    if (verify->same_process) {
        not_checked(prediction, strstr(action, "restart")
                                    ? "it needs a restart, and this is the same process"
                                    : "whether it was done cannot be seen from here");
        return false;
    }
    enum taken taken = restart_taken(verify->after, action);
    if (taken != TAKEN_YES)
        not_checked(prediction, taken == TAKEN_NO
                                    ? "it was not taken: the process does not show the setting"
                                    : "whether it was done cannot be seen from here");
    return taken == TAKEN_YES;
}

static struct mw_prediction prediction_check(const struct mw_verify *verify,
                                             const struct mw_baseline_remedy *remedy)
{
    struct mw_prediction prediction = {
        .remedy = remedy,
        .measure = MW_BASELINE_ANONYMOUS,
        .point_bytes = MW_UNKNOWN,
        .error_percent = NAN,
    };
    uint64_t before = verify->before->figures[prediction.measure];
    uint64_t after = verify->after->figures[prediction.measure];
    prediction.has_actual = before != MW_UNKNOWN && after != MW_UNKNOWN;
    if (prediction.has_actual)
        prediction.actual_bytes = (int64_t)(before - after);
    if (is_trim(remedy->action))
        prediction.point_bytes = verify->before->figures[MW_BASELINE_TRIMMABLE];
    if (is_decidable(verify, &prediction))
        judge(&prediction);
    return prediction;
}

/* The start time is known to the second; a pid may be used again. */
static bool is_same_process(const struct mw_baseline *before, const struct mw_baseline *after)
{
    int64_t apart = before->started_at - after->started_at;
    return before->pid != MW_UNKNOWN && before->pid == after->pid && apart >= -1 && apart <= 1;
}

/* A remedy may stand in several verdicts: it is compared once, where its gain is the largest. */
static bool is_said_elsewhere(const struct mw_baseline *before, size_t index)
{
    const struct mw_baseline_remedy *ours = &before->remedies[index];
    for (size_t i = 0; i < before->remedy_count; i++) {
        const struct mw_baseline_remedy *other = &before->remedies[i];
        if (i == index || strcmp(other->action, ours->action) != 0)
            continue;
        uint64_t our_gain = ours->has_gain ? ours->gain_high_bytes : 0;
        uint64_t other_gain = other->has_gain ? other->gain_high_bytes : 0;
        bool is_better =
            other->has_gain != ours->has_gain ? other->has_gain : other_gain > our_gain;
        bool is_equal = other->has_gain == ours->has_gain && other_gain == our_gain;
        if (is_better || (is_equal && i < index))
            return true;
    }
    return false;
}

enum mw_status mw_verify_compare(const struct mw_baseline *before, const struct mw_baseline *after,
                                 struct mw_verify *verify_out, struct mw_error *err)
{
    struct mw_verify verify = {
        .before = before,
        .after = after,
        .same_process = is_same_process(before, after),
    };
    verify.predictions = mw_calloc(before->remedy_count, sizeof *verify.predictions);
    if (!verify.predictions)
        return mw_fail(err, MW_NOMEM, "out of memory comparing two moments");
    for (size_t i = 0; i < before->remedy_count; i++) {
        if (is_said_elsewhere(before, i))
            continue;
        verify.predictions[verify.count] = prediction_check(&verify, &before->remedies[i]);
        enum mw_outcome outcome = verify.predictions[verify.count++].outcome;
        verify.met += outcome == MW_OUTCOME_MET || outcome == MW_OUTCOME_BETTER;
        verify.not_met += outcome == MW_OUTCOME_NOT_MET;
    }
    *verify_out = verify;
    return MW_OK;
}

void mw_verify_deinit(struct mw_verify *verify)
{
    free(verify->predictions);
}
