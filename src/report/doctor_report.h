/* report/doctor_report.h: the doctor's findings for people and programs. */
#ifndef MW_REPORT_DOCTOR_REPORT_H
#define MW_REPORT_DOCTOR_REPORT_H

#include "report/text.h"
#include "session/doctor.h"

/* memwhy.doctor/1, and a screen. */
enum mw_status mw_report_doctor_json(const struct mw_doctor *doctor, struct mw_sink sink,
                                     struct mw_error *err) MW_MUST_CHECK;
enum mw_status mw_report_doctor_text(const struct mw_doctor *doctor, struct mw_text_look look,
                                     struct mw_sink sink, struct mw_error *err) MW_MUST_CHECK;

#endif
