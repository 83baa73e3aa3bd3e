/* image/live_call_x86_64.c: building and using two x86-64 signal frames.
 *
 *   high   … the thread's own stack
 *          ------------------------ rsp of the thread
 *          128 bytes red zone       never touched
 *          xstate + FP_XSTATE_MAGIC2   64-byte aligned
 *          ucontext BACK            the thread's registers, flags, segments, mask
 *          restorer                 <- sp % 16 == 8: the function's return address
 *          ucontext ENTRY           registers at the function's entry, all signals blocked
 *          (restorer)               <- start
 *   low    free stack for the function, which may overwrite ENTRY
 *
 * The restorer is `mov $15, %rax; syscall` in the C library: rt_sigreturn, which takes everything
 * from the frame at rsp - 8. The one register write sends the thread to the restorer with ENTRY;
 * the kernel then loads the function's registers and the blocked mask in one step. The function
 * returns to the restorer, and the kernel loads BACK. So no handler runs inside the function, even
 * if memwhy dies right after the register write.
 *
 * The alternate stack named in the frames has impossible flags: the kernel then leaves the thread's
 * own setting alone, which a tracer has no means to read (restore_altstack ignores every error but
 * EFAULT). ENTRY has no xstate: the function starts with the initial one, as a handler does.
 *
 * Trusts the kernel's registers and xstate; bytes of the target's stack are only compared.
 * References: Linux 6.18 arch/x86/kernel/signal_64.c (rt_sigreturn, restore_sigcontext),
 * arch/x86/kernel/fpu/signal.c (fpu__restore_sig, check_xstate_in_sigframe),
 * arch/x86/include/uapi/asm/{sigcontext,ucontext}.h, kernel/signal.c (do_sigaltstack),
 * kernel/rseq.c; System V ABI x86-64 3.2.2 (red zone, stack alignment). */
#if defined(__x86_64__)

#include "image/live_call_frame.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "image/live.h"

#include <asm/unistd_64.h>
#include <assert.h>
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/utsname.h>

enum {
    RED_ZONE_BYTES = 128,
    XSTATE_ALIGN = 64,
    XSTATE_LEGACY_BYTES = 576, /* FXSAVE area and XSAVE header */
    XSTATE_SW_OFFSET = 464,    /* software-reserved bytes of the FXSAVE area */
    XSTATE_HEADER_OFFSET = 512,
    XSTATE_MAGIC2_BYTES = 4,
    CPUID_XSTATE = 0x0d,
    XFEATURE_PKRU = 9,
    XFEATURE_AMX_TILES = 18, /* dynamic: only after a thread has used it */
    XFEATURE_COUNT = 63,
    CODE_BYTES_MAX = 9, /* of what is looked for; the restorer */
    RESTORER_TAIL_BYTES = 6,
    SCAN_STEP = 1 << 20,
    PTRACE_GET_RSEQ = 0x420f, /* PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13 */
    UC_FLAG_XSTATE = 1,
    UC_FLAGS_KNOWN = 7, /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
    CS_USER_64 = 0x33,
    STACK_FLAGS_IMPOSSIBLE = 3, /* SS_ONSTACK and SS_DISABLE at once */
};

static const uint32_t xstate_magic1 = 0x46505853u, xstate_magic2 = 0x46505845u;

/* DF must be clear at a function's entry; TF would trap; RF and AC are none of its business. */
static const uint64_t flags_cleared = 1u << 10 | 1u << 8 | 1u << 16 | 1u << 18;

/* Signals that a fault raises stay deliverable: some programs handle them (write barriers of
 * collectors), and the kernel kills a thread that faults while it blocks them. */
static const uint64_t signals_left_open =
    1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
    1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGSYS - 1);

/* struct rt_sigframe. Written here because <asm/sigcontext.h> and <signal.h> exclude each other. */
struct rt_frame {
    uint64_t restorer;
    uint64_t uc_flags, uc_link;
    uint64_t stack_pointer;
    int32_t stack_flags, stack_pad;
    uint64_t stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t err, trapno, oldmask, cr2;
    uint64_t fpstate;
    uint64_t reserved[8];
    uint64_t sigmask;
    uint8_t siginfo[128];
};
static_assert(offsetof(struct rt_frame, r8) == 8 + 40, "uc_mcontext");
static_assert(offsetof(struct rt_frame, fpstate) == 8 + 40 + 184, "fpstate");
static_assert(offsetof(struct rt_frame, sigmask) == 8 + 296, "uc_sigmask");
static_assert(sizeof(struct rt_frame) == 440, "struct rt_sigframe");

/* struct _fpx_sw_bytes */
struct xstate_sw {
    uint32_t magic1, extended_size;
    uint64_t features;
    uint32_t xstate_size, padding[7];
};
static_assert(sizeof(struct xstate_sw) == 48, "struct _fpx_sw_bytes");

static bool is_restorer(const uint8_t *at, size_t before, size_t *length_out)
{
    static const uint8_t mov_rax[] = {0x48, 0xc7, 0xc0}, mov_eax[] = {0xb8};
    if (before >= sizeof mov_rax && memcmp(at - sizeof mov_rax, mov_rax, sizeof mov_rax) == 0)
        *length_out = sizeof mov_rax;
    else if (before >= 1 && at[-1] == mov_eax[0])
        *length_out = sizeof mov_eax;
    else
        return false;
    return true;
}

/* 0f 00 00 00 (the number 15), 0f 05 (syscall), behind a mov to rax or eax. */
static bool restorer_in(const uint8_t *code, size_t length, size_t *offset_out)
{
    static const uint8_t tail[RESTORER_TAIL_BYTES] = {0x0f, 0, 0, 0, 0x0f, 0x05};
    for (size_t from = 0; from < length;) {
        const uint8_t *hit = memmem(code + from, length - from, tail, sizeof tail);
        if (!hit)
            return false;
        size_t head, at = (size_t)(hit - code);
        if (is_restorer(hit, at, &head)) {
            *offset_out = at - head;
            return true;
        }
        from = at + 1;
    }
    return false;
}

/* 0f 05 c3 */
static bool syscall_ret_in(const uint8_t *code, size_t length, size_t *offset_out)
{
    static const uint8_t wanted[] = {0x0f, 0x05, 0xc3};
    const uint8_t *hit = memmem(code, length, wanted, sizeof wanted);
    if (hit)
        *offset_out = (size_t)(hit - code);
    return hit != NULL;
}

/* Code that is looked for: `match` finds the first place, where at least `length` bytes tell it. */
struct code {
    bool (*match)(const uint8_t *bytes, size_t length, size_t *offset_out);
    size_t length;
};

/* Bytes of code: those of the file where it can be had, since reading them from the target would
 * put pages into its page table that it has never used. */
static bool code_read(pid_t tid, int file_fd, const struct mw_mapping *map, mw_addr at,
                      uint8_t *buffer, size_t length)
{
    if (file_fd >= 0 && mw_io_pread_full(file_fd, buffer, length,
                                         map->offset + (at - map->start)) == (ssize_t)length)
        return true;
    return mw_tracer_read(tid, at, buffer, length);
}

/* Is what was found in a file what the target has in memory? */
static bool code_is_there(pid_t tid, mw_addr at, const uint8_t *bytes, size_t length)
{
    uint8_t there[CODE_BYTES_MAX];
    assert(length <= sizeof there);
    return mw_tracer_read(tid, at, there, length) && memcmp(there, bytes, length) == 0;
}

static mw_addr code_in_mapping(pid_t tid, const struct mw_mapping *map, const struct code *code,
                               uint8_t *buffer)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", tid);
    MW_CLOSE int task = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    MW_CLOSE int file = task >= 0 ? mw_live_open_mapped(task, map) : -1;
    size_t offset;
    for (mw_addr at = map->start; at < map->end; at += SCAN_STEP - CODE_BYTES_MAX) {
        size_t length = map->end - at < SCAN_STEP ? (size_t)(map->end - at) : SCAN_STEP;
        if (!code_read(tid, file, map, at, buffer, length))
            return 0;
        if (code->match(buffer, length, &offset))
            return code_is_there(tid, at + offset, buffer + offset, code->length) ? at + offset : 0;
        if (map->end - at <= SCAN_STEP)
            break;
    }
    return 0;
}

/* The C library first: it is never unloaded. Then the other files. */
static bool is_libc(const struct mw_mapping *map)
{
    const char *base = strrchr(map->name, '/');
    return base && (strncmp(base, "/libc.so", 8) == 0 || strncmp(base, "/libc-2.", 8) == 0 ||
                    strncmp(base, "/ld-musl-", 9) == 0);
}

static enum mw_status code_find(pid_t tid, const struct mw_mapping_list *maps,
                                const struct code *code, mw_addr *address_out, struct mw_error *err)
{
    MW_FREE uint8_t *buffer = mw_calloc(SCAN_STEP, 1);
    if (!buffer)
        return mw_fail(err, MW_NOMEM, "out of memory");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < maps->count; i++) {
            const struct mw_mapping *map = &maps->items[i];
            if (!(map->perms & MW_PERM_EXEC) || map->name[0] != '/' || is_libc(map) != (pass == 0))
                continue;
            mw_addr found = code_in_mapping(tid, map, code, buffer);
            if (found) {
                *address_out = found;
                return MW_OK;
            }
        }
    }
    return MW_NOT_FOUND;
}

enum mw_status mw_live_restorer_find(pid_t tid, const struct mw_mapping_list *maps,
                                     mw_addr *restorer_out, struct mw_error *err)
{
    static const struct code restorer = {restorer_in, RESTORER_TAIL_BYTES + 1};
    enum mw_status code = code_find(tid, maps, &restorer, restorer_out, err);
    if (code != MW_NOT_FOUND)
        return code;
    return mw_fail(err, MW_UNSUPPORTED,
                   "thread %d has no signal return sequence in its code: cannot call into it", tid);
}

enum mw_status mw_live_syscall_find(pid_t tid, const struct mw_mapping_list *maps,
                                    mw_addr *code_out, struct mw_error *err)
{
    static const struct code syscall_ret = {syscall_ret_in, 3};
    enum mw_status code = code_find(tid, maps, &syscall_ret, code_out, err);
    if (code != MW_NOT_FOUND)
        return code;
    return mw_fail(err, MW_UNSUPPORTED,
                   "thread %d has no system call followed by a return in its code", tid);
}

/* Size of the standard-format area for a set of features: the kernel's xstate_calculate_size(). */
static size_t xstate_size(uint64_t features)
{
    size_t size = XSTATE_LEGACY_BYTES;
    for (unsigned i = 2; i < XFEATURE_COUNT; i++) {
        unsigned bytes, offset, ecx, edx;
        if (!(features >> i & 1))
            continue;
        __cpuid_count(CPUID_XSTATE, i, bytes, offset, ecx, edx);
        if ((size_t)offset + bytes > size)
            size = (size_t)offset + bytes;
    }
    return size;
}

/* Turn what PTRACE_GETREGSET gave into what rt_sigreturn takes; returns its size, 0: impossible. */
static size_t xstate_to_frame(uint8_t *xstate, size_t length)
{
    uint64_t features, in_use;
    if (length < XSTATE_LEGACY_BYTES)
        return 0;
    memcpy(&features, xstate + XSTATE_SW_OFFSET, sizeof features); /* XCR0, by ptrace's contract */
    memcpy(&in_use, xstate + XSTATE_HEADER_OFFSET, sizeof in_use);
    if (!(in_use >> XFEATURE_AMX_TILES & 1))
        features &= ~(1ull << XFEATURE_AMX_TILES);
    size_t size = xstate_size(features);
    if (size > length || (features & 3) != 3)
        return 0;
    /* The kernel always tells PKRU, but marks it unused; loading it as unused would open all keys.
     */
    if (features >> XFEATURE_PKRU & 1)
        in_use |= 1ull << XFEATURE_PKRU;
    memcpy(xstate + XSTATE_HEADER_OFFSET, &in_use, sizeof in_use);
    struct xstate_sw sw = {.magic1 = xstate_magic1,
                           .extended_size = (uint32_t)size + XSTATE_MAGIC2_BYTES,
                           .features = features,
                           .xstate_size = (uint32_t)size};
    memcpy(xstate + XSTATE_SW_OFFSET, &sw, sizeof sw);
    memcpy(xstate + size, &xstate_magic2, sizeof xstate_magic2);
    return size;
}

static enum mw_status xstate_read(pid_t tid, uint8_t *xstate, size_t room, size_t *size_out,
                                  struct mw_error *err)
{
    const size_t asked = room - XSTATE_ALIGN; /* leaves room for the magic; a multiple of 8 */
    struct iovec iov = {.iov_base = xstate, .iov_len = asked};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_X86_XSTATE, &iov) != 0)
        return errno == ESRCH ? mw_fail(err, MW_GONE, "thread %d has exited", tid)
                              : mw_fail(err, MW_UNSUPPORTED,
                                        "this kernel or processor cannot save vector registers "
                                        "(XSAVE): cannot call into process %d",
                                        tid);
    *size_out = iov.iov_len == asked ? 0 : xstate_to_frame(xstate, iov.iov_len);
    if (*size_out == 0)
        return mw_fail(err, MW_UNSUPPORTED, "unknown layout of the vector registers (%zu bytes)",
                       iov.iov_len);
    return MW_OK;
}

static void frame_fill(struct rt_frame *out, const struct user_regs_struct *r, mw_addr restorer,
                       mw_addr fpstate, uint64_t mask)
{
    *out = (struct rt_frame){
        .restorer = restorer,
        .uc_flags = fpstate ? UC_FLAGS_KNOWN : UC_FLAGS_KNOWN & ~UC_FLAG_XSTATE,
        .stack_flags = STACK_FLAGS_IMPOSSIBLE,
        .r8 = r->r8,
        .r9 = r->r9,
        .r10 = r->r10,
        .r11 = r->r11,
        .r12 = r->r12,
        .r13 = r->r13,
        .r14 = r->r14,
        .r15 = r->r15,
        .rdi = r->rdi,
        .rsi = r->rsi,
        .rbp = r->rbp,
        .rbx = r->rbx,
        .rdx = r->rdx,
        .rax = r->rax,
        .rcx = r->rcx,
        .rsp = r->rsp,
        .rip = r->rip,
        .eflags = r->eflags,
        .cs = (uint16_t)r->cs,
        .gs = (uint16_t)r->gs,
        .fs = (uint16_t)r->fs,
        .ss = (uint16_t)r->ss,
        .fpstate = fpstate,
        .sigmask = mask,
    };
}

/* The registers with which the function begins. */
static void function_regs(struct user_regs_struct *entry, const struct mw_live_frame *frame,
                          mw_addr function, const uint64_t *args, size_t args_count)
{
    *entry = frame->regs.now;
    entry->rax = 0;
    entry->rip = function;
    entry->rsp = frame->sp;
    entry->eflags &= ~flags_cleared;
    if (args_count > 0)
        entry->rdi = args[0];
    if (args_count > 1)
        entry->rsi = args[1];
    if (args_count > 2)
        entry->rdx = args[2];
}

/* At the restorer, about to take the frame at `at`. */
static void regs_return_to(struct user_regs_struct *regs, const struct mw_live_frame *frame,
                           mw_addr at)
{
    *regs = frame->regs.now;
    regs->orig_rax = (unsigned long long)-1; /* the kernel must restart nothing */
    regs->rax = 0;
    regs->rip = frame->restorer;
    regs->rsp = at + sizeof(uint64_t);
    regs->eflags &= ~flags_cleared;
}

/* A mask that nobody else has in this thread: while it is in force, the function runs. */
static uint64_t call_mask(uint64_t own, uint64_t left_open)
{
    uint64_t mask = ~left_open;
    return mask != own ? mask : mask & ~(1ull << (SIGSTKFLT - 1)); /* a signal nobody sends */
}

/* Before Linux 5.1 a tracer is told the temporary mask of these calls, not the thread's own. */
static bool mask_is_hidden(const struct mw_tracer_regs *regs)
{
    struct utsname name;
    unsigned major, minor;
    switch (regs->syscall) {
    case __NR_rt_sigsuspend:
    case __NR_ppoll:
    case __NR_pselect6:
    case __NR_epoll_pwait:
    case __NR_io_pgetevents:
        break;
    default:
        return false;
    }
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        return true;
    return major < 5 || (major == 5 && minor < 1);
}

/* Addresses of the parts, from the top down, with `count` frames before the last. False: the
 * address space ends. */
static bool frame_place(struct mw_live_frame *frame, size_t xstate_bytes, size_t count,
                        mw_addr *fpstate_out)
{
    const mw_addr sp = frame->regs.now.rsp;
    if (sp < sizeof frame->bytes + RED_ZONE_BYTES)
        return false;
    frame->end = sp - RED_ZONE_BYTES;
    mw_addr fpstate =
        (frame->end - xstate_bytes - XSTATE_MAGIC2_BYTES) & ~(mw_addr)(XSTATE_ALIGN - 1);
    frame->sp = ((fpstate - sizeof(struct rt_frame)) & ~(mw_addr)15) - 8;
    frame->start = frame->sp - count * sizeof(struct rt_frame);
    frame->size = (size_t)(frame->end - frame->start);
    assert(frame->sp % 16 == 8 && frame->size <= sizeof frame->bytes);
    *fpstate_out = fpstate;
    return true;
}

/* What every frame needs: the masks, the places of `count` frames and of BACK, which is filled. */
static enum mw_status frame_begin(struct mw_live_frame *frame, size_t count, uint64_t left_open,
                                  struct mw_error *err)
{
    _Alignas(64) uint8_t xstate[MW_LIVE_FRAME_BYTES_MAX] = {0};
    struct rt_frame back;
    mw_addr fpstate;
    size_t size;
    if (frame->regs.now.cs != CS_USER_64)
        return mw_fail(err, MW_UNSUPPORTED, "thread %d runs 32-bit code", frame->tid);
    enum mw_status code = xstate_read(frame->tid, xstate, sizeof xstate, &size, err);
    if (code != MW_OK)
        return code;
    if (mask_is_hidden(&frame->regs))
        return mw_fail(err, MW_LIMIT, "thread %d sleeps with a temporary signal mask", frame->tid);
    if (ptrace(PTRACE_GETSIGMASK, frame->tid, (void *)sizeof frame->mask, &frame->mask) != 0)
        return mw_fail_errno(err, errno, "cannot read the signal mask of thread %d", frame->tid);
    if (!frame_place(frame, size, count, &fpstate))
        return mw_fail(err, MW_LIMIT, "thread %d has no stack", frame->tid);
    frame->call_mask = call_mask(frame->mask, left_open);
    memset(frame->bytes, 0, frame->size);
    frame_fill(&back, &frame->regs.resumed, frame->restorer, fpstate, frame->mask);
    memcpy(frame->bytes + (frame->sp - frame->start), &back, sizeof back);
    memcpy(frame->bytes + (fpstate - frame->start), xstate, size + XSTATE_MAGIC2_BYTES);
    regs_return_to(&frame->entry, frame, frame->start);
    return MW_OK;
}

/* Registers at the beginning of the index-th frame. */
static void frame_put(struct mw_live_frame *frame, size_t index,
                      const struct user_regs_struct *regs)
{
    struct rt_frame one;
    frame_fill(&one, regs, frame->restorer, 0, frame->call_mask);
    assert((index + 1) * sizeof one <= frame->size);
    memcpy(frame->bytes + index * sizeof one, &one, sizeof one);
}

enum mw_status mw_live_frame_build(struct mw_live_frame *frame, mw_addr function,
                                   const uint64_t *args, size_t args_count, struct mw_error *err)
{
    struct user_regs_struct entry;
    enum mw_status code = frame_begin(frame, 1, signals_left_open, err);
    if (code != MW_OK)
        return code;
    function_regs(&entry, frame, function, args, args_count);
    frame_put(frame, 0, &entry);
    return MW_OK;
}

static uint64_t step_arg(const struct mw_live_frame *frame, const struct mw_live_step_arg *arg)
{
    mw_addr at = frame->start + arg->value * sizeof(struct rt_frame);
    switch (arg->kind) {
    case MW_STEP_VALUE:
        break;
    case MW_STEP_FRAME:
        return at;
    case MW_STEP_NUMBER:
        return at + offsetof(struct rt_frame, rax) + arg->offset;
    case MW_STEP_ARG:
        return at + offsetof(struct rt_frame, rdi);
    }
    return arg->value;
}

enum mw_status mw_live_frame_build_chain(struct mw_live_frame *frame, mw_addr syscall_ret,
                                         const struct mw_live_step *steps, size_t count,
                                         struct mw_error *err)
{
    const uint64_t left_open = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
    assert(count > 0 && count <= MW_LIVE_STEPS_MAX);
    enum mw_status code = frame_begin(frame, count, left_open, err);
    if (code != MW_OK)
        return code;
    for (size_t i = 0; i < count; i++) {
        const struct mw_live_step *step = &steps[i];
        struct user_regs_struct regs = frame->regs.now;
        size_t next = step->next == MW_LIVE_STEP_BACK ? count : step->next;
        assert(next <= count);
        regs.rip = syscall_ret;
        regs.rax = (unsigned long long)step->number;
        regs.rsp = frame->start + next * sizeof(struct rt_frame);
        regs.rdi = step_arg(frame, &step->args[0]);
        regs.rsi = step_arg(frame, &step->args[1]);
        regs.rdx = step_arg(frame, &step->args[2]);
        regs.r10 = step_arg(frame, &step->args[3]);
        regs.r8 = step_arg(frame, &step->args[4]);
        regs.r9 = step_arg(frame, &step->args[5]);
        regs.eflags &= ~flags_cleared;
        frame_put(frame, i, &regs);
    }
    return MW_OK;
}

bool mw_live_frame_enter(struct mw_live_frame *frame)
{
    /* A call like sigsuspend has put another mask in force. Back to the thread's own: should memwhy
     * die now, the kernel restarts the call, which puts its mask in force again; should it die
     * after the register write, no signal that the thread blocks gets in before the function. */
    if (ptrace(PTRACE_SETSIGMASK, frame->tid, (void *)sizeof frame->mask, &frame->mask) != 0)
        return false;
    if (!mw_tracer_regs_write(frame->tid, &frame->entry)) {
        mw_tracer_regs_write(frame->tid, &frame->regs.now);
        return false;
    }
    /* ENTRY would block them an instant later. But one that comes during this stop should wait too:
     * at the end it gets the EINTR that it is due. Never before the register write: it would stay.
     */
    ptrace(PTRACE_SETSIGMASK, frame->tid, (void *)sizeof frame->call_mask, &frame->call_mask);
    return true;
}

bool mw_live_frame_can_hand_back(const struct mw_live_frame *frame)
{
    return (int32_t)frame->regs.native.orig_rax != -1;
}

void mw_live_frame_hand_back(const struct mw_live_frame *frame, const struct user_regs_struct *now)
{
    const struct user_regs_struct *resumed = &frame->regs.resumed;
    if (!mw_live_frame_can_hand_back(frame) || now->rip != resumed->rip ||
        now->rsp != resumed->rsp || now->rax != resumed->rax || (int32_t)now->orig_rax != -1)
        return;
    mw_tracer_regs_write(frame->tid, &frame->regs.native);
}

bool mw_live_frame_abandon(struct mw_live_frame *frame, const struct user_regs_struct *now)
{
    if (now->orig_rax != __NR_futex || now->rsp >= frame->sp)
        return false;
    regs_return_to(&frame->entry, frame, frame->sp);
    return mw_tracer_regs_write(frame->tid, &frame->entry);
}

bool mw_live_in_rseq(pid_t tid, const struct user_regs_struct *now)
{
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } rseq = {0};
    struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } section;
    uint64_t section_at;
    if ((int32_t)now->orig_rax != -1) /* no system calls inside such a sequence */
        return false;
    if (ptrace((enum __ptrace_request)PTRACE_GET_RSEQ, tid, (void *)sizeof rseq, &rseq) < 0 ||
        rseq.pointer == 0)
        return false;
    if (!mw_tracer_read(tid, rseq.pointer + 8, &section_at, sizeof section_at) || section_at == 0)
        return false;
    if (!mw_tracer_read(tid, section_at, &section, sizeof section))
        return true;
    return now->rip - section.start < section.length;
}

static bool is_signal_frame(const struct rt_frame *frame)
{
    return frame->uc_flags <= UC_FLAGS_KNOWN && frame->cs == CS_USER_64 &&
           frame->fpstate % XSTATE_ALIGN == 0;
}

struct mw_live_handler mw_live_handler_scan(mw_addr restorer, mw_addr sp, const uint8_t *stack,
                                            size_t length)
{
    struct mw_live_handler handler = {0};
    struct rt_frame frame;
    for (size_t at = -sp & 7; at + sizeof frame <= length; at += 8) {
        uint64_t word;
        memcpy(&word, stack + at, sizeof word);
        if (word != restorer)
            continue;
        memcpy(&frame, stack + at, sizeof frame);
        if (!is_signal_frame(&frame))
            continue;
        handler.found = true;
        if (!(frame.stack_flags & SS_DISABLE) && sp - frame.stack_pointer < frame.stack_size)
            handler.other_stack = true;
    }
    return handler;
}

#endif
