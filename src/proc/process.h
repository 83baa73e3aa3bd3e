/* proc/process.h: what /proc says of a process beside its mappings. Numbers that the source does
 * not have are MW_UNKNOWN, printed as null. Sizes in bytes. */
#ifndef MW_PROC_PROCESS_H
#define MW_PROC_PROCESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MW_UNKNOWN UINT64_MAX

struct mw_setting {
    char *name, *value;
};

struct mw_process {
    int32_t pid;    /* 0 unknown */
    int32_t ns_pid; /* in its own pid namespace */
    int32_t ppid;
    int32_t tracer_pid;
    char comm[64];
    char *exe;     /* path as the target sees it, NULL unknown */
    char *command; /* arguments joined by blanks, escaped, shortened; NULL unknown */
    char state;    /* R S D T t Z X, 0 unknown */
    uint32_t uid, euid;

    uint64_t thread_count;
    uint64_t cpus_online;  /* of the machine, as glibc's get_nprocs() sees it */
    uint64_t cpus_allowed; /* affinity mask */
    int64_t started_at;    /* Unix seconds; 0 unknown */
    double uptime_seconds; /* < 0 unknown */

    /* /proc/PID/status */
    uint64_t vm_size, vm_peak, vm_rss, vm_hwm, rss_anon, rss_file, rss_shmem;
    uint64_t vm_swap, vm_lck, vm_pin, vm_pte, vm_data, hugetlb;
    bool user_shadow_stack; /* x86_Thread_features: shstk */
    int seccomp;            /* 0 none 1 strict 2 filter, -1 unknown */

    uint64_t minflt, majflt;        /* /proc/PID/stat */
    uint64_t limit_stack, limit_as; /* rlimits, MW_UNKNOWN: unlimited or unknown */
    uint64_t max_map_count;

    /* Environment variables that set an allocator or a runtime, nothing else. */
    struct mw_setting *settings;
    size_t setting_count;
    bool has_settings; /* environ could be read */

    bool other_mount_namespace, other_pid_namespace;
};

/* Value of a setting, or NULL. */
const char *mw_process_setting(const struct mw_process *process, const char *name);

void mw_process_init(struct mw_process *process); /* everything unknown */
void mw_process_deinit(struct mw_process *process);

/* /proc/PID/status text → process. Unknown lines are skipped; never fails. */
void mw_process_parse_status(struct mw_process *process, const char *text);

/* /proc/PID/environ bytes → settings. MW_NOMEM. */
enum mw_status mw_process_parse_environ(struct mw_process *process, const char *bytes,
                                        size_t length) MW_MUST_CHECK;

/* Everything above for pid below the directory proc_fd (an open /proc). What cannot be read stays
 * unknown; MW_GONE only when the process is not there, MW_PERM when even its status is hidden. */
enum mw_status mw_process_load(int proc_fd, int32_t pid, struct mw_process *process_out,
                               struct mw_error *err) MW_MUST_CHECK;

#endif
