/* report/verify_report.c: the comparison for people and programs. */
#include "report/verify.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void json_figures(struct mw_json *json, const struct mw_verify *verify)
{
    mw_json_array_begin(json);
    for (int i = 0; i < MW_BASELINE_FIGURES; i++) {
        uint64_t before = verify->before->figures[i], after = verify->after->figures[i];
        mw_field_object_begin(json, MW_SCOPE_figure);
        mw_field_text(json, MW_F(figure, name), mw_field_row(mw_baseline_field(i))->name);
        mw_field_u64(json, MW_F(figure, before), before);
        mw_field_u64(json, MW_F(figure, after), after);
        if (before == MW_UNKNOWN || after == MW_UNKNOWN)
            mw_field_null(json, MW_F(figure, delta));
        else
            mw_field_i64(json, MW_F(figure, delta), (int64_t)(after - before));
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

static void json_prediction(struct mw_json *json, const struct mw_prediction *prediction)
{
    const struct mw_baseline_remedy *remedy = prediction->remedy;
    bool has_gain = remedy->has_gain;
    mw_field_object_begin(json, MW_SCOPE_prediction);
    mw_field_text(json, MW_F(prediction, verdict), remedy->verdict);
    mw_field_text(json, MW_F(prediction, action), remedy->action);
    mw_field_text(json, MW_F(prediction, measure),
                  mw_field_row(mw_baseline_field(prediction->measure))->name);
    mw_field_u64(json, MW_F(prediction, gain_low_bytes),
                 has_gain ? remedy->gain_low_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(prediction, gain_high_bytes),
                 has_gain ? remedy->gain_high_bytes : MW_UNKNOWN);
    mw_field_u64(json, MW_F(prediction, predicted_bytes), prediction->point_bytes);
    if (prediction->has_actual)
        mw_field_i64(json, MW_F(prediction, actual_bytes), prediction->actual_bytes);
    else
        mw_field_null(json, MW_F(prediction, actual_bytes));
    mw_field_double(json, MW_F(prediction, error_percent), prediction->error_percent);
    mw_field_text(json, MW_F(prediction, outcome), mw_outcome_name(prediction->outcome));
    mw_field_text(json, MW_F(prediction, why), prediction->why);
    mw_field_object_end(json);
}

enum mw_status mw_report_verify_json(const struct mw_verify *verify,
                                     const struct mw_analysis *analysis, struct mw_sink sink,
                                     struct mw_error *err)
{
    static const struct mw_findings no_findings;
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_verify);
    mw_field_text(&json, MW_F(verify, schema), "memwhy.verify/1");
    mw_field_text(&json, MW_F(verify, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(verify, before_taken_at), verify->before->taken_at);
    mw_field_time(&json, MW_F(verify, after_taken_at), verify->after->taken_at);
    mw_field_bool(&json, MW_F(verify, same_process), verify->same_process);
    mw_field_key(&json, MW_F(verify, figures));
    json_figures(&json, verify);
    mw_field_key(&json, MW_F(verify, predictions));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < verify->count; i++)
        json_prediction(&json, &verify->predictions[i]);
    mw_json_array_end(&json);
    mw_field_u64(&json, MW_F(verify, met), verify->met);
    mw_field_u64(&json, MW_F(verify, not_met), verify->not_met);
    mw_field_key(&json, MW_F(verify, findings));
    mw_json_findings(&json, analysis ? &analysis->findings : &no_findings);
    mw_field_key(&json, MW_F(verify, partial));
    if (analysis)
        mw_json_partial(&json, analysis);
    else
        mw_json_put_null(&json);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

struct figures_screen {
    struct mw_text *text;
    const struct mw_verify *verify;
    int rows[MW_BASELINE_FIGURES];
};

static bool is_bytes(int figure)
{
    return mw_field_row(mw_baseline_field(figure))->unit == MW_UNIT_BYTES;
}

static void figure_format(char text[32], struct mw_unit unit, int figure, uint64_t value)
{
    if (value == MW_UNKNOWN)
        memcpy(text, "-", 2);
    else if (is_bytes(figure))
        mw_unit_format(text, unit, value);
    else
        mw_count_format(text, value);
}

static void figure_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct figures_screen *screen = user;
    int figure = screen->rows[index];
    struct mw_unit unit = screen->text->unit;
    uint64_t before = screen->verify->before->figures[figure];
    uint64_t after = screen->verify->after->figures[figure];
    cells[0].long_text = mw_field_row(mw_baseline_field(figure))->heading;
    figure_format(cells[1].text, unit, figure, before);
    figure_format(cells[2].text, unit, figure, after);
    if (before == MW_UNKNOWN || after == MW_UNKNOWN)
        return;
    if (is_bytes(figure))
        mw_unit_format_signed(cells[3].text, unit, (int64_t)(after - before));
    else
        snprintf(cells[3].text, MW_TEXT_CELL_BYTES, "%+lld", (long long)(after - before));
}

static void put_figures(struct mw_text *text, const struct mw_verify *verify)
{
    static const struct mw_text_column columns[] = {
        {MW_F(figure, name), NULL, false},
        {MW_F(figure, before), NULL, false},
        {MW_F(figure, after), NULL, false},
        {MW_F(figure, delta), NULL, false},
    };
    struct figures_screen screen = {.text = text, .verify = verify};
    size_t count = 0;
    for (int i = 0; i < MW_BASELINE_FIGURES; i++)
        if (verify->before->figures[i] != MW_UNKNOWN || verify->after->figures[i] != MW_UNKNOWN)
            screen.rows[count++] = i;
    mw_text_table(text, &(struct mw_text_table){
                            .columns = columns,
                            .column_count = sizeof columns / sizeof *columns,
                            .row_count = count,
                            .row = figure_cells,
                            .user = &screen,
                            .indent = 2,
                        });
}

/* "-1,902.6 MiB" or "0.0 to -118.0 MiB" */
static void predicted_format(char text[96], struct mw_unit unit,
                             const struct mw_prediction *prediction)
{
    char low[32], high[32];
    const struct mw_baseline_remedy *remedy = prediction->remedy;
    if (prediction->point_bytes != MW_UNKNOWN) {
        snprintf(text, 96, "-%s %s", mw_unit_format(low, unit, prediction->point_bytes), unit.name);
        return;
    }
    snprintf(text, 96, "-%s to -%s %s", mw_unit_format(low, unit, remedy->gain_low_bytes),
             mw_unit_format(high, unit, remedy->gain_high_bytes), unit.name);
}

static void put_prediction(struct mw_text *text, const struct mw_prediction *prediction,
                           bool same_process)
{
    char predicted[96], actual[32], error[48] = "", line[400];
    bool is_checked = prediction->outcome != MW_OUTCOME_NOT_CHECKED;
    mw_text_pad(text, 2);
    mw_text_put(text, is_checked ? MW_STYLE_BOLD : MW_STYLE_PLAIN,
                mw_outcome_name(prediction->outcome));
    mw_text_pad(text, 15);
    mw_text_wrap(text, 15, 2, MW_STYLE_PLAIN, prediction->remedy->action);
    mw_text_newline(text);
    mw_text_pad(text, 15);
    if (is_checked) {
        predicted_format(predicted, text->unit, prediction);
        if (isfinite(prediction->error_percent))
            snprintf(error, sizeof error, " (%+.2f%%)", prediction->error_percent);
        snprintf(line, sizeof line, "predicted %s, actual %s %s%s, by %s", predicted,
                 mw_unit_format_signed(actual, text->unit, -prediction->actual_bytes),
                 text->unit.name, error, prediction->why);
        mw_text_wrap(text, 15, 2, MW_STYLE_PLAIN, line);
        if (prediction->outcome == MW_OUTCOME_NOT_MET && same_process) {
            mw_text_newline(text);
            mw_text_pad(text, 15);
            mw_text_wrap(text, 15, 2, MW_STYLE_PLAIN,
                         "or it was not applied: in the same process that cannot be seen");
        }
    } else {
        mw_text_wrap(text, 15, 2, MW_STYLE_PLAIN, prediction->why);
    }
    mw_text_newline(text);
}

enum mw_status mw_report_verify_text(const struct mw_verify *verify, const char *const names[2],
                                     struct mw_text_look look, struct mw_sink sink,
                                     struct mw_error *err)
{
    struct mw_text text;
    char apart[32], moments[48] = "", title[256];
    const struct mw_baseline *before = verify->before, *after = verify->after;
    mw_text_init(&text, sink, look);
    uint64_t largest = before->figures[MW_BASELINE_RSS];
    text.unit = mw_unit_for(largest == MW_UNKNOWN ? (uint64_t)1 << 30 : largest);
    snprintf(title, sizeof title, "memwhy verify %.80s %.80s", names[0], names[1]);
    mw_text_wrap(&text, 2, 0, MW_STYLE_PLAIN, title);
    if (before->taken_at && after->taken_at)
        snprintf(moments, sizeof moments, "%s apart, ",
                 mw_duration_format(apart, (double)(after->taken_at - before->taken_at)));
    snprintf(title, sizeof title, "%s%s, in %s", moments,
             verify->same_process ? "the same process" : "another process", text.unit.name);
    mw_text_pad(&text, text.column + 2);
    mw_text_wrap(&text, 2, 0, MW_STYLE_PLAIN, title);
    mw_text_newline(&text);
    mw_text_newline(&text);
    put_figures(&text, verify);
    mw_text_newline(&text);
    mw_text_put(&text, MW_STYLE_BOLD, "PREDICTIONS");
    mw_text_printf(&text, MW_STYLE_PLAIN, "  %zu met, %zu not met%s, %zu not checked", verify->met,
                   verify->not_met,
                   verify->same_process && verify->not_met > 0 ? " or not applied" : "",
                   verify->count - verify->met - verify->not_met);
    mw_text_newline(&text);
    for (int checked = 1; checked >= 0; checked--)
        for (size_t i = 0; i < verify->count; i++)
            if ((verify->predictions[i].outcome != MW_OUTCOME_NOT_CHECKED) == checked)
                put_prediction(&text, &verify->predictions[i], verify->same_process);
    return mw_text_finish(&text, err);
}
