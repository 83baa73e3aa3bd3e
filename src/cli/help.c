/* cli/help.c: help that teaches: what for, options, examples, exit codes; the table of fields. */
#include "cli/cli.h"

#include "report/fields.h"

#include <stdio.h>
#include <string.h>

enum { TERM_COLUMN = 2, ABOUT_COLUMN = 27, EXAMPLE_COLUMN = 44 };

static void put_lines(struct mw_text *text, const char *lines)
{
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        mw_text_printf(text, MW_STYLE_PLAIN, "%.*s", (int)length, lines);
        mw_text_newline(text);
        lines += length + (lines[length] == '\n');
    }
}

static void put_heading(struct mw_text *text, const char *heading)
{
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, heading);
    mw_text_newline(text);
}

/* "  --json     what it does", the description on the next line when the term is long. */
static void put_term(struct mw_text *text, const char *term, unsigned column, const char *about)
{
    mw_text_pad(text, TERM_COLUMN);
    mw_text_put(text, MW_STYLE_PLAIN, term);
    if (text->column + 2 > column)
        mw_text_newline(text);
    mw_text_pad(text, column);
    mw_text_wrap(text, column, 0, MW_STYLE_PLAIN, about);
    mw_text_newline(text);
}

static void put_options(struct mw_text *text, unsigned options)
{
    put_heading(text, "Options");
    for (int i = 0; i < MW_OPTION_COUNT; i++) {
        const struct mw_option_row *row = mw_option_row((enum mw_option)i);
        char term[64], letter[8] = "";
        if (!(options >> i & 1) || !row->about)
            continue;
        if (row->letter)
            snprintf(letter, sizeof letter, "-%c, ", row->letter);
        snprintf(term, sizeof term, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
        put_term(text, term, ABOUT_COLUMN, row->about);
    }
}

static void put_examples(struct mw_text *text, const char *examples)
{
    put_heading(text, "Examples");
    while (*examples) {
        char command[128], about[160];
        size_t tab = strcspn(examples, "\t");
        size_t end = strcspn(examples, "\n");
        snprintf(command, sizeof command, "%.*s", (int)tab, examples);
        snprintf(about, sizeof about, "%.*s", (int)(end > tab ? end - tab - 1 : 0),
                 examples + tab + 1);
        put_term(text, command, EXAMPLE_COLUMN, about);
        examples += end + (examples[end] == '\n');
    }
}

static void put_exit_codes(struct mw_text *text, bool has_gates)
{
    put_heading(text, "Exit codes");
    put_lines(text,
              has_gates
                  ? "  0 fine   1 a --fail-if holds   2 usage   3 the target is not accessible\n"
                  : "  0 fine   2 usage   3 the target is not accessible\n");
    put_lines(text, "  4 a part of the question stays unanswered   5 internal error\n");
}

static void help_command(struct mw_text *text, const struct mw_command *command)
{
    mw_text_put(text, MW_STYLE_BOLD, "memwhy ");
    mw_text_printf(text, MW_STYLE_BOLD, "%s%s%s [options]", command->name,
                   command->name[0] ? " " : "", command->arguments);
    mw_text_printf(text, MW_STYLE_PLAIN, "    %s", command->summary);
    mw_text_newline(text);
    mw_text_newline(text);
    put_lines(text, command->about);
    put_options(text, command->options | MW_OPTION_BIT(NO_COLOR) | MW_OPTION_BIT(HELP));
    put_examples(text, command->examples);
    put_exit_codes(text, command->options & MW_OPTION_BIT(FAIL_IF));
}

static void help_all(struct mw_text *text)
{
    put_lines(text, "memwhy says where a Linux process's resident memory is, whether it is leaked, "
                    "growing,\nmerely kept, or needed, and what gives it back, in bytes.\n");
    put_heading(text, "Usage");
    put_lines(text,
              "  memwhy                     the processes there are, by RSS, the largest first\n"
              "  memwhy [COMMAND] TARGET    TARGET: a PID, a core file, an smaps text, or -\n"
              "  memwhy cgroup:PATH         all processes of a cgroup, then the worst; also:\n"
              "  memwhy CONTAINER           its id, 12 digits or more\n"
              "  memwhy help COMMAND        more on a command: options and examples\n"
              "  memwhy help fields         every figure that is printed: unit, definition\n");
    put_heading(text, "Commands");
    for (size_t i = 0; mw_commands[i]; i++) {
        char term[64];
        if (!mw_commands[i]->name)
            continue;
        snprintf(term, sizeof term, "%s %s", mw_commands[i]->name, mw_commands[i]->arguments);
        put_term(text, term, ABOUT_COLUMN, mw_commands[i]->summary);
    }
    put_options(text, MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(NO_COLOR) |
                          MW_OPTION_BIT(HELP) | MW_OPTION_BIT(VERSION));
    put_heading(text, "What it does to a process");
    put_lines(
        text,
        "  Mappings are read without pausing it. A heap is read while it is held still, about as\n"
        "  long as --max-pause says at a time; the report says how often and how long. Nothing\n"
        "  runs in it but malloc_trim, and that only with `trim --apply`; with --fork it is made\n"
        "  to fork by system calls, and the copy is read. Killed at any moment, memwhy leaves it\n"
        "  running and untraced.\n");
    put_exit_codes(text, true);
}

static void help_fields(struct mw_text *text)
{
    put_lines(text,
              "Every field of every JSON document, which are also the figures of the screens.\n"
              "What is not known is null (- in a table), never 0.\n");
    int scope = -1;
    for (int i = 0; i < MW_FIELD_COUNT; i++) {
        const struct mw_field_row *row = mw_field_row((enum mw_field)i);
        char term[96], about[512];
        if ((int)row->scope != scope) {
            const struct mw_scope_row *object = mw_scope_row(row->scope);
            put_heading(text, object->path);
            put_lines(text, object->about);
        }
        scope = (int)row->scope;
        snprintf(term, sizeof term, "%s, %s", row->name, mw_field_unit_name(row->unit));
        snprintf(about, sizeof about, "%s%s%s%s", row->definition,
                 row->excludes[0] ? " Without: " : "", row->excludes, row->excludes[0] ? "." : "");
        put_term(text, term, 36, about);
    }
}

enum mw_exit mw_cli_help(struct mw_cli *cli)
{
    const char *topic = cli->help_topic;
    struct mw_text text;
    struct mw_error err = {0};
    bool is_fields = topic && strcmp(topic, "fields") == 0;
    if (topic && !is_fields) {
        mw_cli_say(cli, "no command is called '%.60s'", topic);
        return MW_EXIT_USAGE;
    }
    mw_text_init(&text, cli->out, mw_cli_screen_look(cli));
    if (is_fields)
        help_fields(&text);
    else if (cli->command_given)
        help_command(&text, cli->command);
    else
        help_all(&text);
    return mw_cli_conclude(cli, NULL, mw_text_finish(&text, &err), &err);
}
