/* tests/support/real_core.c: see real_core.h. */
#include "real_core.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 20000 };

static void child_run(const char *where, const char *const argv[], bool is_fixture, int out)
{
    char path[PATH_MAX];
    const char *build = getenv("MEMWHY_BUILD");
    const struct rlimit whole = {RLIM_INFINITY, RLIM_INFINITY};
    int in[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &whole);
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", build ? build : "build", argv[0]);
    char *whole_path = is_fixture ? realpath(path, NULL) : NULL;
    if (is_fixture && !whole_path)
        _exit(1);
    if (chdir(where) != 0 || pipe(in) != 0) /* its standard input never ends */
        _exit(1);
    dup2(in[0], STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (is_fixture)
        execv(whole_path, (char *const *)(uintptr_t)argv);
    else
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(1);
}

pid_t real_start(const char *where, const char *const argv[], bool is_fixture)
{
    int out[2];
    char byte;
    if (pipe2(out, O_CLOEXEC) != 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0)
        child_run(where, argv, is_fixture, out[1]);
    close(out[1]);
    struct pollfd ready = {.fd = out[0], .events = POLLIN};
    bool started = pid > 0 && poll(&ready, 1, START_MS) == 1 && read(out[0], &byte, 1) == 1;
    close(out[0]);
    if (started)
        return pid;
    if (pid > 0)
        real_stop(pid);
    return 0;
}

void real_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

bool real_gcore(pid_t pid, const char *where, char *path_out, size_t room)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "gcore -o %s/gcore %d >/dev/null 2>&1", where, pid);
    snprintf(path_out, room, "%s/gcore.%d", where, pid);
    return system(command) == 0 && access(path_out, R_OK) == 0;
}

/* kernel.core_pattern may be "core", "core.%p", …: any new file of such a name. */
bool real_kernel_core(pid_t pid, const char *where, char *path_out, size_t room)
{
    int result;
    bool found = false;
    kill(pid, SIGABRT);
    if (waitpid(pid, &result, 0) != pid || !WIFSIGNALED(result) || !WCOREDUMP(result))
        return false;
    DIR *dir = opendir(where);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "core", 4) != 0)
            continue;
        char from[PATH_MAX];
        snprintf(from, sizeof from, "%s/%s", where, entry->d_name);
        snprintf(path_out, room, "%s/kernel.%d", where, pid);
        found = rename(from, path_out) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}
