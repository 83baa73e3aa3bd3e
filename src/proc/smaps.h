/* proc/smaps.h: the text of /proc/PID/smaps or /proc/PID/maps → mappings. */
#ifndef MW_PROC_SMAPS_H
#define MW_PROC_SMAPS_H

#include "base/finding.h"
#include "base/str.h"
#include "proc/mapping.h"

/* Parse a text of any kernel since 2.6.14, 32 or 64 bit, also with CRLF, leading blanks and an
 * smaps_rollup's single header. Lines that are not understood are counted as findings
 * ("smaps-line"), so are mappings that lack counters which the first one has ("smaps-incomplete"),
 * overlaps, which are cut ("smaps-order"), and a text that ends within a mapping
 * ("smaps-truncated"). Counters behind a header that is not understood are nobody's; those of newer
 * kernels are passed over. MW_INVALID when not a single mapping was found, MW_LIMIT, MW_NOMEM.
 * Linear; one pass. */
enum mw_status mw_smaps_parse(const char *text, size_t length, struct mw_mapping_list *list_out,
                              struct mw_findings *findings, struct mw_error *err) MW_MUST_CHECK;

/* The same for the text behind a descriptor, read to its end with a window of 64 KiB (more only for
 * a longer line). *length_out: the bytes read, also on failure. MW_LIMIT for a text of more than
 * MW_LIMIT_PROC_TEXT_BYTES, too; what read(2) says (MW_PERM, MW_GONE, MW_OS). */
enum mw_status mw_smaps_read(int fd, struct mw_mapping_list *list_out, struct mw_findings *findings,
                             uint64_t *length_out, struct mw_error *err) MW_MUST_CHECK;

/* Append a mapping as smaps has it: what was parsed, in kB. The flag that is ours (MW_VM_FORKED) is
 * not written. */
void mw_smaps_format(const struct mw_mapping *map, struct mw_str *text);

/* Does this text look like maps or smaps? Decides on the first line alone. */
bool mw_smaps_recognize(const char *text, size_t length);

#endif
