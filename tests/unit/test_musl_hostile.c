/* tests/unit/test_musl_hostile.c: every lie that a heap of mallocng can tell: nothing is counted
 * twice, nothing is lost, and it is said. */
#include "musl_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mw_image image;
static struct musl_walked walked;
static struct musl_heap *heap;
static size_t outer, inner, plain, own;

static int build(void **state)
{
    (void)state;
    walked = (struct musl_walked){0};
    heap = musl_heap_new(2);
    musl_give(heap, 23, false);
    outer = musl_group(heap, 27, 7, 0x40);
    inner = musl_nest(heap, outer, 1, 15, 3, 0x4);
    plain = musl_group(heap, 11, 32, 0xf0f0f0f0);
    own = musl_own(heap, 33);
    return 0;
}

static int done(void **state)
{
    (void)state;
    musl_walked_deinit(&walked);
    mw_image_close(&image);
    musl_heap_free(heap);
    return 0;
}

/* Walk what was damaged: conserved, not reconciled, and of these the finding of that kind. */
static const struct mw_finding *walk_damaged(const char *kind)
{
    musl_open(heap, &image);
    musl_walk(&image, &walked);
    const char *wrong = musl_meaning_wrong(&image, &walked);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(walked.status, MW_OK);
    assert_false(walked.allocator.reconciled);
    const struct mw_finding *finding = mw_finding_find(&walked.findings, kind);
    if (!finding)
        fail_msg("no finding %s", kind);
    return finding;
}

static void test_undamaged(void **state)
{
    (void)state;
    musl_open(heap, &image);
    musl_walk(&image, &walked);
    assert_null(musl_meaning_wrong(&image, &walked));
    assert_true(walked.allocator.reconciled);
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 16 + 1);
}

static void test_overwritten_header(void **state)
{
    (void)state;
    memset(musl_bytes(heap, musl_meta(heap, plain)->mem), 'A', 8);
    const struct mw_finding *finding = walk_damaged("group-damaged");
    assert_int_equal(finding->first_address, musl_meta(heap, plain)->mem);
    assert_int_equal(walked.allocator.skipped_bytes, 2 * MUSL_PAGE);
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 1);
}

/* What is nested in it is skipped with it, once. */
static void test_overwritten_header_of_an_outer_group(void **state)
{
    (void)state;
    memset(musl_bytes(heap, musl_meta(heap, outer)->mem), 'A', 8);
    walk_damaged("group-damaged");
    assert_int_equal(walked.allocator.skipped_bytes, 7 * MUSL_PAGE);
    assert_int_equal(walked.allocator.in_use_count, 1 + 16 + 1);
}

static void test_overwritten_header_of_a_nested_group(void **state)
{
    (void)state;
    memset(musl_bytes(heap, musl_meta(heap, inner)->mem), 'A', 8);
    walk_damaged("group-damaged");
    assert_int_equal(walked.allocator.skipped_bytes, 16 + 3 * 496);
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 16 + 1);
}

/* A meta that makes no sense, each in its own way: its group is left out. */
static void test_damaged_metas(void **state)
{
    (void)state;
    const uint64_t bits = musl_meta(heap, plain)->bits;
    const mw_addr mem = musl_meta(heap, plain)->mem;
    const struct {
        mw_addr mem;
        uint64_t bits;
        uint32_t avail, freed;
    } lies[] = {
        {mem + 8, bits, 0, 0},                                   /* not aligned */
        {mem + 16, bits, 0, 0},                                  /* on no page */
        {MUSL_HEAP + sizeof heap->heap, bits, 0, 0},             /* not mapped */
        {MUSL_HEAP + sizeof heap->heap - MUSL_PAGE, bits, 0, 0}, /* ends in nothing */
        {UINT64_MAX & ~(uint64_t)4095, bits, 0, 0},              /* wraps around */
        {mem, bits | ~(uint64_t)0xfff, 0, 0},                    /* 2^64 bytes */
        {mem, (bits & 0xfff) | (uint64_t)1 << 12, 0, 0},         /* slots have no room */
        {mem, (bits & 0xfff) | (uint64_t)24 << 12, 0, 0},        /* much more than slots */
        {mem, (bits & 0xfff) | (MUSL_OWN + MUSL_PAGE - mem) >> 12 << 12, 0, 0}, /* over a hole */
        {mem, (bits & ~((uint64_t)63 << 6)) | (uint64_t)48 << 6, 0, 0},         /* no such class */
        {mem, (bits & ~((uint64_t)63 << 6)) | (uint64_t)63 << 6, 0, 0},         /* 32 own blocks */
        {mem, bits & 0xfff & ~(uint64_t)31, 2, 0}, /* slots that are none */
        {mem, bits, 3, 1},                         /* available and freed */
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct mw_musl_meta *meta = musl_meta(heap, plain);
        meta->mem = lies[i].mem;
        meta->bits = lies[i].bits;
        meta->avail_mask = lies[i].avail;
        meta->freed_mask = lies[i].freed;
        const struct mw_finding *finding = walk_damaged("meta-damaged");
        assert_int_equal(finding->first_address, musl_meta_address(plain));
        assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 1);
        musl_walked_deinit(&walked);
        mw_image_close(&image);
    }
    musl_open(heap, &image);
}

/* Two metas for one group, for half of one, for a page of metas, for a slot that is free or taken:
 * the first keeps it. */
static void test_overlaps(void **state)
{
    (void)state;
    const struct mw_musl_meta good = *musl_meta(heap, plain);
    const mw_addr slot = musl_meta(heap, outer)->mem + 16;
    const uint64_t nested = (uint64_t)2 | (uint64_t)1 << 5 | (uint64_t)3 << 6;
    const struct {
        mw_addr mem;
        uint64_t bits;
    } lies[] = {
        {musl_meta(heap, outer)->mem, good.bits},
        {musl_meta(heap, outer)->mem + MUSL_PAGE, good.bits},
        {MUSL_AREAS + MUSL_PAGE, (good.bits & 0xfc0) | (uint64_t)1 << 12 | 1u << 5},
        {slot + 6 * 4080, nested},                           /* free */
        {slot + 4080 + 1600, nested},                        /* inner is there */
        {slot + 4080 - 32, nested},                          /* from one slot into the next */
        {slot + 7 * 4080, nested},                           /* behind the last */
        {slot - 16, nested},                                 /* the header */
        {slot + 2 * 4080, nested & ~32u},                    /* given by a loader, in a slot */
        {musl_meta(heap, own)->mem + 16, good.bits & 0xfff}, /* in a block of its own */
        {slot + 2 * 4080, nested},                           /* in a slot in use: fits */
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct mw_musl_meta *meta = musl_meta(heap, plain);
        *meta = good;
        meta->mem = lies[i].mem;
        meta->bits = lies[i].bits;
        meta->freed_mask = 0;
        musl_open(heap, &image);
        musl_walk(&image, &walked);
        const char *wrong = musl_meaning_wrong(&image, &walked);
        if (wrong)
            fail_msg("case %zu: %s", i, wrong);
        assert_false(walked.allocator.reconciled);
        bool fits = i + 1 == sizeof lies / sizeof *lies;
        if (fits) /* its header is not there */
            assert_non_null(mw_finding_find(&walked.findings, "group-damaged"));
        else
            assert_non_null(mw_finding_find(&walked.findings, "groups-overlap"));
        musl_walked_deinit(&walked);
        mw_image_close(&image);
    }
    musl_open(heap, &image);
}

/* A small group outside of everything, that no loader gave. */
static void test_group_in_nothing(void **state)
{
    (void)state;
    struct mw_musl_meta *meta = musl_meta(heap, plain);
    meta->bits &= 0xfff; /* no mapping */
    walk_damaged("groups-overlap");
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 1);
}

/* Groups in groups in groups, deeper than any real ones. */
static void test_deep_nesting(void **state)
{
    (void)state;
    size_t at = outer;
    musl_meta(heap, inner)->mem = 0;
    musl_meta(heap, inner)->next = 1;
    static const unsigned classes[] = {26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15};
    struct mw_musl_meta *meta = musl_meta(heap, at);
    meta->bits = (meta->bits & ~((uint64_t)63 << 6 | 31)) | (uint64_t)28 << 6;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        at = musl_nest(heap, at, 0, classes[i], 1, 0);
    walk_damaged("groups-overlap");
}

static void test_chain_of_areas(void **state)
{
    (void)state;
    static const uint64_t lies[] = {MUSL_AREAS,       MUSL_AREAS + MUSL_PAGE, MUSL_AREAS + 8,
                                    MUSL_HEAP,        0xdeadbeef000,          UINT64_MAX,
                                    UINT64_MAX - 4095};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        for (size_t area = 0; area < 2; area++) {
            musl_area(heap, 0)->next = MUSL_AREAS + MUSL_PAGE;
            musl_area(heap, 1)->next = 0;
            musl_area(heap, area)->next = lies[i];
            if (area == 0 && lies[i] == MUSL_AREAS + MUSL_PAGE)
                continue; /* the truth */
            walk_damaged("meta-area-damaged");
            musl_walked_deinit(&walked);
            mw_image_close(&image);
        }
    }
    musl_open(heap, &image);
}

/* Four areas whose chain closes in itself behind the beginning. */
static void test_closed_chain(void **state)
{
    (void)state;
    musl_heap_free(heap);
    heap = musl_heap_new(4);
    plain = musl_group(heap, 11, 32, 0);
    musl_area(heap, 3)->next = MUSL_AREAS + 2 * MUSL_PAGE;
    alarm(20);
    walk_damaged("meta-area-damaged");
    alarm(0);
}

static void test_second_area_without_the_secret(void **state)
{
    (void)state;
    musl_heap_free(heap);
    heap = musl_heap_new(3);
    musl_group(heap, 11, 32, 0);
    musl_area(heap, 1)->check++;
    walk_damaged("meta-area-damaged");
    assert_int_equal(walked.allocator.in_use_count, 0); /* the group is in the third area */
}

/* The chain is whole, and malloc calls another area the last; or it ends too early, and what is
 * missing has no counters. Everything else is as it should be. */
static void test_chain_ends_elsewhere(void **state)
{
    (void)state;
    musl_context(heap)->meta_area_tail = MUSL_AREAS;
    const struct mw_finding *finding = walk_damaged("meta-tail-differs");
    assert_int_equal(finding->first_address, MUSL_DATA + MUSL_CONTEXT_AT);
    assert_int_equal(walked.findings.count, 1);
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 16 + 1);
    musl_walked_deinit(&walked);
    mw_image_close(&image);
    musl_heap_free(heap);
    heap = musl_heap_new(2);
    musl_own(heap, 33);
    musl_context(heap)->avail_meta_count = 0;
    musl_area(heap, 0)->next = 0;
    walk_damaged("meta-tail-differs");
    assert_int_equal(walked.findings.count, 1);
    assert_int_equal(walked.allocator.in_use_count, 0);
}

static void test_counters_differ(void **state)
{
    (void)state;
    musl_context(heap)->usage_by_class[11]++;
    walk_damaged("usage-differs");
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 16 + 1);
    musl_walked_deinit(&walked);
    mw_image_close(&image);
    musl_context(heap)->usage_by_class[11]--;
    /* a meta was taken and its group not made: in the middle of malloc */
    musl_context(heap)->avail_meta_count--;
    walk_damaged("usage-differs");
}

/* Bytes that look a little like a context are none. */
static void test_no_context(void **state)
{
    (void)state;
    struct mw_musl_context good = *musl_context(heap), *ctx = musl_context(heap);
    for (unsigned i = 0; i < 9; i++) {
        *ctx = good;
        uint64_t *words[] = {&ctx->secret,         &ctx->meta_area_head,   &ctx->meta_area_tail,
                             &ctx->avail_meta,     &ctx->avail_meta_count, &ctx->active[0],
                             &ctx->meta_area_head, &ctx->meta_area_tail,   NULL};
        if (words[i])
            *words[i] += i < 6 ? 1 : 0x100000000;
        else
            ctx->init_done = 2;
        if (i == 4)
            ctx->avail_meta_count = 102;
        musl_open(heap, &image);
        musl_walk(&image, &walked);
        assert_int_equal(walked.status, MW_NOT_FOUND);
        assert_false(walked.allocator.walked);
        musl_walked_deinit(&walked);
        mw_image_close(&image);
    }
    musl_open(heap, &image);
}

/* Memory of the groups is missing, as in a core: what the metas say is told, and that it is. */
static void test_unreadable_groups(void **state)
{
    (void)state;
    const uint32_t rw = MW_PERM_READ | MW_PERM_WRITE;
    const struct mw_image_memory_part parts[] = {
        {{.start = MUSL_AREAS,
          .end = MUSL_AREAS + sizeof heap->areas,
          .perms = rw,
          .name = "[heap]"},
         heap->areas,
         NULL},
        {{.start = MUSL_HEAP, .end = MUSL_HEAP + sizeof heap->heap, .perms = rw, .name = ""},
         NULL,
         NULL},
        {{.start = MUSL_OWN, .end = MUSL_OWN + sizeof heap->own, .perms = rw, .name = ""},
         NULL,
         NULL},
        {{.start = MUSL_DATA,
          .end = MUSL_DATA + sizeof heap->data,
          .perms = rw,
          .inode = 7,
          .name = "/lib/ld-musl-x86_64.so.1"},
         heap->data,
         NULL},
    };
    assert_int_equal(mw_image_open_memory(parts, 4, &image, NULL), MW_OK);
    image.can &= ~(unsigned)MW_CAN_PAGES;
    musl_walk(&image, &walked);
    assert_null(musl_meaning_wrong(&image, &walked));
    assert_int_equal(walked.status, MW_OK);
    assert_false(walked.allocator.reconciled);
    assert_non_null(mw_finding_find(&walked.findings, "group-unread"));
    assert_int_equal(walked.allocator.in_use_count, 1 + 5 + 2 + 16 + 1);
}

/* The search for the context ends, however much data there is. */
static void test_endless_data(void **state)
{
    (void)state;
    const struct mw_image_memory_part parts[] = {
        {{.start = 1 << 20,
          .end = (uint64_t)1 << 46,
          .perms = MW_PERM_READ | MW_PERM_WRITE,
          .inode = 3,
          .name = "/lib/ld-musl-x86_64.so.1"},
         NULL,
         NULL},
    };
    assert_int_equal(mw_image_open_memory(parts, 1, &image, NULL), MW_OK);
    alarm(20);
    musl_walk(&image, &walked);
    alarm(0);
    assert_int_equal(walked.status, MW_NOT_FOUND);
}

static const struct mw_image_ops *real_ops;
static unsigned long reads_left;
static bool reads_short;

static void failing_read(struct mw_image *target, mw_addr address, void *buffer, size_t length,
                         size_t *got_out)
{
    real_ops->read(target, address, buffer, length, got_out);
    if (reads_left-- == 0)
        *got_out = reads_short ? *got_out / 2 : 0;
}

/* The n-th read fails or is short, each in turn: the walk goes on and says so, or finds nothing. */
static void test_reads_fail(void **state)
{
    (void)state;
    unsigned long n = 0, partial = 0;
    for (bool was_reached = true; was_reached; n++) {
        musl_open(heap, &image);
        struct mw_image_ops ops = *(real_ops = image.ops);
        ops.read = failing_read;
        image.ops = &ops;
        reads_left = n / 2;
        reads_short = n % 2;
        musl_walk(&image, &walked);
        was_reached = reads_left > n; /* it wrapped around */
        const char *wrong = musl_meaning_wrong(&image, &walked);
        if (wrong)
            fail_msg("read %lu: %s", n / 2, wrong);
        partial += walked.status == MW_OK && !walked.allocator.reconciled;
        image.ops = real_ops;
        musl_walked_deinit(&walked);
        mw_image_close(&image);
        assert_true(n < 1000);
    }
    assert_true(n > 10 && partial > 2);
    musl_open(heap, &image);
}

/* Any byte of context, metas and headers, any value: MUSL_CORRUPTIONS of them, 4,000 by default. */
static void test_random_corruptions(void **state)
{
    (void)state;
    const char *setting = getenv("MUSL_CORRUPTIONS");
    unsigned long rounds = setting ? strtoul(setting, NULL, 10) : 4000;
    uint64_t random = 0x9e3779b97f4a7c15u;
    struct musl_heap *good = musl_heap_example();
    for (unsigned long round = 0; round < rounds; round++) {
        memcpy(heap, good, sizeof *heap);
        unsigned count = 1 + (unsigned)(round % 4);
        for (unsigned i = 0; i < count; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t value = random >> 56, at = random >> 24;
            mw_addr places[] = {
                musl_meta_address(MW_MUSL_METAS + at % 12) + at / 12 % 40,
                MUSL_DATA + MUSL_CONTEXT_AT + at % sizeof(struct mw_musl_context),
                musl_meta(good, MW_MUSL_METAS + at % 12)->mem + at / 12 % 16,
                MUSL_AREAS + at % (2 * MUSL_PAGE),
            };
            uint8_t *byte = musl_bytes(heap, places[random >> 20 & 3]);
            *byte = random >> 19 & 1 ? (uint8_t)value : (uint8_t)(*byte ^ 1u << (value & 7));
        }
        musl_open(heap, &image);
        musl_walk(&image, &walked);
        const char *wrong = musl_meaning_wrong(&image, &walked);
        if (wrong)
            fail_msg("round %lu: %s", round, wrong);
        musl_walked_deinit(&walked);
        mw_image_close(&image);
    }
    musl_heap_free(good);
    musl_open(heap, &image);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, build, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_undamaged),
        TEST(test_overwritten_header),
        TEST(test_overwritten_header_of_an_outer_group),
        TEST(test_overwritten_header_of_a_nested_group),
        TEST(test_damaged_metas),
        TEST(test_overlaps),
        TEST(test_group_in_nothing),
        TEST(test_deep_nesting),
        TEST(test_chain_of_areas),
        TEST(test_closed_chain),
        TEST(test_second_area_without_the_secret),
        TEST(test_chain_ends_elsewhere),
        TEST(test_counters_differ),
        TEST(test_no_context),
        TEST(test_unreadable_groups),
        TEST(test_endless_data),
        TEST(test_reads_fail),
        TEST(test_random_corruptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
