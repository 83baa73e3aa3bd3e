/* effort.c: CPU time, which other programs of the machine do not use up. */
#include "effort.h"

#include <stddef.h>
#include <time.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

/* Counting every edge makes a fuzzer's build many times slower. */
static const double SECONDS_MAX = __has_feature(coverage_sanitizer) ? 40.0 : 8.0;

double effort_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *effort_wrong(double began)
{
    return effort_now() - began > SECONDS_MAX ? "it takes too much CPU time" : NULL;
}
