/* cli/cmd_pins.c: memwhy pins TARGET: which live blocks keep free memory resident. */
#include "cli/cli.h"

#include "report/emit.h"

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    options.skip_verdicts = true;
    options.heap_is_asked = true;
    options.pins_are_asked = true;
    options.heap.classify_content = true;
    if (!mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code))
        return exit_code;
    const struct mw_report_text_options text_options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .count_max = cli->count_max,
    };
    enum mw_status emitted = mw_cli_has(cli, MW_OPTION_JSON)
                                 ? mw_report_pins_json(&analysis, cli->out, &err)
                                 : mw_report_pins_text(&analysis, &text_options, cli->out, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_pins = {
    .name = "pins",
    .arguments = "TARGET",
    .summary = "which live blocks keep free memory resident",
    .about =
        "A heap can be given back only from its end, so one live block near the end keeps what is\n"
        "free below it. For each heap this names the block that does: its address, size, distance\n"
        "from the top, the kind of its content (never the content), and what would be released if\n"
        "it and its like went.",
    .examples = "memwhy pins 4121\tthe 20 with the largest gain\n"
                "memwhy pins 4121 --json | jq '.pins[0]'\tfor programs\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(MAX_PAUSE) |
               MW_OPTION_BIT(CGROUP_ROOT) | MW_OPTION_BIT(FORK),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
