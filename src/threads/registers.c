/* threads/registers.c: see registers.h.
 *
 * References: System V ABI x86-64 figure 3.36 and Linux struct user_regs_struct (r15 r14 r13 r12
 * rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ...); AArch64 aadwarf64 4.1
 * and struct user_pt_regs (x0 to x30, sp, pc, pstate). A return address on AArch64 may carry a
 * signature (PAC) above its 48 bits. */
#include "threads/registers.h"

#include <assert.h>

static const struct mw_thread_arch arches[] = {
    {
        .arch = MW_ARCH_X86_64,
        /* rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 */
        .count = 16,
        .dwarf_to_note = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0},
        .sp_number = 7,
        .fp_number = 6,
        .link_number = MW_THREAD_NO_LINK,
        .address_bits = 64,
    },
    {
        .arch = MW_ARCH_AARCH64,
        .count = 32,
        .dwarf_to_note = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
        .sp_number = 31,
        .fp_number = 29,
        .link_number = 30,
        .address_bits = 48,
    },
};

const struct mw_thread_arch *mw_thread_arch(enum mw_arch arch)
{
    for (size_t i = 0; i < sizeof arches / sizeof *arches; i++)
        if (arches[i].arch == arch)
            return &arches[i];
    return NULL;
}

struct mw_frame mw_thread_frame(const struct mw_thread_arch *arch, const struct mw_thread *thread)
{
    struct mw_frame frame = {
        .pc = mw_thread_code_address(arch, thread->pc),
        .sp_number = arch->sp_number,
        .is_exact = true,
    };
    for (unsigned i = 0; i < arch->count; i++) {
        if (arch->dwarf_to_note[i] >= thread->register_count)
            continue;
        frame.registers[i] = thread->registers[arch->dwarf_to_note[i]];
        frame.known |= (uint64_t)1 << i;
    }
    frame.registers[arch->sp_number] = thread->sp;
    frame.known |= (uint64_t)1 << arch->sp_number;
    return frame;
}
