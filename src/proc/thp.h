/* proc/thp.h: the system's policy for transparent huge pages. */
#ifndef MW_PROC_THP_H
#define MW_PROC_THP_H

#include <stdbool.h>
#include <stdint.h>

enum mw_thp_enabled {
    MW_THP_UNKNOWN,
    MW_THP_ALWAYS,
    MW_THP_MADVISE, /* where the program asks for them */
    MW_THP_NEVER,
};

struct mw_thp {
    enum mw_thp_enabled enabled;
    /* How many of its small pages khugepaged fills up to make a huge one, and above how many
     * zero-filled ones the kernel splits one again (below). UINT64_MAX unknown. */
    uint64_t max_ptes_none;
    bool splits_underused; /* under memory pressure, Linux 6.13 and later: shrink_underused is 1 */
};

/* Read the policy below root, NULL: /sys/kernel/mm/transparent_hugepage. What cannot be read stays
 * unknown. Three small files. */
void mw_thp_load(const char *root, struct mw_thp *thp_out);

#endif
