/* cli/analyse.c: from options to an analysis, from an analysis to an exit code. */
#include "cli/cli.h"

#include "session/group.h"

#include <errno.h>
#include <stdio.h>

struct mw_analysis_options mw_cli_analysis_options(const struct mw_cli *cli)
{
    /* What lists pins, pages or mappings, or compares, wants every arena. */
    bool may_sample = cli->command->options & MW_OPTION_BIT(SAMPLE_ARENAS);
    return (struct mw_analysis_options){
        .skip_heap = mw_cli_has(cli, MW_OPTION_NO_HEAP),
        .fork = mw_cli_has(cli, MW_OPTION_FORK),
        .heap.sample_arenas = may_sample ? cli->sample_arenas : MW_SAMPLE_ALL,
        .cgroup_root = cli->cgroup_root,
    };
}

/* Before an analysis of a target. False: it is a group, which has no one heap; refused. */
static bool analysis_begin(struct mw_cli *cli, const char *target, enum mw_exit *exit_out)
{
    if (mw_group_is_target(target)) {
        *exit_out = mw_cli_refuse_group(cli, target);
        return false;
    }
    if (cli->max_pause_ns > 0)
        cli->context.pause_ns_max = cli->max_pause_ns;
    return true;
}

/* And after it. */
static bool analysis_end(struct mw_cli *cli, enum mw_status status, struct mw_error *err,
                         enum mw_exit *exit_out)
{
    mw_cli_progress_clear(cli);
    if (status == MW_OK)
        return true;
    err->code = status;
    *exit_out = mw_cli_fail(cli, err);
    return false;
}

bool mw_cli_analyse(struct mw_cli *cli, const char *target,
                    const struct mw_analysis_options *options, struct mw_analysis *analysis_out,
                    enum mw_exit *exit_out)
{
    struct mw_error err = {0};
    if (!analysis_begin(cli, target, exit_out))
        return false;
    enum mw_status status = mw_analysis_run(target, options, &cli->context, analysis_out, &err);
    return analysis_end(cli, status, &err, exit_out);
}

bool mw_cli_analyse_blocks(struct mw_cli *cli, const struct mw_analysis_options *options,
                           const struct mw_blocks_options *blocks_options,
                           struct mw_analysis *analysis_out, struct mw_blocks *blocks_out,
                           enum mw_exit *exit_out)
{
    struct mw_error err = {0};
    if (!analysis_begin(cli, cli->targets[0], exit_out))
        return false;
    enum mw_status status = mw_blocks_run(cli->targets[0], options, blocks_options, &cli->context,
                                          analysis_out, blocks_out, &err);
    return analysis_end(cli, status, &err, exit_out);
}

enum mw_exit mw_cli_conclude(struct mw_cli *cli, const struct mw_analysis *analysis,
                             enum mw_status emitted, const struct mw_error *err)
{
    bool reader_gone = emitted == MW_OS && err->os_errno == EPIPE;
    if (emitted == MW_OS && !reader_gone) {
        mw_cli_say(cli, "%s", err->text);
        return MW_EXIT_PARTIAL;
    }
    if (emitted != MW_OK && !reader_gone)
        return mw_cli_fail(cli, err);
    if (!analysis || !analysis->is_partial)
        return MW_EXIT_FINE;
    /* On standard error too: the output may go to a file or another program. */
    if (!cli->out_is_terminal && !reader_gone)
        (void)mw_cli_fail(cli, &analysis->why_partial);
    return MW_EXIT_PARTIAL;
}
