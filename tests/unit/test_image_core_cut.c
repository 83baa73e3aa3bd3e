/* tests/unit/test_image_core_cut.c: cores that are cut: at every byte, in the stream that packs
 * them, without the section that counts their segments; and threads whose stack was lost. */
#include "base/io.h"
#include "core_builder.h"
#include "image/core.h"
#include "image/open.h"
#include "temp_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

enum { PAGE = 4096 };
static const mw_addr HEAP = 0x555500000000, LIB = 0x7f0000000000, STACK = 0x7ffd00000000;

static struct temp_tree tree;
static uint8_t heap_bytes[8 * PAGE], stack_bytes[4 * PAGE];

static int group_setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    setenv("TMPDIR", tree.path, 1);
    for (size_t i = 0; i < sizeof heap_bytes; i++)
        heap_bytes[i] = (uint8_t)(i * 131 + i / PAGE + 1);
    memset(stack_bytes, 'S', sizeof stack_bytes);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

/* The stack pointer of register 19 is in the stack. */
static void add_all(struct core_builder *core)
{
    const uint64_t auxv[][2] = {{AT_PAGESZ, PAGE}, {AT_RANDOM, STACK + 8}, {AT_NULL, 0}};
    const struct core_file files[] = {{LIB, LIB + 4 * PAGE, 0, "/nowhere/lib.so"}};
    core_add_thread(core, 4711, STACK + 2 * PAGE);
    core_add_process(core, 4711, "server", "server --x");
    core_add_auxv(core, auxv, sizeof auxv / sizeof *auxv);
    core_add_files(core, files, 1, PAGE);
    core_add_segment(core, HEAP, sizeof heap_bytes, sizeof heap_bytes, PF_R | PF_W, heap_bytes);
    core_add_segment(core, LIB, 2 * PAGE, PAGE, PF_R | PF_X, heap_bytes);
    core_add_segment(core, STACK, sizeof stack_bytes, sizeof stack_bytes, PF_R | PF_W, stack_bytes);
}

static uint64_t bytes_of(const struct mw_image *image, const char *kind)
{
    const struct mw_finding *finding = mw_finding_find(&image->findings, kind);
    return finding ? finding->bytes : 0;
}

static enum mw_status open_fd(int fd, struct mw_image *image, struct mw_error *err)
{
    int copy = dup(fd);
    enum mw_status status = mw_image_open_core(copy, "cut", NULL, image, err);
    if (status != MW_OK)
        close(copy);
    return status;
}

static struct mw_image open_built(const struct core_builder *core)
{
    size_t length;
    uint8_t *bytes = core_build(core, &length);
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, bytes, length), 0);
    free(bytes);
    struct mw_image image;
    assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
    close(fd);
    return image;
}

/* What is said of a core that has `cut` of its bytes; where its memory begins: data_at. */
static void check_cut(int fd, size_t cut, size_t length, size_t data_at)
{
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = open_fd(fd, &image, &err);
    if (cut < sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr)) {
        assert_true(status == MW_TRUNCATED || (status == MW_UNSUPPORTED && cut < SELFMAG));
        char number[32];
        snprintf(number, sizeof number, " %zu ", cut);
        assert_true(cut < SELFMAG || strstr(err.text, number) != NULL);
        return;
    }
    assert_int_equal(status, MW_OK);
    uint64_t said = bytes_of(&image, "core-truncated");
    if (cut >= data_at)
        assert_true(said == length - cut);
    else /* the notes have padding behind them; lost headers hide what they announce */
        assert_true(said > 0 && said <= length - cut);
    uint8_t page[PAGE];
    for (size_t i = 0; i < sizeof heap_bytes; i += PAGE) {
        size_t got = mw_image_read_some(&image, HEAP + i, page, PAGE);
        size_t wanted = cut <= data_at + i         ? 0
                        : cut - data_at - i < PAGE ? cut - data_at - i
                                                   : PAGE;
        assert_int_equal(got, wanted);
        assert_memory_equal(page, heap_bytes + i, got);
    }
    mw_image_close(&image);
}

static void test_every_cut(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length, data_at = PAGE;
    uint8_t *bytes = core_build(&core, &length);
    assert_int_equal(length, data_at + sizeof heap_bytes + PAGE + sizeof stack_bytes);
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, bytes, length), 0);
    for (size_t cut = length; cut-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)cut), 0);
        check_cut(fd, cut, length, data_at);
    }
    close(fd);
    free(bytes);
}

/* A file without holes of n segments, their count in a section at its end, as the kernel does. */
static uint8_t *build_many(size_t count, size_t *length_out)
{
    size_t headers = sizeof(Elf64_Ehdr), notes_at = headers + count * sizeof(Elf64_Phdr);
    size_t data_at = (notes_at + PAGE) & ~(size_t)(PAGE - 1), section_at = data_at + PAGE;
    uint8_t *bytes = calloc(1, section_at + sizeof(Elf64_Shdr));
    assert_non_null(bytes);
    const Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_phoff = headers,
        .e_shoff = section_at,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = PN_XNUM,
        .e_shnum = 1,
        .e_shentsize = sizeof(Elf64_Shdr),
    };
    const Elf64_Shdr section = {.sh_info = (uint32_t)count};
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + section_at, &section, sizeof section);
    for (size_t i = 0; i < count; i++) {
        Elf64_Phdr segment = {PT_LOAD, PF_R, data_at, HEAP + 2 * i * PAGE, 0, PAGE, PAGE, PAGE};
        if (i == 0)
            segment = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = notes_at};
        memcpy(bytes + headers + i * sizeof segment, &segment, sizeof segment);
    }
    memset(bytes + data_at, 'd', PAGE);
    *length_out = section_at + sizeof section;
    return bytes;
}

static void test_lost_segment_count(void **state)
{
    (void)state;
    enum { COUNT = 70001 };
    size_t length;
    uint8_t *bytes = build_many(COUNT, &length), byte;
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, bytes, length), 0);
    struct mw_image image;
    assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
    assert_int_equal(image.regions.count, COUNT - 1);
    assert_int_equal(image.findings.count, 0);
    mw_image_close(&image);
    assert_int_equal(ftruncate(fd, (off_t)length - 1), 0);
    assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
    assert_int_equal(image.regions.count, COUNT - 1);
    assert_non_null(mw_finding_find(&image.findings, "core-segment-count"));
    assert_int_equal(mw_image_read(&image, HEAP + 2 * (COUNT - 1) * PAGE, &byte, 1), MW_OK);
    assert_int_equal(byte, 'd');
    mw_image_close(&image);
    /* within the headers: what is left of them is used */
    assert_int_equal(ftruncate(fd, 64 + 66000 * 56 + 10), 0);
    assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
    assert_int_equal(image.regions.count, 65999);
    assert_non_null(
        strstr(mw_finding_find(&image.findings, "core-truncated")->text, "66000 of 70001"));
    mw_image_close(&image);
    close(fd);
    free(bytes);
}

/* A .zst that is cut or damaged gives what comes before, and says that it is not all. */
static void test_damaged_stream(void **state)
{
    (void)state;
    static uint8_t noise[1 << 20];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    struct core_builder core = {0};
    core_add_segment(&core, HEAP, sizeof noise, sizeof noise, PF_R | PF_W, noise);
    size_t length;
    uint8_t *bytes = core_build(&core, &length), *packed = malloc(ZSTD_compressBound(length));
    size_t packed_length = ZSTD_compress(packed, ZSTD_compressBound(length), bytes, length, 1);
    char path[128];
    snprintf(path, sizeof path, "%s/core.zst", tree.path);
    unsigned cut_opened = 0, damaged_said = 0;
    for (size_t i = 1; i < 100; i++) {
        struct mw_image image;
        struct mw_error err = {0};
        size_t cut = packed_length * i / 100;
        temp_tree_write_bytes(&tree, "core.zst", packed, cut);
        if (mw_image_open(path, NULL, NULL, &image, &err) == MW_OK) {
            assert_true(bytes_of(&image, "core-truncated") > 0);
            cut_opened++;
            mw_image_close(&image);
        } else
            assert_true(err.text[0] != '\0');
        packed[cut] ^= 0x40; /* noise is stored as it is: a header of a block, or contents */
        temp_tree_write_bytes(&tree, "core.zst", packed, packed_length);
        if (mw_image_open(path, NULL, NULL, &image, &err) == MW_OK) {
            damaged_said += mw_finding_find(&image.findings, "core-stream-damaged") != NULL;
            mw_image_close(&image);
        }
        packed[cut] ^= 0x40;
    }
    assert_true(cut_opened > 40);
    /* the header of a block: its type becomes the reserved one */
    struct mw_image image;
    damaged_said = 0;
    for (size_t at = 600 << 10; at + 2 < packed_length && damaged_said == 0; at++) {
        if ((packed[at] & 0xf7) != 0 || packed[at + 1] != 0 || packed[at + 2] != 0x10)
            continue; /* a raw block of 128 KiB */
        packed[at] |= 6;
        temp_tree_write_bytes(&tree, "core.zst", packed, packed_length);
        assert_int_equal(mw_image_open(path, NULL, NULL, &image, NULL), MW_OK);
        damaged_said += mw_finding_find(&image.findings, "core-stream-damaged") != NULL;
        assert_in_range(bytes_of(&image, "core-truncated"), 1, 700 << 10);
        mw_image_close(&image);
    }
    assert_true(damaged_said > 0);
    free(bytes);
    free(packed);
}

/* -- stacks ---------------------------------------------------------------------------------- */

/* One thread with its stack pointer in the middle of a stack of 16 pages whose bytes are given. */
static struct mw_image open_stack(const uint8_t *bytes, size_t file_bytes)
{
    struct core_builder core = {0};
    core_add_thread(&core, 77, STACK + 8 * PAGE - 19 + 16);
    if (file_bytes > 0 || bytes)
        core_add_segment(&core, STACK, 16 * PAGE, file_bytes, PF_R | PF_W, bytes);
    core_add_segment(&core, HEAP, PAGE, PAGE, PF_R | PF_W, heap_bytes);
    size_t length;
    uint8_t *file = core_build(&core, &length);
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, file, length), 0);
    free(file);
    struct mw_image image;
    assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
    close(fd);
    return image;
}

static void test_lost_stacks(void **state)
{
    (void)state;
    static uint8_t bytes[16 * PAGE];
    struct mw_image image = open_stack(bytes, sizeof bytes);
    assert_true(bytes_of(&image, "core-stack-lost") == 16 * PAGE);
    assert_int_equal(mw_finding_find(&image.findings, "core-stack-lost")->count, 1);
    mw_image_close(&image);
    memset(bytes, 1, 4 * PAGE + 1); /* gcore came as far as here */
    image = open_stack(bytes, sizeof bytes);
    assert_true(bytes_of(&image, "core-stack-lost") == 11 * PAGE);
    mw_image_close(&image);
    bytes[8 * PAGE + 16 + 200] = 1; /* a return address */
    image = open_stack(bytes, sizeof bytes);
    assert_int_equal(image.findings.count, 0);
    mw_image_close(&image);
    image = open_stack(bytes, 8 * PAGE);
    assert_true(bytes_of(&image, "core-stack-missing") == 8 * PAGE);
    mw_image_close(&image);
    image = open_stack(NULL, 0);
    assert_int_equal(mw_finding_find(&image.findings, "core-stack-missing")->count, 1);
    mw_image_close(&image);
}

/* -- aarch64 --------------------------------------------------------------------------------- */

/* Page sizes of 4, 16 and 64 KiB; NT_FILE counts its offsets in units of its own. */
static void test_aarch64_pages(void **state)
{
    (void)state;
    static uint8_t zeros[65536 * 2];
    for (uint64_t page = 4096; page <= 65536; page *= 4) {
        struct core_builder core = {.machine = EM_AARCH64};
        const uint64_t auxv[][2] = {{AT_PAGESZ, page}, {AT_NULL, 0}};
        const struct core_file files[] = {
            {LIB, LIB + page, 3, "/lib/a.so"},
            {LIB + page, LIB + 2 * page, 4, "/lib/a.so"},
            {LIB + 2 * page, LIB + 2 * page + 512, 5, "/lib/a.so"}, /* not of whole pages */
        };
        core_add_thread(&core, 9, HEAP);
        core_add_note(&core, "LINUX", 0x401, &(uint64_t){0xabc000}, 8);
        core_add_thread(&core, 10, HEAP + 64);
        core_add_note(&core, "LINUX", 0x401, (const uint64_t[]){0xdef000, 5}, 16); /* tpidr2 */
        core_add_note(&core, "LINUX", 0x401, "short", 5);
        core_add_auxv(&core, auxv, 2);
        core_add_files(&core, files, 3, page == 16384 ? 4096 : page);
        core_add_segment(&core, HEAP, 2 * page, 2 * page, PF_R | PF_W, memset(zeros, 1, 2 * page));
        core_add_segment(&core, LIB, page, page, PF_R, zeros);
        size_t length;
        uint8_t *bytes = core_build(&core, &length);
        int fd = memfd_create("core", MFD_CLOEXEC);
        assert_int_equal(mw_io_write_full(fd, bytes, length), 0);
        free(bytes);
        struct mw_image image;
        assert_int_equal(open_fd(fd, &image, NULL), MW_OK);
        close(fd);
        assert_int_equal(image.arch, MW_ARCH_AARCH64);
        assert_int_equal(image.page_size, page);
        assert_int_equal(image.thread_count, 2);
        assert_true(image.threads[0].tp == 0xabc000 && image.threads[1].tp == 0xdef000);
        assert_true(image.threads[1].sp == HEAP + 64 + 31 && image.threads[1].pc == HEAP + 96);
        assert_int_equal(image.regions.count, 3);
        assert_int_equal(image.regions.items[1].offset, 3 * (page == 16384 ? 4096 : page));
        assert_string_equal(image.regions.items[2].name, "/lib/a.so");
        assert_true(image.regions.items[2].end == LIB + 2 * page);
        mw_image_close(&image);
    }
}

/* -- notes ----------------------------------------------------------------------------------- */

/* Notes that are too short, too long, too many or say nonsense; the rest is still used. */
static void test_hostile_notes(void **state)
{
    (void)state;
    static uint64_t endless[4096];
    for (size_t i = 0; i < 4096; i++)
        endless[i] = i / 2 == 4000 ? AT_ENTRY : 1000; /* far beyond what is read */
    static const uint64_t counts[] = {1, 100, UINT64_MAX, UINT64_MAX / 24 + 1, 1ull << 32};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct core_builder core = {0};
        core_add_note(&core, "CORE", NT_PRSTATUS, "short", 5);
        core_add_note(&core, "CORE", NT_PRPSINFO, "short", 5);
        core_add_note(&core, "CORE", NT_SIGINFO, "", 0);
        core_add_note(&core, "CORE", NT_AUXV, "odd", 3);
        core_add_note(&core, "CORE", NT_AUXV, endless, sizeof endless);
        const uint64_t files[] = {counts[i], UINT64_MAX, HEAP, UINT64_MAX, UINT64_MAX};
        core_add_note(&core, "CORE", NT_FILE, files, sizeof files);
        core_add_thread(&core, 5, STACK);
        core_add_segment(&core, STACK, PAGE, PAGE, PF_R | PF_W, stack_bytes);
        struct mw_image image = open_built(&core);
        assert_int_equal(image.thread_count, 1);
        assert_int_equal(image.regions.count, 1);
        assert_true(image.entry == 0 && image.page_size == PAGE);
        assert_true(mw_finding_find(&image.findings, "core-note")->count >= 3);
        mw_image_close(&image);
    }
}

/* Files that overlap are cut, those of no bytes left out, so that each page has one name: a gap
 * that begins where the auxiliary vector has the vdso is the file's that lies there. */
static void test_files_that_overlap(void **state)
{
    (void)state;
    const struct core_file files[] = {
        {HEAP + 6 * PAGE, HEAP + 8 * PAGE, 0, "/inside"},
        {HEAP + 2 * PAGE, HEAP + 4 * PAGE, 7, "/first"},
        {HEAP + 3 * PAGE, HEAP + 9 * PAGE, 20, "/second"},
        {HEAP + 5 * PAGE, HEAP + PAGE, 0, "/backwards"},
        {HEAP + 7 * PAGE, HEAP + 7 * PAGE, 0, "/empty"},
    };
    const uint64_t auxv[][2] = {{AT_SYSINFO_EHDR, HEAP + 4 * PAGE}, {AT_NULL, 0}};
    struct core_builder core = {0};
    core_add_thread(&core, 5, STACK);
    core_add_auxv(&core, auxv, 2);
    core_add_files(&core, files, sizeof files / sizeof *files, PAGE);
    core_add_segment(&core, HEAP + 6 * PAGE, PAGE, PAGE, PF_R | PF_W, stack_bytes);
    struct mw_image image = open_built(&core);
    static const struct {
        unsigned start, end, offset;
        const char *name;
    } expected[] = {
        {2, 4, 7, "/first"}, {4, 6, 21, "/second"}, {6, 7, 23, "/second"}, {7, 9, 24, "/second"}};
    assert_int_equal(image.regions.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < image.regions.count; i++) {
        const struct mw_mapping *map = &image.regions.items[i];
        assert_int_equal(map->start, HEAP + expected[i].start * PAGE);
        assert_int_equal(map->end, HEAP + expected[i].end * PAGE);
        assert_int_equal(map->offset, expected[i].offset * PAGE);
        assert_string_equal(map->name, expected[i].name);
    }
    assert_int_equal(mw_finding_find(&image.findings, "core-note")->count, 4);
    mw_image_close(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),          cmocka_unit_test(test_lost_segment_count),
        cmocka_unit_test(test_damaged_stream),     cmocka_unit_test(test_lost_stacks),
        cmocka_unit_test(test_aarch64_pages),      cmocka_unit_test(test_hostile_notes),
        cmocka_unit_test(test_files_that_overlap),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
