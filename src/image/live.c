/* image/live.c: a running process as an image.
 *
 * Everything goes through one descriptor of /proc/PID, so that the process may live in other mount
 * and pid namespaces and a pid that is used again is noticed. Mapping level needs the right to
 * read smaps (or maps); contents and residency are tried and used when permitted. The text of smaps
 * is taken in one pass, so that its counters add up to one figure.
 *
 * Trusts the kernel's text no more than a pasted one: the parser bounds it.
 *
 * References: proc(5), Linux fs/proc/{base,task_mmu}.c 6.18; getauxval(3). */
#include "image/live.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/units.h"
#include "image/open.h"
#include "proc/smaps.h"

#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    AUXV_ENTRIES_MAX = 128,
    STAT_BYTES = 512,
    KTHREADD_PID = 2, /* the parent of all kernel threads */
};

char mw_live_task_state(int dir_fd, const char *path)
{
    char text[STAT_BYTES];
    MW_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    /* One read: each goes through all threads for their sums. */
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (got <= 0)
        return 'X';
    text[got] = '\0';
    const char *bracket = strrchr(text, ')');
    return bracket && bracket[1] == ' ' ? bracket[2] : 0;
}

bool mw_live_is_gone(const struct mw_live *live)
{
    char state = mw_live_task_state(live->memory_fd, "stat");
    return state == 'X' || state == 'Z';
}

/* Do we have CAP_SYS_PTRACE? */
static bool can_trace(const struct mw_live *live)
{
    MW_FREE char *status = NULL;
    size_t length;
    if (mw_io_read_file_at(live->proc_fd, "thread-self/status", 64 << 10, &status, &length, NULL) !=
        MW_OK)
        return false;
    const char *line = strstr(status, "\nCapEff:");
    return line && strtoull(line + 8, NULL, 16) >> CAP_SYS_PTRACE & 1;
}

void mw_live_hint_denied(const struct mw_live *live, struct mw_error *err)
{
    MW_FREE char *yama = NULL;
    size_t length;
    if (mw_io_read_file_at(live->proc_fd, "sys/kernel/yama/ptrace_scope", 64, &yama, &length,
                           NULL) == MW_OK &&
        yama[0] == '3')
        mw_error_hint(err, "kernel.yama.ptrace_scope is 3 until the next boot; take a core with "
                           "the program's own means and run: memwhy CORE");
    else if (geteuid() != 0)
        mw_error_hint(err, "sudo memwhy %d", live->pid);
    else if (!can_trace(live))
        mw_error_hint(err, "this root lacks CAP_SYS_PTRACE: docker run --cap-add SYS_PTRACE, or "
                           "kubectl debug --profile=sysadmin");
    else
        mw_error_hint(err,
                      "a security module or another user namespace forbids it: memwhy doctor "
                      "%d",
                      live->pid);
}

/* -- the mappings ---------------------------------------------------------------------------- */

/* The mappings by one of the two texts. *length_out: of the text. */
static enum mw_status read_mappings(const struct mw_live *live, const char *name,
                                    struct mw_mapping_list *list_out, struct mw_findings *findings,
                                    uint64_t *length_out, struct mw_error *err)
{
    *length_out = 0;
    MW_CLOSE int fd = openat(live->memory_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return mw_fail_errno(err, errno, "cannot open '%s'", name);
    return mw_smaps_read(fd, list_out, findings, length_out, err);
}

/* What can still be said of a process whose mappings we may not see. */
static enum mw_status fail_denied(const struct mw_live *live, const struct mw_process *process,
                                  struct mw_error *err)
{
    char rss[32];
    if (process->vm_rss == MW_UNKNOWN)
        mw_fail_errno(err, EACCES, "cannot read the mappings of process %d", live->pid);
    else
        mw_fail_errno(err, EACCES, "cannot read the mappings of process %d (%s, RSS %s)", live->pid,
                      process->comm, mw_bytes_format(rss, process->vm_rss));
    mw_live_hint_denied(live, err);
    return MW_PERM;
}

/* What an earlier reading of the mappings lacked says nothing of this one. */
static void findings_replace(struct mw_findings *list, const struct mw_findings *fresh)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->items[i].kind, "smaps-", 6) != 0 &&
            strcmp(list->items[i].kind, "no-smaps") != 0)
            list->items[kept++] = list->items[i];
    list->count = kept;
    mw_findings_merge(list, fresh);
}

/* Regions and findings into *image; untouched on failure. */
static enum mw_status load_regions(struct mw_image *image, const struct mw_process *process,
                                   struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_mapping_list regions = {0};
    struct mw_findings findings = {0};
    uint64_t length;
    bool has_counters = true;
    enum mw_status status = read_mappings(live, "smaps", &regions, &findings, &length, err);
    if (status != MW_OK && status != MW_NOMEM && length == 0 &&
        read_mappings(live, "maps", &regions, &findings, &length, NULL) == MW_OK) {
        has_counters = false;
        status = MW_OK;
    }
    bool is_empty = status == MW_INVALID && length == 0;
    bool is_gone = status != MW_PERM && (is_empty || mw_live_is_gone(live));
    if (status == MW_OK && !is_gone)
        findings_replace(&image->findings, &findings);
    mw_findings_deinit(&findings);
    if (status != MW_OK || is_gone)
        mw_mapping_list_deinit(&regions);
    if (status == MW_PERM)
        return fail_denied(live, process, err);
    if (is_gone)
        return mw_fail(err, MW_GONE, "process %d has exited", live->pid);
    if (status != MW_OK) {
        mw_error_prefix(err, "cannot read the mappings of process %d", live->pid);
        return status;
    }
    mw_mapping_list_deinit(&image->regions);
    image->regions = regions;
    image->can &= ~(unsigned)MW_CAN_COUNTERS;
    if (has_counters)
        image->can |= MW_CAN_COUNTERS;
    else
        mw_finding_add(&image->findings, "no-smaps", 0, 0,
                       "/proc/%d/smaps cannot be read: the mappings have no counters", live->pid);
    return MW_OK;
}

/* -- the auxiliary vector and the architecture ----------------------------------------------- */

static void load_auxv(struct mw_image *image, const struct mw_live *live)
{
    uint64_t words[2 * AUXV_ENTRIES_MAX];
    MW_CLOSE int fd = openat(live->memory_fd, "auxv", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? mw_io_pread_full(fd, words, sizeof words, 0) : -1;
    if (got <= 0)
        return;
    bool is_32_bit = image->arch == MW_ARCH_I386 || image->arch == MW_ARCH_ARM;
    if (is_32_bit) {
        const uint32_t *halves = (const uint32_t *)(const void *)words;
        for (size_t i = 0; i + 1 < (size_t)got / sizeof *halves; i += 2)
            mw_image_auxv_store(image, halves[i], halves[i + 1]);
        return;
    }
    for (size_t i = 0; i + 1 < (size_t)got / sizeof *words; i += 2)
        mw_image_auxv_store(image, words[i], words[i + 1]);
}

static enum mw_arch arch_of_machine(uint16_t machine)
{
    switch (machine) {
    case EM_X86_64:
        return MW_ARCH_X86_64;
    case EM_AARCH64:
        return MW_ARCH_AARCH64;
    case EM_386:
        return MW_ARCH_I386;
    case EM_ARM:
        return MW_ARCH_ARM;
    default:
        return MW_ARCH_UNKNOWN;
    }
}

/* From the header of the program; an unreadable file leaves it unknown. */
static void load_arch(struct mw_image *image, const struct mw_live *live)
{
    uint8_t header[20];
    MW_CLOSE int fd = openat(live->memory_fd, "exe", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || mw_io_pread_full(fd, header, sizeof header, 0) != sizeof header ||
        memcmp(header, ELFMAG, SELFMAG) != 0 || header[EI_DATA] != ELFDATA2LSB)
        return;
    image->arch = arch_of_machine((uint16_t)(header[18] | header[19] << 8));
}

/* -- opening --------------------------------------------------------------------------------- */

static int open_proc(const struct mw_image_open_options *options)
{
    if (options && options->sysroot) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/proc", options->sysroot) >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            return -1;
        }
        return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (options && options->proc_dir_fd > 0)
        return fcntl(options->proc_dir_fd, F_DUPFD_CLOEXEC, 0);
    return open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool proc_shows_our_pids(int proc_fd)
{
    char target[32];
    ssize_t length = readlinkat(proc_fd, "self", target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    return strtol(target, NULL, 10) == getpid();
}

static void live_close(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    if (live->memory_fd >= 0 && live->memory_fd != live->dir_fd)
        close(live->memory_fd);
    const int fds[] = {live->proc_fd, live->dir_fd, live->source.mem_fd, live->source.pagemap_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(live);
    image->state = NULL;
}

/* The first thread has exited, others run: take the memory from one of those. */
static bool find_running_thread(struct mw_live *live)
{
    int fd = openat(live->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        int task = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char state = task >= 0 ? mw_live_task_state(task, "stat") : 'X';
        found = state != 'X' && state != 'Z';
        if (found) {
            live->memory_fd = task;
            live->memory_tid = (int32_t)strtol(entry->d_name, NULL, 10);
        } else if (task >= 0)
            close(task);
    }
    closedir(dir);
    return found;
}

/* Kernel threads and zombies have no memory to explain. */
static enum mw_status check_has_memory(struct mw_live *live, const struct mw_process *process,
                                       struct mw_error *err)
{
    if (process->state == 'Z' || process->state == 'X') {
        if (find_running_thread(live))
            return MW_OK;
        mw_fail(err, MW_GONE, "process %d is a zombie: its memory is already given back",
                live->pid);
        mw_error_hint(err, "its parent %d has not collected it yet", process->ppid);
        return MW_GONE;
    }
    if (process->vm_size != MW_UNKNOWN)
        return MW_OK;
    if (process->pid != KTHREADD_PID && process->ppid != KTHREADD_PID)
        return mw_fail(err, MW_GONE, "process %d is about to exit", live->pid);
    mw_fail(err, MW_UNSUPPORTED, "process %d (%s) is a kernel thread: it has no memory of its own",
            live->pid, process->comm);
    mw_error_hint(err, "grep -E 'Slab|KernelStack|PageTables' /proc/meminfo");
    return MW_UNSUPPORTED;
}

/* What /proc says of it, through a thread that runs: of a first one that has exited it says little.
 */
static enum mw_status load_process(const struct mw_live *live, struct mw_process *process_out,
                                   struct mw_error *err)
{
    enum mw_status status = mw_process_load(live->proc_fd, live->memory_tid, process_out, err);
    if (status == MW_OK)
        process_out->pid = live->pid;
    return status;
}

static enum mw_status live_refresh(struct mw_image *image, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_process process;
    enum mw_status status = load_process(live, &process, err);
    if (status != MW_OK)
        return status;
    status = load_regions(image, &process, err);
    if (status != MW_OK) {
        mw_process_deinit(&process);
        return status;
    }
    mw_process_deinit(&image->process);
    image->process = process;
    return MW_OK;
}

/* Flags that /proc/PID/maps does not tell stay what they were where a region still is; and whether
 * a fork shares its pages. */
static void flags_carry(const struct mw_mapping_list *from, struct mw_mapping_list *to)
{
    for (size_t i = 0; i < to->count; i++) {
        struct mw_mapping *map = &to->items[i];
        const struct mw_mapping *before = mw_mapping_find(from, map->start);
        if (!before || before->perms != map->perms)
            continue;
        map->vm_flags = before->vm_flags;
        if (mw_mapping_forked_bytes(before) > 0)
            map->vm_flags |= MW_VM_FORKED;
        map->has_vm_flags = before->has_vm_flags;
    }
}

static enum mw_status live_refresh_ranges(struct mw_image *image, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    struct mw_mapping_list regions = {0};
    uint64_t length;
    enum mw_status status = read_mappings(live, "maps", &regions, NULL, &length, err);
    if (mw_live_is_gone(live) || (status == MW_INVALID && length == 0)) {
        mw_mapping_list_deinit(&regions);
        return mw_fail(err, MW_GONE, "process %d has exited", live->pid);
    }
    if (status != MW_OK)
        return status;
    flags_carry(&image->regions, &regions);
    mw_mapping_list_deinit(&image->regions);
    image->regions = regions;
    image->can &= ~(unsigned)MW_CAN_COUNTERS;
    return MW_OK;
}

static const struct mw_image_ops live_ops = {
    .name = "live",
    .read = mw_live_read,
    .pages = mw_live_pages,
    .stop = mw_live_stop,
    .resume = mw_live_resume,
    .snapshot = mw_live_snapshot,
    .snapshot_check = mw_live_snapshot_check,
    .snapshot_drop = mw_live_snapshot_drop,
    .refresh = live_refresh,
    .refresh_ranges = live_refresh_ranges,
    .open_file = mw_live_open_file,
    .open_path = mw_live_open_path,
    .close = live_close,
};

static enum mw_status open_directories(struct mw_live *live,
                                       const struct mw_image_open_options *options,
                                       struct mw_error *err)
{
    live->proc_fd = open_proc(options);
    if (live->proc_fd < 0)
        return mw_fail_errno(err, errno, "cannot open '/proc'");
    char name[16];
    snprintf(name, sizeof name, "%d", live->pid);
    live->dir_fd = openat(live->proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (live->dir_fd < 0) {
        if (errno != ENOENT && errno != ESRCH)
            return mw_fail_errno(err, errno, "cannot open '/proc/%d'", live->pid);
        mw_fail(err, MW_NOT_FOUND, "there is no process %d", live->pid);
        mw_error_hint(err, "memwhy");
        return MW_NOT_FOUND;
    }
    live->memory_fd = live->dir_fd;
    live->memory_tid = live->pid;
    live->pid_is_ours = proc_shows_our_pids(live->proc_fd);
    return MW_OK;
}

static enum mw_status open_all(struct mw_image *image, const struct mw_image_open_options *options,
                               struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    enum mw_status status = open_directories(live, options, err);
    if (status == MW_OK)
        status = load_process(live, &image->process, err);
    if (status == MW_OK)
        status = check_has_memory(live, &image->process, err);
    if (status == MW_OK && live->memory_tid != live->pid) {
        mw_process_deinit(&image->process);
        status = load_process(live, &image->process, err);
    }
    if (status == MW_OK)
        status = load_regions(image, &image->process, err);
    if (status != MW_OK)
        return status;
    live->source.tid = live->memory_tid;
    load_arch(image, live);
    load_auxv(image, live);
    if (options && options->need_read)
        mw_live_read_probe(image);
    else
        mw_fail(&image->cannot_read, MW_INVALID, "memory contents were not asked for");
    mw_live_pages_probe(image);
    return MW_OK;
}

enum mw_status mw_image_open_live(int32_t pid, const struct mw_image_open_options *options,
                                  struct mw_context *context, struct mw_image *image_out,
                                  struct mw_error *err)
{
    struct mw_live *live = mw_calloc(1, sizeof *live);
    if (!live)
        return mw_fail(err, MW_NOMEM, "out of memory for process %d", pid);
    *live = (struct mw_live){
        .context = context,
        .proc_fd = -1,
        .dir_fd = -1,
        .memory_fd = -1,
        .source = {.mem_fd = -1, .pagemap_fd = -1},
        .pid = pid,
    };
    struct mw_image image = {
        .ops = &live_ops,
        .state = live,
        .kind = MW_IMAGE_LIVE,
        .page_size = (uint32_t)sysconf(_SC_PAGESIZE),
    };
    mw_process_init(&image.process);
    enum mw_status status = open_all(&image, options, err);
    if (status != MW_OK) {
        mw_image_close(&image);
        return status;
    }
    assert(image.regions.count > 0);
    *image_out = image;
    return MW_OK;
}
