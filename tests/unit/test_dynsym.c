/* tests/unit/test_dynsym.c: symbols of the libraries of this very process, read through an image of
 * its own memory, against what the loader says (dlsym); then the same with damaged tables. */
#include "image/open.h"
#include "symbol/dynsym.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODULES_MAX = 64, PAGE = 4096 };

struct module {
    char name[256];
    mw_addr base, end; /* page-aligned, of the loaded segments */
};

struct modules {
    struct module items[MODULES_MAX];
    size_t count;
};

static int module_add(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    struct modules *modules = user;
    struct module *module = &modules->items[modules->count];
    mw_addr low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        mw_addr start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        mw_addr end = start + info->dlpi_phdr[i].p_memsz;
        low = start < low ? start : low;
        high = end > high ? end : high;
    }
    snprintf(module->name, sizeof module->name, "%s", info->dlpi_name);
    module->base = low & ~(mw_addr)(PAGE - 1);
    module->end = (high + PAGE - 1) & ~(mw_addr)(PAGE - 1);
    if (module->base < module->end && modules->count < MODULES_MAX - 1)
        modules->count++;
    return 0;
}

/* A copy of the readable memory of a module as an image. */
struct copied {
    struct mw_image image;
    uint8_t *bytes;
};

/* What of [address, address + size) can be read, without faulting: through the kernel. */
static void copy_memory(uint8_t *bytes, mw_addr address, size_t size)
{
    FILE *memory = fopen("/proc/self/mem", "rb");
    assert_non_null(memory);
    setvbuf(memory, NULL, _IONBF, 0);
    for (size_t at = 0; at < size; at += PAGE) {
        assert_int_equal(fseek(memory, (long)(address + at), SEEK_SET), 0);
        if (fread(bytes + at, PAGE, 1, memory) != 1)
            clearerr(memory);
    }
    fclose(memory);
}

static void copy_module(struct copied *copied, const struct module *module)
{
    size_t size = (size_t)(module->end - module->base);
    copied->bytes = calloc(size, 1);
    assert_non_null(copied->bytes);
    copy_memory(copied->bytes, module->base, size);
    struct mw_image_memory_part part = {
        .mapping = {.start = module->base,
                    .end = module->end,
                    .perms = MW_PERM_READ,
                    .name = "/lib/module.so",
                    .inode = 1},
        .bytes = copied->bytes,
    };
    assert_int_equal(mw_image_open_memory(&part, 1, &copied->image, NULL), MW_OK);
}

static void copied_release(struct copied *copied)
{
    mw_image_close(&copied->image);
    free(copied->bytes);
}

static struct module find_module(const char *part_of_name)
{
    static struct modules modules;
    modules.count = 0;
    dl_iterate_phdr(module_add, &modules);
    for (size_t i = 0; i < modules.count; i++)
        if (strstr(modules.items[i].name, part_of_name))
            return modules.items[i];
    fail_msg("no module %s", part_of_name);
    return (struct module){0};
}

static void test_symbols_of_libc(void **state)
{
    (void)state;
    struct copied libc;
    struct module module = find_module("libc.so");
    copy_module(&libc, &module);
    struct mw_dynsym dynsym;
    assert_int_equal(mw_elf_base_of(&libc.image, module.base + 5 * PAGE), module.base);
    assert_int_equal(mw_dynsym_open(&libc.image, module.base, &dynsym), MW_OK);
    void *handle = dlopen("libc.so.6", RTLD_LAZY); /* not what a sanitizer put before it */
    assert_non_null(handle);
    static const char *const names[] = {"malloc_trim", "mallopt", "free", "environ", "getpid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mw_symbol symbol;
        assert_int_equal(mw_dynsym_find(&dynsym, names[i], &symbol), MW_OK);
        assert_int_equal(symbol.address, (uintptr_t)dlsym(handle, names[i]));
    }
    struct mw_symbol symbol;
    assert_int_equal(mw_dynsym_find(&dynsym, "no_such_function_here", &symbol), MW_NOT_FOUND);
    assert_true(mw_dynsym_has(&dynsym, "mallinfo2"));
    assert_int_equal(mw_dynsym_find(&dynsym, "malloc_trim", &symbol), MW_OK);
    assert_int_equal(symbol.type, STT_FUNC);
    assert_true(symbol.size > 16);
    assert_true(dynsym.elf.tls_bytes > 0);
    dlclose(handle);
    copied_release(&libc);
}

struct check {
    const struct mw_dynsym *dynsym;
    size_t count, missing;
};

static bool found_by_name_too(void *user, const char *name, const struct mw_symbol *symbol)
{
    struct check *check = user;
    struct mw_symbol found;
    check->count++;
    (void)symbol;
    check->missing += mw_dynsym_find(check->dynsym, name, &found) != MW_OK;
    return true;
}

static bool stop_at_once(void *user, const char *name, const struct mw_symbol *symbol)
{
    (void)name;
    (void)symbol;
    ++*(size_t *)user;
    return false;
}

static void test_every_symbol_is_found_by_name(void **state)
{
    (void)state;
    static struct modules modules;
    modules.count = 0;
    dl_iterate_phdr(module_add, &modules);
    size_t with_symbols = 0;
    for (size_t i = 0; i < modules.count; i++) {
        struct copied copied;
        struct mw_dynsym dynsym;
        if (strstr(modules.items[i].name, "vdso") || strstr(modules.items[i].name, "san"))
            continue;
        copy_module(&copied, &modules.items[i]);
        if (mw_dynsym_open(&copied.image, modules.items[i].base, &dynsym) == MW_OK) {
            struct check check = {.dynsym = &dynsym};
            assert_int_equal(mw_dynsym_each(&dynsym, found_by_name_too, &check), MW_OK);
            assert_int_equal(check.missing, 0);
            with_symbols += check.count > 10;
            size_t calls = 0;
            assert_int_equal(mw_dynsym_each(&dynsym, stop_at_once, &calls), MW_OK);
            assert_in_range(calls, 0, 1);
        }
        copied_release(&copied);
    }
    assert_true(with_symbols >= 2);
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool count_symbols(void *user, const char *name, const struct mw_symbol *symbol)
{
    (void)symbol;
    *(size_t *)user += strlen(name) > 0;
    return true;
}

/* Any damage may lose symbols; none may hang or read outside. */
static void test_damaged_headers(void **state)
{
    (void)state;
    struct copied copied;
    struct module module = find_module("libcmocka");
    copy_module(&copied, &module);
    size_t size = (size_t)(module.end - module.base), answers = 0;
    uint8_t *clean = malloc(size);
    assert_non_null(clean);
    memcpy(clean, copied.bytes, size);
    uint32_t seed = 3;
    for (int round = 0; round < 400; round++) {
        struct mw_dynsym dynsym;
        struct mw_symbol symbol;
        size_t area = round % 2 ? size : 4 * PAGE, visited = 0;
        for (uint32_t n = 1 + random_next(&seed) % 64; n > 0; n--)
            copied.bytes[random_next(&seed) % area] = (uint8_t)random_next(&seed);
        if (mw_dynsym_open(&copied.image, module.base, &dynsym) == MW_OK) {
            answers += mw_dynsym_find(&dynsym, "cm_print_error", &symbol) == MW_OK;
            if (round % 16 == 0 && mw_dynsym_each(&dynsym, count_symbols, &visited) == MW_OK)
                answers++;
        }
        if (round % 8 == 7)
            memcpy(copied.bytes, clean, size);
    }
    assert_true(answers > 0);
    free(clean);
    copied_release(&copied);
}

static bool count_build_id(void *user, uint32_t type, const char *name, const uint8_t *bytes,
                           size_t size)
{
    (void)bytes;
    if (type == NT_GNU_BUILD_ID && strcmp(name, "GNU") == 0)
        *(size_t *)user = size;
    return true;
}

static void test_notes(void **state)
{
    (void)state;
    struct copied libc;
    struct module module = find_module("libc.so");
    copy_module(&libc, &module);
    struct mw_elf_map elf;
    size_t id_size = 0;
    assert_int_equal(mw_elf_map_read(&libc.image, module.base, &elf), MW_OK);
    assert_int_equal(mw_elf_map_notes(&elf, count_build_id, &id_size), MW_OK);
    assert_int_equal(id_size, 20);
    assert_in_range(elf.end, module.end - PAGE + 1, module.end);
    copied_release(&libc);
}

static void test_not_an_elf_file(void **state)
{
    (void)state;
    static uint8_t bytes[PAGE];
    struct mw_image_memory_part part = {
        .mapping = {.start = 0x10000, .end = 0x11000, .perms = MW_PERM_READ}, .bytes = bytes};
    struct mw_image image;
    struct mw_elf_map elf;
    assert_int_equal(mw_image_open_memory(&part, 1, &image, NULL), MW_OK);
    assert_int_equal(mw_elf_map_read(&image, 0x10000, &elf), MW_UNSUPPORTED);
    assert_int_equal(mw_elf_map_read(&image, 0x20000, &elf), MW_FAULT);
    memcpy(bytes, ELFMAG, SELFMAG);
    bytes[EI_CLASS] = ELFCLASS64;
    bytes[EI_DATA] = ELFDATA2LSB;
    assert_int_equal(mw_elf_map_read(&image, 0x10000, &elf), MW_CORRUPT);
    assert_int_equal(mw_elf_base_of(&image, 0x10000), 0);
    mw_image_close(&image);
}

static const struct mw_image_ops *counted;
static uint64_t reads;

static void counting_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                          size_t *got_out)
{
    reads++;
    counted->read(image, address, buffer, length, got_out);
}

/* Hash chains that lead through millions of symbols, or back to where they were. */
static void test_endless_chains(void **state)
{
    (void)state;
    enum { SIZE = 17 << 20, DYNAMIC = 0x200, GNU = 0x1000, SYSV = 0x800, SYMBOLS = 0x400 };
    const mw_addr base = 0x7f0000000000;
    for (int is_gnu = 0; is_gnu < 2; is_gnu++) {
        uint8_t *bytes = calloc(1, SIZE);
        assert_non_null(bytes);
        const Elf64_Ehdr header = {
            .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
            .e_type = ET_DYN,
            .e_phoff = sizeof header,
            .e_phentsize = sizeof(Elf64_Phdr),
            .e_phnum = 2,
        };
        const Elf64_Phdr phdrs[] = {
            {.p_type = PT_LOAD, .p_memsz = SIZE},
            {.p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC, .p_memsz = 4 * sizeof(Elf64_Dyn)},
        };
        const Elf64_Dyn dynamic[] = {
            {.d_tag = DT_SYMTAB, .d_un.d_ptr = SYMBOLS},
            {.d_tag = DT_STRTAB, .d_un.d_ptr = SYMBOLS},
            {.d_tag = is_gnu ? DT_GNU_HASH : DT_HASH, .d_un.d_ptr = is_gnu ? GNU : SYSV}};
        const uint32_t gnu[] = {1, 0, 1, 0, UINT32_MAX, UINT32_MAX, 0};
        const uint32_t sysv[] = {1, 1 << 22, 1, 0, 1}; /* symbol 1 is behind symbol 1 */
        memcpy(bytes, &header, sizeof header);
        memcpy(bytes + sizeof header, phdrs, sizeof phdrs);
        memcpy(bytes + DYNAMIC, dynamic, sizeof dynamic);
        memcpy(bytes + GNU, gnu, sizeof gnu);
        memcpy(bytes + SYSV, sysv, sizeof sysv);
        const struct mw_image_memory_part part = {
            .mapping = {.start = base, .end = base + SIZE, .perms = MW_PERM_READ}, .bytes = bytes};
        struct mw_image image;
        struct mw_dynsym dynsym;
        struct mw_symbol symbol;
        assert_int_equal(mw_image_open_memory(&part, 1, &image, NULL), MW_OK);
        assert_int_equal(mw_dynsym_open(&image, base, &dynsym), MW_OK);
        struct mw_image_ops ops = *(counted = image.ops);
        ops.read = counting_read;
        image.ops = &ops;
        reads = 0;
        assert_int_equal(mw_dynsym_find(&dynsym, "malloc", &symbol), MW_CORRUPT);
        assert_in_range(reads, 1000, 500000);
        image.ops = counted;
        mw_image_close(&image);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols_of_libc),
        cmocka_unit_test(test_every_symbol_is_found_by_name),
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_not_an_elf_file),
        cmocka_unit_test(test_endless_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
