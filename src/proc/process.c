/* proc/process.c: what /proc says of a process beside its mappings.
 *
 * Every file is optional: permissions, kernel versions and hardened /proc mounts take some away.
 * What is missing stays unknown. All files of one process are opened below one descriptor of its
 * directory, so that a pid that is used again in between cannot mix two processes. Names and
 * arguments are the target's own words: they are escaped and shortened.
 *
 * References: Linux Documentation/filesystems/proc.rst, fs/proc/array.c; proc(5). */
#include "proc/process.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/str.h"
#include "proc/number.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SMALL_FILE_BYTES = 64 << 10,
    STATUS_BYTES = 1 << 20,    /* a process may be in 65,536 groups */
    COMMAND_BYTES = 512,       /* shown of the arguments, before escaping */
    CMDLINE_READ_BYTES = 4096, /* read of them */
    STAT_FIELD_MINFLT = 10,    /* counted from 1 as in proc(5) */
    STAT_FIELD_MAJFLT = 12,
    STAT_FIELD_STARTTIME = 22,
};

void mw_process_init(struct mw_process *process)
{
    *process = (struct mw_process){
        .thread_count = MW_UNKNOWN,
        .cpus_online = MW_UNKNOWN,
        .cpus_allowed = MW_UNKNOWN,
        .uptime_seconds = -1,
        .vm_size = MW_UNKNOWN,
        .vm_peak = MW_UNKNOWN,
        .vm_rss = MW_UNKNOWN,
        .vm_hwm = MW_UNKNOWN,
        .rss_anon = MW_UNKNOWN,
        .rss_file = MW_UNKNOWN,
        .rss_shmem = MW_UNKNOWN,
        .vm_swap = MW_UNKNOWN,
        .vm_lck = MW_UNKNOWN,
        .vm_pin = MW_UNKNOWN,
        .vm_pte = MW_UNKNOWN,
        .vm_data = MW_UNKNOWN,
        .hugetlb = MW_UNKNOWN,
        .seccomp = -1,
        .minflt = MW_UNKNOWN,
        .majflt = MW_UNKNOWN,
        .limit_stack = MW_UNKNOWN,
        .limit_as = MW_UNKNOWN,
        .max_map_count = MW_UNKNOWN,
    };
}

void mw_process_deinit(struct mw_process *process)
{
    if (!process)
        return;
    free(process->exe);
    free(process->command);
    for (size_t i = 0; i < process->setting_count; i++) {
        free(process->settings[i].name);
        free(process->settings[i].value);
    }
    free(process->settings);
    mw_process_init(process);
}

const char *mw_process_setting(const struct mw_process *process, const char *name)
{
    for (size_t i = 0; i < process->setting_count; i++)
        if (strcmp(process->settings[i].name, name) == 0)
            return process->settings[i].value;
    return NULL;
}

static void parse_i32(const char *text, int32_t *value_out)
{
    uint64_t value;
    if (mw_number_take(&text, &value) && value <= INT32_MAX)
        *value_out = (int32_t)value;
}

/* Escaped copy of up to length bytes into room bytes; cut between characters. */
static void copy_escaped(char *copy, size_t room, const char *text, size_t length)
{
    struct mw_str str = MW_STR_INIT(room - 1);
    mw_str_put_escaped(&str, text, length);
    snprintf(copy, room, "%s", mw_str_text(&str));
    mw_str_deinit(&str);
}

/* "real effective saved fs" */
static void parse_uids(struct mw_process *process, const char *text)
{
    uint64_t real, effective;
    if (!mw_number_take(&text, &real) || !mw_number_take(&text, &effective))
        return;
    process->uid = (uint32_t)real;
    process->euid = (uint32_t)effective;
}

/* "23 5 1": one pid for each namespace, from that of /proc inwards. */
static void parse_nspid(struct mw_process *process, const char *text)
{
    uint64_t pid;
    int depth = 0;
    while (mw_number_take(&text, &pid) && pid <= INT32_MAX) {
        process->ns_pid = (int32_t)pid;
        depth++;
    }
    process->other_pid_namespace = depth > 1;
}

/* "ff,ffffffff": set bits. */
static void parse_cpu_mask(struct mw_process *process, const char *text)
{
    uint64_t count = 0;
    for (; *text && *text != '\n'; text++) {
        unsigned digit = *text >= '0' && *text <= '9'   ? (unsigned)(*text - '0')
                         : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a' + 10)
                                                        : 0;
        count += (uint64_t)__builtin_popcount(digit);
    }
    if (count > 0)
        process->cpus_allowed = count;
}

static bool line_has_word(const char *text, const char *word)
{
    const char *end = strchrnul(text, '\n');
    const char *at = memmem(text, (size_t)(end - text), word, strlen(word));
    return at != NULL;
}

static const char *status_value(const char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0 || line[length] != ':')
        return NULL;
    line += length + 1;
    while (*line == ' ' || *line == '\t')
        line++;
    return line;
}

/* The lines that hold one amount of memory. */
static bool parse_status_bytes(struct mw_process *process, const char *line)
{
    const struct {
        const char *key;
        uint64_t *bytes;
    } amounts[] = {
        {"VmSize", &process->vm_size},       {"VmPeak", &process->vm_peak},
        {"VmRSS", &process->vm_rss},         {"VmHWM", &process->vm_hwm},
        {"RssAnon", &process->rss_anon},     {"RssFile", &process->rss_file},
        {"RssShmem", &process->rss_shmem},   {"VmSwap", &process->vm_swap},
        {"VmLck", &process->vm_lck},         {"VmPin", &process->vm_pin},
        {"VmPTE", &process->vm_pte},         {"VmData", &process->vm_data},
        {"HugetlbPages", &process->hugetlb},
    };
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        const char *value = status_value(line, amounts[i].key);
        if (value) {
            (void)mw_number_kilobytes(value, amounts[i].bytes);
            return true;
        }
    }
    return false;
}

static void parse_status_line(struct mw_process *process, const char *line)
{
    const char *value;
    uint64_t number;
    if (parse_status_bytes(process, line))
        return;
    if ((value = status_value(line, "Name")))
        copy_escaped(process->comm, sizeof process->comm, value, strcspn(value, "\n"));
    else if ((value = status_value(line, "State")))
        process->state = *value >= 'A' && *value <= 'z' ? *value : 0;
    else if ((value = status_value(line, "Tgid")))
        parse_i32(value, &process->pid);
    else if ((value = status_value(line, "PPid")))
        parse_i32(value, &process->ppid);
    else if ((value = status_value(line, "TracerPid")))
        parse_i32(value, &process->tracer_pid);
    else if ((value = status_value(line, "Uid")))
        parse_uids(process, value);
    else if ((value = status_value(line, "NSpid")))
        parse_nspid(process, value);
    else if ((value = status_value(line, "Threads"))) {
        if (mw_number_take(&value, &number))
            process->thread_count = number;
    } else if ((value = status_value(line, "Seccomp")))
        parse_i32(value, &process->seccomp);
    else if ((value = status_value(line, "Cpus_allowed")))
        parse_cpu_mask(process, value);
    else if ((value = status_value(line, "x86_Thread_features")))
        process->user_shadow_stack = line_has_word(value, "shstk");
}

void mw_process_parse_status(struct mw_process *process, const char *text)
{
    for (const char *line = text; *line;) {
        parse_status_line(process, line);
        const char *newline = strchr(line, '\n');
        line = newline ? newline + 1 : line + strlen(line);
    }
}

/* Field number (from 1) of /proc/PID/stat as a number. The second one is the name in brackets and
 * may hold anything, so the count starts behind the last bracket. */
static bool stat_field(const char *text, int field, uint64_t *value_out)
{
    assert(field > 2);
    const char *at = strrchr(text, ')');
    if (!at)
        return false;
    at++;
    for (int skip = field - 2; skip > 0; skip--) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    return mw_number_take(&at, value_out);
}

/* Start in clock ticks since boot. The clock that counts suspended time is the one the kernel
 * uses for it; both are seen from our time namespace. */
static void parse_start(struct mw_process *process, uint64_t ticks)
{
    long ticks_a_second = sysconf(_SC_CLK_TCK);
    if (ticks_a_second <= 0)
        return;
    double since_boot = (double)mw_clock_boottime_ns() / 1e9;
    double uptime = since_boot - (double)ticks / (double)ticks_a_second;
    if (uptime < 0)
        uptime = 0;
    process->uptime_seconds = uptime;
    process->started_at = mw_clock_realtime_s() - (int64_t)uptime;
}

static void parse_stat(struct mw_process *process, const char *text)
{
    uint64_t value;
    if (stat_field(text, STAT_FIELD_MINFLT, &value))
        process->minflt = value;
    if (stat_field(text, STAT_FIELD_MAJFLT, &value))
        process->majflt = value;
    if (stat_field(text, STAT_FIELD_STARTTIME, &value))
        parse_start(process, value);
}

/* The soft limit in a line of /proc/PID/limits; "unlimited" stays unknown. */
static void parse_limit(const char *text, const char *key, uint64_t *bytes_out)
{
    const char *line = strstr(text, key);
    if (!line)
        return;
    line += strlen(key);
    uint64_t bytes;
    if (mw_number_take(&line, &bytes))
        *bytes_out = bytes;
}

/* A small file below dir_fd, NULL when it cannot be read. */
static char *read_small(int dir_fd, const char *path)
{
    char *text;
    size_t length;
    if (mw_io_read_file_at(dir_fd, path, SMALL_FILE_BYTES, &text, &length, NULL) != MW_OK)
        return NULL;
    return text;
}

/* Arguments are separated by zero bytes; a process may have overwritten them with a title. */
static char *read_command(int dir_fd)
{
    char bytes[CMDLINE_READ_BYTES];
    MW_CLOSE int fd = openat(dir_fd, "cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t got = mw_io_pread_full(fd, bytes, sizeof bytes, 0);
    if (got <= 0)
        return NULL;
    size_t length = (size_t)got < COMMAND_BYTES ? (size_t)got : COMMAND_BYTES;
    while (length > 0 && bytes[length - 1] == '\0')
        length--;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] == '\0')
            bytes[i] = ' ';
    struct mw_str str = MW_STR_INIT(4 * COMMAND_BYTES + 8);
    mw_str_put_escaped(&str, bytes, length);
    if ((size_t)got > COMMAND_BYTES)
        mw_str_puts(&str, "…");
    if (str.status != MW_OK)
        mw_str_deinit(&str);
    return str.text;
}

static char *read_link(int dir_fd, const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(dir_fd, path, target, sizeof target);
    return length > 0 ? mw_strndup(target, (size_t)length) : NULL;
}

/* Are both links readable and different? */
static bool namespace_differs(int dir_fd, int proc_fd, const char *theirs, const char *ours)
{
    MW_FREE char *a = read_link(dir_fd, theirs);
    MW_FREE char *b = read_link(proc_fd, ours);
    return a && b && strcmp(a, b) != 0;
}

/* "0-3,8": how many. */
static uint64_t count_cpu_list(const char *text)
{
    uint64_t count = 0;
    for (;;) {
        uint64_t first, last;
        if (!mw_number_take(&text, &first))
            return MW_UNKNOWN;
        last = first;
        if (*text == '-') {
            text++;
            if (!mw_number_take(&text, &last) || last < first || last - first > UINT32_MAX)
                return MW_UNKNOWN;
        }
        count += last - first + 1;
        if (*text != ',')
            return count;
        text++;
    }
}

/* The machine's part: beside /proc lies /sys, in a test's directory too. */
static void load_machine(int proc_fd, struct mw_process *process)
{
    MW_FREE char *online = read_small(proc_fd, "../sys/devices/system/cpu/online");
    if (online)
        process->cpus_online = count_cpu_list(online);
    if (process->cpus_online == MW_UNKNOWN) {
        long count = sysconf(_SC_NPROCESSORS_ONLN);
        if (count > 0)
            process->cpus_online = (uint64_t)count;
    }
    MW_FREE char *map_count = read_small(proc_fd, "sys/vm/max_map_count");
    const char *at = map_count;
    uint64_t value;
    if (at && mw_number_take(&at, &value))
        process->max_map_count = value;
}

static void load_files(int dir_fd, struct mw_process *process)
{
    MW_FREE char *stat = read_small(dir_fd, "stat");
    if (stat)
        parse_stat(process, stat);
    MW_FREE char *limits = read_small(dir_fd, "limits");
    if (limits) {
        parse_limit(limits, "Max stack size", &process->limit_stack);
        parse_limit(limits, "Max address space", &process->limit_as);
    }
    process->exe = read_link(dir_fd, "exe");
    process->command = read_command(dir_fd);
}

static enum mw_status load_settings(int dir_fd, struct mw_process *process, struct mw_error *err)
{
    MW_FREE char *bytes = NULL;
    size_t length;
    if (mw_io_read_file_at(dir_fd, "environ", MW_LIMIT_ENV_BYTES, &bytes, &length, NULL) != MW_OK)
        return MW_OK;
    if (mw_process_parse_environ(process, bytes, length) != MW_OK)
        return mw_fail(err, MW_NOMEM, "out of memory for the settings");
    process->has_settings = true;
    return MW_OK;
}

enum mw_status mw_process_load(int proc_fd, int32_t pid, struct mw_process *process_out,
                               struct mw_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "%d", pid);
    MW_CLOSE int dir_fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        bool is_gone = errno == ENOENT || errno == ESRCH;
        return is_gone ? mw_fail(err, MW_GONE, "there is no process %d", pid)
                       : mw_fail_errno(err, errno, "cannot open '/proc/%d'", pid);
    }
    struct mw_process process;
    mw_process_init(&process);
    MW_FREE char *status_text = NULL;
    size_t length;
    enum mw_status status =
        mw_io_read_file_at(dir_fd, "status", STATUS_BYTES, &status_text, &length, err);
    if (status == MW_GONE || status == MW_NOT_FOUND)
        return mw_fail(err, MW_GONE, "process %d has exited", pid);
    if (status != MW_OK)
        return status;
    mw_process_parse_status(&process, status_text);
    process.pid = pid;
    load_files(dir_fd, &process);
    load_machine(proc_fd, &process);
    process.other_mount_namespace = namespace_differs(dir_fd, proc_fd, "ns/mnt", "self/ns/mnt");
    if (namespace_differs(dir_fd, proc_fd, "ns/pid", "self/ns/pid"))
        process.other_pid_namespace = true;
    status = load_settings(dir_fd, &process, err);
    if (status != MW_OK) {
        mw_process_deinit(&process);
        return status;
    }
    *process_out = process;
    return MW_OK;
}
