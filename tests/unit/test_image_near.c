/* tests/unit/test_image_near.c: flags of pages are remembered where that cannot be wrong, and asked
 * for where it can. The image here counts how often it is asked. */
#include "image/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 256 };
static const mw_addr START = 0x7f0000000000;

static struct target {
    uint8_t flags[PAGES];
    unsigned asked, reads;
} target, other;

static enum mw_status target_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                   uint8_t *flags_out, struct mw_error *err)
{
    struct target *t = image->state;
    (void)err;
    t->asked++;
    for (size_t i = 0; i < page_count; i++) {
        uint64_t at = (start - START) / PAGE + i;
        if (start >= START && at < PAGES)
            flags_out[i] = t->flags[at];
    }
    return MW_OK;
}

static void target_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                        size_t *got_out)
{
    struct target *t = image->state;
    (void)address;
    t->reads++;
    memset(buffer, 'x', length);
    *got_out = length;
}

static enum mw_status target_stop(struct mw_image *image, struct mw_error *err)
{
    (void)image;
    (void)err;
    return MW_OK;
}

static uint64_t target_resume(struct mw_image *image)
{
    (void)image;
    return 1;
}

static const struct mw_image_ops ops = {
    .name = "counting",
    .pages = target_pages,
    .read = target_read,
    .stop = target_stop,
    .resume = target_resume,
};

static struct mw_image image_of(struct target *t)
{
    memset(t, 0, sizeof *t);
    memset(t->flags + 3, MW_PAGE_PRESENT, 5);
    return (struct mw_image){
        .ops = &ops,
        .state = t,
        .kind = MW_IMAGE_LIVE,
        .page_size = PAGE,
        .can = MW_CAN_READ | MW_CAN_PAGES,
    };
}

static unsigned flag_of(struct mw_image *image, size_t page)
{
    uint8_t flag = 0xff;
    assert_int_equal(mw_image_pages_near(image, START + page * PAGE, 1, &flag), MW_OK);
    return flag;
}

static void test_held_it_is_asked_once(void **state)
{
    (void)state;
    struct mw_image image = image_of(&target);
    assert_int_equal(mw_image_stop(&image, NULL), MW_OK);
    for (size_t i = 0; i < MW_NEAR_PAGES; i++)
        assert_int_equal(flag_of(&image, i), i >= 3 && i < 8 ? MW_PAGE_PRESENT : 0);
    assert_int_equal(target.asked, 1);
    assert_int_equal(flag_of(&image, MW_NEAR_PAGES), 0);
    assert_int_equal(target.asked, 2);
    uint8_t flags[MW_NEAR_PAGES];
    assert_int_equal(mw_image_pages_near(&image, START + 5 * PAGE, MW_NEAR_PAGES, flags), MW_OK);
    assert_int_equal(target.asked, 2);
    for (size_t i = 0; i < MW_NEAR_PAGES; i++)
        assert_int_equal(flags[i], i < 3 ? MW_PAGE_PRESENT : 0);
    mw_image_resume(&image);
    target.flags[5] = 0;
    assert_int_equal(mw_image_stop(&image, NULL), MW_OK);
    assert_int_equal(flag_of(&image, 5), 0);
    assert_int_equal(target.asked, 3);
    mw_image_resume(&image);
}

/* While it runs a page can be touched at any moment: one that has nothing is asked for each time,
 * and one that has something is read from the target itself. */
static void test_running_only_contents_are_remembered(void **state)
{
    (void)state;
    struct mw_image image = image_of(&target);
    assert_int_equal(flag_of(&image, 4), MW_PAGE_PRESENT);
    assert_int_equal(flag_of(&image, 5), MW_PAGE_PRESENT);
    assert_int_equal(target.asked, 1);
    assert_int_equal(flag_of(&image, 20), 0);
    target.flags[20] = MW_PAGE_PRESENT;
    assert_int_equal(flag_of(&image, 20), MW_PAGE_PRESENT);
    assert_int_equal(target.asked, 3);
    target.flags[21] = MW_PAGE_PRESENT | MW_PAGE_ZERO;
    assert_int_equal(flag_of(&image, 21), target.flags[21]);
    target.flags[21] = MW_PAGE_PRESENT;
    assert_int_equal(flag_of(&image, 21), MW_PAGE_PRESENT);
}

static void test_a_small_read(void **state)
{
    (void)state;
    struct mw_image image = image_of(&target);
    uint64_t word;
    assert_int_equal(mw_image_stop(&image, NULL), MW_OK);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(
            mw_image_read_present(&image, START + 3 * PAGE + i * 8, &word, sizeof word), 8);
        assert_true(word == 0x7878787878787878);
        assert_int_equal(mw_image_read_present(&image, START + i * 8, &word, sizeof word), 8);
        assert_true(word == 0); /* absent: not read */
    }
    assert_int_equal(target.asked, 1);
    assert_int_equal(target.reads, 100);
    mw_image_resume(&image);
}

/* Two images, and one after another at the same place. */
static void test_images_are_apart(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct mw_image one = image_of(&target), two = image_of(&other);
        memset(other.flags, round ? MW_PAGE_SWAPPED : MW_PAGE_ZERO, sizeof other.flags);
        assert_int_equal(mw_image_stop(&one, NULL), MW_OK);
        assert_int_equal(mw_image_stop(&two, NULL), MW_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(flag_of(&one, 4), MW_PAGE_PRESENT);
            assert_int_equal(flag_of(&two, 4), round ? MW_PAGE_SWAPPED : MW_PAGE_ZERO);
        }
        mw_image_resume(&one);
        mw_image_resume(&two);
    }
}

static void test_odd_places(void **state)
{
    (void)state;
    struct mw_image image = image_of(&target);
    uint8_t flags[2] = {1, 1};
    assert_int_equal(mw_image_stop(&image, NULL), MW_OK);
    assert_int_equal(mw_image_pages_near(&image, START + 1, 1, flags), MW_INVALID);
    assert_int_equal(mw_image_pages_near(&image, UINT64_MAX - PAGE + 1, 2, flags), MW_INVALID);
    assert_int_equal(mw_image_pages_near(&image, UINT64_MAX - 2 * PAGE + 1, 1, flags), MW_OK);
    assert_int_equal(flags[0], 0);
    assert_int_equal(mw_image_pages_near(&image, START, 0, flags), MW_OK);
    image.can = MW_CAN_READ;
    assert_int_equal(mw_image_pages_near(&image, START, 1, flags), MW_UNSUPPORTED);
    mw_image_resume(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_it_is_asked_once),
        cmocka_unit_test(test_running_only_contents_are_remembered),
        cmocka_unit_test(test_a_small_read),
        cmocka_unit_test(test_images_are_apart),
        cmocka_unit_test(test_odd_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
