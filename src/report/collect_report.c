/* report/collect_report.c: memwhy.collect/1 and a few lines. */
#include "report/collect_report.h"

#include "base/units.h"
#include "report/fields.h"
#include "report/screen.h"

#include <stdio.h>

enum mw_status mw_report_collect_json(const struct mw_collected *collected, const char *file,
                                      struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_collect);
    mw_field_text(&json, MW_F(collect, schema), "memwhy.collect/1");
    mw_field_text(&json, MW_F(collect, memwhy_version), MW_VERSION);
    mw_field_text(&json, MW_F(collect, file), file);
    mw_field_u64(&json, MW_F(collect, file_bytes), collected->file_bytes);
    mw_field_u64(&json, MW_F(collect, memory_bytes), collected->memory_bytes);
    mw_field_u64(&json, MW_F(collect, resident_bytes), collected->resident_bytes);
    mw_field_u64(&json, MW_F(collect, unreadable_bytes), collected->unreadable_bytes);
    mw_field_u64(&json, MW_F(collect, pauses), collected->pauses);
    mw_field_double(&json, MW_F(collect, paused_seconds), (double)collected->paused_ns / 1e9);
    mw_field_double(&json, MW_F(collect, longest_pause_seconds),
                    (double)collected->longest_pause_ns / 1e9);
    mw_field_double(&json, MW_F(collect, elapsed_seconds), collected->seconds);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

enum mw_status mw_report_collect_text(const struct mw_collected *collected, const char *target,
                                      const char *file, struct mw_text_look look,
                                      struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    char size[32], resident[32] = "unknown", paused[32], took[32], words[400];
    char command[MW_SCREEN_COMMAND_BYTES];
    const struct mw_screen_word word = mw_screen_word(file), process = mw_screen_word(target);
    mw_text_init(&text, sink, look);
    mw_bytes_format(size, collected->file_bytes);
    if (collected->resident_bytes != MW_UNKNOWN)
        mw_bytes_format(resident, collected->resident_bytes);
    mw_screen_seconds(paused, (double)collected->paused_ns / 1e9);
    mw_screen_seconds(took, collected->seconds);
    mw_text_put(&text, MW_STYLE_BOLD, "CAPTURE ");
    snprintf(words, sizeof words, "%.200s  %s of %s resident, in %s, paused %s", file, size,
             resident, took, paused);
    mw_text_wrap(&text, 8, 0, MW_STYLE_PLAIN, words);
    mw_text_newline(&text);
    if (collected->unreadable_bytes > 0) {
        snprintf(words, sizeof words, "%s could not be read, and are zeros in it",
                 mw_bytes_format(size, collected->unreadable_bytes));
        mw_screen_label(&text, "note");
        mw_text_wrap(&text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, words);
        mw_text_newline(&text);
    }
    mw_text_newline(&text);
    mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
    snprintf(command, sizeof command, "memwhy %s", word.text);
    mw_screen_command(&text, command, "where its memory was, and why");
    snprintf(command, sizeof command, "memwhy diff %.120s %.60s", word.text, process.text);
    mw_screen_command(&text, command, "what has grown since");
    return mw_text_finish(&text, err);
}
