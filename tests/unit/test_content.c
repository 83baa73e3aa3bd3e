/* tests/unit/test_content.c: which kind of data bytes are. Each kind with samples that must be it,
 * and neighbours that must not. */
#include "image/open.h"
#include "maps/content.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLE = MW_CONTENT_SAMPLE_BYTES };
static const mw_addr HEAP = 0x555555600000, MODULE = 0x7f0000000000, SHARED = 0x7f1000000000;

static struct mw_image image;

static int image_open(void **state)
{
    (void)state;
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = HEAP,
                     .end = HEAP + 65536,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = "[heap]"}},
        {.mapping = {.start = MODULE,
                     .end = MODULE + 65536,
                     .perms = MW_PERM_READ,
                     .name = "/usr/lib/libx.so"}},
        {.mapping = {.start = SHARED,
                     .end = SHARED + 65536,
                     .perms = MW_PERM_READ | MW_PERM_SHARED,
                     .name = "/dev/shm/x"}},
    };
    return mw_image_open_memory(parts, 3, &image, NULL) == MW_OK ? 0 : 1;
}

static int image_close(void **state)
{
    (void)state;
    mw_image_close(&image);
    return 0;
}

static void check_bytes(const void *bytes, size_t length, enum mw_content want)
{
    uint8_t copy[SAMPLE]; /* exactly as long, so that a sanitizer sees a byte too many */
    assert_true(length <= SAMPLE);
    uint8_t *exact = malloc(length);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    memcpy(copy, bytes, length);
    enum mw_content got = mw_content_classify(&image, exact, length);
    if (got != want)
        fail_msg("'%s' for '%s': %.60s", mw_content_name(got), mw_content_name(want),
                 (const char *)bytes);
    assert_memory_equal(exact, copy, length);
    free(exact);
}

static void check_text(const char *text, enum mw_content want)
{
    char sample[SAMPLE];
    size_t length = strlen(text);
    assert_true(length > 0);
    for (size_t i = 0; i < sizeof sample; i++) /* as long as a sample is */
        sample[i] = text[i % length];
    check_bytes(sample, sizeof sample, want);
}

static void check_words(const uint64_t *words, size_t count, enum mw_content want)
{
    uint64_t sample[SAMPLE / 8];
    for (size_t i = 0; i < SAMPLE / 8; i++)
        sample[i] = words[i % count];
    check_bytes(sample, sizeof sample, want);
}

static void test_text(void **state)
{
    (void)state;
    check_text("The quick brown fox jumps over the lazy dog. ", MW_CONTENT_TEXT);
    check_text("2026-11-30 20:15:03 INFO request 4711 took 12 ms\n", MW_CONTENT_TEXT);
    check_text("GET /index.html HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n", MW_CONTENT_TEXT);
    check_text("a,b,c,d;1,2,3,4\t", MW_CONTENT_TEXT);
}

static void test_json(void **state)
{
    (void)state;
    check_text("{\"name\": \"web-1\", \"address\": \"192.0.2.7\", \"vars\": [1, 2]},",
               MW_CONTENT_JSON);
    check_text("\"results\":[{\"attrs\":{\"__name\":\"host00017\"}}],", MW_CONTENT_JSON);
}

static void test_xml(void **state)
{
    (void)state;
    check_text("<row><id>17</id><name>x</name></row>\n", MW_CONTENT_XML);
    check_text("<html><head><title>Hello</title></head><body><p>Hi</p>", MW_CONTENT_XML);
}

static void test_sql(void **state)
{
    (void)state;
    check_text("SELECT id, name FROM users WHERE age > 17 ORDER BY name; ", MW_CONTENT_SQL);
    check_text("insert into events (a, b) values (1, 2); ", MW_CONTENT_SQL);
    check_text("selected items are in the shop ", MW_CONTENT_TEXT); /* "select", not a word */
}

static void test_zero(void **state)
{
    (void)state;
    uint8_t bytes[SAMPLE] = {0};
    check_bytes(bytes, sizeof bytes, MW_CONTENT_ZERO);
    check_bytes(bytes, 16, MW_CONTENT_ZERO);
}

static void test_pointers(void **state)
{
    (void)state;
    const uint64_t list[] = {HEAP + 16, HEAP + 4096, 17, 0};
    check_words(list, 4, MW_CONTENT_POINTERS);
    const uint64_t table[] = {HEAP + 160, HEAP + 320, HEAP + 480, 0x1122334455667788};
    check_words(table, 4, MW_CONTENT_POINTERS);
}

static void test_objects(void **state)
{
    (void)state;
    uint64_t object[SAMPLE / 8] = {MODULE + 0x4d10, 1, 2, HEAP + 16};
    check_bytes(object, sizeof object, MW_CONTENT_OBJECTS); /* starts with a vtable */
    const uint64_t many[] = {1, 2, MODULE + 0x120, 3, 4, 5, 6, 7};
    check_words(many, 8, MW_CONTENT_OBJECTS);
    const uint64_t shared[] = {SHARED + 64, SHARED + 128, SHARED + 192, 1}; /* no module's data */
    check_words(shared, 4, MW_CONTENT_POINTERS);
}

static void test_numbers(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 2, 3, 0, 70000, 5, (uint64_t)-3, 12};
    check_words(counts, 8, MW_CONTENT_NUMBERS);
    int32_t ints[SAMPLE / 4];
    for (int i = 0; i < SAMPLE / 4; i++)
        ints[i] = i % 2 ? 0 : i * 3;
    check_bytes(ints, sizeof ints, MW_CONTENT_NUMBERS);
}

/* A generator good enough for bytes that look random. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * 0x2545f4914f6cdd1d;
}

static void test_compressed(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252;
    for (int round = 0; round < 200; round++) {
        uint64_t words[SAMPLE / 8];
        for (size_t i = 0; i < SAMPLE / 8; i++)
            words[i] = next_random(&seed);
        check_bytes(words, sizeof words, MW_CONTENT_COMPRESSED);
    }
}

static void test_mixed(void **state)
{
    (void)state;
    const uint64_t doubles[] = {0x3ff0000000000000, 0x4008cccccccccccd, 0x40591eb851eb851f,
                                0x3fb999999999999a};
    check_words(doubles, 4, MW_CONTENT_MIXED); /* no kind of its own */
    uint8_t pixels[SAMPLE];
    for (int i = 0; i < SAMPLE; i++)
        pixels[i] = (uint8_t)(0x80 + i / 16);
    check_bytes(pixels, sizeof pixels, MW_CONTENT_MIXED);
}

/* Small blocks: 16 and 24 bytes are all there is to look at. */
static void test_short_samples(void **state)
{
    (void)state;
    check_bytes("0123456789abcdef", 16, MW_CONTENT_TEXT);
    const uint64_t node[] = {HEAP + 16, 5, HEAP + 64};
    check_bytes(node, sizeof node, MW_CONTENT_POINTERS);
    const uint64_t object[] = {MODULE + 8, 5, 0};
    check_bytes(object, sizeof object, MW_CONTENT_OBJECTS);
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < MW_CONTENT_COUNT; i++) {
        const char *name = mw_content_name((enum mw_content)i);
        assert_true(name && name[0]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(name, mw_content_name((enum mw_content)k));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),          cmocka_unit_test(test_json),
        cmocka_unit_test(test_xml),           cmocka_unit_test(test_sql),
        cmocka_unit_test(test_zero),          cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_objects),       cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_compressed),    cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_short_samples), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, image_open, image_close);
}
