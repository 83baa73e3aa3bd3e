/* tests/unit/test_graph.c: reachability of graphs made by chance, against a plain search.
 *
 * A heap of some hundreds of blocks, in use and free, whose words are drawn: pointers to first and
 * inner bytes, to headers, to free blocks, to nowhere. The oracle knows the edges that it wrote and
 * follows them by lists; what memwhy finds must be the same, block by block: who is reachable,
 * direct and indirect, who refers to whom, the length of shortest paths, what a block retains. */
#include "base/random.h"
#include "graph/groups.h"
#include "graph/holder.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    PAGE = 4096,
    HEAP_BYTES = 64 * PAGE,
    DATA_BYTES = 4 * PAGE,
    BLOCKS_MAX = 700,
    EDGES_MAX = 8 * BLOCKS_MAX,
    ROOTS_MAX = 24,
    SEEDS = 60,
    HEAP_START = 0x10000000,
    DATA_START = 0x20000000,
    HEADER = 16,
};

struct world {
    uint64_t heap[HEAP_BYTES / 8], data[DATA_BYTES / 8];
    struct mw_block blocks[BLOCKS_MAX];
    size_t count;
    struct {
        size_t from, to;
    } edges[EDGES_MAX];
    size_t edge_count;
    size_t roots[ROOTS_MAX];
    size_t root_count, roots_used; /* words of data */
    uint64_t random;

    struct mw_image image;
    struct mw_heap_segment segment;
    struct mw_allocator allocator;
    struct mw_reach reach;
};

static uint64_t below(struct world *world, uint64_t limit)
{
    return mw_random_below(&world->random, limit);
}

static bool is_used(const struct world *world, size_t i)
{
    return world->blocks[i].state == MW_BLOCK_IN_USE;
}

static void word_put(struct world *world, mw_addr at, uint64_t word)
{
    if (at >= DATA_START)
        world->data[(at - DATA_START) / 8] = word;
    else
        world->heap[(at - HEAP_START) / 8] = word;
}

/* Words that the program may use of a block: its own and the first one of the next header. */
static size_t words_of(const struct world *world, size_t i)
{
    return (world->blocks[i].size - 8) / 8;
}

static mw_addr start_of(const struct world *world, size_t i)
{
    return world->blocks[i].address + HEADER;
}

/* Blocks of 32 to 224 bytes that tile the heap; the last one, free, takes the rest. */
static struct world *world_new(uint64_t seed, unsigned free_percent)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->random = seed * 0x9e3779b97f4a7c15u + 1;
    mw_addr at = HEAP_START, end = HEAP_START + HEAP_BYTES;
    while (world->count + 1 < BLOCKS_MAX && end - at > 512) {
        uint64_t size = 32 + 16 * below(world, 13);
        bool is_free = below(world, 100) < free_percent;
        world->blocks[world->count++] =
            (struct mw_block){at, size, is_free ? MW_BLOCK_FREE : MW_BLOCK_IN_USE};
        at += size;
    }
    world->blocks[world->count++] = (struct mw_block){at, end - at, MW_BLOCK_FREE};
    return world;
}

/* Word `word` of block `from` points into block `to`, somewhere. */
static void edge_add(struct world *world, size_t from, size_t word, size_t to)
{
    mw_addr target = start_of(world, to) + below(world, world->blocks[to].size - 8);
    word_put(world, start_of(world, from) + 8 * word, target);
    if (is_used(world, from) && is_used(world, to)) {
        assert_true(world->edge_count < EDGES_MAX);
        world->edges[world->edge_count].from = from;
        world->edges[world->edge_count++].to = to;
    }
}

static void root_add(struct world *world, size_t to)
{
    mw_addr target = start_of(world, to) + below(world, world->blocks[to].size - 8);
    word_put(world, DATA_START + 8 * (7 + 3 * world->roots_used++), target);
    if (is_used(world, to))
        world->roots[world->root_count++] = to;
}

/* Something that is no pointer to a block: behind its end, nowhere, or not a pointer at all. */
static uint64_t no_pointer(struct world *world)
{
    size_t i = below(world, world->count);
    switch (below(world, 4)) {
    case 0: /* the size word of the next header belongs to nobody */
        return world->blocks[i].address + 8 + below(world, 8);
    case 1:
        return HEAP_START + HEAP_BYTES + HEADER + 8 + below(world, 1 << 20);
    case 2:
        return (HEAP_START + below(world, HEAP_BYTES)) | (uint64_t)1 << 48;
    default:
        return below(world, 1 << 20);
    }
}

/* Each word with a chance of being a pointer; a block has at most one edge a word. */
static void edges_draw(struct world *world, unsigned per_thousand)
{
    for (size_t i = 0; i < world->count; i++)
        for (size_t word = 0; word < words_of(world, i) && word < 26; word++) {
            if (world->edge_count < EDGES_MAX && below(world, 1000) < per_thousand)
                edge_add(world, i, word, below(world, world->count));
            else if (below(world, 4) == 0)
                word_put(world, start_of(world, i) + 8 * word, no_pointer(world));
        }
}

/* In two parts, as a walk may tell them. */
static void tell(struct world *world, const struct mw_heap_visitor *visitor,
                 const struct mw_block *blocks, size_t count)
{
    const size_t half = count / 2;
    assert_int_equal(visitor->segment_begin(visitor->user, &world->segment), MW_OK);
    assert_int_equal(visitor->blocks(visitor->user, &world->segment, blocks, half), MW_OK);
    assert_int_equal(visitor->blocks(visitor->user, &world->segment, blocks + half, count - half),
                     MW_OK);
    assert_int_equal(visitor->segment_end(visitor->user, &world->segment), MW_OK);
}

static void world_judge(struct world *world)
{
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = HEAP_START,
                     .end = HEAP_START + HEAP_BYTES,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[heap]"},
         .bytes = world->heap},
        {.mapping = {.start = DATA_START,
                     .end = DATA_START + DATA_BYTES,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = ""},
         .bytes = world->data},
    };
    struct mw_error err = {0};
    struct mw_context context;
    mw_context_init(&context);
    assert_int_equal(mw_image_open_memory(parts, 2, &world->image, NULL), MW_OK);
    world->segment = (struct mw_heap_segment){
        .start = HEAP_START, .end = HEAP_START + HEAP_BYTES, .kind = MW_SEGMENT_BRK};
    world->allocator = (struct mw_allocator){
        .walked = true, .reconciled = true, .segments = &world->segment, .segment_count = 1};
    struct mw_index *index = mw_index_new();
    assert_non_null(index);
    struct mw_heap_visitor visitor = mw_index_visitor(index);
    visitor.begin(visitor.user);
    /* Of a walk that begins anew what it said before is forgotten. */
    struct mw_block other[HEAP_BYTES / 48];
    size_t other_count = 0;
    for (mw_addr at = HEAP_START; other_count + 1 < sizeof other / sizeof *other; at += 48)
        other[other_count++] = (struct mw_block){at, 48, MW_BLOCK_IN_USE};
    tell(world, &visitor, other, other_count);
    visitor.restart(visitor.user);
    tell(world, &visitor, world->blocks, world->count);
    assert_int_equal(
        mw_reach_read(&world->image, index, &world->allocator, 1, &context, &world->reach, &err),
        MW_OK);
    assert_int_equal(mw_reach_judge(&world->reach, &context, &err), MW_OK);
    assert_true(mw_reach_is_exact(&world->reach));
}

static void world_delete(struct world *world)
{
    mw_reach_deinit(&world->reach);
    mw_image_close(&world->image);
    free(world);
}

static uint32_t rank_of(const struct world *world, size_t i)
{
    return mw_index_find(world->reach.index, start_of(world, i));
}

/* ---- the oracle ---- */

enum { FAR = 1 << 20 };

/* Steps from the given blocks, without going through `without`; FAR: not reached. */
static void distances(const struct world *world, const size_t *from, size_t from_count,
                      size_t without, unsigned *steps)
{
    for (size_t i = 0; i < world->count; i++)
        steps[i] = FAR;
    for (size_t i = 0; i < from_count; i++)
        if (from[i] != without)
            steps[from[i]] = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t k = 0; k < world->edge_count; k++) {
            size_t source = world->edges[k].from, target = world->edges[k].to;
            if (source != without && target != without && steps[source] + 1 < steps[target]) {
                steps[target] = steps[source] + 1;
                changed = true;
            }
        }
    }
}

static void check_blocks(const struct world *world, const unsigned *steps)
{
    uint64_t used = 0, reachable = 0, lost_bytes = 0;
    for (size_t i = 0; i < world->count; i++) {
        uint32_t rank = rank_of(world, i);
        mw_addr start, end;
        assert_true((rank != MW_RANK_NONE) == is_used(world, i));
        if (rank == MW_RANK_NONE)
            continue;
        used++;
        reachable += steps[i] < FAR;
        lost_bytes += steps[i] < FAR ? 0 : world->blocks[i].size;
        if (mw_reach_is_reachable(&world->reach, rank) != (steps[i] < FAR))
            fail_msg("block %zu is %sreachable", i, steps[i] < FAR ? "" : "not ");
        mw_index_bounds(world->reach.index, rank, &start, &end);
        assert_true(start == start_of(world, i) && end - start == world->blocks[i].size);
        for (mw_addr at = start; at < start + world->blocks[i].size - 8; at++)
            assert_int_equal(mw_index_find(world->reach.index, at), rank);
        assert_true(mw_index_find(world->reach.index, start + world->blocks[i].size - 8) != rank);
    }
    assert_int_equal(world->reach.reachable_count, reachable);
    assert_int_equal(world->reach.unreachable_count, used - reachable);
    assert_int_equal(world->reach.unreachable_bytes, lost_bytes);
    assert_int_equal(world->reach.direct_count + world->reach.indirect_count, used - reachable);
}

/* Direct ones lead to all that is lost, and to none of each other: no fewer would do. */
static void check_direct(const struct world *world, const unsigned *steps)
{
    static unsigned from_direct[BLOCKS_MAX];
    size_t direct[BLOCKS_MAX] = {0}, count = 0;
    for (size_t i = 0; i < world->count; i++)
        if (is_used(world, i) && mw_bit_get(world->reach.is_direct, rank_of(world, i)))
            direct[count++] = i;
    assert_int_equal(count, world->reach.direct_count);
    distances(world, direct, count, SIZE_MAX, from_direct);
    for (size_t i = 0; i < world->count; i++)
        if (is_used(world, i) && steps[i] == FAR)
            assert_true(from_direct[i] < FAR);
    for (size_t i = 0; i < count; i++) {
        assert_true(steps[direct[i]] == FAR);
        distances(world, &direct[i], 1, SIZE_MAX, from_direct);
        for (size_t k = 0; k < count; k++)
            if (k != i && from_direct[direct[k]] < FAR)
                fail_msg("direct block %zu leads to direct block %zu", direct[i], direct[k]);
    }
}

static bool has_edge(const struct world *world, uint32_t from, uint32_t to)
{
    for (size_t k = 0; k < world->edge_count; k++)
        if (rank_of(world, world->edges[k].from) == from &&
            rank_of(world, world->edges[k].to) == to)
            return true;
    return false;
}

static void check_path(struct world *world, size_t i, const unsigned *steps)
{
    struct mw_ranks path;
    assert_int_equal(mw_paths_find(&world->reach, rank_of(world, i), &path), MW_OK);
    assert_true(path.count > 0 && path.items[path.count - 1] == rank_of(world, i));
    if (steps[i] < FAR)
        assert_int_equal(path.count, steps[i] + 1);
    for (size_t k = 1; k < path.count; k++) {
        assert_true(has_edge(world, path.items[k - 1], path.items[k]));
        assert_true(mw_paths_offset(&world->reach, &world->image, path.items[k - 1],
                                    path.items[k]) != MW_UNKNOWN);
    }
    free(path.items);
}

static void check_referrers(const struct world *world, size_t i)
{
    struct mw_ranks found;
    uint64_t total, wanted = 0;
    uint32_t rank = rank_of(world, i);
    assert_int_equal(mw_paths_referrers(&world->reach, rank, BLOCKS_MAX, &found, &total), MW_OK);
    for (size_t k = 0; k < world->count; k++)
        wanted += is_used(world, k) && has_edge(world, rank_of(world, k), rank);
    assert_int_equal(total, wanted);
    assert_int_equal(found.count, wanted);
    for (size_t k = 0; k < found.count; k++)
        assert_true(has_edge(world, found.items[k], rank));
    free(found.items);
}

static void check_retained(const struct world *world, size_t i, const unsigned *steps)
{
    static unsigned without[BLOCKS_MAX];
    uint64_t count, bytes, wanted = 0, wanted_bytes = 0;
    assert_int_equal(mw_paths_retained(&world->reach, rank_of(world, i), &count, &bytes), MW_OK);
    /* Of what is lost, direct blocks are where it begins. */
    bool is_lost = steps[i] == FAR;
    size_t direct[BLOCKS_MAX], direct_count = 0;
    for (size_t k = 0; k < world->count; k++)
        if (is_used(world, k) && mw_bit_get(world->reach.is_direct, rank_of(world, k)))
            direct[direct_count++] = k;
    distances(world, is_lost ? direct : world->roots, is_lost ? direct_count : world->root_count, i,
              without);
    for (size_t k = 0; k < world->count; k++)
        if (is_used(world, k) && (steps[k] == FAR) == is_lost && without[k] == FAR) {
            wanted++;
            wanted_bytes += world->blocks[k].size;
        }
    assert_int_equal(count, wanted);
    assert_int_equal(bytes, wanted_bytes);
}

static void check_all(struct world *world)
{
    static unsigned steps[BLOCKS_MAX];
    world_judge(world);
    distances(world, world->roots, world->root_count, SIZE_MAX, steps);
    check_blocks(world, steps);
    check_direct(world, steps);
    for (size_t k = 0; k < 12; k++) {
        size_t i = below(world, world->count);
        if (!is_used(world, i))
            continue;
        check_path(world, i, steps);
        check_referrers(world, i);
        check_retained(world, i, steps);
    }
}

/* ---- the tests ---- */

static void test_by_chance(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        static const unsigned densities[] = {5, 15, 25, 40, 90}; /* a thousand words */
        struct world *world = world_new(seed, seed % 3 * 20);
        edges_draw(world, densities[seed % 5]);
        for (unsigned i = 0; i < 1 + seed % 4 * 5; i++)
            root_add(world, below(world, world->count));
        check_all(world);
        world_delete(world);
    }
}

static void test_nothing_points(void **state)
{
    (void)state;
    struct world *world = world_new(7, 10);
    check_all(world);
    assert_int_equal(world->reach.reachable_count, 0);
    assert_int_equal(world->reach.direct_count, world->reach.unreachable_count);
    world_delete(world);
}

/* A list, a cycle with a tail, a block that points to itself. */
static void test_shapes(void **state)
{
    (void)state;
    struct world *world = world_new(9, 0);
    for (size_t i = 0; i < 50; i++)
        edge_add(world, i, 0, i + 1); /* 0 ... 50: held by its root */
    root_add(world, 0);
    for (size_t i = 60; i < 70; i++)
        edge_add(world, i, 1, i == 69 ? 60 : i + 1); /* a cycle */
    for (size_t i = 69; i < 80; i++)
        edge_add(world, i, 2, i + 1); /* and its tail */
    edge_add(world, 90, 0, 90);
    edge_add(world, 100, 0, 69); /* leads into the cycle */
    check_all(world);
    const uint64_t *direct = world->reach.is_direct;
    assert_true(mw_bit_get(direct, rank_of(world, 100)));
    for (size_t i = 60; i <= 80; i++)
        assert_false(mw_bit_get(direct, rank_of(world, i)));
    assert_true(mw_bit_get(direct, rank_of(world, 90)));
    assert_false(mw_reach_is_lost(&world->reach, rank_of(world, 50)));
    world_delete(world);
}

/* The only block that is lost points to itself. */
static void test_lost_to_itself(void **state)
{
    (void)state;
    struct world *world = world_new(10, 0);
    for (size_t i = 0; i + 2 < world->count; i++)
        if (i != 33)
            edge_add(world, i, 0, i == 32 ? 34 : i + 1);
    edge_add(world, 33, 1, 33);
    root_add(world, 0);
    check_all(world);
    assert_int_equal(world->reach.unreachable_count, 1);
    assert_int_equal(world->reach.direct_count, 1);
    world_delete(world);
}

/* One block holds another that holds hundreds of one size. */
static void test_holder(void **state)
{
    (void)state;
    struct world *world = world_new(11, 0);
    struct mw_holder holder;
    size_t table = 0, outer = 1, inside = 0;
    for (size_t i = 0; i < world->count; i++)
        if (world->blocks[i].size == 224)
            table = i; /* 27 words */
    edge_add(world, outer, 0, table);
    root_add(world, outer);
    size_t last = table;
    for (size_t i = 2; i < world->count; i++) /* a list behind the table */
        if (world->blocks[i].size == 96 && i != table) {
            edge_add(world, last, 3, i);
            last = i;
            inside++;
        }
    world_judge(world);
    assert_int_equal(mw_holder_find(&world->reach, &world->image, 96, &holder), MW_OK);
    assert_true(inside > 20);
    assert_true(holder.rank != MW_RANK_NONE);
    assert_true(holder.retained_count >= inside * 9 / 10);
    assert_true(holder.has_root && holder.root.kind == MW_ROOT_ANONYMOUS);
    world_delete(world);
}

/* Lost blocks by size and by what their first word points to; nothing here is a module's. */
static void test_groups(void **state)
{
    (void)state;
    struct world *world = world_new(13, 0);
    struct mw_lost_groups groups;
    struct mw_error err = {0};
    struct mw_context context;
    uint64_t counts[512 / 16] = {0};
    mw_context_init(&context);
    for (size_t i = 0; i < world->count; i++)
        if (is_used(world, i)) {
            counts[world->blocks[i].size / 16]++;
            word_put(world, start_of(world, i) + 8, 4711); /* the same in all */
            word_put(world, start_of(world, i) + 16, i);
        }
    world_judge(world);
    assert_int_equal(mw_lost_groups_make(&world->reach, &world->image, &context, &groups, &err),
                     MW_OK);
    assert_int_equal(groups.unread_count, 0);
    uint64_t last = UINT64_MAX, sizes = 0, direct = 0;
    for (size_t i = 0; i < groups.groups.count; i++) {
        const struct mw_lost_group *group = &groups.groups.items[i];
        assert_true(group->bytes <= last);
        last = group->bytes;
        sizes++;
        direct += group->direct_count;
        assert_int_equal(group->count, counts[group->size_bytes / 16]);
        assert_int_equal(group->bytes, group->count * group->size_bytes);
        assert_int_equal(group->usable_bytes, group->size_bytes - 8);
        assert_true(group->constant >> 1 & 1);
        assert_int_equal(group->words[1], 4711);
        if (group->count > 1)
            assert_false(group->constant >> 2 & 1);
        assert_true(group->sample_count > 0 && group->sample_count <= group->count);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        sizes -= counts[i] > 0;
    assert_int_equal(sizes, 0);
    assert_int_equal(direct, world->reach.direct_count);
    mw_lost_groups_deinit(&groups);
    world_delete(world);
}

/* Lists across chunks, and their limit. */
static void test_edges(void **state)
{
    (void)state;
    enum { SOURCES = 3, EACH = MW_EDGE_CHUNK / 2 + 7 };
    struct mw_edges edges;
    struct mw_edge_writer writer;
    assert_int_equal(mw_edges_init(&edges, SOURCES + 2, (uint64_t)16 << 20), MW_OK);
    mw_edge_writer_init(&writer, &edges);
    for (uint32_t source = 0; source < SOURCES; source++)
        for (uint32_t i = 0; i < EACH; i++)
            mw_edge_write(&writer, source, i ^ source);
    mw_edge_write(&writer, SOURCES, 42);
    assert_int_equal(mw_edge_writer_close(&writer), MW_OK);
    for (uint32_t source = 0; source < SOURCES; source++) {
        struct mw_edge_reader reader = mw_edges_of(&edges, source);
        uint32_t target, count = 0;
        for (; mw_edge_next(&reader, &target); count++)
            assert_int_equal(target, count ^ source);
        assert_int_equal(count, EACH);
    }
    struct mw_edge_reader reader = mw_edges_of(&edges, SOURCES);
    uint32_t target;
    assert_true(mw_edge_next(&reader, &target) && target == 42);
    assert_false(mw_edge_next(&reader, &target));
    reader = mw_edges_of(&edges, SOURCES + 1);
    assert_false(mw_edge_next(&reader, &target));
    mw_edges_deinit(&edges);

    assert_int_equal(mw_edges_init(&edges, 1, 4 * MW_EDGE_CHUNK), MW_OK); /* one chunk */
    mw_edge_writer_init(&writer, &edges);
    for (uint32_t i = 0; i < 3 * MW_EDGE_CHUNK; i++)
        mw_edge_write(&writer, 0, i & 0xffff);
    assert_int_equal(mw_edge_writer_close(&writer), MW_LIMIT);
    mw_edges_deinit(&edges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_chance), cmocka_unit_test(test_nothing_points),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_lost_to_itself),
        cmocka_unit_test(test_holder),    cmocka_unit_test(test_groups),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
