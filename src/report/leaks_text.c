/* report/leaks_text.c: the screen of `memwhy leaks`. */
#include "report/screen.h"

#include "report/parts_json.h"

#include <stdio.h>

enum { CALLERS_SHOWN = 5 };

struct leaks_screen {
    struct mw_text *text;
    const struct mw_lost *lost;
};

static void group_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct leaks_screen *screen = user;
    const struct mw_lost_group *group = &screen->lost->groups.groups.items[index];
    const char *signature = mw_lost_signature(screen->lost, index);
    mw_text_cell_bytes(&cells[0], screen->text->unit, group->bytes);
    mw_text_cell_count(&cells[1], group->count);
    mw_text_cell_count(&cells[2], group->direct_count);
    mw_text_cell_count(&cells[3], group->usable_bytes);
    snprintf(cells[4].text, MW_TEXT_CELL_BYTES, "0x%llx", (unsigned long long)group->samples[0]);
    cells[5].long_text = *signature ? signature : "-";
}

static void put_groups(struct mw_text *text, const struct mw_lost *lost, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(leak_group, bytes), NULL, false},
        {MW_F(leak_group, count), NULL, false},
        {MW_F(leak_group, direct_count), NULL, false},
        {MW_F(leak_group, usable_bytes), NULL, false},
        {MW_F(leak_group, sample_address), NULL, false},
        {MW_F(leak_group, signature), NULL, true},
    };
    struct leaks_screen screen = {text, lost};
    size_t count = lost->groups.groups.count < max ? lost->groups.groups.count : max;
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "GROUPS");
    mw_text_printf(text, MW_STYLE_PLAIN, "  %zu, by size and kind, in %s; usable: bytes of a block",
                   lost->groups.groups.count, text->unit.name);
    mw_text_newline(text);
    mw_text_table(text, &(struct mw_text_table){
                            .columns = columns,
                            .column_count = sizeof columns / sizeof *columns,
                            .row_count = count,
                            .row = group_cells,
                            .user = &screen,
                            .indent = 2,
                        });
    if (count < lost->groups.groups.count) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  and %zu more: --count 0",
                       lost->groups.groups.count - count);
        mw_text_newline(text);
    }
}

/* The calls that all blocks of a group name, for the largest of the groups shown. */
static void put_callers(struct mw_text *text, const struct mw_lost *lost, size_t max)
{
    size_t shown = 0;
    for (size_t i = 0; i < lost->name_count && i < max && shown < CALLERS_SHOWN; i++) {
        const struct mw_lost_group *group = &lost->groups.groups.items[i];
        char head[96];
        if (!lost->names[i].caller[0])
            continue;
        snprintf(head, sizeof head, "  %llu B  one return address in all of them: ",
                 (unsigned long long)group->usable_bytes);
        mw_text_put(text, MW_STYLE_PLAIN, head);
        mw_text_wrap(text, 4, 0, MW_STYLE_PLAIN, lost->names[i].caller);
        mw_text_newline(text);
        shown++;
    }
}

static void put_line(struct mw_text *text, const char *label, const char *words)
{
    mw_screen_label(text, label);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, words);
    mw_text_newline(text);
}

/* "LEAKED 137.3 MiB in 42,231 blocks", or what there is to say instead. */
static void put_headline(struct mw_text *text, const struct mw_reach *reach,
                         const struct mw_lost *lost)
{
    char bytes[32], count[32], words[256];
    bool is_exact = mw_reach_is_exact(reach);
    const uint64_t lost_count = reach->unreachable_count - lost->suppressed_count;
    mw_bytes_format(bytes, reach->unreachable_bytes - lost->suppressed_bytes);
    mw_count_format(count, lost_count);
    mw_text_newline(text);
    if (reach->reachable_count + reach->unreachable_count == 0) {
        mw_text_put(text, MW_STYLE_BOLD, "nothing is known of leaks");
        mw_text_put(text, MW_STYLE_PLAIN, ": no block in use was found to look at");
    } else if (lost_count == 0) {
        mw_text_put(text, MW_STYLE_BOLD, "nothing is leaked");
        mw_text_put(text, MW_STYLE_PLAIN,
                    lost->suppressed_count > 0
                        ? " but what is suppressed"
                        : ": something in memory leads to each block in use that was read");
    } else {
        mw_text_put(text, is_exact ? MW_STYLE_RED : MW_STYLE_BOLD,
                    is_exact ? "LEAKED" : "UNCERTAIN");
        snprintf(words, sizeof words, " %s in %s block%s that nothing in memory%s points to", bytes,
                 count, lost_count == 1 ? "" : "s",
                 reach->indirect_count > 0 ? " but each other" : "");
        mw_text_put(text, MW_STYLE_PLAIN, words);
    }
    mw_text_newline(text);
}

static void put_facts(struct mw_text *text, const struct mw_reach *reach,
                      const struct mw_lost *lost)
{
    char bytes[32], count[32], words[320];
    if (lost->suppressed_count > 0) {
        mw_bytes_format(bytes, lost->suppressed_bytes);
        mw_count_format(count, lost->suppressed_count);
        snprintf(words, sizeof words, "%s in %s blocks of %llu kinds that --suppressions names",
                 bytes, count, (unsigned long long)lost->suppressed_kinds);
        put_line(text, "left out", words);
    }
    if (reach->indirect_count > 0) {
        mw_bytes_format(bytes, reach->indirect_bytes);
        mw_count_format(count, reach->indirect_count);
        snprintf(words, sizeof words, "%s of it in %s blocks that only other lost blocks lead to",
                 bytes, count);
        put_line(text, "behind", words);
    }
    if (reach->reachable_count > 0) {
        mw_bytes_format(bytes, reach->reachable_bytes);
        mw_count_format(count, reach->reachable_count);
        snprintf(words, sizeof words, "%s in %s blocks", bytes, count);
        put_line(text, "held", words);
    }
    if (!reach->is_of_once && reach->is_of_copy)
        put_line(text, "note",
                 "memory that a fork leaves out (MADV_DONTFORK) was read after it, while the "
                 "program ran: a pointer may have moved. Without --fork, and with a longer "
                 "--max-pause, it is exact");
    else if (!reach->is_of_once)
        put_line(text, "note",
                 "pointers were read while the program ran: one may have moved from where nobody "
                 "had looked yet to where somebody had. --fork, or a longer --max-pause, is exact");
    else if (reach->roots.blind_threads > 0)
        put_line(
            text, "note",
            "a thread did not come to a stop in time, so its registers are not known: a longer "
            "--max-pause waits longer for it");
    else if (!reach->is_complete)
        put_line(text, "note",
                 "some memory that may hold pointers could not be read, or a thread was inside "
                 "malloc: see findings in --json");
    if (reach->roots.ended_threads > 0) {
        snprintf(words, sizeof words,
                 "stacks of %zu ended threads, which libc keeps for new ones, were not searched",
                 reach->roots.ended_threads);
        put_line(text, "note", words);
    }
}

enum mw_status mw_report_leaks_text(const struct mw_analysis *analysis,
                                    const struct mw_report_text_options *options,
                                    struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    const struct mw_screen_word word = mw_screen_word(options->target);
    const struct mw_reach *reach = &analysis->reach;
    char command[MW_SCREEN_COMMAND_BYTES];
    mw_text_init(&text, sink, options->look);
    text.unit = mw_unit_for(reach->unreachable_bytes);
    mw_screen_title(&text, analysis, "leaks", options->target);
    if (reach->is_done) {
        put_headline(&text, reach, &analysis->lost);
        put_facts(&text, reach, &analysis->lost);
    }
    if (analysis->lost.groups.groups.count > 0) {
        put_groups(&text, &analysis->lost, options->count_max);
        put_callers(&text, &analysis->lost, options->count_max);
    }
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    if (!reach->is_done) {
        mw_screen_next_without_heap(&text, options->target);
        return mw_text_finish(&text, err);
    }
    mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
    if (analysis->lost.groups.groups.count > 0) {
        const struct mw_lost_group *group = &analysis->lost.groups.groups.items[0];
        snprintf(command, sizeof command, "memwhy blocks %s --size %llu --fields", word.text,
                 (unsigned long long)group->size_bytes);
        mw_screen_command(&text, command, "what their words have in common: who made them");
        snprintf(command, sizeof command, "memwhy refs %s 0x%llx", word.text,
                 (unsigned long long)group->samples[0]);
        mw_screen_command(&text, command, "one of them: what is lost with it, what leads to it");
        if (!mw_reach_is_exact(reach) && !reach->is_of_copy &&
            analysis->image.kind == MW_IMAGE_LIVE) {
            snprintf(command, sizeof command, "memwhy leaks %s --fork", word.text);
            mw_screen_command(&text, command, "exact: reads a copy, made in some milliseconds");
        }
    } else {
        snprintf(command, sizeof command, "memwhy %s", word.text);
        mw_screen_command(&text, command,
                          reach->reachable_count > 0 ? "where the memory is, if nothing is leaked"
                                                     : "where the memory is");
    }
    mw_screen_next_of_stdin(&text, options->target);
    return mw_text_finish(&text, err);
}
