/* threads/registers.h: registers by their DWARF numbers: a data table for each architecture. */
#ifndef MW_THREADS_REGISTERS_H
#define MW_THREADS_REGISTERS_H

#include "image/image.h"
#include "symbol/frame.h"

struct mw_thread_arch {
    enum mw_arch arch;
    uint8_t count;                /* of dwarf_to_note */
    uint8_t dwarf_to_note[34];    /* DWARF number -> place in NT_PRSTATUS */
    uint8_t sp_number, fp_number; /* DWARF numbers */
    uint8_t link_number;          /* of the link register; NO_LINK: calls push */
    uint8_t address_bits;         /* of a code address; what is above may be a signature */
};
enum { MW_THREAD_NO_LINK = 255 };

/* NULL: memwhy cannot unwind it. */
const struct mw_thread_arch *mw_thread_arch(enum mw_arch arch);

/* The innermost frame of a thread with registers. */
struct mw_frame mw_thread_frame(const struct mw_thread_arch *arch, const struct mw_thread *thread);

static inline mw_addr mw_thread_code_address(const struct mw_thread_arch *arch, mw_addr address)
{
    return arch->address_bits == 64 ? address : address & (((mw_addr)1 << arch->address_bits) - 1);
}

#endif
