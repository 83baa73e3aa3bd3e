/* tests/unit/test_references.c: who points to blocks: from outside, from within, from nowhere; and
 * mappings that are much larger than what is in them. */
#include "graph/references.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, BLOCK = 64 };
static const mw_addr HEAP = 0x555500000000, DATA = 0x7f0000000000;
static const uint64_t BYTES_MAX = (uint64_t)1 << 30;

/* Three blocks: pointed to from data, from within itself only, from nowhere. */
static void test_who_is_pointed_to(void **state)
{
    (void)state;
    uint64_t heap[PAGE / 8] = {0}, data[PAGE / 8] = {0};
    const mw_addr chunks[] = {HEAP + 2048, HEAP, HEAP + 1024};
    data[7] = HEAP + 2048 + 16 + BLOCK - 9; /* the last usable byte */
    data[8] = HEAP + 1024 + 16 + BLOCK - 8; /* one behind it */
    heap[16 / 8 + 1] = HEAP + 16;
    const uint32_t perms = MW_PERM_READ | MW_PERM_WRITE;
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = HEAP, .end = HEAP + PAGE, .perms = perms}, .bytes = heap},
        {.mapping = {.start = DATA, .end = DATA + PAGE, .perms = perms}, .bytes = data},
        {.mapping = {.start = DATA + PAGE, .end = DATA + 9 * PAGE, .perms = perms}}, /* no bytes */
    };
    struct mw_image image;
    struct mw_references found;
    assert_int_equal(mw_image_open_memory(parts, 3, &image, NULL), MW_OK);
    assert_int_equal(mw_references_search(&image, chunks, 3, BLOCK, BYTES_MAX, NULL, &found, NULL),
                     MW_OK);
    assert_int_equal(found.sampled, 3);
    assert_int_equal(found.referenced, 1);
    assert_true(found.is_complete);
    image.can &= ~(unsigned)MW_CAN_PAGES;
    assert_int_equal(mw_references_search(&image, chunks, 3, BLOCK, BYTES_MAX, NULL, &found, NULL),
                     MW_OK);
    assert_int_equal(found.referenced, 1);
    assert_int_equal(mw_references_search(&image, chunks, 3, BLOCK, PAGE, NULL, &found, NULL),
                     MW_OK);
    assert_int_equal(found.referenced, 0);
    assert_false(found.is_complete);
    mw_image_close(&image);
}

/* Of hundreds of GiB that were asked for two pages are there; and of more it gives up at once. */
static void test_large_and_empty(void **state)
{
    (void)state;
    const uint64_t sizes[] = {(uint64_t)900 << 30, (uint64_t)16 << 40};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *space = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            skip(); /* vm.overcommit_memory=2 */
        (void)madvise(space, sizes[i], MADV_NOHUGEPAGE);
        mw_addr chunk = (mw_addr)space;
        *(mw_addr *)(space + sizes[i] - 8) = chunk + 16;
        struct mw_image image;
        struct mw_references found;
        const struct mw_image_open_options options = {.need_read = true};
        assert_int_equal(mw_image_open_live(getpid(), &options, NULL, &image, NULL), MW_OK);
        if (!(image.can & MW_CAN_PAGES))
            skip();
        alarm(8);
        assert_int_equal(
            mw_references_search(&image, &chunk, 1, BLOCK, BYTES_MAX, NULL, &found, NULL), MW_OK);
        alarm(0);
        assert_int_equal(found.is_complete, i == 0);
        if (i == 0)
            assert_int_equal(found.referenced, 1);
        mw_image_close(&image);
        munmap(space, sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_pointed_to),
        cmocka_unit_test(test_large_and_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
