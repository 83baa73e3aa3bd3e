/* cli/blocks.c: noting blocks during a walk, printing them after it. */
#include "cli/blocks.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/vec.h"
#include "report/parts_json.h"
#include "report/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEB_BYTES_MAX = 10 };
#define LOG_BYTES_MAX ((size_t)8 << 30)

static void log_begin(void *user)
{
    struct mw_block_log *log = user;
    log->kept_segments = log->segment_count;
    log->kept_bytes = log->byte_count;
}

static void log_restart(void *user)
{
    struct mw_block_log *log = user;
    log->segment_count = log->kept_segments;
    log->byte_count = log->kept_bytes;
}

static enum mw_status log_segment(void *user, const struct mw_heap_segment *segment)
{
    struct mw_block_log *log = user;
    struct {
        struct mw_block_log_segment *items;
        size_t count, room;
    } segments = {log->segments, log->segment_count, log->segment_room};
    enum mw_status status =
        mw_vec_push(&segments, MW_LIMIT_HEAP_SEGMENTS,
                    (struct mw_block_log_segment){segment->start, segment->kind, segment->arena,
                                                  log->byte_count});
    log->segments = segments.items;
    log->segment_count = segments.count;
    log->segment_room = segments.room;
    return status;
}

static enum mw_status log_reserve(struct mw_block_log *log, size_t more)
{
    if (log->byte_room - log->byte_count >= more)
        return MW_OK;
    size_t room = log->byte_room < 65536 ? 131072 : log->byte_room + log->byte_room / 2;
    if (room > LOG_BYTES_MAX)
        return MW_LIMIT;
    uint8_t *grown = mw_regrow(log->bytes, log->byte_room, room, 1);
    if (!grown)
        return MW_NOMEM;
    log->bytes = grown;
    log->byte_room = room;
    return MW_OK;
}

static enum mw_status log_blocks(void *user, const struct mw_heap_segment *segment,
                                 const struct mw_block *blocks, size_t count)
{
    struct mw_block_log *log = user;
    (void)segment;
    enum mw_status status = log_reserve(log, count * LEB_BYTES_MAX);
    for (size_t i = 0; i < count && status == MW_OK; i++) {
        _Static_assert(MW_BLOCK_SKIPPED < 8, "a state fits three bits");
        uint64_t value = blocks[i].size << 3 | (uint64_t)blocks[i].state;
        for (; value >= 0x80; value >>= 7)
            log->bytes[log->byte_count++] = (uint8_t)(value | 0x80);
        log->bytes[log->byte_count++] = (uint8_t)value;
    }
    return status;
}

struct mw_heap_visitor mw_block_log_visitor(struct mw_block_log *log)
{
    return (struct mw_heap_visitor){
        .user = log,
        .segment_begin = log_segment,
        .blocks = log_blocks,
        .begin = log_begin,
        .restart = log_restart,
    };
}

static uint64_t leb_read(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static void print_block(struct mw_text *text, const struct mw_block_log_segment *segment,
                        mw_addr chunk, uint64_t size, enum mw_block_state state)
{
    char line[96];
    bool is_mmapped = mw_segment_is_mmapped(segment->kind);
    mw_addr start = chunk + mw_block_shape(segment->kind).header_bytes;
    const char *name =
        is_mmapped && state == MW_BLOCK_IN_USE ? "mmapped" : mw_block_state_name(state);
    int used = snprintf(line, sizeof line, "0x%llx %llu %s ", (unsigned long long)start,
                        (unsigned long long)size, name);
    if (segment->arena == MW_ARENA_NONE)
        snprintf(line + used, sizeof line - (size_t)used, "-");
    else
        snprintf(line + used, sizeof line - (size_t)used, "%u", segment->arena);
    mw_text_put(text, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void print_segment(struct mw_text *text, const struct mw_block_log *log, size_t index)
{
    const struct mw_block_log_segment *segment = &log->segments[index];
    size_t last =
        index + 1 < log->segment_count ? log->segments[index + 1].first_byte : log->byte_count;
    const uint8_t *at = log->bytes + segment->first_byte, *end = log->bytes + last;
    mw_addr chunk = segment->start;
    while (at < end && !mw_text_failed(text)) {
        uint64_t value = leb_read(&at, end);
        enum mw_block_state state = (enum mw_block_state)(value & 7);
        uint64_t size = value >> 3;
        if (state != MW_BLOCK_METADATA && state != MW_BLOCK_SKIPPED)
            print_block(text, segment, chunk, size, state);
        chunk += size;
    }
}

enum mw_status mw_block_log_print(const struct mw_block_log *log,
                                  const struct mw_analysis *analysis, struct mw_sink sink,
                                  struct mw_error *err)
{
    struct mw_text text;
    mw_text_init(&text, sink, (struct mw_text_look){.width = 100});
    for (size_t i = 0; i < log->segment_count && analysis->heap_was_read; i++)
        print_segment(&text, log, i);
    return mw_text_finish(&text, err);
}

void mw_block_log_deinit(struct mw_block_log *log)
{
    free(log->segments);
    free(log->bytes);
    *log = (struct mw_block_log){0};
}
