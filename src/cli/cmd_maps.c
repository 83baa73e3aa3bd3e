/* cli/cmd_maps.c: memwhy maps TARGET: every mapping with its owner. */
#include "cli/cli.h"

#include "report/emit.h"

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    bool only_unknown = mw_cli_has(cli, MW_OPTION_UNKNOWN);
    options.skip_verdicts = true;
    if (!mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code))
        return exit_code;
    const struct mw_report_text_options text_options = {
        .look = mw_cli_table_look(cli),
        .target = cli->targets[0],
    };
    enum mw_status emitted =
        mw_cli_has(cli, MW_OPTION_JSON)
            ? mw_report_maps_json(&analysis, only_unknown, cli->out, &err)
            : mw_report_maps_text(&analysis, only_unknown, &text_options, cli->out, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_maps = {
    .name = "maps",
    .arguments = "TARGET",
    .summary = "every mapping with its owner, residency, huge pages, swap",
    .about =
        "A row for each mapping, or for each part of one that has an owner of its own: address,\n"
        "size, resident, proportional and swapped bytes, huge pages, category, owner, name. "
        "Owners\n"
        "are known by name and flags, by the shape of neighbours (a guard below a stack), and "
        "from\n"
        "the allocators and runtimes that memwhy recognises.",
    .examples = "memwhy maps 4121\tthe table, in KiB\n"
                "memwhy maps 4121 --unknown\twhat nobody owns, the largest first\n"
                "memwhy maps 4121 --no-heap\twithout reading memory: nothing is paused\n"
                "memwhy maps - <smaps.txt\tof a text from elsewhere\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(UNKNOWN) | MW_OPTION_BIT(NO_HEAP) |
               MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(CGROUP_ROOT) | MW_OPTION_BIT(FORK),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
