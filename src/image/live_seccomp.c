/* image/live_seccomp.c: reading and running seccomp filters (classic BPF).
 *
 * Trusts nothing of a program: every index is checked, and only forward jumps exist in this
 * language. References: Linux 6.18 kernel/seccomp.c (seccomp_check_filter, seccomp_run_filters,
 * seccomp_get_filter), Documentation/networking/filter.rst. */
#include "image/live_seccomp.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ptrace.h>

enum {
    FILTERS_MAX = 4096,  /* the kernel keeps 32,768 instructions a thread */
    GET_FILTER = 0x420c, /* PTRACE_SECCOMP_GET_FILTER, Linux 4.4 */
    DATA_BYTES = sizeof(struct seccomp_data),
};

/* Of newer kernels than the headers of a build may know. */
static const uint32_t action_log = 0x7ffc0000u, action_kill_process = 0x80000000u;

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
    const struct seccomp_data *data;
    bool bad;
};

static uint32_t load(struct machine *m, const struct sock_filter *insn)
{
    uint32_t value;
    switch (BPF_MODE(insn->code)) {
    case BPF_ABS:
        if (BPF_SIZE(insn->code) == BPF_W && insn->k % 4 == 0 && insn->k <= DATA_BYTES - 4) {
            memcpy(&value, (const uint8_t *)m->data + insn->k, sizeof value);
            return value;
        }
        break;
    case BPF_IMM:
        return insn->k;
    case BPF_LEN:
        return DATA_BYTES;
    case BPF_MEM:
        if (insn->k < BPF_MEMWORDS)
            return m->memory[insn->k];
        break;
    default:
        break;
    }
    m->bad = true;
    return 0;
}

static void store(struct machine *m, uint32_t index, uint32_t value)
{
    if (index < BPF_MEMWORDS)
        m->memory[index] = value;
    else
        m->bad = true;
}

static uint32_t operand(const struct machine *m, const struct sock_filter *insn)
{
    return BPF_SRC(insn->code) == BPF_X ? m->x : insn->k;
}

static uint32_t arithmetic(struct machine *m, const struct sock_filter *insn)
{
    uint32_t a = m->a, b = operand(m, insn);
    switch (BPF_OP(insn->code)) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        m->bad |= b == 0; /* ends the program, with the answer KILL_THREAD */
        return b ? a / b : 0;
    case BPF_AND:
        return a & b;
    case BPF_OR:
        return a | b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return a << (b & 31);
    case BPF_RSH:
        return a >> (b & 31);
    case BPF_NEG:
        return -a;
    default:
        m->bad = true;
        return 0;
    }
}

/* How many instructions are left out. */
static uint32_t jump(struct machine *m, const struct sock_filter *insn)
{
    uint32_t b = operand(m, insn);
    switch (BPF_OP(insn->code)) {
    case BPF_JA:
        return insn->k;
    case BPF_JEQ:
        return m->a == b ? insn->jt : insn->jf;
    case BPF_JGT:
        return m->a > b ? insn->jt : insn->jf;
    case BPF_JGE:
        return m->a >= b ? insn->jt : insn->jf;
    case BPF_JSET:
        return m->a & b ? insn->jt : insn->jf;
    default:
        m->bad = true;
        return 0;
    }
}

/* One instruction but a return; gives how many are left out behind it. */
static uint32_t step(struct machine *m, const struct sock_filter *insn)
{
    switch (BPF_CLASS(insn->code)) {
    case BPF_LD:
        m->a = load(m, insn);
        return 0;
    case BPF_LDX:
        m->x = load(m, insn);
        return 0;
    case BPF_ST:
        store(m, insn->k, m->a);
        return 0;
    case BPF_STX:
        store(m, insn->k, m->x);
        return 0;
    case BPF_ALU:
        m->a = arithmetic(m, insn);
        return 0;
    case BPF_JMP:
        return jump(m, insn);
    case BPF_MISC:
        if (BPF_MISCOP(insn->code) == BPF_TXA)
            m->a = m->x;
        else
            m->x = m->a;
        return 0;
    default:
        m->bad = true;
        return 0;
    }
}

uint32_t mw_live_seccomp_run(const struct sock_filter *program, size_t count,
                             const struct seccomp_data *data)
{
    struct machine m = {.data = data};
    for (size_t at = 0; at < count; at++) {
        const struct sock_filter *insn = &program[at];
        if (BPF_CLASS(insn->code) == BPF_RET)
            return BPF_RVAL(insn->code) == BPF_A ? m.a : insn->k;
        size_t skipped = step(&m, insn);
        if (m.bad || skipped >= count - at)
            break;
        at += skipped;
    }
    return action_kill_process;
}

static enum mw_live_seccomp meaning(uint32_t result)
{
    uint32_t action = result & 0xffff0000u;
    if (action == SECCOMP_RET_ALLOW || action == action_log)
        return MW_SECCOMP_ALLOWS;
    if (action == SECCOMP_RET_ERRNO || action == SECCOMP_RET_TRACE)
        return MW_SECCOMP_FAILS; /* TRACE without its tracer is ENOSYS */
    return MW_SECCOMP_KILLS;     /* KILL_THREAD, KILL_PROCESS, TRAP, USER_NOTIF, unknown ones */
}

/* One filter's answer; *length_out is 0 when there is no such filter. */
static enum mw_live_seccomp filter_ask(pid_t tid, uintptr_t index, const struct seccomp_data *data,
                                       long *length_out)
{
    enum __ptrace_request request = (enum __ptrace_request)GET_FILTER;
    long length = ptrace(request, tid, (void *)index, NULL);
    *length_out = 0;
    if (length < 0 && errno == ENOENT)
        return MW_SECCOMP_ALLOWS;
    if (length <= 0 || length > BPF_MAXINSNS)
        return MW_SECCOMP_UNKNOWN;
    MW_FREE struct sock_filter *program = mw_calloc((size_t)length, sizeof *program);
    if (!program || ptrace(request, tid, (void *)index, program) != length)
        return MW_SECCOMP_UNKNOWN;
    *length_out = length;
    return meaning(mw_live_seccomp_run(program, (size_t)length, data));
}

enum mw_live_seccomp mw_live_seccomp_ask(pid_t tid, int number, const uint64_t args[6])
{
    struct seccomp_data data = {.nr = number};
#if defined(__x86_64__)
    data.arch = AUDIT_ARCH_X86_64;
#else
    data.arch = AUDIT_ARCH_AARCH64;
#endif
    for (int i = 0; i < 6; i++)
        data.args[i] = args[i];
    enum mw_live_seccomp worst = MW_SECCOMP_ALLOWS;
    for (uintptr_t index = 0; index < FILTERS_MAX; index++) {
        long length;
        enum mw_live_seccomp one = filter_ask(tid, index, &data, &length);
        if (one > worst)
            worst = one;
        if (length == 0)
            break;
    }
    return worst;
}
