/* report/maps.h: what the two forms of `memwhy maps` share. */
#ifndef MW_REPORT_MAPS_H
#define MW_REPORT_MAPS_H

#include "session/session.h"

/* "rw-p" */
void mw_maps_perms_format(char text[5], uint32_t perms);

/* The mapping that a piece lies in. */
const struct mw_mapping *mw_maps_region(const struct mw_analysis *analysis,
                                        const struct mw_account_piece *piece);

#endif
