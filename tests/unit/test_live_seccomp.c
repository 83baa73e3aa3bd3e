/* tests/unit/test_live_seccomp.c: seccomp filters run by memwhy, and asked before a call into a
 * process. The kernel is the oracle where it can be: a filter that it installs must answer here as
 * it does there. */
#include "image/live_call.h"
#include "image/live_seccomp.h"

#include "selfcheck_target.h"

#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (value))

enum { ASKED = 400, RANDOM_PROGRAMS = 2000, PROGRAM_MAX = 12 };

static const uint64_t asked_args[6] = {7, 0x100000002, 3, 4, 5, UINT32_MAX};

static uint32_t run_for(const struct sock_filter *program, size_t count, int number)
{
    struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_X86_64};
    memcpy(data.args, asked_args, sizeof data.args);
    return mw_live_seccomp_run(program, count, &data);
}

static void test_instructions(void **state)
{
    (void)state;
    const struct sock_filter arithmetic[] = {BPF_STMT(BPF_LD | BPF_IMM, 6),
                                             BPF_STMT(BPF_ST, 3),
                                             BPF_STMT(BPF_LDX | BPF_MEM, 3),
                                             BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0), /* 36 */
                                             BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 1),
                                             BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 2), /* 140 */
                                             BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 3),
                                             BPF_STMT(BPF_MISC | BPF_TAX, 0),
                                             BPF_STMT(BPF_ALU | BPF_NEG, 0),
                                             BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), /* 0 */
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                                             BPF_STMT(BPF_MISC | BPF_TXA, 0),
                                             BPF_STMT(BPF_RET | BPF_A, 0)};
    assert_int_equal(run_for(arithmetic, COUNT(arithmetic), 0), 143);
    const struct sock_filter high_word[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4),
        BPF_STMT(BPF_RET | BPF_A, 0)};
    assert_int_equal(run_for(high_word, COUNT(high_word), 0), 1);
    const struct sock_filter length[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
                                         BPF_STMT(BPF_RET | BPF_A, 0)};
    assert_int_equal(run_for(length, COUNT(length), 0), sizeof(struct seccomp_data));
}

/* What the kernel would refuse to install ends, and kills. */
static void test_bad_programs(void **state)
{
    (void)state;
    const struct sock_filter programs[][2] = {
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ANSWER(1)}, /* past the data */
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), ANSWER(1)},  /* not aligned */
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UINT32_MAX - 3), ANSWER(1)},
        {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ANSWER(1)}, /* a byte */
        {BPF_STMT(BPF_LD | BPF_MEM, 16), ANSWER(1)},
        {BPF_STMT(BPF_ST, 16), ANSWER(1)},
        {BPF_STMT(BPF_JMP | BPF_JA, 1), ANSWER(1)}, /* past the end */
        {BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), ANSWER(1)},
        {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 255, 255), ANSWER(1)},
        {BPF_STMT(BPF_LD | BPF_IMM, 1), BPF_STMT(BPF_LD | BPF_IMM, 1)}, /* no return */
        {BPF_STMT(BPF_ALU | 0xf0, 1), ANSWER(1)},
        {BPF_STMT(BPF_JMP | 0xf0, 1), ANSWER(1)},
    };
    for (size_t i = 0; i < COUNT(programs); i++)
        assert_int_equal(run_for(programs[i], 2, 0), 0x80000000u);
    assert_int_equal(run_for(programs[0], 0, 0), 0x80000000u);
}

/* A random program that the kernel takes: an errno of 1 … 255 for system call ASKED. */
static size_t program_make(struct sock_filter *program, unsigned *seed)
{
    static const uint16_t alu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
                                   BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG};
    static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    size_t count = 3 + (size_t)rand_r(seed) % (PROGRAM_MAX - 6), at = 0;
    program[at++] = (struct sock_filter)LOAD(nr);
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ASKED, 1, 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (; at < count + 2; at++) {
        uint32_t k = (uint32_t)rand_r(seed) % 31 + 1, word = (uint32_t)rand_r(seed) % 16 * 4;
        uint16_t source = rand_r(seed) % 2 ? BPF_X : BPF_K;
        uint8_t left = (uint8_t)(count + 2 - at);
        switch (rand_r(seed) % 6) {
        case 0:
            program[at] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word);
            break;
        case 1:
            program[at] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
            break;
        case 2:
            program[at] = (struct sock_filter)BPF_JUMP(
                (uint16_t)(BPF_JMP | jumps[rand_r(seed) % 4] | source), k,
                (uint8_t)(rand_r(seed) % left), (uint8_t)(rand_r(seed) % left));
            break;
        case 3:
            program[at] = (struct sock_filter)BPF_STMT(BPF_LDX | BPF_IMM, k);
            break;
        default:
            program[at] = (struct sock_filter)BPF_STMT(
                (uint16_t)(BPF_ALU | alu[rand_r(seed) % 10] | source), k);
        }
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7f);
    program[at++] =
        (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO | 0x80);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
    return at;
}

/* The kernel's answer: the errno of the call, 0: killed, or -1 when it did not take the program. */
static int kernel_answer(struct sock_filter *program, size_t count)
{
    struct sock_fprog filter = {(unsigned short)count, program};
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(0);
        syscall(ASKED, asked_args[0], asked_args[1], asked_args[2], asked_args[3], asked_args[4],
                asked_args[5]);
        _exit(errno);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) /* divided by zero */
        return 0;
    return WEXITSTATUS(status) ? WEXITSTATUS(status) : -1;
}

/* Random programs answer here as in the kernel. Those that look at the instruction pointer, which
 * nobody can know, are left out. */
static void test_random_programs_against_the_kernel(void **state)
{
    (void)state;
    unsigned seed = 42;
    int compared = 0, killed = 0;
    for (int i = 0; i < RANDOM_PROGRAMS; i++) {
        struct sock_filter program[PROGRAM_MAX + 4];
        size_t count = program_make(program, &seed);
        bool sees_pointer = false;
        for (size_t at = 0; at < count; at++)
            sees_pointer |= program[at].code == (BPF_LD | BPF_W | BPF_ABS) &&
                            (program[at].k == 8 || program[at].k == 12);
        if (sees_pointer)
            continue;
        int kernel = kernel_answer(program, count);
        if (kernel < 0)
            continue;
        uint32_t ours = run_for(program, count, ASKED);
        assert_int_equal(ours, kernel ? SECCOMP_RET_ERRNO | (uint32_t)kernel : 0x80000000u);
        compared++;
        killed += kernel == 0;
    }
    print_message("# %d programs compared, %d of them kill\n", compared, killed);
    assert_true(compared > RANDOM_PROGRAMS / 4);
}

/* The fixture's filter kills for madvise(…, MADV_DONTNEED), and only for that. */
static void test_call_is_refused_where_it_would_kill(void **state)
{
    (void)state;
    struct target target = target_start("filtered");
    struct mw_live_call_syscall one = {.number = SYS_madvise, .args = {0, 4096, MADV_DONTNEED}};
    struct mw_live_call_request request = {.function = target.shared->probe,
                                           .args = PROBE_ARGS,
                                           .args_count = 3,
                                           .syscalls = &one,
                                           .syscalls_count = 1};
    struct mw_live_call_result result;
    struct mw_error err = {0};
    enum mw_status status = mw_live_call(target.pid, &request, &result, &err);
    if (status == MW_OK && result.seccomp_unknown) {
        target_stop(&target);
        skip(); /* reading filters needs CAP_SYS_ADMIN */
    }
    assert_int_equal(status, MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "seccomp filter"));
    assert_int_equal(target.shared->called, 0);
    one.args[2] = MADV_FREE;
    assert_int_equal(mw_live_call(target.pid, &request, &result, &err), MW_OK);
    assert_false(result.seccomp_unknown);
    assert_int_equal(target.shared->called, 1);
    target_poke(&target);
    assert_true(wait_until(target.shared->progress == 2));
    assert_healthy(&target);
    target_stop(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_bad_programs),
        cmocka_unit_test(test_random_programs_against_the_kernel),
        cmocka_unit_test(test_call_is_refused_where_it_would_kill),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("live_seccomp", tests, NULL, NULL);
}
