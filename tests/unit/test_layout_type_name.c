/* tests/unit/test_layout_type_name.c: mangled types, and what is none. */
#include "layout/typename.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_types(void **state)
{
    static const struct {
        const char *mangled, *name;
    } types[] = {
        {"3Foo", "Foo"},
        {"N6icinga4HostE", "icinga::Host"},
        {"*N1a1bE", "a::b"},
        {"i", "int"},
        {"PKc", "char const*"},
        {"St9exception", "std::exception"},
        {"N12_GLOBAL__N_13FooE", "(anonymous namespace)::Foo"},
        {"NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "std::string"},
        {"NSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEEE", "std::basic_stringbuf<char>"},
        {"St6vectorIPN6icinga4HostESaIS2_EE", "std::vector<icinga::Host*>"},
        {"St3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorIiSaIiEESt4lessIS5_"
         "ESaISt4pairIKS5_S8_EEE",
         "std::map<std::string, std::vector<int>>"},
        {"St15_Sp_counted_ptrIPN3foo3BarELN9__gnu_cxx12_Lock_policyE2EE",
         "std::_Sp_counted_ptr<foo::Bar*, (__gnu_cxx::_Lock_policy)2>"},
        {"ZN6icinga4Host5StartEbEUlvE_", "icinga::Host::Start(bool)::{lambda()#1}"},
        {"Z4mainEUlT_E0_", "main()::{lambda(auto)#2}"},
        {"ZN1a1bEvE1c", "a::b()::c"},
        {"PFivE", "int ()*"},
        {"A7_i", "int [7]"},
        {"M3FooFvvE", "void () Foo::*"},
        {"N5boost6detail17sp_counted_impl_pIN6icinga8FunctionEEE",
         "boost::detail::sp_counted_impl_p<icinga::Function>"},
        {"4PairIS_IijEbE", "Pair<Pair<int, unsigned>, bool>"},
        {"5ArrayILm16EE", "Array<16>"},
        {"4FlagILb1EE", "Flag<true>"},
        {"5TupleIJibEE", "Tuple<int, bool>"},
        {"N1a1bB5cxx11E", "a::b"},
        {"Dn", "std::nullptr_t"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[256] = "";
        if (!mw_type_name(types[i].mangled, strlen(types[i].mangled), name, sizeof name))
            fail_msg("no type: %s", types[i].mangled);
        assert_string_equal(name, types[i].name);
    }
}

static void test_no_types(void **state)
{
    static const char *const texts[] = {
        "",      "N",          "NE",     "3Fo",     "99999999999999999999Foo",
        "S_",    "S9_",        "St",     "PK",      "N3FooI",
        "3FooI", "4PairIS0_E", "Z4main", "Z4mainE", "A7",
        "T",     "Fv",         "DpT",    "3FooX",   "N1aEE",
        "Ul",    "Ut",         "main.c", "0",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[64] = "as it was";
        if (mw_type_name(texts[i], strlen(texts[i]), name, sizeof name))
            fail_msg("'%s' is called '%s'", texts[i], name);
        assert_string_equal(name, "as it was");
    }
}

/* Every beginning of a name, in memory of exactly its length: a sanitizer sees a byte too many. */
static void test_cut_names(void **state)
{
    static const char whole[] = "St3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vec"
                                "torIPFivESaIS7_EEZ4mainEUlvE_ILi3EES5_E";
    (void)state;
    for (size_t length = 0; length < sizeof whole; length++) {
        char *exact = malloc(length ? length : 1), name[64] = "";
        assert_non_null(exact);
        memcpy(exact, whole, length);
        (void)mw_type_name(exact, length, name, sizeof name);
        assert_true(strlen(name) < sizeof name);
        free(exact);
    }
}

/* Names that would grow without end, or nest without end. */
static void test_bombs(void **state)
{
    char bomb[4096], name[64];
    size_t at = 0;
    (void)state;
    at += (size_t)sprintf(bomb + at, "1AI");
    for (int i = 0; i < 90; i++) /* each argument doubles the one before */
        at += (size_t)sprintf(bomb + at, "1BIS%c_S%c_E", "0123456789ABCDEF"[i % 16],
                              "0123456789ABCDEF"[i % 16]);
    at += (size_t)sprintf(bomb + at, "E");
    (void)mw_type_name(bomb, at, name, sizeof name);
    memset(bomb, 'P', sizeof bomb);
    bomb[sizeof bomb - 1] = 'i';
    assert_false(mw_type_name(bomb, sizeof bomb, name, sizeof name));
    for (size_t i = 0; i + 3 < sizeof bomb; i += 3)
        memcpy(bomb + i, "1AI", 3);
    assert_false(mw_type_name(bomb, sizeof bomb, name, sizeof name));
}

static void test_long_names_are_cut(void **state)
{
    char mangled[300], name[16];
    (void)state;
    memset(mangled, 'x', sizeof mangled);
    memcpy(mangled, "297", 3);
    assert_true(mw_type_name(mangled, sizeof mangled, name, sizeof name));
    assert_string_equal(name, "xxxxxxxxxxxx...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_no_types),
        cmocka_unit_test(test_cut_names),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
