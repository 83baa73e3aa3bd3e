/* tests/unit/test_symbols.c: the parts of names: tables of symbols, perf maps, demangling, ELF
 * files that are cut or damaged at many places; and names of this very process against the
 * loader's.
 *
 * MW_TEST_DAMAGES: how many damaged copies (default 200). */
#include "image/open.h"
#include "symbol/demangle.h"
#include "symbol/elf_file.h"
#include "symbol/names.h"
#include "symbol/symtab.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"

#include <dlfcn.h>
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

/* ---- tables ---- */

static const char *name_at(const struct mw_symtab *symtab, mw_addr address)
{
    const struct mw_symtab_entry *entry = mw_symtab_find(symtab, address);
    return entry ? mw_symtab_name(symtab, entry) : "-";
}

static void test_symtab_finds(void **state)
{
    (void)state;
    struct mw_symtab symtab = {0};
    /* rank: 1 local, 2 weak, 3 global, and 4 when it has a size */
    assert_int_equal(mw_symtab_add(&symtab, 0x1000, 0x100, 7, "__outer"), MW_OK);
    assert_int_equal(mw_symtab_add(&symtab, 0x1000, 0x100, 6, "outer"), MW_OK);
    assert_int_equal(mw_symtab_add(&symtab, 0x1000, 0x100, 5, "a"), MW_OK);
    assert_int_equal(mw_symtab_add(&symtab, 0x1040, 0x10, 5, "inner"), MW_OK);
    assert_int_equal(mw_symtab_add(&symtab, 0x2000, 0, 3, "label"), MW_OK);
    assert_int_equal(mw_symtab_add(&symtab, 0x9000, UINT64_MAX, 7, "wraps"), MW_OK);
    mw_symtab_sort(&symtab);
    assert_string_equal(name_at(&symtab, 0xfff), "-");
    assert_string_equal(name_at(&symtab, 0x1000), "outer");
    assert_string_equal(name_at(&symtab, 0x1045), "inner");
    assert_string_equal(name_at(&symtab, 0x1050), "outer"); /* behind the nested one */
    assert_string_equal(name_at(&symtab, 0x10ff), "outer");
    assert_string_equal(name_at(&symtab, 0x1100), "-");
    assert_string_equal(name_at(&symtab, 0x2fff), "label");
    assert_string_equal(name_at(&symtab, 0x3000), "-"); /* too far behind one without a size */
    assert_string_equal(name_at(&symtab, UINT64_MAX), "-");
    mw_symtab_deinit(&symtab);
    mw_symtab_sort(&symtab);
    assert_string_equal(name_at(&symtab, 1), "-");
}

/* Out of memory at any moment: what was added stays, nothing leaks. */
static void test_symtab_without_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 8; n++) {
        struct mw_symtab symtab = {0};
        size_t added = 0;
        mw_alloc_fail_after(n);
        for (unsigned i = 0; i < 3000; i++)
            added += mw_symtab_add(&symtab, 0x1000 + i * 16, 16, 7, "function") == MW_OK;
        mw_alloc_fail_after(-1);
        assert_int_equal(symtab.count, added);
        mw_symtab_sort(&symtab);
        assert_string_equal(name_at(&symtab, 0x1000 + 2999 * 16), "function");
        mw_symtab_deinit(&symtab);
    }
}

static void perf_map_load(struct mw_symtab *symtab, const char *text)
{
    *symtab = (struct mw_symtab){0};
    mw_symtab_add_perf_map(symtab, text, strlen(text));
    mw_symtab_sort(symtab);
}

static void test_perf_map(void **state)
{
    (void)state;
    struct mw_symtab symtab;
    perf_map_load(&symtab, "1000 10 LazyCompile:~a b\n0x2000 0x20 second\n2000 20 made anew\n");
    assert_string_equal(name_at(&symtab, 0x100f), "LazyCompile:~a b");
    assert_string_equal(name_at(&symtab, 0x2001), "made anew");
    mw_symtab_deinit(&symtab);
    perf_map_load(&symtab, "\n\nx\n1000\n1000 \n1000 10\n1000 10 \n1000 zz name\n"
                           "ffffffffffffffffff 1 long\n3000 0 empty\n4000 1 good\n5000 1 unended");
    assert_int_equal(symtab.count, 1);
    assert_string_equal(name_at(&symtab, 0x4000), "good");
    mw_symtab_deinit(&symtab);
    perf_map_load(&symtab, "");
    assert_int_equal(symtab.count, 0);
    mw_symtab_deinit(&symtab);
}

/* ---- demangling ---- */

static void test_demangle(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"_ZN4node16NodeMainInstance3RunEv", "node::NodeMainInstance::Run()"},
        {"_ZNSt6vectorIiSaIiEE9push_backEOi",
         "std::vector<int, std::allocator<int> >::push_back(int&&)"},
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
        {"_RNvC6_123foo3bar", "foo::bar"},
    };
    char text[256] = "kept";
    if (!mw_demangle(names[0][0], text, sizeof text)) {
        print_message("skip: built without libiberty\n");
        skip();
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(mw_demangle(names[i][0], text, sizeof text));
        assert_string_equal(text, names[i][1]);
    }
    snprintf(text, sizeof text, "kept");
    static const char *const none[] = {"", "_", "_Z", "malloc", "_ZN", "__libc_start_main", "_R"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(mw_demangle(none[i], text, sizeof text));
    assert_string_equal(text, "kept");
    assert_true(mw_demangle(names[1][0], text, 16));
    assert_string_equal(text, "std::vector<...");
    static char long_name[5000];
    memset(long_name, '1', sizeof long_name - 1);
    memcpy(long_name, "_Z9", 3);
    assert_false(mw_demangle(long_name, text, sizeof text));
}

/* f(pair<pair<...>, pair<...>>), each level twice the one before: 2^60 names in 400 bytes. */
static void test_demangle_bomb(void **state)
{
    (void)state;
    char name[MW_DEMANGLE_INPUT_MAX] = "_Z1fSt4pairIiiE", text[256];
    size_t used = strlen(name);
    for (unsigned i = 0; i < 30; i++) {
        static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        used +=
            (size_t)snprintf(name + used, sizeof name - used, "S_IS%c_S%c_E", digits[i], digits[i]);
    }
    (void)mw_demangle(name, text, sizeof text); /* comes back, and soon */
    memset(name, 0, sizeof name);
    memset(name, 'P', sizeof name - 1);
    memcpy(name, "_Z1f", 4);
    (void)mw_demangle(name, text, sizeof text);
}

/* ---- damaged ELF files ---- */

#if MW_WITH_SYMBOLS

static char *file_bytes(const char *path, size_t *size)
{
    char *bytes;
    assert_int_equal(mw_io_read_file_at(AT_FDCWD, path, 64 << 20, &bytes, size, NULL), MW_OK);
    return bytes;
}

/* Everything that names do with a file. */
static void use_file(struct mw_elf_file *file)
{
    struct mw_symtab symtab = {0};
    struct mw_build_id id;
    struct mw_elf_file mini;
    mw_elf_file_build_id(file, &id);
    (void)mw_symtab_add_elf(&symtab, file, false, 0x1000);
    (void)mw_symtab_add_elf(&symtab, file, true, 0x1000);
    mw_symtab_sort(&symtab);
    (void)mw_symtab_find(&symtab, 0x2000);
    if (mw_elf_file_mini(file, &mini)) {
        (void)mw_symtab_add_elf(&symtab, &mini, false, 0);
        mw_elf_file_close(&mini);
    }
    Dwarf_CFI *cfi = mw_elf_file_cfi(file);
    for (Dwarf_Addr at = 0x1000; cfi && at < 0x9000; at += 0x321) {
        Dwarf_Frame *frame;
        if (file->lib->dwarf_cfi_addrframe(cfi, at, &frame) == 0)
            free(frame);
    }
    if (cfi)
        file->lib->dwarf_cfi_end(cfi);
    mw_symtab_deinit(&symtab);
}

static bool use_bytes(const char *bytes, size_t size)
{
    struct mw_elf_file file;
    int fd = memfd_create("damaged", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mw_io_write_full(fd, bytes, size), 0);
    if (!mw_elf_file_open(fd, &file))
        return false;
    use_file(&file);
    mw_elf_file_close(&file);
    return true;
}

static void test_damaged_files(void **state)
{
    (void)state;
    const char *wanted = getenv("MW_TEST_DAMAGES");
    long damages = wanted ? strtol(wanted, NULL, 10) : 200;
    size_t size;
    char *bytes = file_bytes("/proc/self/exe", &size);
    if (!mw_elfutils()) {
        print_message("skip: %s\n", mw_elfutils_missing());
        free(bytes);
        skip();
    }
    assert_true(use_bytes(bytes, size));
    uint64_t random = MW_RANDOM_SEED;
    for (long i = 0; i < damages; i++) {
        size_t cut = i < 64 ? (size_t)i : (size_t)mw_random_below(&random, size);
        (void)use_bytes(bytes, cut);
        char *damaged = malloc(size);
        assert_non_null(damaged);
        memcpy(damaged, bytes, size);
        for (unsigned k = 0; k < 8; k++) {
            /* headers at the beginning, section headers at the end, and anywhere */
            size_t room = k < 3 ? 1024 : k < 6 ? 4096 : size;
            size_t at = (size_t)mw_random_below(&random, room < size ? room : size);
            damaged[k < 3 || k >= 6 ? at : size - 1 - at] = (char)mw_random_below(&random, 256);
        }
        (void)use_bytes(damaged, size);
        free(damaged);
    }
    free(bytes);
}

#endif

/* ---- this process ---- */

__attribute__((noinline)) int test_symbols_known_function(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

struct self {
    struct mw_context context;
    struct mw_image image;
    struct mw_names *names;
};

static void self_open(struct self *self)
{
    const struct mw_image_open_options options = {.proc_dir_fd = AT_FDCWD, .need_read = true};
    struct mw_error err = {0};
    mw_context_init(&self->context);
    assert_int_equal(mw_image_open_live(getpid(), &options, &self->context, &self->image, &err),
                     MW_OK);
    assert_int_equal(mw_names_open(&self->image, NULL, &self->context, &self->names, &err), MW_OK);
}

static void self_close(struct self *self)
{
    mw_names_free(self->names);
    mw_image_close(&self->image);
}

static void test_own_names(void **state)
{
    (void)state;
    struct self self;
    struct mw_name name;
    char text[MW_NAME_TEXT_ROOM];
    self_open(&self);
    mw_addr own = (mw_addr)(uintptr_t)test_symbols_known_function;
    assert_int_equal(test_symbols_known_function(1), 2);
    assert_true(mw_names_resolve(self.names, own, &name));
    assert_string_equal(name.symbol, "test_symbols_known_function");
    assert_string_equal(name.module, "test_symbols");
    assert_int_equal(name.symbol_offset, 0);
    assert_int_equal(name.module_base + name.module_offset, own);
    mw_names_format(&name, text);
    assert_string_equal(text, "test_symbols_known_function (test_symbols)");
    assert_true(mw_names_resolve(self.names, own + 3, &name) && name.is_exact);
    mw_names_format(&name, text);
    assert_string_equal(text, "test_symbols_known_function+0x3 (test_symbols)");
    void *writes = dlsym(RTLD_DEFAULT, "write");
    assert_non_null(writes);
    assert_true(mw_names_resolve_return(self.names, (mw_addr)(uintptr_t)writes + 1, &name));
    assert_int_equal(name.symbol_offset, 1);
    assert_false(mw_names_resolve(self.names, 16, &name));
    mw_names_format(&name, text);
    assert_string_equal(text, "");
    assert_false(mw_names_resolve(self.names, (mw_addr)(uintptr_t)&self, &name)); /* a stack */
    self_close(&self);
}

static void test_own_lines(void **state)
{
    (void)state;
    struct self self;
    char file[64];
    unsigned line = 0;
    self_open(&self);
    bool has_line = mw_names_line(self.names, (mw_addr)(uintptr_t)test_symbols_known_function, file,
                                  sizeof file, &line);
    self_close(&self);
    if (!has_line) {
        print_message("skip: no elfutils, or built without -g\n");
        skip();
    }
    assert_non_null(strstr(file, "test_symbols.c"));
    assert_in_range(line, 200, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symtab_finds),
        cmocka_unit_test(test_symtab_without_memory),
        cmocka_unit_test(test_perf_map),
        cmocka_unit_test(test_demangle),
        cmocka_unit_test(test_demangle_bomb),
#if MW_WITH_SYMBOLS
        cmocka_unit_test(test_damaged_files),
#endif
        cmocka_unit_test(test_own_names),
        cmocka_unit_test(test_own_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
