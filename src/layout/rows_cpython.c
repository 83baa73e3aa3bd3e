/* layout/rows_cpython.c: CPython's objects in malloc's heap: those above 512 bytes, and all of them
 * with PYTHONMALLOC=malloc (3.9 to 3.13, x86-64 and aarch64, not the free-threaded build).
 *
 *   object   ob_refcnt 0, ob_type 8; collected ones have two words in front, and since 3.11 two
 *            more where instances have dictionaries or weak references
 *   type     a type object: tp_name 24, tp_basicsize 32, tp_flags 168 (Include/cpython/object.h);
 *            its own type has the flag TYPE_SUBCLASS, it itself READY
 *   keys     of a dict, since 3.11: refcnt 0, log2 of size and of index bytes 8 and 9, kind 10,
 *            usable 16, entries 24, indices 32; before: refcnt 0, size 8, lookup 16, usable 24,
 *            entries 32, indices 40 (Objects/dict-common.h, Include/internal/pycore_dict.h)
 *
 * A table of keys proves itself: usable and entries add up to two thirds of its size, and its parts
 * to the block. */
#include "layout/scope.h"

#include <stdio.h>
#include <string.h>

enum {
    TYPE_NAME = 24,
    TYPE_FLAGS = 168,
    FLAG_READY = 1 << 12,
    FLAG_GC = 1 << 14,
    NAME_ROOM = 100,
    ARRAY_SAMPLE = 8,
};
#define FLAG_TYPE_SUBCLASS ((uint64_t)1 << 31)
#define PYTHON "python|libpython|uwsgi"

/* A type object is what its own type calls so. *extra: has FLAG_GC. */
static void type_read(struct mw_layout_scope *scope, struct mw_scope_memo *memo)
{
    uint64_t type[6], flags, meta_flags;
    if (memo->address % 8 != 0 || memo->address > UINT64_MAX / 2 ||
        !mw_scope_read(scope, memo->address, type, sizeof type) ||
        !mw_scope_read_u64(scope, memo->address + TYPE_FLAGS, &flags) || !(flags & FLAG_READY))
        return;
    unsigned meta = mw_scope_word(scope, type[1]);
    if (!(meta & (MW_WORD_WRITABLE | MW_WORD_CONST)) || type[4] < 16 || type[4] > 1 << 20 ||
        !mw_scope_read_u64(scope, type[1] + TYPE_FLAGS, &meta_flags) ||
        !(meta_flags & FLAG_TYPE_SUBCLASS))
        return;
    memo->holds = mw_scope_read_name(scope, type[3], memo->name, NAME_ROOM) > 0;
    memo->extra = (flags & FLAG_GC) != 0;
}

static const struct mw_scope_memo *type_of(struct mw_layout_scope *scope, mw_addr address)
{
    if (!(mw_scope_word(scope, address) & (MW_WORD_WRITABLE | MW_WORD_CONST)))
        return NULL;
    bool is_new;
    struct mw_scope_memo *memo = mw_scope_memo_of(scope, MW_MEMO_PYTHON_TYPE, address, &is_new);
    if (is_new)
        type_read(scope, memo);
    return memo->holds ? memo : NULL;
}

/* Is an object at offset, of a type that is collected or not, as its place says? */
static bool is_object_at(struct mw_layout_view *view, size_t offset, struct mw_layout_match *match)
{
    int64_t refcount = (int64_t)mw_view_u64(view, offset);
    const struct mw_scope_memo *type =
        refcount > 0 ? type_of(view->scope, mw_view_u64(view, offset + 8)) : NULL;
    if (!type || type->extra != (offset > 0))
        return false;
    mw_match_name(match, type->name, "Python object");
    return true;
}

static bool is_object(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return is_object_at(view, 16, match) || is_object_at(view, 0, match) ||
           is_object_at(view, 32, match);
}

static bool keys_fit(struct mw_layout_view *view, size_t header, uint64_t size,
                     uint64_t index_bytes, uint64_t entry_bytes, uint64_t usable, uint64_t entries)
{
    uint64_t room = (size << 1) / 3;
    return usable <= room && entries <= room && usable + entries <= room &&
           mw_view_fits(view, header + index_bytes + room * entry_bytes);
}

static bool is_keys_311(struct mw_layout_view *view, struct mw_layout_match *match)
{
    unsigned log_size = view->block->bytes[8], log_index = view->block->bytes[9];
    (void)match;
    if (log_index < log_size || log_index > log_size + 3)
        return false;
    uint64_t entry_bytes = view->block->bytes[10] == 0 ? 24 : 16;
    return keys_fit(view, 32, (uint64_t)1 << log_size, (uint64_t)1 << log_index, entry_bytes,
                    mw_view_u64(view, 16), mw_view_u64(view, 24));
}

static bool is_keys_39(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t size = mw_view_u64(view, 8);
    (void)match;
    if (size & (size - 1))
        return false;
    uint64_t index = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= UINT32_MAX ? 4 : 8;
    return keys_fit(view, 40, size, size * index, 24, mw_view_u64(view, 24), mw_view_u64(view, 32));
}

/* The type of the object that the word at offset points to, or NULL. */
static const struct mw_scope_memo *type_behind(struct mw_layout_view *view, size_t offset)
{
    uint64_t head[2];
    if (!mw_view_is(view, offset, MW_WORD_WRITABLE) ||
        !mw_scope_read(view->scope, mw_view_u64(view, offset), head, sizeof head) ||
        (int64_t)head[0] <= 0)
        return NULL;
    return type_of(view->scope, head[1]);
}

/* Items of a list: pointers to objects, from the first on. */
static bool is_items(struct mw_layout_view *view, struct mw_layout_match *match)
{
    char name[NAME_ROOM] = "";
    size_t objects = 0;
    bool is_one_type = true;
    for (size_t i = 0; i < ARRAY_SAMPLE && 8 * i + 8 <= view->length; i++) {
        const struct mw_scope_memo *type = type_behind(view, 8 * i);
        if (!type)
            break;
        if (objects++ == 0)
            mw_text_copy(name, sizeof name, type->name);
        is_one_type &= strcmp(name, type->name) == 0;
    }
    if (objects < ARRAY_SAMPLE)
        return false;
    if (is_one_type)
        snprintf(match->name, sizeof match->name, "array of Python objects (%s)", name);
    else
        snprintf(match->name, sizeof match->name, "array of Python objects");
    return true;
}

/* Entries of a set: key and hash; a key that is not there has no hash. */
static bool is_set_table(struct mw_layout_view *view, struct mw_layout_match *match)
{
    size_t objects = 0, entries = view->length / 16;
    (void)match;
    for (size_t i = 0; i < entries && i < 4 * ARRAY_SAMPLE; i++) {
        if (mw_view_is(view, 16 * i, MW_WORD_ZERO)) {
            if (!mw_view_is(view, 16 * i + 8, MW_WORD_ZERO))
                return false;
        } else if (type_behind(view, 16 * i)) {
            objects++;
        } else {
            return false;
        }
    }
    return objects > 0;
}

const struct mw_layout_row mw_rows_cpython[] = {
    {.id = "python object",
     .basis = MW_LAYOUT_EXACT,
     .module = PYTHON,
     .usable_min = 16,
     .test = is_object},
    {.id = "python dict keys",
     .name = "keys of a dict (Python)",
     .basis = MW_LAYOUT_EXACT,
     .module = PYTHON,
     .usable_min = 80,
     .checks = {MW_AT8(0, RANGE, 1, INT64_MAX), MW_AT1(8, RANGE, 3, 40), MW_AT1(9, RANGE, 3, 43),
                MW_AT1(10, RANGE, 0, 2), MW_AT1(11, RANGE, 0, 0)},
     .test = is_keys_311},
    {.id = "python dict keys",
     .name = "keys of a dict (Python)",
     .basis = MW_LAYOUT_EXACT,
     .module = PYTHON,
     .usable_min = 80,
     .checks = {MW_AT8(0, RANGE, 1, INT64_MAX), MW_AT8(8, RANGE, 8, (uint64_t)1 << 40),
                MW_AT8(16, WORD, MW_WORD_CODE, 0)},
     .test = is_keys_39},
    {.id = "python items",
     .basis = MW_LAYOUT_LIKELY,
     .module = PYTHON,
     .usable_min = 64,
     .checks = {MW_AT8(0, WORD, MW_WORD_WRITABLE, 0), MW_AT8(8, WORD, MW_WORD_WRITABLE, 0)},
     .test = is_items},
    {.id = "python set table",
     .name = "entries of a set (Python)",
     .basis = MW_LAYOUT_LIKELY,
     .module = PYTHON,
     .usable_min = 512,
     .test = is_set_table},
    {.id = NULL},
};
