/* cli/cmd_group.c: memwhy cgroup:PATH, memwhy CONTAINER: `report` on all processes of a cgroup.
 * Not a command of its own: the target decides. */
#include "cli/cli.h"

#include "report/group_report.h"

#include <stdio.h>

enum { WORST_TRIES = 3 }; /* the worst may end before it is looked at */

/* What needs one process, and the command that names one. */
static void refuse(struct mw_cli *cli, const char *target, const struct mw_group *group,
                   struct mw_error *err)
{
    const struct mw_group_process *worst = mw_group_worst(group, 0);
    const char *name = cli->command->name;
    const char *option = cli->command != &mw_command_report    ? ""
                         : mw_cli_has(cli, MW_OPTION_MARKDOWN) ? "--markdown"
                                                               : "--fail-if";
    (void)mw_fail(err, MW_INVALID, "'%s' needs one process, and '%.100s' is a group of %zu",
                  *option ? option : name, target, group->count);
    if (worst && cli->command == &mw_command_verify)
        mw_error_hint(err, "memwhy verify %.180s %d", cli->targets[0], worst->row.pid);
    else if (worst)
        mw_error_hint(err, "memwhy %s %d%s%s", name, worst->row.pid, *option ? " " : "", option);
}

enum mw_exit mw_cli_refuse_group(struct mw_cli *cli, const char *target)
{
    struct mw_group group;
    struct mw_error err = {0};
    enum mw_status status = mw_group_load(target, cli->cgroup_root, &cli->context, &group, &err);
    mw_cli_progress_clear(cli);
    if (status != MW_OK) {
        err.code = status;
        return mw_cli_fail(cli, &err);
    }
    refuse(cli, target, &group, &err);
    (void)mw_cli_fail(cli, &err);
    mw_group_deinit(&group);
    return MW_EXIT_USAGE;
}

/* The report of the process with the most PSS; that of the next one if it has gone. */
static bool worst_analyse(struct mw_cli *cli, struct mw_group *group, struct mw_analysis *analysis)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_error err = {0};
    options.heap.classify_content = true;
    if (cli->max_pause_ns > 0)
        cli->context.pause_ns_max = cli->max_pause_ns;
    for (size_t rank = 0; rank < WORST_TRIES; rank++) {
        const struct mw_group_process *worst = mw_group_worst(group, rank);
        char pid[16];
        if (!worst)
            break;
        snprintf(pid, sizeof pid, "%d", worst->row.pid);
        enum mw_status status = mw_analysis_run(pid, &options, &cli->context, analysis, &err);
        mw_cli_progress_clear(cli);
        if (status == MW_OK)
            return true;
        err.code = status;
        if (status != MW_GONE && status != MW_NOT_FOUND)
            break;
    }
    if (err.code != MW_OK && !group->is_partial) {
        group->is_partial = true;
        group->why_partial = err;
    }
    return false;
}

static enum mw_status emit(struct mw_cli *cli, const struct mw_group *group,
                           const struct mw_analysis *worst, struct mw_error *err)
{
    const struct mw_report_text_options options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .all = mw_cli_has(cli, MW_OPTION_ALL),
    };
    return mw_cli_has(cli, MW_OPTION_JSON)
               ? mw_report_group_json(group, worst, cli->out, err)
               : mw_report_group_text(group, worst, &options, cli->out, err);
}

/* Whole when the group and the report are; what is missing is said on standard error, too. */
static enum mw_exit conclude(struct mw_cli *cli, const struct mw_group *group,
                             const struct mw_analysis *worst, enum mw_status emitted,
                             const struct mw_error *err)
{
    enum mw_exit exit_code = mw_cli_conclude(cli, worst, emitted, err);
    if (exit_code != MW_EXIT_FINE || !group->is_partial)
        return exit_code;
    if (!cli->out_is_terminal)
        (void)mw_cli_fail(cli, &group->why_partial);
    return MW_EXIT_PARTIAL;
}

enum mw_exit mw_cli_report_group(struct mw_cli *cli)
{
    struct mw_group group;
    struct mw_analysis worst;
    struct mw_error err = {0};
    enum mw_status status =
        mw_group_load(cli->targets[0], cli->cgroup_root, &cli->context, &group, &err);
    mw_cli_progress_clear(cli);
    if (status != MW_OK) {
        err.code = status;
        return mw_cli_fail(cli, &err);
    }
    bool has_worst = worst_analyse(cli, &group, &worst);
    status = emit(cli, &group, has_worst ? &worst : NULL, &err);
    enum mw_exit exit_code = conclude(cli, &group, has_worst ? &worst : NULL, status, &err);
    if (has_worst)
        mw_analysis_deinit(&worst);
    mw_group_deinit(&group);
    return exit_code;
}
