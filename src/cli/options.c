/* cli/options.c: the one table of options, and argv read by it. getopt_long parses against all
 * options of all commands; then what the command does not take is refused by name. */
#include "cli/cli.h"

#include "base/units.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mw_option_row option_rows[MW_OPTION_COUNT] = {
    [MW_OPTION_JSON] = {"json", NULL,
                        "print one JSON document; its form is a contract, named in `schema`", 0},
    [MW_OPTION_MARKDOWN] = {"markdown", NULL,
                            "print what a maintainer of the program needs, for a bug report", 0},
    [MW_OPTION_ALL] = {"all", NULL, "show what is too small to matter, too", 0},
    [MW_OPTION_NO_HEAP] = {"no-heap", NULL,
                           "stay at the level of mappings: nothing is paused, no memory is read",
                           0},
    [MW_OPTION_UNKNOWN] = {"unknown", NULL, "only what has no known owner, the largest first", 0},
    [MW_OPTION_LIST_BLOCKS] = {"list-blocks", NULL,
                               "print a line for each block: ADDRESS SIZE STATE ARENA", 0},
    [MW_OPTION_PAGES] = {"pages", NULL, "print the page ranges that would be given back: START END",
                         0},
    [MW_OPTION_APPLY] = {"apply", NULL, "run malloc_trim(0) in the target, then compare", 0},
    [MW_OPTION_COUNT_MAX] = {"count", "N", "show the N largest (default 20; 0: all)", 'n'},
    [MW_OPTION_SIZE] = {"size", "N",
                        "blocks of this size only: a chunk size (a multiple of 16) or a usable "
                        "size, as malloc_usable_size tells",
                        0},
    [MW_OPTION_FIELDS] = {"fields", NULL,
                          "statistics for each 8-byte word over all blocks of that size (none "
                          "given: of the size that holds most)",
                          0},
    [MW_OPTION_LIST] = {"list", NULL, "print where the blocks are, a line for each", 0},
    [MW_OPTION_LIMIT] = {"limit", "K", "list at most K blocks (default: all)", 0},
    [MW_OPTION_CONTENTS] = {"contents", NULL,
                            "print pieces of the target's memory, too: text, and what only a "
                            "single block holds",
                            0},
    [MW_OPTION_MAX_PAUSE] = {"max-pause", "DURATION",
                             "hold a live target still for about this long at a time, like 20ms "
                             "(default 100ms); 16 MiB of a heap at least are read at a time",
                             0},
    [MW_OPTION_FORK] = {"fork", NULL,
                        "have a live target forked, and read the copy while it runs on: one pause "
                        "of the length of a fork; refused where that is not safe",
                        0},
    [MW_OPTION_SAMPLE_ARENAS] = {"sample-arenas", "N",
                                 "read N thread arenas of malloc, chosen at random, and estimate "
                                 "the others; all: none is left out (default: all, but 96 of more "
                                 "than 256 that hold more than 8 GiB in a live target)",
                                 0},
    [MW_OPTION_FAIL_IF] = {"fail-if", "EXPRESSION",
                           "exit with 1 when it holds, like 'leaked>0' or 'kept>500MiB'; may be "
                           "given several times",
                           0},
    [MW_OPTION_SUPPRESSIONS] = {"suppressions", "FILE",
                                "leave out the kinds of leak that FILE names, a line for each: "
                                "[SIZE] PATTERN",
                                0},
    [MW_OPTION_OUTPUT] = {"output", "FILE", "write the capture there; -: standard output", 'o'},
    [MW_OPTION_AFTER] = {"after", "DURATION",
                         "look at the one target, wait, and look again, like 10m or 30s", 0},
    [MW_OPTION_CONTROL] = {"control", "TARGET",
                           "take off what grew there: with --after a process, else given twice, "
                           "before and after",
                           0},
    [MW_OPTION_NO_COLOR] = {"no-color", NULL, "no colours and no bold, as with NO_COLOR", 0},
    [MW_OPTION_SYMBOLS] = {"symbols", "DIR",
                           "look for separate debug files here, too; believed for their build-id",
                           0},
    [MW_OPTION_LINES] = {"lines", NULL, "source lines, where there is debug information", 0},
    [MW_OPTION_DEBUGINFOD] = {"debuginfod", NULL,
                              "ask the servers of DEBUGINFOD_URLS for debug files that are nowhere "
                              "here",
                              0},
    [MW_OPTION_CGROUP_ROOT] = {"cgroup-root", "DIR", NULL, 0},
    [MW_OPTION_HELP] = {"help", NULL, "print this and exit", 'h'},
    [MW_OPTION_VERSION] = {"version", NULL, "print the version and exit", 'V'},
};

const struct mw_option_row *mw_option_row(enum mw_option option)
{
    assert((unsigned)option < MW_OPTION_COUNT);
    return &option_rows[option];
}

enum { LONG_BASE = 256 }; /* getopt_long's value of an option: this plus enum mw_option */

static void long_options_fill(struct option longs[MW_OPTION_COUNT + 1], char shorts[64])
{
    size_t length = 0;
    shorts[length++] = ':'; /* a missing argument is told from an unknown option */
    for (int i = 0; i < MW_OPTION_COUNT; i++) {
        longs[i] =
            (struct option){.name = option_rows[i].name,
                            .has_arg = option_rows[i].argument ? required_argument : no_argument,
                            .val = LONG_BASE + i};
        if (!option_rows[i].letter)
            continue;
        shorts[length++] = option_rows[i].letter;
        if (option_rows[i].argument)
            shorts[length++] = ':';
    }
    shorts[length] = '\0';
    longs[MW_OPTION_COUNT] = (struct option){0};
}

static int option_of(int value)
{
    if (value >= LONG_BASE)
        return value - LONG_BASE;
    for (int i = 0; i < MW_OPTION_COUNT; i++)
        if (option_rows[i].letter == value)
            return i;
    return -1;
}

static enum mw_status count_parse(const char *text, size_t *count_out)
{
    char *end;
    unsigned long long count = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count > MW_LIMIT_PROCESSES)
        return MW_INVALID;
    *count_out = count == 0 ? MW_LIMIT_PROCESSES : (size_t)count;
    return MW_OK;
}

static enum mw_status sample_parse(const char *text, uint64_t *arenas_out)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    bool is_all = strcmp(text, "all") == 0;
    if (!is_all && (text[0] < '0' || text[0] > '9' || *end != '\0' || errno || count == 0))
        return MW_INVALID;
    *arenas_out = is_all ? MW_SAMPLE_ALL : count;
    return MW_OK;
}

/* A number from 1 on. */
static enum mw_status number_parse(const char *text, uint64_t *number_out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno || number == 0)
        return MW_INVALID;
    *number_out = number;
    return MW_OK;
}

static enum mw_status suppressions_take(struct mw_cli *cli, const char *path, struct mw_error *err)
{
    if (cli->suppressions.text)
        return mw_fail(err, MW_INVALID, "more than one --suppressions: put both into one file");
    return mw_suppressions_read(path, &cli->suppressions, err);
}

static enum mw_status option_take(struct mw_cli *cli, enum mw_option option, const char *value,
                                  struct mw_error *err)
{
    cli->given |= 1u << option;
    switch (option) {
    case MW_OPTION_MAX_PAUSE:
        if (mw_duration_parse(value, &cli->max_pause_ns) == MW_OK && cli->max_pause_ns > 0)
            return MW_OK;
        (void)mw_fail(err, MW_INVALID, "cannot understand --max-pause '%.60s'", value);
        mw_error_hint(err, "a number with ms or s, like --max-pause 20ms");
        return MW_INVALID;
    case MW_OPTION_SAMPLE_ARENAS:
        if (sample_parse(value, &cli->sample_arenas) == MW_OK)
            return MW_OK;
        (void)mw_fail(err, MW_INVALID, "cannot understand --sample-arenas '%.60s'", value);
        mw_error_hint(err, "a number of arenas from 1 on, or all");
        return MW_INVALID;
    case MW_OPTION_SIZE:
        if (number_parse(value, &cli->size_bytes) == MW_OK)
            return MW_OK;
        (void)mw_fail(err, MW_INVALID, "cannot understand --size '%.60s'", value);
        mw_error_hint(err, "a number of bytes, like --size 3400");
        return MW_INVALID;
    case MW_OPTION_LIMIT:
        if (number_parse(value, &cli->limit) == MW_OK)
            return MW_OK;
        return mw_fail(err, MW_INVALID, "cannot understand --limit '%.60s'", value);
    case MW_OPTION_COUNT_MAX:
        if (count_parse(value, &cli->count_max) == MW_OK)
            return MW_OK;
        return mw_fail(err, MW_INVALID, "cannot understand --count '%.60s'", value);
    case MW_OPTION_FAIL_IF:
        if (cli->gate_count == MW_GATES_MAX)
            return mw_fail(err, MW_INVALID, "more than %d --fail-if", MW_GATES_MAX);
        cli->gate_texts[cli->gate_count] = value;
        return mw_gate_parse(value, &cli->gates[cli->gate_count++], err);
    case MW_OPTION_OUTPUT:
        cli->output = value;
        return MW_OK;
    case MW_OPTION_AFTER:
        if (mw_duration_parse(value, &cli->after_ns) == MW_OK && cli->after_ns > 0)
            return MW_OK;
        (void)mw_fail(err, MW_INVALID, "cannot understand --after '%.60s'", value);
        mw_error_hint(err, "like --after 30s or --after 10m");
        return MW_INVALID;
    case MW_OPTION_CONTROL:
        if (cli->control_count == MW_TARGETS_MAX)
            return mw_fail(err, MW_INVALID, "more than %d --control", MW_TARGETS_MAX);
        cli->controls[cli->control_count++] = value;
        return MW_OK;
    case MW_OPTION_SUPPRESSIONS:
        return suppressions_take(cli, value, err);
    case MW_OPTION_SYMBOLS:
        cli->symbols_dir = value;
        return MW_OK;
    case MW_OPTION_CGROUP_ROOT:
        cli->cgroup_root = value;
        return MW_OK;
    default:
        return MW_OK;
    }
}

static const char *command_name(const struct mw_cli *cli)
{
    return cli->command && cli->command->name ? cli->command->name : "";
}

static void hint_help(const struct mw_cli *cli, struct mw_error *err)
{
    const char *name = command_name(cli);
    mw_error_hint(err, "memwhy %s%s--help", name, name[0] ? " " : "");
}

/* The word that getopt_long stumbled over: an option's name without its value. */
static void unknown_option(char word[64], char **argv)
{
    if (optopt != 0 && optopt < LONG_BASE) {
        snprintf(word, 64, "-%c", optopt);
        return;
    }
    const char *given = optind > 0 && argv[optind - 1] ? argv[optind - 1] : "";
    snprintf(word, 64, "%.*s", (int)strcspn(given, "="), given);
}

/* All options; positional words stay at the end of argv from optind on. */
static enum mw_status options_read(struct mw_cli *cli, int argc, char **argv, struct mw_error *err)
{
    struct option longs[MW_OPTION_COUNT + 1];
    char shorts[64], word[64];
    int value;
    long_options_fill(longs, shorts);
    opterr = 0;
    optind = 1;
    while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        int option = option_of(value);
        if (value == ':' || option < 0) {
            unknown_option(word, argv);
            const char *problem = value == ':' ? "needs a value" : "is unknown or ambiguous";
            return mw_fail(err, MW_INVALID, "option '%s' %s", word, problem);
        }
        enum mw_status status = option_take(cli, (enum mw_option)option, optarg, err);
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

/* The first word is the command when it is the name of one. `help WORD` asks for help on it. */
static void command_take(struct mw_cli *cli, int *next, int argc, char **argv)
{
    bool has_help = *next < argc && strcmp(argv[*next], "help") == 0;
    if (has_help) {
        cli->given |= MW_OPTION_BIT(HELP);
        ++*next;
    }
    cli->command = *next < argc ? mw_command_find(argv[*next]) : NULL;
    cli->command_given = cli->command != NULL;
    if (cli->command)
        ++*next;
    else if (has_help && *next < argc)
        cli->help_topic = argv[*next];
    if (!cli->command)
        cli->command = *next < argc ? &mw_command_report : &mw_command_list;
}

static enum mw_status options_check(struct mw_cli *cli, struct mw_error *err)
{
    unsigned allowed = cli->command->options | MW_OPTION_BIT(HELP) | MW_OPTION_BIT(VERSION) |
                       MW_OPTION_BIT(NO_COLOR);
    for (int i = 0; i < MW_OPTION_COUNT; i++) {
        if (!(cli->given >> i & 1) || (allowed >> i & 1))
            continue;
        const char *name = command_name(cli);
        if (!name[0])
            return mw_fail(err, MW_INVALID, "option '--%s' needs a target", option_rows[i].name);
        return mw_fail(err, MW_INVALID, "'%s' has no option '--%s'", name, option_rows[i].name);
    }
    if (mw_cli_has(cli, MW_OPTION_JSON) && mw_cli_has(cli, MW_OPTION_MARKDOWN))
        return mw_fail(err, MW_INVALID, "--json and --markdown exclude each other");
    if (mw_cli_has(cli, MW_OPTION_FORK) && mw_cli_has(cli, MW_OPTION_NO_HEAP))
        return mw_fail(err, MW_INVALID, "--fork and --no-heap exclude each other");
    return MW_OK;
}

enum { WORD_BYTES_MAX = 32, DISTANCE_MAX = 2 };

/* Letters to insert, drop, replace or swap to make one word of the other: Damerau's distance in its
 * restricted form, for words of at most WORD_BYTES_MAX. */
static unsigned word_distance(const char *left, const char *right)
{
    unsigned rows[WORD_BYTES_MAX + 1][WORD_BYTES_MAX + 1];
    size_t left_length = strlen(left), right_length = strlen(right);
    if (left_length > WORD_BYTES_MAX || right_length > WORD_BYTES_MAX)
        return UINT_MAX;
    for (unsigned i = 0; i <= left_length; i++)
        rows[i][0] = i;
    for (unsigned k = 0; k <= right_length; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= left_length; i++)
        for (size_t k = 1; k <= right_length; k++) {
            unsigned best = rows[i - 1][k - 1] + (left[i - 1] != right[k - 1]);
            best = rows[i - 1][k] + 1 < best ? rows[i - 1][k] + 1 : best;
            best = rows[i][k - 1] + 1 < best ? rows[i][k - 1] + 1 : best;
            bool is_swap =
                i > 1 && k > 1 && left[i - 1] == right[k - 2] && left[i - 2] == right[k - 1];
            if (is_swap && rows[i - 2][k - 2] + 1 < best)
                best = rows[i - 2][k - 2] + 1;
            rows[i][k] = best;
        }
    return rows[left_length][right_length];
}

/* The command that a mistyped word is closest to, NULL when it is like none. */
static const char *closest_command(const char *word)
{
    const char *closest = NULL;
    unsigned least = DISTANCE_MAX + 1;
    for (size_t i = 0; mw_commands[i]; i++) {
        unsigned distance =
            mw_commands[i]->name ? word_distance(word, mw_commands[i]->name) : least;
        if (distance < least && distance < strlen(word)) {
            least = distance;
            closest = mw_commands[i]->name;
        }
    }
    return closest;
}

static enum mw_status no_command(const char *word, struct mw_error *err)
{
    const char *closest = closest_command(word);
    (void)mw_fail(err, MW_INVALID, "'%.60s' is no command", word);
    if (closest)
        mw_error_hint(err, "did you mean: memwhy %s", closest);
    else
        mw_error_hint(err, "memwhy --help lists the commands");
    return MW_INVALID;
}

static enum mw_status targets_take(struct mw_cli *cli, int next, int argc, char **argv,
                                   struct mw_error *err)
{
    size_t count = (size_t)(argc - next);
    if (count > cli->command->targets_max && cli->command == &mw_command_report && count > 1)
        return cli->command_given
                   ? mw_fail(err, MW_INVALID, "'%.60s' is one argument too many", argv[next + 1])
                   : no_command(argv[next], err);
    if (count > cli->command->targets_max)
        return mw_fail(err, MW_INVALID, "'%.60s' is one argument too many",
                       argv[next + (int)cli->command->targets_max]);
    if (count < cli->command->targets_min)
        return mw_fail(err, MW_INVALID, "'%s' needs %s", command_name(cli),
                       cli->command->targets_min == 2 ? "two arguments" : "a target");
    for (size_t i = 0; i < count; i++)
        cli->targets[cli->target_count++] = argv[next + (int)i];
    return MW_OK;
}

enum mw_status mw_cli_parse(struct mw_cli *cli, int argc, char **argv, struct mw_error *err)
{
    enum mw_status status = options_read(cli, argc, argv, err);
    int next = optind;
    if (status == MW_OK)
        command_take(cli, &next, argc, argv);
    bool only_asks = mw_cli_has(cli, MW_OPTION_HELP) || mw_cli_has(cli, MW_OPTION_VERSION);
    if (status == MW_OK && only_asks)
        return MW_OK;
    if (status == MW_OK)
        status = options_check(cli, err);
    if (status == MW_OK)
        status = targets_take(cli, next, argc, argv, err);
    if (status != MW_OK && err->hint[0] == '\0')
        hint_help(cli, err);
    return status;
}
