/* cli/cmd_heap.c: memwhy heap TARGET: the inside of malloc. */
#include "cli/cli.h"

#include "cli/blocks.h"

static enum mw_exit list_blocks(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    struct mw_block_log log = {0};
    struct mw_heap_visitor visitor = mw_block_log_visitor(&log);
    struct mw_analysis analysis;
    struct mw_error err = {0};
    enum mw_exit exit_code;
    options.skip_verdicts = true;
    options.heap_is_asked = true;
    options.heap.visitors = &visitor;
    options.heap.visitor_count = 1;
    options.heap.sample_arenas = MW_SAMPLE_ALL;
    if (mw_cli_analyse(cli, cli->targets[0], &options, &analysis, &exit_code)) {
        enum mw_status emitted = mw_block_log_print(&log, &analysis, cli->out, &err);
        exit_code = mw_cli_conclude(cli, &analysis, emitted, &err);
        mw_analysis_deinit(&analysis);
    }
    mw_block_log_deinit(&log);
    return exit_code;
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_analysis_options options = mw_cli_analysis_options(cli);
    if (mw_cli_has(cli, MW_OPTION_LIST_BLOCKS) && mw_cli_has(cli, MW_OPTION_JSON)) {
        mw_cli_say(cli, "--list-blocks prints lines: it has no JSON form");
        return MW_EXIT_USAGE;
    }
    if (mw_cli_has(cli, MW_OPTION_LIST_BLOCKS) && mw_cli_has(cli, MW_OPTION_SAMPLE_ARENAS) &&
        cli->sample_arenas != MW_SAMPLE_ALL) {
        mw_cli_say(cli, "--list-blocks prints every block: no arena can be left out");
        return MW_EXIT_USAGE;
    }
    if (mw_cli_has(cli, MW_OPTION_LIST_BLOCKS))
        return list_blocks(cli);
    options.skip_verdicts = true;
    options.heap_is_asked = true;
    options.heap.classify_content = true;
    return mw_cli_answer(cli, &options,
                         (struct mw_cli_forms){mw_report_heap_json, mw_report_heap_text});
}

const struct mw_command mw_command_heap = {
    .name = "heap",
    .arguments = "TARGET",
    .summary = "the inside of malloc: arenas, sizes, parameters in force",
    .about =
        "Walks the heap of each allocator that memwhy can walk, without symbols and without "
        "running\n"
        "code in the target: totals (in use, free, cached, tops; resident and trimmable), the\n"
        "parameters in force as malloc's own memory has them beside those of the environment, the\n"
        "arenas, and the blocks by chunk size. A chunk is 8 bytes more than what can be used of "
        "it\n"
        "(musl: a slot, 4 bytes more).",
    .examples =
        "memwhy heap 4121\ttotals, parameters, the 20 largest arenas and sizes\n"
        "memwhy heap 4121 --count 0\tall arenas and sizes\n"
        "memwhy heap 4121 --json | jq .sizes\tfor programs\n"
        "memwhy heap 4121 --list-blocks | sort -k2n\tevery block: ADDRESS SIZE STATE ARENA\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(COUNT_MAX) | MW_OPTION_BIT(LIST_BLOCKS) |
               MW_OPTION_BIT(MAX_PAUSE) | MW_OPTION_BIT(FORK) | MW_OPTION_BIT(SAMPLE_ARENAS) |
               MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 1,
    .targets_max = 1,
    .run = run,
};
