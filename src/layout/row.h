/* layout/row.h: a row of the table, and what its checks and functions see. Inside layout/ only. */
#ifndef MW_LAYOUT_ROW_H
#define MW_LAYOUT_ROW_H

#include "layout/layout.h"

#include <string.h>

/* What a word is, as a number and as an address; exactly one bit. */
enum mw_word {
    MW_WORD_ZERO = 1,
    MW_WORD_SMALL = 2, /* within 2^24 of zero, either side, and not mapped */
    MW_WORD_HEAP = 4,
    MW_WORD_STACK = 8,
    MW_WORD_CODE = 16,   /* of a module */
    MW_WORD_CONST = 32,  /* of a module, and not to be written: .rodata, .data.rel.ro */
    MW_WORD_DATA = 64,   /* of a module, writable */
    MW_WORD_OTHER = 128, /* mapped: code made at run time, shared memory, heaps of runtimes */
    MW_WORD_NONE = 256,  /* a number: nothing is there */
};
#define MW_WORD_MODULE ((unsigned)(MW_WORD_CODE | MW_WORD_CONST | MW_WORD_DATA))
#define MW_WORD_STATIC ((unsigned)(MW_WORD_CONST | MW_WORD_DATA))
#define MW_WORD_WRITABLE ((unsigned)(MW_WORD_HEAP | MW_WORD_STACK | MW_WORD_DATA | MW_WORD_OTHER))
#define MW_WORD_NODE ((unsigned)(MW_WORD_ZERO | MW_WORD_WRITABLE)) /* a link, or its end */

enum mw_check_op {
    MW_CHECK_NONE,  /* ends the list */
    MW_CHECK_RANGE, /* a <= value <= b */
    MW_CHECK_BITS,  /* (value & a) == b */
    MW_CHECK_WORD,  /* a set of enum mw_word holds what the value is; 8 bytes */
    MW_CHECK_SELF,  /* value == address of the block + a */
    MW_CHECK_END,   /* the block could have been asked for as value + a bytes */
};

struct mw_layout_check {
    uint16_t offset;
    uint8_t bytes; /* 1, 2, 4, 8: little-endian */
    uint8_t op;    /* enum mw_check_op */
    uint64_t a, b;
};

#define MW_AT8(at, op_, a_, b_)                                                                    \
    {                                                                                              \
        .offset = (at), .bytes = 8, .op = MW_CHECK_##op_, .a = (a_), .b = (b_)                     \
    }
#define MW_AT4(at, op_, a_, b_)                                                                    \
    {                                                                                              \
        .offset = (at), .bytes = 4, .op = MW_CHECK_##op_, .a = (a_), .b = (b_)                     \
    }
#define MW_AT2(at, op_, a_, b_)                                                                    \
    {                                                                                              \
        .offset = (at), .bytes = 2, .op = MW_CHECK_##op_, .a = (a_), .b = (b_)                     \
    }
#define MW_AT1(at, op_, a_, b_)                                                                    \
    {                                                                                              \
        .offset = (at), .bytes = 1, .op = MW_CHECK_##op_, .a = (a_), .b = (b_)                     \
    }

enum { MW_ROW_CHECKS = 10, MW_VIEW_WORDS = MW_LAYOUT_BYTES / 8 };

struct mw_layout_view;

struct mw_layout_row {
    const char *id;
    const char *name; /* NULL: test writes it */
    enum mw_layout_basis basis;
    uint64_t usable_min, usable_max; /* 0: any */
    const char
        *module; /* beginnings of file names, one of which must be mapped: "a|b"; NULL: any */
    struct mw_layout_check checks[MW_ROW_CHECKS];
    /* What checks cannot say; may write match->name and match->basis. NULL: none. */
    bool (*test)(struct mw_layout_view *view, struct mw_layout_match *match);
};

/* The families, in the order in which they are asked; each ends with a row without an id. */
extern const struct mw_layout_row mw_rows_dotnet[], mw_rows_cxx[], mw_rows_libc[], mw_rows_zlib[],
    mw_rows_openssl[], mw_rows_cpython[], mw_rows_postgres[], mw_rows_nginx[], mw_rows_libuv[],
    mw_rows_glib[], mw_rows_jvm[], mw_rows_text[], mw_rows_std[], mw_rows_kinds[];

/* One block while its rows are asked. */
struct mw_layout_view {
    struct mw_layout_scope *scope;
    const struct mw_layout_block *block;
    size_t length; /* of bytes, at most MW_LAYOUT_BYTES */
    uint64_t known[MW_VIEW_WORDS / 64];
    uint16_t words[MW_VIEW_WORDS]; /* enum mw_word of those that are known */
};

/* Unaligned, little-endian; 0 beyond the end of what was read. */
static inline uint64_t mw_view_value(const struct mw_layout_view *view, size_t offset, size_t bytes)
{
    uint64_t value = 0;
    if (bytes <= view->length && offset <= view->length - bytes)
        memcpy(&value, view->block->bytes + offset, bytes);
    return value;
}

static inline uint64_t mw_view_u64(const struct mw_layout_view *view, size_t offset)
{
    return mw_view_value(view, offset, 8);
}

static inline uint32_t mw_view_u32(const struct mw_layout_view *view, size_t offset)
{
    return (uint32_t)mw_view_value(view, offset, 4);
}

/* enum mw_word of the word at offset, which is a multiple of 8; MW_WORD_NONE beyond the end. */
unsigned mw_view_word(struct mw_layout_view *view, size_t offset);

static inline bool mw_view_is(struct mw_layout_view *view, size_t offset, unsigned words)
{
    return mw_view_word(view, offset) & words;
}

/* Could malloc have been asked for so many bytes and have given this block? */
bool mw_view_fits(const struct mw_layout_view *view, uint64_t bytes);

#endif
