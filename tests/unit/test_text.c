/* tests/unit/test_text.c: wrapping, bands, tables: compared line by line. */
#include "analysis_fixture.h"

#include "proc/process.h"
#include "report/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct fixture_output output;
static struct mw_text text;

static void begin(unsigned width, bool color)
{
    output = (struct fixture_output){0};
    mw_text_init(&text, fixture_sink(&output), (struct mw_text_look){width, color});
}

static void end(const char *wanted)
{
    assert_int_equal(mw_text_finish(&text, NULL), MW_OK);
    assert_string_equal(output.text, wanted);
    fixture_output_release(&output);
}

static void test_wrap(void **state)
{
    (void)state;
    begin(40, false);
    mw_text_put(&text, MW_STYLE_PLAIN, "  what   ");
    mw_text_wrap(&text, 9, 0, MW_STYLE_PLAIN,
                 "the quick brown fox  jumps over\nthe lazy dog and runs away");
    mw_text_newline(&text);
    end("  what   the quick brown fox jumps over\n"
        "         the lazy dog and runs away\n");
}

static void test_wrap_is_bounded(void **state)
{
    (void)state;
    begin(40, false);
    mw_text_wrap(&text, 2, 2, MW_STYLE_PLAIN,
                 "aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg hhhhhhhhh");
    mw_text_newline(&text);
    end("aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd\n"
        "  eeeeeeeee fffffffff ggggggggg ...\n");
}

/* A word longer than the line stands alone and overflows: it is not torn. */
static void test_wrap_long_word(void **state)
{
    (void)state;
    char word[61];
    memset(word, 'x', 60);
    word[60] = '\0';
    char words[80], wanted[100];
    snprintf(words, sizeof words, "a %s b", word);
    snprintf(wanted, sizeof wanted, "a\n  %s\n  b\n", word);
    begin(40, false);
    mw_text_wrap(&text, 2, 0, MW_STYLE_PLAIN, words);
    mw_text_newline(&text);
    end(wanted);
}

static void test_bands(void **state)
{
    (void)state;
    begin(60, true);
    struct mw_text_band bands[] = {
        {4, 20, NULL, "left words that need more than one line"},
        {22, 60, "-12.5 MiB", "a reason that also goes on to the next line"},
    };
    mw_text_bands(&text, bands, 2, 0);
    end("    left words that   \033[1m-12.5 MiB\033[0m  a reason that also goes on\n"
        "    need more than    to the next line\n"
        "    one line\n");
}

static void test_bands_are_cut(void **state)
{
    (void)state;
    begin(60, false);
    struct mw_text_band bands[] = {
        {0, 20, NULL, "one two three four five six seven eight nine ten eleven"},
        {22, 60, NULL, "short"},
    };
    mw_text_bands(&text, bands, 2, 2);
    end("one two three four    short\n"
        "five six seven ...\n");
}

static void test_escapes_count(void **state)
{
    (void)state;
    assert_int_equal(mw_text_width("a\033b"), 6);
    assert_int_equal(mw_text_width("\xc3\xa9\xe2\x82\xac"), 2);
    assert_int_equal(mw_text_width("\xff"), 4);
    begin(40, false);
    mw_text_put(&text, MW_STYLE_PLAIN, "a\033[2Jb");
    mw_text_pad(&text, 12);
    mw_text_put(&text, MW_STYLE_PLAIN, "c");
    end("a\\x1b[2Jb   c\n");
}

static void cells_fill(void *user, size_t index, struct mw_text_cell *cells)
{
    static const char *const names[] = {"[heap]", "/usr/lib/libc.so.6 with a long tail behind it"};
    (void)user;
    snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "0x%zx", index * 4096);
    mw_text_cell_bytes(&cells[1], (struct mw_unit){"KiB", 1024, 0},
                       index ? MW_UNKNOWN : 1234567 * 1024u);
    mw_text_cell_count(&cells[2], index ? 0 : 12);
    cells[3].long_text = names[index];
}

static void test_table(void **state)
{
    (void)state;
    static const struct mw_text_column columns[] = {
        {MW_F(mapping, start), NULL, false},
        {MW_F(mapping, size_bytes), NULL, false},
        {MW_F(arena, in_use_count), NULL, false},
        {MW_F(mapping, name), NULL, true},
    };
    begin(48, false);
    mw_text_table(
        &text,
        &(struct mw_text_table){
            .columns = columns, .column_count = 4, .row_count = 2, .row = cells_fill, .indent = 1});
    end(" start        size  blocks  name\n"
        " 0x0     1,234,567      12  [heap]\n"
        " 0x1000          -          /usr/lib/libc.so....\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrap),           cmocka_unit_test(test_wrap_is_bounded),
        cmocka_unit_test(test_wrap_long_word), cmocka_unit_test(test_bands),
        cmocka_unit_test(test_bands_are_cut),  cmocka_unit_test(test_escapes_count),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
