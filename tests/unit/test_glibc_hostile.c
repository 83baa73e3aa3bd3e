/* tests/unit/test_glibc_hostile.c: heaps that were built and then damaged. Whatever the bytes say:
 * no hang, no crash, every byte accounted for once, and a finding that names the damage. */
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20, SECONDS_MAX = 30 };

struct fixture {
    struct heap_builder *heap;
    struct mw_image image;
    struct heap_walked walked;
};

/* Main arena, a thread arena of two heaps, another of one, three mmapped blocks. */
static struct fixture *fixture_new(const struct heap_family *family)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    struct heap_builder *heap = fixture->heap = heap_new(family);
    heap_map(heap, BRK, 132 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + 132 * KIB);
    heap_tcache_new(heap);
    for (unsigned i = 0; i < 6; i++) {
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        heap_block(heap, 96, MW_BLOCK_TCACHE);
        heap_block(heap, 160, MW_BLOCK_FREE);
    }
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_thread(heap, STACKS, true);
    unsigned arena = heap_arena(heap, FIRST_HEAP, 132 * KIB);
    heap_block(heap, 5000 & ~15, MW_BLOCK_IN_USE);
    heap_block(heap, 30000 & ~15, MW_BLOCK_FREE);
    heap_block(heap, heap_left(heap) - 32, MW_BLOCK_IN_USE);
    heap_thread_fences(heap, MW_BLOCK_IN_USE);
    heap_arena_more(heap, arena, FIRST_HEAP + HEAP_MAX, 132 * KIB);
    heap_block(heap, 64, MW_BLOCK_FASTBIN);
    heap_block(heap, 80 * KIB, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_arena(heap, FIRST_HEAP + 4ull * HEAP_MAX, 132 * KIB);
    heap_block(heap, 1000 & ~15, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + (1 << 20), 200 * KIB, 4096 - 16, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + (2 << 20), 160 * KIB, 0, MW_BLOCK_IN_USE);
    return fixture;
}

/* After fixture_new() and, if wanted, more building: write it down and open. */
static struct fixture *fixture_open(struct fixture *fixture)
{
    heap_finish(fixture->heap);
    heap_open(fixture->heap, &fixture->image);
    return fixture;
}

static void fixture_walk(struct fixture *fixture)
{
    alarm(SECONDS_MAX); /* a hang ends the program */
    heap_walk(&fixture->image, NULL, &fixture->walked);
    alarm(0);
    const char *wrong = heap_meaning_wrong(&fixture->image, &fixture->walked);
    if (wrong)
        fail_msg("glibc %s: %s", fixture->heap->family->name, wrong);
}

static void fixture_delete(struct fixture *fixture)
{
    heap_walked_deinit(&fixture->walked);
    mw_image_close(&fixture->image);
    heap_delete(fixture->heap);
    free(fixture);
}

/* Walk, demand the finding and that nothing is called reconciled, release. */
static void walk_damaged(struct fixture *fixture, const char *finding)
{
    fixture_walk(fixture);
    if (fixture->walked.status != MW_OK)
        fail_msg("status %s: %s", mw_status_name(fixture->walked.status), fixture->walked.err.text);
    if (!mw_finding_find(&fixture->walked.findings, finding)) {
        for (size_t i = 0; i < fixture->walked.findings.count; i++)
            printf("# finding %s\n", fixture->walked.findings.items[i].kind);
        fail_msg("glibc %s: no finding %s", fixture->heap->family->name, finding);
    }
    assert_false(fixture->walked.allocator.reconciled);
    fixture_delete(fixture);
}

static void walk_exact(struct fixture *fixture, const char *finding)
{
    fixture_walk(fixture);
    const char *wrong = heap_differs(fixture->heap, &fixture->image, &fixture->walked);
    if (wrong)
        fail_msg("glibc %s: %s", fixture->heap->family->name, wrong);
    if (finding && !mw_finding_find(&fixture->walked.findings, finding))
        fail_msg("no finding %s", finding);
    fixture_delete(fixture);
}

/* Something that looks like an mmapped block, and is none. */
static void decoy(struct heap_builder *heap, mw_addr start, uint64_t total)
{
    heap_map(heap, start, total, "");
    heap_put(heap, start + 8, (total - heap->family->mmap_tail) | 2);
}

static void test_decoys_beyond_the_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct fixture *fixture = fixture_new(&heap_families[i]);
        decoy(fixture->heap, MMAPPED - (8 << 20), 2 << 20);
        decoy(fixture->heap, MMAPPED - (4 << 20), 1 << 20);
        walk_exact(fixture_open(fixture), "mmapped-lookalikes");
    }
}

static void test_decoys_told_by_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int count = 1; count <= 2; count++) {
            struct fixture *fixture = fixture_new(&heap_families[i]);
            decoy(fixture->heap, MMAPPED - (8 << 20), 12 * KIB);
            if (count == 2)
                decoy(fixture->heap, MMAPPED + (8 << 20), 40 * KIB);
            walk_exact(fixture_open(fixture), count == 1 ? NULL : "mmapped-lookalikes");
        }
}

/* A page that looks like a block, met before the last one when every page is looked at: that one is
 * in the middle of a mapping, as when the kernel joined two. */
static void test_decoy_before_a_hidden_block(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int count = 1; count <= 2; count++) {
            struct fixture *fixture = fixture_new(&heap_families[i]);
            for (int hidden = 0; hidden < count; hidden++) {
                mw_addr start = MMAPPED + ((mw_addr)(8 + 4 * hidden) << 20);
                uint64_t total = (uint64_t)(100 + 40 * hidden) * KIB;
                heap_map(fixture->heap, start, 64 * KIB + total, "");
                heap_mmapped(fixture->heap, start + 64 * KIB, total, 0, MW_BLOCK_IN_USE);
            }
            mw_addr start = MMAPPED - (8 << 20);
            heap_map(fixture->heap, start, 1 << 20, "");
            heap_put(fixture->heap, start + 64 * KIB + 8,
                     (12 * KIB - fixture->heap->family->mmap_tail) | 2);
            walk_exact(fixture_open(fixture), fixture->heap->family->mmap_tail || count == 2
                                                  ? "mmapped-lookalikes"
                                                  : NULL);
        }
}

/* Behind the last block nothing is looked at once count and sum agree. */
static void test_decoy_behind_is_not_met(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct fixture *fixture = fixture_new(&heap_families[i]);
        decoy(fixture->heap, MMAPPED + (8 << 20), 132 * KIB);
        walk_exact(fixture_open(fixture), NULL);
    }
}

/* realloc of a block that memalign moved sets the size in the moved header alone. */
static void test_moved_block_resized(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int grown = 0; grown < 2; grown++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            uint64_t before = (grown ? 168ull : 232ull) * KIB;
            heap_put(fixture->heap, MMAPPED + (1 << 20) + 8,
                     (before - heap_families[i].mmap_tail) | 2);
            walk_exact(fixture, NULL);
        }
}

static void test_lock_held(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t arena = 0; arena < 3; arena++) {
            struct fixture *fixture = fixture_new(&heap_families[i]);
            fixture->heap->arenas[arena].mutex = 2;
            fixture_open(fixture);
            fixture->image.kind = MW_IMAGE_LIVE;
            fixture_walk(fixture);
            assert_int_equal(fixture->walked.status, MW_LIMIT);
            assert_non_null(strstr(fixture->walked.err.text, "busy"));
            assert_int_equal(fixture->walked.err.address, fixture->heap->arenas[arena].address);
            heap_walked_deinit(&fixture->walked);
            fixture->image.kind = MW_IMAGE_CORE; /* cannot be asked again */
            walk_exact(fixture, "arena-locked");
        }
}

static mw_addr next_field(const struct heap_builder *heap, size_t arena)
{
    return heap->arenas[arena].address + heap->family->bins + 2048;
}

/* A core without the heaps of threads: what can be read is still told. */
static void test_ring_leads_nowhere(void **state)
{
    (void)state;
    const mw_addr targets[] = {
        0,     0x7f0000000020, FIRST_HEAP + 48, FIRST_HEAP + 32, 0x7f1230000030, UINT64_MAX - 15,
        STACKS};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            if (heap_families[i].heap_info == (targets[k] & 0xff) && targets[k] >= FIRST_HEAP &&
                targets[k] < FIRST_HEAP + 64)
                heap_put(fixture->heap, FIRST_HEAP, 0); /* no heap_info any more */
            heap_put(fixture->heap, next_field(fixture->heap, 1), targets[k]);
            walk_damaged(fixture, "arena-ring-torn");
        }
}

static void test_ring_torn_at_main(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
        heap_put(fixture->heap, next_field(fixture->heap, 0), 0x7f1230000030);
        fixture_walk(fixture);
        assert_int_equal(fixture->walked.status, MW_OK);
        assert_non_null(mw_finding_find(&fixture->walked.findings, "arena-ring-torn"));
        assert_int_equal(fixture->walked.allocator.arena_count, 1);
        assert_int_equal(fixture->walked.allocator.arenas[0].system_bytes, 132 * KIB);
        assert_true(fixture->walked.allocator.arenas[0].reconciled);
        assert_int_equal(fixture->walked.allocator.mmapped_count, 3);
        fixture_delete(fixture);
    }
}

static void test_ring_does_not_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t from = 1; from < 3; from++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            size_t to = from == 1 ? 1 : from - 1; /* a loop of one, and of two arenas */
            heap_put(fixture->heap, next_field(fixture->heap, from),
                     fixture->heap->arenas[to].address);
            fixture_walk(fixture);
            assert_int_equal(fixture->walked.status, MW_OK);
            assert_non_null(mw_finding_find(&fixture->walked.findings, "arena-ring-torn"));
            assert_int_equal(fixture->walked.allocator.arena_count, from + 1);
            fixture_delete(fixture);
        }
}

static uint64_t stored_link(const struct heap_builder *heap, mw_addr at, mw_addr to)
{
    return heap->family->safe_linking ? to ^ (at >> 12) : to;
}

/* The list's last block leads to the first one, and a block to itself. */
static void test_cyclic_fastbin(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int self = 0; self < 2; self++) {
            if (heap_families[i].fastbins == HEAP_NONE)
                continue;
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            mw_addr first = fixture->heap->arenas[0].fastbins[1], last = 0;
            for (size_t k = 0; k < fixture->heap->expect_count && last == 0; k++)
                if (fixture->heap->expects[k].block.state == MW_BLOCK_FASTBIN)
                    last = fixture->heap->expects[k].block.address; /* LIFO: the first freed */
            assert_int_not_equal(first, last);
            heap_put(fixture->heap, last + 16,
                     stored_link(fixture->heap, last + 16, self ? last : first));
            walk_exact(fixture, "fastbin-torn"); /* every block of it is known all the same */
        }
}

static void test_wild_fastbin(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        if (heap_families[i].fastbins == HEAP_NONE)
            continue;
        const uint64_t wild[] = {1, STACKS, UINT64_MAX, MMAPPED + 4096, BRK + 16};
        for (size_t k = 0; k < sizeof wild / sizeof *wild; k++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            heap_put(fixture->heap, fixture->heap->main_arena + heap_families[i].fastbins + 8 * 3,
                     wild[k]);
            walk_exact(fixture, "fastbin-torn");
        }
    }
}

/* The first link that is met lies about the form of links: only 2.27 to 2.34 must rely on it. */
static void test_first_link_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        const struct heap_family *family = &heap_families[i];
        if (family->fastbins == HEAP_NONE || family->heap_info == 32)
            continue;
        struct fixture *fixture = fixture_open(fixture_new(family));
        mw_addr head = fixture->heap->main_arena + family->fastbins;
        heap_put(fixture->heap, head, BRK + 132 * KIB - 64); /* inside top, size 32, link 0 */
        heap_put(fixture->heap, BRK + 132 * KIB - 64 + 8, 32 | 1);
        fixture_walk(fixture);
        assert_int_equal(fixture->walked.allocator.tcache_count, 6);
        assert_int_equal(fixture->walked.allocator.fastbin_count, 6 + 1); /* main and thread */
        fixture_delete(fixture);
    }
}

/* Cyclic, too short, of another size, outside: none is believed, its blocks are in use. */
static void test_torn_tcache(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        if (heap_families[i].tcache_chunk == 0)
            continue;
        for (unsigned kind = 0; kind < 6; kind++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            struct heap_builder *heap = fixture->heap;
            mw_addr at = heap->tcaches[0].chunk + 16;
            mw_addr slot = at + heap_families[i].entries + 8 * (96 / 16 - 2), head;
            head = heap_get(heap, slot);
            const mw_addr heads[] = {0, UINT64_MAX - 15, STACKS + 16, BRK + 0x20, head, head + 16};
            heap_put(heap, slot, heads[kind]);
            if (heads[kind] == head)
                heap_put(heap, head, stored_link(heap, head, head));
            fixture_walk(fixture);
            assert_int_equal(fixture->walked.status, MW_OK);
            assert_int_equal(fixture->walked.allocator.tcache_count, 0);
            fixture_delete(fixture);
        }
    }
}

/* heap_info.prev: to itself, to the newer one, to another arena's, outside. */
static void test_heap_chain(void **state)
{
    (void)state;
    const mw_addr targets[] = {
        FIRST_HEAP,     FIRST_HEAP + HEAP_MAX, FIRST_HEAP + 4ull * HEAP_MAX,
        0x7f2240000000, FIRST_HEAP + 4096,     UINT64_MAX & ~(HEAP_MAX - 1ull)};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
            for (int system = 0; system < 2; system++) {
                struct fixture *fixture = fixture_new(&heap_families[i]);
                if (system) /* no sum ends the loop */
                    fixture->heap->arenas[1].system_mem = (uint64_t)1 << 60;
                fixture_open(fixture);
                heap_put(fixture->heap, FIRST_HEAP + 8, targets[k]);
                fixture_walk(fixture);
                assert_int_equal(fixture->walked.status, MW_OK);
                assert_non_null(mw_finding_find(&fixture->walked.findings, "heap-damaged"));
                assert_int_equal(fixture->walked.allocator.arenas[1].heap_count, 2);
                fixture_delete(fixture);
            }
}

static void test_heap_size(void **state)
{
    (void)state;
    const uint64_t sizes[] = {0, 1, 4096, 1 << 20, UINT64_MAX, (uint64_t)1 << 63, 133 * KIB};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (unsigned heap = 0; heap < 2; heap++) {
                struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
                heap_put(fixture->heap, FIRST_HEAP + heap * (mw_addr)HEAP_MAX + 16, sizes[k]);
                walk_damaged(fixture, "arena-not-reconciled");
            }
}

/* Chunk sizes that overflow, are too small, too large, odd, in every kind of segment. */
static void test_chunk_sizes(void **state)
{
    (void)state;
    const uint64_t heads[] = {0,
                              1,
                              9,
                              17,
                              24,
                              UINT64_MAX,
                              UINT64_MAX - 14,
                              (uint64_t)1 << 63,
                              ((uint64_t)1 << 47) | 1,
                              0x23,
                              1 << 30,
                              8 | 1};
    for (size_t i = 0; i < heap_family_count; i++) {
        struct fixture *probe = fixture_new(&heap_families[i]);
        size_t blocks = probe->heap->expect_count;
        heap_delete(probe->heap);
        free(probe);
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            for (size_t block = 0; block < blocks; block += 3) {
                struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
                const struct mw_block *victim = &fixture->heap->expects[block].block;
                heap_put(fixture->heap, victim->address + 8, heads[k]);
                fixture_walk(fixture);
                fixture_delete(fixture);
            }
    }
}

static void test_free_chunk_contradicts_its_footer(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_open(fixture_new(&heap_families[8]));
    for (size_t i = 0; i < fixture->heap->expect_count; i++) {
        const struct mw_block *block = &fixture->heap->expects[i].block;
        if (block->state == MW_BLOCK_FREE) {
            heap_put(fixture->heap, block->address + block->size, block->size + 16);
            break;
        }
    }
    walk_damaged(fixture, "heap-damaged");
}

static void test_top(void **state)
{
    (void)state;
    const mw_addr tops[] = {0,          BRK + 8,         BRK - 4096, BRK + 132 * KIB,
                            UINT64_MAX, UINT64_MAX - 15, STACKS,     FIRST_HEAP,
                            BRK + 4096};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof tops / sizeof *tops; k++)
            for (size_t arena = 0; arena < 3; arena++) {
                struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
                heap_put(fixture->heap,
                         fixture->heap->arenas[arena].address + heap_families[i].bins - 16,
                         tops[k]);
                fixture_walk(fixture);
                assert_int_equal(fixture->walked.status, MW_OK);
                fixture_delete(fixture);
            }
}

static void test_system_mem(void **state)
{
    (void)state;
    const uint64_t sizes[] = {0,      1, 4096, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 4095,
                              1 << 30};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (size_t arena = 0; arena < 3; arena++) {
                struct fixture *fixture = fixture_new(&heap_families[i]);
                fixture->heap->arenas[arena].system_mem = sizes[k];
                walk_damaged(fixture_open(fixture), "arena-not-reconciled");
            }
}

static void test_parameters(void **state)
{
    (void)state;
    const uint64_t values[] = {0,          1,          2,          7,          1000,   INT32_MAX,
                               UINT32_MAX, 1ull << 32, 1ull << 62, UINT64_MAX, STACKS, FIRST_HEAP};
    for (size_t i = 0; i < heap_family_count; i++)
        for (unsigned field = 0; field < heap_families[i].par_size; field += 4)
            for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
                struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
                heap_put(fixture->heap, fixture->heap->mp + field, values[k]);
                fixture_walk(fixture);
                assert_int_equal(fixture->walked.status, MW_OK);
                fixture_delete(fixture);
            }
}

static void test_no_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
        memset(heap_bytes(fixture->heap, fixture->heap->mp), 0, heap_families[i].par_size);
        fixture_walk(fixture);
        const struct mw_allocator *allocator = &fixture->walked.allocator;
        assert_int_equal(fixture->walked.status, MW_OK);
        assert_non_null(mw_finding_find(&fixture->walked.findings, "mp-not-found"));
        assert_false(allocator->reconciled);
        assert_true(allocator->lacks_parameters);
        assert_true(allocator->mmapped_bytes == MW_UNKNOWN);
        assert_true(allocator->mmapped_count == MW_UNKNOWN);
        assert_true(allocator->arena_limit == MW_UNKNOWN);
        assert_true(allocator->arenas[0].reconciled); /* its own counter is there */
        fixture_delete(fixture);
    }
}

static void test_no_glibc(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_open(fixture_new(&heap_families[0]));
    for (unsigned bin = 0; bin < 5; bin++)
        heap_put(fixture->heap, fixture->heap->main_arena + heap_families[0].bins + bin * 16,
                 0x1234);
    fixture_walk(fixture);
    assert_int_equal(fixture->walked.status, MW_NOT_FOUND);
    fixture_delete(fixture);
}

/* A thread in the middle of malloc leaves a bin or two half linked. */
static void test_torn_bins(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (unsigned bins = 1; bins <= 4; bins++) {
            struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
            for (unsigned bin = 0; bin < bins; bin++)
                heap_put(fixture->heap,
                         fixture->heap->main_arena + heap_families[i].bins + bin * 48, 0x1234);
            fixture_walk(fixture);
            assert_int_equal(fixture->walked.status, MW_OK);
            assert_true(fixture->walked.allocator.arena_count >= 3);
            fixture_delete(fixture);
        }
}

/* Every field of malloc_state and heap_info takes every odd value. */
static void test_every_word_of_an_arena(void **state)
{
    (void)state;
    const uint64_t values[] = {0,          1,        16,      UINT64_MAX,   UINT64_MAX - 15,
                               FIRST_HEAP, BRK + 16, MMAPPED, STACKS + 4096};
    for (size_t i = 0; i < heap_family_count; i += 3)
        for (unsigned arena = 0; arena < 2; arena++)
            for (unsigned at = 0; at < heap_families[i].state_size; at += 8) {
                if (at > 200 && at < 2000)
                    at += 248; /* one bin is like another */
                for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
                    struct fixture *fixture = fixture_open(fixture_new(&heap_families[i]));
                    heap_put(fixture->heap, fixture->heap->arenas[arena].address + at, values[k]);
                    fixture_walk(fixture);
                    fixture_delete(fixture);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoys_beyond_the_totals),
        cmocka_unit_test(test_decoys_told_by_size),
        cmocka_unit_test(test_decoy_before_a_hidden_block),
        cmocka_unit_test(test_decoy_behind_is_not_met),
        cmocka_unit_test(test_moved_block_resized),
        cmocka_unit_test(test_lock_held),
        cmocka_unit_test(test_ring_leads_nowhere),
        cmocka_unit_test(test_ring_torn_at_main),
        cmocka_unit_test(test_ring_does_not_close),
        cmocka_unit_test(test_cyclic_fastbin),
        cmocka_unit_test(test_wild_fastbin),
        cmocka_unit_test(test_first_link_lies),
        cmocka_unit_test(test_torn_tcache),
        cmocka_unit_test(test_heap_chain),
        cmocka_unit_test(test_heap_size),
        cmocka_unit_test(test_chunk_sizes),
        cmocka_unit_test(test_free_chunk_contradicts_its_footer),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_system_mem),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_no_parameters),
        cmocka_unit_test(test_no_glibc),
        cmocka_unit_test(test_torn_bins),
        cmocka_unit_test(test_every_word_of_an_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
