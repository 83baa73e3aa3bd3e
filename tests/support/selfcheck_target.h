/* tests/support/selfcheck_target.h: starting and watching the fixture that checks itself
 * (tests/fixtures/selfcheck.c), and killing memwhy while it acts on it. */
#ifndef MW_TESTS_SELFCHECK_TARGET_H
#define MW_TESTS_SELFCHECK_TARGET_H

#include "../fixtures/selfcheck.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct target {
    pid_t pid;
    int pipe_fd; /* our end */
    uint64_t number;
    struct shared *shared;
};

/* Start it in a mode and wait until it is in its main loop. The fixture is looked for in
 * MEMWHY_BUILD, else beside this program. It dies with us. */
struct target target_start(const char *mode);
void target_stop(struct target *target);

/* Give it a number on its pipe and wake its futex; connect to it; send it signal `number`. */
void target_poke(struct target *target);
void target_connect(const struct target *target);
void target_signal(const struct target *target, int number);

/* Wait for an expression to become true; false after three seconds. */
#define wait_until(expression)                                                                     \
    ({                                                                                             \
        uint64_t until_ = now_ns() + 3000000000ull;                                                \
        bool true_;                                                                                \
        while (!(true_ = (expression)) && now_ns() < until_)                                       \
            sleep_us(200);                                                                         \
        true_;                                                                                     \
    })
uint64_t now_ns(void);
void sleep_us(long us);

/* Is this line (or part of one) in /proc/PID/status? */
bool status_has(pid_t pid, const char *line);
/* The signals its first thread blocks. */
uint64_t target_mask(const struct target *target);

/* It has found nothing wrong. */
void assert_healthy(const struct target *target);

/* ---- killing ---- */

struct kill_mode {
    const char *name;
    bool by_number; /* progress needs a number on the pipe */
};
extern const struct kill_mode kill_modes[];
extern const unsigned kill_mode_count;

/* How long act(target) takes, in microseconds: the best of a few. */
long act_duration_us(struct target *target, void (*act)(struct target *));

/* Start a process that does act(target) for ever, and kill it within about three times duration_us,
 * at a random moment. */
void kill_at_random(struct target *target, void (*act)(struct target *), long duration_us,
                    unsigned *seed);

/* The same once, dying before or after (counted in turn) the step-th system call by which it
 * touches a target. False when it ended before that. */
bool kill_at_step(struct target *target, void (*act)(struct target *), int step);

/* After a kill: untraced, with the mask it had, makes progress, has found nothing wrong. */
void assert_survived(struct target *target, const struct kill_mode *mode, uint64_t mask, int round);

/* No system call has failed with EINTR unless a handler ran; epoll_wait may, where memwhy died
 * before it could prevent it. */
void assert_no_eintr(const struct target *target, const struct kill_mode *mode);

/* Number of kills that a test should make: MEMWHY_TEST_KILLS, default 200. */
int kills_wanted(void);

#endif
