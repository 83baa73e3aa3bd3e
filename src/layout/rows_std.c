/* layout/rows_std.c: nodes and buffers of the standard library's containers, by how their pointers
 * lead back (libstdc++ 12, bits/stl_tree.h, stl_list.h, hashtable_policy.h, basic_string.h).
 *
 *   tree node    colour u32 0, parent 8, left 16, right 24, value 32
 *   list node    next 0, prev 8, value 16
 *   hash node    next 0, value 8, hash last: of a key that is a string, murmur of its bytes
 *   string       pointer 0, length 8, then its capacity, or up to 15 bytes of its own
 *   old string   length 0, capacity 8, references i32 16, bytes 24 (cow_string.h)
 *
 * Shapes, not identities: other libraries' trees and lists may look the same, so all are likely,
 * but for a hash that is the right one. */
#include "layout/scope.h"

#include <stdio.h>
#include <string.h>

enum {
    STRING_BYTES = 32,
    STRING_LOCAL = 15,
    HASHED_MAX = 256, /* longest key that is hashed */
    SAMPLE_WORDS = 64,
};

/* Programs that have C++ inside, and its library linked statically. */
#define STD "libstdc++|libc++|node|dotnet|java|libjvm|libcoreclr"

/* ---- strings --------------------------------------------------------------------------------- */

struct string {
    mw_addr text;
    uint64_t length;
};

/* A std::string at offset that is in order. */
static bool is_string_at(struct mw_layout_view *view, size_t offset, struct string *string_out)
{
    if (offset + STRING_BYTES > view->length)
        return false;
    mw_addr text = mw_view_u64(view, offset), local = view->block->address + offset + 16;
    uint64_t length = mw_view_u64(view, offset + 8), capacity = mw_view_u64(view, offset + 16);
    *string_out = (struct string){text, length};
    if (text == local)
        return length <= STRING_LOCAL &&
               memchr(view->block->bytes + offset + 16, '\0', STRING_LOCAL + 1) ==
                   view->block->bytes + offset + 16 + length;
    uint8_t end;
    return mw_view_is(view, offset, MW_WORD_HEAP) && length <= capacity &&
           capacity > STRING_LOCAL && capacity < (uint64_t)1 << 36 &&
           mw_scope_read(view->scope, text + length, &end, 1) && end == 0;
}

/* libstdc++'s hash of bytes (libsupc++/hash_bytes.cc): murmur 2, 64 bit. */
static uint64_t murmur(const uint8_t *bytes, size_t length)
{
    const uint64_t mul = 0xc6a4a7935bd1e995;
    uint64_t hash = 0xc70f6907 ^ length * mul;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        word *= mul;
        word = (word ^ word >> 47) * mul;
        hash = (hash ^ word) * mul;
    }
    if (length > 0) {
        uint64_t word = 0;
        memcpy(&word, bytes, length);
        hash = (hash ^ word) * mul;
    }
    hash = (hash ^ hash >> 47) * mul;
    return hash ^ hash >> 47;
}

static bool is_string_hash_node(struct mw_layout_view *view, struct mw_layout_match *match)
{
    struct string key;
    uint8_t bytes[HASHED_MAX];
    (void)match;
    if (!is_string_at(view, 8, &key) || key.length == 0 || key.length > HASHED_MAX)
        return false;
    if (key.text == view->block->address + 8 + 16)
        memcpy(bytes, view->block->bytes + 24, (size_t)key.length);
    else if (!mw_scope_read(view->scope, key.text, bytes, (size_t)key.length))
        return false;
    uint64_t hash = murmur(bytes, (size_t)key.length);
    for (size_t offset = 8 + STRING_BYTES; offset + 8 <= view->length; offset += 8)
        if (mw_view_u64(view, offset) == hash)
            return true;
    return false;
}

static bool is_string_array(struct mw_layout_view *view, struct mw_layout_match *match)
{
    struct string string;
    size_t count = 0;
    (void)match;
    while (count < 8 && is_string_at(view, count * STRING_BYTES, &string))
        count++;
    return count >= 2;
}

static bool is_string_first(struct mw_layout_view *view, struct mw_layout_match *match)
{
    struct string string;
    (void)match;
    return is_string_at(view, 0, &string);
}

static bool is_old_string(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t length = mw_view_u64(view, 0), capacity = mw_view_u64(view, 8);
    (void)match;
    if (length > capacity || capacity > view->block->usable_bytes ||
        !mw_view_fits(view, capacity + 25))
        return false;
    return 24 + length >= view->length || view->block->bytes[24 + length] == 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const char *first_value(struct mw_layout_view *view, size_t offset)
{
    struct string string;
    return is_string_at(view, offset, &string) ? ", keyed by std::string" : "";
}

/* The parent has this node as a child; a root's parent is the container, whose parent it is. */
static bool is_tree_node(struct mw_layout_view *view, struct mw_layout_match *match)
{
    uint64_t parent[4];
    mw_addr self = view->block->address;
    if (!mw_scope_read(view->scope, mw_view_u64(view, 8), parent, sizeof parent) ||
        (uint32_t)parent[0] > 1 || (parent[2] != self && parent[3] != self && parent[1] != self))
        return false;
    snprintf(match->name, sizeof match->name, "node of a std::map or std::set%s",
             first_value(view, 32));
    return true;
}

static bool points_to(struct mw_layout_view *view, mw_addr from, size_t offset, mw_addr to)
{
    uint64_t word;
    return from % 8 == 0 && mw_scope_read_u64(view->scope, from + offset, &word) && word == to;
}

static bool is_list_node(struct mw_layout_view *view, struct mw_layout_match *match)
{
    mw_addr self = view->block->address, next = mw_view_u64(view, 0), prev = mw_view_u64(view, 8);
    (void)match;
    return next != self && points_to(view, next, 8, self) && points_to(view, prev, 0, self);
}

/* GList and its like: data, next, prev; either end may be nothing. */
static bool is_glist_node(struct mw_layout_view *view, struct mw_layout_match *match)
{
    mw_addr self = view->block->address, next = mw_view_u64(view, 8), prev = mw_view_u64(view, 16);
    (void)match;
    return (next || prev) && next != self && (!next || points_to(view, next, 16, self)) &&
           (!prev || points_to(view, prev, 8, self));
}

const struct mw_layout_row mw_rows_std[] = {
    {.id = "std hash node",
     .module = STD,
     .name = "node of a std::unordered_map, keyed by std::string",
     .basis = MW_LAYOUT_EXACT,
     .usable_min = 48,
     .checks = {MW_AT8(0, WORD, MW_WORD_NODE, 0), MW_AT8(8, WORD, MW_WORD_HEAP, 0),
                MW_AT8(16, RANGE, 1, HASHED_MAX)},
     .test = is_string_hash_node},
    {.id = "std tree node",
     .module = STD,
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 40,
     .checks = {MW_AT4(0, RANGE, 0, 1), MW_AT8(8, WORD, MW_WORD_WRITABLE, 0),
                MW_AT8(16, WORD, MW_WORD_HEAP | MW_WORD_ZERO, 0),
                MW_AT8(24, WORD, MW_WORD_HEAP | MW_WORD_ZERO, 0)},
     .test = is_tree_node},
    {.id = "list node",
     .name = "node of a doubly linked list (std::list or alike)",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 24,
     .checks = {MW_AT8(0, WORD, MW_WORD_WRITABLE, 0), MW_AT8(8, WORD, MW_WORD_WRITABLE, 0)},
     .test = is_list_node},
    {.id = "std string array",
     .module = STD,
     .name = "array of std::string",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 64,
     .checks = {MW_AT8(0, WORD, MW_WORD_HEAP, 0), MW_AT8(32, WORD, MW_WORD_HEAP, 0)},
     .test = is_string_array},
    {.id = "std string first",
     .module = STD,
     .name = "structure that begins with a std::string",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 32,
     .checks = {MW_AT8(0, WORD, MW_WORD_HEAP, 0), MW_AT8(8, RANGE, 0, (uint64_t)1 << 36)},
     .test = is_string_first},
    {.id = "std old string",
     .module = STD,
     .name = "std::string with a count of references",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 25,
     .checks = {MW_AT8(8, RANGE, 1, (uint64_t)1 << 36), MW_AT4(16, BITS, 0xfff00000, 0)},
     .test = is_old_string},
    {.id = "list node, data first",
     .name = "node of a doubly linked list (GList or alike)",
     .basis = MW_LAYOUT_LIKELY,
     .usable_min = 24,
     .usable_max = 40,
     .checks = {MW_AT8(8, WORD, MW_WORD_HEAP | MW_WORD_ZERO, 0),
                MW_AT8(16, WORD, MW_WORD_HEAP | MW_WORD_ZERO, 0)},
     .test = is_glist_node},
    {.id = NULL},
};
