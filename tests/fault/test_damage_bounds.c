/* tests/fault/test_damage_bounds.c: how little one overwritten header costs.
 *
 * A heap of 64 MiB of blocks of 32 to 528 bytes, made by hand. One header is overwritten in a way
 * of each kind, at places all over the heap; the walk has to find its way again: at most SKIP_MAX
 * bytes are skipped, no block beyond NEAR_BYTES of the damage is other than it was, and the
 * damage is said. DAMAGE_PLACES=N tries N places for each kind (default 6). */
#include "heap_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    HEAP_BYTES = 64 << 20,
    SKIP_MAX = 8 << 10,
    NEAR_BYTES = 8 << 10,
    PLACES_DEFAULT = 6,
};
static const mw_addr BRK = 0x555555600000;

/* What happens to a header. */
static const struct {
    const char *name;
    bool in_place; /* value is xored, else stored */
    uint64_t value;
    bool may_be_sound; /* the heap may come out as another sound one */
} kinds[] = {
    {"zeros", false, 0, false},
    {"text", false, 0x4141414141414141, false},
    {"all ones", false, UINT64_MAX, false},
    {"a size beyond the heap", false, (uint64_t)1 << 40 | 1, false},
    {"a size of 8", false, 9, false},
    {"a size off its grid", true, 8, false},
    {"a larger size", true, 0x400, true},
    {"flags", true, 6, true},
    {"a pointer", false, 0x7f1234567890, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static unsigned places_wanted(void)
{
    const char *text = getenv("DAMAGE_PLACES");
    return text ? (unsigned)atoi(text) : PLACES_DEFAULT;
}

/* Half of the blocks are in use, the others free, cached ones among them; contents are words. */
static struct heap_builder *build(const struct heap_family *family)
{
    struct heap_builder *heap = heap_new(family);
    uint64_t state = 7;
    heap_map(heap, BRK, HEAP_BYTES, "[heap]");
    heap_segment(heap, MW_SEGMENT_BRK, BRK, BRK + HEAP_BYTES);
    heap_tcache_new(heap);
    for (unsigned frees = 0; heap_left(heap) > 1 << 20;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t size = 32 + (state >> 33) % 32 * 16;
        bool is_free = (state >> 50) % 64 == 0 && frees < 2000 && heap->prev_in_use;
        frees += is_free;
        mw_addr chunk = heap_block(heap, size, is_free ? MW_BLOCK_FREE : MW_BLOCK_IN_USE);
        if (!is_free)
            memset(heap_bytes(heap, chunk + 16), (int)(state >> 40) | 1, (size_t)size - 24);
    }
    heap_block(heap, 64, MW_BLOCK_IN_USE);
    heap_top(heap);
    heap_thread(heap, 0x7f9000000000, true);
    heap_finish(heap);
    return heap;
}

static bool is_near(mw_addr address, mw_addr damage)
{
    return address + NEAR_BYTES > damage && address < damage + NEAR_BYTES;
}

/* Every block that was built, but near the damage, is there as it was; and none besides. */
static void compare(const struct heap_builder *heap, const struct heap_walked *walked,
                    mw_addr damage, const char *what)
{
    size_t at = 0;
    for (size_t i = 0; i < heap->expect_count; i++) {
        const struct mw_block *wanted = &heap->expects[i].block;
        if (is_near(wanted->address, damage))
            continue;
        while (at < walked->block_count && is_near(walked->blocks[at].block.address, damage))
            at++;
        if (at == walked->block_count)
            fail_msg("%s: no block at %llx", what, (unsigned long long)wanted->address);
        const struct mw_block *got = &walked->blocks[at++].block;
        if (got->address != wanted->address ||
            (got->size != wanted->size && !is_near(got->address + got->size, damage)) ||
            (got->state != wanted->state && !is_near(got->address + got->size, damage)))
            fail_msg("%s: %llx of %llu bytes instead of %llx of %llu", what,
                     (unsigned long long)got->address, (unsigned long long)got->size,
                     (unsigned long long)wanted->address, (unsigned long long)wanted->size);
    }
}

static void damage_once(struct heap_builder *heap, size_t kind, size_t block)
{
    char what[160];
    mw_addr header = heap->expects[block].block.address + 8;
    uint64_t before = heap_get(heap, header);
    snprintf(what, sizeof what, "glibc %s, block %zu, %s", heap->family->name, block,
             kinds[kind].name);
    heap_put(heap, header, kinds[kind].in_place ? before ^ kinds[kind].value : kinds[kind].value);
    struct mw_image image;
    struct heap_walked walked = {0};
    heap_open(heap, &image);
    heap_walk(&image, NULL, &walked);
    const char *wrong = heap_meaning_wrong(&image, &walked);
    if (walked.status != MW_OK || wrong)
        fail_msg("%s: %s", what, wrong ? wrong : walked.err.text);
    if (walked.allocator.skipped_bytes > SKIP_MAX)
        fail_msg("%s: %llu bytes skipped", what,
                 (unsigned long long)walked.allocator.skipped_bytes);
    if (walked.findings.count == 0 && !kinds[kind].may_be_sound)
        fail_msg("%s: nothing is said", what);
    compare(heap, &walked, header, what);
    heap_walked_deinit(&walked);
    mw_image_close(&image);
    heap_put(heap, header, before);
}

static void sweep(const char *family)
{
    size_t index = 0;
    while (strcmp(heap_families[index].name, family) != 0)
        index++;
    struct heap_builder *heap = build(&heap_families[index]);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (unsigned place = 0; place < places_wanted(); place++) {
            size_t step = (heap->expect_count - 8) / (places_wanted() + 1);
            damage_once(heap, kind, 4 + step / 2 + place * step + kind);
        }
    heap_delete(heap);
}

static void test_one_header_2_36(void **state)
{
    (void)state;
    sweep("2.36");
}

static void test_one_header_2_44(void **state)
{
    (void)state;
    sweep("2.44");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_header_2_36),
        cmocka_unit_test(test_one_header_2_44),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
