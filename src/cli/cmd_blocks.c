/* cli/cmd_blocks.c: memwhy blocks TARGET: blocks in use by size, and what they have in common. */
#include "cli/cli.h"

#include "report/blocks_report.h"
#include "session/knowledge.h"

static enum mw_status emit(struct mw_cli *cli, const struct mw_analysis *analysis,
                           const struct mw_blocks *blocks, struct mw_error *err)
{
    uint64_t list_max = mw_cli_has(cli, MW_OPTION_LIMIT) ? cli->limit : UINT64_MAX;
    if (mw_cli_has(cli, MW_OPTION_JSON))
        return mw_report_blocks_json(analysis, blocks, list_max, cli->out, err);
    if (blocks->options.list)
        return mw_report_blocks_list(blocks, list_max, cli->out, err);
    const struct mw_report_text_options options = {
        .look = mw_cli_screen_look(cli),
        .target = cli->targets[0],
        .count_max = cli->count_max,
    };
    return mw_report_blocks_text(analysis, blocks, &options, cli->out, err);
}

/* The options that make no sense together. */
static const char *options_clash(const struct mw_cli *cli)
{
    bool list = mw_cli_has(cli, MW_OPTION_LIST), json = mw_cli_has(cli, MW_OPTION_JSON);
    if (list && mw_cli_has(cli, MW_OPTION_FIELDS) && !json)
        return "--list prints lines and --fields a table: give one of them, or --json";
    if (mw_cli_has(cli, MW_OPTION_LIMIT) && !list)
        return "--limit is of --list";
    return NULL;
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_blocks_options blocks_options = {
        .size_bytes = cli->size_bytes,
        .fields = mw_cli_has(cli, MW_OPTION_FIELDS),
        .list = mw_cli_has(cli, MW_OPTION_LIST),
        .contents = mw_cli_has(cli, MW_OPTION_CONTENTS),
        .names = {cli->symbols_dir, mw_cli_has(cli, MW_OPTION_DEBUGINFOD)},
    };
    struct mw_analysis analysis;
    struct mw_blocks blocks;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    const char *clash = options_clash(cli);
    if (clash) {
        mw_cli_say(cli, "%s", clash);
        return MW_EXIT_USAGE;
    }
    struct mw_block_teller teller = {.names = blocks_options.names, .context = &cli->context};
    blocks_options.strings = !blocks_options.list;
    blocks_options.tell = mw_block_teller_tell;
    blocks_options.tell_user = &teller;
    options.skip_verdicts = true;
    options.reach = blocks_options.list ? MW_REACH_NONE : MW_REACH_ASKED;
    options.heap_is_asked = true;
    if (!mw_cli_analyse_blocks(cli, &options, &blocks_options, &analysis, &blocks, &exit_code)) {
        mw_block_teller_deinit(&teller);
        return exit_code;
    }
    enum mw_status emitted = emit(cli, &analysis, &blocks, &err);
    exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
    mw_blocks_deinit(&blocks);
    mw_block_teller_deinit(&teller);
    mw_analysis_deinit(&analysis);
    return exit_code;
}

const struct mw_command mw_command_blocks = {
    .name = "blocks",
    .arguments = "TARGET",
    .summary = "blocks in use by size, and what those of one size have in common",
    .about =
        "Groups the blocks in use by size. With --fields it looks into all blocks of one size, "
        "and\n"
        "tells for each 8-byte word how many values it takes, its constant or range, and its "
        "kind:\n"
        "number, text, pointer into a heap, a stack, code or data. Constant pointers are named; "
        "one\n"
        "into code that follows a call is a return address, and the call is shown. Text that lies "
        "in\n"
        "several blocks is counted with what it wastes. Pieces of the target's text are printed "
        "only\n"
        "with --contents.",
    .examples = "memwhy blocks 4121\tthe 20 sizes that hold most\n"
                "memwhy blocks 4121 --size 3400 --fields\twhat blocks of 3,400 usable bytes hold\n"
                "memwhy blocks 4121 --size 3400 --list --limit 10\twhere ten of them are\n"
                "memwhy blocks CORE --size 3408 --fields --json | jq '.fields[31]'\tfor programs\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(SIZE) | MW_OPTION_BIT(FIELDS) |
               MW_OPTION_BIT(LIST) | MW_OPTION_BIT(LIMIT) | MW_OPTION_BIT(CONTENTS) |
               MW_OPTION_BIT(SYMBOLS) | MW_OPTION_BIT(DEBUGINFOD) | MW_OPTION_BIT(COUNT_MAX) |
               MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(FORK) | MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
