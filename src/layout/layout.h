/* layout/layout.h: what a block of the heap is, told by its bytes.
 *
 * A library of known layouts: a const table of rows, each a size, a few checks of words at offsets
 * and, where pointers must be followed, a function. The first row that holds names the block.
 *
 * Names are those of types: they come from typeinfo, from type objects, from constants of modules
 * or from the table itself, and are printable ASCII. What a program keeps in a block is never part
 * of a name.
 *
 * To add a layout (docs/howto/add-a-layout.md):
 *   1. its facts, with project and version, into docs/formats/layouts.md;
 *   2. a row in the rows_*.c of its family, at its place: exact ones before likely ones;
 *   3. a test with the bytes of a real instance, and with neighbours that must not match. */
#ifndef MW_LAYOUT_LAYOUT_H
#define MW_LAYOUT_LAYOUT_H

#include "image/image.h"

enum {
    MW_LAYOUT_NAME_ROOM = 200,
    MW_LAYOUT_GROUP_MAX = 1024, /* samples of a group that are looked at */
    MW_LAYOUT_BYTES = 4096,     /* of a block, that are worth reading: no row looks farther */
};

enum mw_layout_basis {
    MW_LAYOUT_LIKELY, /* by shape: something else may look the same */
    MW_LAYOUT_EXACT,  /* by identity: a type's own name, a magic number with what belongs to it */
};

/* The caller's. */
struct mw_layout_range {
    mw_addr start, end;
};

struct mw_layout_block {
    mw_addr address; /* what malloc returned */
    const uint8_t *bytes;
    size_t length;         /* of bytes, at most usable_bytes; more than MW_LAYOUT_BYTES is no use */
    uint64_t usable_bytes; /* as malloc_usable_size() says */
};

struct mw_layout_match {
    const char *id; /* of the row: "c++ object", "clr exception context"; static */
    enum mw_layout_basis basis;
    unsigned priority;              /* place of the row: a smaller one tells more */
    size_t agree, of;               /* samples with this name, of so many; 1 of 1 for a block */
    char name[MW_LAYOUT_NAME_ROOM]; /* "icinga::Dictionary (C++ object)" */
};

struct mw_layout_scope;

/* Once for an image: its modules and ranges as they are now. heaps are the ranges that an allocator
 * manages, ascending and disjoint; NULL: every private anonymous mapping that may be written counts
 * as heap. What is read of the target is remembered: for a live one open a scope for each stop.
 * image must outlive it. Memory: 24 bytes for each mapping and range, 3 MiB of caches,
 * and for a module whose classes have no typeinfo the names of its vtables, at most 4 MiB.
 * MW_NOMEM, MW_INVALID when heaps are not ascending. */
enum mw_status mw_layout_scope_open(struct mw_image *image, const struct mw_layout_range *heaps,
                                    size_t heap_count, struct mw_layout_scope **scope_out,
                                    struct mw_error *err) MW_MUST_CHECK;
void mw_layout_scope_close(struct mw_layout_scope *scope); /* NULL is fine */

/* What the symbol that begins at address is called, demangled: true and a text that fits. */
typedef bool mw_layout_symbol_of(void *user, mw_addr address, char *name, size_t room);

/* Ask for symbols where a class has no typeinfo and its module no dynamic symbol: "vtable for X"
 * makes it exactly X. Without this such a class is called by its module and place. */
void mw_layout_scope_use_symbols(struct mw_layout_scope *scope, mw_layout_symbol_of *symbol_of,
                                 void *user);

/* Name one block; false when no row holds (match_out is then not written). Nothing is allocated,
 * but for the names of vtables. Reads at most a few hundred bytes of the target, what is known of
 * a type only once. Not for two threads at once on one scope. */
bool mw_layout_name(struct mw_layout_scope *scope, const struct mw_layout_block *block,
                    struct mw_layout_match *match_out);

/* Name a group of blocks of one size: what at least nine in ten of them are (likely, where not all
 * of them are), else a mixture: "41 of 64: A; 12 of 64: B". Where rows say nothing, a pointer into
 * a module that all have at one place does: "structure with a pointer to libx.so+0x120 at +8".
 * False when that says nothing either. Buffers that have no mark of their own are known once their
 * owner was seen, which mostly is smaller: ask of small sizes first. Linear in count, at most
 * MW_LAYOUT_GROUP_MAX. */
bool mw_layout_group(struct mw_layout_scope *scope, const struct mw_layout_block *blocks,
                     size_t count, struct mw_layout_match *match_out);

/* The ids of all rows, in order; NULL beyond the last. For lists and tests. */
const char *mw_layout_id(size_t index);

#endif
