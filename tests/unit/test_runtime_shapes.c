/* tests/unit/test_runtime_shapes.c: runtimes from pasted mappings, as measured on real programs
 * (.NET 10.0.12, OpenJDK 17.0.15, Node 20 and 24, CPython 3.11, Go 1.19) and cut to what decides.
 */
#include "account/account.h"
#include "runtime/probe.h"
#include "smaps_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)

struct fixture {
    struct mw_image image;
    struct mw_claims claims;
    struct mw_account account;
    struct mw_findings findings;
    struct mw_runtime runtimes[MW_RUNTIMES_MAX];
    size_t count;
};

static void run(struct fixture *f, const char *const *lines)
{
    struct mw_error err = {0};
    memset(f, 0, sizeof *f);
    smaps_lines_open(lines, &f->image);
    assert_int_equal(mw_account_claim_mappings(&f->image, &f->claims, &f->findings, &err), MW_OK);
    assert_int_equal(
        mw_runtimes_probe(&f->image, &f->claims, f->runtimes, &f->count, &f->findings, &err),
        MW_OK);
    assert_int_equal(mw_account_build(&f->image, &f->claims, &f->account, &f->findings, &err),
                     MW_OK);
}

static void release(struct fixture *f)
{
    mw_account_deinit(&f->account);
    mw_claims_deinit(&f->claims);
    mw_findings_deinit(&f->findings);
    mw_image_close(&f->image);
}

static void assert_category(const struct fixture *f, mw_addr address, const char *category)
{
    for (size_t i = 0; i < f->account.piece_count; i++) {
        const struct mw_account_piece *piece = &f->account.pieces[i];
        if (piece->start > address || address >= piece->end)
            continue;
        if (strcmp(mw_category_id(piece->category), category) != 0)
            fail_msg("%llx is %s (%s), not %s", (unsigned long long)address,
                     mw_category_id(piece->category), piece->owner, category);
        return;
    }
    fail_msg("nothing at %llx", (unsigned long long)address);
}

static void test_no_runtime(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "55550000-55551000 r-xp 11 4 /usr/sbin/nginx",
        "7f0000000000-7f0000400000 rw-p 0 4096 | rd wr mr mw me ac",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_int_equal(f.count, 0);
    release(&f);
}

static void test_dotnet_regions(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7efc8a68e000-7efc8a699000 rw-p 0 20 | rd wr mr mw me ac", /* GC tables */
        "7efc8a699000-7efca3000000 ---p 0 0 | mr mw me dd",
        "7efca3000000-7efca3011000 rw-p 0 4 | rd wr mr mw me ac", /* regions */
        "7efca3011000-7efca5000000 ---p 0 0 | mr mw me dd",
        "7efca5000000-7efca5c00000 rw-p 0 4124 | rd wr mr mw me ac",
        "7efca5c00000-7efca67b3000 rw-p 0 3648 | rd wr mr mw me ac",
        "7efca67b3000-7f0868000000 ---p 0 0 | mr mw me dd",
        "7f0868000000-7f0868021000 rw-p 0 8 | rd wr mr mw me nr", /* touches: a glibc arena */
        "7f0868021000-7f086c000000 ---p 0 0 | mr mw me nr",
        "7f087f3f4000-7f087f3f5000 ---p 0 0 | mr mw me nh", /* a stack */
        "7f087f3f5000-7f087fbf5000 rw-p 0 8 | rd wr mr mw me ac nh",
        "7f087fbf5000-7f087fc40000 ---p 0 0 | mr mw me dd",
        "7f087fc40000-7f087fc44000 r-xs 21 16 /memfd:doublemapper (deleted)",
        "7f087fc44000-7f087fc48000 rw-s 24 16 /memfd:doublemapper (deleted)",
        "7f087fc48000-7f087fc60000 ---p 0 0 | mr mw me dd",
        "7f087fc60000-7f087fc70000 r-xp 22 64 /app/System.Private.CoreLib.dll",
        "7f08fe400000-7f08fe4bd000 r--p 23 756 "
        "/usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.12/libcoreclr.so",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.runtimes[0].kind, "dotnet");
    assert_string_equal(f.runtimes[0].version, "10.0.12");
    assert_int_equal(f.runtimes[0].heap_committed, KIB(68 + 12288 + 11980));
    assert_int_equal(f.runtimes[0].heap_rss, KIB(4 + 4124 + 3648));
    assert_int_equal(f.runtimes[0].heap_start, 0x7efca3000000);
    assert_true(f.runtimes[0].heap_used == MW_UNKNOWN);
    assert_category(&f, 0x7efc8a68e000, "managed.metadata");
    assert_category(&f, 0x7efca3000000, "managed.heap");
    assert_category(&f, 0x7efca5c00000, "managed.heap");
    assert_category(&f, 0x7f0868000000, "malloc.unsplit");
    assert_category(&f, 0x7f087f3f5000, "stack.threads");
    assert_category(&f, 0x7f087fc40000, "managed.code");
    assert_category(&f, 0x7f087fc44000, "managed.metadata");
    assert_category(&f, 0x7f087fc60000, "file.mapped");
    assert_int_equal(f.account.unknown_bytes, 0);
    release(&f);
}

/* Without W^X code is anonymous; libclrgc.so's segments are runs of their own. */
static void test_dotnet_segments_without_double_mapping(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f70ac000000-7f70ad8b2000 rw-p 0 17000 | rd wr mr mw me ac",
        "7f70ad8b2000-7f70bc000000 ---p 0 0 | mr mw me dd",
        "7f70bc000000-7f70bcbb4000 rw-p 0 11000 | rd wr mr mw me ac",
        "7f70bcbb4000-7f70c4000000 ---p 0 0 | mr mw me dd",
        "7f70e1e10000-7f70e1e40000 ---p 0 0 | mr mw me dd",
        "7f70e1e40000-7f70e1e41000 rwxp 0 4 | rd wr ex mr mw me ac",
        "7f70e1e41000-7f70e1e50000 ---p 0 0 | mr mw me dd",
        "7f70e1e50000-7f70e1e60000 rw-p 0 40 | rd wr mr mw me ac",
        "7f70e1e60000-7f70e1e71000 ---p 0 0 | mr mw me dd",
        "7f70f0000000-7f70f00bd000 r--p 23 756 "
        "/opt/dotnet/shared/Microsoft.NETCore.App/8.0.22/libcoreclr.so",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_string_equal(f.runtimes[0].version, "8.0.22");
    assert_int_equal(f.runtimes[0].heap_rss, KIB(28000));
    assert_category(&f, 0x7f70e1e40000, "managed.code");
    assert_category(&f, 0x7f70e1e50000, "managed.metadata");
    assert_int_equal(f.account.unknown_bytes, 0);
    release(&f);
}

static const char *const jvm_lines[] = {
    "e0000000-f7a00000 rw-p 0 37208 | rd wr mr mw me ac",
    "f7a00000-ffe00000 ---p 0 0 | mr mw me nr",
    "ffe00000-ffe75000 rw-p 31 468 /usr/lib/jvm/java-17-openjdk-amd64/lib/server/classes.jsa",
    "ffe75000-100000000 rw-p 0 0 | rd wr mr mw me ac",
    "7fae6c021000-7fae70000000 ---p 0 0 | mr mw me nr",
    "7fae73000000-7fae73030000 rw-p 0 164 | rd wr mr mw me ac", /* metaspace */
    "7fae73030000-7fae77000000 ---p 0 0 | mr mw me nr",
    "7fae77000000-7fae77bc7000 rw-p 31 11788 "
    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/classes.jsa",
    "7fae77bc7000-7fae78000000 ---p 0 0 | mr mw me nr",
    "7fae78000000-7fae78010000 rw-p 0 12 | rd wr mr mw me ac", /* class space */
    "7fae78010000-7faeb8000000 ---p 0 0 | mr mw me nr",
    "7faeb8000000-7faeb8021000 rw-p 0 8 | rd wr mr mw me nr", /* a glibc arena */
    "7faeb8021000-7faebc000000 ---p 0 0 | mr mw me nr",
    "7faebc000000-7faebc021000 rw-p 0 8 | rd wr mr mw me ac", /* one of glibc 2.41 */
    "7faebc021000-7faec0000000 ---p 0 0 | mr mw me",
    "7faec5600000-7faec5604000 ---p 0 0 | mr mw me", /* a Java thread */
    "7faec5604000-7faec5700000 rw-p 0 88 | rd wr mr mw me ac nh",
    "7faed4af7000-7faed5400000 rw-p 0 9252 | rd wr mr mw me ac", /* direct buffers: malloc's */
    "7faed5400000-7faed5670000 rwxp 0 40 | rd wr ex mr mw me ac",
    "7faed5670000-7faee4400000 ---p 0 0 | mr mw me nr",
    "7faef2e27000-7faef2ee5000 rw-p 0 760 | rd wr mr mw me ac", /* card table */
    "7faef2ee5000-7faef2f27000 ---p 0 0 | mr mw me nr",
    "7faef3800000-7faef3a51000 r--p 32 2372 "
    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
    NULL,
};

static void test_jvm_by_shape(void **state)
{
    (void)state;
    struct fixture f;
    run(&f, jvm_lines);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.runtimes[0].kind, "jvm");
    assert_string_equal(f.runtimes[0].version, "17");
    assert_int_equal(f.runtimes[0].heap_start, 0xe0000000);
    assert_int_equal(f.runtimes[0].heap_end, 0x100000000);
    assert_int_equal(f.runtimes[0].heap_committed, KIB(387072 + 2048));
    assert_int_equal(f.runtimes[0].heap_rss, KIB(37208 + 468));
    assert_category(&f, 0xe0000000, "managed.heap");
    assert_category(&f, 0xffe00000, "managed.heap"); /* archived objects */
    assert_category(&f, 0x7fae73000000, "managed.metadata");
    assert_category(&f, 0x7fae77000000, "managed.metadata");
    assert_category(&f, 0x7fae78000000, "managed.metadata");
    assert_category(&f, 0x7faeb8000000, "malloc.unsplit");
    assert_category(&f, 0x7faebc000000, "malloc.unsplit");
    assert_category(&f, 0x7faec5604000, "stack.threads");
    assert_category(&f, 0x7faed4af7000, "unknown"); /* touches the code cache, is not its */
    assert_category(&f, 0x7faed5400000, "managed.code");
    assert_category(&f, 0x7faef2e27000, "managed.metadata");
    release(&f);
}

/* Serial GC with all of its heap committed; the launcher is linked to a fixed address. */
static void test_jvm_heap_without_reserve(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "400000-401000 r-xp 33 4 /opt/jdk-21.0.2+13/bin/java",
        "600000-601000 rw-p 33 4 /opt/jdk-21.0.2+13/bin/java",
        "601000-901000 rw-p 0 4 | rd wr mr mw me ac",
        "f0000000-100000000 rw-p 0 27072 | rd wr mr mw me ac",
        "7faef3800000-7faef3a51000 r-xp 32 2372 /opt/jdk-21.0.2+13/lib/server/libjvm.so",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_string_equal(f.runtimes[0].version, "21.0.2+13");
    assert_int_equal(f.runtimes[0].heap_start, 0xf0000000);
    assert_int_equal(f.runtimes[0].heap_committed, KIB(262144));
    assert_category(&f, 0x601000, "file.data");
    release(&f);
}

/* JDK 17: one memfd, three views; the committed size is that of one. */
static void test_jvm_zgc(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "40000000000-40001000000 rw-s 5 1000 /memfd:java_heap (deleted)",
        "80000000000-80001000000 rw-s 5 12000 /memfd:java_heap (deleted)",
        "100000000000-100001000000 rw-s 5 1000 /memfd:java_heap (deleted)",
        "7faef3800000-7faef3a51000 r-xp 32 2372 /opt/java-17/lib/server/libjvm.so",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_int_equal(f.runtimes[0].heap_committed, KIB(16384));
    assert_true(f.runtimes[0].heap_rss == MW_UNKNOWN);
    assert_category(&f, 0x40000000000, "managed.heap");
    assert_int_equal(f.account.rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes +
                         f.account.rows[MW_CATEGORY_ALIAS].rss_bytes,
                     KIB(14000));
    assert_true(f.account.rows[MW_CATEGORY_ALIAS].rss_bytes >= KIB(1900));
    release(&f);
}

static void test_node(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "400000-b6f000 r--p 41 5940 /usr/bin/node",
        "b72000-25fe000 r-xp 41 20364 /usr/bin/node",
        "b202f00000-b202f40000 rw-p 0 256 | rd wr mr mw me dc nr",
        "84412600000-84412642000 rw-p 0 264 | rd wr mr mw me dc nr", /* a large object */
        "b7953380000-b79533c0000 ---p 0 0 | mr mw me dc nr",         /* given back */
        "1438cbc00000-1438cbc40000 rw-p 0 4 | rd wr mr mw me dc ac", /* Node 24 */
        "2783f4cc0000-2783f4ccd000 r--p 0 52 | rd mr mw me dc nr",   /* read-only space */
        "7f2044000000-7f2044002000 rw-p 0 8 | rd wr mr mw me dc nr", /* code range */
        "7f2044002000-7f2044003000 ---p 0 0 | mr mw me dc nr",
        "7f2044003000-7f204403f000 rwxp 0 32 | rd wr ex mr mw me dc nr",
        "7f204403f000-7f2063e40000 ---p 0 0 | mr mw me dc nr",
        "7f2063e40000-7f2063fd2000 r-xp 41 832 /usr/bin/node",
        "7f2063fd2000-7f2064000000 ---p 0 0 | mr mw me dc nr",
        "7f2091a00000-7f2091b00000 rw-p 0 1024 | rd wr mr mw me ac", /* a buffer: malloc's */
        "7f2091eb9000-7f2091ebd000 rw-p 0 4 | rd wr mr mw me dc nr",
        "7f2091ebd000-7f2091f39000 ---p 0 0 | mr mw me dc nr",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.runtimes[0].kind, "node");
    assert_int_equal(f.runtimes[0].heap_committed, KIB(256 + 264 + 52 + 256));
    assert_int_equal(f.runtimes[0].heap_rss, KIB(256 + 264 + 52 + 4));
    assert_category(&f, 0xb202f00000, "managed.heap");
    assert_category(&f, 0x84412600000, "managed.heap");
    assert_category(&f, 0x2783f4cc0000, "managed.heap");
    assert_category(&f, 0x7f2044000000, "managed.code");
    assert_category(&f, 0x7f2044003000, "managed.code");
    assert_category(&f, 0x7f2063e40000, "file.text");
    assert_category(&f, 0x7f2091a00000, "unknown");
    assert_category(&f, 0x7f2091eb9000, "managed.metadata");
    release(&f);
}

static void test_cpython_by_size(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "400000-41f000 r-xp 51 124 /usr/bin/python3.11",
        "946000-a85000 rw-p 51 1276 /usr/bin/python3.11",
        "a85000-b85000 rw-p 0 8 | rd wr mr mw me ac", /* .bss of a round size */
        "7f28d77ff000-7f28d7800000 ---p 0 0 | mr mw me nh",
        "7f28d7800000-7f28d8000000 rw-p 0 8 | rd wr mr mw me ac nh", /* a stack */
        "7f28e5d06000-7f28e6006000 rw-p 0 2792 | rd wr mr mw me ac", /* three arenas */
        "7f28e6006000-7f28e60ca000 rw-p 0 784 | rd wr mr mw me ac",  /* malloc's */
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_string_equal(f.runtimes[0].kind, "cpython");
    assert_string_equal(f.runtimes[0].version, "3.11");
    assert_int_equal(f.runtimes[0].heap_committed, KIB(3072));
    assert_int_equal(f.runtimes[0].heap_rss, KIB(2792));
    assert_category(&f, 0xa85000, "file.data");
    assert_category(&f, 0x7f28d7800000, "stack.threads");
    assert_category(&f, 0x7f28e5d06000, "managed.heap");
    assert_category(&f, 0x7f28e6006000, "unknown");
    release(&f);
}

static void test_cpython_versions(void **state)
{
    (void)state;
    static const struct {
        const char *line, *version;
    } cases[] = {
        {"7f0000000000-7f0000001000 r-xp 51 4 /usr/lib/libpython3.9.so.1.0", "3.9"},
        {"7f0000000000-7f0000001000 r-xp 51 4 /root/.pyenv/versions/3.12.1/bin/python3.12",
         "3.12.1"},
        {"7f0000000000-7f0000001000 r-xp 51 4 /usr/bin/python2.7", "2.7"},
        {"7f0000000000-7f0000001000 r-xp 51 4 /usr/bin/python3", "3"},
        {"7f0000000000-7f0000001000 r-xp 51 4 /usr/lib/python3/dist-packages/x.so", NULL},
        {"7f0000000000-7f0000001000 r-xp 51 4 /usr/bin/pythonia", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        run(&f, (const char *const[]){cases[i].line, NULL});
        assert_int_equal(f.count, cases[i].version ? 1 : 0);
        if (cases[i].version)
            assert_string_equal(f.runtimes[0].version, cases[i].version);
        release(&f);
    }
}

static void test_go(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "400000-484000 r-xp 61 528 /srv/app",
        "515000-52d000 rw-p 61 96 /srv/app",
        "52d000-561000 rw-p 0 64 | rd wr mr mw me ac", /* .bss */
        "c000000000-c002c00000 rw-p 0 42180 | rd wr mr mw me ac",
        "c002c00000-c004000000 ---p 0 0 | mr mw me",
        "7fb0d9a00000-7fb0d9a07000 rw-p 0 4 | rd wr mr mw me ac",
        "7fb0d9a07000-7fb0e9f80000 ---p 0 0 | mr mw me",
        "7fb0fe609000-7fb0fe6b9000 rw-p 0 640 | rd wr mr mw me ac",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_string_equal(f.runtimes[0].kind, "go");
    assert_int_equal(f.runtimes[0].heap_committed, KIB(45056));
    assert_int_equal(f.runtimes[0].heap_rss, KIB(42180));
    assert_category(&f, 0x52d000, "file.data");
    assert_category(&f, 0xc000000000, "managed.heap");
    assert_category(&f, 0x7fb0d9a00000, "managed.metadata");
    assert_category(&f, 0x7fb0fe609000, "managed.metadata");
    assert_int_equal(f.account.unknown_bytes, 0);
    release(&f);
}

/* cgo: what lies beside no reserve of Go's may be malloc's. */
static void test_go_with_libc(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "c000000000-c004000000 rw-p 0 42180 | rd wr mr mw me ac",
        "7fb0d9a00000-7fb0d9a07000 rw-p 0 4 | rd wr mr mw me ac",
        "7fb0d9a07000-7fb0e9f80000 ---p 0 0 | mr mw me",
        "7fb0fe609000-7fb0fe6b9000 rw-p 0 640 | rd wr mr mw me ac",
        "7fb0ff000000-7fb0ff001000 r-xp 71 4 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        NULL,
    };
    struct fixture f;
    run(&f, lines);
    assert_category(&f, 0x7fb0d9a00000, "managed.metadata");
    assert_category(&f, 0x7fb0fe609000, "unknown");
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_runtime),
        cmocka_unit_test(test_dotnet_regions),
        cmocka_unit_test(test_dotnet_segments_without_double_mapping),
        cmocka_unit_test(test_jvm_by_shape),
        cmocka_unit_test(test_jvm_heap_without_reserve),
        cmocka_unit_test(test_jvm_zgc),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_cpython_by_size),
        cmocka_unit_test(test_cpython_versions),
        cmocka_unit_test(test_go),
        cmocka_unit_test(test_go_with_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
