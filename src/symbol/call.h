/* symbol/call.h: the call before a return address.
 *
 * A return address in memory is worth most with the call that it returns from: which function was
 * called there. The instruction is found by decoding backwards, so it is likely, not certain: the
 * bytes before any code address may look like a call. x86-64 and aarch64. Direct calls and calls
 * through a slot of the module's own table (PLT, GOT) are named; other indirect ones are
 * disassembled where capstone is there (loaded when first needed). */
#ifndef MW_SYMBOL_CALL_H
#define MW_SYMBOL_CALL_H

#include "image/image.h"
#include "symbol/names.h"

enum { MW_CALL_BYTES_MAX = 15 };

enum mw_call_kind {
    MW_CALL_DIRECT,  /* target is known */
    MW_CALL_SLOT,    /* through the pointer at slot, which is target now (0: cannot be read) */
    MW_CALL_REGISTER /* the target was in a register, or in memory that one points to */
};

struct mw_call {
    enum mw_call_kind kind;
    mw_addr address; /* of the call instruction */
    unsigned length; /* bytes */
    uint8_t bytes[MW_CALL_BYTES_MAX];
    mw_addr target, slot;
    bool is_plt; /* the direct target is a stub that jumps through slot */
};

/* Decode the call that returns to address. MW_NOT_FOUND when there is none right before it,
 * MW_FAULT when code cannot be read, MW_UNSUPPORTED on other processors. */
enum mw_status mw_call_before(struct mw_image *image, mw_addr address,
                              struct mw_call *call_out) MW_MUST_CHECK;

/* "call RtlCaptureContext (libcoreclr.so)", "call qword ptr [rax + 0x18]". A target's names are in
 * it as they are. */
void mw_call_describe(const struct mw_call *call, struct mw_image *image, struct mw_names *names,
                      char *text, size_t room);

#endif
