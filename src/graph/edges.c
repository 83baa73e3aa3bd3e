/* graph/edges.c: lists of ranks in chunks. */
#include "graph/edges.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum mw_status mw_edges_init(struct mw_edges *edges, uint32_t ranks, uint64_t bytes_max)
{
    uint64_t chunks = bytes_max / (MW_EDGE_CHUNK * sizeof(uint32_t));
    *edges = (struct mw_edges){
        .first = mw_calloc((size_t)ranks + 1, sizeof *edges->first),
        .chunks = mw_calloc(MW_EDGE_CHUNKS_MAX, sizeof *edges->chunks),
        .chunk_max = chunks < MW_EDGE_CHUNKS_MAX ? (size_t)chunks : MW_EDGE_CHUNKS_MAX,
    };
    if (pthread_mutex_init(&edges->lock, NULL) != 0 || !edges->first || !edges->chunks) {
        mw_edges_deinit(edges);
        return MW_NOMEM;
    }
    memset(edges->first, 0xff, ((size_t)ranks + 1) * sizeof *edges->first);
    return MW_OK;
}

void mw_edges_deinit(struct mw_edges *edges)
{
    for (size_t i = 0; i < edges->chunk_count; i++)
        free(edges->chunks[i].items);
    free(edges->chunks);
    free(edges->first);
    *edges = (struct mw_edges){0};
}

/* A new chunk for one thread; MW_EDGE_NONE with the status kept when there is none. */
static uint32_t chunk_take(struct mw_edge_writer *writer)
{
    struct mw_edges *edges = writer->edges;
    uint32_t *items = mw_calloc(MW_EDGE_CHUNK, sizeof *items);
    if (!items) {
        writer->status = MW_NOMEM;
        return MW_EDGE_NONE;
    }
    pthread_mutex_lock(&edges->lock);
    size_t place = edges->chunk_count;
    if (place < edges->chunk_max) {
        edges->chunks[place] = (struct mw_edge_chunk){items, MW_EDGE_NONE};
        edges->chunk_count++;
    }
    pthread_mutex_unlock(&edges->lock);
    if (place < edges->chunk_max)
        return (uint32_t)place;
    free(items);
    writer->status = MW_LIMIT;
    return MW_EDGE_NONE;
}

void mw_edge_writer_init(struct mw_edge_writer *writer, struct mw_edges *edges)
{
    *writer = (struct mw_edge_writer){
        .edges = edges,
        .chunk = MW_EDGE_NONE,
        .source = MW_EDGE_NONE,
        .single = MW_EDGE_NONE,
        .last = MW_EDGE_NONE,
    };
}

/* Append to the chunk at hand; its last place is for the jump. NULL: no room anywhere. */
static uint32_t *item_put(struct mw_edge_writer *writer, uint32_t target, bool is_first)
{
    struct mw_edges *edges = writer->edges;
    bool is_full = writer->chunk == MW_EDGE_NONE || writer->at == MW_EDGE_CHUNK - 1;
    if (is_full) {
        uint32_t chunk = chunk_take(writer);
        if (chunk == MW_EDGE_NONE)
            return NULL;
        if (!is_first) {
            edges->chunks[writer->chunk].items[writer->at] = MW_EDGE_JUMP;
            edges->chunks[writer->chunk].next = chunk;
        }
        writer->chunk = chunk;
        writer->at = 0;
    }
    uint32_t *item = &edges->chunks[writer->chunk].items[writer->at++];
    *item = target;
    return item;
}

/* The source at hand has no more. */
static void source_close(struct mw_edge_writer *writer)
{
    if (writer->single != MW_EDGE_NONE)
        writer->edges->first[writer->source] = MW_EDGE_FLAG | writer->single;
    else if (writer->last_at)
        *writer->last_at |= MW_EDGE_FLAG;
    writer->single = writer->last = MW_EDGE_NONE;
    writer->last_at = NULL;
}

void mw_edge_write(struct mw_edge_writer *writer, uint32_t source, uint32_t target)
{
    assert(target < MW_EDGE_JUMP);
    if (source != writer->source) {
        source_close(writer);
        writer->source = source;
    }
    if (target == writer->last || writer->status != MW_OK)
        return;
    writer->count++;
    if (writer->last == MW_EDGE_NONE) {
        writer->single = writer->last = target;
        return;
    }
    if (writer->single != MW_EDGE_NONE) { /* the second one: now it is a list */
        uint32_t *item = item_put(writer, writer->single, true);
        if (!item)
            return; /* the one stays */
        writer->edges->first[source] = (writer->chunk << MW_EDGE_CHUNK_SHIFT) | (writer->at - 1);
        writer->single = MW_EDGE_NONE;
        writer->last_at = item;
    }
    uint32_t *item = item_put(writer, target, false);
    if (!item)
        return;
    writer->last = target;
    writer->last_at = item;
}

enum mw_status mw_edge_writer_close(struct mw_edge_writer *writer)
{
    source_close(writer);
    pthread_mutex_lock(&writer->edges->lock);
    writer->edges->count += writer->count;
    pthread_mutex_unlock(&writer->edges->lock);
    return writer->status;
}
