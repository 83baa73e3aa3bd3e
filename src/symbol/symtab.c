/* symbol/symtab.c: see symtab.h. Sizes and addresses are what a file says: a symbol that would wrap
 * is cut, one that claims the whole module hides only what has no symbol of its own.
 *
 * References: gABI "Symbol Table"; Linux tools/perf/Documentation/jit-interface.txt. */
#include "symbol/symtab.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "symbol/elf_file.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum {
    NAME_BYTES_MAX = 4096,
    LOOK_BACK = 32, /* symbols that one may be nested behind */
    RANK_LOCAL = 1,
    RANK_WEAK = 2,
    RANK_GLOBAL = 3,
    RANK_BINDING = 3,
    RANK_SIZED = 4,              /* added to the others */
    UNSIZED_BYTES_MAX = 4 << 10, /* how far behind one of no told size an address may lie */
};

/* ---- filling ---- */

static enum mw_status name_keep(struct mw_symtab *symtab, const char *name, size_t length,
                                uint32_t *offset_out)
{
    if (length >= NAME_BYTES_MAX)
        length = NAME_BYTES_MAX - 1;
    size_t needed = symtab->names_used + length + 1;
    if (needed > MW_LIMIT_SYMBOL_NAME_BYTES)
        return MW_LIMIT;
    if (needed > symtab->names_room) {
        size_t room = symtab->names_room < 4096 ? 8192 : symtab->names_room * 2;
        char *grown = mw_regrow(symtab->names, symtab->names_room, room, 1);
        if (!grown)
            return MW_NOMEM;
        symtab->names = grown;
        symtab->names_room = room;
    }
    memcpy(symtab->names + symtab->names_used, name, length);
    symtab->names[symtab->names_used + length] = '\0';
    *offset_out = (uint32_t)symtab->names_used;
    symtab->names_used = needed;
    return MW_OK;
}

static enum mw_status add(struct mw_symtab *symtab, mw_addr address, uint64_t size, unsigned rank,
                          const char *name, size_t length)
{
    static_assert(MW_LIMIT_SYMBOL_NAME_BYTES <= UINT32_MAX, "an offset in names fits");
    uint32_t offset;
    mw_addr end;
    assert(rank < 16);
    if (__builtin_add_overflow(address, size, &end) || size >> 60)
        size = 0;
    if (symtab->count == symtab->room) {
        size_t room = symtab->room == 0 ? 256 : symtab->room * 2;
        if (symtab->count >= MW_LIMIT_ELF_SYMBOLS)
            return MW_LIMIT;
        void *grown = mw_regrow(symtab->items, symtab->room, room, sizeof *symtab->items);
        if (!grown)
            return MW_NOMEM;
        symtab->items = grown;
        symtab->room = room;
    }
    enum mw_status status = name_keep(symtab, name, length, &offset);
    if (status != MW_OK)
        return status;
    struct mw_symtab_entry *entry = &symtab->items[symtab->count++];
    entry->address = address;
    entry->size = size & (((uint64_t)1 << 60) - 1);
    entry->rank = rank & 15;
    entry->name = offset;
    symtab->is_sorted = false;
    return MW_OK;
}

enum mw_status mw_symtab_add(struct mw_symtab *symtab, mw_addr address, uint64_t size,
                             unsigned rank, const char *name)
{
    return add(symtab, address, size, rank, name, strlen(name));
}

/* ---- order ---- */

static size_t underscores_of(const char *name)
{
    return strspn(name, "_");
}

/* By address; at one address the best first. */
static int compare(const void *left, const void *right, void *user)
{
    const struct mw_symtab_entry *a = left, *b = right;
    const char *names = user;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    size_t a_bars = underscores_of(names + a->name), b_bars = underscores_of(names + b->name);
    bool a_sized = a->rank & RANK_SIZED, b_sized = b->rank & RANK_SIZED;
    if (a_sized != b_sized)
        return a_sized ? -1 : 1;
    bool a_local = (a->rank & RANK_BINDING) == RANK_LOCAL;
    bool b_local = (b->rank & RANK_BINDING) == RANK_LOCAL;
    if (a_local != b_local)
        return a_local ? 1 : -1;
    if (a_bars != b_bars) /* read rather than __read */
        return a_bars < b_bars ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return a->name > b->name ? -1 : a->name < b->name;
}

void mw_symtab_sort(struct mw_symtab *symtab)
{
    if (symtab->is_sorted)
        return;
    symtab->is_sorted = true;
    if (symtab->count == 0)
        return;
    qsort_r(symtab->items, symtab->count, sizeof *symtab->items, compare, symtab->names);
    size_t kept = 1;
    for (size_t i = 1; i < symtab->count; i++)
        if (symtab->items[i].address != symtab->items[kept - 1].address)
            symtab->items[kept++] = symtab->items[i];
    symtab->count = kept;
}

const struct mw_symtab_entry *mw_symtab_find(const struct mw_symtab *symtab, mw_addr address)
{
    assert(symtab->is_sorted || symtab->count == 0);
    size_t low = 0, high = symtab->count; /* the first that begins after address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symtab->items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t steps = 0; low > 0 && steps < LOOK_BACK; steps++) {
        const struct mw_symtab_entry *entry = &symtab->items[--low];
        if (entry->size == 0 && steps == 0 && address - entry->address < UNSIZED_BYTES_MAX)
            return entry;
        if (entry->size > 0 && address - entry->address < entry->size)
            return entry;
    }
    return NULL;
}

void mw_symtab_deinit(struct mw_symtab *symtab)
{
    free(symtab->items);
    free(symtab->names);
    *symtab = (struct mw_symtab){0};
}

/* ---- perf maps ---- */

/* A hexadecimal number of at most 16 digits and the blank behind it. */
static bool take_number(const char **at, const char *end, uint64_t *value_out)
{
    uint64_t value = 0;
    const char *begin = *at;
    if (end - *at > 2 && begin[0] == '0' && (begin[1] | 32) == 'x')
        begin = *at += 2;
    while (*at < end && *at - begin < 16 && isxdigit((unsigned char)**at)) {
        unsigned digit = (unsigned char)*(*at)++;
        value = value << 4 | (digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
    }
    if (*at == begin || *at == end || **at != ' ')
        return false;
    ++*at;
    *value_out = value;
    return true;
}

void mw_symtab_add_perf_map(struct mw_symtab *symtab, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        uint64_t start, size;
        if (!line_end)
            return; /* it is being written */
        if (take_number(&text, line_end, &start) && take_number(&text, line_end, &size) &&
            text < line_end && size > 0 &&
            add(symtab, start, size, RANK_GLOBAL | RANK_SIZED, text, (size_t)(line_end - text)) !=
                MW_OK)
            return;
        text = line_end + 1;
    }
}

/* ---- tables of ELF files ---- */

#if MW_WITH_SYMBOLS

static bool is_name_of_code_or_data(const GElf_Sym *symbol, const char *name)
{
    unsigned type = GELF_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_value == 0 ||
        name[0] == '\0')
        return false;
    if (name[0] == '$' && strchr("xdt", name[1])) /* marks of the AArch64 and Arm ABIs */
        return false;
    return type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

static unsigned rank_of(const GElf_Sym *symbol)
{
    unsigned binding = GELF_ST_BIND(symbol->st_info);
    unsigned rank = binding == STB_GLOBAL ? RANK_GLOBAL
                    : binding == STB_WEAK ? RANK_WEAK
                                          : RANK_LOCAL;
    return symbol->st_size > 0 ? rank | RANK_SIZED : rank;
}

bool mw_symtab_add_elf(struct mw_symtab *symtab, const struct mw_elf_file *file, bool is_dynamic,
                       uint64_t bias)
{
    const struct mw_elfutils *lib = file->lib;
    Elf_Scn *section = mw_elf_file_section(file, is_dynamic ? SHT_DYNSYM : SHT_SYMTAB, NULL);
    GElf_Shdr header;
    Elf_Data *data = section ? lib->elf_getdata(section, NULL) : NULL;
    if (!data || !data->d_buf || !lib->gelf_getshdr(section, &header))
        return false;
    size_t count = data->d_size / sizeof(Elf64_Sym);
    const Elf_Data *strings = mw_elf_file_strings(file, header.sh_link);
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym symbol;
        if (!lib->gelf_getsym(data, (int)i, &symbol))
            break;
        const char *name = mw_elf_string(strings, symbol.st_name);
        if (name && is_name_of_code_or_data(&symbol, name) &&
            mw_symtab_add(symtab, bias + symbol.st_value, symbol.st_size, rank_of(&symbol), name) !=
                MW_OK)
            break;
    }
    return count > 1;
}

#else

bool mw_symtab_add_elf(struct mw_symtab *symtab, const struct mw_elf_file *file, bool is_dynamic,
                       uint64_t bias)
{
    (void)symtab;
    (void)file;
    (void)is_dynamic;
    (void)bias;
    return false;
}

#endif
