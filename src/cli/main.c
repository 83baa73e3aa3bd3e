/* cli/main.c: signals, the command line, the exit code. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { COUNT_DEFAULT = 20 };

/* A sanitizer has signal handlers of its own, which say more. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

/* A signal handler has no other way to the one context of this program. */
static struct mw_context *canceled_by_signal;

enum { CANCEL_SECONDS_MAX = 2 };

static void on_cancel(int signal_number)
{
    (void)signal_number;
    atomic_store(&canceled_by_signal->canceled, true);
    alarm(CANCEL_SECONDS_MAX); /* it may wait for an input that never comes */
}

static void on_cancel_overdue(int signal_number)
{
    (void)signal_number;
    _exit(MW_EXIT_PARTIAL);
}

/* Our own bug. A target that is held still goes on by itself when we end. No core is written: it
 * would hold bytes of the target. */
static void on_bug(int signal_number)
{
    static const char text[] =
        "memwhy: internal error: this is a bug of memwhy, please report it with its output\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)signal_number;
    _exit(MW_EXIT_INTERNAL);
}

static void signals_init(struct mw_context *context)
{
    struct sigaction cancel = {.sa_handler = on_cancel, .sa_flags = (int)SA_RESETHAND};
    canceled_by_signal = context;
    sigaction(SIGINT, &cancel, NULL); /* a second one ends at once */
    sigaction(SIGTERM, &cancel, NULL);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_cancel_overdue}, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an errno */
#ifndef HAS_SANITIZER
    static const int bugs[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction bug = {.sa_handler = on_bug, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        sigaction(bugs[i], &bug, NULL);
#else
    (void)on_bug;
#endif
}

/* A standard descriptor that is closed would be taken by the next file that is opened, and our
 * output would go there. */
static void descriptors_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
            _exit(MW_EXIT_INTERNAL);
}

static enum mw_exit print_version(struct mw_cli *cli)
{
    struct mw_text text;
    struct mw_error err = {0};
    mw_text_init(&text, cli->out, mw_cli_screen_look(cli));
    mw_text_put(&text, MW_STYLE_PLAIN, "memwhy " MW_VERSION);
    return mw_cli_conclude(cli, NULL, mw_text_finish(&text, &err), &err);
}

int main(int argc, char **argv)
{
    static struct mw_cli cli = {.count_max = COUNT_DEFAULT};
    struct mw_error err = {0};
    descriptors_fill();
    mw_context_init(&cli.context);
    signals_init(&cli.context);
    enum mw_status status = mw_cli_parse(&cli, argc, argv, &err);
    mw_cli_output_init(&cli);
    if (status != MW_OK) {
        (void)mw_cli_fail(&cli, &err);
        return MW_EXIT_USAGE;
    }
    if (mw_cli_has(&cli, MW_OPTION_VERSION))
        return (int)print_version(&cli);
    if (mw_cli_has(&cli, MW_OPTION_HELP))
        return (int)mw_cli_help(&cli);
    enum mw_exit exit_code = cli.command->run(&cli);
    mw_suppressions_deinit(&cli.suppressions);
    return (int)exit_code;
}
