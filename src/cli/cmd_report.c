/* cli/cmd_report.c: memwhy [report] TARGET. */
#include "cli/cli.h"

#include "report/emit.h"
#include "session/group.h"

static enum mw_status emit(struct mw_cli *cli, const struct mw_analysis *analysis,
                           struct mw_error *err)
{
    if (mw_cli_has(cli, MW_OPTION_JSON))
        return mw_report_json(analysis, cli->out, err);
    if (mw_cli_has(cli, MW_OPTION_MARKDOWN))
        return mw_report_markdown(analysis, cli->out, err);
    const struct mw_report_text_options options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .all = mw_cli_has(cli, MW_OPTION_ALL),
    };
    return mw_report_text(analysis, &options, cli->out, err);
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    options.heap.classify_content = true;
    options.reach = MW_REACH_IF_EXACT;
    bool needs_process = mw_cli_has(cli, MW_OPTION_MARKDOWN) || cli->gate_count > 0;
    if (!needs_process && mw_group_is_target(cli->targets[0]))
        return mw_cli_report_group(cli);
    if (!mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code))
        return exit_code;
    enum mw_status emitted = emit(cli, &analysis, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_report = {
    .name = "report",
    .arguments = "TARGET",
    .summary = "where the memory is, why, and what gives it back",
    .about =
        "One screen: how large the process is and what surrounds it; a block for each state that\n"
        "explains its memory (LEAKED, GROWING, KEPT, OUTSIDE, NEEDED) with its bytes, what "
        "decided\n"
        "it, what it is not, and what each remedy would give; the account (WHERE), which sums to\n"
        "RSS; the commands worth typing next.\n"
        "\n"
        "TARGET is a process id, an ELF core or a capture (.zst too), a text like\n"
        "/proc/PID/smaps, or - for one of these on standard input. `report` itself may be left "
        "out.\n"
        "\n"
        "cgroup:PATH or the id of a container (its first 12 digits or more) means all its "
        "processes:\n"
        "the account of the cgroup, the processes by PSS, how the two fit, then the report of the\n"
        "process with the most. PATH is one below the root of the hierarchy, below "
        "/sys/fs/cgroup, or\n"
        "relative to memwhy's own cgroup.",
    .examples =
        "memwhy 4121\tthe screen\n"
        "memwhy 4121 --json >before.json\tkeep it, for memwhy verify\n"
        "memwhy core.4121.zst\ta core, without unpacking it\n"
        "ssh host cat /proc/4121/smaps | memwhy -\tmappings only, from elsewhere\n"
        "memwhy cgroup:/system.slice/nginx.service\tall processes of a service\n"
        "memwhy $(docker ps -q -f name=shop)\tall processes of a container\n"
        "memwhy 4121 --fail-if 'leaked>0' --fail-if 'kept>1GiB'\ta gate: exit 1 if it holds\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(MARKDOWN) | MW_OPTION_BIT(ALL) |
               MW_OPTION_BIT(NO_HEAP) | MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(FORK) |
               MW_OPTION_BIT(SAMPLE_ARENAS) | MW_OPTION_BIT(FAIL_IF) | MW_OPTION_BIT(SUPPRESSIONS) |
               MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
