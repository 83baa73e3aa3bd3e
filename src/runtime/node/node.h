/* runtime/node/node.h: the probe's entry in the registry. */
#ifndef MW_RUNTIME_NODE_NODE_H
#define MW_RUNTIME_NODE_NODE_H

#include "runtime/probe.h"

extern const struct mw_runtime_probe mw_runtime_node;

#endif
