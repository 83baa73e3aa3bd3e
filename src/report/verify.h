/* report/verify.h: predictions of an earlier report against the truth now. */
#ifndef MW_REPORT_VERIFY_H
#define MW_REPORT_VERIFY_H

#include "report/baseline.h"
#include "report/text.h"

enum mw_outcome {
    MW_OUTCOME_MET,    /* within the predicted range, or 2 % of it */
    MW_OUTCOME_BETTER, /* more was given back */
    MW_OUTCOME_NOT_MET,
    MW_OUTCOME_NOT_CHECKED, /* the why says it */
};
const char *mw_outcome_name(enum mw_outcome outcome);

struct mw_prediction {
    const struct mw_baseline_remedy *remedy; /* of the earlier moment */
    int measure;                             /* enum mw_baseline_figure */
    uint64_t point_bytes; /* the prediction as one figure, MW_UNKNOWN when it is a range */
    bool has_actual;
    int64_t actual_bytes; /* by which the measure fell; negative: grew */
    double error_percent; /* NaN when it was not checked */
    enum mw_outcome outcome;
    char why[160];
};

struct mw_verify {
    const struct mw_baseline *before, *after;
    bool same_process;
    struct mw_prediction *predictions;
    size_t count, met, not_met;
};

/* Compare; both moments must outlive the result. Pure. MW_NOMEM. */
enum mw_status mw_verify_compare(const struct mw_baseline *before, const struct mw_baseline *after,
                                 struct mw_verify *verify_out, struct mw_error *err) MW_MUST_CHECK;
void mw_verify_deinit(struct mw_verify *verify);

/* memwhy.verify/1 and its screen. `analysis` is that of the later moment, NULL when it was a
 * report; names are what the user typed. */
enum mw_status mw_report_verify_json(const struct mw_verify *verify,
                                     const struct mw_analysis *analysis, struct mw_sink sink,
                                     struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_verify_text(const struct mw_verify *verify, const char *const names[2],
                                     struct mw_text_look look, struct mw_sink sink,
                                     struct mw_error *err) MW_MUST_CHECK;

#endif
