/* tests/live/live_call_target.h: what the fixture and its test share, in one mapped file.
 *
 * The fixture counts what it did and what went wrong; the test looks on. Counters are written by
 * one side only. */
#ifndef MW_TESTS_LIVE_CALL_TARGET_H
#define MW_TESTS_LIVE_CALL_TARGET_H

#include <stdatomic.h>
#include <stdint.h>

struct shared {
    /* By the fixture. */
    _Atomic uint64_t ready;       /* 1: in its main loop */
    _Atomic uint64_t progress;    /* rounds of the main loop that ended as they should */
    _Atomic uint64_t errors;      /* a register, a result or a checksum was wrong */
    _Atomic uint64_t eintr;       /* system calls that failed with EINTR */
    _Atomic uint64_t eintr_alone; /* of those, without any handler having run */
    _Atomic uint64_t handled;     /* signals handled */
    _Atomic uint64_t order;       /* signals handled out of order or lost */
    _Atomic uint64_t called;      /* calls of probe() that have ended */
    _Atomic uint64_t probe_errors;
    _Atomic uint64_t thread_progress[16];
    uint64_t malloc_trim, probe, slow, lock, deep; /* addresses */
    char why[128];                /* the first error */

    /* By the test. */
    _Atomic uint32_t futex;
    _Atomic uint32_t stop;
};

#define PROBE_ARGS {0x1122334455667788u, 0xfedcba9876543210u, 0x0f1e2d3c4b5a6978u}

#endif
