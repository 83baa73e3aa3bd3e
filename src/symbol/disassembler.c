/* symbol/disassembler.c: capstone's few functions, as a table that is filled once.
 *
 * Trusts capstone with bytes of a target: it decodes one instruction of at most 15 bytes without
 * following anything. Reference: capstone 4.0.2 (libcapstone.so.4; 5 has the same four functions
 * and the same struct cs_insn up to op_str, which is all that is used here). */
#include "symbol/disassembler.h"

#if MW_WITH_CAPSTONE

#include <capstone/capstone.h>
#include <pthread.h>
#include <stdio.h>

static struct {
    cs_err (*open)(cs_arch arch, cs_mode mode, csh *handle);
    size_t (*disasm)(csh handle, const uint8_t *code, size_t size, uint64_t address, size_t count,
                     cs_insn **insn);
    void (*free)(cs_insn *insn, size_t count);
    cs_err (*close)(csh *handle);
} capstone;
static bool is_loaded;

#if MW_STATIC

static void load(void)
{
    capstone.open = cs_open;
    capstone.disasm = cs_disasm;
    capstone.free = cs_free;
    capstone.close = cs_close;
    is_loaded = true;
}

#else

#include <dlfcn.h>

#define TEXT_OF(number) #number
#define LIBRARY(number) "libcapstone.so." TEXT_OF(number)

static void load(void)
{
    void *library = dlopen(LIBRARY(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    capstone.open = (__typeof__(capstone.open))dlsym(library, "cs_open");
    capstone.disasm = (__typeof__(capstone.disasm))dlsym(library, "cs_disasm");
    capstone.free = (__typeof__(capstone.free))dlsym(library, "cs_free");
    capstone.close = (__typeof__(capstone.close))dlsym(library, "cs_close");
    is_loaded = capstone.open && capstone.disasm && capstone.free && capstone.close;
}

#endif

static bool is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded;
}

bool mw_disassemble(enum mw_arch arch, const uint8_t *bytes, size_t length, mw_addr address,
                    char *text, size_t room)
{
    csh handle;
    cs_insn *instructions = NULL;
    cs_arch kind = arch == MW_ARCH_AARCH64 ? CS_ARCH_ARM64 : CS_ARCH_X86;
    cs_mode mode = arch == MW_ARCH_AARCH64 ? CS_MODE_LITTLE_ENDIAN : CS_MODE_64;
    if ((arch != MW_ARCH_AARCH64 && arch != MW_ARCH_X86_64) || !is_there() ||
        capstone.open(kind, mode, &handle) != CS_ERR_OK)
        return false;
    size_t count = capstone.disasm(handle, bytes, length, address, 1, &instructions);
    bool is_whole = count == 1 && instructions[0].size == length;
    if (is_whole)
        snprintf(text, room, "%s%s%s", instructions[0].mnemonic,
                 instructions[0].op_str[0] ? " " : "", instructions[0].op_str);
    if (count > 0)
        capstone.free(instructions, count);
    capstone.close(&handle);
    return is_whole;
}

const char *mw_disassembler_missing(void)
{
    return is_there() ? "" : "libcapstone is not here: indirect calls are not disassembled";
}

#else

bool mw_disassemble(enum mw_arch arch, const uint8_t *bytes, size_t length, mw_addr address,
                    char *text, size_t room)
{
    (void)arch, (void)bytes, (void)length, (void)address, (void)text, (void)room;
    return false;
}

const char *mw_disassembler_missing(void)
{
    return "this memwhy was built without capstone: indirect calls are not disassembled";
}

#endif
