/* base/clock.c: reading the system's clocks. */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec now = {0};
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mw_clock_monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t mw_clock_boottime_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

int64_t mw_clock_realtime_s(void)
{
    return (int64_t)time(0);
}

char *mw_clock_rfc3339(char text[32], int64_t unix_seconds)
{
    time_t seconds = (time_t)unix_seconds;
    struct tm utc;
    text[0] = '\0';
    if (gmtime_r(&seconds, &utc))
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}
