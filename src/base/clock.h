/* base/clock.h: time. Monotonic nanoseconds for pauses and ages, RFC 3339 for reports. */
#ifndef MW_BASE_CLOCK_H
#define MW_BASE_CLOCK_H

#include <stdint.h>

uint64_t mw_clock_monotonic_ns(void);
uint64_t mw_clock_boottime_ns(void); /* counts suspend, like a process's start time */
int64_t mw_clock_realtime_s(void);

/* "2026-11-30T19:17:54Z" of Unix seconds, UTC. text must have 32 bytes. Returns text. */
char *mw_clock_rfc3339(char text[32], int64_t unix_seconds);

#endif
