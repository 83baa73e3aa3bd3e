/* tests/unit/test_block_fields.c: statistics per word against a naive count of the same words. */
#include "base/alloc.h"
#include "base/random.h"
#include "blocks/fields.h"
#include "image/open.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096 };
static const mw_addr heap_start = 0x20000000, stack_start = 0x30000000, code_start = 0x40000000;

/* A heap of equal blocks in use, in an image of its own. */
struct world {
    uint8_t *heap, *pages;
    uint64_t heap_bytes, size, count;
    struct mw_image image;
    struct mw_claims claims;
    struct mw_value_ranges ranges;
    struct mw_block_list list;
    struct mw_context context;
};

static void world_init(struct world *world, uint64_t size, uint64_t count)
{
    *world = (struct world){.size = size, .count = count};
    world->heap_bytes = (size * count + 2 * PAGE) & ~(uint64_t)(PAGE - 1);
    world->heap = mw_calloc(1, world->heap_bytes);
    world->pages = mw_calloc(1, world->heap_bytes / PAGE);
    memset(world->pages, MW_PAGE_PRESENT, world->heap_bytes / PAGE);
    mw_context_init(&world->context);
}

static uint64_t word_get(const struct world *world, size_t block, size_t word)
{
    uint64_t value;
    memcpy(&value, world->heap + block * world->size + 16 + 8 * word, 8);
    return value;
}

static void word_put(struct world *world, size_t block, size_t word, uint64_t value)
{
    memcpy(world->heap + block * world->size + 16 + 8 * word, &value, 8);
}

static void world_open(struct world *world)
{
    static uint8_t other[PAGE];
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = heap_start,
                     .end = heap_start + world->heap_bytes,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[heap]"},
         .bytes = world->heap,
         .pages = world->pages},
        {.mapping = {.start = stack_start,
                     .end = stack_start + PAGE,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[stack]"},
         .bytes = other},
        {.mapping = {.start = code_start,
                     .end = code_start + PAGE,
                     .perms = MW_PERM_READ | MW_PERM_EXEC,
                     .inode = 7,
                     .name = "/lib/x.so"},
         .bytes = other},
        {.mapping = {.start = code_start + PAGE,
                     .end = code_start + 2 * PAGE,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .inode = 7,
                     .offset = PAGE,
                     .name = "/lib/x.so"},
         .bytes = other},
    };
    const struct mw_heap_segment segment = {
        .start = heap_start, .end = heap_start + world->heap_bytes, .kind = MW_SEGMENT_BRK};
    assert_int_equal(mw_image_open_memory(parts, 4, &world->image, NULL), MW_OK);
    assert_int_equal(mw_claims_add_range(&world->claims, heap_start, heap_start + world->heap_bytes,
                                         MW_CATEGORY_MALLOC_IN_USE, MW_CLAIM_ALLOCATOR, "heap"),
                     MW_OK);
    assert_int_equal(mw_claims_add_range(&world->claims, stack_start, stack_start + PAGE,
                                         MW_CATEGORY_STACK_MAIN, MW_CLAIM_KERNEL, "stack"),
                     MW_OK);
    assert_int_equal(mw_value_ranges_init(&world->ranges, &world->image, &world->claims), MW_OK);
    struct mw_heap_visitor visitor = mw_block_list_visitor(&world->list);
    assert_int_equal(visitor.segment_begin(visitor.user, &segment), MW_OK);
    for (uint64_t i = 0; i < world->count; i++) {
        const struct mw_block block = {heap_start + i * world->size, world->size, MW_BLOCK_IN_USE};
        assert_int_equal(visitor.blocks(visitor.user, &segment, &block, 1), MW_OK);
    }
    mw_block_list_sort(&world->list);
}

static void world_deinit(struct world *world)
{
    mw_value_ranges_deinit(&world->ranges);
    mw_claims_deinit(&world->claims);
    mw_block_list_deinit(&world->list);
    mw_image_close(&world->image);
    free(world->heap);
    free(world->pages);
}

static enum mw_status fields_try(struct world *world, unsigned workers, struct mw_fields *fields)
{
    world->context.workers = workers;
    const struct mw_fields_input input = {
        .image = &world->image,
        .list = &world->list,
        .ranges = &world->ranges,
        .size_bytes = world->size,
        .usable_bytes = world->size - 8,
        .block_count = world->count,
        .context = &world->context,
    };
    return mw_fields_read(&input, fields, NULL);
}

static struct mw_fields fields_of(struct world *world, unsigned workers)
{
    struct mw_fields fields;
    assert_int_equal(fields_try(world, workers, &fields), MW_OK);
    assert_int_equal(fields.count, (world->size - 8) / 8);
    return fields;
}

static int u64_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* One field against all its words, sorted. */
static void field_check(const struct world *world, const struct mw_block_field *field, size_t word)
{
    uint64_t *values = mw_calloc(world->count, sizeof *values);
    uint64_t distinct = 0, same = 0, top_count = 0, zero = 0;
    uint64_t constant = UINT64_MAX, any = 0;
    double entropy = 0;
    for (size_t i = 0; i < world->count; i++) {
        values[i] = word_get(world, i, word);
        constant &= values[i];
        any |= values[i];
        zero += values[i] == 0;
    }
    qsort(values, world->count, sizeof *values, u64_compare);
    for (size_t i = 0; i < world->count; i++) {
        same = i > 0 && values[i] == values[i - 1] ? same + 1 : 1;
        distinct += same == 1;
        top_count = same > top_count ? same : top_count;
        if (i + 1 == world->count || values[i + 1] != values[i]) {
            double share = (double)same / (double)world->count;
            entropy -= share * log2(share);
        }
    }
    assert_int_equal(field->offset, 8 * word);
    assert_int_equal(field->count, world->count);
    assert_int_equal(field->min, values[0]);
    assert_int_equal(field->max, values[world->count - 1]);
    assert_int_equal(field->varying_bits, constant ^ any);
    assert_int_equal(field->classes[MW_VALUE_ZERO], zero);
    assert_int_equal(field->distinct_is_lower_bound, distinct > 4096);
    assert_int_equal(field->distinct, distinct > 4096 ? 4096 : distinct);
    if (distinct <= 4096) {
        assert_int_equal(field->top_count, top_count);
        assert_true(fabs(field->entropy_bits - entropy) < 1e-6);
    } else {
        assert_true(field->entropy_bits < 0);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < MW_VALUE_COUNT; i++)
        sum += field->classes[i];
    assert_int_equal(sum, world->count);
    free(values);
}

/* Words that take 1, 2, 82, 4096, 4097 and very many values, counted by 1 to 4 threads. */
static void test_equal_to_a_naive_count(void **state)
{
    (void)state;
    enum { WORDS = 9, COUNT = 20011 };
    static const uint64_t limits[WORDS] = {1, 2, 82, 4095, 4096, 4097, 5000, 1 << 20, 0};
    struct world world;
    uint64_t random = MW_RANDOM_SEED;
    world_init(&world, 8 * WORDS + 8, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < WORDS; k++) {
            uint64_t value = i < limits[k] ? i : mw_random_below(&random, limits[k]);
            word_put(&world, i, k, k == 8 ? random : value * 0x1234567 + k);
        }
    world_open(&world);
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct mw_fields fields = fields_of(&world, workers);
        for (size_t k = 0; k < WORDS; k++)
            field_check(&world, &fields.items[k], k);
        mw_fields_deinit(&fields);
    }
    world_deinit(&world);
}

/* More words than one slab has: 64 KiB blocks, and ones whose words all differ. */
static void test_slabs(void **state)
{
    (void)state;
    static const struct {
        uint64_t size, count;
    } shapes[] = {{65536 + 16, 37}, {16384, 301}, {8208, 5003}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct world world;
        uint64_t random = MW_RANDOM_SEED;
        world_init(&world, shapes[s].size, shapes[s].count);
        size_t words = (size_t)(world.size - 8) / 8;
        for (size_t i = 0; i < world.count; i++)
            for (size_t k = 0; k < words; k++)
                word_put(&world, i, k, k % 5 == 0 ? k : mw_random_below(&random, UINT64_MAX));
        world_open(&world);
        struct mw_fields fields = fields_of(&world, 2);
        for (size_t k = 0; k < words; k += k % 701 == 0 ? 1 : 50)
            field_check(&world, &fields.items[k], k);
        mw_fields_deinit(&fields);
        world_deinit(&world);
    }
}

static uint64_t double_bits(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint64_t text_bits(const char *text)
{
    uint64_t bits = 0;
    memcpy(&bits, text, strlen(text) < 8 ? strlen(text) : 8);
    return bits;
}

static void test_kinds(void **state)
{
    (void)state;
    enum { COUNT = 1000, WORDS = 15 };
    static const enum mw_word_kind wanted[WORDS] = {
        MW_WORD_ZERO,          MW_WORD_CONSTANT,     MW_WORD_SMALL_INT,    MW_WORD_HEAP_POINTER,
        MW_WORD_STACK_POINTER, MW_WORD_CODE_POINTER, MW_WORD_DATA_POINTER, MW_WORD_TEXT,
        MW_WORD_FLOAT,         MW_WORD_RANDOM,       MW_WORD_MIXED,        MW_WORD_CODE_POINTER,
        MW_WORD_TEXT,          MW_WORD_HEAP_POINTER, MW_WORD_SMALL_INT,
    };
    struct world world;
    uint64_t random = MW_RANDOM_SEED;
    world_init(&world, 8 * WORDS + 8, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        (void)mw_random_below(&random, 2);
        const uint64_t words[WORDS] = {
            0,
            0x1f800010001f,
            i,
            heap_start + 16 * i,
            stack_start + 8 * (i % 82),
            code_start + i % 3,
            code_start + PAGE + i % 7,
            text_bits(i % 2 ? "GET /abc" : "POST"),
            double_bits(0.5 + (double)i),
            random,
            i % 2 ? heap_start : 77,
            code_start + 5,
            text_bits("constant"),
            i % 100 < 95 ? (i % 3 ? heap_start + i : 0) : 0x123456789abcdef0,
            i % 2 ? UINT64_MAX : i << 32 | 5, /* -1, or two small halves */
        };
        for (size_t k = 0; k < WORDS; k++)
            word_put(&world, i, k, words[k]);
    }
    world_open(&world);
    struct mw_fields fields = fields_of(&world, 2);
    for (size_t k = 0; k < WORDS; k++)
        assert_string_equal(mw_word_kind_name(fields.items[k].kind), mw_word_kind_name(wanted[k]));
    assert_int_equal(fields.items[4].distinct, 82);
    assert_true(mw_field_is_pure(&fields.items[4]));
    assert_false(mw_field_is_pure(&fields.items[13]));
    mw_fields_deinit(&fields);
    world_deinit(&world);
}

static void parts_check(uint64_t first, uint64_t second, size_t count,
                        const struct mw_field_part *wanted)
{
    struct mw_field_part parts[MW_FIELD_PARTS_MAX];
    const struct mw_block_field field = {.varying_bits = first ^ second,
                                         .constant_bits = first & second};
    assert_int_equal(mw_field_parts(&field, parts), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(parts[i].offset, wanted[i].offset);
        assert_int_equal(parts[i].width, wanted[i].width);
        assert_int_equal(parts[i].value, wanted[i].value);
    }
}

static void test_parts(void **state)
{
    (void)state;
    parts_check(0x1f800010001f, 0x1f800010005f, 3,
                (const struct mw_field_part[]){{4, 4, 0x1f80}, {2, 2, 0x10}, {1, 1, 0}});
    parts_check(5, 5, 0, NULL); /* a constant has no parts */
    parts_check(0x0102030405060708, 0xf1f2f3f4f5f6f7f8, 0, NULL);
    parts_check(
        0x01aa02bb03cc04dd, 0xf1aaf2bbf3ccf4dd, 4,
        (const struct mw_field_part[]){{0, 1, 0xdd}, {2, 1, 0xcc}, {4, 1, 0xbb}, {6, 1, 0xaa}});
}

/* Guards and holes: what can be read is counted, the rest is told. */
static void test_unreadable_blocks(void **state)
{
    (void)state;
    enum { COUNT = 509 };
    struct world world;
    world_init(&world, 4096, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        word_put(&world, i, 0, 7);
    world.pages[100] |= MW_PAGE_GUARD;
    world_open(&world);
    struct mw_fields fields = fields_of(&world, 2);
    assert_true(fields.unread_count >= 1);
    assert_true(fields.items[0].count >= COUNT - 3 && fields.items[0].count < COUNT);
    assert_int_equal(fields.items[0].min, 7);
    mw_fields_deinit(&fields);
    world_deinit(&world);
}

/* A page that is not in memory is zeros, and is not read. */
static void test_absent_pages_are_zeros(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 4096, 100);
    for (size_t i = 0; i < 100; i++)
        word_put(&world, i, 300, 9);
    memset(world.pages + 50, 0, 10);
    world_open(&world);
    struct mw_fields fields = fields_of(&world, 1);
    assert_int_equal(fields.items[300].count, 100);
    assert_int_equal(fields.items[300].distinct, 2);
    assert_int_equal(fields.items[300].classes[MW_VALUE_ZERO], 10);
    mw_fields_deinit(&fields);
    world_deinit(&world);
}

/* musl: a slot whose block begins later says so before the slot, and may lie. */
static void test_shifted_slots(void **state)
{
    (void)state;
    enum { COUNT = 50, SIZE = 128 };
    struct world world;
    world_init(&world, SIZE, COUNT);
    for (size_t i = 1; i < COUNT; i++) {
        uint8_t *slot = world.heap + i * SIZE;
        uint16_t shift = i == 9 ? 60000 : (uint16_t)(i % 4);
        uint64_t first = 0xabcdef;
        if (shift != 0) {
            slot[-3] = 7 << 5;
            memcpy(slot - 2, &shift, 2);
        }
        memcpy(slot + (i == 9 ? 0 : 16 * shift), &first, 8);
    }
    world_open(&world);
    mw_block_list_deinit(&world.list);
    const struct mw_heap_segment segment = {
        .start = heap_start, .end = heap_start + world.heap_bytes, .kind = MW_SEGMENT_GROUPS};
    struct mw_heap_visitor visitor = mw_block_list_visitor(&world.list);
    assert_int_equal(visitor.segment_begin(visitor.user, &segment), MW_OK);
    for (uint64_t i = 1; i < COUNT; i++) {
        const struct mw_block block = {heap_start + i * SIZE, SIZE, MW_BLOCK_IN_USE};
        assert_int_equal(visitor.blocks(visitor.user, &segment, &block, 1), MW_OK);
    }
    struct mw_fields fields;
    assert_int_equal(fields_try(&world, 1, &fields), MW_OK);
    assert_int_equal(fields.items[0].distinct, 1);
    assert_int_equal(fields.items[0].min, 0xabcdef);
    assert_int_equal(fields.items[0].count, COUNT - 1);
    assert_true(fields.items[14].count < COUNT - 1); /* shifted ones are shorter */
    mw_fields_deinit(&fields);
    world_deinit(&world);
}

static void test_out_of_memory_and_cancel(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 256, 3001);
    uint64_t random = MW_RANDOM_SEED;
    for (size_t i = 0; i < world.count; i++)
        word_put(&world, i, 3, mw_random_below(&random, UINT64_MAX));
    world_open(&world);
    unsigned failed = 0;
    for (long n = 0; n < 60; n++) {
        struct mw_fields fields;
        mw_alloc_fail_after(n);
        enum mw_status status = fields_try(&world, 1, &fields);
        mw_alloc_fail_after(-1);
        assert_true(status == MW_OK || status == MW_NOMEM);
        failed += status == MW_NOMEM;
        if (status == MW_OK)
            mw_fields_deinit(&fields);
    }
    assert_true(failed > 5);
    struct mw_fields fields;
    atomic_store(&world.context.canceled, true);
    assert_int_equal(fields_try(&world, 1, &fields), MW_CANCELED);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_a_naive_count),
        cmocka_unit_test(test_slabs),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_unreadable_blocks),
        cmocka_unit_test(test_absent_pages_are_zeros),
        cmocka_unit_test(test_shifted_slots),
        cmocka_unit_test(test_out_of_memory_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
