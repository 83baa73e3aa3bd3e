/* cli/blocks.h: `memwhy heap --list-blocks`: a line for each block.
 *
 * Blocks are seen while the target stands still, and standard output may be slow: they are noted
 * in one to three bytes each (size and state; the address follows, blocks tile) and printed once
 * the target runs again. A walk that is begun anew forgets what it noted, and keeps what was noted
 * of the allocators before. */
#ifndef MW_CLI_BLOCKS_H
#define MW_CLI_BLOCKS_H

#include "report/sink.h"
#include "session/session.h"

struct mw_block_log {
    struct mw_block_log_segment {
        mw_addr start;
        enum mw_segment_kind kind;
        uint32_t arena;
        size_t first_byte;
    } * segments;
    size_t segment_count, segment_room;
    uint8_t *bytes; /* LEB128 of size * 8 + state */
    size_t byte_count, byte_room;
    size_t kept_segments, kept_bytes; /* of the allocators walked before */
};

struct mw_heap_visitor mw_block_log_visitor(struct mw_block_log *log);

/* "0xADDRESS SIZE STATE ARENA": the address that malloc returned (musl: the first that it may
 * return there), the chunk size, in-use, free, tcache, fastbin, top or mmapped, the index of the
 * arena (- for mmapped). MW_NOMEM, MW_OS. */
enum mw_status mw_block_log_print(const struct mw_block_log *log,
                                  const struct mw_analysis *analysis, struct mw_sink sink,
                                  struct mw_error *err) MW_MUST_CHECK;

void mw_block_log_deinit(struct mw_block_log *log);

#endif
