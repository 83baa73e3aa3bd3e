/* cli/output.c: standard output and standard error: the sink, what a terminal wants, progress,
 * messages. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 80, WIDTH_MAX = 100, WIDTH_ENDLESS = 1 << 16, SAID_BYTES_MAX = 1024 };
#define PROGRESS_AFTER_NS ((uint64_t)1000000000)

static int stdout_write(void *user, const void *bytes, size_t length)
{
    mw_cli_progress_clear(user);
    return mw_io_write_full(STDOUT_FILENO, bytes, length);
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0];
}

static unsigned width_find(bool is_terminal)
{
    struct winsize size;
    if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long given = columns ? strtol(columns, NULL, 10) : 0;
    return given > 0 && given < WIDTH_ENDLESS ? (unsigned)given : WIDTH_MAX;
}

/* "reading heaps 43%" on standard error, when the work has lasted a second. */
static void progress_show(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct mw_cli *cli = user;
    if (mw_clock_monotonic_ns() - cli->started_ns < PROGRESS_AFTER_NS)
        return;
    cli->progress_shown = true;
    if (total > 0)
        fprintf(stderr, "\r\033[K%s %.0f%%", what, (double)done * 100 / (double)total);
    else
        fprintf(stderr, "\r\033[K%s", what);
    fflush(stderr);
}

void mw_cli_progress_clear(struct mw_cli *cli)
{
    if (cli->progress_shown)
        fputs("\r\033[K", stderr);
    cli->progress_shown = false;
}

void mw_cli_output_init(struct mw_cli *cli)
{
    const char *term = getenv("TERM");
    cli->out = (struct mw_sink){cli, stdout_write};
    cli->out_is_terminal = isatty(STDOUT_FILENO);
    cli->color = cli->out_is_terminal && !is_set("NO_COLOR") &&
                 !mw_cli_has(cli, MW_OPTION_NO_COLOR) && term && strcmp(term, "dumb") != 0;
    cli->width = width_find(cli->out_is_terminal);
    cli->started_ns = mw_clock_monotonic_ns();
    if (isatty(STDERR_FILENO)) {
        cli->context.progress = progress_show;
        cli->context.progress_user = cli;
    }
}

struct mw_text_look mw_cli_screen_look(const struct mw_cli *cli)
{
    unsigned width = cli->width < WIDTH_MIN   ? WIDTH_MIN
                     : cli->width > WIDTH_MAX ? WIDTH_MAX
                                              : cli->width;
    return (struct mw_text_look){width, cli->color};
}

struct mw_text_look mw_cli_table_look(const struct mw_cli *cli)
{
    unsigned width = !cli->out_is_terminal    ? WIDTH_ENDLESS
                     : cli->width < WIDTH_MIN ? WIDTH_MIN
                                              : cli->width;
    return (struct mw_text_look){width, cli->color};
}

/* One line on standard error. It may carry names of files and arguments: escaped, like all output.
 */
static void line_say(const char *prefix, const char *text)
{
    struct mw_str line = MW_STR_INIT(SAID_BYTES_MAX * 4);
    mw_str_put_escaped(&line, text, strlen(text));
    fprintf(stderr, "%s: %s\n", prefix,
            line.status == MW_OK ? mw_str_text(&line) : "out of memory");
    mw_str_deinit(&line);
}

void mw_cli_say(struct mw_cli *cli, const char *fmt, ...)
{
    char text[SAID_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mw_cli_progress_clear(cli);
    line_say("memwhy", text);
}

static enum mw_exit exit_of(enum mw_status code)
{
    switch (code) {
    case MW_OK:
        return MW_EXIT_FINE;
    case MW_NOMEM:
        return MW_EXIT_INTERNAL;
    case MW_CANCELED:
        return MW_EXIT_PARTIAL;
    default:
        return MW_EXIT_TARGET;
    }
}

enum mw_exit mw_cli_fail(struct mw_cli *cli, const struct mw_error *err)
{
    mw_cli_say(cli, "%s", err->text[0] ? err->text : mw_status_name(err->code));
    if (err->hint[0])
        line_say("hint", err->hint);
    return exit_of(err->code);
}
