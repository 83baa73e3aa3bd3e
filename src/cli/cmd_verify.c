/* cli/cmd_verify.c: memwhy verify BEFORE AFTER: predictions against the truth. */
#include "cli/cli.h"

#include "base/io.h"
#include "report/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPORT_BYTES_MAX = 64 << 20, HEAD_BYTES = 64 };

/* A file that holds a JSON document. */
static bool is_report_file(const char *name)
{
    char head[HEAD_BYTES];
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, head, sizeof head);
    close(fd);
    return length > 0 && mw_baseline_recognize(head, (size_t)length);
}

static enum mw_status report_load(const char *name, struct mw_baseline *baseline_out,
                                  struct mw_error *err)
{
    char *text = NULL;
    size_t length;
    enum mw_status status =
        strcmp(name, "-") == 0
            ? mw_io_read_all(STDIN_FILENO, "standard input", REPORT_BYTES_MAX, &text, &length, err)
            : mw_io_read_file_at(AT_FDCWD, name, REPORT_BYTES_MAX, &text, &length, err);
    if (status == MW_OK)
        status = mw_baseline_parse(text, length, name, baseline_out, err);
    free(text);
    if (status != MW_OK && err->hint[0] == '\0')
        mw_error_hint(err, "memwhy PID --json >before.json");
    return status;
}

static enum mw_exit compare(struct mw_cli *cli, const struct mw_baseline *before,
                            const struct mw_baseline *after, const struct mw_analysis *analysis)
{
    struct mw_verify verify;
    struct mw_error err = {0};
    enum mw_status status = mw_verify_compare(before, after, &verify, &err);
    if (status != MW_OK)
        return mw_cli_fail(cli, &err);
    status =
        mw_cli_has(cli, MW_OPTION_JSON)
            ? mw_report_verify_json(&verify, analysis, cli->out, &err)
            : mw_report_verify_text(&verify, cli->targets, mw_cli_screen_look(cli), cli->out, &err);
    enum mw_exit exit_code = mw_cli_conclude(cli, analysis, status, &err);
    if (verify.not_met > 0)
        exit_code = MW_EXIT_GATE;
    mw_verify_deinit(&verify);
    return exit_code;
}

/* The later moment is a report or any target. */
static enum mw_exit compare_with_after(struct mw_cli *cli, const struct mw_baseline *before)
{
    struct mw_baseline after;
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    if (is_report_file(cli->targets[1])) {
        if (report_load(cli->targets[1], &after, &err) != MW_OK)
            return mw_cli_fail(cli, &err);
        exit_code = compare(cli, before, &after, NULL);
        mw_baseline_deinit(&after);
        return exit_code;
    }
    const struct mw_analysis_options options = mw_cli_analysis_options(cli);
    if (!mw_cli_analyse(cli, cli->targets[1], &options, &analysis, &exit_code))
        return exit_code;
    enum mw_status status = mw_baseline_take(&analysis, &after, &err);
    if (status == MW_OK) {
        exit_code = compare(cli, before, &after, &analysis);
        mw_baseline_deinit(&after);
    } else {
        exit_code = mw_cli_fail(cli, &err);
    }
    mw_analysis_deinit(&analysis);
    return exit_code;
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_baseline before;
    struct mw_error err = {0};
    if (report_load(cli->targets[0], &before, &err) != MW_OK)
        return mw_cli_fail(cli, &err);
    enum mw_exit exit_code = compare_with_after(cli, &before);
    mw_baseline_deinit(&before);
    return exit_code;
}

const struct mw_command mw_command_verify = {
    .name = "verify",
    .arguments = "BEFORE AFTER",
    .summary = "predictions of an earlier report against the truth now",
    .about =
        "BEFORE is an earlier `memwhy PID --json`; AFTER is a later one, or any target. For each\n"
        "remedy of the earlier report that can be seen to have been taken, this compares what it\n"
        "predicted with what happened (the drop of Anonymous): met, better, or not met, and by "
        "how\n"
        "much. A remedy that was not taken, or whose gain was not predictable, is not checked, "
        "and\n"
        "the reason is printed. Exit code 1: a prediction was not met.",
    .examples = "memwhy 4121 --json >before.json\tbefore the change\n"
                "memwhy trim 4121 --apply\tthe change\n"
                "memwhy verify before.json 4121\tdid it give what was predicted?\n"
                "memwhy verify before.json after.json\tor later, from two reports\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 2,
    .targets_max = 2,
    .run = run,
};
