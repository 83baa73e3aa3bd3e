/* cli/analyse.c: from options to an analysis, from an analysis to an exit code. */
#include "cli/cli.h"

#include "base/units.h"
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
        .suppressions = cli->suppressions.text ? &cli->suppressions : NULL,
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

static void say_hit(struct mw_cli *cli, size_t index, uint64_t actual)
{
    char figure[32];
    if (mw_gate_is_bytes(&cli->gates[index]))
        mw_bytes_format(figure, actual);
    else
        mw_count_format(figure, actual);
    mw_cli_say(cli, "--fail-if '%s' holds: it is %s", cli->gate_texts[index], figure);
}

/* What would settle it, where that is an option that was not given. */
static const char *unknown_reason(const struct mw_gate *gate, const struct mw_analysis *analysis)
{
    if (mw_gate_is_of_leaks(gate) && analysis->heap_was_read &&
        analysis->image.kind == MW_IMAGE_LIVE && !mw_reach_is_exact(&analysis->reach))
        return "not all pointers were followed at one moment; --fork, or a longer --max-pause, "
               "does that";
    return "the figure is not known";
}

/* A gate that was hit outweighs an answer that is partial; one that cannot be decided makes it so.
 */
static enum mw_exit check_gates(struct mw_cli *cli, const struct mw_analysis *analysis,
                                enum mw_exit exit_code)
{
    for (size_t i = 0; i < cli->gate_count; i++) {
        uint64_t actual;
        enum mw_gate_result result = mw_gate_check(&cli->gates[i], analysis, &actual);
        if (result == MW_GATE_HIT) {
            say_hit(cli, i, actual);
            exit_code = MW_EXIT_GATE;
        } else if (result == MW_GATE_UNKNOWN) {
            mw_cli_say(cli, "--fail-if '%s' cannot be decided: %s", cli->gate_texts[i],
                       unknown_reason(&cli->gates[i], analysis));
            if (exit_code == MW_EXIT_FINE)
                exit_code = MW_EXIT_PARTIAL;
        }
    }
    return exit_code;
}

static void say_suppressed(struct mw_cli *cli, const struct mw_lost *lost)
{
    char count[32], bytes[32];
    mw_count_format(count, lost->suppressed_count);
    mw_bytes_format(bytes, lost->suppressed_bytes);
    mw_cli_say(cli, "%s lost block%s, %s, of kinds that --suppressions leaves out", count,
               lost->suppressed_count == 1 ? "" : "s", bytes);
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
    if (!analysis)
        return MW_EXIT_FINE;
    if (analysis->lost.suppressed_count > 0)
        say_suppressed(cli, &analysis->lost);
    /* On standard error too: the output may go to a file or another program. */
    if (analysis->is_partial && !cli->out_is_terminal && !reader_gone)
        (void)mw_cli_fail(cli, &analysis->why_partial);
    return check_gates(cli, analysis, analysis->is_partial ? MW_EXIT_PARTIAL : MW_EXIT_FINE);
}

enum mw_exit mw_cli_answer(struct mw_cli *cli, const struct mw_analysis_options *options,
                           struct mw_cli_forms forms)
{
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    if (!mw_cli_analyse(cli, cli->targets[0], options, &analysis, &exit_code))
        return exit_code;
    const struct mw_report_text_options text_options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .count_max = cli->count_max,
    };
    enum mw_status emitted = mw_cli_has(cli, MW_OPTION_JSON)
                                 ? forms.json(&analysis, cli->out, &err)
                                 : forms.text(&analysis, &text_options, cli->out, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}
