/* tests/unit/test_suppress.c: files of suppressions: what is understood, refused, matched. */
#include "session/suppress.h"
#include "temp_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct temp_tree tree;

static enum mw_status read_bytes(const char *bytes, size_t length, struct mw_suppressions *out,
                                 struct mw_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/suppressions", tree.path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    *err = (struct mw_error){0};
    return mw_suppressions_read(path, out, err);
}

static bool matches(const char *text, uint64_t usable, const char *name)
{
    struct mw_suppressions suppressions;
    struct mw_error err;
    if (read_bytes(text, strlen(text), &suppressions, &err) != MW_OK)
        fail_msg("'%s': %s", text, err.text);
    const char *const names[] = {"", name};
    bool is_matched = mw_suppressions_match(&suppressions, usable, names, 2);
    mw_suppressions_deinit(&suppressions);
    return is_matched;
}

static void test_match(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t usable;
        const char *name;
        bool expected;
    } cases[] = {
        {"std::string", 24, "std::string", true},
        {"std::string", 24, "std::string of", false},
        {"std", 24, "std::string", false},
        {"std*", 24, "std::string", true},
        {"*ring", 24, "std::string", true},
        {"*st*ri*", 24, "std::string", true},
        {"*", 24, "anything", true},
        {"*", 24, "", false},
        {"?td::*", 24, "std::string", true},
        {"?", 24, "", false},
        {"-", 24, "-", true},
        {"-", 24, "libx.so+0x10", false},
        {"24 -", 24, "-", true},
        {"24 -", 40, "-", false},
        {"24 *\n40 -", 40, "-", true},
        {"# a*\n\n  libx.so* \t\r\n", 1, "libx.so+0x10", true},
        {"# a*", 1, "abc", false},
        {"", 1, "abc", false},
        {"3400 CLR exception record*", 3400, "CLR exception record and CONTEXT", true},
        {"64bit*", 8, "64bit counter", true},
        {"[a-z]", 8, "b", false}, /* no sets: names have brackets of their own */
        {"f(*)[?]", 8, "f(int)[3]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (matches(cases[i].text, cases[i].usable, cases[i].name) != cases[i].expected)
            fail_msg("'%s' and '%s' of %llu bytes", cases[i].text, cases[i].name,
                     (unsigned long long)cases[i].usable);
}

static void test_refused(void **state)
{
    (void)state;
    static char long_line[1024], many[4097 * 2 + 1];
    memset(long_line, 'x', sizeof long_line - 1);
    for (size_t i = 0; i < 4097; i++)
        memcpy(many + 2 * i, "x\n", 2);
    const struct {
        const char *bytes;
        size_t length;
        enum mw_status status;
        const char *part; /* of the text */
    } cases[] = {
        {"a\n12\n", 5, MW_INVALID, "line 2"},
        {"0 a", 3, MW_INVALID, "line 1"},
        {"1234567890123456 a", 18, MW_INVALID, "line 1"},
        {"a\0b", 3, MW_INVALID, "no text"},
        {long_line, sizeof long_line - 1, MW_INVALID, "too long"},
        {many, sizeof many - 1, MW_LIMIT, "4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mw_suppressions suppressions;
        struct mw_error err;
        assert_int_equal(read_bytes(cases[i].bytes, cases[i].length, &suppressions, &err),
                         cases[i].status);
        if (!strstr(err.text, cases[i].part))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].part);
    }
    struct mw_suppressions suppressions;
    struct mw_error err = {0};
    assert_int_not_equal(mw_suppressions_read("/nonexistent/file", &suppressions, &err), MW_OK);
    assert_non_null(strstr(err.text, "/nonexistent/file"));
}

/* Where fnmatch(3) would try more ways than there is time. */
static void test_bounded(void **state)
{
    (void)state;
    char pattern[256], name[256];
    size_t length = 0;
    while (length < 200)
        length += (size_t)snprintf(pattern + length, sizeof pattern - length, "*a");
    snprintf(pattern + length, sizeof pattern - length, "*b");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    clock_t begun = clock();
    assert_false(matches(pattern, 1, name));
    assert_true(clock() - begun < 10 * CLOCKS_PER_SEC);
}

static int group_setup(void **state)
{
    (void)state;
    temp_tree_make(&tree);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    temp_tree_remove(&tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
