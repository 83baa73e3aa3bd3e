/* runtime/cpython/cpython.h: the probe's entry in the registry. */
#ifndef MW_RUNTIME_CPYTHON_CPYTHON_H
#define MW_RUNTIME_CPYTHON_CPYTHON_H

#include "runtime/probe.h"

extern const struct mw_runtime_probe mw_runtime_cpython;

#endif
