/* session/layouts.c: samples of blocks → what they are. */
#include "session/layouts.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int range_compare(const void *a, const void *b)
{
    const struct mw_layout_range *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Ascending and disjoint: what overlaps is one. */
static size_t ranges_settle(struct mw_layout_range *ranges, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(ranges, count, sizeof *ranges, range_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && ranges[i].start <= ranges[kept - 1].end) {
            if (ranges[i].end > ranges[kept - 1].end)
                ranges[kept - 1].end = ranges[i].end;
            continue;
        }
        ranges[kept++] = ranges[i];
    }
    return kept;
}

static size_t segments_collect(const struct mw_allocator *allocators, size_t allocator_count,
                               struct mw_layout_range *ranges)
{
    size_t count = 0;
    for (size_t i = 0; i < allocator_count; i++)
        for (size_t k = 0; k < allocators[i].segment_count; k++) {
            const struct mw_heap_segment *segment = &allocators[i].segments[k];
            if (segment->start >= segment->end)
                continue;
            if (ranges)
                ranges[count] = (struct mw_layout_range){segment->start, segment->end};
            count++;
        }
    return count;
}

/* The symbol that begins right there. */
static bool symbol_of(void *user, mw_addr address, char *text, size_t room)
{
    struct mw_layouts *layouts = user;
    struct mw_name name;
    if (!mw_names_resolve(layouts->names, address, &name) || name.symbol_offset != 0 ||
        !name.symbol[0])
        return false;
    int length = snprintf(text, room, "%s", name.symbol);
    return length > 0 && (size_t)length < room;
}

enum mw_status mw_layouts_open(struct mw_image *image, const struct mw_allocator *allocators,
                               size_t allocator_count, struct mw_names *names,
                               struct mw_layouts *layouts_out, struct mw_error *err)
{
    size_t count = segments_collect(allocators, allocator_count, NULL);
    *layouts_out = (struct mw_layouts){
        .image = image,
        .ranges = mw_calloc(count + 1, sizeof *layouts_out->ranges),
        .bytes = mw_calloc(MW_LAYOUTS_SAMPLES, MW_LAYOUT_BYTES),
        .names = names,
    };
    if (!layouts_out->ranges || !layouts_out->bytes) {
        mw_layouts_close(layouts_out);
        return mw_fail(err, MW_NOMEM, "out of memory for known layouts");
    }
    segments_collect(allocators, allocator_count, layouts_out->ranges);
    count = ranges_settle(layouts_out->ranges, count);
    enum mw_status status =
        mw_layout_scope_open(image, layouts_out->ranges, count, &layouts_out->scope, err);
    if (status != MW_OK)
        mw_layouts_close(layouts_out);
    else if (names)
        mw_layout_scope_use_symbols(layouts_out->scope, symbol_of, layouts_out);
    return status;
}

void mw_layouts_close(struct mw_layouts *layouts)
{
    mw_layout_scope_close(layouts->scope);
    free(layouts->ranges);
    free(layouts->bytes);
    *layouts = (struct mw_layouts){0};
}

bool mw_layouts_name(struct mw_layouts *layouts, const mw_addr *addresses, size_t count,
                     uint64_t usable_bytes, struct mw_layout_match *match_out)
{
    struct mw_layout_block blocks[MW_LAYOUTS_SAMPLES];
    size_t want = usable_bytes < MW_LAYOUT_BYTES ? (size_t)usable_bytes : MW_LAYOUT_BYTES;
    size_t read = 0;
    for (size_t i = 0; i < count && i < MW_LAYOUTS_SAMPLES; i++) {
        uint8_t *bytes = layouts->bytes + i * MW_LAYOUT_BYTES;
        size_t got = mw_image_read_present(layouts->image, addresses[i], bytes, want);
        if (got == want)
            blocks[read++] = (struct mw_layout_block){addresses[i], bytes, got, usable_bytes};
    }
    return read > 0 && mw_layout_group(layouts->scope, blocks, read, match_out);
}
