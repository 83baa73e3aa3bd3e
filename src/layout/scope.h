/* layout/scope.h: what is known of an image while its blocks are named. Inside layout/ only. */
#ifndef MW_LAYOUT_SCOPE_H
#define MW_LAYOUT_SCOPE_H

#include "layout/row.h"

enum {
    MW_SCOPE_HINTS = 1024,
    MW_SCOPE_MEMOS = 2048,
    MW_SCOPE_ROWS = 128,
    MW_SCOPE_PAGES = 512,
    MW_SCOPE_PAGE = 4096,
    MW_SCOPE_OWNED = 1 << 16, /* a power of two */
    MW_MEMO_NAME_ROOM = 168,
};

#define MW_NO_MODULE UINT32_MAX

struct mw_scope_range {
    mw_addr start, end;
    uint32_t word;   /* enum mw_word */
    uint32_t module; /* index, or MW_NO_MODULE */
};

/* A vtable that is named by a symbol. */
struct mw_scope_vtable {
    mw_addr address; /* of the first function, where objects point */
    uint32_t name;   /* offset in vtable_names: the mangled type, NUL-terminated */
};

struct mw_scope_module {
    const char *name; /* last part of the path; lives as long as the regions of the image */
    mw_addr base;     /* of the file's first byte */
    bool vtables_known;
    struct mw_scope_vtable *vtables; /* ascending */
    size_t vtable_count;
    char *vtable_names;
};

/* What was found behind a pointer once: the name of a type, or that there is none. */
enum mw_memo_kind {
    MW_MEMO_NONE,
    MW_MEMO_VTABLE,
    MW_MEMO_TYPEINFO,
    MW_MEMO_PYTHON_TYPE,
    MW_MEMO_POSTGRES_CONTEXT,
    MW_MEMO_GOBJECT_CLASS,
    MW_MEMO_BIO_METHOD,
};

struct mw_scope_memo {
    mw_addr address;
    uint32_t kind; /* enum mw_memo_kind */
    bool holds;
    bool is_exact;
    uint16_t extra; /* of the kind */
    char name[MW_MEMO_NAME_ROOM];
};

/* A buffer that another block points to, and that says nothing of itself. */
struct mw_scope_owned {
    mw_addr address;  /* 0: free */
    const char *what; /* static */
};

struct mw_layout_scope {
    struct mw_image *image;
    struct mw_scope_range *ranges; /* ascending, disjoint */
    size_t range_count, range_room;
    struct mw_scope_module *modules;
    size_t module_count, module_room;
    uint32_t hints[MW_SCOPE_HINTS]; /* index of a range, by bits of the address */
    struct mw_scope_memo *memos;    /* MW_SCOPE_MEMOS, by hash; a newer one replaces an older */
    const struct mw_layout_row *rows[MW_SCOPE_ROWS]; /* those whose module is there */
    uint16_t priorities[MW_SCOPE_ROWS];
    size_t row_count;
    mw_layout_symbol_of *symbol_of; /* NULL: there are none */
    void *symbol_user;
    size_t vtable_bytes;          /* spent on names of vtables */
    struct mw_scope_owned *owned; /* MW_SCOPE_OWNED by hash; NULL until one is met */
    size_t owned_count;
    uint8_t *pages;                        /* MW_SCOPE_PAGES of the target's memory */
    mw_addr page_starts[MW_SCOPE_PAGES];   /* 1: none */
    uint16_t page_lengths[MW_SCOPE_PAGES]; /* what could be read of it */
};

/* The range that holds address, or NULL. O(1) mostly. */
const struct mw_scope_range *mw_scope_range_of(struct mw_layout_scope *scope, mw_addr address);

/* enum mw_word of a value. */
unsigned mw_scope_word(struct mw_layout_scope *scope, uint64_t value);

/* The module that holds address, or NULL. */
struct mw_scope_module *mw_scope_module_of(struct mw_layout_scope *scope, mw_addr address);

/* Does the file name of the module that holds address begin so? */
bool mw_scope_is_in(struct mw_layout_scope *scope, mw_addr address, const char *name);

/* Exactly length bytes; what the target has not touched stays so. False when they are not there. */
bool mw_scope_read(struct mw_layout_scope *scope, mw_addr address, void *buffer, size_t length);
bool mw_scope_read_u64(struct mw_layout_scope *scope, mw_addr address, uint64_t *value_out);

/* A terminated text of printable ASCII, at most room - 1 long: its length; 0 when it is none, is
 * empty, or does not fit. */
size_t mw_scope_read_name(struct mw_layout_scope *scope, mw_addr address, char *name, size_t room);

/* The memo of (kind, address); *is_new_out tells that the caller must fill it (it is zeroed, but
 * for its key). Valid until the next call. */
struct mw_scope_memo *mw_scope_memo_of(struct mw_layout_scope *scope, enum mw_memo_kind kind,
                                       mw_addr address, bool *is_new_out);

/* Load the names of the vtables of a module from its dynamic symbols, once; a module without any
 * has none. The mangled type of the vtable at address, or NULL. */
const char *mw_scope_vtable_name(struct mw_layout_scope *scope, struct mw_scope_module *module,
                                 mw_addr address);

/* Remember what the block at address is, as told by its owner; 3/4 of MW_SCOPE_OWNED are kept.
 * NULL when it was not told. */
void mw_scope_own(struct mw_layout_scope *scope, mw_addr address, const char *what);
const char *mw_scope_owned_what(const struct mw_layout_scope *scope, mw_addr address);

/* rows_cxx.c: the class of the object whose first word is vtable. NULL when it is none. Valid until
 * the next call of a function with a scope. */
const struct mw_scope_memo *mw_cxx_class(struct mw_layout_scope *scope, mw_addr vtable);

/* Copy a text, cut to fit. */
void mw_text_copy(char *to, size_t room, const char *from);

/* Write "name (what)", cut at the end of the name to fit. */
void mw_match_name(struct mw_layout_match *match, const char *name, const char *what);

#endif
