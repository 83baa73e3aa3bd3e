/* cli/cmd_trim.c: memwhy trim TARGET: what malloc_trim(0) would give back, and whether it did. */
#include "cli/cli.h"

#include "report/trim_report.h"

static enum mw_status emit(struct mw_cli *cli, const struct mw_analysis *analysis,
                           const struct mw_trim *trim, struct mw_error *err)
{
    if (mw_cli_has(cli, MW_OPTION_JSON))
        return mw_report_trim_json(analysis, trim, cli->out, err);
    const struct mw_report_text_options options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
    };
    return mw_report_trim_text(analysis, trim, &options, cli->out, err);
}

/* No prediction leaves the question open, and so does a refusal. The screen says why; what is
 * printed for programs may not be looked at by people, so standard error says it, too. */
static enum mw_exit conclude(struct mw_cli *cli, const struct mw_analysis *analysis,
                             const struct mw_trim *trim, enum mw_status emitted,
                             const struct mw_error *err)
{
    enum mw_exit exit_code = mw_cli_conclude(cli, analysis, emitted, err);
    if (exit_code != MW_EXIT_FINE || trim->refused.code == MW_OK)
        return exit_code;
    if (!cli->out_is_terminal)
        (void)mw_cli_fail(cli, &trim->refused);
    return MW_EXIT_PARTIAL;
}

static enum mw_exit print_pages(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_trim_ranges ranges = {0};
    struct mw_analysis analysis;
    struct mw_trim trim;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    options.skip_verdicts = true;
    mw_trim_ranges_collect(&ranges, &options.heap);
    if (mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code)) {
        mw_trim_predict(&analysis, &trim);
        enum mw_status emitted = ranges.status;
        mw_trim_ranges_sort(&ranges);
        if (emitted == MW_OK)
            emitted = mw_report_trim_pages(&ranges, cli->out, &err);
        else
            (void)mw_fail(&err, emitted, "cannot keep all ranges");
        exit_code = conclude(cli, &analysis, &trim, emitted, &err);
        mw_analysis_deinit(&analysis);
    }
    mw_trim_ranges_deinit(&ranges);
    return exit_code;
}

/* It runs code in a process of somebody's: that is said before it is done. */
static void apply(struct mw_cli *cli, struct mw_analysis *analysis, struct mw_trim *trim)
{
    struct mw_error refused;
    if (analysis->image.kind == MW_IMAGE_LIVE && trim->predicted_bytes != MW_UNKNOWN)
        mw_cli_say(cli,
                   "running malloc_trim(0) in process %d: one of its threads is borrowed, arena "
                   "locks are held meanwhile",
                   analysis->image.process.pid);
    if (mw_trim_apply(analysis, trim, &refused) == MW_LIMIT && refused.hint[0] == '\0')
        mw_error_hint(&trim->refused, "memwhy trim %.60s --apply, at another moment",
                      cli->targets[0]);
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_analysis analysis;
    struct mw_trim trim;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    if (mw_cli_has(cli, MW_OPTION_PAGES) && mw_cli_has(cli, MW_OPTION_JSON)) {
        mw_cli_say(cli, "--pages prints lines: it has no JSON form");
        return MW_EXIT_USAGE;
    }
    if (mw_cli_has(cli, MW_OPTION_PAGES) && mw_cli_has(cli, MW_OPTION_APPLY)) {
        mw_cli_say(cli, "--pages and --apply exclude each other");
        return MW_EXIT_USAGE;
    }
    if (mw_cli_has(cli, MW_OPTION_PAGES))
        return print_pages(cli);
    options.skip_verdicts = true;
    if (!mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code))
        return exit_code;
    mw_trim_predict(&analysis, &trim);
    if (mw_cli_has(cli, MW_OPTION_APPLY))
        apply(cli, &analysis, &trim);
    enum mw_status emitted = emit(cli, &analysis, &trim, &err);
    exit_code = conclude(cli, &analysis, &trim, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_trim = {
    .name = "trim",
    .arguments = "TARGET",
    .summary = "what malloc_trim(0) would give back; with --apply, whether it did",
    .about =
        "Predicts, page by page, what malloc_trim(0) would return to the kernel. Without --apply\n"
        "that is all, and nothing runs in the target. With it, malloc_trim(0) is run IN the "
        "process\n"
        "and the drop of Anonymous (not of Rss) is compared with the prediction. One thread is\n"
        "borrowed, at a moment when it sleeps outside of malloc; no such moment, and it is "
        "refused.\n"
        "While it runs arena locks are held, so threads that allocate wait. If memwhy is killed\n"
        "meanwhile the process goes on by itself. Trimming lowers neither the next peak nor the "
        "tops\n"
        "of thread arenas.",
    .examples = "memwhy trim 4121\tlook\n"
                "memwhy trim 4121 --apply\tdo it, and compare\n"
                "memwhy trim 4121 --pages\tthe page ranges: 0xSTART 0xEND\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(APPLY) | MW_OPTION_BIT(PAGES) |
               MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
