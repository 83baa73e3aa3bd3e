/* tests/support/child.h: a process of our own to look at: it sets its memory up, tells us where,
 * and then waits until it is killed. */
#ifndef MW_TESTS_CHILD_H
#define MW_TESTS_CHILD_H

#include <stddef.h>
#include <sys/types.h>

struct child {
    pid_t pid;
};

/* Fork; in the child run prepare(report) and pause. `report` is memory shared with us, length
 * bytes, which prepare fills; it is returned. The child dies with us. */
void *child_start(struct child *child, void (*prepare)(void *report), size_t length);

/* Kill and reap it, and release the report. */
void child_stop(struct child *child, void *report, size_t length);

#endif
