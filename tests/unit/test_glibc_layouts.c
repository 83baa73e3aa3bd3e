/* tests/unit/test_glibc_layouts.c: heaps of every layout from 2.17 to 2.44, built by hand; each
 * block, total, arena, trimmed page and pin is compared with what was built. */
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, FIRST_HEAP = 0x7f0040000000;
static const mw_addr MMAPPED = 0x7f8000000000, STACKS = 0x7f9000000000;
static const mw_addr MORECORE = 0x7fa000000000;

enum { KIB = 1024, HEAP_MAX = 64 << 20 };

/* Walk, compare with the record, release all three. */
static void walk_and_compare(struct heap_builder *heap, const char *what)
{
    heap_finish(heap);
    struct mw_image image;
    heap_open(heap, &image);
    struct heap_walked walked = {0};
    heap_walk(&image, NULL, &walked);
    const char *wrong = heap_differs(heap, &image, &walked);
    if (wrong)
        fail_msg("%s, glibc %s: %s", what, heap->family->name, wrong);
    if (strcmp(walked.allocator.version, heap->family->name) != 0)
        fail_msg("version '%s', built %s", walked.allocator.version, heap->family->name);
    heap_walked_deinit(&walked);
    mw_image_close(&image);
    heap_delete(heap);
}

/* Every state, the smallest sizes and every neighbourhood that matters to trim. */
static void blocks_of_all_kinds(struct heap_builder *heap)
{
    for (unsigned i = 0; i < 5; i++) {
        heap_block(heap, 32 + 16 * i, MW_BLOCK_IN_USE);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        heap_block(heap, 48, MW_BLOCK_FASTBIN);
        heap_block(heap, 112, MW_BLOCK_TCACHE);
    }
    heap_block(heap, 32, MW_BLOCK_FREE);
    heap_block(heap, 1040, MW_BLOCK_TCACHE);
    heap_block(heap, 3 * 4096 + 32, MW_BLOCK_FREE); /* holds whole pages */
    heap_block(heap, 0x1010, MW_BLOCK_IN_USE);
    heap_block(heap, 64, MW_BLOCK_FASTBIN);
    heap_block(heap, 2 * 4096, MW_BLOCK_FREE); /* merges with the fastbin block before it */
    heap_block(heap, 80, MW_BLOCK_FASTBIN);
    heap_block(heap, 32, MW_BLOCK_IN_USE);
    heap_block(heap, 4096 + 48, MW_BLOCK_FREE); /* one page too few for some alignments */
    heap_block(heap, 144, MW_BLOCK_IN_USE);
}

static void main_arena_build(struct heap_builder *heap)
{
    mw_addr start = heap_map(heap, BRK, 132 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, start, start + 132 * KIB);
    heap_tcache_new(heap);
    blocks_of_all_kinds(heap);
    mw_addr large = heap_block(heap, 40 * KIB, MW_BLOCK_FREE);
    heap_pages_set(heap, large + 5000, 9000, 0);
    heap_pages_set(heap, large + 16 * KIB, 9000, MW_PAGE_SWAPPED);
    heap_pages_set(heap, large + 28 * KIB, 5000, MW_PAGE_PRESENT | MW_PAGE_ZERO);
    heap_block(heap, 160, MW_BLOCK_IN_USE);
    heap_block(heap, 96, MW_BLOCK_FASTBIN); /* next to top: consolidates into it */
    mw_addr top = heap_top(heap);
    heap_pages_set(heap, top + 20000, BRK + 132 * KIB - (top + 20000), 0);
}

static struct heap_builder *main_arena_only(const struct heap_family *family)
{
    struct heap_builder *heap = heap_new(family);
    main_arena_build(heap);
    return heap;
}

static void test_main_arena(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_thread(heap, STACKS, true);
        walk_and_compare(heap, "main arena");
    }
}

static void test_without_thread_pointers(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        walk_and_compare(main_arena_only(&heap_families[i]), "no thread pointers");
}

/* Where libc's file cannot be had its constants in memory tell the version, if they are there: a
 * page that is not must not be read, since that would map it in the target. */
static void test_banner_is_not_touched(void **state)
{
    (void)state;
    for (int is_there = 0; is_there < 2; is_there++) {
        struct heap_builder *heap = main_arena_only(&heap_families[7]);
        heap_thread(heap, STACKS, true);
        for (size_t i = 0; i < heap->region_count; i++)
            if (heap->regions[i].perms == MW_PERM_READ && !is_there)
                heap_pages_set(heap, heap->regions[i].start, heap->regions[i].size, 0);
        heap_finish(heap);
        struct mw_image image;
        struct heap_walked walked = {0};
        heap_open(heap, &image);
        heap_walk(&image, NULL, &walked);
        assert_string_equal(walked.allocator.version, is_there ? "2.36" : "2.35-2.42");
        heap_walked_deinit(&walked);
        mw_image_close(&image);
        heap_delete(heap);
    }
}

/* Only the thread without blocks in its tcache can be asked: the walk must find the other. */
static void test_thread_pointer_of_an_idle_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_thread(heap, STACKS, false);
        walk_and_compare(heap, "idle thread");
    }
}

/* One thread's registers are known, the other's are not. */
static void test_some_thread_pointers(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_thread(heap, STACKS, true);
        heap_arena(heap, FIRST_HEAP, 200 * KIB);
        heap_tcache_new(heap);
        blocks_of_all_kinds(heap);
        heap_top(heap);
        heap_thread(heap, STACKS + (1 << 20), true);
        heap->thread_pointers[1] = 0;
        walk_and_compare(heap, "some thread pointers");
    }
}

/* Two heaps of one arena; what is left at the end of the first decides how it is closed. */
static void thread_arena_build(struct heap_builder *heap, mw_addr start, uint64_t left,
                               enum mw_block_state last)
{
    unsigned arena = heap_arena(heap, start, 132 * KIB);
    heap_tcache_new(heap);
    blocks_of_all_kinds(heap);
    heap_block(heap, heap_left(heap) - left, MW_BLOCK_IN_USE);
    heap_thread_fences(heap, last);
    heap_arena_more(heap, arena, start + HEAP_MAX, 256 * KIB);
    heap_block(heap, 100 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
}

static void test_thread_arenas(void **state)
{
    (void)state;
    static const struct {
        uint64_t left;
        enum mw_block_state last;
    } ends[] = {
        {20 * KIB, MW_BLOCK_FREE},                        /* the old top was freed */
        {48, MW_BLOCK_IN_USE},                            /* too small to be freed: a dummy */
        {64, MW_BLOCK_FASTBIN},                           /* exactly one smallest chunk */
        {96, MW_BLOCK_TCACHE},     {32, MW_BLOCK_IN_USE}, /* nothing but the fences */
    };
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_thread(heap, STACKS, true);
        for (unsigned k = 0; k < sizeof ends / sizeof *ends; k++) {
            thread_arena_build(heap, FIRST_HEAP + k * 4ull * HEAP_MAX, ends[k].left, ends[k].last);
            heap_thread(heap, STACKS + (k + 1) * (1ull << 20), k % 2 == 0);
        }
        for (unsigned k = 1; k < 5; k += 2) /* exited threads: found by no TLS */
            heap->thread_pointers[k + 1] = 0;
        heap->arenas[2].attached_threads = 0;
        walk_and_compare(heap, "thread arenas");
    }
}

static void mmapped_build(struct heap_builder *heap)
{
    heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + 132 * KIB, 3 * 4096, 0, MW_BLOCK_IN_USE); /* adjacent */
    heap_mmapped(heap, MMAPPED + 144 * KIB, 200 * KIB, 0x30, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + (16 << 20), 4 << 20, (2 << 20) - 16, MW_BLOCK_IN_USE);
    heap_mmapped(heap, MMAPPED + (32 << 20), 64 * KIB, 4096 - 16, MW_BLOCK_IN_USE);
    heap_pages_set(heap, MMAPPED + 8192, 40000, 0);
}

static void test_mmapped(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        mmapped_build(heap);
        walk_and_compare(heap, "mmapped");
    }
}

/* Merged by the kernel with somebody else's memory in front: no region starts there. */
static void test_mmapped_inside_a_region(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_map(heap, MMAPPED - 64 * KIB, 256 * KIB, "");
        memset(heap_bytes(heap, MMAPPED - 64 * KIB), 0x77, 64 * KIB);
        heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_IN_USE);
        walk_and_compare(heap, "mmapped inside a region");
    }
}

/* 2.43: mmapped blocks can be cached when tcache_max is raised; the drift of mremap is not ours. */
static void test_mmapped_of_2_43(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        if (heap_families[i].mmap_tail == 0)
            continue;
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_TCACHE);
        heap_mmapped(heap, MMAPPED + (1 << 20), 140 * KIB, 0, MW_BLOCK_IN_USE);
        heap_put(heap, MMAPPED + (1 << 20), 1); /* MMAP_HP */
        heap->mmapped_mem += 16 * 3;            /* three reallocs */
        heap_thread(heap, STACKS, true);
        walk_and_compare(heap, "mmapped of 2.43");
    }
}

/* All mmapped blocks are free again; what mremap counted too much stays in mmapped_mem. */
static void test_mmapped_drift_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        if (heap_families[i].mmap_tail == 0)
            continue;
        struct heap_builder *heap = main_arena_only(&heap_families[i]);
        heap->max_n_mmaps = 1;
        heap->mmapped_mem += 16 * 10; /* ten reallocs */
        heap->max_mmapped_mem = 1 << 20;
        heap_thread(heap, STACKS, true);
        walk_and_compare(heap, "drift without blocks");
    }
}

/* fences: how many bytes of the old top are left; foreign: bytes of the other user of sbrk. */
static void foreign_sbrk_build(struct heap_builder *heap, uint64_t left, uint64_t foreign)
{
    uint64_t second = (foreign + 15) & ~(uint64_t)15;
    mw_addr start = heap_map(heap, BRK, 512 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, start, start + 132 * KIB);
    heap_tcache_new(heap);
    blocks_of_all_kinds(heap);
    heap_block(heap, heap_left(heap) - left, MW_BLOCK_IN_USE);
    heap_fences(heap, MW_BLOCK_FREE);
    heap_foreign(heap, start + 132 * KIB, second);
    heap_segment(heap, MW_SEGMENT_BRK, start + 132 * KIB + second, start + 512 * KIB);
    heap_block(heap, 128, MW_BLOCK_TCACHE);
    heap_block(heap, 30 * KIB, MW_BLOCK_FREE);
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
}

static void test_foreign_sbrk(void **state)
{
    (void)state;
    static const struct {
        uint64_t left, foreign;
    } shapes[] = {{5000 & ~15u, 3 * 4096}, {48, 100 * KIB}, {32, 16}, {64, 4096 + 8}};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int with_threads = 0; with_threads < 2; with_threads++) {
                struct heap_builder *heap = heap_new(&heap_families[i]);
                foreign_sbrk_build(heap, shapes[k].left, shapes[k].foreign);
                if (with_threads)
                    heap_thread(heap, STACKS, true);
                walk_and_compare(heap, with_threads ? "foreign sbrk, threads" : "foreign sbrk");
            }
}

/* A tcache whose struct lies before, and one whose struct lies behind the foreign bytes, both
 * with blocks on the other side; nobody's registers are known. */
static void test_foreign_sbrk_between_tcache_and_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = heap_new(&heap_families[i]);
        foreign_sbrk_build(heap, 48, 40 * KIB);
        heap_arena(heap, FIRST_HEAP, 132 * KIB);
        heap_tcache_new(heap);
        blocks_of_all_kinds(heap);
        heap_top(heap);
        if (heap->tcache_count == 2) { /* the second one also holds a block of the main arena */
            struct heap_tcache *own = &heap->tcaches[0], *other = &heap->tcaches[1];
            mw_addr moved = own->heads[128 / 16 - 2];
            own->heads[128 / 16 - 2] = 0;
            own->counts[128 / 16 - 2] = 0;
            other->heads[128 / 16 - 2] = moved;
            other->counts[128 / 16 - 2] = 1;
        }
        walk_and_compare(heap, "foreign sbrk and tcaches");
    }
}

/* brk was blocked: the main arena went on in mappings, adjacent ones merged by the kernel. */
static void test_brk_fallback(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++)
        for (int blocked_from_start = 0; blocked_from_start < 2; blocked_from_start++) {
            struct heap_builder *heap = heap_new(&heap_families[i]);
            if (!blocked_from_start) {
                mw_addr start = heap_map(heap, BRK, 132 * KIB, "[heap]");
                heap_segment(heap, MW_SEGMENT_BRK, start, start + 132 * KIB);
                heap_tcache_new(heap);
                blocks_of_all_kinds(heap);
                heap_fences(heap, MW_BLOCK_IN_USE);
            }
            mw_addr pair = heap_map(heap, MORECORE, 1132 * KIB, "");
            heap_segment(heap, MW_SEGMENT_MORECORE, pair + 1000 * KIB, pair + 1132 * KIB);
            if (blocked_from_start)
                heap_tcache_new(heap);
            heap_block(heap, heap_left(heap) - 48, MW_BLOCK_IN_USE);
            heap_fences(heap, MW_BLOCK_IN_USE);
            heap_segment(heap, MW_SEGMENT_MORECORE, pair, pair + 1000 * KIB);
            heap_block(heap, 300 * KIB, MW_BLOCK_FREE);
            heap_block(heap, 48, MW_BLOCK_TCACHE);
            heap_fences(heap, MW_BLOCK_IN_USE);
            mw_addr last = heap_map(heap, MORECORE + (64 << 20), 1024 * KIB, "");
            heap_segment(heap, MW_SEGMENT_MORECORE, last, last + 1024 * KIB);
            heap_block(heap, 64, MW_BLOCK_IN_USE);
            heap_top(heap);
            heap->arenas[0].flags |= 2; /* NONCONTIGUOUS */
            walk_and_compare(heap, blocked_from_start ? "brk blocked" : "brk fallback");
        }
}

/* Heaps of 4 huge pages (2.35 to 2.41), and of 64 MiB although there are huge pages (2.42). */
static void test_hugetlb(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        const struct heap_family *family = &heap_families[i];
        if (family->thp_pagesize == HEAP_NONE)
            continue;
        bool by_huge_page = strcmp(family->name, "2.36") == 0;
        mw_addr step = by_huge_page ? 8 << 20 : HEAP_MAX;
        struct heap_builder *heap = heap_new(family);
        heap->hp_pagesize = heap->thp_pagesize = 2 << 20;
        mw_addr start = heap_map(heap, BRK, 4 << 20, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, start, start + (4 << 20));
        heap_tcache_new(heap);
        blocks_of_all_kinds(heap);
        heap_top(heap);
        unsigned arena = heap_arena(heap, FIRST_HEAP + step, by_huge_page ? 4 << 20 : 12 << 20);
        heap_tcache_new(heap);
        blocks_of_all_kinds(heap);
        heap_thread_fences(heap, MW_BLOCK_FREE);
        heap_arena_more(heap, arena, FIRST_HEAP + 3 * step, 6 << 20);
        heap_block(heap, 64, MW_BLOCK_IN_USE);
        heap_top(heap);
        walk_and_compare(heap, "huge pages");
    }
}

/* sbrk_base of a static program: not aligned, and not the start of [heap]. */
static void test_unaligned_base(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = heap_new(&heap_families[i]);
        mw_addr start = heap_map(heap, BRK, 140 * KIB, "[heap]");
        heap_segment(heap, MW_SEGMENT_BRK, start + 0xd48, start + 140 * KIB);
        heap->expects[0].block.size = 8;
        heap_tcache_new(heap);
        blocks_of_all_kinds(heap);
        heap_top(heap);
        walk_and_compare(heap, "static program");
    }
}

/* A static program lies low, where a link and its mangled form look alike: the heap begins so that
 * the one, taken for the other, leads into the heap as well. */
static void test_low_addresses(void **state)
{
    (void)state;
    static const mw_addr LOW = 0x10000000; /* LOW ^ LOW >> 12 is 64 KiB on */
    for (size_t i = 0; i < heap_family_count; i++)
        for (int with_tcache = 0; with_tcache < 2; with_tcache++) {
            struct heap_builder *heap = heap_new(&heap_families[i]);
            mw_addr start = heap_map(heap, LOW, 256 * KIB, "[heap]");
            heap_segment(heap, MW_SEGMENT_BRK, start, start + 256 * KIB);
            if (with_tcache)
                heap_tcache_new(heap);
            for (unsigned k = 0; k < 40; k++) {
                heap_block(heap, 48, MW_BLOCK_FASTBIN);
                heap_block(heap, 64, MW_BLOCK_IN_USE);
                if (with_tcache && k % 8 == 0)
                    heap_block(heap, 80, MW_BLOCK_TCACHE);
            }
            heap_top(heap);
            heap_thread(heap, STACKS, with_tcache);
            walk_and_compare(heap, "low addresses");
        }
}

/* A version number tells little: distributions put newer parts into older releases. 2.17 with
 * attached_threads, and 2.28 with wide counts. */
static void test_backports(void **state)
{
    (void)state;
    static const struct {
        const char *name, *layout;
    } variants[] = {{"2.17", "2.23"}, {"2.28", "2.31"}, {"2.41", "2.42"}};
    for (size_t i = 0; i < heap_family_count; i++)
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
            if (strcmp(heap_families[i].name, variants[k].layout) != 0)
                continue;
            struct heap_family family = heap_families[i];
            family.name = variants[k].name;
            struct heap_builder *heap = main_arena_only(&family);
            heap_thread(heap, STACKS, true);
            heap_arena(heap, FIRST_HEAP, 132 * KIB);
            heap_tcache_new(heap);
            blocks_of_all_kinds(heap);
            heap_top(heap);
            heap_thread(heap, STACKS + (1 << 20), true);
            walk_and_compare(heap, "backport");
        }
}

static void test_mlocked(void **state)
{
    (void)state;
    struct heap_builder *heap = main_arena_only(&heap_families[heap_family_count - 1]);
    heap_region_of(heap, BRK)->vm_flags = MW_VM_LOCKED;
    heap->segments[0].locked = true;
    walk_and_compare(heap, "mlocked");
}

/* malloc was never called: main_arena is there, all zero or just initialised. */
static void test_untouched_malloc(void **state)
{
    (void)state;
    for (size_t i = 0; i < heap_family_count; i++) {
        struct heap_builder *heap = heap_new(&heap_families[i]);
        walk_and_compare(heap, "untouched");
    }
}

/* [heap] split by a flag into two mappings is one heap. */
static void test_split_heap_mapping(void **state)
{
    (void)state;
    struct heap_builder *heap = heap_new(&heap_families[8]);
    heap_map(heap, BRK, 64 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + 64 * KIB);
    heap_tcache_new(heap);
    blocks_of_all_kinds(heap);
    heap_block(heap, heap_left(heap) - 96, MW_BLOCK_IN_USE);
    heap_map(heap, BRK + 64 * KIB, 64 * KIB, "[heap]");
    heap->limit += 64 * KIB;
    heap->segments[0].end += 64 * KIB;
    heap->arenas[0].system_mem += 64 * KIB;
    heap_block(heap, 96, MW_BLOCK_FREE);
    heap_block(heap, 4096, MW_BLOCK_IN_USE);
    heap_top(heap);
    walk_and_compare(heap, "split [heap]");
}

/* Residency is asked for in parts, the first of 16 MiB: blocks and free runs lie across their ends,
 * and what trim releases is named from both sides. */
static void test_parts_of_residency(void **state)
{
    (void)state;
    const uint64_t size = 100ull << 20;
    struct heap_builder *heap = heap_new(&heap_families[7]);
    heap_map(heap, BRK, size, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + size);
    heap_tcache_new(heap);
    for (unsigned i = 0; i < 6; i++) {
        heap_block(heap, (7 << 20) + i * 4112, MW_BLOCK_IN_USE);
        heap_block(heap, (3 << 20) + 16, MW_BLOCK_FREE);
        heap_block(heap, 80, MW_BLOCK_FASTBIN);
    }
    for (uint64_t at = 5; at < size / HEAP_PAGE; at += 7 + at % 11)
        heap_region_of(heap, BRK)->pages[at] = at % 3 ? 0 : MW_PAGE_SWAPPED;
    for (uint64_t i = 0; i < heap->expect_count; i++) { /* headers lie in pages that are there */
        mw_addr at = heap->expects[i].block.address;
        heap_region_of(heap, BRK)->pages[(at - BRK) / HEAP_PAGE] = MW_PAGE_PRESENT;
    }
    mw_addr top = heap_top(heap);
    heap_region_of(heap, BRK)->pages[(top - BRK) / HEAP_PAGE] = MW_PAGE_PRESENT;
    walk_and_compare(heap, "parts of residency");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_main_arena),
        cmocka_unit_test(test_without_thread_pointers),
        cmocka_unit_test(test_banner_is_not_touched),
        cmocka_unit_test(test_thread_pointer_of_an_idle_thread),
        cmocka_unit_test(test_some_thread_pointers),
        cmocka_unit_test(test_thread_arenas),
        cmocka_unit_test(test_mmapped),
        cmocka_unit_test(test_mmapped_inside_a_region),
        cmocka_unit_test(test_mmapped_of_2_43),
        cmocka_unit_test(test_mmapped_drift_alone),
        cmocka_unit_test(test_foreign_sbrk),
        cmocka_unit_test(test_foreign_sbrk_between_tcache_and_blocks),
        cmocka_unit_test(test_brk_fallback),
        cmocka_unit_test(test_hugetlb),
        cmocka_unit_test(test_unaligned_base),
        cmocka_unit_test(test_low_addresses),
        cmocka_unit_test(test_backports),
        cmocka_unit_test(test_mlocked),
        cmocka_unit_test(test_untouched_malloc),
        cmocka_unit_test(test_split_heap_mapping),
        cmocka_unit_test(test_parts_of_residency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
