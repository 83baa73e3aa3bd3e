/* cli/cmd_diff.c: memwhy diff A B, and diff PID --after: what grew between two moments. */
#include "cli/cli.h"

#include "report/diff_report.h"

/* Two moments of what is looked at, then two of the control. */
struct pair {
    const char *targets[2];
    struct mw_moment moments[2];
    struct mw_moment_head heads[2];
};

static enum mw_status moment_take(struct mw_cli *cli, struct pair *pair, int which,
                                  struct mw_error *err)
{
    const struct mw_analysis_options options = mw_cli_analysis_options(cli);
    return mw_moment_take(pair->targets[which], &options, &cli->context, &pair->moments[which],
                          &pair->heads[which], err);
}

/* The first moment of both, the wait, and the second one. */
static enum mw_status pairs_take(struct mw_cli *cli, struct pair *asked, struct pair *control,
                                 struct mw_error *err)
{
    enum mw_status status = MW_OK;
    for (int which = 0; which < 2 && status == MW_OK; which++) {
        if (which == 1 && cli->after_ns > 0)
            status = mw_moment_wait(cli->after_ns, &cli->context, err);
        if (status == MW_OK)
            status = moment_take(cli, asked, which, err);
        if (status == MW_OK && control)
            status = moment_take(cli, control, which, err);
    }
    return status;
}

static enum mw_status emit(struct mw_cli *cli, const struct pair *asked, const struct pair *control,
                           struct mw_error *err)
{
    struct mw_difference difference;
    const struct mw_difference_input input = {
        .before = &asked->moments[0],
        .after = &asked->moments[1],
        .control_before = control ? &control->moments[0] : NULL,
        .control_after = control ? &control->moments[1] : NULL,
    };
    const struct mw_diff_titles titles = {
        asked->targets[0],
        asked->targets[1],
        {&asked->moments[0], &asked->moments[1]},
        {&asked->heads[0], &asked->heads[1]},
    };
    enum mw_status status = mw_difference_make(&input, &difference, err);
    if (status != MW_OK)
        return status;
    status = mw_cli_has(cli, MW_OPTION_JSON)
                 ? mw_report_diff_json(&difference, &titles, cli->out, err)
                 : mw_report_diff_text(&difference, &titles, cli->count_max,
                                       mw_cli_screen_look(cli), cli->out, err);
    mw_difference_deinit(&difference);
    return status;
}

/* What of the command line makes no sense; NULL: it does. */
static const char *options_clash(const struct mw_cli *cli)
{
    bool waits = cli->after_ns > 0;
    if (waits && cli->target_count == 2)
        return "--after looks twice at one target: give one";
    if (!waits && cli->target_count == 1)
        return "two targets, or one and --after, are compared: memwhy diff PID --after 10m";
    if (cli->control_count > 0 && cli->control_count != (waits ? 1u : 2u))
        return waits ? "with --after one --control is given: the process to look at meanwhile"
                     : "two --control are given: the control before, and after";
    return NULL;
}

static void pair_init(struct pair *pair, const char *const targets[2], size_t count)
{
    *pair = (struct pair){.targets = {targets[0], targets[count == 2]}};
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct pair asked, control;
    struct mw_error err = {0};
    const char *clash = options_clash(cli);
    if (clash) {
        mw_cli_say(cli, "%s", clash);
        return MW_EXIT_USAGE;
    }
    if (cli->max_pause_ns > 0)
        cli->context.pause_ns_max = cli->max_pause_ns;
    pair_init(&asked, cli->targets, cli->target_count);
    pair_init(&control, cli->controls, cli->control_count);
    struct pair *with = cli->control_count > 0 ? &control : NULL;
    enum mw_exit exit_code;
    enum mw_status status = pairs_take(cli, &asked, with, &err);
    mw_cli_progress_clear(cli);
    if (status == MW_OK) {
        status = emit(cli, &asked, with, &err);
        exit_code = mw_cli_conclude(cli, NULL, status, &err);
        bool is_partial = asked.heads[0].is_partial || asked.heads[1].is_partial;
        if (exit_code == MW_EXIT_FINE && is_partial)
            exit_code = MW_EXIT_PARTIAL;
    } else {
        err.code = status;
        exit_code = mw_cli_fail(cli, &err);
    }
    for (int i = 0; i < 2; i++) {
        mw_moment_deinit(&asked.moments[i]);
        mw_moment_deinit(&control.moments[i]);
    }
    return exit_code;
}

const struct mw_command mw_command_diff = {
    .name = "diff",
    .arguments = "BEFORE AFTER | PID --after DURATION",
    .summary = "what grew between two moments",
    .about =
        "Compares two cores, a core and a process, or one process now and a while later: resident\n"
        "bytes by category, blocks in use by size, and by size and kind (what their first word\n"
        "points to, else a known layout), sorted by growth. Where nothing else can be: which of\n"
        "the change is lost, and, of one process, how many blocks stayed where they were.\n"
        "\n"
        "--control names what grows like this without the problem: its change is shown beside, "
        "and\n"
        "taken off before sorting.",
    .examples =
        "memwhy diff 4121 --after 10m\twhat grows in ten minutes\n"
        "memwhy diff before.core after.core\tbetween two cores\n"
        "memwhy diff before.core 4121\tsince a core\n"
        "memwhy diff 4121 --after 10m --control 4188\tless what its healthy neighbour grows\n"
        "memwhy diff a.core b.core --json | jq '.rows[] | select(.what == \"size\")'\tfor "
        "programs\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(AFTER) | MW_OPTION_BIT(CONTROL) |
               MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(FORK) |
               MW_OPTION_BIT(NO_HEAP) | MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 1,
    .targets_max = 2,
    .run = run,
};
