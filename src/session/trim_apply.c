/* session/trim_apply.c: malloc_trim(0) run in the target.
 *
 * The one thing here that can harm: malloc_trim entered by a thread that is itself inside malloc.
 * A thread is borrowed only in a moment that proves it is not: asleep in a system call that malloc
 * never waits in, with no signal frame on its stack. Everything else is busy, and after enough
 * tries it is refused.
 *
 * What malloc itself calls (glibc 2.17 to 2.44): brk, mmap, munmap, mremap, madvise, mprotect,
 * prctl; futex WAIT for an arena's lock; open, read and close of /proc/sys/vm/overcommit_memory and
 * /sys/devices/system/cpu/online; write and abort when it finds damage. None of those counts as
 * proof; a read does when it is not of such a file, and a futex wait when it is of another kind
 * than a lock's (condition variables, semaphores and joins wait with WAIT_BITSET). */
#include "session/trim.h"

#include "base/io.h"
#include "image/live_call.h"
#include "symbol/dynsym.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ATTEMPTS = 200 };
static const uint64_t ATTEMPT_PAUSE_NS = 5000000, TIMEOUT_NS = 60000000000;

/* System calls that wait for something outside of the process, and that malloc does not make. */
static bool waits_outside(int number)
{
    static const int numbers[] = {
#ifdef SYS_poll /* younger architectures have only what replaced these */
        SYS_poll,   SYS_select,     SYS_epoll_wait,    SYS_pause,
#endif
        SYS_ppoll,  SYS_pselect6,   SYS_epoll_pwait,   SYS_nanosleep,       SYS_clock_nanosleep,
        SYS_accept, SYS_accept4,    SYS_recvfrom,      SYS_recvmsg,         SYS_recvmmsg,
        SYS_wait4,  SYS_waitid,     SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_msgrcv,
        SYS_semop,  SYS_semtimedop, SYS_io_getevents,  SYS_connect,         SYS_restart_syscall,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] == number)
            return true;
#ifdef SYS_epoll_pwait2
    if (number == SYS_epoll_pwait2)
        return true;
#endif
    return false;
}

/* A descriptor that is a file of /proc or /sys may be read by malloc itself. */
static bool reads_kernel_file(const struct mw_live_call_thread *thread, uint64_t fd)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%llu", (int)thread->pid, (unsigned long long)fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0)
        return true;
    target[length] = '\0';
    return strncmp(target, "/proc/", 6) == 0 || strncmp(target, "/sys/", 5) == 0;
}

static bool is_busy(const struct mw_live_call_thread *thread, void *user)
{
    (void)user;
    if (thread->syscall < 0 || thread->in_handler)
        return true;
    if (waits_outside(thread->syscall))
        return false;
    if (thread->syscall == SYS_read)
        return reads_kernel_file(thread, thread->args[0]);
    return thread->syscall != SYS_futex ||
           ((unsigned)thread->args[1] & (unsigned)FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET;
}

/* malloc_trim of the C library whose main arena was walked. */
static enum mw_status function_find(struct mw_analysis *analysis, mw_addr *function_out,
                                    struct mw_error *err)
{
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        struct mw_dynsym dynsym;
        struct mw_symbol symbol;
        if (!allocator->walked || strcmp(allocator->kind, "glibc") != 0 ||
            allocator->arena_count == 0)
            continue;
        mw_addr base = mw_elf_base_of(&analysis->image, allocator->arenas[0].address);
        if (base != 0 && mw_dynsym_open(&analysis->image, base, &dynsym) == MW_OK &&
            mw_dynsym_find(&dynsym, "malloc_trim", &symbol) == MW_OK) {
            *function_out = symbol.address;
            return MW_OK;
        }
    }
    return mw_fail(err, MW_UNSUPPORTED,
                   "malloc_trim cannot be found in the process: it is linked statically, or uses "
                   "another allocator");
}

static uint64_t anonymous_sum(const struct mw_image *image)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        if (!mw_mapping_knows(&image->regions.items[i], MW_COUNTER_ANONYMOUS))
            return MW_UNKNOWN;
        sum += image->regions.items[i].counters[MW_COUNTER_ANONYMOUS];
    }
    return sum;
}

/* Anonymous now. */
static enum mw_status anonymous_read(struct mw_image *image, uint64_t *bytes_out,
                                     struct mw_error *err)
{
    enum mw_status status = mw_image_refresh(image, err);
    if (status == MW_OK)
        *bytes_out = anonymous_sum(image);
    return status;
}

static enum mw_status trim_call(struct mw_analysis *analysis, struct mw_trim *trim,
                                struct mw_error *err)
{
    struct mw_image *image = &analysis->image;
    struct mw_live_call_result result;
    mw_addr function = 0;
    if (image->kind != MW_IMAGE_LIVE)
        return mw_fail(err, MW_INVALID, "malloc_trim can be run in a live process only");
    if (trim->refused.code != MW_OK) /* no prediction: the reason is there already */
        return trim->refused.code;
    enum mw_status status = function_find(analysis, &function, err);
    if (status == MW_OK)
        status = anonymous_read(image, &trim->anon_before_bytes, err);
    if (status != MW_OK)
        return status;
    /* What malloc_trim(0) calls: a seccomp filter that kills for one of them forbids it. */
    static const struct mw_live_call_syscall syscalls[] = {
        {.number = SYS_madvise, .args = {0, 0, MADV_DONTNEED}},
        {.number = SYS_brk},
        {.number = SYS_munmap},
        {.number = SYS_futex},
    };
    const struct mw_live_call_request request = {
        .function = function,
        .args = {0},
        .args_count = 1,
        .syscalls = syscalls,
        .syscalls_count = sizeof syscalls / sizeof *syscalls,
        .busy = is_busy,
        .attempts = ATTEMPTS,
        .attempt_pause_ns = ATTEMPT_PAUSE_NS,
        .timeout_ns = TIMEOUT_NS,
        .abandon_waiting = true,
    };
    status = mw_live_call(image->process.pid, &request, &result, err);
    if (status != MW_OK)
        return status;
    trim->applied = true;
    trim->call_seconds = (double)result.elapsed_ns / 1e9;
    return anonymous_read(image, &trim->anon_after_bytes, err);
}

enum mw_status mw_trim_apply(struct mw_analysis *analysis, struct mw_trim *trim,
                             struct mw_error *err)
{
    enum mw_status status = trim_call(analysis, trim, &trim->refused);
    if (status == MW_OK) {
        trim->refused.code = MW_OK;
        return MW_OK;
    }
    mw_error_prefix(&trim->refused, "malloc_trim(0) was not run");
    if (err)
        *err = trim->refused;
    return status;
}
