/* graph/edges.h: which blocks a block points to: lists of ranks, found while memory is read, each
 * word once.
 *
 * A block that points to one other needs no list: its entry is that rank. Lists lie in chunks of 1
 * MiB, each filled by one thread; one that does not fit goes on in the thread's next chunk.
 *
 *   first[rank]: NONE │ SINGLE | rank │ chunk << 18 | place ─► rank, rank, …, LAST | rank
 *
 * Cost: 4 bytes a block and 4 bytes for each word that points to a block, from the second one of
 * its block on. */
#ifndef MW_GRAPH_EDGES_H
#define MW_GRAPH_EDGES_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MW_EDGE_CHUNK_SHIFT = 18,
    MW_EDGE_CHUNK = 1 << MW_EDGE_CHUNK_SHIFT,
    MW_EDGE_CHUNKS_MAX = 1 << (31 - MW_EDGE_CHUNK_SHIFT),
};
#define MW_EDGE_NONE UINT32_MAX
#define MW_EDGE_FLAG ((uint32_t)1 << 31)   /* SINGLE in `first`, LAST in a list */
#define MW_EDGE_JUMP ((uint32_t)INT32_MAX) /* the list goes on in chunk `next` */

struct mw_edge_chunk {
    uint32_t *items;
    uint32_t next;
};

struct mw_edges {
    uint32_t *first;              /* by rank */
    struct mw_edge_chunk *chunks; /* MW_EDGE_CHUNKS_MAX */
    size_t chunk_count, chunk_max;
    pthread_mutex_t lock; /* of chunk_count */
    uint64_t count;       /* of all edges, once all writers are done */
};

/* Room for the edges of `ranks` blocks, at most bytes_max for their lists. MW_NOMEM. */
enum mw_status mw_edges_init(struct mw_edges *edges, uint32_t ranks,
                             uint64_t bytes_max) MW_MUST_CHECK;
void mw_edges_deinit(struct mw_edges *edges);

/* Writes the lists of some blocks, one thread each. */
struct mw_edge_writer {
    struct mw_edges *edges;
    uint32_t chunk, at;      /* where the next goes */
    uint32_t source, single; /* the block at hand; its one edge while it has one */
    uint32_t last;           /* the edge written last; MW_EDGE_NONE before the first */
    uint32_t *last_at;       /* where it lies, of a list */
    uint64_t count;
    enum mw_status status; /* MW_NOMEM, MW_LIMIT: what follows is dropped */
};

void mw_edge_writer_init(struct mw_edge_writer *writer, struct mw_edges *edges);
/* source points to target. All of one source come one after the other. */
void mw_edge_write(struct mw_edge_writer *writer, uint32_t source, uint32_t target);
/* The last of all. Returns the writer's status. */
enum mw_status mw_edge_writer_close(struct mw_edge_writer *writer) MW_MUST_CHECK;

/* Reads the list of one block. */
struct mw_edge_reader {
    const struct mw_edges *edges;
    const uint32_t *at;
    uint32_t chunk, single;
};

static inline struct mw_edge_reader mw_edges_of(const struct mw_edges *edges, uint32_t rank)
{
    uint32_t first = edges->first[rank];
    struct mw_edge_reader reader = {.edges = edges, .single = MW_EDGE_NONE};
    if (first == MW_EDGE_NONE)
        return reader;
    if (first & MW_EDGE_FLAG) {
        reader.single = first & ~MW_EDGE_FLAG;
        return reader;
    }
    reader.chunk = first >> MW_EDGE_CHUNK_SHIFT;
    reader.at = edges->chunks[reader.chunk].items + (first & (MW_EDGE_CHUNK - 1));
    return reader;
}

/* The next one; false at the end. */
static inline bool mw_edge_next(struct mw_edge_reader *reader, uint32_t *target_out)
{
    if (reader->single != MW_EDGE_NONE) {
        *target_out = reader->single;
        reader->single = MW_EDGE_NONE;
        return true;
    }
    if (!reader->at)
        return false;
    if (*reader->at == MW_EDGE_JUMP) {
        reader->chunk = reader->edges->chunks[reader->chunk].next;
        reader->at = reader->edges->chunks[reader->chunk].items;
    }
    *target_out = *reader->at & ~MW_EDGE_FLAG;
    reader->at = *reader->at & MW_EDGE_FLAG ? NULL : reader->at + 1;
    return true;
}

#endif
