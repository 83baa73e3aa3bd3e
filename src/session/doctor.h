/* session/doctor.h: what this machine permits, what denies the rest, and the ways out.
 *
 * Three steps that are tested apart: facts are read from /proc, each access is tried, and a pure
 * function names what denies an access that failed. Nothing is paused: ptrace is tried by a child
 * that ends at once, which detaches without the target ever stopping. */
#ifndef MW_SESSION_DOCTOR_H
#define MW_SESSION_DOCTOR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mw_doctor_access {
    MW_ACCESS_SMAPS,
    MW_ACCESS_MEM,
    MW_ACCESS_VM_READV,
    MW_ACCESS_PTRACE,
    MW_ACCESS_PAGEMAP,
    MW_ACCESS_PAGEMAP_SCAN,
    MW_ACCESS_PFN,
    MW_ACCESS_ENVIRON,
    MW_ACCESS_CGROUP,
    /* processes of this user that memwhy did not start, and those of other users; by rule, when no
     * pid was given */
    MW_ACCESS_OTHERS,
    MW_ACCESS_OTHER_USERS,
    MW_ACCESS_COUNT,
};

struct mw_doctor_check {
    enum mw_doctor_access access;
    bool allowed;
    int os_errno; /* 0 when allowed or when no system call failed */
};

/* What decides. Unknown numbers are -1, unknown texts "". */
struct mw_doctor_facts {
    char kernel[64];
    /* memwhy itself */
    uint32_t euid;
    uint64_t cap_eff;
    int seccomp; /* 0 none, 1 strict, 2 filter */
    int yama;    /* ptrace_scope; -1: Yama is not there */
    bool initial_userns, in_container, in_kubernetes;
    char label[128]; /* AppArmor or SELinux */
    /* the target; has_target is false when a child of memwhy's own was tried */
    bool has_target;
    int32_t pid, tracer_pid;
    uint32_t target_uid, target_euid;
    int target_seccomp;
    bool not_dumpable; /* its /proc files belong to root though it does not run as root */
    int same_userns;   /* 1, 0, -1 unknown */
    char target_label[128];
};

enum { MW_DOCTOR_BLOCKERS_MAX = 6, MW_DOCTOR_WAYS_MAX = 7 };

struct mw_doctor_blocker {
    const char *id; /* "yama", "capability", "uid", "dumpable", "traced", "seccomp", "userns",
                       "lsm", "kernel", "unknown" */
    char why[240];
    const char *ways_out[MW_DOCTOR_WAYS_MAX]; /* ended by NULL */
};

struct mw_doctor {
    struct mw_doctor_facts facts;
    struct mw_doctor_check checks[MW_ACCESS_COUNT];
    size_t check_count;
};

/* "smaps", and what memwhy cannot do without it. `is_needed` is false where there is a fallback
 * that costs only time or detail. */
const char *mw_doctor_access_name(enum mw_doctor_access access);
const char *mw_doctor_access_purpose(enum mw_doctor_access access);
bool mw_doctor_access_is_needed(enum mw_doctor_access access);

/* Facts about memwhy (below proc_fd, an open /proc) and process pid (0: none). MW_GONE when pid is
 * not there. */
enum mw_status mw_doctor_facts_load(int proc_fd, int32_t pid, struct mw_doctor_facts *facts_out,
                                    struct mw_error *err) MW_MUST_CHECK;

/* Try every access on pid, or on a child that is made and ended here (0). */
enum mw_status mw_doctor_run(int proc_fd, int32_t pid, const char *cgroup_root,
                             struct mw_doctor *doctor_out, struct mw_error *err) MW_MUST_CHECK;

/* What denies a failed access, the surest first; pure. Returns their number, at least 1. */
size_t mw_doctor_explain(const struct mw_doctor_facts *facts, const struct mw_doctor_check *check,
                         struct mw_doctor_blocker blockers_out[MW_DOCTOR_BLOCKERS_MAX]);

static inline bool mw_doctor_has_cap(const struct mw_doctor_facts *facts, unsigned capability)
{
    return facts->cap_eff >> capability & 1;
}
enum { MW_CAP_SYS_PTRACE = 19, MW_CAP_SYS_ADMIN = 21 };

#endif
