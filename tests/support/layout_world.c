/* support/layout_world.c: see layout_world.h. */
#include "layout_world.h"

#include <stdlib.h>
#include <string.h>

static const char *const files[WORLD_FILES] = {
    "/usr/bin/python3.11",     "/usr/lib/postgresql/15/bin/postgres",
    "/usr/lib/libssl.so.3",    "/usr/lib/libcrypto.so.3",
    "/usr/sbin/nginx",         "/usr/lib/jvm/lib/server/libjvm.so",
    "/usr/bin/node",           "/usr/lib/libgobject-2.0.so.0",
    "/usr/lib/libstdc++.so.6", "/usr/lib/libclrjit.so",
};

static mw_addr file_start(size_t index)
{
    return 0x7f1000000000 + (mw_addr)index * 0x10000000;
}

struct layout_world *layout_world_new(void)
{
    struct layout_world *world = calloc(1, sizeof *world);
    if (world)
        world->constants_used = 64;
    return world;
}

static enum mw_status image_open(struct layout_world *world)
{
    const uint32_t read = MW_PERM_READ, write = MW_PERM_READ | MW_PERM_WRITE;
    enum { PARTS = 5 + WORLD_FILES };
    static const char library[] = "/usr/lib/libx.so.1";
    struct mw_image_memory_part parts[PARTS] = {
        {.mapping = {.start = WORLD_HEAP,
                     .end = WORLD_HEAP + sizeof world->heap,
                     .perms = write,
                     .name = "[heap]"},
         .bytes = world->heap},
        {.mapping = {.start = WORLD_CODE,
                     .end = WORLD_CODE + sizeof world->code,
                     .perms = read | MW_PERM_EXEC,
                     .name = library},
         .bytes = world->code},
        {.mapping = {.start = WORLD_CONST,
                     .end = WORLD_CONST + sizeof world->constants,
                     .perms = read,
                     .offset = WORLD_CONST - WORLD_CODE,
                     .name = library},
         .bytes = world->constants},
        {.mapping = {.start = WORLD_DATA,
                     .end = WORLD_DATA + sizeof world->data,
                     .perms = write,
                     .offset = WORLD_DATA - WORLD_CODE,
                     .name = library},
         .bytes = world->data},
    };
    for (size_t i = 0; i < WORLD_FILES; i++)
        parts[4 + i] = (struct mw_image_memory_part){.mapping = {.start = file_start(i),
                                                                 .end = file_start(i) + WORLD_PAGE,
                                                                 .perms = read,
                                                                 .name = files[i]},
                                                     .bytes = world->files[i]};
    parts[PARTS - 1] =
        (struct mw_image_memory_part){.mapping = {.start = WORLD_STACK,
                                                  .end = WORLD_STACK + sizeof world->stack,
                                                  .perms = write,
                                                  .name = "[stack]"},
                                      .bytes = world->stack};
    return mw_image_open_memory(parts, PARTS, &world->image, NULL);
}

bool layout_world_open(struct layout_world *world)
{
    mw_layout_scope_close(world->scope);
    world->scope = NULL;
    if (!world->image.ops && image_open(world) != MW_OK)
        return false;
    return mw_layout_scope_open(&world->image, NULL, 0, &world->scope, NULL) == MW_OK;
}

void layout_world_free(struct layout_world *world)
{
    if (!world)
        return;
    mw_layout_scope_close(world->scope);
    if (world->image.ops)
        mw_image_close(&world->image);
    free(world);
}

static uint8_t *within(uint8_t *bytes, size_t size, mw_addr start, mw_addr address)
{
    return address >= start && address - start < size ? bytes + (address - start) : NULL;
}

uint8_t *layout_world_bytes(struct layout_world *world, mw_addr address)
{
    uint8_t *found = within(world->heap, sizeof world->heap, WORLD_HEAP, address);
    if (!found)
        found = within(world->code, sizeof world->code, WORLD_CODE, address);
    if (!found)
        found = within(world->constants, sizeof world->constants, WORLD_CONST, address);
    if (!found)
        found = within(world->data, sizeof world->data, WORLD_DATA, address);
    if (!found)
        found = within(world->stack, sizeof world->stack, WORLD_STACK, address);
    for (size_t i = 0; !found && i < WORLD_FILES; i++)
        found = within(world->files[i], WORLD_PAGE, file_start(i), address);
    return found;
}

void layout_world_put(struct layout_world *world, mw_addr address, uint64_t word)
{
    memcpy(layout_world_bytes(world, address), &word, sizeof word);
}

void layout_world_text(struct layout_world *world, mw_addr address, const char *text)
{
    memcpy(layout_world_bytes(world, address), text, strlen(text) + 1);
}

mw_addr layout_world_block(struct layout_world *world, size_t bytes)
{
    size_t start = ((world->heap_used + 15) & ~(size_t)15) + 16;
    if (bytes > sizeof world->heap || start > sizeof world->heap - bytes)
        return 0;
    world->heap_used = start + bytes;
    memset(world->heap + start, 0, bytes);
    return WORLD_HEAP + start;
}

mw_addr layout_world_constant(struct layout_world *world, size_t bytes)
{
    size_t start = (world->constants_used + 7) & ~(size_t)7;
    if (bytes > sizeof world->constants - start)
        return 0;
    world->constants_used = start + bytes;
    return WORLD_CONST + start;
}

mw_addr layout_world_string(struct layout_world *world, const char *text)
{
    mw_addr address = layout_world_constant(world, strlen(text) + 1);
    if (address)
        layout_world_text(world, address, text);
    return address;
}

mw_addr layout_world_file(const char *name)
{
    for (size_t i = 0; i < WORLD_FILES; i++)
        if (strcmp(strrchr(files[i], '/') + 1, name) == 0)
            return file_start(i);
    return 0;
}

/* offset to top, typeinfo, three functions */
static mw_addr vtable_make(struct layout_world *world, mw_addr typeinfo)
{
    mw_addr start = layout_world_constant(world, 40);
    layout_world_put(world, start + 8, typeinfo);
    for (int i = 0; i < 3; i++)
        layout_world_put(world, start + 16 + 8 * (mw_addr)i, WORLD_CODE + 0x100 + 16 * (mw_addr)i);
    return start + 16;
}

/* Typeinfo of class_type_info itself, made once, at the start of the constants' second page. */
static mw_addr abi_vtable(struct layout_world *world)
{
    mw_addr typeinfo = WORLD_CONST + 8, vtable;
    memcpy(&vtable, world->constants, sizeof vtable);
    if (vtable)
        return vtable;
    mw_addr name = layout_world_string(world, "N10__cxxabiv120__si_class_type_infoE");
    vtable = vtable_make(world, typeinfo);
    layout_world_put(world, typeinfo, vtable);
    layout_world_put(world, typeinfo + 8, name);
    layout_world_put(world, WORLD_CONST, vtable);
    return vtable;
}

mw_addr layout_world_class(struct layout_world *world, const char *mangled)
{
    mw_addr abi = abi_vtable(world), typeinfo = layout_world_constant(world, 16);
    mw_addr name = layout_world_string(world, mangled);
    layout_world_put(world, typeinfo, abi);
    layout_world_put(world, typeinfo + 8, name);
    return vtable_make(world, typeinfo);
}

mw_addr layout_world_typeinfo(struct layout_world *world, mw_addr vtable)
{
    mw_addr typeinfo;
    memcpy(&typeinfo, layout_world_bytes(world, vtable - 8), sizeof typeinfo);
    return typeinfo;
}

struct mw_layout_block layout_world_view(struct layout_world *world, mw_addr address,
                                         size_t usable_bytes)
{
    return (struct mw_layout_block){.address = address,
                                    .bytes = layout_world_bytes(world, address),
                                    .length = usable_bytes,
                                    .usable_bytes = usable_bytes};
}
