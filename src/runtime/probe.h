/* runtime/probe.h: managed runtimes, recognised from the mappings alone.
 *
 * A probe names the runtime, claims the mappings that its documented shapes tell (heaps, code,
 * metadata, arenas, guards) and fills what it can know without walking a heap; the rest stays
 * MW_UNKNOWN. Walkers of managed heaps come later behind the same registry.
 *
 * To add a runtime: a folder runtime/<name>/ with one const struct mw_runtime_probe, listed in
 * probes.c; docs/formats/<name>.md; a target in tests/real. */
#ifndef MW_RUNTIME_PROBE_H
#define MW_RUNTIME_PROBE_H

#include "base/finding.h"
#include "image/image.h"
#include "maps/claims.h"

struct mw_runtime {
    const char *kind; /* "dotnet", "jvm", "cpython", "go", "node" */
    char version[64]; /* "" unknown */
    uint64_t heap_used, heap_committed, heap_rss, native_reported, direct; /* or MW_UNKNOWN */
    uint64_t heap_nursery; /* room for objects made since heap_used was told; or MW_UNKNOWN */
    mw_addr heap_start, heap_end; /* 0: not one range */
};

struct mw_runtime_probe {
    const char *kind;
    /* MW_NOT_FOUND when this runtime is not in the image. May read memory only when
     * MW_CAN_READ is set; must work without. */
    enum mw_status (*probe)(struct mw_image *image, struct mw_claims *claims,
                            struct mw_runtime *runtime_out, struct mw_findings *findings,
                            struct mw_error *err);
};

extern const struct mw_runtime_probe *const mw_runtime_probes[]; /* NULL-terminated */

enum { MW_RUNTIMES_MAX = 8 };

/* Run all probes. runtimes_out has MW_RUNTIMES_MAX places. */
enum mw_status mw_runtimes_probe(struct mw_image *image, struct mw_claims *claims,
                                 struct mw_runtime *runtimes_out, size_t *count_out,
                                 struct mw_findings *findings, struct mw_error *err) MW_MUST_CHECK;

#endif
