/* tests/unit/test_image_capture.c: a core with notes of our own: what they add, and what they may
 * not do when they lie. */
#include "base/io.h"
#include "base/random.h"
#include "core_builder.h"
#include "image/capture.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 8, MUTANTS = 3000 };
static const mw_addr HEAP = 0x555500000000, STACK = 0x7ffd00000000;

static uint8_t bytes[PAGES * PAGE];

static const char smaps[] =
    "555500000000-555500008000 rw-p 00000000 00:00 0 [heap]\n"
    "Rss: 16 kB\nPss: 16 kB\nAnonymous: 16 kB\nSwap: 4 kB\nVmFlags: rd wr mr ac \n"
    "7ffd00000000-7ffd00002000 rw-p 00000000 00:00 0 [stack]\n"
    "Rss: 8 kB\nPss: 8 kB\nAnonymous: 8 kB\nSwap: 0 kB\nVmFlags: rd wr gd \n";
static const char facts[] = "memwhy=0.1.0\ncpus_online=12\npauses=1\npaused_ns=5000000\n"
                            "vm_hwm=123456\nnonsense\nlimit_stack=8388608\nuptime_ms=2500\n";
static const char settings[] = "MALLOC_ARENA_MAX=2";
static const char names[] = "4711 worker\n9 nobody\n";
/* Present: pages 0, 1, 4 and 5 of the heap; in swap: 2; the stack whole. */
static const struct mw_capture_page_note pages[] = {
    {0x555500000000, 2, MW_PAGE_PRESENT},
    {0x555500002000, 1, MW_PAGE_SWAPPED},
    {0x555500004000, 2, MW_PAGE_PRESENT},
    {0x7ffd00000000, 2, MW_PAGE_PRESENT},
};

static void add_all(struct core_builder *core)
{
    const uint64_t auxv[][2] = {{AT_PAGESZ, PAGE}, {AT_RANDOM, STACK + 8}, {AT_NULL, 0}};
    core_add_process(core, 4711, "server", "server --x");
    core_add_thread(core, 4711, STACK + PAGE);
    core_add_auxv(core, auxv, sizeof auxv / sizeof *auxv);
    core_add_note(core, "MEMWHY", MW_CAPTURE_SMAPS, smaps, sizeof smaps - 1);
    core_add_note(core, "MEMWHY", MW_CAPTURE_PAGES, pages, sizeof pages);
    core_add_note(core, "MEMWHY", MW_CAPTURE_PROCESS, facts, sizeof facts - 1);
    core_add_note(core, "MEMWHY", MW_CAPTURE_SETTINGS, settings, sizeof settings);
    core_add_note(core, "MEMWHY", MW_CAPTURE_THREADS, names, sizeof names - 1);
    core_add_note(core, "MEMWHY", 77, names, sizeof names - 1); /* of a later version */
    core_add_segment(core, HEAP, 2 * PAGE, 2 * PAGE, PF_R | PF_W, bytes);
    core_add_segment(core, HEAP + 2 * PAGE, 2 * PAGE, 0, PF_R | PF_W, NULL);
    core_add_segment(core, HEAP + 4 * PAGE, 2 * PAGE, 2 * PAGE, PF_R | PF_W, bytes + 4 * PAGE);
    core_add_segment(core, HEAP + 6 * PAGE, 2 * PAGE, 0, PF_R | PF_W, NULL);
    core_add_segment(core, STACK, 2 * PAGE, 2 * PAGE, PF_R | PF_W, bytes);
}

static enum mw_status open_bytes(const uint8_t *core, size_t length, struct mw_image *image)
{
    struct mw_error err = {0};
    int fd = memfd_create("capture", MFD_CLOEXEC);
    assert_int_equal(mw_io_write_full(fd, core, length), 0);
    enum mw_status status = mw_image_open_core(fd, "capture", NULL, image, &err);
    if (status != MW_OK)
        close(fd);
    return status;
}

static uint8_t *build(size_t *length_out)
{
    struct core_builder *core = calloc(1, sizeof *core);
    assert_non_null(core);
    add_all(core);
    uint8_t *built = core_build(core, length_out);
    free(core);
    return built;
}

static int group_setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + i / PAGE + 1);
    return 0;
}

static void test_what_it_says(void **state)
{
    (void)state;
    size_t length;
    struct mw_image image;
    uint8_t *core = build(&length), got[PAGES * PAGE], flags[PAGES];
    assert_int_equal(open_bytes(core, length, &image), MW_OK);
    assert_int_equal(image.kind, MW_IMAGE_CAPTURE);
    assert_int_equal(image.regions.count, 2);
    assert_string_equal(image.regions.items[0].name, "[heap]");
    assert_int_equal(mw_mapping_counter(&image.regions.items[0], MW_COUNTER_RSS), 16384);
    assert_true(image.can & MW_CAN_PAGES && image.can & MW_CAN_COUNTERS &&
                image.can & MW_CAN_REGISTERS);
    assert_int_equal(mw_image_pages(&image, HEAP, PAGES, flags, NULL), MW_OK);
    static const uint8_t wanted[PAGES] = {1, 1, 2, 0, 1, 1, 0, 0};
    assert_memory_equal(flags, wanted, PAGES);
    assert_int_equal(image.process.cpus_online, 12);
    assert_int_equal(image.process.vm_hwm, 123456);
    assert_int_equal(image.pauses.total_ns, 5000000);
    assert_true(image.process.uptime_seconds > 2.4 && image.process.uptime_seconds < 2.6);
    assert_string_equal(mw_process_setting(&image.process, "MALLOC_ARENA_MAX"), "2");
    assert_string_equal(image.threads[0].name, "worker");

    assert_int_equal(mw_image_read_some(&image, HEAP, got, sizeof got), 2 * PAGE); /* then swap */
    assert_memory_equal(got, bytes, 2 * PAGE);
    assert_int_equal(mw_image_read_some(&image, HEAP + 3 * PAGE, got, 5 * PAGE), 5 * PAGE);
    for (size_t i = 0; i < PAGE; i++)
        assert_true(got[i] == 0 && got[3 * PAGE + i] == 0);
    assert_memory_equal(got + PAGE, bytes + 4 * PAGE, 2 * PAGE);
    assert_int_equal(mw_image_read_some(&image, HEAP + 8 * PAGE, got, 1), 0);
    mw_image_close(&image);
    free(core);
}

/* Notes that lie in some of their bytes: ranges stay in order, reads in their regions. */
static void test_mutants(void **state)
{
    (void)state;
    size_t length;
    uint64_t random = 4711;
    uint8_t *core = build(&length), *copy = malloc(length);
    assert_non_null(copy);
    const size_t head = length < 8192 ? length : 8192; /* headers and notes */
    unsigned captures = 0;
    for (unsigned i = 0; i < MUTANTS; i++) {
        struct mw_image image;
        memcpy(copy, core, length);
        for (unsigned k = 0; k < 1 + i % 7; k++)
            copy[mw_random_below(&random, head)] = (uint8_t)mw_random_below(&random, 256);
        if (open_bytes(copy, length, &image) != MW_OK)
            continue;
        captures += image.kind == MW_IMAGE_CAPTURE;
        for (size_t k = 0; k < image.regions.count; k++) {
            const struct mw_mapping *map = &image.regions.items[k];
            uint8_t got[3 * PAGE], flags[16];
            assert_true(map->start < map->end);
            assert_true(k == 0 || image.regions.items[k - 1].end <= map->start);
            size_t read = mw_image_read_some(&image, map->start, got, sizeof got);
            assert_true(read <= sizeof got);
            if (image.can & MW_CAN_PAGES && map->start % PAGE == 0)
                assert_int_equal(mw_image_pages(&image, map->start, sizeof flags, flags, NULL),
                                 MW_OK);
        }
        mw_image_close(&image);
    }
    assert_true(captures > MUTANTS / 4);
    free(copy);
    free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_mutants),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
