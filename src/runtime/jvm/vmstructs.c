/* runtime/jvm/vmstructs.c: reading gHotSpotVMStructs.
 *
 *   gHotSpotVMStructs (a pointer) → entries { type name, field name, type string: char*;
 *   is static: int; offset: u64; address: void* }, ended by a type name of NULL. Stride and member
 *   offsets are exported beside it as gHotSpotVMStructEntry…, so that readers of any version agree.
 *
 * Entries of one type follow each other and share the pointer to its name, so the name is read
 * once per type. The table is a target's: at most ENTRIES_MAX entries, names cut to NAME_MAX.
 * Reference: OpenJDK src/hotspot/share/runtime/vmStructs.hpp (JDK 8 to 25). */
#include "runtime/jvm/vmstructs.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "symbol/dynsym.h"

#include <string.h>

enum { ENTRIES_MAX = 4096, NAME_SIZE = 96, STRIDE_MAX = 256 };

struct table {
    struct mw_image *image;
    mw_addr entries;
    uint64_t stride, type_name, field_name, is_static, offset, address;
};

/* The value of an exported 64-bit variable. */
static bool exported_word(const struct mw_dynsym *dynsym, const char *name, uint64_t *value_out)
{
    struct mw_symbol symbol;
    return mw_dynsym_find(dynsym, name, &symbol) == MW_OK &&
           mw_image_read_u64(dynsym->elf.image, symbol.address, value_out) == MW_OK;
}

static enum mw_status table_open(struct mw_image *image, mw_addr base, struct table *table)
{
    struct mw_dynsym dynsym;
    enum mw_status status = mw_dynsym_open(image, base, &dynsym);
    if (status != MW_OK)
        return status;
    const struct {
        const char *name;
        uint64_t *slot;
    } words[] = {
        {"gHotSpotVMStructs", &table->entries},
        {"gHotSpotVMStructEntryArrayStride", &table->stride},
        {"gHotSpotVMStructEntryTypeNameOffset", &table->type_name},
        {"gHotSpotVMStructEntryFieldNameOffset", &table->field_name},
        {"gHotSpotVMStructEntryIsStaticOffset", &table->is_static},
        {"gHotSpotVMStructEntryOffsetOffset", &table->offset},
        {"gHotSpotVMStructEntryAddressOffset", &table->address},
    };
    table->image = image;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!exported_word(&dynsym, words[i].name, words[i].slot))
            return MW_NOT_FOUND;
    if (table->stride < 8 || table->stride > STRIDE_MAX)
        return MW_CORRUPT;
    for (size_t i = 2; i < sizeof words / sizeof *words; i++)
        if (*words[i].slot > table->stride - 8)
            return MW_CORRUPT;
    return MW_OK;
}

static uint64_t entry_word(const uint8_t *entry, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, entry + offset, sizeof word);
    return word;
}

static void name_read(struct mw_image *image, mw_addr address, char name[NAME_SIZE])
{
    size_t got = mw_image_read_some(image, address, name, NAME_SIZE - 1);
    name[got] = '\0';
}

static bool type_is_wanted(const struct mw_vmstruct_field *fields, size_t count, const char *type)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].type, type) == 0)
            return true;
    return false;
}

static void entry_apply(const struct table *table, const uint8_t *entry, const char *type,
                        struct mw_vmstruct_field *fields, size_t count)
{
    char name[NAME_SIZE];
    name_read(table->image, entry_word(entry, table->field_name), name);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].type, type) != 0 || strcmp(fields[i].field, name) != 0)
            continue;
        fields[i].is_found = true;
        fields[i].is_static = (uint32_t)entry_word(entry, table->is_static) != 0;
        fields[i].offset = entry_word(entry, fields[i].is_static ? table->address : table->offset);
    }
}

enum mw_status mw_vmstructs_find(struct mw_image *image, mw_addr base,
                                 struct mw_vmstruct_field *fields, size_t count)
{
    struct table table;
    enum mw_status status = table_open(image, base, &table);
    if (status != MW_OK)
        return status;
    MW_FREE uint8_t *bytes = mw_calloc(ENTRIES_MAX, table.stride);
    if (!bytes)
        return MW_NOMEM;
    size_t got = mw_image_read_some(image, table.entries, bytes, ENTRIES_MAX * table.stride);
    char type[NAME_SIZE] = "";
    uint64_t type_pointer = 0;
    bool is_wanted = false;
    for (size_t at = 0; at + table.stride <= got; at += table.stride) {
        uint64_t pointer = entry_word(bytes + at, table.type_name);
        if (pointer == 0)
            return MW_OK;
        if (pointer != type_pointer) {
            name_read(image, pointer, type);
            type_pointer = pointer;
            is_wanted = type_is_wanted(fields, count, type);
        }
        if (is_wanted)
            entry_apply(&table, bytes + at, type, fields, count);
    }
    return MW_CORRUPT; /* no end */
}
