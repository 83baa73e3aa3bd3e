/* verdict/known.c: known causes: evidence that has met a named defect before.
 *
 * A row says what it saw, which defect has that shape, which versions are affected and what helps.
 * It never says more than "possible": the shape is a block size, a program's name, a finding.
 *
 * Block sizes were measured: .NET's exception records (CONTEXT and EXCEPTION_RECORD in one block)
 * on 8.0.30, 9.0.7 and 10.0.9 for x64; zlib's states on 1.2.13 (x86_64). */
#include "verdict/build.h"

#include <string.h>

struct known_row {
    const char *name;
    void (*look)(struct mw_scope *scope);
};

static bool is_program(const struct mw_scope *scope, const char *name)
{
    const struct mw_process *process = scope->process;
    const char *exe = process->exe;
    const char *slash = exe ? strrchr(exe, '/') : NULL;
    return strcmp(process->comm, name) == 0 || (exe && strcmp(slash ? slash + 1 : exe, name) == 0);
}

static bool is_icinga_api(const struct mw_scope *scope)
{
    return is_program(scope, "icinga2") &&
           mw_is_worth(scope, mw_kept_bytes(scope), 10, 16 * MW_MIB);
}

/* https://github.com/Icinga/icinga2/issues/10407 (streaming), /10068 and /10741 (reports) */
static void look_icinga_api(struct mw_scope *scope)
{
    if (is_icinga_api(scope))
        mw_known_add(scope, "Icinga 2 before 2.16 builds each API response in memory "
                            "(Icinga/icinga2#10407, #10741), 2.16 streams it; until then: fewer "
                            "attributes or objects a request, fewer requests at once");
}

bool mw_known_streams(const struct mw_scope *scope)
{
    return is_icinga_api(scope);
}

const char *mw_known_stream_action(const struct mw_scope *scope)
{
    return is_icinga_api(scope) ? "stream the responses (Icinga 2 >= 2.16)"
                                : "stream or batch what is built in memory as a whole";
}

/* The finding of the glibc walker for hblkhd above the sum of the mmapped blocks. */
static void look_mmapped_drift(struct mw_scope *scope)
{
    const struct mw_findings *findings = scope->evidence->findings;
    const struct mw_finding *finding =
        findings ? mw_finding_find(findings, "mmapped-mem-drift") : NULL;
    if (finding)
        mw_known_add(scope,
                     "glibc 2.43 and 2.44 add 16 bytes too much to mmapped_mem at each "
                     "realloc that moves a mapping, so mallinfo2().hblkhd is %s too high; the "
                     "memory itself is not lost",
                     MW_SIZE(finding->bytes));
}

/* https://github.com/dotnet/runtime/issues/135234, https://github.com/npgsql/npgsql/issues/6416
 * and /6593 */
static void look_dotnet_exceptions(struct mw_scope *scope)
{
    static const struct {
        uint64_t chunk_size;
        const char *versions;
    } records[] = {{3408, ".NET 10"}, {3280, ".NET 8 and 9"}};
    if (!mw_runtime_find(scope, "dotnet"))
        return;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        uint64_t size = records[i].chunk_size;
        uint64_t count = mw_in_use_count_of(scope, size);
        if (count < 1000)
            continue;
        bool npgsql = mw_is_mapped(scope, "Npgsql.dll");
        bool gssapi = mw_is_mapped(scope, "libgssapi_krb5.so");
        mw_known_add(scope,
                     "possible: %s blocks in use have the size of %s's exception records "
                     "on x64 (%s, %s usable), which leak when native code throws a cached managed "
                     "exception again (dotnet/runtime#135234)%s",
                     MW_COUNT(count), records[i].versions, MW_SIZE(size), MW_SIZE(size - 8),
                     npgsql && !gssapi
                         ? "; Npgsql is loaded and libgssapi_krb5 is not: Npgsql 10 tries GSS "
                           "encryption at each new connection (npgsql#6416, #6593): "
                           "PGGSSENCMODE=disable, or add libgssapi_krb5.so.2"
                         : "");
    }
}

/* A deflate state is 5,968 bytes and four blocks of 65,552; an inflate state 7,168 with a window
 * of 32,784 (level 6, 15 bits: what java.util.zip uses). */
static void look_java_zlib(struct mw_scope *scope)
{
    if (!mw_runtime_find(scope, "jvm"))
        return;
    uint64_t deflate = mw_in_use_count_of(scope, 65552) / 4;
    uint64_t inflate = mw_in_use_count_of(scope, 32784);
    deflate = mw_least(deflate, mw_in_use_count_of(scope, 5968));
    inflate = mw_least(inflate, mw_in_use_count_of(scope, 7168));
    if (deflate < 250 && inflate < 250)
        return;
    uint64_t bytes = mw_sum(deflate * (4 * 65552 + 5968), inflate * (32784 + 7168));
    mw_known_add(scope,
                 "possible: blocks of zlib's sizes hold %s (about %s deflaters, %s "
                 "inflaters): zip or gzip streams that are not closed, or Deflater and Inflater "
                 "without end(), keep their native state until they are collected (JDK-6293787)",
                 MW_BYTES(bytes), MW_COUNT(deflate), MW_COUNT(inflate));
}

static const struct known_row known_rows[] = {
    {"icinga2-api-responses", look_icinga_api},
    {"mmapped-mem-drift", look_mmapped_drift},
    {"dotnet-exception-records", look_dotnet_exceptions},
    {"java-zlib-streams", look_java_zlib},
};

void mw_beside_known(struct mw_scope *scope)
{
    for (size_t i = 0; i < sizeof known_rows / sizeof *known_rows; i++)
        known_rows[i].look(scope);
}
