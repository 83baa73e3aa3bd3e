/* base/units.h: numbers for people. One unit a screen: pick it from the largest figure, then print
 * every figure in it. */
#ifndef MW_BASE_UNITS_H
#define MW_BASE_UNITS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct mw_unit {
    const char *name; /* "KiB", "MiB", "GiB" */
    uint64_t bytes;
    int decimals; /* that make a figure readable in this unit */
};

/* MiB below 10 GiB, KiB below 4 MiB, GiB above. */
struct mw_unit mw_unit_for(uint64_t largest_bytes);

/* "1,981.7": bytes in the unit, grouped; text must have 32 bytes. Returns text. */
char *mw_unit_format(char text[32], struct mw_unit unit, uint64_t bytes);
char *mw_unit_format_signed(char text[32], struct mw_unit unit, int64_t bytes);

/* "42,231". Returns text. */
char *mw_count_format(char text[32], uint64_t count);

/* "1981.7 MiB" with a unit of its own, for single figures. Returns text. */
char *mw_bytes_format(char text[32], uint64_t bytes);

/* "5d00h", "6h02m", "14m", "37s". Returns text. */
char *mw_duration_format(char text[32], double seconds);

/* "128", "128K", "31.4M", "2GiB" → bytes; "90s", "10m", "1h", "250ms" → nanoseconds.
 * MW_INVALID when the text is neither. */
enum mw_status mw_bytes_parse(const char *text, uint64_t *bytes_out) MW_MUST_CHECK;
enum mw_status mw_duration_parse(const char *text, uint64_t *ns_out) MW_MUST_CHECK;

#endif
