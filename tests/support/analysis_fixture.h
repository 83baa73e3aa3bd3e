/* tests/support/analysis_fixture.h: hand-filled analyses with the numbers of the design's screens,
 * so that emitters are tested without a target. */
#ifndef MW_TESTS_ANALYSIS_FIXTURE_H
#define MW_TESTS_ANALYSIS_FIXTURE_H

#include "report/sink.h"
#include "session/session.h"

typedef void fixture_fill(struct mw_analysis *analysis);

/* Incident 3: Icinga 2 has freed 1.9 GiB and glibc keeps it. */
void fixture_icinga(struct mw_analysis *analysis);
/* Incident 4: a JVM with 767 glibc arenas on 96 CPUs. */
void fixture_jvm(struct mw_analysis *analysis);
/* A core without residency, with hostile strings wherever a target can put one. */
void fixture_hostile(struct mw_analysis *analysis);
/* Memory that may not be read: mapping level, partial. */
void fixture_forbidden(struct mw_analysis *analysis);

void fixture_release(struct mw_analysis *analysis);

/* A sink that keeps what it gets. */
struct fixture_output {
    char *text; /* terminated */
    size_t length, room, calls;
    size_t fail_after_bytes; /* then EPIPE; 0: never */
};
struct mw_sink fixture_sink(struct fixture_output *output);
void fixture_output_release(struct fixture_output *output);

#endif
