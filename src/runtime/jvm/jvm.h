/* runtime/jvm/jvm.h: the probe's entry in the registry. */
#ifndef MW_RUNTIME_JVM_JVM_H
#define MW_RUNTIME_JVM_JVM_H

#include "runtime/probe.h"

extern const struct mw_runtime_probe mw_runtime_jvm;

#endif
