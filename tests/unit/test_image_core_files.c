/* tests/unit/test_image_core_files.c: pages that a core leaves out come from the file that was
 * mapped, and only from that one; how writable data began is for constants alone. */
#include "core_builder.h"
#include "image/core.h"
#include "image/open.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    PAGE = 4096,
    TEXT_AT = PAGE, /* in the file and, plus BASE, in memory */
    RELRO_AT = 2 * PAGE,
    DATA_AT = 3 * PAGE,
    DATA_BYTES = 0x800, /* then the loader leaves zeros */
    FILE_BYTES = DATA_AT + PAGE,
    NOTE_AT = 0x300,
    RELA_AT = 0x400,
    RELR_AT = 0x500,
    DYNAMIC_AT = RELRO_AT + 0x100,
    POINTER = DATA_AT + 0x10,  /* DT_RELA, relative */
    SYMBOLIC = DATA_AT + 0x40, /* DT_RELA, needs a symbol */
    PACKED = DATA_AT + 0x100,  /* DT_RELR: this one, and by bitmap the next and the third */
};
static const uint64_t BASE = 0x7f1200000000;

static struct temp_tree tree;
static char module_path[160];

static int group_setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    snprintf(module_path, sizeof module_path, "%s/libtest.so", tree.path);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

/* -- a library, and a core of a process that has it ------------------------------------------ */

static void put(uint8_t *file, size_t at, const void *bytes, size_t length)
{
    assert_true(at + length <= FILE_BYTES);
    memcpy(file + at, bytes, length);
}

static void put_headers(uint8_t *file, uint16_t machine)
{
    const Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = machine,
        .e_phoff = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 6,
    };
    const Elf64_Phdr segments[] = {
        {PT_LOAD, PF_R, 0, 0, 0, 0x600, 0x600, PAGE},
        {PT_LOAD, PF_R | PF_X, TEXT_AT, TEXT_AT, 0, PAGE, PAGE, PAGE},
        {PT_LOAD, PF_R | PF_W, RELRO_AT, RELRO_AT, 0, PAGE + DATA_BYTES, 4 * PAGE, PAGE},
        {PT_DYNAMIC, PF_R, DYNAMIC_AT, DYNAMIC_AT, 0, 16 * 16, 16 * 16, 8},
        {PT_NOTE, PF_R, NOTE_AT, NOTE_AT, 0, 36, 36, 4},
        {PT_GNU_RELRO, PF_R, RELRO_AT, RELRO_AT, 0, PAGE, PAGE, 1},
    };
    put(file, 0, &header, sizeof header);
    put(file, sizeof header, segments, sizeof segments);
}

/* Every byte tells where it is; `id` fills the build-id. */
static void make_module(uint8_t file[FILE_BYTES], uint16_t machine, uint8_t id)
{
    for (size_t i = 0; i < FILE_BYTES; i++)
        file[i] = (uint8_t)(i * 7 + i / 251);
    put_headers(file, machine);
    const uint32_t note[] = {4, 20, NT_GNU_BUILD_ID};
    put(file, NOTE_AT, note, sizeof note);
    put(file, NOTE_AT + sizeof note, "GNU", 4);
    memset(file + NOTE_AT + sizeof note + 4, id, 20);
    bool is_x86 = machine == EM_X86_64;
    const Elf64_Rela relas[] = {
        {SYMBOLIC, ELF64_R_INFO(3, is_x86 ? R_X86_64_64 : 257), 0},
        {POINTER, ELF64_R_INFO(0, is_x86 ? R_X86_64_RELATIVE : 1027), 0x1234},
    };
    put(file, RELA_AT, relas, sizeof relas);
    /* bit 0 marks a bitmap; bits 1 and 3: the first and the third word behind PACKED */
    const uint64_t relrs[] = {PACKED, 1 | 1 << 1 | 1 << 3};
    put(file, RELR_AT, relrs, sizeof relrs);
    put(file, PACKED, (const uint64_t[]){0x100, 0x200, 0x300, 0x400}, 32);
    const uint64_t dynamic[] = {DT_RELA, RELA_AT, DT_RELASZ, sizeof relas, DT_RELAENT, 24,
                                36,      RELR_AT, 35,        sizeof relrs, 37,         8,
                                DT_NULL, 0};
    put(file, DYNAMIC_AT, dynamic, sizeof dynamic);
}

static void write_module(const uint8_t file[FILE_BYTES])
{
    unlink(module_path);
    temp_tree_write_bytes(&tree, "libtest.so", file, FILE_BYTES);
}

static struct mw_image open_core(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/core", tree.path);
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = mw_image_open(path, NULL, NULL, &image, &err);
    if (status != MW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(status, MW_OK);
    return image;
}

/* Only the library's first page is in the core. with_headers: the kernel's way, a PT_LOAD without
 * bytes for every mapping; else gcore's, where only NT_FILE has the others. */
static struct mw_image open_core_of(const uint8_t file[FILE_BYTES], const char *name,
                                    bool with_headers)
{
    static uint8_t stack[PAGE];
    struct core_builder core = {0};
    memcpy(&core.machine, file + 18, sizeof core.machine);
    memset(stack, 'S', sizeof stack);
    const struct core_file files[] = {
        {BASE, BASE + TEXT_AT, 0, name},
        {BASE + TEXT_AT, BASE + RELRO_AT, TEXT_AT / PAGE, name},
        {BASE + RELRO_AT, BASE + DATA_AT, RELRO_AT / PAGE, name},
        {BASE + DATA_AT, BASE + DATA_AT + PAGE, DATA_AT / PAGE, name},
    };
    core_add_files(&core, files, 4, PAGE);
    core_add_segment(&core, BASE, PAGE, PAGE, PF_R, file);
    if (with_headers) {
        core_add_segment(&core, BASE + TEXT_AT, PAGE, 0, PF_R | PF_X, NULL);
        core_add_segment(&core, BASE + RELRO_AT, PAGE, 0, PF_R, NULL);
        core_add_segment(&core, BASE + DATA_AT, PAGE, 0, PF_R | PF_W, NULL);
    }
    core_add_segment(&core, BASE + 16 * PAGE, PAGE, PAGE, PF_R | PF_W, stack);
    size_t length;
    uint8_t *bytes = core_build(&core, &length);
    temp_tree_write_bytes(&tree, "core", bytes, length);
    free(bytes);
    return open_core();
}

static uint64_t missing_bytes(const struct mw_image *image)
{
    const struct mw_finding *finding = mw_finding_find(&image->findings, "core-pages-missing");
    return finding ? finding->bytes : 0;
}

/* -- tests ----------------------------------------------------------------------------------- */

static void check_content(struct mw_image *image, const uint8_t *file)
{
    uint8_t bytes[2 * PAGE];
    assert_int_equal(image->regions.count, 5);
    assert_int_equal(mw_image_read(image, BASE, bytes, 2 * PAGE), MW_OK);
    assert_memory_equal(bytes, file, 2 * PAGE);
    assert_int_equal(mw_image_read(image, BASE + TEXT_AT + 100, bytes, 50), MW_OK);
    assert_memory_equal(bytes, file + TEXT_AT + 100, 50);
    /* what the program may have changed is nobody's to tell */
    assert_int_equal(mw_image_read_some(image, BASE + RELRO_AT, bytes, 1), 0);
    assert_int_equal(mw_image_read_some(image, BASE + DATA_AT, bytes, 1), 0);
    assert_int_equal(mw_image_read_some(image, BASE + TEXT_AT, bytes, 2 * PAGE), PAGE);
    assert_true(missing_bytes(image) == 2 * PAGE);
    assert_null(mw_finding_find(&image->findings, "core-file-differs"));
    static const uint32_t perms[] = {MW_PERM_READ, MW_PERM_READ | MW_PERM_EXEC, MW_PERM_READ,
                                     MW_PERM_READ | MW_PERM_WRITE};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(image->regions.items[i].perms, perms[i]);
        assert_string_equal(image->regions.items[i].name, module_path);
        assert_int_equal(image->regions.items[i].offset, i * PAGE);
    }
    int fd = mw_image_open_file(image, &image->regions.items[3]);
    assert_int_equal(pread(fd, bytes, PAGE, TEXT_AT), PAGE);
    assert_memory_equal(bytes, file + TEXT_AT, PAGE);
    close(fd);
    assert_int_equal(mw_image_open_file(image, &image->regions.items[4]), -1);
}

static uint64_t word_of(struct mw_image *image, uint64_t at)
{
    uint64_t word = 0;
    assert_int_equal(mw_image_read_mapped(image, BASE + at, &word, sizeof word), MW_OK);
    return word;
}

/* How writable data began: relocated, and not where only a loader knows. */
static void check_initial(struct mw_image *image, const uint8_t *file)
{
    uint8_t bytes[PAGE];
    assert_true(word_of(image, POINTER) == BASE + 0x1234);
    assert_true(word_of(image, PACKED) == BASE + 0x100);
    assert_true(word_of(image, PACKED + 8) == BASE + 0x200);
    assert_true(word_of(image, PACKED + 16) == 0x300);
    assert_true(word_of(image, PACKED + 24) == BASE + 0x400);
    assert_int_equal(mw_image_read_mapped(image, BASE + SYMBOLIC, bytes, 8), MW_FAULT);
    assert_int_equal(mw_image_read_mapped(image, BASE + SYMBOLIC - 8, bytes, 9), MW_FAULT);
    assert_int_equal(mw_image_read_mapped(image, BASE + SYMBOLIC + 7, bytes, 1), MW_FAULT);
    assert_int_equal(mw_image_read_mapped(image, BASE + SYMBOLIC + 8, bytes, 8), MW_OK);
    assert_memory_equal(bytes, file + SYMBOLIC + 8, 8);
    /* a part of a pointer is that part */
    assert_int_equal(mw_image_read_mapped(image, BASE + POINTER + 3, bytes, 5), MW_OK);
    assert_memory_equal(bytes, (const uint8_t *)&(uint64_t){BASE + 0x1234} + 3, 5);
    assert_int_equal(mw_image_read_mapped(image, BASE + POINTER - 4, bytes, 8), MW_OK);
    assert_memory_equal(bytes, file + POINTER - 4, 4);
    assert_memory_equal(bytes + 4, &(uint64_t){BASE + 0x1234}, 4);
    /* behind the file's part come zeros; across the end of the module nothing is known */
    assert_int_equal(mw_image_read_mapped(image, BASE + DATA_AT + DATA_BYTES - 8, bytes, 16),
                     MW_OK);
    assert_memory_equal(bytes, file + DATA_AT + DATA_BYTES - 8, 8);
    assert_true(word_of(image, DATA_AT + DATA_BYTES) == 0);
    assert_true(word_of(image, DATA_AT + PAGE - 8) == 0);
    assert_int_equal(mw_image_read_mapped(image, BASE + DATA_AT + PAGE - 8, bytes, 9), MW_FAULT);
    /* the dynamic section, across pages of the core and of the file */
    assert_true(word_of(image, DYNAMIC_AT + 8) == RELA_AT);
    assert_int_equal(mw_image_read_mapped(image, BASE + TEXT_AT - 8, bytes, 16), MW_OK);
    assert_memory_equal(bytes, file + TEXT_AT - 8, 16);
}

static void test_missing_pages(void **state)
{
    (void)state;
    static const uint16_t machines[] = {EM_X86_64, EM_AARCH64};
    static uint8_t file[FILE_BYTES];
    for (size_t i = 0; i < 4; i++) {
        make_module(file, machines[i / 2], 0xab);
        write_module(file);
        struct mw_image image = open_core_of(file, module_path, i % 2);
        check_content(&image, file);
        check_initial(&image, file);
        mw_image_close(&image);
    }
}

/* Another build: nothing is read from it, and both ids are said. */
static void test_another_build(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES], other[FILE_BYTES];
    make_module(file, EM_X86_64, 0xab);
    make_module(other, EM_X86_64, 0xcd);
    write_module(other);
    struct mw_image image = open_core_of(file, module_path, true);
    uint8_t byte;
    assert_int_equal(mw_image_read(&image, BASE + TEXT_AT, &byte, 1), MW_FAULT);
    assert_int_equal(mw_image_read_mapped(&image, BASE + DATA_AT, &byte, 1), MW_FAULT);
    assert_int_equal(mw_image_open_file(&image, &image.regions.items[1]), -1);
    const struct mw_finding *finding = mw_finding_find(&image.findings, "core-file-differs");
    assert_non_null(finding);
    assert_non_null(strstr(finding->text, "libtest.so"));
    assert_non_null(strstr(finding->text, "cdcdcdcd"));
    assert_non_null(strstr(finding->text, "abababab"));
    assert_true(finding->bytes == 3 * PAGE && missing_bytes(&image) == 3 * PAGE);
    mw_image_close(&image);
}

/* A file that goes, or changes, after it was compared. */
static void test_replaced_later(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES];
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    struct mw_image image = open_core_of(file, module_path, true);
    unlink(module_path);
    memset(file + TEXT_AT, 'x', PAGE);
    temp_tree_write_bytes(&tree, "libtest.so", file, FILE_BYTES / 2);
    uint8_t byte;
    assert_int_equal(mw_image_read(&image, BASE + TEXT_AT, &byte, 1), MW_FAULT);
    assert_int_equal(mw_image_open_file(&image, &image.regions.items[1]), -1);
    mw_image_close(&image);
}

/* No module without its first page; a short file has no pages behind its end. */
static void test_less_than_announced(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES], blank[FILE_BYTES];
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    memcpy(blank + 16, file + 16, 4); /* the machine */
    struct mw_image image = open_core_of(blank, module_path, false);
    uint8_t bytes[PAGE];
    assert_int_equal(mw_image_read_mapped(&image, BASE + TEXT_AT, bytes, 1), MW_FAULT);
    assert_true(missing_bytes(&image) == 3 * PAGE);
    mw_image_close(&image);
    memset(file + NOTE_AT, 0, 36); /* no build-id in the core, and none in the file */
    write_module(file);
    image = open_core_of(file, module_path, true);
    assert_int_equal(mw_image_read(&image, BASE + TEXT_AT, bytes, 1), MW_FAULT);
    assert_true(mw_finding_find(&image.findings, "core-file-unchecked")->bytes == 3 * PAGE);
    mw_image_close(&image);
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    assert_int_equal(truncate(module_path, TEXT_AT + 100), 0);
    image = open_core_of(file, module_path, true);
    /* its dynamic section is gone: what the loader wrote to is unknown, so is all */
    assert_int_equal(mw_image_read(&image, BASE + TEXT_AT, bytes, 1), MW_FAULT);
    mw_image_close(&image);
}

/* Mapped as data by somebody who reads symbols: nothing was relocated there. */
static void test_mapped_as_data(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES], stack[PAGE];
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    struct core_builder core = {0};
    const struct core_file files[] = {{BASE, BASE + FILE_BYTES, 0, module_path}};
    memset(stack, 'S', sizeof stack);
    core_add_files(&core, files, 1, PAGE);
    core_add_segment(&core, BASE, FILE_BYTES, PAGE, PF_R, file);
    size_t length;
    uint8_t *bytes = core_build(&core, &length), got[FILE_BYTES];
    temp_tree_write_bytes(&tree, "core", bytes, length);
    free(bytes);
    struct mw_image image = open_core();
    assert_int_equal(mw_image_read(&image, BASE, got, FILE_BYTES), MW_OK);
    assert_memory_equal(got, file, FILE_BYTES);
    assert_true(missing_bytes(&image) == 0);
    mw_image_close(&image);
}

/* A core may name anything: what is no plain file is not opened, and nothing hangs. */
static void test_names_of_strangers(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES];
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    char fifo[160], link[160], relative[200];
    snprintf(fifo, sizeof fifo, "%s/fifo", tree.path);
    snprintf(link, sizeof link, "%s/link", tree.path);
    snprintf(relative, sizeof relative, "../../../../../../..%s", module_path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("/proc/kmsg", link), 0);
    const char *const names[] = {
        fifo,       link, tree.path, "/proc/kmsg", "/dev/zero", "/dev/watchdog", "/proc/self/mem",
        "/nowhere", "/",  relative};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        alarm(20);
        struct mw_image image = open_core_of(file, names[i], true);
        uint8_t byte;
        assert_int_equal(mw_image_read(&image, BASE + TEXT_AT, &byte, 1), MW_FAULT);
        if (names[i][0] == '/')
            assert_non_null(mw_finding_find(&image.findings, "core-file-missing"));
        mw_image_close(&image);
        alarm(0);
    }
    unlink(fifo);
    unlink(link);
}

/* Each byte of the file's headers and tables damaged, the core's copy whole: never a crash, and
 * text is the file's or unknown. */
static void test_damaged_file(void **state)
{
    (void)state;
    static uint8_t file[FILE_BYTES];
    make_module(file, EM_X86_64, 0xab);
    write_module(file);
    struct mw_image whole = open_core_of(file, module_path, false);
    mw_image_close(&whole);
    int fd = open(module_path, O_WRONLY | O_CLOEXEC);
    for (size_t at = 0; at < FILE_BYTES; at += at < 0x600 ? 1 : at < RELRO_AT ? PAGE : 13) {
        uint8_t value = (uint8_t)(file[at] ^ 0x81);
        assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
        struct mw_image image = open_core();
        uint8_t bytes[PAGE];
        for (size_t i = 0; i < image.regions.count; i++)
            for (size_t k = 0; k < PAGE; k += 64)
                (void)!mw_image_read_mapped(&image, image.regions.items[i].start + k, bytes, 64);
        mw_image_close(&image);
        assert_int_equal(pwrite(fd, &file[at], 1, (off_t)at), 1);
    }
    close(fd);
}

/* One library, a page of core, and its text mapped very often: a budget, not a day. */
static void test_overclaim(void **state)
{
    (void)state;
    enum { COUNT = 50000, BIG = 64 << 20 };
    size_t headers = sizeof(Elf64_Ehdr), length = headers + COUNT * sizeof(Elf64_Phdr) + PAGE;
    uint8_t *bytes = calloc(1, length), *buffer = malloc(BIG);
    const Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_phoff = headers,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = COUNT,
    };
    memcpy(bytes, &header, sizeof header);
    for (size_t i = 0; i < COUNT; i++) { /* all share one piece of the file: a hole of 64 MiB */
        const Elf64_Phdr segment = {.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_W,
                                    .p_offset = 8 << 20,
                                    .p_vaddr = BASE + i * BIG,
                                    .p_memsz = BIG,
                                    .p_filesz = BIG};
        memcpy(bytes + headers + i * sizeof segment, &segment, sizeof segment);
    }
    temp_tree_write_bytes(&tree, "core", bytes, length);
    free(bytes);
    char path[160];
    snprintf(path, sizeof path, "%s/core", tree.path);
    assert_int_equal(truncate(path, (8 << 20) + BIG), 0);
    struct mw_image image = open_core();
    assert_int_equal(image.regions.count, COUNT);
    uint64_t got = 0;
    for (size_t i = 0; i < COUNT; i++)
        got += mw_image_read_some(&image, BASE + i * BIG, buffer, BIG);
    assert_true(got >= BIG && got <= (uint64_t)1 << 30); /* of 3 TiB */
    const struct mw_finding *finding = mw_finding_find(&image.findings, "core-overclaims");
    assert_true(finding && finding->bytes == (uint64_t)COUNT * BIG);
    mw_image_close(&image);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_pages),  cmocka_unit_test(test_another_build),
        cmocka_unit_test(test_replaced_later), cmocka_unit_test(test_less_than_announced),
        cmocka_unit_test(test_mapped_as_data), cmocka_unit_test(test_names_of_strangers),
        cmocka_unit_test(test_damaged_file),   cmocka_unit_test(test_overclaim),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
