/* effort.h: does an input cost more CPU time than any may? For fuzzers: a hang that ends. */
#ifndef TEST_EFFORT_H
#define TEST_EFFORT_H

/* CPU seconds of this process so far. */
double effort_now(void);

/* What is wrong with having used that many more since `began`, or NULL. The bound is far above what
 * the dearest sound input takes with sanitizers on a busy machine: about a second. */
const char *effort_wrong(double began);

#endif
