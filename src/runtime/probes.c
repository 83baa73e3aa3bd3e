/* runtime/probes.c: the registry, and running all of it. Several runtimes may share a process: a
 * JVM with an embedded CPython, Node in a .NET host. */
#include "runtime/probe.h"

#include "runtime/cpython/cpython.h"
#include "runtime/dotnet/dotnet.h"
#include "runtime/go/go.h"
#include "runtime/jvm/jvm.h"
#include "runtime/node/node.h"

#include <assert.h>

const struct mw_runtime_probe *const mw_runtime_probes[] = {
    &mw_runtime_dotnet,  &mw_runtime_jvm, &mw_runtime_node,
    &mw_runtime_cpython, &mw_runtime_go,  NULL,
};

enum mw_status mw_runtimes_probe(struct mw_image *image, struct mw_claims *claims,
                                 struct mw_runtime *runtimes_out, size_t *count_out,
                                 struct mw_findings *findings, struct mw_error *err)
{
    static_assert(sizeof mw_runtime_probes / sizeof *mw_runtime_probes - 1 <= MW_RUNTIMES_MAX,
                  "more probes than places");
    size_t count = 0;
    for (size_t i = 0; mw_runtime_probes[i]; i++) {
        struct mw_runtime runtime = {
            .kind = mw_runtime_probes[i]->kind,
            .heap_used = MW_UNKNOWN,
            .heap_committed = MW_UNKNOWN,
            .heap_rss = MW_UNKNOWN,
            .native_reported = MW_UNKNOWN,
            .direct = MW_UNKNOWN,
            .heap_nursery = MW_UNKNOWN,
        };
        enum mw_status status = mw_runtime_probes[i]->probe(image, claims, &runtime, findings, err);
        if (status == MW_NOT_FOUND)
            continue;
        if (status != MW_OK) {
            mw_error_prefix(err, "%s", mw_runtime_probes[i]->kind);
            return status;
        }
        runtimes_out[count++] = runtime;
    }
    *count_out = count;
    return MW_OK;
}
