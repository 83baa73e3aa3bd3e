/* layout/rows_dotnet.c: what CoreCLR keeps in malloc's heap.
 *
 * AllocateExceptionRecords() (src/coreclr/pal/src/exception/seh-unwind.cpp, .NET 8.0.30, 9.0.7,
 * 10.0.9) asks posix_memalign for a CONTEXT and an EXCEPTION_RECORD behind it:
 *
 *   .NET 8, 9   CONTEXT 0xc20, in all 0xcc0      .NET 10   CONTEXT 0xca0 (R16 to R31), in all 0xd40
 *
 *   CONTEXT (x64)      +0x30 ContextFlags  +0x38 SegCs  +0x42 SegSs  +0x98 Rsp  +0xf8 Rip
 *   EXCEPTION_RECORD   +0 code  +4 flags  +8 record  +16 address  +24 count  +32 parameters
 *
 *   CONTEXT (arm64)    0x390, with the state of SVE 0x3a0 (pal/src/arch/arm64/asmconstants.h);
 * flags at 0
 *
 * The JIT's arena works in pages of 64 KiB or more: next 0, its own size 8
 * (src/coreclr/jit/alloc.h, 10.0.12).
 *
 * A managed exception that native code throws has code 0xe0434352 and 5 parameters: its HRESULT, 0,
 * 0, 0, and where the runtime is loaded. One such block leaks with each throw of a cached
 * TypeInitializationException. docs/formats/dotnet.md. */
#include "layout/scope.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    CONTEXT_9 = 0xc20,
    CONTEXT_10 = 0xca0,
    CONTEXT_ARM64 = 0x390,
    CONTEXT_ARM64_SVE = 0x3a0,
    RECORD_BYTES = 152,
};
#define CLR_EXCEPTION 0xe0434352u

static const struct {
    uint32_t code;
    const char *name;
} hresults[] = {
    {0x80131534, "COR_E_TYPEINITIALIZATION"},
    {0x80131500, "COR_E_EXCEPTION"},
    {0x80131501, "COR_E_SYSTEM"},
    {0x80131509, "COR_E_INVALIDOPERATION"},
    {0x80131515, "COR_E_NOTSUPPORTED"},
    {0x80131524, "COR_E_DLLNOTFOUND"},
    {0x80131523, "COR_E_ENTRYPOINTNOTFOUND"},
    {0x80131522, "COR_E_TYPELOAD"},
    {0x80070002, "COR_E_FILENOTFOUND"},
    {0x8013153b, "COR_E_OPERATIONCANCELED"},
    {0x80131620, "COR_E_IO"},
    {0x8007000e, "COR_E_OUTOFMEMORY"},
    {0x80004003, "COR_E_NULLREFERENCE"},
    {0x80131502, "COR_E_ARGUMENTOUTOFRANGE"},
    {0x80070057, "COR_E_ARGUMENT"},
};

/* The context's own words, whatever the record says. */
#define CONTEXT_CHECKS                                                                             \
    MW_AT4(0x30, BITS, 0xfff00000 & ~0x08000000u, 0x00100000), MW_AT2(0x38, RANGE, 0x33, 0x33),    \
        MW_AT8(0x98, WORD, MW_WORD_WRITABLE, 0),                                                   \
        MW_AT8(0xf8, WORD, MW_WORD_CODE | MW_WORD_OTHER, 0)

static bool record_names(struct mw_layout_view *view, struct mw_layout_match *match, size_t at)
{
    uint64_t result = mw_view_u64(view, at + 32), base = mw_view_u64(view, at + 64);
    struct mw_scope_module *module = mw_scope_module_of(view->scope, base);
    if (!module)
        return false;
    const char *name = "";
    for (size_t i = 0; i < sizeof hresults / sizeof *hresults; i++)
        if (hresults[i].code == (uint32_t)result)
            name = hresults[i].name;
    snprintf(match->name, sizeof match->name,
             "CLR exception record + %s CONTEXT (HRESULT 0x%08" PRIx32 "%s%s)",
             at < CONTEXT_9 ? "arm64" : "x64", (uint32_t)result, name[0] ? " " : "", name);
    return true;
}

static bool is_clr_record_9(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return record_names(view, match, CONTEXT_9);
}

static bool is_clr_record_10(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return record_names(view, match, CONTEXT_10);
}

static bool is_clr_record_arm64(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return record_names(view, match, CONTEXT_ARM64);
}

static bool is_clr_record_sve(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return record_names(view, match, CONTEXT_ARM64_SVE);
}

#define RECORD_CHECKS(at)                                                                          \
    MW_AT4((at), RANGE, CLR_EXCEPTION, CLR_EXCEPTION), MW_AT4((at) + 24, RANGE, 5, 5),             \
        MW_AT8((at) + 64, WORD, MW_WORD_MODULE, 0)
#define FLAGS_X64 MW_AT4(0x30, BITS, 0xf7f00000, 0x00100000)
#define FLAGS_ARM64 MW_AT4(0, BITS, 0xf7f00000, 0x00400000)
/* Any other: a hardware fault, 0xc…, or a record that is not filled in. */
#define OTHER_CHECKS(at)                                                                           \
    CONTEXT_CHECKS, MW_AT4((at) + 24, RANGE, 0, 15), MW_AT8((at) + 8, WORD, MW_WORD_NODE, 0)

const struct mw_layout_row mw_rows_dotnet[] = {
    {.id = "clr exception context",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = CONTEXT_10 + RECORD_BYTES,
     .usable_max = CONTEXT_10 + RECORD_BYTES + 256,
     .checks = {RECORD_CHECKS(CONTEXT_10), FLAGS_X64},
     .test = is_clr_record_10},
    {.id = "clr exception context",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = CONTEXT_9 + RECORD_BYTES,
     .usable_max = CONTEXT_9 + RECORD_BYTES + 256,
     .checks = {RECORD_CHECKS(CONTEXT_9), FLAGS_X64},
     .test = is_clr_record_9},
    {.id = "clr exception context",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = CONTEXT_ARM64 + RECORD_BYTES,
     .usable_max = CONTEXT_ARM64 + RECORD_BYTES + 256,
     .checks = {RECORD_CHECKS(CONTEXT_ARM64), FLAGS_ARM64},
     .test = is_clr_record_arm64},
    {.id = "clr exception context",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = CONTEXT_ARM64_SVE + RECORD_BYTES,
     .usable_max = CONTEXT_ARM64_SVE + RECORD_BYTES + 256,
     .checks = {RECORD_CHECKS(CONTEXT_ARM64_SVE), FLAGS_ARM64},
     .test = is_clr_record_sve},
    {.id = "clr context",
     .name = "CLR exception record + x64 CONTEXT",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = CONTEXT_10 + RECORD_BYTES,
     .usable_max = CONTEXT_10 + RECORD_BYTES + 64,
     .checks = {OTHER_CHECKS(CONTEXT_10)}},
    {.id = "clr context",
     .name = "CLR exception record + x64 CONTEXT",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = CONTEXT_9 + RECORD_BYTES,
     .usable_max = CONTEXT_9 + RECORD_BYTES + 64,
     .checks = {OTHER_CHECKS(CONTEXT_9)}},
    {.id = "clr jit page",
     .name = "page of the JIT's arena (CLR)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "libclrjit",
     .usable_min = 65536,
     .checks = {MW_AT8(8, RANGE, 65536, 1 << 30), MW_AT8(8, END, 0, 0),
                MW_AT8(0, WORD, MW_WORD_NODE, 0)}},
    {.id = NULL},
};
