/* tests/unit/test_claim_mappings.c: what kernel-level rules make of mappings: lines of a pasted
 * smaps for the rules that need names and flags only, byte arrays for those that read. */
#include "account/account.h"
#include "base/alloc.h"
#include "image/open.h"
#include "smaps_lines.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, P = MW_PAGE_PRESENT, G = MW_PAGE_GUARD };

struct fixture {
    struct mw_image image;
    struct mw_claims claims;
    struct mw_account account;
    struct mw_findings findings;
};

static void run(struct fixture *f)
{
    struct mw_error err = {0};
    assert_int_equal(mw_account_claim_mappings(&f->image, &f->claims, &f->findings, &err), MW_OK);
    assert_int_equal(mw_account_build(&f->image, &f->claims, &f->account, &f->findings, &err),
                     MW_OK);
}

static void run_lines(struct fixture *f, const char *const *lines)
{
    memset(f, 0, sizeof *f);
    smaps_lines_open(lines, &f->image);
    run(f);
}

static void release(struct fixture *f)
{
    mw_account_deinit(&f->account);
    mw_claims_deinit(&f->claims);
    mw_findings_deinit(&f->findings);
    mw_image_close(&f->image);
}

static const struct mw_account_piece *piece_at(const struct fixture *f, mw_addr address)
{
    for (size_t i = 0; i < f->account.piece_count; i++)
        if (f->account.pieces[i].start <= address && address < f->account.pieces[i].end)
            return &f->account.pieces[i];
    fail_msg("nothing at %llx", (unsigned long long)address);
    return NULL;
}

static void assert_category(const struct fixture *f, mw_addr address, const char *category)
{
    const char *got = mw_category_id(piece_at(f, address)->category);
    if (strcmp(got, category) != 0)
        fail_msg("%llx is %s (%s), not %s", (unsigned long long)address, got,
                 piece_at(f, address)->owner, category);
}

static void test_names_of_the_kernel(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "55000000-55021000 rw-p 0 8 [heap]",
        "7f0000000000-7f0000001000 rw-p 0 4 [stack:1234]",
        "7f0000010000-7f0000012000 rw-s 77 8 anon_inode:[io_uring]",
        "7ffd00000000-7ffd00021000 rw-p 0 12 [stack]",
        "7ffd00100000-7ffd00104000 r--p 0 0 [vvar]",
        "7ffd00104000-7ffd00106000 r--p 0 0 [vvar_vclock]",
        "7ffd00106000-7ffd00108000 r-xp 0 4 [vdso]",
        "ffffffffff600000-ffffffffff601000 --xp 0 0 [vsyscall]",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x55000000, "malloc.unsplit");
    assert_category(&f, 0x7f0000000000, "stack.threads");
    assert_category(&f, 0x7f0000010000, "device");
    assert_category(&f, 0x7ffd00000000, "stack.main");
    assert_category(&f, 0x7ffd00100000, "device");
    assert_category(&f, 0x7ffd00104000, "device");
    assert_category(&f, 0x7ffd00106000, "file.text");
    assert_category(&f, 0xffffffffff600000, "file.text");
    assert_int_equal(f.account.unknown_bytes, 0);
    release(&f);
}

static void test_names_of_the_program(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000001000 rw-p 0 4 [anon: glibc: malloc arena]",
        "7f0000002000-7f0000003000 rw-p 0 4 [anon: glibc: loader malloc]",
        "7f0000004000-7f0000005000 rw-p 0 4 [anon: glibc: pthread stack: 7]",
        "7f0000006000-7f0000007000 rw-p 0 4 [anon:jemalloc_pg]",
        "7f0000008000-7f0000009000 rw-p 0 4 [anon:tcmalloc_region_NORMAL]",
        "7f000000a000-7f000000b000 rw-p 0 4 [anon: Go: heap]",
        "7f000000c000-7f000000d000 rw-p 0 4 [anon: Go: gc bits]",
        "7f000000e000-7f000000f000 rw-p 0 4 [anon:cpython:pymalloc]",
        "7f0000010000-7f0000011000 rw-p 0 4 [anon:zend_alloc]",
        "7f0000012000-7f0000013000 rw-p 0 4 [anon:.bss]",
        "7f0000014000-7f0000015000 rw-p 0 4 [anon:what is this]",
        "7f0000016000-7f0000017000 rw-s 9 4 [anon_shmem:pool]",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x7f0000000000, "malloc.unsplit");
    assert_category(&f, 0x7f0000002000, "anon.other");
    assert_category(&f, 0x7f0000004000, "stack.threads");
    assert_category(&f, 0x7f0000006000, "malloc.unsplit");
    assert_category(&f, 0x7f0000008000, "malloc.unsplit");
    assert_category(&f, 0x7f000000a000, "managed.heap");
    assert_category(&f, 0x7f000000c000, "managed.metadata");
    assert_category(&f, 0x7f000000e000, "managed.heap");
    assert_category(&f, 0x7f0000010000, "managed.heap");
    assert_category(&f, 0x7f0000012000, "file.data");
    assert_category(&f, 0x7f0000014000, "unknown"); /* a name that says nothing is no owner */
    assert_category(&f, 0x7f0000016000, "shared.memory");
    release(&f);
}

static void test_programs_and_libraries(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "55550000-55551000 r--p 11 4 /usr/bin/prog",
        "55551000-55553000 r-xp 11 8 /usr/bin/prog",
        "55553000-55554000 r--p 11 4 /usr/bin/prog | rd mr mw me ac",
        "55554000-55555000 rw-p 11 4 /usr/bin/prog",
        "55555000-55559000 rw-p 0 12",
        "55560000-55570000 rw-p 0 12 [heap]",
        "7f0000000000-7f0000010000 r--p 12 16 /usr/lib/locale/C.utf8/LC_CTYPE",
        "7f0000020000-7f0000030000 rw-p 13 16 /var/lib/app/private.dat",
        "7f0000030000-7f0000031000 rw-p 0 4",
        "7f0000040000-7f0000050000 r--s 14 64 /var/lib/app/big.db",
        "7f0000060000-7f0000061000 r-xp 15 4 /app/System.Linq.dll",
        "7f0000070000-7f0000071000 rw-p 15 4 /app/System.Linq.dll",
        "7f0000080000-7f0000081000 ---p 11 0 /usr/bin/prog",
        "7f0000090000-7f0000091000 r-xp 16 4 /usr/lib/old.so (deleted)",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x55550000, "file.text");
    assert_category(&f, 0x55551000, "file.text");
    assert_category(&f, 0x55553000, "file.data"); /* relocated, then write-protected */
    assert_category(&f, 0x55554000, "file.data");
    assert_category(&f, 0x55555000, "file.data");
    assert_string_equal(piece_at(&f, 0x55555000)->owner, ".bss");
    assert_category(&f, 0x55560000, "malloc.unsplit");
    assert_category(&f, 0x7f0000000000, "file.mapped");
    assert_category(&f, 0x7f0000020000, "file.data");
    assert_category(&f, 0x7f0000030000, "unknown"); /* behind a data file: no .bss */
    assert_category(&f, 0x7f0000040000, "file.mapped");
    assert_category(&f, 0x7f0000060000, "file.mapped");
    assert_category(&f, 0x7f0000070000, "file.mapped");
    assert_category(&f, 0x7f0000080000, "file.text");
    assert_category(&f, 0x7f0000090000, "file.text");
    release(&f);
}

static void test_shared_memory_and_devices(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000002000 rw-s 1 8 /dev/zero (deleted)",
        "7f0000010000-7f0000012000 rw-s 2 8 /SYSV0052e2c1 (deleted)",
        "7f0000020000-7f0000022000 rw-s 3 8 /dev/shm/PostgreSQL.1",
        "7f0000030000-7f0000032000 rw-s 4 8 /memfd:pulseaudio (deleted)",
        "7f0000040000-7f0000042000 rw-s 5 8 /tmp/gone (deleted)",
        "7f0000050000-7f0000052000 rw-s 6 0 /dev/nvidia0",
        "7f0000060000-7f0000062000 rw-s 7 0 /dev/dri/renderD128",
        "7f0000070000-7f0000072000 rw-s 8 0 /mnt/odd | rd wr sh mr mw me ms pf io de dd",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    for (mw_addr at = 0x7f0000000000; at < 0x7f0000050000; at += 0x10000)
        assert_category(&f, at, "shared.memory");
    for (mw_addr at = 0x7f0000050000; at < 0x7f0000080000; at += 0x10000)
        assert_category(&f, at, "device");
    release(&f);
}

/* ---- stacks ---- */

static const char *const stacks_lines[] = {
    "7f0000000000-7f0000001000 ---p 0 0",
    "7f0000001000-7f0000801000 rw-p 0 8",
    "7f0001000000-7f0001001000 ---p 0 0",
    "7f0001001000-7f0001801000 rw-p 0 12",
    "7f0002000000-7f0002004000 ---p 0 0", /* 1 MiB with its guard, alone */
    "7f0002004000-7f0002100000 rw-p 0 8",
    "7f0003000000-7f0003100000 ---p 0 0", /* a reserve, not a guard */
    "7f0003100000-7f0003200000 rw-p 0 8",
    "7f0004000000-7f0004001000 ---p 0 0", /* too small for a stack */
    "7f0004001000-7f0004004000 rw-p 0 4",
    NULL,
};

static void test_stacks_by_shape(void **state)
{
    (void)state;
    struct fixture f;
    run_lines(&f, stacks_lines);
    assert_category(&f, 0x7f0000000000, "stack.threads");
    assert_category(&f, 0x7f0000001000, "stack.threads");
    assert_category(&f, 0x7f0001001000, "stack.threads");
    assert_category(&f, 0x7f0002004000, "stack.threads");
    assert_category(&f, 0x7f0003100000, "unknown");
    assert_category(&f, 0x7f0004001000, "unknown");
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].count, 3);
    release(&f);
}

/* musl's stack with malloc's mappings melted onto it: alone, and of no round size. */
static void test_odd_sizes_are_no_stacks(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000002000 ---p 0 0",
        "7f0000002000-7f0002c8f000 rw-p 0 45000",
        "7f0004000000-7f0004002000 ---p 0 0",
        "7f0004002000-7f0004023000 rw-p 0 4",
        "7f0005000000-7f0005002000 ---p 0 0",
        "7f0005002000-7f0005023000 rw-p 0 4",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x7f0000002000, "unknown");
    assert_category(&f, 0x7f0004002000, "stack.threads");
    assert_category(&f, 0x7f0005002000, "stack.threads");
    release(&f);
}

/* The same where the size happens to be a round one. */
static void test_lone_huge_mapping_is_no_stack(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000002000 ---p 0 0",
        "7f0000002000-7f0007590000 rw-p 0 120000",
        "7f0008000000-7f0008002000 ---p 0 0",
        "7f0008002000-7f0008023000 rw-p 0 4",
        "7f0009000000-7f0009002000 ---p 0 0",
        "7f0009002000-7f0009023000 rw-p 0 4",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x7f0000002000, "unknown");
    assert_category(&f, 0x7f0008002000, "stack.threads");
    assert_category(&f, 0x7f0009002000, "stack.threads");
    release(&f);
}

/* With three threads there are two stacks beside the main one: the pair of equal size. */
static void test_no_more_stacks_than_threads(void **state)
{
    (void)state;
    struct fixture f = {0};
    smaps_lines_open(stacks_lines, &f.image);
    f.image.process.thread_count = 3;
    run(&f);
    assert_category(&f, 0x7f0000001000, "stack.threads");
    assert_category(&f, 0x7f0001001000, "stack.threads");
    assert_category(&f, 0x7f0002004000, "unknown");
    release(&f);
}

static void test_stacks_are_marked_where_one_is(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000001000 ---p 0 0 | mr mw me nh",
        "7f0000001000-7f0000801000 rw-p 0 8 | rd wr mr mw me ac nh",
        "7f0001000000-7f0001001000 ---p 0 0 | mr mw me",
        "7f0001001000-7f0001801000 rw-p 0 12 | rd wr mr mw me ac",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x7f0000001000, "stack.threads");
    assert_category(&f, 0x7f0001001000, "unknown");
    release(&f);
}

static struct mw_image_memory_part memory_part(mw_addr start, const uint8_t *bytes, uint64_t size,
                                               uint32_t perms, const uint8_t *pages)
{
    struct mw_image_memory_part part = {
        .mapping = {.start = start,
                    .end = start + size,
                    .perms = perms,
                    .known = 1u << MW_COUNTER_RSS,
                    .has_vm_flags = true},
        .bytes = bytes,
        .pages = pages,
    };
    if (perms)
        part.mapping.counters[MW_COUNTER_RSS] = PAGE;
    return part;
}

static void put_word(uint8_t *bytes, size_t at, uint64_t word)
{
    memcpy(bytes + at, &word, sizeof word);
}

/* glibc's thread control block points to itself at 0 and at 16. */
static void put_tcb(uint8_t *bytes, size_t at, mw_addr address)
{
    put_word(bytes, at, address + at);
    put_word(bytes, at + 16, address + at);
}

enum { RW = MW_PERM_READ | MW_PERM_WRITE, STACK_BYTES = 8 * PAGE };

static void test_stacks_by_control_block(void **state)
{
    (void)state;
    static uint8_t stack[STACK_BYTES], other[STACK_BYTES];
    const mw_addr at = 0x7f0000001000, other_at = 0x7f0000101000;
    put_tcb(stack, STACK_BYTES - 0x940, at);
    put_word(other, STACK_BYTES - 0x940, other_at + STACK_BYTES - 0x940); /* half of one */
    const struct mw_image_memory_part parts[] = {
        memory_part(at - PAGE, NULL, PAGE, 0, NULL),
        memory_part(at, stack, STACK_BYTES, RW, NULL),
        memory_part(other_at - PAGE, NULL, PAGE, 0, NULL),
        memory_part(other_at, other, STACK_BYTES, RW, NULL),
    };
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(parts, 4, &f.image, NULL), MW_OK);
    run(&f);
    assert_category(&f, at, "stack.threads");
    assert_category(&f, other_at, "unknown"); /* readable, and not proven */
    release(&f);
}

static void test_stacks_by_registers(void **state)
{
    (void)state;
    static uint8_t stack[STACK_BYTES];
    const struct mw_image_memory_part parts[] = {
        memory_part(0x7f0000001000, stack, STACK_BYTES, RW, NULL),
        memory_part(0x7f0000101000, stack, STACK_BYTES, RW, NULL),
    };
    struct mw_thread threads[] = {
        {.tid = 7, .has_registers = true, .sp = 0x7f0000101000 + 5 * PAGE}};
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    f.image.threads = threads;
    f.image.thread_count = 1;
    run(&f);
    f.image.threads = NULL;
    f.image.thread_count = 0;
    assert_category(&f, 0x7f0000001000, "unknown");
    assert_category(&f, 0x7f0000101000, "stack.threads");
    release(&f);
}

/* What has melted onto a stack, far above its pointer, is none of it. */
static void test_stack_with_melted_mapping(void **state)
{
    (void)state;
    static uint8_t bytes[16 << 20];
    const mw_addr at = 0x7f0000100000;
    const struct mw_image_memory_part parts[] = {memory_part(at, bytes, sizeof bytes, RW, NULL)};
    struct mw_thread threads[] = {{.tid = 7, .has_registers = true, .sp = at + 31 * PAGE}};
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(parts, 1, &f.image, NULL), MW_OK);
    f.image.threads = threads;
    f.image.thread_count = 1;
    run(&f);
    f.image.threads = NULL;
    f.image.thread_count = 0;
    assert_category(&f, at, "stack.threads");
    assert_category(&f, at + (1 << 20), "unknown");
    release(&f);
}

/* Two stacks with guard markers inside have melted into one mapping, with something below them. */
static void test_stacks_by_guard_markers(void **state)
{
    (void)state;
    enum { PAGES = 2 + 2 * 6 };
    static uint8_t bytes[PAGES * PAGE];
    static const uint8_t pages[PAGES] = {P, P, G, 0, 0, 0, 0, P, G, G, 0, 0, 0, P};
    const mw_addr at = 0x7f0000000000;
    put_tcb(bytes, 8 * PAGE - 0x940, at);
    put_tcb(bytes, 14 * PAGE - 0x940, at);
    struct mw_image_memory_part part = memory_part(at, bytes, sizeof bytes, RW, pages);
    part.mapping.vm_flags = MW_VM_GUARD | MW_VM_ACCOUNT;
    part.mapping.counters[MW_COUNTER_RSS] = 4 * PAGE;
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(&part, 1, &f.image, NULL), MW_OK);
    run(&f);
    assert_category(&f, at + PAGE, "unknown");
    assert_category(&f, at + 2 * PAGE, "stack.threads");
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].count, 2);
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].size_bytes, 12 * PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_STACK_THREADS].rss_bytes, 2 * PAGE);
    release(&f);
}

/* ---- reading sharpens ---- */

/* A library of three pages whose .bss ends in the middle of the page behind them; two more pages
 * have melted into the same mapping. */
static void test_end_of_bss_from_headers(void **state)
{
    (void)state;
    static uint8_t text[PAGE], data[2 * PAGE];
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                         .e_type = ET_DYN,
                         .e_phoff = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 2};
    const Elf64_Phdr phdrs[] = {
        {.p_type = PT_LOAD, .p_filesz = PAGE, .p_memsz = PAGE},
        {.p_type = PT_LOAD,
         .p_offset = PAGE,
         .p_vaddr = PAGE,
         .p_filesz = 2 * PAGE,
         .p_memsz = 2 * PAGE + 1000},
    };
    memcpy(text, &header, sizeof header);
    memcpy(text + sizeof header, phdrs, sizeof phdrs);
    struct mw_image_memory_part parts[] = {
        memory_part(0x7f0000000000, text, PAGE, MW_PERM_READ | MW_PERM_EXEC, NULL),
        memory_part(0x7f0000001000, data, 2 * PAGE, RW, NULL),
        memory_part(0x7f0000003000, data, 3 * PAGE, RW, NULL),
    };
    parts[0].mapping.name = parts[1].mapping.name = "/lib/libx.so";
    parts[0].mapping.inode = parts[1].mapping.inode = 5;
    parts[1].mapping.offset = PAGE;
    struct fixture f = {0};
    parts[2].bytes = NULL;
    assert_int_equal(mw_image_open_memory(parts, 3, &f.image, NULL), MW_OK);
    run(&f);
    assert_category(&f, 0x7f0000003000, "file.data");
    assert_int_equal(piece_at(&f, 0x7f0000003000)->end, 0x7f0000004000);
    assert_category(&f, 0x7f0000004000, "unknown");
    release(&f);

    /* headers that cannot be: the whole mapping, and no crash */
    put_word(text, sizeof header + sizeof *phdrs + offsetof(Elf64_Phdr, p_memsz), UINT64_MAX);
    memset(&f, 0, sizeof f);
    assert_int_equal(mw_image_open_memory(parts, 3, &f.image, NULL), MW_OK);
    run(&f);
    assert_int_equal(piece_at(&f, 0x7f0000003000)->end, 0x7f0000006000);
    release(&f);
}

static void test_glibc_arena_by_shape_and_header(void **state)
{
    (void)state;
    const uint64_t heap_max = 64 << 20;
    static uint8_t heap[33 * PAGE];
    const mw_addr at = 0x7f0000000000;
    struct mw_image_memory_part parts[] = {
        memory_part(at, heap, sizeof heap, RW, NULL),
        memory_part(at + sizeof heap, NULL, heap_max - sizeof heap, 0, NULL),
    };
    parts[0].mapping.vm_flags = parts[1].mapping.vm_flags = MW_VM_NORESERVE;
    put_word(heap, 0, at + 0x30);
    put_word(heap, 16, sizeof heap);
    put_word(heap, 24, sizeof heap);
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    run(&f);
    assert_category(&f, at, "malloc.unsplit");
    assert_category(&f, at + sizeof heap, "anon.other");
    release(&f);

    put_word(heap, 16, sizeof heap - PAGE); /* of a JVM's metaspace: no such header */
    put_word(heap, 24, sizeof heap - PAGE);
    memset(&f, 0, sizeof f);
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    run(&f);
    assert_category(&f, at, "unknown");
    release(&f);

    memset(&f, 0, sizeof f); /* not readable: the shape has to do */
    parts[0].bytes = NULL;
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    f.image.can &= ~(unsigned)MW_CAN_READ;
    run(&f);
    assert_category(&f, at, "malloc.unsplit");
    release(&f);
}

/* glibc 2.41 no longer maps with MAP_NORESERVE; a JVM's metaspace is "ac" beside "nr". */
static void test_glibc_arena_by_flags(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "7f0000000000-7f0000021000 rw-p 0 8 | rd wr mr mw me nr",
        "7f0000021000-7f0004000000 ---p 0 0 | mr mw me nr",
        "7f0004000000-7f0004021000 rw-p 0 8 | rd wr mr mw me ac",
        "7f0004021000-7f0008000000 ---p 0 0 | mr mw me",
        "7f0008000000-7f0008021000 rw-p 0 8 | rd wr mr mw me ac",
        "7f0008021000-7f000c000000 ---p 0 0 | mr mw me nr",
        "7f000c000000-7f000c021000 rw-p 0 8 | rd wr mr mw me ac",
        "7f000c021000-7f0010000000 ---p 0 0 | mr mw me dd",
        "7f0010000000-7f0014000000 rw-p 0 8 | rd wr mr mw me ac",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    assert_category(&f, 0x7f0000000000, "malloc.unsplit");
    assert_category(&f, 0x7f0004000000, "malloc.unsplit");
    assert_category(&f, 0x7f0008000000, "unknown");
    assert_category(&f, 0x7f000c000000, "unknown");
    assert_category(&f, 0x7f0010000000, "unknown");
    release(&f);
}

/* ---- aliases ---- */

static struct mw_image_memory_part view(mw_addr start, uint64_t pages_in, uint64_t offset,
                                        uint32_t perms, uint64_t rss, const uint8_t *pages)
{
    struct mw_image_memory_part part = memory_part(start, NULL, pages_in * PAGE, perms, pages);
    part.mapping.perms |= MW_PERM_SHARED;
    part.mapping.name = "/memfd:doublemapper";
    part.mapping.inode = 9;
    part.mapping.deleted = true;
    part.mapping.offset = offset * PAGE;
    part.mapping.counters[MW_COUNTER_RSS] = rss * PAGE;
    return part;
}

static void test_alias_page_by_page(void **state)
{
    (void)state;
    static const uint8_t code[] = {P, 0, P, P, P, 0}, data[] = {P, P, 0, P};
    const struct mw_image_memory_part parts[] = {
        view(0x7f0000000000, 6, 10, MW_PERM_READ | MW_PERM_EXEC, 4, code), /* file pages 10..15 */
        view(0x7f0000100000, 4, 12, RW, 3, data),                          /* file pages 12..15 */
    };
    struct fixture f = {0};
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    run(&f);
    /* resident in both: 12 and 13; the writable view keeps them */
    assert_int_equal(f.account.rows[MW_CATEGORY_ALIAS].rss_bytes, 2 * PAGE);
    assert_category(&f, 0x7f0000002000, "alias");
    assert_category(&f, 0x7f0000003000, "alias");
    assert_category(&f, 0x7f0000000000, "shared.memory");
    assert_category(&f, 0x7f0000004000, "shared.memory");
    assert_category(&f, 0x7f0000100000, "shared.memory");
    assert_int_equal(f.account.rows[MW_CATEGORY_SHARED_MEMORY].rss_bytes, 5 * PAGE);
    release(&f);
}

/* ZGC of JDK 17 maps its heap three times; a pasted smaps tells how much of each is resident. */
static void test_alias_by_counters(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "40000000000-40000400000 rw-s 5 1000 /memfd:java_heap (deleted)",
        "80000000000-80000400000 rw-s 5 4000 /memfd:java_heap (deleted)",
        "100000000000-100000400000 rw-s 5 4096 /memfd:java_heap (deleted)",
        "7f0000000000-7f0000400000 rw-s 6 4000 /memfd:other (deleted)",
        "7f0000700000-7f0000800000 rw-p 6 8 /memfd:other (deleted)",
        NULL,
    };
    struct fixture f;
    run_lines(&f, lines);
    uint64_t alias = f.account.rows[MW_CATEGORY_ALIAS].rss_bytes;
    assert_in_range(alias, (1000 + 4000) * 1024 - 2 * PAGE, (1000 + 4000) * 1024 + 2 * PAGE);
    assert_category(&f, 0x40000000000, "shared.memory");
    assert_category(&f, 0x7f0000700000, "shared.memory"); /* private: its pages may be copies */
    release(&f);
}

static void test_alias_outranks_runtimes(void **state)
{
    (void)state;
    struct fixture f = {0};
    const struct mw_image_memory_part parts[] = {
        view(0x7f0000000000, 4, 0, RW, 4, (const uint8_t[]){P, P, P, P}),
        view(0x7f0000100000, 4, 0, RW, 4, (const uint8_t[]){P, P, P, P}),
    };
    assert_int_equal(mw_image_open_memory(parts, 2, &f.image, NULL), MW_OK);
    assert_int_equal(mw_claims_add_range(&f.claims, 0x7f0000000000, 0x7f0000200000,
                                         MW_CATEGORY_MANAGED_HEAP, MW_CLAIM_RUNTIME, "heap"),
                     MW_OK);
    run(&f);
    assert_int_equal(f.account.rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes, 4 * PAGE);
    assert_int_equal(f.account.rows[MW_CATEGORY_ALIAS].rss_bytes, 4 * PAGE);
    release(&f);
}

/* Offsets and sizes at the end of what 64 bits can say. */
static void test_hostile_offsets(void **state)
{
    (void)state;
    static const char text[] =
        "10000-20000 rw-s fffffffffffff000 00:01 5 /memfd:a (deleted)\nRss: 8 kB\n"
        "30000-40000 rw-s fffffffffffff000 00:01 5 /memfd:a (deleted)\nRss: 8 kB\n"
        "50000-60000 rw-s ffffffffffff0000 00:01 5 /memfd:a (deleted)\nRss: 8 kB\n"
        "70000-7ffffffff0000000 rw-s 00000000 00:01 5 /memfd:a (deleted)\nRss: 8 kB\n"
        "8000000000000000-f000000000000000 rw-s 0 00:01 5 /memfd:a (deleted)\nRss: 8 kB\n"
        "fffffffffffff000-ffffffffffffffff rw-p 00000000 00:00 0\nRss: 8 kB\n";
    struct fixture f = {0};
    assert_int_equal(mw_image_open_smaps(text, strlen(text), "test", &f.image, NULL), MW_OK);
    run(&f);
    assert_int_equal(f.account.rss_bytes, 48 << 10);
    release(&f);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    long n = 0;
    for (;; n++) {
        struct fixture f = {0};
        smaps_lines_open(stacks_lines, &f.image);
        mw_alloc_fail_after(n);
        enum mw_status status = mw_account_claim_mappings(&f.image, &f.claims, &f.findings, NULL);
        mw_alloc_fail_after(-1);
        release(&f);
        if (status == MW_OK)
            break;
        assert_int_equal(status, MW_NOMEM);
        assert_true(n < 100);
    }
    assert_true(n > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_the_kernel),
        cmocka_unit_test(test_names_of_the_program),
        cmocka_unit_test(test_programs_and_libraries),
        cmocka_unit_test(test_shared_memory_and_devices),
        cmocka_unit_test(test_stacks_by_shape),
        cmocka_unit_test(test_odd_sizes_are_no_stacks),
        cmocka_unit_test(test_lone_huge_mapping_is_no_stack),
        cmocka_unit_test(test_no_more_stacks_than_threads),
        cmocka_unit_test(test_stacks_are_marked_where_one_is),
        cmocka_unit_test(test_stacks_by_control_block),
        cmocka_unit_test(test_stacks_by_registers),
        cmocka_unit_test(test_stack_with_melted_mapping),
        cmocka_unit_test(test_stacks_by_guard_markers),
        cmocka_unit_test(test_end_of_bss_from_headers),
        cmocka_unit_test(test_glibc_arena_by_shape_and_header),
        cmocka_unit_test(test_glibc_arena_by_flags),
        cmocka_unit_test(test_alias_page_by_page),
        cmocka_unit_test(test_alias_by_counters),
        cmocka_unit_test(test_alias_outranks_runtimes),
        cmocka_unit_test(test_hostile_offsets),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
