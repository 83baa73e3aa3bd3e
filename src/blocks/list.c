/* blocks/list.c: blocks in use as a stream of numbers.
 *
 *   segment | gap [size] | gap [size] | …      LEB128, in bytes; a gap is from the end of the block
 *                                              before (or from the segment's start) to this one
 *
 * What a walk tells of blocks is our walkers' word, so a stream is as long as it says; addresses
 * are checked all the same, since segments are the target's. */
#include "blocks/list.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"

#include <assert.h>
#include <stdlib.h>

enum { LEB_BYTES_MAX = 10, BATCH_BLOCKS = 4096 };
#define LIST_BYTES_MAX ((size_t)1 << 30) /* half a billion small blocks */

uint64_t mw_block_size_of(uint64_t bytes, uint64_t overhead_bytes)
{
    uint64_t size;
    if (bytes % 16 == 0)
        return bytes;
    if (__builtin_add_overflow(bytes, overhead_bytes + 15, &size))
        return bytes;
    size &= ~(uint64_t)15;
    return size < 32 && overhead_bytes == 8 ? 32 : size;
}

static void list_begin(void *user)
{
    struct mw_block_list *list = user;
    list->kept_segments = list->segment_count;
    list->kept_bytes = list->byte_count;
    list->kept_count = list->count;
    list->kept_unlisted = list->unlisted;
}

static void list_restart(void *user)
{
    struct mw_block_list *list = user;
    list->segment_count = list->kept_segments;
    list->byte_count = list->kept_bytes;
    list->count = list->kept_count;
    list->unlisted = list->kept_unlisted;
}

static enum mw_status list_segment_begin(void *user, const struct mw_heap_segment *segment)
{
    struct mw_block_list *list = user;
    struct {
        struct mw_block_list_segment *items;
        size_t count, room;
    } segments = {list->segments, list->segment_count, list->segment_room};
    const struct mw_block_list_segment added = {
        .start = segment->start,
        .end = segment->end,
        .kind = segment->kind,
        .first_byte = list->byte_count,
        .last_byte = list->byte_count,
        .cursor = segment->start,
    };
    enum mw_status status = mw_vec_push(&segments, MW_LIMIT_HEAP_SEGMENTS, added);
    list->segments = segments.items;
    list->segment_count = segments.count;
    list->segment_room = segments.room;
    return status;
}

/* MW_LIMIT: no more are noted. */
static enum mw_status list_reserve(struct mw_block_list *list, size_t more)
{
    if (list->byte_room - list->byte_count >= more)
        return MW_OK;
    size_t room = list->byte_room < 65536 ? 131072 : list->byte_room + list->byte_room / 2;
    if (room > LIST_BYTES_MAX)
        return MW_LIMIT;
    uint8_t *grown = mw_regrow(list->bytes, list->byte_room, room, 1);
    if (!grown)
        return MW_NOMEM;
    list->bytes = grown;
    list->byte_room = room;
    return MW_OK;
}

static void leb_put(struct mw_block_list *list, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        list->bytes[list->byte_count++] = (uint8_t)(value | 0x80);
    list->bytes[list->byte_count++] = (uint8_t)value;
}

/* Room for all of `blocks` is there. */
static void list_note(struct mw_block_list *list, struct mw_block_list_segment *segment,
                      const struct mw_block *blocks, size_t count)
{
    uint64_t overhead = mw_block_shape(segment->kind).overhead_bytes;
    uint64_t wanted = list->wanted_bytes ? mw_block_size_of(list->wanted_bytes, overhead) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct mw_block *block = &blocks[i];
        if (block->state != MW_BLOCK_IN_USE || (wanted && block->size != wanted) ||
            block->address < segment->cursor)
            continue;
        leb_put(list, block->address - segment->cursor);
        if (!wanted)
            leb_put(list, block->size);
        segment->cursor = block->address + block->size;
        list->count++;
    }
    segment->last_byte = list->byte_count;
}

static enum mw_status list_blocks(void *user, const struct mw_heap_segment *segment,
                                  const struct mw_block *blocks, size_t count)
{
    struct mw_block_list *list = user;
    (void)segment;
    assert(list->segment_count > 0);
    for (size_t i = 0; i < count; i += BATCH_BLOCKS) {
        size_t some = count - i < BATCH_BLOCKS ? count - i : BATCH_BLOCKS;
        enum mw_status status = list_reserve(list, some * 2 * LEB_BYTES_MAX);
        if (status == MW_LIMIT) {
            list->unlisted += some;
            continue;
        }
        if (status != MW_OK)
            return status;
        list_note(list, &list->segments[list->segment_count - 1], blocks + i, some);
    }
    return MW_OK;
}

struct mw_heap_visitor mw_block_list_visitor(struct mw_block_list *list)
{
    return (struct mw_heap_visitor){
        .user = list,
        .segment_begin = list_segment_begin,
        .blocks = list_blocks,
        .begin = list_begin,
        .restart = list_restart,
    };
}

static int segment_compare(const void *a, const void *b)
{
    const struct mw_block_list_segment *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

void mw_block_list_sort(struct mw_block_list *list)
{
    if (list->segment_count > 0)
        qsort(list->segments, list->segment_count, sizeof *list->segments, segment_compare);
}

/* ---- reading it ---- */

static uint64_t leb_take(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static void cursor_enter(struct mw_block_cursor *cursor, size_t segment)
{
    cursor->segment = segment;
    if (segment == cursor->list->segment_count)
        return;
    cursor->at = cursor->list->bytes + cursor->list->segments[segment].first_byte;
    cursor->address = cursor->list->segments[segment].start;
}

void mw_block_cursor_init(struct mw_block_cursor *cursor, const struct mw_block_list *list,
                          uint64_t size_bytes)
{
    *cursor = (struct mw_block_cursor){.list = list, .size_bytes = size_bytes};
    if (list->bytes)
        cursor_enter(cursor, 0);
    else
        cursor->segment = list->segment_count; /* nothing was noted */
}

bool mw_block_cursor_next(struct mw_block_cursor *cursor, struct mw_listed_block *block_out)
{
    const struct mw_block_list *list = cursor->list;
    while (cursor->segment < list->segment_count) {
        const struct mw_block_list_segment *segment = &list->segments[cursor->segment];
        if (cursor->at == list->bytes + segment->last_byte) {
            cursor_enter(cursor, cursor->segment + 1);
            continue;
        }
        struct mw_block_shape shape = mw_block_shape(segment->kind);
        mw_addr address = cursor->address + leb_take(&cursor->at);
        uint64_t size = list->wanted_bytes
                            ? mw_block_size_of(list->wanted_bytes, shape.overhead_bytes)
                            : leb_take(&cursor->at);
        cursor->address = address + size;
        if (cursor->size_bytes && size != cursor->size_bytes)
            continue;
        mw_addr start = address + shape.header_bytes, end = start + size - shape.overhead_bytes;
        if (end > segment->end) /* of a block with a mapping of its own: nothing follows it */
            end = segment->end;
        if (size <= shape.overhead_bytes || start >= end)
            continue;
        *block_out = (struct mw_listed_block){start, end, size, shape.header_bytes == 0};
        return true;
    }
    return false;
}

void mw_block_list_deinit(struct mw_block_list *list)
{
    free(list->segments);
    free(list->bytes);
    *list = (struct mw_block_list){0};
}
