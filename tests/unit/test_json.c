/* tests/unit/test_json.c: the encoder against Python's json, on hostile strings and extreme
 * numbers; failing sinks; bounds. */
#include "base/alloc.h"
#include "proc/process.h"
#include "report/json.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct capture {
    char *bytes;
    size_t length, room, largest;
    size_t fail_at; /* fail once this many bytes have come; 0: never */
    unsigned failures, calls;
};

static int capture_write(void *user, const void *bytes, size_t length)
{
    struct capture *capture = user;
    capture->calls++;
    if (capture->fail_at && capture->length + length >= capture->fail_at) {
        capture->failures++;
        return EPIPE;
    }
    if (length > capture->largest)
        capture->largest = length;
    if (capture->length + length + 1 > capture->room) {
        size_t room = (capture->length + length + 1) * 2;
        capture->bytes = realloc(capture->bytes, room);
        assert_non_null(capture->bytes);
        capture->room = room;
    }
    memcpy(capture->bytes + capture->length, bytes, length);
    capture->length += length;
    capture->bytes[capture->length] = '\0';
    return 0;
}

static void json_begin(struct mw_json *json, struct capture *capture)
{
    mw_json_init(json, (struct mw_sink){capture, capture_write});
}

static void put_hex(struct mw_json *json, const char *key, const void *bytes, size_t length)
{
    static char hex[2 * 4096 + 1];
    assert_true(length <= 4096);
    for (size_t i = 0; i < length; i++)
        sprintf(hex + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
    hex[2 * length] = '\0';
    mw_json_put_key(json, key);
    mw_json_put_text(json, hex);
}

static void put_string_row(struct mw_json *json, const void *bytes, size_t length)
{
    mw_json_object_begin(json);
    put_hex(json, "hex", bytes, length);
    mw_json_put_key(json, "value");
    mw_json_put_bytes(json, bytes, length);
    mw_json_object_end(json);
}

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Every byte alone, every pair that starts a sequence, edges of UTF-8, and random mixes. */
static void put_strings(struct mw_json *json)
{
    static const char *const edges[] = {
        "",
        "plain",
        "\"\\/\b\f\n\r\t",
        "\xc3\xa9",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "\xc0\x80",
        "\xe0\x80\x80",
        "\xed\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xe2\x82",
        "a\xe2\x82z",
        "\xf0\x9f\x98",
        "\xc2\x80\xc2\x9f\xc2\xa0",
        "\xef\xbf\xbd",
        "\x1b[31mred\x1b[0m",
        "\x7f",
        "</script><!--",
        "\xe2\x80\xa8\xe2\x80\xa9",
        "\xff\xfe\xfd",
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        put_string_row(json, edges[i], strlen(edges[i]));
    for (unsigned c = 0; c < 256; c++) {
        unsigned char one = (unsigned char)c;
        put_string_row(json, &one, 1);
    }
    for (unsigned pair = 0x8000; pair < 0x10000; pair += 7) {
        unsigned char two[3] = {(unsigned char)(pair >> 8), (unsigned char)pair, 'x'};
        put_string_row(json, two, 3);
    }
    for (int i = 0; i < 500; i++) {
        unsigned char text[600];
        size_t length = random_u64() % sizeof text;
        for (size_t k = 0; k < length; k++) /* dense in lead and continuation bytes */
            text[k] = (unsigned char)(random_u64() % 3 ? 0x80 | random_u64() % 128 : random_u64());
        put_string_row(json, text, length);
    }
}

static void put_integer_row(struct mw_json *json, const char *decimal, uint64_t value,
                            bool negative)
{
    mw_json_object_begin(json);
    mw_json_put_key(json, "decimal");
    mw_json_put_text(json, decimal);
    mw_json_put_key(json, "value");
    if (negative)
        mw_json_put_i64(json, (int64_t)value);
    else
        mw_json_put_u64(json, value);
    mw_json_object_end(json);
}

static void put_integers(struct mw_json *json)
{
    char decimal[32];
    put_integer_row(json, "0", 0, false);
    put_integer_row(json, "18446744073709551615", UINT64_MAX, false);
    put_integer_row(json, "18446744073709551614", UINT64_MAX - 1, false);
    put_integer_row(json, "9007199254740993", 9007199254740993u, false); /* 2^53 + 1 */
    put_integer_row(json, "-9223372036854775808", (uint64_t)INT64_MIN, true);
    put_integer_row(json, "9223372036854775807", (uint64_t)INT64_MAX, true);
    put_integer_row(json, "-1", (uint64_t)-1, true);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = random_u64() >> (random_u64() % 64);
        snprintf(decimal, sizeof decimal, "%llu", (unsigned long long)value);
        put_integer_row(json, decimal, value, false);
    }
}

static void put_double_row(struct mw_json *json, uint64_t bits)
{
    unsigned char big_endian[8];
    for (int i = 0; i < 8; i++)
        big_endian[i] = (unsigned char)(bits >> (56 - 8 * i));
    double value;
    memcpy(&value, &bits, sizeof value);
    mw_json_object_begin(json);
    put_hex(json, "bits", big_endian, 8);
    mw_json_put_key(json, "value");
    mw_json_put_double(json, value);
    mw_json_object_end(json);
}

static void put_doubles(struct mw_json *json)
{
    static const double edges[] = {0.0,
                                   -0.0,
                                   0.1,
                                   1.0 / 3,
                                   1e21,
                                   1e22,
                                   1e23,
                                   5e-324,
                                   1e6,
                                   123456789.0,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308,
                                   NAN,
                                   INFINITY,
                                   -INFINITY,
                                   0.058,
                                   9007199254740993.0};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        uint64_t bits;
        memcpy(&bits, &edges[i], sizeof bits);
        put_double_row(json, bits);
    }
    for (int i = 0; i < 5000; i++)
        put_double_row(json, random_u64());
}

static const char *const hostile_keys[] = {"", "a", "\"", "\\", "\n", "\xff", "\xc3\xa9", "\x1b["};

static void put_keys(struct mw_json *json)
{
    size_t count = sizeof hostile_keys / sizeof *hostile_keys;
    mw_json_put_key(json, "keys");
    mw_json_object_begin(json);
    for (size_t i = 0; i < count; i++) {
        mw_json_put_key(json, hostile_keys[i]);
        mw_json_put_u64(json, i);
    }
    mw_json_object_end(json);
    mw_json_put_key(json, "key_hex");
    mw_json_array_begin(json);
    for (size_t i = 0; i < count; i++) {
        char hex[32] = "";
        for (size_t k = 0; hostile_keys[i][k]; k++)
            sprintf(hex + 2 * k, "%02x", (unsigned char)hostile_keys[i][k]);
        mw_json_put_text(json, hex);
    }
    mw_json_array_end(json);
}

static void put_list(struct mw_json *json, const char *key, void (*put)(struct mw_json *json))
{
    mw_json_put_key(json, key);
    mw_json_array_begin(json);
    put(json);
    mw_json_array_end(json);
}

static void test_python_reads_the_same_values(void **state)
{
    (void)state;
    if (system("command -v python3 >/dev/null 2>&1") != 0) {
        print_message("skip: python3 is not installed\n");
        skip();
    }
    struct capture capture = {0};
    struct mw_json json;
    json_begin(&json, &capture);
    mw_json_object_begin(&json);
    put_list(&json, "strings", put_strings);
    put_list(&json, "integers", put_integers);
    put_list(&json, "doubles", put_doubles);
    put_keys(&json);
    mw_json_object_end(&json);
    assert_int_equal(mw_json_finish(&json, NULL), MW_OK);

    char path[] = "/tmp/memwhy-json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, capture.bytes, capture.length), (ssize_t)capture.length);
    close(fd);
    const char *source = getenv("MEMWHY_SOURCE");
    char command[4096];
    snprintf(command, sizeof command, "python3 '%s/tests/unit/json_oracle.py' %s 1>&2",
             source ? source : ".", path);
    int code = system(command);
    unlink(path);
    free(capture.bytes);
    assert_int_equal(code, 0);
}

/* A document of 40 MiB passes through pieces of at most 128 KiB. */
static void test_pieces_are_bounded(void **state)
{
    (void)state;
    static char megabyte[1 << 20];
    memset(megabyte, 'm', sizeof megabyte);
    struct capture capture = {0};
    struct mw_json json;
    json_begin(&json, &capture);
    mw_json_array_begin(&json);
    for (int i = 0; i < 40; i++)
        mw_json_put_bytes(&json, megabyte, sizeof megabyte);
    mw_json_array_end(&json);
    assert_int_equal(mw_json_finish(&json, NULL), MW_OK);
    assert_true(capture.largest <= MW_LIMIT_JSON_BUFFER);
    assert_true(capture.length > (size_t)40 << 20);
    free(capture.bytes);
}

/* A sink that fails is not called again, wherever it fails, and its errno comes back. */
static void test_failing_sink(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at < 3000000; fail_at += 99991) {
        struct capture capture = {.fail_at = fail_at};
        struct mw_json json;
        struct mw_error err;
        json_begin(&json, &capture);
        mw_json_object_begin(&json);
        mw_json_put_key(&json, "rows");
        mw_json_array_begin(&json);
        unsigned rows = 0;
        for (; rows < 200000 && !mw_json_failed(&json); rows++)
            mw_json_put_u64(&json, random_u64());
        mw_json_array_end(&json);
        mw_json_object_end(&json);
        assert_int_equal(mw_json_finish(&json, &err), MW_OS);
        assert_int_equal(err.os_errno, EPIPE);
        assert_int_equal(capture.failures, 1);
        assert_true(capture.length < fail_at);
        free(capture.bytes);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct capture capture = {0};
    struct mw_json json;
    mw_alloc_fail_after(0);
    json_begin(&json, &capture);
    mw_alloc_fail_after(-1);
    mw_json_object_begin(&json);
    mw_json_put_key(&json, "a");
    mw_json_put_text(&json, "b");
    mw_json_object_end(&json);
    assert_int_equal(mw_json_finish(&json, NULL), MW_NOMEM);
    assert_int_equal(capture.calls, 0);
}

static void test_layout_and_small_values(void **state)
{
    (void)state;
    struct capture capture = {0};
    struct mw_json json;
    json_begin(&json, &capture);
    mw_json_object_begin(&json);
    mw_json_put_key(&json, "none");
    mw_json_put_known(&json, MW_UNKNOWN);
    mw_json_put_key(&json, "at");
    mw_json_put_address(&json, 0xffffffffff600000);
    mw_json_put_key(&json, "rows");
    mw_json_array_begin(&json);
    for (unsigned i = 0; i < 2; i++) {
        mw_json_object_begin(&json);
        mw_json_put_key(&json, "n");
        mw_json_put_u64(&json, i);
        mw_json_put_key(&json, "no");
        mw_json_array_begin(&json);
        mw_json_array_end(&json);
        mw_json_object_end(&json);
    }
    mw_json_array_end(&json);
    mw_json_put_key(&json, "empty");
    mw_json_object_begin(&json);
    mw_json_object_end(&json);
    mw_json_object_end(&json);
    assert_int_equal(mw_json_finish(&json, NULL), MW_OK);
    assert_string_equal(capture.bytes, "{\n"
                                       "  \"none\": null,\n"
                                       "  \"at\": \"0xffffffffff600000\",\n"
                                       "  \"rows\": [\n"
                                       "    {\"n\": 0, \"no\": []},\n"
                                       "    {\"n\": 1, \"no\": []}\n"
                                       "  ],\n"
                                       "  \"empty\": {}\n"
                                       "}\n");
    free(capture.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_reads_the_same_values),
        cmocka_unit_test(test_pieces_are_bounded),
        cmocka_unit_test(test_failing_sink),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_layout_and_small_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
