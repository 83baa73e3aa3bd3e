/* cli/cli.h: one invocation of the program. The only room that knows argv, standard output and
 * exit codes.
 *
 * To add a command:
 *   1. cmd_<name>.c with one const struct mw_command, declared below;
 *   2. its place in mw_commands[] (commands.c);
 *   3. man/memwhy-<name>.1 with the same options; tests/cli/test_help.py finds both. */
#ifndef MW_CLI_CLI_H
#define MW_CLI_CLI_H

#include "base/context.h"
#include "cli/gate.h"
#include "report/emit.h"
#include "report/text.h"
#include "session/blocks.h"
#include "session/session.h"
#include "session/suppress.h"

#include <stdbool.h>
#include <stddef.h>

enum mw_exit {
    MW_EXIT_FINE = 0,
    MW_EXIT_GATE = 1,     /* a gate was hit, a check failed */
    MW_EXIT_USAGE = 2,    /* the command line makes no sense */
    MW_EXIT_TARGET = 3,   /* the target is not accessible */
    MW_EXIT_PARTIAL = 4,  /* a part of the question stays unanswered */
    MW_EXIT_INTERNAL = 5, /* our own fault, or out of memory */
};

enum mw_option {
    MW_OPTION_JSON,
    MW_OPTION_MARKDOWN,
    MW_OPTION_ALL,
    MW_OPTION_NO_HEAP,
    MW_OPTION_UNKNOWN,
    MW_OPTION_LIST_BLOCKS,
    MW_OPTION_PAGES,
    MW_OPTION_APPLY,
    MW_OPTION_COUNT_MAX,
    MW_OPTION_SIZE,
    MW_OPTION_FIELDS,
    MW_OPTION_LIST,
    MW_OPTION_LIMIT,
    MW_OPTION_CONTENTS,
    MW_OPTION_MAX_PAUSE,
    MW_OPTION_FORK,
    MW_OPTION_SAMPLE_ARENAS,
    MW_OPTION_FAIL_IF,
    MW_OPTION_SUPPRESSIONS,
    MW_OPTION_AFTER,
    MW_OPTION_OUTPUT,
    MW_OPTION_CONTROL,
    MW_OPTION_NO_COLOR,
    MW_OPTION_SYMBOLS,
    MW_OPTION_LINES,
    MW_OPTION_DEBUGINFOD,
    MW_OPTION_CGROUP_ROOT,
    MW_OPTION_HELP,
    MW_OPTION_VERSION,
    MW_OPTION_COUNT,
};
#define MW_OPTION_BIT(option) (1u << MW_OPTION_##option)

enum { MW_TARGETS_MAX = 2, MW_GATES_MAX = 16 };

struct mw_command;

struct mw_cli {
    const struct mw_command *command;
    bool command_given;     /* by name */
    const char *help_topic; /* `memwhy help TOPIC`, when that is no command */
    const char *targets[MW_TARGETS_MAX];
    size_t target_count;
    unsigned given; /* options: bit 1 << enum mw_option */
    uint64_t max_pause_ns;
    size_t count_max;
    uint64_t size_bytes;    /* of blocks; 0: not given */
    uint64_t limit;         /* blocks to list */
    uint64_t sample_arenas; /* as in struct mw_heap_options */
    const char *cgroup_root;
    const char *symbols_dir;             /* NULL: none */
    struct mw_suppressions suppressions; /* text is NULL: none were given */
    const char *output;                  /* a file, "-", or NULL */
    uint64_t after_ns;                   /* 0: not given */
    const char *controls[MW_TARGETS_MAX];
    size_t control_count;
    const char *gate_texts[MW_GATES_MAX];
    size_t gate_count;
    struct mw_gate gates[MW_GATES_MAX];

    struct mw_context context;
    struct mw_sink out; /* standard output */
    bool out_is_terminal, color;
    unsigned width; /* of the terminal, or of COLUMNS, or 100 */
    bool progress_shown;
    uint64_t started_ns;
};

struct mw_command {
    const char *name;
    const char *arguments; /* "TARGET [options]" */
    const char *summary;   /* one line for the list of commands */
    const char *about;     /* a paragraph or two for --help */
    const char *examples;  /* lines "command<TAB>what it does" */
    unsigned options;      /* bits */
    size_t targets_min, targets_max;
    enum mw_exit (*run)(struct mw_cli *cli);
};

extern const struct mw_command mw_command_report, mw_command_heap, mw_command_blocks,
    mw_command_maps, mw_command_pins, mw_command_trim, mw_command_leaks, mw_command_refs,
    mw_command_stacks, mw_command_diff, mw_command_collect, mw_command_verify, mw_command_doctor,
    mw_command_list;

/* All commands in the order of the help, ended by NULL. The list is last and has no name. */
extern const struct mw_command *const mw_commands[];
const struct mw_command *mw_command_find(const char *name);

static inline bool mw_cli_has(const struct mw_cli *cli, enum mw_option option)
{
    return cli->given >> option & 1;
}

/* options.c: argv → cli. MW_INVALID with text and hint when it makes no sense. A word `help` in
 * place of a command sets the option. */
enum mw_status mw_cli_parse(struct mw_cli *cli, int argc, char **argv, struct mw_error *err);

struct mw_option_row {
    const char *name, *argument; /* long name; NULL: takes none */
    const char *about;           /* NULL: hidden from the help */
    char letter;                 /* 0: none */
};
const struct mw_option_row *mw_option_row(enum mw_option option);

/* help.c */
enum mw_exit mw_cli_help(struct mw_cli *cli);

/* output.c */
void mw_cli_output_init(struct mw_cli *cli);
struct mw_text_look mw_cli_screen_look(const struct mw_cli *cli); /* 80 to 100 columns */
struct mw_text_look mw_cli_table_look(const struct mw_cli *cli);  /* whole lines when piped */
void mw_cli_progress_clear(struct mw_cli *cli);
/* Print error and hint on standard error; the exit code that fits. Silent for a reader that has
 * gone: then MW_EXIT_FINE. */
enum mw_exit mw_cli_fail(struct mw_cli *cli, const struct mw_error *err);
/* A line on standard error: "memwhy: …". */
void mw_cli_say(struct mw_cli *cli, const char *fmt, ...) MW_PRINTF(2, 3);

/* analyse.c: run the analysis that the options ask for. On failure it is printed and *exit_out is
 * set. */
bool mw_cli_analyse(struct mw_cli *cli, const char *target,
                    const struct mw_analysis_options *options, struct mw_analysis *analysis_out,
                    enum mw_exit *exit_out);
/* The same with blocks (session/blocks.h). */
bool mw_cli_analyse_blocks(struct mw_cli *cli, const struct mw_analysis_options *options,
                           const struct mw_blocks_options *blocks_options,
                           struct mw_analysis *analysis_out, struct mw_blocks *blocks_out,
                           enum mw_exit *exit_out);
/* cmd_group.c: `report` on a target that is a group; and the error of what needs one process. */
enum mw_exit mw_cli_report_group(struct mw_cli *cli);
enum mw_exit mw_cli_refuse_group(struct mw_cli *cli, const char *target);

/* A command that is one question: run an analysis and print it, as JSON or as a screen. */
struct mw_cli_forms {
    enum mw_status (*json)(const struct mw_analysis *analysis, struct mw_sink sink,
                           struct mw_error *err);
    enum mw_status (*text)(const struct mw_analysis *analysis,
                           const struct mw_report_text_options *options, struct mw_sink sink,
                           struct mw_error *err);
};
enum mw_exit mw_cli_answer(struct mw_cli *cli, const struct mw_analysis_options *options,
                           struct mw_cli_forms forms);

/* Defaults from the command line. */
struct mw_analysis_options mw_cli_analysis_options(const struct mw_cli *cli);
/* What an emitter returned, whether the analysis was whole, and the gates, as an exit code. Also
 * prints why it is partial when the output does not show it, and which gates were hit. */
enum mw_exit mw_cli_conclude(struct mw_cli *cli, const struct mw_analysis *analysis,
                             enum mw_status emitted, const struct mw_error *err);

#endif
