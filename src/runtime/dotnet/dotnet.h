/* runtime/dotnet/dotnet.h: the probe's entry in the registry. */
#ifndef MW_RUNTIME_DOTNET_DOTNET_H
#define MW_RUNTIME_DOTNET_DOTNET_H

#include "runtime/probe.h"

extern const struct mw_runtime_probe mw_runtime_dotnet;

#endif
