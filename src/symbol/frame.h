/* symbol/frame.h: one step up a stack by call frame information (.eh_frame, .debug_frame).
 *
 * Registers are by their DWARF number. Memory comes through a callback, so that a copy of a stack
 * serves as well as a core. */
#ifndef MW_SYMBOL_FRAME_H
#define MW_SYMBOL_FRAME_H

#include "symbol/names.h"

enum { MW_FRAME_REGISTERS = 64 };

struct mw_frame {
    uint64_t registers[MW_FRAME_REGISTERS];
    uint64_t known;     /* bit n: registers[n] holds a value */
    unsigned sp_number; /* of the stack pointer: the data of an architecture */
    mw_addr pc;
    bool is_exact; /* pc is where it stands, not where a call returns to */
};

static inline bool mw_frame_knows(const struct mw_frame *frame, unsigned number)
{
    return number < MW_FRAME_REGISTERS && frame->known >> number & 1;
}

/* Read one word of the target's memory; false when it cannot be had. */
typedef bool mw_frame_read(void *user, mw_addr address, uint64_t *value_out);

enum mw_frame_step {
    MW_FRAME_STEPPED,   /* *frame is the caller's */
    MW_FRAME_OUTERMOST, /* it has no caller */
    MW_FRAME_NO_RULES,  /* nothing is known of the code at pc */
    MW_FRAME_BROKEN,    /* there are rules, and they lead nowhere */
};

/* On anything but MW_FRAME_STEPPED the frame stays as it is. Expressions are bounded. The first
 * step in a module reads its .eh_frame. */
enum mw_frame_step mw_names_frame_step(struct mw_names *names, struct mw_frame *frame,
                                       mw_frame_read *read, void *user);

#endif
