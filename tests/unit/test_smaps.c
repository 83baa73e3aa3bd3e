/* tests/unit/test_smaps.c: texts of several kernels, pasted ones, cut and damaged ones, and our
 * own smaps against a second, slow parser. */
#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "proc/smaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* Linux 6.18: everything, a removed file, a name with blanks, a guard, huge pages. */
static const char text_6_18[] =
    "559fc6813000-559fc6815000 r--p 00001000 fe:1f 247629                     /usr/bin/a b\n"
    "Size:                  8 kB\n"
    "KernelPageSize:        4 kB\n"
    "MMUPageSize:           4 kB\n"
    "Rss:                   8 kB\n"
    "Pss:                   2 kB\n"
    "Pss_Dirty:             0 kB\n"
    "Shared_Clean:          7 kB\n"
    "Shared_Dirty:          1 kB\n"
    "Private_Clean:         3 kB\n"
    "Private_Dirty:         5 kB\n"
    "Referenced:            6 kB\n"
    "Anonymous:             9 kB\n"
    "KSM:                  99 kB\n"
    "LazyFree:             10 kB\n"
    "AnonHugePages:        11 kB\n"
    "ShmemPmdMapped:       12 kB\n"
    "FilePmdMapped:        13 kB\n"
    "Shared_Hugetlb:       14 kB\n"
    "Private_Hugetlb:      15 kB\n"
    "Swap:                 16 kB\n"
    "SwapPss:              17 kB\n"
    "Locked:               18 kB\n"
    "THPeligible:           1\n"
    "ProtectionKey:         0\n"
    "VmFlags: rd mr mw me ac sd hg gu \n"
    "7f1200000000-7f1200400000 rw-s 00000000 00:01 77                         /memfd:x (deleted)\n"
    "Size:               4096 kB\n"
    "KernelPageSize:     2048 kB\n"
    "MMUPageSize:        2048 kB\n"
    "Rss:                   0 kB\n"
    "Pss:                   0 kB\n"
    "Pss_Dirty:             0 kB\n"
    "Shared_Clean:          0 kB\n"
    "Shared_Dirty:          0 kB\n"
    "Private_Clean:         0 kB\n"
    "Private_Dirty:         0 kB\n"
    "Referenced:            0 kB\n"
    "Anonymous:             0 kB\n"
    "KSM:                   0 kB\n"
    "LazyFree:              0 kB\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "FilePmdMapped:         0 kB\n"
    "Shared_Hugetlb:        0 kB\n"
    "Private_Hugetlb:    4096 kB\n"
    "Swap:                  0 kB\n"
    "SwapPss:               0 kB\n"
    "Locked:                0 kB\n"
    "THPeligible:           0\n"
    "VmFlags: rd wr sh mr mw me ms de ht dd \n"
    "7ffd10000000-7ffd10021000 rw-p 00000000 00:00 0                          [stack]\n"
    "Size:                132 kB\n"
    "KernelPageSize:        4 kB\n"
    "MMUPageSize:           4 kB\n"
    "Rss:                  16 kB\n"
    "Pss:                  16 kB\n"
    "Pss_Dirty:            16 kB\n"
    "Shared_Clean:          0 kB\n"
    "Shared_Dirty:          0 kB\n"
    "Private_Clean:         0 kB\n"
    "Private_Dirty:        16 kB\n"
    "Referenced:           16 kB\n"
    "Anonymous:            16 kB\n"
    "KSM:                   0 kB\n"
    "LazyFree:              0 kB\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "FilePmdMapped:         0 kB\n"
    "Shared_Hugetlb:        0 kB\n"
    "Private_Hugetlb:       0 kB\n"
    "Swap:                  0 kB\n"
    "SwapPss:               0 kB\n"
    "Locked:                0 kB\n"
    "THPeligible:           0\n"
    "VmFlags: rd wr mr mw me gd ac \n";

/* Linux 2.6.14, 32 bit: no Pss, no Swap, no flags. */
static const char text_2_6_14[] = "08048000-080bc000 r-xp 00000000 03:02 13130      /bin/bash\n"
                                  "Size:               464 kB\n"
                                  "Rss:                424 kB\n"
                                  "Shared_Clean:       424 kB\n"
                                  "Shared_Dirty:         0 kB\n"
                                  "Private_Clean:        0 kB\n"
                                  "Private_Dirty:        0 kB\n"
                                  "bfb00000-bfb15000 rw-p bffeb000 00:00 0          [stack]\n"
                                  "Size:                84 kB\n"
                                  "Rss:                 12 kB\n"
                                  "Shared_Clean:         0 kB\n"
                                  "Shared_Dirty:         0 kB\n"
                                  "Private_Clean:        0 kB\n"
                                  "Private_Dirty:       12 kB\n"
                                  "ffffe000-fffff000 ---p 00000000 00:00 0          [vdso]\n"
                                  "Size:                 4 kB\n"
                                  "Rss:                  0 kB\n"
                                  "Shared_Clean:         0 kB\n"
                                  "Shared_Dirty:         0 kB\n"
                                  "Private_Clean:        0 kB\n"
                                  "Private_Dirty:        0 kB\n";

static const char text_maps[] =
    "00400000-00401000 r-xp 00000000 08:01 42 /opt/x\n"
    "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
    "7f0000001000-7f0000002000 ---p 00000000 00:00 0 \n"
    "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 [anon:Go: heap]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

struct parsed {
    struct mw_mapping_list list;
    struct mw_findings findings;
    enum mw_status status;
    struct mw_error err;
    uint64_t length; /* read */
};

static void release(struct parsed *parsed)
{
    mw_mapping_list_deinit(&parsed->list);
    mw_findings_deinit(&parsed->findings);
}

static void assert_same_mapping(const struct mw_mapping *a, const struct mw_mapping *b)
{
    struct mw_mapping a_bare = *a, b_bare = *b;
    assert_string_equal(a->name, b->name);
    a_bare.name = b_bare.name = NULL;
    assert_memory_equal(&a_bare, &b_bare, sizeof a_bare);
}

static struct parsed read_once(const char *text, size_t length)
{
    struct parsed parsed = {0};
    int fd = memfd_create("smaps", MFD_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, text, length, 0) == (ssize_t)length);
    parsed.status = mw_smaps_read(fd, &parsed.list, &parsed.findings, &parsed.length, &parsed.err);
    close(fd);
    return parsed;
}

/* The same text from a descriptor, window by window, must give the same. */
static void assert_read_is_same(const char *text, size_t length, const struct parsed *parsed)
{
    struct parsed same = read_once(text, length);
    assert_int_equal(same.status, parsed->status);
    assert_true(same.length == length);
    assert_string_equal(same.err.text, parsed->err.text);
    assert_int_equal(same.list.count, parsed->list.count);
    for (size_t i = 0; i < same.list.count; i++)
        assert_same_mapping(&same.list.items[i], &parsed->list.items[i]);
    assert_int_equal(same.findings.count, parsed->findings.count);
    for (size_t i = 0; i < same.findings.count; i++) {
        assert_string_equal(same.findings.items[i].text, parsed->findings.items[i].text);
        assert_true(same.findings.items[i].count == parsed->findings.items[i].count);
    }
    release(&same);
}

static struct parsed parse_once(const char *text, size_t length)
{
    struct parsed parsed = {0};
    parsed.status = mw_smaps_parse(text, length, &parsed.list, &parsed.findings, &parsed.err);
    return parsed;
}

static struct parsed parse(const char *text, size_t length)
{
    struct parsed parsed = parse_once(text, length);
    assert_read_is_same(text, length, &parsed);
    return parsed;
}

static struct parsed parse_text(const char *text)
{
    return parse(text, strlen(text));
}

static uint64_t kib(uint64_t n)
{
    return n * 1024;
}

static void test_every_counter_of_a_new_kernel(void **state)
{
    (void)state;
    struct parsed parsed = parse_text(text_6_18);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.findings.count, 0);
    assert_int_equal(parsed.list.count, 3);
    const struct mw_mapping *map = &parsed.list.items[0];
    assert_true(map->start == 0x559fc6813000 && map->end == 0x559fc6815000);
    assert_int_equal(map->perms, MW_PERM_READ);
    assert_true(map->offset == 0x1000 && map->inode == 247629);
    assert_true(map->dev_major == 0xfe && map->dev_minor == 0x1f);
    assert_string_equal(map->name, "/usr/bin/a b");
    assert_int_equal(map->known, (1u << MW_COUNTER_COUNT) - 1);
    assert_true(map->kernel_page_size == 4096);
    static const uint64_t expected[MW_COUNTER_COUNT] = {
        [MW_COUNTER_RSS] = 8,
        [MW_COUNTER_PSS] = 2,
        [MW_COUNTER_SHARED_CLEAN] = 7,
        [MW_COUNTER_SHARED_DIRTY] = 1,
        [MW_COUNTER_PRIVATE_CLEAN] = 3,
        [MW_COUNTER_PRIVATE_DIRTY] = 5,
        [MW_COUNTER_REFERENCED] = 6,
        [MW_COUNTER_ANONYMOUS] = 9,
        [MW_COUNTER_LAZY_FREE] = 10,
        [MW_COUNTER_ANON_HUGE] = 11,
        [MW_COUNTER_SHMEM_PMD] = 12,
        [MW_COUNTER_FILE_PMD] = 13,
        [MW_COUNTER_SHARED_HUGETLB] = 14,
        [MW_COUNTER_PRIVATE_HUGETLB] = 15,
        [MW_COUNTER_SWAP] = 16,
        [MW_COUNTER_SWAP_PSS] = 17,
        [MW_COUNTER_LOCKED] = 18,
    };
    for (int i = 0; i < MW_COUNTER_COUNT; i++)
        assert_true(map->counters[i] == kib(expected[i]));
    assert_true(map->has_vm_flags);
    assert_int_equal(map->vm_flags, MW_VM_ACCOUNT | MW_VM_HUGEPAGE | MW_VM_GUARD);
    release(&parsed);
}

static void test_names_and_flags(void **state)
{
    (void)state;
    struct parsed parsed = parse_text(text_6_18);
    const struct mw_mapping *shared = &parsed.list.items[1], *stack = &parsed.list.items[2];
    assert_string_equal(shared->name, "/memfd:x");
    assert_true(shared->deleted);
    assert_int_equal(shared->perms, MW_PERM_READ | MW_PERM_WRITE | MW_PERM_SHARED);
    assert_int_equal(shared->vm_flags, MW_VM_HUGETLB | MW_VM_DONTDUMP);
    assert_true(shared->kernel_page_size == 2048 * 1024);
    assert_false(mw_mapping_is_anonymous(shared));
    assert_string_equal(stack->name, "[stack]");
    assert_false(stack->deleted);
    assert_true(mw_mapping_is_anonymous(stack));
    assert_int_equal(stack->vm_flags, MW_VM_GROWSDOWN | MW_VM_ACCOUNT);
    release(&parsed);
}

static void test_oldest_kernel_has_unknowns(void **state)
{
    (void)state;
    struct parsed parsed = parse_text(text_2_6_14);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.findings.count, 0);
    assert_int_equal(parsed.list.count, 3);
    const struct mw_mapping *map = &parsed.list.items[0];
    assert_true(mw_mapping_knows(map, MW_COUNTER_RSS));
    assert_false(mw_mapping_knows(map, MW_COUNTER_PSS));
    assert_false(mw_mapping_knows(map, MW_COUNTER_SWAP));
    assert_false(mw_mapping_knows(map, MW_COUNTER_ANONYMOUS));
    assert_false(map->has_vm_flags);
    assert_true(map->kernel_page_size == 0);
    assert_true(mw_mapping_counter(map, MW_COUNTER_RSS) == kib(424));
    assert_true(parsed.list.items[1].offset == 0xbffeb000);
    release(&parsed);
}

static void test_maps_text(void **state)
{
    (void)state;
    struct parsed parsed = parse_text(text_maps);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, 5);
    assert_int_equal(parsed.findings.count, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(parsed.list.items[i].known, 0);
    assert_string_equal(parsed.list.items[1].name, "");
    assert_int_equal(parsed.list.items[2].perms, 0);
    assert_string_equal(parsed.list.items[3].name, "[anon:Go: heap]");
    assert_true(parsed.list.items[4].start == 0xffffffffff600000);
    release(&parsed);
}

/* As it comes out of a ticket: CRLF, indented, blank lines, a prompt above, no newline below. */
static void test_pasted_text(void **state)
{
    (void)state;
    char pasted[2 * sizeof text_6_18 + 256];
    size_t length = (size_t)sprintf(pasted, "$ cat /proc/7/smaps\r\n\r\n");
    for (const char *line = text_6_18; *line;) {
        const char *end = strchr(line, '\n');
        length += (size_t)sprintf(pasted + length, "  \t%.*s\r\n", (int)(end - line), line);
        line = end + 1;
    }
    length -= 2;
    struct parsed whole = parse_text(text_6_18), parsed = parse(pasted, length);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, whole.list.count);
    for (size_t i = 0; i < whole.list.count; i++) {
        const struct mw_mapping *a = &whole.list.items[i], *b = &parsed.list.items[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->known, b->known);
        assert_memory_equal(a->counters, b->counters, sizeof a->counters);
        assert_int_equal(a->vm_flags, b->vm_flags);
    }
    const struct mw_finding *finding = mw_finding_find(&parsed.findings, "smaps-line");
    assert_non_null(finding);
    assert_int_equal(finding->count, 1); /* the prompt */
    assert_null(mw_finding_find(&parsed.findings, "smaps-truncated"));
    release(&whole);
    release(&parsed);
}

static void test_rollup(void **state)
{
    (void)state;
    struct parsed parsed = parse_text("00400000-7ffd1000 ---p 00000000 00:00 0       [rollup]\n"
                                      "Rss:                 884 kB\n"
                                      "Pss:                 385 kB\n"
                                      "Pss_Dirty:            68 kB\n"
                                      "Pss_Anon:            301 kB\n"
                                      "Pss_File:             80 kB\n"
                                      "Pss_Shmem:             4 kB\n"
                                      "Anonymous:           301 kB\n");
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.findings.count, 0);
    assert_string_equal(parsed.list.items[0].name, "[rollup]");
    assert_true(mw_mapping_counter(&parsed.list.items[0], MW_COUNTER_RSS) == kib(884));
    release(&parsed);
}

static void test_lines_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Rss: 12\n",
        "Rss: -4 kB\n",
        "Rss: 12 MB\n",
        "Rss: kB\n",
        "Rss: 18014398509481984 kB\n", /* 2^54 KiB overflow */
        "Rss: 99999999999999999999999 kB\n",
        "Rss 4 kB\n",
        "Rss: 4 kB more\n",
        "nonsense\n",
        "ffff-eeee rw-p 00000000 00:00 0\n",
        "1000-1000 rw-p 00000000 00:00 0\n",
        "1000-2000 rwxq 00000000 00:00 0\n",
        "1000-2000 rw-p 00000000 0000 0\n",
        "11111111111111111-2 rw-p 00000000 00:00 0\n",
        "a: b\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[400];
        snprintf(text, sizeof text, "1000-2000 rw-p 00000000 00:00 0 \nPss: 4 kB\n%sLocked: 0 kB\n",
                 bad[i]);
        struct parsed parsed = parse_text(text);
        assert_int_equal(parsed.status, MW_OK);
        const struct mw_finding *finding = mw_finding_find(&parsed.findings, "smaps-line");
        assert_non_null(finding);
        assert_int_equal(finding->count, 1);
        assert_int_equal(parsed.list.count, 1);
        assert_false(mw_mapping_knows(&parsed.list.items[0], MW_COUNTER_RSS));
        assert_true(mw_mapping_counter(&parsed.list.items[0], MW_COUNTER_PSS) == kib(4));
        release(&parsed);
    }
}

/* The counters behind a header that is not understood belong to no other mapping. */
static void test_counters_of_a_lost_header(void **state)
{
    (void)state;
    struct parsed parsed = parse_text("1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\nSwap: 0 kB\n"
                                      "3000-4000 rwxq 00000000 00:00 0 \nRss: 900 kB\nSwap: 1 kB\n"
                                      "5000-6000 rw-p 00000000 00:00 0 \nRss: 8 kB\nSwap: 0 kB\n");
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, 2);
    assert_true(mw_mapping_counter(&parsed.list.items[0], MW_COUNTER_RSS) == kib(4));
    assert_true(mw_mapping_counter(&parsed.list.items[0], MW_COUNTER_SWAP) == 0);
    assert_true(mw_mapping_counter(&parsed.list.items[1], MW_COUNTER_RSS) == kib(8));
    assert_int_equal(mw_finding_find(&parsed.findings, "smaps-line")->count, 1);
    release(&parsed);
}

/* An editor of another system begins a text with a byte order mark. */
static void test_byte_order_mark(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n";
    struct parsed parsed = parse_text(text);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, 1);
    assert_true(mw_mapping_counter(&parsed.list.items[0], MW_COUNTER_RSS) == kib(4));
    assert_int_equal(parsed.findings.count, 0);
    assert_true(mw_smaps_recognize(text, sizeof text - 1));
    release(&parsed);
}

/* A kernel of next year, and a counter whose name was damaged: nothing is guessed. */
static void test_unknown_counters(void **state)
{
    (void)state;
    struct parsed parsed = parse_text("1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\nNew_One: 7 kB\n"
                                      "NewCount: 7\n3000-4000 rw-p 00000000 00:00 0 \nRsx: 4 kB\n"
                                      "5000-6000 rw-p 00000000 00:00 0 \nRss: 8 kB\n");
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, 3);
    assert_int_equal(parsed.findings.count, 1);
    const struct mw_finding *finding = mw_finding_find(&parsed.findings, "smaps-incomplete");
    assert_non_null(finding);
    assert_true(finding->count == 1 && finding->first_address == 0x3000);
    assert_false(mw_mapping_knows(&parsed.list.items[1], MW_COUNTER_RSS));
    release(&parsed);
}

/* Two steps of a read while mappings merged: bytes must not be counted twice. */
static void test_overlap_is_cut(void **state)
{
    (void)state;
    struct parsed parsed = parse_text("1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
                                      "2000-5000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
                                      "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
                                      "6000-7000 rw-p 00000000 00:00 0 \nRss: 4 kB\n");
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, 3);
    assert_true(parsed.list.items[1].start == 0x3000 && parsed.list.items[1].end == 0x5000);
    assert_int_equal(mw_finding_find(&parsed.findings, "smaps-order")->count, 2);
    release(&parsed);
}

static void test_nothing_found(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "hello\nworld\n", "Rss: 4 kB\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct parsed parsed = parse_text(texts[i]);
        assert_int_equal(parsed.status, MW_INVALID);
        assert_int_equal(parsed.list.count, 0);
        assert_true(parsed.err.text[0] != '\0');
        release(&parsed);
    }
    struct mw_mapping_list list;
    assert_int_equal(mw_smaps_parse("x", 1, &list, NULL, NULL), MW_INVALID);
}

/* Many windows, and a line that is longer than one: parse() compares. */
static void test_many_windows(void **state)
{
    (void)state;
    enum { MAPPINGS = 3000, LONG_AT = 1000, LONG_BYTES = 200000, ROOM = 8 << 20 };
    char *text = calloc(ROOM, 1), *at = text;
    assert_non_null(text);
    for (unsigned i = 0; i < MAPPINGS; i++) {
        at += sprintf(at, "%x000-%x000 rw-p 00000000 08:01 %u /lib/%0*u\n", 2 * i + 1, 2 * i + 2, i,
                      (int)(i * 7 % 90) + 1, i);
        at += sprintf(at, "Size: 4 kB\nRss:  %u kB\nNewCounter: 1 kB\nPss: %u kB\n", i, i / 2);
        if (i == LONG_AT) {
            memset(at, 'x', LONG_BYTES);
            at += LONG_BYTES;
            *at++ = '\n';
        }
        at += sprintf(at, "VmFlags: rd wr %s\n", i % 2 ? "nh" : "ac");
    }
    assert_true(at < text + ROOM);
    struct parsed parsed = parse(text, (size_t)(at - text));
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.list.count, MAPPINGS);
    for (unsigned i = 0; i < MAPPINGS; i++) {
        const struct mw_mapping *map = &parsed.list.items[i];
        assert_int_equal(atoi(map->name + strlen("/lib/")), i);
        assert_int_equal(map->counters[MW_COUNTER_RSS], kib(i));
        assert_int_equal(map->vm_flags, i % 2 ? MW_VM_NOHUGEPAGE : MW_VM_ACCOUNT);
    }
    assert_int_equal(parsed.findings.count, 1);
    assert_string_equal(parsed.findings.items[0].kind, "smaps-line");
    release(&parsed);
    free(text);
}

static void test_read_fails(void **state)
{
    (void)state;
    struct mw_mapping_list list;
    struct mw_error err = {0};
    uint64_t length = 1;
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(mw_smaps_read(fd, &list, NULL, &length, &err), MW_OS); /* EISDIR */
    assert_true(length == 0 && err.text[0] != '\0');
    close(fd);
}

static void test_recognize(void **state)
{
    (void)state;
    assert_true(mw_smaps_recognize(text_6_18, sizeof text_6_18 - 1));
    assert_true(mw_smaps_recognize(text_2_6_14, 60));
    assert_true(mw_smaps_recognize("\r\n  1-2 ---p 0 0:0 0\r\nx", 22));
    assert_false(mw_smaps_recognize("", 0));
    assert_false(mw_smaps_recognize("root:x:0:0:root:/root:/bin/bash\n", 33));
    assert_false(mw_smaps_recognize("\x7f"
                                    "ELF\n",
                                    5));
}

/* Cut at every byte: what is believed is what the whole text says, and a cut is told. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    struct parsed whole = parse_text(text_6_18);
    size_t length = sizeof text_6_18 - 1;
    unsigned told = 0;
    for (size_t cut = 0; cut <= length; cut++) {
        char *copy = malloc(cut + 1); /* exact, so that a sanitizer sees a read beyond */
        memcpy(copy, text_6_18, cut);
        struct parsed parsed = parse(copy, cut);
        free(copy);
        if (parsed.status == MW_INVALID) {
            assert_true(cut < 60);
            release(&parsed);
            continue;
        }
        assert_int_equal(parsed.status, MW_OK);
        bool is_told = mw_finding_find(&parsed.findings, "smaps-truncated") != NULL;
        told += is_told;
        for (size_t i = 0; i < parsed.list.count; i++) {
            const struct mw_mapping *a = &whole.list.items[i], *b = &parsed.list.items[i];
            bool is_last = i + 1 == parsed.list.count;
            assert_true(a->start == b->start && a->end == b->end);
            assert_int_equal(b->known & ~a->known, 0);
            for (int c = 0; c < MW_COUNTER_COUNT; c++)
                if (mw_mapping_knows(b, (enum mw_counter)c))
                    assert_true(a->counters[c] == b->counters[c]);
            if (i > 0 && (a->known != b->known || strcmp(a->name, b->name) != 0))
                assert_true(is_last && is_told);
        }
        release(&parsed);
    }
    assert_true(told > length / 3);
    release(&whole);
}

/* A zero byte ends a name; found by the fuzzer as a read beyond the name before it. */
static void test_zero_byte_in_a_name(void **state)
{
    (void)state;
    static const char text[] = "1000-2000 rw-p 00000000 00:00 0 \n"
                               "2000-3000 rw-p 00000000 00:00 0 \0\0\0\0\0\0\0\0xyz\n"
                               "3000-4000 rw-p 00000000 00:00 0 ab\0cd\n";
    struct parsed parsed = parse(text, sizeof text - 1);
    assert_int_equal(parsed.list.count, 3);
    assert_string_equal(parsed.list.items[1].name, "");
    assert_string_equal(parsed.list.items[2].name, "ab");
    release(&parsed);
}

static int count_failures(struct parsed (*act)(const char *text, size_t length))
{
    for (int n = 0;; n++) {
        mw_alloc_fail_after(n);
        struct parsed parsed = act(text_6_18, sizeof text_6_18 - 1);
        mw_alloc_fail_after(-1);
        enum mw_status status = parsed.status;
        release(&parsed);
        if (status == MW_OK)
            return n;
        assert_int_equal(status, MW_NOMEM);
        assert_true(n < 100);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    int failures = count_failures(parse_once);
    assert_true(failures >= 3); /* the list, the block of names, the table of blocks */
    assert_int_equal(count_failures(read_once), failures + 1); /* the window */
}

/* Damaged at random: the list stays in order and every name is terminated. */
static void test_damage(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    char text[sizeof text_6_18];
    for (int round = 0; round < 20000; round++) {
        memcpy(text, text_6_18, sizeof text);
        for (int i = 0; i < 1 + round % 8; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            static const char interesting[] = "0f-: \nkB9\r\t\xff" /* and zero */;
            text[seed % (sizeof text - 1)] = interesting[(seed >> 32) % sizeof interesting];
        }
        struct parsed parsed = parse(text, sizeof text - 1);
        mw_addr last = 0;
        for (size_t i = 0; i < parsed.list.count; i++) {
            const struct mw_mapping *map = &parsed.list.items[i];
            assert_true(map->start >= last && map->start < map->end);
            assert_true(strlen(map->name) <= MW_LIMIT_NAME_BYTES);
            last = map->end;
        }
        release(&parsed);
    }
}

/* A second opinion: the lines of our own smaps read by sscanf(). */
static void test_own_smaps(void **state)
{
    (void)state;
    char *text;
    size_t length;
    assert_int_equal(mw_io_read_file_at(AT_FDCWD, "/proc/self/smaps", MW_LIMIT_PROC_TEXT_BYTES,
                                        &text, &length, NULL),
                     MW_OK);
    struct parsed parsed = parse(text, length);
    assert_int_equal(parsed.status, MW_OK);
    assert_int_equal(parsed.findings.count, 0);
    size_t index = 0;
    uint64_t rss = 0, rss_expected = 0, swap = 0, swap_expected = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long long start, end, value;
        char perms[5];
        if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) == 3) {
            assert_true(index < parsed.list.count);
            assert_true(parsed.list.items[index].start == start);
            assert_true(parsed.list.items[index].end == end);
            index++;
        } else if (sscanf(line, "Rss: %llu kB", &value) == 1)
            rss_expected += value * 1024;
        else if (sscanf(line, "Swap: %llu kB", &value) == 1)
            swap_expected += value * 1024;
    }
    assert_int_equal(index, parsed.list.count);
    for (size_t i = 0; i < parsed.list.count; i++) {
        rss += mw_mapping_counter(&parsed.list.items[i], MW_COUNTER_RSS);
        swap += mw_mapping_counter(&parsed.list.items[i], MW_COUNTER_SWAP);
    }
    assert_true(rss == rss_expected && rss > 0);
    assert_true(swap == swap_expected);
    free(text);
    release(&parsed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_counter_of_a_new_kernel),
        cmocka_unit_test(test_names_and_flags),
        cmocka_unit_test(test_oldest_kernel_has_unknowns),
        cmocka_unit_test(test_maps_text),
        cmocka_unit_test(test_pasted_text),
        cmocka_unit_test(test_rollup),
        cmocka_unit_test(test_lines_that_make_no_sense),
        cmocka_unit_test(test_counters_of_a_lost_header),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_unknown_counters),
        cmocka_unit_test(test_overlap_is_cut),
        cmocka_unit_test(test_nothing_found),
        cmocka_unit_test(test_many_windows),
        cmocka_unit_test(test_read_fails),
        cmocka_unit_test(test_recognize),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_zero_byte_in_a_name),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_own_smaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
