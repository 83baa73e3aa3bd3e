/* cli/cmd_collect.c: memwhy collect PID -o FILE: a capture. */
#include "cli/cli.h"

#include "report/collect_report.h"

#include <string.h>

static enum mw_exit run(struct mw_cli *cli)
{
    const struct mw_collect_options options = {
        .output = cli->output,
        .fork = mw_cli_has(cli, MW_OPTION_FORK),
    };
    struct mw_collected collected;
    struct mw_error err = {0};
    if (!cli->output) {
        mw_cli_say(cli, "where to? give -o FILE, or -o - for standard output");
        return MW_EXIT_USAGE;
    }
    if (cli->max_pause_ns > 0)
        cli->context.pause_ns_max = cli->max_pause_ns;
    enum mw_status status = mw_collect(cli->targets[0], &options, &cli->context, &collected, &err);
    mw_cli_progress_clear(cli);
    if (status != MW_OK) {
        err.code = status;
        return mw_cli_fail(cli, &err);
    }
    if (strcmp(cli->output, "-") == 0)
        return MW_EXIT_FINE;
    status = mw_cli_has(cli, MW_OPTION_JSON)
                 ? mw_report_collect_json(&collected, cli->output, cli->out, &err)
                 : mw_report_collect_text(&collected, cli->targets[0], cli->output,
                                          mw_cli_screen_look(cli), cli->out, &err);
    return mw_cli_conclude(cli, NULL, status, &err);
}

const struct mw_command mw_command_collect = {
    .name = "collect",
    .arguments = "PID -o FILE",
    .summary = "a capture of a process, to be looked at later",
    .about =
        "Writes an ELF core of what is resident, with what was resident and what the kernel "
        "counted:\n"
        "a debugger loads it, and every command of memwhy answers on it as on the process. Clean\n"
        "pages of mapped files are left out; they are read from the files. The process is held "
        "for\n"
        "one stop of --max-pause, or with --fork for a fork. The file is mode 0600 and appears "
        "when\n"
        "it is whole.",
    .examples =
        "memwhy collect 4121 -o shop.capture --fork\ttake it\n"
        "memwhy shop.capture\tthe report, later and elsewhere\n"
        "memwhy diff shop.capture 4121\twhat grew since\n"
        "memwhy collect 4121 -o - --fork | zstd >shop.capture.zst\tcompressed; read as it is\n",
    .options = MW_OPTION_BIT(OUTPUT) | MW_OPTION_BIT(JSON) | MW_OPTION_BIT(MAX_PAUSE) |
               MW_OPTION_BIT(FORK),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
