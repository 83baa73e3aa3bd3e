/* tests/unit/test_musl_walk.c: heaps of mallocng built byte by byte; every block against what was
 * built. */
#include "base/alloc.h"
#include "musl_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mw_image image;
static struct musl_walked walked;

static int forget(void **state)
{
    (void)state;
    walked = (struct musl_walked){0};
    return 0;
}

static void walk(struct musl_heap *heap)
{
    musl_open(heap, &image);
    musl_walk(&image, &walked);
    assert_null(musl_meaning_wrong(&image, &walked));
}

static void done(struct musl_heap *heap)
{
    musl_walked_deinit(&walked);
    mw_image_close(&image);
    musl_heap_free(heap);
}

/* The block at address; fails when none begins there. */
static const struct mw_block *block_at(mw_addr address)
{
    for (size_t i = 0; i < walked.block_count; i++)
        if (walked.blocks[i].address == address)
            return &walked.blocks[i];
    fail_msg("no block at 0x%llx", (unsigned long long)address);
    return NULL;
}

static void expect(mw_addr address, uint64_t size, enum mw_block_state state)
{
    const struct mw_block *block = block_at(address);
    assert_int_equal(block->size, size);
    assert_int_equal(block->state, state);
}

/* Every slot of a group that holds no group. */
static void expect_group(struct musl_heap *heap, size_t index, uint32_t nested_mask)
{
    const struct mw_musl_meta *meta = musl_meta(heap, index);
    uint64_t stride = mw_musl_class_bytes(mw_musl_class(meta->bits));
    for (unsigned i = 0; i <= mw_musl_last_index(meta->bits); i++)
        if (!(nested_mask >> i & 1))
            expect(meta->mem + MW_MUSL_GROUP_HEADER + i * stride, stride,
                   meta->freed_mask >> i & 1 ? MW_BLOCK_FREE : MW_BLOCK_IN_USE);
}

static void test_one_group(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    size_t group = musl_group(heap, 7, 31, 0x0f);
    walk(heap);
    assert_int_equal(walked.status, MW_OK);
    assert_true(walked.allocator.walked && walked.allocator.reconciled);
    assert_int_equal(walked.findings.count, 0);
    assert_int_equal(walked.allocator.in_use_count, 27);
    assert_int_equal(walked.allocator.in_use_bytes, 27 * 128);
    assert_int_equal(walked.allocator.free_count, 4);
    assert_int_equal(walked.allocator.system_bytes, 2 * MUSL_PAGE); /* the area, the group */
    assert_int_equal(walked.allocator.arena_count, 1);
    assert_int_equal(walked.allocator.arenas[0].address, MUSL_DATA + MUSL_CONTEXT_AT);
    assert_int_equal(walked.allocator.trimmable_bytes, 0);
    expect(MUSL_HEAP, MW_MUSL_GROUP_HEADER, MW_BLOCK_METADATA);
    expect_group(heap, group, 0);
    expect(MUSL_HEAP + 16 + 31 * 128, MUSL_PAGE - 16 - 31 * 128, MW_BLOCK_METADATA);
    done(heap);
}

/* Groups in slots of groups in slots: each byte once. */
static void test_nested_groups(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    size_t outer = musl_group(heap, 27, 7, 0x40);
    size_t middle = musl_nest(heap, outer, 1, 15, 3, 0x4);
    size_t inner = musl_nest(heap, middle, 0, 2, 9, 0x155);
    size_t other = musl_nest(heap, outer, 5, 0, 30, 0x1);
    walk(heap);
    assert_true(walked.allocator.reconciled);
    expect_group(heap, outer, 1u << 1 | 1u << 5);
    expect_group(heap, middle, 1u << 0);
    expect_group(heap, inner, 0);
    expect_group(heap, other, 0);
    /* 4 slots of the outer, 1 of the middle one, 4 of the inner one, 29 of the other */
    assert_int_equal(walked.allocator.in_use_count, 4 + 1 + 4 + 29);
    assert_int_equal(walked.allocator.free_count, 1 + 1 + 5 + 1);
    done(heap);
}

/* Blocks with a mapping of their own, also below the threshold; one that is retained is a group. */
static void test_blocks_of_their_own(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    musl_own(heap, 33);
    size_t small = musl_group(heap, 39, 1, 0); /* the class has 32,752 bytes */
    struct mw_musl_meta *meta = musl_meta(heap, small);
    meta->bits = (meta->bits & 0xfff) | (uint64_t)5 << 12;
    size_t whole = musl_group(heap, 31, 1, 1);
    walk(heap);
    assert_true(walked.allocator.reconciled);
    assert_int_equal(walked.allocator.mmapped_count, 2);
    assert_int_equal(walked.allocator.mmapped_bytes, 38 * MUSL_PAGE);
    expect(MUSL_OWN + 16, 33 * MUSL_PAGE - 16, MW_BLOCK_IN_USE);
    expect(MUSL_HEAP + 16, 5 * MUSL_PAGE - 16, MW_BLOCK_IN_USE);
    mw_addr retained = musl_meta(heap, whole)->mem;
    expect(retained + 16, 2 * MUSL_PAGE - 16, MW_BLOCK_FREE);
    for (size_t i = 0; i < walked.allocator.segment_count; i++)
        if (walked.allocator.segments[i].start == retained)
            assert_int_equal(walked.allocator.segments[i].kind, MW_SEGMENT_GROUPS);
    done(heap);
}

/* What the loader gave of its own data: never given back, not in malloc's counters. */
static void test_given_memory(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    musl_give(heap, 23, false);
    musl_give(heap, 15, true);
    walk(heap);
    assert_true(walked.allocator.reconciled);
    expect(MUSL_DATA + MUSL_PAGE + 16, 127 * 16, MW_BLOCK_IN_USE);
    expect(MUSL_DATA + MUSL_PAGE + 16 + 127 * 16 + 16, 31 * 16, MW_BLOCK_FREE);
    done(heap);
}

/* Groups that touch are one segment, areas another, blocks of their own one each. */
static void test_segments(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    walk(heap);
    assert_int_equal(walked.status, MW_OK);
    assert_true(walked.allocator.reconciled);
    static const enum mw_segment_kind kinds[] = {
        MW_SEGMENT_METAS, MW_SEGMENT_GROUPS, MW_SEGMENT_SLOT, MW_SEGMENT_SLOT, MW_SEGMENT_GROUPS};
    assert_int_equal(walked.allocator.segment_count, sizeof kinds / sizeof *kinds);
    for (size_t i = 0; i < walked.allocator.segment_count; i++) {
        assert_int_equal(walked.allocator.segments[i].kind, kinds[i]);
        assert_int_equal(walked.allocator.segments[i].arena,
                         kinds[i] == MW_SEGMENT_SLOT ? MW_ARENA_NONE : 0);
    }
    assert_int_equal(walked.allocator.heap_count, 3);
    assert_int_equal(walked.allocator.mmapped_count, 2);
    done(heap);
}

static void test_residency(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    musl_group(heap, 24, 7, 0x7e); /* slots of 2,336 bytes on 4 pages */
    memset(heap->heap_pages + 1, 0, 2);
    heap->heap_pages[3] = MW_PAGE_SWAPPED;
    walk(heap);
    uint64_t swap = 0, rss = 0;
    for (size_t i = 0; i < walked.allocator.segment_count; i++) {
        swap += walked.allocator.segments[i].split.free_swap;
        rss += walked.allocator.segments[i].split.free_rss;
    }
    assert_int_equal(swap, 16 + 7 * 2336 - 3 * MUSL_PAGE);
    assert_int_equal(walked.allocator.free_resident_bytes, rss);
    assert_int_equal(walked.allocator.in_use_bytes, 2336);
    assert_int_equal(rss, MUSL_PAGE - 16 - 2336);
    done(heap);

    heap = musl_heap_new(1);
    musl_group(heap, 24, 7, 0x7e);
    musl_open(heap, &image);
    image.can &= ~(unsigned)MW_CAN_PAGES;
    musl_walk(&image, &walked);
    assert_null(musl_meaning_wrong(&image, &walked));
    assert_int_equal(walked.allocator.free_resident_bytes, MW_UNKNOWN);
    assert_int_equal(walked.allocator.trimmable_bytes, MW_UNKNOWN);
    done(heap);
}

/* What free slots last held is told by kind. */
static void test_content_of_free_slots(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    musl_group(heap, 31, 20, 0xfffff & ~1u);
    for (size_t i = 0; i < 40 * MUSL_PAGE; i++)
        heap->heap[i + 16] = (uint8_t) "lorem ipsum dolor sit amet "[i % 27];
    uint64_t meta = musl_meta_address(0);
    memcpy(heap->heap, &meta, sizeof meta);
    walk(heap);
    assert_true(walked.allocator.content_bytes[MW_CONTENT_TEXT] >= 128 << 10);
    done(heap);
}

static void test_static_program(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    heap->is_static = true;
    walk(heap);
    assert_int_equal(walked.status, MW_OK);
    assert_string_equal(walked.allocator.version, "mallocng");
    assert_true(walked.allocator.reconciled);
    done(heap);
}

/* A core without the names of files: the context is found all the same. */
static void test_core_without_names(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    musl_open(heap, &image);
    image.regions.items[3].name = "";
    musl_walk(&image, &walked);
    assert_null(musl_meaning_wrong(&image, &walked));
    assert_int_equal(walked.status, MW_OK);
    assert_true(walked.allocator.reconciled);
    done(heap);
}

static void test_musl_that_never_allocated(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_new(1);
    memset(heap->data, 0, sizeof heap->data);
    musl_open(heap, &image);
    struct mw_allocator allocator;
    assert_int_equal(mw_musl_walker.probe(&image, &allocator, NULL), MW_OK);
    assert_int_equal(mw_musl_walker.walk(&image, NULL, NULL, &allocator, NULL, NULL), MW_NOT_FOUND);
    assert_false(allocator.walked);
    mw_image_close(&image);
    heap->is_static = true;
    musl_open(heap, &image);
    assert_int_equal(mw_musl_walker.probe(&image, &allocator, NULL), MW_NOT_FOUND);
    done(heap);
}

/* The example with a page of constants of libc, which has the text behind a NUL and `before`. */
static void open_with_version(struct musl_heap *heap, char before, const char *text)
{
    static uint8_t constants[MUSL_PAGE];
    const uint32_t rw = MW_PERM_READ | MW_PERM_WRITE;
    const char *libc = "/lib/ld-musl-x86_64.so.1";
    memset(constants, 0, sizeof constants);
    constants[100] = (uint8_t)before;
    memcpy(constants + 101, text, strlen(text));
    const struct mw_image_memory_part parts[] = {
        {{.start = MUSL_AREAS,
          .end = MUSL_AREAS + sizeof heap->areas,
          .perms = rw,
          .name = "[heap]"},
         heap->areas,
         NULL},
        {{.start = MUSL_HEAP, .end = MUSL_HEAP + sizeof heap->heap, .perms = rw, .name = ""},
         heap->heap,
         NULL},
        {{.start = MUSL_OWN, .end = MUSL_OWN + sizeof heap->own, .perms = rw, .name = ""},
         heap->own,
         NULL},
        {{.start = MUSL_DATA - MUSL_PAGE,
          .end = MUSL_DATA,
          .perms = MW_PERM_READ,
          .inode = 7,
          .name = libc},
         constants,
         NULL},
        {{.start = MUSL_DATA,
          .end = MUSL_DATA + sizeof heap->data,
          .perms = rw,
          .inode = 7,
          .name = libc},
         heap->data,
         NULL},
    };
    assert_int_equal(mw_image_open_memory(parts, 5, &image, NULL), MW_OK);
}

/* The malloc before 1.2.1 is recognised and not walked, whatever lies around. */
static void test_versions(void **state)
{
    (void)state;
    static const struct {
        char before;
        const char *text, *version;
        bool is_walked, marks_free; /* MADV_FREE, until 1.2.3 */
    } cases[] = {
        {0, "1.1.24", "1.1.24", false, false},
        {0, "1.2.0", "1.2.0", false, false},
        {0, "1.2.1", "1.2.1", true, true},
        {0, "1.2.3", "1.2.3", true, true},
        {0, "1.2.4", "1.2.4", true, false},
        {0, "1.2.5", "1.2.5", true, false},
        {0, "1.2.5-git-17-gabc", "1.2.5", true, false},
        {0, "1.3.0", "1.3.0", true, false},
        {0, "1.2.", "mallocng", true, true},
        {0, "1.2.5 or later", "mallocng", true, true},
        {'x', "1.2.3", "mallocng", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct musl_heap *heap = musl_heap_example();
        open_with_version(heap, cases[i].before, cases[i].text);
        musl_walk(&image, &walked);
        assert_null(musl_meaning_wrong(&image, &walked));
        assert_string_equal(walked.allocator.version, cases[i].version);
        assert_int_equal(walked.allocator.walked, cases[i].is_walked);
        assert_int_equal(walked.allocator.marks_free, cases[i].marks_free);
        assert_int_equal(walked.status, cases[i].is_walked ? MW_OK : MW_NOT_FOUND);
        done(heap);
    }
}

/* Beside a loader that is not musl's nothing is looked for. */
static void test_not_beside_glibc(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    heap->is_static = true;
    musl_open(heap, &image);
    image.regions.items[2].name = "/lib/x86_64-linux-gnu/libc.so.6";
    struct mw_allocator allocator;
    assert_int_equal(mw_musl_walker.probe(&image, &allocator, NULL), MW_NOT_FOUND);
    done(heap);
}

static void test_allocations_fail(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    heap->is_static = true; /* without a version to look for: lacking memory for that is no error */
    long n = 0;
    for (bool is_done = false; !is_done; n++) {
        musl_open(heap, &image);
        mw_alloc_fail_after(n);
        musl_walk(&image, &walked);
        mw_alloc_fail_after(-1);
        is_done = walked.status == MW_OK;
        if (!is_done)
            assert_int_equal(walked.status, MW_NOMEM);
        musl_walked_deinit(&walked);
        mw_image_close(&image);
        assert_true(n < 100);
    }
    assert_true(n > 5);
    musl_heap_free(heap);
}

static void test_visitor_ends_the_walk(void **state)
{
    (void)state;
    struct musl_heap *heap = musl_heap_example();
    struct mw_context context;
    mw_context_init(&context);
    musl_open(heap, &image);
    context.canceled = true;
    assert_int_equal(mw_musl_walker.probe(&image, &walked.allocator, NULL), MW_OK);
    assert_int_equal(mw_musl_walker.walk(&image, NULL, &context, &walked.allocator,
                                         &walked.findings, &walked.err),
                     MW_CANCELED);
    done(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_group, forget),
        cmocka_unit_test_setup(test_nested_groups, forget),
        cmocka_unit_test_setup(test_blocks_of_their_own, forget),
        cmocka_unit_test_setup(test_given_memory, forget),
        cmocka_unit_test_setup(test_segments, forget),
        cmocka_unit_test_setup(test_residency, forget),
        cmocka_unit_test_setup(test_content_of_free_slots, forget),
        cmocka_unit_test_setup(test_static_program, forget),
        cmocka_unit_test_setup(test_core_without_names, forget),
        cmocka_unit_test_setup(test_musl_that_never_allocated, forget),
        cmocka_unit_test_setup(test_versions, forget),
        cmocka_unit_test_setup(test_not_beside_glibc, forget),
        cmocka_unit_test_setup(test_allocations_fail, forget),
        cmocka_unit_test_setup(test_visitor_ends_the_walk, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
