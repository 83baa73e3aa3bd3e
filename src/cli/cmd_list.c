/* cli/cmd_list.c: memwhy without a target: which processes there are to look at. */
#include "cli/cli.h"

#include "report/list_report.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_list list;
    struct mw_error err = {0};
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0) {
        (void)mw_fail_errno(&err, errno, "cannot open '/proc'");
        return mw_cli_fail(cli, &err);
    }
    enum mw_status status = mw_list_load(proc_fd, cli->count_max, &cli->context, &list, &err);
    close(proc_fd);
    if (status != MW_OK)
        return mw_cli_fail(cli, &err);
    status =
        mw_cli_has(cli, MW_OPTION_JSON)
            ? mw_report_list_json(&list, cli->count_max, cli->out, &err)
            : mw_report_list_text(&list, mw_cli_table_look(cli), cli->count_max, cli->out, &err);
    mw_list_deinit(&list);
    return mw_cli_conclude(cli, NULL, status, &err);
}

const struct mw_command mw_command_list = {
    .name = NULL,
    .arguments = "",
    .summary = "the processes there are, by RSS, the largest first",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX),
    .run = run,
};
