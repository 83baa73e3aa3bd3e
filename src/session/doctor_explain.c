/* session/doctor_explain.c: from an access that failed to what denies it and the ways out.
 *
 * Follows the kernel's own order in ptrace_may_access(): credentials, dumpable, then the security
 * modules (Yama, AppArmor, SELinux); a seccomp filter stands before all of them, at the system
 * call. References: Linux 6.12 kernel/ptrace.c, security/yama/yama_lsm.c; ptrace(2), section
 * "Ptrace access mode checking". */
#include "session/doctor.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct list {
    struct mw_doctor_blocker *items;
    size_t count;
};

static struct mw_doctor_blocker *blocker_add(struct list *list, const char *id, const char *fmt,
                                             ...) MW_PRINTF(3, 4);
static struct mw_doctor_blocker *blocker_add(struct list *list, const char *id, const char *fmt,
                                             ...)
{
    assert(list->count < MW_DOCTOR_BLOCKERS_MAX);
    struct mw_doctor_blocker *blocker = &list->items[list->count++];
    *blocker = (struct mw_doctor_blocker){.id = id};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(blocker->why, sizeof blocker->why, fmt, ap);
    va_end(ap);
    return blocker;
}

static void way_add(struct mw_doctor_blocker *blocker, const char *way)
{
    for (size_t i = 0; i + 1 < MW_DOCTOR_WAYS_MAX; i++)
        if (!blocker->ways_out[i]) {
            blocker->ways_out[i] = way;
            return;
        }
    assert(false && "room for every way out");
}

static const char docker_cap[] = "Docker: docker run --cap-add SYS_PTRACE …, or from outside: "
                                 "docker run --rm -it --pid container:NAME --cap-add SYS_PTRACE …";
static const char kubectl_debug[] = "Kubernetes: kubectl debug -it POD --target=CONTAINER "
                                    "--profile=sysadmin --image=…";
static const char pod_cap[] = "Kubernetes, in the pod's spec: securityContext: {capabilities: "
                              "{add: [SYS_PTRACE]}}";

/* How to get CAP_SYS_PTRACE where memwhy runs. */
static void ways_to_capability(const struct mw_doctor_facts *facts,
                               struct mw_doctor_blocker *blocker)
{
    if (facts->euid != 0) {
        way_add(blocker, "sudo memwhy PID");
        way_add(blocker, "setcap cap_sys_ptrace+ep FILE, on memwhy's own file, as root");
    }
    if (facts->in_container || facts->euid == 0) {
        if (!facts->in_kubernetes)
            way_add(blocker, docker_cap);
        way_add(blocker, kubectl_debug);
        way_add(blocker, pod_cap);
    }
}

static void explain_traced(const struct mw_doctor_facts *facts, struct list *list)
{
    if (!facts->has_target || facts->tracer_pid <= 0)
        return;
    struct mw_doctor_blocker *blocker =
        blocker_add(list, "traced",
                    "process %d traces it (a debugger, strace, another memwhy); a "
                    "process has one tracer at most",
                    facts->tracer_pid);
    way_add(blocker, "end or detach that tracer, then try again");
}

/* A system call that fails though nothing else can deny it, while a filter is installed. */
static void explain_seccomp(const struct mw_doctor_facts *facts,
                            const struct mw_doctor_check *check, struct list *list)
{
    bool by_call = check->access == MW_ACCESS_VM_READV || check->access == MW_ACCESS_PTRACE;
    bool rights = !facts->has_target || mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE);
    if (facts->seccomp != 2 || !by_call || (check->os_errno != ENOSYS && !rights))
        return;
    struct mw_doctor_blocker *blocker =
        blocker_add(list, "seccomp", "a seccomp filter on memwhy itself refuses the system call");
    way_add(blocker, "Docker: docker run --security-opt seccomp=unconfined … (--cap-add SYS_PTRACE "
                     "is enough with the default profile)");
    way_add(blocker, "Kubernetes: securityContext: {seccompProfile: {type: Unconfined}}");
    way_add(blocker, kubectl_debug);
    way_add(blocker, "systemd: SystemCallFilter= without @debug denies it: run memwhy outside the "
                     "unit");
}

static void explain_userns(const struct mw_doctor_facts *facts, struct list *list)
{
    bool differs = facts->has_target && facts->same_userns == 0;
    if (!differs && (facts->initial_userns || facts->same_userns != -1))
        return;
    struct mw_doctor_blocker *blocker = blocker_add(
        list, "userns", "memwhy runs in %suser namespace: its capabilities count only there",
        differs ? "another " : "a child ");
    way_add(blocker, "run memwhy on the host, as root");
    way_add(blocker, "join the target's namespaces: nsenter --target PID --user --pid --mount …");
}

static void explain_uid(const struct mw_doctor_facts *facts, struct list *list)
{
    if (!facts->has_target || mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE) ||
        (facts->target_uid == facts->euid && facts->target_euid == facts->euid))
        return;
    struct mw_doctor_blocker *blocker = blocker_add(
        list, "uid", "the process runs as uid %u, memwhy as %u", facts->target_euid, facts->euid);
    ways_to_capability(facts, blocker);
    if (facts->euid != 0)
        way_add(blocker, "sudo -u USER memwhy PID, with the process's own user");
}

static void explain_dumpable(const struct mw_doctor_facts *facts, struct list *list)
{
    if (!facts->not_dumpable || mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE))
        return;
    struct mw_doctor_blocker *blocker =
        blocker_add(list, "dumpable",
                    "the process is not dumpable: it changed its user, has file "
                    "capabilities, or called prctl(PR_SET_DUMPABLE, 0)");
    ways_to_capability(facts, blocker);
}

static void explain_yama(const struct mw_doctor_facts *facts, struct list *list)
{
    static const char *const meanings[] = {
        "", "only ancestors may look into a process, or CAP_SYS_PTRACE", "only CAP_SYS_PTRACE may",
        "nobody may, until the machine is booted anew"};
    if (facts->yama < 1 || facts->yama > 3 ||
        (facts->yama < 3 && mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE)))
        return;
    struct mw_doctor_blocker *blocker = blocker_add(
        list, "yama", "kernel.yama.ptrace_scope is %d: %s", facts->yama, meanings[facts->yama]);
    if (facts->yama == 3) {
        way_add(blocker, "remove the setting below /etc/sysctl.d and reboot");
        way_add(blocker, "memwhy --no-heap PID needs none of it; a core that the kernel wrote too");
        return;
    }
    ways_to_capability(facts, blocker);
    if (facts->yama == 1 || facts->yama == 2)
        way_add(blocker, "sudo sysctl kernel.yama.ptrace_scope=0, for the whole machine");
}

/* Not confined, or no label at all. */
static bool is_unconfined(const char *label)
{
    return label[0] == '\0' || strncmp(label, "unconfined", 10) == 0 ||
           strstr(label, ":unconfined_t:") || strcmp(label, "kernel") == 0;
}

static void explain_lsm(const struct mw_doctor_facts *facts, struct list *list)
{
    bool ours = !is_unconfined(facts->label);
    bool theirs = facts->has_target && !is_unconfined(facts->target_label) &&
                  strcmp(facts->label, facts->target_label) != 0;
    if (!ours && !theirs)
        return;
    struct mw_doctor_blocker *blocker =
        blocker_add(list, "lsm",
                    "a security module may deny it: memwhy is '%.60s', the process "
                    "'%.60s'",
                    facts->label, facts->has_target ? facts->target_label : "?");
    bool is_selinux = strchr(facts->label, ':') != NULL;
    if (is_selinux) {
        way_add(blocker, "setsebool deny_ptrace off; see ausearch -m avc -ts recent");
        way_add(blocker, "Docker: docker run --security-opt label=disable …");
    } else {
        way_add(blocker, "Docker: docker run --security-opt apparmor=unconfined …");
        way_add(blocker, "Kubernetes: securityContext: {appArmorProfile: {type: Unconfined}}");
    }
    way_add(blocker, kubectl_debug);
}

static void explain_capability(const struct mw_doctor_facts *facts, struct list *list)
{
    if (facts->euid != 0 || mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE))
        return;
    struct mw_doctor_blocker *blocker = blocker_add(
        list, "capability", "memwhy is root without CAP_SYS_PTRACE, as in most containers");
    ways_to_capability(facts, blocker);
}

/* Accesses that hang on something else than the ptrace check. */
static bool explain_special(const struct mw_doctor_facts *facts,
                            const struct mw_doctor_check *check, struct list *list)
{
    struct mw_doctor_blocker *blocker;
    switch (check->access) {
    case MW_ACCESS_PFN:
        blocker = blocker_add(list, "capability",
                              "page frame numbers need CAP_SYS_ADMIN; memwhy does without");
        way_add(blocker, "not needed");
        return true;
    case MW_ACCESS_PAGEMAP_SCAN:
        if (check->os_errno != ENOTTY && check->os_errno != EINVAL && check->os_errno != ENOSYS)
            return false;
        blocker = blocker_add(list, "kernel", "kernel %s has no PAGEMAP_SCAN (6.7 and later do)",
                              facts->kernel);
        way_add(blocker, "not needed: pagemap is read instead, a few times slower");
        return true;
    case MW_ACCESS_OTHER_USERS:
        if (mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE))
            return false;
        blocker = blocker_add(list, "capability",
                              "processes of other users need CAP_SYS_PTRACE in memwhy");
        ways_to_capability(facts, blocker);
        return true;
    case MW_ACCESS_CGROUP:
        blocker =
            blocker_add(list, "unknown", "no memory cgroup is found, or its files cannot be read");
        way_add(blocker, "in a container, mount /sys/fs/cgroup read-only");
        return true;
    default:
        return false;
    }
}

size_t mw_doctor_explain(const struct mw_doctor_facts *facts, const struct mw_doctor_check *check,
                         struct mw_doctor_blocker blockers_out[MW_DOCTOR_BLOCKERS_MAX])
{
    struct list list = {blockers_out, 0};
    assert(!check->allowed);
    if (explain_special(facts, check, &list))
        return list.count;
    if (check->access == MW_ACCESS_PTRACE)
        explain_traced(facts, &list);
    if (list.count == 0)
        explain_seccomp(facts, check, &list);
    if (list.count == 0) {
        explain_capability(facts, &list);
        if (list.count == 0)
            explain_uid(facts, &list);
        explain_dumpable(facts, &list);
        explain_yama(facts, &list);
        explain_userns(facts, &list);
        explain_lsm(facts, &list);
    }
    if (list.count == 0) {
        struct mw_doctor_blocker *blocker =
            blocker_add(&list, "unknown", "nothing that memwhy knows of denies it: %s",
                        check->os_errno ? strerror(check->os_errno) : "no answer");
        way_add(blocker, "dmesg | tail may name a security module");
    }
    return list.count;
}
