/* proc/number.h: decimal numbers in the kernel's texts. */
#ifndef MW_PROC_NUMBER_H
#define MW_PROC_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Digits at *at after blanks; steps over them. False when there are none or they overflow: *at and
 * *value_out are then as they were. */
bool mw_number_take(const char **at, uint64_t *value_out);

/* "  123 kB" in bytes. False likewise. */
bool mw_number_kilobytes(const char *text, uint64_t *bytes_out);

#endif
