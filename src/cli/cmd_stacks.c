/* cli/cmd_stacks.c: memwhy stacks TARGET: threads grouped by identical stack. */
#include "cli/cli.h"

#include "report/stacks_report.h"
#include "session/group.h"

static enum mw_status emit(struct mw_cli *cli, const struct mw_stacks_analysis *analysis,
                           struct mw_error *err)
{
    bool lines = mw_cli_has(cli, MW_OPTION_LINES);
    if (mw_cli_has(cli, MW_OPTION_JSON))
        return mw_report_stacks_json(analysis, lines, cli->out, err);
    const struct mw_report_text_options options = {
        .look = mw_cli_table_look(cli),
        .target = cli->targets[0],
        .count_max = cli->count_max,
    };
    return mw_report_stacks_text(analysis, lines, &options, cli->out, err);
}

static enum mw_exit run(struct mw_cli *cli)
{
    const struct mw_names_options options = {
        .symbols_dir = cli->symbols_dir,
        .debuginfod = mw_cli_has(cli, MW_OPTION_DEBUGINFOD),
    };
    struct mw_stacks_analysis analysis;
    struct mw_error err = {0};
    if (mw_group_is_target(cli->targets[0]))
        return mw_cli_refuse_group(cli, cli->targets[0]);
    if (cli->max_pause_ns > 0)
        cli->context.pause_ns_max = cli->max_pause_ns;
    enum mw_status status =
        mw_stacks_run(cli->targets[0], &options, &cli->context, &analysis, &err);
    mw_cli_progress_clear(cli);
    if (status != MW_OK) {
        err.code = status;
        return mw_cli_fail(cli, &err);
    }
    status = emit(cli, &analysis, &err);
    enum mw_exit exit_code = mw_cli_conclude(cli, &analysis.base, status, &err);
    mw_stacks_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_stacks = {
    .name = "stacks",
    .arguments = "TARGET",
    .summary = "threads grouped by identical stack",
    .about =
        "Reads the registers and the used part of the stack of each thread, of a live process "
        "under\n"
        "one short stop, and unwinds them afterwards from the copy, or from a core. Threads with "
        "the\n"
        "same stack are one group, the largest first. A frame is named from symbol tables "
        "(.symtab,\n"
        ".dynsym, .gnu_debugdata), separate debug files with the same build-id, and perf maps; "
        "else\n"
        "by module and offset. Code without unwind information is walked by frame pointers, and "
        "such\n"
        "frames are called likely.",
    .examples = "memwhy stacks 4121\tgroups, names, frames\n"
                "memwhy stacks core.4121 --symbols ./debug --lines\tfunctions and source lines\n"
                "memwhy stacks 4121 --json | jq '.groups[0]'\tfor programs\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(MAX_PAUSE) |
               MW_OPTION_BIT(SYMBOLS) | MW_OPTION_BIT(LINES) | MW_OPTION_BIT(DEBUGINFOD),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
