/* cli/cmd_list.c: memwhy without a target. */
#include "cli/cli.h"

static enum mw_exit run(struct mw_cli *cli)
{
    (void)cli;
    return MW_EXIT_FINE;
}
const struct mw_command mw_command_list = {
    .name = NULL, .arguments = "", .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX),
    .run = run,
};
