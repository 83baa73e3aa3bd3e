/* cli/cmd_pins.c: memwhy pins TARGET: which live blocks keep free memory resident. */
#include "cli/cli.h"

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    options.skip_verdicts = true;
    options.heap_is_asked = true;
    options.pins_are_asked = true;
    options.heap.classify_content = true;
    return mw_cli_answer(cli, &options,
                         (struct mw_cli_forms){mw_report_pins_json, mw_report_pins_text});
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
