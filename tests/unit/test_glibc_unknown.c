/* tests/unit/test_glibc_unknown.c: releases that do not exist. Heaps are built with fields where no
 * release has them: memwhy must say that the layout is unknown, or split what it proves. What it
 * counts must be right. */
#include "heap/glibc/glibc.h"
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const mw_addr BRK = 0x555555600000, HEAP = 0x7f0040000000, STACKS = 0x7f9000000000;
static const mw_addr MMAPPED = 0x7f8000000000;

enum { KIB = 1024 };

static void blocks_build(struct heap_builder *heap)
{
    for (unsigned i = 0; i < 30; i++) {
        heap_block(heap, 32 + 16 * (i % 7), MW_BLOCK_IN_USE);
        heap_block(heap, 64 + 16 * (i % 5), MW_BLOCK_FREE);
        heap_block(heap, 4128, MW_BLOCK_IN_USE);
    }
}

/* A main arena, and with threads one more and a mapped block. */
static struct heap_builder *heap_build(const struct heap_family *family, bool with_threads,
                                       bool with_tcache)
{
    struct heap_builder *heap = heap_new(family);
    mw_addr start = heap_map(heap, BRK, 264 * KIB, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, start, start + 264 * KIB);
    if (with_tcache)
        heap_tcache_new(heap);
    blocks_build(heap);
    if (with_tcache)
        for (unsigned i = 0; i < 5; i++)
            heap_block(heap, 96, MW_BLOCK_TCACHE);
    heap_top(heap);
    heap_thread(heap, STACKS, with_tcache);
    if (with_threads) {
        heap_arena(heap, HEAP, 132 * KIB);
        blocks_build(heap);
        heap_top(heap);
        heap_thread(heap, STACKS + (1 << 20), false);
        heap_mmapped(heap, MMAPPED, 132 * KIB, 0, MW_BLOCK_IN_USE);
    }
    heap_finish(heap);
    return heap;
}

/* The known layouts do not fit, and the second walker says which allocator it is. */
static void check_unknown(struct mw_image *image, const struct heap_walked *walked,
                          const char *what)
{
    struct mw_allocator allocator = {0};
    struct mw_findings findings = {0};
    struct mw_error err = {0};
    if (walked->status != MW_NOT_FOUND)
        fail_msg("%s: walked with status %d, main arena at %llx", what, (int)walked->status,
                 (unsigned long long)(walked->allocator.arena_count
                                          ? walked->allocator.arenas[0].address
                                          : 0));
    if (mw_glibc_unknown_walker.probe(image, &allocator, &err) != MW_OK)
        fail_msg("%s: no allocator found: %s", what, err.text);
    assert_string_equal(allocator.kind, "glibc");
    assert_string_equal(allocator.version, "2.77");
    assert_int_equal(mw_glibc_unknown_walker.walk(image, NULL, NULL, &allocator, &findings, &err),
                     MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "glibc 2.77, unknown layout"));
    assert_non_null(mw_finding_find(&findings, "glibc-layout-unknown"));
    assert_false(allocator.walked);
    assert_int_equal(allocator.system_bytes, 0);
    assert_int_equal(allocator.segment_count, 0);
    mw_findings_deinit(&findings);
    mw_allocator_deinit(&allocator);
}

/* Blocks that are counted are those that were built. */
static void check_split(struct heap_builder *heap, struct mw_image *image,
                        const struct heap_walked *walked, const char *what)
{
    const char *wrong = heap_meaning_wrong(image, walked);
    if (wrong)
        fail_msg("%s: %s", what, wrong);
    if (walked->allocator.reconciled && (wrong = heap_differs(heap, image, walked)) != NULL)
        fail_msg("%s: called proven, and %s", what, wrong);
    if (!walked->allocator.reconciled && walked->findings.count == 0)
        fail_msg("%s: not proven, and nothing said", what);
    for (size_t i = 0; i < walked->block_count; i++) {
        const struct mw_block *seen = &walked->blocks[i].block, *built = NULL;
        for (size_t k = 0; k < heap->expect_count && !built; k++)
            if (heap->expects[k].block.address == seen->address)
                built = &heap->expects[k].block;
        if (!built || built->size != seen->size || built->state != seen->state)
            fail_msg("%s: block %llx is none that was built", what,
                     (unsigned long long)seen->address);
    }
}

enum answer { UNKNOWN, RIGHT };

static void run(const struct heap_family *family, bool with_threads, bool with_tcache,
                enum answer answer, const char *what)
{
    struct heap_builder *heap = heap_build(family, with_threads, with_tcache);
    struct mw_image image;
    struct heap_walked walked = {0};
    heap_open(heap, &image);
    heap_walk(&image, NULL, &walked);
    if (answer == UNKNOWN)
        check_unknown(&image, &walked, what);
    else if (walked.status != MW_OK)
        fail_msg("%s: %s", what, walked.err.text);
    else
        check_split(heap, &image, &walked, what);
    heap_walked_deinit(&walked);
    mw_image_close(&image);
    heap_delete(heap);
}

/* The newest family, with this release's name. */
static struct heap_family future(const struct heap_family *base)
{
    struct heap_family family = *base;
    family.name = "2.77";
    return family;
}

/* A field more or less in front of the bins. */
static void test_bins_moved(void **state)
{
    (void)state;
    static const int steps[] = {-8, 8, 16, 40, 64};
    for (size_t f = 0; f < heap_family_count; f++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            struct heap_family family = future(&heap_families[f]);
            char what[80];
            unsigned to = (unsigned)((int)family.bins + steps[i]);
            if (to == 112 || to == 104 || to == 24 || to < 24)
                continue; /* another family's place */
            snprintf(what, sizeof what, "bins of %s %+d", heap_families[f].name, steps[i]);
            family.bins = to;
            family.system_mem = (unsigned)((int)family.system_mem + steps[i]);
            family.state_size = (unsigned)((int)family.state_size + steps[i]);
            if (family.attached_threads != HEAP_NONE)
                family.attached_threads = (unsigned)((int)family.attached_threads + steps[i]);
            for (int threads = 0; threads < 2; threads++)
                run(&family, threads, false, UNKNOWN, what);
        }
}

/* Another heap_info: arenas lie elsewhere in their heaps, and no ring closes. */
static void test_heap_info_grown(void **state)
{
    (void)state;
    for (size_t f = 0; f < heap_family_count; f++) {
        struct heap_family family = future(&heap_families[f]);
        family.heap_info = 64;
        run(&family, true, false, UNKNOWN, "heap_info of 64 bytes");
    }
}

/* A field more behind the ring's links, or one less. */
static void test_system_mem_moved(void **state)
{
    (void)state;
    static const int steps[] = {8, 16, 24, 48};
    for (size_t f = 2; f < heap_family_count; f++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            struct heap_family family = future(&heap_families[f]);
            char what[80];
            snprintf(what, sizeof what, "system_mem of %s %+d", heap_families[f].name, steps[i]);
            family.system_mem += (unsigned)steps[i];
            family.attached_threads += (unsigned)steps[i];
            family.state_size += (unsigned)steps[i];
            for (int threads = 0; threads < 2; threads++)
                run(&family, threads, false, UNKNOWN, what);
        }
    for (size_t f = 4; f < heap_family_count; f++) { /* attached_threads is gone */
        struct heap_family family = future(&heap_families[f]);
        family.attached_threads = HEAP_NONE;
        family.system_mem -= 8;
        family.state_size -= 8;
        run(&family, false, false, UNKNOWN, "attached_threads is gone");
    }
}

/* mp_ in another form. The arenas prove themselves without it; what it says must not be taken from
 * the wrong fields. */
static void test_parameters_moved(void **state)
{
    (void)state;
    static const int steps[] = {-8, 8, 16, 24};
    for (size_t f = 0; f < heap_family_count; f++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            for (unsigned from = 0; from < 4; from++) {
                struct heap_family family = future(&heap_families[f]);
                unsigned *fields[] = {&family.n_mmaps, &family.mmapped_mem, &family.sbrk_base,
                                      &family.tcache_fields};
                char what[80];
                snprintf(what, sizeof what, "mp_ of %s from field %u on %+d", heap_families[f].name,
                         from, steps[i]);
                if ((from == 1 && steps[i] < 0) || (int)*fields[from] + steps[i] < 40)
                    continue; /* over the field before */
                for (unsigned k = from; k < 4; k++)
                    if (*fields[k] != HEAP_NONE)
                        *fields[k] = (unsigned)((int)*fields[k] + steps[i]);
                family.par_size = (unsigned)((int)family.par_size + steps[i]);
                for (int threads = 0; threads < 2; threads++)
                    run(&family, threads, false, RIGHT, what);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins_moved),
        cmocka_unit_test(test_heap_info_grown),
        cmocka_unit_test(test_system_mem_moved),
        cmocka_unit_test(test_parameters_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
