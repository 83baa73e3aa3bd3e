/* support/layout_world.h: a small address space for tests of known layouts, built word by word.
 *
 * A library with code, constants and data, a heap, a stack, and the files whose presence rows ask
 * for. No cmocka here: the fuzz target uses it too. */
#ifndef LAYOUT_WORLD_H
#define LAYOUT_WORLD_H

#include "image/open.h"
#include "layout/layout.h"

enum { WORLD_PAGE = 4096, WORLD_HEAP_PAGES = 96, WORLD_PART_PAGES = 4, WORLD_FILES = 10 };
#define WORLD_CODE ((mw_addr)0x7f0000000000)
#define WORLD_CONST ((mw_addr)0x7f0000010000)
#define WORLD_DATA ((mw_addr)0x7f0000020000)
#define WORLD_HEAP ((mw_addr)0x555555600000)
#define WORLD_STACK ((mw_addr)0x7ffc00000000)

struct layout_world {
    struct mw_image image;
    struct mw_layout_scope *scope;
    _Alignas(8) uint8_t heap[WORLD_HEAP_PAGES * WORLD_PAGE];
    _Alignas(8) uint8_t code[WORLD_PART_PAGES * WORLD_PAGE];
    _Alignas(8) uint8_t constants[WORLD_PART_PAGES * WORLD_PAGE];
    _Alignas(8) uint8_t data[WORLD_PART_PAGES * WORLD_PAGE];
    _Alignas(8) uint8_t stack[WORLD_PART_PAGES * WORLD_PAGE];
    _Alignas(8) uint8_t files[WORLD_FILES][WORLD_PAGE];
    size_t heap_used, constants_used;
};

/* Everything zero, nothing read yet. NULL when out of memory. */
struct layout_world *layout_world_new(void);
/* Open the scope (anew): what was read before is forgotten. */
bool layout_world_open(struct layout_world *world);
void layout_world_free(struct layout_world *world);

/* The bytes at address, or NULL when there is no such part. */
uint8_t *layout_world_bytes(struct layout_world *world, mw_addr address);
void layout_world_put(struct layout_world *world, mw_addr address, uint64_t word);
void layout_world_text(struct layout_world *world, mw_addr address, const char *text);

/* Zeroed room in the heap, on 16 bytes, with 16 in front; in the constants, on 8. 0: full. */
mw_addr layout_world_block(struct layout_world *world, size_t bytes);
mw_addr layout_world_constant(struct layout_world *world, size_t bytes);
mw_addr layout_world_string(struct layout_world *world, const char *text);

/* The page of a file: its constants. */
mw_addr layout_world_file(const char *name);

/* A class with typeinfo; the address of its vtable. */
mw_addr layout_world_class(struct layout_world *world, const char *mangled);
/* Its typeinfo. */
mw_addr layout_world_typeinfo(struct layout_world *world, mw_addr vtable);

struct mw_layout_block layout_world_view(struct layout_world *world, mw_addr address,
                                         size_t usable_bytes);

#endif
