/* symbol/frame.c: see frame.h. libdw finds and runs the CFI program; what its rules say is computed
 * here, since only we know how to read the memory.
 *
 *   rules of pc (pc - 1 behind a call) -> CFA -> each register: undefined, same, at an address,
 *                                                a value -> return address
 *
 * An expression is a list of at most OPS_MAX operations without jumps backward, its stack STACK_MAX
 * deep; branches are not taken, since no compiler writes them here. Hostile rules may lead anywhere
 * the callback can read, no further; progress is for the caller to demand.
 *
 * References: DWARF 5, 2.5 and 6.4; elfutils 0.188 libdw.h, libdwfl/frame_unwind.c; System V ABI
 * x86-64 3.6.2, AArch64 aadwarf64. */
#include "symbol/frame.h"

#include "symbol/module.h"

#if MW_WITH_SYMBOLS

#include <dwarf.h>
#include <stdlib.h>

enum { OPS_MAX = 256, STACK_MAX = 32, REGISTER_COUNT = 40 };

/* ---- expressions ---- */

struct machine {
    const struct mw_frame *frame;
    mw_frame_read *read;
    void *user;
    mw_addr cfa;
    bool has_cfa;
    uint64_t stack[STACK_MAX];
    size_t depth;
    bool is_value; /* the top is the value itself, not where it lies */
};

static bool push(struct machine *machine, uint64_t value)
{
    if (machine->depth == STACK_MAX)
        return false;
    machine->stack[machine->depth++] = value;
    return true;
}

static bool push_register(struct machine *machine, uint64_t number, uint64_t offset)
{
    return number < MW_FRAME_REGISTERS && mw_frame_knows(machine->frame, (unsigned)number) &&
           push(machine, machine->frame->registers[number] + offset);
}

static bool unary(struct machine *machine, const Dwarf_Op *op)
{
    if (machine->depth < 1)
        return false;
    uint64_t *top = &machine->stack[machine->depth - 1];
    switch (op->atom) {
    case DW_OP_deref:
        return machine->read(machine->user, *top, top);
    case DW_OP_plus_uconst:
        *top += op->number;
        return true;
    case DW_OP_neg:
        *top = -*top;
        return true;
    case DW_OP_not:
        *top = ~*top;
        return true;
    case DW_OP_abs:
        *top = (int64_t)*top < 0 ? -*top : *top;
        return true;
    case DW_OP_dup:
        return push(machine, *top);
    case DW_OP_drop:
        machine->depth--;
        return true;
    default:
        return false;
    }
}

static bool compute(uint8_t atom, uint64_t a, uint64_t b, uint64_t *result)
{
    int64_t left = (int64_t)a, right = (int64_t)b;
    switch (atom) {
    case DW_OP_plus:
        *result = a + b;
        return true;
    case DW_OP_minus:
        *result = a - b;
        return true;
    case DW_OP_mul:
        *result = a * b;
        return true;
    case DW_OP_and:
        *result = a & b;
        return true;
    case DW_OP_or:
        *result = a | b;
        return true;
    case DW_OP_xor:
        *result = a ^ b;
        return true;
    case DW_OP_shl:
        *result = b < 64 ? a << b : 0;
        return true;
    case DW_OP_shr:
        *result = b < 64 ? a >> b : 0;
        return true;
    case DW_OP_shra:
        *result = (uint64_t)(left >> (b < 63 ? b : 63));
        return true;
    case DW_OP_eq:
        *result = left == right;
        return true;
    case DW_OP_ne:
        *result = left != right;
        return true;
    case DW_OP_ge:
        *result = left >= right;
        return true;
    case DW_OP_gt:
        *result = left > right;
        return true;
    case DW_OP_le:
        *result = left <= right;
        return true;
    case DW_OP_lt:
        *result = left < right;
        return true;
    default:
        return false;
    }
}

static bool binary(struct machine *machine, const Dwarf_Op *op)
{
    if (machine->depth < 2)
        return false;
    uint64_t *a = &machine->stack[machine->depth - 2], b = machine->stack[machine->depth - 1];
    switch (op->atom) {
    case DW_OP_over:
        return push(machine, *a);
    case DW_OP_swap:
        machine->stack[machine->depth - 1] = *a;
        *a = b;
        return true;
    default:
        machine->depth--;
        return compute(op->atom, *a, b, a);
    }
}

static bool operate(struct machine *machine, const Dwarf_Op *op)
{
    uint8_t atom = op->atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        return push(machine, atom - DW_OP_lit0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        return push_register(machine, atom - DW_OP_breg0, op->number);
    switch (atom) {
    case DW_OP_bregx:
        return push_register(machine, op->number, op->number2);
    case DW_OP_call_frame_cfa:
        return machine->has_cfa && push(machine, machine->cfa);
    case DW_OP_addr:
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return push(machine, op->number);
    case DW_OP_stack_value:
        machine->is_value = true;
        return true;
    case DW_OP_nop:
        return true;
    default:
        return unary(machine, op) || binary(machine, op);
    }
}

/* A location in a register is a value to us. */
static bool evaluate(struct machine *machine, const Dwarf_Op *ops, size_t count,
                     uint64_t *result_out)
{
    machine->depth = 0;
    machine->is_value = false;
    if (count == 0 || count > OPS_MAX)
        return false;
    bool is_register =
        ops->atom == DW_OP_regx || (ops->atom >= DW_OP_reg0 && ops->atom <= DW_OP_reg31);
    if (count == 1 && is_register) {
        machine->is_value = true;
        uint64_t number = ops->number;
        if (ops->atom != DW_OP_regx)
            number = (uint64_t)ops->atom - DW_OP_reg0;
        if (!push_register(machine, number, 0))
            return false;
    } else {
        for (size_t i = 0; i < count; i++)
            if (!operate(machine, &ops[i]))
                return false;
    }
    if (machine->depth == 0)
        return false;
    *result_out = machine->stack[machine->depth - 1];
    return true;
}

/* ---- rules ---- */

enum rule { RULE_VALUE, RULE_SAME, RULE_UNDEFINED, RULE_BROKEN };

static enum rule register_apply(struct machine *machine, Dwarf_Frame *rules, unsigned number,
                                uint64_t *value_out)
{
    const struct mw_elfutils *lib = mw_elfutils();
    Dwarf_Op memory[3], *ops;
    size_t count;
    if (lib->dwarf_frame_register(rules, (int)number, memory, &ops, &count) != 0)
        return RULE_BROKEN;
    if (count == 0)
        return ops ? RULE_UNDEFINED : RULE_SAME;
    uint64_t value;
    if (!evaluate(machine, ops, count, &value))
        return RULE_BROKEN;
    if (!machine->is_value && !machine->read(machine->user, value, &value))
        return RULE_BROKEN;
    *value_out = value;
    return RULE_VALUE;
}

/* Registers of the caller. One whose rule leads nowhere is unknown from there on. */
static void registers_apply(struct machine *machine, Dwarf_Frame *rules, struct mw_frame *caller)
{
    const struct mw_frame *frame = machine->frame;
    for (unsigned i = 0; i < REGISTER_COUNT; i++) {
        uint64_t value;
        enum rule rule = register_apply(machine, rules, i, &value);
        bool is_sp = i == frame->sp_number;
        if (is_sp && rule != RULE_VALUE) {
            rule = RULE_VALUE;
            value = machine->cfa;
        }
        if (rule == RULE_VALUE)
            caller->registers[i] = value;
        if (rule == RULE_VALUE || (rule == RULE_SAME && mw_frame_knows(frame, i)))
            caller->known |= (uint64_t)1 << i;
        else
            caller->known &= ~((uint64_t)1 << i);
    }
}

static enum mw_frame_step rules_apply(Dwarf_Frame *rules, struct mw_frame *frame,
                                      mw_frame_read *read, void *user)
{
    const struct mw_elfutils *lib = mw_elfutils();
    struct machine machine = {.frame = frame, .read = read, .user = user};
    struct mw_frame caller = *frame;
    bool is_signal = false;
    Dwarf_Op *ops;
    size_t count;
    uint64_t pc = 0;
    int return_number = lib->dwarf_frame_info(rules, NULL, NULL, &is_signal);
    if (return_number < 0 || return_number >= MW_FRAME_REGISTERS ||
        lib->dwarf_frame_cfa(rules, &ops, &count) != 0 ||
        !evaluate(&machine, ops, count, &machine.cfa))
        return MW_FRAME_BROKEN;
    machine.has_cfa = true;
    switch (register_apply(&machine, rules, (unsigned)return_number, &pc)) {
    case RULE_UNDEFINED:
        return MW_FRAME_OUTERMOST;
    case RULE_BROKEN:
        return MW_FRAME_BROKEN;
    case RULE_SAME: /* a leaf of a machine with a link register */
        if (!mw_frame_knows(frame, (unsigned)return_number))
            return MW_FRAME_BROKEN;
        pc = frame->registers[return_number];
        break;
    case RULE_VALUE:
        break;
    }
    if (pc == 0)
        return MW_FRAME_OUTERMOST;
    registers_apply(&machine, rules, &caller);
    caller.pc = pc;
    caller.is_exact = is_signal;
    *frame = caller;
    return MW_FRAME_STEPPED;
}

/* ---- finding the rules ---- */

static void cfi_open(struct mw_names *names, struct mw_module *module)
{
    const struct mw_elf_file *file = mw_module_main(names, module);
    module->tried_cfi = true;
    if (file)
        module->eh_cfi = mw_elf_file_cfi(file);
}

static bool has_debug_frame(const struct mw_elf_file *file)
{
    return file && mw_elf_file_section(file, SHT_NULL, ".debug_frame");
}

/* Code of musl, and of much that is not C++, has .debug_frame only, in its debug file. */
static Dwarf_Frame *rules_of(struct mw_names *names, struct mw_module *module, mw_addr address)
{
    const struct mw_elfutils *lib = mw_elfutils();
    Dwarf_Frame *rules = NULL;
    if (!module->tried_cfi)
        cfi_open(names, module);
    if (module->eh_cfi &&
        lib->dwarf_cfi_addrframe(module->eh_cfi, address - module->bias, &rules) == 0)
        return rules;
    if (!has_debug_frame(mw_module_main(names, module)) &&
        !has_debug_frame(mw_module_debug(names, module)))
        return NULL; /* other debug sections are not read for this */
    Dwarf *dwarf = mw_module_dwarf(names, module);
    Dwarf_CFI *cfi = dwarf ? lib->dwarf_getcfi(dwarf) : NULL;
    if (cfi && lib->dwarf_cfi_addrframe(cfi, address - module->bias, &rules) == 0)
        return rules;
    return NULL;
}

enum mw_frame_step mw_names_frame_step(struct mw_names *names, struct mw_frame *frame,
                                       mw_frame_read *read, void *user)
{
    mw_addr look_at = frame->is_exact || frame->pc == 0 ? frame->pc : frame->pc - 1;
    struct mw_module *module = mw_names_module(names, look_at);
    if (!module || !mw_elfutils())
        return MW_FRAME_NO_RULES;
    Dwarf_Frame *rules = rules_of(names, module, look_at);
    if (!rules)
        return MW_FRAME_NO_RULES;
    enum mw_frame_step step = rules_apply(rules, frame, read, user);
    free(rules);
    return step;
}

#else

enum mw_frame_step mw_names_frame_step(struct mw_names *names, struct mw_frame *frame,
                                       mw_frame_read *read, void *user)
{
    (void)names;
    (void)frame;
    (void)read;
    (void)user;
    return MW_FRAME_NO_RULES;
}

#endif
