/* session/doctor.c: try each access. What may kill the caller (a seccomp filter) or must leave no
 * trace (ptrace) is done by a child that ends at once: a tracer's end detaches it, and a target
 * that was seized and never stopped does not notice. */
#include "session/doctor.h"

#include "proc/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PAGEMAP_SCAN
/* Linux 6.7 include/uapi/linux/fs.h */
struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct page_region {
    uint64_t start, end, categories;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_PRESENT (1 << 3)
#endif

struct access_row {
    const char *name, *purpose;
    bool is_needed;
};

static const struct access_row access_rows[MW_ACCESS_COUNT] = {
    [MW_ACCESS_SMAPS] = {"smaps", "every mapping and what is resident in it", true},
    [MW_ACCESS_MEM] = {"mem", "heaps, parameters in force, blocks", true},
    [MW_ACCESS_VM_READV] = {"process_vm_readv", "the same, faster", false},
    [MW_ACCESS_PTRACE] = {"ptrace", "holding it still while its heap is read", true},
    [MW_ACCESS_PAGEMAP] = {"pagemap", "residency page by page, what trim would give back", true},
    [MW_ACCESS_PAGEMAP_SCAN] = {"PAGEMAP_SCAN", "the same, faster", false},
    [MW_ACCESS_PFN] = {"page frames", "nothing that memwhy does today", false},
    [MW_ACCESS_ENVIRON] = {"environ", "settings as the process was given them", false},
    [MW_ACCESS_CGROUP] = {"cgroup", "the container around it", false},
    [MW_ACCESS_OTHERS] = {"other processes", "of this user, which memwhy did not start", true},
    [MW_ACCESS_OTHER_USERS] = {"other users", "processes of other users", false},
};

const char *mw_doctor_access_name(enum mw_doctor_access access)
{
    return access_rows[access].name;
}

const char *mw_doctor_access_purpose(enum mw_doctor_access access)
{
    return access_rows[access].purpose;
}

bool mw_doctor_access_is_needed(enum mw_doctor_access access)
{
    return access_rows[access].is_needed;
}

struct attempt {
    int proc_fd;
    int32_t pid;
    uint64_t address; /* of a readable page of it; 0 none was found */
};

/* 0, or the errno of opening and reading one byte of a file of the process. */
static int try_file(const struct attempt *attempt, const char *name)
{
    char path[64], byte;
    snprintf(path, sizeof path, "%d/%s", attempt->pid, name);
    int fd = openat(attempt->proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int problem = read(fd, &byte, 1) < 0 ? errno : 0;
    close(fd);
    return problem;
}

/* The first readable page, from maps. */
static uint64_t find_page(const struct attempt *attempt)
{
    char path[64], text[16384];
    snprintf(path, sizeof path, "%d/maps", attempt->pid);
    int fd = openat(attempt->proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        unsigned long long start, end;
        char perms[5];
        if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) == 3 && perms[0] == 'r')
            return start;
    }
    return 0;
}

static int open_file(const struct attempt *attempt, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", attempt->pid, name);
    return openat(attempt->proc_fd, path, O_RDONLY | O_CLOEXEC);
}

static int try_mem(const struct attempt *attempt)
{
    char byte;
    int fd = open_file(attempt, "mem");
    if (fd < 0)
        return errno;
    int problem = pread(fd, &byte, 1, (off_t)attempt->address) == 1 ? 0 : errno ? errno : EIO;
    close(fd);
    return problem;
}

/* The pagemap word of one page. 0 or an errno. */
static int read_pagemap(const struct attempt *attempt, uint64_t *word_out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int fd = open_file(attempt, "pagemap");
    if (fd < 0)
        return errno;
    errno = 0;
    ssize_t got = pread(fd, word_out, sizeof *word_out, (off_t)(attempt->address / page * 8));
    int problem = got == sizeof *word_out ? 0 : errno ? errno : EIO;
    close(fd);
    return problem;
}

static int try_pagemap(const struct attempt *attempt)
{
    uint64_t word;
    return read_pagemap(attempt, &word);
}

/* Frame numbers read as 0 without the right to them. */
static int try_pfn(const struct attempt *attempt)
{
    uint64_t word = 0;
    int problem = read_pagemap(attempt, &word);
    if (problem)
        return problem;
    return word & (((uint64_t)1 << 55) - 1) ? 0 : EPERM;
}

static int try_pagemap_scan(const struct attempt *attempt)
{
    struct page_region region;
    struct pm_scan_arg scan = {
        .size = sizeof scan,
        .start = attempt->address,
        .end = attempt->address + (uint64_t)sysconf(_SC_PAGESIZE),
        .vec = (uint64_t)(uintptr_t)&region,
        .vec_len = 1,
        .category_anyof_mask = PAGE_IS_PRESENT,
        .return_mask = PAGE_IS_PRESENT,
    };
    int fd = open_file(attempt, "pagemap");
    if (fd < 0)
        return errno;
    int problem = ioctl(fd, PAGEMAP_SCAN, &scan) >= 0 ? 0 : errno;
    close(fd);
    return problem;
}

static int call_vm_readv(const struct attempt *attempt)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)(uintptr_t)attempt->address, 1};
    return process_vm_readv(attempt->pid, &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
}

static int call_seize(const struct attempt *attempt)
{
    return ptrace(PTRACE_SEIZE, attempt->pid, NULL, NULL) == 0 ? 0 : errno;
}

/* Run call in a child that ends at once. Killed by a filter counts as ENOSYS. */
static int try_in_child(const struct attempt *attempt, int (*call)(const struct attempt *attempt))
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing of memwhy outlives it */
        _exit(getppid() == parent ? call(attempt) & 0xff : 0);
    }
    int state;
    if (child < 0)
        return errno;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(state) ? WEXITSTATUS(state) : ENOSYS;
}

static int try_vm_readv(const struct attempt *attempt)
{
    return try_in_child(attempt, call_vm_readv);
}

static int try_ptrace(const struct attempt *attempt)
{
    return try_in_child(attempt, call_seize);
}

static int try_smaps(const struct attempt *attempt)
{
    return try_file(attempt, "smaps");
}

static int try_environ(const struct attempt *attempt)
{
    return try_file(attempt, "environ");
}

static void check_add(struct mw_doctor *doctor, enum mw_doctor_access access, int os_errno)
{
    doctor->checks[doctor->check_count++] =
        (struct mw_doctor_check){access, os_errno == 0, os_errno};
}

static void check_cgroup(struct mw_doctor *doctor, const struct attempt *attempt,
                         const char *cgroup_root)
{
    struct mw_cgroup cgroup;
    mw_cgroup_init(&cgroup);
    bool found =
        mw_cgroup_load(attempt->proc_fd, attempt->pid, cgroup_root, &cgroup, NULL) == MW_OK &&
        cgroup.version != 0 && cgroup.usage != MW_UNKNOWN;
    check_add(doctor, MW_ACCESS_CGROUP, found ? 0 : ENOENT);
}

static void try_all(struct mw_doctor *doctor, struct attempt *attempt, const char *cgroup_root)
{
    static const struct {
        enum mw_doctor_access access;
        int (*try)(const struct attempt *attempt);
    } attempts[] = {
        {MW_ACCESS_SMAPS, try_smaps},       {MW_ACCESS_MEM, try_mem},
        {MW_ACCESS_VM_READV, try_vm_readv}, {MW_ACCESS_PTRACE, try_ptrace},
        {MW_ACCESS_PAGEMAP, try_pagemap},   {MW_ACCESS_PAGEMAP_SCAN, try_pagemap_scan},
        {MW_ACCESS_PFN, try_pfn},           {MW_ACCESS_ENVIRON, try_environ},
    };
    attempt->address = find_page(attempt);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        check_add(doctor, attempts[i].access, attempts[i].try(attempt));
    check_cgroup(doctor, attempt, cgroup_root);
}

/* A child that waits; whoever likes may trace it, so that what fails is not Yama's doing. */
static pid_t child_start(void)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    while (getppid() == parent)
        pause();
    _exit(0);
}

/* By rule: would Yama or a missing capability keep memwhy from processes it did not start, and from
 * those of other users? */
static void check_others(struct mw_doctor *doctor)
{
    bool capable = mw_doctor_has_cap(&doctor->facts, MW_CAP_SYS_PTRACE);
    bool allowed = doctor->facts.yama < 3 && (capable || doctor->facts.yama <= 0);
    check_add(doctor, MW_ACCESS_OTHERS, allowed ? 0 : EPERM);
    check_add(doctor, MW_ACCESS_OTHER_USERS, allowed && capable ? 0 : EPERM);
}

enum mw_status mw_doctor_run(int proc_fd, int32_t pid, const char *cgroup_root,
                             struct mw_doctor *doctor_out, struct mw_error *err)
{
    struct mw_doctor doctor = {0};
    enum mw_status status = mw_doctor_facts_load(proc_fd, pid, &doctor.facts, err);
    if (status != MW_OK)
        return status;
    struct attempt attempt = {.proc_fd = proc_fd, .pid = pid};
    if (pid == 0) {
        pid_t child = child_start();
        if (child < 0)
            return mw_fail_errno(err, errno, "cannot make a child to try on");
        attempt.pid = child;
        try_all(&doctor, &attempt, cgroup_root);
        check_others(&doctor);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    } else {
        try_all(&doctor, &attempt, cgroup_root);
    }
    *doctor_out = doctor;
    return MW_OK;
}
