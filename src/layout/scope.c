/* layout/scope.c: ranges, modules, and what was found behind pointers.
 *
 * The regions of the image and the heaps of the caller are laid over each other once: the heaps
 * win. A value is then a small number, or is looked for among the ranges: a hint kept for each of
 * 1,024 places, else a binary search. What is behind a pointer to a type is remembered in a table
 * of fixed size, where a newer entry replaces an older one: never wrong, and bounded. */
#include "layout/scope.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"
#include "symbol/elfmap.h"

#include <assert.h>
#include <string.h>

enum {
    SMALL = 1 << 24,        /* programs that are not PIE lie at 4 MiB */
    FIRST_PAGES = 64 << 10, /* where nothing is ever mapped: vm.mmap_min_addr */
    MODULE_GAP = 64 << 20,  /* between mappings of one module, at most */
    HINT_SHIFT = 16,
};

/* ---- building -------------------------------------------------------------------------------- */

struct builder {
    struct mw_layout_scope *scope;
    const struct mw_layout_range *heaps;
    size_t heap_count, heap_at;
    mw_addr bss_from, bss_to; /* anonymous memory here is the data of the last module */
    mw_addr module_end;       /* of the last mapping of the last module */
};

static enum mw_status range_add(struct mw_layout_scope *scope, mw_addr start, mw_addr end,
                                uint32_t word, uint32_t module)
{
    if (start >= end)
        return MW_OK;
    struct {
        struct mw_scope_range *items;
        size_t count, room;
    } list = {scope->ranges, scope->range_count, scope->range_room};
    enum mw_status status = mw_vec_push(&list, MW_LIMIT_MAPPINGS * 4,
                                        (struct mw_scope_range){start, end, word, module});
    scope->ranges = list.items, scope->range_count = list.count, scope->range_room = list.room;
    return status;
}

/* Add a range with the heaps cut out of it, and those as heaps. */
static enum mw_status range_lay(struct builder *builder, mw_addr start, mw_addr end, uint32_t word,
                                uint32_t module)
{
    enum mw_status status = MW_OK;
    while (status == MW_OK && start < end) {
        while (builder->heap_at < builder->heap_count &&
               builder->heaps[builder->heap_at].end <= start)
            builder->heap_at++;
        if (builder->heap_at == builder->heap_count ||
            builder->heaps[builder->heap_at].start >= end)
            return range_add(builder->scope, start, end, word, module);
        const struct mw_layout_range *heap = &builder->heaps[builder->heap_at];
        mw_addr from = heap->start > start ? heap->start : start;
        mw_addr to = heap->end < end ? heap->end : end;
        status = range_add(builder->scope, start, from, word, module);
        if (status == MW_OK)
            status = range_add(builder->scope, from, to, MW_WORD_HEAP, MW_NO_MODULE);
        start = to;
    }
    return status;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The index of the module of this mapping of a file: the last one, or a new one. */
static enum mw_status module_of(struct builder *builder, const struct mw_mapping *map,
                                uint32_t *index_out)
{
    struct mw_layout_scope *scope = builder->scope;
    const char *name = last_part(map->name);
    bool is_near = map->start - builder->module_end < MODULE_GAP;
    builder->module_end = map->end;
    if (scope->module_count > 0 && is_near && map->offset != 0 &&
        strcmp(scope->modules[scope->module_count - 1].name, name) == 0) {
        *index_out = (uint32_t)(scope->module_count - 1);
        return MW_OK;
    }
    struct {
        struct mw_scope_module *items;
        size_t count, room;
    } list = {scope->modules, scope->module_count, scope->module_room};
    mw_addr base = map->offset <= map->start ? map->start - map->offset : 0;
    enum mw_status status =
        mw_vec_push(&list, MW_LIMIT_MODULES, (struct mw_scope_module){.name = name, .base = base});
    scope->modules = list.items, scope->module_count = list.count, scope->module_room = list.room;
    *index_out = (uint32_t)(scope->module_count - 1);
    return status;
}

/* Where the zeroed data behind the module's last mapping ends. */
static void bss_expect(struct builder *builder, const struct mw_mapping *map, uint32_t module)
{
    struct mw_elf_map elf;
    struct mw_image *image = builder->scope->image;
    builder->bss_from = builder->bss_to = map->end;
    if (mw_elf_map_read(image, builder->scope->modules[module].base, &elf) == MW_OK &&
        elf.end > map->end)
        builder->bss_to = elf.end;
}

static bool holds_stack(const struct mw_image *image, const struct mw_mapping *map)
{
    if (strncmp(map->name, "[stack", 6) == 0)
        return true;
    for (size_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].has_registers && image->threads[i].sp >= map->start &&
            image->threads[i].sp < map->end)
            return true;
    return false;
}

static bool is_private_anonymous(const struct mw_mapping *map)
{
    return !(map->perms & MW_PERM_SHARED) && (map->name[0] == '\0' || map->name[0] == '[') &&
           (map->perms & MW_PERM_WRITE) && !(map->perms & MW_PERM_EXEC);
}

static enum mw_status map_lay(struct builder *builder, const struct mw_mapping *map,
                              bool *stacks_looked_for)
{
    if (!(map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_EXEC)))
        return MW_OK;
    if (map->name[0] == '/' && !(map->perms & MW_PERM_SHARED)) {
        uint32_t module;
        enum mw_status status = module_of(builder, map, &module);
        if (status != MW_OK)
            return status;
        uint32_t word = map->perms & MW_PERM_EXEC    ? MW_WORD_CODE
                        : map->perms & MW_PERM_WRITE ? MW_WORD_DATA
                                                     : MW_WORD_CONST;
        if (word == MW_WORD_DATA)
            bss_expect(builder, map, module);
        return range_lay(builder, map->start, map->end, word, module);
    }
    if (strcmp(map->name, "[vdso]") == 0)
        return range_lay(builder, map->start, map->end, MW_WORD_CODE, MW_NO_MODULE);
    if (!is_private_anonymous(map))
        return range_lay(builder, map->start, map->end, MW_WORD_OTHER, MW_NO_MODULE);
    if (*stacks_looked_for && holds_stack(builder->scope->image, map))
        return range_lay(builder, map->start, map->end, MW_WORD_STACK, MW_NO_MODULE);
    uint32_t word = builder->heaps ? MW_WORD_OTHER : MW_WORD_HEAP;
    mw_addr from = map->start;
    if (from == builder->bss_from && builder->bss_to > from && map->name[0] == '\0') {
        mw_addr to = builder->bss_to < map->end ? builder->bss_to : map->end;
        enum mw_status status = range_lay(builder, from, to, MW_WORD_DATA,
                                          (uint32_t)(builder->scope->module_count - 1));
        if (status != MW_OK)
            return status;
        from = to;
    }
    return range_lay(builder, from, map->end, word, MW_NO_MODULE);
}

static enum mw_status ranges_build(struct builder *builder)
{
    const struct mw_mapping_list *regions = &builder->scope->image->regions;
    enum mw_status status = MW_OK;
    /* Each mapping is compared with each thread: not for a pasted million of both. */
    bool with_stacks = builder->scope->image->thread_count * regions->count < (size_t)1 << 26;
    for (size_t i = 0; status == MW_OK && i < regions->count; i++)
        status = map_lay(builder, &regions->items[i], &with_stacks);
    return status;
}

static const struct mw_layout_row *const families[] = {
    mw_rows_dotnet,  mw_rows_cxx,  mw_rows_cpython, mw_rows_postgres, mw_rows_zlib,
    mw_rows_openssl, mw_rows_libc, mw_rows_nginx,   mw_rows_libuv,    mw_rows_jvm,
    mw_rows_glib,    mw_rows_text, mw_rows_std,     mw_rows_kinds,
};

/* names: beginnings of file names, with | between them. */
static bool has_module(const struct mw_layout_scope *scope, const char *names)
{
    for (const char *name = names; *name;) {
        size_t length = strcspn(name, "|");
        for (size_t i = 0; i < scope->module_count; i++)
            if (strncmp(scope->modules[i].name, name, length) == 0)
                return true;
        name += length + (name[length] == '|');
    }
    return false;
}

/* Rows whose module is there, with their places in the whole table. */
static void rows_choose(struct mw_layout_scope *scope)
{
    uint16_t place = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        for (const struct mw_layout_row *row = families[f]; row->id; row++, place++) {
            if (row->module && !has_module(scope, row->module))
                continue;
            assert(scope->row_count < MW_SCOPE_ROWS);
            scope->priorities[scope->row_count] = place;
            scope->rows[scope->row_count++] = row;
        }
    }
}

const char *mw_layout_id(size_t index)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct mw_layout_row *row = families[f]; row->id; row++)
            if (index-- == 0)
                return row->id;
    return NULL;
}

static bool heaps_ascend(const struct mw_layout_range *heaps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (heaps[i].start >= heaps[i].end || (i > 0 && heaps[i].start < heaps[i - 1].end))
            return false;
    return true;
}

enum mw_status mw_layout_scope_open(struct mw_image *image, const struct mw_layout_range *heaps,
                                    size_t heap_count, struct mw_layout_scope **scope_out,
                                    struct mw_error *err)
{
    if (heaps && !heaps_ascend(heaps, heap_count))
        return mw_fail(err, MW_INVALID, "ranges of heaps do not ascend");
    struct mw_layout_scope *scope = mw_calloc(1, sizeof *scope);
    if (!scope)
        return mw_fail(err, MW_NOMEM, "out of memory");
    scope->image = image;
    scope->memos = mw_calloc(MW_SCOPE_MEMOS, sizeof *scope->memos);
    struct builder builder = {.scope = scope, .heaps = heaps, .heap_count = heaps ? heap_count : 0};
    scope->pages = mw_calloc(MW_SCOPE_PAGES, MW_SCOPE_PAGE);
    for (size_t i = 0; i < MW_SCOPE_PAGES; i++)
        scope->page_starts[i] = 1; /* of no page */
    enum mw_status status = scope->memos && scope->pages ? ranges_build(&builder) : MW_NOMEM;
    if (status != MW_OK) {
        mw_layout_scope_close(scope);
        return mw_fail(err, status, "cannot keep the ranges of %zu mappings", image->regions.count);
    }
    rows_choose(scope);
    *scope_out = scope;
    return MW_OK;
}

void mw_layout_scope_use_symbols(struct mw_layout_scope *scope, mw_layout_symbol_of *symbol_of,
                                 void *user)
{
    scope->symbol_of = symbol_of;
    scope->symbol_user = user;
}

void mw_layout_scope_close(struct mw_layout_scope *scope)
{
    if (!scope)
        return;
    for (size_t i = 0; i < scope->module_count; i++) {
        free(scope->modules[i].vtables);
        free(scope->modules[i].vtable_names);
    }
    free(scope->modules);
    free(scope->ranges);
    free(scope->memos);
    free(scope->owned);
    free(scope->pages);
    free(scope);
}

/* ---- asking ---------------------------------------------------------------------------------- */

const struct mw_scope_range *mw_scope_range_of(struct mw_layout_scope *scope, mw_addr address)
{
    uint32_t *hint = &scope->hints[(address >> HINT_SHIFT) % MW_SCOPE_HINTS];
    if (*hint < scope->range_count && address >= scope->ranges[*hint].start &&
        address < scope->ranges[*hint].end)
        return &scope->ranges[*hint];
    size_t low = 0, high = scope->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scope->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == scope->range_count || scope->ranges[low].start > address)
        return NULL;
    *hint = (uint32_t)low;
    return &scope->ranges[low];
}

unsigned mw_scope_word(struct mw_layout_scope *scope, uint64_t value)
{
    if (value == 0)
        return MW_WORD_ZERO;
    if (value < FIRST_PAGES || value > (uint64_t)-SMALL)
        return MW_WORD_SMALL;
    if (value >> 56) /* no address of a program */
        return MW_WORD_NONE;
    const struct mw_scope_range *range = mw_scope_range_of(scope, value);
    if (range)
        return range->word;
    return value < SMALL ? MW_WORD_SMALL : MW_WORD_NONE;
}

struct mw_scope_module *mw_scope_module_of(struct mw_layout_scope *scope, mw_addr address)
{
    const struct mw_scope_range *range = mw_scope_range_of(scope, address);
    return range && range->module != MW_NO_MODULE ? &scope->modules[range->module] : NULL;
}

bool mw_scope_is_in(struct mw_layout_scope *scope, mw_addr address, const char *name)
{
    const struct mw_scope_module *module = mw_scope_module_of(scope, address);
    return module && strncmp(module->name, name, strlen(name)) == 0;
}

/* Through pages that are kept: blocks that point at each other lie near each other. */
static bool read_near(struct mw_layout_scope *scope, mw_addr address, void *buffer, size_t length)
{
    uint8_t *out = buffer;
    while (length > 0) {
        mw_addr start = address & ~(mw_addr)(MW_SCOPE_PAGE - 1);
        size_t skip = (size_t)(address - start), slot = start / MW_SCOPE_PAGE % MW_SCOPE_PAGES;
        uint8_t *page = scope->pages + slot * MW_SCOPE_PAGE;
        if (scope->page_starts[slot] != start) {
            scope->page_starts[slot] = start;
            scope->page_lengths[slot] =
                (uint16_t)mw_image_read_present(scope->image, start, page, MW_SCOPE_PAGE);
        }
        size_t step = MW_SCOPE_PAGE - skip < length ? MW_SCOPE_PAGE - skip : length;
        if (skip + step > scope->page_lengths[slot])
            return false;
        memcpy(out, page + skip, step);
        out += step, address += step, length -= step;
    }
    return true;
}

bool mw_scope_read(struct mw_layout_scope *scope, mw_addr address, void *buffer, size_t length)
{
    const struct mw_scope_range *range = mw_scope_range_of(scope, address);
    if (!range || length > range->end - address)
        return false;
    const struct mw_mapping *map = mw_image_region(scope->image, address);
    if ((range->word & MW_WORD_MODULE) && map && map->name[0] == '/')
        return mw_image_read_mapped(scope->image, address, buffer, length) == MW_OK;
    return read_near(scope, address, buffer, length);
}

bool mw_scope_read_u64(struct mw_layout_scope *scope, mw_addr address, uint64_t *value_out)
{
    return mw_scope_read(scope, address, value_out, sizeof *value_out);
}

size_t mw_scope_read_name(struct mw_layout_scope *scope, mw_addr address, char *name, size_t room)
{
    const struct mw_scope_range *range = mw_scope_range_of(scope, address);
    if (!range || room < 2)
        return 0;
    size_t length = range->end - address < room ? (size_t)(range->end - address) : room;
    /* The page behind it may be missing from a core: by halves, down to what is there. */
    while (length > 1 && !mw_scope_read(scope, address, name, length))
        length /= 2;
    const char *end = length > 1 ? memchr(name, '\0', length) : NULL;
    if (!end)
        return 0;
    for (const char *c = name; c < end; c++)
        if (*c < 0x20 || *c > 0x7e)
            return 0;
    return (size_t)(end - name);
}

struct mw_scope_memo *mw_scope_memo_of(struct mw_layout_scope *scope, enum mw_memo_kind kind,
                                       mw_addr address, bool *is_new_out)
{
    assert(kind != MW_MEMO_NONE);
    uint64_t hash = (address >> 3 ^ (uint64_t)kind << 40) * 0x9e3779b97f4a7c15;
    struct mw_scope_memo *memo = &scope->memos[hash >> 53];
    _Static_assert(MW_SCOPE_MEMOS == 1 << (64 - 53), "the hash's upper bits choose the place");
    *is_new_out = memo->kind != (uint32_t)kind || memo->address != address;
    if (*is_new_out)
        *memo = (struct mw_scope_memo){.address = address, .kind = (uint32_t)kind};
    return memo;
}

/* ---- owned buffers --------------------------------------------------------------------------- */

static struct mw_scope_owned *owned_slot(const struct mw_layout_scope *scope, mw_addr address)
{
    uint64_t hash = (address >> 4) * 0x9e3779b97f4a7c15;
    size_t at = hash >> 48 & (MW_SCOPE_OWNED - 1);
    while (scope->owned[at].address != 0 && scope->owned[at].address != address)
        at = (at + 1) & (MW_SCOPE_OWNED - 1);
    return &scope->owned[at];
}

void mw_scope_own(struct mw_layout_scope *scope, mw_addr address, const char *what)
{
    if (address == 0 || scope->owned_count >= MW_SCOPE_OWNED / 4 * 3)
        return;
    if (!scope->owned)
        scope->owned = mw_calloc(MW_SCOPE_OWNED, sizeof *scope->owned);
    if (!scope->owned)
        return;
    struct mw_scope_owned *slot = owned_slot(scope, address);
    scope->owned_count += slot->address == 0;
    *slot = (struct mw_scope_owned){address, what};
}

const char *mw_scope_owned_what(const struct mw_layout_scope *scope, mw_addr address)
{
    return scope->owned ? owned_slot(scope, address)->what : NULL;
}
