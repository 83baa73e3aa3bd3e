/* runtime/go/go.h: the probe's entry in the registry. */
#ifndef MW_RUNTIME_GO_GO_H
#define MW_RUNTIME_GO_GO_H

#include "runtime/probe.h"

extern const struct mw_runtime_probe mw_runtime_go;

#endif
