/* tests/unit/test_window.c: the moving window over bytes whose every read is recorded: what comes
 * out is the memory, absent pages are never read, a walk reads each byte about once. */
#include "base/alloc.h"
#include "child.h"
#include "image/open.h"
#include "image/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 2048 };
static const mw_addr START = 0x7f0000000000;

static uint8_t bytes[PAGES * PAGE];
static uint8_t flags[PAGES];
static unsigned reads[PAGES]; /* how often each page was read */
static size_t read_calls;
static struct mw_image image;
static struct mw_image_ops recording;
static const struct mw_image_ops *original;

static void record_read(struct mw_image *of, mw_addr address, void *buffer, size_t length,
                        size_t *got_out)
{
    read_calls++;
    for (mw_addr at = address & ~(mw_addr)(PAGE - 1); at < address + length; at += PAGE)
        if (at >= START && at < START + sizeof bytes)
            reads[(at - START) / PAGE]++;
    original->read(of, address, buffer, length, got_out);
}

static void open_parts(const struct mw_image_memory_part *parts, size_t count)
{
    memset(reads, 0, sizeof reads);
    read_calls = 0;
    assert_int_equal(mw_image_open_memory(parts, count, &image, NULL), MW_OK);
    original = image.ops;
    recording = *original;
    recording.read = record_read;
    image.ops = &recording;
}

static struct mw_image_memory_part part(size_t first, size_t count, bool has_flags)
{
    return (struct mw_image_memory_part){
        .mapping = {.start = START + first * PAGE,
                    .end = START + (first + count) * PAGE,
                    .perms = MW_PERM_READ | MW_PERM_WRITE},
        .bytes = bytes + first * PAGE,
        .pages = has_flags ? flags + first : NULL,
    };
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 24 | 1);
    memset(flags, MW_PAGE_PRESENT, sizeof flags);
    struct mw_image_memory_part all = part(0, PAGES, true);
    open_parts(&all, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mw_image_close(&image);
    return 0;
}

static bool is_absent(size_t page)
{
    return page % 3 == 1 || (page > 700 && page < 1500);
}

/* Some pages absent, whose true bytes must never be seen. */
static void test_walk_over_absent_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAGES; i++)
        if (is_absent(i))
            flags[i] = i % 2 ? 0 : MW_PAGE_PRESENT | MW_PAGE_ZERO;
        else if (i % 5 == 0)
            flags[i] = MW_PAGE_SWAPPED;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    for (size_t at = 0; at + 16 <= sizeof bytes; at += 16) {
        const uint8_t *got = mw_window_at(&window, START + at, 16);
        assert_non_null(got);
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(got[i], is_absent(at / PAGE) ? 0 : bytes[at + i]);
    }
    uint64_t read_pages = 0;
    for (size_t i = 0; i < PAGES; i++) {
        if (is_absent(i))
            assert_int_equal(reads[i], 0);
        else
            assert_int_equal(reads[i], 1);
        read_pages += reads[i];
    }
    assert_true(window.bytes_read == read_pages * PAGE);
    mw_window_deinit(&window);
}

/* All there: few large reads. */
static void test_sequential_walk_reads_ahead(void **state)
{
    (void)state;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    for (size_t at = 0; at + 24 <= sizeof bytes; at += 24)
        assert_memory_equal(mw_window_at(&window, START + at, 24), bytes + at, 24);
    assert_true(read_calls <= 8 + sizeof bytes / MW_WINDOW_BYTES + 1);
    for (size_t i = 0; i < PAGES; i++)
        assert_true(reads[i] >= 1 && reads[i] <= 2); /* twice: an item across the end */
    mw_window_deinit(&window);
}

/* Jumps far apart: a page each, not a megabyte. */
static void test_jumps_stay_small(void **state)
{
    (void)state;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    uint32_t seed = 12345;
    for (int i = 0; i < 1000; i++) {
        seed = seed * 1664525 + 1013904223;
        size_t at = seed % (sizeof bytes - 64);
        assert_memory_equal(mw_window_at(&window, START + at, 64), bytes + at, 64);
    }
    assert_true(window.bytes_read < (uint64_t)1000 * 4 * PAGE);
    mw_window_deinit(&window);
}

/* Any mix of steps, sizes and directions gives the bytes of the memory. */
static void test_any_order(void **state)
{
    (void)state;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    uint64_t seed = 42, at = 0;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t need = (seed >> 33) % 97 == 0 ? 64 << 10 : 1 + (seed >> 40) % 300;
        switch ((seed >> 20) % 8) {
        case 0:
            at = (seed >> 12) % sizeof bytes;
            break;
        case 1:
            at -= at < 5000 ? at : 5000;
            break;
        default:
            at += (seed >> 50) % 9000;
        }
        if (at + need > sizeof bytes)
            at = 0;
        const uint8_t *got = mw_window_at(&window, START + at, need);
        assert_non_null(got);
        assert_memory_equal(got, bytes + at, need);
    }
    mw_window_deinit(&window);
}

static void test_ends_and_holes(void **state)
{
    (void)state;
    mw_image_close(&image);
    flags[20] = MW_PAGE_GUARD;
    struct mw_image_memory_part parts[] = {part(0, 10, true), part(10, 15, true),
                                           part(30, 10, true)};
    parts[2].bytes = NULL; /* mapped, not readable */
    flags[30] = flags[31] = 0;
    open_parts(parts, 3);
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    /* Across two mappings that touch. */
    assert_memory_equal(mw_window_at(&window, START + 10 * PAGE - 50, 100), bytes + 10 * PAGE - 50,
                        100);
    /* Up to the guard, not into it. */
    assert_non_null(mw_window_at(&window, START + 20 * PAGE - 8, 8));
    assert_null(mw_window_at(&window, START + 20 * PAGE - 8, 9));
    assert_null(mw_window_at(&window, START + 20 * PAGE, 1));
    assert_non_null(mw_window_at(&window, START + 21 * PAGE, 8));
    /* The end of the mapping. */
    assert_non_null(mw_window_at(&window, START + 25 * PAGE - 8, 8));
    assert_null(mw_window_at(&window, START + 25 * PAGE - 8, 16));
    assert_null(mw_window_at(&window, START + 27 * PAGE, 1));
    /* Not readable, but absent pages are known to be zeros. */
    static const uint8_t zeros[64];
    assert_memory_equal(mw_window_at(&window, START + 31 * PAGE, 64), zeros, 64);
    assert_null(mw_window_at(&window, START + 32 * PAGE, 1));
    assert_null(mw_window_at(&window, UINT64_MAX - 3, 8));
    assert_null(mw_window_at(&window, 0, 8));
    mw_window_deinit(&window);
}

/* An absent page of a file or of shared memory has contents all the same. */
static void test_absent_pages_of_files_are_read(void **state)
{
    (void)state;
    mw_image_close(&image);
    struct mw_image_memory_part parts[] = {part(0, 4, true), part(4, 4, true), part(8, 4, true)};
    parts[0].mapping.name = "/lib/libc.so.6";
    parts[0].mapping.inode = 5;
    parts[1].mapping.perms |= MW_PERM_SHARED;
    memset(flags, 0, 12);
    open_parts(parts, 3);
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    assert_memory_equal(mw_window_at(&window, START + 100, 64), bytes + 100, 64);
    assert_memory_equal(mw_window_at(&window, START + 5 * PAGE, 64), bytes + 5 * PAGE, 64);
    static const uint8_t zeros[64];
    assert_memory_equal(mw_window_at(&window, START + 9 * PAGE, 64), zeros, 64);
    mw_window_deinit(&window);
}

static void test_limit_and_reset(void **state)
{
    (void)state;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    mw_window_reset(&window, START + 2 * PAGE + 100);
    assert_non_null(mw_window_at(&window, START + 2 * PAGE + 92, 8));
    assert_null(mw_window_at(&window, START + 2 * PAGE + 93, 8));
    assert_null(mw_window_at(&window, START + 3 * PAGE, 1));
    assert_non_null(mw_window_at(&window, START, 64));
    for (size_t i = 3; i < PAGES; i++)
        assert_int_equal(reads[i], 0);
    /* The target ran: what was read before is not believed any more. */
    bytes[5] ^= 0xff;
    assert_int_not_equal(mw_window_at(&window, START, 8)[5], bytes[5]);
    mw_window_reset(&window, UINT64_MAX);
    assert_int_equal(mw_window_at(&window, START, 8)[5], bytes[5]);
    assert_non_null(mw_window_at(&window, START + 3 * PAGE, 1));
    mw_window_deinit(&window);
    mw_window_deinit(NULL);
}

/* A core knows no residency: everything is read. */
static void test_without_residency(void **state)
{
    (void)state;
    memset(flags, 0, sizeof flags);
    image.can &= ~(unsigned)MW_CAN_PAGES;
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &image), MW_OK);
    for (size_t at = 0; at + 100 <= sizeof bytes; at += 100)
        assert_memory_equal(mw_window_at(&window, START + at, 100), bytes + at, 100);
    mw_window_deinit(&window);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct mw_window window;
    mw_alloc_fail_after(0);
    assert_int_equal(mw_window_init(&window, &image), MW_NOMEM);
    mw_alloc_fail_after(-1);
    mw_window_deinit(&window);
}

static void prepare(void *report)
{
    uint8_t **at = report;
    *at = mmap(NULL, 512 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 512; i += 2)
        (*at)[i * PAGE] = 7;
}

/* The trap itself: walking a live process must not make its untouched pages present. */
static void test_live_process_is_not_touched(void **state)
{
    (void)state;
    struct child child;
    uint8_t **at = child_start(&child, prepare, sizeof *at);
    struct mw_image live;
    const struct mw_image_open_options options = {.need_read = true};
    assert_int_equal(mw_image_open_live(child.pid, &options, NULL, &live, NULL), MW_OK);
    if ((live.can & (MW_CAN_READ | MW_CAN_PAGES)) != (MW_CAN_READ | MW_CAN_PAGES)) {
        mw_image_close(&live);
        child_stop(&child, at, sizeof *at);
        skip(); /* no right to read another process */
    }
    struct mw_window window;
    assert_int_equal(mw_window_init(&window, &live), MW_OK);
    for (size_t i = 0; i < 512; i++)
        assert_int_equal(*mw_window_at(&window, (uintptr_t)*at + i * PAGE, 64), i % 2 ? 0 : 7);
    uint8_t after[512];
    assert_int_equal(mw_image_pages(&live, (uintptr_t)*at, 512, after, NULL), MW_OK);
    for (size_t i = 0; i < 512; i++)
        if (!(after[i] & MW_PAGE_HUGE))
            assert_int_equal(after[i], i % 2 ? 0 : MW_PAGE_PRESENT);
    mw_window_deinit(&window);
    mw_image_close(&live);
    child_stop(&child, at, sizeof *at);
}

#define WITH_IMAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_IMAGE(test_walk_over_absent_pages), WITH_IMAGE(test_sequential_walk_reads_ahead),
        WITH_IMAGE(test_jumps_stay_small),       WITH_IMAGE(test_any_order),
        WITH_IMAGE(test_ends_and_holes),         WITH_IMAGE(test_absent_pages_of_files_are_read),
        WITH_IMAGE(test_limit_and_reset),        WITH_IMAGE(test_without_residency),
        WITH_IMAGE(test_out_of_memory),          cmocka_unit_test(test_live_process_is_not_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
