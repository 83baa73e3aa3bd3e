/* proc/cgroup_file.h: private to the files of the cgroup reader: the files in a group's directory.
 */
#ifndef MW_PROC_CGROUP_FILE_H
#define MW_PROC_CGROUP_FILE_H

#include <stdint.h>

/* The text of `file` in the group at `path` below root_fd, for the caller to free; NULL when it
 * cannot be read. */
char *mw_cgroup_file_read(int root_fd, const char *path, const char *file);

/* A file that holds one number. MW_UNKNOWN: "max", v1's huge number, or no such file. */
uint64_t mw_cgroup_number_read(int root_fd, const char *path, const char *file);

/* The number behind "key " at the start of a line; MW_UNKNOWN likewise. */
uint64_t mw_cgroup_stat_value(const char *text, const char *key);

#endif
