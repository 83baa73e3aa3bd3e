/* tests/fuzz/fuzz_layout.c: blocks, and what they point to, from anywhere.
 *
 * The first byte chooses: a type's name from the rest, or a world in which the rest patches words
 * (any value, a place in the world, a pointer that leads back) and whose blocks are named. Oracle:
 * a name is printable, ends within its room, comes from a row, is the same when asked again, and is
 * a group's name when all of the group are that block; no byte of the target changes. */
#include "layout/typename.h"
#include "layout_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATCHES_MAX = 400, BLOCKS = 6, COPIES = 12 };

struct input {
    const uint8_t *bytes;
    size_t size, at;
};

static uint64_t take(struct input *input, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && input->at < input->size; i++)
        value |= (uint64_t)input->bytes[input->at++] << 8 * i;
    return value;
}

static void wrong(const char *what)
{
    fprintf(stderr, "fuzz_layout: %s\n", what);
    abort();
}

static void check_name(const char *name, size_t room)
{
    size_t length = strnlen(name, room);
    if (length == room)
        wrong("a name without an end");
    if (length == 0)
        wrong("a name without a letter");
    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x20 || name[i] > 0x7e)
            wrong("a name that is not printable");
}

static void check_type_name(const uint8_t *bytes, size_t size)
{
    enum { ROOM = 64 };
    char name[ROOM] = "", again[ROOM] = "";
    bool is_type = mw_type_name((const char *)bytes, size, name, sizeof name);
    if (is_type != mw_type_name((const char *)bytes, size, again, sizeof again) ||
        memcmp(name, again, sizeof name) != 0)
        wrong("two names for one type");
    if (is_type && (strnlen(name, ROOM) == ROOM || name[0] == '\0'))
        wrong("a type's name without an end");
}

static mw_addr place_of(uint64_t where)
{
    static const mw_addr starts[] = {WORLD_HEAP, WORLD_CONST, WORLD_DATA, WORLD_STACK, WORLD_CODE};
    static const char *const files[] = {"libssl.so.3", "libcrypto.so.3", "python3.11"};
    uint64_t part = where & 7, offset = (where >> 3) * 8;
    if (part < 5)
        return starts[part] + offset % (WORLD_PART_PAGES * WORLD_PAGE);
    return layout_world_file(files[part - 5]) + offset % WORLD_PAGE;
}

static void patch(struct layout_world *world, struct input *input)
{
    static const uint64_t odd[] = {0xfbad2488, 0xe0434352, 16191, 113,    0x10000f,           0x33,
                                   UINT64_MAX, 1ull << 63, 1,     0xffff, 0x474e5543432b2b00, 601};
    unsigned op = (unsigned)take(input, 1);
    mw_addr at = place_of((op & 0x80 ? 0 : op >> 3 & 7) | take(input, 2) << 3);
    if ((op & 7) == 0)
        layout_world_put(world, at, take(input, 8));
    else if ((op & 7) < 4)
        layout_world_put(world, at, place_of(take(input, 2)));
    else if ((op & 7) == 4)
        layout_world_put(world, at, odd[take(input, 1) % (sizeof odd / sizeof *odd)]);
    else if ((op & 7) == 5)
        layout_world_put(world, at, take(input, 2));
    else if ((op & 7) == 6)
        layout_world_put(world, at, layout_world_class(world, "N1a1bE"));
    else
        layout_world_text(world, at & ~(mw_addr)15, "a text of it");
}

static void name_block(struct layout_world *world, const struct mw_layout_block *block)
{
    struct mw_layout_match match, again;
    bool is_named = mw_layout_name(world->scope, block, &match);
    if (is_named) {
        check_name(match.name, sizeof match.name);
        if (match.agree != 1 || match.of != 1 || strcmp(mw_layout_id(match.priority), match.id))
            wrong("a match that is no row's");
    }
    if (mw_layout_name(world->scope, block, &again) != is_named ||
        (is_named && strcmp(match.name, again.name) != 0))
        wrong("two names for one block");
    struct mw_layout_block copies[COPIES];
    for (size_t i = 0; i < COPIES; i++)
        copies[i] = *block;
    bool is_group = mw_layout_group(world->scope, copies, COPIES, &again);
    if (is_named && !is_group)
        wrong("no name for a group of one block");
    if (is_group) {
        check_name(again.name, sizeof again.name);
        if (again.of != COPIES || again.agree > COPIES)
            wrong("more agree than there are");
        if (is_named && strcmp(again.id, "structure") != 0 && strcmp(again.name, match.name) != 0)
            wrong("another name for a group of one block");
    }
}

static void name_blocks(struct layout_world *world, struct input *input)
{
    static const uint16_t sizes[] = {24, 40, 56, 152, 472, 648, 1000, 3400, 3272, 5960, 7160, 264};
    if (!layout_world_open(world))
        return;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t usable = sizes[take(input, 1) % (sizeof sizes / sizeof *sizes)];
        mw_addr at = WORLD_HEAP + (take(input, 2) & 0xfff) * 16;
        struct mw_layout_block block = layout_world_view(world, at, usable);
        uint8_t *exact = malloc(usable);
        if (!exact)
            return;
        memcpy(exact, block.bytes, usable);
        block.bytes = exact;
        if (take(input, 1) & 1)
            block.length = (size_t)take(input, 2) % (usable + 1);
        name_block(world, &block);
        if (memcmp(exact, layout_world_bytes(world, at), usable) != 0)
            wrong("a byte of the target has changed");
        free(exact);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, size, 0};
    if (take(&input, 1) & 1) {
        check_type_name(bytes + 1, size - 1);
        return 0;
    }
    struct layout_world *world = layout_world_new();
    if (!world)
        return 0;
    /* Where blocks are named comes first, so that patches may follow to any length. */
    struct input named = input;
    input.at += BLOCKS * 6 < input.size - input.at ? BLOCKS * 6 : input.size - input.at;
    for (size_t i = 0; i < PATCHES_MAX && input.at < input.size; i++)
        patch(world, &input);
    name_blocks(world, &named);
    layout_world_free(world);
    return 0;
}
