/* symbol/disassembler.h: one instruction as text, by capstone: loaded with the first question, so
 * that it is no condition for the rest; the static program has it inside. */
#ifndef MW_SYMBOL_DISASSEMBLER_H
#define MW_SYMBOL_DISASSEMBLER_H

#include "image/image.h"

/* "call qword ptr [rax + 0x18]" of exactly length bytes that lie at address. False when it is no
 * such instruction, on other processors than x86-64 and aarch64, or without capstone. */
bool mw_disassemble(enum mw_arch arch, const uint8_t *bytes, size_t length, mw_addr address,
                    char *text, size_t room);

/* Why there is none; "" when there is one. */
const char *mw_disassembler_missing(void);

#endif
