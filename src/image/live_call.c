/* image/live_call.c: the target as a whole, and rounds over its threads.
 *
 * Each try runs in a tracer thread of its own (tracer.h), whose end lets the target's thread go:
 * a try that gives up, the normal end and memwhy's death are one path in the kernel. The threads
 * come in the order in which they would notice least, as /proc tells without a stop.
 *
 * Trusts the kernel. Bounds: attempts × THREADS_PER_ROUND tries. References: design note 005. */
#include "image/live_call.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "image/live_call_state.h"
#include "proc/process.h"
#include "proc/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What can be seen to be wrong before anything is stopped. */
enum mw_status mw_live_call_target_check(const struct mw_process *process, struct mw_error *err)
{
    int32_t pid = process->pid;
    bool others_run = process->thread_count != MW_UNKNOWN && process->thread_count > 1;
    if ((process->state == 'Z' && !others_run) || process->state == 'X')
        return mw_fail(err, MW_GONE, "process %d is a zombie: its memory is gone", pid);
    if (process->user_shadow_stack)
        return mw_fail(err, MW_UNSUPPORTED,
                       "process %d has a shadow stack, which a call from outside would violate",
                       pid);
    if (process->seccomp == 1)
        return mw_fail(err, MW_UNSUPPORTED,
                       "process %d is in strict seccomp mode: the kernel would kill it", pid);
    if (process->tracer_pid > 0)
        return mw_tracer_other(pid, process->tracer_pid, err);
    if (process->state == 'T') {
        enum mw_status code = mw_fail(err, MW_LIMIT, "process %d is stopped by job control", pid);
        mw_error_hint(err, "kill -CONT %d", pid);
        return code;
    }
    return MW_OK;
}

#if defined(__x86_64__)

enum { THREADS_PER_ROUND = 16 };

static const struct mw_live_call_request request_defaults = {
    .attempts = 20,
    .attempt_pause_ns = 5 * 1000 * 1000,
    .timeout_ns = 10ull * 1000 * 1000 * 1000,
    .stack_bytes = 64 << 10,
};

/* Candidates in order of ease; the kernel tells it without a stop. */
struct candidate {
    pid_t tid;
    enum mw_tracer_ease ease;
};

static size_t candidates_choose(struct mw_live_call_state *call, struct candidate *list,
                                size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < call->tasks.count; i++) {
        struct mw_tracer_syscall seen = mw_tracer_syscall_read(call->pid, call->tasks.items[i]);
        struct candidate add = {.tid = call->tasks.items[i], .ease = mw_tracer_syscall_ease(&seen)};
        size_t at = count;
        while (at > 0 && list[at - 1].ease > add.ease)
            at--;
        if (at >= room)
            continue;
        if (count < room)
            count++;
        memmove(&list[at + 1], &list[at], (count - at - 1) * sizeof *list);
        list[at] = add;
        if (count == room && list[room - 1].ease == MW_EASE_RESTARTS)
            break;
    }
    return count;
}

/* Everything below 4 GiB (but for the kernel's own page): i386, or x32. */
static bool is_32_bit(const struct mw_mapping_list *maps)
{
    for (size_t i = maps->count; i-- > 0;)
        if (strcmp(maps->items[i].name, "[vsyscall]") != 0)
            return maps->items[i].end <= 1ull << 32;
    return false;
}

/* The mappings, by way of any thread that still has them: the first one may have ended. */
static enum mw_status maps_load(struct mw_live_call_state *call, struct mw_error *err)
{
    for (size_t i = 0; i < call->tasks.count; i++) {
        MW_FREE char *text = NULL;
        char path[64];
        size_t length = 0;
        call->memory_tid = call->tasks.items[i];
        snprintf(path, sizeof path, "/proc/%d/task/%d/maps", call->pid, call->memory_tid);
        enum mw_status code =
            mw_io_read_file_at(AT_FDCWD, path, MW_LIMIT_PROC_TEXT_BYTES, &text, &length, err);
        if (code == MW_GONE || code == MW_NOT_FOUND || (code == MW_OK && length == 0))
            continue;
        if (code != MW_OK)
            return code;
        mw_mapping_list_deinit(&call->maps);
        return mw_smaps_parse(text, length, &call->maps, NULL, err);
    }
    if (call->restorer != 0)
        return mw_fail(err, MW_GONE, "process %d has exited", call->pid);
    return mw_fail(err, MW_UNSUPPORTED, "process %d has no memory of its own", call->pid);
}

/* Mappings and threads as they are now. */
static enum mw_status round_load(struct mw_live_call_state *call, struct mw_error *err)
{
    enum mw_status code = mw_tracer_tasks_list(call->pid, &call->tasks, err);
    if (code == MW_OK)
        code = maps_load(call, err);
    if (code != MW_OK)
        return code;
    if (is_32_bit(&call->maps))
        return mw_fail(err, MW_UNSUPPORTED, "process %d runs 32-bit code", call->pid);
    if (call->step_count && call->restorer == 0)
        code = mw_live_syscall_find(call->memory_tid, &call->maps, &call->req.function, err);
    if (code != MW_OK)
        return code;
    const struct mw_mapping *map = mw_mapping_find(&call->maps, call->req.function);
    if (!map || !(map->perms & MW_PERM_EXEC))
        return mw_fail_at(err, MW_INVALID, call->req.function,
                          "there is no code at 0x%" PRIx64 " in process %d", call->req.function,
                          call->pid);
    if (call->restorer != 0)
        return MW_OK;
    return mw_live_restorer_find(call->memory_tid, &call->maps, &call->restorer, err);
}

/* In a tracer thread that ends, and so lets the thread go, before this returns. */
static enum mw_status try_run(struct mw_live_call_state *call, struct mw_error *err)
{
    struct mw_tracer tracer;
    enum mw_status code = mw_tracer_start(&tracer, mw_live_call_try, call, err);
    if (code == MW_OK)
        mw_tracer_join(&tracer);
    return code;
}

/* One round over the best threads. *first_error keeps the reason of the best one. */
static enum mw_status round_run(struct mw_live_call_state *call, unsigned round,
                                struct mw_error *err)
{
    struct candidate list[THREADS_PER_ROUND];
    enum mw_status code = round_load(call, err);
    if (code != MW_OK)
        return code;
    size_t count = candidates_choose(call, list, THREADS_PER_ROUND);
    call->outcome = MW_LIVE_NEXT;
    for (size_t i = 0; i < count && call->outcome == MW_LIVE_NEXT; i++) {
        call->frame = (struct mw_live_frame){
            .pid = call->pid, .tid = list[i].tid, .restorer = call->restorer};
        call->ease_accepted = round > 0                      ? MW_EASE_LOST
                              : list[i].ease > MW_EASE_EINTR ? list[i].ease
                                                             : MW_EASE_EINTR;
        code = call->run_try ? call->run_try(call, err) : try_run(call, err);
        if (code != MW_OK)
            return code;
        if (err && (i == 0 || call->outcome == MW_LIVE_FAILED))
            *err = call->error;
    }
    return call->outcome == MW_LIVE_FAILED ? call->error.code : MW_OK;
}

static enum mw_status target_check(struct mw_live_call_state *call, struct mw_error *err)
{
    pid_t pid = call->pid;
    MW_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return mw_fail_errno(err, errno, "cannot open '/proc'");
    struct mw_process process;
    mw_process_init(&process);
    enum mw_status code = mw_process_load(proc, pid, &process, err);
    if (code == MW_OK)
        code = mw_live_call_target_check(&process, err);
    call->limit_stack = process.limit_stack;
    call->has_filters = process.seccomp == 2;
    mw_process_deinit(&process);
    return code;
}

static enum mw_status request_check(pid_t pid, const struct mw_live_call_request *request,
                                    struct mw_live_call_request *filled, struct mw_error *err)
{
    if (pid <= 0 || pid == getpid())
        return mw_fail(err, MW_INVALID, "cannot call into process %d", pid);
    if (request->args_count > MW_LIVE_CALL_ARGS_MAX)
        return mw_fail(err, MW_INVALID, "more than %d arguments", MW_LIVE_CALL_ARGS_MAX);
    *filled = *request;
    if (!filled->attempts)
        filled->attempts = request_defaults.attempts;
    if (!filled->attempt_pause_ns)
        filled->attempt_pause_ns = request_defaults.attempt_pause_ns;
    if (!filled->timeout_ns)
        filled->timeout_ns = request_defaults.timeout_ns;
    if (!filled->stack_bytes)
        filled->stack_bytes = request_defaults.stack_bytes;
    return MW_OK;
}

static enum mw_status call_run(struct mw_live_call_state *call, struct mw_error *err)
{
    enum mw_status code = target_check(call, err);
    for (unsigned round = 0; code == MW_OK && round < call->req.attempts; round++) {
        if (round > 0)
            mw_tracer_sleep(call->req.attempt_pause_ns);
        code = round_run(call, round, err);
        call->result.attempts = round + 1;
        if (call->outcome == MW_LIVE_DONE)
            return MW_OK;
    }
    if (code != MW_OK)
        return code;
    mw_error_hint(err, "try again: no thread of process %d could be used in %u rounds", call->pid,
                  call->req.attempts);
    return MW_LIMIT;
}

enum mw_status mw_live_call_run(struct mw_live_call_state *call, pid_t pid,
                                const struct mw_live_call_request *request, struct mw_error *err)
{
    struct mw_error spare;
    call->pid = pid;
    enum mw_status code = request_check(pid, request, &call->req, err);
    if (code != MW_OK)
        return code;
    /* The kernel reads the registers from `frame` in the step that commits: it must never have to
     * wait for a page there, since a fatal signal would break the step in two. */
    mlock(&call->frame, sizeof call->frame);
    code = call_run(call, err ? err : &spare);
    munlock(&call->frame, sizeof call->frame);
    mw_mapping_list_deinit(&call->maps);
    mw_tracer_tasks_deinit(&call->tasks);
    return code;
}

enum mw_status mw_live_call(pid_t pid, const struct mw_live_call_request *request,
                            struct mw_live_call_result *out, struct mw_error *err)
{
    MW_FREE struct mw_live_call_state *call = mw_calloc(1, sizeof *call);
    if (!call)
        return mw_fail(err, MW_NOMEM, "out of memory");
    enum mw_status code = mw_live_call_run(call, pid, request, err);
    if (code == MW_OK)
        *out = call->result;
    return code;
}

#else

enum mw_status mw_live_call(pid_t pid, const struct mw_live_call_request *request,
                            struct mw_live_call_result *out, struct mw_error *err)
{
    (void)request;
    (void)out;
    return mw_fail(err, MW_UNSUPPORTED,
                   "cannot call into process %d: memwhy knows the signal frame of x86-64 only",
                   pid);
}

#endif
