/* tests/fuzz/fuzz_symbols.c: any bytes as a library in memory: headers, dynamic section, hash
 * tables, symbols, notes.
 *
 * Input: a byte of choice (bit 0: program linked to a fixed address; bits 1-3: pages at its end
 * that are not there), then the memory from the ELF header on. What must hold: a symbol that is
 * found by name stands in the bytes with that name and address; one that is visited has a name of
 * at most 1 KiB; the work is bounded whatever the tables say (reads are counted); notes lie within
 * the bytes. */
#include "image/open.h"
#include "symbol/dynsym.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    INPUT_MAX = 1 << 17,
    NAMES_MAX = 24, /* visited ones that are then looked for */
    FIND_READS_MAX = 1 << 18,
    EACH_READS_MAX = 1 << 24,
};
static const mw_addr BASE = 0x7f1234000000;

static void must(int good)
{
    if (!good)
        abort();
}

static struct {
    const struct mw_image_ops *real;
    uint64_t reads;
} counted;

static void counted_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                         size_t *got_out)
{
    counted.reads++;
    counted.real->read(image, address, buffer, length, got_out);
}

static void counted_close(struct mw_image *image)
{
    counted.real->close(image);
}

static const struct mw_image_ops counted_ops = {
    .name = "counted", .read = counted_read, .close = counted_close};

struct seen {
    char names[NAMES_MAX][1024];
    size_t count;
    uint64_t visited;
};

static bool on_symbol(void *user, const char *name, const struct mw_symbol *symbol)
{
    struct seen *seen = user;
    must(strlen(name) < 1024 && symbol->binding != STB_LOCAL);
    if (seen->count < NAMES_MAX)
        snprintf(seen->names[seen->count++], sizeof *seen->names, "%s", name);
    return ++seen->visited < 1 << 20;
}

/* Is there a symbol of that name and address, defined, somewhere behind the table's start? */
static bool stands_in_bytes(const struct mw_dynsym *dynsym, const char *name,
                            const struct mw_symbol *symbol, const uint8_t *bytes, size_t size)
{
    uint64_t table = dynsym->symbols - BASE, strings = dynsym->strings - BASE;
    uint64_t value = symbol->type == STT_TLS ? symbol->address : symbol->address - dynsym->elf.bias;
    for (uint64_t at = table; at < size && size - at >= sizeof(Elf64_Sym);
         at += sizeof(Elf64_Sym)) {
        Elf64_Sym raw;
        memcpy(&raw, bytes + at, sizeof raw);
        uint64_t text = strings + raw.st_name;
        if (raw.st_value == value && raw.st_size == symbol->size && raw.st_shndx != SHN_UNDEF &&
            text < size && strnlen((const char *)bytes + text, size - text) == strlen(name) &&
            memcmp(bytes + text, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

static bool on_note(void *user, uint32_t type, const char *name, const uint8_t *bytes, size_t size)
{
    uint64_t *notes = user;
    uint8_t sum = (uint8_t)type;
    for (size_t i = 0; i < size; i++) /* the sanitizer looks */
        sum = (uint8_t)(sum + bytes[i]);
    must(strlen(name) <= 1024 && size <= 1024);
    *notes += 1 + (sum & 0);
    return *notes < 1 << 16;
}

static void check_find(const struct mw_dynsym *dynsym, const char *name, const uint8_t *bytes,
                       size_t size)
{
    struct mw_symbol symbol = {0};
    counted.reads = 0;
    enum mw_status status = mw_dynsym_find(dynsym, name, &symbol);
    must(counted.reads <=
         (dynsym->gnu_hash || dynsym->sysv_hash ? FIND_READS_MAX : EACH_READS_MAX));
    if (status != MW_OK)
        return;
    must(mw_dynsym_has(dynsym, name));
    must(stands_in_bytes(dynsym, name, &symbol, bytes, size));
}

static void check(struct mw_image *image, const uint8_t *bytes, size_t size)
{
    static const char *const wanted[] = {"malloc", "main_arena", "__libc_version", "a", ""};
    struct mw_elf_map map;
    struct mw_dynsym dynsym;
    uint64_t notes = 0;
    static struct seen seen;
    if (mw_elf_map_read(image, BASE, &map) != MW_OK)
        return;
    must(map.base == BASE && map.end > map.base && map.dynamic <= map.dynamic_end);
    enum mw_status status = mw_elf_map_notes(&map, on_note, &notes);
    (void)status;
    if (mw_dynsym_open(image, BASE, &dynsym) != MW_OK)
        return;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        check_find(&dynsym, wanted[i], bytes, size);
    seen = (struct seen){0};
    counted.reads = 0;
    status = mw_dynsym_each(&dynsym, on_symbol, &seen);
    must(counted.reads <= EACH_READS_MAX);
    must(seen.visited <= 1 << 20);
    for (size_t i = 0; i < seen.count; i++)
        check_find(&dynsym, seen.names[i], bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t choice = size > 0 ? bytes[0] : 0;
    if (size > INPUT_MAX)
        return -1;
    if (size > 0)
        bytes++, size--;
    size_t pages = (size + PAGE - 1) / PAGE + 1, missing = (choice >> 1) & 7;
    uint8_t *memory = calloc(pages, PAGE);
    must(memory != NULL);
    memcpy(memory, bytes, size);
    pages -= missing < pages ? missing : pages - 1;
    struct mw_image_memory_part part = {
        .mapping = {.start = BASE,
                    .end = BASE + pages * PAGE,
                    .perms = MW_PERM_READ,
                    .inode = 7,
                    .name = "/lib/input.so"},
        .bytes = memory,
    };
    struct mw_image image;
    must(mw_image_open_memory(&part, 1, &image, NULL) == MW_OK);
    counted.real = image.ops;
    image.ops = &counted_ops;
    image.can &= ~(unsigned)MW_CAN_PAGES;
    check(&image, memory, pages * PAGE);
    mw_image_close(&image);
    free(memory);
    return 0;
}
