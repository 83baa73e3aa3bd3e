/* cli/cmd_leaks.c: memwhy leaks TARGET: blocks that nothing points to. */
#include "cli/cli.h"

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    options.skip_verdicts = cli->gate_count == 0;
    options.heap_is_asked = true;
    options.reach = MW_REACH_ASKED;
    return mw_cli_answer(cli, &options,
                         (struct mw_cli_forms){mw_report_leaks_json, mw_report_leaks_text});
}

const struct mw_command mw_command_leaks = {
    .name = "leaks",
    .arguments = "TARGET",
    .summary = "blocks that nothing in memory points to",
    .about =
        "Reads every pointer that the program has (registers, stacks, data, thread-local storage,\n"
        "other memory) and follows them from block to block. What is not reached the program can\n"
        "never free: it is leaked. Blocks are grouped by size and by what their first word points\n"
        "to. Exact for a core, with --fork, and where all fits into one stop of --max-pause; else\n"
        "what looks unreachable is counted as uncertain.\n"
        "\n"
        "A line of a file for --suppressions is a pattern (* and ?) for what the last column "
        "shows,\n"
        "or for the layout, type or caller of --json; a number of usable bytes before it narrows "
        "it.",
    .examples = "memwhy leaks 4121\tthe groups with the most bytes\n"
                "memwhy leaks core.4121 --json | jq .unreachable_bytes\tfor programs\n"
                "memwhy leaks 4121 --fork\texact, without a long stop\n"
                "memwhy leaks 4121 --fork --fail-if 'leaked>0'\texit code 1 when something is\n"
                "memwhy leaks core.4121 --suppressions known.txt\twithout the known kinds\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(MAX_PAUSE) |
               MW_OPTION_BIT(CGROUP_ROOT) | MW_OPTION_BIT(FORK) | MW_OPTION_BIT(FAIL_IF) |
               MW_OPTION_BIT(SUPPRESSIONS),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
