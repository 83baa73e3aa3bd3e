/* proc/rollup.h: the sums of a process's memory, without its mappings. */
#ifndef MW_PROC_ROLLUP_H
#define MW_PROC_ROLLUP_H

#include "base/error.h"

#include <stdint.h>

/* Bytes; MW_UNKNOWN for what this kernel does not tell. */
struct mw_rollup {
    uint64_t rss, pss;
    uint64_t pss_anon, pss_file, pss_shmem; /* since Linux 5.9; pss is their sum */
    uint64_t shared_clean, shared_dirty, private_clean, private_dirty;
    uint64_t anonymous, anon_huge, lazy_free;
    uint64_t ksm; /* merged by the kernel, since Linux 6.8 */
    uint64_t swap, swap_pss;
};

void mw_rollup_init(struct mw_rollup *rollup);

/* Sums every "Key: N kB" line: a text of smaps_rollup, or of smaps. Linear; trusts nothing. */
void mw_rollup_parse(struct mw_rollup *rollup, const char *text);

/* Of pid below proc_fd (an open /proc): smaps_rollup, before Linux 4.14 smaps. MW_GONE (also: no
 * memory of its own), MW_PERM, MW_NOMEM. The kernel walks the page tables: about 10 ms a GiB. */
enum mw_status mw_rollup_load(int proc_fd, int32_t pid, struct mw_rollup *rollup_out,
                              struct mw_error *err) MW_MUST_CHECK;

#endif
