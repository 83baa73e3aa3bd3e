/* tests/unit/test_runtime_memory.c: what probes read from memory: HotSpot's perf counters and
 * structure table, CPython's table of arenas, Go's note and build information, a foreign
 * allocator's marks. Built byte by byte, then damaged. */
#include "base/alloc.h"
#include "heap/foreign/foreign.h"
#include "heap/musl/musl.h"
#include "image/open.h"
#include "runtime/cpython/arenas.h"
#include "runtime/jvm/perfdata.h"
#include "runtime/probe.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, RW = MW_PERM_READ | MW_PERM_WRITE };

static void put32(uint8_t *bytes, size_t at, uint32_t value)
{
    memcpy(bytes + at, &value, sizeof value);
}

static void put64(uint8_t *bytes, size_t at, uint64_t value)
{
    memcpy(bytes + at, &value, sizeof value);
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct mw_image_memory_part part(mw_addr start, const void *bytes, uint64_t size,
                                        uint32_t perms, const char *name)
{
    return (struct mw_image_memory_part){
        .mapping = {.start = start,
                    .end = start + size,
                    .perms = perms,
                    .name = name,
                    .inode = name && name[0] == '/' ? 9 : 0},
        .bytes = bytes,
    };
}

/* ---- perf counters ---- */

/* Append an entry; returns the offset behind it. */
static size_t perf_entry(uint8_t *bytes, size_t at, const char *name, char type, const void *value,
                         size_t size)
{
    size_t data = (20 + strlen(name) + 1 + 7) / 8 * 8, length = (data + size + 7) / 8 * 8;
    put32(bytes, at, (uint32_t)length);
    put32(bytes, at + 4, 20);
    put32(bytes, at + 8, type == 'B' ? (uint32_t)size : 0);
    bytes[at + 12] = (uint8_t)type;
    put32(bytes, at + 16, (uint32_t)data);
    memcpy(bytes + at + 20, name, strlen(name) + 1);
    memcpy(bytes + at + data, value, size);
    return at + length;
}

static size_t perf_make(uint8_t *bytes, size_t size)
{
    static const uint8_t head[] = {0xca, 0xfe, 0xc0, 0xc0, 1, 2, 0, 1};
    static const char version[] = "17.0.15+6-Debian-1deb12u1";
    uint64_t eden = 1009, old = 20011, other = 7;
    memset(bytes, 0, size);
    memcpy(bytes, head, sizeof head);
    put32(bytes, 24, 32);
    put32(bytes, 28, 5);
    size_t at = perf_entry(bytes, 32, "sun.gc.generation.0.space.0.used", 'J', &eden, 8);
    at = perf_entry(bytes, at, "sun.gc.generation.0.space.0.capacity", 'J', &other, 8);
    at = perf_entry(bytes, at, "sun.gc.generation.1.space.0.used", 'J', &old, 8);
    at = perf_entry(bytes, at, "sun.gc.generation.1.space.0.usedX", 'J', &other, 8);
    at = perf_entry(bytes, at, "java.property.java.vm.version", 'B', version, sizeof version);
    put32(bytes, 8, (uint32_t)at);
    return at;
}

static void test_perf_counters(void **state)
{
    (void)state;
    uint8_t bytes[2048];
    struct mw_perfdata perf;
    size_t size = perf_make(bytes, sizeof bytes);
    assert_int_equal(mw_perfdata_parse(bytes, sizeof bytes, &perf), MW_OK);
    assert_int_equal(perf.heap_used, 1009 + 20011);
    assert_int_equal(perf.eden_size, 7);
    assert_string_equal(perf.version, "17.0.15+6-Debian-1deb12u1");
    assert_int_equal(mw_perfdata_parse(bytes, 31, &perf), MW_CORRUPT);
    for (size_t cut = 32; cut < size; cut++) /* whatever is cut off, what is left is right */
        if (mw_perfdata_parse(bytes, cut, &perf) == MW_OK)
            assert_true(perf.heap_used == MW_UNKNOWN || perf.heap_used == 1009 ||
                        perf.heap_used == 1009 + 20011);
    bytes[7] = 0; /* not accessible yet */
    assert_int_equal(mw_perfdata_parse(bytes, sizeof bytes, &perf), MW_CORRUPT);
    uint32_t seed = 5;
    for (int round = 0; round < 20000; round++) {
        perf_make(bytes, sizeof bytes);
        for (uint32_t n = 1 + random_next(&seed) % 16; n > 0; n--)
            bytes[random_next(&seed) % size] = (uint8_t)random_next(&seed);
        if (mw_perfdata_parse(bytes, sizeof bytes, &perf) == MW_OK)
            assert_true(strlen(perf.version) < sizeof perf.version);
    }
}

/* ---- arenas of CPython ---- */

enum { ARENAS = 3, ENTRIES = 20, ENTRY = 48 };
static const mw_addr heap_at = 0x5000000, data_at = 0x600000, arenas_at = 0x7f0000000000;

/* A table with arenas of arena_bytes at entries 0, 2 and 5, the rest unused. */
static void table_make(uint8_t *heap, uint64_t arena_bytes)
{
    static const size_t used[ARENAS] = {0, 2, 5};
    memset(heap, 0xa5, 2 * PAGE);
    for (size_t i = 0; i < ENTRIES; i++) {
        uint8_t *entry = heap + 16 + i * ENTRY;
        put64(entry, 0, 0);
        put64(entry, 32, i + 1 < ENTRIES ? heap_at + 16 + (i + 1) * ENTRY : 0);
    }
    for (size_t i = 0; i < ARENAS; i++) {
        uint8_t *entry = heap + 16 + used[i] * ENTRY;
        mw_addr arena = arenas_at + i * arena_bytes;
        put64(entry, 0, arena);
        put64(entry, 8, arena + arena_bytes / 2);
        put32(entry, 16, 7);
        put32(entry, 20, 64);
        put64(entry, 24, 0);
        put64(entry, 32, 0);
        put64(entry, 40, 0);
    }
}

static void arenas_check(uint64_t arena_bytes, uint8_t *arena_memory)
{
    static uint8_t heap[2 * PAGE], data[PAGE];
    struct mw_image image;
    struct mw_obmalloc obmalloc = {0};
    table_make(heap, arena_bytes);
    memset(data, 0, sizeof data);
    put64(data, 64, heap_at + 16 + 5 * ENTRY); /* usable_arenas: into the middle of the table */
    put64(data, 72, heap_at + 16);
    put64(data, 80, heap_at + 0x100);
    const struct mw_image_memory_part parts[] = {
        part(data_at, data, sizeof data, RW, "/usr/bin/python3"),
        part(heap_at, heap, sizeof heap, RW, "[heap]"),
        part(arenas_at, arena_memory, ARENAS * arena_bytes, RW, NULL),
    };
    assert_int_equal(mw_image_open_memory(parts, 3, &image, NULL), MW_OK);
    assert_int_equal(mw_obmalloc_find(&image, data_at, data_at + PAGE, &obmalloc), MW_OK);
    assert_int_equal(obmalloc.arena_bytes, arena_bytes);
    assert_int_equal(obmalloc.count, ARENAS);
    for (size_t i = 0; i < ARENAS; i++)
        assert_int_equal(obmalloc.items[i], arenas_at + i * arena_bytes);
    assert_int_equal(obmalloc.used_bytes, ARENAS * (64 - 7) * (arena_bytes / 64));
    mw_obmalloc_deinit(&obmalloc);
    put64(data, 72, 0);
    put64(data, 64, 0);
    assert_int_equal(mw_obmalloc_find(&image, data_at, data_at + PAGE, &obmalloc), MW_NOT_FOUND);
    mw_image_close(&image);
}

static void test_arenas_of_cpython(void **state)
{
    (void)state;
    uint8_t *arena = mw_calloc(ARENAS, 1 << 20);
    assert_non_null(arena);
    put32(arena, 36, 3); /* first pool: size class 3 of 16 KiB */
    put32(arena, 44, (16 << 10) - 64);
    arenas_check(1 << 20, arena);
    put32(arena, 44, PAGE - 64); /* of 4 KiB */
    arenas_check(256 << 10, arena);
    free(arena);
}

static void test_damaged_table_of_arenas(void **state)
{
    (void)state;
    static uint8_t heap[2 * PAGE], data[PAGE];
    uint32_t seed = 11;
    size_t found = 0;
    put64(data, 72, heap_at + 16);
    const struct mw_image_memory_part parts[] = {
        part(data_at, data, sizeof data, RW, "/usr/bin/python3"),
        part(heap_at, heap, sizeof heap, RW, "[heap]"),
        part(arenas_at, NULL, ARENAS << 20, RW, NULL),
    };
    struct mw_image image;
    assert_int_equal(mw_image_open_memory(parts, 3, &image, NULL), MW_OK);
    for (int round = 0; round < 3000; round++) {
        struct mw_obmalloc obmalloc = {0};
        table_make(heap, 1 << 20);
        for (uint32_t n = random_next(&seed) % 12; n > 0; n--)
            heap[16 + random_next(&seed) % (ENTRIES * ENTRY)] = (uint8_t)random_next(&seed);
        if (mw_obmalloc_find(&image, data_at, data_at + PAGE, &obmalloc) == MW_OK) {
            found++;
            for (size_t i = 0; i < obmalloc.count; i++) {
                assert_true(obmalloc.items[i] >= arenas_at);
                assert_true(obmalloc.items[i] + obmalloc.arena_bytes <=
                            arenas_at + ((mw_addr)ARENAS << 20));
                assert_true(i == 0 ||
                            obmalloc.items[i] - obmalloc.items[i - 1] >= obmalloc.arena_bytes);
            }
        }
        mw_obmalloc_deinit(&obmalloc);
    }
    assert_true(found > 100 && found < 3000);
    mw_image_close(&image);
}

/* ---- Go ---- */

static void test_go_by_note_and_build_information(void **state)
{
    (void)state;
    static uint8_t text[PAGE], data[2 * PAGE];
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
        .e_type = ET_EXEC,
        .e_phoff = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 3,
    };
    const Elf64_Phdr phdrs[] = {
        {.p_type = PT_NOTE, .p_vaddr = 0x400800, .p_memsz = 24},
        {.p_type = PT_LOAD, .p_vaddr = 0x400000, .p_filesz = PAGE, .p_memsz = PAGE},
        {.p_type = PT_LOAD, .p_offset = PAGE, .p_vaddr = 0x401000, .p_memsz = 2 * PAGE},
    };
    static const char version[] = "go1.26.1";
    memcpy(text, &header, sizeof header);
    memcpy(text + sizeof header, phdrs, sizeof phdrs);
    put32(text, 0x800, 4);
    put32(text, 0x804, 4);
    put32(text, 0x808, 4); /* NT_GO_BUILD_ID */
    memcpy(text + 0x80c, "Go", 3);
    memcpy(data + 0x120, "\xff Go buildinf:", 14);
    data[0x120 + 14] = 8;
    data[0x120 + 15] = 2;
    data[0x120 + 32] = sizeof version - 1;
    memcpy(data + 0x120 + 33, version, sizeof version - 1);
    const mw_addr heap = 0x38dc400000; /* a random base, as since 1.26 */
    struct mw_image_memory_part parts[] = {
        part(0x400000, text, PAGE, MW_PERM_READ | MW_PERM_EXEC, "/srv/app"),
        part(0x401000, data, 2 * PAGE, RW, "/srv/app"),
        part(heap, NULL, 0x400000, RW, NULL),
        part(heap + 0x400000, NULL, 0x38e0000000 - heap - 0x400000, 0, NULL),
    };
    parts[1].mapping.offset = PAGE;
    struct mw_image image;
    struct mw_claims claims = {0};
    struct mw_runtime runtimes[MW_RUNTIMES_MAX];
    size_t count;
    assert_int_equal(mw_image_open_memory(parts, 4, &image, NULL), MW_OK);
    image.entry = 0x400100;
    assert_int_equal(mw_runtimes_probe(&image, &claims, runtimes, &count, NULL, NULL), MW_OK);
    assert_int_equal(count, 1);
    assert_string_equal(runtimes[0].kind, "go");
    assert_string_equal(runtimes[0].version, "1.26.1");
    assert_int_equal(runtimes[0].heap_committed, 0x400000);
    assert_int_equal(runtimes[0].heap_start, heap);
    mw_claims_deinit(&claims);
    data[0x120 + 32] = 255; /* a length that cannot be */
    put32(text, 0x808, 3);  /* another note */
    assert_int_equal(mw_runtimes_probe(&image, &claims, runtimes, &count, NULL, NULL), MW_OK);
    assert_int_equal(count, 0);
    mw_claims_deinit(&claims);
    mw_image_close(&image);
}

/* ---- foreign allocators ---- */

static enum mw_category category_at(const struct mw_claims *claims, mw_addr address)
{
    struct mw_claim_piece *pieces;
    size_t count;
    enum mw_category category = MW_CATEGORY_UNKNOWN;
    assert_int_equal(mw_claims_resolve(claims, &pieces, &count), MW_OK);
    for (size_t i = 0; i < count; i++)
        if (pieces[i].start <= address && address < pieces[i].end)
            category = pieces[i].claim->category;
    free(pieces);
    return category;
}

static void test_foreign_allocator_by_name(void **state)
{
    (void)state;
    static const struct {
        const struct mw_heap_walker *walker;
        const char *path, *kind, *version;
    } cases[] = {
        {&mw_jemalloc_walker, "/usr/lib/libjemalloc.so.2", "jemalloc", ""},
        {&mw_tcmalloc_walker, "/usr/lib/libtcmalloc_minimal.so.4.5.10", "tcmalloc", ""},
        {&mw_mimalloc_walker, "/usr/lib/libmimalloc.so.2.0", "mimalloc", "2.0"},
        {&mw_musl_walker, "/lib/ld-musl-x86_64.so.1", "musl", ""},
        {&mw_musl_walker, "/usr/lib/x86_64-linux-musl/libc.so", "musl", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mw_image_memory_part parts[] = {
            part(0x20000000000, NULL, 4 << 20, RW, NULL),
            part(0x7f0000001000, NULL, PAGE, RW, NULL),
            part(0x7f0000100000, NULL, PAGE, MW_PERM_READ | MW_PERM_EXEC, cases[i].path),
        };
        struct mw_image image;
        struct mw_allocator allocator;
        struct mw_claims claims = {0};
        assert_int_equal(mw_image_open_memory(parts, 3, &image, NULL), MW_OK);
        image.can = 0; /* the name is all there is */
        assert_int_equal(cases[i].walker->probe(&image, &allocator, NULL), MW_OK);
        assert_string_equal(allocator.kind, cases[i].kind);
        assert_string_equal(allocator.version, cases[i].version);
        assert_false(allocator.walked);
        assert_int_equal(mw_foreign_claim(&image, &allocator, &claims), MW_OK);
        assert_int_equal(category_at(&claims, 0x20000000000), MW_CATEGORY_MALLOC_UNSPLIT);
        assert_int_equal(category_at(&claims, 0x7f0000100000), MW_CATEGORY_UNKNOWN);
        /* whoever else claims it has it */
        assert_int_equal(mw_claims_add_range(&claims, 0x20000000000, 0x20000001000,
                                             MW_CATEGORY_DEVICE, MW_CLAIM_KERNEL, "x"),
                         MW_OK);
        assert_int_equal(category_at(&claims, 0x20000000000), MW_CATEGORY_DEVICE);
        mw_claims_deinit(&claims);
        mw_image_close(&image);
    }
}

static void test_glibc_is_not_foreign(void **state)
{
    (void)state;
    static const struct mw_heap_walker *const walkers[] = {&mw_jemalloc_walker, &mw_tcmalloc_walker,
                                                           &mw_mimalloc_walker, &mw_musl_walker};
    const struct mw_image_memory_part parts[] = {
        part(0x7f0000100000, NULL, PAGE, MW_PERM_READ, "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        part(0x7f0000200000, NULL, PAGE, MW_PERM_READ, "/lib64/ld-linux-x86-64.so.2")};
    struct mw_image image;
    struct mw_allocator allocator;
    assert_int_equal(mw_image_open_memory(parts, 2, &image, NULL), MW_OK);
    for (size_t i = 0; i < sizeof walkers / sizeof *walkers; i++)
        assert_int_equal(walkers[i]->probe(&image, &allocator, NULL), MW_NOT_FOUND);
    mw_image_close(&image);
}

/* A core may say that a library is of any size, and have nothing of it. */
static void test_library_without_bytes(void **state)
{
    (void)state;
    static const struct mw_heap_walker *const walkers[] = {&mw_jemalloc_walker,
                                                           &mw_tcmalloc_walker};
    const struct mw_image_memory_part parts[] = {
        part(PAGE, NULL, (uint64_t)1 << 60, MW_PERM_READ, "/usr/lib/libjemalloc.so.2"),
        part((uint64_t)1 << 61, NULL, (uint64_t)1 << 60, MW_PERM_READ, "/usr/lib/libtcmalloc.so.4"),
    };
    struct mw_image image;
    struct mw_allocator allocator;
    assert_int_equal(mw_image_open_memory(parts, 2, &image, NULL), MW_OK);
    image.can &= ~(unsigned)MW_CAN_PAGES;
    alarm(20);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(walkers[i]->probe(&image, &allocator, NULL), MW_OK);
        assert_string_equal(allocator.version, "");
    }
    alarm(0);
    mw_image_close(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perf_counters),
        cmocka_unit_test(test_arenas_of_cpython),
        cmocka_unit_test(test_damaged_table_of_arenas),
        cmocka_unit_test(test_go_by_note_and_build_information),
        cmocka_unit_test(test_foreign_allocator_by_name),
        cmocka_unit_test(test_glibc_is_not_foreign),
        cmocka_unit_test(test_library_without_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
