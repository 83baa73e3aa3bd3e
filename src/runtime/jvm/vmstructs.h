/* runtime/jvm/vmstructs.h: HotSpot's own description of its data, exported for its debugger: the
 * table gHotSpotVMStructs in libjvm.so. */
#ifndef MW_RUNTIME_JVM_VMSTRUCTS_H
#define MW_RUNTIME_JVM_VMSTRUCTS_H

#include "image/image.h"

/* One field that is looked for; the rest is filled by mw_vmstructs_find(). */
struct mw_vmstruct_field {
    const char *type, *field;
    bool is_found, is_static;
    uint64_t offset; /* in the object; of a static field: its address */
};

/* Look up count fields in the module at base, in one pass over the table. Fields that are not there
 * stay is_found = false. MW_NOT_FOUND without a table, MW_FAULT, MW_CORRUPT. About 1,000 small
 * reads. */
enum mw_status mw_vmstructs_find(struct mw_image *image, mw_addr base,
                                 struct mw_vmstruct_field *fields, size_t count) MW_MUST_CHECK;

#endif
