/* symbol/dynsym.c: dynamic symbols by name, through the target's own hash tables.
 *
 *   PT_DYNAMIC → DT_SYMTAB, DT_STRTAB, DT_GNU_HASH or DT_HASH
 *   GNU hash:  nbuckets symoffset bloom_size bloom_shift | bloom[] | buckets[] | chain[]
 *              chain[i - symoffset] is the hash of symbol i; its bit 0 ends the bucket's chain
 *   SysV hash: nbucket nchain | bucket[] | chain[]
 *
 * glibc relocates the pointers of the dynamic section in memory, musl and the vdso leave file
 * addresses in it: what lies inside the module is taken as it is, the rest gets the bias. All is a
 * target's bytes: chains are bounded by CHAIN_MAX, tables by MW_LIMIT_ELF_SYMBOLS. References:
 * gABI, glibc elf/dl-lookup.c. */
#include "symbol/dynsym.h"

#include "base/limits.h"

#include <elf.h>
#include <string.h>

enum {
    DYNAMIC_ENTRIES_MAX = 512,
    NAME_MAX_BYTES = 1024,
    SYMBOL_BATCH = 128,
    CHAIN_MAX = 1 << 16, /* symbols of one bucket; linkers aim at a handful */
};

/* A pointer of the dynamic section, relocated or not. */
static mw_addr dynamic_pointer(const struct mw_elf_map *elf, uint64_t value)
{
    if (value >= elf->base && value < elf->end)
        return value;
    return elf->bias + value;
}

static void dynamic_apply(struct mw_dynsym *dynsym, const Elf64_Dyn *entry)
{
    mw_addr pointer = dynamic_pointer(&dynsym->elf, entry->d_un.d_ptr);
    switch (entry->d_tag) {
    case DT_SYMTAB:
        dynsym->symbols = pointer;
        break;
    case DT_STRTAB:
        dynsym->strings = pointer;
        break;
    case DT_STRSZ:
        dynsym->string_bytes = entry->d_un.d_val;
        break;
    case DT_GNU_HASH:
        dynsym->gnu_hash = pointer;
        break;
    case DT_HASH:
        dynsym->sysv_hash = pointer;
        break;
    default:
        break;
    }
}

enum mw_status mw_dynsym_open(struct mw_image *image, mw_addr base, struct mw_dynsym *dynsym_out)
{
    struct mw_dynsym dynsym = {0};
    enum mw_status status = mw_elf_map_read(image, base, &dynsym.elf);
    if (status != MW_OK)
        return status;
    if (dynsym.elf.dynamic == 0)
        return MW_NOT_FOUND;
    Elf64_Dyn entries[DYNAMIC_ENTRIES_MAX];
    uint64_t size = dynsym.elf.dynamic_end - dynsym.elf.dynamic;
    if (size > sizeof entries)
        size = sizeof entries;
    /* a constant but for the pointers that a loader may add the bias to: see dynamic_pointer() */
    if (mw_image_read_mapped(image, dynsym.elf.dynamic, entries, (size_t)size) != MW_OK)
        size = mw_image_read_some(image, dynsym.elf.dynamic, entries, (size_t)size);
    for (size_t i = 0; i < size / sizeof *entries && entries[i].d_tag != DT_NULL; i++)
        dynamic_apply(&dynsym, &entries[i]);
    if (dynsym.symbols == 0 || dynsym.strings == 0)
        return MW_NOT_FOUND;
    *dynsym_out = dynsym;
    return MW_OK;
}

/* ---- one symbol ---- */

static enum mw_status word_read(const struct mw_dynsym *dynsym, mw_addr at, uint32_t *word_out)
{
    return mw_image_read_mapped(dynsym->elf.image, at, word_out, sizeof *word_out);
}

static struct mw_symbol symbol_of(const struct mw_dynsym *dynsym, const Elf64_Sym *raw)
{
    uint8_t type = ELF64_ST_TYPE(raw->st_info);
    return (struct mw_symbol){
        .address = type == STT_TLS ? raw->st_value : dynsym->elf.bias + raw->st_value,
        .size = raw->st_size,
        .type = type,
        .binding = ELF64_ST_BIND(raw->st_info),
    };
}

static bool symbol_is_defined(const Elf64_Sym *raw)
{
    return raw->st_shndx != SHN_UNDEF && raw->st_name != 0 &&
           ELF64_ST_BIND(raw->st_info) != STB_LOCAL;
}

/* The name of a symbol, cut to the room; false when it cannot be read. */
static bool name_read(const struct mw_dynsym *dynsym, uint32_t offset, char name[NAME_MAX_BYTES])
{
    if (dynsym->string_bytes != 0 && offset >= dynsym->string_bytes)
        return false;
    size_t got =
        mw_image_read_some(dynsym->elf.image, dynsym->strings + offset, name, NAME_MAX_BYTES - 1);
    name[got] = '\0';
    return got > 0;
}

/* Is symbol index the wanted one? Fills *symbol_out then. */
static bool symbol_matches(const struct mw_dynsym *dynsym, uint64_t index, const char *wanted,
                           struct mw_symbol *symbol_out)
{
    Elf64_Sym raw;
    char name[NAME_MAX_BYTES];
    size_t length = strlen(wanted) + 1;
    if (length > sizeof name ||
        mw_image_read_mapped(dynsym->elf.image, dynsym->symbols + index * sizeof raw, &raw,
                             sizeof raw) != MW_OK)
        return false;
    if (!symbol_is_defined(&raw) ||
        (dynsym->string_bytes != 0 && raw.st_name >= dynsym->string_bytes) ||
        mw_image_read_mapped(dynsym->elf.image, dynsym->strings + raw.st_name, name, length) !=
            MW_OK ||
        memcmp(name, wanted, length) != 0)
        return false;
    *symbol_out = symbol_of(dynsym, &raw);
    return true;
}

/* ---- GNU hash ---- */

struct gnu_table {
    uint32_t bucket_count, symbol_offset, bloom_size, bloom_shift;
    mw_addr bloom, buckets, chain;
};

static enum mw_status gnu_table_read(const struct mw_dynsym *dynsym, struct gnu_table *table)
{
    uint32_t head[4];
    enum mw_status status =
        mw_image_read_mapped(dynsym->elf.image, dynsym->gnu_hash, head, sizeof head);
    if (status != MW_OK)
        return status;
    if (head[0] == 0 || head[0] > MW_LIMIT_ELF_SYMBOLS || head[2] == 0 ||
        head[2] > MW_LIMIT_ELF_SYMBOLS || (head[2] & (head[2] - 1)) != 0)
        return MW_CORRUPT;
    table->bucket_count = head[0];
    table->symbol_offset = head[1];
    table->bloom_size = head[2];
    table->bloom_shift = head[3] & 31; /* of a hash of 32 bits */
    table->bloom = dynsym->gnu_hash + sizeof head;
    table->buckets = table->bloom + (uint64_t)table->bloom_size * 8;
    table->chain = table->buckets + (uint64_t)table->bucket_count * 4;
    return MW_OK;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        hash = hash * 33 + *at;
    return hash;
}

/* Does the Bloom filter allow that the name is there? */
static bool gnu_bloom_allows(const struct mw_dynsym *dynsym, const struct gnu_table *table,
                             uint32_t hash)
{
    uint64_t word;
    uint64_t at = hash / 64 & (table->bloom_size - 1);
    if (mw_image_read_mapped(dynsym->elf.image, table->bloom + at * 8, &word, sizeof word) != MW_OK)
        return true;
    return word >> (hash & 63) & word >> (hash >> table->bloom_shift & 63) & 1;
}

static enum mw_status gnu_find(const struct mw_dynsym *dynsym, const char *name,
                               struct mw_symbol *symbol_out)
{
    struct gnu_table table;
    enum mw_status status = gnu_table_read(dynsym, &table);
    if (status != MW_OK)
        return status;
    uint32_t hash = gnu_hash_of(name), index;
    if (!gnu_bloom_allows(dynsym, &table, hash))
        return MW_NOT_FOUND;
    mw_addr bucket = table.buckets + (uint64_t)(hash % table.bucket_count) * 4;
    if (word_read(dynsym, bucket, &index) != MW_OK)
        return MW_FAULT;
    if (index < table.symbol_offset)
        return MW_NOT_FOUND;
    for (uint64_t i = index; i - index < CHAIN_MAX; i++) {
        uint32_t chained;
        if (word_read(dynsym, table.chain + (i - table.symbol_offset) * 4, &chained) != MW_OK)
            return MW_FAULT;
        if ((chained | 1) == (hash | 1) && symbol_matches(dynsym, i, name, symbol_out))
            return MW_OK;
        if (chained & 1)
            return MW_NOT_FOUND;
    }
    return MW_CORRUPT;
}

/* One more than the largest index: the end of the chain of the largest bucket. */
static enum mw_status gnu_count(const struct mw_dynsym *dynsym, uint64_t *count_out)
{
    struct gnu_table table;
    enum mw_status status = gnu_table_read(dynsym, &table);
    uint32_t largest = 0, word;
    for (uint32_t i = 0; status == MW_OK && i < table.bucket_count; i++) {
        status = word_read(dynsym, table.buckets + (uint64_t)i * 4, &word);
        if (status == MW_OK && word > largest)
            largest = word;
    }
    if (status != MW_OK)
        return status;
    if (largest < table.symbol_offset) {
        *count_out = table.symbol_offset;
        return MW_OK;
    }
    for (uint64_t i = largest; i - largest < CHAIN_MAX; i++) {
        if (word_read(dynsym, table.chain + (i - table.symbol_offset) * 4, &word) != MW_OK)
            return MW_FAULT;
        if (word & 1) {
            *count_out = i + 1;
            return MW_OK;
        }
    }
    return MW_CORRUPT;
}

/* ---- SysV hash ---- */

static uint32_t sysv_hash_of(const char *name)
{
    uint32_t hash = 0;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        hash = (hash << 4) + *at;
        uint32_t high = hash & 0xf0000000;
        hash ^= high >> 24;
        hash &= ~high;
    }
    return hash;
}

static enum mw_status sysv_find(const struct mw_dynsym *dynsym, const char *name,
                                struct mw_symbol *symbol_out)
{
    uint32_t head[2], index;
    if (mw_image_read_mapped(dynsym->elf.image, dynsym->sysv_hash, head, sizeof head) != MW_OK)
        return MW_FAULT;
    if (head[0] == 0 || head[0] > MW_LIMIT_ELF_SYMBOLS || head[1] > MW_LIMIT_ELF_SYMBOLS)
        return MW_CORRUPT;
    mw_addr buckets = dynsym->sysv_hash + sizeof head, chain = buckets + (uint64_t)head[0] * 4;
    if (word_read(dynsym, buckets + (uint64_t)(sysv_hash_of(name) % head[0]) * 4, &index) != MW_OK)
        return MW_FAULT;
    for (uint32_t steps = 0; index != STN_UNDEF; steps++) {
        if (index >= head[1] || steps >= CHAIN_MAX)
            return MW_CORRUPT;
        if (symbol_matches(dynsym, index, name, symbol_out))
            return MW_OK;
        if (word_read(dynsym, chain + (uint64_t)index * 4, &index) != MW_OK)
            return MW_FAULT;
    }
    return MW_NOT_FOUND;
}

/* ---- the whole table ---- */

static enum mw_status symbols_count(const struct mw_dynsym *dynsym, uint64_t *count_out)
{
    if (dynsym->gnu_hash)
        return gnu_count(dynsym, count_out);
    if (dynsym->sysv_hash) {
        uint32_t count;
        if (word_read(dynsym, dynsym->sysv_hash + 4, &count) != MW_OK)
            return MW_FAULT;
        *count_out = count;
        return MW_OK;
    }
    if (dynsym->strings <= dynsym->symbols)
        return MW_NOT_FOUND;
    *count_out =
        (dynsym->strings - dynsym->symbols) / sizeof(Elf64_Sym); /* as linkers lay it out */
    return MW_OK;
}

enum mw_status mw_dynsym_each(const struct mw_dynsym *dynsym, mw_dynsym_visit *visit, void *user)
{
    uint64_t count;
    enum mw_status status = symbols_count(dynsym, &count);
    if (status != MW_OK)
        return status;
    if (count > MW_LIMIT_ELF_SYMBOLS)
        return MW_LIMIT;
    for (uint64_t at = 0; at < count;) {
        Elf64_Sym batch[SYMBOL_BATCH];
        uint64_t size = count - at < SYMBOL_BATCH ? count - at : SYMBOL_BATCH;
        if (mw_image_read_mapped(dynsym->elf.image, dynsym->symbols + at * sizeof *batch, batch,
                                 size * sizeof *batch) != MW_OK)
            return MW_FAULT;
        for (uint64_t i = 0; i < size; i++) {
            char name[NAME_MAX_BYTES];
            struct mw_symbol symbol = symbol_of(dynsym, &batch[i]);
            if (symbol_is_defined(&batch[i]) && name_read(dynsym, batch[i].st_name, name) &&
                !visit(user, name, &symbol))
                return MW_OK;
        }
        at += size;
    }
    return MW_OK;
}

struct name_search {
    const char *wanted;
    struct mw_symbol *found;
    bool is_found;
};

static bool name_search_visit(void *user, const char *name, const struct mw_symbol *symbol)
{
    struct name_search *search = user;
    if (strcmp(name, search->wanted) != 0)
        return true;
    *search->found = *symbol;
    search->is_found = true;
    return false;
}

enum mw_status mw_dynsym_find(const struct mw_dynsym *dynsym, const char *name,
                              struct mw_symbol *symbol_out)
{
    if (dynsym->gnu_hash)
        return gnu_find(dynsym, name, symbol_out);
    if (dynsym->sysv_hash)
        return sysv_find(dynsym, name, symbol_out);
    struct name_search search = {.wanted = name, .found = symbol_out};
    enum mw_status status = mw_dynsym_each(dynsym, name_search_visit, &search);
    return status != MW_OK ? status : search.is_found ? MW_OK : MW_NOT_FOUND;
}

bool mw_dynsym_has(const struct mw_dynsym *dynsym, const char *name)
{
    struct mw_symbol symbol;
    return mw_dynsym_find(dynsym, name, &symbol) == MW_OK;
}
