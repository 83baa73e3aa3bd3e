/* tests/unit/test_image_core.c: cores made byte by byte, whole, cut and damaged; .zst, pipes and
 * what is no core. Real ones are in test_image_core_real.c. */
#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "core_builder.h"
#include "image/core.h"
#include "image/open.h"
#include "temp_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

enum { PAGE = 4096 };
static const mw_addr HEAP = 0x555500000000, LIB = 0x7f0000000000, STACK = 0x7ffd00000000;

static struct temp_tree tree;
static uint8_t heap_bytes[8 * PAGE], lib_bytes[PAGE], stack_bytes[4 * PAGE];

static int group_setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    setenv("TMPDIR", tree.path, 1);
    for (size_t i = 0; i < sizeof heap_bytes; i++)
        heap_bytes[i] = (uint8_t)(i * 131 + i / PAGE + 1);
    memset(lib_bytes, 'L', sizeof lib_bytes);
    memset(stack_bytes, 'S', sizeof stack_bytes);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

/* heap, a library of which one page of three was kept, an anonymous page behind it, the stack */
static void add_all(struct core_builder *core)
{
    const uint64_t auxv[][2] = {
        {AT_PAGESZ, PAGE}, {AT_ENTRY, 0x555500000040}, {AT_PHDR, LIB + 0x40},
        {AT_BASE, LIB},    {AT_RANDOM, STACK + 8},     {AT_SYSINFO_EHDR, 0x7ffe00000000},
        {AT_NULL, 0}};
    const struct core_file files[] = {
        {LIB + 2 * PAGE, LIB + 3 * PAGE, 7, "/lib/b (deleted)"},
        {LIB, LIB + 2 * PAGE, 5, "/lib/a b.so"},
    };
    core_add_thread(core, 4711, 1000);
    core_add_process(core, 4711, "ser\x01ver", "server --x");
    core_add_auxv(core, auxv, sizeof auxv / sizeof *auxv);
    core_add_files(core, files, 2, PAGE);
    core_add_note(core, "LINUX", 0x202, "xstate", 6);
    core_add_thread(core, 4712, 2000);
    core_add_segment(core, HEAP, sizeof heap_bytes, sizeof heap_bytes, PF_R | PF_W, heap_bytes);
    core_add_segment(core, LIB, 2 * PAGE, PAGE, PF_R | PF_X, lib_bytes);
    core_add_segment(core, LIB + 2 * PAGE, PAGE, 0, PF_R, NULL);
    core_add_segment(core, STACK, sizeof stack_bytes, sizeof stack_bytes, PF_R | PF_W, stack_bytes);
    core_add_segment(core, 0xffffffffff600000, PAGE, PAGE, PF_X, lib_bytes);
}

static enum mw_status open_bytes(const uint8_t *bytes, size_t length, struct mw_image *image,
                                 struct mw_error *err)
{
    char path[128];
    snprintf(path, sizeof path, "%s/built", tree.path);
    temp_tree_write_bytes(&tree, "built", bytes, length);
    return mw_image_open(path, NULL, NULL, image, err);
}

/* Build, open, release the bytes. */
static struct mw_image open_built(const struct core_builder *core)
{
    size_t length;
    uint8_t *bytes = core_build(core, &length);
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = open_bytes(bytes, length, &image, &err);
    free(bytes);
    if (status != MW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(status, MW_OK);
    return image;
}

static void test_everything_in_a_core(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    struct mw_image image = open_built(&core);
    assert_int_equal(image.kind, MW_IMAGE_CORE);
    assert_int_equal(image.arch, MW_ARCH_X86_64);
    assert_int_equal(image.page_size, PAGE);
    assert_int_equal(image.can, MW_CAN_READ | MW_CAN_REGISTERS);
    assert_true(image.entry == 0x555500000040 && image.phdr == LIB + 0x40 && image.base == LIB);
    assert_true(image.at_random == STACK + 8 && image.vdso == 0x7ffe00000000);
    assert_int_equal(image.process.pid, 4711);
    assert_int_equal(image.process.ppid, 1);
    assert_int_equal(image.process.uid, 1000);
    assert_int_equal(image.process.state, 'D');
    assert_string_equal(image.process.comm, "ser\\x01ver");
    assert_string_equal(image.process.command, "server --x");
    assert_string_equal(image.process.exe, "/lib/a b.so");
    assert_true(image.process.thread_count == 2 && image.process.vm_rss == MW_UNKNOWN);
    assert_int_equal(image.thread_count, 2);
    assert_int_equal(image.threads[1].tid, 4712);
    assert_true(image.threads[1].pc == 2016 && image.threads[1].sp == 2019);
    assert_true(image.threads[1].tp == 2021 && image.threads[1].register_count == 27);
    assert_true(image.threads[0].registers[26] == 1026);
    mw_image_close(&image);
}

static void test_regions_and_names(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    struct mw_image image = open_built(&core);
    assert_int_equal(image.regions.count, 5);
    static const char *const names[] = {"", "/lib/a b.so", "/lib/b", "[stack]", "[vsyscall]"};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(image.regions.items[i].name, names[i]);
    assert_true(image.regions.items[1].offset == 5 * PAGE && !image.regions.items[1].deleted);
    assert_true(image.regions.items[2].deleted);
    assert_int_equal(image.regions.items[1].perms, MW_PERM_READ | MW_PERM_EXEC);
    assert_int_equal(image.regions.items[0].known, 0);
    const struct mw_finding *missing = mw_finding_find(&image.findings, "core-pages-missing");
    assert_non_null(missing);
    assert_true(missing->count == 2 && missing->bytes == 2 * PAGE);
    assert_true(missing->first_address == LIB + PAGE);
    /* the second thread's stack pointer, 2019, is nowhere, and so is the first's */
    assert_int_equal(mw_finding_find(&image.findings, "core-stack-missing")->count, 2);
    assert_int_equal(image.findings.count, 2);
    mw_image_close(&image);
}

static void test_contents(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    struct mw_image image = open_built(&core);
    uint8_t bytes[10 * PAGE];
    assert_int_equal(mw_image_read(&image, HEAP, bytes, sizeof heap_bytes), MW_OK);
    assert_memory_equal(bytes, heap_bytes, sizeof heap_bytes);
    assert_int_equal(mw_image_read(&image, HEAP + 5000, bytes, 100), MW_OK);
    assert_memory_equal(bytes, heap_bytes + 5000, 100);
    assert_int_equal(mw_image_read_some(&image, HEAP + PAGE, bytes, sizeof bytes), 7 * PAGE);
    assert_int_equal(mw_image_read_some(&image, LIB, bytes, sizeof bytes), PAGE);
    assert_int_equal(mw_image_read_some(&image, LIB + PAGE, bytes, 1), 0);
    assert_int_equal(mw_image_read(&image, STACK - 1, bytes, 2), MW_FAULT);
    uint8_t flags[1];
    assert_int_equal(mw_image_pages(&image, HEAP, 1, flags, NULL), MW_UNSUPPORTED);
    assert_int_equal(mw_image_stop(&image, NULL), MW_OK); /* nothing moves */
    mw_image_resume(&image);
    assert_true(image.pauses.count == 0);
    mw_image_close(&image);
}

static void test_aarch64(void **state)
{
    (void)state;
    struct core_builder core = {.machine = EM_AARCH64};
    core_add_thread(&core, 9, 100);
    core_add_note(&core, "LINUX", 0x401, &(uint64_t){0xabc000}, 8);
    core_add_note(&core, "CORE", NT_AUXV, (const uint64_t[]){AT_PAGESZ, 65536}, 16);
    core_add_segment(&core, 0x10000, 65536, 65536, PF_R | PF_W, NULL);
    struct mw_image image = open_built(&core);
    assert_int_equal(image.arch, MW_ARCH_AARCH64);
    assert_int_equal(image.page_size, 65536);
    assert_true(image.threads[0].pc == 132 && image.threads[0].sp == 131);
    assert_true(image.threads[0].tp == 0xabc000 && image.threads[0].register_count == 34);
    mw_image_close(&image);
    /* A page size that does not divide the segments is not believed. */
    core_add_segment(&core, 0x30000, PAGE, 0, PF_R, NULL);
    image = open_built(&core);
    assert_int_equal(image.page_size, PAGE);
    mw_image_close(&image);
}

/* More than 65,534 segments: e_phnum is 0xffff and section 0 has the number. */
static void test_very_many_segments(void **state)
{
    (void)state;
    enum { COUNT = 70000 };
    size_t headers = sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr);
    size_t length = headers + COUNT * sizeof(Elf64_Phdr) + PAGE;
    uint8_t *bytes = calloc(1, length);
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_phoff = headers,
        .e_shoff = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = PN_XNUM,
        .e_shnum = 1,
        .e_shentsize = sizeof(Elf64_Shdr),
    };
    Elf64_Shdr section = {.sh_info = COUNT};
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &section, sizeof section);
    for (size_t i = 0; i < COUNT; i++) {
        Elf64_Phdr segment = {.p_type = PT_LOAD,
                              .p_vaddr = HEAP + (COUNT - i) * 2 * PAGE, /* descending */
                              .p_memsz = PAGE,
                              .p_filesz = PAGE,
                              .p_offset = headers + COUNT * sizeof segment};
        memcpy(bytes + headers + i * sizeof segment, &segment, sizeof segment);
    }
    struct mw_image image;
    assert_int_equal(open_bytes(bytes, length, &image, NULL), MW_OK);
    assert_int_equal(image.regions.count, COUNT);
    assert_true(image.regions.items[0].start == HEAP + 2 * PAGE);
    mw_image_close(&image);
    section.sh_info = UINT32_MAX;
    memcpy(bytes + sizeof header, &section, sizeof section);
    struct mw_error err = {0};
    assert_int_equal(open_bytes(bytes, length, &image, &err), MW_LIMIT);
    free(bytes);
}

/* One name of many MiB for every one of many segments, and the notes more than once: time and
 * memory stay those of one. */
static void test_endless_name(void **state)
{
    (void)state;
    enum { COUNT = 60000, NAME_BYTES = 32 << 20, NOTE_HEAD = 12 + 8, FILES_HEAD = 16 + 24 };
    size_t headers = sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr);
    size_t notes = headers + (COUNT + 8) * sizeof(Elf64_Phdr);
    size_t length = notes + NOTE_HEAD + FILES_HEAD + NAME_BYTES;
    uint8_t *bytes = calloc(1, length);
    assert_non_null(bytes);
    const Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_phoff = headers,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = COUNT + 8,
    };
    memcpy(bytes, &header, sizeof header);
    for (size_t i = 0; i < COUNT + 8; i++) {
        Elf64_Phdr segment = {.p_type = PT_LOAD, .p_vaddr = HEAP + i * 2 * PAGE, .p_memsz = PAGE};
        if (i >= COUNT)
            segment =
                (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = notes, .p_filesz = length - notes};
        memcpy(bytes + headers + i * sizeof segment, &segment, sizeof segment);
    }
    const uint32_t note[] = {5, FILES_HEAD + NAME_BYTES, NT_FILE};
    const uint64_t files[] = {1, PAGE, HEAP, HEAP + COUNT * 2 * PAGE, 0};
    memcpy(bytes + notes, note, sizeof note);
    memcpy(bytes + notes + sizeof note, "CORE", 5);
    memcpy(bytes + notes + NOTE_HEAD, files, sizeof files);
    memset(bytes + notes + NOTE_HEAD + FILES_HEAD, 'n', NAME_BYTES - 1);
    struct mw_image image;
    alarm(30);
    assert_int_equal(open_bytes(bytes, length, &image, NULL), MW_OK);
    alarm(0);
    free(bytes);
    assert_int_equal(image.regions.count, 2 * COUNT); /* NT_FILE names what is between them, too */
    assert_int_equal(strlen(image.regions.items[0].name), MW_LIMIT_NAME_BYTES);
    assert_string_equal(image.regions.items[2 * COUNT - 1].name, image.regions.items[0].name);
    mw_image_close(&image);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint8_t value;
        enum mw_status status;
        const char *text;
    } cases[] = {
        {EI_CLASS, ELFCLASS32, MW_UNSUPPORTED, "32-bit"},
        {EI_CLASS, 77, MW_UNSUPPORTED, "bit"},
        {EI_DATA, ELFDATA2MSB, MW_UNSUPPORTED, "big-endian"},
        {16, ET_EXEC, MW_UNSUPPORTED, "not a core"},
        {16, ET_DYN, MW_UNSUPPORTED, "not a core"},
        {18, EM_S390, MW_UNSUPPORTED, "machine 22"},
        {54, 32, MW_CORRUPT, "32 bytes"},
        {56, 0, MW_TRUNCATED, "no memory"},
    };
    struct core_builder core = {0};
    add_all(&core);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        uint8_t *bytes = core_build(&core, &length);
        bytes[cases[i].offset] = cases[i].value;
        struct mw_image image;
        struct mw_error err = {0};
        assert_int_equal(open_bytes(bytes, length, &image, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        free(bytes);
    }
    core_add_note(&core, "VMCOREINFO", 0, "OSRELEASE=6", 11);
    size_t length;
    uint8_t *bytes = core_build(&core, &length);
    struct mw_image image;
    struct mw_error err = {0};
    assert_int_equal(open_bytes(bytes, length, &image, &err), MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "kernel"));
    free(bytes);
}

static void test_segments_that_overlap(void **state)
{
    (void)state;
    struct core_builder core = {0};
    core_add_segment(&core, HEAP + 2 * PAGE, 4 * PAGE, 4 * PAGE, PF_R | PF_W, heap_bytes);
    core_add_segment(&core, HEAP, 4 * PAGE, 4 * PAGE, PF_R | PF_W, stack_bytes);
    core_add_segment(&core, HEAP + PAGE, PAGE, PAGE, PF_R, lib_bytes);       /* inside: dropped */
    core_add_segment(&core, HEAP + 100, PAGE, PAGE, PF_R, lib_bytes);        /* not whole pages */
    core_add_segment(&core, UINT64_MAX - PAGE + 1, 2 * PAGE, 0, PF_R, NULL); /* wraps */
    struct mw_image image = open_built(&core);
    assert_int_equal(image.regions.count, 2);
    assert_true(image.regions.items[1].start == HEAP + 4 * PAGE);
    assert_true(image.regions.items[1].end == HEAP + 6 * PAGE);
    uint8_t bytes[PAGE];
    assert_int_equal(mw_image_read(&image, HEAP + 4 * PAGE, bytes, PAGE), MW_OK);
    assert_memory_equal(bytes, heap_bytes + 2 * PAGE, PAGE); /* moved up, contents too */
    assert_int_equal(mw_finding_find(&image.findings, "core-segment")->count, 3);
    mw_image_close(&image);
}

/* Every address that a region holds: reads give the true bytes or nothing. */
static void check_image(struct mw_image *image)
{
    mw_addr last = 0;
    uint8_t bytes[2 * PAGE];
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        assert_true(map->start >= last && map->end > map->start);
        last = map->end;
        size_t got = mw_image_read_some(image, map->start, bytes, sizeof bytes);
        assert_true(got <= sizeof bytes && got <= mw_mapping_size(map) + sizeof bytes);
        if (image->can & MW_CAN_PAGES) {
            uint8_t flags[4];
            size_t count = mw_mapping_size(map) / image->page_size;
            (void)!mw_image_pages(image, map->start, count < 4 ? count : 4, flags, NULL);
        }
    }
}

/* Cut at many places: never refused once there is memory, and what is missing is told exactly. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length;
    uint8_t *bytes = core_build(&core, &length);
    for (size_t cut = 0; cut < length; cut += cut < 8192 ? 13 : 1021) {
        struct mw_image image;
        struct mw_error err = {0};
        enum mw_status status = open_bytes(bytes, cut, &image, &err);
        if (status != MW_OK) {
            assert_true(cut < sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr));
            assert_true(status == MW_TRUNCATED || status == MW_UNSUPPORTED);
            continue;
        }
        const struct mw_finding *finding = mw_finding_find(&image.findings, "core-truncated");
        assert_non_null(finding);
        if (cut >= 8192)
            assert_true(finding->bytes == length - cut);
        check_image(&image);
        uint8_t page[PAGE];
        size_t heap_at = 4096;
        if (cut >= heap_at + PAGE) {
            assert_int_equal(mw_image_read(&image, HEAP, page, PAGE), MW_OK);
            assert_memory_equal(page, heap_bytes, PAGE);
        }
        mw_image_close(&image);
    }
    free(bytes);
}

/* Each byte of the headers and notes set to 0, 255 and itself + 1. */
static void test_every_byte_damaged(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length;
    uint8_t *bytes = core_build(&core, &length);
    size_t end = sizeof(Elf64_Ehdr) + 6 * sizeof(Elf64_Phdr) + core.note_length;
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, bytes, length), 0);
    for (size_t at = 4; at < end; at++) {
        const uint8_t values[] = {0, 0xff, (uint8_t)(bytes[at] + 1), 0x80};
        for (size_t i = 0; i < sizeof values; i++) {
            assert_int_equal(pwrite(fd, &values[i], 1, (off_t)at), 1);
            struct mw_image image;
            int copy = dup(fd);
            if (mw_image_open_core(copy, "damaged", NULL, &image, NULL) == MW_OK) {
                check_image(&image);
                mw_image_close(&image);
            } else
                close(copy);
        }
        assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
    }
    close(fd);
    free(bytes);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length;
    uint8_t *bytes = core_build(&core, &length);
    int failures = 0;
    for (long n = 0;; n++) {
        struct mw_image image;
        struct mw_error err = {0};
        mw_alloc_fail_after(n);
        enum mw_status status = open_bytes(bytes, length, &image, &err);
        mw_alloc_fail_after(-1);
        if (status == MW_OK)
            mw_image_close(&image);
        else
            assert_int_equal(status, MW_NOMEM);
        failures += status != MW_OK;
        if (n > 60)
            break;
    }
    assert_true(failures >= 6);
    free(bytes);
}

/* -- .zst and pipes -------------------------------------------------------------------------- */

static uint8_t *compress(const uint8_t *bytes, size_t length, size_t *packed_out)
{
    size_t room = ZSTD_compressBound(length);
    uint8_t *packed = malloc(room);
    *packed_out = ZSTD_compress(packed, room, bytes, length, 3);
    assert_false(ZSTD_isError(*packed_out));
    return packed;
}

static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void test_zstd(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length, packed_length;
    uint8_t *bytes = core_build(&core, &length), *packed = compress(bytes, length, &packed_length);
    struct mw_image image;
    struct mw_error err = {0};
    assert_int_equal(open_bytes(packed, packed_length, &image, &err), MW_OK);
    assert_int_equal(image.regions.count, 5);
    uint8_t page[PAGE];
    assert_int_equal(mw_image_read(&image, HEAP + 3 * PAGE, page, PAGE), MW_OK);
    assert_memory_equal(page, heap_bytes + 3 * PAGE, PAGE);
    assert_int_equal(count_entries(tree.path), 3); /* ., .., built: no file of ours has a name */
    mw_image_close(&image);
    for (size_t cut = 1; cut < packed_length; cut += packed_length / 50 + 1) {
        err = (struct mw_error){0};
        enum mw_status status = open_bytes(packed, cut, &image, &err);
        if (status == MW_OK) {
            assert_non_null(mw_finding_find(&image.findings, "core-truncated"));
            mw_image_close(&image);
        } else
            assert_true(err.text[0] != '\0');
    }
    for (size_t at = 4; at < packed_length; at += packed_length / 200 + 1) {
        packed[at] ^= 0x55;
        if (open_bytes(packed, packed_length, &image, &err) == MW_OK) {
            check_image(&image);
            mw_image_close(&image);
        }
        packed[at] ^= 0x55;
    }
    free(packed);
    free(bytes);
}

/* 16 GiB of zeros in a MiB: refused at the bound. */
static void test_bomb(void **state)
{
    (void)state;
    size_t zeros_length = 64 << 20, packed_length;
    uint8_t *zeros = calloc(1, zeros_length);
    uint8_t *packed = compress(zeros, zeros_length, &packed_length);
    struct mw_context context;
    mw_context_init(&context);
    uint8_t first[PAGE];
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) { /* repeat the frame: 16 GiB, until nobody reads */
        signal(SIGPIPE, SIG_IGN);
        close(fds[0]);
        for (int i = 0; i < 256; i++)
            if (mw_io_write_full(fds[1], packed, packed_length) != 0)
                break;
        _exit(0);
    }
    close(fds[1]);
    ssize_t got = read(fds[0], first, sizeof first);
    struct mw_error err = {0};
    int out = -1;
    const struct mw_core_stream stream = {
        .fd = fds[0],
        .name = "bomb",
        .first = first,
        .first_length = (size_t)got,
        .is_zstd = true,
        .bytes_max = (uint64_t)4 << 30,
    };
    enum mw_status status = mw_core_spool(&stream, &context, &out, &err);
    assert_int_equal(status, MW_LIMIT);
    assert_non_null(strstr(err.text, "more than"));
    close(fds[0]);
    waitpid(pid, NULL, 0);
    free(zeros);
    free(packed);
}

static void test_cancel(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length, packed_length;
    uint8_t *bytes = core_build(&core, &length), *packed = compress(bytes, length, &packed_length);
    temp_tree_write_bytes(&tree, "built", packed, packed_length);
    char path[128];
    snprintf(path, sizeof path, "%s/built", tree.path);
    struct mw_context context;
    mw_context_init(&context);
    context.canceled = true;
    struct mw_image image;
    struct mw_error err = {0};
    assert_int_equal(mw_image_open(path, NULL, &context, &image, &err), MW_CANCELED);
    free(bytes);
    free(packed);
}

/* "-": a core, a .zst and a text through a pipe. */
static void test_standard_input(void **state)
{
    (void)state;
    struct core_builder core = {0};
    add_all(&core);
    size_t length, packed_length;
    uint8_t *bytes = core_build(&core, &length), *packed = compress(bytes, length, &packed_length);
    static const char text[] = "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n";
    const struct {
        const void *bytes;
        size_t length;
        enum mw_image_kind kind;
    } inputs[] = {{bytes, length, MW_IMAGE_CORE},
                  {packed, packed_length, MW_IMAGE_CORE},
                  {text, sizeof text - 1, MW_IMAGE_SMAPS}};
    int saved = dup(STDIN_FILENO);
    for (size_t i = 0; i < 3; i++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            _exit(mw_io_write_full(fds[1], inputs[i].bytes, inputs[i].length));
        }
        close(fds[1]);
        dup2(fds[0], STDIN_FILENO);
        close(fds[0]);
        struct mw_image image;
        struct mw_error err = {0};
        assert_int_equal(mw_image_open("-", NULL, NULL, &image, &err), MW_OK);
        assert_int_equal(image.kind, inputs[i].kind);
        check_image(&image);
        mw_image_close(&image);
        waitpid(pid, NULL, 0);
    }
    dup2(saved, STDIN_FILENO);
    close(saved);
    free(bytes);
    free(packed);
}

static void test_other_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        enum mw_status status;
        const char *text, *hint;
    } cases[] = {
        {"", 0, MW_TRUNCATED, "empty", ""},
        {"\x1f\x8b\x08", 3, MW_UNSUPPORTED, "gzip", "gunzip"},
        {"\xfd"
         "7zXZ\0",
         6, MW_UNSUPPORTED, "xz", "xz -dk"},
        {"hello\n", 6, MW_UNSUPPORTED, "neither", "smaps"},
        {"a\0b", 3, MW_UNSUPPORTED, "neither", "smaps"},
        {"\x7f"
         "ELF",
         4, MW_TRUNCATED, "header", ""},
        {"\x7f"
         "ELF\2",
         5, MW_TRUNCATED, "header", ""},
        {"\x28\xb5\x2f\xfd", 4, MW_TRUNCATED, "before any memory", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mw_image image;
        struct mw_error err = {0};
        assert_int_equal(open_bytes((const uint8_t *)cases[i].bytes, cases[i].length, &image, &err),
                         cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_non_null(strstr(err.hint, cases[i].hint));
    }
    struct mw_image image;
    struct mw_error err = {0};
    assert_int_equal(mw_image_open("redis-server", NULL, NULL, &image, &err), MW_NOT_FOUND);
    assert_non_null(strstr(err.hint, "pidof"));
    assert_int_equal(mw_image_open(tree.path, NULL, NULL, &image, &err), MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_in_a_core),
        cmocka_unit_test(test_regions_and_names),
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_aarch64),
        cmocka_unit_test(test_very_many_segments),
        cmocka_unit_test(test_endless_name),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_segments_that_overlap),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_every_byte_damaged),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_zstd),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_standard_input),
        cmocka_unit_test(test_other_files),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
