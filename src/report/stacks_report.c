/* report/stacks_report.c: threads by their stacks, the largest group first. Names of frames and
 * threads are a target's: the encoders escape them. */
#include "report/stacks_report.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include <stdio.h>
#include <string.h>

enum { FILE_ROOM = 256, NAMES_MAX = 64, NAMES_SHOWN = 3, TIDS_SHOWN = 8, FRAME_COLUMN = 6 };

static const struct mw_stack *stack_at(const struct mw_stacks_analysis *analysis,
                                       const struct mw_stack_group *group, size_t index)
{
    return &analysis->stacks.items[analysis->groups.order[group->first + index]];
}

/* ---- names of frames ---- */

static void frame_format(const struct mw_stacks_analysis *analysis,
                         const struct mw_stack_frame *frame, char text[MW_NAME_TEXT_ROOM])
{
    struct mw_name name;
    if (frame->is_exact)
        (void)mw_names_resolve(analysis->names, frame->pc, &name);
    else
        (void)mw_names_resolve_return(analysis->names, frame->pc, &name);
    mw_names_format(&name, text);
    if (text[0] == '\0')
        snprintf(text, MW_NAME_TEXT_ROOM, "0x%llx", (unsigned long long)frame->pc);
}

static bool line_format(const struct mw_stacks_analysis *analysis,
                        const struct mw_stack_frame *frame, char text[FILE_ROOM + 16])
{
    char file[FILE_ROOM];
    unsigned line;
    mw_addr look_at = frame->is_exact || frame->pc == 0 ? frame->pc : frame->pc - 1;
    if (!mw_names_line(analysis->names, look_at, file, sizeof file, &line))
        return false;
    snprintf(text, FILE_ROOM + 16, "%s:%u", file, line);
    return true;
}

/* ---- names of threads ---- */

struct name_count {
    const char *name;
    size_t count;
};

/* Different names in a group, at most NAMES_MAX; the rest is in no row. */
static size_t names_count(const struct mw_stacks_analysis *analysis,
                          const struct mw_stack_group *group, struct name_count rows[NAMES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const char *name = stack_at(analysis, group, i)->name;
        size_t k = 0;
        while (k < count && strcmp(rows[k].name, name) != 0)
            k++;
        if (k == NAMES_MAX || name[0] == '\0')
            continue;
        if (k == count)
            rows[count++] = (struct name_count){.name = name};
        rows[k].count++;
    }
    return count;
}

/* ---- JSON ---- */

static void json_frames(struct mw_json *json, const struct mw_stacks_analysis *analysis,
                        const struct mw_stack *stack)
{
    char text[MW_NAME_TEXT_ROOM];
    mw_json_array_begin(json);
    for (size_t i = 0; i < stack->frame_count && !mw_json_failed(json); i++) {
        frame_format(analysis, &analysis->stacks.frames[stack->first_frame + i], text);
        mw_json_put_text(json, text);
    }
    mw_json_array_end(json);
}

static void json_addresses(struct mw_json *json, const struct mw_stacks_analysis *analysis,
                           const struct mw_stack *stack)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < stack->frame_count; i++)
        mw_json_put_address(json, analysis->stacks.frames[stack->first_frame + i].pc);
    mw_json_array_end(json);
}

static void json_likely(struct mw_json *json, const struct mw_stacks_analysis *analysis,
                        const struct mw_stack *stack)
{
    mw_json_array_begin(json);
    for (size_t i = 0; i < stack->frame_count; i++)
        if (analysis->stacks.frames[stack->first_frame + i].by_frame_pointer)
            mw_json_put_u64(json, i);
    mw_json_array_end(json);
}

static void json_lines(struct mw_json *json, const struct mw_stacks_analysis *analysis,
                       const struct mw_stack *stack, bool lines)
{
    char text[FILE_ROOM + 16];
    if (!lines) {
        mw_json_put_null(json);
        return;
    }
    mw_json_array_begin(json);
    for (size_t i = 0; i < stack->frame_count && !mw_json_failed(json); i++)
        mw_json_put_text(
            json, line_format(analysis, &analysis->stacks.frames[stack->first_frame + i], text)
                      ? text
                      : NULL);
    mw_json_array_end(json);
}

static void json_group(struct mw_json *json, const struct mw_stacks_analysis *analysis,
                       const struct mw_stack_group *group, bool lines)
{
    const struct mw_stack *stack = stack_at(analysis, group, 0);
    struct name_count names[NAMES_MAX];
    size_t name_count = names_count(analysis, group, names);
    mw_field_object_begin(json, MW_SCOPE_stack_group);
    mw_field_u64(json, MW_F(stack_group, count), group->count);
    mw_field_key(json, MW_F(stack_group, threads));
    mw_json_array_begin(json);
    for (size_t i = 0; i < group->count; i++)
        mw_json_put_i64(json, stack_at(analysis, group, i)->tid);
    mw_json_array_end(json);
    mw_field_key(json, MW_F(stack_group, names));
    mw_json_array_begin(json);
    for (size_t i = 0; i < name_count; i++)
        mw_json_put_text(json, names[i].name);
    mw_json_array_end(json);
    mw_field_key(json, MW_F(stack_group, frames));
    json_frames(json, analysis, stack);
    mw_field_key(json, MW_F(stack_group, addresses));
    json_addresses(json, analysis, stack);
    mw_field_key(json, MW_F(stack_group, lines));
    json_lines(json, analysis, stack, lines);
    mw_field_key(json, MW_F(stack_group, by_frame_pointer));
    json_likely(json, analysis, stack);
    mw_field_bool(json, MW_F(stack_group, is_whole), stack->end == MW_STACK_WHOLE);
    const char *end = mw_stack_end_text(stack->end);
    mw_field_text(json, MW_F(stack_group, end), end[0] ? end : NULL);
    mw_field_object_end(json);
}

enum mw_status mw_report_stacks_json(const struct mw_stacks_analysis *analysis, bool lines,
                                     struct mw_sink sink, struct mw_error *err)
{
    const struct mw_image *image = &analysis->base.image;
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_stacks);
    mw_field_text(&json, MW_F(stacks, schema), "memwhy.stacks/1");
    mw_field_text(&json, MW_F(stacks, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(stacks, taken_at), analysis->base.taken_at);
    mw_field_key(&json, MW_F(stacks, target));
    mw_json_target(&json, &analysis->base);
    mw_field_u64(&json, MW_F(stacks, pauses), image->pauses.count);
    mw_field_double(&json, MW_F(stacks, paused_seconds), (double)image->pauses.total_ns / 1e9);
    mw_field_double(&json, MW_F(stacks, longest_pause_seconds),
                    (double)image->pauses.longest_ns / 1e9);
    mw_field_u64(&json, MW_F(stacks, threads), analysis->stacks.count);
    mw_field_key(&json, MW_F(stacks, groups));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < analysis->groups.count && !mw_json_failed(&json); i++)
        json_group(&json, analysis, &analysis->groups.items[i], lines);
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(stacks, findings)); /* after the frames: naming them may add some */
    mw_json_findings(&json, &image->findings);
    mw_field_key(&json, MW_F(stacks, partial));
    mw_json_partial(&json, &analysis->base);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

/* ---- text ---- */

/* "4 threads  worker 3, main 1: 4121 4125 4126 4127" */
static void put_group_head(struct mw_text *text, const struct mw_stacks_analysis *analysis,
                           const struct mw_stack_group *group)
{
    struct name_count names[NAMES_MAX];
    size_t name_count = names_count(analysis, group, names);
    mw_text_printf(text, MW_STYLE_BOLD, "%zu thread%s", group->count, group->count == 1 ? "" : "s");
    mw_text_put(text, MW_STYLE_PLAIN, "  ");
    for (size_t i = 0; i < name_count && i < NAMES_SHOWN; i++) {
        mw_text_printf(text, MW_STYLE_PLAIN, "%s%s", i == 0 ? "" : ", ", names[i].name);
        if (name_count > 1 && names[i].count > 1)
            mw_text_printf(text, MW_STYLE_PLAIN, " x%zu", names[i].count);
    }
    if (name_count > NAMES_SHOWN)
        mw_text_put(text, MW_STYLE_PLAIN, ", ...");
    mw_text_put(text, MW_STYLE_PLAIN, name_count > 0 ? ":" : "");
    for (size_t i = 0; i < group->count && i < TIDS_SHOWN; i++)
        mw_text_printf(text, MW_STYLE_PLAIN, " %d", stack_at(analysis, group, i)->tid);
    if (group->count > TIDS_SHOWN)
        mw_text_put(text, MW_STYLE_PLAIN, " ...");
    mw_text_newline(text);
}

static void put_frame(struct mw_text *text, const struct mw_stacks_analysis *analysis, size_t index,
                      const struct mw_stack_frame *frame, bool lines)
{
    char name[MW_NAME_TEXT_ROOM], line[FILE_ROOM + 16];
    mw_text_pad(text, 2);
    mw_text_printf(text, MW_STYLE_PLAIN, "%zu", index);
    mw_text_pad(text, FRAME_COLUMN);
    frame_format(analysis, frame, name);
    mw_text_put(text, MW_STYLE_PLAIN, name);
    if (frame->by_frame_pointer)
        mw_text_put(text, MW_STYLE_YELLOW, "  likely, by frame pointer");
    mw_text_newline(text);
    if (!lines || !line_format(analysis, frame, line))
        return;
    mw_text_pad(text, FRAME_COLUMN + 2);
    mw_text_put(text, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void put_group(struct mw_text *text, const struct mw_stacks_analysis *analysis,
                      const struct mw_stack_group *group, bool lines)
{
    const struct mw_stack *stack = stack_at(analysis, group, 0);
    put_group_head(text, analysis, group);
    for (size_t i = 0; i < stack->frame_count && !mw_text_failed(text); i++)
        put_frame(text, analysis, i, &analysis->stacks.frames[stack->first_frame + i], lines);
    if (stack->end != MW_STACK_WHOLE) {
        mw_text_pad(text, FRAME_COLUMN);
        mw_text_printf(text, MW_STYLE_YELLOW, "... %s", mw_stack_end_text(stack->end));
        mw_text_newline(text);
    }
    mw_text_newline(text);
}

static void put_summary(struct mw_text *text, const struct mw_stacks_analysis *analysis)
{
    mw_text_printf(text, MW_STYLE_PLAIN, "%zu thread%s, %zu different stack%s",
                   analysis->stacks.count, analysis->stacks.count == 1 ? "" : "s",
                   analysis->groups.count, analysis->groups.count == 1 ? "" : "s");
    mw_text_newline(text);
    mw_text_newline(text);
}

enum mw_status mw_report_stacks_text(const struct mw_stacks_analysis *analysis, bool lines,
                                     const struct mw_report_text_options *options,
                                     struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    char command[MW_SCREEN_COMMAND_BYTES];
    mw_text_init(&text, sink, options->look);
    mw_screen_title(&text, &analysis->base, "stacks", options->target);
    put_summary(&text, analysis);
    mw_screen_partial(&text, &analysis->base);
    for (size_t i = 0; i < analysis->groups.count && i < options->count_max; i++)
        put_group(&text, analysis, &analysis->groups.items[i], lines);
    if (analysis->groups.count > options->count_max) {
        mw_text_printf(&text, MW_STYLE_PLAIN, "%zu more: --count 0 shows all",
                       analysis->groups.count - options->count_max);
        mw_text_newline(&text);
        mw_text_newline(&text);
    }
    mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
    snprintf(command, sizeof command, "memwhy report %s", mw_screen_word(options->target).text);
    mw_screen_command(&text, command, "where its memory is");
    mw_screen_next_of_stdin(&text, options->target);
    return mw_text_finish(&text, err);
}
