/* session/doctor_facts.c: what /proc says about memwhy's rights and about the target's guards.
 * What cannot be read stays unknown: a missing file is a fact, not an error. */
#include "session/doctor.h"

#include "base/io.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 64 << 10 };

/* A small file as text, "" when it cannot be read. The caller frees it. */
static char *text_load(int dir_fd, const char *path)
{
    char *text;
    size_t length;
    if (mw_io_read_file_at(dir_fd, path, TEXT_BYTES_MAX, &text, &length, NULL) != MW_OK)
        return NULL;
    return text;
}

/* The value of "Name:\t…" in a status text; NULL when it is not there. */
static const char *status_value(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1;
    }
    return NULL;
}

static unsigned long long status_number(const char *text, const char *name, int base,
                                        unsigned long long missing)
{
    const char *value = status_value(text, name);
    return value ? strtoull(value, NULL, base) : missing;
}

/* The security label without its newline and mode: "docker-default (enforce)". */
static void label_load(int proc_fd, const char *who, char label[128])
{
    static const char *const files[] = {"attr/apparmor/current", "attr/current"};
    label[0] = '\0';
    for (size_t i = 0; i < sizeof files / sizeof *files && !label[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", who, files[i]);
        char *text = text_load(proc_fd, path);
        if (!text)
            continue;
        text[strcspn(text, "\n")] = '\0';
        snprintf(label, 128, "%.100s", text);
        free(text);
    }
}

/* "0 0 4294967295": every id is itself. */
static bool is_initial_userns(int proc_fd)
{
    char *text = text_load(proc_fd, "self/uid_map");
    unsigned long long inside = 1, outside = 1, count = 0;
    if (text && sscanf(text, "%llu %llu %llu", &inside, &outside, &count) != 3)
        inside = 1;
    free(text);
    return inside == 0 && outside == 0 && count == 4294967295u;
}

static void self_load(int proc_fd, struct mw_doctor_facts *facts)
{
    struct utsname name;
    if (uname(&name) == 0)
        snprintf(facts->kernel, sizeof facts->kernel, "%.60s", name.release);
    facts->euid = geteuid();
    char *status = text_load(proc_fd, "self/status");
    if (status) {
        facts->cap_eff = status_number(status, "CapEff", 16, 0);
        facts->seccomp = (int)status_number(status, "Seccomp", 10, 0);
    }
    free(status);
    char *yama = text_load(proc_fd, "sys/kernel/yama/ptrace_scope");
    facts->yama = yama && isdigit((unsigned char)yama[0]) ? yama[0] - '0' : -1;
    free(yama);
    facts->initial_userns = is_initial_userns(proc_fd);
    facts->in_kubernetes = access("/var/run/secrets/kubernetes.io", F_OK) == 0;
    facts->in_container = facts->in_kubernetes || access("/.dockerenv", F_OK) == 0 ||
                          access("/run/.containerenv", F_OK) == 0;
    label_load(proc_fd, "self", facts->label);
}

/* 1 the same, 0 another, -1 when it may not be seen. */
static int same_userns(int proc_fd, const char *who)
{
    struct stat ours, theirs;
    char path[64];
    snprintf(path, sizeof path, "%s/ns/user", who);
    if (fstatat(proc_fd, "self/ns/user", &ours, 0) != 0 || fstatat(proc_fd, path, &theirs, 0) != 0)
        return -1;
    return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static enum mw_status target_load(int proc_fd, int32_t pid, struct mw_doctor_facts *facts,
                                  struct mw_error *err)
{
    char who[16], path[64];
    struct stat owner;
    snprintf(who, sizeof who, "%d", pid);
    snprintf(path, sizeof path, "%d/status", pid);
    char *status = text_load(proc_fd, path);
    if (!status) {
        (void)mw_fail(err, MW_GONE, "there is no process %d that can be seen from here", pid);
        mw_error_hint(
            err, "in a container: docker run --pid container:NAME, kubectl debug --target=NAME,"
                 " shareProcessNamespace: true");
        return MW_GONE;
    }
    facts->has_target = true;
    facts->pid = pid;
    facts->tracer_pid = (int32_t)status_number(status, "TracerPid", 10, 0);
    facts->target_seccomp = (int)status_number(status, "Seccomp", 10, 0);
    const char *uids = status_value(status, "Uid");
    unsigned uid = 0, euid = 0;
    if (uids && sscanf(uids, "%u %u", &uid, &euid) == 2) {
        facts->target_uid = uid;
        facts->target_euid = euid;
    }
    free(status);
    snprintf(path, sizeof path, "%d/environ", pid);
    facts->not_dumpable =
        fstatat(proc_fd, path, &owner, 0) == 0 && owner.st_uid == 0 && facts->target_euid != 0;
    facts->same_userns = same_userns(proc_fd, who);
    label_load(proc_fd, who, facts->target_label);
    return MW_OK;
}

enum mw_status mw_doctor_facts_load(int proc_fd, int32_t pid, struct mw_doctor_facts *facts_out,
                                    struct mw_error *err)
{
    struct mw_doctor_facts facts = {.same_userns = -1};
    self_load(proc_fd, &facts);
    if (pid > 0) {
        enum mw_status status = target_load(proc_fd, pid, &facts, err);
        if (status != MW_OK)
            return status;
    }
    *facts_out = facts;
    return MW_OK;
}
