/* report/next_text.c: the next commands worth typing, chosen from what was found. */
#include "report/screen.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { NEXT_MAX = 4, COMMAND_COLUMNS = 34 };

struct next_lines {
    struct mw_text *text;
    unsigned count;
};

static bool is_printable(const char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0, take; at < length; at += take) {
        const unsigned char *byte = (const unsigned char *)text + at;
        take = mw_utf8_sequence(byte, length - at);
        if (take == 0 || *byte < 0x20 || *byte == 0x7f || (take == 2 && byte[0] == 0xc2))
            return false; /* 0xc2: C1 controls, and blanks that do not look like one */
    }
    return true;
}

struct mw_screen_word mw_screen_word(const char *target)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._/+:=,@%-";
    struct mw_screen_word word = {"TARGET"};
    if (strcmp(target, "-") == 0)
        target = "FILE";
    size_t length = strlen(target), used = 0;
    if (length > 0 && length < sizeof word.text && strspn(target, plain) == length) {
        memcpy(word.text, target, length + 1);
        return word;
    }
    /* two quotes, and four bytes for each that is one */
    if (length == 0 || length > (sizeof word.text - 3) / 4 || !is_printable(target))
        return word;
    word.text[used++] = '\'';
    for (const char *at = target; *at; at++) {
        if (*at == '\'') {
            memcpy(word.text + used, "'\\''", 4);
            used += 4;
        } else {
            word.text[used++] = *at;
        }
    }
    memcpy(word.text + used, "'", 2);
    return word;
}

void mw_screen_command(struct mw_text *text, const char *command, const char *expect)
{
    unsigned indent = 6 + COMMAND_COLUMNS;
    mw_text_pad(text, 6);
    mw_text_put(text, MW_STYLE_PLAIN, command);
    if (text->column + 2 > indent) {
        unsigned beside = text->column + 3;
        if (beside + mw_text_width(expect) > text->look.width) {
            mw_text_newline(text);
            mw_text_pad(text, indent);
        } else {
            mw_text_pad(text, beside);
        }
    } else {
        mw_text_pad(text, indent);
    }
    mw_text_wrap(text, indent, 0, MW_STYLE_PLAIN, expect);
    mw_text_newline(text);
}

void mw_screen_next_of_stdin(struct mw_text *text, const char *target)
{
    if (strcmp(target, "-") != 0)
        return;
    mw_text_pad(text, 6);
    mw_text_put(text, MW_STYLE_PLAIN, "FILE: standard input is read once; save it to a file first");
    mw_text_newline(text);
}

void mw_screen_next_without_heap(struct mw_text *text, const char *target)
{
    char command[MW_SCREEN_COMMAND_BYTES];
    snprintf(command, sizeof command, "memwhy %s", mw_screen_word(target).text);
    mw_text_put(text, MW_STYLE_BOLD, "NEXT");
    mw_screen_command(text, command, "where its memory is, as far as the mappings tell");
    mw_screen_next_of_stdin(text, target);
}

static void put_next(struct next_lines *lines, const char *command, const char *expect)
{
    if (lines->count >= NEXT_MAX)
        return;
    if (lines->count == 0)
        mw_text_put(lines->text, MW_STYLE_BOLD, "NEXT");
    lines->count++;
    mw_screen_command(lines->text, command, expect);
}

const struct mw_allocator *mw_screen_walked(const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    const struct mw_account_row *unread = &account->rows[MW_CATEGORY_MALLOC_UNSPLIT];
    uint64_t unread_bytes = account->has_rss ? unread->rss_bytes : unread->size_bytes;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].walked && analysis->allocators[i].system_bytes > unread_bytes)
            return &analysis->allocators[i];
    return NULL;
}

static bool is_worth(const struct mw_analysis *analysis, uint64_t bytes)
{
    return bytes != MW_UNKNOWN && bytes > 0 && bytes >= mw_where_total(analysis) / 50;
}

static void next_trim(struct next_lines *lines, const struct mw_analysis *analysis,
                      const struct mw_allocator *allocator, const char *target)
{
    char command[MW_SCREEN_COMMAND_BYTES], expect[160], figure[32];
    bool is_live = analysis->image.kind == MW_IMAGE_LIVE;
    if (!is_worth(analysis, allocator->trimmable_bytes))
        return;
    snprintf(command, sizeof command, "memwhy trim %s%s", target, is_live ? " --apply" : "");
    mw_unit_format(figure, lines->text->unit, allocator->trimmable_bytes);
    if (is_live)
        snprintf(expect, sizeof expect, "runs malloc_trim(0) IN the process: expect -%s %s", figure,
                 lines->text->unit.name);
    else
        snprintf(expect, sizeof expect, "what malloc_trim(0) would give back: %s %s", figure,
                 lines->text->unit.name);
    put_next(lines, command, expect);
}

static bool has_leak(const struct mw_verdicts *verdicts)
{
    for (size_t i = 0; i < verdicts->count; i++)
        if (verdicts->items[i].verdict_class == MW_CLASS_LEAKED)
            return true;
    return false;
}

/* By following all pointers, where a sample has told. */
static void next_leaks(struct next_lines *lines, const struct mw_analysis *analysis,
                       const char *target)
{
    char command[MW_SCREEN_COMMAND_BYTES];
    bool is_settled = mw_reach_is_exact(&analysis->reach) || analysis->image.kind != MW_IMAGE_LIVE;
    if (!has_leak(&analysis->verdicts))
        return;
    snprintf(command, sizeof command, "memwhy leaks %s%s", target, is_settled ? "" : " --fork");
    put_next(lines, command, "all that is lost, in groups, and an address of each");
}

static bool has_remedy_with_gain(const struct mw_verdicts *verdicts)
{
    for (size_t i = 0; i < verdicts->count; i++)
        for (size_t k = 0; k < verdicts->items[i].remedy_count; k++)
            if (verdicts->items[i].remedies[k].has_gain && !verdicts->items[i].minor)
                return true;
    return false;
}

/* Is there a verdict that growth alone can settle? */
static bool needs_second_look(const struct mw_verdicts *verdicts)
{
    static const char *const open[] = {"healthy", "unbounded-growth", "mapping-leak",
                                       "native-leak"};
    for (size_t i = 0; i < verdicts->count; i++)
        for (size_t k = 0; k < sizeof open / sizeof *open; k++)
            if (strcmp(verdicts->items[i].id, open[k]) == 0 && !verdicts->items[i].minor)
                return true;
    return false;
}

void mw_screen_next(struct mw_text *text, const struct mw_analysis *analysis,
                    const struct mw_report_text_options *options)
{
    struct next_lines lines = {.text = text};
    const struct mw_allocator *allocator = mw_screen_walked(analysis);
    const struct mw_screen_word word = mw_screen_word(options->target);
    const char *target = word.text;
    char command[MW_SCREEN_COMMAND_BYTES];
    if (!analysis->heap_was_read && analysis->why_partial.code == MW_PERM &&
        analysis->image.kind == MW_IMAGE_LIVE) {
        snprintf(command, sizeof command, "memwhy doctor %s", target);
        put_next(&lines, command, "what denies the access, and each way to get it");
    }
    next_leaks(&lines, analysis, target);
    if (allocator)
        next_trim(&lines, analysis, allocator, target);
    if (allocator && allocator->pin_count > 0 &&
        is_worth(analysis, allocator->pins[0].would_release_bytes)) {
        snprintf(command, sizeof command, "memwhy pins %s", target);
        put_next(&lines, command, "which live blocks keep free memory resident");
    }
    if (is_worth(analysis, analysis->account.unknown_bytes)) {
        snprintf(command, sizeof command, "memwhy maps %s --unknown", target);
        put_next(&lines, command, "the mappings that nobody owns");
    }
    if (allocator && analysis->image.kind == MW_IMAGE_LIVE &&
        !mw_reach_is_exact(&analysis->reach) && !has_leak(&analysis->verdicts)) {
        snprintf(command, sizeof command, "memwhy leaks %s --fork", target);
        put_next(&lines, command, "is any of it lost? that was not told within one stop");
    }
    if (analysis->image.kind == MW_IMAGE_LIVE && has_remedy_with_gain(&analysis->verdicts)) {
        snprintf(command, sizeof command, "memwhy %s --json >before.json", target);
        put_next(&lines, command, "and after a change: memwhy verify before.json NEW_PID");
    }
    if (analysis->image.kind == MW_IMAGE_LIVE && needs_second_look(&analysis->verdicts)) {
        snprintf(command, sizeof command, "memwhy diff %s --after 10m", target);
        put_next(&lines, command, "what grows meanwhile, by category, size and kind");
    }
    if (allocator) {
        snprintf(command, sizeof command, "memwhy heap %s", target);
        put_next(&lines, command,
                 mw_allocator_is_glibc(allocator) ? "arenas, sizes, parameters in force"
                                                  : "blocks in use and free by size");
    } else {
        snprintf(command, sizeof command, "memwhy maps %s", target);
        put_next(&lines, command, "every mapping with its owner");
    }
    mw_screen_next_of_stdin(text, options->target);
}
