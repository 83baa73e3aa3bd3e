/* cli/cmd_refs.c: memwhy refs TARGET ADDR: what an address is, and who points at it. */
#include "cli/cli.h"

#include "report/refs_report.h"

#include <errno.h>
#include <stdlib.h>

/* "0x55d0…" or the same without 0x. */
static bool address_parse(const char *text, mw_addr *address_out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 16);
    bool is_number = errno == 0 && end != text && *end == '\0' && text[0] != '-' && text[0] != '+';
    *address_out = value;
    return is_number;
}

static enum mw_status emit(struct mw_cli *cli, struct mw_analysis *analysis, mw_addr address,
                           struct mw_error *err)
{
    struct mw_refs refs;
    enum mw_status status = mw_refs_find(analysis, address, &cli->context, &refs, err);
    if (status != MW_OK)
        return status;
    const struct mw_report_text_options text_options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .count_max = cli->count_max,
    };
    status = mw_cli_has(cli, MW_OPTION_JSON)
                 ? mw_report_refs_json(analysis, &refs, cli->out, err)
                 : mw_report_refs_text(analysis, &refs, &text_options, cli->out, err);
    mw_refs_deinit(&refs);
    return status;
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    mw_addr address;
    if (!address_parse(cli->targets[1], &address)) {
        (void)mw_fail(&err, MW_INVALID, "'%s' is no address", cli->targets[1]);
        mw_error_hint(&err, "memwhy refs %s 0x7f00deadbeef", cli->targets[0]);
        (void)mw_cli_fail(cli, &err);
        return MW_EXIT_USAGE;
    }
    options.skip_verdicts = true;
    options.heap_is_asked = true;
    options.reach = MW_REACH_ASKED;
    if (!mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code))
        return exit_code;
    enum mw_status emitted = emit(cli, &analysis, address, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_refs = {
    .name = "refs",
    .arguments = "TARGET ADDR",
    .summary = "what an address is, who points at it, a path from a root",
    .about =
        "Says in what an address lies: a block (with its size, and what would be lost with it), a\n"
        "stack, a module's code or data with the symbol, another mapping. For a block it lists "
        "the\n"
        "blocks and roots (registers, stacks, data) that point to it, and a shortest path from a\n"
        "root; for a lost one, from the block that holds the others. Inner addresses will do.",
    .examples = "memwhy refs 4121 0x55d0c3a1f2a0\twho keeps this block alive\n"
                "memwhy refs core.4121 0x55d0c3a1f2a0 --json\tfor programs\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(MAX_PAUSE) |
               MW_OPTION_BIT(CGROUP_ROOT) | MW_OPTION_BIT(FORK),
    .targets_min = 2,
    .targets_max = 2,
    .run = run,
};
