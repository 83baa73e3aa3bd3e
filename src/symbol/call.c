/* symbol/call.c: decoding backwards from a return address.
 *
 * x86-64: a call ends right before the address, and its forms are few:
 *
 *     e8 rel32                    direct; believed when it leads into code
 *     ff 15 rel32                 through a slot of the module (built without a PLT)
 *     [3e] [rex] ff /2 …          register or memory
 *
 * A direct call to `[f3 0f 1e fa] [f2] ff 25 rel32` is one to a PLT stub. Tried in this order, the
 * longest of the last kind first, because a prefix belongs to its instruction. aarch64: bl, blr and
 * their authenticated forms; a stub is adrp x16, ldr x17, add, br. Everything is a target's bytes:
 * fixed reads, no loop longer than an instruction.
 * References: Intel SDM 2 (CALL); Arm ARM C6.2; binutils 2.40 bfd/elf64-x86-64.c,
 * elfnn-aarch64.c. */
#include "symbol/call.h"

#include "symbol/disassembler.h"

#include <stdio.h>
#include <string.h>

enum { BEFORE_BYTES = 16, STUB_BYTES = 16 };

static bool is_code(const struct mw_image *image, mw_addr address)
{
    const struct mw_mapping *map = mw_image_region(image, address);
    return map && map->perms & MW_PERM_EXEC;
}

/* address + the signed 32 bits at bytes: wraps as the processor does. */
static mw_addr relative(mw_addr address, const uint8_t *bytes)
{
    int32_t distance;
    memcpy(&distance, bytes, sizeof distance);
    return address + (mw_addr)(int64_t)distance;
}

/* The pointer in a slot; 0 when it cannot be read. */
static mw_addr slot_target(struct mw_image *image, mw_addr slot)
{
    uint64_t target;
    return mw_image_read_u64(image, slot, &target) == MW_OK ? target : 0;
}

/* ---- x86-64 ---- */

/* Length of the operand's ModRM, SIB and displacement of `ff /2`; 0 when it is none. */
static unsigned operand_length(const uint8_t *bytes, unsigned left)
{
    if (left < 1 || (bytes[0] >> 3 & 7) != 2)
        return 0;
    unsigned mode = bytes[0] >> 6, base = bytes[0] & 7, length = 1;
    if (mode == 3)
        return 1;
    if (base == 4) {
        if (left < 2)
            return 0;
        length = 2;
        if (mode == 0 && (bytes[1] & 7) == 5)
            return 6;
    } else if (mode == 0 && base == 5) {
        return 5;
    }
    return length + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

/* Is it `[3e] [rex] ff /2` of exactly length bytes? */
static bool is_indirect_call(const uint8_t *bytes, unsigned length)
{
    unsigned at = 0;
    if (at < length && bytes[at] == 0x3e) /* notrack */
        at++;
    if (at < length && (bytes[at] & 0xf0) == 0x40)
        at++;
    return at + 1 < length && bytes[at] == 0xff &&
           operand_length(bytes + at + 1, length - at - 1) == length - at - 1;
}

static void call_take(struct mw_call *call, enum mw_call_kind kind, mw_addr address,
                      const uint8_t *bytes, unsigned length)
{
    *call = (struct mw_call){.kind = kind, .address = address - length, .length = length};
    memcpy(call->bytes, bytes, length);
}

/* The slot that an x86-64 stub jumps through; 0 when it is none. */
static mw_addr x86_stub_slot(struct mw_image *image, mw_addr stub)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint8_t bytes[STUB_BYTES];
    unsigned at = 0;
    if (mw_image_read_mapped(image, stub, bytes, sizeof bytes) != MW_OK)
        return 0;
    if (memcmp(bytes, endbr, sizeof endbr) == 0)
        at += sizeof endbr;
    if (bytes[at] == 0xf2)
        at++;
    if (bytes[at] != 0xff || bytes[at + 1] != 0x25)
        return 0;
    return relative(stub + at + 6, bytes + at + 2);
}

static enum mw_status x86_call_before(struct mw_image *image, mw_addr address, struct mw_call *call)
{
    uint8_t bytes[BEFORE_BYTES];
    unsigned have = BEFORE_BYTES; /* fewer at the start of a mapping */
    while (have >= 2 &&
           (address < have || mw_image_read_mapped(image, address - have, bytes, have) != MW_OK))
        have /= 2;
    if (have < 2)
        return MW_FAULT;
    const uint8_t *end = bytes + have;
    if (have >= 5 && end[-5] == 0xe8 && is_code(image, relative(address, end - 4))) {
        call_take(call, MW_CALL_DIRECT, address, end - 5, 5);
        call->target = relative(address, end - 4);
        call->slot = x86_stub_slot(image, call->target);
        call->is_plt = call->slot != 0;
        if (call->is_plt)
            call->target = slot_target(image, call->slot);
        return MW_OK;
    }
    if (have >= 6 && end[-6] == 0xff && end[-5] == 0x15) {
        call_take(call, MW_CALL_SLOT, address, end - 6, 6);
        call->slot = relative(address, end - 4);
        call->target = slot_target(image, call->slot);
        if (call->target != 0)
            return MW_OK;
    }
    for (unsigned length = have < 9 ? have : 9; length >= 2; length--)
        if (is_indirect_call(end - length, length)) {
            call_take(call, MW_CALL_REGISTER, address, end - length, length);
            return MW_OK;
        }
    return MW_NOT_FOUND;
}

/* ---- aarch64 ---- */

static mw_addr arm_stub_slot(struct mw_image *image, mw_addr stub)
{
    uint32_t words[3];
    unsigned at = 0;
    if (mw_image_read_mapped(image, stub, words, sizeof words) != MW_OK)
        return 0;
    if (words[0] == 0xd503245f) /* bti c */
        at = 1;
    uint32_t adrp = words[at], ldr = words[at + 1];
    if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
        return 0;
    uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
    int64_t distance = (int64_t)(pages << 43) >> 31; /* 21 signed bits of pages of 4 KiB */
    mw_addr page = (stub + 4 * at) & ~(mw_addr)4095;
    return page + (mw_addr)distance + (uint64_t)(ldr >> 10 & 0xfff) * 8;
}

static enum mw_status arm_call_before(struct mw_image *image, mw_addr address, struct mw_call *call)
{
    uint32_t word;
    uint8_t bytes[sizeof word];
    if (address % 4 != 0 || address < 4)
        return MW_NOT_FOUND;
    if (mw_image_read_mapped(image, address - 4, bytes, sizeof bytes) != MW_OK)
        return MW_FAULT;
    memcpy(&word, bytes, sizeof word);
    if ((word & 0xfc000000) == 0x94000000) { /* bl */
        call_take(call, MW_CALL_DIRECT, address, bytes, 4);
        int64_t distance = (int64_t)((uint64_t)word << 38) >> 36;
        call->target = address - 4 + (mw_addr)distance;
        if (!is_code(image, call->target))
            return MW_NOT_FOUND;
        call->slot = arm_stub_slot(image, call->target);
        call->is_plt = call->slot != 0;
        if (call->is_plt)
            call->target = slot_target(image, call->slot);
        return MW_OK;
    }
    if ((word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800) { /* blr, blraa … */
        call_take(call, MW_CALL_REGISTER, address, bytes, 4);
        return MW_OK;
    }
    return MW_NOT_FOUND;
}

enum mw_status mw_call_before(struct mw_image *image, mw_addr address, struct mw_call *call_out)
{
    if (!is_code(image, address - 1))
        return MW_NOT_FOUND;
    switch (image->arch) {
    case MW_ARCH_X86_64:
        return x86_call_before(image, address, call_out);
    case MW_ARCH_AARCH64:
        return arm_call_before(image, address, call_out);
    default:
        return MW_UNSUPPORTED;
    }
}

void mw_call_describe(const struct mw_call *call, struct mw_image *image, struct mw_names *names,
                      char *text, size_t room)
{
    char what[MW_NAME_TEXT_ROOM] = "";
    struct mw_name name;
    if (call->kind == MW_CALL_REGISTER) {
        if (!mw_disassemble(image->arch, call->bytes, call->length, call->address, text, room))
            snprintf(text, room, "call through a register");
        return;
    }
    if (call->target != 0 && mw_names_resolve(names, call->target, &name))
        mw_names_format(&name, what);
    if (what[0] == '\0')
        snprintf(what, sizeof what, "0x%llx",
                 (unsigned long long)(call->target ? call->target : call->slot));
    snprintf(text, room, "call %s", what);
}
