/* runtime/jvm/perfdata.h: the counters that HotSpot keeps in shared memory for jstat. */
#ifndef MW_RUNTIME_JVM_PERFDATA_H
#define MW_RUNTIME_JVM_PERFDATA_H

#include "image/image.h"

struct mw_perfdata {
    char version[64];   /* java.property.java.vm.version, "" when absent */
    uint64_t heap_used; /* sum over spaces, as of the last collection; MW_UNKNOWN */
    uint64_t eden_size; /* where objects are made until the next one; MW_UNKNOWN: no such space */
};

/* Parse size bytes of a perf memory. MW_CORRUPT when it is none, or not accessible yet. Pure. */
enum mw_status mw_perfdata_parse(const uint8_t *bytes, size_t size,
                                 struct mw_perfdata *data_out) MW_MUST_CHECK;

/* Read it at address. */
enum mw_status mw_perfdata_read(struct mw_image *image, mw_addr address,
                                struct mw_perfdata *data_out) MW_MUST_CHECK;

#endif
